//! The layout of a device.
//!
//! ```text
//! superblock A │ superblock B │ invalidations │ versions of pages │ segment table │   buffered
//! pages of the index, two places each │ slots of segments                         │   direct
//! ```
//!
//! Every part begins at a multiple of 4 KiB. The first line is written through the operating
//! system's cache, in small pieces, before the operation is acknowledged; the second bypasses it.
//! The two lines never share a block of 4 KiB.
//!
//! Pure.

use crate::entry::{
    FINGERPRINT_BITS_MAX, RECORD_HEADER_BYTES, SEGMENT_BYTES_MAX, SLOTS_MAX, UNIT_BYTES,
};
use crate::error::{Error, Result};
use crate::segment::bucket::SMALL_RECORD_BYTES_MAX;
use crate::segment::page::{ENTRIES_MAX, PAGE_BYTES};

/// Alignment of the parts, in bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// The size of a superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = BLOCK_BYTES as usize;
/// The size of an invalidation.
pub(crate) const INVALIDATION_BYTES: usize = 32;
/// The size of a page's version.
pub(crate) const VERSION_BYTES: usize = 16;
/// The size of a slot's entry in the segment table.
pub(crate) const SLOT_BYTES: usize = 64;

/// The size of a record's entry in the summary of its segment.
pub(crate) const SUMMARY_BYTES: usize = 24;

/// Fewer slots do not make a log.
const SLOTS_MIN: u64 = 8;
/// The least size of a segment, unless a test sets another one.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 2 << 20;
/// The number of segments of a device that is neither too small nor too large.
const DEFAULT_SEGMENTS: u64 = 1024;
/// Lists of a chunk of the index of small objects: as many as it has objects of the average size.
pub(crate) const CHUNK_LISTS: u64 = 2048;
/// Bytes of flash that a small object takes beside its key and value: about 15 of its record, 5 in
/// a summary, and a part of what stays empty.
const SMALL_OVERHEAD_BYTES: u64 = 40;
/// The log of invalidations has room for one in this many bytes of a segment, at least.
const INVALIDATED_BYTES: u64 = 64;
/// The fill of pages where objects have the average size: three quarters.
pub(crate) const DEFAULT_ENTRIES: u64 = ENTRIES_MAX as u64 * 3 / 4;

/// Bits per entry of the filter of a page: one absent name in 128 passes, and costs a read.
const CHECK_BITS: u32 = 7;
/// One more bit for each doubling of the record size beyond this, in bytes, up to
/// `CHECK_BITS_MAX`: a false positive reads a record.
const CHECKED_RECORD_BYTES: u64 = 8 << 10;
const CHECK_BITS_MAX: u32 = 14;

/// The name of a key in the index. Of two keys with one name the index has the younger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) partition: u32,
    pub(crate) fingerprint: u64,
}

impl Name {
    /// The name as one number, for flash.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.partition) << FINGERPRINT_BITS_MAX | self.fingerprint
    }

    /// The name with that number.
    pub(crate) fn from_number(number: u64) -> Self {
        let fingerprint = number & ((1 << FINGERPRINT_BITS_MAX) - 1);
        Self { partition: (number >> FINGERPRINT_BITS_MAX) as u32, fingerprint }
    }
}

/// Bits of a tag.
pub(crate) const TAG_BITS: u32 = 39;

/// A hash of a name, by which small objects are indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tag(pub(crate) u64);

impl Tag {
    /// The tag in the lowest bits of a number.
    pub(crate) fn of_number(number: u64) -> Self {
        Self(number & ((1 << TAG_BITS) - 1))
    }
}

impl Name {
    /// The name's tag.
    pub(crate) fn tag(self) -> Tag {
        Tag(self.number().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - TAG_BITS))
    }
}

/// The flash that an object of `object_bytes`, key and value, takes, in bytes: a record, a summary
/// entry, and an entry on each of two pages.
fn taken_bytes(object_bytes: u64) -> u64 {
    let record_bytes = object_bytes + RECORD_HEADER_BYTES as u64;
    let place_bytes = 2 * PAGE_BYTES as u64 / DEFAULT_ENTRIES;
    record_bytes.next_multiple_of(UNIT_BYTES as u64) + SUMMARY_BYTES as u64 + place_bytes
}

/// The parts of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The whole device.
    pub(crate) bytes: u64,
    /// The size of a segment.
    pub(crate) segment_bytes: u32,
    /// The number of segment slots.
    pub(crate) slots: u32,
    /// The number of index partitions.
    pub(crate) partitions: u32,
    /// The capacity of the invalidation log.
    pub(crate) invalidations: u32,
    /// Bits of a fingerprint.
    pub(crate) fingerprint_bits: u32,
    /// Chunks of the index of small objects. They decide which keys the index takes for each other,
    /// and so what an invalidation removes, now and in a recovery.
    pub(crate) small_chunks: u32,
}

impl Layout {
    /// The layout of a device of `bytes`, for objects of the average size.
    ///
    /// # Errors
    ///
    /// When it is too small for the least number of segments; the message states the size needed.
    pub(crate) fn of(
        bytes: u64,
        avg_object_bytes: u64,
        segment_bytes: Option<u64>,
        fingerprint_bits: u32,
    ) -> Result<Self> {
        let average = (bytes / DEFAULT_SEGMENTS).next_power_of_two();
        let average = average.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX as u64);
        let segment_bytes = segment_bytes.unwrap_or(average);
        // Smaller objects are not in its index.
        let avg_record_bytes = avg_object_bytes.max(SMALL_RECORD_BYTES_MAX as u64);
        let objects = bytes / taken_bytes(avg_record_bytes) + 1;
        // With larger objects on average, there may be half as many small ones.
        let small_objects = bytes / (avg_object_bytes + SMALL_OVERHEAD_BYTES);
        let is_small = avg_object_bytes <= SMALL_RECORD_BYTES_MAX as u64;
        let small_objects = if is_small { small_objects } else { small_objects / 2 };
        let layout = Self {
            bytes,
            segment_bytes: segment_bytes as u32,
            slots: 0,
            partitions: objects.div_ceil(DEFAULT_ENTRIES).min(1 << 24) as u32,
            // Half of them are used when page merges begin to free the log, and as many as a
            // segment has small objects: it would be written before it is full.
            invalidations: (objects / 4)
                .max(segment_bytes / INVALIDATED_BYTES)
                .next_multiple_of(128)
                .clamp(1 << 10, 1 << 21) as u32,
            fingerprint_bits,
            small_chunks: small_objects.div_ceil(CHUNK_LISTS).clamp(1, 1 << 24) as u32,
        };
        let slots = layout.slots_fitting(bytes).min(SLOTS_MAX.into());
        if slots < SLOTS_MIN {
            return Err(Error::invalid(format!(
                "a flash device of {bytes} bytes is too small: it takes at least {}",
                Self::bytes_min(avg_object_bytes, segment_bytes)
            )));
        }
        Ok(Self { slots: slots as u32, ..layout })
    }

    /// The number of slots that fit in `bytes`, with all other parts. Ignores the layout's own
    /// number of slots.
    fn slots_fitting(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.overhead_bytes()) / self.slot_bytes()
    }

    /// The size of all parts but the slots, in bytes, however many may be in use.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        Self { slots: 0, ..*self }.segments_at() + BLOCK_BYTES
    }

    fn slot_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) + SLOT_BYTES as u64
    }

    /// The number of slots that may be in use within `bytes`: none with 0. `None` if that is less
    /// than the least number of slots.
    pub(crate) fn slots_within(&self, bytes: u64) -> Option<u32> {
        if bytes == 0 {
            return Some(0);
        }
        let slots = self.slots_fitting(bytes).min(self.slots.into());
        (slots >= SLOTS_MIN).then_some(slots as u32)
    }

    /// The least bytes that may be in use, if any are.
    pub(crate) fn in_use_bytes_min(&self) -> u64 {
        self.overhead_bytes() + SLOTS_MIN * self.slot_bytes()
    }

    /// Approximately the smallest device that is large enough, in bytes.
    fn bytes_min(avg_object_bytes: u64, segment_bytes: u64) -> u64 {
        let slots_bytes = SLOTS_MIN * (segment_bytes + SLOT_BYTES as u64);
        // The index takes its share of any size.
        let page_bytes = 2 * PAGE_BYTES as u64 + VERSION_BYTES as u64;
        let taken_bytes = taken_bytes(avg_object_bytes);
        let share = page_bytes as f64 / (DEFAULT_ENTRIES * taken_bytes) as f64;
        let log_bytes = segment_bytes / INVALIDATED_BYTES * INVALIDATION_BYTES as u64;
        let fixed_bytes = slots_bytes + log_bytes + 128 * BLOCK_BYTES;
        ((fixed_bytes as f64 / (1.0 - share).max(0.01)) as u64).next_multiple_of(1 << 20)
    }

    /// The most DRAM that the index takes, in bytes, without changes, locations and hot entries: the
    /// state of each partition and the filter of a full page, the state of each slot, and the index
    /// of small objects.
    pub(crate) fn index_bytes_max(&self) -> u64 {
        let records_bytes = u64::from(self.partitions) * (120 + self.filter_bytes_max());
        records_bytes + u64::from(self.slots) * 240 + self.small_index_bytes_max()
    }

    /// The most DRAM that the filter of a page takes, in bytes: ten bits for each entry of a full
    /// page, or more where records are long.
    pub(crate) fn filter_bytes_max(&self) -> u64 {
        ENTRIES_MAX as u64 * u64::from((self.check_bits() + 2).max(10)) / 8
    }

    /// Bits of the filter of a page, for each entry.
    pub(crate) fn check_bits(&self) -> u32 {
        let records = u64::from(self.partitions) * DEFAULT_ENTRIES;
        let record_bytes = u64::from(self.slots) * u64::from(self.segment_bytes) / records.max(1);
        let doublings = (record_bytes / CHECKED_RECORD_BYTES).checked_ilog2().unwrap_or(0);
        (CHECK_BITS + doublings).min(CHECK_BITS_MAX)
    }

    /// The most DRAM that the index of small objects takes, in bytes: two for each object of the
    /// average size that fits, and the state of each chunk.
    pub(crate) fn small_index_bytes_max(&self) -> u64 {
        u64::from(self.small_chunks) * (2 * CHUNK_LISTS + 80)
    }

    pub(crate) fn superblock_at(&self, generation: u64) -> u64 {
        generation % 2 * BLOCK_BYTES
    }

    /// The offset of the invalidation with that number.
    pub(crate) fn invalidation_at(&self, number: u64) -> u64 {
        let place = number % u64::from(self.invalidations);
        2 * BLOCK_BYTES + place * INVALIDATION_BYTES as u64
    }

    pub(crate) fn versions_at(&self) -> u64 {
        let end = 2 * BLOCK_BYTES + u64::from(self.invalidations) * INVALIDATION_BYTES as u64;
        end.next_multiple_of(BLOCK_BYTES)
    }

    pub(crate) fn version_at(&self, partition: u32) -> u64 {
        self.versions_at() + u64::from(partition) * VERSION_BYTES as u64
    }

    pub(crate) fn table_at(&self) -> u64 {
        self.version_at(self.partitions).next_multiple_of(BLOCK_BYTES)
    }

    pub(crate) fn table_entry_at(&self, slot: u32) -> u64 {
        self.table_at() + u64::from(slot) * SLOT_BYTES as u64
    }

    fn pages_at(&self) -> u64 {
        self.table_entry_at(self.slots).next_multiple_of(BLOCK_BYTES)
    }

    /// The offset of a partition's page with that version: versions alternate.
    pub(crate) fn page_at(&self, partition: u32, version: u32) -> u64 {
        let place = u64::from(partition) * 2 + u64::from(version % 2);
        self.pages_at() + place * PAGE_BYTES as u64
    }

    fn segments_at(&self) -> u64 {
        self.page_at(self.partitions, 0)
    }

    pub(crate) fn segment_at(&self, slot: u32) -> u64 {
        self.segments_at() + u64::from(slot) * u64::from(self.segment_bytes)
    }

    /// The name of a key with that hash.
    pub(crate) fn name_of(&self, hash: u64) -> Name {
        let partition = (((hash >> 32) * u64::from(self.partitions)) >> 32) as u32;
        Name { partition, fingerprint: hash & ((1 << self.fingerprint_bits) - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another_and_end_within_the_device() {
        for (bytes, average) in [(64 << 20, 4096), (4 << 30, 32 << 10), (1 << 40, 4096)] {
            let layout = Layout::of(bytes, average, None, 40).expect("it is large enough");
            let last = u64::from(layout.invalidations) - 1;
            let starts = [
                layout.superblock_at(1),
                layout.invalidation_at(0),
                layout.invalidation_at(last),
                layout.versions_at(),
                layout.table_at(),
                layout.page_at(0, 0),
                layout.page_at(layout.partitions - 1, 1),
                layout.segment_at(0),
                layout.segment_at(layout.slots - 1),
            ];
            assert!(starts.is_sorted_by(|a, b| a < b), "{starts:?}");
            assert!(layout.segment_at(layout.slots) <= bytes);
            assert!(layout.segment_at(layout.slots) + 2 * u64::from(layout.segment_bytes) > bytes);
            assert_eq!(layout.page_at(0, 0) % BLOCK_BYTES, 0);
            assert_eq!(layout.invalidation_at(last + 1), layout.invalidation_at(0));
        }
    }

    #[test]
    fn too_small_device_is_refused_with_the_minimum() {
        let error = Layout::of(1 << 20, 4096, None, 40).unwrap_err().to_string();
        let least: u64 = error.rsplit(' ').next().unwrap().parse().expect("it is a number");
        assert!(Layout::of(least, 4096, None, 40).is_ok(), "{error}");
        assert!(Layout::of(least - (2 << 20), 4096, None, 40).is_err(), "{error}");
    }

    #[test]
    fn slots_within_a_part_fit_it() {
        for bytes in [64 << 20, (64 << 20) + 1_000_000, 4 << 30] {
            let layout = Layout::of(bytes, 4096, None, 40).expect("it is large enough");
            let least = layout.in_use_bytes_min();
            let slots = [0, 1, least - 1, least, bytes, bytes + (1 << 30)];
            let slots = slots.map(|bytes| layout.slots_within(bytes));
            let all = Some(layout.slots);
            assert_eq!(slots, [Some(0), None, None, Some(SLOTS_MIN as u32), all, all]);
            let half = layout.slots_within(bytes / 2).expect("it is enough");
            assert!(layout.segment_at(half) <= bytes / 2);
            assert!(half * 200 >= layout.slots * 90, "{half} of {}", layout.slots);
        }
    }

    #[test]
    fn a_terabyte_of_small_objects_has_a_directory_of_a_few_megabytes() {
        let layout = Layout::of(1 << 40, 4096, None, 40).expect("it is large enough");
        let directory_bytes = layout.page_at(0, 0) - layout.versions_at();
        assert!(directory_bytes < 12 << 20, "{directory_bytes}");
    }

    /// A device that was opened with another average is not trusted: its index would take other keys
    /// for each other than the invalidations on it did.
    #[test]
    fn layout_has_the_chunks_of_the_index_of_small_objects() {
        let of = |average| Layout::of(64 << 20, average, None, 40).expect("it is large enough");
        assert_ne!(of(200), of(300));
        assert_eq!(Layout { small_chunks: of(300).small_chunks, ..of(200) }, of(300));
    }

    #[test]
    fn every_partition_is_reachable() {
        let layout = Layout::of(64 << 20, 4096, None, 40).expect("it is large enough");
        let (first, last) = (layout.name_of(0), layout.name_of(u64::MAX));
        assert_eq!(first, Name { partition: 0, fingerprint: 0 });
        assert_eq!(last, Name { partition: layout.partitions - 1, fingerprint: (1 << 40) - 1 });
    }
}
