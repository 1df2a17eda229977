//! The common interface of all cursors over sorted entries: memtables, tables, levels and merges of
//! them.
//!
//! Entries are in internal order (`key.rs`). A cursor that failed stays failed: it is not valid,
//! and every later move returns the error again or fails anew.
//!
//! Seeking in two phases keeps an uncached scan at one round trip for all levels: before a seek the
//! caller asks each cursor for the blocks that it *wants* and does not find in memory, reads all of
//! them in one batch, *supplies* them, asks again (an index block leads to data blocks), and then
//! seeks.

use bytes::Bytes;

use crate::error::Result;
use crate::format::entry_location::EntryLocation;
use crate::format::key::Trailer;
use crate::sst::block::BlockRef;
use crate::sst::block_address::BlockAddress;

/// The target of a seek.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// The first entry.
    First,
    /// The last entry.
    Last,
    /// The first entry at or after this internal key.
    AtOrAfter(&'a [u8], Trailer),
    /// The last entry before this internal key.
    Before(&'a [u8], Trailer),
}

/// A position among sorted entries.
pub(crate) trait Cursor {
    /// Moves to `target`; the cursor is not valid when there is no such entry.
    fn seek(&mut self, target: Target<'_>) -> Result<()>;

    /// Moves to the next entry. Must be valid.
    fn next(&mut self) -> Result<()>;

    /// Moves to the previous entry. Must be valid.
    fn prev(&mut self) -> Result<()>;

    /// Whether the cursor is positioned on an entry.
    fn valid(&self) -> bool;

    /// The user key. Must be valid.
    fn user_key(&self) -> &[u8];

    /// Sequence and kind. Must be valid.
    fn trailer(&self) -> Trailer;

    /// The payload. Must be valid.
    fn value(&self) -> &[u8];

    /// The payload for long-term use. Must be valid.
    fn value_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.value())
    }

    /// The location of the entry, if it is in a table. Must be valid.
    fn location(&self) -> Option<EntryLocation> {
        None
    }

    /// Blocks that a seek to `target` and the moves after it need next and that are not in memory;
    /// a block that the seek itself needs comes first.
    fn want(&mut self, _target: Target<'_>) -> Vec<BlockAddress> {
        Vec::new()
    }

    /// Supplies a wanted block; the cursor keeps it until a move has used it or gone past it.
    fn supply(&mut self, _block: BlockRef) {}
}
