//! What flushes and compactions share: how tables are written, how an outcome is recorded, how
//! other threads wait for it.
//!
//! Both write new tables, make the change durable in the manifest, publish a new view, and only
//! then release what was replaced. A job that fails leaves the store unchanged: its files are
//! removed (unless the manifest may name them: then recovery decides), the error is recorded
//! (`JobState::note_outcome`) and counted, and the next write or job tries again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::Priority;

use crate::compaction::MergeCounts;
use crate::compaction::output::{OutputOptions, Pacer, SharedFile};
use crate::compaction::picker;
use crate::engine::Engine;
use crate::engine::job_state::{JobKind, panicked};
use crate::error::Result;
use crate::format::LEVELS;
use crate::options::{FilterKind, KeyspaceOptions};
use crate::sst::filter::{CUCKOO_BITS_MAX, CUCKOO_BITS_MIN};
use crate::sst::table::TableOptions;
use crate::sync::Mutex;
use crate::version::levels::TableHandle;
use crate::version::tree::Tree;

/// Upper levels hold a tenth of the keys, but every read searches them first: six more bits per key
/// there make false positives rare where they add up (Dayan et al., Monkey, SIGMOD 2017).
const UPPER_FILTER_BITS: u8 = 6;

const LAST: usize = LEVELS - 1;

/// How the tables of a level are built.
pub(crate) fn table_options(tree: u32, options: &KeyspaceOptions, level: usize) -> TableOptions {
    let is_last = level == LAST;
    let bits = match options.filter_bits_per_key {
        0 => 0,
        bits if is_last => bits,
        bits => bits + UPPER_FILTER_BITS,
    };
    // So that the properties of a table state the bits that its filter has.
    let bits = match options.filter_kind {
        FilterKind::Cuckoo if bits > 0 => bits.clamp(CUCKOO_BITS_MIN, CUCKOO_BITS_MAX),
        _ => bits,
    };
    TableOptions {
        id: 0,
        keyspace: tree,
        compression: if is_last { options.compression_last } else { options.compression },
        block_bytes: options.block_bytes,
        filter_bits_per_key: bits,
        filter_kind: options.filter_kind,
    }
}

impl Engine {
    /// Records the outcome of a job of `trees`.
    pub(crate) fn note_outcome(&self, job: JobKind, trees: &[Arc<Tree>], outcome: &Result<()>) {
        if let Err(error) = outcome {
            tracing::error!(%error, "a {job} failed");
            self.stats.background_errors.add(1);
        }
        trees.iter().for_each(|tree| self.jobs.note_outcome(job, tree, outcome));
    }

    /// How a merge writes tables for `level` of `tree`.
    pub(crate) fn output_options<'a>(
        &'a self,
        tree: &Tree,
        level: usize,
        grandparents: Vec<Arc<TableHandle>>,
        next_table: &'a dyn Fn() -> (u64, std::path::PathBuf),
    ) -> OutputOptions<'a> {
        OutputOptions {
            storage: &self.storage,
            executor: &self.executor,
            access: self.trees.access(),
            next_table,
            shared: None,
            table: table_options(tree.id, &tree.options(), level),
            table_bytes: if level == 0 { u64::MAX } else { self.options.table_bytes },
            grandparents,
            pacer: Pacer::new(None, &*self.clock),
            blocks: &self.reads.blocks,
        }
    }

    /// A new file for tables of several keyspaces, recorded in `made`.
    pub(crate) fn create_shared_file(&self, made: &Mutex<Vec<u64>>) -> Result<SharedFile> {
        SharedFile::create(&self.storage, &self.executor, self.trees.new_table(made))
    }

    /// Limits compactions and ingests to the configured rate. Flushes are never limited, because
    /// writers wait for them.
    pub(crate) fn compaction_pacer(&self) -> Pacer {
        Pacer::new(self.options.compaction_bytes_per_s, &*self.clock)
    }

    pub(crate) fn count_merge(&self, counts: MergeCounts) {
        self.stats.entries_dropped.add(counts.entries_dropped);
        self.stats.entries_expired.add(counts.entries_expired);
    }

    /// Schedules the removal of tables whose last reader is gone, if there are any: after `delay`.
    pub(crate) fn remove_obsolete_tables_later(self: &Arc<Self>, delay: Duration) {
        // Inline, the caller's thread would enter the gate twice.
        if self.executor.is_inline() || self.jobs.is_closed() {
            return;
        }
        // A waiting job must not keep the store open.
        let engine = Arc::downgrade(self);
        let sweep = move || {
            let Some(engine) = engine.upgrade() else { return };
            if let Some(_gate) = engine.jobs.try_enter_gate() {
                engine.run_job(|| {
                    engine.remove_obsolete_tables();
                });
            }
        };
        match delay.is_zero() {
            true => self.executor.execute(Priority::Low, Box::new(sweep)),
            false => self.executor.execute_later(delay, Box::new(sweep)),
        }
    }

    /// Does `work` after `delay`, and again after the time that it returns, until the store is closed.
    pub(crate) fn repeat(
        self: &Arc<Self>,
        delay: Duration,
        work: impl Fn(&Arc<Self>) -> Option<Duration> + Send + 'static,
    ) {
        // A waiting job must not keep the store open.
        let engine = Arc::downgrade(self);
        let job = move || {
            if let Some(engine) = engine.upgrade()
                && !engine.jobs.is_closed()
                && let Some(delay) = work(&engine)
            {
                engine.repeat(delay, work);
            }
        };
        self.executor.execute_later(delay, Box::new(job));
    }

    /// Removes the tables of a job whose keyspace was dropped meanwhile.
    pub(crate) fn discard_refused(&self, tables: Vec<(usize, Arc<TableHandle>)>) {
        tables.iter().for_each(|(_, table)| table.retire());
        drop(tables);
        self.remove_obsolete_tables();
        self.after_install();
    }

    /// Called after the set of tables has changed: updates the size of the cache and the write
    /// stall.
    pub(crate) fn after_install(&self) {
        // Under the lock, so that the later of two callers stores the effect of both.
        let _structure = self.trees.structure();
        self.rebalance_memory();
        let (mut runs, mut debt, mut mergeable, mut stored) = (0, 0, 0, 0);
        for tree in self.trees.load().values() {
            let version = tree.version();
            runs = runs.max(version.runs().len());
            debt = debt.max(picker::debt_bytes(&version, self.memory.base_bytes()));
            mergeable += picker::mergeable_bytes(&version, self.memory.base_bytes());
            stored += (0..LEVELS).map(|level| version.level_bytes(level)).sum::<u64>();
        }
        self.logs.note_stored_bytes(stored);
        self.memory.note_backlog(runs, debt, mergeable);
    }

    /// Waits for running jobs and lets no new ones begin.
    pub(crate) fn stop_background(&self) {
        if self.options.environment.executor.is_none() {
            self.executor.shutdown();
            return;
        }
        // A job that picks a compaction or prepares a log from here on sees that the store is
        // closed.
        drop(self.trees.structure());
        self.logs.wait_for_preparation();
        // A lost job is counted for ever.
        let is_busy = || {
            let running = self.jobs.compactions_running() + self.jobs.flushes_running();
            running > 0 && !self.jobs.has_panicked()
        };
        while is_busy() {
            let seen = self.jobs.progress();
            self.jobs.wait_for_progress(seen);
        }
    }
}

/// Turns a panic of background work, which is a bug, into an error: the bookkeeping is the same as
/// for any failure, so no thread waits for the work forever.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}
