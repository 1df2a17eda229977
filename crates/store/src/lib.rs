//! TideKV is a durable, ordered key-value store that runs inside a Rust program. It is a
//! log-structured merge tree (LSM) with one memory budget, which its caches divide among hot
//! values, pointers and blocks by themselves.
//!
//! ```
//! use tidekv::{Db, Durability, Options, WriteBatch};
//!
//! # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
//! # let environment = tidekv::Environment::default().storage(disk);
//! let options = Options::new().memory_bytes(64 << 20);
//! # let options = options.environment(environment);
//! let db = Db::open("data", options)?;
//! let fruits = db.keyspace("fruits")?;
//!
//! fruits.put("apple", "red")?;
//! assert_eq!(fruits.get("apple")?.unwrap(), "red");
//!
//! let mut batch = WriteBatch::new();
//! batch.put(&fruits, "banana", "yellow");
//! batch.put(&fruits, "cherry", "red");
//! batch.delete(&fruits, "apple");
//! db.write_with(batch, Durability::Sync)?; // all or nothing, and safe from a power cut
//!
//! for entry in fruits.range("b"..) {
//!     let (key, entry) = entry?;
//!     println!("{key:?} = {:?}", entry.value);
//! }
//! db.close()?;
//! # Ok::<(), tidekv::Error>(())
//! ```
//!
//! The programs in [`examples/`](https://github.com/tidekv/tidekv/tree/main/crates/store/examples)
//! show more: secondary indexes, expiry, pagination, counters, tokio, backups and a simulated disk.
//!
//! # Keyspaces
//!
//! A store consists of named, ordered maps, the [keyspaces](Keyspace): [`Db::keyspace`] opens or
//! creates one. Each has its own compression, block size, filters and default time to live
//! ([`KeyspaceOptions`]). All keyspaces of a store share one log and one memory budget, so one
//! batch or transaction can change several of them atomically. Keys have 1 byte to 64 KiB, values
//! up to 256 MiB; both are anything that is `AsRef<[u8]>`.
//!
//! One process can open a directory for writing; others can open it with [`Options::read_only`].
//! [`Db`], [`Keyspace`] and [`Snapshot`] are cheap to clone and can be used from any thread.
//!
//! # Reads and iterators
//!
//! [`Keyspace::get`] returns one value, [`Keyspace::get_into`] copies it into a buffer that you
//! reuse, and [`Keyspace::multi_get`] reads several keys as of one moment. [`Keyspace::iter`],
//! [`range`](Keyspace::range) and [`prefix`](Keyspace::prefix) return an [`Iter`] over keys in
//! order, from both ends. [`Iter::next_ref`] returns entries without an allocation or a copy.
//!
//! # Batches
//!
//! A [`WriteBatch`] takes effect completely or not at all, in all its keyspaces, also after a
//! crash. [`Keyspace::compare_and_set`] and [`Keyspace::increment`] change one key atomically;
//! [`Keyspace::delete_range`] deletes a range in one step; [`Keyspace::ingest`] loads sorted data
//! several times faster than single writes.
//!
//! # Transactions
//!
//! A [`Transaction`] reads and writes several keys and commits if no key that it read has changed
//! meanwhile; otherwise the commit returns [`Commit::Conflict`] and writes nothing. Start it over
//! then. Transactions take no locks, so they neither block each other nor deadlock.
//!
//! # Snapshots
//!
//! A [`Snapshot`] is the state of all keyspaces at one moment. Reads through it do not see later
//! writes. [`Db::checkpoint`] creates a consistent copy of the whole store in another directory.
//!
//! # TTLs
//!
//! [`Keyspace::put_with_ttl`] sets a value that expires, and [`KeyspaceOptions::default_ttl`]
//! applies to every value written without a time to live of its own by [`Keyspace::put`] and
//! [`WriteBatch::put`]. Reads do not return expired entries (an iterator judges by the time of its creation); compactions
//! remove them from storage.
//!
//! # Caches and memory
//!
//! [`Options::memory_bytes`] is the budget for everything: memtables, caches, metadata and reads in
//! flight. All stores that are opened without it share the budget of the process: an eighth of the
//! memory that it may use, at most 256 MiB. A [`MemoryBudget`] is for stores that share another one.
//! A batch may take a quarter of the store's budget. Under the
//! default [`CachePolicy`], memory moves to the cache where it saves the most reads of storage; no
//! sizes have to be set. [`Db::set_memory_bytes`] changes the budget at run time, and
//! [`Db::statistics`] shows its use. The content of the caches survives a clean restart
//! ([`Options::warm_start`]).
//!
//! # Durability
//!
//! | [`Durability`] | a write returns when | it survives |
//! |---|---|---|
//! | [`Buffered`](Durability::Buffered) (default) | the operating system has it | a killed process |
//! | [`Sync`](Durability::Sync) | it is on stable storage | a power cut |
//!
//! Choose for the whole store with [`Options::durability`], for one batch with [`Db::write_with`]
//! and for one transaction with [`Transaction::commit`]. Concurrent writers share one sync. After a
//! power cut, the store holds everything that was synced, and the unsynced writes up to one of
//! them, without holes.
//!
//! # Use from async code
//!
//! Calls may wait for storage, so run them with `tokio::task::spawn_blocking` or on threads of your
//! own. Two kinds of calls never wait and can run on an event loop: `try_get_cached` (of
//! [keyspaces](Keyspace::try_get_cached), [snapshots](Snapshot::try_get_cached) and
//! [transactions](Transaction::try_get_cached)), which answers from memory or returns
//! [`Cached::WouldBlock`], and [`Transaction::try_commit`], which returns an [`Attempt`].
//!
//! # Errors
//!
//! Every [`Error`] has an [`ErrorKind`], which tells the caller how to react, and a message that
//! names the file, the key or the limit. Damaged files and full disks are errors, never panics.
//!
//! # Features
//!
//! All but the last are on by default.
//!
//! - `lz4`, `zstd`: [compression](Compression) of tables.
//! - `uring`: batches of reads through io_uring, where the kernel allows it.
//! - `research`: policies and settings of experiments, for the lab of this project. Not covered by
//!   semantic versioning.
//!
//! # Testing with the simulated disk
//!
//! Files, clocks, randomness and threads are parts of an [`Environment`]. With [`MemoryStorage`] a
//! store lives in memory, and [`MemoryStorage::after_power_loss`] returns the disk after a power
//! cut, so that your own tests can check what your program finds then. [`ManualClock`] moves only
//! when a test advances it, and [`InlineExecutor`] runs background work in the calling thread,
//! which makes runs repeatable.
//!
//! # For contributors
//!
//! Modules are declared bottom-up: a module names only modules declared above it;
//! `docs/internals/architecture.md` follows a read, a write and a recovery through the files.

mod sync;
pub mod error;
pub mod options;
mod format;
mod stats;
mod wal;
pub mod batch;
mod sst;
mod memtable;
mod version;
mod read;
mod compaction;
mod warm;
mod engine;
mod jobs;
mod write;
mod lifecycle;
mod api;
mod tools;

pub use api::db::Db;
pub use api::iter::{Entry, EntryRef, Iter, NextWithin};
pub use api::keyspace::{Cached, Keyspace};
pub use api::sampling::Draw;
pub use api::snapshot::Snapshot;
pub use api::transaction::{Commit, TRANSACTION_SCAN_BYTES_MAX, Transaction, Watch};
pub use batch::{BATCH_BYTES_MAX, KeyspaceRef, WriteBatch};
pub use bytes::Bytes;
pub use engine::Attempt;
pub use error::{Error, ErrorKind, Result};
pub use format::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX, prefix_end};
#[cfg(feature = "research")]
pub use options::ResearchOptions;
pub use options::cache_policy::{CachePolicy, InvalidCachePolicy};
pub use options::memory_budget::MemoryBudget;
pub use options::{Compression, Durability, Environment, FilterKind, KeyspaceOptions, Options};
pub use stats::groups as statistics;
pub use stats::{Histogram, Latency, LatencyCounts, Statistics};
pub use tidekv_cache::SecondaryCache;
pub use tidekv_io::{
    Clock, Executor, Fault, FaultRule, File, InlineExecutor, LocalStorage, ManualClock,
    MemoryStorage, Random, SeededRandom, Storage, SystemClock, SystemRandom, Tear, ThreadPool,
};
#[doc(hidden)]
pub use tools::fuzzing;
pub use tools::{check, inspect};
