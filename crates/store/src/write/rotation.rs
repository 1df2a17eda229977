//! Rotation: the active memtables of keyspaces are put aside for a flush, and the log is continued in
//! the next one if it is time to.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::jobs::flusher::SHARED_FLUSH_BYTES;
use crate::version::tree::Tree;
use crate::wal::LogPosition;

/// More logs than this are not kept for an idle keyspace: its memtable is flushed instead.
const LOGS_MAX: usize = 8;

/// Whether a rotation ends the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogEnds {
    /// For an explicit flush: the next open has nothing to replay.
    Now,
    WhenLong,
    /// On a full disk, to free the log's space. Without space for the next log, the current one
    /// continues.
    IfPossible,
}

impl Engine {
    /// The keyspaces whose memtables must be rotated: those that are full; or, if all of them together
    /// take too much memory, the largest one. If that is small, the next ones as well, until half of
    /// the memory is free: one flush takes them all. Rotated one at a time, every few kilobytes of
    /// writes would cost a flush.
    pub(super) fn full_trees(&self) -> Vec<Arc<Tree>> {
        let shares = self.memory.shares();
        let trees = self.trees.load();
        let is_full = |tree: &&Arc<Tree>| tree.view().memtable.is_full(shares.memtable_bytes);
        let charge = |tree: &Arc<Tree>| tree.view().memtable.charge() as u64;
        let mut full: Vec<Arc<Tree>> = trees.values().filter(is_full).cloned().collect();
        let active: u64 = trees.values().map(charge).sum();
        let active_max = shares.memtables_bytes_max / 2;
        if full.is_empty() && active > active_max {
            let mut by_size: Vec<_> = trees.values().map(|tree| (charge(tree), tree)).collect();
            by_size.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
            let mut left = active;
            for (bytes, tree) in by_size {
                if bytes == 0 || (left <= active_max / 2 && !full.is_empty()) {
                    break;
                }
                full.push(Arc::clone(tree));
                left -= bytes;
                if bytes >= SHARED_FLUSH_BYTES {
                    break;
                }
            }
        }
        full
    }

    /// Rotates memtables that are full, and those that keep too many logs or too much memory.
    pub(super) fn rotate_full(self: &Arc<Self>) -> Result<()> {
        let mut full = self.full_trees();
        if full.is_empty() {
            return Ok(());
        }
        let oldest = self.logs.lock().as_ref().and_then(|logs| logs.oldest_of(LOGS_MAX));
        if let Some(oldest) = oldest {
            let holds = |tree: &&Arc<Tree>| {
                tree.view().memtable.first_log().is_some_and(|log| log <= oldest)
            };
            let trees = self.trees.load();
            let holders: Vec<_> = trees
                .values()
                .filter(holds)
                .filter(|t| !full.iter().any(|f| f.id == t.id))
                .cloned()
                .collect();
            full.extend(holders);
        }
        self.rotate(&full, LogEnds::WhenLong)
    }

    /// Continues in the next log. Only while leading.
    pub(super) fn end_log(&self) -> Result<()> {
        self.logs.with(|logs| self.logs.switch_log(logs, &self.trees, &self.memory))
    }

    /// Rotates the memtables of `trees` and schedules their flushes, and switches the log if it is
    /// time to. Only while leading.
    pub(crate) fn rotate(self: &Arc<Self>, trees: &[Arc<Tree>], log_ends: LogEnds) -> Result<()> {
        let filled: Vec<_> = trees.iter().filter(|tree| !tree.view().memtable.is_empty()).collect();
        if filled.is_empty() {
            return Ok(());
        }
        let log_end = {
            let mut logs = self.logs.lock();
            let logs = logs.as_mut().expect("a writable store has a log");
            let is_long = logs.current.offset() >= self.logs.bytes_max(&self.memory);
            // Also after a torn tail: a write that was reported as failed may be complete there,
            // and flushed memtables would claim a part of it.
            if log_ends != LogEnds::WhenLong || is_long || !logs.current.is_open() {
                match self.logs.switch_log(logs, &self.trees, &self.memory) {
                    // The log gets longer than it should: without a flush the disk stays full.
                    Err(error)
                        if error.kind() == ErrorKind::Full
                            && log_ends != LogEnds::Now
                            && logs.current.is_open() =>
                    {
                        self.logs.note_full_disk_retry();
                    }
                    switched => switched?,
                }
            }
            LogPosition { log: logs.current.number(), offset: logs.current.offset() }
        };
        let last = self.snapshots.last_sequence();
        let target = self.memory.memtable_bytes() as usize;
        for tree in &filled {
            tree.rotate(target, last, log_end);
        }
        let filled: Vec<_> = filled.into_iter().cloned().collect();
        self.schedule_flushes(&filled);
        Ok(())
    }
}
