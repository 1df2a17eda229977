//! Statistics of a cache. Counters only grow; gauges are current values.

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
    pub(crate) swept: Counter,
    pub(crate) reclaimed: Counter,
    pub(crate) refused: Counter,
    pub(crate) evicted: Counter,
    pub(crate) evicted_unfetched: Counter,
    pub(crate) stores: Counter,
}

/// The statistics of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantStats {
    /// Its name; `default` for keys of no tenant.
    pub name: String,
    /// The prefix of its keys.
    pub prefix: Vec<u8>,
    /// Statistics of its part of the cache.
    pub cache: Stats,
    /// Its objects on flash, approximately.
    pub flash_objects: u64,
    /// Its flash limit, in bytes.
    pub flash_bytes_max: u64,
    /// Segments evicted from its flash to make room.
    pub flash_segments_evicted: u64,
    /// The DRAM that its flash takes.
    pub flash_dram: FlashDram,
    /// The least DRAM with room for the largest object, in bytes.
    pub dram_bytes_min: u64,
    /// The least flash that it can have, if it has any, in bytes.
    pub flash_bytes_min: u64,
    /// Flash overhead, in bytes, if any flash is used: the indexes, sized when the devices were
    /// formatted, and for each device a segment that is not full yet.
    pub flash_overhead_bytes: u64,
}

impl TenantStats {
    /// The part of its DRAM that the flash index and the write buffers take, in bytes.
    pub fn flash_dram_bytes(&self) -> u64 {
        self.flash_dram.bytes(self.cache.dram_bytes_max)
    }
}

/// The statistics of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Lookups answered from DRAM.
    pub dram_hits: u64,
    /// Lookups answered from flash.
    pub flash_hits: u64,
    /// Lookups that found no live object.
    pub misses: u64,
    /// Expired objects found in DRAM.
    pub expired: u64,
    /// Expired objects removed from DRAM in the background.
    pub swept: u64,
    /// Objects that made room in DRAM for others after they had expired.
    pub reclaimed: u64,
    /// Objects not stored because nothing may be evicted for them ([`crate::Options::evicts`]).
    pub refused: u64,
    /// Objects evicted from DRAM.
    pub evicted: u64,
    /// Of these, objects that were never fetched.
    pub evicted_unfetched: u64,
    /// Objects stored.
    pub stores: u64,
    /// Objects in DRAM.
    pub dram_objects: u64,
    /// Their charge, in bytes.
    pub dram_bytes: u64,
    /// The limit of that charge, in bytes.
    pub dram_bytes_max: u64,
}

impl std::ops::Add for Stats {
    type Output = Self;

    /// The sum of both.
    fn add(self, other: Self) -> Self {
        Self {
            dram_hits: self.dram_hits + other.dram_hits,
            flash_hits: self.flash_hits + other.flash_hits,
            misses: self.misses + other.misses,
            expired: self.expired + other.expired,
            swept: self.swept + other.swept,
            reclaimed: self.reclaimed + other.reclaimed,
            refused: self.refused + other.refused,
            evicted: self.evicted + other.evicted,
            evicted_unfetched: self.evicted_unfetched + other.evicted_unfetched,
            stores: self.stores + other.stores,
            dram_objects: self.dram_objects + other.dram_objects,
            dram_bytes: self.dram_bytes + other.dram_bytes,
            dram_bytes_max: self.dram_bytes_max + other.dram_bytes_max,
        }
    }
}
