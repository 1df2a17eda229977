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
pub mod kv;
pub mod kp;
pub mod point;
pub mod tide;

pub use block::{BlockCache, BlockCacheStats, BlockId, BlockKind, BlockTag, KindStats};
