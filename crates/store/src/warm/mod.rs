//! Warm start: the lists of hot blocks and values that a clean shutdown writes and an open reads
//! back.
//!
//! Modules are declared bottom-up.

pub(crate) mod list_file;
pub(crate) mod hot_list;
pub(crate) mod hottest;
pub(crate) mod repair_list;
pub(crate) mod borrowed_budget;
