//! A list of entries ordered by last use (or approximately: [`Lru::get_lazily`]), bounded by the
//! sum of their charges.
//!
//! Guarantees:
//! 1. [`Lru::charged`] is at most [`Lru::capacity`], always.
//! 2. The charge of an entry is the owner's charge plus [`Lru::ENTRY_OVERHEAD_BYTES`], the list's
//!    memory for it.
//! 3. `get` and `remove` take constant time and allocate nothing.
//!
//! Evicted values are returned to the caller, which drops them outside of locks. Single-threaded;
//! [`crate::block`] puts locks around it.

use crate::eviction::lists::{Evicted, Key, Lists};

/// The result of an insert.
#[derive(Debug)]
#[must_use = "drop values outside of locks"]
pub(crate) struct Inserted<V> {
    /// The new value, if it is larger than the capacity.
    pub(crate) refused: Option<V>,
    /// The previous value under the key.
    #[allow(dead_code, reason = "kept to be dropped outside of locks")]
    pub(crate) replaced: Option<V>,
    /// Evicted values, least recently used first.
    pub(crate) evicted: Evicted<V>,
}

/// The only list.
const LIST: usize = 0;

/// Entries ordered by last use.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    pub(crate) entries: Lists<K, V, 1>,
    capacity: usize,
}

impl<K: Key, V> Lru<K, V> {
    /// The overhead of an entry besides its value.
    pub(crate) const ENTRY_OVERHEAD_BYTES: usize = Lists::<K, V, 1>::OVERHEAD_BYTES;

    /// An empty list of at most `capacity` bytes.
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

    /// The value under `key`, which becomes the most recently used. `hash` is the key's, as below:
    /// the caller often has it already.
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        self.entries.renew(LIST, index);
        self.entries.entry_mut(index)
    }

    /// Like [`Lru::get`], but an entry among the newest is not moved ([`Lists::renew_lazily`]):
    /// cheaper for permanently hot entries.
    #[inline]
    pub(crate) fn get_lazily(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        self.entries.renew_lazily(LIST, index);
        self.entries.entry_mut(index)
    }

    /// The least recently used entry, without moving it.
    pub(crate) fn oldest(&mut self) -> Option<(&K, &mut V)> {
        let oldest = self.entries.oldest(LIST)?;
        self.entries.keyed_mut(oldest)
    }

    /// Makes the least recently used entry the most recently used.
    pub(crate) fn renew_oldest(&mut self) {
        if let Some(oldest) = self.entries.oldest(LIST) {
            self.entries.renew(LIST, oldest);
        }
    }

    /// Inserts `value` under `key` as the most recently used, replacing an older one, and evicts
    /// entries until all fit. A value larger than the capacity is not cached.
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        let charge = charge.saturating_add(Self::ENTRY_OVERHEAD_BYTES);
        let replaced = self.remove(hash, &key);
        if charge > self.capacity.min(Lists::<K, V, 1>::CHARGE_MAX) {
            // The older value is dropped too: the caller has marked it as stale.
            return Inserted { refused: Some(value), replaced, evicted: Evicted::new() };
        }
        let evicted = self.shrink_to(self.capacity - charge);
        self.entries.add(LIST, hash, key, value, charge);
        Inserted { refused: None, replaced, evicted }
    }

    /// Removes the entry under `key`.
    pub(crate) fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        let index = self.entries.find(hash, key)?;
        Some(self.entries.take(index))
    }

    /// Changes the capacity, and evicts entries until all fit.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Evicted<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        // The bookkeeping of an empty list is not charged.
        self.entries.give_back(removed.iter().count());
        removed
    }

    /// Evicts the least recently used until at most `bytes` are charged.
    fn shrink_to(&mut self, bytes: usize) -> Evicted<V> {
        let mut removed = Evicted::new();
        while self.charged() > bytes {
            let oldest = self.entries.oldest(LIST).expect("every charged entry is in the list");
            removed.push(self.entries.take(oldest));
        }
        removed
    }
}

#[cfg(test)]
mod tests;
