//! An entry of the flash index: sixteen bytes, in DRAM and in pages on flash.
//!
//! ```text
//! BITS       MEANING
//! 0..40      fingerprint of the key
//! 40..60     slot of the segment
//! 60..76     lower bits of the slot's generation, which rises whenever the slot is freed
//! 76..94     offset of the record in the segment, in units of 64 bytes
//! 94..112    length of the record, in units of 64 bytes
//! 112..114   kind: 0 nothing, 1 record, 2 tombstone
//! 114        accessed recently (in DRAM only)
//! 115        the offset is one in the write buffer (in DRAM only)
//! ```
//!
//! Values on flash: do not change. Pure.

/// Alignment of records, in bytes.
pub(crate) const UNIT_BYTES: usize = 64;
/// Length of the header in front of key and value.
pub(crate) const RECORD_HEADER_BYTES: usize = 64;
/// The largest segment, in bytes.
pub(crate) const SEGMENT_BYTES_MAX: usize = UNIT_BYTES << 18;
/// The most slots of a device.
pub(crate) const SLOTS_MAX: u32 = 1 << 20;
/// The most bits of a fingerprint.
pub(crate) const FINGERPRINT_BITS_MAX: u32 = 40;

const SLOT: u32 = 40;
const GENERATION: u32 = 60;
const OFFSET: u32 = 76;
const LEN: u32 = 94;
const KIND: u32 = 112;
const ACCESSED: u128 = 1 << 114;
const IN_BUFFER: u128 = 1 << 115;

/// A slot, and the generation of the segment in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SegmentId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    pub(crate) slot: u32,
    /// The lower sixteen bits of the generation.
    pub(crate) generation: u16,
    /// Offset from the segment's start, in bytes.
    pub(crate) offset: u32,
    /// The record's length with its padding, in bytes.
    pub(crate) len: u32,
    /// Whether the offset is that in the write buffer: on flash, records have another order.
    pub(crate) is_in_buffer: bool,
}

impl RecordLocation {
    /// Whether the record is in this segment (or in one 65 536 generations away).
    pub(crate) fn is_in(&self, segment: SegmentId) -> bool {
        self.slot == segment.slot && self.generation == segment.generation as u16
    }
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry(u128);

impl Entry {
    /// No entry.
    pub(crate) const NOTHING: Self = Self(0);

    /// An entry for a record with this fingerprint.
    pub(crate) fn record(fingerprint: u64, location: RecordLocation) -> Self {
        debug_assert!(location.slot < SLOTS_MAX && fingerprint >> FINGERPRINT_BITS_MAX == 0);
        debug_assert!(
            (location.offset as usize).is_multiple_of(UNIT_BYTES)
                && (location.len as usize).is_multiple_of(UNIT_BYTES)
        );
        let units = |bytes: u32| u128::from(bytes / UNIT_BYTES as u32);
        Self(
            u128::from(fingerprint)
                | u128::from(location.slot) << SLOT
                | u128::from(location.generation) << GENERATION
                | units(location.offset) << OFFSET
                | units(location.len) << LEN
                | if location.is_in_buffer { IN_BUFFER } else { 0 }
                | 1 << KIND,
        )
    }

    /// A tombstone: no record has this fingerprint, whatever older entries say.
    pub(crate) fn tombstone(fingerprint: u64) -> Self {
        Self(u128::from(fingerprint) | 2 << KIND)
    }

    pub(crate) fn is_nothing(self) -> bool {
        self.0 >> KIND & 3 == 0
    }

    pub(crate) fn fingerprint(self) -> u64 {
        self.0 as u64 & ((1 << FINGERPRINT_BITS_MAX) - 1)
    }

    /// The record's location, unless the entry is a tombstone.
    pub(crate) fn location(self) -> Option<RecordLocation> {
        let field = |at: u32, bits: u32| (self.0 >> at) as u32 & ((1 << bits) - 1);
        (self.0 >> KIND & 3 == 1).then(|| RecordLocation {
            slot: field(SLOT, 20),
            generation: field(GENERATION, 16) as u16,
            offset: field(OFFSET, 18) * UNIT_BYTES as u32,
            len: field(LEN, 18) * UNIT_BYTES as u32,
            is_in_buffer: self.0 & IN_BUFFER != 0,
        })
    }

    pub(crate) fn was_asked_for(self) -> bool {
        self.0 & ACCESSED != 0
    }

    pub(crate) fn accessed(self, accessed: bool) -> Self {
        Self(if accessed { self.0 | ACCESSED } else { self.0 & !ACCESSED })
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        debug_assert!(self.0 & IN_BUFFER == 0, "its record is not on flash yet");
        self.accessed(false).0.to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes) & !IN_BUFFER).accessed(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_round_trips_at_its_bounds() {
        let largest = RecordLocation {
            slot: SLOTS_MAX - 1,
            generation: u16::MAX,
            offset: (SEGMENT_BYTES_MAX - UNIT_BYTES) as u32,
            len: (SEGMENT_BYTES_MAX - UNIT_BYTES) as u32,
            is_in_buffer: false,
        };
        let smallest =
            RecordLocation { slot: 0, generation: 0, offset: 0, len: 0, is_in_buffer: false };
        for location in [largest, smallest] {
            for fingerprint in [0, (1 << FINGERPRINT_BITS_MAX) - 1] {
                let entry = Entry::record(fingerprint, location).accessed(true);
                assert_eq!((entry.fingerprint(), entry.location()), (fingerprint, Some(location)));
                let read = Entry::from_bytes(entry.to_bytes());
                assert_eq!(read, entry.accessed(false));
                let buffered = RecordLocation { is_in_buffer: true, ..location };
                assert_eq!(Entry::record(fingerprint, buffered).location(), Some(buffered));
            }
        }
    }

    #[test]
    fn tombstone_is_not_an_empty_entry() {
        let gone = Entry::tombstone(5);
        assert_eq!((gone.fingerprint(), gone.location(), gone.is_nothing()), (5, None, false));
        assert!(Entry::NOTHING.is_nothing() && Entry::default() == Entry::NOTHING);
    }
}
