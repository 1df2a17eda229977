//! The replay of small summaries and logs: what is found afterwards.

use super::*;
use crate::entry::SegmentId;
use crate::segment::layout::Name;

/// Objects and tombstones of a segment; `None` if it is damaged.
type Tags<'t> = Option<(&'t [u64], &'t [u64])>;

fn name(n: u64) -> Name {
    Name { partition: 1, fingerprint: n * 7_919 }
}

fn invalidation(n: u64, sequence: u64) -> Invalidation {
    Invalidation { number: sequence, sequence, name: name(n) }
}

fn segment(slot: u32, sequence_max: u64) -> Slot {
    let id = SegmentId { slot, generation: 1 };
    Slot { sequence_max, is_whole: true, is_small: true, ..Slot::free(id) }
}

/// Which of a hundred objects are found, after the replay of these segments: objects and
/// tombstones by sequence, or damaged.
fn found(log: &[Invalidation], segments: &[(u64, Tags)]) -> (Vec<u64>, Replayed) {
    let index = SmallIndex::new(100, 500);
    let slots = segments.iter().zip(0..).map(|((sequence, _), slot)| segment(slot, *sequence));
    let read = |slot: &Slot| {
        let (objects, tombstones) = segments[slot.id.slot as usize].1?;
        Some(TagSummary {
            objects: objects.iter().map(|n| (name(*n).tag(), 0)).collect(),
            tombstones: tombstones.iter().map(|n| name(*n).tag()).collect(),
        })
    };
    let replayed = replay_small(log, slots.collect(), &index, read);
    let is_found = |n: &u64| index.find(name(*n).tag()).next().is_some();
    ((0..100).filter(is_found).collect(), replayed)
}

#[test]
fn invalidation_removes_older_objects_only() {
    let segments = [(10, Some((&[1, 2, 3][..], &[][..]))), (20, Some((&[2, 4], &[])))];
    assert_eq!(found(&[], &segments).0, [1, 2, 3, 4]);
    let log = [invalidation(1, 5), invalidation(2, 15), invalidation(4, 25)];
    let (left, replayed) = found(&log, &segments);
    assert_eq!(left, [1, 2, 3]);
    // The first one removed nothing, and need not be kept.
    let tombstones = [(2, 15), (4, 25)];
    let tombstones = tombstones.map(|(n, sequence)| Tombstone { tag: name(n).tag(), sequence });
    assert_eq!(replayed.tombstones, tombstones);
}

#[test]
fn tombstone_removes_objects_of_older_segments_only() {
    let segments = [(30, Some((&[1, 2][..], &[1, 5][..]))), (10, Some((&[1, 5, 6], &[2, 6])))];
    let (left, replayed) = found(&[], &segments);
    assert_eq!(left, [1, 2, 6]);
    let order: Vec<u32> = replayed.segments.iter().map(|(slot, _)| slot.id.slot).collect();
    assert_eq!((order, replayed.tombstones), (vec![1, 0], Vec::new()));
}

#[test]
fn damaged_segment_takes_all_older_ones_with_it() {
    let segments = [
        (10, Some((&[1][..], &[][..]))),
        (20, None),
        (30, Some((&[3], &[]))),
        (40, Some((&[4], &[]))),
    ];
    let log = [invalidation(1, 15), invalidation(4, 50)];
    let (left, replayed) = found(&log, &segments);
    assert_eq!((left, &replayed.damaged[..]), (vec![3], &[0, 1][..]));
    let tombstone = Tombstone { tag: name(4).tag(), sequence: 50 };
    assert_eq!((replayed.tombstones, replayed.segments.len()), (vec![tombstone], 2));
}
