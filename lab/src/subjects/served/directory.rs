//! A directory for sockets and for a cache's flash, removed on drop. A process has one at a time.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// A directory.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    #[expect(clippy::disallowed_methods, reason = "nothing in it outlives this process")]
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tidekv-lab-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| {
            Failure::system(format!("could not create {}", path.display()), error)
        })?;
        Ok(Self(path))
    }

    /// An empty directory in it.
    #[expect(clippy::disallowed_methods, reason = "nothing in it outlives this process")]
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::create_dir(&path).map_err(|error| {
            Failure::system(format!("could not create {}", path.display()), error)
        })?;
        Ok(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    #[expect(clippy::disallowed_methods, reason = "nothing in it outlives this process")]
    fn drop(&mut self) {
        // A failure leaves only unneeded files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
