//! Checkpoints: an independent store that shares its tables with this one.

use std::path::Path;
use std::sync::Arc;

use tidekv_io::{Access, AppendFile};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::files::{CLOCK, table_path};
use crate::lifecycle::recovery::create_directory;
use crate::version::manifest::file::write_new;
use crate::wal::LogPosition;
use crate::write::rotation::LogEnds;

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

impl Engine {
    /// Gives the file `from` a second name, or, on another file system, copies it.
    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        match self.storage.hard_link(from, to) {
            Err(error) if error.kind() == tidekv_io::ErrorKind::Unsupported => {}
            linked => return Ok(linked?),
        }
        let source = self.storage.open_read(from, Access::Buffered)?;
        let copy = self.storage.create(to, Access::Buffered)?;
        let mut copy = AppendFile::new(copy, COPY_BYTES);
        let len = source.len()?;
        while copy.offset() < len {
            let bytes = COPY_BYTES.min((len - copy.offset()) as usize);
            copy.append(&source.read_at(copy.offset(), bytes)?)?;
        }
        copy.finish()?;
        Ok(())
    }

    /// Creates an independent store in `target` with the current contents of this one; tables are
    /// shared by hard links, or copied to another file system. Writers wait meanwhile.
    pub(crate) fn checkpoint(self: &Arc<Self>, target: &Path) -> Result<()> {
        let _gate = self.enter()?;
        if self.storage.exists(target)? {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("{} exists: give a directory that does not exist", target.display()),
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
            state.log_synced = LogPosition::default();
            state.keyspaces.values_mut().for_each(|keyspace| keyspace.flushed = last);
            // The versions keep their files alive until they are linked.
            let versions: Vec<_> = trees.iter().map(|tree| tree.version()).collect();
            Ok::<_, Error>((state, versions))
        })?;
        create_directory(&*self.storage, target, |parent| self.logs.names().sync_in(parent))?;
        for id in state.table_files() {
            self.link_or_copy(&table_path(&self.directory, id), &table_path(target, id))?;
        }
        let clock = self.storage.create(&target.join(CLOCK), Access::Buffered)?;
        clock.write_at(0, &self.clock.record().encode())?;
        clock.sync()?;
        self.logs.names().sync_in(target)?;
        write_new(&self.storage, target, state)
    }
}
