//! Cold lookups, those of single keys that read storage: what they read, and for what. Keys differ
//! in it, by the level where they are found, and by tables that are looked into for nothing
//! (SpotKV, abstract).
//!
//! ```text
//!   reads = those of filters
//!         + those in vain: index and data blocks of tables that do not have the key, as a
//!           filter let it pass or was not asked
//!         + those that found it
//! ```
//!
//! A block that was not in memory counts for each lookup that had to wait for it, whoever read it:
//! together these are more than the store's reads (`io.reads`) where lookups meet at a block.
//!
//! A [`LookupReads`] is kept while a lookup is under way, by its thread; it counts in
//! [`ColdLookups`] once, when there is an answer. That is safe to use from all threads.

use std::mem;

use tidekv_cache::BlockKind;

use crate::format::LEVELS;
use crate::stats::Counter;

/// Where a lookup may end: on a level, or nowhere.
const ENDS: usize = LEVELS + 1;
/// Lookups of so many reads and more are counted together.
const READS_MAX: usize = 8;

/// What a lookup has read of storage so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LookupReads {
    all: u32,
    of_filters: u32,
    in_vain: u32,
    /// Index and data blocks of the table that is asked.
    of_table: u32,
    /// Where the key was found; nowhere if all that was found is deleted by a range.
    level: Option<usize>,
}

impl LookupReads {
    /// How many there are.
    pub(crate) fn all(&self) -> u32 {
        self.all
    }

    /// A block was read.
    pub(crate) fn add(&mut self, kind: BlockKind) {
        self.all += 1;
        match kind {
            BlockKind::Filter => self.of_filters += 1,
            BlockKind::Index | BlockKind::Data => self.of_table += 1,
        }
    }

    /// Another table is asked.
    pub(crate) fn table_begins(&mut self) {
        self.of_table = 0;
    }

    /// The table that was asked does not have the key.
    pub(crate) fn table_lacks_it(&mut self) {
        self.in_vain += mem::take(&mut self.of_table);
    }

    /// The key was found on this level.
    pub(crate) fn found_on(&mut self, level: usize) {
        self.level = Some(level);
    }
}

/// Lookups that ended in one place.
#[derive(Debug, Default)]
struct ColdEnd {
    lookups: Counter,
    reads: Counter,
}

/// What all cold lookups have read.
#[derive(Debug, Default)]
pub(crate) struct ColdLookups {
    /// By where they ended.
    ends: [ColdEnd; ENDS],
    /// How many did one read, two, and so on.
    lookups_of: [Counter; READS_MAX],
    filter_reads: Counter,
    reads_in_vain: Counter,
}

impl ColdLookups {
    /// A lookup has its answer.
    pub(crate) fn note(&self, lookup: &LookupReads) {
        let Some(more) = lookup.all.checked_sub(1) else { return };
        let end = &self.ends[lookup.level.unwrap_or(LEVELS)];
        end.lookups.add(1);
        end.reads.add(u64::from(lookup.all));
        self.lookups_of[(more as usize).min(READS_MAX - 1)].add(1);
        for (counter, reads) in
            [(&self.filter_reads, lookup.of_filters), (&self.reads_in_vain, lookup.in_vain)]
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
            ("cold.lookups", sum(|end| &end.lookups)),
            ("cold.reads", sum(|end| &end.reads)),
            ("cold.filter_reads", self.filter_reads.get()),
            ("cold.reads_in_vain", self.reads_in_vain.get()),
        ];
        for (end, (lookups, reads)) in self.ends.iter().zip(END_NAMES) {
            counters.extend([(lookups, end.lookups.get()), (reads, end.reads.get())]);
        }
        counters.extend(LENGTH_NAMES.into_iter().zip(self.lookups_of.iter().map(Counter::get)));
        counters
    }
}

/// Of lookups that end there, and of their reads.
const END_NAMES: [(&str, &str); ENDS] = [
    ("cold.level0.lookups", "cold.level0.reads"),
    ("cold.level1.lookups", "cold.level1.reads"),
    ("cold.level2.lookups", "cold.level2.reads"),
    ("cold.level3.lookups", "cold.level3.reads"),
    ("cold.level4.lookups", "cold.level4.reads"),
    ("cold.level5.lookups", "cold.level5.reads"),
    ("cold.level6.lookups", "cold.level6.reads"),
    ("cold.absent.lookups", "cold.absent.reads"),
];
/// Of lookups by how many reads they did.
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

    /// One that read these blocks, of the last of the tables it asked where it found the key.
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
    fn lookups_count_by_their_ends_and_by_what_their_reads_were_for() {
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
            ("cold.lookups", 4),
            ("cold.reads", 28),
            ("cold.level6.lookups", 2),
            ("cold.level6.reads", 4),
            ("cold.level0.lookups", 1),
            ("cold.level0.reads", 20),
            ("cold.absent.lookups", 1),
            ("cold.absent.reads", 4),
            ("cold.lookups_of_1", 1),
            ("cold.lookups_of_3", 1),
            ("cold.lookups_of_4", 1),
            ("cold.lookups_of_8_or_more", 1),
            ("cold.filter_reads", 2),
            ("cold.reads_in_vain", 3),
        ];
        assert_eq!(counters, expected.into());
    }
}
