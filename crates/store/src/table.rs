//! Skeleton; filled next.
#![allow(dead_code, unused_variables, clippy::todo, reason = "skeleton")]
use std::path::Path;
use std::sync::Arc;

use tidekv_io::{AppendFile, File};

use crate::blocks::{BlockAddress, BlockRef, Blocks};
use crate::cursor::{Cursor, Target};
use crate::error::Result;
use crate::key::{LookupKey, Sequence, Trailer};
use crate::options::Compression;
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// What a table is built with.
#[derive(Debug, Clone)]
pub(crate) struct TableOptions {
    pub(crate) id: u64,
    pub(crate) keyspace: u32,
    pub(crate) compression: Compression,
    pub(crate) block_bytes: u32,
    pub(crate) filter_bits_per_key: u8,
}

/// What a table says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableProperties {
    pub(crate) id: u64,
    pub(crate) keyspace: u32,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u64,
    pub(crate) expiring: u64,
    /// Of expiring entries; 0 when there are none.
    pub(crate) earliest_deadline_ms: u64,
    pub(crate) latest_deadline_ms: u64,
    /// Of point entries; empty when there are none.
    pub(crate) smallest_key: Box<[u8]>,
    pub(crate) largest_key: Box<[u8]>,
    /// First key and end (exclusive) of all range tombstones; empty: none.
    pub(crate) range_start: Box<[u8]>,
    pub(crate) range_end: Box<[u8]>,
    /// Of entries and range tombstones.
    pub(crate) smallest_sequence: Sequence,
    pub(crate) largest_sequence: Sequence,
    pub(crate) raw_key_bytes: u64,
    pub(crate) raw_value_bytes: u64,
    pub(crate) data_bytes: u64,
    pub(crate) data_blocks: u64,
    pub(crate) filter_kind: u8,
    pub(crate) filter_bits_per_key: u8,
    /// The file's length.
    pub(crate) file_bytes: u64,
}

/// Writes a table from its first entry to its last.
#[derive(Debug)]
pub(crate) struct TableBuilder {}

impl TableBuilder {
    pub(crate) fn new(file: AppendFile, options: TableOptions) -> Self {
        todo!()
    }
    /// Entries come in internal order.
    pub(crate) fn add(&mut self, user_key: &[u8], trailer: Trailer, payload: &[u8]) -> Result<()> {
        todo!()
    }
    pub(crate) fn add_range_tombstone(&mut self, tombstone: &RangeTombstone) {
        todo!()
    }
    /// Bytes of the file so far, with what is not written yet.
    pub(crate) fn file_bytes(&self) -> u64 {
        todo!()
    }
    pub(crate) fn entries(&self) -> u64 {
        todo!()
    }
    /// Writes the rest and makes the file durable.
    pub(crate) fn finish(self) -> Result<TableProperties> {
        todo!()
    }
}

/// An open table.
#[derive(Debug)]
pub(crate) struct Table {}

impl Table {
    /// Opens the table `id` that `file` must hold.
    pub(crate) fn open(file: Arc<dyn File>, id: u64) -> Result<Table> {
        todo!()
    }
    pub(crate) fn id(&self) -> u64 {
        todo!()
    }
    pub(crate) fn path(&self) -> &Path {
        todo!()
    }
    pub(crate) fn properties(&self) -> &TableProperties {
        todo!()
    }
    pub(crate) fn range_tombstones(&self) -> &RangeTombstones {
        todo!()
    }
    /// Bytes of DRAM that the open table holds outside the cache.
    pub(crate) fn charge(&self) -> usize {
        todo!()
    }
    /// About how many bytes of the file lie before `user_key`.
    pub(crate) fn approximate_offset_of(&self, user_key: &[u8]) -> u64 {
        todo!()
    }
    /// User keys that split the table in parts of a few MiB, ascending.
    pub(crate) fn separators(&self) -> Vec<Box<[u8]>> {
        todo!()
    }
    /// Starts a point lookup.
    pub(crate) fn probe<'a>(&'a self, key: LookupKey<'a>) -> TableProbe<'a> {
        todo!()
    }
}

/// An entry that a probe found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) trailer: Trailer,
    block: BlockRef,
    payload: std::ops::Range<usize>,
}

impl Found {
    pub(crate) fn payload(&self) -> &[u8] {
        &self.block.bytes()[self.payload.clone()]
    }
}

/// Where a probe stands.
#[derive(Debug)]
pub(crate) enum Step {
    /// This block is not in memory: read it and supply it.
    Need(BlockAddress),
    Found(Found),
    Absent,
}

/// A point lookup in one table. Range tombstones are the caller's affair.
#[derive(Debug)]
pub(crate) struct TableProbe<'a> {
    table: &'a Table,
}

impl TableProbe<'_> {
    /// Goes on as far as memory allows. After [`Step::Need`] the next step is
    /// given the block.
    pub(crate) fn step(&mut self, blocks: &Blocks, supplied: Option<BlockRef>) -> Result<Step> {
        todo!()
    }
}

/// How a cursor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Through the cache, reading ahead when the scan is sequential.
    Cached,
    /// In pieces of 1 MiB past the cache, for compaction.
    Compaction,
}

/// Walks the entries of a table.
pub(crate) struct TableCursor {}

impl TableCursor {
    pub(crate) fn new(table: Arc<Table>, blocks: Arc<Blocks>, reading: Reading) -> Self {
        todo!()
    }
}

impl Cursor for TableCursor {
    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        todo!()
    }
    fn next(&mut self) -> Result<()> {
        todo!()
    }
    fn prev(&mut self) -> Result<()> {
        todo!()
    }
    fn valid(&self) -> bool {
        todo!()
    }
    fn user_key(&self) -> &[u8] {
        todo!()
    }
    fn trailer(&self) -> Trailer {
        todo!()
    }
    fn value(&self) -> &[u8] {
        todo!()
    }
}
