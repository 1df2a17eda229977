//! The order in which slots are used, their limit, and slots that are held back.

use super::*;

fn slots(count: u32) -> Slots {
    Slots::new((0..count).map(|slot| Slot::free(SegmentId { slot, generation: 0 })).collect())
}

fn fill(slots: &mut Slots, now_s: u32, order: u64, may_go_at_s: u32) -> Taken {
    let taken = slots.take(now_s).expect("a slot is there");
    slots.put(Slot { is_whole: true, order, may_go_at_s, ..Slot::free(taken.id) });
    taken
}

#[test]
fn slots_are_taken_free_first_then_expired_then_oldest() {
    let mut slots = slots(3);
    for (order, may_go_at_s) in [(1, u32::MAX), (2, 50), (3, 40)] {
        assert_eq!(fill(&mut slots, 0, order, may_go_at_s).evicted, None);
    }
    let evicted = |taken: Taken| taken.evicted.map(|evicted| evicted.order);
    assert_eq!(evicted(fill(&mut slots, 60, 4, 100)), Some(3));
    assert_eq!(evicted(fill(&mut slots, 60, 5, 30)), Some(2));
    assert_eq!(evicted(fill(&mut slots, 29, 6, u32::MAX)), Some(1));
    assert_eq!(evicted(fill(&mut slots, 29, 7, u32::MAX)), Some(4));
    assert_eq!(slots.whole().map(|slot| slot.order).collect::<Vec<_>>(), [5, 6, 7]);
}

#[test]
fn segment_is_far_from_eviction_while_slots_are_free() {
    let mut slots = slots(10);
    fill(&mut slots, 0, 100, u32::MAX);
    fill(&mut slots, 0, 200, u32::MAX);
    assert!(slots.distance(100) >= 0.8);
    (3..11).for_each(|order| _ = fill(&mut slots, 0, order * 100, u32::MAX));
    assert_eq!((slots.distance(100), slots.distance(1_000)), (0.0, 1.0));
    assert!((0.4..0.6).contains(&slots.distance(550)));
}

#[test]
fn no_generation_is_used_twice() {
    let mut slots = slots(2);
    let mut seen = std::collections::HashSet::new();
    for order in 0..100 {
        let taken = slots.take(0).expect("a slot is there");
        assert!(seen.insert(taken.id));
        match order % 3 {
            0 => _ = slots.give_back(taken.id.slot),
            _ => slots.put(Slot { is_whole: true, order, ..Slot::free(taken.id) }),
        }
    }
    // The last one was given back.
    assert_eq!(slots.whole_count(), 1);
}

/// Empties the slots that are due; returns their number.
fn empty(slots: &mut Slots) -> usize {
    std::iter::from_fn(|| slots.next_to_empty().map(|slot| slots.emptied(slot))).count()
}

#[test]
fn shrinking_evicts_in_the_same_order_and_frees_slots_on_growth() {
    let mut slots = slots(10);
    for (order, may_go_at_s) in [(1, u32::MAX), (2, 50), (3, 40), (4, u32::MAX)] {
        fill(&mut slots, 0, order, may_go_at_s);
    }
    slots.set_in_use_max(5);
    assert_eq!((empty(&mut slots), slots.shed(60)), (5, None), "free ones go first");
    assert_eq!((fill(&mut slots, 0, 5, u32::MAX).evicted, slots.free.len()), (None, 0));
    slots.set_in_use_max(2);
    let mut evicted = || slots.shed(60).map(|(_, evicted)| evicted.order);
    assert_eq!([evicted(), evicted(), evicted(), evicted()], [Some(3), Some(2), Some(1), None]);
    assert!(slots.is_to_shrink() && empty(&mut slots) == 3 && !slots.is_to_shrink());
    assert_eq!(fill(&mut slots, 60, 6, u32::MAX).evicted.map(|evicted| evicted.order), Some(4));
    slots.set_in_use_max(100);
    assert_eq!((slots.in_use_max(), slots.free.len(), empty(&mut slots)), (10, 8, 0));
    (7..15).for_each(|order| assert_eq!(fill(&mut slots, 60, order, u32::MAX).evicted, None));
}

#[test]
fn slot_being_emptied_is_not_given_out() {
    let mut slots = slots(3);
    slots.set_in_use_max(0);
    assert_eq!(slots.take(0), None);
    let emptying = slots.next_to_empty().expect("all are held back");
    slots.set_in_use_max(3);
    let taken = [(); 2].map(|()| slots.take(0).map(|taken| taken.id.slot));
    assert!(!taken.contains(&Some(emptying)) && slots.take(0).is_none());
    slots.emptied(emptying);
    assert_eq!(slots.take(0).map(|taken| taken.id.slot), Some(emptying));
}

#[test]
fn filled_segment_becomes_whole_despite_the_limit() {
    let mut slots = slots(4);
    let filled: Vec<Taken> = (0..4).filter_map(|_| slots.take(0)).collect();
    slots.set_in_use_max(1);
    assert_eq!((slots.shed(0), slots.take(0)), (None, None));
    for (taken, order) in filled.iter().zip(1..) {
        slots.put(Slot { is_whole: true, order, ..Slot::free(taken.id) });
    }
    assert_eq!((slots.distance(2), slots.distance(4)), (0.0, 1.0));
    // A new one takes the place of one of them, and is in excess as well.
    assert_eq!(fill(&mut slots, 0, 5, u32::MAX).evicted.map(|evicted| evicted.order), Some(1));
    slots.give_back(filled[3].id.slot);
    let evicted = std::iter::from_fn(|| slots.shed(0)).map(|(_, evicted)| evicted.order);
    assert_eq!(evicted.collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn no_slot_is_available_while_all_are_being_filled() {
    let mut slots = slots(2);
    let first = slots.take(0).expect("a slot is there");
    slots.take(0).expect("a slot is there");
    assert_eq!(slots.take(0), None);
    let freed = slots.give_back(first.id.slot);
    assert_eq!(slots.take(0), Some(Taken { id: freed, evicted: None }));
}
