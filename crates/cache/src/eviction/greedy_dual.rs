//! GreedyDual by size and frequency: the entry leaves that saves the least for each of its bytes,
//! and what is not asked for grows old (Cherkasova, "Improving WWW Proxies Performance with
//! Greedy-Dual-Size-Frequency Caching Policy", HP Laboratories 1998; lists in place of a heap as in
//! Ghandeharizadeh et al., "CAMP: A Cost Adaptive Multi-Queue Eviction Policy for Key-Value Stores",
//! Middleware 2014). For entries of many sizes. It is AC-Key's efficiency, `E = b / s`
//! ([`crate::eviction::elru`]), with frequency and age in the place of a few candidates of LRU.
//!
//! 1. The weight of an entry is `uses × benefit / charge`, rounded down to a half power of two. `uses`
//!    is how often it was asked for while it was here, its coming included, up to [`USES_MAX`].
//! 2. Its priority is its weight and the age at that moment. An entry has a new one when it
//!    comes and whenever it is asked for, and is then the newest in the list of its weight.
//! 3. So each list is in the order of priorities, and the least of all is among the oldest of
//!    the lists. That one leaves, and the age is its priority from then on.
//!
//! **What we changed.** Weights are rounded to half powers of two, CAMP rounds to some bits: there are
//! no more than [`CLASSES`] lists, and the priorities of their oldest stand side by side.
//! The benefit is a small number that its owner gives ([`GreedyDual::insert_for`]).
//!
//! Guarantee: [`GreedyDual::charged`] is at most [`GreedyDual::capacity`], always. For one thread
//! at a time.

use crate::eviction::lists::{Key, Lists, Removed};
use crate::eviction::lru::Inserted;

/// Lists, by weight.
const CLASSES: usize = 80;
/// An entry that was asked for more often is worth no more.
const USES_MAX: u8 = u8::MAX - 1;
/// The largest benefit.
const BENEFIT_MAX: u32 = 1 << 16;
/// Weights are whole: of one use of a benefit of 1 in so many bytes.
const SCALE_SHIFT: u32 = 32;
/// The priority of no entry.
const NOBODY: u64 = u64::MAX;

/// An entry, and what is known of it.
#[derive(Debug)]
struct Weighed<V> {
    priority: u64,
    benefit: u32,
    value: V,
}

/// Entries in lists by their weights.
#[derive(Debug)]
pub(crate) struct GreedyDual<K, V> {
    entries: Lists<K, Weighed<V>, CLASSES>,
    /// Of the oldest of each list.
    priorities: [u64; CLASSES],
    charged: usize,
    capacity: usize,
    /// The priority of what left last.
    age: u64,
}

/// The class of an entry: half octaves of its weight.
fn class_of(uses: u8, benefit: u32, charge: usize) -> usize {
    let saved = u64::from(uses) * u64::from(benefit.clamp(1, BENEFIT_MAX));
    let weight = ((saved << SCALE_SHIFT) / charge.max(1) as u64).max(1);
    let octave = weight.ilog2();
    let is_upper_half = u128::from(weight).pow(2) >= 1 << (2 * octave + 1);
    (2 * octave as usize + usize::from(is_upper_half)).min(CLASSES - 1)
}

/// The least weight of a class.
fn weight_of(class: usize) -> u64 {
    let octave = 1_u64 << (class / 2);
    if class.is_multiple_of(2) { octave } else { octave + octave * 2 / 5 }
}

impl<K: Key, V> GreedyDual<K, V> {
    /// What an entry costs beside its charge, in bytes.
    pub(crate) const OVERHEAD_BYTES: usize = Lists::<K, Weighed<V>, CLASSES>::OVERHEAD_BYTES;

    /// Empty lists of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let priorities = [NOBODY; CLASSES];
        Self { entries: Lists::new(), priorities, charged: 0, capacity, age: 0 }
    }

    /// The bound on the charges.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The sum of the charges.
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many nodes there are, used or free.
    pub(crate) fn nodes(&self) -> usize {
        self.entries.nodes()
    }

    /// The value under `key`, counted.
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

    /// The value under `key`, as if nobody had asked.
    pub(crate) fn peek(&self, hash: u64, key: &K) -> Option<&V> {
        Some(&self.entries.peek(hash, key)?.value)
    }

    /// Whether there is a value under `key`.
    pub(crate) fn contains(&self, hash: u64, key: &K) -> bool {
        self.entries.contains(hash, key)
    }

    /// As [`Lists::look_at`].
    pub(crate) fn look_at(&self, first: usize, count: usize) -> impl Iterator<Item = (&K, &V)> {
        self.entries.look_at(first, count).map(|(key, weighed)| (key, &weighed.value))
    }

    /// As [`Lru::insert`](crate::eviction::lru::Lru::insert), of a value that spares so much when it is
    /// asked for, in whatever unit, at least 1.
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
        if charge > self.capacity.min(Lists::<K, Weighed<V>, CLASSES>::CHARGE_MAX) {
            return Inserted { refused: Some(value), replaced, evicted: Removed::new() };
        }
        let evicted = self.shrink_to(self.capacity - charge);
        let class = class_of(1, benefit, charge);
        let priority = self.age.saturating_add(weight_of(class));
        self.entries.add(class, hash, key, Weighed { priority, benefit, value }, charge);
        self.charged += charge;
        self.note_oldest(class);
        Inserted { refused: None, replaced, evicted }
    }

    /// Takes the value under `key` out.
    pub(crate) fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        self.entries.find(hash, key).map(|index| self.take(index))
    }

    /// As [`Lists::take_where`].
    pub(crate) fn take_where(
        &mut self,
        first: usize,
        count: usize,
        is_it: impl Fn(&K, &V) -> bool,
    ) -> Removed<V> {
        let found = self.entries.find_all(first, count, |key, weighed| is_it(key, &weighed.value));
        let mut removed = Removed::new();
        found.into_iter().for_each(|index| removed.push(self.take(index)));
        removed
    }

    /// Changes the capacity; what does not fit any more leaves.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Removed<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        self.entries.give_back(removed.iter().count());
        removed
    }

    /// Has entries leave until no more than `bytes` are charged.
    fn shrink_to(&mut self, bytes: usize) -> Removed<V> {
        let mut removed = Removed::new();
        while self.charged > bytes {
            let least = (0..CLASSES).min_by_key(|class| self.priorities[*class]);
            let least = least.expect("there are classes");
            let oldest = self.entries.oldest(least).expect("what is charged is in a list");
            self.age = self.priorities[least];
            removed.push(self.take(oldest));
        }
        removed
    }

    fn take(&mut self, index: u32) -> V {
        let class = self.entries.list(index);
        self.charged -= self.entries.charge(index);
        let weighed = self.entries.take(index);
        self.note_oldest(class);
        weighed.value
    }

    /// The oldest of a list may be another.
    fn note_oldest(&mut self, class: usize) {
        let oldest = self.entries.oldest(class).and_then(|index| self.entries.entry(index));
        self.priorities[class] = oldest.map_or(NOBODY, |weighed| weighed.priority);
    }
}

#[cfg(test)]
mod tests;
