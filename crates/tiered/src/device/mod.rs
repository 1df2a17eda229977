//! A flash device: changes, lookups in steps, maintenance and recovery.
//!
//! Modules are declared bottom-up.

pub(crate) mod stats;
pub(crate) mod read_times;
pub(crate) mod write_budget;
pub(crate) mod small_state;
pub(crate) mod flash_device;
pub(crate) mod locate;
pub(crate) mod small_objects;
pub(crate) mod limit;
pub(crate) mod lookup;
pub(crate) mod upkeep;
pub(crate) mod recovery;
