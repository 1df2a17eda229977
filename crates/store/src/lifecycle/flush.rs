//! What a user asks to be kept: memtables brought into tables, the log made durable.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::Result;
use crate::version::tree::Tree;
use crate::write::LogEnds;

impl Engine {
    /// Brings what `trees` hold in memory into tables.
    pub(crate) fn flush(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let _gate = self.enter()?;
        self.queue.exclusive(|| self.rotate(trees, LogEnds::Now))?;
        self.wait_for_flush(trees)
    }

    /// Makes everything acknowledged durable.
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

    /// Makes the writes so far durable, before a change of the manifest that is newer than they are.
    /// Only while leading.
    pub(crate) fn make_log_durable(&self) -> Result<()> {
        if let Some(logs) = self.logs.lock().as_mut() {
            // A write that was reported as failed may be whole where the log is torn, and would
            // come back over the change.
            if !logs.current.is_open() {
                self.logs.switch_log(logs, &self.trees, &self.memory)?;
            }
            self.stats.log_syncs.add(1);
            logs.current.sync()?;
        }
        Ok(())
    }
}
