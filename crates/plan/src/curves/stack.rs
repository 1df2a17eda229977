//! The stack of a least-recently-used cache of any size: what a cache of `c` bytes has is what
//! stands in the stack's first `c` bytes (Mattson et al. 1970), found in O(log n) (Olken 1981).
//!
//! What is removed leaves a hole. A cache that has less than what stood above it had evicted
//! something for it, and does not get that back; one that has more has room, and needs to evict
//! nothing for the next. So whatever comes to the top fills the topmost holes before it pushes
//! anything down, and where nothing was removed it fills the one that it leaves itself.
//!
//! ```text
//!  top                    remove(b)           push(d)
//!  a b c      ──────────► a _ c  ───────────► d a c      a cache of two: a b, a _, d a
//! ```
//!
//! Guarantees: for objects of one size each cache has exactly what the first of the stack are.
//! Where sizes differ, a cache is thought to keep a part of an object: wrong by less than
//! the object at its end.
//!
//! Each slot keeps the number of its object's last access, as whoever pushes it numbers them; with the object it goes.
//!
//! The paper (ElCached §3) removes a node from its tree and closes the gap: caches are then
//! thought to have what they had evicted. Pure; one thread's.

use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use hashbrown::HashMap;

use crate::curves::fenwick::Fenwick;

/// Fewer slots are not worth a thought.
const SLOTS_MIN: usize = 1024;

/// An object, or a hole.
#[derive(Debug, Clone, Copy)]
struct Slot {
    bytes: u64,
    object: Option<Object>,
}

/// No number is 0, which marks a hole: so a slot is 24 bytes.
#[derive(Debug, Clone, Copy)]
struct Object {
    key: u64,
    /// That of its last access.
    number: NonZeroU64,
}

impl Slot {
    fn is_of(&self, key: u64) -> bool {
        self.object.is_some_and(|object| object.key == key)
    }

    fn last(&self) -> Option<LastAccess> {
        self.object.map(|object| LastAccess { number: object.number.get(), bytes: self.bytes })
    }
}

/// The last access of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastAccess {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Bytes that the object had then.
    pub(crate) bytes: u64,
}

/// Where an object is in the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The least bytes of a cache that has it.
    pub(crate) depth: u64,
    pub(crate) last: LastAccess,
}

/// The stack: the row of its slots has its bottom first.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    slots: Vec<Slot>,
    depths: Fenwick,
    /// Of all slots.
    bytes: u64,
    places: HashMap<u64, u32>,
    /// Slots of holes; of some that have been filled as well.
    holes: BinaryHeap<u32>,
    /// Slots below are empty.
    bottom: usize,
}

impl Stack {
    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of an object.
    pub(crate) fn bytes_of(&self, key: u64) -> Option<u64> {
        if let Some(top) = self.top_of(key) {
            return Some(top.bytes);
        }
        self.places.get(&key).map(|place| self.slots[*place as usize].bytes)
    }

    /// Where an object is.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<Found> {
        if let Some(top) = self.top_of(key) {
            return top.last().map(|last| Found { depth: top.bytes, last });
        }
        self.find_under_top(key)
    }

    /// The top of the stack, where that is this object: in a sample with a very popular key it mostly is.
    #[inline]
    fn top_of(&self, key: u64) -> Option<&Slot> {
        self.slots.last().filter(|top| top.is_of(key))
    }

    fn find_under_top(&self, key: u64) -> Option<Found> {
        let at = *self.places.get(&key)? as usize;
        let depth = self.bytes - self.depths.sum(at);
        self.slots[at].last().map(|last| Found { depth, last })
    }

    /// The last access of each object.
    pub(crate) fn last_accesses(&self) -> impl Iterator<Item = LastAccess> + Clone {
        self.slots.iter().filter_map(Slot::last)
    }

    /// Takes an object out; its bytes, if it was there.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let place = self.places.remove(&key)?;
        let slot = &mut self.slots[place as usize];
        slot.object = None;
        self.holes.push(place);
        Some(slot.bytes)
    }

    /// Takes an object out as if it had never been there: what is below comes closer, and no hole is left.
    pub(crate) fn drop_out(&mut self, key: u64) {
        if let Some(place) = self.places.remove(&key) {
            let slot = &mut self.slots[place as usize];
            let bytes = std::mem::take(&mut slot.bytes);
            slot.object = None;
            self.depths.take(place as usize, bytes);
            self.bytes -= bytes;
        }
    }

    /// The object at the bottom, if caches of so many bytes do not have it.
    pub(crate) fn below(&mut self, bytes: u64) -> Option<u64> {
        while self.bytes > bytes {
            let slot = self.slots.get_mut(self.bottom)?;
            if let Some(object) = slot.object {
                return Some(object.key);
            }
            // There is room at the bottom whatever is there.
            let hole = std::mem::take(&mut slot.bytes);
            self.depths.take(self.bottom, hole);
            self.bytes -= hole;
            self.bottom += 1;
        }
        None
    }

    /// The mean size of an object, in bytes.
    pub(crate) fn mean_bytes(&self) -> Option<f64> {
        let bytes: u64 = self.last_accesses().map(|last| last.bytes).sum();
        (self.len() > 0).then(|| bytes as f64 / self.len() as f64)
    }

    /// Puts an object of so many bytes on top, wherever it was, at the access of that number.
    #[inline]
    pub(crate) fn push(&mut self, key: u64, bytes: u64, number: NonZeroU64) {
        let object = Some(Object { key, number });
        if let Some(top) = self.slots.last_mut().filter(|top| top.is_of(key) && top.bytes == bytes)
        {
            // It would fill the hole that it leaves.
            top.object = object;
        } else {
            self.push_anew(key, bytes, object);
        }
    }

    fn push_anew(&mut self, key: u64, bytes: u64, object: Option<Object>) {
        if self.slots.len() == self.depths.len() {
            self.make_room();
        }
        let place = self.slots.len();
        if let Some(before) = self.places.insert(key, place as u32) {
            self.slots[before as usize].object = None;
            self.holes.push(before);
        }
        self.fill_holes(bytes);
        self.slots.push(Slot { bytes, object });
        self.depths.add(place, bytes);
        self.bytes += bytes;
    }

    fn fill_holes(&mut self, mut bytes: u64) {
        while bytes > 0
            && let Some(place) = self.holes.pop()
        {
            let slot = &mut self.slots[place as usize];
            let filled = slot.bytes.min(bytes);
            slot.bytes -= filled;
            bytes -= filled;
            if slot.bytes > 0 {
                self.holes.push(place);
            }
            self.depths.take(place as usize, filled);
            self.bytes -= filled;
        }
    }

    /// Closes up, and has twice as many slots as are taken.
    fn make_room(&mut self) {
        let mut slots: Vec<Slot> = Vec::with_capacity(self.places.len());
        self.holes.clear();
        self.bottom = 0;
        for slot in self.slots.drain(..) {
            match (slot.object, slots.last_mut()) {
                (Some(object), _) => {
                    self.places.insert(object.key, slots.len() as u32);
                    slots.push(slot);
                }
                // There is room at the bottom whatever is there, and nothing is below.
                (None, None) => self.bytes -= slot.bytes,
                (None, Some(below)) if below.object.is_none() => below.bytes += slot.bytes,
                (None, Some(_)) if slot.bytes == 0 => {}
                (None, Some(_)) => {
                    self.holes.push(slots.len() as u32);
                    slots.push(slot);
                }
            }
        }
        let capacity = (slots.len() * 2).max(SLOTS_MIN);
        let free = capacity - slots.len();
        let numbers = slots.iter().map(|slot| slot.bytes).chain(std::iter::repeat_n(0, free));
        self.depths = Fenwick::of(numbers);
        slots.reserve_exact(free);
        self.slots = slots;
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let places = self.places.allocation_size();
        let holes = self.holes.capacity() * size_of::<u32>();
        self.slots.capacity() * size_of::<Slot>() + self.depths.memory_bytes() + places + holes
    }
}

#[cfg(test)]
mod tests;
