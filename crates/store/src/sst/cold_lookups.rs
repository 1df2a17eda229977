//! Counters of cold lookups: lookups of single keys that read storage, by the purpose of their
//! reads. The cost of a key depends on the level that holds it, and on the tables that are searched
//! in vain (SpotKV, abstract).
//!
//! ```text
//!   reads = reads of filters
//!         + wasted reads: index and data blocks of tables that do not have the key, because a
//!           filter let it pass or was not consulted
//!         + reads that found the key
//! ```
//!
//! An uncached block counts for each lookup that had to wait for it, regardless of which thread
//! read it: the sum exceeds the store's reads (`io.reads`) when several lookups wait for one block.
//!
//! The thread of a lookup keeps a [`LookupReads`]; it is added to [`ColdLookups`] once, when the
//! lookup ends. `ColdLookups` is safe to use from all threads.

use std::mem;

use tidekv_cache::BlockKind;

use crate::format::LEVELS;
use crate::stats::Counter;

/// Possible ends of a lookup: a level, or not found.
const ENDS: usize = LEVELS + 1;
/// Lookups with this many reads or more are counted together.
const READS_MAX: usize = 8;

/// The storage reads of one lookup so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LookupReads {
    all: u32,
    of_filters: u32,
    wasted: u32,
    /// Index and data blocks of the current table.
    of_table: u32,
    /// The level of the key; `None` if it was not found or a range deletion covers it.
    level: Option<usize>,
}

impl LookupReads {
    /// The number of reads.
    pub(crate) fn all(&self) -> u32 {
        self.all
    }

    /// Records the read of a block.
    pub(crate) fn add(&mut self, kind: BlockKind) {
        self.all += 1;
        match kind {
            BlockKind::Filter => self.of_filters += 1,
            BlockKind::Index | BlockKind::Data => self.of_table += 1,
        }
    }

    /// The lookup continues in another table.
    pub(crate) fn table_begins(&mut self) {
        self.of_table = 0;
    }

    /// The current table does not have the key.
    pub(crate) fn table_lacks_it(&mut self) {
        self.wasted += mem::take(&mut self.of_table);
    }

    /// The key was found on this level.
    pub(crate) fn found_on(&mut self, level: usize) {
        self.level = Some(level);
    }
}

/// Lookups with the same end.
#[derive(Debug, Default)]
struct ColdEnd {
    lookups: Counter,
    reads: Counter,
}

/// The storage reads of all cold lookups.
#[derive(Debug, Default)]
pub(crate) struct ColdLookups {
    /// By the end of the lookup.
    ends: [ColdEnd; ENDS],
    /// Number of lookups with one read, two, and so on.
    lookups_of: [Counter; READS_MAX],
    filter_reads: Counter,
    wasted_reads: Counter,
}

impl ColdLookups {
    /// Adds a finished lookup.
    pub(crate) fn note(&self, lookup: &LookupReads) {
        let Some(more) = lookup.all.checked_sub(1) else { return };
        let end = &self.ends[lookup.level.unwrap_or(LEVELS)];
        end.lookups.add(1);
        end.reads.add(u64::from(lookup.all));
        self.lookups_of[(more as usize).min(READS_MAX - 1)].add(1);
        for (counter, reads) in
            [(&self.filter_reads, lookup.of_filters), (&self.wasted_reads, lookup.wasted)]
        {
            if reads > 0 {
                counter.add(u64::from(reads));
            }
        }
    }

    /// Name and value of every counter, in a fixed order.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum = |of: fn(&ColdEnd) -> &Counter| self.ends.iter().map(|end| of(end).get()).sum();
        let mut counters = vec![
            ("cold_lookups.count", sum(|end| &end.lookups)),
            ("cold_lookups.reads", sum(|end| &end.reads)),
            ("cold_lookups.filter_reads", self.filter_reads.get()),
            ("cold_lookups.wasted_reads", self.wasted_reads.get()),
        ];
        for (end, (lookups, reads)) in self.ends.iter().zip(END_NAMES) {
            counters.extend([(lookups, end.lookups.get()), (reads, end.reads.get())]);
        }
        counters.extend(LENGTH_NAMES.into_iter().zip(self.lookups_of.iter().map(Counter::get)));
        counters
    }
}

/// Names of the counts of lookups with each end, and of their reads.
const END_NAMES: [(&str, &str); ENDS] = [
    ("cold_lookups.level0.count", "cold_lookups.level0.reads"),
    ("cold_lookups.level1.count", "cold_lookups.level1.reads"),
    ("cold_lookups.level2.count", "cold_lookups.level2.reads"),
    ("cold_lookups.level3.count", "cold_lookups.level3.reads"),
    ("cold_lookups.level4.count", "cold_lookups.level4.reads"),
    ("cold_lookups.level5.count", "cold_lookups.level5.reads"),
    ("cold_lookups.level6.count", "cold_lookups.level6.reads"),
    ("cold_lookups.not_found.count", "cold_lookups.not_found.reads"),
];
/// Names of the counts of lookups by number of reads.
const LENGTH_NAMES: [&str; READS_MAX] = [
    "cold_lookups.by_reads.1",
    "cold_lookups.by_reads.2",
    "cold_lookups.by_reads.3",
    "cold_lookups.by_reads.4",
    "cold_lookups.by_reads.5",
    "cold_lookups.by_reads.6",
    "cold_lookups.by_reads.7",
    "cold_lookups.by_reads.8_or_more",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A lookup that read these blocks in these tables and found the key in the last one, if at
    /// all.
    fn lookup(level: Option<usize>, tables: &[&[BlockKind]]) -> LookupReads {
        let mut lookup = LookupReads::default();
        for (number, blocks) in tables.iter().enumerate() {
            lookup.table_begins();
            blocks.iter().for_each(|kind| lookup.add(*kind));
            match level {
                Some(level) if number + 1 == tables.len() => lookup.found_on(level),
                _ => lookup.table_lacks_it(),
            }
        }
        lookup
    }

    #[test]
    fn lookups_count_by_end_and_by_purpose_of_reads() {
        use BlockKind::{Data, Filter, Index};
        let lookups = ColdLookups::default();
        for lookup in [
            lookup(Some(6), &[&[Data]]),
            lookup(Some(6), &[&[Filter], &[], &[Index, Data]]),
            lookup(Some(0), &[&[Data; 20]]),
            lookup(Some(3), &[&[], &[]]),
            lookup(None, &[&[Filter, Index, Data], &[Data]]),
        ] {
            lookups.note(&lookup);
        }
        let counters: BTreeMap<_, _> =
            lookups.counters().into_iter().filter(|(_, n)| *n > 0).collect();
        let expected = [
            ("cold_lookups.count", 4),
            ("cold_lookups.reads", 28),
            ("cold_lookups.level6.count", 2),
            ("cold_lookups.level6.reads", 4),
            ("cold_lookups.level0.count", 1),
            ("cold_lookups.level0.reads", 20),
            ("cold_lookups.not_found.count", 1),
            ("cold_lookups.not_found.reads", 4),
            ("cold_lookups.by_reads.1", 1),
            ("cold_lookups.by_reads.3", 1),
            ("cold_lookups.by_reads.4", 1),
            ("cold_lookups.by_reads.8_or_more", 1),
            ("cold_lookups.filter_reads", 2),
            ("cold_lookups.wasted_reads", 3),
        ];
        assert_eq!(counters, expected.into());
    }
}
