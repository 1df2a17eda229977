//! [`Fetcher`]: gets blocks for a cursor (supplied, read ahead, from the cache, from storage) and
//! decides how far to read ahead.
//!
//! Read-ahead of a scan: a forward seek reads as many blocks at once as scans of this level usually
//! go through ([`ScanLengths`]), without those that are in memory. A scan that goes further, and
//! has read two or more successive blocks from storage, reads runs of the blocks after them,
//! [`WINDOW_BYTES_MIN`] at first and twice as much each time up to [`WINDOW_BYTES_MAX`]. Blocks of
//! a run go into the cache, and the cursor keeps them, so that it works without a cache.
//!
//! A compaction reads [`COMPACTION_BYTES`] at a time past the cache, forward.

use std::collections::VecDeque;
use std::sync::Arc;

use tidekv_cache::BlockKind;

use super::reader::Table;
use crate::error::{Error, Result};
use crate::sst::block::{Block, BlockHandle, BlockRef};
use crate::sst::block_address::BlockAddress;
use crate::sst::blocks::{Blocks, Purpose};
use crate::sst::scan_lengths::ScanLengths;

/// The first run: a few blocks, more than one round trip is worth.
const WINDOW_BYTES_MIN: u64 = 16 << 10;

/// The longest run: it reaches a device's bandwidth, and a scan that stops early has not evicted a
/// large part of the cache.
const WINDOW_BYTES_MAX: u64 = 256 << 10;

/// Size of one read of a compaction.
const COMPACTION_BYTES: u64 = 1 << 20;

/// Number of blocks that a scan of unusual length reads one by one before it reads ahead.
const READS_BEFORE_READ_AHEAD: u32 = 2;

/// A trip to storage costs about as much as the transfer of this many bytes: 60 µs at 1 GB/s.
const TRIP_BYTES: u32 = 64 << 10;

/// How a cursor reads.
#[derive(Debug, Clone)]
pub(crate) enum Reading {
    /// Through the cache, reading ahead as far as scans of this kind go.
    Cached(Arc<ScanLengths>),
    /// In large pieces past the cache, for compactions; forward only.
    Compaction,
}

/// Why a block is missing.
#[derive(Debug)]
pub(super) enum Missing {
    /// These are not in memory, and reading storage was not allowed: the requested block, or blocks
    /// that will be needed after it.
    Unread(Vec<BlockAddress>),
    /// It could not be read.
    Failed(Error),
}

/// The requested block, or why it is missing.
pub(super) type Fetched<T> = std::result::Result<T, Missing>;

impl From<Error> for Missing {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How a block is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// Only from memory.
    Memory,
    /// From storage too, for a seek or the move to an earlier entry.
    Storage,
    /// From storage too, as the next one of a forward scan.
    Forward,
}

/// Gets blocks for a cursor.
#[derive(Debug)]
pub(super) struct Fetcher {
    table: Arc<Table>,
    blocks: Arc<Blocks>,
    reading: Reading,
    /// Supplied or read-ahead blocks, in the order of the file.
    held: VecDeque<BlockRef>,
    /// Whether the scan goes forward from the last seek.
    is_forward: bool,
    /// Whether the last move was a seek, not a move to an earlier entry.
    is_after_seek: bool,
    /// Data blocks that the scan has gone through since its seek.
    walked: u32,
    /// Data blocks read from storage in sequence so far.
    streak: u32,
    window_bytes: u64,
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.end_scan();
    }
}

impl Fetcher {
    pub(super) fn new(table: Arc<Table>, blocks: Arc<Blocks>, reading: Reading) -> Self {
        Self {
            table,
            blocks,
            reading,
            held: VecDeque::new(),
            is_forward: false,
            is_after_seek: false,
            walked: 0,
            streak: 0,
            window_bytes: WINDOW_BYTES_MIN,
        }
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Keeps a block for the next seek.
    pub(super) fn hold(&mut self, block: BlockRef) {
        if let Err(at) = self.find_held(block.offset()) {
            self.held.insert(at, block);
        }
    }

    /// The index of the held block at `offset`, or its insertion point.
    fn find_held(&self, offset: u64) -> std::result::Result<usize, usize> {
        // A scan takes blocks from the front, and read blocks are appended at the back.
        match (self.held.front(), self.held.back()) {
            (Some(front), _) if offset <= front.offset() => {
                if offset == front.offset() {
                    Ok(0)
                } else {
                    Err(0)
                }
            }
            (_, Some(back)) if offset > back.offset() => Err(self.held.len()),
            _ => self.held.binary_search_by_key(&offset, |held| held.offset()),
        }
    }

    /// Prepares for a seek, from which the scan will go forward or not.
    pub(super) fn prepare_seek(&mut self, is_forward: bool) {
        self.end_scan();
        self.is_forward = is_forward;
        self.is_after_seek = true;
    }

    /// Prepares for a move to an earlier entry.
    pub(super) fn prepare_prev(&mut self) {
        self.end_scan();
        self.is_after_seek = false;
    }

    /// The scan is no longer sequential: records how far it went.
    fn end_scan(&mut self) {
        if let Reading::Cached(lengths) = &self.reading
            && self.is_forward
            && self.walked > 0
        {
            lengths.record(self.walked);
        }
        self.is_forward = false;
        self.walked = 0;
        self.streak = 0;
        self.window_bytes = WINDOW_BYTES_MIN;
    }

    /// The purpose of a block request: a seek, if this is the first block of the seek.
    fn purpose(&self, mode: ReadMode) -> Purpose {
        let is_seek = self.is_after_seek && self.walked == 0 && mode == ReadMode::Storage;
        if is_seek { Purpose::Seek } else { Purpose::Any }
    }

    /// Counts a data block that the scan has reached.
    pub(super) fn count_block(&mut self) {
        self.walked = self.walked.saturating_add(1);
    }

    /// The cursor has reached its position, in `block` if it has one: releases the blocks that a
    /// forward scan will not need any more.
    pub(super) fn settle(&mut self, block: Option<&Block>) {
        if matches!(self.reading, Reading::Compaction) {
            return;
        }
        match block.filter(|_| self.is_forward) {
            Some(block) => self.held.retain(|held| held.offset() > block.offset()),
            None => self.held.clear(),
        }
    }

    /// The index block of a partition.
    pub(super) fn index(&mut self, partition: usize, mode: ReadMode) -> Fetched<BlockRef> {
        let handle = self.table.partitions()[partition].index;
        if let Some(block) = self.in_memory(handle, BlockKind::Index, mode) {
            return Ok(block);
        }
        let address = self.table.address(handle, BlockKind::Index);
        match (mode, &self.reading) {
            (ReadMode::Memory, _) => Err(Missing::Unread(vec![address])),
            (_, Reading::Cached(_)) => Ok(self.blocks.read_as(&address, self.purpose(mode))?),
            (_, Reading::Compaction) => Ok(self.blocks.read_past_cache(&[address])?.swap_remove(0)),
        }
    }

    /// The data block that entry `i` of `index` refers to.
    pub(super) fn data(&mut self, index: &Block, i: usize, mode: ReadMode) -> Fetched<BlockRef> {
        let handle = self.table.data_handle(index, i)?;
        if mode == ReadMode::Memory {
            return self.data_in_memory(index, i, handle);
        }
        let held = self.in_memory(handle, BlockKind::Data, mode);
        let purpose = self.purpose(mode);
        self.count_block();
        if let Some(block) = held {
            return Ok(block);
        }
        let blocks = match self.reading {
            Reading::Compaction => {
                let run = self.run(index, i, handle, COMPACTION_BYTES, u32::MAX)?;
                self.blocks.read_past_cache(&self.addresses(&run))?
            }
            Reading::Cached(_) => {
                let mut run = self.usual_run(index, i, handle)?;
                if run.len() == 1
                    && mode == ReadMode::Forward
                    && self.streak >= READS_BEFORE_READ_AHEAD
                {
                    run = self.run(index, i, handle, self.window_bytes, u32::MAX)?;
                    self.window_bytes = (self.window_bytes * 2).min(WINDOW_BYTES_MAX);
                }
                let run = self.addresses(&run);
                self.blocks.read_run(&run, purpose)?
            }
        };
        self.streak += blocks.len() as u32;
        let mut blocks = blocks.into_iter();
        let first = blocks.next().expect("a run has a first block");
        blocks.for_each(|block| self.hold(block));
        Ok(first)
    }

    /// The block at `handle` if it and all blocks that a scan from there usually goes through are
    /// in memory; otherwise the missing ones. The blocks in memory are held.
    fn data_in_memory(
        &mut self,
        index: &Block,
        i: usize,
        handle: BlockHandle,
    ) -> Fetched<BlockRef> {
        let mut run = self.usual_run(index, i, handle)?;
        let first = self.in_memory(handle, BlockKind::Data, ReadMode::Memory);
        run.retain(|&next| match next == handle {
            true => first.is_none(),
            false => self.in_memory(next, BlockKind::Data, ReadMode::Memory).is_none(),
        });
        match first {
            Some(block) if run.is_empty() => {
                let ahead = self.held.iter().filter(|held| held.kind() == BlockKind::Data);
                ahead.for_each(|held| held.view().touch());
                Ok(block)
            }
            _ => Err(Missing::Unread(self.addresses(&run))),
        }
    }

    fn addresses(&self, run: &[BlockHandle]) -> Vec<BlockAddress> {
        run.iter().map(|&handle| self.table.address(handle, BlockKind::Data)).collect()
    }

    /// The data blocks from entry `i` of `index` on that a scan usually goes through, counted from
    /// its seek.
    fn usual_run(&self, index: &Block, i: usize, first: BlockHandle) -> Result<Vec<BlockHandle>> {
        let blocks = match &self.reading {
            Reading::Cached(lengths) if self.is_forward => {
                lengths.first_read((TRIP_BYTES / first.len.max(1)).max(1))
            }
            _ => 1,
        };
        // This block has been counted as walked if it is about to be read.
        let left = blocks.saturating_sub(self.walked.saturating_sub(1));
        self.run(index, i, first, WINDOW_BYTES_MAX, left)
    }

    /// The block if it is held or in the cache. Blocks that `want` visits are held for the
    /// following seek, however small the cache.
    fn in_memory(
        &mut self,
        handle: BlockHandle,
        kind: BlockKind,
        mode: ReadMode,
    ) -> Option<BlockRef> {
        if let Ok(at) = self.find_held(handle.offset)
            && self.held[at].kind() == kind
        {
            return if mode == ReadMode::Memory {
                self.held.get(at).cloned()
            } else {
                self.held.remove(at)
            };
        }
        // A compaction does not even refresh the recency of blocks.
        if matches!(self.reading, Reading::Compaction) {
            return None;
        }
        let block = self.blocks.cached_at(self.table.file(), handle, kind)?;
        if mode == ReadMode::Memory {
            self.hold(block.clone());
        }
        Some(block)
    }

    /// The data blocks from entry `i` of `index` on, up to `bytes_max` and
    /// `blocks_max`, at least one.
    fn run(
        &self,
        index: &Block,
        i: usize,
        first: BlockHandle,
        bytes_max: u64,
        blocks_max: u32,
    ) -> Result<Vec<BlockHandle>> {
        let mut run = vec![first];
        let mut end = first.end();
        for next in i + 1..index.view().len() {
            if run.len() as u64 >= u64::from(blocks_max) {
                break;
            }
            let handle = self.table.data_handle(index, next)?;
            if handle.offset < end || handle.end() - first.offset > bytes_max {
                break;
            }
            end = handle.end();
            run.push(handle);
        }
        Ok(run)
    }
}
