//! A run: its directories, the turns that it has done already, the rows that turns become.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub(crate) mod place;
pub(crate) mod turn;
pub(crate) mod splits;
pub(crate) mod summary;
pub(crate) mod runner;
pub(crate) mod workload_source;
