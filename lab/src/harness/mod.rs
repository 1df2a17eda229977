//! A turn: a job that one subject runs in a separate process, and its measurement.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub(crate) mod job;
pub(crate) mod replay;
pub(crate) mod corpus;
pub(crate) mod foreground;
pub(crate) mod reclaim;
pub(crate) mod memory;
pub(crate) mod lane;
pub(crate) mod drive;
pub(crate) mod phases;
pub(crate) mod worker;
