//! A cache for objects of any size: the hot ones in DRAM, the rest on flash. Nothing durable
//! is promised, and nothing wrong is ever returned.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod error;
mod entry;
mod membership;
mod options;
mod object;
mod witness;
mod surroundings;
mod dram;
mod segment;
mod index;
mod stats;
mod device;
mod fleet;
mod tenant;
mod cache;
mod tier;

pub use cache::{Cache, Cursor, Lookup, Recall, WouldWait};
pub use device::read_times::ReadTimes;
pub use device::stats::DeviceCounts;
pub use error::{Error, ErrorKind, Result};
pub use fleet::health::DeviceState;
pub use fleet::seat::DeviceStats;
pub use index::flash_dram::FlashDram;
pub use object::{Change, Deadline, Found, Object};
pub use options::{DRAM_BYTES_MIN, Expiry, FlashOptions, KEY_BYTES_MAX, Options, TenantOptions};
pub use stats::{Stats, TenantStats};
pub use surroundings::Surroundings;
pub use tidekv_cache::{Eviction, Tier};
pub use witness::{Sight, Witness};
