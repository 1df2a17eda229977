//! CLOCK: entries in the order in which they came; one that was asked for gets a second
//! chance.
//!
//! 1. A hit sets the entry's mark, and touches nothing else.
//! 2. Of what must leave, the hand looks at the oldest. If it is marked, the mark goes,
//!    and it becomes the newest: as if the hand had passed over it.
//! 3. One without a mark leaves.
//!
//! (Corbató, "A paging experiment with the Multics system", 1968.) What we changed:
//! entries have sizes, so the hand goes on until there is room.
//!
//! Guarantee: [`Clock::charged`] is at most [`Clock::capacity`], always. For one thread at
//! a time.

use crate::eviction::lists::{Key, Lists, Removed};
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

    /// The bound on the charges.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The sum of the charges.
    pub(crate) fn charged(&self) -> usize {
        self.entries.charged(LIST)
    }

    /// The value under `key`, which is marked.
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        *self.entries.uses(index) = 1;
        self.entries.entry_mut(index)
    }

    /// As [`Lru::insert`](crate::eviction::lru::Lru::insert).
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        let charge = charge.saturating_add(Lists::<K, V, 1>::OVERHEAD_BYTES);
        let replaced = self.entries.find(hash, &key).map(|index| self.entries.take(index));
        if charge > self.capacity.min(Lists::<K, V, 1>::CHARGE_MAX) {
            return Inserted { refused: Some(value), replaced, evicted: Removed::new() };
        }
        let evicted = self.shrink_to(self.capacity - charge);
        self.entries.add(LIST, hash, key, value, charge);
        Inserted { refused: None, replaced, evicted }
    }

    /// Changes the capacity; what does not fit any more leaves.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Removed<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        self.entries.give_back(removed.iter().count());
        removed
    }

    fn shrink_to(&mut self, bytes: usize) -> Removed<V> {
        let mut removed = Removed::new();
        while self.charged() > bytes {
            let oldest = self.entries.oldest(LIST).expect("what is charged is in the list");
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
