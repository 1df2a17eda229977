//! The settings of a store and of a keyspace: plain data, few knobs. What is
//! not here is a named constant with a reason where it is used.

use std::sync::Arc;
use std::time::Duration;

use tidekv_cache::{CachePolicy, Tier};
use tidekv_io::{Clock, Executor, Random, Storage};

/// What a write waits for before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// Handed to the operating system: survives the death of the process, not
    /// a power cut.
    #[default]
    Buffered,
    /// On stable storage: survives a power cut.
    Sync,
}

/// How the blocks of a table are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4: quick, about half the size on text.
    Lz4,
    /// Zstandard (level 3): slower, smaller.
    Zstd,
}

/// The parts of the world that a store runs in. The default is the machine;
/// tests hand in simulated ones.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Where files live; the local disk when `None`.
    pub storage: Option<Arc<dyn Storage>>,
    /// Time; the machine's clocks when `None`.
    pub clock: Option<Arc<dyn Clock>>,
    /// Randomness (only for choices that no answer depends on).
    pub random: Option<Arc<dyn Random>>,
    /// Where background work runs; a pool of threads when `None`.
    pub executor: Option<Arc<dyn Executor>>,
    /// What lies under the block cache, for files that are far away: a block that is not in
    /// memory is asked of it before its table is read, and goes there when it has been read.
    /// `tidekv_tiered::Cache` is one, with flash. None when `None`. It may forget whatever it
    /// likes, and be shared with other stores; nothing that it returns changes an answer.
    pub tier: Option<Arc<dyn Tier>>,
}

/// The settings of a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// DRAM for everything (memtables, caches, metadata, reads in flight), in
    /// bytes. `None`: a quarter of what the machine or its cgroup allows.
    /// At least 8 MiB; less is raised to it.
    pub memory_bytes: Option<u64>,
    /// What writes wait for when they do not say so themselves.
    pub durability: Durability,
    /// Create the directory and the store when they are missing.
    pub create_if_missing: bool,
    /// Open without changing anything: no writes, no lock, no background work.
    pub read_only: bool,
    /// Read and write tables past the page cache (O_DIRECT) where possible.
    pub direct_io: bool,
    /// Background threads for compaction. `None`: as many as cores, at most 4.
    pub compaction_threads: Option<usize>,
    /// Bytes per second that compactions may read and write. `None`: no limit.
    pub compaction_bytes_per_s: Option<u64>,
    /// Target size of a memtable in bytes. `None`: an eighth of the memory, at
    /// most 64 MiB.
    pub memtable_bytes: Option<u64>,
    /// Target size of a table file in bytes.
    pub table_bytes: u64,
    /// How entries and blocks share the memory of the caches.
    pub cache_policy: CachePolicy,
    /// Hold whatever the point cache answers against the tables, and fail the read if
    /// they disagree. Costs what the cache saves: for tests and for the suspicious.
    pub cross_check: bool,
    /// Write down what the caches hold when the store is closed (values of the hottest
    /// keys, names of the rest: at most a hundredth of the data), and bring it back when it
    /// is opened: the values at once, the rest in the background. What is deleted later may
    /// stand there until the next clean shutdown, or until it is opened without this. The same
    /// of what filters have unlearned ([`FilterKind::Cuckoo`]).
    pub warm_start: bool,
    /// Seams to the world.
    pub environment: Environment,
    /// The most that caches may take of the memory, whatever the rest leaves. For
    /// comparisons of caches of one size: no setting.
    #[doc(hidden)]
    pub cache_bytes_max: u64,
    /// What is written down of the caches takes one part in so many of the data. For proofs
    /// with little data: no setting.
    #[doc(hidden)]
    pub hot_list_share: u64,
    /// Merge runs in which the seeks of scans have read as much as merging them costs. For
    /// comparisons of caches over one tree that stays as it is: no setting.
    #[doc(hidden)]
    pub seek_compactions: bool,
    /// By how many bits of their hashes pointers know their keys. For proofs that no
    /// number of keys that are taken for each other changes an answer: no setting.
    #[doc(hidden)]
    pub fingerprint_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            durability: Durability::Buffered,
            create_if_missing: true,
            read_only: false,
            direct_io: true,
            compaction_threads: None,
            compaction_bytes_per_s: None,
            memtable_bytes: None,
            table_bytes: 64 << 20,
            cache_policy: CachePolicy::default(),
            cross_check: false,
            warm_start: true,
            environment: Environment::default(),
            cache_bytes_max: u64::MAX,
            hot_list_share: 100,
            seek_compactions: true,
            fingerprint_bits: u32::BITS,
        }
    }
}

/// How the filters of tables are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// Blocked Bloom filters: one cache line a lookup.
    #[default]
    Bloom,
    /// Cuckoo filters with dynamic seeds (SpotKV): less than half as many keys that are not there
    /// pass at the same number of bits, and what passes twice is unlearned soon after, at most a
    /// thousand keys a second. They look at two cache lines, take half a
    /// bit a key more, at most 0.7 for what was unlearned, and two bytes a key of storage.
    Cuckoo,
}

impl FilterKind {
    /// `bloom` or `cuckoo`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bloom => "bloom",
            Self::Cuckoo => "cuckoo",
        }
    }
}

/// The settings of a keyspace. They are kept in the manifest; opening an
/// existing keyspace with others changes them for new tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Compression of tables on all levels but the last.
    pub compression: Compression,
    /// Compression of tables on the last level, which holds most of the data.
    pub compression_last: Compression,
    /// Target size of a data block in bytes (512 B to 64 KiB).
    pub block_bytes: u32,
    /// Filter bits per key on the last level; upper levels, which hold a tenth
    /// of the keys, take six more. 0: no filters; cuckoo filters have 4 to 16.
    pub filter_bits_per_key: u8,
    /// How filters are made.
    pub filter_kind: FilterKind,
    /// Time to live of entries written without one of their own.
    pub default_ttl: Option<Duration>,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            compression: Compression::None,
            compression_last: Compression::None,
            block_bytes: 4096,
            filter_bits_per_key: 10,
            filter_kind: FilterKind::default(),
            default_ttl: None,
        }
    }
}
