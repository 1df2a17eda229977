//! A segment in memory, and its bytes on flash.

use bytes::Bytes;

use super::*;
use crate::object::{CachedObject, Deadline, Object};
use crate::segment::record::Kind;

const ID: SegmentId = SegmentId { slot: 3, generation: 5 };

fn empty(group: Group, capacity: usize) -> Segment {
    Segment::new(ID, group, 7, capacity, AlignedVec::with_capacity(capacity))
}

fn record(value_len: usize, deadline: Deadline) -> Record {
    let value = Bytes::from(vec![1; value_len]);
    let object = Object { value, flags: 0, deadline, version: 1, marks: 0 };
    let found = CachedObject { object, was_fetched: false, accessed_s: 0 };
    Record { found, kind: Kind::Whole, home: 0, epoch: 0 }
}

fn name(fingerprint: u64) -> Name {
    Name { partition: 2, fingerprint }
}

#[test]
fn appended_records_are_read_and_summarised() {
    let group = Group::of(Deadline::at(2_000), 1_000);
    let mut segment = empty(group, 64 << 10);
    let record = record(1_000, Deadline::at(2_000));
    let mut locations = Vec::new();
    while segment.has_room_for(record::record_bytes(1, 1_000)) {
        let n = locations.len() as u64;
        locations.push(segment.append(name(n), b"k", &record, 10 + n, 1_000));
    }
    assert!(locations.len() > 50);
    for location in &locations {
        let bytes = segment.read(*location).expect("it is in the buffer");
        assert_eq!(record::decode(bytes, ID, b"k"), Ok(record.clone()));
    }
    let slot = segment.seal();
    assert_eq!(
        (slot.records as usize, slot.order, slot.may_go_at_s, slot.record_bytes),
        (locations.len(), 7, 1_750, locations[0].len)
    );
    assert_eq!(slot.sequence_max, 9 + locations.len() as u64);
    let arranged = segment.arranged(Choices(6));
    for piece_bytes in [4 << 10, 12 << 10, 1 << 20] {
        let written = written(&segment, &arranged, piece_bytes);
        assert!(written.len() <= 64 << 10 && written.len().is_multiple_of(4 << 10));
        let (at, len) = summary_range(&slot);
        let bytes = &written[at as usize..at as usize + len];
        let summaries = read_summary(bytes, 9, ID).expect("it is whole");
        assert_eq!(summaries, arranged.summaries);
        for (n, (summary, before)) in (0_u64..).zip(summaries.iter().zip(&locations)) {
            assert_eq!((summary.name, summary.sequence), (name(n), 10 + n));
            let RecordLocation { offset, len, is_in_buffer, .. } = summary.location;
            assert!(!is_in_buffer && before.is_in_buffer && len == before.len);
            let bytes = &written[offset as usize..][..len as usize];
            assert_eq!(bytes, segment.read(*before).expect("it is in the buffer"));
            // Offsets on flash are not those in the buffer.
            assert_eq!(segment.read(summary.location), None);
        }
        assert_eq!(read_summary(bytes, 8, ID), None);
        assert_eq!(read_summary(bytes, 9, SegmentId { generation: 6, ..ID }), None);
    }
}

fn written(segment: &Segment, arranged: &Arranged, piece_bytes: usize) -> Vec<u8> {
    let mut written = Vec::new();
    let write = |at: u64, piece: &[u8]| {
        assert_eq!(at as usize, written.len());
        assert!(piece.len().is_multiple_of(4 << 10) && piece.len() <= piece_bytes);
        written.extend_from_slice(piece);
        Ok::<(), ()>(())
    };
    let bytes = segment.pieces(arranged, 9, piece_bytes, write).expect("no write fails");
    assert_eq!(bytes, written.len());
    written
}

/// The buffer has the same bytes as the segment written in pieces.
#[test]
fn segment_that_keeps_its_order_is_its_buffer() {
    let mut segment = empty(Group::NEVER, 64 << 10);
    let mut locations = Vec::new();
    for (n, len) in (0..).zip([10_000, 12_000, 9_000, 20_000]) {
        let record = record(len, Deadline::NEVER);
        locations.push(segment.append(name(n), b"k", &record, 8 + n, 1_000));
    }
    let slot = segment.seal();
    assert!(!segment.arranged(Choices(8)).keeps_order());
    let arranged = segment.arranged(Choices(9));
    assert!(arranged.keeps_order());
    let offsets = |summary: &Summary| summary.location.offset;
    let offsets: Vec<u32> = arranged.summaries.iter().map(offsets).collect();
    assert_eq!(offsets, locations.iter().map(|location| location.offset).collect::<Vec<_>>());
    assert!(arranged.summaries.iter().all(|summary| !summary.location.is_in_buffer));
    let pieces = written(&segment, &arranged, 8 << 10);
    segment.append_summary(&arranged, 9);
    assert_eq!(segment.bytes(), pieces);
    assert!(segment.bytes().len() <= 64 << 10);
    let (at, len) = summary_range(&slot);
    let summaries = read_summary(&segment.bytes()[at as usize..][..len], 9, ID);
    assert_eq!(summaries.expect("it is whole"), arranged.summaries);
    // Readers still find the records in the buffer.
    assert!(locations.iter().all(|location| segment.read(*location).is_some()));
}

#[test]
fn lengths_of_a_segment_are_equal_or_not() {
    let mut segment = empty(Group::NEVER, 64 << 10);
    assert_eq!(segment.seal().record_bytes, 0);
    segment.append(name(1), b"k", &record(10, Deadline::NEVER), 8, 1_000);
    assert_eq!(segment.seal().record_bytes, 128);
    segment.append(name(2), b"l", &record(10, Deadline::NEVER), 9, 1_000);
    assert_eq!(segment.seal().record_bytes, 128);
    segment.append(name(3), b"m", &record(100, Deadline::NEVER), 10, 1_000);
    assert_eq!(segment.seal().record_bytes, 0);
    let lens: Vec<u32> = segment.arranged(Choices(6)).lens().collect();
    assert_eq!((lens.len(), lens.iter().sum::<u32>()), (3, 128 + 128 + 192));
}

#[test]
fn object_that_never_expires_keeps_its_segment() {
    let group = Group::of(Deadline::at(2_000), 1_000);
    let mut segment = empty(group, 64 << 10);
    segment.append(name(1), b"k", &record(10, Deadline::at(2_000)), 8, 1_000);
    segment.append(name(2), b"l", &record(10, Deadline::NEVER), 9, 1_000);
    let slot = segment.seal();
    assert_eq!((slot.may_go_at_s, slot.deadline_max_s), (u32::MAX, u32::MAX));
}

#[test]
fn group_that_never_expires_keeps_expiring_objects() {
    let mut segment = empty(Group::NEVER, 64 << 10);
    segment.append(name(1), b"k", &record(10, Deadline::at(2_000)), 8, 1_000);
    let slot = segment.seal();
    assert_eq!((slot.may_go_at_s, slot.deadline_max_s), (u32::MAX, 2_000));
}

#[test]
fn the_largest_record_fits_an_empty_segment() {
    let capacity = 64 << 10;
    let segment = empty(Group::NEVER, capacity);
    assert!(segment.has_room_for(Segment::record_bytes_max(capacity)));
    assert!(!segment.has_room_for(Segment::record_bytes_max(capacity) + UNIT_BYTES));
}
