//! The load: seeded random numbers, keys, values, and the operations on them.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub(crate) mod dice;
pub mod keys;
pub mod values;
pub mod workload;
