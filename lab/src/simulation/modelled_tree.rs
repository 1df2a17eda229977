//! A tree that is only counted: the blocks of a lookup or a scan, and the level of a key.
//!
//! ```text
//! level 0   2 tables    1/2000 of the entries each   ┐ every key is on one random
//! level 1   one run     1/1000                       │ level; the levels above it
//! level 2   one run     1/100                        │ have its filter and, once
//! level 3   one run     1/10                         │ in a hundred, a false
//! level 4   one run     the rest                     ┘ positive
//! ```
//!
//! Blocks are 4 KiB. Data blocks hold the entries that fit; filters take ten bits per key; an index
//! block names 160 data blocks. All three are read through the block cache. The levels above them
//! are in memory.

use tidekv_cache::{BlockId, BlockKind};

use crate::load::dice::mix;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Tables of level 0.
pub const LEVEL0_TABLES: u8 = 2;
/// Keys per filter block.
const FILTER_KEYS: u64 = BLOCK_BYTES as u64 * 8 / 10;
/// Data blocks per index block.
const INDEX_BLOCKS: u64 = 160;
/// One in this number of filters without the key is a false positive.
const FALSE_MATCHES: u64 = 100;

/// A sorted run: a table of level 0, or a level below.
#[derive(Debug, Clone, Copy)]
struct Run {
    level: u8,
    entries: u64,
}

/// The tree.
#[derive(Debug, Clone)]
pub struct ModelledTree {
    entries: u64,
    entries_per_block: u64,
    runs: Vec<Run>,
}

/// A block of the tree.
pub type Touched = (BlockId, BlockKind);

/// A block that a lookup needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The block.
    pub block: Touched,
    /// The number of its run.
    pub run: usize,
    /// The run does not have the key.
    pub is_absent: bool,
}

impl ModelledTree {
    /// A tree of `entries` entries of `entry_bytes` bytes.
    pub fn new(entries: u64, entry_bytes: usize) -> Self {
        let level0 = [(0, 2000); LEVEL0_TABLES as usize];
        let upper = level0.into_iter().chain([(1, 1000), (2, 100), (3, 10)]);
        let mut runs: Vec<Run> =
            upper.map(|(level, share)| Run { level, entries: (entries / share).max(1) }).collect();
        let above: u64 = runs.iter().map(|run| run.entries).sum();
        runs.push(Run { level: 4, entries: entries.saturating_sub(above).max(1) });
        Self { entries, entries_per_block: (BLOCK_BYTES / entry_bytes.max(1)).max(1) as u64, runs }
    }

    /// The bytes of all data blocks.
    pub fn data_bytes(&self) -> u64 {
        self.entries.div_ceil(self.entries_per_block) * BLOCK_BYTES as u64
    }

    /// The run with the key of entry `index`.
    fn home(&self, index: u64) -> usize {
        let mut hash = mix(index ^ 0x7EA5) % self.entries;
        for (run, Run { entries, .. }) in self.runs.iter().enumerate() {
            if hash < *entries {
                return run;
            }
            hash -= entries;
        }
        self.runs.len() - 1
    }

    /// The level with the key of entry `index`.
    pub fn level(&self, index: u64) -> u8 {
        self.runs[self.home(index)].level
    }

    /// The data block with the key of entry `index`.
    pub fn data_block(&self, index: u64) -> BlockId {
        let run = self.home(index);
        self.block(run, BlockKind::Data, self.position(run, index)).0
    }

    /// Passes the blocks that a lookup of entry `index` needs to `touch`, in their order; for a
    /// filter it returns whether the lookup proceeds without it.
    pub fn lookup(&self, index: u64, mut touch: impl FnMut(Wanted) -> bool) {
        let home = self.home(index);
        for run in 0..=home {
            let position = self.position(run, index);
            let wanted = |kind| {
                let is_absent = run != home;
                Wanted { block: self.block(run, kind, position), run, is_absent }
            };
            let is_skipped = touch(wanted(BlockKind::Filter));
            let hash = mix(index ^ (run as u64) << 56);
            if run == home || is_skipped || hash.is_multiple_of(FALSE_MATCHES) {
                touch(wanted(BlockKind::Index));
                touch(wanted(BlockKind::Data));
            }
        }
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Passes the blocks that a scan of `len` entries from `index` on needs to `touch`.
    pub fn scan(&self, index: u64, len: u64, mut touch: impl FnMut(Touched)) {
        let end = (index + len).min(self.entries - 1);
        for run in 0..self.runs.len() {
            let (first, last) = (self.position(run, index), self.position(run, end));
            let mut index_block = None;
            let blocks = first / self.entries_per_block..=last / self.entries_per_block;
            for block in blocks {
                let position = block * self.entries_per_block;
                let found = self.block(run, BlockKind::Index, position);
                if index_block.replace(found) != Some(found) {
                    touch(found);
                }
                touch(self.block(run, BlockKind::Data, position));
            }
        }
    }

    /// The position of the key of entry `index` among those of a run.
    fn position(&self, run: usize, index: u64) -> u64 {
        let entries = u128::from(self.runs[run].entries);
        (u128::from(index) * entries / u128::from(self.entries)) as u64
    }

    fn block(&self, run: usize, kind: BlockKind, position: u64) -> Touched {
        let (part, number) = match kind {
            BlockKind::Data => (0, position / self.entries_per_block),
            BlockKind::Index => (1, position / self.entries_per_block / INDEX_BLOCKS),
            BlockKind::Filter => (2, position / FILTER_KEYS),
        };
        let table = run as u64 * 3 + part + 1;
        (BlockId { table, offset: number * BLOCK_BYTES as u64 }, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_ends_at_the_data_block_of_its_key() {
        let tree = ModelledTree::new(1_000_000, 116);
        let mut by_level = [0u32; 5];
        for index in (0..1_000_000).step_by(97) {
            let mut touched = Vec::new();
            tree.lookup(index, |wanted| {
                touched.push(wanted.block);
                false
            });
            assert_eq!(touched.last(), Some(&(tree.data_block(index), BlockKind::Data)));
            by_level[usize::from(tree.level(index))] += 1;
        }
        let share = |level: usize| f64::from(by_level[level]) / 10_310.0;
        assert!((0.87..0.9).contains(&share(4)) && (0.09..0.11).contains(&share(3)));
    }

    #[test]
    fn a_scan_touches_neighbours_on_every_level() {
        let tree = ModelledTree::new(1_000_000, 116);
        let mut counts = Vec::new();
        for index in (0..900_000).step_by(1009) {
            let mut touched = Vec::new();
            tree.scan(index, 100, |block| touched.push(block));
            assert!(touched.iter().all(|(_, kind)| *kind != BlockKind::Filter));
            counts.push(touched.len());
        }
        let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
        // An index and a data block per run, 2.5 more of the last one and a few.
        assert!((14.0..16.5).contains(&mean), "{mean}");
    }
}
