//! What writers do on a full disk: deletions are accepted while other writes are refused, and what
//! they empty is flushed, so that its logs are removed and writes go on.

use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::jobs::table_dropper::ranges_of;
use crate::version::tree::Tree;
use crate::write::deletions::all_delete;
use crate::write::rotation::LogEnds;

/// A log with fewer bytes than this is not ended for its space.
const SHORT_LOG_BYTES: u64 = 64 << 10;

/// A means to free space for the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpaceMeans {
    RunningFlushes,
    ObsoleteTables,
    ShorterLogs,
}

impl SpaceMeans {
    /// The cheapest first.
    pub(super) const ALL: [Self; 3] =
        [Self::RunningFlushes, Self::ObsoleteTables, Self::ShorterLogs];
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

    /// Frees space for the log by one of several means, the cheapest first: running flushes and new ones
    /// remove logs, and tables without readers can be removed. Whether it may have. Only while leading.
    pub(super) fn free_space_for_log(self: &Arc<Self>, means: SpaceMeans) -> bool {
        match means {
            SpaceMeans::RunningFlushes => self.wait_for_running_flushes(),
            SpaceMeans::ObsoleteTables => self.remove_obsolete_tables(),
            SpaceMeans::ShorterLogs => self.flush_to_shorten_logs(),
        }
    }

    /// Ends the log, which finds no space, and flushes the memtables, so that it is removed: if they
    /// hold deletions, or less than half of what the log does. Whether it has. Only while leading.
    ///
    /// After a flush that failed, only if there is a memtable of which nothing is left: otherwise
    /// every refused write would try another flush.
    fn flush_to_shorten_logs(self: &Arc<Self>) -> bool {
        let offset = self.logs.with(|logs| logs.current.offset());
        if offset < SHORT_LOG_BYTES.min(self.memory.memtable_bytes()) {
            return false;
        }
        let trees = self.trees.all();
        let has_failed = |tree: &Arc<Tree>| self.jobs.has_flush_failed(tree);
        let holds_deletions = |tree: &Arc<Tree>| {
            let view = tree.view();
            view.memtables().any(|m| m.deletions() > 0 || m.has_range_tombstones())
        };
        let is_worth_it = match trees.iter().any(has_failed) {
            true => trees.iter().any(empties_memtables),
            false => {
                trees.iter().any(holds_deletions) || self.trees.memtables_bytes() <= offset / 2
            }
        };
        if !is_worth_it || self.rotate(&trees, LogEnds::Now).is_err() {
            return false;
        }
        // Those that were rotated before their flush failed.
        self.schedule_flushes(&trees);
        self.wait_for_running_flushes();
        self.logs.give_way();
        true
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

    /// Rotates memtables with range deletions that empty those whose flush has failed, for want of
    /// space: a flush that takes both writes nothing of what they hide. Only while leading.
    pub(super) fn rotate_deletions(self: &Arc<Self>) {
        if self.jobs.background_failure().is_ok() {
            return;
        }
        let is_worth_it =
            |tree: &&Arc<Tree>| self.jobs.has_flush_failed(tree) && empties_memtables(tree);
        let emptied: Vec<_> = self.trees.load().values().filter(is_worth_it).cloned().collect();
        // Writers wait for what the next flush finds.
        emptied.iter().for_each(|tree| self.jobs.forget_flush_failure(tree.id));
        let _ = self.rotate(&emptied, LogEnds::IfThereIsSpace);
    }
}

/// Whether range deletions that are in memtables of `tree` leave nothing of a memtable.
fn empties_memtables(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    let ranges = ranges_of(&view);
    view.memtables().any(|memtable| memtable.is_emptied_by(&ranges))
}
