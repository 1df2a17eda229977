//! Ablations: mechanisms of [`adaptive`](crate::partition::controller) that the lab can switch off
//! one by one to measure the effect of each. They never change the answer of a lookup.

use std::fmt;

/// A mechanism of `adaptive` that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ablation {
    /// Admission and eviction go by access frequency. Without: every entry is admitted; blocks are
    /// evicted in LRU order, entries in FIFO order with a second chance for those accessed since
    /// they were last up for eviction. Sketches and ghosts stay as they are.
    Admission,
    /// Boundaries move. Without: they stay at [`Ablations::SPLIT`]. Ghosts are still charged.
    Controller,
    /// Ghosts keep the most frequently accessed fingerprints. Without: the most recently evicted
    /// ones.
    GhostChoice,
    /// The benefit of a hit is measured. Without: it is AC-Key's `f(m)`, by level.
    MeasuredBenefit,
    /// Filters that save no reads are not read. Without: all filters are read.
    FilterWorth,
    /// Among blocks of equal frequency, blocks of whole extents stay. Without: the newer blocks
    /// stay.
    Extents,
    /// Compactions redirect pointers to the entries' new locations and keep hot blocks in memory.
    /// Without: pointers into the replaced tables are dropped, and so are the blocks.
    Repair,
    /// A flush updates the cached entries of the keys that it writes. Without: it drops them.
    Sync,
    /// A get that finds everything in blocks is charged a small part of the time of a read, which a
    /// KV hit would save. Without: memory hits count as free.
    MemoryHitTime,
    /// A key is worth more the more reads its lookups take. Without: all lookups are assumed to
    /// cost the same, so values and pointers are kept by access frequency per byte.
    Cost,
    /// The sketch counts the lookups of a key, and each costs the average of lookups that end on
    /// its level. Without: the sketch counts the I/Os of that key's lookups (SpotKV's weighted
    /// Count-Min sketch).
    CostByLevel,
    /// Entries are compact. Without: they are charged as in AC-Key (`Ablations::entry_bytes`).
    CompactEntries,
}

/// All ablations by name.
const NAMES: [(Ablation, &str); 12] = [
    (Ablation::Admission, "admission"),
    (Ablation::Controller, "controller"),
    (Ablation::GhostChoice, "ghost-choice"),
    (Ablation::MeasuredBenefit, "measured-benefit"),
    (Ablation::FilterWorth, "filter-worth"),
    (Ablation::Extents, "extents"),
    (Ablation::Repair, "repair"),
    (Ablation::Sync, "sync"),
    (Ablation::MemoryHitTime, "spared-time"),
    (Ablation::Cost, "cost"),
    (Ablation::CostByLevel, "cost-by-level"),
    (Ablation::CompactEntries, "compact-entries"),
];

/// A set of ablations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ablations(u16);

/// Charged bytes of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryBytes {
    /// A KV entry.
    pub(crate) kv: usize,
    /// A KP entry.
    pub(crate) kp: usize,
}

impl Ablations {
    /// No ablation.
    pub const NONE: Self = Self(0);

    /// Fixed boundaries, if boundaries do not move: the shares of KV, KP and blocks.
    pub const SPLIT: [f64; 3] = [0.3, 0.1, 0.6];

    /// This crate's size of the paper's entry (16 bytes of key, 100 of value).
    pub(crate) const COMPACT: EntryBytes = EntryBytes { kv: 139, kp: 16 };

    /// AC-Key's size of the same entry: key, value and 48 bytes of bookkeeping; key and a 24-byte
    /// pointer.
    pub(crate) const AS_PUBLISHED: EntryBytes = EntryBytes { kv: 164, kp: 40 };

    /// Every ablation with its name.
    pub fn all() -> impl Iterator<Item = (Ablation, &'static str)> {
        NAMES.into_iter()
    }

    /// This set plus one ablation.
    #[must_use]
    pub const fn and(self, ablation: Ablation) -> Self {
        Self(self.0 | 1 << ablation as u16)
    }

    /// Whether the set contains `ablation`.
    #[inline]
    pub const fn has(self, ablation: Ablation) -> bool {
        self.0 & 1 << ablation as u16 != 0
    }

    /// Parses comma-separated names; returns the first unknown name as the error.
    pub(crate) fn parse(text: &str) -> Result<Self, &str> {
        text.split(',').try_fold(Self::NONE, |ablations, name| {
            let found = NAMES.iter().find(|(_, other)| *other == name);
            found.map(|(ablation, _)| ablations.and(*ablation)).ok_or(name)
        })
    }

    /// The bytes charged per entry under these ablations.
    pub(crate) fn entry_bytes(self) -> EntryBytes {
        if self.has(Ablation::CompactEntries) { Self::AS_PUBLISHED } else { Self::COMPACT }
    }
}

impl fmt::Display for Ablations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(ablation, _)| self.has(*ablation));
        for (position, (_, name)) in names.enumerate() {
            let comma = if position > 0 { "," } else { "" };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}
