//! The experiments, by the paper that they reproduce, and the catalogue of all of them.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub(crate) mod engine;
pub(crate) mod ackey;
pub(crate) mod limit;
pub(crate) mod space;
pub(crate) mod memory;
pub(crate) mod scenario;
pub(crate) mod policy;
mod spotkv;
mod bigkv;
mod elcached;
pub(crate) mod catalogue;
pub(crate) mod sweep;
pub(crate) mod advise;
