//! Skeleton; filled next.
use std::sync::Arc;

use tidekv_cache::BlockKind;

/// Where a block stands in its file, trailer included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// A block in memory: checked, decompressed, immutable.
#[derive(Debug)]
pub(crate) struct Block {
    kind: BlockKind,
    offset: u64,
    bytes: Arc<[u8]>,
}

impl Block {
    /// What the block holds.
    pub(crate) fn kind(&self) -> BlockKind {
        self.kind
    }

    /// Where it begins in its file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Its content.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of DRAM held.
    pub(crate) fn charge(&self) -> usize {
        todo!()
    }
}
