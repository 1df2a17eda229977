//! Goals of automatic resizing, and its last results.

use tidekv_plan::{LatencyOverrides, Prices};

/// The goal of automatic resizing.
#[derive(Debug, Clone, PartialEq)]
pub enum ElasticGoal {
    /// Mean latencies in microseconds at the least cost: for all tenants, and for some by name.
    Latency {
        /// For tenants that are not named.
        all: Option<f64>,
        /// For named tenants.
        of: Vec<(String, f64)>,
    },
    /// The lowest latency at this cost.
    Cost(f64),
}

/// Options of automatic resizing.
#[derive(Debug, Clone, PartialEq)]
pub struct ElasticOptions {
    /// The goal.
    pub goal: ElasticGoal,
    /// The prices of DRAM and flash.
    pub prices: Prices,
    /// Known latencies; the others are measured.
    pub latencies: LatencyOverrides,
}

/// The results of automatic resizing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// Number of resizes.
    pub(crate) resizes: u64,
    /// The last decision, with its reason.
    pub(crate) last: String,
    /// The time of the last decision.
    pub(crate) unix_ms: u64,
}
