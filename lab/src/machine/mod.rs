//! The machine of a run: threads, kernel counters, limits of memory, processors that stay awake, and latencies.

pub(crate) mod parallel;
pub(crate) mod latency;
pub(crate) mod kernel;
pub(crate) mod memory_group;
pub(crate) mod idle;
