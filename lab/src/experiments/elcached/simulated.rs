//! TideKV's object cache as a simulator of requests: at full scale for measured misses, and at a
//! small scale for predictions. Its flash, if any, is a file in memory.

use std::sync::Arc;

use bytes::Bytes;
use tidekv_io::{ManualClock, MemoryStorage};
use tidekv_plan::{CacheSize, LookupResult, Simulated};
use tidekv_tiered::{Cache, Environment, Eviction, FlashOptions, Lookup, Options};

use crate::experiments::elcached::workload::{self, Sizes};
use crate::failure::Result;
use crate::subjects::tiered;

/// The largest value of ETC is 1 MiB; one in a hundred million is larger than this, and is not
/// stored. A cache is divided into shards of at least two of them.
const OBJECT_BYTES_MAX: u64 = 256 << 10;
/// Requests between two syncs: simulated storage keeps a second copy of unsynced data.
const REQUESTS_PER_SYNC: u64 = 10_000;
/// A fixed time: no object expires, and a constant clock is free.
const UNIX_MS: u64 = 1_000_000;

/// A cache, and values for it.
#[derive(Debug)]
pub(super) struct SimulatedTier {
    cache: Cache,
    /// The storage of flash, if any, and the number of requests.
    storage: Option<MemoryStorage>,
    requests: u64,
    value: Bytes,
}

impl SimulatedTier {
    /// A cache of that size, with default segments.
    pub(super) fn new(eviction: Eviction, size: CacheSize) -> Result<Self> {
        Self::with_segments(eviction, size, None)
    }

    /// A cache with segments of this number of bytes.
    pub(super) fn with_segments(
        eviction: Eviction,
        size: CacheSize,
        segment_bytes: Option<u64>,
    ) -> Result<Self> {
        let has_flash = size.flash_bytes > 0;
        let flash = FlashOptions { path: "flash".into(), bytes: size.flash_bytes };
        let options = Options {
            dram_bytes: size.memory_bytes,
            eviction,
            object_bytes_max: OBJECT_BYTES_MAX,
            avg_object_bytes: workload::OBJECT_BYTES_MEAN,
            flash: if has_flash { vec![flash] } else { Vec::new() },
            segment_bytes,
            ..Options::default()
        };
        let storage = MemoryStorage::new();
        let clock = Arc::new(ManualClock::new(UNIX_MS));
        let around = Environment::new(Arc::new(storage.clone()), clock);
        let cache = tiered::open(&options, &around)?;
        let storage = has_flash.then_some(storage);
        Ok(Self {
            cache,
            storage,
            requests: 0,
            value: vec![b'v'; OBJECT_BYTES_MAX as usize].into(),
        })
    }
}

impl Simulated for SimulatedTier {
    /// The key's number.
    type Request = u64;

    fn record(&mut self, key: &u64) -> Option<LookupResult> {
        let Sizes { key_bytes, value_bytes } = workload::sizes_of(*key);
        let text = workload::text_of(*key, key_bytes);
        let answer = match self.cache.try_get(&text) {
            Lookup::Hit(_) => LookupResult::Memory,
            Lookup::Miss => LookupResult::Miss,
            Lookup::Unknown if self.cache.get(&text).is_some() => LookupResult::Flash,
            Lookup::Unknown => LookupResult::Miss,
        };
        if answer == LookupResult::Miss && value_bytes <= self.cache.object_bytes_max() {
            let value = self.value.slice(..value_bytes as usize);
            self.cache.store(&text, tiered::plain(&self.cache, value));
        }
        if let Some(storage) = &self.storage {
            // In this thread: the delay of writes is not measured.
            self.cache.drain_writes();
            self.requests += 1;
            if self.requests.is_multiple_of(REQUESTS_PER_SYNC) {
                storage.sync_all();
            }
        }
        Some(answer)
    }
}
