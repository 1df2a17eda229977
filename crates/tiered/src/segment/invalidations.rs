//! The log of invalidations: names that no longer have a record on flash, logged before the
//! operation is acknowledged.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`)
//! 8       8     number: one more than the previous invalidation's
//! 16      8     sequence of the operation
//! 24      8     the fingerprint (40 bits), above it the partition
//! ```
//!
//! Values on flash: do not change. The log is a ring: number `n` is in place `n mod places`. After
//! the last invalidation comes an end mark, which has the form of an invalidation of all ones and
//! the number of the next one: else a missing last invalidation would go unnoticed. An invalidation
//! is written through the operating system's cache, and the end mark after it in the same write, or
//! in a later one where the ring wraps: after a kill it is whole, or it was not acknowledged.
//!
//! Guarantees:
//! 1. [`Collection`] returns all invalidations from the first that counts on, in their order, or
//!    fails: a damaged place might be one of them.
//! 2. None that counts is overwritten: [`Invalidations::next`] returns `None` when the ring is
//!    full.
//!
//! Pure; [`crate::device::flash_device`] does the writing.

use crate::segment::coding::{Reader, Writer};
use crate::segment::layout::{INVALIDATION_BYTES, Name};

/// The name in an end mark.
const END: u64 = u64::MAX;

/// One invalidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invalidation {
    pub(crate) number: u64,
    pub(crate) sequence: u64,
    pub(crate) name: Name,
}

impl Invalidation {
    pub(crate) fn encode(&self, device: u64) -> [u8; INVALIDATION_BYTES] {
        let (number, sequence) = (self.number, self.sequence);
        Writer::new().u64(number).u64(sequence).u64(self.name.number()).seal(device)
    }

    /// The end mark of a log whose next invalidation has that number.
    pub(crate) fn end(number: u64, device: u64) -> [u8; INVALIDATION_BYTES] {
        Writer::new().u64(number).u64(0).u64(END).seal(device)
    }

    fn is_end(&self) -> bool {
        // No operation has sequence 0.
        self.sequence == 0 && self.name == Name::from_number(END)
    }

    fn decode(bytes: &[u8], device: u64) -> Option<Self> {
        let mut reader = Reader::open(bytes, device)?;
        let (number, sequence) = (reader.u64(), reader.u64());
        Some(Self { number, sequence, name: Name::from_number(reader.u64()) })
    }
}

/// The part of the ring that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invalidations {
    places: u64,
    first: u64,
    next: u64,
}

impl Invalidations {
    /// A ring in which numbers from `first` to before `next` count.
    pub(crate) fn new(places: u32, first: u64, next: u64) -> Self {
        Self { places: places.into(), first, next }
    }

    /// The number of the next invalidation; `None` when all places but the end mark's are taken.
    pub(crate) fn next(&self) -> Option<u64> {
        (self.room() > 0).then_some(self.next)
    }

    /// The free places.
    pub(crate) fn room(&self) -> u64 {
        self.places - 1 - (self.next - self.first)
    }

    /// Counts the next one as written.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    /// Frees the places of numbers before `first`.
    pub(crate) fn cut(&mut self, first: u64) {
        self.first = first.clamp(self.first, self.next);
    }

    /// The number of the next one.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }

    /// The fill of the ring, in percent.
    pub(crate) fn percent_full(&self) -> u64 {
        (self.next - self.first) * 100 / self.places
    }
}

/// The invalidations of a ring, piece by piece.
#[derive(Debug)]
pub(crate) struct Collection {
    device: u64,
    first: u64,
    found: Vec<Invalidation>,
    is_damaged: bool,
}

impl Collection {
    /// An empty collection of the invalidations from number `first` on.
    pub(crate) fn new(device: u64, first: u64) -> Self {
        Self { device, first, found: Vec::new(), is_damaged: false }
    }

    /// Adds a piece of the ring, of whole places.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        for place in piece.chunks_exact(INVALIDATION_BYTES) {
            match Invalidation::decode(place, self.device) {
                Some(invalidation) if invalidation.number >= self.first => {
                    self.found.push(invalidation);
                }
                Some(_) => {}
                None => self.is_damaged |= place.iter().any(|byte| *byte != 0),
            }
        }
    }

    /// All of them in their order, once the whole ring has been added; `None` if one may be
    /// missing.
    pub(crate) fn finish(mut self) -> Option<Vec<Invalidation>> {
        self.found.sort_unstable_by_key(|invalidation| invalidation.number);
        let mut numbers = (self.first..).zip(&self.found);
        let is_whole = numbers.all(|(number, invalidation)| invalidation.number == number);
        let end = self.found.pop().filter(Invalidation::is_end);
        let has_one_end = end.is_some() && !self.found.iter().any(Invalidation::is_end);
        (is_whole && has_one_end && !self.is_damaged).then_some(self.found)
    }
}

#[cfg(test)]
mod tests;
