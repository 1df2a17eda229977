//! Offline tools over the files of a store: verification, inspection, and entry points for fuzzers.
//!
//! Modules are declared bottom-up.

pub mod inspect;
pub mod check;
pub mod fuzzing;
