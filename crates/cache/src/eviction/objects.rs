//! Objects of any size under 64-bit hashes: one shard of the DRAM tier of an object cache.
//!
//! Guarantees:
//! 1. [`Objects::charged_bytes`] is at most [`Objects::capacity_bytes`], always.
//! 2. An object is charged what its owner says plus the memory that the shard spends on it, at
//!    most [`Objects::OVERHEAD_BYTES`].
//!
//! A hash is all that an object is found by: of two whose hashes are the same the younger
//! stays. Whoever keeps keys beside the objects compares them.
//!
//! Pure; for one thread at a time.

use crate::eviction::greedy_dual::GreedyDual;
use crate::eviction::lists::{Key, Removed};
use crate::eviction::order::{Eviction, Ordered};

/// What an object is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hash(u64);

impl Key for Hash {
    fn hash(&self) -> u64 {
        self.0
    }
}

/// What became of [`Objects::insert`].
#[derive(Debug)]
#[must_use = "what left may be wanted elsewhere"]
pub struct Insertion<V> {
    /// The object, where it is larger than the shard.
    pub refused: Option<V>,
    /// What stood under its hash before.
    pub replaced: Option<V>,
    /// What left to make room, in the order in which it left.
    pub evicted: Removed<V>,
}

/// A shard.
#[derive(Debug)]
pub struct Objects<V> {
    entries: Ordered<Hash, V>,
}

impl<V> Objects<V> {
    /// What an object costs beside its charge, in bytes, at most.
    pub const OVERHEAD_BYTES: usize = GreedyDual::<Hash, V>::OVERHEAD_BYTES;

    /// A shard for `capacity_bytes`.
    pub fn new(eviction: Eviction, capacity_bytes: usize) -> Self {
        Self { entries: Ordered::new(eviction, capacity_bytes) }
    }

    /// The bound on the charges.
    pub fn capacity_bytes(&self) -> usize {
        self.entries.capacity()
    }

    /// The sum of the charges.
    pub fn charged_bytes(&self) -> usize {
        self.entries.charged()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object under `hash`; that it was asked for counts for how long it stays.
    pub fn get(&mut self, hash: u64) -> Option<&mut V> {
        self.entries.get_lazily(hash, &Hash(hash))
    }

    /// The object under `hash`, as if nobody had asked.
    pub fn peek(&self, hash: u64) -> Option<&V> {
        self.entries.peek(hash, &Hash(hash))
    }

    /// Puts an object under `hash`, in place of what stands there, and lets others leave
    /// until all fit.
    pub fn insert(&mut self, hash: u64, object: V, charge_bytes: usize) -> Insertion<V> {
        self.insert_for(hash, object, charge_bytes, 1)
    }

    /// As [`Objects::insert`], of an object that spares so much whenever it is asked for, beside
    /// others, at least 1. Only [`Eviction::GreedyDual`] weighs that.
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

    /// Takes the object under `hash` out.
    pub fn remove(&mut self, hash: u64) -> Option<V> {
        self.entries.remove(hash, &Hash(hash))
    }

    /// Changes the capacity; what does not fit any more leaves.
    pub fn set_capacity_bytes(&mut self, capacity_bytes: usize) -> Removed<V> {
        self.entries.set_capacity(capacity_bytes)
    }

    /// How many places there are to be looked at by [`Objects::look_at`], used or not.
    pub fn places(&self) -> usize {
        self.entries.nodes()
    }

    /// Shows `see` the objects of the places from `first` to `first + count`, with their
    /// hashes. One that is there all along keeps its place, unless the capacity changes.
    pub fn look_at(&self, first: usize, count: usize, mut see: impl FnMut(u64, &V)) {
        self.entries.look_at(first, count, |hash, object| see(hash.0, object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [Eviction; 4] =
        [Eviction::Lru, Eviction::Clock, Eviction::S3Fifo, Eviction::GreedyDual];

    #[test]
    fn charges_stay_within_the_capacity_whatever_the_order() {
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
    fn what_is_removed_is_gone_and_what_is_too_large_takes_the_old_one_along() {
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
