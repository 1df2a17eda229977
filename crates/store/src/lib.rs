//! TideKV: a durable, ordered key-value store that is embedded in a program.
//!
//! Open a [`Db`], take a [`Keyspace`] from it, read and write. Modules are
//! declared bottom-up; a module names only modules above it. Where to start
//! reading: `docs/ARCHITECTURE.md` follows a read, a write and a recovery
//! through the files.

mod sync;
pub mod error;
pub mod options;
mod checksum;
mod coding;
mod key;
mod range_tombstones;
pub mod stats;

mod files;
mod names;
mod log;
mod manifest;

pub mod batch;
mod queue;
mod budget;
mod throttle;
mod quiet;
mod scan_lengths;
mod seeks;
mod unlearning;
mod cold_lookups;
mod places;
mod list_file;
mod hot_list;
mod hottest;

mod filter;
mod learned_list;
mod block;
mod block_tier;
mod block_address;
mod blocks;
mod cursor;
mod table;

mod arena;
mod sorted_list;
mod memtable;

mod levels;
mod run_cursor;
mod view;
mod tree;
mod question;
mod point_read;
mod merge;
mod visible;
mod retain;
mod notices;
mod heat;
mod lending;
mod compaction;

mod engine;
mod logs;
mod background;
mod compactor;
mod flusher;
mod unlearner;
mod write;
mod listing;
mod warm_start;
mod recovery;
mod upkeep;

mod handle;
mod iter;
mod keyspace;
mod snapshot;
mod transaction;
mod db;

pub mod inspect;
pub mod check;
#[doc(hidden)]
pub mod fuzzing;

pub use batch::{BATCH_BYTES_MAX, KeyspaceRef, WriteBatch};
pub use bytes::Bytes;
pub use db::Db;
pub use engine::Attempt;
pub use error::{Error, ErrorKind, Result};
pub use iter::{Entry, Iter, Lent};
pub use key::{KEY_BYTES_MAX, VALUE_BYTES_MAX, prefix_end};
pub use keyspace::{Cached, Keyspace};
pub use options::{Compression, Durability, Environment, FilterKind, KeyspaceOptions, Options};
pub use snapshot::Snapshot;
pub use stats::{Histogram, Latency, LatencyCounts, Statistics};
pub use tidekv_cache::{CachePolicy, Idea, Ideas, NoSuchPolicy, Tier};
pub use transaction::{Commit, GATHERED_BYTES_MAX, Transaction, Watch};
