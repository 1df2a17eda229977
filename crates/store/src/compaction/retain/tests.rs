//! Retention compared with readers: no reader notices it, at any snapshot.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The entry that a reader at `at` sees of one key.
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

#[test]
fn entries_out_of_order_are_detected_even_if_dropped() {
    let tombstones = RangeTombstones::new(&[]);
    let verdicts = |entries: &[(&[u8], u64)]| -> Vec<Decision> {
        let mut retention = Retention::new(&[], 0, &tombstones);
        let trailer = |sequence| Trailer::new(sequence, Kind::Value);
        entries.iter().map(|&(key, s)| retention.decide(key, trailer(s), b"", |_| false)).collect()
    };
    let kept = |sequence| Decision::Keep(Trailer::new(sequence, Kind::Value));
    let (drop, misplaced) = (Decision::Drop, Decision::OutOfOrder);
    assert_eq!(verdicts(&[(b"a", 9), (b"a", 7), (b"b", 8)]), [kept(9), drop, kept(8)]);
    assert_eq!(verdicts(&[(b"", 0), (b"", 0)]), [kept(0), drop]);
    assert_eq!(verdicts(&[(b"b", 9), (b"a", 8)]), [kept(9), misplaced]);
    assert_eq!(verdicts(&[(b"a", 7), (b"a", 8)]), [kept(7), misplaced]);
    assert_eq!(verdicts(&[(b"a", 9), (b"a", 7), (b"a", 8)]), [kept(9), drop, misplaced]);
}

proptest! {
    #[test]
    fn no_reader_notices_dropped_entries(
        writes in prop::collection::vec((0u8..6, 0u8..3, 90u64..110), 1..40),
        ranges in prop::collection::vec((0u8..6, 0u8..7, 1u64..45), 0..4),
        snapshots in prop::collection::btree_set(1u64..45, 0..4),
        base in any::<bool>(),
        range_base in any::<bool>(),
    ) {
        // If no key of the range is below, none of its keys is.
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
                if let Decision::Keep(trailer) = retention.decide(&[key], *trailer, payload, |_| base) {
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
