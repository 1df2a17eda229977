//! A cache on simulated storage without other traffic.
#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidekv_io::{Clock, ManualClock, MemoryStorage, SeededRandom, Storage, Tear};
use tidekv_tiered::{Cache, Deadline, DeviceCounts, Environment, FlashOptions, Object, Options};

pub const START_MS: u64 = 1_700_000_000_000;

pub struct Scene {
    pub storage: MemoryStorage,
    pub clock: Arc<ManualClock>,
    pub options: Options,
    pub cache: Cache,
}

impl Scene {
    pub fn new(options: Options) -> Self {
        let (storage, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
        let cache = open(&options, &storage, &clock, 1);
        Self { storage, clock, options, cache }
    }

    /// Kills and restarts the process.
    pub fn kill(&mut self) {
        self.restart(Tear::KeepUnsynced, 1);
    }

    /// Ends and restarts the process in that boot of the machine.
    pub fn restart(&mut self, tear: Tear, boot: u128) {
        self.storage = self.storage.after_power_loss(tear);
        self.cache = open(&self.options, &self.storage, &self.clock, boot);
    }

    pub fn store(&self, n: u64, value_bytes: usize, remaining_s: Option<u64>) {
        let now_s = u64::from(self.cache.now_s());
        let deadline =
            remaining_s.map_or(Deadline::NEVER, |remaining_s| Deadline::at(now_s + remaining_s));
        let value = Bytes::from(value(n, value_bytes));
        let version = self.cache.next_version();
        self.cache.store(&key(n), Object { value, flags: 0, deadline, version, marks: 0 });
    }

    /// The number of objects found; each must equal the stored one.
    pub fn hits(&self, numbers: impl Iterator<Item = u64>) -> usize {
        let is_there = |n: &u64| match self.cache.get(&key(*n)) {
            None => false,
            Some(found) => {
                assert_eq!(found.object.value, value(*n, found.object.value.len()));
                true
            }
        };
        numbers.filter(is_there).count()
    }

    pub fn counts(&self) -> DeviceCounts {
        self.cache.device_stats()[0].counts
    }
}

pub fn key(n: u64) -> Vec<u8> {
    format!("key-{n}").into_bytes()
}

pub fn value(n: u64, bytes: usize) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

pub fn open(
    options: &Options,
    storage: &MemoryStorage,
    clock: &Arc<ManualClock>,
    boot: u128,
) -> Cache {
    // Each opening has other numbers, as by chance.
    static OPENINGS: AtomicU64 = AtomicU64::new(1);
    let random = Arc::new(SeededRandom::new(OPENINGS.fetch_add(1, Ordering::Relaxed)));
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let environment = Environment {
        storage,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random,
        boot,
        is_inline: true,
    };
    Cache::open(options, &environment).unwrap_or_else(|error| panic!("{error}"))
}

/// One device of 64 MiB behind 2 MiB of DRAM.
pub fn options() -> Options {
    Options {
        dram_bytes: 2 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 64 << 20 }],
        object_bytes_max: 256 << 10,
        avg_object_bytes: 4 << 10,
        state: Some("/state".into()),
        segment_bytes: Some(64 << 10),
        ..Options::default()
    }
}
