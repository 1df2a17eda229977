//! Tables in their files, and the positions of their blocks; bytes read from storage become blocks here.
//!
//! Guarantees:
//! 1. A [`Block`] has passed its checksum and its layout check; bytes that fail give an error with
//!    file and offset.
//! 2. A handle that reaches past its file's end is refused before memory is allocated for it
//!    ([`TableFile::check`]).

use std::path::Path;
use std::sync::Arc;

use tidekv_cache::{BlockId, BlockKind, BlockTag};
use tidekv_io::{Buffer, ReadRequest};

use crate::error::{Error, Result};
use crate::sst::block::{Block, BlockHandle, BlockRef, Content, open, open_part, seed};
use crate::sst::block_tier::Fingerprints;
use crate::sst::file_handles::FileHandle;
use crate::sst::seeks::SeekBytes;

/// Blocks of a batch that are this close to each other are one request: the bytes between them are
/// padding or in memory already. A separate request would cost the processor and the device more
/// than this many bytes.
pub(crate) const GAP_BYTES_MAX: u64 = 16 << 10;

/// Maximum length of a request for several blocks.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// A table in its file. Offsets are those in the table.
#[derive(Debug)]
pub(crate) struct TableFile {
    file: Arc<FileHandle>,
    /// Where the table begins in the file.
    start: u64,
    pub(crate) id: u64,
    keyspace: u32,
    bytes: u64,
    /// The fingerprints that identify the table in the tier, if it has any.
    pub(crate) fingerprints: Option<Fingerprints>,
    seek_bytes: SeekBytes,
}

impl TableFile {
    /// The table `id`, which takes `bytes` bytes of `file` from `start` on.
    pub(crate) fn new(
        (file, start): (Arc<FileHandle>, u64),
        id: u64,
        keyspace: u32,
        bytes: u64,
    ) -> Self {
        let seek_bytes = SeekBytes::default();
        Self { file, start, id, keyspace, bytes, fingerprints: None, seek_bytes }
    }

    /// The file that the table is in.
    pub(crate) fn handle(&self) -> &Arc<FileHandle> {
        &self.file
    }

    /// The bytes of the table from `offset` on.
    pub(crate) fn read_at(&self, offset: u64, len: usize) -> tidekv_io::Result<Buffer> {
        self.file.file()?.read_at(self.in_file(offset), len)
    }

    /// The offset in the file.
    pub(crate) fn in_file(&self, offset: u64) -> u64 {
        self.start.saturating_add(offset)
    }

    /// The same table, with these fingerprints for the tier.
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
        Error::corrupt(
            self.path(),
            format_args!("block at offset {}: {what}", self.in_file(offset)),
        )
    }

    /// Refuses handles that reach past the end of the file, before memory is allocated for them.
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

/// The address of a block: its table file and its position.
#[derive(Debug, Clone)]
pub(crate) struct BlockAddress {
    pub(crate) file: Arc<TableFile>,
    pub(crate) handle: BlockHandle,
    pub(crate) kind: BlockKind,
}

impl BlockAddress {
    /// The block with this `content`, or an error that describes the damage.
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

    /// The block in the envelope `disk` from the tier, if it is valid.
    pub(crate) fn decode_from_tier(&self, disk: &[u8]) -> Option<BlockRef> {
        if disk.len() != self.handle.len as usize {
            return None;
        }
        self.admit(open_part(disk, seed(self.file.id, self.handle.offset))).ok()
    }

    pub(crate) fn request(&self) -> tidekv_io::Result<ReadRequest> {
        let (offset, len) = (self.file.in_file(self.handle.offset), self.handle.len as usize);
        Ok(ReadRequest { file: self.file.file.file()?, offset, len })
    }

    /// The number of bytes between this block and `next`, if one request that begins at offset `start`
    /// of the table may read both.
    pub(crate) fn gap_before(&self, next: &Self, start: u64) -> Option<u64> {
        let is_near = next.handle.end().saturating_sub(start) <= REQUEST_BYTES_MAX;
        next.handle
            .offset
            .checked_sub(self.handle.end())
            .filter(|&gap| gap <= GAP_BYTES_MAX && is_near && Arc::ptr_eq(&self.file, &next.file))
    }
}
