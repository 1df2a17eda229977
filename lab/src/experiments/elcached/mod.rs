//! The experiments `elcached-*`: the DRAM and flash to buy, the topic of ElCached (Gupta et al.).

mod workload;
mod terms;
mod sizing;
mod cost;
mod tenants;
mod plans;
mod simulated;
mod sampling;
mod prediction;
mod behind;
mod accuracy;
mod slabs;
mod shrink;
mod windows;
mod profiled;
mod pauses;
mod elastic;
mod live;

use crate::experiment::Experiment;

/// All of them, in the order of listing and running.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    accuracy::ACCURACY,
    cost::COST,
    tenants::TENANTS,
    plans::PLANS,
    shrink::SHRINK,
    elastic::EXPERIMENT,
    live::LIVE_CURVES,
];
