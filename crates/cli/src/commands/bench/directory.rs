//! The directory of a benchmark: a new or an empty one, which is removed or emptied afterwards.
//!
//! The benchmark removes only its own files: it rejects a directory that is not empty at the
//! start.

#![allow(
    clippy::disallowed_methods,
    reason = "a directory that the command creates and removes: no simulation runs over it"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The directory; dropping it removes its content.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    was_there: bool,
    is_removed: bool,
}

impl Directory {
    /// Creates the directory `given`, or uses it if it is empty. Without `given` it creates one in
    /// the current directory.
    pub fn new(given: Option<&Path>) -> Result<Self> {
        let own = || PathBuf::from(format!("tidekv-bench-{}", std::process::id()));
        let path = given.map_or_else(own, Path::to_path_buf);
        let failed = |what: &str, error: &io::Error| {
            Failure::system(format!("could not {what} {}", path.display()), error)
        };
        let was_there = match fs::create_dir(&path) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => true,
            Err(error) => return Err(failed("create", &error)),
        };
        if was_there {
            let mut entries = fs::read_dir(&path).map_err(|error| failed("list", &error))?;
            if entries.next().is_some() {
                return Err(Failure::new(format!(
                    "{} is not empty: use a missing or an empty directory; bench removes its \
                     content at the end",
                    path.display()
                )));
            }
        }
        Ok(Self { path, was_there, is_removed: false })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, or its content if it was there before.
    pub fn remove(mut self) -> Result<()> {
        self.clear().map_err(|error| {
            Failure::system(format!("could not remove {}", self.path.display()), &error)
        })
    }

    fn clear(&mut self) -> io::Result<()> {
        self.is_removed = true;
        if !self.was_there {
            return fs::remove_dir_all(&self.path);
        }
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_removed {
            // The command is failing already and reports its own error.
            let _ = self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_is_removed_and_an_empty_one_is_emptied() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("bench");
        let write = || fs::create_dir(path.join("inner")).and(fs::write(path.join("file"), "x"));
        let directory = Directory::new(Some(&path)).unwrap();
        write().unwrap();
        directory.remove().unwrap();
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        let directory = Directory::new(Some(&path)).unwrap();
        write().unwrap();
        drop(directory);
        assert!(fs::read_dir(&path).unwrap().next().is_none());
    }

    #[test]
    fn a_directory_with_a_file_is_rejected_and_unchanged() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("file"), "x").unwrap();
        let refused = Directory::new(Some(parent.path())).unwrap_err();
        assert!(refused.message.contains("is not empty"), "{refused:?}");
        assert_eq!(fs::read(parent.path().join("file")).unwrap(), b"x");
        // A file is not a directory.
        assert!(Directory::new(Some(&parent.path().join("file"))).is_err());
        assert!(Directory::new(Some(&parent.path().join("none/bench"))).is_err());
    }
}
