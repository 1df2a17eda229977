//! What writers do on a full disk: deletions are accepted while other writes are refused, and what
//! they empty is flushed, so that its logs are removed and writes go on.

use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::table_dropper::ranges_of;
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;
use crate::write::deletions::all_delete;
use crate::write::rotation::LogEnds;

/// A log shorter than this is not ended to free its space: that would gain too little.
const SHORT_LOG_BYTES: u64 = 64 << 10;

/// A failed flush is retried when as many keys were deleted as this part of the entries that it writes.
const DELETIONS_PER_RETRY_DIVISOR: u64 = 8;

/// The shortest time between two retries of a failed flush by writers that need space for the log.
const FLUSH_RETRY_INTERVAL_NS: u64 = 1_000_000_000;

/// The same for the sake of a few deletions of single keys: each retry leaves one more memtable, which
/// reads search.
const FEW_DELETIONS_RETRY_INTERVAL_NS: u64 = 10_000_000_000;

/// A way to free disk space for a record of the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpaceSource {
    /// Remove logs that are prepared or kept for reuse.
    UnusedLogs,
    /// Wait for running flushes: they remove logs.
    RunningFlushes,
    /// Remove the files of obsolete tables.
    ObsoleteTables,
    /// End the current log and flush all memtables, so that it can be removed.
    LogSwitch,
}

impl SpaceSource {
    /// The cheapest first.
    pub(super) const ALL: [Self; 4] =
        [Self::UnusedLogs, Self::RunningFlushes, Self::ObsoleteTables, Self::LogSwitch];
}

impl Engine {
    /// Whether `batch`, which only deletes, may be written although `error` stops other writes: the
    /// disk is full, and deletions can empty it. They may exceed the memory for memtables a little,
    /// because flushes need space.
    pub(super) fn admits_deletion(&self, batch: &WriteBatch, error: &Error) -> bool {
        let memory_max = self.memory.shares().memtables_bytes_max;
        error.kind() == ErrorKind::Full
            && all_delete(&[batch])
            && self.trees.memtables_bytes() <= memory_max + memory_max / 8
    }

    /// Frees space for the log; whether it may have succeeded. Only while leading.
    pub(super) fn free_space_for_log(self: &Arc<Self>, source: SpaceSource) -> bool {
        let is_freed = match source {
            // After a torn log, the next one is made of them.
            SpaceSource::UnusedLogs => {
                self.logs.with(|logs| logs.current.is_open()) && self.logs.remove_unused()
            }
            SpaceSource::RunningFlushes => self.wait_for_running_flushes(),
            SpaceSource::ObsoleteTables => self.remove_obsolete_tables(),
            SpaceSource::LogSwitch => self.end_log_and_flush(),
        };
        if is_freed {
            // The log keeps the one before it open until that is synced: a file that was removed
            // takes its space until it is closed.
            let _ = self.logs.with(|logs| logs.current.sync_front_and_mark());
        }
        is_freed
    }

    /// Ends the log and flushes all memtables, so that older logs can be removed. Returns false if it
    /// did nothing. Only while leading.
    ///
    /// It does nothing for a short log, or if the memtables hold no deletions and more than half as many
    /// bytes as the log: that would free too little. (If all memtables are empty, it removes older logs
    /// in any case.) After a failed flush it acts only if range deletions cover a whole memtable, or if
    /// keys were deleted since, and at most once per [`FLUSH_RETRY_INTERVAL_NS`] or
    /// [`FEW_DELETIONS_RETRY_INTERVAL_NS`].
    fn end_log_and_flush(self: &Arc<Self>) -> bool {
        let trees = self.trees.all();
        let offset = self.logs.with(|logs| logs.current.offset());
        let is_long = offset >= SHORT_LOG_BYTES.min(self.memory.memtable_bytes());
        let has_failed = trees.iter().any(|tree| self.jobs.has_flush_failed(tree));
        let has_new =
            |tree: &Arc<Tree>| self.jobs.has_flush_failed(tree) && has_new_deletions(tree);
        let may_retry = || {
            trees.iter().any(has_emptied_memtable) && self.may_retry_flush(FLUSH_RETRY_INTERVAL_NS)
                || trees.iter().any(has_new)
                    && self.may_retry_flush(FEW_DELETIONS_RETRY_INTERVAL_NS)
        };
        let is_worth_it = match has_failed {
            true => may_retry(),
            false => {
                let is_sparse = || self.trees.memtables_bytes() <= offset / 2;
                is_long && (trees.iter().any(holds_deletions) || is_sparse())
            }
        };
        let is_empty =
            |tree: &Arc<Tree>| tree.view_full().memtables().all(|memtable| memtable.is_empty());
        let are_empty = trees.iter().all(is_empty);
        if !is_worth_it && !are_empty {
            return false;
        }
        if is_long && self.end_log().is_err() && !has_failed {
            return false;
        }
        if are_empty {
            let has_older = self.logs.with(|logs| logs.oldest_of(1).is_some());
            return has_older && self.remove_older_logs().is_ok();
        }
        let _ = self.rotate(&trees, LogEnds::WhenLong);
        // Those that were rotated before their flush failed.
        self.schedule_flushes(&trees);
        self.wait_for_running_flushes();
        self.logs.give_way(&self.memory);
        true
    }

    fn may_retry_flush(&self, interval_ns: u64) -> bool {
        let now_ns = self.clock.monotonic_ns();
        self.logs.with(|logs| {
            let may = logs.flush_retried_at_ns.is_none_or(|at_ns| now_ns >= at_ns + interval_ns);
            if may {
                logs.flush_retried_at_ns = Some(now_ns);
            }
            may
        })
    }

    /// Removes all logs but the current one, when all memtables are empty.
    fn remove_older_logs(&self) -> Result<()> {
        let current = self.logs.with(|logs| logs.current.number());
        let mut edit = Edit::default();
        edit.push(Change::LastSequence(self.snapshots.last_sequence()));
        edit.push(Change::MinLog(current));
        self.trees.structure().commit(edit)?;
        self.logs.remove_logs_before(current);
        self.logs.give_way(&self.memory);
        Ok(())
    }

    /// Whether there were any. Only while leading.
    fn wait_for_running_flushes(self: &Arc<Self>) -> bool {
        let mut has_waited = false;
        loop {
            let seen = self.jobs.progress();
            let is_lost = self.check_writable().is_err();
            if self.jobs.flushes_running() == 0 || self.executor.is_inline() || is_lost {
                return has_waited;
            }
            self.jobs.wait_for_progress(seen);
            has_waited = true;
        }
    }

    /// Rotates memtables with deletions of what older ones hold whose flush has failed for want of space:
    /// a flush that takes both writes nothing of what they hide. Few deletions of single keys count only
    /// if a writer `is_waiting`. Only while leading.
    pub(super) fn rotate_deletions(self: &Arc<Self>, is_waiting: bool) {
        if self.jobs.background_failure().is_ok() {
            return;
        }
        let has_new =
            |tree: &Arc<Tree>| self.jobs.has_flush_failed(tree) && has_new_deletions(tree);
        let few_count = is_waiting
            && self.trees.load().values().any(has_new)
            && self.may_retry_flush(FEW_DELETIONS_RETRY_INTERVAL_NS);
        // Each deletion is tried once: afterwards it is not in the active memtable.
        let is_worth_it = |tree: &&Arc<Tree>| {
            let empties =
                || tree.view().memtable.has_range_tombstones() && has_emptied_memtable(tree);
            let is_deleted = || has_many_new_deletions(tree) || few_count && has_new(tree);
            self.jobs.has_flush_failed(tree) && (empties() || is_deleted())
        };
        let emptied: Vec<_> = self.trees.load().values().filter(is_worth_it).cloned().collect();
        // Writers wait for what the next flush finds.
        emptied.iter().for_each(|tree| self.jobs.forget_flush_failure(tree.id));
        // Each end of the log takes a half of what is left for deletions.
        let log_ends = match emptied.iter().any(has_emptied_memtable) {
            true => LogEnds::IfPossible,
            false => LogEnds::WhenLong,
        };
        let _ = self.rotate(&emptied, log_ends);
        self.schedule_flushes(&emptied);
    }
}

fn holds_deletions(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    view.memtables().any(|m| m.deletions() > 0 || m.has_range_tombstones())
}

/// Whether the active memtable of `tree` holds deletions of single keys.
fn has_new_deletions(tree: &Arc<Tree>) -> bool {
    tree.view().memtable.deletions() > 0
}

/// Whether they are so many that a flush of the older memtables may need clearly less space with them
/// than without.
fn has_many_new_deletions(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    let older: usize = view.immutables.iter().map(|memtable| memtable.entries()).sum();
    let deletions = view.memtable.deletions();
    deletions > 0 && deletions >= older as u64 / DELETIONS_PER_RETRY_DIVISOR
}

/// Whether range deletions in memtables of `tree` leave nothing of one of them.
fn has_emptied_memtable(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    let ranges = ranges_of(&view);
    view.memtables().any(|memtable| memtable.is_emptied_by(&ranges))
}
