//! The engine: the parts that all keyspaces share, and the rules between them.
//!
//! Five of them keep state, each behind its own methods: [`LogSet`] (the write-ahead logs),
//! [`TreeSet`] (keyspaces, manifest and tables), [`StoreMemory`] (the division of the memory, and
//! write stalls), [`Snapshots`] (which writes are visible) and [`JobState`] (background jobs,
//! opening and closing).
//!
//! Synchronization (`docs/internals/concurrency.md` has the whole picture):
//!
//! - The commit queue lets one leader at a time append to the log, insert into memtables and rotate
//!   full memtables.
//! - `structure` of [`TreeSet`] guards the manifest and which tables are being compacted; flushes,
//!   compactions and ingests install their results under it.
//! - Readers take no lock: they load a view, then the visible sequence ([`Snapshots`]).
//!
//! Lock order: the gate, then the commit lead, then `logs`, then `next_log`, then `structure`, then
//! a tree's view lock, then `live` of [`Snapshots`]. No thread waits for a job while it holds one
//! of the last five, with one exception: a leader that holds `logs` may wait for the job that
//! prepares the next log, which takes no lock before `next_log`. No job needs the first two.

pub(crate) mod queue;
pub(crate) mod budget;
pub(crate) mod throttle;
pub(crate) mod snapshots;
pub(crate) mod tree_set;
pub(crate) mod store_memory;
pub(crate) mod log_set;
pub(crate) mod job_state;
pub(crate) mod store_clock;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use tidekv_io::{Access, Executor, Lock, Priority, SpreadCounter, Storage};

use crate::batch::WriteBatch;
use crate::engine::job_state::{JobState, panicked};
use crate::engine::log_set::LogSet;
use crate::engine::queue::Queue;
use crate::engine::snapshots::Snapshots;
use crate::engine::store_clock::StoreClock;
use crate::engine::store_memory::StoreMemory;
use crate::engine::tree_set::TreeSet;
use crate::error::{Error, ErrorKind, Result};
use crate::format::files::{CLOCK, CLOCK_TEMPORARY};
use crate::format::key::Sequence;
use crate::memtable::Memtable;
use crate::options::memory_budget::Share;
use crate::options::{Durability, Options};
use crate::read::read_context::ReadContext;
use crate::stats::{Counter, Histogram};
use crate::sync::{Mutex, RwLockReadGuard};
use crate::version::levels::{TableHandle, Version};
use crate::version::manifest::TableMeta;
use crate::version::tree::Tree;
use crate::version::view::View;

/// Counters of the engine, except those of its blocks.
#[derive(Debug, Default)]
pub(crate) struct EngineStats {
    pub(crate) gets: SpreadCounter,
    pub(crate) writes: Counter,
    pub(crate) write_bytes: Counter,
    pub(crate) write_groups: Counter,
    pub(crate) log_bytes: Counter,
    pub(crate) log_syncs: Counter,
    pub(crate) conflicts: Counter,
    pub(crate) stall_ns: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flush_bytes: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compaction_moves: Counter,
    /// Compactions that the seeks of scans had paid for (`seeks.rs`).
    pub(crate) seek_compactions: Counter,
    /// Compactions that gave the space of dead data back (`reclaim.rs`).
    pub(crate) space_compactions: Counter,
    /// Tables dropped unread (`dead_tables.rs`), by the cause of their death, and their bytes.
    pub(crate) expired_tables_dropped: Counter,
    pub(crate) covered_tables_dropped: Counter,
    pub(crate) dropped_bytes: Counter,
    pub(crate) compaction_read_bytes: Counter,
    pub(crate) compaction_write_bytes: Counter,
    pub(crate) entries_dropped: Counter,
    pub(crate) entries_expired: Counter,
    /// Blocks restored by a warm start.
    pub(crate) warm_blocks: Counter,
    pub(crate) warm_values: Counter,
    pub(crate) warm_pointers: Counter,
    pub(crate) background_errors: Counter,
    pub(crate) get_ns: Histogram,
    /// Calls, only some of which are timed.
    pub(crate) write_calls: Counter,
    pub(crate) write_ns: Histogram,
    pub(crate) flush_ns: Histogram,
    pub(crate) compaction_ns: Histogram,
}

/// A condition of a conditional write: the key has not been written after the
/// sequence.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) tree: Arc<Tree>,
    pub(crate) key: Box<[u8]>,
    pub(crate) unchanged_since: Sequence,
    /// Whether range deletions do not count as writes.
    pub(crate) ignores_range_deletions: bool,
}

/// A write in the commit queue.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) batch: WriteBatch,
    pub(crate) durability: Durability,
    pub(crate) conditions: Vec<Condition>,
    /// The number of keyspaces that had been dropped when the batch was checked.
    pub(crate) drops: u64,
}

impl Request {
    /// Whether it can be written as it is: it has no conditions, and no keyspace was dropped since it
    /// was checked, if `drops` were so far.
    pub(crate) fn is_free(&self, drops: u64) -> bool {
        self.conditions.is_empty() && self.drops == drops
    }
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Done,
    Conflict,
}

/// The outcome of [`Transaction::try_commit`](crate::Transaction::try_commit), which does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a write that would have blocked, or met a conflict, has written nothing"]
pub enum Attempt {
    /// The writes are committed.
    Done,
    /// A key that was read or watched has changed: nothing was written.
    Conflict,
    /// Another writer is committing, mostly for microseconds: nothing was written. Try again soon.
    Busy,
    /// The commit would have to wait for room in memory or for storage: nothing was written. Repeat
    /// the transaction on a thread that may wait.
    WouldBlock,
}

/// Everything behind a [`Db`](crate::Db).
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) directory: PathBuf,
    pub(crate) options: Options,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) executor: Arc<dyn Executor>,
    /// Held until the last job has released the engine, or until the store is closed.
    pub(crate) lock: Mutex<Option<Box<dyn Lock>>>,
    /// Distinguishes the stores of this process.
    pub(crate) instance: u64,
    pub(crate) reads: ReadContext,
    pub(crate) queue: Queue<Request, Result<Written>>,
    pub(crate) logs: LogSet,
    pub(crate) trees: TreeSet,
    pub(crate) memory: StoreMemory,
    pub(crate) snapshots: Snapshots,
    pub(crate) jobs: JobState,
    pub(crate) stats: EngineStats,
    /// Its part of the memory budget, given back when all memory above is free.
    pub(crate) share: Share,
}

impl Engine {
    /// Fails if the store accepts no writes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if let Some(reason) = self.jobs.write_refusal() {
            return Err(reason.clone());
        }
        if self.options.read_only {
            return Err(Error::new(ErrorKind::Closed, "the store was opened for reading only"));
        }
        self.jobs.check_open()
    }

    /// Lets a user thread change files until the guard is dropped. A thread must not enter twice.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let gate = self.jobs.enter_gate();
        self.check_writable()?;
        Ok(gate)
    }

    /// Whether the deadline, if any, is in the future.
    pub(crate) fn is_ahead(self: &Arc<Self>, deadline_ms: Option<u64>) -> bool {
        let is_ahead = deadline_ms.is_none_or(|deadline_ms| deadline_ms > self.clock.unix_ms());
        if !is_ahead {
            self.note_expired();
        }
        is_ahead
    }

    /// Called when an entry was seen to have expired: saves the time soon, so that the entry does
    /// not come back if the machine's clock is set back and the store is opened again.
    pub(crate) fn note_expired(self: &Arc<Self>) {
        self.save_clock_later(true);
    }

    /// Called when a deadline is written: saves the time soon if the machine's clock was set, so that
    /// the next opening does not take the step for time that has passed.
    pub(crate) fn note_deadline(self: &Arc<Self>) {
        self.clock.offset_ms();
        self.save_clock_later(false);
    }

    fn save_clock_later(self: &Arc<Self>, has_expired: bool) {
        // Inline, the caller's thread would enter the gate twice.
        let is_possible = !self.options.read_only && !self.executor.is_inline();
        if !is_possible || !self.clock.must_save(has_expired) {
            return;
        }
        let engine = Arc::downgrade(self);
        let save = move || {
            let Some(engine) = engine.upgrade() else { return };
            engine.run_job(|| {
                if let Some(_gate) = engine.jobs.try_enter_gate()
                    && !engine.jobs.is_closed()
                    && let Err(error) = engine.save_clock()
                {
                    tracing::warn!(%error, "cannot save the time");
                }
            });
        };
        self.executor.execute(Priority::Low, Box::new(save));
    }

    /// Schedules a job.
    pub(crate) fn submit(
        self: &Arc<Self>,
        priority: Priority,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let engine = Arc::clone(self);
        let run = move || engine.run_job(|| job(&engine));
        self.executor.execute(priority, Box::new(run));
    }

    /// Runs a job. Its fallible work catches panics itself (`guarded` in `jobs/background.rs`). A panic
    /// elsewhere, in bookkeeping or in the program's logger, leaves the job's state unknown: the store
    /// refuses writes from then on, and no thread waits for the job.
    pub(crate) fn run_job(&self, job: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            self.stats.background_errors.add(1);
            self.jobs.note_panic(panicked());
        }
    }

    /// Opens a table that the manifest names, and counts its memory.
    pub(crate) fn open_table(&self, meta: impl Into<Arc<TableMeta>>) -> Result<Arc<TableHandle>> {
        let handle = self.trees.open_table(meta.into())?;
        self.memory.add_table(handle.charge());
        Ok(handle)
    }

    /// A view of `version` and an empty memtable.
    pub(crate) fn new_view(&self, version: Version, last_sequence: Sequence) -> View {
        let target = self.memory.memtable_bytes() as usize;
        let memtable = Arc::new(Memtable::new(target, last_sequence));
        View { memtable, immutables: Vec::new(), version: Arc::new(version) }
    }

    /// Counts the memory of open tables, and divides the rest of the budget. Only while holding
    /// `structure`, so that the last caller has seen the last change.
    pub(crate) fn rebalance_memory(&self) {
        self.memory.rebalance(&self.trees, self.reads.repairs.charge());
    }

    /// Removes the files of tables that no reader uses any more. Whether there were such tables.
    pub(crate) fn remove_obsolete_tables(&self) -> bool {
        let has_any = self.trees.has_obsolete();
        let tables: HashSet<u64> = self.trees.take_obsolete().into_iter().collect();
        if !tables.is_empty() {
            self.reads.blocks.evict_tables(&|table| tables.contains(&table));
        }
        self.trees.remove_obsolete_files();
        has_any
    }

    /// Saves the time, so that the store goes on from it when it is opened again.
    pub(crate) fn save_clock(&self) -> Result<()> {
        self.clock.offset_ms();
        let record = self.clock.record();
        let is_synced = self.clock.must_sync(record);
        let (temporary, path) = (self.directory.join(CLOCK_TEMPORARY), self.directory.join(CLOCK));
        let saved = (|| {
            let bytes = record.encode();
            self.put_list(CLOCK_TEMPORARY, Some(&bytes))?;
            // Also if its name need not be durable: another sync of the directory may make it so, and
            // then the record that it replaces is gone.
            let synced = self.storage.open(&temporary, Access::Buffered).and_then(|it| it.sync());
            if synced.is_err() {
                // What could not be synced may be gone. Written anew it survives a kill at least.
                self.put_list(CLOCK_TEMPORARY, Some(&bytes))?;
            }
            self.storage.rename(&temporary, &path)?;
            synced?;
            if is_synced {
                self.logs.names().sync_in(&self.directory)?;
            }
            Ok(())
        })();
        self.clock.saved(record, saved.is_ok());
        saved
    }

    /// Replaces or removes the list file `name`. The store works without such a list, so it is not
    /// synced: a reader that finds it torn ignores it.
    pub(crate) fn put_list(&self, name: &str, list: Option<&[u8]>) -> Result<()> {
        let path = self.directory.join(name);
        if self.storage.exists(&path)? {
            self.storage.remove(&path)?;
        }
        if let Some(list) = list {
            self.storage.create(&path, Access::Buffered)?.write_at(0, list)?;
        }
        Ok(())
    }
}
