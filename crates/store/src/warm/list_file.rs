//! The head of an optional list that is stored in a file of its own.
//!
//! ```text
//! OFFSET  SIZE     MEANING                                        (little-endian)
//! 0       8        magic: kind and version of the list
//! 8       8        checksum of the rest, seeded with the magic
//! 16      …        the list
//! ```
//!
//! Guarantee: a file that is torn, damaged or of another kind is ignored.

use crate::format::checksum::long_checksum;
use crate::format::coding::Reader;

/// The first bytes of a list of one kind.
pub(crate) type Magic = [u8; 8];

/// Bytes before the list.
pub(crate) const HEAD_BYTES: usize = size_of::<Magic>() + size_of::<u64>();

/// The bytes after the head; `None`: it is not a complete list of this kind.
pub(crate) fn open(magic: Magic, bytes: &[u8]) -> Option<Reader<'_>> {
    let mut reader = Reader::new(bytes);
    let (found, sum) = (reader.take(magic.len())?, reader.u64()?);
    let is_whole = found == magic && sum == checksum(magic, reader.rest());
    is_whole.then_some(reader)
}

/// Writes the head of a list into the space reserved for it.
pub(crate) fn seal(magic: Magic, list: &mut [u8]) {
    let Some((head, body)) = list.split_at_mut_checked(HEAD_BYTES) else { return };
    let sum = checksum(magic, body);
    head[..magic.len()].copy_from_slice(&magic);
    head[magic.len()..].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(magic: Magic, body: &[u8]) -> u64 {
    long_checksum(u64::from_le_bytes(magic), body)
}
