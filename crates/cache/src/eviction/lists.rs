//! Entries in lists with a hash index: the common base of the eviction orders
//! ([`crate::eviction::lru`], [`crate::eviction::clock`], [`crate::eviction::s3_fifo`],
//! [`crate::ac_key::shard`]).
//!
//! Guarantees:
//! 1. [`Lists::charged`] of a list is the sum of the charges of its entries.
//! 2. Finding, moving or removing one entry takes constant time and allocates nothing; scans take
//!    time proportional to the nodes that they pass.
//!
//! Nodes are in a slab and refer to each other by index: no `unsafe` is needed, and a node costs
//! two words less than with pointers. The hash table holds slab indexes only. Nodes move only in
//! [`Lists::give_back`].
//!
//! Single-threaded.

use hashbrown::HashTable;

/// Up to this number of free nodes is not worth moving the others.
const FREE_NODES_MAX: usize = 64;

/// Most nodes moved per freed one.
const MOVES: usize = 8;

/// In this number of generations, about as many nodes become the newest of a list as it has.
const GENERATIONS: u32 = 16;

/// No node.
const NONE: u32 = u32::MAX;

/// The key of an entry.
pub trait Key: Copy + Eq {
    /// A well mixed hash, the same for equal keys.
    fn hash(&self) -> u64;
}

/// Evicted values. The first needs no allocation: most inserts evict one entry or none.
#[derive(Debug)]
#[must_use = "drop values outside of locks"]
pub struct Evicted<V> {
    first: Option<V>,
    rest: Vec<V>,
}

impl<V> Evicted<V> {
    /// No values.
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

    /// All values in eviction order.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        self.first.iter().chain(&self.rest)
    }

    /// All values, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.first.iter_mut().chain(&mut self.rest)
    }
}

impl<V> Default for Evicted<V> {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct Node<K, T> {
    key: K,
    /// Includes the overhead.
    charge: u32,
    list: u8,
    uses: u8,
    /// The generation of its list in which it became the newest. (A node that has not moved for 65
    /// 536 generations looks new, and stays in its place for two more.)
    generation: u16,
    /// The next newer node; for a free node, the next free one.
    newer: u32,
    /// The next older node; for a free node, the previous free one.
    older: u32,
    /// `None` for a free node.
    entry: Option<T>,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: u32,
    charged: usize,
    /// Counts up, with wrap-around, whenever one node in [`GENERATIONS`] has become the newest.
    generation: u16,
    /// The number of nodes that became the newest in this generation.
    newcomers: u32,
}

const EMPTY: Ends =
    Ends { newest: NONE, oldest: NONE, len: 0, charged: 0, generation: 0, newcomers: 0 };

/// `N` lists that share a slab and a table.
#[derive(Debug)]
pub(crate) struct Lists<K, T, const N: usize> {
    table: HashTable<u32>,
    nodes: Vec<Node<K, T>>,
    ends: [Ends; N],
    free: u32,
}

impl<K: Key, T, const N: usize> Lists<K, T, N> {
    /// The overhead of an entry: its node, and its slot in the hash table (an index and a control
    /// byte, at a load between 7/16 and 7/8: 8 bytes on average).
    pub(crate) const OVERHEAD_BYTES: usize = size_of::<Node<K, T>>() + 8;

    /// The largest charge of an entry.
    pub(crate) const CHARGE_MAX: usize = u32::MAX as usize;

    pub(crate) fn new() -> Self {
        Self { table: HashTable::new(), nodes: Vec::new(), ends: [EMPTY; N], free: NONE }
    }

    /// The number of entries in all lists.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The number of entries in `list`.
    pub(crate) fn len_of(&self, list: usize) -> usize {
        self.ends[list].len as usize
    }

    /// The charged bytes of a list.
    pub(crate) fn charged(&self, list: usize) -> usize {
        self.ends[list].charged
    }

    /// The number of nodes, used or free.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The memory of nodes and table, in bytes.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<K, T>>() + self.table.allocation_size()
    }

    /// The node of the entry under `key`.
    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<u32> {
        self.table.find(hash, |index| self.nodes[*index as usize].key == *key).copied()
    }

    /// The entry under `key`, without moving it.
    pub(crate) fn peek(&self, hash: u64, key: &K) -> Option<&T> {
        self.entry(self.find(hash, key)?)
    }

    /// Whether there is an entry under `key`, without moving it.
    pub(crate) fn contains(&self, hash: u64, key: &K) -> bool {
        self.find(hash, key).is_some()
    }

    /// Of the entries under `key`, of which there may be several, the one for which `matches` is
    /// true.
    pub(crate) fn find_among(&self, key: K, matches: impl Fn(&T) -> bool) -> Option<u32> {
        let matches = |index: &u32| {
            let node = &self.nodes[*index as usize];
            node.key == key && node.entry.as_ref().is_some_and(&matches)
        };
        self.table.find(key.hash(), matches).copied()
    }

    /// The key of a used node.
    pub(crate) fn key(&self, index: u32) -> &K {
        &self.nodes[index as usize].key
    }

    /// The entry of a node; none if it is free.
    pub(crate) fn entry(&self, index: u32) -> Option<&T> {
        self.nodes.get(index as usize)?.entry.as_ref()
    }

    /// The mutable entry of a node; its hash must not change.
    pub(crate) fn entry_mut(&mut self, index: u32) -> Option<&mut T> {
        self.nodes.get_mut(index as usize)?.entry.as_mut()
    }

    /// The key and the mutable entry of a node.
    pub(crate) fn keyed_mut(&mut self, index: u32) -> Option<(&K, &mut T)> {
        let node = self.nodes.get_mut(index as usize)?;
        Some((&node.key, node.entry.as_mut()?))
    }

    /// The charge of a node's entry.
    pub(crate) fn charge(&self, index: u32) -> usize {
        self.nodes[index as usize].charge as usize
    }

    /// The list of a node.
    pub(crate) fn list(&self, index: u32) -> usize {
        usize::from(self.nodes[index as usize].list)
    }

    /// A small counter of the entry, 0 at first.
    pub(crate) fn uses(&mut self, index: u32) -> &mut u8 {
        &mut self.nodes[index as usize].uses
    }

    /// The oldest node of a list.
    pub(crate) fn oldest(&self, list: usize) -> Option<u32> {
        Some(self.ends[list].oldest).filter(|index| *index != NONE)
    }

    /// The nodes of a list, the oldest first.
    pub(crate) fn oldest_first(&self, list: usize) -> impl Iterator<Item = u32> {
        let newer =
            |index: &u32| Some(self.nodes[*index as usize].newer).filter(|newer| *newer != NONE);
        std::iter::successors(self.oldest(list), newer)
    }

    /// Adds an entry that is not there, as the newest of `list`.
    pub(crate) fn add(&mut self, list: usize, hash: u64, key: K, entry: T, charge: usize) {
        let charge = u32::try_from(charge).expect("a charge is at most CHARGE_MAX");
        let index = self.new_node(Node {
            key,
            charge,
            list: list as u8,
            uses: 0,
            generation: 0,
            newer: NONE,
            older: NONE,
            entry: Some(entry),
        });
        self.link_newest(list, index);
        self.ends[list].charged += charge as usize;
        self.ends[list].len += 1;
        let nodes = &self.nodes;
        self.table.insert_unique(hash, index, |index| nodes[*index as usize].key.hash());
    }

    /// Makes a node the newest of `list`.
    #[inline]
    pub(crate) fn renew(&mut self, list: usize, index: u32) {
        if index != self.ends[list].newest {
            self.unlink(list, index);
            self.link_newest(list, index);
        }
    }

    /// Makes a node the newest of `list`, unless it became that in this generation or the one
    /// before: then it is among the newest eighth, or of a short list the newest quarter, and
    /// moving it would touch three other nodes.
    #[inline]
    pub(crate) fn renew_lazily(&mut self, list: usize, index: u32) {
        let age = self.ends[list].generation.wrapping_sub(self.nodes[index as usize].generation);
        if age > 1 {
            self.renew(list, index);
        }
    }

    /// Makes a node the newest of another list, with another charge.
    pub(crate) fn transfer(&mut self, index: u32, to: usize, charge: usize) {
        self.uncount(index);
        self.unlink(self.list(index), index);
        let node = &mut self.nodes[index as usize];
        node.list = to as u8;
        node.charge = u32::try_from(charge).expect("a charge is at most CHARGE_MAX");
        self.link_newest(to, index);
        self.ends[to].charged += charge;
        self.ends[to].len += 1;
    }

    /// Changes the charge of an entry.
    pub(crate) fn set_charge(&mut self, index: u32, charge: usize) {
        let list = self.list(index);
        self.ends[list].charged -= self.charge(index);
        self.ends[list].charged += charge;
        self.nodes[index as usize].charge =
            u32::try_from(charge).expect("a charge is at most CHARGE_MAX");
    }

    /// Removes the entry of a used node.
    pub(crate) fn take(&mut self, index: u32) -> T {
        let node = &mut self.nodes[index as usize];
        let entry = node.entry.take().expect("the node is used");
        let slot = self.table.find_entry(node.key.hash(), |other| *other == index);
        slot.expect("every used node is in the table").remove();
        self.uncount(index);
        self.unlink(self.list(index), index);
        let next = std::mem::replace(&mut self.free, index);
        let node = &mut self.nodes[index as usize];
        (node.newer, node.older) = (next, NONE);
        if next != NONE {
            self.nodes[next as usize].older = index;
        }
        entry
    }

    /// Releases unused memory, if it is a fifth or more, after `removed` entries were removed.
    /// Moves only a few nodes per removed entry, so that a caller that removes a few at a time
    /// waits only briefly. Only the release itself takes time proportional to the entries: of nodes
    /// once per eighth, of the table once per halving.
    pub(crate) fn give_back(&mut self, removed: usize) {
        if self.table.is_empty() {
            *self = Self::new();
            return;
        }
        if self.nodes.len() <= self.len() + self.len() / 4 + FREE_NODES_MAX {
            return;
        }
        for _ in 0..removed.saturating_mul(MOVES).saturating_add(MOVES) {
            if self.nodes.len() == self.len() {
                break;
            }
            self.move_last();
        }
        if self.nodes.capacity() > self.nodes.len() + self.nodes.len() / 8 + FREE_NODES_MAX {
            self.nodes.shrink_to_fit();
        }
        // With room for a few more, so that the next inserts do not grow it again.
        let (nodes, entries) = (&self.nodes, self.len() + self.len() / 16);
        self.table.shrink_to(entries, |index| nodes[*index as usize].key.hash());
    }

    /// Removes the last node; its entry moves to a free one, of which there must be one.
    fn move_last(&mut self) {
        let Some(node) = self.nodes.pop() else { return };
        let last = self.nodes.len() as u32;
        if node.entry.is_none() {
            return self.unlink_free(last, node.newer, node.older);
        }
        let to = self.free;
        let next = self.nodes[to as usize].newer;
        self.unlink_free(to, next, NONE);
        let place = self.table.find_mut(node.key.hash(), |index| *index == last);
        *place.expect("every used node is in the table") = to;
        match node.newer {
            NONE => self.ends[usize::from(node.list)].newest = to,
            newer => self.nodes[newer as usize].older = to,
        }
        match node.older {
            NONE => self.ends[usize::from(node.list)].oldest = to,
            older => self.nodes[older as usize].newer = to,
        }
        self.nodes[to as usize] = node;
    }

    /// Unlinks a node from the list of free ones.
    fn unlink_free(&mut self, index: u32, next: u32, before: u32) {
        if next != NONE {
            self.nodes[next as usize].older = before;
        }
        match before {
            NONE => self.free = next,
            before => self.nodes[before as usize].newer = next,
        }
        debug_assert!(self.free != index, "it is none of them");
    }

    /// The nodes from `first` to `first + count` for which `matches` is true.
    pub(crate) fn find_all(
        &self,
        first: usize,
        count: usize,
        matches: impl Fn(&K, &T) -> bool,
    ) -> Vec<u32> {
        let end = first.saturating_add(count).min(self.nodes.len());
        let matches = |index: &u32| {
            let node = &self.nodes[*index as usize];
            node.entry.as_ref().is_some_and(|entry| matches(&node.key, entry))
        };
        (first.min(end)..end).map(|index| index as u32).filter(matches).collect()
    }

    /// Removes the entries for which `matches` is true, among the nodes from `first` to `first +
    /// count`. Unless nodes move in between, a caller that scans all of them in pieces sees every
    /// entry that exists throughout.
    pub(crate) fn take_where(
        &mut self,
        first: usize,
        count: usize,
        matches: impl Fn(&K, &T) -> bool,
    ) -> Evicted<T> {
        let mut removed = Evicted::new();
        for index in self.find_all(first, count, matches) {
            removed.push(self.take(index));
        }
        removed
    }

    /// Keys and entries of the nodes from `first` to `first + count`.
    pub(crate) fn scan(&self, first: usize, count: usize) -> impl Iterator<Item = (&K, &T)> {
        let nodes = self.nodes.iter().skip(first).take(count);
        nodes.filter_map(|node| Some((&node.key, node.entry.as_ref()?)))
    }

    fn new_node(&mut self, node: Node<K, T>) -> u32 {
        if self.free != NONE {
            let index = self.free;
            self.unlink_free(index, self.nodes[index as usize].newer, NONE);
            self.nodes[index as usize] = node;
            return index;
        }
        let index = u32::try_from(self.nodes.len()).ok().filter(|index| *index != NONE);
        if self.nodes.len() == self.nodes.capacity() {
            // Doubling would leave up to half of the slab unused and uncharged.
            self.nodes.reserve_exact((self.nodes.len() / 8).max(16));
        }
        self.nodes.push(node);
        index.expect("a shard has fewer than 2^32 entries")
    }

    fn uncount(&mut self, index: u32) {
        let (list, charge) = (self.list(index), self.charge(index));
        self.ends[list].charged -= charge;
        self.ends[list].len -= 1;
    }

    fn link_newest(&mut self, list: usize, index: u32) {
        let ends = &mut self.ends[list];
        ends.newcomers += 1;
        if ends.newcomers > ends.len / GENERATIONS {
            ends.newcomers = 0;
            ends.generation = ends.generation.wrapping_add(1);
        }
        let before = ends.newest;
        ends.newest = index;
        let node = &mut self.nodes[index as usize];
        node.generation = ends.generation;
        (node.newer, node.older) = (NONE, before);
        match before {
            NONE => ends.oldest = index,
            before => self.nodes[before as usize].newer = index,
        }
    }

    fn unlink(&mut self, list: usize, index: u32) {
        let (newer, older) = {
            let node = &self.nodes[index as usize];
            (node.newer, node.older)
        };
        match newer {
            NONE => self.ends[list].newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.ends[list].oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Number(u64);

    impl Key for Number {
        fn hash(&self) -> u64 {
            self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        }
    }

    fn add(lists: &mut Lists<Number, u64, 2>, number: u64) {
        let key = Number(number);
        lists.add((number % 2) as usize, key.hash(), key, number, 1);
    }

    #[test]
    fn entries_keep_their_order_while_nodes_move_a_few_at_a_time() {
        let mut lists = Lists::<Number, u64, 2>::new();
        (0..10_000).for_each(|number| add(&mut lists, number));
        // Every other pair is removed, unordered, with some inserts in between.
        let mut expected: Vec<u64> = (0..10_000).collect();
        for round in 0..100_u64 {
            let gone = |number: &u64| (number / 2).is_multiple_of(2) && number * 7 % 100 == round;
            for number in expected.extract_if(.., |number| gone(number)) {
                let index = lists.find(Number(number).hash(), &Number(number));
                assert_eq!(index.map(|index| lists.take(index)), Some(number));
            }
            let nodes = lists.nodes();
            lists.give_back(50);
            assert!(nodes - lists.nodes() <= 51 * MOVES, "{nodes}, then {}", lists.nodes());
            add(&mut lists, 20_000 + round);
            expected.push(20_000 + round);
            for list in 0..2 {
                let found = lists.oldest_first(list).filter_map(|index| lists.entry(index));
                let of_list = expected.iter().filter(|number| **number % 2 == list as u64);
                assert!(found.eq(of_list), "list {list} in round {round}");
            }
        }
        assert!(lists.nodes() <= lists.len() * 5 / 4 + FREE_NODES_MAX + 1, "{}", lists.nodes());
        for number in expected {
            assert_eq!(lists.peek(Number(number).hash(), &Number(number)), Some(&number));
        }
    }
}
