//! The contents of a flash device, byte by byte: superblock, segments of records, their tables, the
//! log of invalidations, and the state file.
//!
//! Modules are declared bottom-up.

pub(crate) mod ttl;
pub(crate) mod coding;
pub(crate) mod page;
pub(crate) mod bucket;
pub(crate) mod layout;
pub(crate) mod arrangement;
pub(crate) mod parts;
pub(crate) mod superblock;
pub(crate) mod mark;
pub(crate) mod invalidations;
pub(crate) mod record;
pub(crate) mod segment_table;
pub(crate) mod slots;
pub(crate) mod buffer;
pub(crate) mod bucket_segment;
pub(crate) mod state_file;
