//! The memcached protocol: as text, numbers, words of a line, expiry times, flags of the meta
//! commands, and requests; as binary, frames.

pub(crate) mod numerals;
pub(crate) mod words;
pub(crate) mod expiry;
pub(crate) mod request;
pub(crate) mod flags;
pub(crate) mod binary;
