//! The experiments `spotkv-*`: admission, filters that repair false positives, and YCSB compared
//! with LevelDB (SpotKV).

mod admission;
mod filter;
mod ycsb;

use crate::experiment::Experiment;

/// All of them, in the order of listing and running.
pub(crate) const EXPERIMENTS: &[Experiment] = &[admission::ADMISSION, filter::FILTER, ycsb::YCSB];
