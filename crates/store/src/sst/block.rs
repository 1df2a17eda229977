//! Blocks: the unit of reads, checks, caching and eviction. Data blocks and index blocks hold
//! sorted entries; filter blocks hold a filter.
//!
//! Entries are (user key, trailer, payload) in internal order. A block of entries is two columns,
//! keys and values. A search therefore runs over adjacent keys (a few cache lines) and decodes
//! nothing on the way: there are no restart points and no chains of prefixes to unroll.
//!
//! ```text
//! SIZE      MEANING
//! varint    entries, n
//! varint+   prefix that all user keys share
//! varint    form of the key column: 0 ends of two bytes, 1 ends of four
//!           bytes, 2 + w all cells are w bytes wide          (do not change)
//! varint    form of the value column
//! 0/2n/4n   key ends: where each cell ends in its column, little-endian
//! 0/2n/4n   value ends
//! …         key cells: the user keys without the prefix
//! …         value cells: varint `sequence << 3 | kind`, then the payload
//! ```
//!
//! (`varint+` is a LEB128 length and that many bytes.) Keys of one length and
//! values of one length cost no ends at all; on the last level, where
//! sequences are zero, an entry costs one byte beyond its key and value.
//!
//! The payload of an index entry is the [`BlockHandle`] of a block whose entries are all at or
//! before the index entry's (key, trailer), and after the previous index entry; separators compare
//! with their trailer, so the versions of one key may span blocks.
//!
//! Guarantee: bytes become a [`Block`] only through [`Block::new`], which checks them once; reading
//! its entries afterwards cannot fail or panic. The checksum (and `check`) covers their order.
//!
//! Modules, bottom-up.

mod handle;
mod codec;
mod envelope;
mod layout;
mod view;
mod builder;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tidekv_cache::BlockKind;

pub(crate) use builder::BlockBuilder;
pub(crate) use envelope::{Content, Sealer, TRAILER_BYTES, fix_checksum, open, open_part, seed};
pub(crate) use handle::BlockHandle;
pub(crate) use view::BlockView;

use layout::Layout;

/// Shorter values are copied out of their block: that costs no more than sharing it.
const SHARED_BYTES_MIN: usize = 512;

/// A shared value keeps at most this multiple of its length in memory.
const PINNED_RATIO_MAX: usize = 5;

/// A shared block.
pub(crate) type BlockRef = Arc<Block>;

/// A block in memory: checked, uncompressed, immutable.
#[derive(Debug)]
pub(crate) struct Block {
    content: Content,
    /// `None` for filters.
    layout: Option<Layout>,
    kind: BlockKind,
    offset: u64,
}

impl Block {
    /// The block of `kind` at `offset` of its file; `None` when `content` is not a valid block.
    pub(crate) fn new(content: Content, kind: BlockKind, offset: u64) -> Option<Self> {
        let layout = match kind {
            BlockKind::Filter => None,
            BlockKind::Data | BlockKind::Index => Some(Layout::parse(&content)?),
        };
        Some(Self { content, layout, kind, offset })
    }

    /// Whether a part of `len` bytes may keep the block in memory.
    pub(crate) fn may_share(&self, len: usize) -> bool {
        len >= SHARED_BYTES_MIN && len.saturating_mul(PINNED_RATIO_MAX) >= self.charge()
    }

    /// The kind of the block.
    pub(crate) fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The offset of the block in its file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Its content.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.content
    }

    /// Its entries.
    ///
    /// # Panics
    ///
    /// When it is a filter: callers know the kind of a block they requested.
    #[inline]
    pub(crate) fn view(&self) -> BlockView<'_> {
        BlockView::new(&self.content, self.layout.as_ref().expect("filters have no entries"))
    }

    /// Bytes of DRAM held, including the reference counts of its `Arc`.
    pub(crate) fn charge(&self) -> usize {
        self.content.memory_bytes() + size_of::<Self>() + 2 * size_of::<usize>()
    }
}

/// A part of a block that keeps all of it in memory.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    block: Arc<Block>,
    range: Range<usize>,
}

impl Part {
    /// The bytes of `block` at `range`.
    pub(crate) fn new(block: Arc<Block>, range: Range<usize>) -> Self {
        Self { block, range }
    }

    /// The same bytes for long-term use: a copy if they are short or a small part of the block,
    /// otherwise a reference to the shared block.
    pub(crate) fn into_bytes(self) -> Bytes {
        if self.block.may_share(self.range.len()) {
            Bytes::from_owner(self)
        } else {
            Bytes::copy_from_slice(self.as_ref())
        }
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.block.bytes()[self.range.clone()]
    }
}
