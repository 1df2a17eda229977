//! Tables: immutable, sorted files of entries. `format` defines the layout of the file, `block.rs`
//! that of its blocks.
//!
//! A table is written once, front to back ([`TableBuilder`]), opened ([`Table`]), searched for
//! single keys ([`TableProbe`]), scanned ([`TableCursor`]), and checked ([`check()`]).
//!
//! Guarantees:
//! 1. Reading a file with any content ends in an error or in data whose checksums agree; never in a
//!    panic, nor in more memory than the file justifies.
//! 2. Index and filter are cut into partitions at the same keys; an open table keeps only the
//!    separators of its partitions in memory.
//! 3. With all blocks in memory, a lookup reads one line of a filter or two buckets, searches three
//!    blocks, and allocates nothing.
//!
//! Modules, bottom-up.

mod deadlines;
mod properties;
mod format;
mod builder;
mod reader;
mod probe;
mod fetch;
mod cursor;
mod repair;
mod check;
mod fix_checksums;
#[cfg(test)]
mod tests;

pub(crate) use builder::{Built, EntryHeat, HEAT_MIN, TABLE_ALIGNMENT, TableBuilder, TableOptions};
pub(crate) use check::{check, describe};
pub(crate) use cursor::TableCursor;
pub(crate) use fetch::Reading;
pub(crate) use fix_checksums::{fix_checksums, parts_round_trip};
pub(crate) use probe::{Found, Step, TableProbe};
pub(crate) use properties::TableProperties;
pub(crate) use reader::Table;
pub(crate) use repair::RepairOutcome;
