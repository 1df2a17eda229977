//! The interface of all indexes of objects: the candidate locations of a key's object.
//!
//! An index stores fingerprints and locations, not keys. So the caller reads the objects of all
//! entries with a fingerprint until one has the key.

use crate::failure::Result;
use crate::load::dice::mix;

/// Bits of a place.
const PLACE_BITS: u32 = 40;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// Checks a location; whether it is the right one.
pub(super) type IsIt<'a> = &'a mut dyn FnMut(u64) -> Result<bool>;

/// An index. Any thread may read it; only one thread at a time changes the entries of a key.
pub(super) trait Index: Send + Sync {
    /// Checks the locations of all entries with the fingerprint of `hash`, until one is the right
    /// one; counts reads of the index on flash.
    fn find(&self, hash: u64, reads: &mut u64, is_it: IsIt<'_>) -> Result<Option<u64>>;

    /// Stores the location `new`, and replaces the entry of `old` if it exists. If there is no room
    /// for entries, those for which `is_alive` is false are removed. `false`: there was no room.
    fn set(
        &self,
        hash: u64,
        old: Option<u64>,
        new: u64,
        is_alive: &dyn Fn(u64) -> bool,
    ) -> Result<bool>;

    /// Removes the entry with this place.
    fn remove(&self, hash: u64, place: u64) -> Result<()>;

    /// Its memory limit.
    fn memory_bytes(&self) -> u64;

    /// Reads of the index on flash, and bytes of them.
    fn reads(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Bytes of the index that were written to flash.
    fn written_bytes(&self) -> u64 {
        0
    }
}

/// A hash of a key, of which an index takes the bits it needs.
pub(super) fn hash_of(key: &[u8]) -> u64 {
    key.chunks(8).fold(mix(key.len() as u64), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

/// An entry of eight bytes: a location, and the bits that distinguish it from others. An entry is
/// never 0.
pub(super) fn entry_of(mark: u64, place: u64) -> u64 {
    (mark << PLACE_BITS) | ((place + 1) & PLACE_MASK)
}

/// The distinguishing bits of an entry, and its location; `None`: no entry.
pub(super) fn parts_of(entry: u64) -> Option<(u64, u64)> {
    let place = (entry & PLACE_MASK).checked_sub(1)?;
    Some((entry >> PLACE_BITS, place))
}
