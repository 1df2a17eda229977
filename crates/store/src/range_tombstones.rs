//! Range tombstones, cut into fragments so that a point or a cursor finds what
//! covers it by one binary search.
//!
//! A tombstone `[start, end) @ sequence` hides every entry of its keys whose
//! sequence is smaller. Overlapping tombstones are fragmented: the fragments
//! do not overlap, and each carries the sequences that cover it, newest first.
//! Immutable once built, so it is shared freely between threads.

use crate::key::Sequence;

/// One deletion of a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    /// First key that is gone.
    pub(crate) start: Box<[u8]>,
    /// First key after `start` that is not.
    pub(crate) end: Box<[u8]>,
    /// Entries older than this are gone.
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
    pub(crate) fn new(tombstones: &[RangeTombstone]) -> Self {
        let mut live: Vec<&RangeTombstone> =
            tombstones.iter().filter(|t| t.start < t.end).collect();
        live.sort_by(|a, b| a.start.cmp(&b.start));
        let mut edges: Vec<&[u8]> = live.iter().flat_map(|t| [&*t.start, &*t.end]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut fragments = Vec::new();
        let mut open: Vec<&RangeTombstone> = Vec::new();
        let mut next = 0;
        for pair in edges.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            open.retain(|t| &*t.end > start);
            while next < live.len() && &*live[next].start <= start {
                open.push(live[next]);
                next += 1;
            }
            if open.is_empty() {
                continue;
            }
            let mut sequences: Vec<Sequence> = open.iter().map(|t| t.sequence).collect();
            sequences.sort_unstable_by(|a, b| b.cmp(a));
            sequences.dedup();
            fragments.push(Fragment {
                start: start.into(),
                end: end.into(),
                sequences: sequences.into(),
            });
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

    /// The newest tombstone over `key` that a reader at `at` sees; 0 when
    /// there is none (no write has sequence 0).
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fragments_say_what_the_list_says(
            list in prop::collection::vec((0u8..40, 0u8..40, 1u64..60), 0..24),
            at in 0u64..64,
        ) {
            let tombstones: Vec<_> = list.iter()
                .map(|&(a, b, s)| RangeTombstone::new(&[a], &[b], s)).collect();
            let set = RangeTombstones::new(&tombstones);
            for key in 0u8..42 {
                let expected = list.iter()
                    .filter(|&&(a, b, s)| a <= key && key < b && s <= at)
                    .map(|t| t.2).max().unwrap_or(0);
                prop_assert_eq!(set.newest_over(&[key], at), expected);
            }
            let again = RangeTombstones::new(&set.tombstones().collect::<Vec<_>>());
            prop_assert_eq!(again, set);
        }
    }
}
