//! TideKV's cache of objects, in memory alone, as something that requests are tried on: for what it
//! misses, and in small for what it is thought to miss.

use std::sync::Arc;

use bytes::Bytes;
use tidekv_io::{ManualClock, MemoryStorage};
use tidekv_plan::Simulated;
use tidekv_tiered::{Cache, Eviction, Options, Surroundings};

use crate::elcached::workload::{self, Sizes};
use crate::failure::Result;
use crate::tiered;

/// The largest value of ETC is a MiB; one in a hundred million is larger than this, and is not
/// stored. A cache is divided into shards of at least two of them.
const OBJECT_BYTES_MAX: u64 = 256 << 10;
/// Some time: nothing expires, and a clock that stands still costs nothing.
const UNIX_MS: u64 = 1_000_000;

/// A cache, and values for it.
#[derive(Debug)]
pub(super) struct TierInMemory {
    cache: Cache,
    value: Bytes,
}

impl TierInMemory {
    pub(super) fn new(eviction: Eviction, dram_bytes: u64) -> Result<Self> {
        let options = Options {
            dram_bytes,
            eviction,
            object_bytes_max: OBJECT_BYTES_MAX,
            ..Options::default()
        };
        let storage = Arc::new(MemoryStorage::new());
        let around = Surroundings::new(storage, Arc::new(ManualClock::new(UNIX_MS)));
        let cache = tiered::open(&options, &around)?;
        Ok(Self { cache, value: vec![b'v'; OBJECT_BYTES_MAX as usize].into() })
    }
}

impl Simulated for TierInMemory {
    /// The key's number.
    type Request = u64;

    fn see(&mut self, key: &u64) -> Option<bool> {
        let Sizes { key_bytes, value_bytes } = workload::sizes_of(*key);
        let text = workload::text_of(*key, key_bytes);
        let is_found = self.cache.get(&text).is_some();
        if !is_found && value_bytes <= OBJECT_BYTES_MAX {
            let value = self.value.slice(..value_bytes as usize);
            self.cache.store(&text, tiered::plain(&self.cache, value));
        }
        Some(is_found)
    }
}
