//! Iterators over the entries of a keyspace, from both ends.
//!
//! An iterator sees the store at the moment of its creation: it holds the view and the sequence
//! number of that moment. It reads nothing before the first entry is requested.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::key::Sequence;
use crate::lifecycle::handle::Handle;
use crate::read::visible::{KeyRange, Moved, VisibleCursor};
use crate::version::tree::Tree;
use crate::version::view::View;

/// A value with its expiry time.
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// # let keyspace = db.keyspace("default")?;
/// use std::time::Duration;
///
/// keyspace.put("forever", "1")?;
/// keyspace.put_with_ttl("session", "2", Duration::from_secs(60))?;
/// assert_eq!(keyspace.get_entry("forever")?.unwrap().expires_at_ms, None);
/// let entry = keyspace.get_entry("session")?.unwrap();
/// assert_eq!(entry.value, "2");
/// assert!(entry.expires_at_ms.unwrap() > db.unix_ms());
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value. A long one (512 bytes and more) may share the memory of the block that it was
    /// read from, at most five times its length, and keeps that memory, which does not count toward
    /// the budget, for as long as the value lives: copy the values that you keep.
    pub value: Bytes,
    /// Milliseconds since 1970 at which the entry expires; `None`: never.
    pub expires_at_ms: Option<u64>,
}

/// An entry with its key, borrowed from an [`Iter`] by [`Iter::next_ref`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value; empty in an iterator over [keys only](Iter::keys_only).
    pub value: &'a [u8],
    /// Milliseconds since 1970 at which the entry expires; `None`: never.
    pub expires_at_ms: Option<u64>,
}

/// The result of [`Iter::next_within`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextWithin {
    /// The next key and its entry.
    Entry(Bytes, Entry),
    /// The limit was reached at this key. Neither it nor any key skipped before it has an entry.
    SkipLimit(Bytes),
    /// The range has no more entries.
    End,
}

/// An iterator over a range of keys in ascending order, and from its back in descending order. It
/// sees the keyspace at the moment of its creation; entries that expire later are still returned.
/// While it lives, the tables that it reads keep their space on storage.
///
/// An item is a key with its [`Entry`], or an error, which ends the iterator.
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// # let keyspace = db.keyspace("default")?;
/// for key in ["a", "b", "c"] {
///     keyspace.put(key, "value")?;
/// }
/// let mut iter = keyspace.iter();
/// keyspace.put("d", "not seen")?;
/// let (first, _) = iter.next().unwrap()?;
/// let (last, _) = iter.next_back().unwrap()?;
/// assert_eq!((&first[..], &last[..]), (&b"a"[..], &b"c"[..]));
/// assert_eq!(iter.count(), 1);
/// # Ok::<(), tidekv::Error>(())
/// ```
pub struct Iter {
    view: Arc<View>,
    range: KeyRange,
    sequence: Sequence,
    now_ms: u64,
    keys_only: bool,
    front: Option<VisibleCursor>,
    back: Option<VisibleCursor>,
    /// The ends have met, or a read has failed.
    is_done: bool,
    /// The error of the first item: the store is closed or the keyspace was dropped.
    refused: Option<Error>,
    /// The last field: dropped after the view.
    handle: ReaderHandle,
}

/// The store of a reader. Dropping it schedules the removal of tables that only this reader used.
#[derive(Debug)]
struct ReaderHandle(Arc<Handle>);

impl Drop for ReaderHandle {
    fn drop(&mut self) {
        let engine = self.0.engine();
        if engine.trees.has_obsolete() {
            engine.remove_obsolete_tables_later(Duration::ZERO);
        }
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("range", &self.range)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// The range in terms of an included start and an excluded end.
pub(crate) fn key_range<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    // The first key behind `key` is `key` with a zero byte.
    let behind = |key: &[u8]| -> Box<[u8]> { [key, &[0]].concat().into() };
    KeyRange {
        start: match range.start_bound() {
            Bound::Included(key) => Some(key.as_ref().into()),
            Bound::Excluded(key) => Some(behind(key.as_ref())),
            Bound::Unbounded => None,
        },
        end: match range.end_bound() {
            Bound::Included(key) => Some(behind(key.as_ref())),
            Bound::Excluded(key) => Some(key.as_ref().into()),
            Bound::Unbounded => None,
        },
    }
}

impl Iter {
    /// An iterator over `range` of `tree` at the snapshot `at`; `None`: at the current state.
    pub(crate) fn new(
        handle: &Arc<Handle>,
        tree: &Tree,
        range: KeyRange,
        at: Option<Sequence>,
    ) -> Self {
        let engine = handle.engine();
        engine.expect_seeks();
        let view = tree.view_full();
        let sequence = at.unwrap_or_else(|| engine.snapshots.visible());
        // After the view, which is empty when the keyspace was dropped.
        let refused = engine.jobs.check_open().and_then(|()| tree.check_exists()).err();
        let now_ms = engine.clock.unix_ms();
        Self {
            view,
            range,
            sequence,
            now_ms,
            keys_only: false,
            front: None,
            back: None,
            is_done: false,
            refused,
            handle: ReaderHandle(Arc::clone(handle)),
        }
    }

    /// The same, but an iterator whose first item is `error`, if it is given.
    pub(crate) fn refused_by(mut self, error: Option<Error>) -> Self {
        self.refused = error.or(self.refused);
        self
    }

    /// Returns the error of a refused iterator, once.
    pub(crate) fn check_refused(&mut self) -> Result<()> {
        let refused = self.refused.take();
        self.is_done |= refused.is_some();
        refused.map_or(Ok(()), Err)
    }

    /// Returns entries with empty values, which saves copying them.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("key", "a long value")?;
    /// let (key, entry) = keyspace.iter().keys_only().next().unwrap()?;
    /// assert_eq!((&key[..], &entry.value[..]), (&b"key"[..], &b""[..]));
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }

    /// Starts again: the iterator returns the same entries as it did at first, whatever was written
    /// or has expired since.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("a", "1")?;
    /// let mut iter = keyspace.iter();
    /// assert_eq!(iter.by_ref().count(), 1);
    /// keyspace.put("b", "2")?;
    /// iter.rewind();
    /// assert_eq!(iter.count(), 1);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn rewind(&mut self) {
        self.front = None;
        self.back = None;
        self.is_done = false;
    }

    fn cursor(&self) -> VisibleCursor {
        self.cursor_over(self.range.clone())
    }

    /// A cursor over another range of the same view.
    pub(crate) fn cursor_over(&self, range: KeyRange) -> VisibleCursor {
        let blocks = &self.handle.0.engine().reads.blocks;
        VisibleCursor::new(&self.view, blocks, range, self.sequence, self.now_ms)
    }

    /// The view that is read.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Returns the next entry in ascending order, like [`Iter::next`](Iterator::next), but
    /// borrowed: its bytes are valid until the iterator is used again, and nothing is allocated or
    /// copied.
    ///
    /// # Errors
    ///
    /// As for the items of the iterator; an error ends it.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.ingest([("a", "10"), ("b", "200")])?;
    /// let mut iter = keyspace.iter();
    /// let mut bytes = 0;
    /// while let Some(entry) = iter.next_ref()? {
    ///     bytes += entry.value.len();
    /// }
    /// assert_eq!(bytes, 5);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn next_ref(&mut self) -> Result<Option<EntryRef<'_>>> {
        if self.is_done || self.step_front(&mut { u64::MAX })? != Moved::ToEntry {
            return Ok(None);
        }
        let cursor = self.front.as_ref().expect("it was moved just now");
        let (value, expires_at_ms) = cursor.value();
        let value = if self.keys_only { &[] } else { value };
        Ok(Some(EntryRef { key: cursor.key(), value, expires_at_ms }))
    }

    /// Returns the next entry in ascending order, or [`NextWithin::SkipLimit`] after `skips_left`
    /// deleted or expired keys. Each skipped key reduces `skips_left` by 1, however many versions it
    /// has. The next call, also of `next` or `next_back`, continues after the last skipped key. A call
    /// with 0 may still skip one key, so every call makes progress.
    ///
    /// An iterator passes deleted keys one by one until compactions remove them. The limit keeps a call
    /// short, like `max_skippable_internal_keys` of RocksDB, but it counts keys, not versions, and
    /// reaching it is no error. Keys that were written after the iterator was created do not count.
    ///
    /// # Errors
    ///
    /// As for the items of the iterator; an error ends it.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// use tidekv::NextWithin;
    ///
    /// for key in ["a", "b", "c"] {
    ///     keyspace.put(key, "value")?;
    ///     keyspace.delete(key)?;
    /// }
    /// let mut iter = keyspace.iter();
    /// let mut skips_left = 2;
    /// assert_eq!(iter.next_within(&mut skips_left)?, NextWithin::SkipLimit("b".into()));
    /// skips_left = 2;
    /// assert_eq!(iter.next_within(&mut skips_left)?, NextWithin::End);
    /// assert_eq!(skips_left, 1);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn next_within(&mut self, skips_left: &mut u64) -> Result<NextWithin> {
        if self.is_done {
            return Ok(NextWithin::End);
        }
        let moved = self.step_front(skips_left)?;
        let front = self.front.as_ref().expect("it was moved just now");
        Ok(match moved {
            Moved::ToEntry => {
                let (key, entry) = self.item(front);
                NextWithin::Entry(key, entry)
            }
            Moved::SkipLimit => NextWithin::SkipLimit(Bytes::copy_from_slice(front.key())),
            Moved::ToEnd => NextWithin::End,
        })
    }

    fn item(&self, cursor: &VisibleCursor) -> (Bytes, Entry) {
        let (value, expires_at_ms) =
            if self.keys_only { (Bytes::new(), cursor.value().1) } else { cursor.value_bytes() };
        (Bytes::copy_from_slice(cursor.key()), Entry { value, expires_at_ms })
    }

    /// Moves the front; it is at the end when there is nothing before the back.
    fn step_front(&mut self, skips_left: &mut u64) -> Result<Moved> {
        self.check_refused()?;
        if self.front.is_none() {
            self.front = Some(self.cursor());
        }
        let front = self.front.as_mut().expect("it was made just now");
        let moved = front.next_within(skips_left);
        if front.has_seen_expired() {
            self.handle.0.engine().note_expired();
        }
        let is_before_back = || self.back.as_ref().is_none_or(|back| front.key() < back.key());
        self.is_done =
            !(matches!(moved, Ok(Moved::ToEntry | Moved::SkipLimit)) && is_before_back());
        moved.map(|moved| if self.is_done { Moved::ToEnd } else { moved })
    }

    /// Moves the back; false when there is nothing behind the front.
    fn step_back(&mut self) -> Result<bool> {
        self.check_refused()?;
        if self.back.is_none() {
            self.back = Some(self.cursor());
        }
        let back = self.back.as_mut().expect("it was made just now");
        let moved = back.prev();
        if back.has_seen_expired() {
            self.handle.0.engine().note_expired();
        }
        let is_behind_front = || self.front.as_ref().is_none_or(|front| back.key() > front.key());
        self.is_done = !(matches!(moved, Ok(true)) && is_behind_front());
        moved.map(|_| !self.is_done)
    }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Entry)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        match self.step_front(&mut { u64::MAX }) {
            Ok(Moved::ToEntry) => self.front.as_ref().map(|front| Ok(self.item(front))),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        match self.step_back() {
            Ok(true) => self.back.as_ref().map(|back| Ok(self.item(back))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for Iter {}
