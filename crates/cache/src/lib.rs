//! The caches of TideKV: pure data structures with exact byte accounting. They do no I/O, spawn no
//! threads and read no clocks. A cache knows nothing about tables: it sees opaque numbers and
//! charges in bytes.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod sync;
mod secondary_cache;
mod ablation;
mod name;
mod partition;
mod eviction;
mod block;
mod point;
mod ac_key;
mod policy;
mod caches;

pub use ablation::{Ablation, Ablations};
pub use block::filter_worth::{FilterWorth, FilteredLookup};
pub use block::id::{BlockId, BlockTag};
pub use block::shard::InsertReason;
pub use block::stats::{BlockCacheStats, BlockKind, KindStats};
pub use block::{BlockCache, FilterLookup};
pub use caches::{Caches, should_sample_hit};
pub use eviction::Eviction;
pub use eviction::lists::Evicted;
pub use eviction::objects::{Insertion, Objects};
pub use name::Name;
pub use partition::controller::Split;
pub use point::cache::{Change, Epoch, PointCache, PointStats};
pub use point::kp::{ENTRY_BYTES as KP_ENTRY_BYTES, KpEntry, LEVEL_MAX, Pointer};
pub use point::kv::KvEntry;
pub use point::shard::{HashOf, LookupResult, PointCacheLookup, PointReads, PointShard};
pub use policy::{CachePolicy, NoSuchPolicy};
pub use secondary_cache::SecondaryCache;
