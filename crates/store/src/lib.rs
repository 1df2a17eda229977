//! TideKV: a durable, ordered key-value store that is embedded in a program.
//!
//! Open a [`Db`], take a [`Keyspace`] from it, read and write. Modules are
//! declared bottom-up; a module names only modules above it. Where to start
//! reading: `docs/internals/architecture.md` follows a read, a write and a recovery
//! through the files.

mod sync;
pub mod error;
pub mod options;
mod format;
pub mod stats;
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
pub use api::iter::{Entry, EntryRef, Iter};
pub use api::keyspace::{Cached, Keyspace};
pub use api::snapshot::Snapshot;
pub use api::transaction::{Commit, GATHERED_BYTES_MAX, Transaction, Watch};
pub use batch::{BATCH_BYTES_MAX, KeyspaceRef, WriteBatch};
pub use bytes::Bytes;
pub use engine::Attempt;
pub use error::{Error, ErrorKind, Result};
pub use format::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX, prefix_end};
#[cfg(feature = "research")]
pub use options::ResearchOptions;
pub use options::cache_policy::{CachePolicy, InvalidCachePolicy};
pub use options::{Compression, Durability, Environment, FilterKind, KeyspaceOptions, Options};
pub use stats::{Histogram, Latency, LatencyCounts, Statistics};
pub use tidekv_cache::Tier;
pub use tidekv_io::{
    Clock, Executor, File, InlineExecutor, LocalStorage, ManualClock, MemoryStorage, Random,
    SeededRandom, Storage, SystemClock, SystemRandom, ThreadPool,
};
#[doc(hidden)]
pub use tools::fuzzing;
pub use tools::{check, inspect};
