//! The index of a flash device: pages on flash, and the part of it that DRAM holds (partitions,
//! filters and locations of the entries of pages, hot entries).
//!
//! Modules are declared bottom-up.

pub(crate) mod bits;
pub(crate) mod ribbon;
pub(crate) mod locator;
pub(crate) mod directory;
pub(crate) mod locations;
pub(crate) mod small_index;
pub(crate) mod flash_dram;
pub(crate) mod hot;
pub(crate) mod partition;
pub(crate) mod replay;
pub(crate) mod small_replay;
