//! What all indexes of objects are asked: where the object of a key may stand.
//!
//! An index knows fingerprints and places, and no keys. So whoever asks reads the objects of all
//! entries with a fingerprint until one has the key.

use crate::failure::Result;
use crate::load::dice::mix;

/// Bits of a place.
const PLACE_BITS: u32 = 40;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// Asked about a place; whether it is the one that is looked for.
pub(super) type IsIt<'a> = &'a mut dyn FnMut(u64) -> Result<bool>;

/// An index. Any thread may ask it; of those who change it, one at a time does so for a key.
pub(super) trait Index: Send + Sync {
    /// Asks about the places of all entries with the fingerprint of `hash`, until one is the
    /// right one; counts reads of the index on flash.
    fn find(&self, hash: u64, reads: &mut u64, is_it: IsIt<'_>) -> Result<Option<u64>>;

    /// Notes the place `new`, instead of `old` if there is such an entry. Where entries have no
    /// room, those of which `is_alive` says no are given up. `false`: there was no room.
    fn set(
        &self,
        hash: u64,
        old: Option<u64>,
        new: u64,
        is_alive: &dyn Fn(u64) -> bool,
    ) -> Result<bool>;

    /// Removes the entry with this place.
    fn remove(&self, hash: u64, place: u64) -> Result<()>;

    /// Memory that it may take.
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

/// A hash of a key, of which an index takes what it needs.
pub(super) fn hash_of(key: &[u8]) -> u64 {
    key.chunks(8).fold(mix(key.len() as u64), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

/// An entry of eight bytes: a place, and what tells it from others. An entry is never 0.
pub(super) fn entry_of(mark: u64, place: u64) -> u64 {
    (mark << PLACE_BITS) | ((place + 1) & PLACE_MASK)
}

/// What tells an entry from others, and its place; `None`: there is no entry.
pub(super) fn parts_of(entry: u64) -> Option<(u64, u64)> {
    let place = (entry & PLACE_MASK).checked_sub(1)?;
    Some((entry >> PLACE_BITS, place))
}
