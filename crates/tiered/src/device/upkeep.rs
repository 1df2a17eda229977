//! Background work of a flash device: segments are written, changes of the index merged into pages
//! (BigKV's metadata eviction), and the log is cut.
//!
//! Guarantees:
//! 1. A segment is live for a recovery only once all of it is on flash, and before its buffer is
//!    released.
//! 2. A page counts only once all of it is on flash: it is written to the place that the previous
//!    page does not occupy, and its version after it.
//! 3. The log is cut only up to operations that are in pages or obsolete.
//! 4. If more slots are in use than the limit allows, some are freed ([`crate::device::limit`])
//!    between writes.
//! 5. A recovery replays no more operations than [`Device::window_max`], plus those that arrive
//!    while the bound is being enforced; typically about twice the limit of pending changes.
//!
//! Partitions are merged round-robin. Keys are spread evenly by their hash, so the next partition
//! has waited longest, has as many changes as any, and determines where a recovery begins.
//!
//! One thread at a time does this for a device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;
use tidekv_io::buffer::AlignedVec;
use tidekv_io::{Error, ErrorKind, Operation, Result};

use crate::device::flash_device::Device;
use crate::entry::Entry;
use crate::index::directory::Directory;
use crate::index::locator::Locator;
use crate::index::partition::{DramLookup, Partition};
use crate::segment::buffer::{Arranged, Segment};
use crate::segment::coding::Writer;
use crate::segment::layout::{Name, VERSION_BYTES};
use crate::segment::page::{ENTRIES_MAX, PAGE_BYTES, Page, PageId};
use crate::segment::segment_table::Slot;

/// Write size while no other segment is queued, in bytes.
const WRITE_BYTES: usize = 512 << 10;
/// At most this many partitions are checked for one worth merging.
const LOOKED_AT: usize = 256;
/// Checkpoints per round over all partitions.
const CHECKPOINTS: usize = 8;
/// A recovery may replay one in `WINDOW_DIVISOR` of the objects for which there is room, or
/// `WINDOW_CHANGES` times the limit of pending changes, or as many objects as fill
/// `WINDOW_SEGMENTS` times the segments being filled at once, whichever is most.
const WINDOW_DIVISOR: u64 = 16;
const WINDOW_CHANGES: u64 = 3;
const WINDOW_SEGMENTS: u64 = 4;
/// The log is cut once it is fuller than this, in percent.
const LOG_PERCENT: u64 = 50;
/// Even if segments wait to be written.
const LOG_PERCENT_URGENT: u64 = 75;

/// A merged page that has been written to flash.
struct Merged {
    page: Page,
    locator: Locator,
    /// Entries of the previous page that this one does not have.
    gone: Vec<Entry>,
    /// Entries that it had no room for.
    displaced: Vec<Entry>,
    /// The previous page could not be read.
    is_lost: bool,
    /// A recovery may find entries that it no longer has.
    is_distrusted: bool,
}

/// The encoding of a page's version on flash: checksum (`coding.rs`) and version (4 bytes each of
/// the rest); do not change.
pub(crate) fn encode_version(device: u64, partition: u32, version: u32) -> [u8; VERSION_BYTES] {
    // The partition is in the checksum only.
    Writer::new().u32(version).seal(device ^ u64::from(partition).rotate_left(32))
}

impl Device {
    /// Runs all pending work, except that only some of the excess segments are evicted: call again
    /// while [`Device::is_to_shrink`]. `cursor` is the round-robin position over partitions.
    ///
    /// # Errors
    ///
    /// When the device fails; all other work has been done.
    pub(crate) fn upkeep(&self, cursor: &mut usize, now_s: u32) -> Result<()> {
        self.shrink(now_s)?;
        self.write_tombstones(now_s)?;
        loop {
            if self.is_broken() {
                return Ok(());
            }
            // Alternate: neither waits for the other to finish, which may never happen.
            self.load_directories()?;
            let has_written = self.write_next()?;
            let log_percent = self.log.lock().ring.percent_full();
            if log_percent >= LOG_PERCENT && (!has_written || log_percent >= LOG_PERCENT_URGENT) {
                return self.settle(now_s);
            }
            let window_max = self.window_max();
            if self.window() > window_max {
                // Changes that are not merged in their turn are in segments that fill slowly.
                let now = self.sequence.load(Ordering::Acquire);
                return self.settle_before(now.saturating_sub(window_max / 2), now_s);
            }
            if self.has_many_changes() {
                if !self.merge_any(cursor)? {
                    // The rest waits for segments that are not whole.
                    let changes = self.settled_changes();
                    self.futile_changes.store(changes, Ordering::Relaxed);
                }
            } else if !self.purge_small() && !has_written && !self.lacks_directories() {
                return Ok(());
            }
        }
    }

    /// Writes the segment that has waited longest; returns whether there was one.
    fn write_next(&self) -> Result<bool> {
        let has_written_small = self.write_next_small()?;
        let sealed = self.write_state.lock().sealed.pop_front();
        let Some((slot, segment)) = sealed else { return Ok(has_written_small) };
        self.write_segment(slot, segment)?;
        Ok(true)
    }

    /// Whether there is pending work.
    pub(crate) fn wants_upkeep(&self) -> bool {
        let write_state = self.write_state.lock();
        let is_to_write = !write_state.sealed.is_empty() || self.has_too_many(&write_state);
        drop(write_state);
        is_to_write
            || self.lacks_directories()
            || self.small.wants_upkeep()
            || self.has_many_changes()
            || self.window() > self.window_max()
            || self.log.lock().ring.percent_full() >= LOG_PERCENT
    }

    /// Whether there are enough changes to merge, and enough more than at the last futile attempt.
    fn has_many_changes(&self) -> bool {
        let (changes, max) = (self.settled_changes(), self.limits.load().changes as i64);
        let futile = self.futile_changes.load(Ordering::Relaxed);
        changes > max && (futile == 0 || changes > futile + max / 4)
    }

    /// Pending changes, without those of records in buffers; too low where buffers have records
    /// that have been replaced.
    fn settled_changes(&self) -> i64 {
        self.changes.load(Ordering::Relaxed) - self.buffered.load(Ordering::Relaxed)
    }

    /// The number of operations that a recovery would replay.
    pub(crate) fn window(&self) -> u64 {
        let now = self.sequence.load(Ordering::Acquire);
        now.saturating_sub(self.replay_from.load(Ordering::Acquire))
    }

    /// Its upper bound.
    pub(crate) fn window_max(&self) -> u64 {
        let objects = u64::from(self.layout.partitions) * ENTRIES_MAX as u64;
        let limits = self.limits.load();
        let open = limits.open as u64 * WINDOW_SEGMENTS;
        let of_segments = objects * open / u64::from(self.layout.slots);
        let of_changes = limits.changes as u64 * WINDOW_CHANGES;
        (objects / WINDOW_DIVISOR).max(of_segments).max(of_changes)
    }

    /// Writes everything to flash, so that a recovery has nothing to replay.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn settle_all(&self, cursor: &mut usize, now_s: u32) -> Result<()> {
        self.seal_opened_before(u64::MAX);
        self.upkeep(cursor, now_s)?;
        self.settle_all_small(now_s)?;
        self.merge_older_than(u64::MAX)?;
        self.checkpoint()
    }

    /// Cuts the older half of the log off.
    fn settle(&self, now_s: u32) -> Result<()> {
        let middle = {
            let log = self.log.lock();
            let stretches = &log.stretches;
            stretches.get(stretches.len() / 2).map_or(log.sequence_max, |(_, sequence)| *sequence)
        };
        self.settle_before(middle, now_s)
    }

    /// Makes all operations up to that sequence unnecessary for a recovery.
    fn settle_before(&self, sequence: u64, now_s: u32) -> Result<()> {
        self.seal_opened_before(sequence);
        while self.write_next()? {}
        self.settle_small(sequence, now_s)?;
        self.merge_older_than(sequence)?;
        self.checkpoint()
    }

    fn seal_opened_before(&self, sequence: u64) {
        let mut write_state = self.write_state.lock();
        let opened =
            |segment: &Arc<RwLock<Segment>>| self.live_segments.order(segment.read().id().slot);
        while let Some(index) = write_state.open.iter().position(|open| opened(open) <= sequence) {
            self.seal(&mut write_state, index);
        }
    }

    /// Writes a sealed segment, after which its records are read from flash.
    fn write_segment(&self, slot: Slot, segment: Arc<RwLock<Segment>>) -> Result<()> {
        let arranged = segment.read().arranged(self.locations.choices());
        let at = self.layout.segment_at(slot.id.slot);
        let written = if arranged.keeps_order() {
            segment.write().append_summary(&arranged, self.id);
            self.write_in_order(at, &segment)
        } else {
            self.write_rearranged(at, &segment.read(), &arranged)
        };
        if written.is_ok() {
            self.locations.put(Directory::of(slot.id, arranged.lens()));
            self.relocate(&segment.read(), &arranged);
        }
        let mut write_state = self.write_state.lock();
        let is_same = |other: &Arc<RwLock<Segment>>| Arc::ptr_eq(other, &segment);
        if !self.buffers.read().get(&slot.id.slot).is_some_and(is_same) {
            // The device was cleared meanwhile.
            self.locations.discard(slot.id);
            return Ok(());
        }
        write_state.buffers -= 1;
        self.buffered.fetch_sub(slot.records.into(), Ordering::Relaxed);
        self.futile_changes.store(0, Ordering::Relaxed);
        let outcome = match &written {
            Ok(bytes) => {
                self.counters.segment_bytes_written.add(*bytes as u64);
                self.write_slot(&slot)
            }
            Err(error) => Err(error.clone()),
        };
        match &outcome {
            Ok(()) => {
                write_state.slots.put(slot);
                self.live_segments.set_whole(slot.id, slot.sequence_max);
            }
            Err(_) => {
                self.counters.errors.add(1);
                self.counters.segments_lost.add(1);
                self.locations.discard(slot.id);
                self.live_segments.set_free(write_state.slots.give_back(slot.id.slot));
            }
        }
        self.buffers.write().remove(&slot.id.slot);
        self.keep_buffer(&mut write_state, segment);
        drop(write_state);
        if self.locations.is_on() && !self.locations.should_be_on() {
            self.choose_codes();
        }
        outcome
    }

    /// Writes the buffer of a segment whose records keep their order; returns the bytes written. While
    /// no other segment is queued it writes `WRITE_BYTES` at a time, so that reads run in between.
    fn write_in_order(&self, at: u64, segment: &RwLock<Segment>) -> Result<usize> {
        let mut written = 0;
        loop {
            let is_behind = !self.write_state.lock().sealed.is_empty();
            let segment = segment.read();
            let left = &segment.bytes()[written..];
            if left.is_empty() {
                return Ok(written);
            }
            let now = if is_behind { left } else { &left[..left.len().min(WRITE_BYTES)] };
            self.data.write_at(at + written as u64, now)?;
            written += now.len();
        }
    }

    /// Writes a segment with its records rearranged; returns the bytes written.
    fn write_rearranged(&self, at: u64, segment: &Segment, arranged: &Arranged) -> Result<usize> {
        let piece_bytes = Segment::piece_bytes(self.layout.segment_bytes as usize);
        let write = |offset, piece: &[u8]| self.data.write_at(at + offset, piece);
        segment.pieces(arranged, self.id, piece_bytes, write)
    }

    /// Replaces the locations of a segment's records in pending changes: the records are read from
    /// flash from now on. Locks partitions while the segment is locked (shared): a sealed segment has
    /// no writers, so this cannot deadlock.
    fn relocate(&self, segment: &Segment, arranged: &Arranged) {
        for (from, to) in segment.summaries().iter().zip(&arranged.summaries) {
            let mut partition = self.partition(from.name).lock();
            partition.relocate(from.name.fingerprint, from.location, to.location);
        }
    }

    /// Merges the next partition that is worth merging, if one is soon found; returns whether one
    /// was. `cursor` is the round-robin position.
    fn merge_any(&self, cursor: &mut usize) -> Result<bool> {
        let partitions = self.partitions.len();
        let part = partitions.div_ceil(CHECKPOINTS);
        for _ in 0..LOOKED_AT.min(partitions) {
            let partition = *cursor % partitions;
            *cursor = (partition + 1) % partitions;
            let is_worth_it =
                self.partitions[partition].lock().is_worth_merging(&self.live_segments);
            let has_merged = is_worth_it && self.merge(partition as u32)?;
            if cursor.is_multiple_of(part) {
                self.checkpoint()?;
            }
            if has_merged {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn merge_older_than(&self, sequence: u64) -> Result<()> {
        for partition in 0..self.layout.partitions {
            let oldest = self.partitions[partition as usize].lock().oldest();
            if oldest <= sequence {
                self.write_next()?;
                self.merge(partition)?;
            }
        }
        Ok(())
    }

    /// Merges the changes of a partition into its page; changes that wait for their segments only
    /// remove the older entries of their names from the page. Returns whether there were any
    /// changes.
    fn merge(&self, partition: u32) -> Result<bool> {
        let (changes, version) = {
            let mut partition = self.partitions[partition as usize].lock();
            let before = partition.changes() as i64;
            let changes = partition.begin_merge(&self.live_segments);
            self.changes.fetch_add(partition.changes() as i64 - before, Ordering::Relaxed);
            (changes, partition.version())
        };
        let Some(changes) = changes else { return Ok(false) };
        let written = self.write_merged(partition, version, &changes);
        let mut locked = self.partitions[partition as usize].lock();
        match written {
            Ok(Merged { page, locator, gone, displaced, is_lost, is_distrusted }) => {
                if is_distrusted {
                    self.locations.count(locked.coded_bytes(), 0);
                    locked.distrust(self.sequence.load(Ordering::Acquire));
                }
                if is_lost {
                    self.locations.forget_current();
                }
                let next = (&page, version.wrapping_add(1));
                self.replace(&mut locked, next, &gone, locator);
                // Entries that the page has lost must not be found anywhere else, now that readers
                // of the previous page can no longer insert them.
                if is_lost {
                    self.hot.clear();
                }
                for entry in displaced {
                    self.hot.remove(Name { partition, fingerprint: entry.fingerprint() });
                }
                let is_hot = |entry: &&Entry| entry.location().is_some() && !self.locations.is_on();
                for entry in changes.iter().filter(is_hot) {
                    let is_newest = page.find(entry.fingerprint()) == Some(*entry);
                    if is_newest
                        && matches!(
                            locked.find(entry.fingerprint(), &self.live_segments),
                            DramLookup::Page(_)
                        )
                    {
                        self.hot.insert(partition, *entry);
                    }
                }
                self.counters.merges.add(1);
                drop(locked);
                if is_lost {
                    self.drop_codes(|| true);
                }
                Ok(true)
            }
            Err(error) => {
                self.counters.errors.add(1);
                let before = locked.changes() as i64;
                locked.abort_merge();
                self.changes.fetch_add(locked.changes() as i64 - before, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Writes the page with the changes as its next version.
    fn write_merged(&self, partition: u32, version: u32, changes: &[Entry]) -> Result<Merged> {
        let (mut is_lost, mut is_distrusted) = (false, false);
        let mut page = match version {
            0 => Page::empty(),
            _ => match self.read_page(partition, version)? {
                Some(page) => page,
                None => {
                    is_lost = true;
                    self.counters.lost_pages.add(1);
                    Page::empty()
                }
            },
        };
        let before: Vec<Entry> = page.entries().collect();
        let displaced = self.apply(&mut page, changes);
        let is_gone = |entry: &Entry| page.find(entry.fingerprint()) != Some(*entry);
        let gone = before.into_iter().filter(is_gone).collect();
        is_distrusted |= is_lost || !self.log_displaced(partition, &displaced)?;
        let next = version
            .checked_add(1)
            .ok_or_else(|| Error::new(ErrorKind::Failed, Operation::Write, self.data.path()))?;
        let mut bytes = AlignedVec::with_capacity(PAGE_BYTES);
        let id = PageId { device: self.id, partition, version: next };
        bytes.extend_from_slice(&page.encode(id));
        self.data.write_at(self.layout.page_at(partition, next), &bytes)?;
        self.counters.page_bytes_written.add(PAGE_BYTES as u64);
        let at = self.layout.version_at(partition);
        self.meta.write_at(at, &encode_version(self.id, partition, next))?;
        self.counters.metadata_bytes_written.add(VERSION_BYTES as u64);
        let locator = self.locator_of(partition, &page);
        Ok(Merged { page, locator, gone, displaced, is_lost, is_distrusted })
    }

    /// The page of a partition; `None` if it is damaged.
    fn read_page(&self, partition: u32, version: u32) -> Result<Option<Page>> {
        self.counters.read_bytes.add(PAGE_BYTES as u64);
        let at = self.layout.page_at(partition, version);
        // The caller counts the error.
        let bytes = self.data.read_at(at, PAGE_BYTES)?;
        let page = Page::decode(&bytes, PageId { device: self.id, partition, version });
        self.counters.damaged.add(page.is_none().into());
        Ok(page)
    }

    /// Applies changes to a page; returns the displaced entries.
    fn apply(&self, page: &mut Page, changes: &[Entry]) -> Vec<Entry> {
        let is_live = |entry: Entry| {
            entry.location().is_some_and(|location| self.live_segments.has(location))
        };
        let age = |entry: Entry| {
            entry.location().map_or(0, |location| self.live_segments.order(location.slot))
        };
        page.retain(is_live);
        let mut displaced = Vec::new();
        for change in changes {
            match change.location() {
                None => page.remove(change.fingerprint()),
                Some(_) => displaced.extend(page.insert(*change, is_live, age)),
            }
        }
        displaced
    }

    /// A recovery must not find the entries that a full page displaced: returns whether they are
    /// logged, where it would find them. A log that is short of room is left to operations that
    /// wait for it.
    fn log_displaced(&self, partition: u32, displaced: &[Entry]) -> Result<bool> {
        self.counters.displaced.add(displaced.len() as u64);
        let replay_from = self.replay_from.load(Ordering::Acquire);
        let is_replayed = |entry: &&Entry| {
            entry
                .location()
                .is_some_and(|location| self.live_segments.order(location.slot) > replay_from)
        };
        let replayed: Vec<&Entry> = displaced.iter().filter(is_replayed).collect();
        let log = self.log.lock();
        if log.ring.percent_full() >= LOG_PERCENT || log.ring.room() / 4 < replayed.len() as u64 {
            return Ok(replayed.is_empty());
        }
        drop(log);
        for entry in replayed {
            let name = Name { partition, fingerprint: entry.fingerprint() };
            let _order: parking_lot::MutexGuard<'_, Partition> = self.partition(name).lock();
            self.log_invalidation(name, self.next_sequence())?;
        }
        Ok(true)
    }

    /// Advances the start of a recovery past the operations that pages have.
    fn checkpoint(&self) -> Result<()> {
        // An operation gets its sequence and enters its partition under that partition's lock:
        // operations not found below are later than this.
        let now = self.sequence.load(Ordering::Acquire);
        let oldest = self.partitions.iter().map(|partition| partition.lock().oldest());
        let (oldest_small, small_newest) = self.oldest_small();
        let oldest = oldest.chain(oldest_small).min();
        let upto = oldest.map_or(now, |oldest| now.min(oldest.saturating_sub(1)));
        let mut log = self.log.lock();
        let upto = upto.max(self.replay_from.load(Ordering::Acquire));
        let mut first = None;
        while let Some((end, sequence_max)) = log.stretches.front().copied()
            && sequence_max <= upto
        {
            first = Some(end);
            log.stretches.pop_front();
        }
        self.write_superblock(|superblock| {
            superblock.replay_from = upto;
            superblock.small_newest = small_newest;
            superblock.first_invalidation = first.unwrap_or(superblock.first_invalidation);
        })?;
        self.replay_from.store(upto, Ordering::Release);
        first.into_iter().for_each(|first| log.ring.cut(first));
        Ok(())
    }
}
