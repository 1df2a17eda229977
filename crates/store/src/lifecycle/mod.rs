//! Opening, maintaining and closing a store: looks for dead data, recovery, the handle that users share, and operations
//! on a whole store.
//!
//! Modules are declared bottom-up.

pub(crate) mod reclaim;
pub(crate) mod recovery;
pub(crate) mod flush;
pub(crate) mod compact_range;
pub(crate) mod ingest;
pub(crate) mod keyspaces;
pub(crate) mod checkpoint;
pub(crate) mod statistics;
pub(crate) mod handle;
