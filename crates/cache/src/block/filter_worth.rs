//! Whether a filter that is not in memory is worth its read: a filter saves a lookup the reads of
//! an index and a data block if the table does not have the key. In the last level nearly every
//! requested key exists, so reading a filter costs a lookup one more read and saves none, and
//! caching it takes the bytes of others.
//!
//! ```text
//!   worth = share of lookups whose key is absent * reads of a lookup past the filter
//! ```
//!
//! the average reads saved per lookup in the filter. Both are moving averages over the lookups of
//! one table that read storage, and a sample of the others: lookups without I/O should not write to
//! memory that all threads read. A data block counts as read even if it was in memory: it may be
//! cached because of lookups without the filter, and takes the bytes of others.
//!
//! Guarantees:
//! 1. An unmeasured filter is worth its read.
//! 2. Any worth is up to date after some hundred lookups.
//!
//! Thread-safe; of concurrent updates some may be lost.

use crate::sync::atomic::{AtomicU32, Ordering};

/// Weight of a new lookup in the moving averages.
const GAIN: f32 = 1.0 / 32.0;

/// Before the first measurement: keys are absent, and would read an index and a data block.
const ABSENT_AT_FIRST: f32 = 1.0;
const READS_AT_FIRST: f32 = 2.0;

/// One saved read, in the unit of [`FilterWorth::worth`].
const ONE_READ: u32 = 256;
/// A filter that saves this much pays at once: the next lookup will find it cached.
const PAYS: u32 = ONE_READ * 15 / 16;

/// The result of a lookup in a table with a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilteredLookup {
    /// Whether the key is absent from the table.
    pub is_absent: bool,
    /// Index blocks that it read, and data blocks that it searched; `None`: the filter excluded
    /// the key.
    pub reads_behind: Option<u32>,
}

/// The savings of one table's filters. On its own cache lines, so that lookups in neighbouring
/// tables do not contend.
#[derive(Debug)]
#[repr(align(128))]
pub struct FilterWorth {
    /// The bits of a float: probability that a lookup's key is absent.
    absent: AtomicU32,
    /// The bits of a float: reads of a lookup past the filter.
    reads_behind: AtomicU32,
    /// Reads saved per lookup, times [`ONE_READ`].
    worth: AtomicU32,
}

impl Default for FilterWorth {
    fn default() -> Self {
        Self {
            absent: AtomicU32::new(ABSENT_AT_FIRST.to_bits()),
            reads_behind: AtomicU32::new(READS_AT_FIRST.to_bits()),
            worth: AtomicU32::new((ABSENT_AT_FIRST * READS_AT_FIRST) as u32 * ONE_READ),
        }
    }
}

/// Moves an average towards `new`.
fn update_average(average: &AtomicU32, new: f32) -> f32 {
    let before = f32::from_bits(average.load(Ordering::Relaxed));
    let after = before + (new - before) * GAIN;
    average.store(after.to_bits(), Ordering::Relaxed);
    after
}

impl FilterWorth {
    /// Records a lookup.
    pub fn note(&self, lookup: FilteredLookup) {
        let absent = update_average(&self.absent, f32::from(u8::from(lookup.is_absent)));
        let reads = match lookup.reads_behind {
            Some(reads) => update_average(&self.reads_behind, reads as f32),
            None => f32::from_bits(self.reads_behind.load(Ordering::Relaxed)),
        };
        self.worth.store((absent * reads * ONE_READ as f32).round() as u32, Ordering::Relaxed);
    }

    /// The average reads saved per lookup in the filter.
    #[cfg(test)]
    fn reads(&self) -> f32 {
        self.worth.load(Ordering::Relaxed) as f32 / ONE_READ as f32
    }

    /// Whether the filter saves the lookup about as much as its read costs.
    pub(crate) fn pays_at_once(&self) -> bool {
        self.worth.load(Ordering::Relaxed) >= PAYS
    }

    /// Whether a lookup counts as an access of the filter: with the probability of a saved read.
    /// `sample_id`: any number, different for each lookup.
    pub(crate) fn counts(&self, sample_id: u64) -> bool {
        self.pays_at_once() || mixed(sample_id) % ONE_READ < self.worth.load(Ordering::Relaxed)
    }
}

/// The bits of a number, mixed.
pub(crate) fn mixed(number: u64) -> u32 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7FB5_D329_728E_A185);
    ((mixed ^ mixed >> 27).wrapping_mul(0x81DA_DEF4_BC2D_D44D) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: FilteredLookup = FilteredLookup { is_absent: false, reads_behind: Some(1) };
    const ABSENT: FilteredLookup = FilteredLookup { is_absent: true, reads_behind: None };

    #[test]
    fn unneeded_filter_soon_has_no_worth() {
        let worth = FilterWorth::default();
        assert!(worth.pays_at_once() && worth.reads() == 2.0);
        let lookups = (1..1000).find(|_| {
            worth.note(FOUND);
            !worth.pays_at_once()
        });
        assert!(lookups.unwrap() < 20, "{lookups:?}");
        (0..500).for_each(|_| worth.note(FOUND));
        assert_eq!(worth.reads(), 0.0);
        assert!((0..1000).all(|sample_id| !worth.counts(sample_id)));
    }

    /// Regression: lookups that the filter answers contain no reads past it. They once counted as
    /// zero reads, and the filter seemed to be worth nothing.
    #[test]
    fn filter_that_is_always_needed_keeps_paying() {
        let worth = FilterWorth::default();
        (0..100_000).for_each(|_| worth.note(ABSENT));
        assert_eq!(worth.reads(), 2.0);
        worth.note(FOUND);
        (0..500).for_each(|_| {
            worth.note(FilteredLookup { is_absent: true, reads_behind: Some(1) });
        });
        assert!(worth.pays_at_once());
    }

    #[test]
    fn filter_needed_again_soon_pays() {
        let worth = FilterWorth::default();
        (0..5000).for_each(|_| worth.note(FOUND));
        let lookups = (1..5000).find(|_| {
            worth.note(FilteredLookup { is_absent: true, reads_behind: Some(1) });
            worth.pays_at_once()
        });
        assert!(lookups.unwrap() < 120, "{lookups:?}");
    }

    #[test]
    fn lookups_count_by_their_savings() {
        let worth = FilterWorth::default();
        for n in 0..2000 {
            worth.note(FilteredLookup { is_absent: n % 2 == 0, reads_behind: Some(1) });
        }
        let counted = (0..4096).filter(|&sample_id| worth.counts(sample_id)).count();
        assert!((1800..2300).contains(&counted), "{counted}");
    }
}
