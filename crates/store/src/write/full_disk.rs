//! What writers do on a full disk: deletions are accepted while other writes are refused, and what
//! they empty is flushed, so that its logs are removed and writes go on.

use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::engine::{Engine, Request, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::table_dropper::ranges_of;
use crate::version::tree::Tree;
use crate::write::LogEnds;
use crate::write::deletions::all_delete;

/// A log with fewer bytes than this is not ended for its space.
const SHORT_LOG_BYTES: u64 = 64 << 10;

impl Engine {
    /// Commits those writes of a group that only delete, if the others failed with `error` because
    /// the disk is full.
    pub(super) fn lead_deletions(
        self: &Arc<Self>,
        group: &[Request],
        error: &Error,
    ) -> Vec<Result<Written>> {
        let lead = |request: &Request| match self.admits_deletion(&request.batch, error) {
            true => self.lead_validated(request),
            false => Err(error.clone()),
        };
        group.iter().map(lead).collect()
    }

    /// Whether `batch`, which only deletes, may be written although `error` stops other writes: the
    /// disk is full, and deletions can empty it. They may exceed the memory for memtables a little,
    /// because flushes need space.
    pub(super) fn admits_deletion(&self, batch: &WriteBatch, error: &Error) -> bool {
        let memory_max = self.memory.shares().memtables_bytes_max;
        error.kind() == ErrorKind::Full
            && all_delete(&[batch])
            && self.trees.memtables_bytes() <= memory_max + memory_max / 8
    }

    /// Commits; if the disk is full, again once running flushes or new ones have removed logs, or
    /// tables without readers were removed.
    pub(super) fn commit_when_there_is_space(
        self: &Arc<Self>,
        batches: &[&WriteBatch],
        sync: bool,
    ) -> Result<()> {
        let mut committed = self.commit(batches, sync);
        let means = [
            Self::wait_for_running_flushes,
            |engine: &Arc<Self>| engine.remove_obsolete_tables(),
            Self::flush_to_shorten_logs,
        ];
        for free_space in means {
            match &committed {
                Err(error) if error.kind() == ErrorKind::Full => {}
                _ => break,
            }
            if free_space(self) {
                committed = self.commit(batches, sync);
            }
        }
        committed
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
