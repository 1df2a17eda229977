//! All flash devices of a cache: health, placement by rendezvous hashing, and lookups over devices
//! and parts of objects.
//!
//! Modules are declared bottom-up.

pub(crate) mod health;
pub(crate) mod rendezvous;
pub(crate) mod routing;
pub(crate) mod array;
pub(crate) mod device_slot;
pub(crate) mod copy_location;
pub(crate) mod flash;
pub(crate) mod flash_lookup;
