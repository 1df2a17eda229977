//! What the cache counts. Counters only grow; gauges say how things stand.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a cache.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) dram_hits: Counter,
    pub(crate) flash_hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) expired: Counter,
    pub(crate) evicted: Counter,
    pub(crate) evicted_unfetched: Counter,
    pub(crate) stores: Counter,
}

/// How a cache stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Lookups answered from DRAM.
    pub dram_hits: u64,
    /// Lookups answered from flash.
    pub flash_hits: u64,
    /// Lookups of what is not there, or not any more.
    pub misses: u64,
    /// Objects found in DRAM after their deadlines.
    pub expired: u64,
    /// Objects that left DRAM for want of room.
    pub evicted: u64,
    /// Of these, how many nobody had fetched.
    pub evicted_unfetched: u64,
    /// Objects stored.
    pub stores: u64,
    /// Objects in DRAM.
    pub dram_objects: u64,
    /// What they take, in bytes.
    pub dram_bytes: u64,
    /// What they may take.
    pub dram_bytes_max: u64,
}
