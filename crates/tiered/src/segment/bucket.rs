//! A bucket: a block of 4 KiB with small objects. A key's hash determines the buckets that its
//! object may be in (Kangaroo, SOSP 2021, §4), so that an index need not name one.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`, seeded with the device) of the rest
//! 8       4     slot of the segment
//! 12      4     generation of the slot
//! 16      2     number of the bucket in the segment
//! 18      2     bytes of records
//! 20      4     zero
//! 24            records, then zeros
//!
//! a record:
//! 0       1     length of the key
//! 1       1     bit 0: it was fetched since it was stored; bits 1 to 3: it has client's flags, a
//!               deadline, marks; bits 4 to 6: bytes of the version, less one
//! 2       2     length of the value
//! 4       4     the second in which it was last fetched or stored
//! 8       1..8  version
//!         4     client's flags, if it has any
//!         4     deadline, in seconds of Unix time, if it has one
//!         1     marks, if it has any
//!         1..5  the epoch of the key's own device when it was written, seven bits a byte, the
//!               lowest first; bit 7: more follow
//!               the key, the value
//! ```
//!
//! Values on flash: do not change. All numbers are little-endian.
//!
//! Guarantee: [`is_intact`] accepts only the bucket that was sealed for that device, segment and
//! number. Pure.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::entry::SegmentId;
use crate::object::{CachedObject, Deadline, Object};
use crate::options::KEY_BYTES_MAX;

/// The size of a bucket.
pub(crate) const BUCKET_BYTES: usize = 4096;
/// The longest record in a bucket. Five of these fill one; of longer ones, so few fit that much of
/// a bucket stays empty, and a segment of records takes less flash.
pub(crate) const SMALL_RECORD_BYTES_MAX: usize = 800;

const HEADER_BYTES: usize = 24;
const USED_AT: usize = 18;
const FETCHED: u8 = 1;
const HAS_FLAGS: u8 = 1 << 1;
const HAS_DEADLINE: u8 = 1 << 2;
const HAS_MARKS: u8 = 1 << 3;
const VERSION: u32 = 4;

/// An object as it is in a bucket: with the epoch of its key's own device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallObject {
    pub(crate) found: CachedObject,
    pub(crate) epoch: u32,
}

impl SmallObject {
    /// Whether it belongs in a bucket: a longer key or value would not fit the fields of its record.
    pub(crate) fn is_small(&self, key_len: usize) -> bool {
        key_len <= KEY_BYTES_MAX && self.record_bytes(key_len) <= SMALL_RECORD_BYTES_MAX
    }

    /// The length of its record, in bytes.
    pub(crate) fn record_bytes(&self, key_len: usize) -> usize {
        let object = &self.found.object;
        let optional = 4 * usize::from(object.flags != 0)
            + 4 * usize::from(object.deadline != Deadline::NEVER)
            + usize::from(object.marks != 0);
        8 + bytes_of_version(object.version)
            + optional
            + bytes_of_epoch(self.epoch)
            + key_len
            + object.value.len()
    }
}

fn bytes_of_version(version: u64) -> usize {
    (64 - version.leading_zeros() as usize).div_ceil(8).max(1)
}

fn bytes_of_epoch(epoch: u32) -> usize {
    (32 - epoch.leading_zeros() as usize).div_ceil(7).max(1)
}

/// Makes a block an empty bucket; what else is in it does not matter.
pub(crate) fn clear(bucket: &mut [u8]) {
    set_used(bucket, 0);
}

fn used(bucket: &[u8]) -> usize {
    let used = usize::from(bucket[USED_AT]) | usize::from(bucket[USED_AT + 1]) << 8;
    used.min(BUCKET_BYTES - HEADER_BYTES)
}

fn set_used(bucket: &mut [u8], used: usize) {
    bucket[USED_AT..USED_AT + 2].copy_from_slice(&(used as u16).to_le_bytes());
}

/// The free bytes.
pub(crate) fn room(bucket: &[u8]) -> usize {
    BUCKET_BYTES - HEADER_BYTES - used(bucket)
}

/// Appends a record that fits.
pub(crate) fn append(bucket: &mut [u8], key: &[u8], small: &SmallObject) {
    let CachedObject { object, was_fetched, accessed_s } = &small.found;
    let before = used(bucket);
    let version_bytes = bytes_of_version(object.version);
    let has = |bit: u8, has: bool| if has { bit } else { 0 };
    let bits = has(FETCHED, *was_fetched)
        | has(HAS_FLAGS, object.flags != 0)
        | has(HAS_DEADLINE, object.deadline != Deadline::NEVER)
        | has(HAS_MARKS, object.marks != 0)
        | ((version_bytes - 1) as u8) << VERSION;
    let mut at = HEADER_BYTES + before;
    let mut write = |bytes: &[u8]| {
        bucket[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    write(&[key.len() as u8, bits]);
    write(&(object.value.len() as u16).to_le_bytes());
    write(&accessed_s.to_le_bytes());
    write(&object.version.to_le_bytes()[..version_bytes]);
    if object.flags != 0 {
        write(&object.flags.to_le_bytes());
    }
    if let Some(unix_s) = object.deadline.unix_s() {
        write(&unix_s.to_le_bytes());
    }
    if object.marks != 0 {
        write(&[object.marks]);
    }
    let mut epoch = small.epoch;
    while epoch >= 1 << 7 {
        write(&[epoch as u8 | 1 << 7]);
        epoch >>= 7;
    }
    write(&[epoch as u8]);
    write(key);
    write(&object.value);
    set_used(bucket, before + small.record_bytes(key.len()));
}

/// A record, and the range of the bucket that it takes.
#[derive(Debug)]
pub(crate) struct SmallRecord<'b> {
    pub(crate) key: &'b [u8],
    value: &'b [u8],
    found: CachedObject,
    epoch: u32,
    range: std::ops::Range<usize>,
}

impl SmallRecord<'_> {
    /// Its length, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// The object, with its own copy of the value.
    pub(crate) fn to_object(&self) -> SmallObject {
        let mut found = self.found.clone();
        found.object.value = Bytes::copy_from_slice(self.value);
        SmallObject { found, epoch: self.epoch }
    }
}

/// The records of a bucket; the rest is left out after one that is not sound.
pub(crate) fn records(bucket: &[u8]) -> impl Iterator<Item = SmallRecord<'_>> {
    let end = HEADER_BYTES + used(bucket);
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        let record = read(bucket.get(..end)?, at)?;
        at = record.range.end;
        Some(record)
    })
}

fn read(bucket: &[u8], start: usize) -> Option<SmallRecord<'_>> {
    let mut at = start;
    let mut take = |len: usize| {
        let bytes = bucket.get(at..at.checked_add(len)?)?;
        at += len;
        Some(bytes)
    };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let head = take(8)?;
    let (key_len, bits) = (usize::from(head[0]), head[1]);
    let (value_len, accessed_s) = (word(&head[2..4]) as usize, word(&head[4..8]) as u32);
    let version = word(take(usize::from(bits >> VERSION & 7) + 1)?);
    let flags = if bits & HAS_FLAGS != 0 { word(take(4)?) as u32 } else { 0 };
    let deadline = match bits & HAS_DEADLINE {
        0 => Deadline::NEVER,
        _ => Deadline::at(word(take(4)?)),
    };
    let marks = if bits & HAS_MARKS != 0 { take(1)?[0] } else { 0 };
    let mut epoch = 0_u32;
    for shift in (0..35).step_by(7) {
        let byte = take(1)?[0];
        epoch |= u32::from(byte & 0x7f) << shift;
        if byte < 1 << 7 {
            break;
        }
    }
    let (key, value) = (take(key_len)?, take(value_len)?);
    let object = Object { value: Bytes::new(), flags, deadline, version, marks };
    let found = CachedObject { object, was_fetched: bits & FETCHED != 0, accessed_s };
    Some(SmallRecord { key, value, found, epoch, range: start..at })
}

/// The object of a key, if the bucket has it.
pub(crate) fn find(bucket: &[u8], key: &[u8]) -> Option<SmallObject> {
    records(bucket).find(|record| record.key == key).map(|record| record.to_object())
}

/// Removes the record of a key; returns its length, if there was one.
pub(crate) fn remove(bucket: &mut [u8], key: &[u8]) -> Option<usize> {
    let range = records(bucket).find(|record| record.key == key)?.range;
    let used = used(bucket);
    let removed = range.len();
    bucket.copy_within(range.end..HEADER_BYTES + used, range.start);
    set_used(bucket, used - removed);
    Some(removed)
}

/// Completes a bucket, which is written next.
pub(crate) fn seal(bucket: &mut [u8], device: u64, segment: SegmentId, number: u32) {
    let used = used(bucket);
    bucket[8..12].copy_from_slice(&segment.slot.to_le_bytes());
    bucket[12..16].copy_from_slice(&segment.generation.to_le_bytes());
    bucket[16..USED_AT].copy_from_slice(&(number as u16).to_le_bytes());
    bucket[USED_AT + 2..HEADER_BYTES].fill(0);
    bucket[HEADER_BYTES + used..].fill(0);
    let checksum = xxh3_64_with_seed(&bucket[8..], device);
    bucket[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Whether these bytes are the sealed bucket of that number.
pub(crate) fn is_intact(bucket: &[u8], device: u64, segment: SegmentId, number: u32) -> bool {
    let Some((checksum, rest)) = bucket.split_first_chunk::<8>() else { return false };
    bucket.len() == BUCKET_BYTES
        && u64::from_le_bytes(*checksum) == xxh3_64_with_seed(rest, device)
        && rest[..4] == segment.slot.to_le_bytes()
        && rest[4..8] == segment.generation.to_le_bytes()
        && rest[8..10] == (number as u16).to_le_bytes()
}

#[cfg(test)]
mod tests;
