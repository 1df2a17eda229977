//! Chooses the slot for the next segment: a free one, else that of a segment that may be dropped by
//! its records' deadlines, the earliest first, else that of the oldest segment (BigKV, "TTL-aware
//! space management").
//!
//! The limit of slots in use can change at any time ([`Slots::set_in_use_max`]). Free slots beyond
//! it are held back, and their space on the device is returned:
//!
//! ```text
//!         take()             put()
//!   free ───────► filled ──────────────► whole ──► evicted for another segment: filled
//!    ▲ │ ◄─────────── give_back() ─────────┘ │
//!    │ │                                     │ shed(): more are in use than allowed
//!    │ └─ lower limit ──► to be emptied ◄────┘
//!    │ ◄── higher limit ────┘  │ next_to_empty()
//!    │                         ▼
//!    │                   being emptied
//!    │ ◄── higher limit ─── emptied()
//!    │                         │
//!    │                         ▼
//!    └─── higher limit ───  emptied
//! ```
//!
//! Guarantees:
//! 1. A slot is given out in a generation in which it has never held a segment.
//! 2. One that is being emptied is not given out before it has been.
//! 3. While more slots are in use than the limit, no further slot comes into use.
//!
//! Pure; for one thread at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::entry::SegmentId;
use crate::segment::segment_table::Slot;

/// The slots of a device.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    /// The limit of slots in use: filled or whole.
    in_use_max: usize,
    /// Held back; their contents still occupy space.
    to_be_emptied: Vec<u32>,
    being_emptied: usize,
    /// Held back; they occupy no space.
    emptied: Vec<u32>,
    /// Whole segments, by the order in which they were opened.
    by_order: BTreeMap<u64, u32>,
    /// Whole segments that may be dropped at some time, by that time.
    by_going: BTreeSet<(u32, u32)>,
}

/// A slot for a new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The slot in its new generation.
    pub(crate) id: SegmentId,
    /// The segment that was evicted for it.
    pub(crate) evicted: Option<Slot>,
}

impl Slots {
    /// Slots as recovered: whole, or free in the generation of the next segment.
    pub(crate) fn new(slots: Vec<Slot>) -> Self {
        let mut new = Self {
            free: VecDeque::new(),
            in_use_max: slots.len(),
            to_be_emptied: Vec::new(),
            being_emptied: 0,
            emptied: Vec::new(),
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

    /// A slot for a segment that is opened at `now_s`; `None` when all are being filled.
    pub(crate) fn take(&mut self, now_s: u32) -> Option<Taken> {
        if let Some(slot) = self.free.pop_front() {
            return Some(Taken { id: self.slots[slot as usize].id, evicted: None });
        }
        if self.in_use_max == 0 {
            return None;
        }
        let slot = self.next_to_go(now_s)?;
        let evicted = self.forget(slot);
        Some(Taken { id: self.slots[slot as usize].id, evicted: Some(evicted) })
    }

    /// The slot whose segment is next to be evicted at `now_s`, if any is whole.
    fn next_to_go(&self, now_s: u32) -> Option<u32> {
        let expired = self.by_going.first().filter(|(may_go_at_s, _)| *may_go_at_s <= now_s);
        let slot = expired.map(|(_, slot)| *slot);
        slot.or_else(|| self.by_order.first_key_value().map(|(_, slot)| *slot))
    }

    /// Records that a segment has become whole.
    pub(crate) fn put(&mut self, whole: Slot) {
        debug_assert!(whole.is_whole && self.slots[whole.id.slot as usize].id == whole.id);
        self.order(&whole);
        self.slots[whole.id.slot as usize] = whole;
    }

    /// Evicts this segment, if it is whole: its slot in its new generation, which is free, and its
    /// former contents.
    pub(crate) fn evict(&mut self, id: SegmentId) -> Option<(SegmentId, Slot)> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.id != id || !slot.is_whole {
            return None;
        }
        let evicted = *slot;
        Some((self.give_back(id.slot), evicted))
    }

    /// Frees the slot of a segment that was not written, in the slot's next generation.
    pub(crate) fn give_back(&mut self, slot: u32) -> SegmentId {
        self.forget(slot);
        self.free.push_back(slot);
        self.balance();
        self.slots[slot as usize].id
    }

    /// Limits the slots in use to `count`, or to all if that is more. Excess whole ones stay until
    /// [`Slots::shed`].
    pub(crate) fn set_in_use_max(&mut self, count: usize) {
        self.in_use_max = count.min(self.slots.len());
        self.balance();
    }

    /// The limit of slots in use.
    pub(crate) fn in_use_max(&self) -> usize {
        self.in_use_max
    }

    /// Evicts the next segment if more slots are in use than the limit: its slot, in its new
    /// generation, and its former contents.
    pub(crate) fn shed(&mut self, now_s: u32) -> Option<(SegmentId, Slot)> {
        if self.excess() == 0 {
            return None;
        }
        let slot = self.next_to_go(now_s)?;
        let evicted = self.forget(slot);
        self.to_be_emptied.push(slot);
        Some((self.slots[slot as usize].id, evicted))
    }

    /// Whether [`Slots::shed`] or [`Slots::next_to_empty`] has work.
    pub(crate) fn is_to_shrink(&self) -> bool {
        !self.to_be_emptied.is_empty() || self.excess() > 0 && !self.by_order.is_empty()
    }

    /// A slot that is held back and whose space must be returned; call [`Slots::emptied`]
    /// afterwards.
    pub(crate) fn next_to_empty(&mut self) -> Option<u32> {
        let slot = self.to_be_emptied.pop()?;
        self.being_emptied += 1;
        Some(slot)
    }

    /// Records that the space of that slot has been returned.
    pub(crate) fn emptied(&mut self, slot: u32) {
        self.being_emptied -= 1;
        self.emptied.push(slot);
        self.balance();
    }

    /// The number of slots in use.
    fn in_use(&self) -> usize {
        let held_back = self.to_be_emptied.len() + self.being_emptied + self.emptied.len();
        self.slots.len() - self.free.len() - held_back
    }

    /// The number of slots in use above the limit.
    fn excess(&self) -> usize {
        self.in_use().saturating_sub(self.in_use_max)
    }

    /// Holds back free slots above the limit, or frees those held back below it.
    fn balance(&mut self) {
        let free_max = self.in_use_max.saturating_sub(self.in_use());
        while self.free.len() > free_max {
            // The one that would have been used last.
            self.to_be_emptied.extend(self.free.pop_back());
        }
        while self.free.len() < free_max {
            // A slot that still has its space needs none anew.
            let Some(slot) = self.to_be_emptied.pop().or_else(|| self.emptied.pop()) else { break };
            self.free.push_back(slot);
        }
    }

    /// The whole segment in a slot.
    pub(crate) fn whole_in(&self, slot: u32) -> Option<Slot> {
        self.slots.get(slot as usize).copied().filter(|slot| slot.is_whole)
    }

    /// Whole segments, the oldest first.
    pub(crate) fn whole(&self) -> impl Iterator<Item = &Slot> {
        self.by_order.values().map(|slot| &self.slots[*slot as usize])
    }

    /// How far a segment that was opened in that order is from eviction: 0 is next, 1 is the
    /// farthest.
    pub(crate) fn distance(&self, order: u64) -> f64 {
        let (Some((first, _)), Some((last, _))) =
            (self.by_order.first_key_value(), self.by_order.last_key_value())
        else {
            return 1.0;
        };
        let rank = order.saturating_sub(*first) as f64 / (last - first).max(1) as f64;
        let ahead = self.free.len() as f64 + rank.min(1.0) * self.by_order.len() as f64;
        // The excess segments are evicted in any case.
        (ahead - self.excess() as f64).max(0.0) / self.in_use_max.max(1) as f64
    }

    /// The number of whole segments.
    pub(crate) fn whole_count(&self) -> usize {
        self.by_order.len()
    }

    fn order(&mut self, slot: &Slot) {
        self.by_order.insert(slot.order, slot.id.slot);
        if slot.may_go_at_s < u32::MAX {
            self.by_going.insert((slot.may_go_at_s, slot.id.slot));
        }
    }

    /// Drops the slot's segment and raises its generation.
    fn forget(&mut self, slot: u32) -> Slot {
        let cached = self.slots[slot as usize];
        if cached.is_whole {
            self.by_order.remove(&cached.order);
            self.by_going.remove(&(cached.may_go_at_s, slot));
        }
        let generation = cached.id.generation.wrapping_add(1);
        self.slots[slot as usize] = Slot::free(SegmentId { slot, generation });
        cached
    }

    /// Its memory, in bytes; approximate for the trees.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + (self.free.capacity() + self.to_be_emptied.capacity() + self.emptied.capacity()) * 4
            + self.by_order.len() * 24
            + self.by_going.len() * 16
    }
}

#[cfg(test)]
mod tests;
