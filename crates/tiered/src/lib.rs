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
mod ttl;
mod coding;
mod negative_filter;
mod page;
mod layout;
mod flash_dram;
mod stats;
mod health;
mod rendezvous;
mod routing;
mod parts;
mod write_budget;
mod superblock;
mod mark;
mod invalidations;
mod record;
mod segment_table;
mod slots;
mod segment;
mod hot;
mod partition;
mod replay;
mod device_stats;
mod read_times;
mod device;
mod limit;
mod lookup;
mod upkeep;
mod recovery;
mod state_file;
mod array;
mod seat;
mod flash;
mod flash_lookup;
mod tenants;
mod pool;
mod cache;
mod tier;

pub use cache::{Cache, Cursor, Lookup, Recall, WouldWait};
pub use device_stats::DeviceCounts;
pub use error::{Error, ErrorKind, Result};
pub use flash_dram::FlashDram;
pub use health::DeviceState;
pub use object::{Change, Deadline, Found, Object};
pub use options::{DRAM_BYTES_MIN, Expiry, FlashOptions, KEY_BYTES_MAX, Options, TenantOptions};
pub use read_times::ReadTimes;
pub use seat::DeviceStats;
pub use stats::{Stats, TenantStats};
pub use surroundings::Surroundings;
pub use tidekv_cache::{Eviction, Tier};
pub use witness::{Sight, Witness};
