//! Eviction orders over intrusive lists, bounded in bytes: LRU, CLOCK, S3-FIFO, GreedyDual and the
//! efficiency-aware LRU of AC-Key.
//!
//! Modules are declared bottom-up.

pub(crate) mod places;
pub(crate) mod lists;
pub(crate) mod elru;
pub(crate) mod ghost_list;
pub(crate) mod lru;
pub(crate) mod clock;
pub(crate) mod s3_fifo;
pub(crate) mod greedy_dual;
pub(crate) mod order;
pub(crate) mod objects;

pub use order::Eviction;
