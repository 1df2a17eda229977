//! Reads: point lookups through memtables, caches and levels, and merged cursors over all of them.
//!
//! Modules are declared bottom-up.

pub(crate) mod run_cursor;
pub(crate) mod question;
pub(crate) mod point_read;
pub(crate) mod merge;
pub(crate) mod visible;
