//! Settings, generated from a seed: from absurdly tiny to generous, on simulated or on real
//! storage. None of them may change a result.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidekv::{Compression, Durability, FilterKind, KeyspaceOptions};
use tidekv_cache::CachePolicy;
use tidekv_io::Clock;

use crate::operations::Profile;
use crate::support::strange_tier::Temper;
use crate::support::{Dice, START_MS, cache_policy};

/// Maximum number of operations on real storage, where each flush takes milliseconds.
const REAL_OPERATIONS_MAX: usize = 8_000;

/// The location of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    Simulated,
    /// A directory of this machine, read in batches through io_uring or not.
    Real {
        uring: bool,
    },
}

/// How a store ends before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Close,
    /// The process is killed: written data is preserved.
    Kill,
    /// The power fails: synced data is preserved.
    PowerCut,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub seed: u64,
    pub disk: Disk,
    /// Background threads; 0: all work in the caller's.
    pub threads: usize,
    pub ending: Ending,
    pub durability: Durability,
    pub direct_io: bool,
    pub memory_bytes: u64,
    pub memtable_bytes: u64,
    pub table_bytes: u64,
    pub compaction_bytes_per_s: Option<u64>,
    pub cache_bytes_max: u64,
    pub cache_policy: CachePolicy,
    pub cross_check: bool,
    /// With few bits, pointers are constantly confused with those of other keys.
    pub fingerprint_bits: u32,
    /// The hot list takes one part in this many of the data.
    pub hot_list_share: u64,
    /// Between operations, with a probability of one in this many, an event happens that is not an
    /// operation: a flush, an eviction, a compaction, other options.
    pub disturbed_one_in: u64,
    /// The tier under the block cache, if any.
    pub tier: Option<Temper>,
    /// Maximum number of operations: real storage is slow.
    pub operations_max: usize,
}

impl Settings {
    /// The settings of `seed` for lists of `profile`: limits so tiny that they create files by the
    /// ten thousand are only used for short lists.
    pub fn new(seed: u64, profile: &Profile) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0xD129_0DDB_53C4_3E49) ^ 0x2545_F491);
        dice.below(2);
        // One of a list's twelve is real.
        let disk = match seed % 24 {
            1 => Disk::Real { uring: true },
            13 => Disk::Real { uring: false },
            _ => Disk::Simulated,
        };
        let is_real = disk != Disk::Simulated;
        let operations_max = if is_real { REAL_OPERATIONS_MAX } else { usize::MAX };
        let operations = profile.operations.min(operations_max) as u64;
        let bytes = profile.bytes();
        // Files take most of the time: this bounds the number of flushes per list.
        let flushes_max = if is_real { 40 } else { 600 };
        let memtable_bytes_min = (operations * 60 / flushes_max).max(256);
        let ending = match dice.below(3) {
            0 if !is_real => Ending::Kill,
            1 if !is_real => Ending::PowerCut,
            _ => Ending::Close,
        };
        let is_sync = ending == Ending::PowerCut || (!is_real && dice.one_in(4));
        Self {
            seed,
            disk,
            threads: if dice.one_in(3) { 1 + dice.below(3) as usize } else { 0 },
            ending,
            durability: if is_sync { Durability::Sync } else { Durability::Buffered },
            direct_io: dice.one_in(2),
            memory_bytes: [0, 8 << 20, 12 << 20, 64 << 20][dice.below(4) as usize],
            // The smallest size occasionally, because only it creates several levels.
            memtable_bytes: match seed % 6 {
                0 => memtable_bytes_min,
                _ => between(&mut dice, memtable_bytes_min, (bytes / 2).max(2048)),
            },
            table_bytes: between(&mut dice, (bytes / 300).max(256), bytes.max(4096)),
            compaction_bytes_per_s: dice.one_in(6).then(|| between(&mut dice, 1000, 1 << 30)),
            cache_bytes_max: match dice.below(4) {
                0 => 0,
                1 => between(&mut dice, 64, bytes),
                _ => u64::MAX,
            },
            cache_policy: cache_policy(&mut dice),
            cross_check: dice.one_in(2),
            fingerprint_bits: [6, 14, 32][dice.below(3) as usize],
            disturbed_one_in: [20, 200, 2000, u64::MAX][dice.below(4) as usize]
                .max(operations / if is_real { 100 } else { 2000 }),
            operations_max,
            hot_list_share: [1, 10][dice.below(2) as usize],
            tier: Temper::ALL.get(dice.below(6) as usize).copied(),
        }
    }
}

/// A number between `low` and `high`, logarithmically distributed.
fn between(dice: &mut Dice, low: u64, high: u64) -> u64 {
    let share = dice.below(1001) as f64 / 1000.0;
    let low = low.max(1) as f64;
    (low * (high as f64 / low).max(1.0).powf(share)) as u64
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "disk {:?}, threads {}, {:?}, {:?}, direct {}, memory {}, memtable {}, table {}, \
             pace {:?}, cache {} ({}, check {}, {} bits, list 1/{}), tier {:?}, disturbed 1/{}",
            self.disk,
            self.threads,
            self.ending,
            self.durability,
            self.direct_io,
            self.memory_bytes,
            self.memtable_bytes,
            self.table_bytes,
            self.compaction_bytes_per_s,
            self.cache_bytes_max,
            self.cache_policy,
            self.cross_check,
            self.fingerprint_bits,
            self.hot_list_share,
            self.tier,
            self.disturbed_one_in
        )
    }
}

/// Settings of a keyspace; its time to live is not a setting, because it changes results.
pub fn keyspace_options(dice: &mut Dice, default_ttl_ms: Option<u32>) -> KeyspaceOptions {
    let mut compression = || match dice.below(8) {
        0..2 => Compression::Lz4,
        2 => Compression::Zstd,
        _ => Compression::None,
    };
    {
        let mut options = KeyspaceOptions::default()
            .compression(compression())
            .compression_last(compression())
            .block_bytes([512, 700, 1024, 4096, 16 << 10, 64 << 10][dice.below(6) as usize])
            .filter_bits_per_key([0, 1, 2, 5, 10, 14, 20][dice.below(7) as usize])
            .filter_kind([FilterKind::Bloom, FilterKind::Cuckoo][dice.below(2) as usize]);
        options.default_ttl = default_ttl_ms.map(|ms| Duration::from_millis(u64::from(ms)));
        options
    }
}

/// A clock whose time of day moves only on request, and with it the clock of times to live. Sleeping
/// takes no time and moves only the monotonic side: how long writers are slowed down depends on
/// settings, expiry must not.
#[derive(Debug)]
pub struct ListClock {
    unix_ms: AtomicU64,
    /// How far the machine's clock was set forward.
    set_ms: AtomicU64,
    monotonic_ns: AtomicU64,
}

impl ListClock {
    pub fn new() -> Arc<Self> {
        let [set_ms, monotonic_ns] = [const { AtomicU64::new(0) }; 2];
        Arc::new(Self { unix_ms: AtomicU64::new(START_MS), set_ms, monotonic_ns })
    }

    /// Sets the machine's clock forward by an hour, or back again.
    pub fn step(&self) {
        self.set_ms.fetch_xor(3_600_000, Ordering::Relaxed);
    }

    pub fn advance(&self, ms: u32) {
        self.unix_ms.fetch_add(u64::from(ms), Ordering::Relaxed);
    }
}

impl Clock for ListClock {
    fn unix_ns(&self) -> u64 {
        let set_ms = self.set_ms.load(Ordering::Relaxed);
        (self.unix_ms.load(Ordering::Relaxed) + set_ms) * 1_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.fetch_add(100, Ordering::Relaxed)
    }

    fn boot_ns(&self) -> u64 {
        (self.unix_ms.load(Ordering::Relaxed) - START_MS) * 1_000_000
    }

    fn sleep(&self, duration: Duration) {
        self.monotonic_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}
