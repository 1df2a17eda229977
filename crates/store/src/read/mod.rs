//! Reads: point lookups through memtables, caches and levels, and merged cursors over all of them.
//!
//! Modules are declared bottom-up.

pub(crate) mod run_cursor;
pub(crate) mod read_context;
pub(crate) mod point_lookup;
pub(crate) mod begin_read;
pub(crate) mod point_read;
pub(crate) mod merge;
pub(crate) mod visible;
