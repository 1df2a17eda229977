//! The caches of TideKV: pure data structures, byte-exact, that do no I/O,
//! spawn no threads and read no clocks. A cache never learns what a table is:
//! it sees opaque numbers and charges in bytes.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod sync;
mod tier;
mod ideas;
mod lists;
mod lru;
mod sketch;
mod ghost;
mod places;
mod elru;
mod ghost_list;
mod clock;
mod s3_fifo;
mod greedy_dual;
mod eviction;
mod objects;
mod earc;
mod filter_worth;
mod block_stats;
mod block_id;
mod block_admission;
mod block_shard;
mod block;
mod name;
pub mod kv;
pub mod kp;
pub mod point;
mod hac;
mod entries;
pub mod point_cache;
pub mod tide;
mod turnoff;
mod policy;
mod hac_controller;
mod caches;

pub use block::{BlockCache, Look};
pub use block_id::{BlockId, BlockTag};
pub use block_shard::Arrival;
pub use block_stats::{BlockCacheStats, BlockKind, KindStats};
pub use caches::{Caches, is_memory_lesson};
pub use eviction::Eviction;
pub use filter_worth::{FilterWorth, FilteredLookup};
pub use ideas::{Idea, Ideas};
pub use lists::Removed;
pub use name::Name;
pub use objects::{Insertion, Objects};
pub use policy::{CachePolicy, NoSuchPolicy};
pub use tier::Tier;
