//! The directory of a segment on flash, in DRAM: the offset and length of the record in each place,
//! and which records are current.
//!
//! If all records have the same length, only that length is stored. Otherwise lengths are packed
//! into as many bits as the longest needs, and every sixteenth offset is stored.
//!
//! A record is *current* while the index has its location ([`crate::index::locations`] says why this
//! is needed).
//!
//! Pure; for all threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::entry::{RecordLocation, SegmentId, UNIT_BYTES};
use crate::index::bits::Bits;

/// Places between two stored offsets.
const STRIDE: usize = 16;

/// The records of a segment.
#[derive(Debug)]
pub(crate) struct Directory {
    id: SegmentId,
    records: u32,
    lens: Lens,
    current: Box<[AtomicU64]>,
}

/// Lengths of records, in units.
#[derive(Debug)]
enum Lens {
    Equal(u32),
    Mixed { lens: Bits, width: u32, offsets: Box<[u32]> },
}

impl Directory {
    /// The directory of a segment whose records have these lengths in bytes, by place. No record is
    /// current.
    pub(crate) fn of(id: SegmentId, lens: impl ExactSizeIterator<Item = u32> + Clone) -> Self {
        let records = lens.len();
        let units = lens.map(|len| len / UNIT_BYTES as u32);
        let longest = units.clone().max().unwrap_or(0);
        let lens = match units.clone().all(|len| len == longest) {
            true => Lens::Equal(longest),
            false => {
                let width = u32::BITS - longest.leading_zeros();
                let mut lens = Bits::zeros(0);
                let mut offsets = Vec::with_capacity(records.div_ceil(STRIDE));
                let mut offset = 0;
                for (place, len) in units.enumerate() {
                    if place.is_multiple_of(STRIDE) {
                        offsets.push(offset);
                    }
                    lens.push(width, len.into());
                    offset += len;
                }
                lens.shrink();
                Lens::Mixed { lens, width, offsets: offsets.into() }
            }
        };
        Self::with(id, records, lens)
    }

    /// The directory of a segment with `records` records of `record_bytes` each. No record is current.
    pub(crate) fn of_equal(id: SegmentId, records: u32, record_bytes: u32) -> Self {
        Self::with(id, records as usize, Lens::Equal(record_bytes / UNIT_BYTES as u32))
    }

    fn with(id: SegmentId, records: usize, lens: Lens) -> Self {
        let current = (0..records.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { id, records: records as u32, lens, current }
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }

    /// The number of records, which is also the number of places.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// The location of the record in a place.
    pub(crate) fn location(&self, place: u32) -> Option<RecordLocation> {
        let (offset, len) = match &self.lens {
            _ if place >= self.records => return None,
            Lens::Equal(len) => (len * place, *len),
            Lens::Mixed { lens, width, offsets } => {
                let len = |place: usize| lens.get(place * *width as usize, *width) as u32;
                let place = place as usize;
                let first = place / STRIDE * STRIDE;
                let before: u32 = (first..place).map(len).sum();
                (offsets[place / STRIDE] + before, len(place))
            }
        };
        let bytes = |units: u32| units * UNIT_BYTES as u32;
        Some(RecordLocation {
            slot: self.id.slot,
            generation: self.id.generation as u16,
            offset: bytes(offset),
            len: bytes(len),
            is_in_buffer: false,
        })
    }

    /// The place of the record at a location; `None` if no record of this segment is there.
    pub(crate) fn place(&self, location: RecordLocation) -> Option<u32> {
        if !location.is_in(self.id) || location.is_in_buffer {
            return None;
        }
        let units = location.offset / UNIT_BYTES as u32;
        let place = match &self.lens {
            Lens::Equal(len) => units.checked_div(*len)?,
            Lens::Mixed { lens, width, offsets } => {
                let group = offsets.partition_point(|offset| *offset <= units).checked_sub(1)?;
                let (mut place, mut at) = (group * STRIDE, offsets[group]);
                while at < units && place < self.records as usize {
                    at += lens.get(place * *width as usize, *width) as u32;
                    place += 1;
                }
                place as u32
            }
        };
        (self.location(place) == Some(location)).then_some(place)
    }

    /// Whether the record in a place is current.
    pub(crate) fn is_current(&self, place: u32) -> bool {
        let word = self.current.get(place as usize / 64).map(|word| word.load(Ordering::Acquire));
        word.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Marks the record at a location as current or not; returns whether there is one.
    pub(crate) fn set_current(&self, location: RecordLocation, is_current: bool) -> bool {
        let Some(place) = self.place(location) else { return false };
        let (word, bit) = (&self.current[place as usize / 64], 1 << (place % 64));
        match is_current {
            true => word.fetch_or(bit, Ordering::AcqRel),
            false => word.fetch_and(!bit, Ordering::AcqRel),
        };
        true
    }

    /// Marks all records as not current.
    pub(crate) fn forget_current(&self) {
        self.current.iter().for_each(|word| word.store(0, Ordering::Release));
    }

    /// Its heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lens = match &self.lens {
            Lens::Equal(_) => 0,
            Lens::Mixed { lens, offsets, .. } => lens.memory_bytes() + size_of_val(&**offsets),
        };
        lens + size_of_val(&*self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SegmentId = SegmentId { slot: 3, generation: 70_000 };

    fn check(lens: &[u32]) {
        let directory = Directory::of(ID, lens.iter().copied());
        let mut offset = 0;
        for (place, len) in (0_u32..).zip(lens) {
            let location = directory.location(place).expect("there is one");
            assert_eq!((location.offset, location.len), (offset, *len));
            assert!(location.is_in(ID));
            assert_eq!(directory.place(location), Some(place));
            // No record begins there, or it is not this long, or it is in another segment.
            assert_eq!(directory.place(RecordLocation { offset: offset + 64, ..location }), None);
            assert_eq!(directory.place(RecordLocation { len: len + 64, ..location }), None);
            assert_eq!(directory.place(RecordLocation { generation: 1, ..location }), None);
            assert_eq!(directory.place(RecordLocation { is_in_buffer: true, ..location }), None);
            offset += len;
        }
        assert_eq!(directory.location(lens.len() as u32), None);
    }

    #[test]
    fn records_are_located_whether_or_not_their_lengths_differ() {
        check(&[4_160; 100]);
        check(&(0..100_u32).map(|n| 128 + n * n % 77 * 64).collect::<Vec<_>>());
        check(&[128]);
        check(&[]);
        check(&[128, 1 << 20, 128]);
        assert!(Directory::of(ID, [4_160; 100].into_iter()).memory_bytes() <= 16);
    }

    #[test]
    fn records_are_current_until_they_are_not() {
        let directory = Directory::of_equal(ID, 100, 256);
        let location = |place| directory.location(place).expect("there is one");
        assert!(!directory.is_current(70));
        assert!(directory.set_current(location(70), true));
        assert!(directory.is_current(70) && !directory.is_current(71));
        let other = RecordLocation { generation: 1, ..location(70) };
        assert!(!directory.set_current(other, false) && directory.is_current(70));
        assert!(directory.set_current(location(70), false) && !directory.is_current(70));
        directory.set_current(location(5), true);
        directory.forget_current();
        assert!(!directory.is_current(5) && !directory.is_current(100_000));
    }
}
