//! SKELETON of the public face, to be filled: signatures are what they will be.
#![allow(missing_docs, unused_variables, clippy::todo, reason = "skeleton")]
use std::ops::RangeBounds;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::batch::{KeyspaceRef, WriteBatch};
use crate::error::Result;
use crate::options::{Durability, KeyspaceOptions, Options};
use crate::stats::Statistics;

/// A store; cheap to clone, `Send + Sync`.
#[derive(Debug, Clone)]
pub struct Db {}
/// A named, ordered map inside a store; cheap to clone.
#[derive(Debug, Clone)]
pub struct Keyspace {}
/// A moment of the store that reads can go back to.
#[derive(Debug)]
pub struct Snapshot {}
/// Reads and writes that take effect together, if nothing that was read has
/// changed meanwhile (optimistic).
#[derive(Debug)]
pub struct Transaction {}
/// The state of a key at a moment, for [`Transaction::require_unchanged`].
#[derive(Debug, Clone)]
pub struct Watch {}
/// A walk over a range of keys, from both ends.
#[derive(Debug)]
pub struct Iter {}

/// A value with its deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub value: Bytes,
    /// Milliseconds since 1970 at which the entry is gone.
    pub expires_at_ms: Option<u64>,
}

/// The answer of a read that never waits for storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cached<T> {
    Ready(T),
    /// Storage would have to be read: ask again with a blocking read.
    WouldBlock,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    Done,
    /// Something that was read has changed: nothing was written.
    Conflict,
}

impl Db {
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> { todo!() }
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> { todo!() }
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> { todo!() }
    pub fn keyspace_names(&self) -> Vec<String> { todo!() }
    pub fn path(&self) -> &Path { todo!() }
    pub fn write(&self, batch: WriteBatch) -> Result<()> { todo!() }
    pub fn write_with(&self, batch: WriteBatch, durability: Durability) -> Result<()> { todo!() }
    pub fn transaction(&self) -> Transaction { todo!() }
    pub fn watch(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Watch> { todo!() }
    pub fn snapshot(&self) -> Snapshot { todo!() }
    /// Everything written so far stands in tables afterwards.
    pub fn flush(&self) -> Result<()> { todo!() }
    /// Everything acknowledged so far is on stable storage afterwards.
    pub fn sync(&self) -> Result<()> { todo!() }
    pub fn compact(&self) -> Result<()> { todo!() }
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> { todo!() }
    pub fn statistics(&self) -> Statistics { todo!() }
    pub fn memory_bytes(&self) -> u64 { todo!() }
    pub fn set_memory_bytes(&self, bytes: u64) { todo!() }
    /// Milliseconds since 1970 by the store's clock.
    pub fn unix_ms(&self) -> u64 { todo!() }
    /// Waits for background work, syncs the log, gives up the lock.
    pub fn close(&self) -> Result<()> { todo!() }
}

impl Keyspace {
    pub fn name(&self) -> &str { todo!() }
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> { todo!() }
    pub fn get_entry(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>> { todo!() }
    pub fn try_get_cached(&self, key: impl AsRef<[u8]>) -> Result<Cached<Option<Entry>>> { todo!() }
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Entry>>> { todo!() }
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> { todo!() }
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> { todo!() }
    pub fn put_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()> { todo!() }
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> { todo!() }
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> { todo!() }
    /// Deletes every key, in one range deletion.
    pub fn clear(&self) -> Result<()> { todo!() }
    /// Sets `key` to `new` (deletes it for `None`) if it holds `expected` now.
    pub fn compare_and_set(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> { todo!() }
    /// Adds to a decimal integer (0 when missing; keeps the deadline).
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: i64) -> Result<i64> { todo!() }
    pub fn iter(&self) -> Iter { todo!() }
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter { todo!() }
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter { todo!() }
    /// Keys and values in ascending order, straight into tables.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, sorted: impl IntoIterator<Item = (K, V)>) -> Result<u64> { todo!() }
    pub fn flush(&self) -> Result<()> { todo!() }
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> { todo!() }
    /// Entries, counting overwritten and deleted ones that are not compacted yet.
    pub fn approximate_len(&self) -> u64 { todo!() }
    /// Bytes of table files.
    pub fn storage_bytes(&self) -> u64 { todo!() }
}

impl Snapshot {
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> { todo!() }
    pub fn get_entry(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Entry>> { todo!() }
    pub fn iter(&self, keyspace: &Keyspace) -> Iter { todo!() }
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter { todo!() }
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter { todo!() }
}

impl Transaction {
    /// Reads through the transaction's own writes; commit fails with
    /// [`Commit::Conflict`] when the key has changed since.
    pub fn get(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Entry>> { todo!() }
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) { todo!() }
    pub fn put_until(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8], expires_at_ms: Option<u64>) { todo!() }
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) { todo!() }
    /// Deletes all keys in `[start, end)`, own writes included.
    pub fn delete_range(&mut self, keyspace: &Keyspace, start: &[u8], end: &[u8]) { todo!() }
    /// All entries under `prefix`, own writes included, in order. Not checked
    /// for conflicts: read a key that every writer touches as well.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Result<Vec<(Bytes, Entry)>> { todo!() }
    pub fn require_unchanged(&mut self, watch: &Watch) { todo!() }
    pub fn is_read_only(&self) -> bool { todo!() }
    pub fn commit(self, durability: Durability) -> Result<Commit> { todo!() }
}

impl Iter {
    /// Skips the values: entries come with empty ones.
    #[must_use]
    pub fn keys_only(self) -> Self { todo!() }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Entry)>;
    fn next(&mut self) -> Option<Self::Item> { todo!() }
}
impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> { todo!() }
}

impl From<&Keyspace> for KeyspaceRef {
    fn from(keyspace: &Keyspace) -> Self { todo!() }
}
