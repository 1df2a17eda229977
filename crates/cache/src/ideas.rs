//! The ideas that [`tide`](crate::partition::controller) is made of, as far as it can do without one: so
//! that the lab can say what each is worth. Answers never depend on them.

use std::fmt;

/// Something that `tide` can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Idea {
    /// What comes in, and what leaves, goes by how often it was asked for. Without: all
    /// comes in; of blocks the least recently used one leaves, of entries the oldest that
    /// was not asked for since it last stood to leave. Sketches and ghosts are as before.
    Admission,
    /// Boundaries move. Without: they stand at [`Ideas::SPLIT`]. Ghosts are still paid for.
    Controller,
    /// Ghosts keep what is asked for most. Without: what left last.
    GhostChoice,
    /// What a hit saves is measured. Without: it is AC-Key's `f(m)`, by the level.
    MeasuredBenefit,
    /// Filters that save nothing are not read. Without: all are.
    FilterWorth,
    /// Of blocks that are asked for equally often, whole extents stay. Without: the newer
    /// ones.
    Extents,
    /// Pointers are led on when a compaction moves entries, and what was hot stays in
    /// memory. Without: pointers into what it replaces go, and so do the blocks.
    Repair,
    /// Entries of keys that a flush writes are brought up to date. Without: they go.
    Sync,
    /// A get that finds everything in blocks takes a little of the time of a read, which a hit
    /// of KV would save. Without: what is in memory is nothing to be saved.
    SparedTime,
    /// A key is worth the more, the more its lookups read. Without: all are taken to read alike,
    /// so that values and pointers are kept by how often they are asked for, per byte.
    Cost,
    /// The sketch counts lookups of a key, and what each costs is what lookups that end on its
    /// level cost on average. Without: it counts the I/Os that the lookups of that key did
    /// (SpotKV's weighted Count-Min sketch).
    CostByLevel,
    /// Entries are small. Without: they are charged as AC-Key's would be
    /// ([`Ideas::entry_bytes`]).
    CompactEntries,
}

/// All of them, by name.
const NAMES: [(Idea, &str); 12] = [
    (Idea::Admission, "admission"),
    (Idea::Controller, "controller"),
    (Idea::GhostChoice, "ghost-choice"),
    (Idea::MeasuredBenefit, "measured-benefit"),
    (Idea::FilterWorth, "filter-worth"),
    (Idea::Extents, "extents"),
    (Idea::Repair, "repair"),
    (Idea::Sync, "sync"),
    (Idea::SparedTime, "spared-time"),
    (Idea::Cost, "cost"),
    (Idea::CostByLevel, "cost-by-level"),
    (Idea::CompactEntries, "compact-entries"),
];

/// A set of ideas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ideas(u16);

/// Bytes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryBytes {
    /// Of KV.
    pub(crate) kv: usize,
    /// Of KP.
    pub(crate) kp: usize,
}

impl Ideas {
    /// None.
    pub const NONE: Self = Self(0);

    /// Where boundaries stand that do not move: the shares of KV, KP and blocks.
    pub const SPLIT: [f64; 3] = [0.3, 0.1, 0.6];

    /// An entry of the paper's, 16 bytes of key and 100 of value, as it is here.
    pub(crate) const COMPACT: EntryBytes = EntryBytes { kv: 139, kp: 16 };

    /// The same as AC-Key would keep it: key, value and 48 bytes of bookkeeping; key and a
    /// pointer of 24 bytes.
    pub(crate) const AS_PUBLISHED: EntryBytes = EntryBytes { kv: 164, kp: 40 };

    /// Every idea by its name.
    pub fn all() -> impl Iterator<Item = (Idea, &'static str)> {
        NAMES.into_iter()
    }

    /// These, and one more.
    #[must_use]
    pub const fn and(self, idea: Idea) -> Self {
        Self(self.0 | 1 << idea as u16)
    }

    /// Whether the idea is one of them.
    #[inline]
    pub const fn has(self, idea: Idea) -> bool {
        self.0 & 1 << idea as u16 != 0
    }

    /// Reads names with commas between them; the first that is none, otherwise.
    pub(crate) fn parse(text: &str) -> Result<Self, &str> {
        text.split(',').try_fold(Self::NONE, |ideas, name| {
            let found = NAMES.iter().find(|(_, other)| *other == name);
            found.map(|(idea, _)| ideas.and(*idea)).ok_or(name)
        })
    }

    /// The bytes that an entry takes, if these are left out.
    pub(crate) fn entry_bytes(self) -> EntryBytes {
        if self.has(Idea::CompactEntries) { Self::AS_PUBLISHED } else { Self::COMPACT }
    }
}

impl fmt::Display for Ideas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(idea, _)| self.has(*idea));
        for (position, (_, name)) in names.enumerate() {
            let comma = if position > 0 { "," } else { "" };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}
