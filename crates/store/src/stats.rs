//! Statistics: every counter named after what it counts, and the latency histograms of
//! [`tidekv_io::latency`], cheap enough to be always on.
//!
//! Counters are relaxed atomics; one that every read raises is a [`tidekv_io::SpreadCounter`].

use std::sync::atomic::{AtomicU64, Ordering};

pub use tidekv_io::latency::{Histogram, Latency, LatencyCounts};

/// A number that only grows (or is set), readable at any time.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts one and returns how many there were before.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything that a store counts, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Name and value of every counter and gauge, in a fixed order.
    pub counters: Vec<(&'static str, u64)>,
    /// Name and summary of every latency histogram.
    pub latencies: Vec<(&'static str, Latency)>,
    /// Name and buckets of the same histograms.
    pub histograms: Vec<(&'static str, LatencyCounts)>,
}

impl Statistics {
    /// The counter called `name`; 0 when there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(n, _)| *n == name).map_or(0, |&(_, value)| value)
    }
}
