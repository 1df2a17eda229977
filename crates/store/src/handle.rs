//! What every public object of an open store holds: the engine, and the duty
//! to close it when the last of them goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tidekv_io::Lock;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::tree::Tree;

/// Waiting for a background job, the state is looked at again this often even
/// if no job has ended.
const POLL: Duration = Duration::from_millis(20);

/// An open store; closed on drop.
#[derive(Debug)]
pub(crate) struct Handle {
    engine: Arc<Engine>,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>, lock: Option<Box<dyn Lock>>) -> Self {
        Self { engine, lock: Mutex::new(lock) }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Ends background work, makes the log durable and gives up the lock. What
    /// is in memtables stays in the log. Harmless when called twice.
    pub(crate) fn close(&self) -> Result<()> {
        let engine = &self.engine;
        if engine.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Operations that hold the gate see that the store is closed and end.
        let _gate = engine.gate.write();
        let finished = match engine.queue.is_broken() {
            // A write panicked: what it left is for recovery to sort out.
            true => Ok(()),
            false => engine.queue.exclusive(|| engine.finish_log()),
        };
        engine.stop_background();
        engine.empty_trash();
        *self.lock.lock() = None;
        finished
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Err(error) = self.close() {
            tracing::error!(%error, "the store was not closed cleanly");
        }
    }
}

impl Engine {
    fn finish_log(&self) -> Result<()> {
        let mut logs = self.logs.lock();
        let Some(logs) = logs.as_mut() else { return Ok(()) };
        let number =
            *logs.successor.get_or_insert_with(|| self.structure.lock().manifest.allocate_file());
        logs.current.finish(number)
    }

    /// Waits for the jobs that run and lets no more begin.
    pub(crate) fn stop_background(&self) {
        if self.options.environment.executor.is_none() {
            self.executor.shutdown();
            return;
        }
        let is_busy = || {
            self.compactions_running.load(Ordering::Acquire) > 0
                || self.trees.load().values().any(|tree| tree.is_flushing.load(Ordering::Acquire))
        };
        while is_busy() {
            let seen = *self.progress.0.lock();
            self.wait_for_progress(seen);
        }
    }

    /// Waits until a background job has ended after `seen` was read.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        let mut progress = self.progress.0.lock();
        if *progress == seen {
            self.progress.1.wait_for(&mut progress, POLL);
        }
    }

    /// Waits until nothing of `trees` waits for its flush; fails when a flush
    /// fails meanwhile.
    pub(crate) fn wait_for_flush(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let failures_before = self.background_errors.lock().flush_failures;
        loop {
            let seen = *self.progress.0.lock();
            let Some(waiting) = trees.iter().find(|tree| !tree.view().immutables.is_empty()) else {
                return Ok(());
            };
            self.check_open()?;
            self.schedule_flush(waiting);
            {
                let errors = self.background_errors.lock();
                if let (true, Some(error)) =
                    (errors.flush_failures > failures_before, &errors.flush)
                {
                    return Err(flush_failed(error));
                }
            }
            self.wait_for_progress(seen);
        }
    }
}

fn flush_failed(error: &Error) -> Error {
    error.context("the flush failed")
}
