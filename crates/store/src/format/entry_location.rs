//! Locations of entries in tables, and their new locations when tables are rewritten: the input
//! that keeps pointers of the point cache correct.

use tidekv_cache::Pointer;

/// The location of an entry in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EntryLocation {
    pub(crate) table: u64,
    /// The offset of its block in the table.
    pub(crate) offset: u64,
    /// The number of entries before it in the block.
    pub(crate) position: u32,
    /// The number of entries in the block.
    pub(crate) entries: u32,
}

/// An entry that is being written and that a pointer refers to, or should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The hash that identifies the pointer.
    pub(crate) hash: u64,
    /// The pointer's expected value if it refers to this entry; `None`: this entry is newer than
    /// any pointer.
    pub(crate) from: Option<Pointer>,
}

/// A tagged entry after it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RelocatedEntry {
    pub(crate) tag: Tag,
    pub(crate) to: Pointer,
}
