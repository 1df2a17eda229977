//! [`Keyspace`]: a named, ordered map within a store; its reads, writes and maintenance.
//! `Send + Sync`; all methods take `&self`.

use std::hash::{Hash, Hasher};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};

use crate::api::iter::{Entry, Iter, key_range};
use crate::batch::{KeyspaceRef, Ttl, WriteBatch};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::key::{KEY_BYTES_MAX, Kind, Sequence, Trailer, split_deadline};
use crate::lifecycle::handle::Handle;
use crate::options::KeyspaceOptions;
use crate::read::begin_read::{BegunRead, ReadKeys, begin_read};
use crate::read::point_lookup::Payload;
use crate::read::point_read::{self, PointRead, ReadStep, Resolved};
use crate::read::visible::KeyRange;
use crate::version::levels::TableHandle;
use crate::version::tree::Tree;

/// A named, ordered map within a store; cheap to clone, `Send + Sync`.
///
/// Keys have 1 byte to 64 KiB and are ordered bytewise; values have up to 256 MiB. Keys and values
/// are anything that is `AsRef<[u8]>`. Writes return once they are as durable as
/// [`Options::durability`](crate::Options::durability) says.
///
/// Handles compare equal if they are of the same keyspace of the same open store. A handle to a
/// dropped keyspace stays invalid, even after a keyspace with the same name is created.
///
/// # Errors
///
/// Reads and writes fail with [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) after
/// [`Db::drop_keyspace`](crate::Db::drop_keyspace).
///
/// Every method fails with [`ErrorKind::Closed`](crate::ErrorKind::Closed) after
/// [`Db::close`](crate::Db::close), and with
/// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for a key that is empty or too long.
/// Reads fail with [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) or
/// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if a table cannot be read. Writes fail like
/// [`Db::write`](crate::Db::write).
#[derive(Debug, Clone)]
pub struct Keyspace {
    handle: Arc<Handle>,
    tree: Arc<Tree>,
}

/// The result of a read that never waits for storage.
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// # let keyspace = db.keyspace("default")?;
/// use tidekv::Cached;
///
/// keyspace.put("key", "value")?;
/// let entry = match keyspace.try_get_cached("key")? {
///     Cached::Ready(entry) => entry,
///     Cached::WouldBlock => keyspace.get_entry("key")?, // on a thread that may wait
/// };
/// assert_eq!(entry.unwrap().value, "value");
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cached<T> {
    /// The answer, from memory.
    Ready(T),
    /// Storage would have to be read: repeat the read with a method that waits.
    WouldBlock,
}

/// One read in this many is timed: reading the clock twice costs a tenth of a read from memory.
const READS_PER_SAMPLE: u64 = 16;

/// The entry of a version at present; `None` for a deletion or an expired entry.
pub(crate) fn entry_of(resolved: Option<Resolved>, engine: &Arc<Engine>) -> Option<Entry> {
    let Resolved { trailer, payload } = resolved?;
    let (expires_at_ms, value) = value_in(trailer, payload.as_slice())?;
    if !engine.is_ahead(expires_at_ms) {
        return None;
    }
    let len = value.len();
    let mut value = payload.into_bytes();
    // A slice of bytes that nobody shares yet would allocate.
    value.advance(value.len() - len);
    Some(Entry { value, expires_at_ms })
}

/// The value of a version with its deadline, which may have passed; `None` for a deletion.
fn value_in(trailer: Trailer, payload: &[u8]) -> Option<(Option<u64>, &[u8])> {
    match trailer.kind() {
        Kind::Value => Some((None, payload)),
        Kind::Expiring => split_deadline(payload).map(|(deadline, value)| (Some(deadline), value)),
        Kind::Delete | Kind::RangeDelete => None,
    }
}

#[inline]
fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        0 => Err(Error::invalid("a key must have at least 1 byte")),
        len if len > KEY_BYTES_MAX => Err(Error::invalid(format!(
            "a key of {len} bytes is longer than {KEY_BYTES_MAX} bytes"
        ))),
        _ => Ok(()),
    }
}

impl From<&Keyspace> for KeyspaceRef {
    fn from(keyspace: &Keyspace) -> Self {
        let default_ttl = keyspace.tree.default_ttl().map(|ttl| keyspace.ttl(ttl));
        Self { id: keyspace.tree.id, instance: keyspace.engine().instance, default_ttl }
    }
}

/// Two handles are equal if they are of the same keyspace of the same open store.
impl PartialEq for Keyspace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree)
    }
}

impl Eq for Keyspace {}

impl Hash for Keyspace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.engine().instance, self.tree.id).hash(state);
    }
}

impl WriteBatch {
    /// Sets `key` to `value` for the time to live `ttl` (in whole milliseconds), which starts when
    /// the batch is written.
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) {
        self.put_for(keyspace.into(), key.as_ref(), value.as_ref(), keyspace.ttl(ttl));
    }
}

impl Keyspace {
    pub(crate) fn new(handle: Arc<Handle>, tree: Arc<Tree>) -> Self {
        Self { handle, tree }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.handle.engine()
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The settings with which new tables are written.
    pub fn options(&self) -> KeyspaceOptions {
        self.tree.options().as_ref().clone()
    }

    /// The name of the keyspace.
    pub fn name(&self) -> &str {
        &self.tree.name
    }

    /// Fails if the keyspace is not one of `engine`'s store.
    pub(crate) fn check_store(&self, engine: &Engine) -> Result<()> {
        match self.engine().instance == engine.instance {
            true => Ok(()),
            false => Err(Error::invalid("the keyspace belongs to another store")),
        }
    }

    fn ttl(&self, ttl: Duration) -> Ttl {
        let ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Ttl { ms, estimate_ms: self.engine().clock.unix_ms().saturating_add(ms) }
    }

    // ---- Reads ----

    /// The newest version of `key` that a reader sees at the snapshot `at`, or
    /// now; and a sequence up to which every write is known to have been seen.
    ///
    /// The second is not the sequence that is read at: when the memtable is
    /// put aside between the look at the view and the look at `visible`, writes
    /// of the new memtable are visible but not in the view. That makes the read
    /// an earlier one, which is fine, but it must not vouch for those writes.
    pub(crate) fn resolve(
        &self,
        key: &[u8],
        at: Option<Sequence>,
    ) -> Result<(Option<Resolved>, Sequence)> {
        self.resolve_with(key, at, Resolved::new)
    }

    /// Like [`Keyspace::resolve`], but returns the result of `see`, which gets the version
    /// without a copy. `see` may run under a lock, so it must be short.
    #[inline]
    fn resolve_with<R>(
        &self,
        key: &[u8],
        at: Option<Sequence>,
        see: impl FnMut(Trailer, Payload<'_>) -> R,
    ) -> Result<(Option<R>, Sequence)> {
        check_key(key)?;
        let engine = self.engine();
        engine.jobs.check_open()?;
        let lot = engine.stats.gets.add(1);
        let is_timed = lot.is_multiple_of(READS_PER_SAMPLE);
        let started = if is_timed { engine.clock.monotonic_ns() } else { 0 };
        let read = self.begin_read(at, |keys| keys.prepare(key));
        self.tree.check_exists()?;
        let lookup = read.lookup(read.keys);
        let resolved = point_read::answer(lookup, read.keys.epoch, lot, &engine.reads, see)?;
        engine.schedule_filter_repair();
        if is_timed {
            engine.stats.get_ns.record(engine.clock.monotonic_ns().saturating_sub(started));
        }
        Ok((resolved, read.reader.known))
    }

    /// Begins a read at the snapshot `at`, or now.
    #[inline]
    fn begin_read<K>(
        &self,
        at: Option<Sequence>,
        prepare: impl FnOnce(ReadKeys<'_>) -> K,
    ) -> BegunRead<'_, K> {
        let engine = self.engine();
        let visible = || engine.snapshots.visible();
        begin_read(&engine.reads.caches, &self.tree, at, visible, prepare)
    }

    /// Returns the value of `key`. A long value may share the memory of its block: see
    /// [`Entry::value`].
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("apple", "red")?;
    /// assert_eq!(keyspace.get("apple")?.unwrap(), "red");
    /// assert_eq!(keyspace.get(b"pear")?, None);
    /// assert!(keyspace.get("").is_err(), "a key has at least one byte");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_entry(key)?.map(|entry| entry.value))
    }

    /// Replaces the content of `value` with the value of `key`, and returns whether there is one;
    /// clears `value` if not. With a reused buffer this is the fastest read: the value is copied
    /// once, into the buffer, and nothing is allocated.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("apple", "red")?;
    /// let mut value = Vec::new();
    /// assert!(keyspace.get_into("apple", &mut value)?);
    /// assert_eq!(value, b"red");
    /// assert!(!keyspace.get_into("pear", &mut value)?);
    /// assert!(value.is_empty());
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let (deadline, _) = self.resolve_with(key.as_ref(), None, |trailer, payload| {
            let (deadline, bytes) = value_in(trailer, payload.as_slice())?;
            value.extend_from_slice(bytes);
            Some(deadline)
        })?;
        let is_there = deadline.flatten().is_some_and(|at| self.engine().is_ahead(at));
        if !is_there {
            value.clear();
        }
        Ok(is_there)
    }

    /// Returns the value of `key` with its expiry time. See [`Entry`].
    pub fn get_entry(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        Ok(entry_of(self.resolve(key.as_ref(), None)?.0, self.engine()))
    }

    /// Whether `key` has a value.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (deadline, _) = self.resolve_with(key.as_ref(), None, |trailer, payload| {
            Some(value_in(trailer, payload.as_slice())?.0)
        })?;
        Ok(deadline.flatten().is_some_and(|at| self.engine().is_ahead(at)))
    }

    /// Returns the entry of `key`, if memory alone can answer, also that there is none. Never waits
    /// for storage: for event loops. See [`Cached`].
    pub fn try_get_cached(&self, key: impl AsRef<[u8]>) -> Result<Cached<Option<Entry>>> {
        self.try_read(key.as_ref(), None)
    }

    /// The entry of `key` at the snapshot `at`, or now, from memory alone.
    pub(crate) fn try_read(
        &self,
        key: &[u8],
        at: Option<Sequence>,
    ) -> Result<Cached<Option<Entry>>> {
        check_key(key)?;
        let engine = self.engine();
        engine.jobs.check_open()?;
        let begun = self.begin_read(at, |keys| keys.prepare(key));
        self.tree.check_exists()?;
        let lot = engine.stats.gets.of_this_thread();
        let lookup = begun.lookup(begun.keys);
        let mut read = PointRead::new(lookup, begun.keys.epoch).with_sample_id(lot);
        match read.step(&engine.reads, None)? {
            ReadStep::Need(_) => Ok(Cached::WouldBlock),
            ReadStep::Done(resolved) => {
                engine.stats.gets.add(1);
                Ok(Cached::Ready(entry_of(resolved, engine)))
            }
        }
    }

    /// Returns the entries of several keys, in their order, as of one moment. Blocks that have to
    /// be read from storage are read together.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("a", "1")?;
    /// keyspace.put("c", "3")?;
    /// let entries = keyspace.multi_get(&["a", "b", "c"])?;
    /// let found: Vec<bool> = entries.iter().map(Option::is_some).collect();
    /// assert_eq!(found, [true, false, true]);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Entry>>> {
        self.read_many(keys, usize::MAX, None)
    }

    /// Like [`Keyspace::multi_get`], but returns only the entries of the first keys, at least one,
    /// if all would take more than about `bytes_max` bytes. Storage is not read beyond that either.
    pub fn multi_get_up_to<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        bytes_max: usize,
    ) -> Result<Vec<Option<Entry>>> {
        self.read_many(keys, bytes_max, None)
    }

    /// The entries of many keys at the snapshot `at`, or now, up to about `bytes_max` bytes.
    pub(crate) fn read_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        bytes_max: usize,
        at: Option<Sequence>,
    ) -> Result<Vec<Option<Entry>>> {
        keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
        let engine = self.engine();
        engine.jobs.check_open()?;
        let lots = engine.stats.gets.add(keys.len() as u64)..;
        let begun = self.begin_read(at, |prepared| {
            keys.iter().map(|key| prepared.prepare(key.as_ref())).collect::<Vec<_>>()
        });
        self.tree.check_exists()?;
        let reads =
            begun.keys.iter().zip(lots).map(|(&key, lot)| {
                PointRead::new(begun.lookup(key), key.epoch).with_sample_id(lot)
            });
        let resolved = point_read::read_up_to(reads, bytes_max, &engine.reads)?;
        engine.schedule_filter_repair();
        Ok(resolved.into_iter().map(|resolved| entry_of(resolved, engine)).collect())
    }

    /// Returns an iterator over all entries. See [`Iter`].
    pub fn iter(&self) -> Iter {
        self.walk(KeyRange::default())
    }

    /// Returns an iterator over the entries of a range of keys.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// for key in ["2025-12-31", "2026-01-01", "2026-06-30", "2027-01-01"] {
    ///     keyspace.put(key, "")?;
    /// }
    /// let mut year = keyspace.range("2026".."2027");
    /// assert_eq!(year.next().unwrap()?.0, "2026-01-01");
    /// assert_eq!(year.next().unwrap()?.0, "2026-06-30");
    /// assert!(year.next().is_none());
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        self.walk(key_range(&range))
    }

    /// Returns an iterator over the entries whose keys start with `prefix`.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.ingest([("post/1", "a"), ("user/1", "b"), ("user/2", "c")])?;
    /// let newest = keyspace.prefix("user/").next_back().unwrap()?;
    /// assert_eq!(newest.0, "user/2");
    /// assert_eq!(keyspace.prefix("user/").count(), 2);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(KeyRange::prefix(prefix.as_ref()))
    }

    fn walk(&self, range: KeyRange) -> Iter {
        Iter::new(&self.handle, &self.tree, range, None)
    }

    /// Roughly the number of entries: those in tables and memtables. Overwritten and deleted
    /// entries count until they are compacted.
    pub fn approximate_len(&self) -> u64 {
        let view = self.tree.view();
        let in_tables: u64 = view
            .version
            .tables()
            .map(|t| t.meta().entries.saturating_sub(2 * t.meta().tombstones))
            .sum();
        in_tables + view.memtables().map(|memtable| memtable.entries() as u64).sum::<u64>()
    }

    /// Bytes of the table files.
    pub fn storage_bytes(&self) -> u64 {
        self.tree.view().version.tables().map(|table| table.meta().bytes).sum()
    }

    /// Roughly the number of bytes of table files that the range takes.
    pub fn approximate_bytes<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> u64 {
        let range = key_range(&range);
        let (start, end) = (range.start.as_deref(), range.end.as_deref());
        let view = self.tree.view();
        let tables = view.version.tables().filter(|table| table.overlaps(start, end));
        let part = |table: &Arc<TableHandle>| {
            let before = |key: &[u8]| table.table().approximate_offset_of(key);
            let until = end.map_or(table.meta().bytes, before);
            until.saturating_sub(start.map_or(0, before))
        };
        tables.map(part).sum()
    }

    // ---- Writes ----

    fn write(&self, batch: WriteBatch) -> Result<()> {
        let engine = self.engine();
        engine.write(batch, engine.options.durability, Vec::new()).map(|_| ())
    }

    /// Sets `key` to `value`. If the keyspace has a default time to live, it applies.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("text", "as str")?;
    /// keyspace.put(42_u64.to_be_bytes(), vec![1, 2, 3])?; // big-endian numbers sort by value
    /// assert_eq!(keyspace.get(42_u64.to_be_bytes())?.unwrap(), &[1_u8, 2, 3][..]);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(self, key.as_ref(), value.as_ref());
        self.write(batch)
    }

    /// Sets `key` to `value` for the time to live `ttl` (in whole milliseconds), which starts now.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use tidekv::{Db, Environment, ManualClock, MemoryStorage, Options};
    ///
    /// let clock = Arc::new(ManualClock::new(0));
    /// let environment =
    ///     Environment::default().storage(Arc::new(MemoryStorage::new())).clock(clock.clone());
    /// let db = Db::open("data", Options::new().environment(environment))?;
    /// let sessions = db.keyspace("sessions")?;
    /// sessions.put_with_ttl("token", "user-7", Duration::from_secs(60))?;
    /// assert!(sessions.contains("token")?);
    /// clock.advance(Duration::from_secs(60));
    /// assert!(!sessions.contains("token")?);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_with_ttl(self, key, value, ttl);
        self.write(batch)
    }

    /// Deletes `key`. Not an error if it does not exist.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("key", "value")?;
    /// keyspace.delete("key")?;
    /// keyspace.delete("key")?;
    /// assert_eq!(keyspace.get("key")?, None);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(self, key.as_ref());
        self.write(batch)
    }

    /// Deletes every key from `start` (inclusive) to `end` (exclusive), in one step that costs the
    /// same for any number of keys. No effect if `end` is not after `start`. Tables that the range
    /// covers are dropped, unread, unless a snapshot needs them.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.ingest([("a", ""), ("b", ""), ("c", "")])?;
    /// keyspace.delete_range("a", "c")?;
    /// assert_eq!(keyspace.iter().count(), 1);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(self, start.as_ref(), end.as_ref());
        self.write(batch)
    }

    /// Deletes every key from `start` on, in one step that costs the same for any number of keys. Tables
    /// of which nothing is left are dropped, unread, unless a snapshot needs them.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.ingest([("a", ""), ("b", ""), ("c", "")])?;
    /// keyspace.delete_from("b")?;
    /// assert_eq!(keyspace.iter().count(), 1);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn delete_from(&self, start: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_from(self, start);
        self.write(batch)
    }

    /// Deletes every key that exists now, in one step. The files of the tables are removed at once,
    /// unless a snapshot or an iterator needs them; this works on a full disk, too.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("key", "value")?;
    /// keyspace.clear()?;
    /// assert!(keyspace.iter().next().is_none());
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.delete_from(b"")
    }

    // ---- Upkeep ----

    /// Writes the memtable of this keyspace into tables, and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.tree.check_exists()?;
        self.engine().flush(&[Arc::clone(&self.tree)])
    }

    /// Compacts every table that may hold keys of the range down to the last level, and waits for
    /// it. Overwritten, deleted and expired entries of the range are dropped from storage, unless a
    /// snapshot still sees them.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("key", "old")?;
    /// keyspace.put("key", "new")?;
    /// keyspace.compact_range::<&str>(..)?;
    /// assert_eq!(keyspace.approximate_len(), 1);
    /// assert!(keyspace.storage_bytes() > 0);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let range = key_range(&range);
        self.flush()?;
        self.engine().compact_range(&self.tree, range.start.as_deref(), range.end.as_deref())
    }
}

#[cfg(test)]
mod tests;
