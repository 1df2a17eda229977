//! TideKV: a durable, ordered key-value store that is embedded in a program.
//!
//! Modules are declared bottom-up; a module names only modules above it. Where
//! to start reading: `docs/ARCHITECTURE.md` follows a read, a write and a
//! recovery through the files.

pub mod error;
pub mod options;
mod checksum;
mod coding;
mod key;
pub mod stats;
pub mod batch;
mod range_tombstones;
mod filter;
mod block;
mod blocks;
mod cursor;
mod table;
mod db;

pub use batch::{KeyspaceRef, WriteBatch};
pub use bytes::Bytes;
pub use db::{Cached, Commit, Db, Entry, Iter, Keyspace, Snapshot, Transaction, Watch};
pub use error::{Error, ErrorKind, Result};
pub use key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use options::{Compression, Durability, Environment, KeyspaceOptions, Options};
