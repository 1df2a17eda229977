//! Explicit flushes and syncs: memtables are written to tables, the log is made durable.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::Result;
use crate::version::tree::Tree;
use crate::write::rotation::LogEnds;

impl Engine {
    /// Writes the memtables of `trees` to tables.
    pub(crate) fn flush(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let _gate = self.enter()?;
        self.queue.exclusive(|| self.rotate(trees, LogEnds::Now))?;
        self.wait_for_flush(trees)
    }

    /// Makes every acknowledged write durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let _gate = self.enter()?;
        self.queue.exclusive(|| match self.logs.lock().as_mut() {
            Some(logs) => {
                self.stats.log_syncs.add(1);
                logs.current.sync()
            }
            None => Ok(()),
        })
    }

    /// Makes the writes so far durable, before a manifest change that is newer than they are. Only
    /// while leading.
    pub(crate) fn make_log_durable(&self) -> Result<()> {
        if let Some(logs) = self.logs.lock().as_mut() {
            // A write that was reported as failed may be complete in the torn tail, and recovery
            // would replay it over the change.
            if !logs.current.is_open() {
                self.logs.switch_log(logs, &self.trees, &self.memory)?;
            }
            self.stats.log_syncs.add(1);
            logs.current.sync()?;
        }
        Ok(())
    }
}
