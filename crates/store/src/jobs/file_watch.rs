//! Notices when somebody removes files of an open store.
//!
//! Guarantees: within seconds after `CURRENT`, the manifest, a table or a log was removed from the
//! directory, the store refuses writes and says why: they would be lost at the next opening. Reads go
//! on; the tables that are open are still there for this process.
//!
//! Relies on: a file is needed from the moment when it is named by the manifest or begun as a log, and
//! is removed by the store only when it is no longer needed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::files::{CURRENT, log_name, manifest_name, table_name};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// A look at a large directory takes at most one part in this many of the time.
const EFFORT: u32 = 100;

impl Engine {
    /// Begins to look regularly, while the executor has time.
    pub(crate) fn begin_file_watch(self: &Arc<Self>) {
        self.repeat(INTERVAL, |engine| {
            let began_ns = engine.clock.monotonic_ns();
            engine.run_job(|| engine.look_for_files());
            let took = engine.clock.monotonic_ns().saturating_sub(began_ns);
            let rest = Duration::from_nanos(took).saturating_mul(EFFORT);
            engine.jobs.write_refusal().is_none().then(|| rest.max(INTERVAL))
        });
    }

    /// Looks once, and refuses writes from now on if a file is missing.
    pub(crate) fn look_for_files(&self) {
        match self.missing_file() {
            Ok(None) => {}
            Ok(Some(missing)) => {
                let missing = missing.display();
                let what = format!(
                    "{missing} was removed while the store was open: writes are refused, because \
                     they would be lost; restore it and reopen the store"
                );
                tracing::error!("{what}");
                self.jobs.refuse_writes(Error::new(ErrorKind::Storage, what));
            }
            // What cannot be listed now may be listed the next time.
            Err(error) => {
                tracing::warn!(%error, "the directory of the store cannot be listed");
                self.stats.background_errors.add(1);
            }
        }
    }

    /// A file that the store needs, and that is not in its directory.
    fn missing_file(&self) -> Result<Option<PathBuf>> {
        let before = self.needed_files();
        let found: HashSet<String> = match self.storage.list(&self.directory) {
            Ok(entries) => entries.into_iter().map(|entry| entry.name).collect(),
            Err(error) if error.kind() == tidekv_io::ErrorKind::NotFound => HashSet::new(),
            Err(error) => return Err(error.into()),
        };
        let mut missing = before.into_iter().filter(|name| !found.contains(name)).peekable();
        if missing.peek().is_none() {
            return Ok(None);
        }
        // Others may have become obsolete meanwhile.
        let now: HashSet<String> = self.needed_files().into_iter().collect();
        Ok(missing.find(|name| now.contains(name)).map(|name| self.directory.join(name)))
    }

    /// The names of the files without which the store cannot be opened again, or loses writes.
    fn needed_files(&self) -> Vec<String> {
        let mut names = vec![CURRENT.to_owned()];
        names.extend(self.logs.numbers().into_iter().map(log_name));
        let structure = self.trees.structure();
        names.extend(structure.manifest.file_number().map(manifest_name));
        let tables = structure.manifest.state().table_files();
        names.extend(tables.into_iter().map(table_name));
        names
    }
}
