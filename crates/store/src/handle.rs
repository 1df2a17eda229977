//! What every public object of an open store holds: the engine, and the duty
//! to close it when the last of them goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tidekv_io::Lock;

use crate::engine::Engine;
use crate::error::Result;

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
