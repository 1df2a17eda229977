//! An object as stored on flash.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum: XXH3 of the rest, without the padding
//! 8       4     slot of the segment
//! 12      4     generation of the slot
//! 16      8     version
//! 24      4     length of the value
//! 28      2     length of the key
//! 30      1     marks
//! 31      1     bit 0: it was fetched since it was stored; bits 1 and 2: a whole object (0), the
//!               head of one in parts (1), or a part (2)
//! 32      4     client's flags
//! 36      4     deadline, in seconds of Unix time; 0: none
//! 40      4     the second in which it was last fetched or stored
//! 44      4     the epoch of the key's own device when it was written
//! 48      8     the key's own device
//! 56      8     zero
//! 64            the key, the value, zeros up to a multiple of 64 bytes
//! ```
//!
//! Values on flash: do not change.
//!
//! Guarantee: [`decode`] returns an object only if it is intact, the key's, and in the expected
//! segment. Pure.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::entry::{RECORD_HEADER_BYTES, SegmentId, UNIT_BYTES};
use crate::object::{CachedObject, Deadline, Object};

const FETCHED: u8 = 1;
const KIND: u32 = 1;

/// The part of an object that a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The whole object.
    Whole,
    /// The names of its parts.
    Head,
    /// One of its parts.
    Part,
}

/// An object with its metadata on flash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) found: CachedObject,
    pub(crate) kind: Kind,
    /// The device that the key belongs to while all devices work.
    pub(crate) home: u64,
    /// Its epoch when the record was written.
    pub(crate) epoch: u32,
}

/// The reason why some bytes hold no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// They are damaged, or another segment is there by now.
    Damaged,
    /// They belong to another key.
    OtherKey,
}

/// The length of the record in bytes, with its padding.
pub(crate) fn record_bytes(key_len: usize, value_len: usize) -> usize {
    (RECORD_HEADER_BYTES + key_len + value_len).next_multiple_of(UNIT_BYTES)
}

/// Writes the record to `out`, which has the length of [`record_bytes`].
pub(crate) fn encode(out: &mut [u8], segment: SegmentId, key: &[u8], record: &Record) {
    let CachedObject { object, was_fetched, accessed_s } = &record.found;
    let (header, rest) = out.split_at_mut(RECORD_HEADER_BYTES);
    header.fill(0);
    let flags = (u8::from(*was_fetched) * FETCHED) | ((record.kind as u8) << KIND);
    header[8..12].copy_from_slice(&segment.slot.to_le_bytes());
    header[12..16].copy_from_slice(&segment.generation.to_le_bytes());
    header[16..24].copy_from_slice(&object.version.to_le_bytes());
    header[24..28].copy_from_slice(&(object.value.len() as u32).to_le_bytes());
    header[28..30].copy_from_slice(&(key.len() as u16).to_le_bytes());
    (header[30], header[31]) = (object.marks, flags);
    header[32..36].copy_from_slice(&object.flags.to_le_bytes());
    header[36..40].copy_from_slice(&object.deadline.unix_s().unwrap_or(0).to_le_bytes());
    header[40..44].copy_from_slice(&accessed_s.to_le_bytes());
    header[44..48].copy_from_slice(&record.epoch.to_le_bytes());
    header[48..56].copy_from_slice(&record.home.to_le_bytes());
    let (to_key, rest) = rest.split_at_mut(key.len());
    to_key.copy_from_slice(key);
    let (to_value, padding) = rest.split_at_mut(object.value.len());
    to_value.copy_from_slice(&object.value);
    padding.fill(0);
    let end = RECORD_HEADER_BYTES + key.len() + object.value.len();
    let checksum = xxh3_64(&out[8..end]);
    out[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The record in `bytes`, if it is the one of `key` in `segment`.
pub(crate) fn decode(
    bytes: &[u8],
    segment: SegmentId,
    key: &[u8],
) -> std::result::Result<Record, Mismatch> {
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if bytes.len() < RECORD_HEADER_BYTES {
        return Err(Mismatch::Damaged);
    }
    let (value_len, key_len) =
        (word(24) as usize, usize::from(bytes[28]) | usize::from(bytes[29]) << 8);
    let value_at = RECORD_HEADER_BYTES + key_len;
    let Some(found_key) = bytes.get(RECORD_HEADER_BYTES..value_at) else {
        return Err(Mismatch::Damaged);
    };
    let value = value_at.checked_add(value_len).and_then(|end| bytes.get(value_at..end));
    let Some(value) = value else { return Err(Mismatch::Damaged) };
    if long(0) != xxh3_64(&bytes[8..value_at + value_len])
        || segment != (SegmentId { slot: word(8), generation: word(12) })
    {
        return Err(Mismatch::Damaged);
    }
    if found_key != key {
        return Err(Mismatch::OtherKey);
    }
    let deadline_s = word(36);
    let object = Object {
        value: Bytes::copy_from_slice(value),
        flags: word(32),
        deadline: if deadline_s == 0 { Deadline::NEVER } else { Deadline::at(deadline_s.into()) },
        version: long(16),
        marks: bytes[30],
    };
    Ok(Record {
        found: CachedObject { object, was_fetched: bytes[31] & FETCHED != 0, accessed_s: word(40) },
        kind: [Kind::Whole, Kind::Head, Kind::Part][usize::from(bytes[31] >> KIND & 3).min(2)],
        home: long(48),
        epoch: word(44),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: SegmentId = SegmentId { slot: 3, generation: 70_000 };

    fn record(value: &[u8]) -> Record {
        let object = Object {
            value: Bytes::copy_from_slice(value),
            flags: 0xdead_beef,
            deadline: Deadline::at(12_345),
            version: 1 << 40,
            marks: 5,
        };
        let found = CachedObject { object, was_fetched: true, accessed_s: 99 };
        Record { found, kind: Kind::Part, home: 8, epoch: 7 }
    }

    fn encoded(key: &[u8], record: &Record) -> Vec<u8> {
        let mut bytes = vec![0xff; record_bytes(key.len(), record.found.object.value.len())];
        encode(&mut bytes, SEGMENT, key, record);
        bytes
    }

    #[test]
    fn record_decodes_for_its_own_key_only() {
        for value in [&b""[..], b"v", &[7; 5_000]] {
            let record = record(value);
            let bytes = encoded(b"key", &record);
            assert_eq!(bytes.len() % UNIT_BYTES, 0);
            assert_eq!(decode(&bytes, SEGMENT, b"key"), Ok(record));
            assert_eq!(decode(&bytes, SEGMENT, b"kez"), Err(Mismatch::OtherKey));
            let later = SegmentId { generation: SEGMENT.generation + 65_536, ..SEGMENT };
            assert_eq!(decode(&bytes, later, b"key"), Err(Mismatch::Damaged));
        }
    }

    #[test]
    fn damaged_or_truncated_record_is_not_decoded() {
        let record = record(&[9; 100]);
        let bytes = encoded(b"key", &record);
        for at in 0..RECORD_HEADER_BYTES + 103 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            assert_eq!(decode(&damaged, SEGMENT, b"key"), Err(Mismatch::Damaged), "byte {at}");
        }
        for len in 0..RECORD_HEADER_BYTES + 103 {
            assert_eq!(decode(&bytes[..len], SEGMENT, b"key"), Err(Mismatch::Damaged));
        }
    }
}
