//! A segment of buckets in memory: small objects in the buckets that their hashes determine, and
//! behind them, once it is sealed, a summary with the tags of its objects, from which a recovery
//! rebuilds the index without reading the objects.
//!
//! An object goes to the emptier of two buckets. If both are full, an object in one of them may go to
//! its other one instead (a step of cuckoo hashing). So nearly all buckets are full before many
//! objects find no room. Those wait for the next segment.
//!
//! ```text
//! summary, behind the last bucket:
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`, seeded with the device) of the rest
//! 8       8     slot and generation
//! 16      8     order of the segment of buckets that was written before; 0: none
//! 24      4     objects
//! 28      4     tombstones
//! 32            5 bytes each, objects first: the tag (39 bits), above it which of its two buckets
//!               has the object; 0 for a tombstone
//! ```
//!
//! A tombstone says that no older segment has a live object of that tag.
//!
//! Values on flash: do not change. Pure; for one thread at a time, but sealed buckets do not change.

use tidekv_io::buffer::AlignedVec;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::entry::SegmentId;
use crate::segment::bucket::{self, BUCKET_BYTES, SmallObject};
use crate::segment::layout::{Name, TAG_BITS, Tag};
use crate::segment::segment_table::Slot;

const SUMMARY_HEAD_BYTES: usize = 32;
const TAG_BYTES: usize = 5;

/// Which of its two buckets an object is in: 0 or 1.
pub(crate) type Choice = u8;

/// One of the two buckets of a hash, by its number.
pub(crate) fn bucket_of(hash: u64, choice: Choice, buckets: u32) -> u32 {
    let factor = [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F_u64][usize::from(choice & 1)];
    let mixed = (hash ^ hash >> 29).wrapping_mul(factor);
    (((mixed >> 32) * u64::from(buckets)) >> 32) as u32
}

/// An object that has been added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) choice: Choice,
    pub(crate) moved: Option<Moved>,
}

/// An object that has been moved from the given bucket to its other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) hash: u64,
    pub(crate) from: Choice,
}

/// The tags of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TagSummary {
    /// The order of the segment that was written before; 0: none.
    pub(crate) previous: u64,
    pub(crate) objects: Vec<(Tag, Choice)>,
    pub(crate) tombstones: Vec<Tag>,
}

impl TagSummary {
    /// The bytes of a summary with this many tags.
    fn bytes(tags: usize) -> usize {
        SUMMARY_HEAD_BYTES + tags * TAG_BYTES
    }

    /// The summary in these bytes, if it is intact and the segment's.
    pub(crate) fn decode(bytes: &[u8], device: u64, id: SegmentId) -> Option<Self> {
        let (checksum, rest) = bytes.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*checksum) != xxh3_64_with_seed(rest, device) {
            return None;
        }
        let (head, tags) = rest.split_first_chunk::<{ SUMMARY_HEAD_BYTES - 8 }>()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[at + n]));
        let previous = u64::from(word(8)) | u64::from(word(12)) << 32;
        let objects = word(16) as usize;
        if (word(0), word(4)) != (id.slot, id.generation)
            || tags.len() != (objects + word(20) as usize) * TAG_BYTES
        {
            return None;
        }
        let numbers = tags
            .chunks_exact(TAG_BYTES)
            .map(|bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        let all = numbers.map(|number| (Tag::of_number(number), (number >> TAG_BITS) as Choice));
        let mut objects_and_tombstones: Vec<(Tag, Choice)> = all.collect();
        let tombstones = objects_and_tombstones.split_off(objects);
        let tombstones = tombstones.into_iter().map(|(tag, _)| tag).collect();
        Some(Self { previous, objects: objects_and_tombstones, tombstones })
    }
}

/// The offset of the summary in a whole segment, and its length, in bytes.
pub(crate) fn tag_summary_range(slot: &Slot) -> (u64, usize) {
    (slot.bytes.into(), TagSummary::bytes(slot.records as usize + slot.tombstones as usize))
}

/// A segment of buckets.
pub(crate) struct BucketSegment {
    bytes: AlignedVec,
    buckets: u32,
    capacity: usize,
    slot: Slot,
    /// Bytes of its records.
    record_bytes: usize,
}

impl BucketSegment {
    /// An empty segment in the slot, with a summary that has room for about `tags` tags, in a
    /// buffer of `capacity` bytes.
    pub(crate) fn new(
        id: SegmentId,
        order: u64,
        capacity: usize,
        tags: usize,
        mut buffer: AlignedVec,
    ) -> Self {
        let blocks = capacity / BUCKET_BYTES;
        let summary = TagSummary::bytes(tags).div_ceil(BUCKET_BYTES);
        let buckets = blocks.saturating_sub(summary).max(1);
        // Most of what a used buffer holds need not be cleared.
        buffer.resize(buckets * BUCKET_BYTES, 0);
        buffer.chunks_exact_mut(BUCKET_BYTES).for_each(bucket::clear);
        let slot = Slot {
            order,
            sequence_max: order,
            may_go_at_s: u32::MAX,
            deadline_max_s: u32::MAX,
            is_small: true,
            ..Slot::free(id)
        };
        Self { bytes: buffer, buckets: buckets as u32, capacity, slot, record_bytes: 0 }
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.slot.id
    }

    pub(crate) fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The number of its objects.
    pub(crate) fn records(&self) -> u32 {
        self.slot.records
    }

    /// Bytes of its buckets, and of the records in them.
    pub(crate) fn fill(&self) -> (usize, usize) {
        (self.buckets as usize * BUCKET_BYTES, self.record_bytes)
    }

    /// The most tags that its summary can have: without objects it is not behind buckets.
    pub(crate) fn tags_max(&self) -> usize {
        let buckets = if self.slot.records == 0 { 0 } else { self.buckets as usize };
        let summary_bytes = self.capacity - buckets * BUCKET_BYTES;
        summary_bytes.saturating_sub(SUMMARY_HEAD_BYTES) / TAG_BYTES
    }

    /// Whether its summary has room for one more object, beside this many tombstones.
    pub(crate) fn has_room_for_tag(&self, tombstones: usize) -> bool {
        let summary_bytes = self.capacity - self.buckets as usize * BUCKET_BYTES;
        let tags = self.slot.records as usize + tombstones + 1;
        TagSummary::bytes(tags) <= summary_bytes
    }

    fn bucket_mut(&mut self, number: u32) -> &mut [u8] {
        let at = number as usize * BUCKET_BYTES;
        &mut self.bytes[at..at + BUCKET_BYTES]
    }

    fn bucket(&self, number: u32) -> &[u8] {
        let at = number as usize * BUCKET_BYTES;
        &self.bytes[at..at + BUCKET_BYTES]
    }

    /// Adds an object to the emptier of its buckets, after another object has made room if need be;
    /// `None` if there is none.
    pub(crate) fn add(&mut self, hash: u64, key: &[u8], small: &SmallObject) -> Option<Added> {
        let bytes = small.record_bytes(key.len());
        let numbers = [0, 1].map(|choice| bucket_of(hash, choice, self.buckets));
        let [first, second] = numbers.map(|number| bucket::room(self.bucket(number)));
        let mut added = Added { choice: Choice::from(second > first), moved: None };
        if first.max(second) < bytes {
            let move_out = |(number, choice): (u32, Choice)| {
                let moved = self.move_out(number, bytes)?;
                Some(Added { choice, moved: Some(moved) })
            };
            added = numbers.into_iter().zip([0, 1]).find_map(move_out)?;
        }
        let number = numbers[usize::from(added.choice)];
        bucket::append(self.bucket_mut(number), key, small);
        self.slot.records += 1;
        self.record_bytes += bytes;
        Some(added)
    }

    /// Moves an object out of a bucket to its other one, so that the bucket has room for this many
    /// bytes.
    fn move_out(&mut self, number: u32, bytes: usize) -> Option<Moved> {
        let bucket = self.bucket(number);
        let room = bucket::room(bucket);
        let (moved, other, key, small) = bucket::records(bucket).find_map(|record| {
            let hash = xxh3_64(record.key);
            let [first, second] = [0, 1].map(|choice| bucket_of(hash, choice, self.buckets));
            let (from, other) = if first == number { (0, second) } else { (1, first) };
            let makes_room = other != number
                && room + record.len() >= bytes
                && bucket::room(self.bucket(other)) >= record.len();
            let moved = Moved { hash, from };
            makes_room.then(|| (moved, other, record.key.to_vec(), record.to_object()))
        })?;
        bucket::remove(self.bucket_mut(number), &key);
        bucket::append(self.bucket_mut(other), &key, &small);
        Some(moved)
    }

    /// The object of a key. In memory it may be moved at any time: both buckets are searched.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<SmallObject> {
        if self.buckets == 0 {
            return None;
        }
        let in_bucket =
            |choice| bucket::find(self.bucket(bucket_of(hash, choice, self.buckets)), key);
        in_bucket(0).or_else(|| in_bucket(1))
    }

    /// Removes an object; returns which bucket it was in.
    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Choice> {
        let buckets = self.buckets;
        let mut choices = [0, 1].into_iter();
        let (choice, bytes) = choices.find_map(|choice| {
            let number = bucket_of(hash, choice, buckets);
            Some((choice, bucket::remove(self.bucket_mut(number), key)?))
        })?;
        self.slot.records -= 1;
        self.record_bytes -= bytes;
        Some(choice)
    }

    /// The segment's entry of the segment table, with this many tombstones: all its objects count
    /// from that sequence on, and it does not change any more.
    pub(crate) fn seal(&mut self, sequence: u64, tombstones: u32) -> Slot {
        if self.slot.records == 0 {
            // Empty buckets need not be written.
            self.buckets = 0;
        }
        self.slot.bytes = self.buckets * BUCKET_BYTES as u32;
        self.slot.sequence_max = sequence;
        self.slot.tombstones = tombstones;
        self.slot.is_whole = true;
        self.slot
    }

    /// Completes a bucket of a sealed segment, and appends the tags of its objects to the summary.
    /// Call it for all buckets in their order, and then [`BucketSegment::finish`].
    pub(crate) fn finish_bucket(
        &mut self,
        number: u32,
        device: u64,
        name_of: impl Fn(u64) -> Name,
    ) {
        if number == 0 {
            let summary_at = self.buckets as usize * BUCKET_BYTES;
            self.bytes.resize(summary_at, 0);
            self.bytes.resize(summary_at + SUMMARY_HEAD_BYTES, 0);
        }
        let (id, buckets) = (self.slot.id, self.buckets);
        let bucket = self.bucket_mut(number);
        bucket::seal(bucket, device, id, number);
        let tag_of = |record: bucket::SmallRecord<'_>| {
            let hash = xxh3_64(record.key);
            let choice = u64::from(bucket_of(hash, 0, buckets) != number);
            name_of(hash).tag().0 | choice << TAG_BITS
        };
        // At most a bucket's.
        let tags: Vec<u64> = bucket::records(bucket).map(tag_of).collect();
        for tag in tags {
            self.bytes.extend_from_slice(&tag.to_le_bytes()[..TAG_BYTES]);
        }
    }

    /// Completes the summary, with these tombstones and the order of the segment that was written
    /// before.
    pub(crate) fn finish(
        &mut self,
        device: u64,
        previous: u64,
        tombstones: impl Iterator<Item = Tag>,
    ) {
        let start = self.buckets as usize * BUCKET_BYTES;
        if self.buckets == 0 {
            self.bytes.clear();
            self.bytes.resize(SUMMARY_HEAD_BYTES, 0);
        }
        for tag in tombstones {
            self.bytes.extend_from_slice(&tag.0.to_le_bytes()[..TAG_BYTES]);
        }
        let slot = &self.slot;
        let head = [
            &slot.id.slot.to_le_bytes()[..],
            &slot.id.generation.to_le_bytes(),
            &previous.to_le_bytes(),
            &slot.records.to_le_bytes(),
            &slot.tombstones.to_le_bytes(),
        ]
        .concat();
        self.bytes[start + 8..start + SUMMARY_HEAD_BYTES].copy_from_slice(&head);
        let checksum = xxh3_64_with_seed(&self.bytes[start + 8..], device);
        self.bytes[start..start + 8].copy_from_slice(&checksum.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(BUCKET_BYTES), 0);
        assert!(self.bytes.len() <= self.capacity, "a segment stays within its slot");
    }

    /// The bytes to write.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its buffer, for reuse.
    pub(crate) fn into_buffer(self) -> AlignedVec {
        self.bytes
    }

    /// Its memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

impl std::fmt::Debug for BucketSegment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} buckets for {:?}", self.buckets, self.slot)
    }
}

#[cfg(test)]
mod tests;
