//! The one interface through which sorted entries are walked: memtables,
//! tables, levels and merges of them are all cursors.
//!
//! Entries come in internal order (`key.rs`). A cursor that failed stays
//! failed: it is not valid, and every later move returns the error again or
//! fails anew.
//!
//! Seeking in two phases keeps a cold scan at one round trip for all levels:
//! before a seek the caller asks each cursor which blocks it *wants* and does
//! not find in memory, reads all of them in one batch, *supplies* them, asks
//! again (an index block leads to data blocks), and then seeks.

use bytes::Bytes;

use crate::error::Result;
use crate::format::key::Trailer;
use crate::format::places::Place;
use crate::sst::block::BlockRef;
use crate::sst::block_address::BlockAddress;

/// Where a seek goes.
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

    /// Moves to the entry before. Must be valid.
    fn prev(&mut self) -> Result<()>;

    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;

    /// The user key. Must be valid.
    fn user_key(&self) -> &[u8];

    /// Sequence and kind. Must be valid.
    fn trailer(&self) -> Trailer;

    /// The payload. Must be valid.
    fn value(&self) -> &[u8];

    /// The payload, for whoever wants to keep it. Must be valid.
    fn value_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.value())
    }

    /// Where the entry stands, if it is one of a table. Must be valid.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Blocks that a seek to `target` and the moves after it need next and that
    /// are not in memory: if the seek needs one, that one first.
    fn want(&mut self, _target: Target<'_>) -> Vec<BlockAddress> {
        Vec::new()
    }

    /// Hands in a block that was wanted; it is kept until a move has used it or
    /// gone past it.
    fn supply(&mut self, _block: BlockRef) {}
}
