//! AC-Key as the paper describes it (Wu et al., "AC-Key: Adaptive Caching for LSM-based Key-Value
//! Stores", USENIX ATC 2020): the baseline of `--cache-policy ac-key`.
//!
//! The rest of the crate reaches it through two traits, [`PointEntries`](crate::point::entries::PointEntries)
//! and [`BlockGhost`](crate::block::admission::BlockGhost), so that no hot path names it.
//!
//! Modules are declared bottom-up.

pub(crate) mod earc;
pub(crate) mod departed;
pub(crate) mod shard;
pub(crate) mod entries;
pub(crate) mod turnoff;
pub(crate) mod controller;
