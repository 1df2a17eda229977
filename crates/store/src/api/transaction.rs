//! Reads and writes that take effect together, or not at all.
//!
//! Optimistic: nothing is locked. A transaction reads a snapshot, which it takes
//! at its first read, through its own writes, and remembers which keys it has
//! read. The commit leader checks that none of them was written since the
//! snapshot (`write.rs`); if one was, nothing is written and the caller starts
//! over. So committed transactions are serializable, as far as they read keys
//! one by one.
//!
//! Memtables answer that check. When they no longer reach back far enough,
//! because a flush came in between, the key is looked up in the tree before the
//! commit is handed in; the snapshot has kept flushes and compactions from
//! dropping or renumbering anything that was written after it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::api::iter::Entry;
use crate::api::keyspace::{Cached, Keyspace};
use crate::api::snapshot::Snapshot;
use crate::batch::{Operations, WriteBatch};
use crate::engine::{Attempt, Condition, Written};
use crate::error::{Error, Result};
use crate::format::key::{Kind, Sequence, split_deadline};
use crate::lifecycle::handle::Handle;
use crate::options::Durability;
use crate::read::visible::KeyRange;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a transaction that met a conflict has written nothing"]
pub enum Commit {
    /// Its writes are in.
    Done,
    /// A key that was read or watched has changed: nothing was written.
    Conflict,
}

/// The state of a key at a moment, for [`Transaction::require_unchanged`]. Holds
/// a snapshot: while it lives, the storage keeps what that sees.
#[derive(Debug, Clone)]
pub struct Watch {
    keyspace: Keyspace,
    key: Box<[u8]>,
    snapshot: Snapshot,
}

impl Watch {
    pub(crate) fn new(handle: &Arc<Handle>, keyspace: &Keyspace, key: &[u8]) -> Self {
        let snapshot = Snapshot::new(Arc::clone(handle));
        Self { keyspace: keyspace.clone(), key: key.into(), snapshot }
    }

    /// Whether it watches `key` of `keyspace`.
    pub fn is_of(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> bool {
        self.keyspace == *keyspace && *self.key == *key.as_ref()
    }

    /// The condition that the key was not written since, in terms that
    /// memtables can judge; `None` when it was written. The key is looked up
    /// only where memtables cannot tell, or when `must_look`.
    fn condition(&self, must_look: bool) -> Result<Option<Condition>> {
        let mut unchanged_since = self.snapshot.sequence();
        if must_look || self.is_beyond_memtables() {
            let (resolved, seen) = self.keyspace.resolve(&self.key, None)?;
            let written = resolved.map_or(0, |resolved| resolved.trailer.sequence());
            if written > unchanged_since {
                return Ok(None);
            }
            unchanged_since = seen.max(unchanged_since);
        }
        Ok(Some(self.condition_since(unchanged_since)))
    }

    /// Whether memtables no longer reach back to the watch's moment.
    fn is_beyond_memtables(&self) -> bool {
        self.keyspace.tree().flushed() > self.snapshot.sequence()
    }

    fn condition_since(&self, unchanged_since: Sequence) -> Condition {
        let tree = Arc::clone(self.keyspace.tree());
        Condition { tree, key: self.key.clone(), unchanged_since }
    }
}

/// Most bytes of keys and values that [`Transaction::prefix`] gathers.
pub const GATHERED_BYTES_MAX: usize = 64 << 20;

type KeyId = (u32, Box<[u8]>);

/// Keyspace, start and end (excluded) of a range deletion.
type Deleted = (u32, Box<[u8]>, Box<[u8]>);

/// Reads and writes that take effect together, if nothing that was read has
/// changed meanwhile. Dropping it without [`Transaction::commit`] forgets the
/// writes.
#[derive(Debug)]
pub struct Transaction {
    handle: Arc<Handle>,
    batch: WriteBatch,
    /// The first so many bytes of the batch are in `written` and `deleted`. Only
    /// reads need those, so writes that nothing is read after cost no more than
    /// their place in the batch.
    indexed_bytes: usize,
    /// What the writes make of each key; `None`: deleted.
    written: BTreeMap<KeyId, Option<Entry>>,
    /// The ranges they delete.
    deleted: Vec<Deleted>,
    /// What is read; taken at the first read.
    snapshot: Option<Snapshot>,
    /// The keys that were read.
    reads: HashMap<KeyId, Watch>,
    watches: Vec<Watch>,
}

impl Transaction {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self {
            handle,
            batch: WriteBatch::new(),
            indexed_bytes: 0,
            written: BTreeMap::new(),
            deleted: Vec::new(),
            snapshot: None,
            reads: HashMap::new(),
            watches: Vec::new(),
        }
    }

    /// The entry of `key`, own writes included. The commit fails with
    /// [`Commit::Conflict`] when another writer has changed it since.
    pub fn get(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        let key = key.as_ref();
        match self.own(keyspace, key) {
            Some(entry) => Ok(entry),
            None => self.snapshot_watching(keyspace, key).get_entry(keyspace, key),
        }
    }

    /// Like [`Transaction::get`], if memory alone can tell.
    pub fn try_get_cached(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Cached<Option<Entry>>> {
        let key = key.as_ref();
        match self.own(keyspace, key) {
            Some(entry) => Ok(Cached::Ready(entry)),
            None => self.snapshot_watching(keyspace, key).try_get_cached(keyspace, key),
        }
    }

    /// What its own writes make of `key`; `None`: they do not touch it.
    fn own(&mut self, keyspace: &Keyspace, key: &[u8]) -> Option<Option<Entry>> {
        if self.batch.is_empty() {
            return None;
        }
        self.index();
        let id = (keyspace.tree().id, Box::from(key));
        match self.written.get(&id) {
            Some(entry) => Some(entry.clone().filter(|entry| self.is_alive(entry))),
            None => self.is_deleted(id.0, key).then_some(None),
        }
    }

    /// Whether an own write is one that a reader would see.
    fn is_alive(&self, entry: &Entry) -> bool {
        self.handle.engine().is_ahead(entry.expires_at_ms)
    }

    /// Brings `written` and `deleted` up to date.
    fn index(&mut self) {
        let bytes = self.batch.accepted();
        for operation in Operations::new(&bytes[self.indexed_bytes..]).flatten() {
            let id = (operation.keyspace, Box::from(operation.key));
            let entry = match operation.kind {
                Kind::Value => (operation.payload, None),
                Kind::Expiring => {
                    let (deadline, value) =
                        split_deadline(operation.payload).expect("batches encode the deadline");
                    (value, Some(deadline))
                }
                Kind::Delete => {
                    self.written.insert(id, None);
                    continue;
                }
                Kind::RangeDelete => {
                    let end: Box<[u8]> = operation.payload.into();
                    for (_, entry) in self.written.range_mut(id.clone()..(id.0, end.clone())) {
                        *entry = None;
                    }
                    self.deleted.push((id.0, id.1, end));
                    continue;
                }
            };
            let (value, expires_at_ms) = (Bytes::copy_from_slice(entry.0), entry.1);
            self.written.insert(id, Some(Entry { value, expires_at_ms }));
        }
        self.indexed_bytes = bytes.len();
    }

    /// The snapshot, for a read of `key` that the commit is to check.
    fn snapshot_watching(&mut self, keyspace: &Keyspace, key: &[u8]) -> Snapshot {
        let snapshot = self.snapshot();
        let id = (keyspace.tree().id, Box::from(key));
        self.reads.entry(id).or_insert_with(|| Watch {
            keyspace: keyspace.clone(),
            key: key.into(),
            snapshot: snapshot.clone(),
        });
        snapshot
    }

    fn snapshot(&mut self) -> Snapshot {
        let handle = &self.handle;
        self.snapshot.get_or_insert_with(|| Snapshot::new(Arc::clone(handle))).clone()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_until(keyspace, key, value, None);
    }

    /// Sets `key` to `value` for the time to live `ttl`.
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) {
        self.batch.put_with_ttl(keyspace, key, value, ttl);
    }

    /// Sets `key` to `value`, until the deadline `expires_at_ms` (milliseconds since 1970) if
    /// there is one.
    pub fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: Option<u64>,
    ) {
        match expires_at_ms {
            Some(deadline) => self.batch.put_until(keyspace, key, value, deadline),
            None => self.batch.put_forever(keyspace, key.as_ref(), value.as_ref()),
        }
    }

    /// Removes `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.batch.delete(keyspace, key);
    }

    /// Removes all keys from `start` up to `end` (exclusive), own writes
    /// included.
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) {
        self.batch.delete_range(keyspace, start, end);
    }

    /// Whether a range deletion of this transaction covers `key`, as far as it
    /// was not written again (which `written` knows).
    fn is_deleted(&self, tree: u32, key: &[u8]) -> bool {
        self.deleted.iter().any(|(id, start, end)| *id == tree && **start <= *key && *key < **end)
    }

    /// All entries whose keys begin with `prefix`, own writes included, in
    /// order. Not checked for conflicts: read a key that every writer of the
    /// prefix touches as well. They are gathered in memory, so more than
    /// [`GATHERED_BYTES_MAX`] are refused.
    pub fn prefix(
        &mut self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<Vec<(Bytes, Entry)>> {
        let prefix = prefix.as_ref();
        self.index();
        let id = keyspace.tree().id;
        let mut entries: BTreeMap<Bytes, Entry> = BTreeMap::new();
        let mut bytes = 0;
        for item in self.snapshot().prefix(keyspace, prefix) {
            let (key, entry) = item?;
            bytes += key.len() + entry.value.len();
            if bytes > GATHERED_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "a transaction cannot walk over more than {GATHERED_BYTES_MAX} bytes at once"
                )));
            }
            if !self.is_deleted(id, &key) {
                entries.insert(key, entry);
            }
        }
        let range = KeyRange::prefix(prefix);
        let own = self
            .written
            .range((id, Box::from(prefix))..)
            .take_while(|((tree, key), _)| *tree == id && range.contains(key));
        for ((_, key), entry) in own {
            match entry.as_ref().filter(|entry| self.is_alive(entry)) {
                Some(entry) => entries.insert(Bytes::copy_from_slice(key), entry.clone()),
                None => entries.remove(&key[..]),
            };
        }
        Ok(entries.into_iter().collect())
    }

    /// The commit fails with [`Commit::Conflict`] when the watched key has
    /// changed since the watch was made.
    pub fn require_unchanged(&mut self, watch: &Watch) {
        self.watches.push(watch.clone());
    }

    /// Whether nothing is to be written.
    pub fn is_read_only(&self) -> bool {
        self.batch.is_empty()
    }

    /// Writes everything in one step, unless a key that was read or watched
    /// has changed.
    pub fn commit(mut self, durability: Durability) -> Result<Commit> {
        let mut must_look = false;
        loop {
            let mut conditions = Vec::new();
            for watch in self.watches.iter().chain(self.reads.values()) {
                let Some(condition) = watch.condition(must_look)? else {
                    return Ok(Commit::Conflict);
                };
                conditions.push(condition);
            }
            let engine = self.handle.engine();
            if self.batch.is_empty() && engine.options.read_only {
                return Ok(Commit::Done);
            }
            let batch = match conditions.is_empty() {
                true => std::mem::take(&mut self.batch),
                false => self.batch.clone(),
            };
            if engine.write(batch, durability, conditions)? == Written::Done {
                return Ok(Commit::Done);
            }
            // A key was written, or a flush since the conditions were made has
            // left memtables that cannot tell: then the keys themselves do, and
            // the commit is tried again. Each round more takes a flush.
            must_look = true;
        }
    }

    /// Like [`Transaction::commit`] with [`Durability::Buffered`], if that needs
    /// to wait neither for another writer nor for room in memory nor for
    /// storage. Otherwise nothing was written, and the transaction is gone.
    ///
    /// For event loops. The log's bytes are handed to the operating system
    /// here; one that is short of memory may hold up even that.
    pub fn try_commit(self) -> Result<Attempt> {
        let mut conditions = Vec::with_capacity(self.watches.len() + self.reads.len());
        for watch in self.watches.iter().chain(self.reads.values()) {
            if watch.is_beyond_memtables() {
                return Ok(Attempt::WouldBlock);
            }
            conditions.push(watch.condition_since(watch.snapshot.sequence()));
        }
        self.handle.engine().try_write(self.batch, conditions)
    }
}
