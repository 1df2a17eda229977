//! Cache policies without an engine: over a modelled tree, compared with the fewest reads of any
//! policy and with a cache that knows the future.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod modelled_tree;
pub mod simulator;
mod modelled_trace;
pub mod bound;
pub mod foresight;
