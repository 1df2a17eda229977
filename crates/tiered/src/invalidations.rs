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
//! `n mod places`. An invalidation is written through the operating system's cache and in one
//! piece: it survives a killed process whole or was not acknowledged.
//!
//! Guarantees:
//! 1. [`Collection`] gives all invalidations from the first that counts on, in their order, or
//!    says that it cannot: a place that is damaged might be one of them.
//! 2. None that counts is overwritten: [`Invalidations::next`] has none to give when the ring
//!    is full.
//!
//! Pure; [`crate::device`] does the writing.

use crate::coding::{Reader, Writer};
use crate::layout::{INVALIDATION_BYTES, Name};

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

    /// The number of the next invalidation; none when all places are taken.
    pub(crate) fn next(&self) -> Option<u64> {
        (self.next - self.first < self.places).then_some(self.next)
    }

    /// How many more there is room for.
    pub(crate) fn room(&self) -> u64 {
        self.places - (self.next - self.first)
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
        (is_whole && !self.is_damaged).then_some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 8;

    /// A ring after `count` invalidations.
    fn ring(count: u64) -> Vec<u8> {
        let mut ring = vec![0; PLACES * INVALIDATION_BYTES];
        for number in 0..count {
            let at = number as usize % PLACES * INVALIDATION_BYTES;
            let name = Name { partition: 9, fingerprint: number << 30 };
            let invalidation = Invalidation { number, sequence: number * 3, name };
            ring[at..at + INVALIDATION_BYTES].copy_from_slice(&invalidation.encode(7));
        }
        ring
    }

    /// What is found in a ring that is read in two pieces.
    fn collect(ring: &[u8], device: u64, first: u64) -> Option<Vec<Invalidation>> {
        let mut collection = Collection::new(device, first);
        let (front, back) = ring.split_at(3 * INVALIDATION_BYTES);
        collection.add(front);
        collection.add(back);
        collection.finish()
    }

    fn numbers(found: Option<Vec<Invalidation>>) -> Option<Vec<u64>> {
        found.map(|found| found.iter().map(|invalidation| invalidation.number).collect())
    }

    #[test]
    fn all_that_count_are_found_in_their_order() {
        let last = collect(&ring(3), 7, 0).and_then(|mut found| found.pop());
        let name = Name { partition: 9, fingerprint: 2 << 30 };
        assert_eq!(last, Some(Invalidation { number: 2, sequence: 6, name }));
        assert_eq!(numbers(collect(&ring(0), 7, 0)), Some(vec![]));
        assert_eq!(numbers(collect(&ring(3), 7, 0)), Some(vec![0, 1, 2]));
        assert_eq!(numbers(collect(&ring(13), 7, 10)), Some(vec![10, 11, 12]));
        assert_eq!(numbers(collect(&ring(13), 7, 13)), Some(vec![]));
    }

    #[test]
    fn one_that_is_missing_or_damaged_is_noticed() {
        for damaged in 0..PLACES * INVALIDATION_BYTES {
            let mut ring = ring(13);
            ring[damaged] ^= 1;
            assert_eq!(collect(&ring, 7, 6), None, "byte {damaged}");
        }
        let mut hole = ring(5);
        hole[2 * INVALIDATION_BYTES..3 * INVALIDATION_BYTES].fill(0);
        assert_eq!(collect(&hole, 7, 0), None);
        // Overwritten by the next round.
        assert_eq!(collect(&ring(13), 7, 4), None);
    }

    #[test]
    fn a_full_ring_gives_no_place() {
        let mut ring = Invalidations::new(PLACES as u32, 0, 0);
        for number in 0..PLACES as u64 {
            assert_eq!(ring.next(), Some(number));
            ring.advance();
        }
        assert_eq!((ring.next(), ring.percent_full()), (None, 100));
        ring.cut(3);
        assert_eq!((ring.next(), ring.percent_full()), (Some(8), 62));
        ring.cut(100);
        assert_eq!((ring.next(), ring.end()), (Some(8), 8));
    }
}
