//! The cache of `tidekv cache` as a simulator that replays a trace. Its flash, if any, is a file in memory
//! and is written immediately.
//!
//! It models a larger cache at a smaller scale: `tidekv profile --policy` gives it a sample of the keys.
//! Objects have the sizes of the trace and no content; the clock is the trace's. Flash segments are
//! scaled down too, to the next lower power of two, but hold at least sixteen average objects: where this
//! minimum applies there are fewer segments.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, ManualClock, MemoryStorage};
use tidekv_plan::trace::{Kind, Request};
use tidekv_plan::{CacheSize, LookupResult, Simulated};
use tidekv_tiered::{
    Cache, Change, DRAM_BYTES_MIN, Deadline, Environment, Eviction, FlashOptions, KEY_BYTES_MAX,
    Lookup, Object, Options, Result,
};
use xxhash_rust::xxh3::xxh3_64;

/// The Unix time at which the trace begins; its timestamps are relative.
const UNIX_S: u64 = 1_000_000;
/// An object takes at most a quarter of the cache.
const OBJECT_DRAM_DIVISOR: u64 = 4;
/// The largest object in any cache: the length of the buffer of zeros from which objects are made.
const OBJECT_BYTES_MAX: u64 = 1 << 20;
/// Requests between two syncs: the simulated storage keeps a second copy of unsynced data.
const REQUESTS_PER_SYNC: u64 = 10_000;
/// The minimum number of average objects in a segment.
const OBJECTS_OF_SEGMENT_MIN: u64 = 16;
/// The unused part of each segment: a block of 4 KiB, and half an object.
const SEGMENT_REST_BYTES: u64 = 4 << 10;
/// No segment of flash is smaller.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;

/// A simulated cache, and the state of the replay.
#[derive(Debug)]
pub struct SimulatedCache {
    cache: Cache,
    /// The storage of flash, if any, and the number of requests.
    storage: Option<MemoryStorage>,
    requests: u64,
    clock: Arc<ManualClock>,
    zeros: Bytes,
    /// A miss does not load the object.
    is_sets_only: bool,
    /// Objects expire.
    has_deadlines: bool,
}

/// The rules of the replay.
#[derive(Debug, Clone, Copy)]
pub struct LoadRules {
    /// A miss does not load the object.
    pub is_sets_only: bool,
    /// Objects expire.
    pub has_deadlines: bool,
}

/// The settings of a scaled-down cache.
#[derive(Debug, Clone, Copy)]
pub struct ScaledDown {
    /// The eviction policy of DRAM.
    pub eviction: Eviction,
    /// The expected average size of an object, in bytes.
    pub avg_object_bytes: u64,
    /// The sampling rate of the keys, 0 to 1.
    pub rate: f64,
}

impl ScaledDown {
    fn options(&self, size: CacheSize) -> Options {
        let flash = FlashOptions { path: "flash".into(), bytes: size.flash_bytes };
        let dram_bytes = size.memory_bytes;
        Options {
            dram_bytes,
            flash: if size.flash_bytes > 0 { vec![flash] } else { Vec::new() },
            object_bytes_max: (dram_bytes / OBJECT_DRAM_DIVISOR).clamp(1, OBJECT_BYTES_MAX),
            eviction: self.eviction,
            avg_object_bytes: self.avg_object_bytes,
            ..Options::default()
        }
    }

    /// The part of flash that the scaled-down cache for `full` leaves unused, as its segments are small.
    ///
    /// # Errors
    /// If the DRAM is too small for the flash.
    pub fn unused_of_flash(&self, full: CacheSize) -> Result<f64> {
        let rest_bytes = |segment_bytes: u64| {
            let rest_bytes = SEGMENT_REST_BYTES + self.avg_object_bytes.min(segment_bytes) / 2;
            rest_bytes as f64 / segment_bytes as f64
        };
        Ok(self.segment_bytes(full)?.map_or(0.0, rest_bytes))
    }

    /// The size of segments of the scaled-down cache for a cache of the size `full`.
    fn segment_bytes(&self, full: CacheSize) -> Result<Option<u64>> {
        let segment_bytes = Cache::segment_bytes_for(&self.options(full))?;
        // Half an object is unused at the end of a segment; it should be a small part of it.
        let least = |bytes: u64| OBJECTS_OF_SEGMENT_MIN * self.avg_object_bytes.min(bytes);
        // The power of two below.
        let scaled = |bytes: u64| 1 << ((bytes as f64 * self.rate) as u64).max(1).ilog2();
        let segment = |bytes: u64| scaled(bytes).max(least(bytes).next_power_of_two());
        Ok(segment_bytes.map(|bytes| segment(bytes).clamp(SEGMENT_BYTES_MIN, bytes)))
    }
}

impl SimulatedCache {
    /// The minimum DRAM of a cache, in bytes.
    pub const BYTES_MIN: u64 = DRAM_BYTES_MIN;

    /// A cache of this size that models one of the size `full`.
    ///
    /// # Errors
    /// If either is too small.
    pub fn new(
        how: &ScaledDown,
        size: CacheSize,
        full: CacheSize,
        rules: LoadRules,
    ) -> Result<Self> {
        let options = Options { segment_bytes: how.segment_bytes(full)?, ..how.options(size) };
        let clock = Arc::new(ManualClock::new(UNIX_S * 1_000));
        let shared_clock: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let storage = MemoryStorage::new();
        let environment = Environment::new(Arc::new(storage.clone()), shared_clock);
        let cache = Cache::open(&options, &environment)?;
        let zeros = vec![0; options.object_bytes_max as usize].into();
        let LoadRules { is_sets_only, has_deadlines } = rules;
        let storage = (size.flash_bytes > 0).then_some(storage);
        Ok(Self { cache, storage, requests: 0, clock, zeros, is_sets_only, has_deadlines })
    }

    fn answer(&self, key: &[u8]) -> LookupResult {
        match self.cache.try_get(key) {
            Lookup::Hit(_) => LookupResult::Memory,
            Lookup::Miss => LookupResult::Miss,
            Lookup::Unknown if self.cache.get(key).is_some() => LookupResult::Flash,
            Lookup::Unknown => LookupResult::Miss,
        }
    }

    fn advance(&self, seconds: f64) {
        let at_ms = UNIX_S * 1_000 + (seconds.max(0.0) * 1_000.0) as u64;
        let passed = at_ms.saturating_sub(self.clock.unix_ms());
        self.clock.advance(Duration::from_millis(passed));
        if passed > 0 {
            self.cache.run_maintenance();
        }
    }

    /// The deadline of an object that a request stores or changes.
    fn deadline(&self, request: &Request) -> Deadline {
        let now_s = self.clock.unix_ms() / 1_000;
        let ttl_s = request.ttl_seconds.filter(|_| self.has_deadlines);
        ttl_s.map_or(Deadline::NEVER, |ttl_s| Deadline::at(now_s.saturating_add(ttl_s)))
    }

    /// Stores the object of a request; removes it if it is too large for the cache.
    fn store(&self, key: &[u8], request: &Request) {
        let bytes = request.value_bytes.unwrap_or(0);
        if bytes > self.zeros.len() as u64 {
            self.cache.remove(key);
            return;
        }
        let deadline = self.deadline(request);
        let (value, version) = (self.zeros.slice(..bytes as usize), self.cache.next_version());
        self.cache.store(key, Object { value, flags: 0, deadline, version, marks: 0 });
    }
}

impl Simulated for SimulatedCache {
    type Request = Request;

    fn record(&mut self, request: &Request) -> Option<LookupResult> {
        request
            .seconds
            .filter(|seconds| seconds.is_finite())
            .into_iter()
            .for_each(|seconds| self.advance(seconds));
        let mut key = request.key.clone();
        if let Some(bytes) = request.key_bytes {
            // The trace has other names for its keys, shorter or longer ones.
            let bytes = usize::try_from(bytes).unwrap_or(KEY_BYTES_MAX).min(KEY_BYTES_MAX);
            if key.len() > bytes {
                key = xxh3_64(&key).to_be_bytes().to_vec();
            }
            key.resize(key.len().max(bytes), 0);
        }
        if key.len() > KEY_BYTES_MAX {
            // The traced store accepted longer keys: replace it by a key of the maximum length.
            let hash = xxh3_64(&key).to_be_bytes();
            key.truncate(KEY_BYTES_MAX - hash.len());
            key.extend(hash);
        }
        let answer = match request.kind {
            Kind::Get => {
                let answer = self.answer(&key);
                if answer == LookupResult::Miss && !self.is_sets_only {
                    self.store(&key, request);
                }
                Some(answer)
            }
            Kind::Put => {
                self.store(&key, request);
                None
            }
            Kind::Delete => {
                self.cache.remove(&key);
                None
            }
            Kind::Expire => {
                let deadline = self.deadline(request);
                self.cache.change(&key, |found| match found {
                    None => (Change::Keep, ()),
                    Some(found) => {
                        (Change::Revise(Object { deadline, ..found.object.clone() }), ())
                    }
                });
                None
            }
            Kind::Scan => None,
        };
        if let Some(storage) = &self.storage {
            self.cache.drain_writes();
            self.requests += 1;
            if self.requests.is_multiple_of(REQUESTS_PER_SYNC) {
                storage.sync_all();
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(eviction: Eviction, size: CacheSize, rules: LoadRules) -> Result<SimulatedCache> {
        let how = ScaledDown { eviction, avg_object_bytes: 1 << 10, rate: 1.0 / 16.0 };
        let times = |bytes: u64| bytes * 16;
        let full = CacheSize {
            memory_bytes: times(size.memory_bytes),
            flash_bytes: times(size.flash_bytes),
        };
        SimulatedCache::new(&how, size, full, rules)
    }

    const ALL: LoadRules = LoadRules { is_sets_only: false, has_deadlines: true };

    #[test]
    fn objects_evicted_from_dram_are_hits_on_flash() {
        let size = CacheSize { memory_bytes: 2 << 20, flash_bytes: 8 << 20 };
        let mut cache = cache(Eviction::S3Fifo, size, ALL).unwrap();
        let ask = |number: u64| Request {
            value_bytes: Some(1_000),
            ..Request::new(Kind::Get, number.to_be_bytes())
        };
        // Two passes over all objects in order: more than fits DRAM, less than flash.
        let mut counts = [0; 3];
        for number in (0..4_000).chain(0..4_000) {
            let answer = cache.record(&ask(number)).unwrap();
            counts[answer as usize] += 1;
        }
        assert_eq!(counts[LookupResult::Miss as usize], 4_000, "{counts:?}");
        assert!(counts[LookupResult::Flash as usize] > 2_000, "{counts:?}");
        // The full-size cache would have too little memory.
        let size = CacheSize { memory_bytes: 1 << 20, flash_bytes: 1 << 30 };
        let refused = super::tests::cache(Eviction::S3Fifo, size, ALL).map(drop);
        assert!(refused.unwrap_err().to_string().contains("DRAM"));
    }

    #[test]
    fn requests_have_the_effect_that_they_have_on_a_served_cache() {
        let size = CacheSize::of_memory(4 << 20);
        let mut cache = cache(Eviction::S3Fifo, size, ALL).unwrap();
        let request = |kind, key: &[u8], bytes, seconds| Request {
            value_bytes: Some(bytes),
            seconds: Some(seconds),
            ttl_seconds: Some(10),
            ..Request::new(kind, key)
        };
        let mut see =
            |kind, key: &[u8], bytes, seconds| cache.record(&request(kind, key, bytes, seconds));
        let long = [b'k'; 1_000];
        for key in [&b"a"[..], &long] {
            assert_eq!(see(Kind::Get, key, 100, 1.0), Some(LookupResult::Miss));
            assert_eq!(see(Kind::Get, key, 100, 2.5), Some(LookupResult::Memory));
            assert_eq!(see(Kind::Delete, key, 0, 2.5), None);
            assert_eq!(see(Kind::Get, key, 100, 3.0), Some(LookupResult::Miss));
        }
        // It has expired; the get loads it again.
        assert_eq!(see(Kind::Get, b"a", 100, 20.0), Some(LookupResult::Miss));
        assert_eq!(see(Kind::Put, b"a", 2 << 20, 20.0), None);
        assert_eq!(see(Kind::Get, b"a", 2 << 20, 20.0), Some(LookupResult::Miss));
        assert_eq!(see(Kind::Get, b"a", 2 << 20, 20.0), Some(LookupResult::Miss));
        let of = super::tests::cache;
        assert!(of(Eviction::Lru, CacheSize::of_memory(1 << 10), ALL).is_err());
        let rules = LoadRules { is_sets_only: true, has_deadlines: false };
        let mut cache = of(Eviction::Lru, size, rules).unwrap();
        let mut see = |kind, seconds| cache.record(&request(kind, b"a", 1, seconds));
        let seen = [(Kind::Get, 0.0), (Kind::Get, 0.0), (Kind::Put, 0.0), (Kind::Get, 99.0)];
        assert_eq!(
            seen.map(|(kind, seconds)| see(kind, seconds)),
            [Some(LookupResult::Miss), Some(LookupResult::Miss), None, Some(LookupResult::Memory)]
        );
    }
}
