//! Gives the space and the read cost of deleted and expired data back while the store is open,
//! without anyone calling `compact`.
//!
//! Three means, the cheapest first:
//! 1. Tables of which no reader needs anything are dropped, unread (`jobs/table_dropper.rs`).
//! 2. A memtable whose deletions hide much is flushed, so that compactions see them.
//! 3. Compactions for space (`reclaim.rs`), one at a time, and only while no other compaction is
//!    running or needed. They pause while users read and write, unless writers will soon have to
//!    wait for a compaction (`jobs/give_way.rs`).
//!
//! A *look* does all of this; `reclaim_watch.rs` says when. A look that finds nothing to do changes
//! nothing and asks only for the look at the next deadline.

use std::sync::Arc;
use std::time::Duration;

use crate::compaction::dead_data::{Amount, Present, hidden_by_memtables};
use crate::compaction::picker::{self, Compaction};
use crate::compaction::reclaim::{is_dense, is_due, outlook};
use crate::compaction::reclaim_watch::QUIET;
use crate::engine::Engine;
use crate::jobs::background::guarded;
use crate::jobs::table_dropper::{RETRY_AFTER_FAILURE, ranges_of};
use crate::version::tree::Tree;
use crate::write::rotation::LogEnds;

/// A look that has to wait for another job comes again after this time.
const RETRY: Duration = Duration::from_secs(1);

/// The looks for expired entries: not more often than `EXPIRY_MIN`, and at least as often as
/// `EXPIRY_MAX`, because the time of day may be set.
const EXPIRY_MIN: Duration = Duration::from_secs(5);
const EXPIRY_MAX: Duration = Duration::from_secs(30);

/// Memtables of which a range deletion has deleted everything, or nearly, are flushed from this size
/// on.
const EMPTIED_BYTES_MIN: usize = 1 << 20;

/// What must happen next, as a look has found it.
enum Finding {
    Compaction(Arc<Tree>, Compaction),
    /// Come again after this time.
    Later(Duration),
    Nothing,
}

impl Engine {
    /// Begins to look for dead data: an earlier run may have left some.
    pub(crate) fn begin_reclaiming(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        self.jobs.reclaim().set_look(Arc::new(move || {
            if let Some(engine) = engine.upgrade() {
                engine.look_for_dead_data();
            }
        }));
        self.expect_dead_data(QUIET);
    }

    /// Looks for dead data in all keyspaces, and starts what is due.
    pub(crate) fn look_for_dead_data(self: &Arc<Self>) {
        if self.jobs.is_closed() {
            return;
        }
        self.trees.all().iter().for_each(|tree| self.drop_dead_tables(tree));
        self.retry_failed_work();
        match guarded(|| Ok(self.find_dead_data())) {
            Ok(Finding::Compaction(tree, compaction)) => {
                self.stats.space_compactions.add(1);
                self.start_compaction(&tree, compaction);
            }
            Ok(Finding::Later(delay)) => self.expect_dead_data(delay),
            Ok(Finding::Nothing) => {}
            Err(_) => self.expect_dead_data(RETRY_AFTER_FAILURE),
        }
    }

    /// Retries failed flushes and compactions, every ten seconds and when tables were dropped: there
    /// may be space now.
    fn retry_failed_work(self: &Arc<Self>) {
        let has_failed = self.jobs.background_failure().is_err();
        if has_failed && self.jobs.reclaim().may_retry(self.clock.monotonic_ns()) {
            self.remove_obsolete_tables();
            // So that no job starts after the store was closed.
            if let Some(_gate) = self.jobs.try_enter_gate() {
                self.push_background_work();
            }
        }
    }

    fn find_dead_data(self: &Arc<Self>) -> Finding {
        let now_ns = self.clock.monotonic_ns();
        let watch = self.jobs.reclaim();
        let visible = self.snapshots.visible();
        if let Some(delay) = watch.wait_for_writers(visible, now_ns) {
            return Finding::Later(delay);
        }
        let trees = self.trees.all();
        let is_needed =
            |tree: &Arc<Tree>| picker::pick(&tree.version(), self.picker_options(tree)).is_some();
        if self.jobs.compactions_running() > 0 || trees.iter().any(is_needed) {
            let has_failed = self.jobs.background_failure().is_err();
            return Finding::Later(if has_failed { RETRY_AFTER_FAILURE } else { RETRY });
        }
        if let Some(delay) = watch.wait_after_misses(now_ns) {
            return Finding::Later(delay);
        }
        let snapshots = self.snapshots.sequences();
        let present = Present { now_ms: self.clock.unix_ms(), visible, snapshots: &snapshots };
        let (mut is_held, mut changes_at_ms, mut later) = (false, None, None);
        for tree in trees {
            let options = self.picker_options(&tree);
            let seen = outlook(&tree.version(), options, present);
            is_held |= seen.dead.is_held;
            changes_at_ms = [changes_at_ms, seen.changes_at_ms].into_iter().flatten().min();
            if seen.compaction.is_some() {
                let picked =
                    self.pick(&tree, |version| outlook(version, options, present).compaction);
                match picked {
                    Some(compaction) => return Finding::Compaction(tree, compaction),
                    None => later = Some(RETRY),
                }
            }
            let (delay, holds) = self.flush_deletions(&tree, present);
            is_held |= holds;
            later = later.into_iter().chain(delay).min();
        }
        watch.set_held(is_held);
        let expiry = changes_at_ms.map(|at_ms: u64| {
            Duration::from_millis(at_ms.saturating_sub(present.now_ms))
                .clamp(EXPIRY_MIN, EXPIRY_MAX)
        });
        later.into_iter().chain(expiry).min().map_or(Finding::Nothing, Finding::Later)
    }

    /// Flushes the memtables of `tree` if their deletions hide much. Returns when to look again, and
    /// whether snapshots hold what they hide.
    fn flush_deletions(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        present: Present<'_>,
    ) -> (Option<Duration>, bool) {
        let view = tree.view_full();
        let deletions: u64 = view.memtables().map(|memtable| memtable.deletions()).sum();
        let ranges = ranges_of(&view);
        if deletions == 0 && ranges.is_empty() {
            return (None, false);
        }
        let hidden = hidden_by_memtables(&view.version, deletions, &ranges, present);
        let entries: usize = view.memtables().map(|memtable| memtable.entries()).sum();
        let (mut all, mut dead) = (Amount::of_all(view.version.tables()), hidden.amount);
        let is_due = is_due(all, dead);
        all.add(Amount { entries: entries as u64, bytes: 0 });
        dead.add(Amount { entries: deletions + ranges.len() as u64, bytes: 0 });
        // They keep their logs, which a full disk lacks, and of which nothing is needed.
        let emptied = view.memtables().filter(|memtable| memtable.is_emptied_by(&ranges));
        let emptied: usize = emptied.map(|memtable| memtable.charge()).sum();
        if !is_due && !is_dense(all, dead) && emptied < EMPTIED_BYTES_MIN {
            return (None, hidden.is_held);
        }
        // A flush that has failed is tried again with the deletions: what they hide takes no space.
        let has_failed = self.jobs.has_flush_failed(tree);
        if !view.immutables.is_empty() && (!has_failed || view.memtable.is_empty()) {
            if let Some(_gate) = self.jobs.try_enter_gate() {
                self.schedule_flush(tree);
            }
            return (Some(RETRY_AFTER_FAILURE), hidden.is_held);
        }
        // A job must not wait for the gate, nor for the lead.
        let rotated = self.jobs.try_enter_gate().and_then(|_gate| {
            self.queue.try_exclusive(|| self.rotate(std::slice::from_ref(tree), LogEnds::WhenLong))
        });
        match rotated {
            // The flush asks for the next look.
            Some(Ok(())) => (None, hidden.is_held),
            Some(Err(_)) => (Some(RETRY_AFTER_FAILURE), hidden.is_held),
            None => (Some(QUIET), hidden.is_held),
        }
    }
}
