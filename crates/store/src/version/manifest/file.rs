//! Writes the manifest to stable storage, and reads it back.
//!
//! Guarantees: an edit that [`Manifest::commit`] acknowledged is part of every later recovery; a
//! failed edit is part of none, once a later commit has succeeded; a reader never sees half an
//! edit. `CURRENT` names the current manifest and is replaced in one step (written to a temporary
//! file, synced, renamed, directory synced).
//!
//! A manifest keeps [`RESERVE_BYTES`] of allocated space for edits that add no table: on a full
//! disk they can still drop tables and keyspaces, which gives space back.
//!
//! After a failed write or sync the end of the manifest file is unknown, so the next commit begins
//! a new file with a snapshot of the state. Until then all files that the failed edit refers to
//! must stay in place.
//!
//! `CURRENT` is one line of text:
//!
//! ```text
//! tidekv 1 MANIFEST-000007 1f2e3d4c
//! ```
//!
//! version of this line, name, and the checksum (hex) of everything before its space.

use std::path::Path;
use std::sync::Arc;

use tidekv_io::{Access, Storage};

use super::edit::{Edit, Refused};
use super::state::State;
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::checksum;
use crate::format::files::{CURRENT, CURRENT_TEMPORARY, FileName, manifest_name};
use crate::wal::names::Names;
use crate::wal::{LogReader, LogWriter};

/// A manifest that exceeds this size, and twice its first snapshot, is rewritten: replaying it
/// would take longer than the snapshot.
const ROLL_BYTES: u64 = 1 << 20;

/// Allocated space for edits that add nothing: some hundred tables can be dropped.
const RESERVE_BYTES: u64 = 4 << 10;

/// The manifest of an open store.
#[derive(Debug)]
pub(crate) struct Manifest {
    names: Arc<Names>,
    state: State,
    /// `None` before the first commit and after a failure.
    log: Option<LogWriter>,
    /// The file that `CURRENT` has named since the last commit that began one.
    file_number: Option<u64>,
    snapshot_bytes: u64,
}

impl Manifest {
    /// A manifest that begins with `state`; writes nothing before the first commit.
    pub(crate) fn new(names: Arc<Names>, state: State) -> Self {
        Self { names, state, log: None, file_number: None, snapshot_bytes: 0 }
    }

    /// The contents of the store.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The number of the current manifest file, once one is written. It stays current even if
    /// appending to it has failed.
    pub(crate) fn file_number(&self) -> Option<u64> {
        self.file_number
    }

    /// Numbers up to `used` will not be allocated any more.
    pub(crate) fn pass_over_files(&mut self, used: u64) {
        self.state.next_file = self.state.next_file.max(used + 1);
    }

    /// A file number that was never used.
    pub(crate) fn allocate_file(&mut self) -> u64 {
        let number = self.state.next_file;
        self.state.next_file += 1;
        number
    }

    /// Makes `edit` durable, then applies it to the state.
    pub(crate) fn commit(&mut self, mut edit: Edit) -> Result<()> {
        edit.push(super::edit::Change::NextFile(self.state.next_file));
        if let Err(contradiction) = self.state.check(&edit) {
            panic!("an edit contradicts the manifest: {contradiction}");
        }
        let roll = self
            .log
            .as_ref()
            .is_none_or(|log| log.offset() > ROLL_BYTES.max(2 * self.snapshot_bytes));
        // On a full disk, one that is long goes on.
        let is_begun = roll && self.begin_file_if_possible(&edit)?;
        if let Some(log) = self.log.as_mut().filter(|_| !is_begun) {
            let mut encoded = Vec::new();
            edit.encode(&mut encoded);
            let reserve = if edit.adds_files() { RESERVE_BYTES } else { 0 };
            // If this fails, the file is as it was.
            log.make_space(encoded.len() as u64, reserve)?;
            let written =
                log.append(|out| out.extend_from_slice(&encoded)).and_then(|()| log.sync());
            if let Err(error) = written {
                self.log = None;
                return Err(error);
            }
        }
        // A mark that confirms the edit, so that damage to it is not mistaken for a torn commit. If
        // the mark fails, the next commit begins a new file.
        if self.log.as_mut().is_some_and(|log| log.mark().is_err()) {
            self.log = None;
        }
        self.state.apply(&edit).expect("checked above");
        Ok(())
    }

    /// Whether the edits so far may all be undone: the end of the file is known, and a failed edit
    /// is not in it.
    pub(crate) fn is_intact(&self) -> bool {
        self.log.is_some()
    }

    /// Begins a file with the state after `edit`; false if there is no space for it, and the current
    /// one can be used.
    fn begin_file_if_possible(&mut self, edit: &Edit) -> Result<bool> {
        let mut next = self.state.clone();
        next.apply(edit).expect("the caller has checked it");
        let number = self.state.next_file.max(next.next_file);
        // The number is used even if this fails half-way.
        self.state.next_file = number + 1;
        next.next_file = number + 1;
        match self.write_snapshot(number, &next) {
            Err(error) if error.kind() == ErrorKind::Full && self.log.is_some() => {
                let path = self.names.directory().join(manifest_name(number));
                let _ = self.names.storage().remove(&path);
                Ok(false)
            }
            Err(error) => {
                self.log = None;
                Err(error)
            }
            Ok(log) => self.begin_file(number, log).map(|()| true),
        }
    }

    /// Writes a manifest file with a snapshot of `state`, which `CURRENT` does not name yet.
    fn write_snapshot(&self, number: u64, state: &State) -> Result<LogWriter> {
        self.names.check()?;
        let path = self.names.directory().join(manifest_name(number));
        let file = self.names.storage().create(&path, Access::Buffered)?;
        let mut log = LogWriter::new(file, number);
        let mut encoded = Vec::new();
        state.snapshot().encode(&mut encoded);
        log.make_space(encoded.len() as u64, RESERVE_BYTES)?;
        log.append(|out| out.extend_from_slice(&encoded))?;
        log.sync()?;
        Ok(log)
    }

    fn begin_file(&mut self, number: u64, log: LogWriter) -> Result<()> {
        self.log = None;
        let storage = Arc::clone(self.names.storage());
        self.names.sync()?;
        write_current(&self.names, number)?;
        self.snapshot_bytes = log.offset();
        self.log = Some(log);
        if let Some(old) = self.file_number.replace(number) {
            // At worst the file remains until the store is opened again.
            let _ = storage.remove(&self.names.directory().join(manifest_name(old)));
        }
        Ok(())
    }
}

/// Writes a manifest of `state` and `CURRENT` into a directory that has none.
pub(crate) fn write_new(storage: &Arc<dyn Storage>, directory: &Path, state: State) -> Result<()> {
    let names = Arc::new(Names::new(Arc::clone(storage), directory));
    let mut manifest = Manifest::new(names, state);
    manifest.commit(Edit::default())
}

/// Reads the state of the store in `directory`; `None` if there is no store. Changes nothing.
pub(crate) fn read(storage: &dyn Storage, directory: &Path) -> Result<Option<(State, u64)>> {
    let current = directory.join(CURRENT);
    if !storage.exists(&current)? {
        return Ok(None);
    }
    let number = read_current(storage, &current)?;
    let path = directory.join(manifest_name(number));
    let file = storage.open_read(&path, Access::Buffered).map_err(|error| {
        Error::from(error)
            .context(format!("{} names a manifest that cannot be opened", current.display()))
    })?;
    let mut reader = LogReader::new(file, number)?;
    let mut state = State::new(0);
    let mut edits = 0u64;
    while let Some(record) = reader.next()? {
        let edit = Edit::decode(record).map_err(|refused| match refused {
            Refused::Newer => newer(&path),
            Refused::Older => older(&path),
            Refused::Damaged => Error::corrupt(&path, format!("edit {edits} cannot be decoded")),
        })?;
        state.apply(&edit).map_err(|contradiction| Error::corrupt(&path, contradiction))?;
        edits += 1;
    }
    if edits == 0 {
        return Err(Error::corrupt(&path, "it contains no edit"));
    }
    Ok(Some((state, number)))
}

fn newer(path: &Path) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "{} was written by a newer version of TideKV: open it with that version",
            path.display()
        ),
    )
}

fn older(path: &Path) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "{} was written by a version of TideKV before 0.1, whose format this version does not \
             read: export the data with that version and import it with this one",
            path.display()
        ),
    )
}

pub(crate) fn current_line(number: u64) -> String {
    let line = format!("tidekv 1 {}", manifest_name(number));
    let sum = checksum(0, line.as_bytes());
    format!("{line} {sum:08x}\n")
}

fn write_current(names: &Names, number: u64) -> Result<()> {
    let (storage, directory) = (names.storage(), names.directory());
    let temporary = directory.join(CURRENT_TEMPORARY);
    if storage.exists(&temporary)? {
        storage.remove(&temporary)?;
    }
    let file = storage.create(&temporary, Access::Buffered)?;
    file.write_at(0, current_line(number).as_bytes())?;
    file.sync()?;
    storage.rename(&temporary, &directory.join(CURRENT))?;
    names.sync()
}

fn read_current(storage: &dyn Storage, path: &Path) -> Result<u64> {
    let file = storage.open_read(path, Access::Buffered)?;
    let len = file.len()?.min(256) as usize;
    let bytes = file.read_at(0, len)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Error::corrupt(path, "it is not text"))?;
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("tidekv"), Some("1"), Some(name)) => match FileName::parse(name) {
            Some(FileName::Manifest(number)) if text == current_line(number) => Ok(number),
            _ => Err(Error::corrupt(path, "its checksum does not match")),
        },
        (Some("tidekv"), Some(version), _) if version.parse::<u32>().is_ok_and(|v| v > 1) => {
            Err(newer(path))
        }
        _ => Err(Error::corrupt(path, "it does not name a manifest")),
    }
}

#[cfg(test)]
mod tests;
