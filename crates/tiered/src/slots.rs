//! Which slot the next segment gets: a free one, else that of a segment that may go by its
//! records' deadlines, the earliest first, else that of the oldest segment (BigKV,
//! "TTL-aware space management").
//!
//! Guarantee: a slot is given out in a generation that it has never held a segment in.
//!
//! Pure; for one thread at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::entry::SegmentId;
use crate::segment_table::Slot;

/// The slots of a device.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    /// Whole segments, by the order in which they were opened.
    by_order: BTreeMap<u64, u32>,
    /// Whole segments that may go some time, by when.
    by_going: BTreeSet<(u32, u32)>,
}

/// A slot for a new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The slot in its new generation.
    pub(crate) id: SegmentId,
    /// The segment that had to go for it.
    pub(crate) went: Option<Slot>,
}

impl Slots {
    /// Slots as they were found: whole, or free in the generation that the next segment gets.
    pub(crate) fn new(slots: Vec<Slot>) -> Self {
        let mut new = Self {
            free: VecDeque::new(),
            by_order: BTreeMap::new(),
            by_going: BTreeSet::new(),
            slots: Vec::new(),
        };
        for slot in &slots {
            match slot.is_whole {
                true => new.order(slot),
                false => new.free.push_back(slot.id.slot),
            }
        }
        new.slots = slots;
        new
    }

    /// A slot for a segment that is opened at `now_s`; none when all are being filled.
    pub(crate) fn take(&mut self, now_s: u32) -> Option<Taken> {
        if let Some(slot) = self.free.pop_front() {
            return Some(Taken { id: self.slots[slot as usize].id, went: None });
        }
        let expired = self.by_going.first().filter(|(may_go_at_s, _)| *may_go_at_s <= now_s);
        let slot = expired.map(|(_, slot)| *slot);
        let slot = slot.or_else(|| self.by_order.first_key_value().map(|(_, slot)| *slot))?;
        let went = self.forget(slot);
        Some(Taken { id: self.slots[slot as usize].id, went: Some(went) })
    }

    /// A segment has become whole.
    pub(crate) fn put(&mut self, whole: Slot) {
        debug_assert!(whole.is_whole && self.slots[whole.id.slot as usize].id == whole.id);
        self.order(&whole);
        self.slots[whole.id.slot as usize] = whole;
    }

    /// What was to become a segment in that slot did not: the slot's next generation is free.
    pub(crate) fn give_back(&mut self, slot: u32) -> SegmentId {
        self.forget(slot);
        self.free.push_back(slot);
        self.slots[slot as usize].id
    }

    /// Whole segments, the oldest first.
    pub(crate) fn whole(&self) -> impl Iterator<Item = &Slot> {
        self.by_order.values().map(|slot| &self.slots[*slot as usize])
    }

    /// How far a segment that was opened in that order is from going: 0 is next, 1 is as far as
    /// can be.
    pub(crate) fn distance(&self, order: u64) -> f64 {
        let (Some((first, _)), Some((last, _))) =
            (self.by_order.first_key_value(), self.by_order.last_key_value())
        else {
            return 1.0;
        };
        let rank = order.saturating_sub(*first) as f64 / (last - first).max(1) as f64;
        let ahead = self.free.len() as f64 + rank.min(1.0) * self.by_order.len() as f64;
        ahead / self.slots.len() as f64
    }

    /// How many hold whole segments.
    pub(crate) fn whole_count(&self) -> usize {
        self.by_order.len()
    }

    fn order(&mut self, slot: &Slot) {
        self.by_order.insert(slot.order, slot.id.slot);
        if slot.may_go_at_s < u32::MAX {
            self.by_going.insert((slot.may_go_at_s, slot.id.slot));
        }
    }

    /// What the slot held is gone, and its generation goes up.
    fn forget(&mut self, slot: u32) -> Slot {
        let held = self.slots[slot as usize];
        if held.is_whole {
            self.by_order.remove(&held.order);
            self.by_going.remove(&(held.may_go_at_s, slot));
        }
        let generation = held.id.generation.wrapping_add(1);
        self.slots[slot as usize] = Slot::free(SegmentId { slot, generation });
        held
    }

    /// Its memory, in bytes; of the trees about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.free.capacity() * 4
            + self.by_order.len() * 24
            + self.by_going.len() * 16
    }
}

#[cfg(test)]
mod tests {
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
    fn free_slots_go_first_then_expired_then_the_oldest() {
        let mut slots = slots(3);
        for (order, may_go_at_s) in [(1, u32::MAX), (2, 50), (3, 40)] {
            assert_eq!(fill(&mut slots, 0, order, may_go_at_s).went, None);
        }
        let went = |taken: Taken| taken.went.map(|went| went.order);
        assert_eq!(went(fill(&mut slots, 60, 4, 100)), Some(3));
        assert_eq!(went(fill(&mut slots, 60, 5, 30)), Some(2));
        assert_eq!(went(fill(&mut slots, 29, 6, u32::MAX)), Some(1));
        assert_eq!(went(fill(&mut slots, 29, 7, u32::MAX)), Some(4));
        assert_eq!(slots.whole().map(|slot| slot.order).collect::<Vec<_>>(), [5, 6, 7]);
    }

    #[test]
    fn a_segment_is_far_from_going_while_slots_are_free() {
        let mut slots = slots(10);
        fill(&mut slots, 0, 100, u32::MAX);
        fill(&mut slots, 0, 200, u32::MAX);
        assert!(slots.distance(100) >= 0.8);
        (3..11).for_each(|order| _ = fill(&mut slots, 0, order * 100, u32::MAX));
        assert_eq!((slots.distance(100), slots.distance(1_000)), (0.0, 1.0));
        assert!((0.4..0.6).contains(&slots.distance(550)));
    }

    #[test]
    fn no_generation_comes_twice() {
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

    #[test]
    fn there_is_none_while_all_are_being_filled() {
        let mut slots = slots(2);
        let first = slots.take(0).expect("a slot is there");
        slots.take(0).expect("a slot is there");
        assert_eq!(slots.take(0), None);
        let freed = slots.give_back(first.id.slot);
        assert_eq!(slots.take(0), Some(Taken { id: freed, went: None }));
    }
}
