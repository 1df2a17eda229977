//! Range tombstones, cut into fragments so that one binary search finds the tombstones over a key.
//!
//! A tombstone `[start, end) @ sequence` hides every entry of its keys whose
//! sequence is smaller. Overlapping tombstones are fragmented: the fragments
//! do not overlap, and each carries the sequences that cover it, newest first.
//! Immutable once built, so it is shared freely between threads.

use std::collections::BTreeMap;

use crate::format::key::{SEQUENCE_MAX, Sequence};

/// One deletion of a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    /// First deleted key.
    pub(crate) start: Box<[u8]>,
    /// First key after `start` that is not deleted.
    pub(crate) end: Box<[u8]>,
    /// Entries older than this are deleted.
    pub(crate) sequence: Sequence,
}

impl RangeTombstone {
    pub(crate) fn new(start: &[u8], end: &[u8], sequence: Sequence) -> Self {
        Self { start: start.into(), end: end.into(), sequence }
    }
}

/// A run of keys covered by the same tombstones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) start: Box<[u8]>,
    pub(crate) end: Box<[u8]>,
    /// Newest first, never empty.
    pub(crate) sequences: Box<[Sequence]>,
}

/// A set of range tombstones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeTombstones {
    fragments: Vec<Fragment>,
}

impl RangeTombstones {
    /// The set of `tombstones`, in any order. Empty ranges are dropped.
    ///
    /// For nested ranges the memory grows with the square of their number: see [`Self::newest`].
    pub(crate) fn new(tombstones: &[RangeTombstone]) -> Self {
        Self::swept(tombstones, |sequence| sequence.checked_sub(1))
    }

    /// Like [`Self::new`], but for readers of the present and of `snapshots`, ascending. Of several
    /// tombstones without a snapshot between them, only the newest is kept. A fragment therefore
    /// has at most one sequence more than there are snapshots.
    pub(crate) fn newest(tombstones: &[RangeTombstone], snapshots: &[Sequence]) -> Self {
        Self::swept(tombstones, |sequence| {
            let older = snapshots.partition_point(|&snapshot| snapshot < sequence);
            older.checked_sub(1).map(|last| snapshots[last])
        })
    }

    /// Sweeps over the keys from left to right and tracks the open tombstones. After each kept
    /// tombstone, the next kept one is the one that a reader at `next_reader` of it sees.
    fn swept(
        tombstones: &[RangeTombstone],
        next_reader: impl Fn(Sequence) -> Option<Sequence>,
    ) -> Self {
        let mut by_start: Vec<&RangeTombstone> =
            tombstones.iter().filter(|t| t.start < t.end).collect();
        let mut by_end = by_start.clone();
        by_start.sort_by(|a, b| a.start.cmp(&b.start));
        by_end.sort_by(|a, b| a.end.cmp(&b.end));
        let mut edges: Vec<&[u8]> = by_start.iter().flat_map(|t| [&*t.start, &*t.end]).collect();
        edges.sort_unstable();
        edges.dedup();
        let (mut starting, mut ending) = (by_start.iter().peekable(), by_end.iter().peekable());
        // Number of open tombstones of each sequence.
        let mut open: BTreeMap<Sequence, usize> = BTreeMap::new();
        let mut fragments = Vec::new();
        for pair in edges.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            while let Some(tombstone) = starting.next_if(|t| &*t.start <= start) {
                *open.entry(tombstone.sequence).or_default() += 1;
            }
            while let Some(tombstone) = ending.next_if(|t| &*t.end <= start) {
                let count = open.get_mut(&tombstone.sequence).expect("it was opened");
                *count -= 1;
                if *count == 0 {
                    open.remove(&tombstone.sequence);
                }
            }
            let mut sequences = Vec::new();
            let mut reader = Some(SEQUENCE_MAX);
            while let Some(at) = reader
                && let Some((&sequence, _)) = open.range(..=at).next_back()
            {
                sequences.push(sequence);
                reader = next_reader(sequence);
            }
            if !sequences.is_empty() {
                fragments.push(Fragment {
                    start: start.into(),
                    end: end.into(),
                    sequences: sequences.into(),
                });
            }
        }
        Self { fragments }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The fragments as tombstones, one for each sequence.
    pub(crate) fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments
            .iter()
            .flat_map(|f| f.sequences.iter().map(|&s| RangeTombstone::new(&f.start, &f.end, s)))
    }

    /// The fragment that holds `key`.
    pub(crate) fn fragment_of(&self, key: &[u8]) -> Option<&Fragment> {
        let after = self.fragments.partition_point(|f| &*f.start <= key);
        let fragment = &self.fragments[after.checked_sub(1)?];
        (key < &*fragment.end).then_some(fragment)
    }

    /// The newest tombstone over `key` that a reader at `at` sees; 0 if there is none (no write has
    /// sequence 0).
    pub(crate) fn newest_over(&self, key: &[u8], at: Sequence) -> Sequence {
        self.fragment_of(key).map_or(0, |f| f.newest_at(at))
    }

    /// Bytes of DRAM held.
    pub(crate) fn charge(&self) -> usize {
        let one = |f: &Fragment| {
            size_of::<Fragment>() + f.start.len() + f.end.len() + 8 * f.sequences.len()
        };
        self.fragments.iter().map(one).sum()
    }
}

impl Fragment {
    /// The newest sequence that a reader at `at` sees, or 0.
    pub(crate) fn newest_at(&self, at: Sequence) -> Sequence {
        self.sequences.iter().copied().find(|&s| s <= at).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
