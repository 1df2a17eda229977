//! A keyspace as its user sees it: a named, ordered map.

use std::hash::{Hash, Hasher};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};

use crate::api::iter::{Entry, Iter, key_range};
use crate::batch::{KeyspaceRef, WriteBatch};
use crate::engine::{Condition, Engine, Written};
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

/// A named, ordered map inside a store; cheap to clone, `Send + Sync`.
///
/// Keys are 1 B to 64 KiB, values up to 256 MiB. Writes return once they are as
/// durable as the store's options say.
#[derive(Debug, Clone)]
pub struct Keyspace {
    handle: Arc<Handle>,
    tree: Arc<Tree>,
}

/// The answer of a read that never waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cached<T> {
    /// The answer, from memory.
    Ready(T),
    /// Storage would have to be read: ask again with a read that waits.
    WouldBlock,
}

/// One read in so many is timed: two looks at the clock cost a tenth of a read
/// from memory.
const READS_PER_SAMPLE: u64 = 16;

/// What a version says now: an entry, or nothing when it is a deletion or past its deadline.
pub(crate) fn entry_of(resolved: Option<Resolved>, engine: &Engine) -> Option<Entry> {
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

/// The value that a version says, with its deadline, which may have passed; nothing if it
/// is a deletion.
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
        let ttl = keyspace.tree.default_ttl();
        let default_deadline_ms = ttl.map(|ttl| keyspace.deadline_after(ttl));
        Self { id: keyspace.tree.id, instance: keyspace.engine().instance, default_deadline_ms }
    }
}

/// Two handles are equal when they are of the same keyspace of the same open store.
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
    /// Sets `key` to `value` for the time to live `ttl`, which begins now.
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) {
        self.put_until(keyspace, key, value, keyspace.deadline_after(ttl));
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

    /// The settings that new tables are written with.
    pub fn options(&self) -> KeyspaceOptions {
        self.tree.options().as_ref().clone()
    }

    /// The name it was created under.
    pub fn name(&self) -> &str {
        &self.tree.name
    }

    fn deadline_after(&self, ttl: Duration) -> u64 {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.engine().clock.unix_ms().saturating_add(ttl_ms)
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

    /// As [`Keyspace::resolve`], with what `see` makes of the version where it lies. It may
    /// run under a lock: it is to be short.
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

    /// The value of `key`. A long one may share memory with its neighbours, see
    /// [`Entry::value`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_entry(key)?.map(|entry| entry.value))
    }

    /// Puts the value of `key` in place of what `value` holds; whether there is one. With a
    /// buffer that is used again this is the fastest read: the value is copied once, into the
    /// buffer.
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

    /// The value of `key` and its deadline.
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

    /// The entry of `key`, if it (or its absence) can be told from memory alone.
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

    /// The entries of many keys, as of one moment. Blocks that must come from
    /// storage are read together.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Entry>>> {
        self.read_many(keys, None)
    }

    /// The entries of many keys at the snapshot `at`, or now.
    pub(crate) fn read_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        at: Option<Sequence>,
    ) -> Result<Vec<Option<Entry>>> {
        keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
        let engine = self.engine();
        engine.jobs.check_open()?;
        let lots = engine.stats.gets.add(keys.len() as u64)..;
        let begun = self.begin_read(at, |prepared| {
            keys.iter().map(|key| prepared.prepare(key.as_ref())).collect::<Vec<_>>()
        });
        let reads =
            begun.keys.iter().zip(lots).map(|(&key, lot)| {
                PointRead::new(begun.lookup(key), key.epoch).with_sample_id(lot)
            });
        let resolved = point_read::read_many(reads, &engine.reads)?;
        engine.schedule_filter_repair();
        Ok(resolved.into_iter().map(|resolved| entry_of(resolved, engine)).collect())
    }

    /// All entries, as of now.
    pub fn iter(&self) -> Iter {
        self.walk(KeyRange::default())
    }

    /// The entries of a range of keys, as of now.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        self.walk(key_range(&range))
    }

    /// The entries whose keys begin with `prefix`, as of now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(KeyRange::prefix(prefix.as_ref()))
    }

    fn walk(&self, range: KeyRange) -> Iter {
        let view = self.tree.view_full();
        let sequence = self.engine().snapshots.visible();
        Iter::new(&self.handle, view, range, sequence)
    }

    /// Entries in tables and memtables. Overwritten and deleted ones that are
    /// not compacted yet count as well.
    pub fn approximate_len(&self) -> u64 {
        let view = self.tree.view();
        let in_tables: u64 = view
            .version
            .tables()
            .map(|t| t.meta().entries.saturating_sub(2 * t.meta().tombstones))
            .sum();
        in_tables + view.memtables().map(|memtable| memtable.entries() as u64).sum::<u64>()
    }

    /// Bytes of table files.
    pub fn storage_bytes(&self) -> u64 {
        self.tree.view().version.tables().map(|table| table.meta().bytes).sum()
    }

    /// About how many bytes of table files the range takes.
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

    /// Sets `key` to `value`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(self, key.as_ref(), value.as_ref());
        self.write(batch)
    }

    /// Sets `key` to `value` for as long as `ttl`.
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_until(self, key.as_ref(), value.as_ref(), self.deadline_after(ttl));
        self.write(batch)
    }

    /// Removes `key`; no error when it is not there.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(self, key.as_ref());
        self.write(batch)
    }

    /// Removes every key from `start` up to `end` (exclusive), in one step.
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(self, start.as_ref(), end.as_ref());
        self.write(batch)
    }

    /// Removes every key that is there now, in one step.
    pub fn clear(&self) -> Result<()> {
        let Some((last, _)) = self.iter().keys_only().next_back().transpose()? else {
            return Ok(());
        };
        self.delete_range(b"", [&last[..], &[0]].concat())
    }

    /// Sets `key` to `new` (removes it for `None`) if its value is `expected`
    /// (`None`: if it has none); whether it did. A deadline is dropped.
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.read_modify_write(key, |current, batch| {
            if current.map(|entry| &*entry.value) != expected {
                return Ok((false, false));
            }
            match new {
                Some(value) => batch.put(self, key, value),
                None => batch.delete(self, key),
            }
            Ok((true, true))
        })
    }

    /// Adds `delta` to the decimal number that `key` holds (0 when it holds
    /// none) and returns the sum. A deadline is kept. Fails when the value is
    /// no 64-bit integer or the sum does not fit one.
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: i64) -> Result<i64> {
        let key = key.as_ref();
        self.read_modify_write(key, |current, batch| {
            let number = match current {
                None => 0,
                Some(entry) => std::str::from_utf8(&entry.value)
                    .ok()
                    .and_then(|text| text.parse::<i64>().ok())
                    .ok_or_else(|| Error::invalid("the value is not a decimal 64-bit integer"))?,
            };
            let sum = number
                .checked_add(delta)
                .ok_or_else(|| Error::invalid("the sum does not fit a 64-bit integer"))?;
            let text = sum.to_string();
            match current.and_then(|entry| entry.expires_at_ms) {
                Some(deadline) => batch.put_until(self, key, text.as_bytes(), deadline),
                None => batch.put(self, key, text.as_bytes()),
            }
            Ok((sum, true))
        })
    }

    /// Reads `key`, lets `modify` fill a batch, and writes it if the key has
    /// not changed meanwhile; else starts over. Each round that fails means
    /// that another writer has succeeded.
    fn read_modify_write<T>(
        &self,
        key: &[u8],
        mut modify: impl FnMut(Option<&Entry>, &mut WriteBatch) -> Result<(T, bool)>,
    ) -> Result<T> {
        let engine = self.engine();
        engine.check_writable()?;
        loop {
            let (resolved, seen) = self.resolve(key, None)?;
            let current = entry_of(resolved, engine);
            let mut batch = WriteBatch::new();
            let (outcome, writes) = modify(current.as_ref(), &mut batch)?;
            if !writes {
                return Ok(outcome);
            }
            let condition =
                Condition { tree: Arc::clone(&self.tree), key: key.into(), unchanged_since: seen };
            if engine.write(batch, engine.options.durability, vec![condition])? == Written::Done {
                return Ok(outcome);
            }
        }
    }

    // ---- Upkeep ----

    /// Brings everything written so far into tables.
    pub fn flush(&self) -> Result<()> {
        self.engine().flush(&[Arc::clone(&self.tree)])
    }

    /// Compacts every table that may hold keys of the range as far down as it
    /// goes; what was deleted, overwritten or has expired there leaves the
    /// storage (unless a snapshot still sees it).
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let range = key_range(&range);
        self.flush()?;
        self.engine().compact_range(&self.tree, range.start.as_deref(), range.end.as_deref())
    }
}

#[cfg(test)]
mod tests;
