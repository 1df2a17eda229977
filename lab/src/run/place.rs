//! The directories of a run: rows and turns in the given one, stores in another one, which may be
//! removed at any time.
#![allow(
    clippy::disallowed_methods,
    reason = "copies and removes stores that are closed, from outside"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Rows of measured points and of targets, for reports.
pub(crate) const ROWS: &str = "rows.jsonl";
/// The result of every single turn, from which a run resumes.
pub(crate) const TURNS: &str = "turns.jsonl";

/// The directories of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunDirectories {
    out: PathBuf,
    stores: PathBuf,
}

impl RunDirectories {
    /// Results in `out`, stores in `stores`; both are created.
    pub(crate) fn new(out: &Path, stores: Option<&Path>) -> Result<Self> {
        let stores = stores.map_or_else(|| out.join("stores"), Path::to_owned);
        let place = Self { out: out.to_owned(), stores };
        for directory in [&place.out, &place.stores] {
            fs::create_dir_all(directory).map_err(|e| could_not("create", directory, e))?;
        }
        Ok(place)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// The directory of the store `name` of subjects with `format`.
    pub(crate) fn store(&self, format: &str, name: &str) -> PathBuf {
        self.stores.join(format!("{format}-{name}"))
    }

    /// The commit that built a store, if it is complete.
    pub(crate) fn built_by(&self, store: &Path) -> Option<String> {
        fs::read_to_string(marker(store)).ok()
    }

    /// Marks a store as complete.
    pub(crate) fn mark_built(&self, store: &Path, commit: &str) -> Result<()> {
        let path = marker(store);
        fs::write(&path, commit).map_err(|e| could_not("write", &path, e))
    }

    /// An empty directory at `path`.
    pub(crate) fn clear(&self, path: &Path) -> Result<()> {
        self.remove(path)?;
        fs::create_dir_all(path).map_err(|e| could_not("create", path, e))
    }

    /// Removes a store, if it exists.
    pub(crate) fn remove(&self, path: &Path) -> Result<()> {
        for gone in [fs::remove_file(marker(path)), fs::remove_dir_all(path)] {
            match gone {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(could_not("remove", path, e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The directory in which a turn modifies a store; turns of other slots have others.
    pub(crate) fn scratch(&self, slot: usize) -> PathBuf {
        self.stores.join(format!("turn-{slot}"))
    }
}

/// Outside of the store, which would report an unknown file.
fn marker(store: &Path) -> PathBuf {
    store.with_extension("built")
}

fn could_not(what: &str, path: &Path, error: io::Error) -> Failure {
    Failure::system(format!("could not {what} {}", path.display()), error)
}

/// Copies the directory `from` to `to`, which must not exist.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|e| could_not("create", to, e))?;
    for entry in fs::read_dir(from).map_err(|e| could_not("list", from, e))? {
        let entry = entry.map_err(|e| could_not("list", from, e))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|e| could_not("look at", &path, e))?;
        if kind.is_dir() {
            copy_directory(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(|e| could_not("copy", &path, e))?;
        }
    }
    Ok(())
}

/// Distinguishes builds of this binary: results of another one are not resumed.
pub(crate) fn build_of_this_binary() -> String {
    let metadata = std::env::current_exe().and_then(fs::metadata);
    let Ok(metadata) = metadata else { return "unknown".into() };
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{:x}-{:x}", metadata.len(), since.map_or(0, |since| since.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_complete_once_it_is_marked() {
        let directory = tempfile::tempdir().unwrap();
        let place = RunDirectories::new(&directory.path().join("out"), None).unwrap();
        let store = place.store("tidekv", "10x100");
        place.clear(&store).unwrap();
        fs::create_dir(store.join("inner")).unwrap();
        fs::write(store.join("inner/file"), "content").unwrap();
        assert_eq!(place.built_by(&store), None);
        place.mark_built(&store, "abc").unwrap();
        assert_eq!(place.built_by(&store).as_deref(), Some("abc"));

        copy_directory(&store, &place.scratch(0)).unwrap();
        assert_eq!(fs::read(place.scratch(0).join("inner/file")).unwrap(), b"content");

        place.clear(&store).unwrap();
        assert_eq!(place.built_by(&store), None);
        assert!(fs::read_dir(&store).unwrap().next().is_none());
        place.remove(&store).unwrap();
        place.remove(&store).unwrap();
    }
}
