//! Our own cache under a trace of expiring objects: the real code, on simulated storage, with a
//! clock that the trace advances, in one thread. The same trace gives the same counts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, ManualClock, MemoryStorage, SeededRandom};
use tidekv_tiered::{
    Cache, Deadline, DeviceCounts, DeviceStats, Environment, Expiry, FlashOptions, Object, Options,
    Stats,
};

use crate::experiments::bigkv::ttl_trace::{OBJECT_BYTES, VALUE_BYTES};
use crate::failure::Result;
use crate::load::keys::{key_of, present};
use crate::subjects::tiered::{open, plain};

/// Bytes of a segment: the smallest size at which rounding to it is a small part, so that flash has
/// about as many segments as a large device.
pub(super) const SEGMENT_BYTES: u64 = 64 << 10;
/// The time at which the trace begins.
const START_S: u64 = 1_700_000_000;
const DEVICE: &str = "/flash";
/// Requests between two syncs: simulated storage keeps a second copy of unsynced data.
const SETS_PER_SYNC: u64 = 10_000;

/// The cache.
#[derive(Debug)]
pub(super) struct TtlCache {
    cache: Cache,
    clock: Arc<ManualClock>,
    storage: MemoryStorage,
    value: Bytes,
    now_ms: u64,
    sets: u64,
}

impl TtlCache {
    /// A cache with this DRAM and flash.
    pub(super) fn open(dram_bytes: u64, flash_bytes: u64, expiry: Expiry) -> Result<Self> {
        let options = Options {
            dram_bytes,
            flash: vec![FlashOptions { path: DEVICE.into(), bytes: flash_bytes }],
            object_bytes_max: 64 << 10,
            avg_object_bytes: OBJECT_BYTES,
            segment_bytes: Some(SEGMENT_BYTES),
            expiry,
            ..Options::default()
        };
        let (storage, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_S * 1_000)));
        let around = Environment {
            storage: Arc::new(storage.clone()),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::new(1)),
            boot: 1,
            is_inline: true,
        };
        let cache = open(&options, &around)?;
        let value = Bytes::from(vec![7; VALUE_BYTES as usize]);
        Ok(Self { cache, clock, storage, value, now_ms: 0, sets: 0 })
    }

    /// Advances the clock.
    pub(super) fn advance(&mut self, to_ms: u64) {
        self.clock.advance(Duration::from_millis(to_ms - self.now_ms));
        self.now_ms = to_ms;
    }

    /// Whether an object is a hit.
    pub(super) fn get(&self, key: u32) -> bool {
        self.cache.get(&key_of(present(key.into()))).is_some()
    }

    /// Stores an object.
    pub(super) fn set(&mut self, key: u32, ttl_s: u32) {
        let deadline = Deadline::at(START_S + self.now_ms / 1_000 + u64::from(ttl_s));
        let object = Object { deadline, ..plain(&self.cache, self.value.clone()) };
        self.cache.store(&key_of(present(key.into())), object);
        self.sets += 1;
        if self.sets.is_multiple_of(SETS_PER_SYNC) {
            self.storage.sync_all();
        }
    }

    /// The counts so far, and the state of the device.
    pub(super) fn stats(&self) -> (Stats, DeviceStats) {
        let mut devices = self.cache.device_stats();
        (self.cache.stats(), devices.remove(0))
    }
}

/// Bytes written to flash per byte of objects written.
pub(super) fn write_amp(counts: &DeviceCounts) -> f64 {
    let written_bytes =
        counts.segment_bytes_written + counts.page_bytes_written + counts.metadata_bytes_written;
    written_bytes as f64 / counts.object_bytes_written.max(1) as f64
}
