//! A cache for objects of any size: hot objects in DRAM, the rest on flash. It promises no
//! durability and never returns a wrong object.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod error;
mod entry;
mod membership;
mod options;
mod object;
mod access_observer;
mod environment;
mod dram;
mod segment;
mod index;
mod stats;
mod device;
mod fleet;
mod tenant;
mod cache;
mod secondary_cache;

pub use access_observer::{Access, AccessObserver};
pub use cache::{Cache, Cursor, Lookup, PendingRead, WouldBlock};
pub use device::read_times::ReadTimes;
pub use device::stats::DeviceCounts;
pub use environment::Environment;
pub use error::{Error, ErrorKind, Result};
pub use fleet::device_slot::DeviceStats;
pub use fleet::health::DeviceState;
pub use index::flash_dram::FlashDram;
pub use object::{CachedObject, Change, Deadline, Object};
pub use options::{DRAM_BYTES_MIN, Expiry, FlashOptions, KEY_BYTES_MAX, Options, TenantOptions};
pub use stats::{Stats, TenantStats};
pub use tenant::scaled_dram::ScaledDram;
pub use tidekv_cache::{Eviction, SecondaryCache};
