//! A list of entries ordered by last use (or about so: [`Lru::get_lazily`]), bounded by the
//! sum of their charges.
//!
//! Guarantees:
//! 1. [`Lru::charged`] is at most [`Lru::capacity`], always.
//! 2. An entry is charged what its owner says plus
//!    [`Lru::ENTRY_OVERHEAD_BYTES`], the memory that the list spends on it.
//! 3. `get` and `remove` take constant time and allocate nothing.
//!
//! Values that leave are handed to the caller, who drops them where it hurts
//! nobody. For one thread at a time; [`crate::block`] puts locks around it.

use crate::eviction::lists::{Key, Lists, Removed};

/// What became of an insert.
#[derive(Debug)]
#[must_use = "values are to be dropped outside of locks"]
pub(crate) struct Inserted<V> {
    /// The new value, when it is larger than the capacity.
    pub(crate) refused: Option<V>,
    /// The value that stood under the key before.
    #[allow(dead_code, reason = "it is there to be dropped outside of locks")]
    pub(crate) replaced: Option<V>,
    /// Values pushed out for want of room, least recently used first.
    pub(crate) evicted: Removed<V>,
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
    /// What an entry costs beside its value.
    pub(crate) const ENTRY_OVERHEAD_BYTES: usize = Lists::<K, V, 1>::OVERHEAD_BYTES;

    /// An empty list of at most `capacity` bytes.
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

    /// The value under `key`, which becomes the most recently used. `hash` is
    /// the key's, as below: the caller often has it already.
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        self.entries.renew(LIST, index);
        self.entries.entry_mut(index)
    }

    /// As [`Lru::get`], but an entry that is among the newest anyway stays where it is
    /// ([`Lists::renew_lazily`]): cheaper for those that are asked for all the time.
    #[inline]
    pub(crate) fn get_lazily(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        self.entries.renew_lazily(LIST, index);
        self.entries.entry_mut(index)
    }

    /// The least recently used entry; its place does not change.
    pub(crate) fn oldest(&mut self) -> Option<(&K, &mut V)> {
        let oldest = self.entries.oldest(LIST)?;
        self.entries.keyed_mut(oldest)
    }

    /// The least recently used entry becomes the most recently used.
    pub(crate) fn renew_oldest(&mut self) {
        if let Some(oldest) = self.entries.oldest(LIST) {
            self.entries.renew(LIST, oldest);
        }
    }

    /// Puts `value` under `key` as the most recently used, in place of an
    /// older one, and pushes out entries until all fit. What is larger than
    /// the capacity is not kept.
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        let charge = charge.saturating_add(Self::ENTRY_OVERHEAD_BYTES);
        let replaced = self.remove(hash, &key);
        if charge > self.capacity.min(Lists::<K, V, 1>::CHARGE_MAX) {
            // The older value goes too: the caller has said that it is stale.
            return Inserted { refused: Some(value), replaced, evicted: Removed::new() };
        }
        let evicted = self.shrink_to(self.capacity - charge);
        self.entries.add(LIST, hash, key, value, charge);
        Inserted { refused: None, replaced, evicted }
    }

    /// Takes the entry under `key` out.
    pub(crate) fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        let index = self.entries.find(hash, key)?;
        Some(self.entries.take(index))
    }

    /// Changes the capacity, and pushes out entries until all fit.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Removed<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        // The bookkeeping of an empty list is charged to nobody.
        self.entries.give_back(removed.iter().count());
        removed
    }

    /// Pushes out the least recently used until at most `bytes` are charged.
    fn shrink_to(&mut self, bytes: usize) -> Removed<V> {
        let mut removed = Removed::new();
        while self.charged() > bytes {
            let oldest = self.entries.oldest(LIST).expect("what is charged is in the list");
            removed.push(self.entries.take(oldest));
        }
        removed
    }
}

#[cfg(test)]
mod tests;
