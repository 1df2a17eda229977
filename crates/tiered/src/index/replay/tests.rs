//! Replays: every operation once, in order, however segments were interleaved.

use std::cell::Cell;

use super::*;
use crate::entry::{RecordLocation, SegmentId};
use crate::segment::layout::Name;

/// Operations of a segment: more than one batch.
const EACH: u64 = 300;

const fn name(fingerprint: u64) -> Name {
    Name { partition: 0, fingerprint }
}

fn summary(slot: u32, sequence: u64) -> Summary {
    Summary {
        name: name(sequence),
        sequence,
        location: RecordLocation { slot, generation: 1, offset: 0, len: 64, is_in_buffer: false },
    }
}

fn segment(slot: u32, order: u64, sequence_max: u64) -> Slot {
    Slot { order, sequence_max, is_whole: true, ..Slot::free(SegmentId { slot, generation: 1 }) }
}

fn gone(number: u64, sequence: u64) -> Invalidation {
    Invalidation { number, sequence, name: name(sequence) }
}

/// Segments, `beside` of them filled at a time; the summaries by slot.
fn filled(beside: u64) -> (Vec<Slot>, Vec<Vec<Summary>>) {
    let (mut slots, mut all) = (Vec::new(), Vec::new());
    for round in 0..12_u64 {
        let begins = 1 + round * beside * (EACH + 1);
        for n in 0..beside {
            let slot = (round * beside + n) as u32;
            let first = begins + beside + n;
            let sequences = (0..EACH).map(|turn| first + turn * beside);
            let summaries: Vec<Summary> =
                sequences.map(|sequence| summary(slot, sequence)).collect();
            slots.push(segment(slot, begins + n, first + (EACH - 1) * beside));
            all.push(summaries);
        }
    }
    // In slots in no order of age.
    slots.reverse();
    (slots, all)
}

#[test]
fn operations_are_replayed_in_order_and_once() {
    for beside in [1, 2, 7] {
        let (slots, all) = filled(beside);
        let mut expected: Vec<u64> = all.iter().flatten().map(|found| found.sequence).collect();
        let log = vec![gone(3, 1_000_000), gone(1, 1), gone(2, 4 * beside * (EACH + 1) + 1)];
        expected.extend(log.iter().map(|invalidation| invalidation.sequence));
        for from in [0, 5 * beside * (EACH + 1) + 4, 2_000_000] {
            let mut seen = Vec::new();
            let read = |slot: &Slot| Some(all[slot.id.slot as usize].clone());
            let damaged = replay(log.clone(), slots.clone(), from, read, |shown| {
                for &Restored { entry, sequence, .. } in shown {
                    assert_eq!(entry.fingerprint(), sequence);
                    let is_logged = log.iter().any(|logged| logged.sequence == sequence);
                    assert_eq!(entry.location().is_none(), is_logged);
                    seen.push(sequence);
                }
            });
            let mut expected: Vec<u64> =
                expected.iter().copied().filter(|sequence| *sequence > from).collect();
            expected.sort_unstable();
            assert_eq!((damaged, seen), (vec![], expected), "{beside} from {from}");
        }
    }
}

#[test]
fn summaries_in_memory_are_bounded_by_open_segments() {
    let (slots, all) = filled(3);
    let (read, ended, most) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let read_one = |slot: &Slot| {
        read.set(read.get() + 1);
        most.set(most.get().max(read.get() - ended.get()));
        Some(all[slot.id.slot as usize].clone())
    };
    let mut seen = 0;
    replay(Vec::new(), slots, 0, read_one, |shown| {
        seen += shown.len();
        ended.set(seen / EACH as usize);
    });
    assert_eq!((read.get(), seen), (36, 36 * EACH as usize));
    assert!(most.get() <= 2 * 3, "{} of them", most.get());
}

#[test]
fn damaged_or_unordered_segments_are_reported_and_skipped() {
    let (slots, all) = filled(2);
    let read = |slot: &Slot| {
        let mut found = all[slot.id.slot as usize].clone();
        match slot.id.slot {
            3 => return None,
            4 => found.swap(2, 3),
            5 => found[0].sequence = 0,
            6 => found[EACH as usize - 1].sequence += 100_000,
            _ => {}
        }
        Some(found)
    };
    let mut slots_seen = std::collections::BTreeSet::new();
    let mut damaged = replay(Vec::new(), slots, 0, read, |shown| {
        slots_seen.extend(
            shown.iter().filter_map(|found| found.entry.location()).map(|location| location.slot),
        );
    });
    damaged.sort_unstable();
    assert_eq!(damaged, [3, 4, 5, 6]);
    assert!(slots_seen.into_iter().eq((0..24).filter(|slot| !damaged.contains(slot))));
}
