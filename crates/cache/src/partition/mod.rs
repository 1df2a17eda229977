//! Adaptive partitioning of one memory budget between key-value entries, key-pointer entries and
//! blocks: frequency sketches and ghosts measure the storage reads that more memory would save, and
//! the controller moves the boundaries.
//!
//! Modules are declared bottom-up.

pub(crate) mod sketch;
pub(crate) mod ghost;
pub mod controller;
