//! The cache that `tidekv cache` serves as something that the requests of a trace are tried on. Its flash,
//! if it has any, is a file in memory, and what is to be written there is written at once.
//!
//! It stands in for a cache that is larger: `tidekv profile --policy` hands it a part of the keys. Objects
//! have the sizes of the trace and no content; time is the trace's. Segments of flash are as much smaller too, to the
//! power of two below, but have room for sixteen usual objects: where that counts there are fewer of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, ManualClock, MemoryStorage};
use tidekv_plan::trace::{Kind, Request};
use tidekv_plan::{CacheSize, LookupResult, Simulated};
use tidekv_tiered::{
    Cache, DRAM_BYTES_MIN, Deadline, Environment, Eviction, FlashOptions, KEY_BYTES_MAX, Lookup,
    Object, Options, Result,
};
use xxhash_rust::xxh3::xxh3_64;

/// Where the trace's time begins: what it says are seconds from a beginning of its own.
const UNIX_S: u64 = 1_000_000;
/// An object takes a quarter of the cache at most.
const OBJECT_DRAM_DIVISOR: u64 = 4;
/// And this, whatever the cache: so many zeros are kept to make objects of.
const OBJECT_BYTES_MAX: u64 = 1 << 20;
/// Simulated storage keeps what has not been synced a second time: it is synced so often.
const REQUESTS_PER_SYNC: u64 = 10_000;
/// Objects of the usual size of which a segment has room for so many at least.
const OBJECTS_OF_SEGMENT_MIN: u64 = 16;
/// Of each segment a block is not used, 4 KiB, and half an object.
const SEGMENT_REST_BYTES: u64 = 4 << 10;
/// No segment of flash is smaller.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;

/// A cache, and what it is asked with.
#[derive(Debug)]
pub struct SimulatedCache {
    cache: Cache,
    /// Of flash, if there is any, and how many requests there were.
    storage: Option<MemoryStorage>,
    requests: u64,
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

/// How a small cache is made after the whole one that it stands for.
#[derive(Debug, Clone, Copy)]
pub struct InSmall {
    /// The order in which objects leave DRAM.
    pub eviction: Eviction,
    /// How large objects are said to be on average, in bytes.
    pub avg_object_bytes: u64,
    /// Of whose keys it is asked about so many, 0 to 1.
    pub rate: f64,
}

impl InSmall {
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

    /// Which part of flash one in the place of `whole` makes no use of, as its segments are small.
    ///
    /// # Errors
    /// Where there is too little DRAM for the flash.
    pub fn unused_of_flash(&self, whole: CacheSize) -> Result<f64> {
        let rest_bytes = |segment_bytes: u64| {
            let rest_bytes = SEGMENT_REST_BYTES + self.avg_object_bytes.min(segment_bytes) / 2;
            rest_bytes as f64 / segment_bytes as f64
        };
        Ok(self.segment_bytes(whole)?.map_or(0.0, rest_bytes))
    }

    /// The size of segments for so many of the keys, of a cache that has this size for all of them.
    fn segment_bytes(&self, whole: CacheSize) -> Result<Option<u64>> {
        let segment_bytes = Cache::segment_bytes_for(&self.options(whole))?;
        // At the end of a segment there is room for half an object, which is to be a small part of it.
        let least = |bytes: u64| OBJECTS_OF_SEGMENT_MIN * self.avg_object_bytes.min(bytes);
        // The power of two below.
        let in_small = |bytes: u64| 1 << ((bytes as f64 * self.rate) as u64).max(1).ilog2();
        let segment = |bytes: u64| in_small(bytes).max(least(bytes).next_power_of_two());
        Ok(segment_bytes.map(|bytes| segment(bytes).clamp(SEGMENT_BYTES_MIN, bytes)))
    }
}

impl SimulatedCache {
    /// The least DRAM that one may have, in bytes.
    pub const BYTES_MIN: u64 = DRAM_BYTES_MIN;

    /// One of that size, in the place of one that is `whole`.
    ///
    /// # Errors
    /// Where either is too small.
    pub fn new(how: &InSmall, size: CacheSize, whole: CacheSize, taking: Taking) -> Result<Self> {
        let options = Options { segment_bytes: how.segment_bytes(whole)?, ..how.options(size) };
        let clock = Arc::new(ManualClock::new(UNIX_S * 1_000));
        let seen: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let storage = MemoryStorage::new();
        let around = Environment::new(Arc::new(storage.clone()), seen);
        let cache = Cache::open(&options, &around)?;
        let zeros = vec![0; options.object_bytes_max as usize].into();
        let Taking { is_sets_only, has_deadlines } = taking;
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

    fn record(&mut self, request: &Request) -> Option<LookupResult> {
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

    fn cache(eviction: Eviction, size: CacheSize, taking: Taking) -> Result<SimulatedCache> {
        let how = InSmall { eviction, avg_object_bytes: 1 << 10, rate: 1.0 / 16.0 };
        let times = |bytes: u64| bytes * 16;
        let whole = CacheSize {
            memory_bytes: times(size.memory_bytes),
            flash_bytes: times(size.flash_bytes),
        };
        SimulatedCache::new(&how, size, whole, taking)
    }

    const ALL: Taking = Taking { is_sets_only: false, has_deadlines: true };

    #[test]
    fn what_leaves_memory_is_found_on_flash() {
        let size = CacheSize { memory_bytes: 2 << 20, flash_bytes: 8 << 20 };
        let mut cache = cache(Eviction::S3Fifo, size, ALL).unwrap();
        let ask = |number: u64| Request {
            value_bytes: Some(1_000),
            ..Request::new(Kind::Get, number.to_be_bytes())
        };
        // Twice all of them in a circle: more than memory has, less than flash.
        let mut counts = [0; 3];
        for number in (0..4_000).chain(0..4_000) {
            let answer = cache.record(&ask(number)).unwrap();
            counts[answer as usize] += 1;
        }
        assert_eq!(counts[LookupResult::Miss as usize], 4_000, "{counts:?}");
        assert!(counts[LookupResult::Flash as usize] > 2_000, "{counts:?}");
        // For the cache that it stands for there would be too little memory.
        let size = CacheSize { memory_bytes: 1 << 20, flash_bytes: 1 << 30 };
        let refused = super::tests::cache(Eviction::S3Fifo, size, ALL).map(drop);
        assert!(refused.unwrap_err().to_string().contains("DRAM"));
    }

    #[test]
    fn requests_do_what_they_do_to_a_served_cache() {
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
        // It expires, and is loaded by that.
        assert_eq!(see(Kind::Get, b"a", 100, 20.0), Some(LookupResult::Miss));
        assert_eq!(see(Kind::Put, b"a", 2 << 20, 20.0), None);
        assert_eq!(see(Kind::Get, b"a", 2 << 20, 20.0), Some(LookupResult::Miss));
        assert_eq!(see(Kind::Get, b"a", 2 << 20, 20.0), Some(LookupResult::Miss));
        let of = super::tests::cache;
        assert!(of(Eviction::Lru, CacheSize::of_memory(1 << 10), ALL).is_err());
        let taking = Taking { is_sets_only: true, has_deadlines: false };
        let mut cache = of(Eviction::Lru, size, taking).unwrap();
        let mut see = |kind, seconds| cache.record(&request(kind, b"a", 1, seconds));
        let seen = [(Kind::Get, 0.0), (Kind::Get, 0.0), (Kind::Put, 0.0), (Kind::Get, 99.0)];
        assert_eq!(
            seen.map(|(kind, seconds)| see(kind, seconds)),
            [Some(LookupResult::Miss), Some(LookupResult::Miss), None, Some(LookupResult::Memory)]
        );
    }
}
