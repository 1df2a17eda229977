//! Where entries stand in tables, and where they come to stand when tables are written:
//! what pointers of the point cache are kept right by.

use tidekv_cache::Pointer;

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) table: u64,
    /// Where its block begins.
    pub(crate) offset: u64,
    /// Entries before it in the block.
    pub(crate) position: u32,
    /// Entries of the block.
    pub(crate) entries: u32,
}

/// An entry that is being written and that a pointer leads to, or should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    /// What the pointer is found by.
    pub(crate) hash: u64,
    /// What the pointer must be if it is about this entry; `None`: whatever it is, this
    /// entry is newer.
    pub(crate) from: Option<Pointer>,
}

/// A tagged entry that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) tag: Tag,
    pub(crate) to: Pointer,
}
