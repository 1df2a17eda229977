//! The engine: the parts that all keyspaces share, and what they agree on.
//!
//! Who guards what (`docs/internals/concurrency.md` has the whole picture):
//!
//! - The commit queue lets one leader at a time append to the log, insert into
//!   memtables and put full memtables aside.
//! - `structure` guards the manifest and which tables are being compacted;
//!   flushes, compactions and ingests install their results under it.
//! - Readers take no lock: they load a view, then `visible`.
//!
//! Lock order: the gate, then the commit lead, then `logs`, then `next_log`,
//! then `structure`, then a tree's view lock, then `snapshots`. Nobody waits for a job
//! while holding one of the last five, but a leader that holds `logs` for the one that
//! makes the next log ready, which needs none before `next_log`; no job needs the first
//! two.

pub(crate) mod queue;
pub(crate) mod budget;
pub(crate) mod throttle;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use tidekv_cache::Caches;
use tidekv_io::{Access, Clock, Executor, Lock, SpreadCounter, Storage};

use crate::batch::WriteBatch;
use crate::compaction::idle::IdleCompaction;
use crate::engine::budget::Shares;
use crate::engine::queue::Queue;
use crate::engine::throttle::Pauses;
use crate::error::{Error, ErrorKind, Result};
use crate::format::files::table_path;
use crate::format::key::Sequence;
use crate::options::{Durability, Options};
use crate::sst::block::BlockRef;
use crate::sst::blocks::Blocks;
use crate::sst::table::Table;
use crate::stats::{Counter, Histogram};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{ArcSwap, Condvar, Mutex, RwLock, RwLockReadGuard};
use crate::version::levels::{ObsoleteTables, TableHandle};
use crate::version::manifest::{Manifest, TableMeta};
use crate::version::tree::Tree;
use crate::wal::LogWriter;
use crate::wal::names::Names;
use crate::warm::borrowed_budget::BorrowedBudget;

/// What the engine counts besides its blocks.
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
    /// Those that the seeks of scans had paid for (`seeks.rs`).
    pub(crate) seek_compactions: Counter,
    pub(crate) compaction_read_bytes: Counter,
    pub(crate) compaction_write_bytes: Counter,
    pub(crate) entries_dropped: Counter,
    pub(crate) entries_expired: Counter,
    /// What an earlier life's list has brought back.
    pub(crate) warm_blocks: Counter,
    pub(crate) warm_values: Counter,
    pub(crate) warm_pointers: Counter,
    pub(crate) background_errors: Counter,
    pub(crate) get_ns: Histogram,
    /// Calls, of which some are timed.
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
}

/// A write on its way through the queue.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) batch: WriteBatch,
    pub(crate) durability: Durability,
    pub(crate) conditions: Vec<Condition>,
}

/// What became of a write.
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

/// Why the last background jobs failed; `None` once one has succeeded.
#[derive(Debug, Default)]
pub(crate) struct BackgroundErrors {
    pub(crate) flush: Option<Error>,
    /// How many flushes have failed since the store was opened.
    pub(crate) flush_failures: u64,
    pub(crate) compaction: Option<Error>,
}

/// What `structure` guards.
#[derive(Debug)]
pub(crate) struct Structure {
    pub(crate) manifest: Manifest,
    /// Tables of edits that failed to be committed. They may be named by the
    /// manifest file that the failure ended, so they stay until the next commit
    /// has begun a new one.
    pub(crate) orphans: Vec<u64>,
}

/// The logs that count, for the commit leader and for whoever removes them.
#[derive(Debug)]
pub(crate) struct Logs {
    pub(crate) current: LogWriter,
    /// Whether somebody was asked to make the next one ready.
    pub(crate) next_is_asked_for: bool,
    /// Older logs that still count, oldest first.
    pub(crate) older: VecDeque<u64>,
    /// Up to where in the current log writes that do not wait need not look
    /// whether there is room for them.
    pub(crate) has_room_until: u64,
    /// Of slowed writers.
    pub(crate) pauses: Pauses,
}

impl Logs {
    pub(crate) fn new(current: LogWriter) -> Self {
        Self {
            current,
            next_is_asked_for: false,
            older: VecDeque::new(),
            has_room_until: 0,
            pauses: Pauses::default(),
        }
    }
}

/// The log behind the current one (`logs.rs`).
#[derive(Debug, Default)]
pub(crate) struct NextLog {
    /// Its number, once it has one: that which the current log's end record names.
    pub(crate) number: Option<u64>,
    /// It is there, under a durable name.
    pub(crate) ready: Option<LogWriter>,
    /// A log that counts no more, whose file the next one takes over.
    pub(crate) spare: Option<u64>,
}

/// Everything behind a [`Db`](crate::Db).
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) directory: PathBuf,
    pub(crate) options: Options,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) names: Arc<Names>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) caches: Arc<Caches<BlockRef>>,
    pub(crate) blocks: Arc<Blocks>,
    /// Held until the last job has let go of the engine, or until the store is
    /// closed.
    pub(crate) lock: Mutex<Option<Box<dyn Lock>>>,
    pub(crate) trees: ArcSwap<BTreeMap<u32, Arc<Tree>>>,
    pub(crate) queue: Queue<Request, Result<Written>>,
    /// Kept locked by the commit leader only: flushes look, and take off logs that do not
    /// count any more.
    pub(crate) logs: Mutex<Option<Logs>>,
    /// Kept locked while the next log is made ready.
    pub(crate) next_log: Mutex<NextLog>,
    /// The last sequence given out. Written by the commit leader.
    pub(crate) last_sequence: AtomicU64,
    /// Readers see writes up to here.
    pub(crate) visible: AtomicU64,
    pub(crate) snapshots: Mutex<BTreeMap<Sequence, usize>>,
    pub(crate) structure: Mutex<Structure>,
    pub(crate) trash: Arc<ObsoleteTables>,
    pub(crate) memory_bytes: AtomicU64,
    /// The most that caches may take of it.
    pub(crate) cache_bytes_max: AtomicU64,
    pub(crate) shares: ArcSwap<Shares>,
    /// Held while the memory is shared out anew.
    pub(crate) balance: Mutex<()>,
    pub(crate) metadata_bytes: AtomicUsize,
    pub(crate) compactions_running: AtomicUsize,
    /// How much the list of what was hot names that has not been gone through; 0: there is
    /// none.
    pub(crate) hot_list_names: AtomicUsize,
    /// What is left of it takes so much.
    pub(crate) hot_list_bytes: AtomicUsize,
    /// What KV has lent to blocks as long as there is a list.
    pub(crate) lent: Arc<BorrowedBudget>,
    pub(crate) is_closed: AtomicBool,
    /// Held for reading by whatever changes files in a user's thread, for
    /// writing by the closing of the store.
    pub(crate) gate: RwLock<()>,
    /// Tells the stores of this process apart.
    pub(crate) instance: u64,
    pub(crate) background_errors: Mutex<BackgroundErrors>,
    /// Sorted runs in the fullest level 0, for the write stall.
    pub(crate) level0_runs: AtomicUsize,
    /// Bytes that compactions have to move, for the write stall.
    pub(crate) debt_bytes: AtomicU64,
    /// How fast flushes are, for the write stall: their mean, the last ones
    /// counting most. 0: not known.
    pub(crate) flush_bytes_per_s: AtomicU64,
    pub(crate) quiet: IdleCompaction,
    /// Signalled when a background job has ended.
    pub(crate) progress: (Mutex<u64>, Condvar),
    pub(crate) stats: EngineStats,
}

impl Engine {
    /// Fails when the store takes no writes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(ErrorKind::Closed, "the store was opened for reading only"));
        }
        self.check_open()
    }

    /// Fails when the store was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the store is closed"));
        }
        Ok(())
    }

    /// Lets a user's thread change files until the guard is dropped. Not to be
    /// entered twice by one thread.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let gate = self.gate.read();
        self.check_writable()?;
        Ok(gate)
    }

    /// Whether a deadline, if there is one, is still to come.
    pub(crate) fn is_ahead(&self, deadline_ms: Option<u64>) -> bool {
        deadline_ms.is_none_or(|deadline_ms| deadline_ms > self.clock.unix_ms())
    }

    pub(crate) fn visible(&self) -> Sequence {
        self.visible.load(Ordering::Acquire)
    }

    pub(crate) fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        self.trees.load().get(&id).cloned()
    }

    /// How tables are read and written.
    pub(crate) fn table_access(&self) -> Access {
        if self.options.direct_io { Access::Direct } else { Access::Buffered }
    }

    /// The sequences that snapshots hold, ascending.
    pub(crate) fn snapshot_sequences(&self) -> Vec<Sequence> {
        self.snapshots.lock().keys().copied().collect()
    }

    /// Registers a snapshot of the present.
    pub(crate) fn take_snapshot(&self) -> Sequence {
        let mut snapshots = self.snapshots.lock();
        // Read under the lock: a flush or compaction that copies the list
        // before holds only writes that this snapshot sees the newest of.
        let sequence = self.visible();
        *snapshots.entry(sequence).or_insert(0) += 1;
        sequence
    }

    pub(crate) fn release_snapshot(&self, sequence: Sequence) {
        let mut snapshots = self.snapshots.lock();
        if let Some(count) = snapshots.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&sequence);
            }
        }
    }

    /// Opens a table that the manifest knows.
    pub(crate) fn open_table(&self, meta: TableMeta) -> Result<Arc<TableHandle>> {
        let handle =
            open_table(&*self.storage, &self.directory, self.table_access(), meta, &self.trash)?;
        self.metadata_bytes.fetch_add(handle.table().charge(), Ordering::Relaxed);
        Ok(handle)
    }

    /// Puts a list that nobody needs in the place of the one of that name, or removes it. Not
    /// synced: whoever finds it torn does without it.
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

    /// Counts what open tables take of the budget, and shares the rest out. Only
    /// while holding `structure`, so that the last to call has seen the last
    /// change.
    pub(crate) fn rebalance_memory(&self) {
        let metadata: usize = self
            .trees
            .load()
            .values()
            .map(|tree| tree.view().version.tables().map(|t| t.table().charge()).sum::<usize>())
            .sum();
        let metadata = metadata + self.blocks.filter_repair().charge();
        self.metadata_bytes.store(metadata, Ordering::Relaxed);
        self.share_memory_out();
    }

    /// After memtables may have grown: lets them push blocks out of the cache.
    /// Never waits for a change of the tables.
    pub(crate) fn follow_memtables(&self) {
        let shares = self.shares.load();
        let kept = budget::kept(shares.memtables_bytes_max, self.memtables_bytes());
        if kept != shares.memtables_bytes_kept {
            self.share_memory_out();
        }
    }

    /// Gives the cache what memtables, open tables and a list of what was hot leave of the
    /// budget.
    pub(crate) fn share_memory_out(&self) {
        // Of two callers the later has seen what the earlier did.
        let _balance = self.balance.lock();
        let total = self.memory_bytes.load(Ordering::Relaxed);
        let list = self.hot_list_bytes.load(Ordering::Relaxed);
        let metadata = (self.metadata_bytes.load(Ordering::Relaxed) + list) as u64;
        let memtables = self.memtables_bytes();
        let mut shares = budget::shares(total, self.options.memtable_bytes, memtables, metadata);
        shares.cache_bytes = shares.cache_bytes.min(self.cache_bytes_max.load(Ordering::Relaxed));
        self.shares.store(Arc::new(shares));
        self.caches.set_budget(usize::try_from(shares.cache_bytes).unwrap_or(usize::MAX));
    }

    /// Bytes in the memtables of all keyspaces.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        let of_tree =
            |tree: &Arc<Tree>| tree.view().memtables().map(|m| m.charge() as u64).sum::<u64>();
        self.trees.load().values().map(of_tree).sum()
    }

    /// Tells waiting writers that a background job has ended.
    pub(crate) fn signal_progress(&self) {
        *self.progress.0.lock() += 1;
        self.progress.1.notify_all();
    }

    /// Removes the files of tables that nobody reads any more.
    pub(crate) fn empty_trash(&self) {
        let dead = self.trash.take();
        if dead.is_empty() {
            return;
        }
        self.blocks.evict_tables(&|table| dead.contains(&table));
        for id in dead {
            // What cannot be removed now is removed at the next opening.
            if let Err(error) = self.storage.remove(&table_path(&self.directory, id)) {
                tracing::warn!(%error, "a table that is not needed any more stays behind");
            }
        }
    }
}

/// Opens a table file and holds it against what the manifest says.
pub(crate) fn open_table(
    storage: &dyn Storage,
    directory: &std::path::Path,
    access: Access,
    meta: TableMeta,
    trash: &Arc<ObsoleteTables>,
) -> Result<Arc<TableHandle>> {
    let path = table_path(directory, meta.id);
    let file = storage.open_read(&path, access).map_err(|error| match error.kind() {
        tidekv_io::ErrorKind::NotFound => {
            Error::corrupt(&path, "the manifest names it, but it is missing")
        }
        _ => error.into(),
    })?;
    let bytes = file.len()?;
    if bytes != meta.bytes {
        let what = format!("it has {bytes} bytes, but the manifest says {}", meta.bytes);
        return Err(Error::corrupt(&path, what));
    }
    let table = Table::open(file, meta.id)?;
    Ok(Arc::new(TableHandle::new(meta, Arc::new(table), Arc::clone(trash))))
}
