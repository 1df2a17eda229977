//! The experiments `spotkv-*`: admission, filters that unlearn, and YCSB beside LevelDB (SpotKV).

mod admission;
mod filter;
mod ycsb;

use crate::experiment::Experiment;

/// All of them, in the order in which they are listed and run.
pub(crate) const EXPERIMENTS: &[Experiment] = &[admission::ADMISSION, filter::FILTER, ycsb::YCSB];
