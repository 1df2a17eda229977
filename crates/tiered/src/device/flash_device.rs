//! A flash device: records in segments, located by an index of which DRAM holds the recent changes,
//! and of the rest filters and locations, or hot entries (BigKV, sections on collision-oblivious
//! indexing and TTL-aware space management).
//!
//! Guarantees:
//! 1. A lookup ([`crate::device::lookup`]) finds the record last put under a key and not
//!    invalidated since, or nothing; also after the process was killed and the device reopened.
//! 2. A lookup reads at most one page and one record, and then a bucket of small objects for each
//!    entry of their index that agrees with the key: rarely more than one. For most absent keys it
//!    reads none.
//! 3. [`Device::put`] and [`Device::invalidate`] wait only for small buffered writes.
//! 4. An error while writing an invalidation, or metadata that tells a recovery which segments are
//!    live, breaks the device: it is empty from then on ([`Device::is_broken`]), and its user must
//!    make sure that a recovery notices.
//!
//! Relies on its caller to serialise the operations on a key.
//!
//! **What a recovery may find.** DRAM treats most keys as absent without having logged that: the
//! log would be as long as the history. So a recovery must not find any key that DRAM treats as
//! absent. Each of these is written before DRAM relies on it: an invalidation, before the key's
//! record changes; that a slot is free, before its records count as gone; an invalidation of the
//! entries that a full page displaces, before the page counts; and one of any possible old record
//! before another record takes its fingerprint.
//!
//! Lock order: a partition, the state of small objects ([`SmallObjects`]), [`Device::write_state`],
//! a segment, the buffers or the index of small objects, the log, the superblock; directories of
//! segments last.
//! No lock but a segment's (shared) is held while the data file is read or written. Only upkeep locks
//! a sealed segment exclusively, without other locks; so it may lock partitions while it holds a
//! sealed segment (shared).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use tidekv_io::buffer::AlignedVec;
use tidekv_io::{Error, ErrorKind, File, Lock, Operation, Result};

use crate::device::small_state::{SmallObjects, SmallState};
use crate::device::stats::DeviceCounters;
use crate::device::write_budget::RewriteCredit;
use crate::entry::{Entry, RecordLocation, SegmentId};
use crate::index::flash_dram::Limits;
use crate::index::hot::Hot;
use crate::index::locations::Locations;
use crate::index::partition::Partition;
use crate::options::Expiry;
use crate::segment::buffer::Segment;
use crate::segment::invalidations::{Invalidation, Invalidations};
use crate::segment::layout::{INVALIDATION_BYTES, Layout, Name, SLOT_BYTES, SUPERBLOCK_BYTES};
use crate::segment::parts::PART_NAME;
use crate::segment::record::{self, Record};
use crate::segment::segment_table::{LiveSegments, Slot};
use crate::segment::slots::Slots;
use crate::segment::superblock::Superblock;
use crate::segment::ttl::Group;

/// An accessed object whose copy is in the oldest quarter of its device is rewritten when DRAM
/// evicts it: the copy would soon be evicted.
const OLD: f64 = 0.25;
/// Groups share a segment up to this distance when buffers are scarce.
const SHARED_DISTANCE: u8 = 3;
/// A segment that is this full is sealed to make room for another group.
const FULL_PERCENT: usize = 75;
/// Fewer operations than this run at once.
const THREADS_MAX: u64 = 256;
/// The log is cut in stretches of this many invalidations.
const STRETCH: u64 = 64;

/// Segments that are being filled or wait to be written.
#[derive(Debug)]
pub(crate) struct WriteState {
    pub(crate) slots: Slots,
    pub(crate) open: Vec<Arc<RwLock<Segment>>>,
    pub(crate) sealed: VecDeque<(Slot, Arc<RwLock<Segment>>)>,
    /// Buffers in use, including those being written.
    pub(crate) buffers: usize,
    /// Unused buffers: memory returned to the allocator would be fragmented by objects.
    pub(crate) spare: Vec<AlignedVec>,
}

/// The log, and the invalidations that a later sequence makes obsolete.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) ring: Invalidations,
    /// Ends of stretches, and the highest sequence up to there.
    pub(crate) stretches: VecDeque<(u64, u64)>,
    pub(crate) sequence_max: u64,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: u64,
    pub(crate) meta: Arc<dyn File>,
    pub(crate) data: Arc<dyn File>,
    #[allow(dead_code, reason = "held for as long as the device is used")]
    pub(crate) lock: Box<dyn Lock>,
    pub(crate) layout: Layout,
    pub(crate) limits: ArcSwap<Limits>,
    pub(crate) partitions: Box<[Mutex<Partition>]>,
    pub(crate) hot: Hot,
    pub(crate) locations: Locations,
    /// The first slot whose directory has not been loaded.
    pub(crate) directories_to_load: AtomicU32,
    pub(crate) live_segments: LiveSegments,
    pub(crate) write_state: Mutex<WriteState>,
    pub(crate) buffers: RwLock<HashMap<u32, Arc<RwLock<Segment>>>>,
    pub(crate) log: Mutex<Log>,
    pub(crate) superblock: Mutex<Superblock>,
    /// Sequence of the last operation.
    pub(crate) sequence: AtomicU64,
    /// A recovery skips all operations up to this one.
    pub(crate) replay_from: AtomicU64,
    /// Pending index changes of all partitions.
    pub(crate) changes: AtomicI64,
    /// Records in buffers: their changes wait for their segments, are accounted with their buffers,
    /// and do not count towards the limit of pending changes.
    pub(crate) buffered: AtomicI64,
    /// Their number when none could be merged; 0: some could be.
    pub(crate) futile_changes: AtomicI64,
    pub(crate) broken: AtomicBool,
    pub(crate) small: SmallObjects,
    pub(crate) rewrites: RewriteCredit,
    pub(crate) counters: Arc<DeviceCounters>,
}

impl Device {
    /// Whether the device has failed and is empty.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Marks the device as failed: it is empty from now on.
    pub(crate) fn mark_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// The largest record that it accepts, in bytes.
    pub(crate) fn record_bytes_max(&self) -> usize {
        Segment::record_bytes_max(self.layout.segment_bytes as usize)
    }

    /// Whether there may be a record of a key with that hash. Reads nothing.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let name = self.layout.name_of(hash);
        // A device that has just failed may hold anything, until it is detached.
        self.is_broken()
            || self.small.index.find(name.tag()).next().is_some()
            || self.partition(name).lock().may_have(name.fingerprint, &self.live_segments)
    }

    /// Whether the record at `location` is still live.
    pub(crate) fn has(&self, location: RecordLocation) -> bool {
        !self.is_broken() && self.live_segments.has(location)
    }

    /// Whether the index has the small object of that hash at `location`: an invalidation of another
    /// one may have removed it.
    pub(crate) fn indexes(&self, hash: u64, location: RecordLocation) -> bool {
        self.small.has(self.layout.name_of(hash).tag(), location)
    }

    /// Whether an accessed object should be rewritten, `len` bytes long: its record at `location`
    /// would soon be evicted, and there is credit. The caller spends the credit after the write.
    pub(crate) fn may_rewrite(&self, location: RecordLocation, len: usize) -> bool {
        let order = self.live_segments.order(location.slot);
        self.rewrites.has(len) && self.write_state.lock().slots.distance(order) < OLD
    }

    /// Puts a record, in place of any with the same name; returns whether it was accepted. It is
    /// not if no buffer is free, or if it is too large.
    ///
    /// # Errors
    ///
    /// When the device has broken.
    pub(crate) fn put(&self, hash: u64, key: &[u8], record: &Record, now_s: u32) -> Result<bool> {
        let object = &record.found.object;
        let len = record::record_bytes(key.len(), object.value.len());
        if self.is_broken() {
            return Ok(false);
        }
        if len > self.record_bytes_max() {
            self.counters.too_large.add(1);
            return Ok(false);
        }
        self.make_room_in_log()?;
        let name = self.layout.name_of(hash);
        let mut partition = self.partition(name).lock();
        let is_absent = !partition.may_have(name.fingerprint, &self.live_segments);
        let mut write_state = self.write_state.lock();
        let group = match self.limits.load().expiry {
            Expiry::Groups => Group::of(object.deadline, now_s),
            Expiry::Lazy => Group::NEVER,
        };
        let Some(segment) = self.segment_for(&mut write_state, group, len, now_s)? else {
            self.counters.bypassed.add(1);
            return Ok(false);
        };
        let mut sequence = self.next_sequence();
        // The earlier of two operations: a recovery must replay from there, for the page has
        // neither.
        let first = sequence;
        if !is_absent {
            self.log_invalidation(name, first)?;
            sequence = self.next_sequence();
        }
        let location = segment.write().append(name, key, record, sequence, now_s);
        self.buffered.fetch_add(1, Ordering::Relaxed);
        drop(write_state);
        self.set(&mut partition, name, Entry::record(name.fingerprint, location), first);
        self.counters.objects_written.add(1);
        self.counters.object_bytes_written.add((key.len() + object.value.len()) as u64);
        Ok(true)
    }

    /// Bytes of a value in a part of its record.
    pub(crate) fn part_bytes(&self, key: &[u8]) -> usize {
        self.record_bytes_max() - record::record_bytes(key.len() + PART_NAME, 0)
    }

    /// The number of parts of a value of this length.
    pub(crate) fn parts_of(&self, key: &[u8], value_len: usize) -> usize {
        value_len.div_ceil(self.part_bytes(key))
    }

    /// Whether the free write buffers suffice for this number of segments, now and when none is in
    /// use.
    pub(crate) fn has_buffers_for(&self, segments: usize) -> (bool, bool) {
        let buffers = self.limits.load().buffers;
        let free = buffers.saturating_sub(self.write_state.lock().buffers);
        (segments <= free, segments < buffers)
    }

    /// Invalidates the record of a key, now and for recoveries; returns whether there may have been
    /// one.
    ///
    /// # Errors
    ///
    /// When the device has broken.
    pub(crate) fn invalidate(&self, hash: u64, key: &[u8]) -> Result<bool> {
        if self.is_broken() {
            return Err(Error::new(ErrorKind::Failed, Operation::Write, self.meta.path()));
        }
        let name = self.layout.name_of(hash);
        let mut partition = self.partition(name).lock();
        let is_record = partition.may_have(name.fingerprint, &self.live_segments);
        let is_small = self.small.index.find(name.tag()).next().is_some();
        if !is_record && !is_small {
            return Ok(false);
        }
        self.make_room_in_log()?;
        let mut small = is_small.then(|| self.small.state.lock());
        let is_old = small
            .as_mut()
            .is_some_and(|state| self.small.remove_buffered(state, (hash, name.tag()), key));
        if !is_record && !is_old {
            return Ok(true);
        }
        // Later than the sealing of any segment that has the object.
        let sequence = self.next_sequence();
        self.log_invalidation(name, sequence)?;
        if let Some(state) = small.as_mut().filter(|_| is_old) {
            self.small.remove_old(state, name.tag(), sequence);
        }
        if is_record {
            self.set(&mut partition, name, Entry::tombstone(name.fingerprint), sequence);
        }
        Ok(true)
    }

    /// Drops all records, now and for recoveries.
    ///
    /// # Errors
    ///
    /// When the device has broken.
    pub(crate) fn clear(&self) -> Result<()> {
        let mut small = self.small.state.lock();
        let mut write_state = self.write_state.lock();
        self.forget_all(&mut small, &mut write_state)
    }

    pub(crate) fn partition(&self, name: Name) -> &Mutex<Partition> {
        &self.partitions[name.partition as usize]
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Changes the index, under the partition's lock.
    fn set(&self, partition: &mut Partition, name: Name, entry: Entry, sequence: u64) {
        let before = partition.changes();
        partition.set(entry, sequence);
        self.changes.fetch_add((partition.changes() - before) as i64, Ordering::Relaxed);
        self.hot.remove(name);
    }

    /// When the log is nearly full, the caller cannot wait for pages to be merged: the device is
    /// cleared, for a miss is always correct.
    fn make_room_in_log(&self) -> Result<()> {
        if self.log.lock().ring.room() >= THREADS_MAX {
            return Ok(());
        }
        self.counters.overflows.add(1);
        tracing::warn!(
            "{}: the log of invalidations is full, the device was cleared",
            self.meta.path().display()
        );
        self.clear()
    }

    /// Logs an invalidation, under the partition's lock.
    pub(crate) fn log_invalidation(&self, name: Name, sequence: u64) -> Result<()> {
        let mut log = self.log.lock();
        let Some(number) = log.ring.next() else {
            drop(log);
            self.mark_broken();
            return Err(Error::new(ErrorKind::Full, Operation::Write, self.meta.path()));
        };
        let entry = Invalidation { number, sequence, name }.encode(self.id);
        let end = Invalidation::end(number + 1, self.id);
        let (at, end_at) =
            (self.layout.invalidation_at(number), self.layout.invalidation_at(number + 1));
        if end_at > at {
            self.write_meta(at, &[entry, end].concat())?;
        } else {
            self.write_meta(at, &entry)?;
            self.write_meta(end_at, &end)?;
        }
        log.ring.advance();
        log.sequence_max = log.sequence_max.max(sequence);
        if log.ring.end().is_multiple_of(STRETCH) {
            let end = (log.ring.end(), log.sequence_max);
            log.stretches.push_back(end);
        }
        drop(log);
        self.counters.invalidations.add(1);
        self.counters.metadata_bytes_written.add(2 * INVALIDATION_BYTES as u64);
        Ok(())
    }

    /// Writes metadata that a recovery depends on.
    pub(crate) fn write_meta(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.meta.write_at(at, bytes).inspect_err(|_| {
            self.counters.errors.add(1);
            self.mark_broken();
        })
    }
}

/// Segments that are being filled.
impl Device {
    /// A segment with room for a record of that group: one that is being filled, or a new one if a
    /// buffer is free.
    fn segment_for(
        &self,
        write_state: &mut WriteState,
        group: Group,
        len: usize,
        now_s: u32,
    ) -> Result<Option<Arc<RwLock<Segment>>>> {
        if write_state.slots.in_use_max() == 0 {
            return Ok(None);
        }
        let of_group = |segment: &Arc<RwLock<Segment>>| segment.read().group() == group;
        if let Some(index) = write_state.open.iter().position(of_group) {
            if write_state.open[index].read().has_room_for(len) {
                return Ok(Some(Arc::clone(&write_state.open[index])));
            }
            self.seal(write_state, index);
        }
        // Where few slots may be in use, most are kept for whole segments.
        let limits = **self.limits.load();
        let open_max = limits.open.min(write_state.slots.in_use_max() / 2);
        // The one of small objects counts.
        let open_max = open_max.saturating_sub(self.small.buffers.read().len().min(1)).max(1);
        if write_state.open.len() >= open_max {
            let group_of = |n: usize| write_state.open[n].read().group();
            let has_room = |n: &usize| write_state.open[*n].read().has_room_for(len);
            let distance = |n: &usize| group_of(*n).distance(group);
            let open = 0..write_state.open.len();
            let Some(nearest) = open.clone().min_by_key(distance) else { return Ok(None) };
            let Some(fullest) = open.clone().max_by_key(|n| write_state.open[*n].read().len())
            else {
                return Ok(None);
            };
            let is_near = distance(&nearest) <= SHARED_DISTANCE;
            if has_room(&nearest) && (is_near || write_state.buffers >= limits.buffers) {
                return Ok(Some(Arc::clone(&write_state.open[nearest])));
            }
            // A group of its own is not worth sealing a segment that is hardly filled. Among
            // objects that live longer, only its own space is kept beyond its time.
            let full_bytes = self.layout.segment_bytes as usize * FULL_PERCENT / 100;
            let is_full = write_state.open[fullest].read().len() >= full_bytes;
            let longer = open.filter(|n| group_of(*n) > group && has_room(n)).min_by_key(distance);
            if let (false, Some(longer)) = (is_full, longer) {
                return Ok(Some(Arc::clone(&write_state.open[longer])));
            }
            let sealed = if has_room(&nearest) { fullest } else { nearest };
            self.seal(write_state, sealed);
        }
        self.open_segment(write_state, group, now_s)
    }

    fn open_segment(
        &self,
        write_state: &mut WriteState,
        group: Group,
        now_s: u32,
    ) -> Result<Option<Arc<RwLock<Segment>>>> {
        if write_state.buffers >= self.limits.load().buffers {
            return Ok(None);
        }
        let Some(id) = self.take_slot(write_state, now_s)? else { return Ok(None) };
        let order = self.next_sequence();
        let capacity = self.layout.segment_bytes as usize;
        let buffer = write_state.spare.pop().unwrap_or_else(|| AlignedVec::with_capacity(capacity));
        let segment = Segment::new(id, group, order, capacity, buffer);
        let segment = Arc::new(RwLock::new(segment));
        self.buffers.write().insert(id.slot, Arc::clone(&segment));
        self.live_segments.set_buffered(id, order);
        write_state.buffers += 1;
        write_state.open.push(Arc::clone(&segment));
        Ok(Some(segment))
    }

    /// A slot for a new segment, if there is one, after the segment in it has been evicted.
    pub(crate) fn take_slot(
        &self,
        write_state: &mut WriteState,
        now_s: u32,
    ) -> Result<Option<SegmentId>> {
        let Some(taken) = write_state.slots.take(now_s) else { return Ok(None) };
        if let Some(evicted) = taken.evicted {
            self.free_slot(taken.id, &evicted, now_s)?;
        }
        Ok(Some(taken.id))
    }

    /// Records that a slot, in its new generation, no longer has the segment that was evicted.
    pub(crate) fn free_slot(&self, freed: SegmentId, evicted: &Slot, now_s: u32) -> Result<()> {
        // A recovery must not find records that count as gone from here on.
        self.write_slot(&Slot::free(freed))?;
        self.live_segments.set_free(freed);
        self.locations.discard(evicted.id);
        self.count_evicted(evicted, now_s);
        Ok(())
    }

    /// Queues a full segment to be written.
    pub(crate) fn seal(&self, write_state: &mut WriteState, index: usize) {
        let segment = write_state.open.swap_remove(index);
        let slot = segment.write().seal();
        write_state.sealed.push_back((slot, segment));
    }

    /// Keeps the buffer of a finished segment for reuse, unless a reader still holds it.
    pub(crate) fn keep_buffer(&self, write_state: &mut WriteState, segment: Arc<RwLock<Segment>>) {
        if let Some(segment) = Arc::into_inner(segment) {
            self.keep_bytes(write_state, segment.into_inner().into_buffer());
        }
    }

    /// Keeps an unused buffer, unless there are enough.
    pub(crate) fn keep_bytes(&self, write_state: &mut WriteState, buffer: AlignedVec) {
        if write_state.buffers + write_state.spare.len() < self.limits.load().buffers {
            write_state.spare.push(buffer);
        }
    }

    pub(crate) fn write_slot(&self, slot: &Slot) -> Result<()> {
        self.counters.metadata_bytes_written.add(SLOT_BYTES as u64);
        self.write_meta(self.layout.table_entry_at(slot.id.slot), &slot.encode(self.id))
    }

    pub(crate) fn count_evicted(&self, evicted: &Slot, now_s: u32) {
        if evicted.may_go_at_s > now_s {
            self.counters.segments_evicted.add(1);
            return;
        }
        self.counters.segments_expired.add(1);
        // Deadlines lie between the first second in which the segment may be dropped and the last
        // deadline; assume that they are spread evenly.
        let span_s = f64::from(evicted.deadline_max_s - evicted.may_go_at_s).max(1.0);
        let ahead_s = f64::from(evicted.deadline_max_s.saturating_sub(now_s));
        let early = f64::from(evicted.bytes) * (ahead_s / span_s).min(1.0);
        self.counters.bytes_expired_early.add(early as u64);
    }

    fn forget_all(&self, small: &mut SmallState, write_state: &mut WriteState) -> Result<()> {
        let first_segment = self.next_sequence();
        let mut log = self.log.lock();
        self.write_superblock(|superblock| {
            superblock.first_segment = first_segment;
            superblock.replay_from = first_segment;
            superblock.first_invalidation = log.ring.end();
        })?;
        self.replay_from.fetch_max(first_segment, Ordering::AcqRel);
        let end = log.ring.end();
        log.ring.cut(end);
        log.stretches.clear();
        drop(log);
        self.locations.discard_all();
        let in_memory = self.small.forget(small);
        write_state.buffers -= in_memory.len();
        for slot in in_memory {
            self.live_segments.set_free(write_state.slots.give_back(slot));
        }
        write_state.open.clear();
        write_state.sealed.clear();
        let mut buffers = self.buffers.write();
        write_state.buffers -= buffers.len();
        self.buffered.store(0, Ordering::Relaxed);
        for slot in buffers.drain().map(|(slot, _)| slot) {
            self.live_segments.set_free(write_state.slots.give_back(slot));
        }
        drop(buffers);
        let whole: Vec<SegmentId> = write_state.slots.whole().map(|slot| slot.id).collect();
        for id in whole {
            self.live_segments.set_free(write_state.slots.give_back(id.slot));
        }
        Ok(())
    }

    /// Rewrites the superblock, with a change.
    pub(crate) fn write_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<()> {
        let mut superblock = self.superblock.lock();
        let mut next = superblock.clone();
        next.generation += 1;
        change(&mut next);
        self.write_meta(self.layout.superblock_at(next.generation), &next.encode())?;
        self.counters.metadata_bytes_written.add(SUPERBLOCK_BYTES as u64);
        *superblock = next;
        Ok(())
    }
}

/// The DRAM that a device takes, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Memory {
    pub(crate) segments: usize,
    pub(crate) records: usize,
    pub(crate) index_bytes: usize,
    /// Hot entries, location codes, directories and changes, which share a budget.
    pub(crate) hot_bytes: usize,
    pub(crate) buffer_bytes: usize,
}

impl Device {
    /// The DRAM that the device takes.
    pub(crate) fn memory(&self) -> Memory {
        let (mut filters, mut codes, mut changes) = (0, 0, 0);
        for partition in &self.partitions {
            let partition = partition.lock();
            let (bytes, of_codes) = partition.locator_bytes();
            filters += bytes - of_codes;
            codes += of_codes;
            changes += partition.changes_bytes();
        }
        let partitions = self.partitions.len() * size_of::<Mutex<Partition>>() + filters;
        let write_state = self.write_state.lock();
        let segments = write_state.slots.whole_count();
        let records = write_state.slots.whole().map(|slot| slot.records as usize).sum();
        let slots = write_state.slots.memory_bytes() + self.live_segments.memory_bytes();
        let spare: usize = write_state.spare.iter().map(AlignedVec::capacity).sum();
        drop(write_state);
        let small_bytes = self.small.buffer_bytes();
        let buffers = self.buffers.read();
        let used = buffers.values().map(|segment| segment.read().memory_bytes());
        let buffer_bytes = spare + used.sum::<usize>() + small_bytes;
        Memory {
            segments,
            records,
            index_bytes: partitions
                + slots
                + self.locations.fixed_bytes()
                + self.small.index_bytes(),
            hot_bytes: self.hot.memory_bytes() + codes + self.locations.directory_bytes() + changes,
            buffer_bytes,
        }
    }
}
