//! A list of entries ordered by last use, bounded by the sum of their charges.
//!
//! Guarantees:
//! 1. [`Lru::charged`] is at most [`Lru::capacity`], always.
//! 2. An entry is charged what its owner says plus
//!    [`Lru::ENTRY_OVERHEAD_BYTES`], the memory that the list spends on it.
//! 3. `get` and `remove` take constant time and allocate nothing.
//!
//! Values that leave are handed to the caller, who drops them where it hurts
//! nobody. For one thread at a time; [`crate::block`] puts locks around it.

pub use crate::lists::Key;
use crate::lists::Lists;

/// Values that left a list. The first costs no allocation: most inserts push
/// out one entry or none.
#[derive(Debug)]
#[must_use = "values are to be dropped outside of locks"]
pub struct Removed<V> {
    first: Option<V>,
    rest: Vec<V>,
}

impl<V> Removed<V> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { first: None, rest: Vec::new() }
    }

    /// Adds a value.
    pub fn push(&mut self, value: V) {
        match self.first {
            None => self.first = Some(value),
            Some(_) => self.rest.push(value),
        }
    }

    /// All values, in the order in which they left.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        self.first.iter().chain(&self.rest)
    }

    /// All of them, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.first.iter_mut().chain(&mut self.rest)
    }
}

impl<V> Default for Removed<V> {
    fn default() -> Self {
        Self::new()
    }
}

/// What became of an insert.
#[derive(Debug)]
#[must_use = "values are to be dropped outside of locks"]
pub struct Inserted<V> {
    /// The new value, when it is larger than the capacity.
    pub refused: Option<V>,
    /// The value that stood under the key before.
    pub replaced: Option<V>,
    /// Values pushed out for want of room, least recently used first.
    pub evicted: Removed<V>,
}

/// The only list.
const LIST: usize = 0;

/// Entries ordered by last use.
#[derive(Debug)]
pub struct Lru<K, V> {
    entries: Lists<K, V, 1>,
    capacity: usize,
}

impl<K: Key, V> Lru<K, V> {
    /// What an entry costs beside its value.
    pub const ENTRY_OVERHEAD_BYTES: usize = Lists::<K, V, 1>::OVERHEAD_BYTES;

    /// An empty list of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { entries: Lists::new(), capacity }
    }

    /// The bound on the charges.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The sum of the charges.
    pub fn charged(&self) -> usize {
        self.entries.charged(LIST)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many nodes there are, used or free; see [`Lru::remove_where`].
    pub fn nodes(&self) -> usize {
        self.entries.nodes()
    }

    /// The value under `key`, which becomes the most recently used. `hash` is
    /// the key's, as below: the caller often has it already.
    pub fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.find(hash, key)?;
        self.entries.renew(LIST, index);
        self.entries.entry_mut(index)
    }

    /// The value under `key`, whose place does not change.
    pub fn peek(&self, hash: u64, key: &K) -> Option<&V> {
        self.entries.entry(self.find(hash, key)?)
    }

    /// Whether there is an entry under `key`; its place does not change.
    pub fn contains(&self, hash: u64, key: &K) -> bool {
        self.find(hash, key).is_some()
    }

    /// The least recently used entry; its place does not change.
    pub fn oldest(&mut self) -> Option<(&K, &mut V)> {
        let oldest = self.entries.oldest(LIST)?;
        self.entries.keyed_mut(oldest)
    }

    /// Puts `value` under `key` as the most recently used, in place of an
    /// older one, and pushes out entries until all fit. What is larger than
    /// the capacity is not kept.
    pub fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
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
    pub fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        let index = self.find(hash, key)?;
        Some(self.entries.take(index))
    }

    /// Changes the capacity, and pushes out entries until all fit.
    pub fn set_capacity(&mut self, capacity: usize) -> Removed<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        // The bookkeeping of an empty list is charged to nobody.
        self.entries.give_back();
        removed
    }

    /// The entries among the nodes from `first` on, at most `count` of them; see
    /// [`Lru::remove_where`].
    pub fn look_at(&self, first: usize, count: usize) -> impl Iterator<Item = (&K, &V)> {
        self.entries.look_at(first, count)
    }

    /// Takes out the entries whose key is `dead`, among the nodes from `first`
    /// to `first + count`. Nodes move only when the capacity shrinks by much: else a caller
    /// that goes through all of them in pieces meets every entry that was there all along.
    pub fn remove_where(
        &mut self,
        first: usize,
        count: usize,
        dead: impl Fn(&K) -> bool,
    ) -> Removed<V> {
        let mut removed = Removed::new();
        for index in self.entries.find_all(first, count, |key, _| dead(key)) {
            removed.push(self.entries.take(index));
        }
        removed
    }

    fn find(&self, hash: u64, key: &K) -> Option<u32> {
        self.entries.find(hash, key)
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
