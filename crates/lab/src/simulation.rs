//! The cache policies alone: the product's own code over a [`ModelledTree`], counting
//! storage I/Os.
//!
//! One thread, one shard of each component, no store and no time. The budget pays for
//! entries, sketches and ghosts. A run of a million operations takes a second, so
//! policies can be tried against each other before they are built into the engine.

use std::sync::Arc;

use tidekv_cache::ghost::spread;
use tidekv_cache::kp::Pointer;
use tidekv_cache::kv::KvEntry;
use tidekv_cache::point::{Found, PointShard, Resolved};
use tidekv_cache::sketch::Sketch;
use tidekv_cache::tide::{Component, Split, Tide};
use tidekv_cache::{BlockCache, BlockKind, BlockTag};

use crate::dice::{Dice, mix};
use crate::keys::{Choice, Picker, key_of, present};
use crate::modelled_tree::{BLOCK_BYTES, ModelledTree, Touched};

/// Entries of a scan.
const SCAN_ENTRIES: u64 = 100;
/// Bytes of a value.
const VALUE: [u8; 100] = [7; 100];
/// Bytes of an entry: key and value.
const ENTRY_BYTES: usize = 116;
/// Of the budget: the window of each ghost, and the two sketches.
const WINDOW: f64 = 0.1;
const POINT_SKETCH: f64 = 0.02;
const BLOCK_SKETCH: f64 = 0.004;
/// Operations from one step of the controller to the next.
const STEP_OPERATIONS: u64 = 2048;

/// How the budget is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Blocks, the least recently used leave.
    BlockLru,
    /// Blocks, and those that are asked for too rarely do not come in.
    BlockAdmission,
    /// KV and KP have so many tenths, blocks the rest; as [`Policy::Tide`] otherwise.
    Fixed {
        /// Tenths of KV.
        kv: usize,
        /// Tenths of KP.
        kp: usize,
    },
    /// Boundaries move by marginal utility.
    Tide,
}

impl Policy {
    /// As rows name it.
    pub fn name(self) -> String {
        match self {
            Self::BlockLru => "sim:block-lru".into(),
            Self::BlockAdmission => "sim:block-admission".into(),
            Self::Fixed { kv, kp } => format!("sim:fixed-{kv}-{kp}-{}", 10 - kv - kp),
            Self::Tide => "sim:tide".into(),
        }
    }
}

/// What is asked of the caches.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// As rows name it.
    pub name: &'static str,
    /// Which keys are asked for.
    pub choice: Choice,
    /// Of the operations, those that are scans; the others are gets.
    pub scans: f64,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Storage I/Os per operation, over the second half of the run.
    pub reads_per_op: f64,
    /// Bytes of KV, KP and blocks at the end.
    pub split: Split,
}

/// What the I/Os of a lookup are put down to.
#[derive(Debug, Default)]
struct Reads {
    all: u64,
    /// Each by the share that the lookup's key has in what is asked of the block.
    own: f32,
    /// Of these, that of the data block.
    own_data: f32,
}

struct Simulation {
    policy: Policy,
    tree: ModelledTree,
    blocks: BlockCache<()>,
    point: PointShard,
    sketch: Arc<Sketch>,
    tide: Tide,
    split: Split,
    /// Of the blocks' ghost, those that the controller knows.
    ghost_hits: u64,
    reads: u64,
}

/// The hash of a name.
fn hash_of(name: &[u8]) -> u64 {
    let number = name.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
    mix(number)
}

/// The budget that is `percent` of the data of `entries` entries, in bytes.
pub fn budget(entries: u64, percent: f64) -> usize {
    (ModelledTree::new(entries, ENTRY_BYTES).data_bytes() as f64 * percent / 100.0) as usize
}

/// Runs `load` with `policy` and a budget of `budget` bytes.
pub fn simulate(
    policy: Policy,
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
        if policy == Policy::Tide && operation % STEP_OPERATIONS == STEP_OPERATIONS - 1 {
            simulation.step();
        }
    }
    let reads = simulation.reads - reads_of_first_half;
    Outcome {
        reads_per_op: reads as f64 / (operations - operations / 2) as f64,
        split: simulation.split,
    }
}

impl Simulation {
    fn new(policy: Policy, entries: u64, budget: usize) -> Self {
        let part = |share: f64| (budget as f64 * share) as usize;
        let sketch = Arc::new(Sketch::new(part(POINT_SKETCH)));
        let block_sketch = Arc::new(Sketch::new(part(BLOCK_SKETCH)));
        let point = PointShard::new(part(WINDOW), 1);
        let mut blocks = BlockCache::new(budget, 1);
        let mut available = budget;
        if policy != Policy::BlockLru {
            blocks = blocks.with_admission(&block_sketch, part(WINDOW), 1);
            available -= block_sketch.charged_bytes().min(budget / 4);
        }
        if matches!(policy, Policy::Fixed { .. } | Policy::Tide) {
            available -= (sketch.charged_bytes() + point.ghost_bytes()).min(budget / 4);
        }
        let tenths = |tenths: usize| available * tenths / 10;
        let (kv, kp) = match policy {
            Policy::Fixed { kv, kp } => (tenths(kv), tenths(kp)),
            _ => (0, 0),
        };
        let split = [kv, kp, available - kv - kp];
        let tree = ModelledTree::new(entries, ENTRY_BYTES);
        let tide = Tide::default();
        let mut simulation =
            Self { policy, tree, blocks, point, sketch, tide, split, ghost_hits: 0, reads: 0 };
        simulation.apply();
        simulation
    }

    /// Gives the components the bytes of the split; what shrinks does so first.
    fn apply(&mut self) {
        let [kv, kp, block] = self.split;
        self.blocks.set_capacity(block.min(self.blocks.capacity()));
        self.point.set_capacities(kv, kp, &self.sketch, hash_of);
        self.blocks.set_capacity(block);
    }

    fn step(&mut self) {
        let hits = self.blocks.ghost_hits();
        self.tide.credit(Component::Block, (hits - self.ghost_hits) as f32);
        self.ghost_hits = hits;
        let next = self.tide.step(self.split);
        if next != self.split {
            self.split = next;
            self.apply();
        }
    }

    fn get(&mut self, index: u64) {
        let name = key_of(present(index));
        let hash = hash_of(&name);
        let has_point_cache = matches!(self.policy, Policy::Fixed { .. } | Policy::Tide);
        if !has_point_cache {
            let (tree, blocks) = (&self.tree, &self.blocks);
            let mut reads = Reads::default();
            tree.lookup(index, |block| touch(blocks, 1, &mut reads, block));
            self.reads += reads.all;
            return;
        }
        let times = self.sketch.add(spread(hash as u32));
        let found = self.point.lookup(hash, &name, |_| ());
        let (tree, blocks) = (&self.tree, &self.blocks);
        let home = tree.data_block(index);
        let pointer = Pointer { table: home.table, offset: home.offset, len: BLOCK_BYTES as u32 };
        let mut reads = Reads::default();
        let by_pointer = match found {
            Found::Value(()) => return,
            Found::Pointer(entry) => entry.pointer == pointer,
            Found::Nothing => false,
        };
        match by_pointer {
            true => touch(blocks, times, &mut reads, (home, BlockKind::Data)),
            false => tree.lookup(index, |block| touch(blocks, times, &mut reads, block)),
        }
        let entry = KvEntry { name: &name, stamp: 0, value: &VALUE, level: tree.level(index) };
        let resolved = Resolved {
            entry,
            pointer: Some(pointer),
            reads: reads.own,
            data_reads: reads.own_data,
            by_pointer,
        };
        let missed = self.point.resolved(hash, &resolved, &self.sketch, hash_of);
        self.tide.credit(Component::Kv, missed.kv_reads);
        self.tide.credit(Component::Kp, missed.kp_reads);
        self.reads += reads.all;
    }

    fn scan(&mut self, index: u64) {
        let (tree, blocks) = (&self.tree, &self.blocks);
        let mut reads = Reads::default();
        tree.scan(index, SCAN_ENTRIES, |block| touch(blocks, 1, &mut reads, block));
        self.reads += reads.all;
    }
}

/// A block is wanted by a lookup of a key that was asked for `times` times lately.
fn touch(blocks: &BlockCache<()>, times: u8, reads: &mut Reads, (id, kind): Touched) {
    let tag = BlockTag { keyspace: 0, kind };
    if blocks.get(id, tag).is_some() {
        return;
    }
    reads.all += 1;
    let share = (f32::from(times) / f32::from(blocks.times(id).max(1))).min(1.0).sqrt();
    reads.own += share;
    if kind == BlockKind::Data {
        reads.own_data = share;
    }
    blocks.insert(id, tag, (), BLOCK_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(choice: Choice, scans: f64) -> Load {
        Load { name: "test", choice, scans }
    }

    fn reads(policy: Policy, load: &Load, percent: f64) -> f64 {
        let entries = 100_000;
        simulate(policy, load, entries, budget(entries, percent), 200_000, 3).reads_per_op
    }

    #[test]
    fn the_tide_finds_what_scattered_keys_need() {
        let load = load(Choice::Hot { entries: 0.01, operations: 0.9, run: 1 }, 0.0);
        let (lru, tide) = (reads(Policy::BlockLru, &load, 5.0), reads(Policy::Tide, &load, 5.0));
        assert!(tide < 0.5 * lru, "{tide} against {lru}");
    }

    #[test]
    fn the_tide_leaves_scans_their_blocks() {
        let load = load(Choice::Zipf { alpha: 0.99, is_scattered: true }, 1.0);
        let blocks = reads(Policy::BlockAdmission, &load, 5.0);
        let tide = reads(Policy::Tide, &load, 5.0);
        assert!(tide < 1.05 * blocks, "{tide} against {blocks}");
        assert!(blocks < reads(Policy::BlockLru, &load, 5.0));
    }

    /// Fixed splits once had the sketch's bytes and the ghosts' for nothing.
    #[test]
    fn every_split_has_the_same_bytes() {
        let load = load(Choice::Uniform, 0.0);
        let bytes = |policy| -> usize {
            simulate(policy, &load, 20_000, 200_000, 100, 5).split.iter().sum()
        };
        for (kv, kp) in [(0, 0), (10, 0), (0, 10), (5, 5), (3, 3)] {
            assert_eq!(bytes(Policy::Fixed { kv, kp }), bytes(Policy::Tide));
        }
        assert!(bytes(Policy::Tide) < bytes(Policy::BlockLru));
        assert_eq!(bytes(Policy::BlockLru), 200_000);
    }

    #[test]
    fn a_seed_repeats_a_run() {
        let load = load(Choice::Zipf { alpha: 0.8, is_scattered: true }, 0.3);
        let run = || simulate(Policy::Tide, &load, 20_000, 200_000, 30_000, 5);
        assert_eq!(run(), run());
    }
}
