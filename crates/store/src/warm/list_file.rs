//! The head of a list in a file of its own, which is of use and which nobody needs.
//!
//! ```text
//! OFFSET  SIZE     MEANING                                        (little-endian)
//! 0       8        magic: which list it is, and of which version
//! 8       8        checksum of what follows, seeded with the magic
//! 16      …        the list
//! ```
//!
//! Guarantee: a file that is torn, damaged or of another kind is none.

use crate::format::checksum::long_checksum;
use crate::format::coding::Reader;

/// The first bytes of a list of one kind.
pub(crate) type Magic = [u8; 8];

/// Bytes in front of the list.
pub(crate) const HEAD_BYTES: usize = size_of::<Magic>() + size_of::<u64>();

/// What follows the head; `None`: it is no whole list of this kind.
pub(crate) fn open(magic: Magic, bytes: &[u8]) -> Option<Reader<'_>> {
    let mut reader = Reader::new(bytes);
    let (found, sum) = (reader.take(magic.len())?, reader.u64()?);
    let is_whole = found == magic && sum == checksum(magic, reader.rest());
    is_whole.then_some(reader)
}

/// Puts a head in front of a list, for which there is room.
pub(crate) fn seal(magic: Magic, list: &mut [u8]) {
    let Some((head, body)) = list.split_at_mut_checked(HEAD_BYTES) else { return };
    let sum = checksum(magic, body);
    head[..magic.len()].copy_from_slice(&magic);
    head[magic.len()..].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(magic: Magic, body: &[u8]) -> u64 {
    long_checksum(u64::from_le_bytes(magic), body)
}
