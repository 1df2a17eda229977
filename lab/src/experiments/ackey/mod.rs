//! The experiments `ackey-*`, after AC-Key (Wu et al., ATC 2020): caches with one budget, changing
//! loads, and restarts.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub(crate) mod caches;
pub(crate) mod changing;
pub(crate) mod restart;
