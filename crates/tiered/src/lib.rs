//! A cache for objects of any size: the hot ones in DRAM, the rest on flash. Nothing durable
//! is promised, and nothing wrong is ever returned.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod error;
mod options;
mod object;
mod stats;
mod dram;
mod flash;
mod cache;

pub use cache::{Cache, Cursor, Lookup, WouldWait};
pub use error::{Error, ErrorKind, Result};
pub use object::{Change, Deadline, Found, Object};
pub use options::{DRAM_BYTES_MIN, FlashOptions, KEY_BYTES_MAX, Options};
pub use stats::Stats;
pub use tidekv_cache::Eviction;
