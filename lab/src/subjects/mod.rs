//! The subjects of every build: TideKV's store and its object cache, other indexes on the same
//! flash, caches behind a socket, and the device alone.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod conformance;
pub mod device;
pub mod tidekv;
pub mod tiered;
pub mod indexes;
pub mod served;
pub(crate) mod databases;
pub(crate) mod nothing;
pub mod own;
