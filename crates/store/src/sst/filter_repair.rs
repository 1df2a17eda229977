//! Which keys have passed filters that do not have them, and which of these are worth a repair.
//!
//! A repair reads a page, as a false positive does. So what came once is noted, and only what
//! came twice is repaired (`filter_repairer.rs`): a key that nobody asks for again costs nothing more,
//! and one that is asked for again and again costs about three reads in all.
//!
//! Guarantees:
//! 1. Whoever reads never waits for a repair. Of many at once some are forgotten: they
//!    come again.
//! 2. One is at it at a time, with [`BATCH`] repairs at most, and no more than one in
//!    [`NS_PER_REPAIR`] on average: a flood of keys that are not there has no more of the
//!    device than that.
//! 3. What is noted takes the memory that it was given, once there is anything.
//!
//! Pure: the engine repairs.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::stats::Counter;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, OnceLock};

/// Repairs that are done in one go.
pub(crate) const BATCH: usize = 16;
/// A thousand repairs a second.
const NS_PER_REPAIR: u64 = 1_000_000;
/// More wait for nobody.
const WAITING_MAX: usize = 1024;

/// Tags of one cache line, among which one is looked for.
const SET: usize = 16;
/// Of a tag: it could not be repaired, and is let be.
const GIVEN_UP: u32 = 1;
/// Of a cache, one part in so many is for tags; but at least and at most so much.
const CACHE_SHARE: usize = 512;
const BYTES: RangeInclusive<usize> = 4 << 10..=4 << 20;

/// A key has passed the filter of a table that has no version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FalsePositive {
    pub(crate) keyspace: u32,
    pub(crate) table: u64,
    pub(crate) partition: usize,
    /// Of the key.
    pub(crate) hash: u64,
    /// The filter can be repaired.
    pub(crate) can_unlearn: bool,
}

impl FalsePositive {
    /// Where it is noted, and as what: bits above [`GIVEN_UP`], of which one is set.
    fn place(&self) -> (u32, u32) {
        let mixed = (self.hash ^ self.table.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let mixed = mixed ^ mixed >> 32;
        ((mixed >> 32) as u32, mixed as u32 & !GIVEN_UP | 2)
    }
}

/// What passed filters, and who repairs them.
#[derive(Debug)]
pub(crate) struct FilterRepair {
    /// Tags of what came once; made when the first one comes.
    once: OnceLock<Box<[AtomicU32]>>,
    /// Nobody has made room for it yet.
    is_new: AtomicBool,
    bytes: usize,
    waiting: Mutex<VecDeque<FalsePositive>>,
    /// Hint: something waits.
    has_waiting: AtomicBool,
    is_under_way: AtomicBool,
    /// Nobody is to repair anything before.
    not_before_ns: AtomicU64,
    pub(crate) counts: FilterRepairCounts,
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct FilterRepairCounts {
    /// Lookups that passed a filter for nothing.
    pub(crate) false_positives: Counter,
    /// Buckets that were repaired.
    pub(crate) repairs: Counter,
    /// Those that could not be made, as a key cannot be told from one that is there.
    pub(crate) hopeless: Counter,
    /// Repairs that failed.
    pub(crate) failures: Counter,
    /// Repairs that were not made, as too many waited.
    pub(crate) dropped: Counter,
}

impl FilterRepair {
    /// Beside a cache of so many bytes.
    pub(crate) fn of_cache(bytes: usize) -> Self {
        Self::new((bytes / CACHE_SHARE).clamp(*BYTES.start(), *BYTES.end()))
    }

    /// With so much memory for what came once.
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

    /// The memory that it takes now.
    pub(crate) fn charge(&self) -> usize {
        self.once.get().map_or(0, |once| once.len() * size_of::<u32>())
    }

    /// A lookup has read for nothing.
    pub(crate) fn note(&self, found: FalsePositive) {
        self.counts.false_positives.add(1);
        if !found.can_unlearn || !self.came_before(&found) {
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

    /// Whether it is noted; notes it if it is not, and forgets it if it is.
    fn came_before(&self, found: &FalsePositive) -> bool {
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

    /// It could not be repaired: nobody is to try again soon.
    pub(crate) fn give_up(&self, found: &FalsePositive) {
        let (tags, tag) = self.tags_of(found);
        put(tags, tag | GIVEN_UP);
    }

    /// Where it may be noted, and as what.
    fn tags_of(&self, found: &FalsePositive) -> (&[AtomicU32], u32) {
        let once = self.once.get_or_init(|| {
            // Somebody is to make room for it.
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

    /// Whether memory has been taken for what came once since this was asked last.
    pub(crate) fn take_is_new(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// Whether the caller is to see to it that somebody repairs, who says when that has
    /// [ended](Self::end). `now_ns` is asked if it could be.
    #[inline]
    pub(crate) fn begin(&self, now_ns: impl FnOnce() -> u64) -> bool {
        self.has_waiting.load(Ordering::Relaxed) && self.begin_what_waits(now_ns())
    }

    #[cold]
    fn begin_what_waits(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns.load(Ordering::Relaxed)
            && !self.is_under_way.load(Ordering::Relaxed)
            && !self.is_under_way.swap(true, Ordering::AcqRel)
    }

    /// What is to be repaired in one go.
    pub(crate) fn take(&self) -> Vec<FalsePositive> {
        let mut waiting = self.waiting.lock();
        let some = waiting.len().min(BATCH);
        let taken = waiting.drain(..some).collect();
        self.has_waiting.store(!waiting.is_empty(), Ordering::Relaxed);
        taken
    }

    /// So many were gone through; who [began](Self::begin) says so.
    pub(crate) fn end(&self, repairs: usize, now_ns: u64) {
        let pause_ns = repairs as u64 * NS_PER_REPAIR;
        self.not_before_ns.store(now_ns.saturating_add(pause_ns), Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Release);
    }
}

/// Puts a tag into a set, in the place of another one if none is free: which one goes depends on who
/// comes.
fn put(tags: &[AtomicU32], tag: u32) {
    let is_free = |noted: &&AtomicU32| noted.load(Ordering::Relaxed) == 0;
    let place = tags.iter().find(is_free).unwrap_or(&tags[tag as usize / 4 % SET]);
    place.store(tag, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
