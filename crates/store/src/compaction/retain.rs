//! Decides which input entries a flush or a compaction keeps.
//!
//! Entries arrive in internal order: for each user key the newest first. An entry is kept unless no
//! reader, now or at any snapshot, can see it:
//!
//! 1. Snapshots cut the sequences into *stripes*: stripe i holds the sequences that the i-th oldest
//!    snapshot sees and the one before it does not; the last stripe is for readers of the present.
//!    Of several versions of a key in one stripe only the newest is visible.
//! 2. A range tombstone of the same stripe hides older versions.
//! 3. An entry whose deadline has passed is a deletion.
//! 4. A deletion in the oldest stripe is not needed when no older level may
//!    hold the key.
//! 5. In a compaction: in the oldest stripe, when no older level may hold the key, the sequence
//!    number is no longer needed: it becomes 0, which is stored in one byte. Exception: a range
//!    tombstone of the inputs covers the key; if it is kept, for other keys of its range, it would
//!    hide the entry.
//!
//! Pure: the caller passes time, snapshots and the levels below.

use std::cmp::Ordering;

use crate::format::key::{Kind, Sequence, Trailer, split_deadline};
use crate::format::range_tombstones::{Fragment, RangeTombstone, RangeTombstones};

/// The decision on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is kept, with this trailer; a deletion has no payload.
    Keep(Trailer),
    /// No reader can see it.
    Drop,
    /// It is not after the previous entry: the input is damaged.
    OutOfOrder,
}

/// Decides on the entries of one flush or compaction, in their order.
#[derive(Debug)]
pub(crate) struct Retention<'a> {
    /// Ascending.
    snapshots: &'a [Sequence],
    now_ms: u64,
    tombstones: &'a RangeTombstones,
    /// Whether rule 5 applies.
    zeroes_sequences: bool,
    /// The previous entry; initially the empty key, which precedes all others.
    key: Vec<u8>,
    trailer: Trailer,
    /// The stripe of the newest version of `key` so far.
    stripe: usize,
    expired: u64,
}

impl<'a> Retention<'a> {
    pub(crate) fn new(
        snapshots: &'a [Sequence],
        now_ms: u64,
        tombstones: &'a RangeTombstones,
    ) -> Self {
        debug_assert!(snapshots.is_sorted());
        Self {
            snapshots,
            now_ms,
            tombstones,
            zeroes_sequences: true,
            key: Vec::new(),
            trailer: Trailer(u64::MAX),
            stripe: usize::MAX,
            expired: 0,
        }
    }

    /// The same without rule 5: tables of level 0 are ordered by their sequences.
    #[must_use]
    pub(crate) fn keeping_sequences(self) -> Self {
        Self { zeroes_sequences: false, ..self }
    }

    fn stripe_of(&self, sequence: Sequence) -> usize {
        stripe_of(self.snapshots, sequence)
    }

    /// Decides on the next entry. `is_base(key)` returns whether no older level may hold the key;
    /// it is called at most once per entry, with ascending keys. (The second copy of a duplicate
    /// entry is dropped.)
    pub(crate) fn decide(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        is_base: impl FnOnce(&[u8]) -> bool,
    ) -> Decision {
        let stripe = self.stripe_of(trailer.sequence());
        let is_same_key = match self.key.as_slice().cmp(key) {
            Ordering::Less => {
                self.key.clear();
                self.key.extend_from_slice(key);
                false
            }
            Ordering::Equal if trailer <= self.trailer => true,
            Ordering::Equal | Ordering::Greater => return Decision::OutOfOrder,
        };
        self.trailer = trailer;
        if is_same_key && stripe == self.stripe {
            return Decision::Drop;
        }
        self.stripe = stripe;
        if self.is_covered(key, trailer.sequence(), stripe) {
            return Decision::Drop;
        }
        let expired = trailer.kind() == Kind::Expiring
            && split_deadline(payload).is_none_or(|(deadline, _)| deadline <= self.now_ms);
        self.expired += u64::from(expired);
        let kind = if expired { Kind::Delete } else { trailer.kind() };
        let matters = kind == Kind::Delete || self.zeroes_sequences;
        let oldest = stripe == 0 && matters && is_base(key);
        match (kind, oldest) {
            (Kind::Delete, true) => Decision::Drop,
            (_, true) if self.tombstones.fragment_of(key).is_none() => {
                Decision::Keep(Trailer::new(0, kind))
            }
            (_, _) => Decision::Keep(Trailer::new(trailer.sequence(), kind)),
        }
    }

    fn is_covered(&self, key: &[u8], sequence: Sequence, stripe: usize) -> bool {
        // The newest tombstone of this stripe: not newer than its snapshot.
        let top = self.snapshots.get(stripe).copied().unwrap_or(Sequence::MAX);
        !self.tombstones.is_empty() && self.tombstones.newest_over(key, top) > sequence
    }

    /// Entries whose deadline had passed.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }
}

fn stripe_of(snapshots: &[Sequence], sequence: Sequence) -> usize {
    snapshots.partition_point(|&s| s < sequence)
}

/// The range tombstones that a flush or compaction keeps, as fragments: of each stripe the newest,
/// and none of the oldest where `is_base(start, end)` returns that no older level holds a key of
/// the range.
pub(crate) fn retained_tombstones(
    tombstones: &RangeTombstones,
    snapshots: &[Sequence],
    mut is_base: impl FnMut(&Fragment) -> bool,
) -> Vec<RangeTombstone> {
    let mut kept = Vec::new();
    for fragment in tombstones.fragments() {
        let mut last_stripe = usize::MAX;
        for &sequence in &fragment.sequences {
            let stripe = stripe_of(snapshots, sequence);
            if stripe == last_stripe {
                continue;
            }
            last_stripe = stripe;
            if stripe > 0 || !is_base(fragment) {
                kept.push(RangeTombstone::new(&fragment.start, &fragment.end, sequence));
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests;
