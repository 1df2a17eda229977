//! The functions of the commands, by type of data. Each is pure except for its
//! [`Execution`](crate::data::execution::Execution): it checks its arguments, reads, decides, and
//! writes last.
//!
//! Errors have the messages of Redis; those shared by several commands are in [`errors`].

pub(crate) mod command;
pub(crate) mod errors;
pub(crate) mod deadlines;
pub(crate) mod strings;
pub(crate) mod counters;
pub(crate) mod keys;
pub(crate) mod hashes;
pub(crate) mod walks;
pub(crate) mod persistence;
pub(crate) mod bits;
pub(crate) mod bitfields;
pub(crate) mod lcs;
pub(crate) mod redis_parameters;
pub(crate) mod objects;
pub(crate) mod clients;
pub(crate) mod session;
pub(crate) mod diagnostics;
pub(crate) mod configuration;
pub(crate) mod information;
pub(crate) mod introspection;
pub(crate) mod catalogue;
