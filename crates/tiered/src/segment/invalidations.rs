//! The log of invalidations: which keys have no record on flash any more, written before what
//! made it so is acknowledged.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`)
//! 8       8     number: one more than the invalidation's before it
//! 16      8     sequence of the operation
//! 24      8     the fingerprint (40 bits), above it the partition
//! ```
//!
//! Values on flash: do not change. The log is a ring: number `n` stands in place
//! `n mod places`. Behind the last one stands the log's end, which looks like an invalidation of all
//! ones and has the number that the next one gets: else nobody could notice that the last one is
//! missing. An invalidation is written through the operating system's cache, and the end behind it
//! in the same piece, or after it where the ring begins anew: it survives a killed process whole or
//! was not acknowledged.
//!
//! Guarantees:
//! 1. [`Collection`] gives all invalidations from the first that counts on, in their order, or
//!    says that it cannot: a place that is damaged might be one of them.
//! 2. None that counts is overwritten: [`Invalidations::next`] has none to give when the ring
//!    is full.
//!
//! Pure; [`crate::device::flash_device`] does the writing.

use crate::segment::coding::{Reader, Writer};
use crate::segment::layout::{INVALIDATION_BYTES, Name};

/// The name that an end has.
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

    /// The end of a log whose next invalidation has that number.
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

/// Which part of the ring counts.
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

    /// The number of the next invalidation; none when all places but the end's are taken.
    pub(crate) fn next(&self) -> Option<u64> {
        (self.room() > 0).then_some(self.next)
    }

    /// How many more there is room for.
    pub(crate) fn room(&self) -> u64 {
        self.places - 1 - (self.next - self.first)
    }

    /// The next one has been written.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    /// Those before `first` do not count any more.
    pub(crate) fn cut(&mut self, first: u64) {
        self.first = first.clamp(self.first, self.next);
    }

    /// The number that the next one will have.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }

    /// How much of the ring is taken, in percent.
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
    /// Nothing yet, of those that are from number `first` on.
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

    /// All of them in their order, when the whole ring has been added; none where one of them
    /// may be missing.
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
