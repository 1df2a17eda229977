//! Parts of requests, and the errors shared by all commands, with the messages of memcached.

use bytes::Bytes;

/// The line is invalid.
pub(crate) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
/// Unknown command, or wrong number of words.
pub(crate) const NO_COMMAND: &str = "ERROR";
/// A value is larger than the maximum.
pub(crate) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
/// There is no memory to receive a value.
pub(crate) const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";
/// A value is not followed by a line end.
pub(crate) const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// Bytes of the line end after a value.
pub(crate) const LINE_END_BYTES: u64 = 2;
/// Maximum announced length of a value, accepted or not.
const VALUE_BYTES_MAX: i32 = i32::MAX - 2;

/// Whether a key and a value of these lengths fit into the cache.
pub(crate) type Fits<'a> = &'a dyn Fn(usize, usize) -> bool;

/// Parses the length of a value.
pub(crate) fn value_len(text: &[u8]) -> Option<u32> {
    let len = crate::protocol::numerals::signed_digits_32(text)?;
    (0..=VALUE_BYTES_MAX).contains(&len).then_some(len as u32)
}

/// The mode of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Only if the object has the version of the client.
    Cas,
}

/// A flag that requests a part of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The letter of the flag.
    pub(crate) letter: u8,
    /// The whole word, letter included.
    pub(crate) word: Bytes,
}
