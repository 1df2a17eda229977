//! A run: its directories, its completed turns, and the rows made from turns.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub(crate) mod place;
pub(crate) mod turn;
pub(crate) mod splits;
pub(crate) mod summary;
pub(crate) mod runner;
pub(crate) mod workload_source;
