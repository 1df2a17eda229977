//! The machine under a run: threads, the counters of its kernel, processors that stay awake, and
//! latencies.

pub(crate) mod parallel;
pub(crate) mod latency;
pub(crate) mod kernel;
pub(crate) mod idle;
