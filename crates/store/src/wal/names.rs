//! File names in a store's directory and in those of its checkpoints, and how they become durable.
//!
//! Guarantee: after a sync of a directory has failed, every later sync of it fails too, without a
//! system call, until the store is reopened. The system may have dropped any change of names made
//! before the failed sync, including one that another thread made meanwhile; a later successful
//! sync would wrongly confirm it. From then on, operations that need a new name in that directory
//! are refused: in the store's directory flushes, compactions and the next log; in another
//! directory a checkpoint. Reads continue, and so do writes to the current log.
//!
//! Reopening is sound: nothing that the manifest names or that was acknowledged depends on a name
//! whose sync failed, and recovery makes new names for the files that it writes. Syncs are
//! serialised, so that no sync that begins before a failed one ends can miss the failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidekv_io::Storage;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// The directory of a store, and other directories into which the store writes copies of itself.
#[derive(Debug)]
pub(crate) struct Names {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    /// The directories whose sync has failed, with the errors.
    lost: Mutex<BTreeMap<PathBuf, Error>>,
}

impl Names {
    pub(crate) fn new(storage: Arc<dyn Storage>, directory: &Path) -> Self {
        Self { storage, directory: directory.to_owned(), lost: Mutex::default() }
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The store's own directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Fails when a sync of the store's directory has failed; lets callers fail before they start
    /// work that needs another sync.
    pub(crate) fn check(&self) -> Result<()> {
        self.lost.lock().get(&self.directory).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Makes every change of names in the store's directory so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_in(&self.directory)
    }

    /// Makes every change of names in `directory` so far durable.
    pub(crate) fn sync_in(&self, directory: &Path) -> Result<()> {
        let mut lost = self.lost.lock();
        if let Some(error) = lost.get(directory) {
            return Err(error.clone());
        }
        self.storage.sync_dir(directory).map_err(|error| {
            let error = Error::new(
                ErrorKind::Storage,
                format!("{error}; names made since the last sync may be lost: reopen the store"),
            );
            lost.insert(directory.to_owned(), error.clone());
            error
        })
    }
}
