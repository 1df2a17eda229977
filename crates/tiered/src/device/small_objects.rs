//! Small objects of a flash device: in buckets of 4 KiB ([`crate::segment::bucket`]), located by an
//! index in DRAM ([`crate::index::small_index`]).
//!
//! A segment of buckets is filled in memory and written at once, as in Nemo (2025): a log of
//! segments in which the key's hash determines the bucket. So an object is written about once, as
//! in a log, and the index needs no more than the number of its segment, as with sets (Kangaroo,
//! SOSP 2021). One segment is filled at a time; objects that find their buckets full are carried
//! over to the next one.
//!
//! ```text
//!  put_small()      both buckets full
//!      │ ──────────────────────────────► carried ─┐ next segment
//!      ▼                                          │
//!    open ◄────────────────────────────────────────┘
//!      │ seal: many are carried, the summary is full, or the log must be cut
//!      ▼                 written                evicted in this order      purge
//!    sealed ────────────────────────► whole ──────────────────► dead ───────────► number is free
//! ```
//!
//! Guarantees, beside those of [`crate::device::flash_device`]:
//! 1. In a segment for which the index has an entry of a tag, every object with that tag is live.
//!    So all copies that a lookup finds are of the object's last state.
//! 2. A removed object is not found by a recovery: it is removed from the open segment itself, and
//!    for all other segments logged, and written as a tombstone of the next segment before the log
//!    is cut ([`crate::index::small_replay`]).
//! 3. Segments of buckets are evicted in the order in which they were sealed.
//! 4. An object expires like any other, but its space is used again only when its segment is
//!    evicted.
//!
//! Removing an object also removes those that the index takes for it: they are missed later.
//!
//! Relies on its caller to invalidate a key before another state of it is put.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;
use tidekv_io::Result;
use tidekv_io::buffer::AlignedVec;

use crate::device::flash_device::{Device, WriteState};
use crate::device::small_state::{Carried, Open, Purge, Sealed, SmallState, location_of, pack};
use crate::index::small_index::SmallLocation;
use crate::segment::bucket::SmallObject;
use crate::segment::bucket_segment::{Added, BucketSegment, Moved};
use crate::segment::layout::Tag;

/// Of the bytes of a segment's buckets, this part may be carried to the next segment, in percent: with
/// less, buckets stay emptier, and with more, memory holds more.
const CARRIED_PERCENT: usize = 5;
/// Chunks of the index that are purged under one lock.
const PURGED_CHUNKS: usize = 8;
/// A summary has this much more room than the last one used, in percent.
const SUMMARY_PERCENT: usize = 110;

/// Changes.
impl Device {
    fn tag_of(&self, hash: u64) -> Tag {
        self.layout.name_of(hash).tag()
    }

    /// Puts a small object; returns whether it was accepted. It is not if no buffer is free.
    ///
    /// # Errors
    ///
    /// When the device has broken.
    pub(crate) fn put_small(
        &self,
        hash: u64,
        key: &[u8],
        small: &SmallObject,
        now_s: u32,
    ) -> Result<bool> {
        if self.is_broken() {
            return Ok(false);
        }
        let mut state = self.small.state.lock();
        if !self.add_small(&mut state, hash, key, small, now_s)? {
            self.counters.bypassed.add(1);
            return Ok(false);
        }
        drop(state);
        self.counters.objects_written.add(1);
        self.counters.object_bytes_written.add((key.len() + small.found.object.value.len()) as u64);
        Ok(true)
    }

    fn add_small(
        &self,
        state: &mut SmallState,
        hash: u64,
        key: &[u8],
        small: &SmallObject,
        now_s: u32,
    ) -> Result<bool> {
        // A second attempt is made in the next segment.
        for _ in 0..2 {
            if state.open.is_none() {
                self.open_small(state, now_s)?;
            }
            let Some(open) = &state.open else { break };
            let number = open.number;
            let mut segment = open.segment.write();
            let carried_max = segment.fill().0 * CARRIED_PERCENT / 100;
            if segment.has_room_for_tag(state.tombstones.len()) {
                if let Some(added) = segment.add(hash, key, small) {
                    self.index_added(hash, number, added);
                    return Ok(true);
                }
                let carried = Carried { key: key.into(), small: small.clone() };
                if state.carried_bytes + carried.bytes() <= carried_max {
                    drop(segment);
                    return Ok(self.carry(state, hash, carried));
                }
            }
            drop(segment);
            self.seal_small(state);
        }
        Ok(false)
    }

    /// Indexes an object that has been added to the open segment, and one that was moved for it.
    fn index_added(&self, hash: u64, number: u32, added: Added) {
        let Added { choice, moved } = added;
        if let Some(Moved { hash, from }) = moved {
            let tag = self.tag_of(hash);
            self.small.index.insert(tag, SmallLocation { number, choice: 1 - from });
            self.small.index.remove_one(tag, SmallLocation { number, choice: from });
        }
        self.small.index.insert(self.tag_of(hash), SmallLocation { number, choice });
    }

    /// Keeps an object for the next segment; not if another key with the same hash is carried.
    fn carry(&self, state: &mut SmallState, hash: u64, carried: Carried) -> bool {
        if state.carried.contains_key(&hash) {
            return false;
        }
        state.carried_bytes += carried.bytes();
        state.carried.insert(hash, carried);
        let place = SmallLocation { number: self.small.carried_number(), choice: 0 };
        self.small.index.insert(self.tag_of(hash), place);
        true
    }

    /// Opens a segment, if a buffer and a slot are free, and moves the carried objects there.
    fn open_small(&self, state: &mut SmallState, now_s: u32) -> Result<()> {
        self.find_dead(state);
        let Some(number) = state.free.last().copied() else { return Ok(()) };
        let mut write_state = self.write_state.lock();
        if write_state.slots.in_use_max() == 0 || write_state.buffers >= self.limits.load().buffers
        {
            return Ok(());
        }
        while self.small.must_evict(state) && !state.whole.is_empty() {
            self.evict_small(state, &mut write_state, now_s)?;
        }
        if self.small.is_too_large() && !state.dead.is_empty() {
            // Until they are purged.
            return Ok(());
        }
        let Some(id) = self.take_slot(&mut write_state, now_s)? else { return Ok(()) };
        state.free.pop();
        let order = self.next_sequence();
        let capacity = self.layout.segment_bytes as usize;
        let buffer = write_state.spare.pop().unwrap_or_else(|| AlignedVec::with_capacity(capacity));
        let tags = state.tags.max(state.carried.len() * SUMMARY_PERCENT / 100);
        let segment = BucketSegment::new(id, order, capacity, tags, buffer);
        let word = pack(id, segment.buckets());
        self.small.segments[number as usize].store(word, Ordering::Release);
        let segment = Arc::new(RwLock::new(segment));
        self.small.buffers.write().insert(id.slot, Arc::clone(&segment));
        self.live_segments.set_buffered(id, order);
        write_state.buffers += 1;
        drop(write_state);
        let mut buckets = segment.write();
        let carried_number = self.small.carried_number();
        for (hash, carried) in state.forget_carried() {
            let has_room = buckets.has_room_for_tag(0);
            let add = || buckets.add(hash, &carried.key, &carried.small);
            match has_room.then(add).flatten() {
                Some(added) => {
                    // The other order would hide the object for a moment.
                    self.index_added(hash, number, added);
                    let tag = self.tag_of(hash);
                    let place = SmallLocation { number: carried_number, choice: 0 };
                    self.small.index.remove_one(tag, place);
                }
                None => {
                    state.carried_bytes += carried.bytes();
                    state.carried.insert(hash, carried);
                }
            }
        }
        drop(buckets);
        state.open = Some(Open { segment, number });
        Ok(())
    }

    /// Evicts the oldest segment of buckets.
    fn evict_small(
        &self,
        state: &mut SmallState,
        write_state: &mut WriteState,
        now_s: u32,
    ) -> Result<()> {
        let Some(number) = state.whole.pop_front() else { return Ok(()) };
        state.dead.push(number);
        let (id, _) = self.small.segment(number);
        let Some((freed, evicted)) = write_state.slots.evict(id) else { return Ok(()) };
        self.free_slot(freed, &evicted, now_s)
    }

    /// Moves the numbers of evicted segments to the dead ones.
    fn find_dead(&self, state: &mut SmallState) {
        while let Some(number) = state.whole.front().copied() {
            let (id, _) = self.small.segment(number);
            if self.live_segments.has(location_of(id, 0)) {
                return;
            }
            state.whole.pop_front();
            state.dead.push(number);
        }
        if state.sealed.is_empty() {
            // There is no object left that they are for.
            state.tombstones.clear();
        }
    }

    /// Seals the open segment, if there is one, to be written.
    fn seal_small(&self, state: &mut SmallState) {
        let Some(Open { segment, number }) = state.open.take() else { return };
        let mut buckets = segment.write();
        let records = buckets.records() as usize;
        let is_summary_full = !buckets.has_room_for_tag(state.tombstones.len());
        let room = buckets.tags_max().saturating_sub(records);
        let tombstones = room.min(state.tombstones.len());
        let (bytes, record_bytes) = buckets.fill();
        let tags_max = self.layout.segment_bytes as usize / 16;
        if record_bytes > bytes / 4 {
            let tags = (records + tombstones) as u64 * bytes as u64 / record_bytes as u64;
            state.tags = tags as usize * SUMMARY_PERCENT / 100;
        } else if is_summary_full && records > 0 {
            // It was full long before the buckets were.
            state.tags *= 2;
        }
        state.tags = state.tags.clamp(16, tags_max);
        state.records[number as usize] = records as u32;
        let slot = buckets.seal(self.next_sequence(), tombstones as u32);
        drop(buckets);
        let tombstones = state.tombstones.drain(..tombstones).collect();
        state.sealed.push_back(Sealed { slot, segment, number, tombstones });
    }

    /// Drops the small objects that are not on flash.
    pub(crate) fn drop_buffered_small(&self) {
        let _none_is_written = self.small.writing.lock();
        let mut state = self.small.state.lock();
        let carried_number = self.small.carried_number();
        for (hash, _) in state.forget_carried() {
            let place = SmallLocation { number: carried_number, choice: 0 };
            self.small.index.remove_one(self.tag_of(hash), place);
        }
        self.seal_small(&mut state);
        let mut write_state = self.write_state.lock();
        let mut tombstones = Vec::new();
        for sealed in std::mem::take(&mut state.sealed) {
            self.lose(&mut state, &mut write_state, &sealed);
            tombstones.extend(sealed.tombstones);
            self.counters.segments_evicted.add(1);
            self.keep_small_buffer(&mut write_state, sealed.segment);
        }
        tombstones.into_iter().rev().for_each(|it| state.tombstones.push_front(it));
    }

    /// Frees the slot of a sealed segment that is not written.
    fn lose(&self, state: &mut SmallState, write_state: &mut WriteState, sealed: &Sealed) {
        let slot = sealed.slot.id.slot;
        self.live_segments.set_free(write_state.slots.give_back(slot));
        write_state.buffers -= 1;
        self.small.buffers.write().remove(&slot);
        state.dead.push(sealed.number);
    }

    fn keep_small_buffer(&self, write_state: &mut WriteState, segment: Arc<RwLock<BucketSegment>>) {
        if let Some(segment) = Arc::into_inner(segment) {
            self.keep_bytes(write_state, segment.into_inner().into_buffer());
        }
    }
}

/// Background work.
impl Device {
    /// Writes the sealed segment that has waited longest; returns whether there was one.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn write_next_small(&self) -> Result<bool> {
        let _one_by_one = self.small.writing.lock();
        let state = self.small.state.lock();
        let Some(sealed) = state.sealed.front().cloned() else { return Ok(false) };
        // Segments are written one after the other.
        let previous = state.written_last;
        drop(state);
        let Sealed { slot, segment, number, tombstones } = &sealed;
        let buckets = segment.read().buckets();
        for number in 0..buckets {
            // Readers wait for one bucket at a time.
            segment.write().finish_bucket(number, self.id, |hash| self.layout.name_of(hash));
        }
        let tags = tombstones.iter().map(|tombstone| tombstone.tag);
        segment.write().finish(self.id, previous, tags);
        let written = {
            let segment = segment.read();
            let at = self.layout.segment_at(slot.id.slot);
            self.data.write_at(at, segment.bytes()).map(|()| segment.bytes().len())
        };
        let mut state = self.small.state.lock();
        let is_same = |other: &Sealed| Arc::ptr_eq(&other.segment, segment);
        if !state.sealed.front().is_some_and(is_same) {
            // The device was cleared meanwhile.
            return Ok(true);
        }
        state.sealed.pop_front();
        let mut write_state = self.write_state.lock();
        let outcome = written.and_then(|bytes| {
            self.counters.segment_bytes_written.add(bytes as u64);
            self.write_slot(slot)
        });
        match &outcome {
            Ok(()) => {
                write_state.slots.put(*slot);
                self.live_segments.set_whole(slot.id, slot.sequence_max);
                state.whole.push_back(*number);
                state.written_last = slot.order;
                write_state.buffers -= 1;
                self.small.buffers.write().remove(&slot.id.slot);
            }
            Err(_) => {
                self.counters.errors.add(1);
                self.counters.segments_lost.add(1);
                self.lose(&mut state, &mut write_state, &sealed);
                tombstones.iter().rev().for_each(|it| state.tombstones.push_front(*it));
            }
        }
        self.keep_small_buffer(&mut write_state, sealed.segment);
        outcome.map(|()| true)
    }

    /// Makes all operations on small objects up to that sequence unnecessary for a recovery, if
    /// buffers and slots are free.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn settle_small(&self, sequence: u64, now_s: u32) -> Result<()> {
        self.write_small_until(now_s, |state| state.oldest().is_none_or(|oldest| oldest > sequence))
    }

    /// Writes all small objects that are in memory, and all tombstones, as far as buffers and slots
    /// are free.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn settle_all_small(&self, now_s: u32) -> Result<()> {
        self.write_small_until(now_s, |state| !state.has_buffered() && state.oldest().is_none())
    }

    /// Seals and writes segments until that holds, or none can be opened.
    fn write_small_until(&self, now_s: u32, holds: impl Fn(&SmallState) -> bool) -> Result<()> {
        loop {
            let mut state = self.small.state.lock();
            self.find_dead(&mut state);
            if holds(&state) {
                return Ok(());
            }
            self.open_and_seal(&mut state, now_s)?;
            let is_stuck = state.sealed.is_empty();
            drop(state);
            while self.write_next_small()? {}
            if is_stuck {
                return Ok(());
            }
        }
    }

    /// Seals the open segment, or a new one.
    fn open_and_seal(&self, state: &mut SmallState, now_s: u32) -> Result<()> {
        if state.open.is_none() {
            if state.free.is_empty() {
                while self.purge_some(state) {}
            }
            self.open_small(state, now_s)?;
        }
        self.seal_small(state);
        Ok(())
    }

    /// Writes tombstones that have become too many to wait for a full segment.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn write_tombstones(&self, now_s: u32) -> Result<()> {
        let state = self.small.state.lock();
        let newest = state.tombstones.back().map(|tombstone| tombstone.sequence);
        let newest = newest.filter(|_| self.small.has_too_many_tombstones(&state));
        drop(state);
        newest.map_or(Ok(()), |newest| self.settle_small(newest, now_s))
    }

    /// The first operation on small objects that a recovery would miss if the log did not have it;
    /// and the order of the newest segment with tombstones that need not be in the log.
    pub(crate) fn oldest_small(&self) -> (Option<u64>, u64) {
        let mut state = self.small.state.lock();
        self.find_dead(&mut state);
        (state.oldest(), state.written_last)
    }

    /// Removes some entries of dead segments from the index, so that their numbers can be used
    /// again; returns whether there is more to do.
    pub(crate) fn purge_small(&self) -> bool {
        let mut state = self.small.state.lock();
        self.find_dead(&mut state);
        self.small.is_to_purge(&state) && self.purge_some(&mut state)
    }

    /// Removes some entries of dead segments; returns whether there were any.
    fn purge_some(&self, state: &mut SmallState) -> bool {
        if state.dead.is_empty() {
            return false;
        }
        let purge = state.purge.get_or_insert_with(|| {
            let mut is_dead = vec![false; self.small.segments.len()];
            state.dead.iter().for_each(|number| is_dead[*number as usize] = true);
            Purge { is_dead, next_chunk: 0 }
        });
        let first = purge.next_chunk;
        purge.next_chunk = (first + PURGED_CHUNKS).min(self.small.index.chunks());
        // Under the lock: otherwise the device could be cleared, and a number used again.
        for chunk in first..purge.next_chunk {
            self.small.index.purge(chunk, |number| purge.is_dead[number as usize]);
        }
        if purge.next_chunk == self.small.index.chunks() {
            let is_purged = |number: &u32| purge.is_dead[*number as usize];
            let (mut purged, dead): (Vec<u32>, _) =
                state.dead.iter().partition(|number| is_purged(number));
            state.dead = dead;
            state.free.append(&mut purged);
            state.purge = None;
        }
        true
    }
}
