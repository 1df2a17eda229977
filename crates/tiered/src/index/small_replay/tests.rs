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
    Slot { order: sequence_max - 5, sequence_max, is_whole: true, is_small: true, ..Slot::free(id) }
}

/// Which of a hundred objects are found, after the replay of these segments: objects and
/// tombstones by sequence, or damaged.
fn found(log: &[Invalidation], segments: &[(u64, Tags)]) -> (Vec<u64>, Replayed) {
    found_without(0, 0, log, segments)
}

/// The same without the segment that was sealed at `missing`, and with the order of the newest one in
/// the superblock.
fn found_without(
    missing: u64,
    newest: u64,
    log: &[Invalidation],
    segments: &[(u64, Tags)],
) -> (Vec<u64>, Replayed) {
    let index = SmallIndex::new(1, 500);
    let mut orders: Vec<u64> = segments.iter().map(|(sequence, _)| sequence - 5).collect();
    orders.sort_unstable();
    let slots = segments.iter().zip(0..).map(|((sequence, _), slot)| segment(slot, *sequence));
    let slots = slots.filter(|slot| slot.sequence_max != missing);
    let read = |slot: &Slot| {
        let (objects, tombstones) = segments[slot.id.slot as usize].1?;
        let place =
            orders.iter().position(|order| *order == slot.order).expect("it is one of them");
        Some(TagSummary {
            previous: if place == 0 { 0 } else { orders[place - 1] },
            objects: objects.iter().map(|n| (name(*n).tag(), 0)).collect(),
            tombstones: tombstones.iter().map(|n| name(*n).tag()).collect(),
        })
    };
    let replayed = replay_small(log.iter(), slots.collect(), newest, &index, read);
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

/// A segment that is missing may have had tombstones as well as a damaged one.
#[test]
fn missing_segment_takes_all_older_ones_with_it() {
    let segments = [
        (10, Some((&[1][..], &[][..]))),
        (20, Some((&[2], &[1]))),
        (30, Some((&[3], &[]))),
        (40, Some((&[4], &[3]))),
    ];
    assert_eq!(found(&[], &segments).0, [2, 4]);
    let (left, replayed) = found_without(20, 35, &[], &segments);
    assert_eq!((left, replayed.damaged), (vec![4], vec![0]));
    // Nothing names the newest one but the superblock.
    let (left, replayed) = found_without(40, 35, &[], &segments);
    assert_eq!((left, replayed.damaged), (vec![], vec![0, 1, 2]));
    // Without it, its tombstones are in the log.
    let log = [invalidation(3, 32)];
    assert_eq!(found_without(40, 25, &log, &segments).0, [2]);
    // The oldest one was evicted.
    assert_eq!(found_without(10, 35, &[], &segments).0, [2, 4]);
}
