//! Checkpoints and compactions that clients ask for: `TIDE.CHECKPOINT`, `SAVE`, `BGSAVE` and
//! `TIDE.COMPACT`.
//!
//! Guarantees:
//! 1. Without a configured directory no client can make a checkpoint. With one, checkpoints are made
//!    below it only: no absolute path, no `..`, and no link that leads out of it.
//! 2. One checkpoint and one compaction at a time; a further one is refused at once.
//! 3. `SAVE` and `BGSAVE` replace the checkpoint [`SAVED`]: the one before stays until the new one is
//!    complete and has its name.
//!
//! The functions wait for storage: they are for I/O threads and a thread of their own.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the directory is the administrator's: the store does not know it"
)]

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidekv::Db;
use tidekv_io::threads;
use tidekv_net::error::{Error, Result};

use crate::protocol::reply::CommandError;

/// The checkpoint of `SAVE` and `BGSAVE`.
pub(crate) const SAVED: &str = "dump";
/// The one that is being made, and the one before, while both exist.
const UNFINISHED: &str = "dump.unfinished";
const PREVIOUS: &str = "dump.previous";

const OFF: CommandError = CommandError::text(
    "ERR checkpoints are off: start the server with a directory for them (--checkpoint-dir)",
);
const BUSY: CommandError = CommandError::text("ERR Background save already in progress");
const COMPACTING: CommandError = CommandError::text("ERR a compaction is already in progress");
const NAME: CommandError = CommandError::text(
    "ERR the name of a checkpoint is a path below the directory of checkpoints, without '..'",
);
const OUTSIDE: CommandError =
    CommandError::text("ERR the name leads out of the directory of checkpoints, or to nothing");

/// Makes checkpoints, one at a time.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    db: Db,
    /// Without links; `None`: checkpoints are off.
    directory: Option<PathBuf>,
    is_saving: Arc<AtomicBool>,
    is_compacting: Arc<AtomicBool>,
    saves: Mutex<Saves>,
}

/// What `INFO persistence` says. Times are seconds since 1970 on the machine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saves {
    /// The last success; at first the start of the server.
    pub(crate) last_save_s: u64,
    /// Whether the last one succeeded; true before the first.
    pub(crate) is_ok: bool,
    pub(crate) last_took_s: Option<u64>,
    /// When the one under way began.
    pub(crate) began_s: Option<u64>,
    /// Successes since the start.
    pub(crate) count: u64,
}

/// The right to work, until it is dropped.
#[derive(Debug)]
struct Turn(Arc<AtomicBool>);

impl Turn {
    fn take(flag: &Arc<AtomicBool>) -> Option<Self> {
        (!flag.swap(true, Ordering::AcqRel)).then(|| Self(Arc::clone(flag)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Checkpoints {
    /// Checkpoints of `db` below `directory`, which is created if missing.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created, or is in the store's own.
    pub(crate) fn new(db: Db, directory: Option<&Path>) -> Result<Self> {
        let directory = directory.map(|directory| prepare(directory, db.path())).transpose()?;
        let saves = Saves {
            last_save_s: now_s(&db),
            is_ok: true,
            last_took_s: None,
            began_s: None,
            count: 0,
        };
        Ok(Self {
            db,
            directory,
            is_saving: Arc::default(),
            is_compacting: Arc::default(),
            saves: Mutex::new(saves),
        })
    }

    /// The directory, if checkpoints are on.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// What is known of the saves.
    pub(crate) fn saves(&self) -> Saves {
        *self.saves.lock()
    }

    /// Makes the checkpoint `name`, which must not exist.
    pub(crate) fn make(&self, name: &[u8]) -> std::result::Result<(), CommandError> {
        let directory = self.directory.as_deref().ok_or(OFF)?;
        let target = below(directory, name)?;
        let _turn = Turn::take(&self.is_saving).ok_or(BUSY)?;
        self.record(|| Ok(self.db.checkpoint(&target)?))
    }

    /// `SAVE`.
    pub(crate) fn save(&self) -> std::result::Result<(), CommandError> {
        let directory = self.directory.as_deref().ok_or(OFF)?;
        let _turn = Turn::take(&self.is_saving).ok_or(BUSY)?;
        self.record(|| self.replace(directory))
    }

    /// `BGSAVE`: the same on a thread of its own.
    pub(crate) fn save_in_background(self: &Arc<Self>) -> std::result::Result<(), CommandError> {
        let directory = self.directory.clone().ok_or(OFF)?;
        // The thread takes the turn over, and drops it also if it cannot start.
        let turn = Turn::take(&self.is_saving).ok_or(BUSY)?;
        let checkpoints = Arc::clone(self);
        let save = move || {
            let _turn = turn;
            let saved = checkpoints.record(|| checkpoints.replace(&directory));
            if let Err(error) = saved {
                tracing::warn!(?error, "a background save failed");
            }
        };
        threads::spawn_behind("tide-save", save).map(drop).map_err(|error| {
            CommandError::from(format!("ERR Can't BGSAVE: no thread for it: {error}"))
        })
    }

    /// Runs a compaction, if there is no other one.
    pub(crate) fn compact(
        &self,
        work: impl FnOnce(&Db) -> std::result::Result<(), CommandError>,
    ) -> std::result::Result<(), CommandError> {
        let _turn = Turn::take(&self.is_compacting).ok_or(COMPACTING)?;
        work(&self.db)
    }

    /// Runs a save and records its outcome.
    fn record(
        &self,
        save: impl FnOnce() -> std::result::Result<(), CommandError>,
    ) -> std::result::Result<(), CommandError> {
        let began_s = now_s(&self.db);
        self.saves.lock().began_s = Some(began_s);
        let saved = save();
        let ended_s = now_s(&self.db);
        let mut saves = self.saves.lock();
        saves.began_s = None;
        saves.is_ok = saved.is_ok();
        saves.last_took_s = Some(ended_s.saturating_sub(began_s));
        if saved.is_ok() {
            // Of the moment that it holds.
            saves.last_save_s = began_s;
            saves.count += 1;
        }
        saved
    }

    /// Makes a checkpoint and gives it the name [`SAVED`].
    fn replace(&self, directory: &Path) -> std::result::Result<(), CommandError> {
        let failed = |what: &str, error: io::Error| {
            let path = directory.display();
            CommandError::from(format!("ERR could not {what} a checkpoint in {path}: {error}"))
        };
        let path = |name| directory.join(name);
        let (saved, unfinished, previous) = (path(SAVED), path(UNFINISHED), path(PREVIOUS));
        // A save that was interrupted between two renames left only the previous one.
        if !is_there(&saved) && is_there(&previous) {
            fs::rename(&previous, &saved).map_err(|error| failed("restore", error))?;
        }
        remove(&unfinished).map_err(|error| failed("remove", error))?;
        self.db.checkpoint(&unfinished)?;
        remove(&previous).map_err(|error| failed("remove", error))?;
        if is_there(&saved) {
            fs::rename(&saved, &previous).map_err(|error| failed("rename", error))?;
        }
        fs::rename(&unfinished, &saved).map_err(|error| failed("rename", error))?;
        sync(directory).map_err(|error| failed("sync", error))?;
        remove(&previous).map_err(|error| failed("remove", error))
    }
}

fn now_s(db: &Db) -> u64 {
    db.unix_ms().saturating_add_signed(db.clock_offset_ms()) / 1000
}

/// Creates the directory if it is missing, and returns its path without links.
fn prepare(directory: &Path, data: &Path) -> Result<PathBuf> {
    let failed = |error| {
        Error::unavailable(format!("the checkpoint directory {}", directory.display()), error)
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let found = fs::canonicalize(directory).map_err(failed)?;
    // The store may be on simulated storage, where this path is none.
    if fs::canonicalize(data).is_ok_and(|data| found.starts_with(data)) {
        // Only if it was made just now: it is empty.
        let _ = fs::remove_dir(&found);
        let (found, data) = (found.display(), data.display());
        return Err(Error::invalid(format!(
            "the checkpoint directory {found} is in the data directory {data}"
        )));
    }
    Ok(found)
}

/// The path `name` below `directory`, which has no links. Its parent must exist; it need not.
fn below(directory: &Path, name: &[u8]) -> std::result::Result<PathBuf, CommandError> {
    let name = std::str::from_utf8(name).map_err(|_| NAME)?;
    let relative = Path::new(name);
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || name.contains('\0') || relative.file_name().is_none() {
        return Err(NAME);
    }
    let target = directory.join(relative);
    let parent = target.parent().ok_or(NAME)?;
    let parent = fs::canonicalize(parent).map_err(|_| OUTSIDE)?;
    match (parent.starts_with(directory), relative.file_name()) {
        (true, Some(last)) => Ok(parent.join(last)),
        _ => Err(OUTSIDE),
    }
}

/// Whether there is a file of this name, also a link to nothing.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Removes a checkpoint; a link itself, not what it leads to.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// Makes the names in a directory durable.
fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_stay_below_the_directory() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let (directory, outside) = (root.join("checkpoints"), root.join("outside"));
        for path in [&directory, &outside, &directory.join("day")] {
            fs::create_dir(path).unwrap();
        }
        symlink(&outside, directory.join("out")).unwrap();
        symlink("day", directory.join("inside")).unwrap();
        for (name, path) in
            [("a", "a"), ("day/b", "day/b"), ("inside/c", "day/c"), ("out", "out"), ("a/", "a")]
        {
            let found = below(&directory, name.as_bytes());
            assert_eq!(found.ok(), Some(directory.join(path)), "{name}");
        }
        let absolute = outside.join("d").display().to_string();
        for name in [
            "",
            ".",
            "..",
            "/",
            "../outside/d",
            "day/../../outside/d",
            "./a",
            "out/d",
            "none/d",
            "a\0b",
            &absolute,
        ] {
            assert!(below(&directory, name.as_bytes()).is_err(), "{name:?}");
        }
        assert!(below(&directory, b"\xff").is_err());
    }
}
