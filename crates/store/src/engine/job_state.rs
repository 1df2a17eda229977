//! Whether the store is open, which jobs run in the background, and their outcomes.
//!
//! Guarantee: a compaction is counted under `structure`, with its pick, and only while the store is
//! open. So a thread that marks the store closed and then takes that lock once sees every job that
//! will ever run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::compaction::idle::IdleCompaction;
use crate::compaction::reclaim_watch::ReclaimWatch;
use crate::error::{Error, ErrorKind, Result};
use crate::sst::seeks::SeekWork;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::version::tree::Tree;

/// A thread that waits for a background job checks the state at least this often, even if no job
/// has ended.
const POLL: Duration = Duration::from_millis(20);

/// The kind of job whose outcome is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JobKind {
    Flush,
    Compaction,
    /// Triggered by seeks of scans: writes do not depend on it.
    SeekCompaction,
    /// Run while the store is idle: writes do not depend on it.
    IdleCompaction,
    /// Gives the space of dead data back: writes do not depend on it.
    SpaceCompaction,
    /// Drops tables of which no reader needs anything: writes do not depend on it.
    TableDrop,
}

impl std::fmt::Display for JobKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::SeekCompaction => "compaction for scans",
            Self::IdleCompaction => "idle compaction",
            Self::SpaceCompaction => "compaction for space",
            Self::TableDrop => "drop of tables",
        })
    }
}

/// Why the last flush and compaction of a keyspace failed, by keyspace id. An entry is removed when
/// a later job of the same kind succeeds for the keyspace, or when the keyspace is dropped.
#[derive(Debug, Default)]
struct BackgroundErrors {
    flush: BTreeMap<u32, Error>,
    /// How many flushes have failed since the store was opened.
    flush_failures: u64,
    compaction: BTreeMap<u32, Error>,
}

/// The jobs of an open store.
#[derive(Debug)]
pub(crate) struct JobState {
    is_closed: AtomicBool,
    /// A job has panicked and left its state unknown.
    has_panicked: AtomicBool,
    /// Why the store accepts no writes although it is open.
    write_refusal: std::sync::OnceLock<Error>,
    /// Held for reading by user threads that change files, for writing by the thread that closes
    /// the store.
    gate: RwLock<()>,
    errors: Mutex<BackgroundErrors>,
    compactions_running: AtomicUsize,
    flushes_running: AtomicUsize,
    /// The number of entries in the hot list that have not been restored yet; 0 without a list.
    hot_list_names: AtomicUsize,
    idle: IdleCompaction,
    /// When to look for dead data.
    reclaim: ReclaimWatch,
    /// The merges that the seeks of scans have paid for.
    seek_work: Arc<SeekWork>,
    /// The number of jobs that have ended.
    progress: Mutex<u64>,
    /// Signalled when a job has ended.
    ended: Condvar,
}

/// The error of work that has panicked.
pub(crate) fn panicked() -> Error {
    let what = "background work panicked, which is a bug: reopen the store";
    Error::new(ErrorKind::Storage, what)
}

impl JobState {
    /// The state of an open store without jobs; scans report their seeks to `seek_work`.
    pub(crate) fn new(seek_work: Arc<SeekWork>) -> Self {
        Self {
            is_closed: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
            write_refusal: std::sync::OnceLock::new(),
            gate: RwLock::new(()),
            errors: Mutex::default(),
            compactions_running: AtomicUsize::new(0),
            flushes_running: AtomicUsize::new(0),
            hot_list_names: AtomicUsize::new(0),
            idle: IdleCompaction::default(),
            reclaim: ReclaimWatch::default(),
            seek_work,
            progress: Mutex::new(0),
            ended: Condvar::new(),
        }
    }

    // ---- Open and closed ----

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Fails if the store is closed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the store is closed"));
        }
        Ok(())
    }

    /// Lets no write begin any more; the first reason stays.
    pub(crate) fn refuse_writes(&self, reason: Error) {
        let _ = self.write_refusal.set(reason);
    }

    /// Why writes are refused.
    #[inline]
    pub(crate) fn write_refusal(&self) -> Option<&Error> {
        self.write_refusal.get()
    }

    /// Refuses writes after a job has panicked, and wakes the threads that wait for it.
    pub(crate) fn note_panic(&self, reason: Error) {
        self.refuse_writes(reason);
        self.has_panicked.store(true, Ordering::Release);
        self.signal_progress();
    }

    /// Whether a job has panicked: it may stay counted as running.
    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::Acquire)
    }

    /// Prevents new jobs from starting; returns whether the store was open.
    pub(crate) fn mark_closed(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }

    /// Keeps the store open until the guard is dropped. A thread must not enter twice.
    pub(crate) fn enter_gate(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// The same for a job, which must not wait for the gate; `None` if the store is being closed.
    pub(crate) fn try_enter_gate(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.gate.try_read().filter(|_| !self.is_closed())
    }

    /// Waits until no thread is inside the gate, and admits none from then on.
    pub(crate) fn shut_gate(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    // ---- Outcomes ----

    /// Records the outcome of a job of `tree`, unless the keyspace was dropped meanwhile.
    pub(crate) fn note_outcome(&self, job: JobKind, tree: &Tree, outcome: &Result<()>) {
        let mut errors = self.errors.lock();
        // Under the lock, so that `forget_errors` follows if this is too early.
        if tree.is_dropped() {
            return;
        }
        let of_kind = match job {
            JobKind::Flush => &mut errors.flush,
            JobKind::Compaction => &mut errors.compaction,
            JobKind::SeekCompaction
            | JobKind::IdleCompaction
            | JobKind::SpaceCompaction
            | JobKind::TableDrop => return,
        };
        match outcome {
            Ok(()) => of_kind.remove(&tree.id),
            Err(error) => of_kind.insert(tree.id, error.clone()),
        };
        errors.flush_failures += u64::from(matches!(job, JobKind::Flush) && outcome.is_err());
    }

    /// Forgets why jobs of a dropped keyspace failed.
    pub(crate) fn forget_errors(&self, tree: u32) {
        let mut errors = self.errors.lock();
        errors.flush.remove(&tree);
        errors.compaction.remove(&tree);
    }

    /// Forgets that a flush of the keyspace has failed: another has written its memtables, or it is
    /// tried again under other conditions.
    pub(crate) fn forget_flush_failure(&self, tree: u32) {
        self.errors.lock().flush.remove(&tree);
    }

    /// Forgets that a compaction of the keyspace has failed: another has succeeded, or none is
    /// needed any more.
    pub(crate) fn forget_compaction_failure(&self, tree: u32) {
        self.errors.lock().compaction.remove(&tree);
    }

    /// The number of flushes that have failed since the store was opened.
    pub(crate) fn flush_failures(&self) -> u64 {
        self.errors.lock().flush_failures
    }

    /// Why the last flush of one of `trees` failed, if it did and more than `before` flushes have
    /// failed.
    pub(crate) fn flush_error_since(&self, before: u64, trees: &[Arc<Tree>]) -> Option<Error> {
        let errors = self.errors.lock();
        let of_tree = |tree: &Arc<Tree>| errors.flush.get(&tree.id).cloned();
        if errors.flush_failures > before { trees.iter().find_map(of_tree) } else { None }
    }

    pub(crate) fn has_flush_failed(&self, tree: &Tree) -> bool {
        self.errors.lock().flush.contains_key(&tree.id)
    }

    pub(crate) fn has_compaction_failed(&self) -> bool {
        !self.errors.lock().compaction.is_empty()
    }

    /// Why background work makes no progress, if it makes none.
    pub(crate) fn background_failure(&self) -> Result<()> {
        let errors = self.errors.lock();
        let mut all = errors.flush.values().chain(errors.compaction.values());
        match all.next() {
            None => Ok(()),
            Some(error) => Err(error.context("writes wait for background work, which failed")),
        }
    }

    // ---- Running jobs ----

    pub(crate) fn compactions_running(&self) -> usize {
        self.compactions_running.load(Ordering::Acquire)
    }

    /// Counts a compaction that was picked. The caller holds `structure`.
    pub(crate) fn compaction_begins(&self) {
        self.compactions_running.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn compaction_ends(&self) {
        self.compactions_running.fetch_sub(1, Ordering::AcqRel);
    }

    /// The number of keyspaces that have a flush queued or running, dropped ones included.
    pub(crate) fn flushes_running(&self) -> usize {
        self.flushes_running.load(Ordering::Acquire)
    }

    pub(crate) fn flush_begins(&self) {
        self.flushes_running.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn flush_ends(&self) {
        self.flushes_running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Detects when writers are idle.
    pub(crate) fn idle(&self) -> &IdleCompaction {
        &self.idle
    }

    /// When to look for dead data.
    pub(crate) fn reclaim(&self) -> &ReclaimWatch {
        &self.reclaim
    }

    /// The merges that the seeks of scans have paid for.
    pub(crate) fn seek_work(&self) -> &SeekWork {
        &self.seek_work
    }

    /// The number of entries in the hot list that have not been restored yet; 0 without a list.
    pub(crate) fn hot_list_names(&self) -> usize {
        self.hot_list_names.load(Ordering::Acquire)
    }

    pub(crate) fn set_hot_list_names(&self, names: usize) {
        self.hot_list_names.store(names, Ordering::Release);
    }

    // ---- Waiting ----

    /// The number of background jobs that have ended.
    pub(crate) fn progress(&self) -> u64 {
        *self.progress.lock()
    }

    /// Wakes the threads that wait for a background job to end.
    pub(crate) fn signal_progress(&self) {
        *self.progress.lock() += 1;
        self.ended.notify_all();
    }

    /// Waits until a background job ends, unless one has ended since `seen` was read.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        let mut progress = self.progress.lock();
        if *progress == seen {
            self.ended.wait_for(&mut progress, POLL);
        }
    }
}
