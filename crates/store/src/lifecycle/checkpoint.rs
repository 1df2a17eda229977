//! Checkpoints: an independent store that shares its tables with this one.

use std::path::Path;
use std::sync::Arc;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::files::table_path;
use crate::lifecycle::recovery::create_directory;
use crate::version::manifest::file::write_new;
use crate::wal::LogPosition;
use crate::write::LogEnds;

impl Engine {
    /// Creates an independent store in `target` with the current contents of this one; tables are
    /// shared by hard links. Writers wait meanwhile.
    pub(crate) fn checkpoint(self: &Arc<Self>, target: &Path) -> Result<()> {
        let _gate = self.enter()?;
        if self.storage.exists(target)? && !self.storage.list(target)?.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("{} is not empty: give a directory that does not exist", target.display()),
            ));
        }
        let (state, _keep) = self.queue.exclusive(|| {
            let trees = self.trees.all();
            self.rotate(&trees, LogEnds::Now)?;
            self.wait_for_flush(&trees)?;
            let structure = self.trees.structure();
            let mut state = structure.manifest.state().clone();
            let last = self.snapshots.last_sequence();
            state.last_sequence = last;
            state.min_log = 0;
            state.log_passed = LogPosition::default();
            state.keyspaces.values_mut().for_each(|keyspace| keyspace.flushed = last);
            // The versions keep their files alive until they are linked.
            let versions: Vec<_> = trees.iter().map(|tree| tree.version()).collect();
            Ok::<_, Error>((state, versions))
        })?;
        create_directory(&*self.storage, target, |parent| self.logs.names().sync_in(parent))?;
        for id in state.table_ids() {
            self.storage.hard_link(&table_path(&self.directory, id), &table_path(target, id))?;
        }
        self.logs.names().sync_in(target)?;
        write_new(&self.storage, target, state)
    }
}
