//! Records false positives of filters, and decides which of them are worth a repair.
//!
//! A repair reads a page, as a false positive does. A first false positive is therefore only
//! recorded, and the second one triggers a repair (`filter_repairer.rs`): a key that is never
//! looked up again costs nothing more, and a key that is looked up again and again costs about
//! three reads in all.
//!
//! Guarantees:
//! 1. A reader never waits for a repair. Under load some false positives are dropped; they will
//!    recur.
//! 2. At most one batch of repairs runs at a time, with [`BATCH`] repairs at most, and at most one
//!    repair per [`NS_PER_REPAIR`] on average: this bounds the device time that a flood of absent
//!    keys can take.
//! 3. The records take the memory that they were given, from the first false positive on.
//!
//! Pure: the engine repairs.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::stats::Counter;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, OnceLock};

/// Maximum number of repairs in one batch.
pub(crate) const BATCH: usize = 16;
/// A thousand repairs a second.
const NS_PER_REPAIR: u64 = 1_000_000;
/// Maximum length of the queue; further repairs are dropped.
const WAITING_MAX: usize = 1024;

/// Tags per set: one cache line, which is searched linearly.
const SET: usize = 16;
/// Flag in a tag: the repair failed or is impossible, and is not tried again.
const GIVEN_UP: u32 = 1;
/// One part in this many of a cache's size is used for tags, within the bounds below.
const CACHE_SHARE: usize = 512;
const BYTES: RangeInclusive<usize> = 4 << 10..=4 << 20;

/// A key passed the filter of a table that has no version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FalsePositive {
    pub(crate) keyspace: u32,
    pub(crate) table: u64,
    pub(crate) partition: usize,
    /// Hash of the key.
    pub(crate) hash: u64,
    /// Whether the filter can be repaired.
    pub(crate) is_repairable: bool,
}

impl FalsePositive {
    /// The position of its tag, and the tag: bits above [`GIVEN_UP`], one of which is set.
    fn place(&self) -> (u32, u32) {
        let mixed = (self.hash ^ self.table.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let mixed = mixed ^ mixed >> 32;
        ((mixed >> 32) as u32, mixed as u32 & !GIVEN_UP | 2)
    }
}

/// Recorded false positives, and the queue of repairs.
#[derive(Debug)]
pub(crate) struct FilterRepair {
    /// Tags of false positives seen once; allocated at the first one.
    once: OnceLock<Box<[AtomicU32]>>,
    /// The cache has not yet made room for it.
    is_new: AtomicBool,
    bytes: usize,
    waiting: Mutex<VecDeque<FalsePositive>>,
    /// Hint: the queue is not empty.
    has_waiting: AtomicBool,
    is_under_way: AtomicBool,
    /// No batch may start before this time.
    not_before_ns: AtomicU64,
    pub(crate) counts: FilterRepairCounts,
}

/// Counters of filter repairs.
#[derive(Debug, Default)]
pub(crate) struct FilterRepairCounts {
    /// Lookups that passed a filter although the table does not have the key.
    pub(crate) false_positives: Counter,
    /// Repaired buckets.
    pub(crate) repairs: Counter,
    /// Repairs that are impossible, because the filter cannot distinguish the key from one of the
    /// table.
    pub(crate) impossible: Counter,
    /// Repairs that failed.
    pub(crate) failures: Counter,
    /// Repairs that were dropped because the queue was full.
    pub(crate) dropped: Counter,
}

impl FilterRepair {
    /// For a store with a cache of `bytes` bytes.
    pub(crate) fn of_cache(bytes: usize) -> Self {
        Self::new((bytes / CACHE_SHARE).clamp(*BYTES.start(), *BYTES.end()))
    }

    /// With `bytes` bytes of memory for false positives that were seen once.
    fn new(bytes: usize) -> Self {
        Self {
            once: OnceLock::new(),
            is_new: AtomicBool::new(false),
            bytes,
            waiting: Mutex::default(),
            has_waiting: AtomicBool::new(false),
            is_under_way: AtomicBool::new(false),
            not_before_ns: AtomicU64::new(0),
            counts: FilterRepairCounts::default(),
        }
    }

    /// Bytes of DRAM held.
    pub(crate) fn charge(&self) -> usize {
        self.once.get().map_or(0, |once| once.len() * size_of::<u32>())
    }

    /// Records a false positive of a lookup.
    pub(crate) fn note(&self, found: FalsePositive) {
        self.counts.false_positives.add(1);
        if !found.is_repairable || !self.seen_before(&found) {
            return;
        }
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            self.counts.dropped.add(1);
            return;
        }
        waiting.push_back(found);
        self.has_waiting.store(true, Ordering::Relaxed);
    }

    /// Whether it was recorded before; records it if not, and removes the record if so.
    fn seen_before(&self, found: &FalsePositive) -> bool {
        let (tags, tag) = self.tags_of(found);
        for noted in tags {
            match noted.load(Ordering::Relaxed) ^ tag {
                0 => {
                    noted.store(0, Ordering::Relaxed);
                    return true;
                }
                GIVEN_UP => return false,
                _ => {}
            }
        }
        put(tags, tag);
        false
    }

    /// Records that it could not be repaired, so that it is not tried again soon.
    pub(crate) fn give_up(&self, found: &FalsePositive) {
        let (tags, tag) = self.tags_of(found);
        put(tags, tag | GIVEN_UP);
    }

    /// Its set of tags, and its tag.
    fn tags_of(&self, found: &FalsePositive) -> (&[AtomicU32], u32) {
        let once = self.once.get_or_init(|| {
            // The cache must make room for it.
            self.is_new.store(true, Ordering::Relaxed);
            self.has_waiting.store(true, Ordering::Relaxed);
            let sets = (self.bytes / size_of::<[u32; SET]>()).max(1);
            (0..sets * SET).map(|_| AtomicU32::new(0)).collect()
        });
        let (place, tag) = found.place();
        let sets = (once.len() / SET) as u64;
        let set = ((u64::from(place) * sets) >> 32) as usize * SET;
        (&once[set..set + SET], tag)
    }

    /// Whether memory was allocated for the tags since the last call.
    pub(crate) fn take_is_new(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// Whether the caller must start a batch of repairs, which calls [`Self::end`] when it has
    /// finished. `now_ns` is called only if repairs are queued.
    #[inline]
    pub(crate) fn begin(&self, now_ns: impl FnOnce() -> u64) -> bool {
        self.has_waiting.load(Ordering::Relaxed) && self.begin_queued(now_ns())
    }

    #[cold]
    fn begin_queued(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns.load(Ordering::Relaxed)
            && !self.is_under_way.load(Ordering::Relaxed)
            && !self.is_under_way.swap(true, Ordering::AcqRel)
    }

    /// Takes the next batch from the queue.
    pub(crate) fn take(&self) -> Vec<FalsePositive> {
        let mut waiting = self.waiting.lock();
        let some = waiting.len().min(BATCH);
        let taken = waiting.drain(..some).collect();
        self.has_waiting.store(!waiting.is_empty(), Ordering::Relaxed);
        taken
    }

    /// Ends the batch that [`Self::begin`] started, after `repairs` repairs.
    pub(crate) fn end(&self, repairs: usize, now_ns: u64) {
        let pause_ns = repairs as u64 * NS_PER_REPAIR;
        self.not_before_ns.store(now_ns.saturating_add(pause_ns), Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Release);
    }
}

/// Puts a tag into a set; if no slot is free it replaces another one, which the tag itself selects.
fn put(tags: &[AtomicU32], tag: u32) {
    let is_free = |noted: &&AtomicU32| noted.load(Ordering::Relaxed) == 0;
    let place = tags.iter().find(is_free).unwrap_or(&tags[tag as usize / 4 % SET]);
    place.store(tag, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
