//! What a cache that changes its sizes by itself is to keep, and what has come of it.

use tidekv_plan::{LatencyOverrides, Prices};

/// What a cache that changes its sizes by itself is to keep.
#[derive(Debug, Clone, PartialEq)]
pub enum ElasticGoal {
    /// Mean latencies in microseconds, for as little money as can be: of all tenants, and of some by name.
    Latency {
        /// Of those who are not named.
        all: Option<f64>,
        /// Of those who are.
        of: Vec<(String, f64)>,
    },
    /// A cost, and to be as fast as can be for it.
    Cost(f64),
}

/// How a cache changes its sizes by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ElasticOptions {
    /// What it is to keep.
    pub goal: ElasticGoal,
    /// What DRAM and flash cost.
    pub prices: Prices,
    /// How long requests take, as far as it is known; what is not is measured.
    pub latencies: LatencyOverrides,
}

/// What has come of it so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// How often sizes have changed.
    pub(crate) resizes: u64,
    /// What was decided last, and why.
    pub(crate) last: String,
    /// When.
    pub(crate) unix_ms: u64,
}
