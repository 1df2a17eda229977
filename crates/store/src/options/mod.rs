//! The settings of a store and of a keyspace: plain data with builder methods, and few of them.
//! Every other number is a named constant, with a reason where it is used.

pub(crate) mod cache_policy;
pub(crate) mod memory_budget;

use std::sync::Arc;
use std::time::Duration;

use tidekv_cache::SecondaryCache;
use tidekv_io::{Clock, Executor, Random, Storage};

use crate::options::cache_policy::CachePolicy;
use crate::options::memory_budget::MemoryBudget;

/// What a write waits for before it is acknowledged. Choose it for a store
/// ([`Options::durability`]), a batch ([`Db::write_with`](crate::Db::write_with)) or a transaction
/// ([`Transaction::commit`](crate::Transaction::commit));
/// [`Db::sync`](crate::Db::sync) makes all earlier writes durable.
///
/// ```
/// use std::sync::Arc;
/// use tidekv::{Db, Durability, Environment, MemoryStorage, Options, Tear, WriteBatch};
///
/// let disk = Arc::new(MemoryStorage::new());
/// let on = |disk: Arc<MemoryStorage>| {
///     Options::new().environment(Environment::default().storage(disk))
/// };
/// let db = Db::open("data", on(disk.clone()))?;
/// let keyspace = db.keyspace("orders")?;
/// let mut batch = WriteBatch::new();
/// batch.put(&keyspace, "17", "paid");
/// db.write_with(batch, Durability::Sync)?;
/// keyspace.put("18", "open")?; // Durability::Buffered
///
/// let after_power_cut = Arc::new(disk.after_power_loss(Tear::DropUnsynced));
/// let db = Db::open("data", on(after_power_cut))?;
/// let keyspace = db.keyspace("orders")?;
/// assert_eq!(keyspace.get("17")?.unwrap(), "paid");
/// assert_eq!(keyspace.get("18")?, None);
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The operating system has the write: it survives a killed process, but not a power cut.
    #[default]
    Buffered,
    /// The write is on stable storage: it survives a power cut.
    Sync,
}

/// The compression of the blocks of a table.
///
/// ```
/// use tidekv::Compression;
///
/// assert!(Compression::None.is_available());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// LZ4: fast, about half the size on text. Needs the feature `lz4`.
    Lz4,
    /// Zstandard (level 3): slower, smaller. Needs the feature `zstd`.
    Zstd,
}

impl Compression {
    /// Whether this build has the codec.
    pub fn is_available(self) -> bool {
        match self {
            Self::None => true,
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }
}

/// The parts of the system that a store uses: files, clocks, randomness, threads. The default
/// is the machine; a test passes simulated ones, such as [`MemoryStorage`](crate::MemoryStorage).
///
/// ```
/// use std::sync::Arc;
/// use tidekv::{Environment, ManualClock, MemoryStorage};
///
/// let environment = Environment::default()
///     .storage(Arc::new(MemoryStorage::new()))
///     .clock(Arc::new(ManualClock::new(1_000_000)));
/// assert!(environment.executor.is_none(), "a thread pool");
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Environment {
    /// Where files live; the local disk when `None`.
    pub storage: Option<Arc<dyn Storage>>,
    /// Time; the machine's clocks when `None`.
    pub clock: Option<Arc<dyn Clock>>,
    /// Randomness (only for choices that no answer depends on).
    pub random: Option<Arc<dyn Random>>,
    /// Where background work runs; a pool of threads when `None`.
    pub executor: Option<Arc<dyn Executor>>,
    /// A secondary block cache under the one in DRAM, for files on remote storage: a block that
    /// misses in DRAM is looked up here before its table is read, and is inserted here after the
    /// read. `tidekv_tiered::Cache` is one, with flash. It may drop any block at any time, and
    /// several stores may share it; it never changes an answer. `None`: no secondary cache.
    pub secondary_cache: Option<Arc<dyn SecondaryCache>>,
}

impl Environment {
    /// Sets the file system.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Sets the clocks.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the source of randomness.
    #[must_use]
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = Some(random);
        self
    }

    /// Sets where background jobs run.
    #[must_use]
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// Sets the secondary block cache.
    #[must_use]
    pub fn secondary_cache(mut self, cache: Arc<dyn SecondaryCache>) -> Self {
        self.secondary_cache = Some(cache);
        self
    }
}

/// The settings of a store. Start from [`Options::new`] and change the ones that differ.
///
/// ```
/// use tidekv::{Durability, Options};
///
/// let options = Options::new().memory_bytes(256 << 20).durability(Durability::Sync);
/// assert_eq!(options.memory_bytes, Some(256 << 20));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The memory budget in bytes, for memtables, caches, keyspaces, metadata and reads in flight.
    /// Less than 8 MiB is raised to 8 MiB. `None`: the store takes part in
    /// [`Options::memory_budget`].
    pub memory_bytes: Option<u64>,
    /// The budget that the store shares with others. With [`Options::memory_bytes`], which is then the
    /// most that this store takes of it. `None`, and no `memory_bytes`: the budget of the process
    /// ([`MemoryBudget::of_process`]), an eighth of its memory and at most 256 MiB, for all stores
    /// together.
    pub memory_budget: Option<MemoryBudget>,
    /// The durability of writes that do not choose their own.
    pub durability: Durability,
    /// Create the directory and the store if they are missing. Default: true.
    pub create_if_missing: bool,
    /// Open without changing anything: no writes, no lock, no background work. Several processes
    /// may read a store that another one has open. Default: false.
    pub read_only: bool,
    /// Read and write tables without the page cache (O_DIRECT) where possible, except small ones
    /// that share a file. Default: true.
    pub direct_io: bool,
    /// Background threads for compaction. `None`: one per core, at most 4.
    pub compaction_threads: Option<usize>,
    /// Bytes per second that compactions may read and write. `None`: no limit.
    pub compaction_bytes_per_s: Option<u64>,
    /// Target size of a memtable in bytes. `None`: an eighth of the memory budget, at most 64 MiB.
    pub memtable_bytes: Option<u64>,
    /// Target size of a table file in bytes. Default: 64 MiB.
    pub table_bytes: u64,
    /// The most table files that are open at a time; more are closed and opened again when they are
    /// read. `None`: half of the file handles that the process may open.
    pub max_open_files: Option<usize>,
    /// How values, pointers and blocks share the memory of the caches. Default: adaptive.
    pub cache_policy: CachePolicy,
    /// Compare every answer of the point cache with the tables, and fail the read if they
    /// disagree. Costs the reads that the cache saves: for tests and for debugging. Default: false.
    pub cross_check: bool,
    /// Save the content of the caches at a clean shutdown (values of the hottest keys, names of
    /// the rest: at most a hundredth of the data), and load it at open: the values at once, the
    /// rest in the background. A value deleted later may remain in that file until the next
    /// clean shutdown, or until an open without this setting. Filter repairs
    /// ([`FilterKind::Cuckoo`]) are saved likewise. Default: true.
    pub warm_start: bool,
    /// Files, clocks, randomness and threads.
    pub environment: Environment,
    /// Knobs of experiments and proofs.
    pub(crate) research: ResearchOptions,
}

/// Knobs for experiments and proofs, which no product needs: feature `research`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "research"), allow(unreachable_pub, reason = "public with `research`"))]
pub struct ResearchOptions {
    /// The most bytes that caches may take, even if the budget allows more. For comparisons of
    /// caches of one size.
    pub cache_bytes_max: u64,
    /// The list of hot entries takes one part in this many of the data. For proofs with little
    /// data.
    pub hot_list_share: u64,
    /// Merge runs in which the seeks of scans have read as much as merging them costs. Off for
    /// comparisons of caches over one tree that must not change.
    pub seek_compactions: bool,
    /// How many bits of their hashes identify keys in the pointer cache. For proofs that
    /// colliding keys never change an answer.
    pub fingerprint_bits: u32,
}

impl Default for ResearchOptions {
    fn default() -> Self {
        Self {
            cache_bytes_max: u64::MAX,
            hot_list_share: 100,
            seek_compactions: true,
            fingerprint_bits: u32::BITS,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            memory_budget: None,
            durability: Durability::Buffered,
            create_if_missing: true,
            read_only: false,
            direct_io: true,
            compaction_threads: None,
            compaction_bytes_per_s: None,
            memtable_bytes: None,
            table_bytes: 64 << 20,
            max_open_files: None,
            cache_policy: CachePolicy::default(),
            cross_check: false,
            warm_start: true,
            environment: Environment::default(),
            research: ResearchOptions::default(),
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`Options::memory_bytes`].
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Sets [`Options::memory_budget`].
    #[must_use]
    pub fn memory_budget(mut self, budget: MemoryBudget) -> Self {
        self.memory_budget = Some(budget);
        self
    }

    /// Sets [`Options::durability`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets [`Options::create_if_missing`].
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// Sets [`Options::read_only`].
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets [`Options::direct_io`].
    #[must_use]
    pub fn direct_io(mut self, direct: bool) -> Self {
        self.direct_io = direct;
        self
    }

    /// Sets [`Options::compaction_threads`].
    #[must_use]
    pub fn compaction_threads(mut self, threads: usize) -> Self {
        self.compaction_threads = Some(threads);
        self
    }

    /// Sets [`Options::compaction_bytes_per_s`].
    #[must_use]
    pub fn compaction_bytes_per_s(mut self, bytes: u64) -> Self {
        self.compaction_bytes_per_s = Some(bytes);
        self
    }

    /// Sets [`Options::memtable_bytes`].
    #[must_use]
    pub fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.memtable_bytes = Some(bytes);
        self
    }

    /// Sets [`Options::table_bytes`].
    #[must_use]
    pub fn table_bytes(mut self, bytes: u64) -> Self {
        self.table_bytes = bytes;
        self
    }

    /// Sets [`Options::max_open_files`].
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Self {
        self.max_open_files = Some(files);
        self
    }

    /// Sets [`Options::cache_policy`].
    #[must_use]
    pub fn cache_policy(mut self, policy: impl Into<CachePolicy>) -> Self {
        self.cache_policy = policy.into();
        self
    }

    /// Sets [`Options::cross_check`].
    #[must_use]
    pub fn cross_check(mut self, check: bool) -> Self {
        self.cross_check = check;
        self
    }

    /// Sets [`Options::warm_start`].
    #[must_use]
    pub fn warm_start(mut self, warm: bool) -> Self {
        self.warm_start = warm;
        self
    }

    /// Sets [`Options::environment`].
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The knobs of experiments.
    #[cfg(feature = "research")]
    pub fn research(&mut self) -> &mut ResearchOptions {
        &mut self.research
    }

    /// Sets the knobs of experiments.
    #[cfg(feature = "research")]
    #[must_use]
    pub fn with_research(mut self, set: impl FnOnce(&mut ResearchOptions)) -> Self {
        set(&mut self.research);
        self
    }
}

/// The kind of filter that new tables get. A filter tells, without reading data, that a table does
/// not contain a key.
///
/// ```
/// use tidekv::{FilterKind, KeyspaceOptions};
///
/// let options = KeyspaceOptions::new().filter_kind(FilterKind::Cuckoo).filter_bits_per_key(12);
/// assert_eq!(options.filter_kind.name(), "cuckoo");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterKind {
    /// Blocked Bloom filters: one cache line a lookup.
    #[default]
    Bloom,
    /// Cuckoo filters with dynamic seeds (SpotKV): fewer than half the false positives of Bloom
    /// filters at the same number of bits, and a key that passes twice by mistake is repaired
    /// soon after (at most a thousand keys a second). A lookup reads two cache lines; a filter
    /// takes half a bit more per key, at most 0.7 with repairs, and two bytes per key on storage.
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

/// The settings of a keyspace. The manifest stores them; opening an existing keyspace with
/// other settings changes them for new tables.
///
/// ```
/// use std::time::Duration;
/// use tidekv::{Compression, KeyspaceOptions};
///
/// let options = KeyspaceOptions::new()
///     .compression(Compression::Lz4)
///     .compression_last(Compression::Zstd)
///     .default_ttl(Duration::from_secs(3600));
/// assert_eq!(options.block_bytes, 4096);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The kind of filters.
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

impl KeyspaceOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`KeyspaceOptions::compression`].
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets [`KeyspaceOptions::compression_last`].
    #[must_use]
    pub fn compression_last(mut self, compression: Compression) -> Self {
        self.compression_last = compression;
        self
    }

    /// Sets [`KeyspaceOptions::block_bytes`].
    #[must_use]
    pub fn block_bytes(mut self, bytes: u32) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// Sets [`KeyspaceOptions::filter_bits_per_key`].
    #[must_use]
    pub fn filter_bits_per_key(mut self, bits: u8) -> Self {
        self.filter_bits_per_key = bits;
        self
    }

    /// Sets [`KeyspaceOptions::filter_kind`].
    #[must_use]
    pub fn filter_kind(mut self, kind: FilterKind) -> Self {
        self.filter_kind = kind;
        self
    }

    /// Sets [`KeyspaceOptions::default_ttl`].
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = Some(ttl);
        self
    }
}
