//! The commands: what a line asks for, and what is done about it.
//!
//! A file for each kind of command has the request as it was read, how it is read from a line,
//! and how it runs by an `execution`; the `catalogue` has them all.

pub(crate) mod execution;
pub(crate) mod retrieval;
pub(crate) mod storing;
pub(crate) mod removal;
pub(crate) mod arithmetic;
pub(crate) mod meta_reply;
pub(crate) mod meta_get;
pub(crate) mod meta_set;
pub(crate) mod meta_delete;
pub(crate) mod meta_arithmetic;
pub(crate) mod meta_debug;
pub(crate) mod walk;
pub(crate) mod statistics;
pub(crate) mod service;
pub(crate) mod catalogue;
