//! [`Transaction`]: reads and writes that take effect together, or not at all.
//!
//! Optimistic: nothing is locked. A transaction takes a snapshot at its first read, reads it
//! through its own writes, and records the keys that it has read. The commit leader checks that
//! none of them was written since the snapshot (`write.rs`); if one was, nothing is written and
//! the caller starts over. So committed transactions are serializable, as far as they read single
//! keys.
//!
//! The check uses memtables. If they no longer reach back far enough, because of a flush in
//! between, the commit looks the key up in the tree before it is submitted; the snapshot has kept
//! flushes and compactions from dropping or renumbering anything that was written after it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::api::iter::Entry;
use crate::api::keyspace::{Cached, Keyspace};
use crate::api::snapshot::Snapshot;
use crate::batch::{Operations, WriteBatch, is_in_range};
use crate::engine::{Attempt, Condition, Written};
use crate::error::{Error, Result};
use crate::format::key::{Kind, Sequence, split_deadline};
use crate::lifecycle::handle::Handle;
use crate::options::Durability;
use crate::read::visible::KeyRange;

/// The outcome of [`Transaction::commit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a transaction that met a conflict has written nothing"]
pub enum Commit {
    /// The writes are committed.
    Done,
    /// A key that was read or watched has changed: nothing was written. Start over.
    Conflict,
}

/// The state of a key at a moment, for [`Transaction::require_unchanged`]; made by
/// [`Db::watch`](crate::Db::watch). Holds a snapshot: while it lives, the versions that the
/// snapshot sees keep their space on storage.
#[derive(Debug, Clone)]
pub struct Watch {
    keyspace: Keyspace,
    key: Box<[u8]>,
    snapshot: Snapshot,
    ignores_range_deletions: bool,
}

impl Watch {
    pub(crate) fn new(handle: &Arc<Handle>, keyspace: &Keyspace, key: &[u8]) -> Self {
        let snapshot = Snapshot::new(Arc::clone(handle));
        Self {
            keyspace: keyspace.clone(),
            key: key.into(),
            snapshot,
            ignores_range_deletions: false,
        }
    }

    /// For a key without a value: a range deletion, which leaves it without one, does not count as
    /// a change as long as memtables have all writes since the watch was created. (Later it does:
    /// a value that was written and deleted in between may have left no trace.)
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// use tidekv::{Commit, Durability};
    ///
    /// let watch = db.watch(&keyspace, "absent")?.ignoring_range_deletions();
    /// keyspace.delete_range("a", "b")?;
    /// let mut transaction = db.transaction();
    /// transaction.require_unchanged(&watch);
    /// transaction.put(&keyspace, "key", "value");
    /// assert_eq!(transaction.commit(Durability::Buffered)?, Commit::Done);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    #[must_use]
    pub fn ignoring_range_deletions(mut self) -> Self {
        self.ignores_range_deletions = true;
        self
    }

    /// Whether this watch is of `key` in `keyspace`.
    pub fn is_of(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> bool {
        self.keyspace == *keyspace && *self.key == *key.as_ref()
    }

    /// The condition that the key was not written since, in a form that memtables can check;
    /// `None` if it was written. Looks the key up only where memtables cannot answer, or if
    /// `must_look`.
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
        Condition {
            tree,
            key: self.key.clone(),
            unchanged_since,
            ignores_range_deletions: self.ignores_range_deletions,
        }
    }
}

/// The maximum total size of keys and values that [`Transaction::prefix`] returns: 64 MiB.
pub const TRANSACTION_SCAN_BYTES_MAX: usize = 64 << 20;

type KeyId = (u32, Box<[u8]>);

/// Keyspace, start and end (excluded; empty: none) of a range deletion.
type Deleted = (u32, Box<[u8]>, Box<[u8]>);

/// Reads and writes that take effect together, if no key that was read has changed meanwhile
/// (optimistic concurrency). Dropping a transaction without a [commit](Transaction::commit)
/// discards its writes.
///
/// A commit may meet a conflict; start the transaction over then:
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// # let keyspace = db.keyspace("default")?;
/// use tidekv::{Commit, Durability};
///
/// keyspace.put("alice", "100")?;
/// keyspace.put("bob", "0")?;
/// loop {
///     let mut transaction = db.transaction();
///     let mut read = |key| -> tidekv::Result<i64> {
///         let entry = transaction.get(&keyspace, key)?.expect("the account exists");
///         Ok(String::from_utf8_lossy(&entry.value).parse().expect("a number"))
///     };
///     let (alice, bob) = (read("alice")?, read("bob")?);
///     transaction.put(&keyspace, "alice", (alice - 30).to_string());
///     transaction.put(&keyspace, "bob", (bob + 30).to_string());
///     if transaction.commit(Durability::Buffered)? == Commit::Done {
///         break;
///     }
/// }
/// assert_eq!(keyspace.get("alice")?.unwrap(), "70");
/// assert_eq!(keyspace.get("bob")?.unwrap(), "30");
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug)]
pub struct Transaction {
    handle: Arc<Handle>,
    batch: WriteBatch,
    /// Up to this byte the batch is indexed in `written` and `deleted`. Only reads need the
    /// index, so writes without later reads cost no more than their space in the batch.
    indexed_bytes: usize,
    /// The result of the writes for each key; `None`: deleted.
    written: BTreeMap<KeyId, Option<Entry>>,
    /// The ranges they delete.
    deleted: Vec<Deleted>,
    /// The state that is read; taken at the first read.
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

    /// Returns the entry of `key`, including own writes. The commit returns [`Commit::Conflict`] if
    /// another writer changes the key before it.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// use tidekv::{Commit, Durability};
    ///
    /// let mut transaction = db.transaction();
    /// assert_eq!(transaction.get(&keyspace, "key")?, None);
    /// keyspace.put("key", "from elsewhere")?;
    /// transaction.put(&keyspace, "key", "from here");
    /// assert_eq!(transaction.get(&keyspace, "key")?.unwrap().value, "from here");
    /// assert_eq!(transaction.commit(Durability::Buffered)?, Commit::Conflict);
    /// assert_eq!(keyspace.get("key")?.unwrap(), "from elsewhere");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn get(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        keyspace.check_store(self.handle.engine())?;
        let key = key.as_ref();
        match self.own(keyspace, key) {
            Some(entry) => Ok(entry),
            None => self.snapshot_watching(keyspace, key).get_entry(keyspace, key),
        }
    }

    /// Like [`Transaction::get`], if memory alone can answer. See [`Cached`].
    pub fn try_get_cached(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Cached<Option<Entry>>> {
        keyspace.check_store(self.handle.engine())?;
        let key = key.as_ref();
        match self.own(keyspace, key) {
            Some(entry) => Ok(Cached::Ready(entry)),
            None => self.snapshot_watching(keyspace, key).try_get_cached(keyspace, key),
        }
    }

    /// The result of the own writes for `key`; `None`: they do not touch it.
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
                    let (tree, start) = id;
                    let end = operation.payload;
                    let from = self.written.range_mut((tree, start.clone())..);
                    from.take_while(|((id, key), _)| *id == tree && is_in_range(key, &start, end))
                        .for_each(|(_, entry)| *entry = None);
                    self.deleted.push((tree, start, end.into()));
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
            ignores_range_deletions: false,
        });
        snapshot
    }

    fn snapshot(&mut self) -> Snapshot {
        let handle = &self.handle;
        self.snapshot.get_or_insert_with(|| Snapshot::new(Arc::clone(handle))).clone()
    }

    /// Sets `key` to `value`. The default time to live of the keyspace, if any, starts at the
    /// commit.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.batch.put(keyspace, key, value);
    }

    /// Sets `key` to `value` for the time to live `ttl`, which starts at the commit.
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) {
        self.batch.put_with_ttl(keyspace, key, value, ttl);
    }

    /// Sets `key` to `value` until `expires_at_ms` (milliseconds since 1970, on the clock of
    /// [`Db::unix_ms`](crate::Db::unix_ms)).
    pub fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: u64,
    ) {
        self.batch.put_until(keyspace, key, value, expires_at_ms);
    }

    /// Sets `key` to `value` without a deadline, whatever the default of the keyspace.
    pub fn put_without_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        self.batch.put_without_ttl(keyspace, key, value);
    }

    /// Deletes `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.batch.delete(keyspace, key);
    }

    /// Deletes every key from `start` (inclusive) to `end` (exclusive), including own writes.
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) {
        self.batch.delete_range(keyspace, start, end);
    }

    /// Deletes every key from `start` on, including own writes; an empty `start` deletes all keys of the
    /// keyspace. See [`WriteBatch::delete_from`].
    pub fn delete_from(&mut self, keyspace: &Keyspace, start: impl AsRef<[u8]>) {
        self.batch.delete_from(keyspace, start);
    }

    /// Whether a range deletion of this transaction covers `key`, as far as it
    /// was not written again (which `written` knows).
    fn is_deleted(&self, tree: u32, key: &[u8]) -> bool {
        self.deleted.iter().any(|(id, start, end)| *id == tree && is_in_range(key, start, end))
    }

    /// Returns all entries whose keys start with `prefix`, in order, including own writes.
    ///
    /// Not checked for conflicts: to detect changes, also read a key that every writer of the
    /// prefix touches.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if keys and values have more
    /// than [`TRANSACTION_SCAN_BYTES_MAX`] bytes, because they are collected in memory.
    pub fn prefix(
        &mut self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<Vec<(Bytes, Entry)>> {
        keyspace.check_store(self.handle.engine())?;
        let prefix = prefix.as_ref();
        self.index();
        let id = keyspace.tree().id;
        let mut entries: BTreeMap<Bytes, Entry> = BTreeMap::new();
        let mut bytes = 0;
        for item in self.snapshot().prefix(keyspace, prefix) {
            let (key, entry) = item?;
            bytes += key.len() + entry.value.len();
            if bytes > TRANSACTION_SCAN_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "a transaction cannot scan more than {TRANSACTION_SCAN_BYTES_MAX} bytes at once"
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

    /// Makes the commit return [`Commit::Conflict`] if the watched key has changed since the watch
    /// was created.
    pub fn require_unchanged(&mut self, watch: &Watch) {
        self.watches.push(watch.clone());
    }

    /// Whether there are no writes.
    pub fn is_read_only(&self) -> bool {
        self.batch.is_empty()
    }

    /// Commits all writes in one step, unless a key that was read or watched has changed.
    ///
    /// # Errors
    ///
    /// As for [`Db::write`](crate::Db::write). A conflict is not an error but
    /// [`Commit::Conflict`].
    pub fn commit(mut self, durability: Durability) -> Result<Commit> {
        let mut must_look = false;
        loop {
            let mut conditions = Vec::new();
            for watch in self.watches.iter().chain(self.reads.values()) {
                watch.keyspace.check_store(self.handle.engine())?;
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

    /// Like [`Transaction::commit`] with [`Durability::Buffered`], if that needs to wait neither
    /// for another writer nor for room in memory nor for storage. Otherwise nothing is written, and
    /// the transaction is dropped.
    ///
    /// For event loops. The log's bytes are handed to the operating system here; one that is short
    /// of memory may block even that.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// use tidekv::Attempt;
    ///
    /// let mut transaction = db.transaction();
    /// transaction.put(&keyspace, "key", "value");
    /// match transaction.try_commit()? {
    ///     Attempt::Done => assert!(keyspace.contains("key")?),
    ///     Attempt::Conflict => unreachable!("nothing was read"),
    ///     Attempt::Busy => { /* try again soon */ }
    ///     Attempt::WouldBlock => { /* commit on a thread that may wait */ }
    /// }
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn try_commit(self) -> Result<Attempt> {
        let mut conditions = Vec::with_capacity(self.watches.len() + self.reads.len());
        for watch in self.watches.iter().chain(self.reads.values()) {
            watch.keyspace.check_store(self.handle.engine())?;
            if watch.is_beyond_memtables() {
                return Ok(Attempt::WouldBlock);
            }
            conditions.push(watch.condition_since(watch.snapshot.sequence()));
        }
        self.handle.engine().try_write(self.batch, conditions)
    }
}
