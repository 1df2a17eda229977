//! S3-FIFO: three queues, of which the first is small and filters out entries that are not accessed
//! again (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023).
//!
//! ```text
//!   new ──► small (a tenth) ──accessed twice──► main ──accessed──┐
//!             │                                 │  ▲─────────────┘
//!             ▼ otherwise                       ▼ otherwise
//!           ghost ──── inserted again: to main  evicted
//! ```
//!
//! 1. A hit counts, up to [`USES_MAX`], and touches nothing else.
//! 2. A new entry goes to the small queue, or to the main one if the ghost has it.
//! 3. While room is needed: if the small queue has its tenth or more, its oldest entry moves to the
//!    main queue with count 0 if it was accessed more than once; otherwise it is evicted, and the
//!    ghost records it.
//! 4. Else the oldest of the main queue is evicted if its count is 0; otherwise it becomes the
//!    newest, and its count is decremented.
//! 5. The ghost records as many bytes of entries as the main queue has room for.
//!
//! **What we changed.** Entries have sizes: queues are measured in bytes, and steps 3 and 4 repeat
//! until there is room. The ghost's memory is charged like entries. If the small queue is empty,
//! the main one evicts, and the other way round.
//!
//! Guarantee: [`S3Fifo::charged`] is at most [`S3Fifo::capacity`], always. Single-threaded.

use crate::eviction::ghost_list::{GhostList, Record};
use crate::eviction::lists::{Evicted, Key, Lists};
use crate::eviction::lru::Inserted;

const SMALL: usize = 0;
const MAIN: usize = 1;

/// The small queue has this fraction of the capacity.
const SMALL_DIVISOR: usize = 10;
/// Counts have two bits.
const USES_MAX: u8 = 3;
/// The ghost may take this fraction of the capacity: far more than it needs for blocks.
const GHOST_DIVISOR: usize = 50;

/// Entries in two queues, and the ghost of the first.
#[derive(Debug)]
pub(crate) struct S3Fifo<K, V> {
    pub(crate) entries: Lists<K, V, 2>,
    ghost: GhostList,
    capacity: usize,
}

impl<K: Key, V> S3Fifo<K, V> {
    /// Empty queues of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let mut new = Self { entries: Lists::new(), ghost: GhostList::default(), capacity: 0 };
        drop(new.set_capacity(capacity));
        new
    }

    /// The capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The sum of the charges, the ghost's memory included.
    pub(crate) fn charged(&self) -> usize {
        self.entries.charged(SMALL) + self.entries.charged(MAIN) + self.ghost.charged_bytes()
    }

    /// The memory of the ghost, in bytes.
    pub(crate) fn ghost_bytes(&self) -> usize {
        self.ghost.charged_bytes()
    }

    /// The value under `key`; counts the access.
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        let uses = self.entries.uses(index);
        *uses = (*uses + 1).min(USES_MAX);
        self.entries.entry_mut(index)
    }

    /// See [`Lru::insert`](crate::eviction::lru::Lru::insert).
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        let charge = charge.saturating_add(Lists::<K, V, 2>::OVERHEAD_BYTES);
        let replaced = self.entries.find(hash, &key).map(|index| self.entries.take(index));
        if charge > self.room_max().min(Lists::<K, V, 2>::CHARGE_MAX) {
            return Inserted { refused: Some(value), replaced, evicted: Evicted::new() };
        }
        let is_known = self.ghost.take(hash as u32).is_some();
        let evicted = self.make_room(charge);
        self.entries.add(if is_known { MAIN } else { SMALL }, hash, key, value, charge);
        Inserted { refused: None, replaced, evicted }
    }

    /// Changes the capacity; entries that no longer fit are evicted.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Evicted<V> {
        self.capacity = capacity;
        self.ghost.set_bytes_max(capacity / GHOST_DIVISOR);
        let removed = self.make_room(0);
        self.entries.give_back(removed.iter().count());
        removed
    }

    /// The capacity for entries while the ghost has its maximum.
    fn room_max(&self) -> usize {
        self.capacity - self.capacity / GHOST_DIVISOR
    }

    /// Evicts entries until `bytes` more fit.
    fn make_room(&mut self, bytes: usize) -> Evicted<V> {
        let mut removed = Evicted::new();
        while self.charged() + bytes > self.capacity {
            let small = self.entries.charged(SMALL);
            let is_large = small > 0 && small >= self.capacity / SMALL_DIVISOR;
            match is_large || self.entries.len_of(MAIN) == 0 {
                true => self.leave_small(&mut removed),
                false => self.leave_main(&mut removed),
            }
        }
        removed
    }

    /// Moves the oldest of the small queue to the main one, or evicts it.
    fn leave_small(&mut self, removed: &mut Evicted<V>) {
        let oldest = self.entries.oldest(SMALL).expect("every charged entry is in a queue");
        let uses = std::mem::take(self.entries.uses(oldest));
        if uses > 1 {
            self.entries.transfer(oldest, MAIN, self.entries.charge(oldest));
            return;
        }
        let fingerprint = self.entries.key(oldest).hash() as u32;
        let charge = self.entries.charge(oldest);
        removed.push(self.entries.take(oldest));
        let main_bytes = self.capacity - self.capacity / SMALL_DIVISOR;
        self.ghost.note(Record::new(fingerprint, charge, 0), main_bytes);
    }

    /// Gives the oldest of the main queue another chance, or evicts it.
    fn leave_main(&mut self, removed: &mut Evicted<V>) {
        let oldest = self.entries.oldest(MAIN).expect("the queue is not empty");
        match self.entries.uses(oldest) {
            0 => removed.push(self.entries.take(oldest)),
            uses => {
                *uses -= 1;
                self.entries.renew(MAIN, oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
