//! Point reads of a view: the newest version of a key that a reader sees.
//!
//! ```text
//!   memtables ──▶ KV ──▶ KP ─────────▶ level 0 ──▶ levels below
//!    newest first  │      │ one block,     filter, index, data block of each table
//!                  ▼      ▼ if it is it          ▼
//!                value  value, kept in KV     value, kept in KV and KP
//! ```
//!
//! (AC-Key, section 4.1.1.) A [`PointRead`] takes these steps as a state machine: it stops when a
//! block must be read from storage, so the same code serves `get` (which reads the block),
//! `multi_get` (which collects the blocks of many keys into a batch) and reads that must not wait.
//!
//! Guarantee: the result is that of the memtables and tables of the view alone, whatever the caches
//! contain. Relies on every change of the tree being reported to [`tidekv_cache::point_cache`], and
//! on these rules:
//!
//! 1. A value of KV counts only if the view is sure to contain it too
//!    ([`Reader::is_sure_of`](crate::read::point_lookup::Reader)). So all keys read from one view
//!    are of the same moment.
//! 2. A pointer counts only if the view has its table, the key is at its position, the reader may
//!    see that version, and no range tombstone of the view covers it.
//! 3. Only a read that has the current epoch, and is not at a snapshot, inserts its result.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tidekv_cache::KvEntry;
use tidekv_cache::LookupResult;
use tidekv_cache::should_sample_hit;
use tidekv_cache::{BlockKind, Epoch};
use tidekv_cache::{KpEntry, Pointer};

use crate::error::{Error, ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::key::{Kind, LookupKey, Sequence, Trailer, split_deadline};
use crate::read::point_lookup::{Known, Payload, PointLookup};
use crate::read::read_context::ReadContext;
use crate::sst::block::{BlockHandle, BlockRef};
use crate::sst::block_address::BlockAddress;
use crate::sst::cold_lookups::LookupReads;
use crate::sst::filter_repair::FalsePositive;
use crate::sst::table::{Found, Step, TableProbe};
use crate::version::levels::{TableHandle, find_in};

/// The newest version of a key that a reader sees: an entry, or a deletion.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) trailer: Trailer,
    pub(crate) payload: Payload<'static>,
}

impl Resolved {
    pub(crate) fn new(trailer: Trailer, payload: Payload<'_>) -> Self {
        Self { trailer, payload: payload.into_owned() }
    }

    /// The same for long-term use: a small payload does not keep its block in memory.
    fn kept(self) -> Self {
        Self { payload: Payload::Own(self.payload.into_bytes()), ..self }
    }

    fn value(&self) -> (Kind, &[u8]) {
        (self.trailer.kind(), self.payload.as_slice())
    }

    fn deletion(sequence: Sequence) -> Self {
        Self { trailer: Trailer::new(sequence, Kind::Delete), payload: Payload::Own(Bytes::new()) }
    }
}

/// The state of a point read after a step.
#[derive(Debug)]
pub(crate) enum ReadStep {
    /// Read this block and supply it.
    Need(BlockAddress),
    /// The newest version, or nothing.
    Done(Option<Resolved>),
}

/// The next source to search.
enum Stage<'a> {
    Memory,
    Pointer(KpEntry, &'a TableHandle),
    Tables,
}

/// The facts about a read that decide what the caches admit.
#[derive(Debug, Default)]
struct AdmissionInfo {
    epoch: Option<Epoch>,
    /// Whether lookups of the key read storage: this one, or one of a previous run.
    has_read: bool,
    /// The offset of the last block that was supplied, in the table that is searched.
    last_read: Option<u64>,
    by_pointer: bool,
    /// Whether the result is offered to the caches even if nothing was read for it.
    is_shown_unread: bool,
}

/// A point read in progress.
pub(crate) struct PointRead<'a> {
    lookup: PointLookup<'a>,
    stage: Stage<'a>,
    admission: AdmissionInfo,
    reads: LookupReads,
    /// Whether a caller waits for the result; reads of a warm start are not counted as lookups.
    is_asked_for: bool,
    /// The next table to search: its level, and in level 0 the number of its run.
    level: usize,
    index: usize,
    /// The table that is being searched, and its level.
    probe: Option<(usize, &'a TableHandle, TableProbe<'a>)>,
    /// The result of the point cache, while the tables are searched as well (cross-check).
    checked: Option<Resolved>,
    /// Filters that the key passed by mistake: reported when the read ends, because a read that was
    /// abandoned begins again.
    false_positives: SmallVec<[FalsePositive; 1]>,
}

impl<'a> PointRead<'a> {
    /// A read that searches memory first. `epoch` was taken before the view, if the reader is not
    /// at a snapshot.
    pub(crate) fn new(lookup: PointLookup<'a>, epoch: Option<Epoch>) -> Self {
        Self::at(Stage::Memory, lookup, epoch)
    }

    fn at(stage: Stage<'a>, lookup: PointLookup<'a>, epoch: Option<Epoch>) -> Self {
        Self {
            lookup,
            stage,
            admission: AdmissionInfo { epoch, ..AdmissionInfo::default() },
            reads: LookupReads::default(),
            is_asked_for: true,
            level: 0,
            index: 0,
            probe: None,
            checked: None,
            false_positives: SmallVec::new(),
        }
    }

    /// Sets the sample id, which decides whether the read is offered to the caches though it read
    /// nothing.
    pub(crate) fn with_sample_id(mut self, lot: u64) -> Self {
        self.admission.is_shown_unread = should_sample_hit(lot);
        self
    }

    /// Makes the point cache keep the result regardless of its cost: the cache contained it in the
    /// previous run.
    pub(crate) fn remembered(mut self) -> Self {
        self.admission.has_read = true;
        self.is_asked_for = false;
        self
    }

    /// Continues as far as memory allows. After [`ReadStep::Need`], pass the block to the next
    /// step.
    pub(crate) fn step(
        &mut self,
        context: &ReadContext,
        mut supplied: Option<BlockRef>,
    ) -> Result<ReadStep> {
        if let Some(block) = &supplied {
            self.note_read(block, context);
        }
        loop {
            match self.stage {
                Stage::Memory => {
                    self.stage = Stage::Tables;
                    match self.lookup.lookup_in_memory(context, &mut Resolved::new) {
                        Known::Written(resolved) => return Ok(ReadStep::Done(Some(resolved))),
                        Known::Cached(resolved) if context.verifies() => {
                            self.checked = Some(resolved);
                        }
                        Known::Cached(resolved) => return Ok(ReadStep::Done(Some(resolved))),
                        Known::EntryLocation(entry, handle) => {
                            self.stage = Stage::Pointer(entry, handle)
                        }
                        Known::Nothing => {}
                    }
                }
                Stage::Pointer(entry, handle) => {
                    let pointer = entry.pointer;
                    let block = match supplied.take() {
                        Some(block) => block,
                        None => match self.cached_block(&pointer, handle, context) {
                            Ok(block) => block,
                            Err(address) => return Ok(ReadStep::Need(address)),
                        },
                    };
                    self.stage = Stage::Tables;
                    let found = handle.table().found_at(block, pointer, self.lookup.key.user_key);
                    let Some(found) = found.filter(|found| self.is_seen(found, handle)) else {
                        context.caches.point().pointer_failed(self.lookup.hash);
                        self.reads.table_lacks_it();
                        continue;
                    };
                    self.admission.by_pointer = true;
                    let resolved = self.keep(found, handle, usize::from(entry.level), context);
                    if !context.verifies() {
                        self.note_reads(context);
                        return Ok(ReadStep::Done(Some(resolved)));
                    }
                    self.checked = Some(resolved);
                }
                Stage::Tables => return self.ask_tables(context, supplied),
            }
        }
    }

    /// Handles the outcome of reading a block. The block of a pointer may belong to another key,
    /// whose damage does not concern this read: the tables are searched then.
    fn supplied(&mut self, read: Result<BlockRef>) -> Result<Option<BlockRef>> {
        match (read, &self.stage) {
            (Err(_), Stage::Pointer(..)) => {
                self.stage = Stage::Tables;
                Ok(None)
            }
            (read, _) => read.map(Some),
        }
    }

    // ---- KV and KP ----

    /// The block of a pointer, or the address to read it from.
    fn cached_block(
        &self,
        pointer: &Pointer,
        handle: &TableHandle,
        context: &ReadContext,
    ) -> std::result::Result<BlockRef, BlockAddress> {
        let address =
            handle.table().data_address(BlockHandle { offset: pointer.offset, len: pointer.len });
        context.blocks.cached(&address).ok_or(address)
    }

    /// Whether this is the version of the key that the reader sees, given that it is the newest
    /// one.
    fn is_seen(&self, found: &Found, handle: &TableHandle) -> bool {
        let sequence = trailer_in(handle, found.trailer).sequence();
        let covers = |table: &Arc<TableHandle>| {
            let tombstones = table.range_tombstones();
            tombstones.newest_over(self.lookup.key.user_key, self.lookup.key.sequence) > sequence
        };
        sequence <= self.lookup.reader.known
            && !self.lookup.view.version.tombstoned().iter().any(covers)
    }

    /// Counts the reads of a finished lookup.
    fn note_reads(&self, context: &ReadContext) {
        if self.is_asked_for {
            context.stats.note(&self.reads);
        }
    }

    /// Records that a block came from storage.
    fn note_read(&mut self, block: &BlockRef, context: &ReadContext) {
        self.reads.add(block.kind());
        let (admission, cache) = (&mut self.admission, context.caches.point());
        if !cache.is_used() {
            return;
        }
        if !admission.has_read {
            cache.record_access(self.lookup.hash);
            admission.has_read = true;
        }
        admission.last_read = Some(block.offset());
    }

    /// The version that was found, after offering it to the point cache.
    fn keep(
        &mut self,
        found: Found,
        handle: &TableHandle,
        level: usize,
        context: &ReadContext,
    ) -> Resolved {
        let trailer = trailer_in(handle, found.trailer);
        self.reads.found_on(level);
        let admission = &self.admission;
        let is_value = matches!(trailer.kind(), Kind::Value | Kind::Expiring);
        let point = context.caches.point();
        if let (Some(epoch), true) = (admission.epoch, is_value) {
            let entry = KvEntry {
                name: self.lookup.name(),
                stamp: trailer.0,
                value: found.payload(),
                level: level as u8,
            };
            // AC-Key caches the result of every lookup.
            if admission.has_read || point.caches_memory_hits() {
                let pointer = found.pointer(handle.meta().id);
                let is_data_read = admission.last_read == Some(pointer.offset);
                let resolved = LookupResult {
                    entry,
                    pointer: Some(pointer),
                    reads: self.reads.all() as f32,
                    data_reads: f32::from(u8::from(is_data_read)),
                    by_pointer: admission.by_pointer,
                };
                point.resolved(self.lookup.hash, epoch, &resolved);
            } else if admission.is_shown_unread {
                context.caches.offer_memory_hit(self.lookup.hash, epoch, entry);
            }
            self.admission.epoch = None;
        }
        Resolved { trailer, payload: Payload::Part(found.into_payload()) }
    }

    // ---- Tables ----

    fn ask_tables(
        &mut self,
        context: &ReadContext,
        mut supplied: Option<BlockRef>,
    ) -> Result<ReadStep> {
        loop {
            if self.probe.is_none() {
                let Some((level, handle)) = self.next_table() else {
                    return self.done(None, context);
                };
                self.probe = Some((level, handle, handle.table().probe(self.key_for(handle))));
                self.admission.last_read = None;
                self.reads.table_begins();
            }
            let Some((level, handle, probe)) = &mut self.probe else { continue };
            let (level, handle) = (*level, *handle);
            let found = match probe.step(&context.blocks, supplied.take())? {
                Step::Need(address) => return Ok(ReadStep::Need(address)),
                Step::Found(found) => Some(found),
                Step::Absent => {
                    self.false_positives.extend(probe.false_positive());
                    self.reads.table_lacks_it();
                    None
                }
            };
            let covered = handle
                .range_tombstones()
                .newest_over(self.lookup.key.user_key, self.lookup.key.sequence);
            self.probe = None;
            if let Some(found) = found
                && trailer_in(handle, found.trailer).sequence() >= covered
            {
                let resolved = self.keep(found, handle, level, context);
                return self.done(Some(resolved), context);
            }
            if covered > 0 {
                // All that older tables have of the key is older still.
                return self.done(Some(Resolved::deletion(covered)), context);
            }
        }
    }

    /// Returns the result of the tables; a result of the point cache must agree with it.
    fn done(&mut self, resolved: Option<Resolved>, context: &ReadContext) -> Result<ReadStep> {
        self.note_reads(context);
        for found in self.false_positives.drain(..) {
            context.repairs.note(found);
        }
        let Some(checked) = self.checked.take() else { return Ok(ReadStep::Done(resolved)) };
        let is_value = |r: &&Resolved| matches!(r.trailer.kind(), Kind::Value | Kind::Expiring);
        let of_cache = Some(&checked).filter(is_value).map(Resolved::value);
        let of_tables = resolved.as_ref().filter(is_value).map(Resolved::value);
        // A compaction drops expired entries; the entry of the cache has its deadline.
        let same = of_cache == of_tables || (of_tables.is_none() && has_expired(&checked, context));
        match same {
            true => Ok(ReadStep::Done(Some(checked))),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "caches and tables disagree on the key \"{}\": caches have {}, tables {}",
                    self.lookup.key.user_key.escape_ascii(),
                    shown(Some(&checked)),
                    shown(resolved.as_ref()),
                ),
            )),
        }
    }

    /// An ingested table has sequence 0 in its file, visible to all readers that may see the table.
    fn key_for(&self, handle: &TableHandle) -> LookupKey<'a> {
        match handle.meta().sequence_override {
            0 => self.lookup.key,
            _ => LookupKey { sequence: crate::format::key::SEQUENCE_MAX, ..self.lookup.key },
        }
    }

    fn may_see(&self, handle: &TableHandle) -> bool {
        handle.meta().sequence_override <= self.lookup.key.sequence
    }

    /// The next table that may hold the key, and its level.
    fn next_table(&mut self) -> Option<(usize, &'a TableHandle)> {
        let version = &self.lookup.view.version;
        while self.level < LEVELS {
            let level = self.level;
            let candidate = if level == 0 {
                let run = version.run(self.index);
                self.index += 1;
                if run.is_none() {
                    self.level = 1;
                }
                run.and_then(|run| find_in(run, self.lookup.key.user_key))
            } else {
                self.level += 1;
                version.find(level, self.lookup.key.user_key)
            };
            if let Some(handle) = candidate
                && self.may_see(handle)
            {
                return Some((level, handle));
            }
        }
        None
    }
}

/// Whether this is a value whose deadline has passed.
fn has_expired(resolved: &Resolved, context: &ReadContext) -> bool {
    let deadline = split_deadline(resolved.payload.as_slice()).map(|(deadline, _)| deadline);
    resolved.trailer.kind() == Kind::Expiring
        && deadline.is_none_or(|deadline| context.has_passed(deadline))
}

/// A short description of a version, without its payload.
fn shown(resolved: Option<&Resolved>) -> String {
    resolved.map_or_else(
        || "nothing".to_owned(),
        |Resolved { trailer, payload }| {
            let (kind, sequence) = (trailer.kind(), trailer.sequence());
            format!("{kind:?} of sequence {sequence} with {} bytes", payload.as_slice().len())
        },
    )
}

/// The trailer of an entry of a table, with the sequence of an ingest filled in.
fn trailer_in(handle: &TableHandle, trailer: Trailer) -> Trailer {
    match handle.meta().sequence_override {
        0 => trailer,
        number => Trailer::new(number, trailer.kind()),
    }
}

/// Maps the newest version by `see`, after waiting for storage if necessary. `see` runs at most
/// once, and possibly under a lock: keep it short. For `lot` see [PointRead::with_sample_id].
pub(crate) fn answer<R>(
    lookup: PointLookup<'_>,
    epoch: Option<Epoch>,
    lot: u64,
    context: &ReadContext,
    mut see: impl FnMut(Trailer, Payload<'_>) -> R,
) -> Result<Option<R>> {
    let mut stage = Stage::Memory;
    if !context.verifies() {
        // The usual end, without the state of a longer way.
        stage = match lookup.lookup_in_memory(context, &mut see) {
            Known::Written(seen) | Known::Cached(seen) => return Ok(Some(seen)),
            Known::EntryLocation(entry, handle) => Stage::Pointer(entry, handle),
            Known::Nothing => Stage::Tables,
        };
    }
    let mut read = PointRead::at(stage, lookup, epoch).with_sample_id(lot);
    let mut supplied = None;
    loop {
        match read.step(context, supplied.take())? {
            ReadStep::Need(address) => supplied = read.supplied(context.blocks.read(&address))?,
            ReadStep::Done(resolved) => {
                return Ok(resolved.map(|r| see(r.trailer, r.payload)));
            }
        }
    }
}

/// Performs several reads of one view; each round reads the next blocks of all of them in one
/// batch.
pub(crate) fn read_many<'a>(
    reads: impl Iterator<Item = PointRead<'a>>,
    context: &ReadContext,
) -> Result<Vec<Option<Resolved>>> {
    read_up_to(reads, usize::MAX, context)
}

/// Like [`read_many`], but returns only the first results, at least one, if all of them would take
/// more than about `bytes_max` bytes. No more than that is read from storage either, but for the
/// first.
pub(crate) fn read_up_to<'a>(
    reads: impl Iterator<Item = PointRead<'a>>,
    bytes_max: usize,
    context: &ReadContext,
) -> Result<Vec<Option<Resolved>>> {
    let mut reads: Vec<(usize, PointRead<'_>)> = reads.enumerate().collect();
    let mut results: Vec<Option<Resolved>> = vec![None; reads.len()];
    // Data blocks that are read, and payloads found in memory.
    let mut bytes = 0_usize;
    let mut count = reads.len();
    let mut supplied: Vec<Option<BlockRef>> = vec![None; reads.len()];
    while !reads.is_empty() {
        let mut waiting = Vec::new();
        let mut wanted = Vec::new();
        for ((index, mut read), block) in reads.into_iter().zip(supplied) {
            if index >= count {
                break;
            }
            let was_read = block.as_ref().is_some_and(|block| block.kind() == BlockKind::Data);
            let before = bytes;
            match read.step(context, block)? {
                ReadStep::Need(address) => {
                    if address.kind == BlockKind::Data {
                        bytes = bytes.saturating_add(address.handle.len as usize);
                    }
                    wanted.push(address);
                    waiting.push((index, read));
                }
                // Copied if small, so that it does not keep its whole block in memory.
                ReadStep::Done(resolved) => {
                    let resolved = resolved.map(Resolved::kept);
                    let payload =
                        resolved.as_ref().map_or(0, |found| found.payload.as_slice().len());
                    bytes = bytes.saturating_add(if was_read { 0 } else { payload });
                    results[index] = resolved;
                }
            }
            if bytes > bytes_max {
                count = index.max(1);
                if index > 0 {
                    // The last result is the one before, and this block is not read.
                    bytes = before;
                    waiting.retain(|(waiting, _)| *waiting < count);
                    wanted.truncate(waiting.len());
                }
                break;
            }
        }
        let read = match wanted.len() {
            0 => Vec::new(),
            1 => vec![context.blocks.read(&wanted[0])],
            _ => context.blocks.try_read_many(&wanted),
        };
        supplied = waiting
            .iter_mut()
            .zip(read)
            .map(|((_, waiting), block)| waiting.supplied(block))
            .collect::<Result<_>>()?;
        reads = waiting;
    }
    results.truncate(count);
    Ok(results)
}
