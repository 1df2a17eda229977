//! The cache that `tidekv cache` serves, in memory alone, as something that the requests of a trace are
//! tried on.
//!
//! It stands in for a cache that is larger: `tidekv profile --policy` hands it a part of the keys. Objects
//! have the sizes of the trace and no content; time is the trace's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, ManualClock, MemoryStorage};
use tidekv_plan::Simulated;
use tidekv_plan::trace::{Kind, Request};
use tidekv_tiered::{
    Cache, DRAM_BYTES_MIN, Deadline, Eviction, KEY_BYTES_MAX, Object, Options, Surroundings,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::{Failure, Result};

/// Where the trace's time begins: what it says are seconds from a beginning of its own.
const UNIX_S: u64 = 1_000_000;
/// An object takes a quarter of the cache at most.
const OBJECT_DRAM_DIVISOR: u64 = 4;
/// And this, whatever the cache: so many zeros are kept to make objects of.
const OBJECT_BYTES_MAX: u64 = 1 << 20;

/// A cache, and what it is asked with.
#[derive(Debug)]
pub struct SimulatedCache {
    cache: Cache,
    clock: Arc<ManualClock>,
    zeros: Bytes,
    /// A get loads nothing.
    is_sets_only: bool,
    /// Times to live count.
    has_deadlines: bool,
}

/// How requests are taken.
#[derive(Debug, Clone, Copy)]
pub struct Taking {
    /// A get loads nothing.
    pub is_sets_only: bool,
    /// Times to live count.
    pub has_deadlines: bool,
}

impl SimulatedCache {
    /// The least that one may have, in bytes.
    pub const BYTES_MIN: u64 = DRAM_BYTES_MIN;

    /// One of so many bytes.
    ///
    /// # Errors
    /// Where those are too few.
    pub fn new(eviction: Eviction, dram_bytes: u64, taking: Taking) -> Result<Self> {
        let object_bytes_max = (dram_bytes / OBJECT_DRAM_DIVISOR).clamp(1, OBJECT_BYTES_MAX);
        let options = Options { dram_bytes, eviction, object_bytes_max, ..Options::default() };
        let clock = Arc::new(ManualClock::new(UNIX_S * 1_000));
        let seen: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let around = Surroundings::new(Arc::new(MemoryStorage::new()), seen);
        let cache =
            Cache::open(&options, &around).map_err(|error| Failure::new(error.to_string()))?;
        let zeros = vec![0; object_bytes_max as usize].into();
        let Taking { is_sets_only, has_deadlines } = taking;
        Ok(Self { cache, clock, zeros, is_sets_only, has_deadlines })
    }

    fn advance(&self, seconds: f64) {
        let at_ms = UNIX_S * 1_000 + (seconds.max(0.0) * 1_000.0) as u64;
        let passed = at_ms.saturating_sub(self.clock.unix_ms());
        self.clock.advance(Duration::from_millis(passed));
    }

    /// What is too large for the cache is not there afterwards.
    fn store(&self, key: &[u8], request: &Request) {
        let bytes = request.value_bytes.unwrap_or(0);
        if bytes > self.zeros.len() as u64 {
            self.cache.remove(key);
            return;
        }
        let now_s = self.clock.unix_ms() / 1_000;
        let ttl_s = request.ttl_seconds.filter(|_| self.has_deadlines);
        let deadline =
            ttl_s.map_or(Deadline::NEVER, |ttl_s| Deadline::at(now_s.saturating_add(ttl_s)));
        let (value, version) = (self.zeros.slice(..bytes as usize), self.cache.next_version());
        self.cache.store(key, Object { value, flags: 0, deadline, version, marks: 0 });
    }
}

impl Simulated for SimulatedCache {
    type Request = Request;

    fn see(&mut self, request: &Request) -> Option<bool> {
        request
            .seconds
            .filter(|seconds| seconds.is_finite())
            .into_iter()
            .for_each(|seconds| self.advance(seconds));
        let mut key = request.key.clone();
        if key.len() > KEY_BYTES_MAX {
            // The trace's own stores took it: another one of the longest length.
            let hash = xxh3_64(&key).to_be_bytes();
            key.truncate(KEY_BYTES_MAX - hash.len());
            key.extend(hash);
        }
        match request.kind {
            Kind::Get => {
                let is_found = self.cache.get(&key).is_some();
                if !is_found && !self.is_sets_only {
                    self.store(&key, request);
                }
                return Some(is_found);
            }
            Kind::Put => self.store(&key, request),
            Kind::Delete => self.cache.remove(&key),
            Kind::Scan => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_do_what_they_do_to_a_served_cache() {
        let taking = Taking { is_sets_only: false, has_deadlines: true };
        let mut cache = SimulatedCache::new(Eviction::S3Fifo, 4 << 20, taking).unwrap();
        let request = |kind, key: &[u8], bytes, seconds| Request {
            value_bytes: Some(bytes),
            seconds: Some(seconds),
            ttl_seconds: Some(10),
            ..Request::new(kind, key)
        };
        let mut see =
            |kind, key: &[u8], bytes, seconds| cache.see(&request(kind, key, bytes, seconds));
        let long = [b'k'; 1_000];
        for key in [&b"a"[..], &long] {
            assert_eq!(see(Kind::Get, key, 100, 1.0), Some(false));
            assert_eq!(see(Kind::Get, key, 100, 2.5), Some(true));
            assert_eq!(see(Kind::Delete, key, 0, 2.5), None);
            assert_eq!(see(Kind::Get, key, 100, 3.0), Some(false));
        }
        // It expires, and is loaded by that.
        assert_eq!(see(Kind::Get, b"a", 100, 20.0), Some(false));
        assert_eq!(see(Kind::Put, b"a", 2 << 20, 20.0), None);
        assert_eq!(see(Kind::Get, b"a", 2 << 20, 20.0), Some(false));
        assert_eq!(see(Kind::Get, b"a", 2 << 20, 20.0), Some(false));
        assert!(SimulatedCache::new(Eviction::Lru, 1 << 10, taking).is_err());
        let taking = Taking { is_sets_only: true, has_deadlines: false };
        let mut cache = SimulatedCache::new(Eviction::Lru, 4 << 20, taking).unwrap();
        let mut see = |kind, seconds| cache.see(&request(kind, b"a", 1, seconds));
        let seen = [(Kind::Get, 0.0), (Kind::Get, 0.0), (Kind::Put, 0.0), (Kind::Get, 99.0)];
        assert_eq!(
            seen.map(|(kind, seconds)| see(kind, seconds)),
            [Some(false), Some(false), None, Some(true)]
        );
    }
}
