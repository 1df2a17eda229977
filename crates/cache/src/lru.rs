//! A list of entries ordered by last use, bounded by the sum of their charges.
//!
//! Guarantees:
//! 1. [`Lru::charged`] is at most [`Lru::capacity`], always.
//! 2. An entry is charged what its owner says plus
//!    [`Lru::ENTRY_OVERHEAD_BYTES`], the memory that the list spends on it.
//! 3. `get` and `remove` take constant time and allocate nothing.
//!
//! Nodes live in a slab and name each other by index: no pointer is chased
//! that is not in the list, no `unsafe` is needed, and a node costs two words
//! less than with pointers. The hash table holds slab indexes only.
//!
//! Values that leave are handed to the caller, who drops them where it hurts
//! nobody. For one thread at a time; [`crate::block`] puts locks around it.

use hashbrown::HashTable;

/// No node.
const NONE: u32 = u32::MAX;

/// What entries are found by.
pub trait Key: Copy + Eq {
    /// A well mixed hash, the same for equal keys.
    fn hash(&self) -> u64;
}

#[derive(Debug)]
struct Node<K, V> {
    key: K,
    /// Charge with the overhead; 0 for a free node.
    charge: usize,
    /// Towards the more recently used; the next free node of a free one.
    newer: u32,
    /// Towards the less recently used.
    older: u32,
    /// `None` for a free node.
    value: Option<V>,
}

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

/// Entries ordered by last use.
#[derive(Debug)]
pub struct Lru<K, V> {
    table: HashTable<u32>,
    nodes: Vec<Node<K, V>>,
    newest: u32,
    oldest: u32,
    free: u32,
    charged: usize,
    capacity: usize,
}

impl<K: Key, V> Lru<K, V> {
    /// What an entry costs beside its value: its node, and its slot in the
    /// hash table (an index and a byte of control, at a load between 7/16 and
    /// 7/8: 8 bytes on average).
    pub const ENTRY_OVERHEAD_BYTES: usize = size_of::<Node<K, V>>() + 8;

    /// An empty list of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            table: HashTable::new(),
            nodes: Vec::new(),
            newest: NONE,
            oldest: NONE,
            free: NONE,
            charged: 0,
            capacity,
        }
    }

    /// The bound on the charges.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The sum of the charges.
    pub fn charged(&self) -> usize {
        self.charged
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many nodes there are, used or free; see [`Lru::remove_where`].
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The value under `key`, which becomes the most recently used. `hash` is
    /// the key's, as below: the caller often has it already.
    pub fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let index = self.find(hash, key)?;
        if index != self.newest {
            self.unlink(index);
            self.link_newest(index);
        }
        self.nodes[index as usize].value.as_mut()
    }

    /// The value under `key`, whose place does not change.
    pub fn peek(&self, hash: u64, key: &K) -> Option<&V> {
        self.nodes[self.find(hash, key)? as usize].value.as_ref()
    }

    /// Whether there is an entry under `key`; its place does not change.
    pub fn contains(&self, hash: u64, key: &K) -> bool {
        self.find(hash, key).is_some()
    }

    /// The least recently used entry; its place does not change.
    pub fn oldest(&mut self) -> Option<(&K, &mut V)> {
        let node = self.nodes.get_mut(self.oldest as usize)?;
        Some((&node.key, node.value.as_mut()?))
    }

    /// Puts `value` under `key` as the most recently used, in place of an
    /// older one, and pushes out entries until all fit. What is larger than
    /// the capacity is not kept.
    pub fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        let charge = charge.saturating_add(Self::ENTRY_OVERHEAD_BYTES);
        let replaced = self.remove(hash, &key);
        if charge > self.capacity {
            // The older value goes too: the caller has said that it is stale.
            return Inserted { refused: Some(value), replaced, evicted: Removed::new() };
        }
        let evicted = self.shrink_to(self.capacity - charge);
        let index =
            self.new_node(Node { key, charge, newer: NONE, older: NONE, value: Some(value) });
        self.link_newest(index);
        self.charged += charge;
        let nodes = &self.nodes;
        self.table.insert_unique(hash, index, |index| nodes[*index as usize].key.hash());
        Inserted { refused: None, replaced, evicted }
    }

    /// Takes the entry under `key` out.
    pub fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        let index = self.find(hash, key)?;
        self.take(hash, index)
    }

    /// Changes the capacity, and pushes out entries until all fit.
    pub fn set_capacity(&mut self, capacity: usize) -> Removed<V> {
        self.capacity = capacity;
        let removed = self.shrink_to(capacity);
        if self.is_empty() {
            // The bookkeeping of an empty list is charged to nobody.
            self.table = HashTable::new();
            self.nodes = Vec::new();
            self.free = NONE;
        }
        removed
    }

    /// The entries among the nodes from `first` on, at most `count` of them; see
    /// [`Lru::remove_where`].
    pub fn look_at(&self, first: usize, count: usize) -> impl Iterator<Item = (&K, &V)> {
        let nodes = self.nodes.iter().skip(first).take(count);
        nodes.filter_map(|node| Some((&node.key, node.value.as_ref()?)))
    }

    /// Takes out the entries whose key is `dead`, among the nodes from `first`
    /// to `first + count`. Nodes never move, so a caller that goes through all
    /// of them in pieces meets every entry that was there all along.
    pub fn remove_where(
        &mut self,
        first: usize,
        count: usize,
        dead: impl Fn(&K) -> bool,
    ) -> Removed<V> {
        let mut removed = Removed::new();
        let end = first.saturating_add(count).min(self.nodes.len());
        for index in first..end {
            let node = &self.nodes[index];
            if node.value.is_some() && dead(&node.key) {
                let hash = node.key.hash();
                let index = u32::try_from(index).expect("slab indexes fit u32");
                self.take(hash, index).into_iter().for_each(|value| removed.push(value));
            }
        }
        removed
    }

    fn find(&self, hash: u64, key: &K) -> Option<u32> {
        self.table.find(hash, |index| self.nodes[*index as usize].key == *key).copied()
    }

    /// Pushes out the least recently used until at most `bytes` are charged.
    fn shrink_to(&mut self, bytes: usize) -> Removed<V> {
        let mut removed = Removed::new();
        while self.charged > bytes {
            let index = self.oldest;
            let hash = self.nodes[index as usize].key.hash();
            let value = self.take(hash, index);
            removed.push(value.expect("what is charged is in the list"));
        }
        removed
    }

    /// Takes the entry of a node out of the table and the list.
    fn take(&mut self, hash: u64, index: u32) -> Option<V> {
        let entry = self.table.find_entry(hash, |other| *other == index);
        entry.expect("every used node is in the table").remove();
        self.unlink(index);
        let node = &mut self.nodes[index as usize];
        self.charged -= node.charge;
        node.charge = 0;
        node.newer = self.free;
        self.free = index;
        node.value.take()
    }

    fn new_node(&mut self, node: Node<K, V>) -> u32 {
        if self.free != NONE {
            let index = self.free;
            self.free = self.nodes[index as usize].newer;
            self.nodes[index as usize] = node;
            return index;
        }
        let index = u32::try_from(self.nodes.len()).ok().filter(|index| *index != NONE);
        if self.nodes.len() == self.nodes.capacity() {
            // Doubling would leave up to half of the slab unused, uncharged.
            self.nodes.reserve_exact((self.nodes.len() / 8).max(16));
        }
        self.nodes.push(node);
        index.expect("a shard has fewer than 2^32 entries")
    }

    fn link_newest(&mut self, index: u32) {
        let before = self.newest;
        let node = &mut self.nodes[index as usize];
        (node.newer, node.older) = (NONE, before);
        match before {
            NONE => self.oldest = index,
            before => self.nodes[before as usize].newer = index,
        }
        self.newest = index;
    }

    fn unlink(&mut self, index: u32) {
        let (newer, older) = {
            let node = &self.nodes[index as usize];
            (node.newer, node.older)
        };
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests;
