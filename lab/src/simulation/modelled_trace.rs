//! The operations of a load over a [`ModelledTree`], each with its required blocks: the input of
//! bounds and of caches that know the future.
//!
//! They are the operations of [`simulate`](crate::simulation::simulator::simulate) with the same
//! arguments. **Scans** read adjacent blocks at once, in the store as well as in the simulation:
//! adjacent missing blocks are one group, and one read. An index block between its data blocks
//! counts as not splitting them, which only reduces reads. The filter of the run that has the key
//! is of no use to an omniscient cache, and `adaptive` often omits it: it is not included. The
//! others are, though a cache with the index and data block of such a run could omit its filter
//! too.

use tidekv_cache::KvEntry;
use tidekv_cache::{BlockCache, BlockId, BlockKind, KP_ENTRY_BYTES, Name};

use crate::load::dice::Dice;
use crate::load::keys::{Picker, key_of, present};
use crate::simulation::modelled_tree::{BLOCK_BYTES, ModelledTree, Wanted};
use crate::simulation::simulator::{ENTRY_BYTES, Load, SCAN_ENTRIES, VALUE, stands_together};

/// One operation.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    /// The key, and the required blocks of its lookup; the last one contains it.
    Get(u64, Vec<BlockId>),
    /// Groups of blocks; each incomplete group takes a read.
    Scan(Vec<Vec<BlockId>>),
}

/// Bytes of objects in the product's caches, without tables, sketches and ghosts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charges {
    pub(crate) value: f64,
    pub(crate) pointer: f64,
    pub(crate) block: f64,
}

impl Charges {
    /// Those of the entries of modelled trees.
    pub(crate) fn of_entries() -> Self {
        let key = key_of(0);
        let name = Name { keyspace: 0, key: &key };
        Self {
            value: KvEntry { name, stamp: 0, value: &VALUE, level: 0 }.charge() as f64,
            pointer: KP_ENTRY_BYTES as f64,
            block: (BLOCK_BYTES + BlockCache::<()>::BLOCK_OVERHEAD_BYTES) as f64,
        }
    }
}

/// `operations` operations of `load` on a tree of `entries` entries.
pub(crate) fn requests(
    load: &Load,
    entries: u64,
    operations: u64,
    seed: u64,
) -> impl Iterator<Item = Request> {
    let tree = ModelledTree::new(entries, ENTRY_BYTES);
    let mut picker = Picker::new(&load.choice, entries, seed, 0, 1);
    let mut dice = Dice::new(seed);
    let scans = load.scans;
    (0..operations).map(move |_| {
        let index = picker.next(&mut dice);
        match dice.unit() < scans {
            true => Request::Scan(groups(&tree, index)),
            false => Request::Get(present(index), blocks(&tree, index)),
        }
    })
}

/// Each operation that [`requests`] may generate with the same arguments, with its probability.
pub(crate) fn likely(load: &Load, entries: u64, seed: u64) -> impl Iterator<Item = (Request, f64)> {
    let tree = ModelledTree::new(entries, ENTRY_BYTES);
    let scans = load.scans;
    let picked = Picker::new(&load.choice, entries, seed, 0, 1).likelihoods();
    (0..).zip(picked).flat_map(move |(index, likelihood)| {
        let get = || Request::Get(present(index), blocks(&tree, index));
        let scan = || Request::Scan(groups(&tree, index));
        let get = (scans < 1.0).then(|| (get(), likelihood * (1.0 - scans)));
        let scan = (scans > 0.0).then(|| (scan(), likelihood * scans));
        get.into_iter().chain(scan)
    })
}

/// The blocks of a get.
fn blocks(tree: &ModelledTree, index: u64) -> Vec<BlockId> {
    let mut blocks = Vec::new();
    tree.lookup(index, |Wanted { block: (id, kind), is_absent, .. }| {
        if is_absent || kind != BlockKind::Filter {
            blocks.push(id);
        }
        false
    });
    blocks
}

/// The blocks of a scan, grouped by read.
fn groups(tree: &ModelledTree, index: u64) -> Vec<Vec<BlockId>> {
    let mut groups: Vec<Vec<BlockId>> = Vec::new();
    tree.scan(index, SCAN_ENTRIES, |(id, _)| {
        let near =
            |group: &&mut Vec<BlockId>| group.last().is_some_and(|l| stands_together(*l, id));
        match groups.iter_mut().rev().take(2).find(near) {
            Some(group) => group.push(id),
            None => groups.push(vec![id]),
        }
    });
    groups
}
