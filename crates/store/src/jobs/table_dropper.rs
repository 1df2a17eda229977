//! Drops tables of which no reader needs anything, by an edit of the manifest, unread
//! (`dead_tables.rs` decides): after a deletion of a range that holds whole tables, after every
//! flush, and in every look for dead data (`lifecycle/reclaim.rs`), for which requests are collected
//! here.
//!
//! Guarantee: a table is dropped only after the log that holds the tombstone over it is on stable
//! storage. So a power cut keeps both or undoes both.
//!
//! A drop writes little: no table, only an edit that fits into the space that the manifest keeps
//! for a full disk. So it works when nothing else does.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tidekv_cache::Name;
use tidekv_io::Priority;

use crate::compaction::dead_data::Present;
use crate::compaction::dead_tables::{DeadTable, Death, dead_tables, may_have_dead_tables};
use crate::compaction::reclaim_watch::{PATIENCE, QUIET};
use crate::engine::Engine;
use crate::engine::job_state::JobKind;
use crate::error::Result;
use crate::format::range_tombstones::RangeTombstone;
use crate::jobs::background::guarded;
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;
use crate::version::view::View;

/// Tables that one edit drops: an edit of this size fits into the space that a manifest keeps for a
/// full disk (`version/manifest/file.rs`), and each edit frees space for the next one.
const TABLES_PER_DROP: usize = 128;

/// After a failed job, for instance on a full disk.
pub(crate) const RETRY_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The second removal of dropped tables: point reads in progress have ended by then.
const SECOND_SWEEP_DELAY: Duration = Duration::from_secs(1);

impl Engine {
    /// Asks for a look for dead data after `delay`.
    pub(crate) fn expect_dead_data(self: &Arc<Self>, delay: Duration) {
        if self.options.read_only || self.jobs.is_closed() {
            return;
        }
        if !self.jobs.reclaim().ask(self.clock.monotonic_ns(), delay) {
            return;
        }
        // A scheduled look does not keep a store open.
        let engine = Arc::downgrade(self);
        let look = move || {
            if let Some(engine) = engine.upgrade()
                && engine.jobs.reclaim().begin(engine.clock.monotonic_ns())
            {
                engine.run_job(|| engine.jobs.reclaim().look());
            }
        };
        self.executor.execute_later(delay, Box::new(look));
    }

    /// Called after deletions were written, in `emptied` of ranges that hold whole tables.
    pub(crate) fn note_deletions(self: &Arc<Self>, emptied: &[Arc<Tree>]) {
        if !self.jobs.reclaim().is_awaited() {
            self.expect_dead_data(QUIET);
        }
        for tree in emptied {
            let tree = Arc::clone(tree);
            self.submit(Priority::Low, move |engine| engine.drop_dead_tables(&tree));
        }
    }

    /// Called when a snapshot was released.
    pub(crate) fn note_released_snapshot(self: &Arc<Self>) {
        if self.jobs.reclaim().is_held() {
            self.expect_dead_data(QUIET);
        }
    }

    /// Called when a flush has changed the tables of `trees`.
    pub(crate) fn note_flush(self: &Arc<Self>, trees: &[Arc<Tree>]) {
        trees.iter().for_each(|tree| self.drop_dead_tables(tree));
        self.expect_dead_data(PATIENCE);
    }

    /// Drops the tables of `tree` of which no reader needs anything.
    pub(crate) fn drop_dead_tables(self: &Arc<Self>, tree: &Arc<Tree>) {
        loop {
            let dead = self.claim_dead_tables(tree);
            if dead.is_empty() {
                return;
            }
            let outcome = guarded(|| self.install_drop(tree, &dead));
            {
                let _structure = self.trees.structure();
                dead.iter().for_each(|dead| dead.table.set_busy(false));
            }
            self.jobs.compaction_ends();
            self.note_outcome(
                JobKind::TableDrop,
                std::slice::from_ref(tree),
                &outcome.clone().map(drop),
            );
            drop(dead);
            self.remove_obsolete_tables();
            self.jobs.signal_progress();
            match outcome {
                Ok(true) => {
                    self.remove_obsolete_tables_later(SECOND_SWEEP_DELAY);
                    if self.jobs.background_failure().is_err() {
                        // What had failed may have space now, or nothing left to do.
                        self.jobs.reclaim().allow_retry();
                        self.expect_dead_data(SECOND_SWEEP_DELAY);
                    }
                }
                Ok(false) => return,
                Err(_) => return self.expect_dead_data(RETRY_AFTER_FAILURE),
            }
        }
    }

    /// Marks dead tables as busy, and counts a job if there are any.
    fn claim_dead_tables(&self, tree: &Tree) -> Vec<DeadTable> {
        let may_have = {
            let view = tree.view();
            let has_ranges = view.memtables().any(|memtable| memtable.has_range_tombstones());
            may_have_dead_tables(&view.version, has_ranges, self.clock.unix_ms())
        };
        if !may_have || self.options.read_only {
            return Vec::new();
        }
        let _structure = self.trees.structure();
        if self.jobs.is_closed() || tree.is_dropped() {
            return Vec::new();
        }
        let view = tree.view_full();
        let ranges = ranges_of(&view);
        // In this order: a snapshot that is missing in the list sees all that was visible.
        let visible = self.snapshots.visible();
        let snapshots = self.snapshots.sequences();
        let present = Present { now_ms: self.clock.unix_ms(), visible, snapshots: &snapshots };
        let dead = dead_tables(&view.version, &ranges, present, TABLES_PER_DROP);
        if !dead.is_empty() {
            dead.iter().for_each(|dead| dead.table.set_busy(true));
            self.jobs.compaction_begins();
        }
        dead
    }

    /// False if the keyspace was dropped meanwhile.
    fn install_drop(&self, tree: &Tree, dead: &[DeadTable]) -> Result<bool> {
        if dead.iter().any(|dead| dead.death == Death::Covered) {
            // The tombstones may be in the log only.
            self.sync_log()?;
        }
        let removed: Vec<u64> = dead.iter().map(|dead| dead.table.meta().id).collect();
        let mut edit = Edit::default();
        for DeadTable { level, table, .. } in dead {
            let (keyspace, level, id) = (tree.id, *level as u8, table.meta().id);
            edit.push(Change::RemoveTable { keyspace, level, id });
        }
        {
            let mut structure = self.trees.structure();
            if !self.trees.commit(&mut structure, tree, edit, &removed, &[])? {
                return Ok(false);
            }
            tree.install_tables(&removed, &[]);
        }
        dead.iter().for_each(|dead| dead.table.retire());
        self.forget_dead(tree, dead);
        for DeadTable { table, death, .. } in dead {
            match death {
                Death::Covered => self.stats.covered_tables_dropped.add(1),
                Death::Lifeless => self.stats.expired_tables_dropped.add(1),
            }
            self.stats.dropped_bytes.add(table.meta().bytes);
        }
        self.after_install();
        Ok(true)
    }

    /// Removes what the point cache has of expired entries: they must stay expired when the time of
    /// day is set back. (Values under a range tombstone are removed when it is flushed, and until
    /// then the memtable hides them.)
    fn forget_dead(&self, tree: &Tree, dead: &[DeadTable]) {
        let point = self.memory.caches().point();
        if point.is_empty() {
            return;
        }
        // A read that began before caches nothing from here on.
        point.advance_epoch();
        let ids: HashSet<u64> = dead.iter().map(|dead| dead.table.meta().id).collect();
        let lifeless: Vec<_> = dead.iter().filter(|dead| dead.death == Death::Lifeless).collect();
        let holds = |name: Name<'_>| {
            name.keyspace == tree.id && lifeless.iter().any(|dead| dead.table.may_hold(name.key))
        };
        point.forget(holds, |table| ids.contains(&table));
    }

    /// Puts everything that was appended to the log on stable storage.
    fn sync_log(&self) -> Result<()> {
        let (syncer, offset) = self.logs.with(|logs| {
            let current = &logs.current;
            (Arc::clone(current.syncer()), current.offset())
        });
        self.stats.log_syncs.add(1);
        syncer.sync_up_to(offset)
    }
}

/// The range tombstones of the memtables of `view`.
pub(crate) fn ranges_of(view: &View) -> Vec<RangeTombstone> {
    view.memtables().flat_map(|memtable| memtable.listed_tombstones()).collect()
}
