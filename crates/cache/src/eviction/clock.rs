//! CLOCK: entries in insertion order, with a second chance for accessed ones.
//!
//! 1. A hit sets the entry's mark, and touches nothing else.
//! 2. To evict, the hand looks at the oldest entry. If it is marked, the mark is cleared, and the
//!    entry becomes the newest: as if the hand had passed over it.
//! 3. An unmarked one is evicted.
//!
//! (Corbató, "A paging experiment with the Multics system", 1968.) What we changed: entries have
//! sizes, so the hand moves on until there is room.
//!
//! Guarantee: [`Clock::charged`] is at most [`Clock::capacity`], always. Single-threaded.

use crate::eviction::lists::{Evicted, Key, Lists};
use crate::eviction::lru::Inserted;

/// The only list.
const LIST: usize = 0;

/// Entries in a circle.
#[derive(Debug)]
pub(crate) struct Clock<K, V> {
    pub(crate) entries: Lists<K, V, 1>,
    capacity: usize,
}

impl<K: Key, V> Clock<K, V> {
    /// An empty circle of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: Lists::new(), capacity }
    }

    /// The capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The sum of the charges.
    pub(crate) fn charged(&self) -> usize {
        self.entries.charged(LIST)
    }

    /// The value under `key`; sets its mark.
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        *self.entries.uses(index) = 1;
        self.entries.entry_mut(index)
    }

    /// See [`Lru::insert`](crate::eviction::lru::Lru::insert).
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        let charge = charge.saturating_add(Lists::<K, V, 1>::OVERHEAD_BYTES);
        let replaced = self.entries.find(hash, &key).map(|index| self.entries.take(index));
        if charge > self.capacity.min(Lists::<K, V, 1>::CHARGE_MAX) {
            return Inserted { refused: Some(value), replaced, evicted: Evicted::new() };
        }
        let evicted = self.shrink_to(self.capacity - charge);
        self.entries.add(LIST, hash, key, value, charge);
        Inserted { refused: None, replaced, evicted }
    }

    /// Changes the capacity; entries that no longer fit are evicted.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Evicted<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        self.entries.give_back(removed.iter().count());
        removed
    }

    fn shrink_to(&mut self, bytes: usize) -> Evicted<V> {
        let mut removed = Evicted::new();
        while self.charged() > bytes {
            let oldest = self.entries.oldest(LIST).expect("every charged entry is in the list");
            match std::mem::take(self.entries.uses(oldest)) {
                0 => removed.push(self.entries.take(oldest)),
                _ => self.entries.renew(LIST, oldest),
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests;
