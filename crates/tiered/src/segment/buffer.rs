//! A segment in memory: consecutive records in a buffer, in the order in which they were put. On
//! flash they have the order of [`crate::segment::arrangement`], and are followed by a summary, so
//! that a recovery need not read them ([`Segment::pieces`]).
//!
//! ```text
//! summary, after the last record, in the order in which records were put:
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`, seeded with the device) of the rest
//! 8       8     slot and generation
//! 16            24 bytes a record: name as in an invalidation (8), sequence (8),
//!               offset and length in the segment (4 each)
//! ```
//!
//! Values on flash: do not change. Pure; for one thread at a time, but a sealed segment is
//! immutable.

use tidekv_io::buffer::AlignedVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::entry::{RecordLocation, SegmentId, UNIT_BYTES};
use crate::segment::arrangement::Choices;
use crate::segment::layout::{BLOCK_BYTES, Name, SUMMARY_BYTES};
use crate::segment::record::{self, Record};
use crate::segment::segment_table::Slot;
use crate::segment::ttl::{Group, may_go_at_s};

const SUMMARY_HEAD_BYTES: usize = 16;
/// A segment is written in this many pieces, or more of `PIECE_BYTES_MAX` each.
const PIECE_DIVISOR: usize = 8;
const PIECE_BYTES_MAX: usize = 256 << 10;

/// The summary of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) name: Name,
    pub(crate) sequence: u64,
    pub(crate) location: RecordLocation,
}

/// The order of a segment's records on flash.
#[derive(Debug)]
pub(crate) struct Arranged {
    /// The number of the record in each place; records are numbered as they were put.
    order: Vec<u32>,
    /// The records as they were put, with their locations on flash.
    pub(crate) summaries: Vec<Summary>,
}

impl Arranged {
    /// Whether records are on flash in the order in which they were put.
    pub(crate) fn keeps_order(&self) -> bool {
        self.order.iter().copied().eq(0..self.order.len() as u32)
    }

    /// The lengths of the records, in the order of their places.
    pub(crate) fn lens(&self) -> impl ExactSizeIterator<Item = u32> + Clone {
        self.order.iter().map(|record| self.summaries[*record as usize].location.len)
    }
}

/// A segment that is being filled.
pub(crate) struct Segment {
    bytes: AlignedVec,
    capacity: usize,
    summaries: Vec<Summary>,
    slot: Slot,
}

impl Segment {
    /// An empty segment of `capacity` bytes in the slot, in a buffer with room for them.
    pub(crate) fn new(
        id: SegmentId,
        group: Group,
        order: u64,
        capacity: usize,
        mut buffer: AlignedVec,
    ) -> Self {
        // An object among objects that never expire stays as long as they do.
        let may_go_at_s = if group == Group::NEVER { u32::MAX } else { 0 };
        let slot = Slot { group, order, sequence_max: order, may_go_at_s, ..Slot::free(id) };
        buffer.clear();
        Self { bytes: buffer, capacity, summaries: Vec::new(), slot }
    }

    /// Its buffer, for reuse.
    pub(crate) fn into_buffer(self) -> AlignedVec {
        self.bytes
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.slot.id
    }

    pub(crate) fn group(&self) -> Group {
        self.slot.group
    }

    /// The largest record that fits an empty segment.
    pub(crate) fn record_bytes_max(capacity: usize) -> usize {
        // The summary is padded to a whole block.
        let bytes = capacity - SUMMARY_HEAD_BYTES - SUMMARY_BYTES - BLOCK_BYTES as usize;
        bytes / UNIT_BYTES * UNIT_BYTES
    }

    /// The size of the pieces in which a segment of `capacity` bytes is written, in bytes.
    pub(crate) fn piece_bytes(capacity: usize) -> usize {
        let block_bytes = BLOCK_BYTES as usize;
        (capacity / PIECE_DIVISOR).next_multiple_of(block_bytes).clamp(block_bytes, PIECE_BYTES_MAX)
    }

    /// Whether a record of that length fits.
    pub(crate) fn has_room_for(&self, record_bytes: usize) -> bool {
        let summaries = SUMMARY_HEAD_BYTES + (self.summaries.len() + 1) * SUMMARY_BYTES;
        self.bytes.len() + record_bytes + summaries + BLOCK_BYTES as usize <= self.capacity
    }

    /// The number of its records.
    pub(crate) fn records(&self) -> u32 {
        self.slot.records
    }

    /// Bytes of its records.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a record that fits, written at `now_s` by the operation with that sequence.
    pub(crate) fn append(
        &mut self,
        name: Name,
        key: &[u8],
        record: &Record,
        sequence: u64,
        now_s: u32,
    ) -> RecordLocation {
        let object = &record.found.object;
        let (offset, id) = (self.bytes.len(), self.slot.id);
        let len = record::record_bytes(key.len(), object.value.len());
        self.bytes.resize(offset + len, 0);
        record::encode(&mut self.bytes[offset..], id, key, record);
        let generation = id.generation as u16;
        let location = RecordLocation {
            slot: id.slot,
            generation,
            offset: offset as u32,
            len: len as u32,
            is_in_buffer: true,
        };
        self.summaries.push(Summary { name, sequence, location });
        let slot = &mut self.slot;
        slot.sequence_max = slot.sequence_max.max(sequence);
        slot.may_go_at_s = slot.may_go_at_s.max(may_go_at_s(object.deadline, now_s));
        let deadline_s = object.deadline.unix_s().unwrap_or(u32::MAX);
        slot.deadline_max_s = slot.deadline_max_s.max(deadline_s);
        slot.records += 1;
        location
    }

    /// The bytes of a record.
    pub(crate) fn read(&self, location: RecordLocation) -> Option<&[u8]> {
        let offset = location.offset as usize;
        (location.is_in(self.slot.id) && location.is_in_buffer)
            .then(|| self.bytes.get(offset..offset + location.len as usize))?
    }

    /// Ends the segment; returns its entry of the segment table.
    pub(crate) fn seal(&mut self) -> Slot {
        self.slot.bytes = self.bytes.len() as u32;
        self.slot.is_whole = true;
        let first = self.summaries.first().map_or(0, |summary| summary.location.len);
        let is_equal = self.summaries.iter().all(|summary| summary.location.len == first);
        self.slot.record_bytes = if is_equal { first } else { 0 };
        self.slot
    }

    /// Arranges the records of a sealed segment in their order on flash.
    pub(crate) fn arranged(&self, choices: Choices) -> Arranged {
        let names: Vec<Name> = self.summaries.iter().map(|summary| summary.name).collect();
        let order = choices.order(&names);
        let mut summaries = self.summaries.clone();
        let mut offset = 0;
        for record in &order {
            let location = &mut summaries[*record as usize].location;
            *location = RecordLocation { offset, is_in_buffer: false, ..*location };
            offset += location.len;
        }
        Arranged { order, summaries }
    }

    /// Appends the summary and padding to a sealed segment whose records keep their order: its buffer
    /// then is the segment on flash.
    pub(crate) fn append_summary(&mut self, arranged: &Arranged, device: u64) {
        let summary = self.summary(arranged, device);
        self.bytes.extend_from_slice(&summary);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    }

    /// Its buffer.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Passes the bytes of the segment on flash to `write`, with their offsets, in pieces of
    /// `piece_bytes`, a multiple of a block; the last one may be shorter. Returns their total.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub(crate) fn pieces<E>(
        &self,
        arranged: &Arranged,
        device: u64,
        piece_bytes: usize,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let summary = self.summary(arranged, device);
        let records = arranged.order.iter().map(|record| {
            let location = self.summaries[*record as usize].location;
            &self.bytes[location.offset as usize..][..location.len as usize]
        });
        let mut piece = AlignedVec::with_capacity(piece_bytes);
        let mut at = 0;
        for mut part in records.chain([&*summary]) {
            while !part.is_empty() {
                let (now, later) = part.split_at(part.len().min(piece_bytes - piece.len()));
                piece.extend_from_slice(now);
                part = later;
                if piece.len() == piece_bytes {
                    write(at as u64, &piece)?;
                    at += piece_bytes;
                    piece.clear();
                }
            }
        }
        piece.resize(piece.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        if !piece.is_empty() {
            write(at as u64, &piece)?;
        }
        Ok(at + piece.len())
    }

    fn summary(&self, arranged: &Arranged, device: u64) -> Vec<u8> {
        let len = SUMMARY_HEAD_BYTES + arranged.summaries.len() * SUMMARY_BYTES;
        let mut summary = Vec::with_capacity(len);
        summary.extend_from_slice(&[0; 8]);
        summary.extend_from_slice(&self.slot.id.slot.to_le_bytes());
        summary.extend_from_slice(&self.slot.id.generation.to_le_bytes());
        for Summary { name, sequence, location } in &arranged.summaries {
            summary.extend_from_slice(&name.number().to_le_bytes());
            summary.extend_from_slice(&sequence.to_le_bytes());
            summary.extend_from_slice(&location.offset.to_le_bytes());
            summary.extend_from_slice(&location.len.to_le_bytes());
        }
        let checksum = xxh3_64_with_seed(&summary[8..], device);
        summary[..8].copy_from_slice(&checksum.to_le_bytes());
        summary
    }

    /// The records as they were put, with their locations in the buffer.
    pub(crate) fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    /// Its memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.summaries.capacity() * size_of::<Summary>()
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes for {:?}", self.bytes.len(), self.slot)
    }
}

/// The offset of the summary in a whole segment, and its length, in bytes.
pub(crate) fn summary_range(slot: &Slot) -> (u64, usize) {
    (slot.bytes.into(), SUMMARY_HEAD_BYTES + slot.records as usize * SUMMARY_BYTES)
}

/// The records of a summary, if it is intact and the segment's.
pub(crate) fn read_summary(bytes: &[u8], device: u64, id: SegmentId) -> Option<Vec<Summary>> {
    let (checksum, summary) = bytes.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*checksum) != xxh3_64_with_seed(summary, device) {
        return None;
    }
    let (head, records) = summary.split_first_chunk::<8>()?;
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
    let long =
        |bytes: &[u8], at: usize| u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32;
    if (word(head, 0), word(head, 4)) != (id.slot, id.generation) {
        return None;
    }
    let generation = id.generation as u16;
    let record = |bytes: &[u8]| Summary {
        name: Name::from_number(long(bytes, 0)),
        sequence: long(bytes, 8),
        location: RecordLocation {
            slot: id.slot,
            generation,
            offset: word(bytes, 16),
            len: word(bytes, 20),
            is_in_buffer: false,
        },
    };
    Some(records.chunks_exact(SUMMARY_BYTES).map(record).collect())
}

#[cfg(test)]
mod tests;
