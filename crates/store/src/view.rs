//! What a keyspace consists of at one moment, and point reads of it.
//!
//! A [`View`] is immutable but for insertions into its active memtable. A read
//! takes the view first and the visible sequence afterwards: then every
//! version that the sequence may see is in the view, because whatever dropped
//! older versions before the view was made kept those for later readers.
//!
//! A [`PointRead`] walks newest to oldest (memtables, level 0, levels below)
//! as a state machine: it stops where a block must come from storage, so one
//! walk serves `get` (which reads the block), `multi_get` (which gathers the
//! blocks of many keys into a batch) and reads that must not wait.

use std::sync::Arc;

use bytes::Bytes;

use crate::blocks::{BlockAddress, BlockRef, Blocks};
use crate::error::Result;
use crate::key::{Kind, LookupKey, Sequence, Trailer};
use crate::levels::{TableHandle, Version};
use crate::manifest::LEVELS;
use crate::memtable::Memtable;
use crate::table::{Step, TableProbe};

/// The parts of a keyspace at one moment.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Takes the writes.
    pub(crate) memtable: Arc<Memtable>,
    /// Full memtables that wait for their flush, newest first.
    pub(crate) immutables: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

impl View {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }
}

/// The newest version of a key that a reader sees: an entry, or a deletion.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) trailer: Trailer,
    pub(crate) payload: Bytes,
}

impl Resolved {
    fn deletion(sequence: Sequence) -> Self {
        Self { trailer: Trailer::new(sequence, Kind::Delete), payload: Bytes::new() }
    }
}

/// Where a point read stands.
#[derive(Debug)]
pub(crate) enum ReadStep {
    /// Read this block and supply it.
    Need(BlockAddress),
    /// The newest version, or nothing.
    Done(Option<Resolved>),
}

/// A point read under way.
pub(crate) struct PointRead<'a> {
    view: &'a View,
    key: LookupKey<'a>,
    /// The next place to look: level, and in level 0 the table's index.
    level: usize,
    index: usize,
    /// The table that is being asked.
    probe: Option<(&'a TableHandle, TableProbe<'a>)>,
    memtables_asked: bool,
}

impl<'a> PointRead<'a> {
    pub(crate) fn new(view: &'a View, key: LookupKey<'a>) -> Self {
        Self { view, key, level: 0, index: 0, probe: None, memtables_asked: false }
    }

    /// Goes on as far as memory allows. After [`ReadStep::Need`] the next step
    /// is given the block.
    pub(crate) fn step(
        &mut self,
        blocks: &Blocks,
        mut supplied: Option<BlockRef>,
    ) -> Result<ReadStep> {
        if !self.memtables_asked {
            self.memtables_asked = true;
            if let Some(resolved) = self.ask_memtables() {
                return Ok(ReadStep::Done(Some(resolved)));
            }
        }
        loop {
            if self.probe.is_none() {
                let Some(handle) = self.next_table() else { return Ok(ReadStep::Done(None)) };
                self.probe = Some((handle, handle.table().probe(self.key_for(handle))));
            }
            let Some((handle, probe)) = &mut self.probe else { continue };
            let found = match probe.step(blocks, supplied.take())? {
                Step::Need(address) => return Ok(ReadStep::Need(address)),
                Step::Found(found) => Some(found),
                Step::Absent => None,
            };
            let covered =
                handle.range_tombstones().newest_over(self.key.user_key, self.key.sequence);
            let sequence_override = handle.meta().sequence_override;
            self.probe = None;
            if let Some(found) = found {
                let trailer = match sequence_override {
                    0 => found.trailer,
                    number => Trailer::new(number, found.trailer.kind()),
                };
                if trailer.sequence() >= covered {
                    let payload = found.payload_bytes();
                    return Ok(ReadStep::Done(Some(Resolved { trailer, payload })));
                }
            }
            if covered > 0 {
                // Whatever older tables say of the key is older still.
                return Ok(ReadStep::Done(Some(Resolved::deletion(covered))));
            }
        }
    }

    fn ask_memtables(&self) -> Option<Resolved> {
        for memtable in self.view.memtables() {
            let covered = memtable.tombstone_over(self.key.user_key, self.key.sequence);
            if let Some(found) = memtable.get(&self.key)
                && found.trailer.sequence() > covered
            {
                let payload = Bytes::copy_from_slice(found.payload);
                return Some(Resolved { trailer: found.trailer, payload });
            }
            if covered > 0 {
                return Some(Resolved::deletion(covered));
            }
        }
        None
    }

    /// An ingested table holds sequence 0 in its file, visible to all who may
    /// see the table.
    fn key_for(&self, handle: &TableHandle) -> LookupKey<'a> {
        match handle.meta().sequence_override {
            0 => self.key,
            _ => LookupKey { sequence: crate::key::SEQUENCE_MAX, ..self.key },
        }
    }

    fn may_see(&self, handle: &TableHandle) -> bool {
        handle.meta().sequence_override <= self.key.sequence
    }

    /// The next table that may hold the key.
    fn next_table(&mut self) -> Option<&'a TableHandle> {
        let version = &self.view.version;
        while self.level < LEVELS {
            let candidate = if self.level == 0 {
                let candidate = version.level(0).get(self.index);
                self.index += 1;
                if candidate.is_none() {
                    self.level = 1;
                }
                candidate.filter(|table| table.covers(self.key.user_key))
            } else {
                self.level += 1;
                version.find(self.level - 1, self.key.user_key)
            };
            if let Some(handle) = candidate
                && self.may_see(handle)
            {
                return Some(handle);
            }
        }
        None
    }
}

/// Reads one key, waiting for storage where needed.
pub(crate) fn read(view: &View, key: LookupKey<'_>, blocks: &Blocks) -> Result<Option<Resolved>> {
    let mut read = PointRead::new(view, key);
    let mut supplied = None;
    loop {
        match read.step(blocks, supplied.take())? {
            ReadStep::Need(address) => supplied = Some(blocks.read(&address)?),
            ReadStep::Done(resolved) => return Ok(resolved),
        }
    }
}

/// Reads many keys of one view; each round reads the blocks that all of them
/// need next in one batch.
pub(crate) fn read_many(
    view: &View,
    keys: &[LookupKey<'_>],
    blocks: &Blocks,
) -> Result<Vec<Option<Resolved>>> {
    let mut results: Vec<Option<Resolved>> = vec![None; keys.len()];
    let mut reads: Vec<(usize, PointRead<'_>)> =
        keys.iter().enumerate().map(|(i, &key)| (i, PointRead::new(view, key))).collect();
    let mut supplied: Vec<Option<BlockRef>> = vec![None; reads.len()];
    while !reads.is_empty() {
        let mut waiting = Vec::new();
        let mut wanted = Vec::new();
        for ((index, mut read), block) in reads.into_iter().zip(supplied) {
            match read.step(blocks, block)? {
                ReadStep::Need(address) => {
                    wanted.push(address);
                    waiting.push((index, read));
                }
                ReadStep::Done(resolved) => results[index] = resolved,
            }
        }
        supplied = match wanted.len() {
            0 => Vec::new(),
            1 => vec![Some(blocks.read(&wanted[0])?)],
            _ => blocks.read_many(&wanted)?.into_iter().map(Some).collect(),
        };
        reads = waiting;
    }
    Ok(results)
}
