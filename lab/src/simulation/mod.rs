//! Cache policies without an engine: over a modelled tree, beside the least reads that any policy
//! could do with and beside a cache that knows what comes.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod modelled_tree;
pub mod simulator;
mod modelled_trace;
pub mod bound;
pub mod foresight;
