//! GreedyDual by size and frequency: evicts the entry that saves the least per byte, with ageing of
//! unused entries (Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency
//! Caching Policy", HP Laboratories 1998; lists in place of a heap as in Ghandeharizadeh et al.,
//! "CAMP: A Cost Adaptive Multi-Queue Eviction Policy for Key-Value Stores", Middleware 2014). For
//! entries of many sizes. It is AC-Key's efficiency, `E = b / s` ([`crate::eviction::elru`]), with
//! frequency and age in place of a few LRU candidates.
//!
//! 1. The weight of an entry is `uses × benefit / charge`, rounded down to a half power of two.
//!    `uses` counts its accesses since the insert, which counts as the first, up to [`USES_MAX`].
//! 2. Its priority is its weight plus the current age. An entry gets a new priority at its insert
//!    and at each access, and then becomes the newest in the list of its weight.
//! 3. So each list is in order of priority, and the lowest priority is that of the oldest entry of
//!    some list. This entry is evicted, and its priority becomes the age.
//!
//! **What we changed.** Weights are rounded to half powers of two (CAMP rounds to some bits): there
//! are only [`CLASSES`] lists, and the priorities of their oldest entries are in one array. The
//! benefit is a small number given by the owner ([`GreedyDual::insert_for`]).
//!
//! Guarantee: [`GreedyDual::charged`] is at most [`GreedyDual::capacity`], always. Single-threaded.

use crate::eviction::lists::{Evicted, Key, Lists};
use crate::eviction::lru::Inserted;

/// Number of lists, one per weight class.
const CLASSES: usize = 80;
/// More accesses than this do not count.
const USES_MAX: u8 = u8::MAX - 1;
/// The largest benefit.
const BENEFIT_MAX: u32 = 1 << 16;
/// Weights are integers: one use of benefit 1 in 2^32 bytes has weight 1.
const SCALE_SHIFT: u32 = 32;
/// The priority of an empty list.
const NO_PRIORITY: u64 = u64::MAX;

/// An entry with its priority and benefit.
#[derive(Debug)]
struct Weighted<V> {
    priority: u64,
    benefit: u32,
    value: V,
}

/// Entries in lists by weight.
#[derive(Debug)]
pub(crate) struct GreedyDual<K, V> {
    entries: Lists<K, Weighted<V>, CLASSES>,
    /// The priority of each list's oldest entry.
    priorities: [u64; CLASSES],
    charged: usize,
    capacity: usize,
    /// The priority of the last evicted entry.
    age: u64,
}

/// The class of an entry: the half octave of its weight.
fn class_of(uses: u8, benefit: u32, charge: usize) -> usize {
    let saved = u64::from(uses) * u64::from(benefit.clamp(1, BENEFIT_MAX));
    let weight = ((saved << SCALE_SHIFT) / charge.max(1) as u64).max(1);
    let octave = weight.ilog2();
    let is_upper_half = u128::from(weight).pow(2) >= 1 << (2 * octave + 1);
    (2 * octave as usize + usize::from(is_upper_half)).min(CLASSES - 1)
}

/// The smallest weight of a class.
fn weight_of(class: usize) -> u64 {
    let octave = 1_u64 << (class / 2);
    if class.is_multiple_of(2) { octave } else { octave + octave * 2 / 5 }
}

impl<K: Key, V> GreedyDual<K, V> {
    /// The overhead of an entry in bytes, besides its charge.
    pub(crate) const OVERHEAD_BYTES: usize = Lists::<K, Weighted<V>, CLASSES>::OVERHEAD_BYTES;

    /// Empty lists of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let priorities = [NO_PRIORITY; CLASSES];
        Self { entries: Lists::new(), priorities, charged: 0, capacity, age: 0 }
    }

    /// The capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The sum of the charges.
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// The memory of nodes and table, in bytes.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.entries.allocated_bytes()
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of nodes, used or free.
    pub(crate) fn nodes(&self) -> usize {
        self.entries.nodes()
    }

    /// The value under `key`; counts the access.
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.entries.find(hash, key)?;
        let uses = self.entries.uses(index);
        *uses = (*uses + 1).min(USES_MAX);
        let uses = *uses + 1;
        let (before, charge) = (self.entries.list(index), self.entries.charge(index));
        let class = class_of(uses, self.entries.entry(index)?.benefit, charge);
        if class == before {
            self.entries.renew(class, index);
        } else {
            self.entries.transfer(index, class, charge);
        }
        self.entries.entry_mut(index)?.priority = self.age.saturating_add(weight_of(class));
        self.note_oldest(before);
        self.note_oldest(class);
        Some(&mut self.entries.entry_mut(index)?.value)
    }

    /// The value under `key`, without counting the access.
    pub(crate) fn peek(&self, hash: u64, key: &K) -> Option<&V> {
        Some(&self.entries.peek(hash, key)?.value)
    }

    /// Whether there is a value under `key`.
    pub(crate) fn contains(&self, hash: u64, key: &K) -> bool {
        self.entries.contains(hash, key)
    }

    /// See [`Lists::scan`].
    pub(crate) fn scan(&self, first: usize, count: usize) -> impl Iterator<Item = (&K, &V)> {
        self.entries.scan(first, count).map(|(key, weighted)| (key, &weighted.value))
    }

    /// See [`Lru::insert`](crate::eviction::lru::Lru::insert); each access of the value saves
    /// `benefit`, in any unit, at least 1.
    pub(crate) fn insert_for(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        charge: usize,
        benefit: u32,
    ) -> Inserted<V> {
        let charge = charge.saturating_add(Self::OVERHEAD_BYTES);
        let replaced = self.remove(hash, &key);
        if charge > self.capacity.min(Lists::<K, Weighted<V>, CLASSES>::CHARGE_MAX) {
            return Inserted { refused: Some(value), replaced, evicted: Evicted::new() };
        }
        let evicted = self.shrink_to(self.capacity - charge);
        let class = class_of(1, benefit, charge);
        let priority = self.age.saturating_add(weight_of(class));
        self.entries.add(class, hash, key, Weighted { priority, benefit, value }, charge);
        self.charged += charge;
        self.note_oldest(class);
        Inserted { refused: None, replaced, evicted }
    }

    /// Removes the value under `key`.
    pub(crate) fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        self.entries.find(hash, key).map(|index| self.take(index))
    }

    /// See [`Lists::take_where`].
    pub(crate) fn take_where(
        &mut self,
        first: usize,
        count: usize,
        matches: impl Fn(&K, &V) -> bool,
    ) -> Evicted<V> {
        let found =
            self.entries.find_all(first, count, |key, weighted| matches(key, &weighted.value));
        let mut removed = Evicted::new();
        found.into_iter().for_each(|index| removed.push(self.take(index)));
        removed
    }

    /// Changes the capacity; entries that no longer fit are evicted.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Evicted<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        self.entries.give_back(removed.iter().count());
        removed
    }

    /// Evicts entries until at most `bytes` are charged.
    fn shrink_to(&mut self, bytes: usize) -> Evicted<V> {
        let mut removed = Evicted::new();
        while self.charged > bytes {
            let least = (0..CLASSES).min_by_key(|class| self.priorities[*class]);
            let least = least.expect("there are classes");
            let oldest = self.entries.oldest(least).expect("every charged entry is in a list");
            self.age = self.priorities[least];
            removed.push(self.take(oldest));
        }
        removed
    }

    fn take(&mut self, index: u32) -> V {
        let class = self.entries.list(index);
        self.charged -= self.entries.charge(index);
        let weighted = self.entries.take(index);
        self.note_oldest(class);
        weighted.value
    }

    /// Updates the priority of a list's oldest entry.
    fn note_oldest(&mut self, class: usize) {
        let oldest = self.entries.oldest(class).and_then(|index| self.entries.entry(index));
        self.priorities[class] = oldest.map_or(NO_PRIORITY, |weighted| weighted.priority);
    }
}

#[cfg(test)]
mod tests;
