//! Whether the store is open, which jobs run in the background, and what became of them.
//!
//! Guarantee: a compaction is counted under `structure`, with its pick, and only while the store
//! is open. So who marks the store closed and takes that lock once sees every job that will
//! ever run.

use std::sync::Arc;
use std::time::Duration;

use crate::compaction::idle::IdleCompaction;
use crate::error::{Error, ErrorKind, Result};
use crate::sst::seeks::SeekWork;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Waiting for a background job, the state is looked at again this often even
/// if no job has ended.
const POLL: Duration = Duration::from_millis(20);

/// Whose outcome is noted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JobKind {
    Flush,
    Compaction,
    /// For the seeks of scans: writes do not depend on it.
    SeekCompaction,
    /// While the store is idle: writes do not depend on it.
    IdleCompaction,
}

impl std::fmt::Display for JobKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::SeekCompaction => "compaction for scans",
            Self::IdleCompaction => "idle compaction",
        })
    }
}

/// Why the last background jobs failed; `None` once one has succeeded.
#[derive(Debug, Default)]
struct BackgroundErrors {
    flush: Option<Error>,
    /// How many flushes have failed since the store was opened.
    flush_failures: u64,
    compaction: Option<Error>,
}

/// The jobs of an open store.
#[derive(Debug)]
pub(crate) struct JobState {
    is_closed: AtomicBool,
    /// Held for reading by whatever changes files in a user's thread, for
    /// writing by the closing of the store.
    gate: RwLock<()>,
    errors: Mutex<BackgroundErrors>,
    compactions_running: AtomicUsize,
    flushes_running: AtomicUsize,
    /// How much the list of what was hot names that has not been gone through; 0: there is
    /// none.
    hot_list_names: AtomicUsize,
    idle: IdleCompaction,
    /// What merges the seeks of scans have paid for.
    seek_work: Arc<SeekWork>,
    /// How many jobs have ended.
    progress: Mutex<u64>,
    /// Signalled when one more has.
    ended: Condvar,
}

impl JobState {
    /// Of an open store without jobs, whose reads for seeks are told to `seek_work`.
    pub(crate) fn new(seek_work: Arc<SeekWork>) -> Self {
        Self {
            is_closed: AtomicBool::new(false),
            gate: RwLock::new(()),
            errors: Mutex::default(),
            compactions_running: AtomicUsize::new(0),
            flushes_running: AtomicUsize::new(0),
            hot_list_names: AtomicUsize::new(0),
            idle: IdleCompaction::default(),
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

    /// Fails when the store was closed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the store is closed"));
        }
        Ok(())
    }

    /// No job begins from here on; whether the store was open.
    pub(crate) fn mark_closed(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }

    /// Keeps the store open until the guard is dropped. Not to be entered twice by one thread.
    pub(crate) fn enter_gate(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Waits until nobody is behind the gate, and lets nobody in.
    pub(crate) fn shut_gate(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    // ---- Outcomes ----

    /// Remembers what became of a job.
    pub(crate) fn note_outcome(&self, job: JobKind, outcome: &Result<()>) {
        let mut errors = self.errors.lock();
        let slot = match job {
            JobKind::Flush => &mut errors.flush,
            JobKind::Compaction => &mut errors.compaction,
            JobKind::SeekCompaction | JobKind::IdleCompaction => return,
        };
        *slot = outcome.clone().err();
        errors.flush_failures += u64::from(matches!(job, JobKind::Flush) && outcome.is_err());
    }

    /// How many flushes have failed since the store was opened.
    pub(crate) fn flush_failures(&self) -> u64 {
        self.errors.lock().flush_failures
    }

    /// Why the last flush failed, if it did, and more than `before` have.
    pub(crate) fn flush_error_since(&self, before: u64) -> Option<Error> {
        let errors = self.errors.lock();
        errors.flush.clone().filter(|_| errors.flush_failures > before)
    }

    pub(crate) fn has_flush_failed(&self) -> bool {
        self.errors.lock().flush.is_some()
    }

    pub(crate) fn has_compaction_failed(&self) -> bool {
        self.errors.lock().compaction.is_some()
    }

    /// Why background work does not get on, if it does not.
    pub(crate) fn background_failure(&self) -> Result<()> {
        let errors = self.errors.lock();
        match errors.flush.as_ref().or(errors.compaction.as_ref()) {
            None => Ok(()),
            Some(error) => Err(error.context("writes wait for background work, which failed")),
        }
    }

    // ---- Jobs under way ----

    pub(crate) fn compactions_running(&self) -> usize {
        self.compactions_running.load(Ordering::Acquire)
    }

    /// One more was picked. Under `structure`.
    pub(crate) fn compaction_begins(&self) {
        self.compactions_running.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn compaction_ends(&self) {
        self.compactions_running.fetch_sub(1, Ordering::AcqRel);
    }

    /// How many keyspaces have a flush queued or running, of dropped ones too.
    pub(crate) fn flushes_running(&self) -> usize {
        self.flushes_running.load(Ordering::Acquire)
    }

    pub(crate) fn flush_begins(&self) {
        self.flushes_running.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn flush_ends(&self) {
        self.flushes_running.fetch_sub(1, Ordering::AcqRel);
    }

    /// When writers rest.
    pub(crate) fn idle(&self) -> &IdleCompaction {
        &self.idle
    }

    /// What merges the seeks of scans have paid for.
    pub(crate) fn seek_work(&self) -> &SeekWork {
        &self.seek_work
    }

    /// How much the list of what was hot names that has not been gone through; 0: there is
    /// none.
    pub(crate) fn hot_list_names(&self) -> usize {
        self.hot_list_names.load(Ordering::Acquire)
    }

    pub(crate) fn set_hot_list_names(&self, names: usize) {
        self.hot_list_names.store(names, Ordering::Release);
    }

    // ---- Waiting ----

    /// How many background jobs have ended.
    pub(crate) fn progress(&self) -> u64 {
        *self.progress.lock()
    }

    /// Tells waiting threads that a background job has ended.
    pub(crate) fn signal_progress(&self) {
        *self.progress.lock() += 1;
        self.ended.notify_all();
    }

    /// Waits until a background job has ended after `seen` was read.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        let mut progress = self.progress.lock();
        if *progress == seen {
            self.ended.wait_for(&mut progress, POLL);
        }
    }
}
