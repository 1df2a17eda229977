//! Open table files, and where in them their blocks are; what was read becomes a block here.
//!
//! Guarantees:
//! 1. What becomes a [`Block`] has passed its checksum and its layout check; otherwise it is an
//!    error that says of which file and where.
//! 2. A handle that reaches past its file's end is refused before memory is taken for it
//!    ([`TableFile::check`]).

use std::path::Path;
use std::sync::Arc;

use tidekv_cache::{BlockId, BlockKind, BlockTag};
use tidekv_io::{Buffer, File, ReadRequest};

use crate::error::{Error, Result};
use crate::sst::block::{Block, BlockHandle, BlockRef, Content, open, open_part, seed};
use crate::sst::block_tier::Fingerprints;
use crate::sst::seeks::SeekBytes;

/// Blocks of a batch that stand this near to each other are one request: what
/// lies between them is padding or in memory already. A request of its own would
/// cost the processor and the device more than so many bytes.
pub(crate) const GAP_BYTES_MAX: u64 = 16 << 10;

/// The longest request that is made of several blocks.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// An open table file.
#[derive(Debug)]
pub(crate) struct TableFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) id: u64,
    keyspace: u32,
    bytes: u64,
    /// By what the tier knows it, if it does.
    pub(crate) fingerprints: Option<Fingerprints>,
    seek_bytes: SeekBytes,
}

impl TableFile {
    /// The table `id` in `file`, which is `bytes` long.
    pub(crate) fn new(file: Arc<dyn File>, id: u64, keyspace: u32, bytes: u64) -> Self {
        let seek_bytes = SeekBytes::default();
        Self { file, id, keyspace, bytes, fingerprints: None, seek_bytes }
    }

    /// The same, known to the tier by these.
    pub(crate) fn known_by(self, fingerprints: Option<Fingerprints>) -> Self {
        Self { fingerprints, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Bytes of the blocks that the seeks of scans had to read from storage in this table.
    pub(crate) fn seek_bytes(&self) -> &SeekBytes {
        &self.seek_bytes
    }

    pub(crate) fn corrupt(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::corrupt(self.path(), format_args!("block at offset {offset}: {what}"))
    }

    /// Refuses handles that reach past the file before memory is taken for
    /// them.
    pub(crate) fn check(&self, handle: BlockHandle) -> Result<()> {
        if handle.end() > self.bytes {
            let what = format!("{} bytes reach past the file's end at {}", handle.len, self.bytes);
            return Err(self.corrupt(handle.offset, what));
        }
        Ok(())
    }

    pub(crate) fn id_of(&self, handle: BlockHandle) -> BlockId {
        BlockId { table: self.id, offset: handle.offset }
    }

    pub(crate) fn tag_of(&self, kind: BlockKind) -> BlockTag {
        BlockTag { keyspace: self.keyspace, kind }
    }
}

/// Which block of which table.
#[derive(Debug, Clone)]
pub(crate) struct BlockAddress {
    pub(crate) file: Arc<TableFile>,
    pub(crate) handle: BlockHandle,
    pub(crate) kind: BlockKind,
}

impl BlockAddress {
    /// The block that `content` is, or what is wrong with it.
    pub(crate) fn admit(&self, content: std::result::Result<Content, String>) -> Result<BlockRef> {
        let offset = self.handle.offset;
        let content = content.map_err(|what| self.file.corrupt(offset, what))?;
        let block = Block::new(content, self.kind, offset)
            .ok_or_else(|| self.file.corrupt(offset, "its entries cannot be decoded"))?;
        Ok(Arc::new(block))
    }

    pub(crate) fn block_of(&self, disk: Buffer) -> Result<BlockRef> {
        self.admit(open(disk, seed(self.file.id, self.handle.offset)))
    }

    /// The block, if that is what stands in the envelope `disk`, out of the tier.
    pub(crate) fn recalled(&self, disk: &[u8]) -> Option<BlockRef> {
        if disk.len() != self.handle.len as usize {
            return None;
        }
        self.admit(open_part(disk, seed(self.file.id, self.handle.offset))).ok()
    }

    pub(crate) fn request(&self) -> ReadRequest {
        ReadRequest {
            file: self.file.file.clone(),
            offset: self.handle.offset,
            len: self.handle.len as usize,
        }
    }

    /// How many bytes lie between this block and `next`, if one request that
    /// begins at `start` may read both.
    pub(crate) fn gap_before(&self, next: &Self, start: u64) -> Option<u64> {
        let is_near = next.handle.end().saturating_sub(start) <= REQUEST_BYTES_MAX;
        next.handle
            .offset
            .checked_sub(self.handle.end())
            .filter(|&gap| gap <= GAP_BYTES_MAX && is_near && Arc::ptr_eq(&self.file, &next.file))
    }
}
