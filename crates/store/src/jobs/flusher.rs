//! Flushes: full memtables become a table of level 0.
//!
//! Guarantees: at any moment a write is in a memtable of the view, in one of its tables, or in
//! both; the log keeps it until its table is in the manifest, and is on stable storage before that.
//! One flush of a tree runs at a time; it takes all immutable memtables.
//!
//! A flush takes the memtables of several trees if they are small: their tables are in one file and
//! one edit of the manifest, with one sync each ([ADR
//! 0045](../../../../docs/adr/0045-many-keyspaces.md)). It succeeds or fails for all of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidekv_cache::{Ablation, Name};
use tidekv_io::Priority;

use crate::compaction::cache_invalidation::{self, CacheInvalidation};
use crate::compaction::output::{Output, OutputOptions, Outputs, SharedFile};
use crate::compaction::{LevelsBelow, MergePlan, merge_tables};
use crate::engine::Engine;
use crate::engine::job_state::JobKind;
use crate::engine::tree_set::TableChange;
use crate::error::{Error, ErrorKind, Result};
use crate::format::key::Sequence;
use crate::format::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::jobs::background::guarded;
use crate::jobs::table_dropper::RETRY_AFTER_FAILURE;
use crate::memtable::{Memtable, MemtableCursor};
use crate::read::merge::{Child, MergingCursor};
use crate::sync::Mutex;
use crate::version::levels::{TableHandle, Version};
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;
use crate::version::view::View;
use crate::wal::LogPosition;

/// Memtables with fewer bytes than this are flushed into one file with those of other keyspaces:
/// files of their own would cost more in syncs, handles and entries of the directory than their
/// contents are worth.
pub(crate) const SHARED_FLUSH_BYTES: u64 = 1 << 20;

/// A tree with its view when the flush began.
type Flushed = (Arc<Tree>, Arc<View>);

/// Memtables of a tree that are written to level 0.
pub(crate) struct FlushPart<'a> {
    pub(crate) tree: &'a Arc<Tree>,
    /// Newest first.
    pub(crate) memtables: &'a [Arc<Memtable>],
    /// The tables of the tree, all of them: deletions of what they do not hold are dropped. `None` if
    /// there are tables that the tree does not know yet.
    pub(crate) older: Option<&'a Version>,
}

/// The tables that a flush adds to a tree, with their level.
type Added = Vec<(usize, Arc<TableHandle>)>;

impl Engine {
    /// Schedules a flush of the tree's immutable memtables.
    pub(crate) fn schedule_flush(self: &Arc<Self>, tree: &Arc<Tree>) {
        self.schedule_flushes(std::slice::from_ref(tree));
    }

    /// Schedules flushes of the immutable memtables of `trees`: one for each tree with many bytes,
    /// and one for all others together.
    pub(crate) fn schedule_flushes(self: &Arc<Self>, trees: &[Arc<Tree>]) {
        let mut small = Vec::new();
        for tree in trees {
            let bytes: u64 = tree.view().immutables.iter().map(|m| m.charge() as u64).sum();
            if bytes == 0 {
                continue;
            }
            self.jobs.flush_begins();
            if tree.is_flushing.swap(true, Ordering::AcqRel) {
                self.jobs.flush_ends();
            } else if bytes < SHARED_FLUSH_BYTES {
                small.push(Arc::clone(tree));
            } else {
                self.execute_flush(vec![Arc::clone(tree)]);
            }
        }
        if !small.is_empty() {
            self.execute_flush(small);
        }
    }

    fn execute_flush(self: &Arc<Self>, trees: Vec<Arc<Tree>>) {
        self.submit(Priority::High, move |engine| engine.run_flushes(&trees));
    }

    /// Flushes until no immutable memtable is left: those that are rotated meanwhile are flushed by
    /// this thread as well, which may be the one reserved for flushes.
    fn run_flushes(self: &Arc<Self>, trees: &[Arc<Tree>]) {
        let goes_on =
            |tree: &Arc<Tree>| !self.jobs.is_closed() && !tree.view().immutables.is_empty();
        let mut left = trees.to_vec();
        while self.run_flush(&left) && !left.is_empty() {
            left.retain(goes_on);
        }
        let mut again = Vec::new();
        for tree in trees {
            tree.is_flushing.store(false, Ordering::Release);
            if goes_on(tree) && !self.jobs.has_flush_failed(tree) {
                // Rotated at the last moment.
                again.push(Arc::clone(tree));
            }
        }
        self.schedule_flushes(&again);
        // Last, so that a thread that closes the store waits for what was scheduled.
        trees.iter().for_each(|_| self.jobs.flush_ends());
        self.jobs.signal_progress();
    }

    fn run_flush(self: &Arc<Self>, trees: &[Arc<Tree>]) -> bool {
        let started = self.clock.monotonic_ns();
        let flushed = guarded(|| self.flush_despite_full_disk(trees));
        self.stats.flush_ns.record(self.clock.monotonic_ns() - started);
        self.note_outcome(JobKind::Flush, trees, &flushed);
        self.remove_obsolete_tables();
        self.jobs.signal_progress();
        match &flushed {
            Ok(()) => {
                self.note_flush(trees);
                self.schedule_compactions();
            }
            Err(_) => self.expect_dead_data(RETRY_AFTER_FAILURE),
        }
        flushed.is_ok()
    }

    /// Flushes, and retries on a full disk if prepared logs or tables without readers could be removed,
    /// or if newer memtables were rotated: their range deletions may cover entries that then need not
    /// be written.
    fn flush_despite_full_disk(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let rotated = || trees.iter().map(|tree| tree.view().immutables.len()).sum::<usize>();
        loop {
            let before = rotated();
            match self.flush_immutables(trees) {
                Err(error)
                    if error.kind() == ErrorKind::Full
                        && (self.logs.give_way(&self.memory)
                            || self.remove_obsolete_tables()
                            || rotated() != before) =>
                {
                    self.logs.note_full_disk_retry();
                }
                flushed => return flushed,
            }
        }
    }

    /// Flushes the current immutable memtables of each tree into one table of level 0; the tables
    /// of several trees go into one file.
    fn flush_immutables(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let with_view = |tree: &Arc<Tree>| (Arc::clone(tree), tree.view_full());
        let mut flushed: Vec<Flushed> = trees.iter().map(with_view).collect();
        flushed.retain(|(_, view)| !view.immutables.is_empty());
        if flushed.is_empty() {
            return Ok(());
        }
        for (_, view) in &flushed {
            debug_assert!(view.immutables[0].created_at() <= view.memtable.created_at());
        }
        let snapshots = self.snapshots.sequences();
        let made = Mutex::new(Vec::new());
        let started = self.clock.monotonic_ns();
        let sync_log = self.begin_log_sync();
        let parts: Vec<_> = flushed
            .iter()
            .map(|(tree, view)| FlushPart {
                tree,
                memtables: &view.immutables,
                older: Some(&view.version),
            })
            .collect();
        let written = self
            .write_memtables(&parts, &snapshots, &made)
            // Tables must not be ahead of the log: after a power cut a batch would be present in
            // one keyspace and missing in another.
            .and_then(|outputs| sync_log().map(|()| outputs))
            .and_then(|outputs| self.install_flush(&flushed, outputs));
        let written = written.inspect_err(|_| self.trees.discard_tables(made.into_inner()))?;
        let memtables = flushed.iter().flat_map(|(_, view)| &view.immutables);
        let bytes = memtables.map(|memtable| memtable.charge() as u64).sum();
        self.expect_quiet(written);
        self.memory.note_flush_rate(bytes, self.clock.monotonic_ns().saturating_sub(started));
        Ok(())
    }

    /// Starts a sync of the log up to its current end, while this thread does other work and
    /// writers continue. The returned function waits for it, or syncs itself.
    fn begin_log_sync(&self) -> impl FnOnce() -> Result<()> + use<> {
        let (syncer, offset) = {
            let logs = self.logs.lock();
            let current = &logs.as_ref().expect("a writable store has a log").current;
            (Arc::clone(current.syncer()), current.offset())
        };
        self.stats.log_syncs.add(1);
        let same = Arc::clone(&syncer);
        // The next caller gets the error.
        self.executor.execute(Priority::Low, Box::new(move || drop(same.sync_up_to(offset))));
        move || syncer.sync_up_to(offset)
    }

    /// Writes the entries of the memtables of each tree into a table of level 0; the tables of several
    /// trees into one file. Returns the tables by tree.
    pub(crate) fn write_memtables(
        &self,
        parts: &[FlushPart<'_>],
        snapshots: &[Sequence],
        made: &Mutex<Vec<u64>>,
    ) -> Result<Vec<Vec<Output>>> {
        self.logs.names().check()?;
        let shared = match parts.len() {
            0 | 1 => None,
            _ => Some(self.create_shared_file(made)?),
        };
        // Values read before this point are not cached any more. Later readers have these memtables
        // in their view, until the table replaces them.
        self.memory.caches().point().advance_epoch();
        let written: Result<Vec<Vec<Output>>> = parts
            .iter()
            .map(|part| self.write_table(part, snapshots, (made, shared.as_ref())))
            .collect();
        let written = written?;
        let outputs = || written.iter().flatten();
        if let Some(shared) = shared {
            let number = shared.number();
            shared.finish()?;
            if outputs().next().is_none() {
                // All entries had expired.
                self.trees.remove_tables(&[number]);
            }
        }
        self.stats.flushes.add(1);
        self.stats.flush_bytes.add(outputs().map(|output| output.meta.bytes).sum());
        self.logs.names().sync()?;
        Ok(written)
    }

    fn write_table(
        &self,
        &FlushPart { tree, memtables, older }: &FlushPart<'_>,
        snapshots: &[Sequence],
        (made, shared): (&Mutex<Vec<u64>>, Option<&SharedFile>),
    ) -> Result<Vec<Output>> {
        let children = memtables
            .iter()
            .map(|m| Box::new(MemtableCursor::new(Arc::clone(m))) as Child)
            .collect();
        let tombstones: Vec<RangeTombstone> =
            memtables.iter().flat_map(|memtable| memtable.listed_tombstones()).collect();
        let tombstones = RangeTombstones::newest(&tombstones, snapshots);
        let point = self.memory.caches().point();
        if !tombstones.is_empty() {
            let is_covered = |name: Name<'_>| {
                name.keyspace == tree.id && tombstones.fragment_of(name.key).is_some()
            };
            point.forget(is_covered, |_| false);
        }
        let renews = !self.memory.caches().policy().disables(Ablation::Sync);
        let plan = MergePlan {
            pause: &|| {},
            snapshots,
            now_ms: self.clock.unix_ms(),
            tombstones: &tombstones,
            start: None,
            end: None,
            below: older.map(LevelsBelow::all),
            is_flush: true,
            invalidation: CacheInvalidation::new_versions(point, tree.id, renews, &tombstones),
            heat: None,
        };
        let next_table = || match shared {
            None => self.trees.new_table(made),
            Some(_) => self.trees.new_table_in_shared_file(),
        };
        let options = self.output_options(tree, 0, Vec::new(), &next_table);
        let outputs = Outputs::new(OutputOptions { shared, ..options });
        let (outputs, counts) =
            merge_tables(MergingCursor::new(children), plan, outputs, &*self.clock)?;
        self.count_merge(counts);
        Ok(outputs)
    }

    /// Installs the tables of the keyspaces that were not dropped meanwhile, and returns their
    /// bytes.
    fn install_flush(
        self: &Arc<Self>,
        flushed: &[Flushed],
        outputs: Vec<Vec<Output>>,
    ) -> Result<u64> {
        let mut tables_by_tree = Vec::with_capacity(flushed.len());
        for outputs in outputs {
            let mut tables = Vec::with_capacity(outputs.len());
            for output in outputs {
                cache_invalidation::redirect(self.memory.caches().point(), &output.placed);
                tables.push((0, self.open_table(output.meta)?));
            }
            tables_by_tree.push(tables);
        }
        let needed = self.log_needed_after(flushed);
        let synced = self.logs.synced();
        let mut refused = Vec::new();
        let mut installed = 0;
        let is_committed;
        {
            let mut structure = self.trees.structure();
            let mut parts = Vec::with_capacity(flushed.len());
            for ((tree, view), tables) in flushed.iter().zip(tables_by_tree) {
                match self.trees.get(tree.id) {
                    Some(_) => parts.push((tree, view, tables)),
                    None => refused.extend(tables),
                }
            }
            // If all keyspaces were dropped, the manifest still names the logs.
            is_committed = !parts.is_empty();
            if is_committed {
                let mut edit = edit_of(&parts, needed);
                edit.changes.extend(synced.map(Change::LogSynced));
                let changes: Vec<_> = parts
                    .iter()
                    .map(|(tree, _, added)| TableChange { tree, removed: &[], added })
                    .collect();
                self.trees.commit_all(&mut structure, edit, &changes)?;
            }
            for (tree, view, tables) in parts {
                // Before the memtables leave the view: whoever waits for that finds a healthy store.
                self.jobs.forget_flush_failure(tree.id);
                tree.install_flush(&view.immutables, &tables, view.memtable.created_at());
                installed += tables.iter().map(|(_, table)| table.meta().bytes).sum::<u64>();
            }
        }
        if !refused.is_empty() {
            self.discard_refused(refused);
        }
        self.after_install();
        if is_committed {
            self.logs.remove_logs_before(needed.log);
        }
        Ok(installed)
    }

    /// The position from which the logs are needed once the immutable memtables of `flushed` are in
    /// tables.
    fn log_needed_after(&self, flushed: &[Flushed]) -> LogPosition {
        let going: HashSet<*const Memtable> =
            flushed.iter().flat_map(|(_, view)| &view.immutables).map(Arc::as_ptr).collect();
        let needed = |tree: &Arc<Tree>| {
            let view = tree.view();
            let others =
                view.memtables().filter(|memtable| !going.contains(&Arc::as_ptr(memtable)));
            others.filter_map(|memtable| memtable.first_write_at()).min()
        };
        let oldest = self.trees.load().values().filter_map(needed).min();
        // A memtable that is empty now, of any keyspace, was empty when the flushed ones were
        // rotated, or has been since: writes on their way into it are in the logs after that
        // position.
        let put_aside_at = flushed.iter().map(|(_, view)| view.memtable.begins_at()).min();
        let put_aside_at = put_aside_at.expect("a flush has memtables");
        oldest.map_or(put_aside_at, |oldest| oldest.min(put_aside_at))
    }

    /// Waits until `trees` have no immutable memtables; fails if a flush fails meanwhile.
    pub(crate) fn wait_for_flush(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let failures_before = self.jobs.flush_failures();
        loop {
            let seen = self.jobs.progress();
            if trees.iter().all(|tree| tree.view().immutables.is_empty()) {
                return Ok(());
            }
            self.check_writable()?;
            self.schedule_flushes(trees);
            if let Some(error) = self.jobs.flush_error_since(failures_before, trees) {
                return Err(flush_failed(&error));
            }
            self.jobs.wait_for_progress(seen);
        }
    }
}

/// The edit that adds the tables of a flush, after which the logs are needed from `log` on.
fn edit_of(parts: &[(&Arc<Tree>, &Arc<View>, Added)], log: LogPosition) -> Edit {
    let mut edit = Edit::default();
    let mut last = 0;
    for (tree, view, tables) in parts {
        for (_, table) in tables {
            let table = table.shared_meta();
            edit.push(Change::AddTable { keyspace: tree.id, level: 0, table });
        }
        let sequence = view.memtable.created_at();
        edit.push(Change::Flushed { keyspace: tree.id, sequence });
        last = last.max(sequence);
    }
    edit.push(Change::LastSequence(last));
    edit.push(Change::MinLog(log.log));
    if log.offset > 0 {
        edit.push(Change::LogPassed(log));
    }
    edit
}

fn flush_failed(error: &Error) -> Error {
    error.context("the flush failed")
}
