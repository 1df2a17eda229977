//! The tables that a flush or compaction writes: cut at their target size,
//! each with its part of the range tombstones.
//!
//! Guarantees: tables are cut between user keys, so all versions of a key are in one table of the
//! level; range tombstones are clipped at the cuts, so tables do not overlap. The files' bytes are
//! durable when [`Outputs::finish`] returns, or [`SharedFile::finish`]; their names are once the
//! owner has synced the directory. Until they are in the manifest they are not part of the store, and the owner removes
//! the files of a failed merge.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Access, AppendFile, Clock, Executor, Storage};

use crate::error::Result;
use crate::format::entry_location::{RelocatedEntry, Tag};
use crate::format::key::Trailer;
use crate::format::range_tombstones::RangeTombstone;
use crate::sst::blocks::{Blocks, HotBlock};
use crate::sst::table::{
    Built, EntryHeat, TABLE_ALIGNMENT, TableBuilder, TableOptions, TableProperties,
};
use crate::sync::Mutex;
use crate::version::levels::TableHandle;
use crate::version::manifest::TableMeta;

/// A finished table.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) meta: TableMeta,
    /// The locations of its tagged entries.
    pub(crate) placed: Vec<RelocatedEntry>,
}

/// A file for small tables of several keyspaces, one after another. One writer at a time.
#[derive(Debug)]
pub(crate) struct SharedFile {
    number: u64,
    /// `None` while a table is being written, and after an error.
    file: Mutex<Option<AppendFile>>,
}

impl SharedFile {
    /// The new file `number` at `path`. It is written and read through the page cache: several of
    /// its tables share a page, and they are read soon, to be merged.
    pub(crate) fn create(
        storage: &Arc<dyn Storage>,
        executor: &Arc<dyn Executor>,
        (number, path): (u64, PathBuf),
    ) -> Result<Self> {
        let file = AppendFile::new(storage.create(&path, Access::Buffered)?, WRITE_BYTES);
        Ok(Self { number, file: Mutex::new(Some(file.with_helper(Arc::clone(executor)))) })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The file, at the place of the next table.
    fn take(&self) -> Result<AppendFile> {
        let mut file = self.file.lock().take().expect("one writer at a time, none after an error");
        let gap = file.offset().next_multiple_of(TABLE_ALIGNMENT) - file.offset();
        file.append(&[0; TABLE_ALIGNMENT as usize][..gap as usize])?;
        Ok(file)
    }

    fn put_back(&self, file: AppendFile) {
        *self.file.lock() = Some(file);
    }

    /// Makes the bytes of all tables durable, and returns the length of the file.
    pub(crate) fn finish(self) -> Result<u64> {
        let file = self.file.into_inner().expect("no writer is left, and none has failed");
        Ok(file.finish()?)
    }
}

/// Size of buffered writes: large enough for any device, small compared with the smallest budget.
const WRITE_BYTES: usize = 256 << 10;

/// First key and end (exclusive) of a table's range tombstones.
type KeyRange = (Box<[u8]>, Box<[u8]>);

/// Limits compactions to a rate of bytes per second.
#[derive(Debug)]
pub(crate) struct Pacer {
    bytes_per_s: Option<u64>,
    started_ns: u64,
    bytes: u64,
}

impl Pacer {
    pub(crate) fn new(bytes_per_s: Option<u64>, clock: &dyn Clock) -> Self {
        Self { bytes_per_s, started_ns: clock.monotonic_ns(), bytes: 0 }
    }

    /// Waits until `bytes` more may be written.
    fn spend(&mut self, bytes: u64, clock: &dyn Clock) {
        let wait = self.wait_for(bytes, clock);
        if !wait.is_zero() {
            clock.sleep(wait);
        }
    }

    /// The time to wait until `bytes` more may be written.
    pub(crate) fn wait_for(&mut self, bytes: u64, clock: &dyn Clock) -> Duration {
        let Some(rate) = self.bytes_per_s else { return Duration::ZERO };
        self.bytes += bytes;
        let due_ns = (u128::from(self.bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64;
        let passed_ns = clock.monotonic_ns().saturating_sub(self.started_ns);
        Duration::from_nanos(due_ns.saturating_sub(passed_ns))
    }
}

/// Destination and settings of the written tables.
pub(crate) struct OutputOptions<'a> {
    pub(crate) storage: &'a Arc<dyn Storage>,
    /// Writes buffers while the next ones are filled.
    pub(crate) executor: &'a Arc<dyn Executor>,
    pub(crate) access: Access,
    /// Returns a number and a path for the next table.
    pub(crate) next_table: &'a dyn Fn() -> (u64, PathBuf),
    /// The file that gets the tables; `None`: each has a file of its own.
    pub(crate) shared: Option<&'a SharedFile>,
    /// All settings but the id.
    pub(crate) table: TableOptions,
    pub(crate) table_bytes: u64,
    /// Tables of the level below the output, ascending.
    pub(crate) grandparents: Vec<Arc<TableHandle>>,
    pub(crate) pacer: Pacer,
    /// Destination of hot blocks, as they are written.
    pub(crate) blocks: &'a Blocks,
}

struct Open {
    id: u64,
    /// Where it begins in its file.
    start: u64,
    builder: TableBuilder,
}

/// Tables being written, one after another.
pub(crate) struct Outputs<'a> {
    options: OutputOptions<'a>,
    open: Option<Open>,
    finished: Vec<Output>,
    last_key: Vec<u8>,
    /// Ascending by start; tombstones before the first were written or clipped away.
    tombstones: std::collections::VecDeque<RangeTombstone>,
    grandparent: usize,
    bytes_spent: u64,
}

impl<'a> Outputs<'a> {
    pub(crate) fn new(options: OutputOptions<'a>) -> Self {
        Self {
            options,
            open: None,
            finished: Vec::new(),
            last_key: Vec::new(),
            tombstones: std::collections::VecDeque::new(),
            grandparent: 0,
            bytes_spent: 0,
        }
    }

    /// Sets the range tombstones to write, clipped to `[start, end)`.
    pub(crate) fn set_tombstones(
        &mut self,
        tombstones: Vec<RangeTombstone>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) {
        let clip = |mut tombstone: RangeTombstone| {
            if let Some(start) = start.filter(|start| *tombstone.start < **start) {
                tombstone.start = start.into();
            }
            if let Some(end) = end.filter(|end| *tombstone.end > **end) {
                tombstone.end = end.into();
            }
            (tombstone.start < tombstone.end).then_some(tombstone)
        };
        self.tombstones = tombstones.into_iter().filter_map(clip).collect();
    }

    /// Adds the next entry.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        tag: Option<Tag>,
        clock: &dyn Clock,
    ) -> Result<()> {
        let is_new_key = self.last_key != key;
        if self.open.is_some() && is_new_key && self.should_cut_before(key) {
            self.finish_table(Some(key))?;
        }
        if self.open.is_none() {
            self.open = Some(self.begin_table()?);
        }
        if is_new_key {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        open.builder.add(key, trailer, payload)?;
        if let Some(tag) = tag {
            open.builder.tag(tag);
        }
        for hot in open.builder.take_hot() {
            keep(&self.options, open.id, hot);
        }
        let bytes = open.builder.file_bytes();
        if bytes.saturating_sub(self.bytes_spent) >= WRITE_BYTES as u64 {
            self.options.pacer.spend(bytes - self.bytes_spent, clock);
            self.bytes_spent = bytes;
        }
        Ok(())
    }

    /// Adds to the access frequency of the blocks that hold the most recently added entry.
    pub(crate) fn warm(&mut self, heat: EntryHeat) {
        if let Some(open) = &mut self.open {
            open.builder.warm(heat);
        }
    }

    /// Whether to cut: at the target size, or at a table boundary of the level below when the table
    /// is nearly full, so that the next compaction has fewer tables to merge with.
    fn should_cut_before(&mut self, key: &[u8]) -> bool {
        let mut crossed = false;
        let grandparents = &self.options.grandparents;
        while grandparents.get(self.grandparent).is_some_and(|table| table.ends_before(key)) {
            self.grandparent += 1;
            crossed = true;
        }
        let bytes = self.open.as_ref().map_or(0, |open| open.builder.file_bytes());
        bytes >= self.options.table_bytes || (crossed && bytes >= self.options.table_bytes / 2)
    }

    fn begin_table(&self) -> Result<Open> {
        let (id, path) = (self.options.next_table)();
        let file = match self.options.shared {
            Some(shared) => shared.take()?,
            None => {
                let file = self.options.storage.create(&path, self.options.access)?;
                AppendFile::new(file, WRITE_BYTES).with_helper(Arc::clone(self.options.executor))
            }
        };
        let options = TableOptions { id, ..self.options.table.clone() };
        Ok(Open { id, start: file.offset(), builder: TableBuilder::new(file, options) })
    }

    /// Ends the open table; the next one begins at `cut`.
    fn finish_table(&mut self, cut: Option<&[u8]>) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let mut range: Option<KeyRange> = None;
        let mut later = Vec::new();
        while let Some(mut tombstone) = self.tombstones.pop_front() {
            if cut.is_some_and(|cut| *tombstone.start >= *cut) {
                later.push(tombstone);
                continue;
            }
            if let Some(cut) = cut.filter(|cut| *tombstone.end > **cut) {
                later.push(RangeTombstone::new(cut, &tombstone.end, tombstone.sequence));
                tombstone.end = cut.into();
            }
            open.builder.add_range_tombstone(&tombstone);
            range = Some(match range {
                None => (tombstone.start, tombstone.end),
                Some((start, end)) => (start.min(tombstone.start), end.max(tombstone.end)),
            });
        }
        self.tombstones = later.into();
        let (Built { properties, placed, hot }, file) = open.builder.complete()?;
        let mut meta = meta_of(open.id, &properties, range);
        match self.options.shared {
            None => {
                file.finish()?;
            }
            Some(shared) => {
                (meta.file, meta.offset) = (shared.number, open.start);
                shared.put_back(file);
            }
        }
        hot.into_iter().for_each(|hot| keep(&self.options, open.id, hot));
        self.bytes_spent = 0;
        self.finished.push(Output { meta, placed });
        Ok(())
    }

    /// Ends the last table. Range tombstones without entries get a table of their own.
    pub(crate) fn finish(mut self) -> Result<Vec<Output>> {
        if self.open.is_none() && !self.tombstones.is_empty() {
            self.open = Some(self.begin_table()?);
        }
        self.finish_table(None)?;
        Ok(self.finished)
    }
}

/// Caches a hot block of a table. The table is not readable yet: its blocks are as cold as any
/// until it is published, and if it never is, they are evicted like cold ones.
fn keep(options: &OutputOptions<'_>, table: u64, hot: HotBlock) {
    options.blocks.keep(table, options.table.keyspace, hot);
}

/// The manifest's record of a table; `range` is the span of its range tombstones.
pub(crate) fn meta_of(id: u64, properties: &TableProperties, range: Option<KeyRange>) -> TableMeta {
    let has_entries = properties.entries > 0;
    let mut smallest = properties.smallest_key.clone();
    let mut largest = properties.largest_key.clone();
    let mut largest_is_exclusive = false;
    if let Some((start, end)) = range {
        if !has_entries || start < smallest {
            smallest = start;
        }
        if !has_entries || end > largest {
            largest = end;
            largest_is_exclusive = true;
        }
    }
    TableMeta {
        id,
        file: id,
        offset: 0,
        bytes: properties.file_bytes,
        smallest,
        largest,
        largest_is_exclusive,
        entries: properties.entries,
        tombstones: properties.tombstones,
        range_tombstones: properties.range_tombstones,
        largest_sequence: properties.largest_sequence,
        sequence_override: 0,
        earliest_deadline_ms: properties.earliest_deadline_ms,
    }
}
