//! A hash table of places: four-byte numbers found by the hash of the entry at that place.
//!
//! Open addressing with linear probing; a removal shifts later slots back, so there are no
//! tombstones. A byte of the hash next to each place avoids most accesses of the entries
//! themselves. The table of [`hashbrown`] is faster, but with constant inserts and removals, as in
//! a cache, it uses at most half of its slots, because of its tombstones: 10 to 20 bytes per place
//! instead of 6 to 8 here.
//!
//! Guarantees: no more memory than [`SlotTable::bytes`]. Relies on the caller for hashes, which it
//! does not store. Single-threaded.

/// Bytes of a slot: a place and a tag.
const SLOT_BYTES: usize = size_of::<u32>() + 1;
/// Most used slots of sixteen.
const LOAD_MAX: usize = 13;
/// The tag of an unused slot.
const EMPTY: u8 = 0;

/// Places by hash.
#[derive(Debug, Default)]
pub(crate) struct SlotTable {
    tags: Box<[u8]>,
    places: Box<[u32]>,
    len: usize,
}

impl SlotTable {
    /// The number of places.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.tags.len() * SLOT_BYTES
    }

    /// Whether the table must grow before another insert.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.tags.len() * LOAD_MAX / 16
    }

    /// Whether less than half of its slots would be enough.
    pub(crate) fn is_sparse(&self) -> bool {
        self.len < self.tags.len() * LOAD_MAX / 40
    }

    /// Memory in bytes after growing by a quarter.
    pub(crate) fn bytes_grown(&self) -> usize {
        self.slots_grown() * SLOT_BYTES
    }

    fn slots_grown(&self) -> usize {
        self.tags.len() + self.tags.len() / 4 + 16
    }

    /// Grows by a quarter.
    pub(crate) fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        self.resize(self.slots_grown(), hash_of);
    }

    /// Releases unneeded slots.
    pub(crate) fn shrink(&mut self, hash_of: impl Fn(u32) -> u64) {
        let slots = if self.len == 0 { 0 } else { self.len * 3 / 2 + 16 };
        self.resize(slots.min(self.tags.len()), hash_of);
    }

    /// The place under `hash` for which `matches` is true.
    pub(crate) fn find(&self, hash: u64, matches: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot_of(hash, matches).map(|slot| self.places[slot])
    }

    /// Inserts a place that is not there. The table must not be full.
    pub(crate) fn insert(&mut self, hash: u64, place: u32) {
        assert!(!self.is_full(), "room is made before");
        self.put(hash, place);
        self.len += 1;
    }

    /// Replaces `place` by `other`, with the same hash.
    pub(crate) fn replace(&mut self, hash: u64, place: u32, other: u32) {
        let slot = self.slot_of(hash, |found| found == place).expect("it is in the table");
        self.places[slot] = other;
    }

    /// Removes an existing place.
    pub(crate) fn remove(&mut self, hash: u64, place: u32, hash_of: impl Fn(u32) -> u64) {
        let mut gap = self.slot_of(hash, |found| found == place).expect("it is in the table");
        self.len -= 1;
        let slots = self.tags.len();
        let mut slot = gap;
        loop {
            slot = self.after(slot);
            if self.tags[slot] == EMPTY {
                break;
            }
            // It may fill the gap if that is not before its home slot.
            let home = self.home(hash_of(self.places[slot]));
            let distance = |from: usize, to: usize| (to + slots - from) % slots;
            if distance(home, slot) >= distance(gap, slot) {
                self.tags[gap] = self.tags[slot];
                self.places[gap] = self.places[slot];
                gap = slot;
            }
        }
        self.tags[gap] = EMPTY;
    }

    fn slot_of(&self, hash: u64, matches: impl Fn(u32) -> bool) -> Option<usize> {
        if self.tags.is_empty() {
            return None;
        }
        let tag = tag_of(hash);
        let mut slot = self.home(hash);
        loop {
            match self.tags[slot] {
                EMPTY => return None,
                found if found == tag && matches(self.places[slot]) => return Some(slot),
                _ => slot = self.after(slot),
            }
        }
    }

    fn put(&mut self, hash: u64, place: u32) {
        let mut slot = self.home(hash);
        while self.tags[slot] != EMPTY {
            slot = self.after(slot);
        }
        self.tags[slot] = tag_of(hash);
        self.places[slot] = place;
    }

    fn resize(&mut self, slots: usize, hash_of: impl Fn(u32) -> u64) {
        let tags = std::mem::replace(&mut self.tags, vec![EMPTY; slots].into());
        let places = std::mem::replace(&mut self.places, vec![0; slots].into());
        for (_, &place) in tags.iter().zip(&places).filter(|(tag, _)| **tag != EMPTY) {
            self.put(hash_of(place), place);
        }
    }

    /// The home slot: the hash's upper half, scaled.
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.tags.len() as u64) >> 32) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.tags.len() { 0 } else { slot + 1 }
    }
}

/// A byte of the hash's lower half, never 0.
fn tag_of(hash: u64) -> u8 {
    hash as u8 | 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn hash(place: u32) -> u64 {
        // Few home slots and few tags, for long probe sequences.
        let n = u64::from(place).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (n >> 61 << 61) | n >> 40 & 6
    }

    #[test]
    fn places_are_found_until_removed() {
        let mut table = SlotTable::default();
        let mut model = HashMap::new();
        let mut state = 7u32;
        for step in 0..20_000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let place = state >> 16 & 511;
            if model.remove(&place).is_some() {
                table.remove(hash(place), place, hash);
            } else {
                if table.is_full() {
                    table.grow(hash);
                }
                table.insert(hash(place), place);
                model.insert(place, ());
            }
            if step % 500 == 499 {
                table.shrink(hash);
                let known = (0..512).filter(|&p| table.find(hash(p), |found| found == p).is_some());
                assert!(known.clone().all(|p| model.contains_key(&p)));
                assert_eq!((known.count(), table.len()), (model.len(), model.len()));
            }
        }
        assert!(table.bytes() <= 512 * 2 * SLOT_BYTES);
    }

    #[test]
    fn empty_table_takes_no_memory_and_finds_nothing() {
        let mut table = SlotTable::default();
        assert_eq!((table.bytes(), table.find(3, |_| true)), (0, None));
        table.grow(hash);
        table.insert(hash(1), 1);
        table.replace(hash(1), 1, 2);
        assert_eq!(table.find(hash(1), |found| found == 2), Some(2));
        table.remove(hash(1), 2, |_| hash(1));
        table.shrink(hash);
        assert_eq!(table.bytes(), 0);
    }
}
