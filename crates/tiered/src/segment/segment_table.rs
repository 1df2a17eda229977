//! The segment table: the segment in each slot, in DRAM and on flash.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`)
//! 8       4     the slot
//! 12      4     generation of the slot: rises whenever it is freed
//! 16      4     1: the slot holds a whole segment
//! 20      4     its group (`ttl.rs`)
//! 24      8     the order in which it was opened
//! 32      8     no operation on its records has a higher sequence
//! 40      4     the first second in which it may be dropped
//! 44      4     bytes of its records
//! 48      4     number of its records
//! 52      4     the deadline of the last one to expire; 2^32 - 1: never
//! 56      4     1: it holds small objects in buckets; bytes are those of the buckets
//! 60      4     number of its tombstones, if so; else the length of its records, if all have the
//!               same, or 0
//! ```
//!
//! Values on flash: do not change.
//!
//! Guarantee: [`LiveSegments`], which is read without a lock, has a record's entry as live only while its
//! segment is in the slot, open or whole.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::entry::{RecordLocation, SegmentId};
use crate::segment::coding::{Reader, Writer};
use crate::segment::layout::SLOT_BYTES;
use crate::segment::ttl::Group;

/// The contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) id: SegmentId,
    pub(crate) is_whole: bool,
    pub(crate) group: Group,
    pub(crate) order: u64,
    pub(crate) sequence_max: u64,
    pub(crate) may_go_at_s: u32,
    pub(crate) bytes: u32,
    pub(crate) records: u32,
    pub(crate) deadline_max_s: u32,
    /// Whether it has small objects in buckets.
    pub(crate) is_small: bool,
    /// Of a segment of small objects.
    pub(crate) tombstones: u32,
    /// The length of its records, if all have the same, else 0; not of small objects.
    pub(crate) record_bytes: u32,
}

impl Slot {
    /// An empty slot.
    pub(crate) fn free(id: SegmentId) -> Self {
        Self {
            id,
            is_whole: false,
            group: Group::NEVER,
            order: 0,
            sequence_max: 0,
            may_go_at_s: 0,
            bytes: 0,
            records: 0,
            deadline_max_s: 0,
            is_small: false,
            tombstones: 0,
            record_bytes: 0,
        }
    }

    pub(crate) fn encode(&self, device: u64) -> [u8; SLOT_BYTES] {
        Writer::new()
            .u32(self.id.slot)
            .u32(self.id.generation)
            .u32(self.is_whole.into())
            .u32(self.group.number().into())
            .u64(self.order)
            .u64(self.sequence_max)
            .u32(self.may_go_at_s)
            .u32(self.bytes)
            .u32(self.records)
            .u32(self.deadline_max_s)
            .u32(self.is_small.into())
            // One of the two is always 0.
            .u32(self.tombstones | self.record_bytes)
            .seal(device)
    }

    /// The entry of that slot, if it is intact.
    pub(crate) fn decode(bytes: &[u8], device: u64, slot: u32) -> Option<Self> {
        let mut reader = Reader::open(bytes, device)?;
        let id = SegmentId { slot: reader.u32(), generation: reader.u32() };
        let found = Self {
            id,
            is_whole: reader.u32() == 1,
            group: Group::with_number(reader.u32() as u8),
            order: reader.u64(),
            sequence_max: reader.u64(),
            may_go_at_s: reader.u32(),
            bytes: reader.u32(),
            records: reader.u32(),
            deadline_max_s: reader.u32(),
            is_small: reader.u32() == 1,
            tombstones: 0,
            record_bytes: 0,
        };
        let last = reader.u32();
        (id.slot == slot).then_some(match found.is_small {
            true => Self { tombstones: last, ..found },
            false => Self { record_bytes: last, ..found },
        })
    }
}

/// Where the records of a segment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// In a buffer in DRAM.
    Buffered,
    /// On flash, all of them.
    Whole,
}

const FREE: u64 = 0;
const BUFFERED: u64 = 1;
const WHOLE: u64 = 2;

/// The live segments; for all threads.
#[derive(Debug)]
pub(crate) struct LiveSegments {
    /// Generation, and in the lowest two bits the state.
    slots: Box<[AtomicU64]>,
    orders: Box<[AtomicU64]>,
}

impl LiveSegments {
    /// All slots are free, in generation 0.
    pub(crate) fn new(slots: u32) -> Self {
        let zeros = || (0..slots).map(|_| AtomicU64::new(0)).collect();
        Self { slots: zeros(), orders: zeros() }
    }

    /// The segment of a record, and where its records are; `None` if it is gone.
    pub(crate) fn of(&self, location: RecordLocation) -> Option<(SegmentId, SegmentState)> {
        let word = self.slots.get(location.slot as usize)?.load(Ordering::Acquire);
        let id = SegmentId { slot: location.slot, generation: (word >> 2) as u32 };
        let life = match word & 3 {
            BUFFERED => SegmentState::Buffered,
            WHOLE => SegmentState::Whole,
            _ => return None,
        };
        location.is_in(id).then_some((id, life))
    }

    /// Whether the slot has that segment.
    pub(crate) fn holds(&self, id: SegmentId) -> bool {
        let word = self.slots[id.slot as usize].load(Ordering::Acquire);
        word & 3 != FREE && (word >> 2) as u32 == id.generation
    }

    /// Whether the record is live.
    pub(crate) fn has(&self, location: RecordLocation) -> bool {
        self.of(location).is_some()
    }

    /// A sequence that orders segments by age: of a whole segment, no operation on its records has
    /// a higher one, of any other, none a lower one.
    pub(crate) fn order(&self, slot: u32) -> u64 {
        self.orders.get(slot as usize).map_or(0, |order| order.load(Ordering::Relaxed))
    }

    /// Frees the slot, in that generation.
    pub(crate) fn set_free(&self, id: SegmentId) {
        self.set(id, FREE);
    }

    /// Records that a segment has been opened in the slot.
    pub(crate) fn set_buffered(&self, id: SegmentId, order: u64) {
        self.orders[id.slot as usize].store(order, Ordering::Relaxed);
        self.set(id, BUFFERED);
    }

    /// Records that the segment is on flash.
    pub(crate) fn set_whole(&self, id: SegmentId, sequence_max: u64) {
        self.orders[id.slot as usize].store(sequence_max, Ordering::Relaxed);
        self.set(id, WHOLE);
    }

    fn set(&self, id: SegmentId, life: u64) {
        let word = u64::from(id.generation) << 2 | life;
        self.slots[id.slot as usize].store(word, Ordering::Release);
    }

    /// Its memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_decodes_only_in_its_own_place() {
        let slot = Slot {
            id: SegmentId { slot: 5, generation: 6 },
            is_whole: true,
            group: Group::with_number(7),
            order: 8,
            sequence_max: 9,
            may_go_at_s: 10,
            bytes: 11,
            records: 12,
            deadline_max_s: 13,
            is_small: true,
            tombstones: 14,
            record_bytes: 0,
        };
        let bytes = slot.encode(3);
        assert_eq!(Slot::decode(&bytes, 3, 5), Some(slot));
        let other = Slot { is_small: false, tombstones: 0, record_bytes: 4_160, ..slot };
        assert_eq!(Slot::decode(&other.encode(3), 3, 5), Some(other));
        assert_eq!(Slot::decode(&bytes, 3, 6), None);
        assert_eq!(Slot::decode(&bytes, 4, 5), None);
    }

    #[test]
    fn records_are_live_as_long_as_their_segment() {
        let live_segments = LiveSegments::new(4);
        let id = SegmentId { slot: 2, generation: 70_000 };
        let location = RecordLocation {
            slot: 2,
            generation: 70_000_u32 as u16,
            offset: 0,
            len: 64,
            is_in_buffer: false,
        };
        assert!(!live_segments.has(location));
        live_segments.set_buffered(id, 8);
        assert_eq!(live_segments.of(location), Some((id, SegmentState::Buffered)));
        live_segments.set_whole(id, 8);
        assert_eq!(
            (live_segments.of(location), live_segments.order(2)),
            (Some((id, SegmentState::Whole)), 8)
        );
        live_segments.set_free(SegmentId { generation: 70_001, ..id });
        assert!(!live_segments.has(location));
        assert!(!live_segments.has(RecordLocation { slot: 4, ..location }));
    }
}
