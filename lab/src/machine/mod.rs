//! The machine of a run: threads, kernel counters, processors that stay awake, and latencies.

pub(crate) mod parallel;
pub(crate) mod latency;
pub(crate) mod kernel;
pub(crate) mod idle;
