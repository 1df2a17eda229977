//! Opens a flash device: recovered, or empty.
//!
//! 1. [`Files::open`] locks the device and reads its superblock; the caller, which opens all
//!    devices, decides whether to trust it.
//! 2. [`open`] reads the metadata (the log, versions of pages, the segment table), the summaries of
//!    the segments with records that no page has, and those of all segments of small objects; no
//!    object and no page.
//! 3. Invalidations and summaries become changes of the index, in the order of their sequences
//!    ([`crate::index::replay`]), and the index of small objects ([`crate::index::small_replay`]).
//! 4. Damaged data counts as absent, and is recorded as absent before it counts so; if an
//!    invalidation may be missing, the whole device is discarded, and [`begin`] formats it.
//!
//! A device that is a file is two files: the data, read and written past the kernel's cache, and
//! the metadata, in a file of the same name with `.meta` appended ([`meta_path`]). Offsets count as
//! if both were one; the first block, where the metadata would begin, holds a mark
//! ([`crate::segment::mark`]). If one of the two is missing or belongs to another device, or the
//! metadata is of an earlier session, the device counts as unformatted and begins empty. Older data
//! with newer metadata does no harm: pages and summaries carry versions and generations. To copy a
//! device, copy both files while it is closed.
//!
//! Relies on the order in which [`crate::device::flash_device`] and [`crate::device::upkeep`]
//! write.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use tidekv_io::buffer::AlignedVec;
use tidekv_io::{Access, ErrorKind, File, Lock, Operation, Result, Storage};

use crate::device::flash_device::{Device, Log, WriteState};
use crate::device::small_state::SmallObjects;
use crate::device::stats::DeviceCounters;
use crate::device::upkeep::encode_version;
use crate::device::write_budget::RewriteCredit;
use crate::entry::SegmentId;
use crate::index::flash_dram::Limits;
use crate::index::hot::Hot;
use crate::index::locations::{Locations, codes_memory_bytes};
use crate::index::partition::{Partition, restore};
use crate::index::replay::replay;
use crate::index::small_index::SmallIndex;
use crate::index::small_replay::{Replayed, replay_small};
use crate::segment::bucket_segment::{TagSummary, tag_summary_range};
use crate::segment::buffer::{self, Summary};
use crate::segment::coding::Reader;
use crate::segment::invalidations::{Collection, Invalidation, Invalidations};
use crate::segment::layout::{
    BLOCK_BYTES, INVALIDATION_BYTES, Layout, SLOT_BYTES, SUPERBLOCK_BYTES, VERSION_BYTES,
};
use crate::segment::mark::{MARK_BYTES, Mark};
use crate::segment::segment_table::{LiveSegments, Slot};
use crate::segment::slots::Slots;
use crate::segment::superblock::{Opening, Superblock};

/// Metadata is erased in pieces of this many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// An open device of which only the superblock has been read.
#[derive(Debug)]
pub(crate) struct Files {
    meta: Arc<dyn File>,
    data: Arc<dyn File>,
    lock: Box<dyn Lock>,
    /// The device's superblock, if it has one.
    pub(crate) superblock: Option<Superblock>,
}

impl Files {
    /// Opens the device at `path`, and its metadata; missing files are created, the one at `path`
    /// with a length of `bytes`.
    pub(crate) fn open(storage: &Arc<dyn Storage>, path: &Path, bytes: u64) -> Result<Self> {
        let is_new = !storage.exists(path)?;
        let lock = storage.lock(path)?;
        let data = storage.open(path, Access::Direct)?;
        if data.len()? < bytes {
            data.allocate(bytes)?;
        }
        let meta = match data.is_block_device() {
            true => {
                let meta = storage.open(path, Access::Buffered)?;
                refuse_others(&*meta)?;
                meta
            }
            false => open_meta(storage, &meta_path(path))?,
        };
        if is_new {
            sync_directory_of(storage, path)?;
        }
        let superblock = newest(&*meta)?.filter(|found| {
            // An unreadable mark allows no metadata.
            let mark = || Mark::decode(&data.read_at(0, MARK_BYTES).ok()?);
            data.is_block_device() || mark().is_some_and(|mark| mark.allows(found))
        });
        Ok(Self { meta, data, lock, superblock })
    }

    /// Writes the superblock, and the mark of the data file that belongs to it.
    fn claim(&self, superblock: &Superblock) -> Result<()> {
        let superblock_at = superblock.layout.superblock_at(superblock.generation);
        self.meta.write_at(superblock_at, &superblock.encode())?;
        // Else a power cut could restore a superblock that claims a clean close, with all records
        // of that time.
        self.meta.sync()?;
        // Only now: before, the metadata would be of an earlier session.
        if self.data.is_block_device() {
            return Ok(());
        }
        let mut block = AlignedVec::with_capacity(MARK_BYTES);
        block.extend_from_slice(&Mark::of(superblock).encode());
        self.data.write_at(0, &block)?;
        self.data.sync()
    }

    /// Erases all metadata, the superblocks first, so that the device counts as unformatted.
    pub(crate) fn erase(&self, layout: &Layout) -> Result<()> {
        let end = layout.page_at(0, 0);
        for at in (0..end).step_by(PIECE_BYTES as usize) {
            let zeros = vec![0; PIECE_BYTES.min(end - at) as usize];
            self.meta.write_at(at, &zeros)?;
        }
        self.meta.sync()
    }
}

/// The last opening of the cache that the device at `path` was part of, and the membership that it
/// stores, if any. Locks and changes nothing.
pub(crate) fn last_opening(storage: &Arc<dyn Storage>, path: &Path) -> Option<(Opening, u32)> {
    peek(storage, path).map(|superblock| (superblock.opening, superblock.membership.epoch))
}

/// The layout of the device at `path`, if it has one. Locks and changes nothing.
pub(crate) fn last_layout(storage: &Arc<dyn Storage>, path: &Path) -> Option<Layout> {
    peek(storage, path).map(|superblock| superblock.layout)
}

fn peek(storage: &Arc<dyn Storage>, path: &Path) -> Option<Superblock> {
    let is_file = storage.exists(&meta_path(path)).unwrap_or(false);
    let meta_path = if is_file { meta_path(path) } else { path.to_owned() };
    let meta = storage.open_read(&meta_path, Access::Buffered).ok()?;
    newest(&*meta).ok()?
}

/// The path of the metadata of the device at `path`. A buffered write waits for the direct reads of
/// the same file to end, on ext4 at least, and no other read begins meanwhile: in one file every
/// invalidation would stop the device. On a block device itself nothing waits, and both are one.
pub(crate) fn meta_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".meta");
    name.into()
}

/// Refuses a block device with foreign data at its start: it may be in use.
fn refuse_others(device: &dyn File) -> Result<()> {
    let head = device.read_at(0, 2 * BLOCK_BYTES as usize)?;
    let is_ours = [0, BLOCK_BYTES as usize].iter().any(|at| Superblock::is_begun(&head[*at..]));
    if is_ours || head.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let why = "it holds something else than a cache; if that may go, clear its first 8 KiB";
    let why = std::io::Error::other(why);
    Err(tidekv_io::Error::from_system(Operation::Open, device.path(), why))
}

/// Opens the file with the metadata, creating it if it is missing.
fn open_meta(storage: &Arc<dyn Storage>, path: &Path) -> Result<Arc<dyn File>> {
    let is_new = !storage.exists(path)?;
    let meta = match is_new {
        true => storage.create(path, Access::Buffered)?,
        false => storage.open(path, Access::Buffered)?,
    };
    extend(&*meta, 2 * BLOCK_BYTES)?;
    if is_new {
        sync_directory_of(storage, path)?;
    }
    Ok(meta)
}

fn sync_directory_of(storage: &Arc<dyn Storage>, path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    storage.sync_dir(directory.unwrap_or(Path::new(".")))
}

/// Extends a file to at least this length: the added zeros decode as no metadata.
fn extend(meta: &dyn File, bytes: u64) -> Result<()> {
    if meta.len()? < bytes { meta.allocate(bytes) } else { Ok(()) }
}

/// The newest superblock; none if one is damaged, for that might be the newest.
fn newest(meta: &dyn File) -> Result<Option<Superblock>> {
    let mut newest: Option<Superblock> = None;
    for at in [0, BLOCK_BYTES] {
        let bytes = meta.read_at(at, SUPERBLOCK_BYTES)?;
        match Superblock::decode(&bytes) {
            Some(found) => {
                let before = newest.as_ref().map_or(0, |newest| newest.generation);
                newest = Some(found).filter(|found| found.generation > before).or(newest);
            }
            None if bytes.iter().all(|byte| *byte == 0) => {}
            None => return Ok(None),
        }
    }
    Ok(newest)
}

/// The decoded metadata.
struct Metadata {
    log: Log,
    partitions: Vec<Partition>,
    slots: Vec<Slot>,
    small: (SmallIndex, Replayed),
    sequence: u64,
}

/// Opens a device: recovered, if `recovered` is its new superblock and no invalidation may be missing;
/// otherwise empty, with the superblock `fresh`. Returns whether it was recovered.
///
/// # Errors
///
/// When the device fails.
pub(crate) fn open(
    files: Files,
    recovered: Option<&Superblock>,
    fresh: &Superblock,
    limits: Limits,
    counters: Arc<DeviceCounters>,
) -> Result<(Device, bool)> {
    if let Some(recovered) = recovered {
        // First of all: if reading the rest fails, the cache runs without the device, which misses
        // all later changes. If it still claimed a clean close, it would be believed.
        files.claim(recovered)?;
        if let Some(found) = read(&files, recovered)? {
            return Ok((build(files, recovered, found, limits, counters)?, true));
        }
    }
    files.erase(&fresh.layout)?;
    Ok((begin(files, fresh, limits, counters)?, false))
}

/// Formats a device whose metadata has been erased.
///
/// # Errors
///
/// When the device fails.
pub(crate) fn begin(
    files: Files,
    fresh: &Superblock,
    limits: Limits,
    counters: Arc<DeviceCounters>,
) -> Result<Device> {
    files.claim(fresh)?;
    let end = Invalidation::end(fresh.first_invalidation, fresh.device);
    files.meta.write_at(fresh.layout.invalidation_at(fresh.first_invalidation), &end)?;
    let empty = read(&files, fresh)?.ok_or_else(|| {
        tidekv_io::Error::new(ErrorKind::Failed, Operation::Read, files.meta.path())
    })?;
    build(files, fresh, empty, limits, counters)
}

fn build(
    files: Files,
    superblock: &Superblock,
    found: Metadata,
    limits: Limits,
    counters: Arc<DeviceCounters>,
) -> Result<Device> {
    let layout = superblock.layout;
    let Metadata { log, partitions, slots, small: (index, replayed), mut sequence } = found;
    let small = SmallObjects::new(&layout, index, replayed);
    let live_segments = LiveSegments::new(layout.slots);
    for slot in &slots {
        sequence = sequence.max(slot.sequence_max).max(slot.order);
        match slot.is_whole {
            true => live_segments.set_whole(slot.id, slot.sequence_max),
            false => live_segments.set_free(slot.id),
        }
    }
    let changes = partitions.iter().map(|partition| partition.changes() as i64).sum();
    let write_state = WriteState {
        slots: Slots::new(slots),
        open: Vec::new(),
        sealed: std::collections::VecDeque::new(),
        buffers: 0,
        spare: Vec::new(),
    };
    let device = Device {
        id: superblock.device,
        meta: files.meta,
        data: files.data,
        lock: files.lock,
        layout,
        limits: ArcSwap::from_pointee(limits.within(partitions.len())),
        partitions: partitions.into_iter().map(Mutex::new).collect(),
        hot: Hot::new(limits.hot_bytes),
        locations: Locations::new(&layout, codes_memory_bytes(&layout, limits.hot_bytes)),
        directories_to_load: AtomicU32::new(0),
        live_segments,
        write_state: Mutex::new(write_state),
        buffers: RwLock::new(HashMap::new()),
        log: Mutex::new(log),
        superblock: Mutex::new(superblock.clone()),
        sequence: AtomicU64::new(sequence),
        replay_from: AtomicU64::new(superblock.replay_from),
        changes: AtomicI64::new(changes),
        buffered: AtomicI64::new(0),
        futile_changes: AtomicI64::new(0),
        broken: AtomicBool::new(false),
        small,
        rewrites: RewriteCredit::new(u64::from(layout.slots) * u64::from(layout.segment_bytes)),
        counters,
    };
    device.divide_index_memory();
    Ok(device)
}

fn read(files: &Files, superblock: &Superblock) -> Result<Option<Metadata>> {
    let layout = &superblock.layout;
    extend(&*files.meta, layout.page_at(0, 0))?;
    let Some(mut log) = read_log(files, superblock)? else { return Ok(None) };
    log.sort_unstable_by_key(|invalidation| invalidation.sequence);
    let last = log.iter().map(|invalidation| invalidation.sequence).max().unwrap_or(0);
    let mut sequence = last.max(superblock.replay_from).max(superblock.first_segment);
    let (mut partitions, lost) = read_versions(files, superblock)?;
    let mut slots = read_slots(files, superblock)?;
    sequence = slots.iter().map(|slot| slot.sequence_max).max().unwrap_or(0).max(sequence);
    let ring = log_of(layout.invalidations, superblock.first_invalidation, &log);
    for partition in lost {
        partitions[partition as usize].distrust(sequence);
    }
    let from = superblock.replay_from;
    let index = SmallObjects::empty_index(layout);
    let small = slots.iter().filter(|slot| slot.is_whole && slot.is_small).copied().collect();
    let read = |slot: &Slot| read_tags(files, layout, superblock.device, slot);
    // All that was removed before are tombstones, and what they are for may have been stored again.
    let small_log = log.iter().filter(|invalidation| invalidation.sequence > from);
    let small = replay_small(small_log, small, superblock.small_newest, &index, read);
    let is_replayed = |slot: &&Slot| slot.is_whole && !slot.is_small && slot.sequence_max > from;
    let segments = slots.iter().filter(is_replayed).copied().collect();
    let read = |slot: &Slot| read_summary(files, layout, superblock.device, slot);
    let damaged = replay(log, segments, from, read, |found| restore(&mut partitions, found));
    for slot in damaged.into_iter().chain(small.damaged.iter().copied()) {
        let slot = &mut slots[slot as usize];
        *slot = next_free(slot.id.slot, slot.id.generation);
        let at = layout.table_entry_at(slot.id.slot);
        files.meta.write_at(at, &slot.encode(superblock.device))?;
    }
    Ok(Some(Metadata { log: ring, partitions, slots, small: (index, small), sequence }))
}

/// The invalidations that count; `None` if one may be missing.
fn read_log(files: &Files, superblock: &Superblock) -> Result<Option<Vec<Invalidation>>> {
    let layout = &superblock.layout;
    let mut collection = Collection::new(superblock.device, superblock.first_invalidation);
    let ring_bytes = u64::from(layout.invalidations) * INVALIDATION_BYTES as u64;
    let start = layout.invalidation_at(0);
    for at in (0..ring_bytes).step_by(PIECE_BYTES as usize) {
        let piece_bytes = PIECE_BYTES.min(ring_bytes - at) as usize;
        collection.add(&files.meta.read_at(start + at, piece_bytes)?);
    }
    Ok(collection.finish())
}

/// The partitions without their pages; those whose version is damaged, which is recorded as none.
fn read_versions(files: &Files, superblock: &Superblock) -> Result<(Vec<Partition>, Vec<u32>)> {
    let (layout, device) = (&superblock.layout, superblock.device);
    let versions_bytes = layout.partitions as usize * VERSION_BYTES;
    let versions = files.meta.read_at(layout.versions_at(), versions_bytes)?;
    let mut partitions = Vec::with_capacity(layout.partitions as usize);
    let mut lost = Vec::new();
    for (partition, bytes) in (0..).zip(versions.chunks_exact(VERSION_BYTES)) {
        let version = decode_version(bytes, device, partition);
        if version.is_none() {
            let none = encode_version(device, partition, 0);
            files.meta.write_at(layout.version_at(partition), &none)?;
            lost.push(partition);
        }
        partitions.push(Partition::new(version.unwrap_or(0)));
    }
    Ok((partitions, lost))
}

/// A free slot that held that generation.
fn next_free(slot: u32, generation: u32) -> Slot {
    Slot::free(SegmentId { slot, generation: generation.wrapping_add(1) })
}

/// The segment table.
fn read_slots(files: &Files, superblock: &Superblock) -> Result<Vec<Slot>> {
    let (layout, device) = (&superblock.layout, superblock.device);
    let table = files.meta.read_at(layout.table_at(), layout.slots as usize * SLOT_BYTES)?;
    let entries = || (0..).zip(table.chunks_exact(SLOT_BYTES));
    let decoded = entries().map(|(slot, entry)| Slot::decode(entry, device, slot));
    let decoded: Vec<Option<Slot>> = decoded.collect();
    // For generations that were given out but not written: one more for each.
    let generations = decoded.iter().flatten().map(|slot| slot.id.generation);
    let newest = generations.max().unwrap_or(0);
    let mut slots = Vec::with_capacity(layout.slots as usize);
    for ((slot, bytes), entry) in entries().zip(decoded) {
        let is_new = bytes.iter().all(|byte| *byte == 0);
        slots.push(match entry {
            Some(entry) if entry.is_whole && entry.order >= superblock.first_segment => entry,
            Some(entry) => next_free(slot, entry.id.generation),
            None if is_new => next_free(slot, 0),
            None => {
                let free = next_free(slot, newest);
                files.meta.write_at(layout.table_entry_at(slot), &free.encode(device))?;
                free
            }
        });
    }
    Ok(slots)
}

fn read_summary(files: &Files, layout: &Layout, device: u64, slot: &Slot) -> Option<Vec<Summary>> {
    let (offset, len) = buffer::summary_range(slot);
    if offset + len as u64 > layout.segment_bytes.into() {
        return None;
    }
    let bytes = files.data.read_at(layout.segment_at(slot.id.slot) + offset, len).ok()?;
    let summaries = buffer::read_summary(&bytes, device, slot.id)?;
    let is_inside = |summary: &Summary| {
        let end = u64::from(summary.location.offset) + u64::from(summary.location.len);
        summary.name.partition < layout.partitions && end <= slot.bytes.into()
    };
    summaries.iter().all(is_inside).then_some(summaries)
}

/// The tags of a segment of small objects.
fn read_tags(files: &Files, layout: &Layout, device: u64, slot: &Slot) -> Option<TagSummary> {
    let (offset, len) = tag_summary_range(slot);
    if offset + len as u64 > layout.segment_bytes.into() {
        return None;
    }
    let bytes = files.data.read_at(layout.segment_at(slot.id.slot) + offset, len).ok()?;
    TagSummary::decode(&bytes, device, slot.id)
}

fn log_of(places: u32, first: u64, found: &[Invalidation]) -> Log {
    let next = first + found.len() as u64;
    let sequence_max = found.iter().map(|invalidation| invalidation.sequence).max().unwrap_or(0);
    let ring = Invalidations::new(places, first, next);
    let stretches = (next > first).then_some((next, sequence_max)).into_iter().collect();
    Log { ring, stretches, sequence_max }
}

/// The version in the directory; `None` if it is damaged.
fn decode_version(bytes: &[u8], device: u64, partition: u32) -> Option<u32> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    let mut reader = Reader::open(bytes, device ^ u64::from(partition).rotate_left(32))?;
    Some(reader.u32())
}

impl Device {
    /// Writes all pending data to flash and marks the device as cleanly closed; it is empty
    /// afterwards.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn close(&self, now_s: u32) -> Result<()> {
        if self.is_broken() {
            return Ok(());
        }
        // Directories would be of no use any more.
        self.directories_to_load.store(self.layout.slots, Ordering::Release);
        self.settle_all(&mut 0, now_s)?;
        self.data.sync()?;
        self.meta.sync()?;
        self.write_superblock(|superblock| superblock.is_closed = true)?;
        self.meta.sync()?;
        self.broken.store(true, Ordering::Release);
        Ok(())
    }
}
