//! The caches of TideKV: pure data structures, byte-exact, that do no I/O,
//! spawn no threads and read no clocks. A cache never learns what a table is:
//! it sees opaque numbers and charges in bytes.
//!
//! Today: the block cache, a sharded LRU ([`BlockCache`]). Its interface
//! already carries what adaptive policies decide by: keyspace, table, offset,
//! kind of block and charge.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod sync;
pub mod lru;
pub mod block;

pub use block::{BlockCache, BlockCacheStats, BlockId, BlockKind, BlockTag, KindStats};
