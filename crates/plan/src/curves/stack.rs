//! The LRU stack: a cache of `c` bytes has the objects in the stack's first `c` bytes (Mattson et
//! al. 1970), with lookups in O(log n) (Olken 1981).
//!
//! A removed object leaves a hole. A cache smaller than the depth of the hole had evicted something
//! for the object, and does not get that back; a larger one has room, and need not evict anything
//! for the next. So an object that moves to the top fills the topmost holes before it pushes
//! anything down, and without removals it fills the one that it leaves itself.
//!
//! ```text
//!  top                    remove(b)           push(d)
//!  a b c      ──────────► a _ c  ───────────► d a c      a cache of two: a b, a _, d a
//! ```
//!
//! Guarantees: for objects of one size each cache has exactly the first objects of the stack. Where
//! sizes differ, a cache is assumed to keep a part of an object: wrong by less than the object at
//! its end.
//!
//! Each slot keeps the number of its object's last access, as the caller assigns it; it is dropped
//! with the object.
//!
//! The paper (ElCached §3) removes a node from its tree and closes the gap: caches are then assumed
//! to have objects that they had evicted. Pure; one thread's.

use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use hashbrown::HashMap;

use crate::curves::fenwick::Fenwick;

/// The least number of slots.
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
    /// The number of its last access.
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

/// The position of an object in the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The least bytes of a cache that has it.
    pub(crate) depth: u64,
    pub(crate) last: LastAccess,
}

/// The stack: its slots are in a row, the bottom first.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    slots: Vec<Slot>,
    depths: Fenwick,
    /// Of all slots.
    bytes: u64,
    places: HashMap<u64, u32>,
    /// Slots of holes; including some that have been filled.
    holes: BinaryHeap<u32>,
    /// Slots below this one are empty.
    bottom: usize,
}

impl Stack {
    /// The number of objects.
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

    /// The position of an object.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<Found> {
        if let Some(top) = self.top_of(key) {
            return top.last().map(|last| Found { depth: top.bytes, last });
        }
        self.find_under_top(key)
    }

    /// The top of the stack, if it is this object: in a sample with a very popular key it mostly
    /// is.
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

    /// Removes an object and leaves a hole; its bytes, if it was present.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let place = self.places.remove(&key)?;
        let slot = &mut self.slots[place as usize];
        slot.object = None;
        self.holes.push(place);
        Some(slot.bytes)
    }

    /// Removes an object as if it had never been there: lower ones move up, and no hole is left.
    pub(crate) fn drop_out(&mut self, key: u64) {
        if let Some(place) = self.places.remove(&key) {
            let slot = &mut self.slots[place as usize];
            let bytes = std::mem::take(&mut slot.bytes);
            slot.object = None;
            self.depths.take(place as usize, bytes);
            self.bytes -= bytes;
        }
    }

    /// The object at the bottom, if caches of `bytes` bytes do not have it.
    pub(crate) fn below(&mut self, bytes: u64) -> Option<u64> {
        while self.bytes > bytes {
            let slot = self.slots.get_mut(self.bottom)?;
            if let Some(object) = slot.object {
                return Some(object.key);
            }
            // A hole at the bottom has no effect.
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

    /// Moves an object of this many bytes to the top, at the access of that number.
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

    /// Compacts the slots, and doubles their number.
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
                // A hole at the bottom has no effect.
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
