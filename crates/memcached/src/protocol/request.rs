//! What comes of the line of a request, and the errors that all commands share, in memcached's
//! words.

use bytes::Bytes;

/// The line cannot be understood.
pub(crate) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
/// There is no such command, or not with so many words.
pub(crate) const NO_COMMAND: &str = "ERROR";
/// A value is larger than any object may be.
pub(crate) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
/// There is no room for a value until it is whole.
pub(crate) const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";
/// Behind a value comes something else than its line end.
pub(crate) const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// Behind a value is a line end.
pub(crate) const LINE_END_BYTES: u64 = 2;
/// Most bytes that a client may say a value has, whether it is taken or not.
const VALUE_BYTES_MAX: i32 = i32::MAX - 2;

/// The length of a value, as a client gives it.
pub(crate) fn value_len(text: &[u8]) -> Option<u32> {
    let len = crate::protocol::numerals::signed_32(text)?;
    (0..=VALUE_BYTES_MAX).contains(&len).then_some(len as u32)
}

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Only over the version that the client knows.
    Cas,
}

/// A reply that the meta commands make of what they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The letter of the flag.
    pub(crate) letter: u8,
    /// The whole word, letter included.
    pub(crate) word: Bytes,
}
