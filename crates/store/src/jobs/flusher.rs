//! Flushes: full memtables become a table of level 0.
//!
//! Guarantees: at any moment a write is in a memtable of the view, in one of its tables, or in
//! both; the log keeps it until its table is in the manifest, and is on stable storage before that.
//! One flush of a tree runs at a time; it takes all immutable memtables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidekv_cache::{Ablation, Name};
use tidekv_io::Priority;

use crate::compaction::cache_invalidation::{self, CacheInvalidation};
use crate::compaction::output::{Output, Outputs};
use crate::compaction::{MergePlan, merge_tables};
use crate::engine::Engine;
use crate::engine::job_state::JobKind;
use crate::error::{Error, Result};
use crate::format::key::Sequence;
use crate::format::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::jobs::background::guarded;
use crate::memtable::{Memtable, MemtableCursor};
use crate::read::merge::{Child, MergingCursor};
use crate::sync::Mutex;
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;
use crate::version::view::View;
use crate::wal::LogPosition;

impl Engine {
    /// Schedules a flush of the tree's immutable memtables.
    pub(crate) fn schedule_flush(self: &Arc<Self>, tree: &Arc<Tree>) {
        if tree.view().immutables.is_empty() {
            return;
        }
        self.jobs.flush_begins();
        if tree.is_flushing.swap(true, Ordering::AcqRel) {
            self.jobs.flush_ends();
            return;
        }
        let (engine, tree) = (Arc::clone(self), Arc::clone(tree));
        self.executor.execute(Priority::High, Box::new(move || engine.run_flushes(&tree)));
    }

    /// Flushes until no immutable memtable is left: those that are rotated meanwhile are flushed by
    /// this thread as well, which may be the one reserved for flushes.
    fn run_flushes(self: &Arc<Self>, tree: &Arc<Tree>) {
        let goes_on = || !self.jobs.is_closed() && !tree.view().immutables.is_empty();
        while self.run_flush(tree) && goes_on() {}
        tree.is_flushing.store(false, Ordering::Release);
        if goes_on() && !self.jobs.has_flush_failed(tree) {
            // Rotated at the last moment.
            self.schedule_flush(tree);
        }
        // Last, so that a thread that closes the store waits for what was scheduled.
        self.jobs.flush_ends();
        self.jobs.signal_progress();
    }

    fn run_flush(self: &Arc<Self>, tree: &Arc<Tree>) -> bool {
        let started = self.clock.monotonic_ns();
        let flushed = guarded(|| self.flush_immutables(tree));
        self.stats.flush_ns.record(self.clock.monotonic_ns() - started);
        self.note_outcome(JobKind::Flush, tree, &flushed);
        self.remove_obsolete_tables();
        self.jobs.signal_progress();
        if flushed.is_ok() {
            self.note_flush(tree);
            self.schedule_compactions();
        }
        flushed.is_ok()
    }

    /// Flushes the current immutable memtables into one table of level 0.
    fn flush_immutables(self: &Arc<Self>, tree: &Arc<Tree>) -> Result<()> {
        let view = tree.view_full();
        let Some(newest) = view.immutables.first() else { return Ok(()) };
        debug_assert!(newest.created_at() <= view.memtable.created_at());
        let snapshots = self.snapshots.sequences();
        let made = Mutex::new(Vec::new());
        let started = self.clock.monotonic_ns();
        let sync_log = self.begin_log_sync();
        let flushed = self
            .write_memtables(tree, &view.immutables, &snapshots, &made)
            // Tables must not be ahead of the log: after a power cut a batch would be present in
            // one keyspace and missing in another.
            .and_then(|outputs| sync_log().map(|()| outputs))
            .and_then(|outputs| {
                let written = outputs.iter().map(|output| output.meta.bytes).sum();
                let is_installed = self.install_flush(tree, &view, outputs)?;
                Ok(if is_installed { written } else { 0 })
            });
        let written = flushed.inspect_err(|_| self.trees.discard_tables(made.into_inner()))?;
        let bytes = view.immutables.iter().map(|memtable| memtable.charge() as u64).sum();
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

    /// Writes the entries of `memtables` (newest first) into a table of level 0.
    pub(crate) fn write_memtables(
        &self,
        tree: &Tree,
        memtables: &[Arc<Memtable>],
        snapshots: &[Sequence],
        made: &Mutex<Vec<u64>>,
    ) -> Result<Vec<Output>> {
        self.logs.names().check()?;
        let children = memtables
            .iter()
            .map(|m| Box::new(MemtableCursor::new(Arc::clone(m))) as Child)
            .collect();
        let tombstones: Vec<RangeTombstone> =
            memtables.iter().flat_map(|memtable| memtable.listed_tombstones()).collect();
        let tombstones = RangeTombstones::newest(&tombstones, snapshots);
        // Values read before this point are not cached any more. Later readers have these memtables
        // in their view, until the table replaces them.
        let point = self.memory.caches().point();
        point.advance_epoch();
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
            below: None,
            invalidation: CacheInvalidation::new_versions(point, tree.id, renews, &tombstones),
            heat: None,
        };
        let next_table = || self.trees.new_table(made);
        let outputs = Outputs::new(self.output_options(tree, 0, Vec::new(), &next_table));
        let (outputs, counts) =
            merge_tables(MergingCursor::new(children), plan, outputs, &*self.clock)?;
        self.count_merge(counts);
        self.stats.flushes.add(1);
        self.stats.flush_bytes.add(outputs.iter().map(|o| o.meta.bytes).sum());
        self.logs.names().sync()?;
        Ok(outputs)
    }

    /// False if the keyspace was dropped meanwhile: then nothing is installed.
    fn install_flush(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        before: &View,
        outputs: Vec<Output>,
    ) -> Result<bool> {
        let (flushed, up_to) = (&before.immutables, before.memtable.created_at());
        let mut tables = Vec::new();
        let mut edit = Edit::default();
        for output in outputs {
            cache_invalidation::redirect(self.memory.caches().point(), &output.placed);
            edit.push(Change::AddTable { keyspace: tree.id, level: 0, table: output.meta.clone() });
            tables.push((0, self.open_table(output.meta)?));
        }
        edit.push(Change::Flushed { keyspace: tree.id, sequence: up_to });
        edit.push(Change::LastSequence(up_to));
        let needed = self.log_needed_after(before);
        edit.push(Change::MinLog(needed.log));
        if needed.offset > 0 {
            edit.push(Change::LogPassed(needed));
        }
        edit.changes.extend(self.logs.synced().map(Change::LogSynced));
        {
            let mut structure = self.trees.structure();
            if !self.trees.commit(&mut structure, tree, edit, &[], &tables)? {
                drop(structure);
                self.discard_refused(tables);
                return Ok(false);
            }
            tree.install_flush(flushed, &tables, up_to);
        }
        self.after_install();
        self.logs.remove_logs_before(needed.log);
        Ok(true)
    }

    /// The position from which the logs are needed once the immutable memtables of `before` are in
    /// tables.
    fn log_needed_after(&self, before: &View) -> LogPosition {
        let is_flushed =
            |memtable: &Arc<Memtable>| before.immutables.iter().any(|f| Arc::ptr_eq(f, memtable));
        let needed = |tree: &Arc<Tree>| {
            let view = tree.view();
            let others = view.memtables().filter(|memtable| !is_flushed(memtable));
            others.filter_map(|memtable| memtable.first_write_at()).min()
        };
        let oldest = self.trees.load().values().filter_map(needed).min();
        // A memtable that is empty now, of any keyspace, was empty when the flushed ones were
        // rotated, or has been since: writes on their way into it are in the logs after that
        // position.
        let put_aside_at = before.memtable.begins_at();
        oldest.map_or(put_aside_at, |oldest| oldest.min(put_aside_at))
    }

    /// Waits until `trees` have no immutable memtables; fails if a flush fails meanwhile.
    pub(crate) fn wait_for_flush(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let failures_before = self.jobs.flush_failures();
        loop {
            let seen = self.jobs.progress();
            let Some(waiting) = trees.iter().find(|tree| !tree.view().immutables.is_empty()) else {
                return Ok(());
            };
            self.jobs.check_open()?;
            self.schedule_flush(waiting);
            if let Some(error) = self.jobs.flush_error_since(failures_before, trees) {
                return Err(flush_failed(&error));
            }
            self.jobs.wait_for_progress(seen);
        }
    }
}

fn flush_failed(error: &Error) -> Error {
    error.context("the flush failed")
}
