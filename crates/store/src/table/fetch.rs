//! [`Fetcher`]: gets blocks for a cursor: from what was supplied or read ahead,
//! from the cache, from storage; and decides how far to read ahead.
//!
//! Read-ahead of a scan: the first two blocks that are read from storage one
//! after another are read alone, for most scans are short. Then runs of the
//! blocks behind them are read at once, [`WINDOW_BYTES_MIN`] at first and twice
//! as much each time up to [`WINDOW_BYTES_MAX`]. Blocks of a run go into the
//! cache, and the cursor holds on to them, so that it works with no cache.
//!
//! A compaction reads [`COMPACTION_BYTES`] at a time past the cache, forward.

use std::collections::VecDeque;
use std::sync::Arc;

use tidekv_cache::BlockKind;

use super::reader::Table;
use crate::block::{Block, BlockHandle};
use crate::blocks::{BlockAddress, BlockRef, Blocks};
use crate::error::{Error, Result};

/// The first run: a few blocks more than one round trip is worth.
const WINDOW_BYTES_MIN: u64 = 16 << 10;

/// The longest run: a device's bandwidth is reached, and a scan that stops
/// early has not pushed much out of the cache.
const WINDOW_BYTES_MAX: u64 = 256 << 10;

/// One read of a compaction.
const COMPACTION_BYTES: u64 = 1 << 20;

/// Blocks that a scan reads one by one before it reads ahead.
const ALONE: u32 = 2;

/// How a cursor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Through the cache, reading ahead when the scan is sequential.
    Cached,
    /// In large pieces past the cache, for compactions; forward only.
    Compaction,
}

/// Why there is no block.
#[derive(Debug)]
pub(super) enum Missing {
    /// It is not in memory, and storage was not to be read.
    Unread(BlockAddress),
    /// It could not be read.
    Failed(Error),
}

/// What was asked for, or why it is missing.
pub(super) type Fetched<T> = std::result::Result<T, Missing>;

impl From<Error> for Missing {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How a block is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Only from memory.
    Memory,
    /// From storage too, alone.
    Alone,
    /// From storage too, as the next one of a forward scan.
    Forward,
}

/// Gets blocks for a cursor.
#[derive(Debug)]
pub(super) struct Fetcher {
    table: Arc<Table>,
    blocks: Arc<Blocks>,
    reading: Reading,
    /// Supplied or read ahead, in the order in which they will be asked for.
    held: VecDeque<BlockRef>,
    /// Data blocks read from storage in sequence so far.
    streak: u32,
    window_bytes: u64,
}

impl Fetcher {
    pub(super) fn new(table: Arc<Table>, blocks: Arc<Blocks>, reading: Reading) -> Self {
        Self {
            table,
            blocks,
            reading,
            held: VecDeque::new(),
            streak: 0,
            window_bytes: WINDOW_BYTES_MIN,
        }
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(super) fn reading(&self) -> Reading {
        self.reading
    }

    /// Keeps a block for the seek that follows.
    pub(super) fn hold(&mut self, block: BlockRef) {
        if !self.held.iter().any(|held| held.offset() == block.offset()) {
            self.held.push_back(block);
        }
    }

    /// The scan is no longer sequential.
    pub(super) fn end_streak(&mut self) {
        self.streak = 0;
        self.window_bytes = WINDOW_BYTES_MIN;
    }

    /// Lets go of blocks that were supplied or read ahead.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }

    /// The index block of a partition.
    pub(super) fn index(&mut self, partition: usize, ask: Ask) -> Fetched<BlockRef> {
        let handle = self.table.partitions()[partition].index;
        if let Some(block) = self.in_memory(handle, BlockKind::Index, ask) {
            return Ok(block);
        }
        let address = self.table.address(handle, BlockKind::Index);
        match (ask, self.reading) {
            (Ask::Memory, _) => Err(Missing::Unread(address)),
            (_, Reading::Cached) => Ok(self.blocks.read(&address)?),
            (_, Reading::Compaction) => Ok(self.blocks.read_past_cache(&[address])?.swap_remove(0)),
        }
    }

    /// The data block that entry `i` of `index` leads to.
    pub(super) fn data(&mut self, index: &Block, i: usize, ask: Ask) -> Fetched<BlockRef> {
        let handle = self.table.data_handle(index, i)?;
        if let Some(block) = self.in_memory(handle, BlockKind::Data, ask) {
            return Ok(block);
        }
        if ask == Ask::Memory {
            return Err(Missing::Unread(self.table.address(handle, BlockKind::Data)));
        }
        let mut run = match self.reading {
            Reading::Compaction => {
                self.blocks.read_past_cache(&self.run(index, i, handle, COMPACTION_BYTES)?)?
            }
            Reading::Cached if ask == Ask::Forward && self.streak >= ALONE => {
                let run = self.run(index, i, handle, self.window_bytes)?;
                self.window_bytes = (self.window_bytes * 2).min(WINDOW_BYTES_MAX);
                self.blocks.read_run(&run)?
            }
            Reading::Cached => {
                vec![self.blocks.read(&self.table.address(handle, BlockKind::Data))?]
            }
        };
        self.streak += 1;
        let ahead = run.split_off(1);
        self.held.clear();
        self.held.extend(ahead);
        Ok(run.swap_remove(0))
    }

    /// The block if it is held or in the cache. What `want` meets is held for
    /// the seek that follows, however small the cache.
    fn in_memory(&mut self, handle: BlockHandle, kind: BlockKind, ask: Ask) -> Option<BlockRef> {
        let here = |block: &BlockRef| block.offset() == handle.offset && block.kind() == kind;
        if let Some(at) = self.held.iter().position(here) {
            return if ask == Ask::Memory {
                self.held.get(at).cloned()
            } else {
                self.held.remove(at)
            };
        }
        // A compaction does not even make blocks look recently used.
        if self.reading == Reading::Compaction {
            return None;
        }
        let block = self.blocks.cached_at(self.table.file(), handle, kind)?;
        if ask == Ask::Memory {
            self.hold(block.clone());
        }
        Some(block)
    }

    /// The data blocks from entry `i` of `index` on, up to `bytes_max`, at
    /// least one.
    fn run(
        &self,
        index: &Block,
        i: usize,
        first: BlockHandle,
        bytes_max: u64,
    ) -> Result<Vec<BlockAddress>> {
        let mut run = vec![self.table.address(first, BlockKind::Data)];
        let mut end = first.end();
        for next in i + 1..index.view().len() {
            let handle = self.table.data_handle(index, next)?;
            if handle.offset < end || handle.end() - first.offset > bytes_max {
                break;
            }
            end = handle.end();
            run.push(self.table.address(handle, BlockKind::Data));
        }
        Ok(run)
    }
}
