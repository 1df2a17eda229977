//! The caches of TideKV: pure data structures, byte-exact, that do no I/O,
//! spawn no threads and read no clocks. A cache never learns what a table is:
//! it sees opaque numbers and charges in bytes.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod sync;
pub mod lru;
pub mod sketch;
pub mod ghost;
pub mod block;
mod places;
pub mod name;
pub mod kv;
pub mod kp;
pub mod point;
pub mod point_cache;
pub mod tide;
mod policy;
mod caches;

pub use block::{BlockCache, BlockCacheStats, BlockId, BlockKind, BlockTag, KindStats};
pub use caches::Caches;
pub use name::Name;
pub use policy::{CachePolicy, NoSuchPolicy};
