//! Background work: flushes bring memtables into tables, compactions keep the
//! levels in shape. Both write new tables, make the change durable in the
//! manifest, publish a new view, and only then let go of what was replaced.
//!
//! A job that fails leaves the store as it was: its files are removed (unless
//! the manifest may name them: then the next opening decides), the
//! error is remembered (`Engine::background_errors`) and counted, and the
//! next write or job tries again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tidekv_io::Priority;

use crate::compaction::output::{Output, OutputOptions, Outputs, Pacer};
use crate::compaction::picker::{self, Compaction, PickerOptions};
use crate::compaction::{LevelsBelow, MergeCounts, MergePlan, merge_tables};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{log_path, table_path};
use crate::key::Sequence;
use crate::level_cursor::{LevelCursor, TableEntries};
use crate::levels::TableHandle;
use crate::manifest::{Change, Edit, LEVELS};
use crate::memtable::{Memtable, MemtableCursor};
use crate::merge::{Child, MergingCursor};
use crate::options::KeyspaceOptions;
use crate::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::table::{Reading, TableOptions};
use crate::tree::Tree;

/// The base level aims at this many memtables, the size at which level 0
/// (four tables) is merged into it.
const BASE_MEMTABLES: u64 = 4;

/// Upper levels hold a tenth of the keys but are asked first by every read:
/// six more bits a key there make false positives rare where they add up
/// (Dayan et al., Monkey, SIGMOD 2017).
const UPPER_FILTER_BITS: u8 = 6;

const LAST: usize = LEVELS - 1;

#[derive(Debug, Clone, Copy)]
enum JobKind {
    Flush,
    Compaction,
}

impl std::fmt::Display for JobKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
        })
    }
}

/// A compaction of at least this many tables' worth of bytes is split.
const TABLES_PER_PART: u64 = 2;

/// How the tables of a level are built.
pub(crate) fn table_options(tree: u32, options: &KeyspaceOptions, level: usize) -> TableOptions {
    let is_last = level == LAST;
    let bits = match options.filter_bits_per_key {
        0 => 0,
        bits if is_last => bits,
        bits => bits + UPPER_FILTER_BITS,
    };
    TableOptions {
        id: 0,
        keyspace: tree,
        compression: if is_last { options.compression_last } else { options.compression },
        block_bytes: options.block_bytes,
        filter_bits_per_key: bits,
    }
}

/// What a merge has written, or why it failed.
type Merged = Result<(Vec<Output>, MergeCounts)>;

/// A compaction that is being done in parts.
struct Parts {
    compaction: Compaction,
    tree: Arc<Tree>,
    snapshots: Vec<Sequence>,
    tombstones: RangeTombstones,
    borders: Vec<Box<[u8]>>,
    /// By part; `None` until it has ended.
    outcomes: Mutex<Vec<Option<Merged>>>,
    running: AtomicUsize,
    started_ns: u64,
}

impl Engine {
    fn note_outcome(&self, job: JobKind, outcome: &Result<()>) {
        if let Err(error) = outcome {
            tracing::error!(%error, "a {job} failed");
            self.stats.background_errors.add(1);
        }
        let mut errors = self.background_errors.lock();
        let slot = match job {
            JobKind::Flush => &mut errors.flush,
            JobKind::Compaction => &mut errors.compaction,
        };
        *slot = outcome.clone().err();
        errors.flush_failures += u64::from(matches!(job, JobKind::Flush) && outcome.is_err());
    }

    /// Where a merge writes tables for `level` of `tree`.
    pub(crate) fn output_options<'a>(
        &'a self,
        tree: &Tree,
        level: usize,
        grandparents: Vec<Arc<TableHandle>>,
        next_table: &'a dyn Fn() -> (u64, std::path::PathBuf),
    ) -> OutputOptions<'a> {
        OutputOptions {
            storage: &self.storage,
            access: self.table_access(),
            next_table,
            table: table_options(tree.id, &tree.options(), level),
            table_bytes: if level == 0 { u64::MAX } else { self.options.table_bytes },
            grandparents,
            pacer: Pacer::new(
                self.options.compaction_bytes_per_s.filter(|_| level > 0),
                &*self.clock,
            ),
        }
    }

    /// A number and path for a new table, noted in `made` so that the file can
    /// be removed if the merge fails.
    pub(crate) fn new_table(&self, made: &Mutex<Vec<u64>>) -> (u64, std::path::PathBuf) {
        let id = self.structure.lock().manifest.allocate_file();
        made.lock().push(id);
        (id, table_path(&self.directory, id))
    }

    pub(crate) fn remove_tables(&self, ids: &[u64]) {
        for &id in ids {
            let _ = self.storage.remove(&table_path(&self.directory, id));
        }
    }

    // ---- Flush ----

    /// Sees to it that the tree's full memtables are flushed.
    pub(crate) fn schedule_flush(self: &Arc<Self>, tree: &Arc<Tree>) {
        if tree.view().immutables.is_empty() || tree.is_flushing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (engine, tree) = (Arc::clone(self), Arc::clone(tree));
        self.executor.execute(Priority::High, Box::new(move || engine.run_flush(&tree)));
    }

    fn run_flush(self: &Arc<Self>, tree: &Arc<Tree>) {
        let started = self.clock.monotonic_ns();
        let flushed = guarded(|| self.flush_immutables(tree));
        tree.is_flushing.store(false, Ordering::Release);
        self.stats.flush_ns.record(self.clock.monotonic_ns() - started);
        self.note_outcome(JobKind::Flush, &flushed);
        self.empty_trash();
        self.signal_progress();
        if flushed.is_ok() {
            // More may have been put aside meanwhile.
            self.schedule_flush(tree);
            self.schedule_compactions();
        }
    }

    /// Flushes the memtables that wait now into one table of level 0.
    fn flush_immutables(self: &Arc<Self>, tree: &Arc<Tree>) -> Result<()> {
        let view = tree.view_full();
        let Some(newest) = view.immutables.first() else { return Ok(()) };
        debug_assert!(newest.created_at() <= view.memtable.created_at());
        let up_to = view.memtable.created_at();
        let snapshots = self.snapshot_sequences();
        let made = Mutex::new(Vec::new());
        let outputs = self
            .write_memtables(tree, &view.immutables, &snapshots, &made)
            .inspect_err(|_| self.remove_tables(&made.lock()))?;
        // From here on a failure leaves the new table in place: the edit that
        // names it may have reached the disk.
        self.install_flush(tree, &view.immutables, outputs, up_to)
    }

    /// Writes the entries of `memtables` (newest first) into a table of level 0.
    pub(crate) fn write_memtables(
        &self,
        tree: &Tree,
        memtables: &[Arc<Memtable>],
        snapshots: &[Sequence],
        made: &Mutex<Vec<u64>>,
    ) -> Result<Vec<Output>> {
        let children = memtables
            .iter()
            .map(|m| Box::new(MemtableCursor::new(Arc::clone(m))) as Child)
            .collect();
        let tombstones: Vec<RangeTombstone> = memtables
            .iter()
            .flat_map(|m| m.range_tombstones().tombstones().collect::<Vec<_>>())
            .collect();
        let tombstones = RangeTombstones::new(&tombstones);
        let plan = MergePlan {
            snapshots,
            now_ms: self.clock.unix_ms(),
            tombstones: &tombstones,
            start: None,
            end: None,
            below: None,
        };
        let next_table = || self.new_table(made);
        let outputs = Outputs::new(self.output_options(tree, 0, Vec::new(), &next_table));
        let (outputs, counts) =
            merge_tables(MergingCursor::new(children), plan, outputs, &*self.clock)?;
        self.count_merge(counts);
        self.stats.flushes.add(1);
        self.stats.flush_bytes.add(outputs.iter().map(|o| o.meta.bytes).sum());
        self.storage.sync_dir(&self.directory)?;
        Ok(outputs)
    }

    fn count_merge(&self, counts: MergeCounts) {
        self.stats.entries_dropped.add(counts.entries_dropped);
        self.stats.entries_expired.add(counts.entries_expired);
    }

    fn install_flush(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        flushed: &[Arc<Memtable>],
        outputs: Vec<Output>,
        up_to: Sequence,
    ) -> Result<()> {
        let mut tables = Vec::new();
        let mut edit = Edit::default();
        for output in outputs {
            edit.push(Change::AddTable { keyspace: tree.id, level: 0, table: output.meta.clone() });
            tables.push((0, self.open_table(output.meta)?));
        }
        edit.push(Change::Flushed { keyspace: tree.id, sequence: up_to });
        edit.push(Change::LastSequence(up_to));
        let min_log = self.min_log_without(flushed);
        edit.push(Change::MinLog(min_log));
        {
            let mut structure = self.structure.lock();
            structure.manifest.commit(edit)?;
            tree.install_flush(flushed, &tables, up_to);
        }
        self.after_install();
        self.remove_logs_before(min_log);
        Ok(())
    }

    /// The oldest log that is needed once `flushed` is in tables.
    fn min_log_without(&self, flushed: &[Arc<Memtable>]) -> u64 {
        // Taken first: an empty memtable that is written meanwhile is in this
        // log or a later one.
        let current = self.logs.lock().as_ref().map_or(0, |logs| logs.current.number());
        let needed = |tree: &Arc<Tree>| {
            let view = tree.view();
            let logs = view.memtables().filter(|m| !flushed.iter().any(|f| Arc::ptr_eq(f, m)));
            logs.filter_map(|memtable| memtable.first_log()).min()
        };
        self.trees
            .load()
            .values()
            .filter_map(needed)
            .min()
            .map_or(current, |oldest| oldest.min(current))
    }

    /// Logs that do not count any more are removed, one of them kept for reuse.
    fn remove_logs_before(&self, min_log: u64) {
        let mut removable = Vec::new();
        if let Some(logs) = self.logs.lock().as_mut() {
            while let Some(number) = logs.older.pop_front_if(|&mut number| number < min_log) {
                if logs.spare.is_none() {
                    logs.spare = Some(number);
                } else {
                    removable.push(number);
                }
            }
        }
        for number in removable {
            let _ = self.storage.remove(&log_path(&self.directory, number));
        }
    }

    /// After tables have come or gone: what the cache may hold and what writers
    /// must wait for follows from them.
    pub(crate) fn after_install(&self) {
        // Under the lock, so that of two callers the later stores what both did.
        let _structure = self.structure.lock();
        self.rebalance_memory();
        let (mut level0, mut debt) = (0, 0);
        for tree in self.trees.load().values() {
            let version = tree.version();
            level0 = level0.max(version.level(0).len());
            debt = debt.max(picker::debt_bytes(&version, self.base_bytes()));
        }
        self.level0_tables.store(level0, Ordering::Relaxed);
        self.debt_bytes.store(debt, Ordering::Relaxed);
    }

    /// Target size of the base level.
    pub(crate) fn base_bytes(&self) -> u64 {
        BASE_MEMTABLES * self.shares.load().memtable_bytes
    }

    // ---- Compaction ----

    pub(crate) fn picker_options(&self, tree: &Tree) -> PickerOptions {
        let options = tree.options();
        PickerOptions {
            base_bytes: self.base_bytes(),
            table_bytes: self.options.table_bytes,
            last_differs: options.compression != options.compression_last,
        }
    }

    /// Starts compactions while some are needed and threads are free.
    pub(crate) fn schedule_compactions(self: &Arc<Self>) {
        let trees: Vec<Arc<Tree>> = self.trees.load().values().cloned().collect();
        for tree in trees {
            while self.compactions_running.load(Ordering::Acquire) < self.executor.parallelism() {
                let Some(compaction) = self.pick(&tree) else { break };
                self.compactions_running.fetch_add(1, Ordering::AcqRel);
                let (engine, tree) = (Arc::clone(self), Arc::clone(&tree));
                let job = move || engine.begin_compaction(&tree, compaction);
                self.executor.execute(Priority::Low, Box::new(job));
                // What fails is tried once a call, not for ever.
                if self.background_errors.lock().compaction.is_some() {
                    return;
                }
            }
        }
    }

    fn pick(&self, tree: &Tree) -> Option<Compaction> {
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        let _structure = self.structure.lock();
        let compaction = picker::pick(&tree.version(), self.picker_options(tree))?;
        compaction.tables().for_each(|table| table.set_busy(true));
        Some(compaction)
    }

    /// Does a compaction: a move at once, a merge in parts, each a job. The
    /// part that ends last installs the result.
    fn begin_compaction(self: &Arc<Self>, tree: &Arc<Tree>, compaction: Compaction) {
        let parts = Arc::new(self.plan_parts(tree, compaction));
        if parts.compaction.is_move {
            let outcome = guarded(|| self.install_move(&parts));
            self.end_compaction(parts, outcome);
            return;
        }
        for part in 1..=parts.borders.len() {
            let (engine, parts) = (Arc::clone(self), Arc::clone(&parts));
            let job = move || engine.run_part(parts, part);
            self.executor.execute(Priority::Low, Box::new(job));
        }
        self.run_part(parts, 0);
    }

    /// Does a compaction whole, in this thread.
    pub(crate) fn compact_here(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        compaction: Compaction,
    ) -> Result<()> {
        let mut parts = self.plan_parts(tree, compaction);
        parts.borders.clear();
        parts.outcomes = Mutex::new(vec![None]);
        let merged = self.merge_part(&parts, 0);
        let outcome =
            merged.and_then(|(outputs, counts)| self.install_merge(&parts, outputs, counts));
        parts.compaction.tables().for_each(|table| table.set_busy(false));
        drop(parts);
        self.empty_trash();
        self.signal_progress();
        outcome
    }

    fn plan_parts(&self, tree: &Arc<Tree>, compaction: Compaction) -> Parts {
        let tombstones: Vec<RangeTombstone> = compaction
            .tables()
            .flat_map(|t| t.range_tombstones().tombstones().collect::<Vec<_>>())
            .collect();
        let borders = if compaction.is_move { Vec::new() } else { self.borders(&compaction) };
        Parts {
            tree: Arc::clone(tree),
            snapshots: self.snapshot_sequences(),
            tombstones: RangeTombstones::new(&tombstones),
            outcomes: Mutex::new((0..=borders.len()).map(|_| None).collect()),
            running: AtomicUsize::new(borders.len() + 1),
            borders,
            compaction,
            started_ns: self.clock.monotonic_ns(),
        }
    }

    /// Where a compaction is split so that its parts can run side by side.
    fn borders(&self, compaction: &Compaction) -> Vec<Box<[u8]>> {
        let worth = compaction.input_bytes() / (TABLES_PER_PART * self.options.table_bytes).max(1);
        let parts = worth.min(self.executor.parallelism() as u64) as usize;
        if parts < 2 || self.executor.is_inline() {
            return Vec::new();
        }
        let mut keys: Vec<Box<[u8]>> =
            compaction.tables().flat_map(|t| t.table().separators()).collect();
        keys.sort_unstable();
        keys.dedup();
        let step = keys.len() / parts;
        (1..parts).filter_map(|part| keys.get(part * step).cloned()).filter(|_| step > 0).collect()
    }

    fn run_part(self: &Arc<Self>, parts: Arc<Parts>, part: usize) {
        let outcome = guarded(|| self.merge_part(&parts, part));
        parts.outcomes.lock()[part] = Some(outcome);
        if parts.running.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let outcomes = std::mem::take(&mut *parts.outcomes.lock());
        let mut outputs = Vec::new();
        let mut counts = MergeCounts::default();
        let mut failed = None;
        for outcome in outcomes.into_iter().flatten() {
            match outcome {
                Ok((more, count)) => {
                    outputs.extend(more);
                    counts.entries_dropped += count.entries_dropped;
                    counts.entries_expired += count.entries_expired;
                }
                Err(error) => failed = Some(error),
            }
        }
        let outcome = match failed {
            None => guarded(|| self.install_merge(&parts, outputs, counts)),
            Some(error) => {
                self.remove_tables(&outputs.iter().map(|o| o.meta.id).collect::<Vec<_>>());
                Err(error)
            }
        };
        self.end_compaction(parts, outcome);
    }

    fn merge_part(&self, parts: &Parts, part: usize) -> Result<(Vec<Output>, MergeCounts)> {
        let compaction = &parts.compaction;
        let mut children: Vec<Child> = Vec::new();
        let level = |tables: &[Arc<TableHandle>]| -> Child {
            Box::new(LevelCursor::new(
                tables.to_vec(),
                Arc::clone(&self.blocks),
                Reading::Compaction,
            ))
        };
        if compaction.level == 0 {
            for table in &compaction.inputs {
                let entries = TableEntries::new(
                    Arc::clone(table),
                    Arc::clone(&self.blocks),
                    Reading::Compaction,
                );
                children.push(Box::new(entries));
            }
        } else {
            children.push(level(&compaction.inputs));
        }
        if !compaction.lower.is_empty() {
            children.push(level(&compaction.lower));
        }
        let plan = MergePlan {
            snapshots: &parts.snapshots,
            now_ms: self.clock.unix_ms(),
            tombstones: &parts.tombstones,
            start: part.checked_sub(1).map(|before| &*parts.borders[before]),
            end: parts.borders.get(part).map(|border| &**border),
            below: Some(LevelsBelow::new(&parts.tree.version(), compaction.output_level)),
        };
        let made = Mutex::new(Vec::new());
        let next_table = || self.new_table(&made);
        let grandparents = compaction.grandparents.clone();
        let options =
            self.output_options(&parts.tree, compaction.output_level, grandparents, &next_table);
        merge_tables(MergingCursor::new(children), plan, Outputs::new(options), &*self.clock)
            .inspect_err(|_| self.remove_tables(&made.lock()))
    }

    fn install_merge(
        &self,
        parts: &Parts,
        outputs: Vec<Output>,
        counts: MergeCounts,
    ) -> Result<()> {
        let (compaction, tree) = (&parts.compaction, &parts.tree);
        self.storage.sync_dir(&self.directory)?;
        let written = outputs.iter().map(|o| o.meta.bytes).sum();
        let mut edit = Edit::default();
        push_removals(&mut edit, tree, compaction);
        let mut added = Vec::new();
        for output in outputs {
            let level = compaction.output_level;
            edit.push(Change::AddTable {
                keyspace: tree.id,
                level: level as u8,
                table: output.meta.clone(),
            });
            added.push((level, self.open_table(output.meta)?));
        }
        self.install_edit(parts, edit, &added)?;
        compaction.tables().for_each(|table| table.retire());
        self.count_merge(counts);
        self.stats.compactions.add(1);
        self.stats.compaction_read_bytes.add(compaction.input_bytes());
        self.stats.compaction_write_bytes.add(written);
        Ok(())
    }

    /// Moves tables a level down without touching their files.
    fn install_move(&self, parts: &Parts) -> Result<()> {
        let (compaction, tree) = (&parts.compaction, &parts.tree);
        let mut edit = Edit::default();
        push_removals(&mut edit, tree, compaction);
        let level = compaction.output_level;
        let mut added = Vec::new();
        for table in &compaction.inputs {
            let meta = table.meta().clone();
            edit.push(Change::AddTable {
                keyspace: tree.id,
                level: level as u8,
                table: meta.clone(),
            });
            added.push((level, Arc::new(table.moved())));
        }
        self.install_edit(parts, edit, &added)?;
        self.stats.compaction_moves.add(compaction.inputs.len() as u64);
        Ok(())
    }

    fn install_edit(
        &self,
        parts: &Parts,
        edit: Edit,
        added: &[(usize, Arc<TableHandle>)],
    ) -> Result<()> {
        let removed: Vec<u64> = parts.compaction.tables().map(|table| table.meta().id).collect();
        let mut structure = self.structure.lock();
        structure.manifest.commit(edit)?;
        parts.tree.install_tables(&removed, added);
        drop(structure);
        self.after_install();
        Ok(())
    }

    fn end_compaction(self: &Arc<Self>, parts: Arc<Parts>, outcome: Result<()>) {
        {
            let _structure = self.structure.lock();
            parts.compaction.tables().for_each(|table| table.set_busy(false));
        }
        self.compactions_running.fetch_sub(1, Ordering::AcqRel);
        self.stats.compaction_ns.record(self.clock.monotonic_ns() - parts.started_ns);
        self.note_outcome(JobKind::Compaction, &outcome);
        // The inputs' files can go once nobody holds them.
        drop(parts);
        self.empty_trash();
        self.signal_progress();
        if outcome.is_ok() {
            self.schedule_compactions();
        }
    }
}

/// Turns a panic of background work, a bug, into an error: the work's
/// bookkeeping is done as for any failure, so nobody waits for it for ever.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Storage,
            "background work panicked, which is a bug: reopen the store",
        ))
    })
}

fn push_removals(edit: &mut Edit, tree: &Tree, compaction: &Compaction) {
    let mut remove = |level: usize, table: &Arc<TableHandle>| {
        edit.push(Change::RemoveTable {
            keyspace: tree.id,
            level: level as u8,
            id: table.meta().id,
        });
    };
    compaction.inputs.iter().for_each(|table| remove(compaction.level, table));
    compaction.lower.iter().for_each(|table| remove(compaction.output_level, table));
}
