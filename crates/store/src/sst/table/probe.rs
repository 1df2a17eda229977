//! [`TableProbe`]: a point lookup in one table that never waits. It advances as far as memory
//! allows and returns the block that it needs next; the caller decides how to read: one block, a
//! batch for many probes, or not at all.
//!
//! ```text
//!             ┌── it is not worth its read ──┐
//!             │                              ▼
//!   start ──▶ Filter ─── in it, maybe ────▶ Index ─────────▶ Data ──▶ Found
//!     │          │ not in it                 │ after all       │ another key
//!     └──────────┴───────────────▶  Absent  ◀┴─────────────────┘
//! ```
//!
//! Every edge is one step of [`TableProbe::step`]. A key that has passed a filter, and of which the
//! table has no version at all, is a false positive ([`TableProbe::false_positive`]). A found entry
//! is the newest one that a reader at the lookup's sequence sees; the caller handles range
//! tombstones. With all blocks in memory nothing is allocated.

use std::ops::Range;

use tidekv_cache::Pointer;
use tidekv_cache::{BlockKind, FilterLookup, FilteredLookup};

use super::reader::Table;
use crate::error::Result;
use crate::format::key::{LookupKey, Trailer};
use crate::sst::block::{Block, BlockHandle, BlockRef, Part};
use crate::sst::block_address::BlockAddress;
use crate::sst::blocks::Blocks;
use crate::sst::filter::{self, FilterAnswer};
use crate::sst::filter_repair::FalsePositive;

/// An entry that a probe found; it keeps its block in memory.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) trailer: Trailer,
    block: BlockRef,
    /// Bytes of the block in the file.
    len: u32,
    /// Number of entries before it in the block.
    position: u32,
    payload: Range<usize>,
}

impl Found {
    /// A pointer to it, in the table of that number.
    pub(crate) fn pointer(&self, table: u64) -> Pointer {
        let (offset, len, position) = (self.block.offset(), self.len, self.position);
        Pointer { table, offset, len, position }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.block.bytes()[self.payload.clone()]
    }

    /// The payload, with its block.
    pub(crate) fn into_payload(self) -> Part {
        Part::new(self.block, self.payload)
    }
}

/// The result of a step of a probe.
#[derive(Debug)]
pub(crate) enum Step {
    /// This block is not in memory: read it, and supply it to the next step.
    Need(BlockAddress),
    /// The key has this entry.
    Found(Found),
    /// The key has no entry that the reader sees.
    Absent,
}

/// The block that the probe checks next.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Filter(usize),
    Index(usize),
    Data(BlockHandle),
    Done,
}

/// A point lookup in one table.
#[derive(Debug)]
pub(crate) struct TableProbe<'a> {
    table: &'a Table,
    key: LookupKey<'a>,
    stage: Stage,
    /// Whether this lookup is a sample for the filter's measured savings.
    samples_filter_worth: bool,
    /// Whether it advanced past the filter.
    is_past_filter: bool,
    /// The known part of [`FilteredLookup::reads_behind`].
    reads_behind: u32,
    /// The filter that let the key pass.
    filter_match: Option<FilterMatch>,
}

/// A filter that let a key pass.
#[derive(Debug, Clone, Copy)]
struct FilterMatch {
    partition: usize,
    /// Whether the filter can be repaired if the key is absent.
    is_repairable: bool,
}

impl<'a> TableProbe<'a> {
    pub(super) fn new(table: &'a Table, key: LookupKey<'a>) -> Self {
        let partition = table.partition_of(key.user_key, Trailer::seek(key.sequence));
        let stage = match table.partitions().get(partition) {
            None => Stage::Done,
            Some(found) if found.filter.is_none() => Stage::Index(partition),
            Some(_) => Stage::Filter(partition),
        };
        Self {
            table,
            key,
            stage,
            samples_filter_worth: false,
            is_past_filter: false,
            reads_behind: 0,
            filter_match: None,
        }
    }

    /// Advances as far as memory allows. The step after [`Step::Need`] is given the needed block.
    pub(crate) fn step(&mut self, blocks: &Blocks, supplied: Option<BlockRef>) -> Result<Step> {
        let step = self.advance(blocks, supplied)?;
        if self.samples_filter_worth && !matches!(step, Step::Need(_)) {
            let is_absent = matches!(step, Step::Absent);
            let reads_behind = self.is_past_filter.then_some(self.reads_behind);
            let lookup = FilteredLookup { is_absent, reads_behind };
            self.table.filter_worth().note(lookup);
        }
        Ok(step)
    }

    fn advance(&mut self, blocks: &Blocks, mut supplied: Option<BlockRef>) -> Result<Step> {
        let sought = Trailer::seek(self.key.sequence);
        loop {
            // Most tables do not have the key, and the filter check is the only step.
            if let (Stage::Filter(partition), None) = (self.stage, &supplied) {
                let handle = self.table.partitions()[partition].filter;
                let (look, is_sampled) = self.look_for_filter(blocks, partition, handle);
                self.samples_filter_worth = is_sampled;
                self.stage = match look {
                    FilterLookup::Read => {
                        self.samples_filter_worth = true;
                        return Ok(Step::Need(self.table.address(handle, BlockKind::Filter)));
                    }
                    FilterLookup::Skip => self.go_past_filter(partition),
                    FilterLookup::Hit(found) => self.after_filter(found),
                };
                continue;
            }
            let Some((handle, kind)) = self.next_block() else {
                return Ok(Step::Absent);
            };
            let block = match supplied.take() {
                Some(block) => {
                    assert!(
                        block.kind() == kind && block.offset() == handle.offset,
                        "the block that was needed is the one that is supplied"
                    );
                    block
                }
                None => match blocks.cached_at(self.table.file(), handle, kind) {
                    Some(block) => block,
                    None => {
                        self.reads_behind += u32::from(kind == BlockKind::Index);
                        self.samples_filter_worth = self.is_past_filter;
                        return Ok(Step::Need(self.table.address(handle, kind)));
                    }
                },
            };
            self.stage = match self.stage {
                Stage::Filter(partition) => {
                    self.after_filter(self.check_filter(partition, block.bytes()))
                }
                Stage::Done => Stage::Done,
                Stage::Index(_) => {
                    let view = block.view();
                    let i = view.lower_bound(self.key.user_key, sought);
                    if i < view.len() {
                        self.reads_behind += 1;
                        Stage::Data(self.table.data_handle(&block, i)?)
                    } else {
                        Stage::Done
                    }
                }
                Stage::Data(handle) => {
                    self.stage = Stage::Done;
                    return Ok(self.find_in(block, handle.len));
                }
            };
        }
    }

    fn look_for_filter(
        &self,
        blocks: &Blocks,
        partition: usize,
        handle: BlockHandle,
    ) -> (FilterLookup<Option<FilterMatch>>, bool) {
        let look = |block: &Block| match block.kind() {
            BlockKind::Filter => self.check_filter(partition, block.bytes()),
            // A damaged index could refer to a block as if it were of another kind.
            _ => Some(FilterMatch { partition, is_repairable: false }),
        };
        blocks.look_for(self.table.file(), handle, self.table.filter_worth(), look)
    }

    /// Checks the filter of a partition; returns the match if the key passes.
    fn check_filter(&self, partition: usize, filter: &[u8]) -> Option<FilterMatch> {
        let is_repairable = match filter::look(filter, self.key.hash) {
            FilterAnswer::Absent => return None,
            FilterAnswer::Maybe => false,
            FilterAnswer::Matches(it) if self.table.filter_repairs().pass(partition, it) => true,
            FilterAnswer::Matches(_) => return None,
        };
        Some(FilterMatch { partition, is_repairable })
    }

    fn after_filter(&mut self, filter_match: Option<FilterMatch>) -> Stage {
        self.filter_match = filter_match;
        match filter_match {
            None => Stage::Done,
            Some(FilterMatch { partition, .. }) => self.go_past_filter(partition),
        }
    }

    /// After [`Step::Absent`]: the false positive, if the key passed a filter. It is the filter's
    /// fault only if the reader sees all entries of the table.
    pub(crate) fn false_positive(&self) -> Option<FalsePositive> {
        let FilterMatch { partition, is_repairable } = self.filter_match?;
        let properties = self.table.properties();
        let (keyspace, table, hash) = (properties.keyspace, properties.id, self.key.hash);
        let found = FalsePositive { keyspace, table, partition, hash, is_repairable };
        (self.key.sequence >= properties.largest_sequence).then_some(found)
    }

    /// The filter lets the key pass, or is skipped.
    fn go_past_filter(&mut self, partition: usize) -> Stage {
        self.is_past_filter = true;
        Stage::Index(partition)
    }

    fn next_block(&self) -> Option<(BlockHandle, BlockKind)> {
        match self.stage {
            Stage::Filter(partition) => {
                Some((self.table.partitions()[partition].filter, BlockKind::Filter))
            }
            Stage::Index(partition) => {
                Some((self.table.partitions()[partition].index, BlockKind::Index))
            }
            Stage::Data(handle) => Some((handle, BlockKind::Data)),
            Stage::Done => None,
        }
    }

    /// The result from the one data block that can hold the key: separators compare with their
    /// trailer, so the first entry at or after the lookup, if it has this key, is in the block that
    /// the index names.
    fn find_in(&self, block: BlockRef, len: u32) -> Step {
        let position =
            block.view().lower_bound(self.key.user_key, Trailer::seek(self.key.sequence));
        entry_at(block, len, position, self.key.user_key).map_or(Step::Absent, Step::Found)
    }
}

/// The entry at `position` of a data block, if it exists and has the key.
fn entry_at(block: BlockRef, len: u32, position: usize, user_key: &[u8]) -> Option<Found> {
    let view = block.view();
    if position >= view.len() || !view.has_key(position, user_key) {
        return None;
    }
    let entry = view.entry(position);
    let (trailer, payload) = (entry.trailer, entry.payload_range());
    Some(Found { trailer, block, len, position: position as u32, payload })
}

impl Table {
    /// Starts a point lookup.
    pub(crate) fn probe<'a>(&'a self, key: LookupKey<'a>) -> TableProbe<'a> {
        TableProbe::new(self, key)
    }

    /// The address of the data block at `handle`.
    pub(crate) fn data_address(&self, handle: BlockHandle) -> BlockAddress {
        self.address(handle, BlockKind::Data)
    }

    /// The entry of the key that `pointer` refers to in its block, if it is one.
    pub(crate) fn found_at(
        &self,
        block: BlockRef,
        pointer: Pointer,
        user_key: &[u8],
    ) -> Option<Found> {
        entry_at(block, pointer.len, pointer.position as usize, user_key)
    }
}
