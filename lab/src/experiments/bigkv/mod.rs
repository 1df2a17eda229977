//! The experiments `bigkv-*`: caches of large objects in memory and on flash, with the measurements
//! of BigKV (Koo et al., EuroSys 2023).

mod load;
mod ycsb;
mod index;
mod dataset_size;
mod ttl_trace;
mod ttl_cache;
mod scanning;
mod ideal;
mod ttl;
mod fault;
mod restart;
mod scale;
mod corpus;
mod small;

use crate::experiment::Experiment;

/// All of them, in the order of listing and running.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    ycsb::YCSB,
    index::INDEX,
    dataset_size::DATASET_SIZE,
    ttl::TTL,
    fault::FAULT,
    restart::RESTART,
    scale::SCALE,
    corpus::CORPUS,
    small::SMALL,
];
