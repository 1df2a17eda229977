//! The state of the tree: the manifest on storage, the tables of each level, and the view that a
//! read takes of memtables and tables.
//!
//! Modules are declared bottom-up.

pub(crate) mod manifest;
pub(crate) mod levels;
pub(crate) mod view;
pub(crate) mod tree;
