//! The memtable: recent writes, sorted, in memory, until they are flushed.
//!
//! Guarantees: reads never block and run concurrently with insertions; every read that starts after
//! an insertion returned finds the entry. A get for an absent key costs one cache line of the
//! whole-key filter.
//!
//! Relies on: insertions come from the commit pipeline, which owns the
//! [`Splice`]; a reader's sequence is published only after the insertion.
//!
//! Expired entries are returned as they are; the reader checks the deadline.

pub(crate) mod arena;
pub(crate) mod sorted_list;

use std::sync::Arc;

use crate::error::Result;
use crate::format::checksum::key_hash;
use crate::format::key::{Kind, LookupKey, Sequence, Trailer};
use crate::format::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::memtable::sorted_list::{Node, SortedList, Splice};
use crate::sst::cursor::{Cursor, Target};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, OnceLock, RwLock};
use crate::wal::LogPosition;

/// One filter byte for this many bytes of memtable: 16 bits for an entry of about 130 bytes with
/// its node, so one absent key in a few hundred passes.
const BYTES_PER_FILTER_BYTE: usize = 64;

/// Eight words are one cache line, the unit of the filter.
const WORDS_PER_LINE: usize = 8;

/// A Bloom filter over whole keys, with one cache line per key.
#[derive(Debug)]
struct KeyFilter {
    words: Box<[AtomicU64]>,
}

impl KeyFilter {
    fn new(bytes: usize) -> Self {
        let lines = (bytes / 64).max(1);
        Self { words: (0..lines * WORDS_PER_LINE).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Word and mask of the four bits of `hash`: two bits in each of two words of one line.
    fn bits(&self, hash: u64) -> [(usize, u64); 2] {
        let lines = self.words.len() / WORDS_PER_LINE;
        let line = ((u128::from(hash) * lines as u128) >> 64) as usize * WORDS_PER_LINE;
        let mask = |shift: u32| 1u64 << (hash >> shift & 63) | 1u64 << (hash >> (shift + 6) & 63);
        [(line + (hash & 7) as usize, mask(3)), (line + (hash >> 15 & 7) as usize, mask(18))]
    }

    fn insert(&self, hash: u64) {
        for (word, mask) in self.bits(hash) {
            let word = &self.words[word];
            if word.load(Ordering::Relaxed) & mask != mask {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    fn may_contain(&self, hash: u64) -> bool {
        self.bits(hash)
            .iter()
            .all(|&(word, mask)| self.words[word].load(Ordering::Relaxed) & mask == mask)
    }
}

/// A memtable's newest entry of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) trailer: Trailer,
    pub(crate) payload: &'a [u8],
}

/// A sorted buffer of recent writes.
#[derive(Debug)]
pub(crate) struct Memtable {
    list: SortedList,
    filter: OnceLock<KeyFilter>,
    filter_bytes: usize,
    tombstones: Tombstones,
    entries: AtomicUsize,
    /// How many of them are deletions.
    deletions: AtomicU64,
    /// The sequence of the newest entry.
    newest: AtomicU64,
    /// The log that holds its first write; 0 while it is empty.
    first_log: AtomicU64,
    /// Start of its writes in the logs.
    begins_at: LogPosition,
    /// Writes up to this one are in older memtables or tables.
    created_at: Sequence,
}

/// A memtable with this many tombstones is full: each fragment may hold every sequence over it, for
/// readers at all sequences, and the first read after a new tombstone rebuilds all fragments.
/// (Writers check this occasionally, and a batch is not split: it may add more.)
const TOMBSTONES_MAX: usize = 512;

/// Range tombstones in the order of insertion, and their fragments, built at the first read.
#[derive(Debug, Default)]
struct Tombstones {
    any: AtomicBool,
    list: Mutex<Vec<RangeTombstone>>,
    /// Fragments of the first `.0` tombstones of the list.
    fragments: RwLock<(usize, Arc<RangeTombstones>)>,
}

impl Memtable {
    /// An empty memtable with a target size of `target_bytes`; older memtables or tables hold the
    /// writes up to `created_at`.
    pub(crate) fn new(target_bytes: usize, created_at: Sequence) -> Self {
        Self {
            list: SortedList::new(),
            filter: OnceLock::new(),
            filter_bytes: target_bytes / BYTES_PER_FILTER_BYTE,
            tombstones: Tombstones::default(),
            entries: AtomicUsize::new(0),
            deletions: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            first_log: AtomicU64::new(0),
            begins_at: LogPosition::default(),
            created_at,
        }
    }

    /// The same, for writes that start at `position` in the logs.
    #[must_use]
    pub(crate) fn beginning_at(mut self, position: LogPosition) -> Self {
        self.begins_at = position;
        self
    }

    /// Adds an entry that was written to log number `log`.
    pub(crate) fn insert(
        &self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        log: u64,
        splice: &mut Splice,
    ) {
        self.note_log(log);
        self.list.insert(key, trailer, payload, splice);
        match self.filter.get() {
            Some(filter) => filter.insert(key_hash(key)),
            None if self.list.charge() >= self.filter_bytes => {
                self.filter.get_or_init(|| self.new_filter());
            }
            None => {}
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        // Writes come in their order.
        self.newest.store(trailer.sequence(), Ordering::Relaxed);
        if trailer.kind() == Kind::Delete {
            self.deletions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A filter of the entries so far. Small memtables have none: searching them is cheap, and a
    /// store may have many.
    fn new_filter(&self) -> KeyFilter {
        let filter = KeyFilter::new(self.filter_bytes);
        let mut node = self.list.first();
        while !node.is_null() {
            // SAFETY: nodes live as long as the list, which `self` borrows.
            filter.insert(key_hash(unsafe { node.key() }));
            node = self.list.next(node);
        }
        filter
    }

    /// Adds a range tombstone that was written to log number `log`.
    pub(crate) fn insert_tombstone(&self, tombstone: RangeTombstone, log: u64) {
        self.note_log(log);
        self.tombstones.list.lock().push(tombstone);
        self.tombstones.any.store(true, Ordering::Release);
    }

    fn note_log(&self, log: u64) {
        if self.first_log.load(Ordering::Relaxed) == 0 {
            self.first_log.store(log, Ordering::Relaxed);
        }
    }

    /// The newest entry of the key that a reader at `key.sequence` sees. Ignores range tombstones:
    /// see [`Self::tombstone_over`].
    pub(crate) fn get(&self, key: &LookupKey<'_>) -> Option<Found<'_>> {
        let is_absent = || self.filter.get().is_some_and(|filter| !filter.may_contain(key.hash));
        if self.list.first().is_null() || is_absent() {
            return None;
        }
        let node = self.list.at_or_after(key.user_key, Trailer::seek(key.sequence));
        // SAFETY: nodes live as long as the list, which `self` borrows.
        unsafe {
            if node.is_null() || node.key() != key.user_key {
                return None;
            }
            Some(Found { trailer: node.trailer(), payload: node.value() })
        }
    }

    /// The sequence of the newest write that touches the key, including range deletions; 0 if there
    /// is none.
    pub(crate) fn newest_write(&self, key: &[u8]) -> Sequence {
        self.newest_entry(key).max(self.tombstone_over(key, crate::format::key::SEQUENCE_MAX))
    }

    /// The sequence of the newest entry of the key, range deletions left out; 0 if there is none.
    pub(crate) fn newest_entry(&self, key: &[u8]) -> Sequence {
        let lookup = LookupKey::new(key, crate::format::key::SEQUENCE_MAX);
        self.get(&lookup).map_or(0, |found| found.trailer.sequence())
    }

    /// The newest range tombstone over `key` that a reader at `at` sees, or 0.
    pub(crate) fn tombstone_over(&self, key: &[u8], at: Sequence) -> Sequence {
        if !self.tombstones.any.load(Ordering::Acquire) {
            return 0;
        }
        self.range_tombstones().newest_over(key, at)
    }

    /// The range tombstones so far.
    pub(crate) fn range_tombstones(&self) -> Arc<RangeTombstones> {
        if !self.tombstones.any.load(Ordering::Acquire) {
            return Arc::default();
        }
        // Read first: the fragments must cover at least this many.
        let count = self.tombstones.list.lock().len();
        {
            let fragments = self.tombstones.fragments.read();
            if fragments.0 >= count {
                return Arc::clone(&fragments.1);
            }
        }
        let mut fragments = self.tombstones.fragments.write();
        let list = self.tombstones.list.lock().clone();
        if fragments.0 < list.len() {
            *fragments = (list.len(), Arc::new(RangeTombstones::new(&list)));
        }
        Arc::clone(&fragments.1)
    }

    /// The range tombstones so far, in the order of insertion.
    pub(crate) fn listed_tombstones(&self) -> Vec<RangeTombstone> {
        self.tombstones.list.lock().clone()
    }

    /// Whether it must be rotated, with a limit of `bytes`.
    pub(crate) fn is_full(&self, bytes: u64) -> bool {
        let is_long = || self.tombstones.list.lock().len() >= TOMBSTONES_MAX;
        self.charge() as u64 >= bytes || self.tombstones.any.load(Ordering::Relaxed) && is_long()
    }

    /// Whether it never received a write.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0 && !self.tombstones.any.load(Ordering::Acquire)
    }

    /// Number of entries, counting all versions.
    pub(crate) fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// How many of its entries are deletions.
    pub(crate) fn deletions(&self) -> u64 {
        self.deletions.load(Ordering::Relaxed)
    }

    /// Whether it holds range tombstones.
    pub(crate) fn has_range_tombstones(&self) -> bool {
        self.tombstones.any.load(Ordering::Acquire)
    }

    /// The number of the log that holds its first write; `None` while empty.
    pub(crate) fn first_log(&self) -> Option<u64> {
        Some(self.first_log.load(Ordering::Relaxed)).filter(|&log| log != 0)
    }

    /// Start of its writes in the logs.
    pub(crate) fn begins_at(&self) -> LogPosition {
        self.begins_at
    }

    /// The best known position before its first write; `None` while empty.
    pub(crate) fn first_write_at(&self) -> Option<LogPosition> {
        Some(self.begins_at.max(LogPosition { log: self.first_log()?, offset: 0 }))
    }

    /// Older memtables or tables hold the writes up to this one.
    pub(crate) fn created_at(&self) -> Sequence {
        self.created_at
    }

    /// Bytes of DRAM held.
    pub(crate) fn charge(&self) -> usize {
        let filter = self.filter.get().map_or(0, |f| f.words.len() * 8);
        let tombstones = if self.tombstones.any.load(Ordering::Relaxed) {
            self.tombstones
                .list
                .lock()
                .iter()
                .map(|t| 2 * (size_of_val(t) + t.start.len() + t.end.len()))
                .sum()
        } else {
            0
        };
        self.list.charge() + filter + tombstones
    }

    /// Whether an entry or range tombstone may touch a key from `smallest` to
    /// `largest`, both included.
    pub(crate) fn may_touch(&self, smallest: &[u8], largest: &[u8]) -> bool {
        let entries =
            self.key_range().is_some_and(|(first, last)| first <= largest && smallest <= last);
        entries || self.tombstones.any.load(Ordering::Acquire)
    }

    /// A random entry, all versions equally likely; `None` if the choice failed. `random` returns a
    /// number below its argument.
    pub(crate) fn random_entry(
        &self,
        random: &mut dyn FnMut(usize) -> usize,
    ) -> Option<(&[u8], Sequence)> {
        let node = self.list.random(random);
        // SAFETY: nodes live as long as the list, which `self` borrows.
        (!node.is_null()).then(|| unsafe { (node.key(), node.trailer().sequence()) })
    }

    /// The smallest and largest key of its entries.
    pub(crate) fn key_range(&self) -> Option<(&[u8], &[u8])> {
        let (first, last) = (self.list.first(), self.list.last());
        if first.is_null() {
            return None;
        }
        // SAFETY: nodes live as long as the list, which `self` borrows; when
        // there is a first node there is a last one.
        unsafe { Some((first.key(), last.key())) }
    }

    /// Whether one of `ranges` deletes all its entries.
    pub(crate) fn is_emptied_by(&self, ranges: &[RangeTombstone]) -> bool {
        let newest = self.newest.load(Ordering::Relaxed);
        let covers = |(smallest, largest): (&[u8], &[u8])| {
            ranges.iter().any(|range| {
                range.sequence > newest && *range.start <= *smallest && *largest < *range.end
            })
        };
        self.key_range().is_some_and(covers)
    }
}

/// A cursor over a memtable's entries; concurrent insertions may become visible.
#[derive(Debug)]
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    node: Node,
}

impl MemtableCursor {
    pub(crate) fn new(memtable: Arc<Memtable>) -> Self {
        Self { memtable, node: Node::NULL }
    }
}

impl Cursor for MemtableCursor {
    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        let list = &self.memtable.list;
        self.node = match target {
            Target::First => list.first(),
            Target::Last => list.last(),
            Target::AtOrAfter(key, trailer) => list.at_or_after(key, trailer),
            Target::Before(key, trailer) => list.before(key, trailer),
        };
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.node = self.memtable.list.next(self.node);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        // SAFETY: valid, so not null; the memtable is held.
        let (key, trailer) = unsafe { (self.node.key(), self.node.trailer()) };
        self.node = self.memtable.list.before(key, trailer);
        Ok(())
    }

    fn valid(&self) -> bool {
        !self.node.is_null()
    }

    fn user_key(&self) -> &[u8] {
        debug_assert!(self.valid());
        // SAFETY: valid, so not null; the memtable is held.
        unsafe { self.node.key() }
    }

    fn trailer(&self) -> Trailer {
        debug_assert!(self.valid());
        // SAFETY: as above.
        unsafe { self.node.trailer() }
    }

    fn value(&self) -> &[u8] {
        debug_assert!(self.valid());
        // SAFETY: as above.
        unsafe { self.node.value() }
    }
}

#[cfg(test)]
mod tests;
