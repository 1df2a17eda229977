//! On-disk encodings that every file of a store shares: internal keys, varints, checksums, range
//! tombstones, entry locations and file names.
//!
//! Modules are declared bottom-up.

pub(crate) mod checksum;
pub(crate) mod coding;
pub(crate) mod key;
pub(crate) mod range_tombstones;
pub(crate) mod files;
pub(crate) mod places;

/// Level 0 holds flushed tables, which overlap; levels 1 to 6 are sorted runs.
pub(crate) const LEVELS: usize = 7;
