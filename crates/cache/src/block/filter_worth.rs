//! Whether a filter that is not in memory is worth its read: a filter spares a lookup the
//! reads of an index and a data block if the table does not have the key. In the last
//! level nearly every key that is asked for is there, so that reading a filter costs a
//! lookup a read more and saves none; what holds it in memory is the bytes of others.
//!
//! ```text
//!   worth = share of lookups whose key is absent * reads of a lookup behind the filter
//! ```
//!
//! the reads that one look at the filter saves on average. Both are moving averages over
//! the lookups of one table that read storage, and a part of the others: those that do no
//! I/O are not to write to what all threads read. A data block counts as read even if it
//! was in memory: that may be the doing of lookups without the filter, and takes the bytes
//! of others.
//!
//! Guarantees:
//! 1. What nobody has measured is worth its read.
//! 2. Some hundred lookups make of any worth what it is now.
//!
//! Safe to use from all threads; of threads that tell at once some may be forgotten.

use crate::sync::atomic::{AtomicU32, Ordering};

/// How fast the averages follow: a new lookup counts for so much.
const GAIN: f32 = 1.0 / 32.0;

/// Until something is measured: keys are absent, and would read an index and a data block.
const ABSENT_AT_FIRST: f32 = 1.0;
const READS_AT_FIRST: f32 = 2.0;

/// A read saved, in the unit of [`FilterWorth::worth`].
const ONE_READ: u32 = 256;
/// What saves a lookup so much pays at once: the next one to look will find it.
const PAYS: u32 = ONE_READ * 15 / 16;

/// How a lookup ended in a table that has a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilteredLookup {
    /// The table does not have the key.
    pub is_absent: bool,
    /// Index blocks that it read, and data blocks that it looked at; `None`: the filter said
    /// no.
    pub reads_behind: Option<u32>,
}

/// What the filters of one table save. On cache lines of its own: who looks at the table
/// next to it is not to wait.
#[derive(Debug)]
#[repr(align(128))]
pub struct FilterWorth {
    /// The bits of a float: of a lookup, how likely its key is absent.
    absent: AtomicU32,
    /// The bits of a float: reads of a lookup that has gone behind the filter.
    reads_behind: AtomicU32,
    /// The reads that a look saves, times [`ONE_READ`].
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
fn follow(average: &AtomicU32, new: f32) -> f32 {
    let before = f32::from_bits(average.load(Ordering::Relaxed));
    let after = before + (new - before) * GAIN;
    average.store(after.to_bits(), Ordering::Relaxed);
    after
}

impl FilterWorth {
    /// A lookup has ended.
    pub fn note(&self, lookup: FilteredLookup) {
        let absent = follow(&self.absent, f32::from(u8::from(lookup.is_absent)));
        let reads = match lookup.reads_behind {
            Some(reads) => follow(&self.reads_behind, reads as f32),
            None => f32::from_bits(self.reads_behind.load(Ordering::Relaxed)),
        };
        self.worth.store((absent * reads * ONE_READ as f32).round() as u32, Ordering::Relaxed);
    }

    /// The reads that a look at the filter saves on average.
    #[cfg(test)]
    fn reads(&self) -> f32 {
        self.worth.load(Ordering::Relaxed) as f32 / ONE_READ as f32
    }

    /// Whether the filter saves the lookup about as much as it costs to read it.
    pub(crate) fn pays_at_once(&self) -> bool {
        self.worth.load(Ordering::Relaxed) >= PAYS
    }

    /// Whether a look is to count as one of the filter's: as many do as it saves reads.
    /// `lot`: any number, another one for each look.
    pub(crate) fn counts(&self, lot: u64) -> bool {
        self.pays_at_once() || mixed(lot) % ONE_READ < self.worth.load(Ordering::Relaxed)
    }
}

/// The bits of a number, in no order.
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
    fn a_filter_that_is_never_needed_is_soon_worth_nothing() {
        let worth = FilterWorth::default();
        assert!(worth.pays_at_once() && worth.reads() == 2.0);
        let lookups = (1..1000).find(|_| {
            worth.note(FOUND);
            !worth.pays_at_once()
        });
        assert!(lookups.unwrap() < 20, "{lookups:?}");
        (0..500).for_each(|_| worth.note(FOUND));
        assert_eq!(worth.reads(), 0.0);
        assert!((0..1000).all(|lot| !worth.counts(lot)));
    }

    /// Lookups that a filter answers say nothing of what is behind it: nothing was once made
    /// of that, and the filter seemed to be worth nothing.
    #[test]
    fn a_filter_that_is_always_needed_pays_however_long() {
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
    fn a_filter_that_is_needed_again_soon_pays() {
        let worth = FilterWorth::default();
        (0..5000).for_each(|_| worth.note(FOUND));
        let lookups = (1..5000).find(|_| {
            worth.note(FilteredLookup { is_absent: true, reads_behind: Some(1) });
            worth.pays_at_once()
        });
        assert!(lookups.unwrap() < 120, "{lookups:?}");
    }

    #[test]
    fn looks_count_by_what_they_save() {
        let worth = FilterWorth::default();
        for n in 0..2000 {
            worth.note(FilteredLookup { is_absent: n % 2 == 0, reads_behind: Some(1) });
        }
        let counted = (0..4096).filter(|&lot| worth.counts(lot)).count();
        assert!((1800..2300).contains(&counted), "{counted}");
    }
}
