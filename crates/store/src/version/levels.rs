//! The tables of a keyspace by level: an immutable [`Version`], replaced whole
//! by every flush, compaction and ingest.
//!
//! Guarantees: level 0 is ordered newest first, the tables of one bulk ingest in the order of their
//! keys ([`Version::runs`]); on the levels below, tables are ordered by key and do not overlap. For
//! any key, the entries in a table of an upper level (or further to the front of level 0) are newer
//! than those in lower ones. A table's file is removed when the last version, reader or cursor that
//! holds it, or another table in it, is dropped.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use crate::format::LEVELS;
use crate::format::key::Sequence;
use crate::format::range_tombstones::RangeTombstones;
use crate::sst::file_handles::FileHandle;
use crate::sst::scan_lengths::ScanLengths;
use crate::sst::table::Table;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::version::manifest::TableMeta;

/// The counts of references to what an `Arc` points to.
pub(crate) const ARC_BYTES: usize = 2 * size_of::<usize>();

/// Tables that are gone, with their last user.
#[derive(Debug, Default)]
pub(crate) struct ObsoleteTables {
    tables: Mutex<Vec<u64>>,
    /// Whether there are any; a hint without the lock.
    has_any: AtomicBool,
}

impl ObsoleteTables {
    /// Takes the collected table numbers.
    pub(crate) fn take(&self) -> Vec<u64> {
        let mut tables = self.tables.lock();
        self.has_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *tables)
    }

    /// Whether there are any.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    fn push(&self, table: u64) {
        let mut tables = self.tables.lock();
        tables.push(table);
        self.has_any.store(true, Ordering::Relaxed);
    }
}

/// An open table in its level.
#[derive(Debug)]
pub(crate) struct TableHandle {
    meta: Arc<TableMeta>,
    table: Arc<Table>,
    /// A compaction is reading it.
    busy: AtomicBool,
    guard: Arc<TableGuard>,
}

/// The last user of a table; shared by the handles of one that was moved from level to level.
#[derive(Debug)]
struct TableGuard {
    id: u64,
    file: Arc<FileHandle>,
    /// No future version will contain it.
    is_obsolete: AtomicBool,
    obsolete: Arc<ObsoleteTables>,
}

impl Drop for TableGuard {
    fn drop(&mut self) {
        if self.is_obsolete.load(Ordering::Acquire) {
            self.obsolete.push(self.id);
        }
        self.file.leave_table();
    }
}

impl TableHandle {
    pub(crate) fn new(
        meta: Arc<TableMeta>,
        table: Arc<Table>,
        obsolete: Arc<ObsoleteTables>,
    ) -> Self {
        let file = Arc::clone(table.file().handle());
        file.add_table(meta.bytes);
        let guard = TableGuard { id: meta.id, file, is_obsolete: AtomicBool::new(false), obsolete };
        Self { meta, table, busy: AtomicBool::new(false), guard: Arc::new(guard) }
    }

    /// A handle of the same table for another position in the version.
    pub(crate) fn moved(&self) -> Self {
        Self {
            meta: Arc::clone(&self.meta),
            table: Arc::clone(&self.table),
            busy: AtomicBool::new(false),
            guard: Arc::clone(&self.guard),
        }
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Bytes of DRAM that the table holds outside the cache, with its record and its handle.
    pub(crate) fn charge(&self) -> usize {
        // Its record is in a map of the manifest, whose pages are half full at worst.
        let record = size_of::<TableMeta>() + self.meta.smallest.len() + self.meta.largest.len();
        let map = 2 * (size_of::<u64>() + size_of::<Arc<TableMeta>>());
        let counts = ARC_BYTES * 3;
        size_of::<Self>() + size_of::<TableGuard>() + record + map + counts + self.table.charge()
    }

    /// The record, to share.
    pub(crate) fn shared_meta(&self) -> Arc<TableMeta> {
        Arc::clone(&self.meta)
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn range_tombstones(&self) -> &RangeTombstones {
        self.table.range_tombstones()
    }

    /// Bytes of the blocks that the seeks of scans had to read from storage in this table, or in
    /// its inputs, since the store was opened, and that no merge has spent.
    pub(crate) fn seek_bytes(&self) -> u64 {
        self.table.file().seek_bytes().get()
    }

    /// Subtracts at most `bytes` of them and returns the subtracted amount.
    pub(crate) fn spend_seek_bytes(&self, bytes: u64) -> u64 {
        self.table.file().seek_bytes().spend(bytes)
    }

    /// Adds bytes that seeks had read in the table's inputs.
    pub(crate) fn note_seek_bytes(&self, bytes: u64) {
        self.table.file().seek_bytes().note(bytes);
    }

    /// Marks the table obsolete: its file, if all of it is, is removed with the last holder.
    pub(crate) fn retire(&self) {
        if !self.guard.is_obsolete.swap(true, Ordering::AcqRel) {
            self.guard.file.retire_table(self.meta.bytes);
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    /// The oldest sequence of the table, with the override of bulk ingest applied.
    pub(crate) fn oldest_sequence(&self) -> Sequence {
        match self.meta.sequence_override {
            0 => self.table.properties().smallest_sequence,
            by_ingest => by_ingest,
        }
    }

    /// The newest sequence of the table, with the override of bulk ingest applied.
    pub(crate) fn newest_sequence(&self) -> Sequence {
        self.meta.largest_sequence.max(self.meta.sequence_override)
    }

    /// Whether both tables come from one bulk ingest: then they do not overlap.
    pub(crate) fn is_of_one_ingest_with(&self, other: &Self) -> bool {
        let by_ingest = self.meta.sequence_override;
        by_ingest > 0 && by_ingest == other.meta.sequence_override
    }

    /// The sort key of level 0.
    fn place_in_level0(&self) -> impl Ord + '_ {
        let by_ingest = self.meta.sequence_override;
        let key = if by_ingest > 0 { &*self.meta.smallest } else { &[] };
        (Reverse(self.newest_sequence()), Reverse(by_ingest), key, Reverse(self.meta.id))
    }

    /// Whether every key of the table is before `key`.
    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        match (*self.meta.largest).cmp(key) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.meta.largest_is_exclusive,
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Whether `key` is between the first and the last key of the table.
    pub(crate) fn may_hold(&self, key: &[u8]) -> bool {
        *self.meta.smallest <= *key && !self.ends_before(key)
    }

    /// The first key after all keys of the table.
    pub(crate) fn keys_end(&self) -> Vec<u8> {
        let last: &[u8] = if self.meta.largest_is_exclusive { &[] } else { &[0] };
        [&*self.meta.largest, last].concat()
    }

    /// Whether both tables may hold keys of one range.
    pub(crate) fn overlaps_table(&self, other: &Self) -> bool {
        !self.ends_before(&other.meta.smallest) && !other.ends_before(&self.meta.smallest)
    }

    /// Whether the table may hold a key in `[start, end)`; `None`: no bound.
    pub(crate) fn overlaps(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        start.is_none_or(|start| !self.ends_before(start))
            && end.is_none_or(|end| *self.meta.smallest < *end)
    }
}

/// A key range, both ends included, for overlap checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySpan {
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
}

impl KeySpan {
    /// The span of all `tables`; `None` if there are none.
    pub(crate) fn of<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> Option<Self> {
        let mut span: Option<Self> = None;
        for table in tables {
            let meta = table.meta();
            match &mut span {
                None => {
                    span = Some(Self {
                        smallest: meta.smallest.clone(),
                        largest: meta.largest.clone(),
                    });
                }
                Some(span) => {
                    if meta.smallest < span.smallest {
                        span.smallest = meta.smallest.clone();
                    }
                    if meta.largest > span.largest {
                        span.largest = meta.largest.clone();
                    }
                }
            }
        }
        span
    }
}

/// The tables of a keyspace at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    levels: [Vec<Arc<TableHandle>>; LEVELS],
    /// The positions of the sorted runs of level 0.
    runs: Vec<Range<usize>>,
    /// The tables that hold range tombstones.
    tombstoned: Vec<Arc<TableHandle>>,
    /// The newest of all sequence overrides; 0 if there are none.
    newest_override: Sequence,
    /// By level; the versions of a keyspace share them.
    scan_lengths: [Arc<ScanLengths>; LEVELS],
}

impl Version {
    /// A version of tables in any order; the error names the tables of a level that overlap.
    pub(crate) fn new(mut levels: [Vec<Arc<TableHandle>>; LEVELS]) -> Result<Self, String> {
        levels[0].sort_by(|a, b| a.place_in_level0().cmp(&b.place_in_level0()));
        let runs = runs_of(&levels[0]);
        runs.iter().try_for_each(|run| check_order(&levels[0][run.clone()], 0))?;
        for (number, level) in levels.iter_mut().enumerate().skip(1) {
            level.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
            check_order(level, number)?;
        }
        let tables = || levels.iter().flatten();
        let tombstoned = tables().filter(|t| !t.range_tombstones().is_empty()).cloned().collect();
        let newest_override = tables().map(|t| t.meta.sequence_override).max().unwrap_or(0);
        Ok(Self { levels, runs, tombstoned, newest_override, scan_lengths: Default::default() })
    }

    /// This version with some tables removed (by id) and added (with their level).
    pub(crate) fn with(
        &self,
        removed: &[u64],
        added: &[(usize, Arc<TableHandle>)],
    ) -> Result<Self, String> {
        let mut levels = self.levels.clone();
        for level in &mut levels {
            level.retain(|table| !removed.contains(&table.meta.id));
        }
        for (level, table) in added {
            levels[*level].push(Arc::clone(table));
        }
        Ok(Self { scan_lengths: self.scan_lengths.clone(), ..Self::new(levels)? })
    }

    /// Bytes of DRAM that it takes, apart from the tables.
    pub(crate) fn charge(&self) -> usize {
        let positions = self.levels.iter().map(Vec::capacity).sum::<usize>();
        let handles = (positions + self.tombstoned.capacity()) * size_of::<Arc<TableHandle>>();
        let runs = self.runs.capacity() * size_of::<Range<usize>>();
        let lengths = self.scan_lengths.iter().map(|it| ARC_BYTES + it.charge()).sum::<usize>();
        size_of::<Self>() + handles + runs + lengths
    }

    /// Recent scan lengths in a level.
    pub(crate) fn scan_lengths(&self, level: usize) -> &Arc<ScanLengths> {
        &self.scan_lengths[level]
    }

    pub(crate) fn level(&self, level: usize) -> &[Arc<TableHandle>] {
        &self.levels[level]
    }

    /// Level 0 in sorted runs, newest first: the tables of a run do not overlap and are ordered by
    /// key. The tables of one bulk ingest are one run, any other table is a run of its own.
    pub(crate) fn runs(&self) -> impl ExactSizeIterator<Item = &[Arc<TableHandle>]> {
        self.runs.iter().map(|run| &self.levels[0][run.clone()])
    }

    /// One of these runs.
    pub(crate) fn run(&self, number: usize) -> Option<&[Arc<TableHandle>]> {
        self.runs.get(number).map(|run| &self.levels[0][run.clone()])
    }

    /// The tables that hold range tombstones.
    pub(crate) fn tombstoned(&self) -> &[Arc<TableHandle>] {
        &self.tombstoned
    }

    /// The newest of all sequence overrides; 0 if there are none.
    pub(crate) fn newest_override(&self) -> Sequence {
        self.newest_override
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.levels.iter().flatten()
    }

    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|table| table.meta.bytes).sum()
    }

    /// The one table of a level below 0 that may hold `key`.
    pub(crate) fn find(&self, level: usize, key: &[u8]) -> Option<&Arc<TableHandle>> {
        find_in(&self.levels[level], key)
    }

    /// The table `id`, if it is on level 0 or may hold `key`; `level` is searched first.
    pub(crate) fn find_by_id(
        &self,
        id: u64,
        key: &[u8],
        level: usize,
    ) -> Option<&Arc<TableHandle>> {
        let on_level = |level: usize| match level {
            0 => self.levels[0].iter().find(|table| table.meta.id == id),
            _ => self.find(level, key).filter(|table| table.meta.id == id),
        };
        let elsewhere = || (0..LEVELS).filter(|&other| other != level).find_map(on_level);
        on_level(level.min(LEVELS - 1)).or_else(elsewhere)
    }

    /// The tables of each sorted run that may hold keys in `[start, end)`, newest run first: the
    /// level, and their positions on it. `None`: no bound.
    pub(crate) fn runs_between<'v>(
        &'v self,
        start: Option<&'v [u8]>,
        end: Option<&'v [u8]>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + 'v {
        let of_level0 = self.runs.iter().map(|run| (0, run.clone()));
        let below = (1..LEVELS).map(|level| (level, 0..self.levels[level].len()));
        of_level0.chain(below).filter_map(move |(level, run)| {
            let within = between(&self.levels[level][run.clone()], start, end);
            (!within.is_empty()).then(|| (level, run.start + within.start..run.start + within.end))
        })
    }

    /// The tables of a level that may hold keys of the span.
    pub(crate) fn overlapping(&self, level: usize, span: &KeySpan) -> Vec<Arc<TableHandle>> {
        self.levels[level]
            .iter()
            .filter(|t| !t.ends_before(&span.smallest) && t.meta.smallest <= span.largest)
            .cloned()
            .collect()
    }
}

impl Version {
    /// Whether `[start, end)` holds all keys of some table.
    pub(crate) fn has_table_between(&self, start: &[u8], end: &[u8]) -> bool {
        let is_between =
            |table: &Arc<TableHandle>| *table.meta.smallest >= *start && table.ends_before(end);
        let below = self.levels[1..].iter().filter_map(|tables| {
            tables.get(tables.partition_point(|table| *table.meta.smallest < *start))
        });
        self.levels[0].iter().chain(below).any(is_between)
    }

    /// The tables that may hold older versions of keys of `table`, which is on `level`.
    pub(crate) fn older_than<'v>(
        &'v self,
        level: usize,
        table: &'v Arc<TableHandle>,
    ) -> impl Iterator<Item = &'v Arc<TableHandle>> + 'v {
        // By sequence, because an ingested table may be ahead of older writes to other keys.
        let in_level0 = self.levels[0].iter().filter(move |other| {
            level == 0
                && other.meta.id != table.meta.id
                && other.oldest_sequence() < table.newest_sequence()
                && other.overlaps_table(table)
        });
        in_level0.chain((level.max(1)..LEVELS).filter(move |&below| below > level).flat_map(
            move |below| {
                let tables = &self.levels[below];
                let first = tables.partition_point(|other| other.ends_before(&table.meta.smallest));
                tables[first..].iter().take_while(|other| !table.ends_before(&other.meta.smallest))
            },
        ))
    }
}

/// The one table of a sorted run that may hold `key`.
pub(crate) fn find_in<'t>(run: &'t [Arc<TableHandle>], key: &[u8]) -> Option<&'t Arc<TableHandle>> {
    let table = match run {
        [only] => Some(only).filter(|only| !only.ends_before(key)),
        _ => run.get(run.partition_point(|table| table.ends_before(key))),
    };
    table.filter(|table| *table.meta.smallest <= *key)
}

/// The tables of a sorted run that may hold keys in `[start, end)`.
fn between(run: &[Arc<TableHandle>], start: Option<&[u8]>, end: Option<&[u8]>) -> Range<usize> {
    let first = start.map_or(0, |key| run.partition_point(|table| table.ends_before(key)));
    let is_in = |end: &[u8]| run.partition_point(|table| *table.meta.smallest < *end);
    first..end.map_or(run.len(), is_in).max(first)
}

/// The positions of the sorted runs in tables that are ordered like level 0.
fn runs_of(level0: &[Arc<TableHandle>]) -> Vec<Range<usize>> {
    let mut end = 0;
    let runs = level0.chunk_by(|a, b| a.is_of_one_ingest_with(b)).map(|run| {
        let start = end;
        end += run.len();
        start..end
    });
    runs.collect()
}

/// The error names the tables of the level with this number that overlap.
fn check_order(tables: &[Arc<TableHandle>], number: usize) -> Result<(), String> {
    let overlaps = |pair: &&[Arc<TableHandle>]| !pair[0].ends_before(&pair[1].meta.smallest);
    match tables.windows(2).find(overlaps) {
        None => Ok(()),
        Some(pair) => {
            let (a, b) = (pair[0].meta.id, pair[1].meta.id);
            Err(format!("tables {a} and {b} of level {number} overlap"))
        }
    }
}
