//! What lookups of single keys cost that read storage: *cold* ones. Keys differ in it, by the
//! level where they are found, and by tables that are looked into for nothing (SpotKV,
//! abstract).
//!
//! ```text
//!   reads = those of filters
//!         + those in vain: index and data blocks of tables that do not have the key, as a
//!           filter let it pass or was not asked
//!         + those that found it
//! ```
//!
//! A lookup that found what it wanted in memory counts nothing here. Counted once a lookup,
//! when it has its answer; safe to use from all threads.

use crate::manifest::LEVELS;
use crate::stats::Counter;

/// Where a lookup may end: on a level, or nowhere.
const ENDS: usize = LEVELS + 1;
/// Lookups of so many reads and more are counted together.
const READS_MAX: usize = 8;

/// What a lookup has read of storage so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ColdLookup {
    pub(crate) reads: u32,
    /// Of them, those of filters.
    pub(crate) filter_reads: u32,
    /// Of them, index and data blocks of tables that turned out not to have the key.
    pub(crate) reads_in_vain: u32,
    /// The level where the key was found.
    pub(crate) level: Option<usize>,
}

/// What all of them have read.
#[derive(Debug, Default)]
pub(crate) struct ColdLookups {
    /// Lookups by where they ended, and how many reads they did.
    lookups: [[Counter; READS_MAX]; ENDS],
    /// Reads by where lookups ended.
    reads: [Counter; ENDS],
    filter_reads: Counter,
    reads_in_vain: Counter,
}

impl ColdLookups {
    /// A lookup has its answer.
    pub(crate) fn note(&self, lookup: &ColdLookup) {
        let reads = lookup.reads as usize;
        if reads == 0 {
            return;
        }
        let end = lookup.level.unwrap_or(LEVELS);
        self.lookups[end][reads.min(READS_MAX) - 1].add(1);
        self.reads[end].add(u64::from(lookup.reads));
        for (counter, reads) in
            [(&self.filter_reads, lookup.filter_reads), (&self.reads_in_vain, lookup.reads_in_vain)]
        {
            if reads > 0 {
                counter.add(u64::from(reads));
            }
        }
    }

    /// Name and value of every counter, in a fixed order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let of_end = |end: usize| -> u64 { self.lookups[end].iter().map(Counter::get).sum() };
        let of_reads = |at: usize| -> u64 { self.lookups.iter().map(|end| end[at].get()).sum() };
        let lookups = LOOKUP_NAMES.into_iter().enumerate().map(move |(i, name)| (name, of_end(i)));
        let reads = READ_NAMES.into_iter().zip(self.reads.iter().map(Counter::get));
        let lengths = LENGTH_NAMES.into_iter().enumerate().map(move |(i, n)| (n, of_reads(i)));
        let parts = [
            ("cold.filter_reads", self.filter_reads.get()),
            ("cold.reads_in_vain", self.reads_in_vain.get()),
        ];
        lookups.chain(reads).chain(lengths).chain(parts)
    }
}

/// Lookups by where they ended.
const LOOKUP_NAMES: [&str; ENDS] = [
    "cold.level0.lookups",
    "cold.level1.lookups",
    "cold.level2.lookups",
    "cold.level3.lookups",
    "cold.level4.lookups",
    "cold.level5.lookups",
    "cold.level6.lookups",
    "cold.absent.lookups",
];
/// Their reads.
const READ_NAMES: [&str; ENDS] = [
    "cold.level0.reads",
    "cold.level1.reads",
    "cold.level2.reads",
    "cold.level3.reads",
    "cold.level4.reads",
    "cold.level5.reads",
    "cold.level6.reads",
    "cold.absent.reads",
];
/// Lookups by how many reads they did.
const LENGTH_NAMES: [&str; READS_MAX] = [
    "cold.lookups_of_1",
    "cold.lookups_of_2",
    "cold.lookups_of_3",
    "cold.lookups_of_4",
    "cold.lookups_of_5",
    "cold.lookups_of_6",
    "cold.lookups_of_7",
    "cold.lookups_of_8_or_more",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn lookups_count_by_their_ends_and_by_their_reads() {
        let lookups = ColdLookups::default();
        let found = |level, reads| ColdLookup { reads, level: Some(level), ..Default::default() };
        for lookup in [
            found(6, 1),
            found(6, 2),
            found(0, 20),
            found(3, 0),
            ColdLookup { reads: 3, filter_reads: 1, reads_in_vain: 2, level: None },
        ] {
            lookups.note(&lookup);
        }
        let counters: BTreeMap<_, _> = lookups.counters().filter(|(_, n)| *n > 0).collect();
        let expected = [
            ("cold.level6.lookups", 2),
            ("cold.level6.reads", 3),
            ("cold.level0.lookups", 1),
            ("cold.level0.reads", 20),
            ("cold.absent.lookups", 1),
            ("cold.absent.reads", 3),
            ("cold.lookups_of_1", 1),
            ("cold.lookups_of_2", 1),
            ("cold.lookups_of_3", 1),
            ("cold.lookups_of_8_or_more", 1),
            ("cold.filter_reads", 1),
            ("cold.reads_in_vain", 2),
        ];
        assert_eq!(counters, expected.into());
    }
}
