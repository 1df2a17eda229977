//! The small objects of a flash device in memory: the index, segments that are being filled or
//! written, and which numbers of the index have which segments.
//!
//! [`crate::device::small_objects`] says what it is for, and what holds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use crate::entry::{RecordLocation, SegmentId};
use crate::index::small_index::{SmallIndex, SmallLocation};
use crate::index::small_replay::{Replayed, Tombstone};
use crate::segment::bucket::{BUCKET_BYTES, SmallObject};
use crate::segment::bucket_segment::{BucketSegment, bucket_of};
use crate::segment::layout::{Layout, Tag};
use crate::segment::segment_table::{LiveSegments, SegmentState, Slot};

/// Numbers that are in no use while dead segments are purged from the index.
const SPARE_NUMBERS: usize = 4;
/// Memory of a carried object beside its record: in the map, the key, the value.
pub(crate) const CARRIED_OVERHEAD_BYTES: usize = 200;
/// Memory of an object in the index, in bytes, to estimate that of dead segments.
const ENTRY_BYTES: usize = 2;
/// Tombstones that wait for a segment, at most one for each of this many bytes of a segment.
const BYTES_PER_TOMBSTONE: usize = 32;
/// Dead segments are purged together, one for each of this many numbers: each purge reads the whole
/// index.
const NUMBERS_PER_DEAD: usize = 128;
/// The first summary has room for the tags of records of this size, in bytes; later ones for as many
/// as the last one had.
const RECORD_BYTES: usize = 145;

/// The small objects of a device.
#[derive(Debug)]
pub(crate) struct SmallObjects {
    pub(crate) index: SmallIndex,
    /// The segment of each number, and the number of its buckets.
    pub(crate) segments: Box<[AtomicU64]>,
    pub(crate) state: Mutex<SmallState>,
    /// Segments in memory, by their slots.
    pub(crate) buffers: RwLock<HashMap<u32, Arc<RwLock<BucketSegment>>>>,
    /// Held while a segment is written.
    pub(crate) writing: Mutex<()>,
    /// With a larger index the oldest segments are evicted for a new one.
    index_bytes_max: usize,
    tombstones_max: usize,
}

/// Segments that are being filled or written, and what waits for them.
#[derive(Debug)]
pub(crate) struct SmallState {
    pub(crate) open: Option<Open>,
    pub(crate) sealed: VecDeque<Sealed>,
    /// By their hashes.
    pub(crate) carried: HashMap<u64, Carried>,
    pub(crate) carried_bytes: usize,
    /// In the order of their sequences.
    pub(crate) tombstones: VecDeque<Tombstone>,
    /// Whole segments, the oldest first; some may be dead.
    pub(crate) whole: VecDeque<u32>,
    /// Numbers of dead segments, and whether they are being purged.
    pub(crate) dead: Vec<u32>,
    pub(crate) purge: Option<Purge>,
    pub(crate) free: Vec<u32>,
    /// The objects of each number's segment.
    pub(crate) records: Vec<u32>,
    /// The order of the segment that was written last; 0: none.
    pub(crate) written_last: u64,
    /// Tags that the next summary has room for.
    pub(crate) tags: usize,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) segment: Arc<RwLock<BucketSegment>>,
    pub(crate) number: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) slot: Slot,
    pub(crate) segment: Arc<RwLock<BucketSegment>>,
    pub(crate) number: u32,
    pub(crate) tombstones: Vec<Tombstone>,
}

/// An object that found its buckets full.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) key: Box<[u8]>,
    pub(crate) small: SmallObject,
}

impl Carried {
    /// Its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.small.record_bytes(self.key.len()) + CARRIED_OVERHEAD_BYTES
    }
}

/// A purge in progress.
#[derive(Debug)]
pub(crate) struct Purge {
    pub(crate) is_dead: Vec<bool>,
    pub(crate) next_chunk: usize,
}

/// Where a small object may be.
#[derive(Debug)]
pub(crate) enum Found {
    /// In this bucket on flash: its number and segment.
    OnFlash { bucket: u32, id: SegmentId },
    /// In memory: the object.
    InMemory(SmallObject, RecordLocation),
    /// Not there.
    Nowhere,
    /// It has been moved meanwhile: search the index again.
    Moved,
}

/// The location of a bucket.
pub(crate) fn location_of(id: SegmentId, bucket: u32) -> RecordLocation {
    RecordLocation {
        slot: id.slot,
        generation: id.generation as u16,
        offset: bucket * BUCKET_BYTES as u32,
        len: BUCKET_BYTES as u32,
        is_in_buffer: false,
    }
}

/// A segment, and the number of its buckets, as one word.
pub(crate) fn pack(id: SegmentId, buckets: u32) -> u64 {
    u64::from(id.slot) | u64::from(id.generation) << 20 | u64::from(buckets) << 52
}

impl SmallObjects {
    /// The index for a device with this layout: empty.
    pub(crate) fn empty_index(layout: &Layout) -> SmallIndex {
        SmallIndex::new(layout.small_chunks, Self::numbers(layout))
    }

    /// As many as fit the bits of the index. Where they are too few for a sixteenth of the slots,
    /// that is no reason for another bit: segments of buckets take at most the others.
    fn numbers(layout: &Layout) -> u32 {
        (layout.slots - layout.slots / 16 + SPARE_NUMBERS as u32).next_power_of_two()
    }

    /// Whether the oldest segment must be evicted for the next one to have a number, or memory for
    /// its index.
    pub(crate) fn must_evict(&self, state: &SmallState) -> bool {
        let numbers = SPARE_NUMBERS + self.segments.len() / NUMBERS_PER_DEAD;
        let dead_records = state.dead.iter().map(|number| state.records[*number as usize] as usize);
        let dead_bytes = dead_records.sum::<usize>() * ENTRY_BYTES;
        state.free.len() + state.dead.len() < numbers
            || self.index.memory_bytes().saturating_sub(dead_bytes) > self.index_bytes_max
    }

    /// Whether the index has more memory than it may have.
    pub(crate) fn is_too_large(&self) -> bool {
        self.index.memory_bytes() > self.index_bytes_max
    }

    /// Whether too many tombstones wait: a segment must be sealed for them.
    pub(crate) fn has_too_many_tombstones(&self, state: &SmallState) -> bool {
        state.tombstones.len() > self.tombstones_max
    }

    /// Entries of this number are of objects that are carried.
    pub(crate) fn carried_number(&self) -> u32 {
        self.segments.len() as u32 - 1
    }

    /// The small objects that a recovery has found, in this index.
    pub(crate) fn new(layout: &Layout, index: SmallIndex, replayed: Replayed) -> Self {
        let numbers = Self::numbers(layout);
        let segments: Box<[AtomicU64]> = (0..numbers).map(|_| AtomicU64::new(0)).collect();
        let mut is_free = vec![true; numbers as usize - 1];
        let (mut whole, mut records) = (VecDeque::new(), vec![0; numbers as usize]);
        let last = replayed.segments.last().map_or(0, |(slot, _)| slot.order);
        for (slot, number) in replayed.segments {
            let buckets = slot.bytes / BUCKET_BYTES as u32;
            segments[number as usize].store(pack(slot.id, buckets), Ordering::Release);
            is_free[number as usize] = false;
            records[number as usize] = slot.records;
            whole.push_back(number);
        }
        let capacity = layout.segment_bytes as usize;
        let state = SmallState {
            open: None,
            sealed: VecDeque::new(),
            carried: HashMap::new(),
            carried_bytes: 0,
            tombstones: replayed.tombstones.into(),
            whole,
            dead: Vec::new(),
            purge: None,
            free: (0..numbers - 1).filter(|number| is_free[*number as usize]).collect(),
            records,
            written_last: last,
            tags: capacity / RECORD_BYTES,
        };
        Self {
            index,
            segments,
            state: Mutex::new(state),
            buffers: RwLock::default(),
            writing: Mutex::new(()),
            index_bytes_max: layout.small_index_bytes_max() as usize,
            tombstones_max: capacity / BYTES_PER_TOMBSTONE,
        }
    }

    /// The segment with this number, and the number of its buckets.
    pub(crate) fn segment(&self, number: u32) -> (SegmentId, u32) {
        let word = self.segments[number as usize].load(Ordering::Acquire);
        let id = SegmentId { slot: word as u32 & ((1 << 20) - 1), generation: (word >> 20) as u32 };
        (id, (word >> 52) as u32)
    }

    /// Whether segments wait to be written, or numbers to be freed.
    pub(crate) fn wants_upkeep(&self) -> bool {
        let state = self.state.lock();
        !state.sealed.is_empty() || self.is_to_purge(&state) || self.has_too_many_tombstones(&state)
    }

    /// Whether the index must be purged of dead segments.
    pub(crate) fn is_to_purge(&self, state: &SmallState) -> bool {
        let are_many = state.dead.len() > self.segments.len() / NUMBERS_PER_DEAD;
        let is_needed = state.free.is_empty() || self.is_too_large();
        state.purge.is_some() || are_many || is_needed && !state.dead.is_empty()
    }

    /// Its buffers, without the index, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let state = self.state.lock();
        let tombstones_bytes = state.tombstones.capacity() * size_of::<Tombstone>();
        let waiting_bytes = state.carried_bytes + tombstones_bytes;
        drop(state);
        let buffers = self.buffers.read();
        waiting_bytes + buffers.values().map(|it| it.read().memory_bytes()).sum::<usize>()
    }

    /// The memory of its index, in bytes.
    pub(crate) fn index_bytes(&self) -> usize {
        // Beside each number's segment, the number of its objects.
        self.index.memory_bytes() + self.segments.len() * (size_of::<u64>() + size_of::<u32>())
    }
}

impl SmallState {
    /// Whether segments are being filled or wait to be written.
    pub(crate) fn has_buffered(&self) -> bool {
        self.open.is_some() || !self.sealed.is_empty() || !self.carried.is_empty()
    }

    /// The first operation that a recovery would miss if the log did not have it.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let sealed = self.sealed.iter().flat_map(|sealed| &sealed.tombstones);
        sealed.chain(&self.tombstones).map(|tombstone| tombstone.sequence).min()
    }

    pub(crate) fn forget_carried(&mut self) -> impl Iterator<Item = (u64, Carried)> + use<> {
        self.carried_bytes = 0;
        std::mem::take(&mut self.carried).into_iter()
    }
}

/// Removal and lookups.
impl SmallObjects {
    /// Whether an older segment may have an object of that tag; removes those of this key from
    /// memory, where no recovery finds them.
    pub(crate) fn remove_buffered(
        &self,
        state: &mut SmallState,
        (hash, tag): (u64, Tag),
        key: &[u8],
    ) -> bool {
        let open = state.open.as_ref().map(|open| open.number);
        if let Some(Open { segment, number }) = &state.open {
            let mut segment = segment.write();
            while let Some(choice) = segment.remove(hash, key) {
                self.index.remove_one(tag, SmallLocation { number: *number, choice });
            }
        }
        let carried_number = self.carried_number();
        if let Some(carried) = state.carried.get(&hash)
            && *carried.key == *key
        {
            state.carried_bytes -= carried.bytes();
            state.carried.remove(&hash);
            self.index.remove_one(tag, SmallLocation { number: carried_number, choice: 0 });
        }
        let is_old =
            |place: SmallLocation| Some(place.number) != open && place.number != carried_number;
        self.index.find(tag).any(is_old)
    }

    /// Whether the segment with that location has an object of the tag.
    pub(crate) fn has(&self, tag: Tag, location: RecordLocation) -> bool {
        let is_there = |place: SmallLocation| {
            place.number != self.carried_number() && location.is_in(self.segment(place.number).0)
        };
        self.index.find(tag).any(is_there)
    }

    /// Removes the objects of that tag that [`SmallObjects::remove_buffered`] has left, once the
    /// log has the operation.
    pub(crate) fn remove_old(&self, state: &mut SmallState, tag: Tag, sequence: u64) {
        let open = state.open.as_ref().map(|open| open.number);
        let carried_number = self.carried_number();
        self.index
            .remove(tag, |place| Some(place.number) != open && place.number != carried_number);
        state.tombstones.push_back(Tombstone { tag, sequence });
    }

    /// Drops all small objects; returns the slots of the segments that were in memory.
    pub(crate) fn forget(&self, state: &mut SmallState) -> Vec<u32> {
        state.forget_carried().for_each(drop);
        (state.open, state.purge) = (None, None);
        state.sealed.clear();
        state.tombstones.clear();
        state.whole.clear();
        state.dead.clear();
        state.free = (0..self.carried_number()).collect();
        state.written_last = 0;
        self.index.clear();
        self.buffers.write().drain().map(|(slot, _)| slot).collect()
    }

    /// Where an object of that hash is, by one of its locations in the index.
    pub(crate) fn find(
        &self,
        hash: u64,
        key: &[u8],
        place: SmallLocation,
        live_segments: &LiveSegments,
    ) -> Found {
        if place.number == self.carried_number() {
            let state = self.state.lock();
            return match state.carried.get(&hash).filter(|carried| *carried.key == *key) {
                // Nothing is found there once the object has been moved.
                Some(carried) => {
                    let location = RecordLocation {
                        slot: u32::MAX,
                        generation: 0,
                        offset: 0,
                        len: 0,
                        is_in_buffer: false,
                    };
                    Found::InMemory(carried.small.clone(), location)
                }
                None => Found::Moved,
            };
        }
        let (id, buckets) = self.segment(place.number);
        let bucket = bucket_of(hash, place.choice, buckets);
        let location = location_of(id, bucket);
        match live_segments.of(location) {
            None => Found::Nowhere,
            Some((_, SegmentState::Whole)) if buckets == 0 => Found::Nowhere,
            Some((_, SegmentState::Whole)) => Found::OnFlash { bucket, id },
            Some((_, SegmentState::Buffered)) => {
                let segment = self.buffers.read().get(&id.slot).cloned();
                // It has just been written.
                let Some(segment) = segment else { return Found::Moved };
                let segment = segment.read();
                match segment.find(hash, key).filter(|_| segment.id() == id) {
                    Some(small) => Found::InMemory(small, location),
                    None => Found::Nowhere,
                }
            }
        }
    }
}
