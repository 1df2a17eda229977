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
            Some(logs) => logs.current.sync(),
            None => Ok(()),
        })
    }
}
