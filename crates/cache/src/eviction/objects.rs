//! Objects of any size by 64-bit hash: one shard of the DRAM tier of an object cache.
//!
//! Guarantees:
//! 1. [`Objects::charged_bytes`] is at most [`Objects::capacity_bytes`], always.
//! 2. The charge of an object is the owner's charge plus the shard's memory for it, at most
//!    [`Objects::OVERHEAD_BYTES`].
//!
//! Objects are identified by hash only: of two with the same hash the newer one stays. Callers that
//! store keys with the objects compare them.
//!
//! Pure; single-threaded.

use crate::eviction::greedy_dual::GreedyDual;
use crate::eviction::lists::{Evicted, Key};
use crate::eviction::order::{Eviction, Ordered};

/// The key of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hash(u64);

impl Key for Hash {
    fn hash(&self) -> u64 {
        self.0
    }
}

/// The result of [`Objects::insert`].
#[derive(Debug)]
#[must_use = "the caller may need the evicted objects"]
pub struct Insertion<V> {
    /// The object, if it is larger than the shard.
    pub refused: Option<V>,
    /// The previous object under its hash.
    pub replaced: Option<V>,
    /// Evicted objects, in eviction order.
    pub evicted: Evicted<V>,
}

/// A shard of objects.
#[derive(Debug)]
pub struct Objects<V> {
    entries: Ordered<Hash, V>,
}

impl<V> Objects<V> {
    /// The largest overhead of an object in bytes, besides its charge.
    pub const OVERHEAD_BYTES: usize = GreedyDual::<Hash, V>::OVERHEAD_BYTES;

    /// The overhead of an object with this eviction order in bytes, besides its charge.
    pub const fn overhead_bytes(eviction: Eviction) -> usize {
        Ordered::<Hash, V>::overhead_bytes(eviction)
    }

    /// A shard of `capacity_bytes`.
    pub fn new(eviction: Eviction, capacity_bytes: usize) -> Self {
        Self { entries: Ordered::new(eviction, capacity_bytes) }
    }

    /// The capacity in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.entries.capacity()
    }

    /// The sum of the charges.
    pub fn charged_bytes(&self) -> usize {
        self.entries.charged()
    }

    /// The memory of the shard itself, in bytes, without the memory that objects own.
    pub fn allocated_bytes(&self) -> usize {
        self.entries.allocated_bytes()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object under `hash`; the access counts for eviction.
    pub fn get(&mut self, hash: u64) -> Option<&mut V> {
        self.entries.get_lazily(hash, &Hash(hash))
    }

    /// The object under `hash`, without counting the access.
    pub fn peek(&self, hash: u64) -> Option<&V> {
        self.entries.peek(hash, &Hash(hash))
    }

    /// Inserts an object under `hash`, replacing the old one, and evicts others until all fit.
    pub fn insert(&mut self, hash: u64, object: V, charge_bytes: usize) -> Insertion<V> {
        self.insert_for(hash, object, charge_bytes, 1)
    }

    /// Like [`Objects::insert`]; each access of the object saves `benefit`, relative to others, at
    /// least 1. Only [`Eviction::GreedyDual`] uses it.
    pub fn insert_for(
        &mut self,
        hash: u64,
        object: V,
        charge_bytes: usize,
        benefit: u32,
    ) -> Insertion<V> {
        let inserted = self.entries.insert_for(hash, Hash(hash), object, charge_bytes, benefit);
        let (refused, replaced) = (inserted.refused, inserted.replaced);
        Insertion { refused, replaced, evicted: inserted.evicted }
    }

    /// Removes the object under `hash`.
    pub fn remove(&mut self, hash: u64) -> Option<V> {
        self.entries.remove(hash, &Hash(hash))
    }

    /// Changes the capacity in bytes; objects that no longer fit are evicted.
    pub fn set_capacity_bytes(&mut self, capacity_bytes: usize) -> Evicted<V> {
        self.entries.set_capacity(capacity_bytes)
    }

    /// The number of places for [`Objects::scan`], used or not.
    pub fn places(&self) -> usize {
        self.entries.nodes()
    }

    /// Calls `see` for the objects in the places from `first` to `first + count`, with their
    /// hashes. An object keeps its place until it is removed, unless the capacity changes.
    pub fn scan(&self, first: usize, count: usize, mut see: impl FnMut(u64, &V)) {
        self.entries.scan(first, count, |hash, object| see(hash.0, object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [Eviction; 4] =
        [Eviction::Lru, Eviction::Clock, Eviction::S3Fifo, Eviction::GreedyDual];

    #[test]
    fn charges_stay_within_capacity_in_every_order() {
        for eviction in ORDERS {
            let mut objects = Objects::new(eviction, 10_000);
            let mut left = 0;
            for hash in 0..1_000_u64 {
                let insertion = objects.insert(hash, hash, 500);
                assert!(insertion.refused.is_none() && insertion.replaced.is_none());
                left += insertion.evicted.iter().count();
                assert!(objects.charged_bytes() <= objects.capacity_bytes(), "{eviction:?}");
                assert_eq!(objects.len() + left, hash as usize + 1, "{eviction:?}");
            }
        }
    }

    #[test]
    fn charge_of_an_object_is_its_own_and_the_overhead_of_its_order() {
        for eviction in ORDERS {
            let mut objects = Objects::new(eviction, 10_000);
            let _ = objects.insert(1, [0_u64; 9], 500);
            let overhead = Objects::<[u64; 9]>::overhead_bytes(eviction);
            assert_eq!(objects.charged_bytes(), 500 + overhead, "{eviction:?}");
            assert!(overhead <= Objects::<[u64; 9]>::OVERHEAD_BYTES, "{eviction:?}");
            assert!(objects.allocated_bytes() >= overhead / 2, "{eviction:?}");
        }
    }

    #[test]
    fn removal_works_and_oversized_object_removes_the_old_one() {
        for eviction in ORDERS {
            let mut objects = Objects::new(eviction, 10_000);
            let _ = objects.insert(1, 'a', 100);
            let _ = objects.insert(2, 'b', 100);
            assert_eq!(objects.remove(1), Some('a'));
            assert_eq!(objects.get(1), None);
            assert_eq!(objects.insert(2, 'c', 20_000).refused, Some('c'));
            assert_eq!((objects.peek(2), objects.len()), (None, 0), "{eviction:?}");
        }
    }
}
