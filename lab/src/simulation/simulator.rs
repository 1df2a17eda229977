//! The cache policies alone: the product's own code over a [`ModelledTree`], counting storage I/Os.
//!
//! One thread, one shard per component, no store and no time. The budget includes entries, sketches
//! and ghosts. A run of a million operations takes a second, so policies can be compared before the
//! engine runs them.

use tidekv_cache::KvEntry;
use tidekv_cache::Pointer;
use tidekv_cache::Split;
use tidekv_cache::{
    BlockId, BlockKind, BlockTag, CachePolicy, Caches, FilterLookup, FilterWorth, FilteredLookup,
    InsertReason, Name, should_sample_hit,
};
use tidekv_cache::{LookupResult, PointCacheLookup};

use crate::load::dice::{Dice, mix};
use crate::load::keys::{Choice, Picker, key_of, present};
use crate::simulation::modelled_tree::{BLOCK_BYTES, LEVEL0_TABLES, ModelledTree, Touched, Wanted};

/// Entries of a scan.
pub(crate) const SCAN_ENTRIES: u64 = 100;
/// Missing blocks within this distance are one read, as in the store.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Bytes of a value.
pub(crate) const VALUE: [u8; 100] = [7; 100];
/// Bytes of an entry: key and value.
pub(crate) const ENTRY_BYTES: usize = 116;

/// The requests of the caches.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Its name in rows.
    pub name: &'static str,
    /// The key distribution.
    pub choice: Choice,
    /// The fraction of scans; the other operations are gets.
    pub scans: f64,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Storage I/Os per operation, over the second half of the run.
    pub reads_per_op: f64,
    /// Bytes of KV, KP and blocks at the end.
    pub split: Split,
}

/// The I/Os of a lookup.
#[derive(Debug, Default)]
struct Reads {
    all: u64,
    /// The I/O of the data block with the key among them.
    of_data: u8,
}

struct Simulation {
    tree: ModelledTree,
    caches: Caches<()>,
    /// Per run.
    filter_worths: Vec<FilterWorth>,
    gets: u64,
    reads: u64,
}

/// The hash of a name.
fn hash_of(name: Name<'_>) -> u64 {
    let number = name.key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
    name.hash(mix(number))
}

/// The budget that is `percent` of the data of `entries` entries, in bytes.
pub fn budget(entries: u64, percent: f64) -> usize {
    (ModelledTree::new(entries, ENTRY_BYTES).data_bytes() as f64 * percent / 100.0) as usize
}

/// Runs `load` with `policy` and a budget of `budget` bytes.
pub fn simulate(
    policy: CachePolicy,
    load: &Load,
    entries: u64,
    budget: usize,
    operations: u64,
    seed: u64,
) -> Outcome {
    let mut simulation = Simulation::new(policy, entries, budget);
    let mut picker = Picker::new(&load.choice, entries, seed, 0, 1);
    let mut dice = Dice::new(seed);
    let mut reads_of_first_half = 0;
    for operation in 0..operations {
        if operation == operations / 2 {
            reads_of_first_half = simulation.reads;
        }
        let index = picker.next(&mut dice);
        match dice.unit() < load.scans {
            true => simulation.scan(index),
            false => simulation.get(index),
        }
    }
    let reads = simulation.reads - reads_of_first_half;
    Outcome {
        reads_per_op: reads as f64 / (operations - operations / 2) as f64,
        split: simulation.caches.split(),
    }
}

impl Simulation {
    fn new(policy: CachePolicy, entries: u64, budget: usize) -> Self {
        let caches = Caches::new(hash_of, budget, 1, policy);
        caches.set_level0_tables(LEVEL0_TABLES);
        let tree = ModelledTree::new(entries, ENTRY_BYTES);
        let filter_worths = (0..tree.runs()).map(|_| FilterWorth::default()).collect();
        Self { tree, caches, filter_worths, gets: 0, reads: 0 }
    }

    fn get(&mut self, index: u64) {
        let (tree, caches) = (&self.tree, &self.caches);
        if !caches.point().is_used() {
            self.reads += self.walk(index, None).all;
            return;
        }
        let mut reads = Reads::default();
        let key = key_of(present(index));
        let name = Name { keyspace: 0, key: &key };
        let hash = hash_of(name);
        let epoch = caches.point().epoch(hash);
        let is_sampled = should_sample_hit(self.gets);
        self.gets += 1;
        let found = caches.point().lookup(hash, name, |_| Some(()));
        let home = tree.data_block(index);
        let (table, offset) = (home.table, home.offset);
        let pointer = Pointer { table, offset, len: BLOCK_BYTES as u32, position: 0 };
        let by_pointer = match found {
            PointCacheLookup::Value(()) => return,
            PointCacheLookup::Pointer(entry) => entry.pointer == pointer,
            PointCacheLookup::Miss => false,
        };
        match by_pointer {
            true => touch(caches, Some(hash), &mut reads, (home, BlockKind::Data)),
            false => reads = self.walk(index, Some(hash)),
        }
        let entry = KvEntry { name, stamp: 0, value: &VALUE, level: tree.level(index) };
        if reads.all == 0 && !caches.point().caches_memory_hits() {
            if is_sampled {
                caches.offer_memory_hit(hash, epoch, entry);
            }
            return;
        }
        let resolved = LookupResult {
            entry,
            pointer: Some(pointer),
            reads: reads.all as f32,
            data_reads: f32::from(reads.of_data),
            by_pointer,
        };
        caches.point().resolved(hash, epoch, &resolved);
        self.reads += reads.all;
        caches.note_reads(reads.all as u32);
    }

    /// Visits the runs, for a key hash if it is a lookup of one key.
    fn walk(&self, index: u64, hash: Option<u64>) -> Reads {
        let mut reads = Reads::default();
        let mut filter_sample: Option<(usize, FilteredLookup)> = None;
        let note = |filter_sample: Option<(usize, FilteredLookup)>| {
            if let Some((run, lookup)) = filter_sample {
                self.filter_worths[run].note(lookup);
            }
        };
        self.tree.lookup(index, |Wanted { block, run, is_absent }| {
            let before = reads.all;
            // The last data block has the key.
            reads.of_data = 0;
            if block.1 != BlockKind::Filter {
                touch(&self.caches, hash, &mut reads, block);
                if let Some((_, lookup)) = &mut filter_sample {
                    let is_read = reads.all > before || block.1 == BlockKind::Data;
                    *lookup.reads_behind.get_or_insert(0) += u32::from(is_read);
                }
                return false;
            }
            note(filter_sample.take());
            let tag = BlockTag { keyspace: 0, kind: block.1 };
            let filter = (&self.filter_worths[run], BLOCK_BYTES);
            let (look, is_sampled) = self.caches.blocks().look_for(block.0, tag, filter, |()| ());
            if look != FilterLookup::Hit(()) || is_sampled {
                filter_sample = Some((run, FilteredLookup { is_absent, reads_behind: None }));
            }
            if look == FilterLookup::Read {
                read(&self.caches, hash, &mut reads, block);
            }
            look == FilterLookup::Skip
        });
        note(filter_sample);
        reads
    }

    fn scan(&mut self, index: u64) {
        let (tree, caches) = (&self.tree, &self.caches);
        // Adjacent missing blocks are one read, as in the store.
        let mut run: Vec<(BlockId, BlockTag)> = Vec::new();
        let mut reads = 0;
        let mut read = |run: &mut Vec<(BlockId, BlockTag)>| {
            if run.is_empty() {
                return;
            }
            caches.blocks().note_read(run.iter().map(|(id, _)| *id));
            let arrival = InsertReason::of_read(run.len());
            for (id, tag) in run.drain(..) {
                caches.blocks().insert_read(id, tag, (), BLOCK_BYTES, arrival);
            }
            reads += 1;
        };
        tree.scan(index, SCAN_ENTRIES, |(id, kind)| {
            let tag = BlockTag { keyspace: 0, kind };
            if caches.blocks().get(id, tag).is_some() {
                return;
            }
            let goes_on = run.last().is_some_and(|(last, _)| stands_together(*last, id));
            if !goes_on {
                read(&mut run);
            }
            run.push((id, tag));
        });
        read(&mut run);
        self.reads += reads;
        caches.note_reads(reads as u32);
    }
}

/// Whether two missing blocks, the later one second, are one read.
pub(crate) fn stands_together(last: BlockId, id: BlockId) -> bool {
    last.table == id.table && id.offset - last.offset <= GAP_BYTES_MAX + BLOCK_BYTES as u64
}

/// Accesses a block, for a key hash if it is a lookup of one key.
fn touch(caches: &Caches<()>, hash: Option<u64>, reads: &mut Reads, (id, kind): Touched) {
    let tag = BlockTag { keyspace: 0, kind };
    if caches.blocks().get(id, tag).is_none() {
        read(caches, hash, reads, (id, kind));
    }
}

/// Reads a missing block.
fn read(caches: &Caches<()>, hash: Option<u64>, reads: &mut Reads, (id, kind): Touched) {
    let tag = BlockTag { keyspace: 0, kind };
    let blocks = caches.blocks();
    reads.all += 1;
    let landed = blocks.get_or_note_read(id, tag);
    assert!(landed.is_none(), "one thread reads");
    let Some(hash) = hash else {
        blocks.insert(id, tag, (), BLOCK_BYTES);
        return;
    };
    if reads.all == 1 {
        caches.point().record_access(hash);
    }
    if kind == BlockKind::Data {
        reads.of_data = 1;
    }
    blocks.insert(id, tag, (), BLOCK_BYTES);
}

#[cfg(test)]
mod tests {
    use tidekv_cache::{Ablation, Ablations};

    use super::*;

    fn load(choice: Choice, scans: f64) -> Load {
        Load { name: "test", choice, scans }
    }

    fn reads(policy: CachePolicy, load: &Load, percent: f64) -> f64 {
        let entries = 100_000;
        simulate(policy, load, entries, budget(entries, percent), 200_000, 3).reads_per_op
    }

    #[test]
    fn adaptive_finds_the_split_for_scattered_keys() {
        let load = load(Choice::Hot { entries: 0.01, operations: 0.9, run: 1 }, 0.0);
        let (lru, tide) =
            (reads(CachePolicy::BlockOnly, &load, 5.0), reads(CachePolicy::Adaptive, &load, 5.0));
        assert!(tide < 0.5 * lru, "{tide} against {lru}");
    }

    #[test]
    fn adaptive_keeps_blocks_for_scans() {
        let load = load(Choice::Zipf { alpha: 0.99, is_scattered: true }, 1.0);
        let blocks = reads(CachePolicy::Fixed { kv: 0, kp: 0 }, &load, 5.0);
        let tide = reads(CachePolicy::Adaptive, &load, 5.0);
        assert!(tide < 1.05 * blocks, "{tide} against {blocks}");
        assert!(blocks < reads(CachePolicy::BlockOnly, &load, 5.0));
    }

    /// In an earlier version, fixed splits did not pay for the sketch and the ghosts.
    #[test]
    fn every_split_has_the_same_bytes() {
        let load = load(Choice::Uniform, 0.0);
        let bytes = |policy| -> usize {
            simulate(policy, &load, 20_000, 200_000, 100, 5).split.iter().sum()
        };
        for (kv, kp) in [(0, 0), (100, 0), (0, 100), (50, 50), (30, 30)] {
            assert_eq!(bytes(CachePolicy::Fixed { kv, kp }), bytes(CachePolicy::Adaptive));
        }
        assert!(bytes(CachePolicy::Adaptive) < bytes(CachePolicy::BlockOnly));
        assert_eq!(bytes(CachePolicy::BlockOnly), 200_000);
    }

    /// The design's simulator showed of AC-Key: it finds scattered hot keys, and leaves too little
    /// for blocks where keys have a long tail.
    #[test]
    fn hac_wins_where_keys_are_hot_and_loses_on_a_long_tail() {
        let hot = load(Choice::Hot { entries: 0.01, operations: 0.9, run: 1 }, 0.0);
        let (lru, hac) =
            (reads(CachePolicy::BlockOnly, &hot, 5.0), reads(CachePolicy::AC_KEY, &hot, 5.0));
        assert!(hac < 0.8 * lru, "{hac} against {lru}");
        let tail = load(Choice::Zipf { alpha: 0.8, is_scattered: true }, 0.0);
        let (lru, hac) =
            (reads(CachePolicy::BlockOnly, &tail, 5.0), reads(CachePolicy::AC_KEY, &tail, 5.0));
        assert!(hac > 1.5 * lru, "{hac} against {lru}");
    }

    #[test]
    fn a_small_queue_filters_scans() {
        let load = load(Choice::Zipf { alpha: 0.99, is_scattered: true }, 1.0);
        let lru = reads(CachePolicy::BlockOnly, &load, 5.0);
        let clock = reads(CachePolicy::BlockClock, &load, 5.0);
        let s3_fifo = reads(CachePolicy::BlockS3Fifo, &load, 5.0);
        assert!(s3_fifo < 0.9 * lru && clock < lru, "{s3_fifo} and {clock} against {lru}");
    }

    /// Two concern changes of the tree, which does not change.
    #[test]
    fn every_mechanism_has_an_effect() {
        let load = load(Choice::Zipf { alpha: 0.99, is_scattered: true }, 0.2);
        let tide = reads(CachePolicy::Adaptive, &load, 5.0);
        for (ablation, name) in Ablations::all() {
            let without =
                reads(CachePolicy::AdaptiveWithout(Ablations::NONE.and(ablation)), &load, 5.0);
            let is_of_changes = matches!(ablation, Ablation::Repair | Ablation::Sync);
            assert_eq!(
                without == tide,
                is_of_changes,
                "{without} reads without {name}, and {tide}"
            );
        }
    }

    #[test]
    fn a_seed_repeats_a_run() {
        let load = load(Choice::Zipf { alpha: 0.8, is_scattered: true }, 0.3);
        for policy in [CachePolicy::Adaptive, CachePolicy::AC_KEY, CachePolicy::BlockS3Fifo] {
            let run = || simulate(policy, &load, 20_000, 200_000, 30_000, 5);
            assert_eq!(run(), run());
        }
    }
}
