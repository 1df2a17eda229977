//! Statistics: counters with descriptive names, and the latency histograms of
//! [`tidekv_io::latency`], cheap enough to be always on. [`groups`] has them by subject.

mod counters;
pub mod groups;

pub(crate) use counters::Counter;
pub use counters::Statistics;
pub use tidekv_io::latency::{Histogram, Latency, LatencyCounts};
