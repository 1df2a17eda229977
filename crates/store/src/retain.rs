//! What a flush or a compaction keeps of the entries it reads.
//!
//! Entries come in internal order: for each user key the newest first. An
//! entry is kept unless no reader, now or at any snapshot, can see it:
//!
//! 1. Snapshots cut the sequences into *stripes*: stripe i holds what the i-th
//!    oldest snapshot sees and the one before it does not; the last stripe is
//!    for readers of the present. Of several versions of a key in one stripe
//!    only the newest is seen.
//! 2. A range tombstone of the same stripe hides older versions.
//! 3. An entry whose deadline has passed is a deletion.
//! 4. A deletion in the oldest stripe is not needed when no older level may
//!    hold the key.
//! 5. In the oldest stripe, when no older level may hold the key, the sequence
//!    number says nothing any more: it becomes 0, which is stored in one byte.
//!    Unless a range tombstone of the inputs covers the key: if it is kept, for
//!    other keys of its range, it would hide the entry.
//!
//! Pure: time, snapshots and the levels below are handed in.

use crate::key::{Kind, Sequence, Trailer, split_deadline};
use crate::range_tombstones::{Fragment, RangeTombstone, RangeTombstones};

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is kept, with this trailer; a deletion has no payload.
    Keep(Trailer),
    /// Nobody can see it.
    Drop,
}

/// Judges the entries of one flush or compaction, in their order.
#[derive(Debug)]
pub(crate) struct Retention<'a> {
    /// Ascending.
    snapshots: &'a [Sequence],
    now_ms: u64,
    tombstones: &'a RangeTombstones,
    key: Vec<u8>,
    has_key: bool,
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
            key: Vec::new(),
            has_key: false,
            stripe: 0,
            expired: 0,
        }
    }

    fn stripe_of(&self, sequence: Sequence) -> usize {
        stripe_of(self.snapshots, sequence)
    }

    /// Judges the next entry. `is_base(key)` says whether no older level may
    /// hold the key; it is asked at most once an entry, with ascending keys.
    pub(crate) fn judge(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        is_base: impl FnOnce(&[u8]) -> bool,
    ) -> Verdict {
        let stripe = self.stripe_of(trailer.sequence());
        if self.has_key && self.key == key {
            if stripe == self.stripe {
                return Verdict::Drop;
            }
        } else {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.has_key = true;
        }
        self.stripe = stripe;
        if self.is_covered(key, trailer.sequence(), stripe) {
            return Verdict::Drop;
        }
        let expired = trailer.kind() == Kind::Expiring
            && split_deadline(payload).is_none_or(|(deadline, _)| deadline <= self.now_ms);
        self.expired += u64::from(expired);
        let kind = if expired { Kind::Delete } else { trailer.kind() };
        let oldest = stripe == 0 && is_base(key);
        match (kind, oldest) {
            (Kind::Delete, true) => Verdict::Drop,
            (_, true) if self.tombstones.fragment_of(key).is_none() => {
                Verdict::Keep(Trailer::new(0, kind))
            }
            (_, _) => Verdict::Keep(Trailer::new(trailer.sequence(), kind)),
        }
    }

    fn is_covered(&self, key: &[u8], sequence: Sequence, stripe: usize) -> bool {
        // The newest tombstone of this stripe: none newer than its snapshot.
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

/// The range tombstones that a flush or compaction keeps, as fragments: of
/// each stripe the newest, and none of the oldest where `is_base(start, end)`
/// says that no older level holds a key of the range.
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// What a reader at `at` sees of one key's entries.
    fn seen(
        entries: &[(Trailer, Vec<u8>)],
        tombstones: &RangeTombstones,
        key: &[u8],
        at: Sequence,
        now: u64,
    ) -> Option<Vec<u8>> {
        let (trailer, payload) = entries.iter().find(|(t, _)| t.sequence() <= at)?;
        if tombstones.newest_over(key, at) > trailer.sequence() {
            return None;
        }
        match trailer.kind() {
            Kind::Value => Some(payload.clone()),
            Kind::Expiring => {
                let (deadline, value) = split_deadline(payload).unwrap();
                (deadline > now).then(|| value.to_vec())
            }
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn no_reader_notices(
            writes in prop::collection::vec((0u8..6, 0u8..3, 90u64..110), 1..40),
            ranges in prop::collection::vec((0u8..6, 0u8..7, 1u64..45), 0..4),
            snapshots in prop::collection::btree_set(1u64..45, 0..4),
            base in any::<bool>(),
            range_base in any::<bool>(),
        ) {
            // Where no key of a range lies below, none of its keys does.
            let range_base = range_base && base;
            let now = 100;
            let snapshots: Vec<_> = snapshots.into_iter().collect();
            let mut entries: BTreeMap<u8, Vec<(Trailer, Vec<u8>)>> = BTreeMap::new();
            for (i, &(key, kind, deadline)) in writes.iter().enumerate() {
                let sequence = i as u64 + 1;
                let kind = Kind::from_u8(kind).unwrap();
                let payload = match kind {
                    Kind::Delete => vec![],
                    Kind::Value => vec![i as u8],
                    _ => [&deadline.to_le_bytes()[..], &[i as u8]].concat(),
                };
                entries.entry(key).or_default().insert(0, (Trailer::new(sequence, kind), payload));
            }
            let tombstones: Vec<_> = ranges.iter()
                .map(|&(a, b, s)| RangeTombstone::new(&[a], &[b], s)).collect();
            let tombstones = RangeTombstones::new(&tombstones);
            let mut retention = Retention::new(&snapshots, now, &tombstones);
            let mut kept: BTreeMap<u8, Vec<(Trailer, Vec<u8>)>> = BTreeMap::new();
            for (&key, versions) in &entries {
                for (trailer, payload) in versions {
                    if let Verdict::Keep(trailer) = retention.judge(&[key], *trailer, payload, |_| base) {
                        let payload = if trailer.kind() == Kind::Delete { vec![] } else { payload.clone() };
                        kept.entry(key).or_default().push((trailer, payload));
                    }
                }
            }
            let kept_tombstones = RangeTombstones::new(&retained_tombstones(&tombstones, &snapshots, |_| range_base));
            for &at in snapshots.iter().chain([&1000]) {
                for (&key, versions) in &entries {
                    let before = seen(versions, &tombstones, &[key], at, now);
                    let after = seen(kept.get(&key).map_or(&[][..], |v| v), &kept_tombstones, &[key], at, now);
                    prop_assert_eq!(before, after, "key {} at {}", key, at);
                }
            }
            if range_base && snapshots.is_empty() {
                prop_assert!(kept_tombstones.is_empty());
                prop_assert!(kept.values().flatten().all(|(t, _)| t.kind() != Kind::Delete));
            }
        }
    }
}
