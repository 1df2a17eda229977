//! What the cache counts. Counters only grow; gauges say how things stand.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::flash_dram::FlashDram;

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

/// How the part of a tenant stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantStats {
    /// What he is called; `default` for keys that are nobody's.
    pub name: String,
    /// What his keys begin with.
    pub prefix: Vec<u8>,
    /// His part of the cache.
    pub cache: Stats,
    /// Objects of his on flash, about.
    pub flash_objects: u64,
    /// How much flash he may use, in bytes.
    pub flash_bytes_max: u64,
    /// Segments that went from his flash to make room.
    pub flash_segments_evicted: u64,
    /// What his flash has of his DRAM.
    pub flash_dram: FlashDram,
    /// The least DRAM with which there is room for the largest object.
    pub dram_bytes_min: u64,
    /// The least flash that he can have, if he has any.
    pub flash_bytes_min: u64,
    /// Flash that is no room for objects, where any is used: indexes, as large as devices were made, and
    /// of each a segment that is not full yet.
    pub flash_bytes_beside: u64,
}

impl TenantStats {
    /// Of his DRAM, what flash has for its index and its buffers.
    pub fn flash_dram_bytes(&self) -> u64 {
        self.flash_dram.bytes(self.cache.dram_bytes_max)
    }
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

impl std::ops::Add for Stats {
    type Output = Self;

    /// Both together.
    fn add(self, other: Self) -> Self {
        Self {
            dram_hits: self.dram_hits + other.dram_hits,
            flash_hits: self.flash_hits + other.flash_hits,
            misses: self.misses + other.misses,
            expired: self.expired + other.expired,
            evicted: self.evicted + other.evicted,
            evicted_unfetched: self.evicted_unfetched + other.evicted_unfetched,
            stores: self.stores + other.stores,
            dram_objects: self.dram_objects + other.dram_objects,
            dram_bytes: self.dram_bytes + other.dram_bytes,
            dram_bytes_max: self.dram_bytes_max + other.dram_bytes_max,
        }
    }
}
