//! Sorted tables (SSTs): blocks, filters, readers, builders, and the path from a block handle to
//! bytes in memory.
//!
//! `block` and `filter` are the contents of a table, `table` the file, `file_handles` the files that
//! are open. Every block read goes through `blocks`: block cache first, then one shared read of the secondary tier or of the file.
//! `scan_lengths`, `seeks`, `cold_lookups` and `filter_repair` keep the statistics from which
//! read-ahead, compaction and filter repair decide.
//!
//! Modules are declared bottom-up.

pub(crate) mod scan_lengths;
pub(crate) mod seeks;
pub(crate) mod filter_repair;
pub(crate) mod cold_lookups;
pub(crate) mod filter;
pub(crate) mod block;
pub(crate) mod block_tier;
pub(crate) mod file_handles;
pub(crate) mod block_address;
pub(crate) mod blocks;
pub(crate) mod cursor;
pub(crate) mod table;
