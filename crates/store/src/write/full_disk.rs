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

/// The shortest time between two retries of a failed flush by writers that need space for the log.
const FLUSH_RETRY_INTERVAL_NS: u64 = 1_000_000_000;

/// A way to free disk space for a record of the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpaceSource {
    /// Wait for running flushes: they remove logs.
    RunningFlushes,
    /// Remove the files of obsolete tables.
    ObsoleteTables,
    /// End the current log and flush all memtables, so that it can be removed.
    LogSwitch,
}

impl SpaceSource {
    /// The cheapest first.
    pub(super) const ALL: [Self; 3] = [Self::RunningFlushes, Self::ObsoleteTables, Self::LogSwitch];
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
    /// in any case.) After a failed flush it acts only if range
    /// deletions cover a whole memtable, and at most once per [`FLUSH_RETRY_INTERVAL_NS`].
    fn end_log_and_flush(self: &Arc<Self>) -> bool {
        let trees = self.trees.all();
        let offset = self.logs.with(|logs| logs.current.offset());
        let is_long = offset >= SHORT_LOG_BYTES.min(self.memory.memtable_bytes());
        let has_failed = trees.iter().any(|tree| self.jobs.has_flush_failed(tree));
        let is_worth_it = match has_failed {
            true => trees.iter().any(has_emptied_memtable) && self.may_retry_flush(),
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
        self.logs.give_way();
        true
    }

    fn may_retry_flush(&self) -> bool {
        let now_ns = self.clock.monotonic_ns();
        self.logs.with(|logs| {
            let may = logs
                .flush_retried_at_ns
                .is_none_or(|at_ns| now_ns >= at_ns + FLUSH_RETRY_INTERVAL_NS);
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
        self.logs.give_way();
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

    /// Rotates memtables with range deletions that empty older ones whose flush has failed for want of
    /// space: a flush that takes both writes nothing of what they hide. Only while leading.
    pub(super) fn rotate_deletions(self: &Arc<Self>) {
        if self.jobs.background_failure().is_ok() {
            return;
        }
        // Each deletion is tried once: afterwards it is not in the active memtable.
        let is_worth_it = |tree: &&Arc<Tree>| {
            self.jobs.has_flush_failed(tree)
                && tree.view().memtable.has_range_tombstones()
                && has_emptied_memtable(tree)
        };
        let emptied: Vec<_> = self.trees.load().values().filter(is_worth_it).cloned().collect();
        // Writers wait for what the next flush finds.
        emptied.iter().for_each(|tree| self.jobs.forget_flush_failure(tree.id));
        let _ = self.rotate(&emptied, LogEnds::IfPossible);
        self.schedule_flushes(&emptied);
    }
}

fn holds_deletions(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    view.memtables().any(|m| m.deletions() > 0 || m.has_range_tombstones())
}

/// Whether range deletions in memtables of `tree` leave nothing of one of them.
fn has_emptied_memtable(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    let ranges = ranges_of(&view);
    view.memtables().any(|memtable| memtable.is_emptied_by(&ranges))
}
