//! Whether a filter that is not in memory is worth its read: a filter spares a lookup the
//! reads of an index and a data block if the table does not have the key. In the last
//! level nearly every key that is asked for is there, so that reading a filter costs a
//! lookup a read more and saves none; what holds it in memory is the bytes of others.
//!
//! ```text
//!   worth = (lookups of absent keys / lookups) * (reads behind the filter / lookups there)
//! ```
//!
//! the reads that one look at the filter saves on average. Counted are all lookups that did
//! not find the filter in memory, whether they read it or not, and a part of the others
//! ([`FilterWorth::is_lesson`]): most of those that do no I/O write nothing here. A data block counts as read even if it was in memory: that may
//! be the doing of lookups without the filter, and takes the bytes of others.
//!
//! Guarantees: what nobody has measured is worth its read. Old lookups fade, half of them
//! with every [`LOOKUPS_MAX`]. Safe to use from all threads; threads that tell at once may
//! lose counts.

use crate::sync::atomic::{AtomicU32, Ordering};

/// Half of the lookups are forgotten when there have been so many.
const LOOKUPS_MAX: u32 = 512;

/// The lookups that stand for what was not yet measured: keys that are absent, and would
/// read two blocks each.
const LOOKUPS_AT_FIRST: u32 = 8;
const READS_AT_FIRST: u32 = 2;

/// Of so many lookups that find the filter in memory one is noted.
const LESSONS: u64 = 64;

/// A chance of one.
const SURE: u32 = 256;

/// How a lookup ended in a table that has a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilteredLookup {
    /// The table does not have the key.
    pub is_absent: bool,
    /// Index blocks that it read, and data blocks that it looked at; `None`: the filter was
    /// read, and said no.
    pub reads_behind: Option<u32>,
}

/// What the filters of one table save.
#[derive(Debug)]
pub struct FilterWorth {
    lookups: AtomicU32,
    absent: AtomicU32,
    /// Lookups that went on behind the filter, and what they read.
    passed: AtomicU32,
    reads: AtomicU32,
    /// Of 256 looks: how many reads they save.
    worth: AtomicU32,
}

impl Default for FilterWorth {
    fn default() -> Self {
        let at_first = || AtomicU32::new(LOOKUPS_AT_FIRST);
        Self {
            lookups: at_first(),
            absent: at_first(),
            passed: at_first(),
            reads: AtomicU32::new(LOOKUPS_AT_FIRST * READS_AT_FIRST),
            worth: AtomicU32::new(SURE * READS_AT_FIRST),
        }
    }
}

impl FilterWorth {
    /// A lookup has ended.
    pub fn note(&self, lookup: FilteredLookup) {
        let add = |counter: &AtomicU32, n: u32| counter.fetch_add(n, Ordering::Relaxed) + n;
        let lookups = add(&self.lookups, 1);
        let absent = add(&self.absent, u32::from(lookup.is_absent));
        let passed = add(&self.passed, u32::from(lookup.reads_behind.is_some()));
        let reads = add(&self.reads, lookup.reads_behind.unwrap_or(0));
        let share_absent = absent as f32 / lookups as f32;
        let reads_behind = reads as f32 / passed.max(1) as f32;
        self.worth.store((share_absent * reads_behind * SURE as f32) as u32, Ordering::Relaxed);
        if lookups >= LOOKUPS_MAX {
            for counter in [&self.lookups, &self.absent, &self.passed, &self.reads] {
                counter.store(counter.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// Whether a lookup of a key with this hash is to be noted although it found the filter
    /// in memory.
    pub fn is_lesson(hash: u64) -> bool {
        (hash >> 40).is_multiple_of(LESSONS)
    }

    /// The reads that a look at the filter saves on average.
    pub fn reads(&self) -> f32 {
        self.worth.load(Ordering::Relaxed) as f32 / SURE as f32
    }

    /// Whether the filter saves the lookup as much as it costs to read it.
    pub(crate) fn pays_at_once(&self) -> bool {
        self.worth.load(Ordering::Relaxed) >= SURE
    }

    /// Whether this look, of a key with this hash, is to count as one of the filter's: as
    /// many do as it saves reads, for each [`unit`](Self::counts) of its bytes.
    pub(crate) fn counts(&self, hash: u64, bytes: usize, unit: usize) -> bool {
        let worth = self.worth.load(Ordering::Relaxed);
        let lot = (hash >> 24) as u32 % SURE;
        worth >= SURE || u64::from(lot) * (bytes.max(unit) as u64) < u64::from(worth) * unit as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: FilteredLookup = FilteredLookup { is_absent: false, reads_behind: Some(1) };

    #[test]
    fn a_filter_that_is_never_needed_is_soon_worth_nothing() {
        let worth = FilterWorth::default();
        assert!(worth.pays_at_once() && worth.reads() == 2.0);
        let lookups = (1..1000).find(|_| {
            worth.note(FOUND);
            !worth.pays_at_once()
        });
        assert!(lookups.unwrap() < 10);
        (0..2000).for_each(|_| worth.note(FOUND));
        assert!(worth.reads() < 0.02, "{}", worth.reads());
        let counted = (0..4096u64).filter(|n| worth.counts(n << 24, 4096, 4096)).count();
        assert!(counted < 100);
    }

    #[test]
    fn a_filter_that_most_lookups_need_pays_again_when_they_do() {
        let worth = FilterWorth::default();
        (0..5000).for_each(|_| worth.note(FOUND));
        let absent = FilteredLookup { is_absent: true, reads_behind: Some(2) };
        let lookups = (1..5000).find(|_| {
            worth.note(absent);
            worth.pays_at_once()
        });
        assert!(lookups.unwrap() < 2 * LOOKUPS_MAX as usize);
    }

    #[test]
    fn looks_count_by_what_they_save_and_by_size() {
        let worth = FilterWorth::default();
        for n in 0..20_000 {
            worth.note(FilteredLookup { is_absent: n % 2 == 0, reads_behind: Some(1) });
        }
        let counted = |bytes| (0..4096u64).filter(|n| worth.counts(n << 24, bytes, 4096)).count();
        assert!((1900..2200).contains(&counted(4096)), "{}", counted(4096));
        assert!((450..570).contains(&counted(16384)), "{}", counted(16384));
    }
}
