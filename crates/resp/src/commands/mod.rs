//! The functions of the commands, by what they work on. Each is pure but for
//! the [`Execution`](crate::data::execution::Execution) that it is given: it checks
//! its arguments, reads, decides, and writes last.
//!
//! Errors carry Redis's words; those that several commands share stand in
//! [`errors`].

pub(crate) mod command;
pub(crate) mod errors;
pub(crate) mod deadlines;
pub(crate) mod strings;
pub(crate) mod counters;
pub(crate) mod keys;
pub(crate) mod hashes;
pub(crate) mod walks;
pub(crate) mod session;
pub(crate) mod configuration;
pub(crate) mod information;
pub(crate) mod introspection;
pub(crate) mod catalogue;
