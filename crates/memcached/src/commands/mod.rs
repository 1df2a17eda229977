//! The commands: their requests, parsing and execution.
//!
//! Each kind of command has a file with its request, its parser, and its execution over an
//! `execution`; the `catalogue` lists all of them.

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
pub(crate) mod statistic_lists;
pub(crate) mod detail;
pub(crate) mod statistics;
pub(crate) mod service;
pub(crate) mod binary;
pub(crate) mod binary_execution;
pub(crate) mod catalogue;
