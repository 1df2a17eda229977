//! The part that all public objects of an open store share: the engine, which is closed when the
//! last of them is dropped.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::Result;

/// An open store; closed on drop.
#[derive(Debug)]
pub(crate) struct Handle {
    engine: Arc<Engine>,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Ends background work, makes the log durable and releases the lock. The contents of memtables
    /// stay in the log. Harmless when called twice.
    pub(crate) fn close(&self) -> Result<()> {
        let engine = &self.engine;
        if !engine.jobs.mark_closed() {
            return Ok(());
        }
        // Operations that hold the gate see that the store is closed and end.
        let _gate = engine.jobs.shut_gate();
        let finished = match engine.queue.is_broken() {
            // A write panicked: recovery cleans up after it.
            true => Ok(()),
            false => engine.queue.exclusive(|| engine.logs.finish_log(&engine.trees)),
        };
        engine.stop_background();
        if let Err(error) = engine.trees.resolve_drops_in_doubt() {
            tracing::warn!(%error, "it is unknown whether a keyspace was dropped");
        }
        if !engine.options.read_only
            && let Err(error) = engine.save_clock()
        {
            tracing::warn!(%error, "cannot save the time");
        }
        if finished.is_ok()
            && let Err(error) = engine.write_hot_list()
        {
            tracing::warn!(%error, "cannot save the hot list: the next start is cold");
        }
        if finished.is_ok()
            && let Err(error) = engine.write_filter_repairs()
        {
            tracing::warn!(%error, "cannot save the filter repairs");
        }
        engine.remove_obsolete_tables();
        // A job that panicked may have parts that still run in the program's executor: then the
        // directory stays locked until the last of them has released the engine.
        if engine.options.environment.executor.is_none() || !engine.jobs.has_panicked() {
            *engine.lock.lock() = None;
        }
        finished
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Jobs may continue for a moment; the directory stays locked until the last of them has
            // released the engine.
            self.engine.jobs.mark_closed();
            return;
        }
        if let Err(error) = self.close() {
            tracing::error!(%error, "the store was not closed cleanly");
        }
    }
}
