//! The experiments `bigkv-*`: caches of large objects in memory and on flash, as BigKV (Koo et
//! al., EuroSys 2023) measures them.

mod load;
mod ycsb;
mod ttl_trace;
mod ttl_cache;
mod scanning;
mod ttl;

use crate::experiment::Experiment;

/// All of them, in the order in which they are listed and run.
pub(crate) const EXPERIMENTS: &[Experiment] = &[ycsb::YCSB, ttl::TTL];
