//! The experiments `elcached-*`: how much DRAM and flash to buy, as ElCached (Gupta et al.) asks it.

mod workload;
mod terms;
mod sizing;
mod cost;
mod tenants;
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

use crate::experiment::Experiment;

/// All of them, in the order in which they are listed and run.
pub(crate) const EXPERIMENTS: &[Experiment] =
    &[accuracy::ACCURACY, cost::COST, tenants::TENANTS, shrink::SHRINK, elastic::EXPERIMENT];
