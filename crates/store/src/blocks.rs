//! Skeleton; filled next.
#![allow(dead_code, unused_variables, clippy::todo, reason = "skeleton")]
use std::path::Path;
use std::sync::Arc;

use tidekv_cache::{BlockCache, BlockKind};
use tidekv_io::{File, Storage};

use crate::block::{Block, BlockHandle};
use crate::error::Result;

/// A shared block.
pub(crate) type BlockRef = Arc<Block>;

/// An open table file.
#[derive(Debug)]
pub(crate) struct TableFile {
    file: Arc<dyn File>,
    id: u64,
    keyspace: u32,
    bytes: u64,
}

impl TableFile {
    pub(crate) fn new(file: Arc<dyn File>, id: u64, keyspace: u32, bytes: u64) -> Self {
        Self { file, id, keyspace, bytes }
    }
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Which block of which table.
#[derive(Debug, Clone)]
pub(crate) struct BlockAddress {
    pub(crate) file: Arc<TableFile>,
    pub(crate) handle: BlockHandle,
    pub(crate) kind: BlockKind,
}

/// Where every block read goes.
#[derive(Debug)]
pub(crate) struct Blocks {
    storage: Arc<dyn Storage>,
    cache: Arc<BlockCache<BlockRef>>,
}

impl Blocks {
    pub(crate) fn new(storage: Arc<dyn Storage>, cache: Arc<BlockCache<BlockRef>>) -> Self {
        Self { storage, cache }
    }

    /// The block if it is in memory; no waiting, no I/O. Counts a hit or miss.
    pub(crate) fn cached(&self, address: &BlockAddress) -> Option<BlockRef> {
        todo!()
    }

    /// Reads a block that [`Blocks::cached`] did not have.
    pub(crate) fn read(&self, address: &BlockAddress) -> Result<BlockRef> {
        todo!()
    }

    /// Reads many blocks that [`Blocks::cached`] did not have, in one batch.
    pub(crate) fn read_many(&self, addresses: &[BlockAddress]) -> Result<Vec<BlockRef>> {
        todo!()
    }

    /// Drops the blocks of tables that are `dead`.
    pub(crate) fn evict_tables(&self, dead: &dyn Fn(u64) -> bool) {
        self.cache.evict_tables(dead);
    }

    /// Name and value of every counter, in a fixed order.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        todo!()
    }
}
