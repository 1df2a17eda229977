//! Verifies a whole store: all checksums and all invariants that can be checked on its files, one
//! file after another, continuing after damage.
//!
//! 1. `CURRENT` and the manifest can be read to the end and are consistent.
//! 2. Every table of the manifest exists with the recorded length; its blocks have valid checksums;
//!    its entries are in order, pass their filters, and match its properties and the manifest.
//! 3. Tables of one level below 0, or of one ingest in level 0, do not overlap.
//! 4. Every required log exists, each names the next, and every record can be read back. Damage is
//!    told from a torn end.
//!
//! Without a readable manifest, tables and logs are still checked individually. The check writes,
//! locks and creates nothing. The store may be open elsewhere: files that it has removed by the end
//! are not reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidekv_io::{Access, LocalStorage, Storage};

use crate::compaction::output::meta_of;
use crate::engine::tree_set::check_length;
use crate::error::{Error, ErrorKind, Result};
use crate::format::files::{CURRENT, FileName, log_numbers, log_path, manifest_name, table_path};
use crate::format::key::{SEQUENCE_MAX, Sequence};
use crate::sst::file_handles::FileHandle;
use crate::sst::table::{self, Table, TableProperties};
use crate::tools::inspect::{
    FileRole, LogDescription, LogEnding, log_record, malformed, role_of, uncached_blocks, walk_log,
};
use crate::version::manifest::{self, KeyspaceState, State, TableMeta};
use crate::wal::damage_of_torn;
use crate::wal::format::{HEADER_BYTES, Header, is_intact};

/// Maximum number of findings per file: a destroyed table has one per entry.
const FINDINGS_PER_FILE_MAX: usize = 20;

/// A damaged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The damage: a sentence that names the file.
    pub message: String,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Tables that were read.
    pub tables: u64,
    /// Blocks of tables whose checksums agreed.
    pub blocks: u64,
    /// Entries of tables, tombstones included.
    pub entries: u64,
    /// The required logs, as far as they could be read.
    pub logs: Vec<LogDescription>,
    /// Bytes of all files that were read.
    pub bytes: u64,
    /// All damage; empty when the store is sound.
    pub damage: Vec<Damage>,
    /// Files that the next opening of the store will remove.
    pub left_over: Vec<String>,
    /// Files that do not belong to the store.
    pub foreign: Vec<String>,
}

/// The progress of a check; reported before each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckProgress {
    /// The file that is about to be read.
    pub file: PathBuf,
    /// Bytes read so far.
    pub bytes_done: u64,
    /// Total bytes to read.
    pub bytes: u64,
}

/// Reads every file of the store in `directory` on `storage` (`None`: the local disk), verifies
/// every checksum and invariant, and writes nothing. Calls `progress` before each file.
///
/// # Errors
///
/// Fails only if there is nothing to check: no store, or one that a newer version wrote. Damage,
/// also a file that cannot be read, is in the report.
///
/// ```
/// use std::sync::Arc;
/// use tidekv::{Db, Environment, MemoryStorage, Options, check};
///
/// let disk = Arc::new(MemoryStorage::new());
/// let environment = Environment::default().storage(disk.clone());
/// let db = Db::open("data", Options::new().environment(environment))?;
/// db.keyspace("fruits")?.put("apple", "red")?;
/// db.flush()?;
/// db.close()?;
/// let report = check::check("data", Some(disk), &mut |_progress| {})?;
/// assert!(report.damage.is_empty());
/// assert_eq!(report.entries, 1);
/// # Ok::<(), tidekv::Error>(())
/// ```
pub fn check(
    directory: impl AsRef<Path>,
    storage: Option<Arc<dyn Storage>>,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    let storage = storage.unwrap_or_else(|| Arc::new(LocalStorage::new()));
    let directory = directory.as_ref();
    if !storage.exists(directory)? {
        return Err(Error::no_store(directory));
    }
    let mut checker = Checker {
        storage,
        directory,
        report: CheckReport::default(),
        progress,
        bytes: 0,
        found: Found::default(),
    };
    checker.read_manifest()?;
    checker.list_files()?;
    checker.check_tables();
    checker.check_levels();
    checker.check_logs()?;
    checker.drop_findings_on_removed_files()?;
    Ok(checker.report)
}

/// The files to check.
#[derive(Debug, Default)]
struct Found {
    /// `None` if it cannot be read.
    state: Option<State>,
    manifest: u64,
    /// Numbers of tables, with the manifest's record of them.
    tables: Vec<(u64, Option<(u32, TableMeta)>)>,
    logs: Vec<u64>,
}

struct Checker<'a> {
    storage: Arc<dyn Storage>,
    directory: &'a Path,
    report: CheckReport,
    progress: &'a mut dyn FnMut(CheckProgress),
    /// Total bytes to read.
    bytes: u64,
    found: Found,
}

impl Checker<'_> {
    fn damaged(&mut self, file: &Path, message: impl std::fmt::Display) {
        let known = self.report.damage.iter().filter(|damage| damage.file == file).count();
        if known < FINDINGS_PER_FILE_MAX {
            let message = message.to_string();
            self.report.damage.push(Damage { file: file.to_owned(), message });
        }
    }

    fn begins(&mut self, file: &Path) {
        let (bytes_done, bytes) = (self.report.bytes, self.bytes);
        (self.progress)(CheckProgress { file: file.to_owned(), bytes_done, bytes });
    }

    // ---- 1. The manifest ----

    fn read_manifest(&mut self) -> Result<()> {
        let current = self.directory.join(CURRENT);
        match manifest::file::read(&*self.storage, self.directory) {
            Ok(Some((state, number))) => {
                self.found.state = Some(state);
                self.found.manifest = number;
            }
            Ok(None) => {
                let ours = |name: &str| FileName::parse(name).is_some_and(|n| n.number().is_some());
                let files = self.storage.list(self.directory)?;
                let Some(file) = files.iter().find(|file| ours(&file.name)) else {
                    return Err(Error::no_store(self.directory));
                };
                let what = format!("it is missing, but {} exists", file.name);
                self.damaged(&current, Error::corrupt(&current, what));
            }
            Err(error) => {
                let named = self.named_manifest();
                let file = match named.as_ref().filter(|path| names(&error, path)) {
                    Some(path) => path.clone(),
                    None => current,
                };
                let is_missing =
                    named.is_some_and(|path| !self.storage.exists(&path).unwrap_or(true));
                if error.kind() == ErrorKind::Unavailable && !is_missing {
                    return Err(error);
                }
                self.damaged(&file, &error);
            }
        }
        self.check_manifest_end();
        Ok(())
    }

    /// The manifest that a `CURRENT` of this version names, even if it is damaged.
    fn named_manifest(&self) -> Option<PathBuf> {
        let file = self.storage.open_read(&self.directory.join(CURRENT), Access::Buffered).ok()?;
        let bytes = file.read_at(0, file.len().ok()?.min(256) as usize).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?;
        let mut words = text.strip_prefix("tidekv 1 ")?.split_whitespace();
        match FileName::parse(words.next()?)? {
            FileName::Manifest(number) => Some(self.directory.join(manifest_name(number))),
            _ => None,
        }
    }

    /// The store's last edit is torn only if power was lost just then and the store was not opened
    /// since; any other torn end is damage with unknown losses.
    fn check_manifest_end(&mut self) {
        if self.found.state.is_none() {
            return;
        }
        let number = self.found.manifest;
        let path = self.directory.join(manifest_name(number));
        self.begins(&path);
        let read = || walk_log(&*self.storage, &path, number, |_, _| Ok(()));
        // An edit that was being written during the first read is complete now.
        let whole = |log: &LogDescription| log.ending != LogEnding::Torn;
        match read().ok().filter(whole).map_or_else(read, Ok) {
            Ok(log) => {
                self.report.bytes += log.bytes;
                if !whole(&log) {
                    let what = format!(
                        "the edit at offset {} is not intact, which only a loss of power in \
                         that very moment explains",
                        log.end
                    );
                    self.damaged(&path, Error::corrupt(&path, what));
                }
            }
            Err(error) => self.damaged(&path, error),
        }
    }

    fn list_files(&mut self) -> Result<()> {
        let state = self.found.state.clone();
        for entry in self.storage.list(self.directory)? {
            let name = FileName::parse(&entry.name);
            let role = match (&state, name) {
                (Some(state), _) => {
                    role_of(&entry.name, entry.is_directory, state, self.found.manifest)
                }
                (None, Some(FileName::Table(_))) => FileRole::Table,
                (None, Some(FileName::Log(_))) => FileRole::Log,
                (None, Some(_)) => FileRole::Manifest,
                (None, None) => FileRole::Foreign,
            };
            match (role, name) {
                (FileRole::LeftOver, _) => self.report.left_over.push(entry.name),
                (FileRole::Foreign, _) => self.report.foreign.push(entry.name),
                (FileRole::Table, Some(FileName::Table(id))) if state.is_none() => {
                    self.found.tables.push((id, None));
                    self.bytes += entry.bytes;
                }
                (FileRole::Log, _) => self.bytes += entry.bytes,
                _ => {}
            }
        }
        let keyspaces = state.iter().flat_map(|state| &state.keyspaces);
        for (&id, keyspace) in keyspaces {
            for meta in keyspace.levels.iter().flat_map(|level| level.values()) {
                self.bytes += meta.bytes;
                self.found.tables.push((meta.id, Some((id, (**meta).clone()))));
            }
        }
        let min_log = state.as_ref().map_or(0, |state| state.min_log);
        self.found.logs = log_numbers(&*self.storage, self.directory, min_log)?;
        Ok(())
    }

    // ---- 2. Tables ----

    fn check_tables(&mut self) {
        let tables = std::mem::take(&mut self.found.tables);
        for (id, meta) in &tables {
            let file = meta.as_ref().map_or(*id, |(_, meta)| meta.file);
            let path = table_path(self.directory, file);
            self.begins(&path);
            if let Err(error) = self.check_table(&path, *id, meta.as_ref()) {
                self.damaged(&path, error);
            }
        }
        self.found.tables = tables;
        let state = self.found.state.take();
        if let Some(state) = &state {
            self.check_numbers(state);
        }
        self.found.state = state;
    }

    fn check_table(&mut self, path: &Path, id: u64, meta: Option<&(u32, TableMeta)>) -> Result<()> {
        if meta.is_some() && !self.storage.exists(path)? {
            return Err(Error::corrupt(path, "the manifest names it, but it is missing"));
        }
        let file = self.storage.open_read(path, Access::Buffered)?;
        let mut bytes = file.len()?;
        let mut start = 0;
        if let Some((_, meta)) = meta {
            check_length(path, bytes, meta)?;
            (start, bytes) = (meta.offset, meta.bytes);
        }
        self.report.bytes += bytes;
        let table = Table::open_in((FileHandle::of(file), start), id, bytes)?;
        let found = table::check(&table, &uncached_blocks(&self.storage));
        self.report.tables += 1;
        self.report.blocks += found.blocks;
        self.report.entries += found.entries;
        found.damage.iter().for_each(|message| self.damaged(path, message));
        if let Some((keyspace, meta)) = meta {
            self.check_meta(path, *keyspace, meta, table.properties());
        }
        Ok(())
    }

    /// Compares a table with the manifest's record of it.
    fn check_meta(
        &mut self,
        path: &Path,
        keyspace: u32,
        meta: &TableMeta,
        properties: &TableProperties,
    ) {
        let range = (properties.range_tombstones > 0)
            .then(|| (properties.range_start.clone(), properties.range_end.clone()));
        let told = TableMeta {
            sequence_override: meta.sequence_override,
            file: meta.file,
            offset: meta.offset,
            ..meta_of(meta.id, properties, range)
        };
        if told != *meta {
            let what = "its bounds or counts in the manifest differ from its own properties";
            self.damaged(path, Error::corrupt(path, what));
        }
        if properties.keyspace != keyspace {
            let what = format!(
                "it belongs to keyspace {}, but the manifest has it in keyspace {keyspace}",
                properties.keyspace
            );
            self.damaged(path, Error::corrupt(path, what));
        }
    }

    /// Checks that used numbers and sequences are recorded as used.
    fn check_numbers(&mut self, state: &State) {
        let path = self.directory.join(manifest_name(self.found.manifest));
        let mut seen = std::collections::BTreeSet::new();
        for meta in state.tables() {
            let id = meta.id;
            if !seen.insert(id) {
                self.damaged(&path, Error::corrupt(&path, format!("it lists table {id} twice")));
            }
            if id.max(meta.file) >= state.next_file {
                let what =
                    format!("it lists table {id}, but its next file number is {}", state.next_file);
                self.damaged(&path, Error::corrupt(&path, what));
            }
            let sequence = meta.largest_sequence.max(meta.sequence_override);
            if sequence > state.last_sequence {
                let what = format!(
                    "table {id} has sequence {sequence}, but the last recorded one is {}",
                    state.last_sequence
                );
                self.damaged(&path, Error::corrupt(&path, what));
            }
        }
    }

    // ---- 3. Levels ----

    fn check_levels(&mut self) {
        let Some(state) = self.found.state.clone() else { return };
        for keyspace in state.keyspaces.values() {
            for (level, mut tables) in sorted_runs(keyspace) {
                tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
                for pair in tables.windows(2) {
                    let apart = match pair[0].largest.cmp(&pair[1].smallest) {
                        std::cmp::Ordering::Less => true,
                        std::cmp::Ordering::Equal => pair[0].largest_is_exclusive,
                        std::cmp::Ordering::Greater => false,
                    };
                    if !apart {
                        let (path, id) = (table_path(self.directory, pair[1].file), pair[0].id);
                        let what = format!("on level {level} it overlaps table {id}");
                        self.damaged(&path, Error::corrupt(&path, what));
                    }
                }
            }
        }
    }

    // ---- 4. Logs ----

    fn check_logs(&mut self) -> Result<()> {
        let logs = self.found.logs.clone();
        let min_log = self.found.state.as_ref().map_or(0, |state| state.min_log);
        if min_log > 0 && logs.first() != Some(&min_log) {
            let path = log_path(self.directory, min_log);
            let what = "the manifest names it, but it is missing";
            self.damaged(&path, Error::corrupt(&path, what));
        }
        // The last log first: if it has records, the preceding log has its end when it is read.
        let mut read = Vec::new();
        for number in logs.into_iter().rev() {
            let path = log_path(self.directory, number);
            self.begins(&path);
            match self.read_log(&path, number) {
                Ok(log) => {
                    self.report.bytes += log.bytes;
                    self.check_torn_end(&path, &log);
                    read.push((number, Some(log)));
                }
                Err(error) => {
                    self.damaged(&path, error);
                    read.push((number, None));
                }
            }
        }
        read.reverse();
        // Interrupted openings leave empty logs, and so do runs of the process that had prepared
        // the next log.
        let is_empty = |log: &Option<LogDescription>| {
            let is_open = |ending| !matches!(ending, LogEnding::Complete { .. });
            log.as_ref().is_some_and(|log| log.end == 0 && is_open(log.ending))
        };
        let empty = read.iter().rev().take_while(|(_, log)| is_empty(log)).count();
        let counting = read.len() - empty.min(read.len().saturating_sub(1));
        for (index, (number, log)) in read.iter().take(counting).enumerate() {
            let behind: Vec<u64> =
                read[index + 1..counting].iter().map(|(number, _)| *number).collect();
            if let Some(log) = log {
                self.check_successor(&log_path(self.directory, *number), log, &behind);
            }
        }
        self.report.logs.extend(read.into_iter().filter_map(|(_, log)| log));
        Ok(())
    }

    fn read_log(&self, path: &Path, number: u64) -> Result<LogDescription> {
        let state = self.found.state.as_ref();
        walk_log(&*self.storage, path, number, |offset, bytes| {
            let record =
                log_record(number, offset, bytes).map_err(|what| malformed(path, offset, what))?;
            let last = record.sequence.saturating_add(record.operations.len() as u64);
            if last > SEQUENCE_MAX {
                return Err(malformed(path, offset, "has a sequence out of range"));
            }
            let is_known = |id| {
                state.is_none_or(|state| state.keyspaces.contains_key(&id) || state.was_dropped(id))
            };
            if !record.operations.iter().all(|operation| is_known(operation.keyspace)) {
                return Err(malformed(path, offset, "writes to an unknown keyspace"));
            }
            Ok(())
        })
    }

    /// Whether the log at `path` continues in the first of the logs `behind` it.
    fn check_successor(&mut self, path: &Path, log: &LogDescription, behind: &[u64]) {
        match (log.ending, behind.first()) {
            (LogEnding::Complete { successor }, Some(&next)) if successor != next => {
                let missing = log_path(self.directory, successor);
                let what = format!("log {} names it, but it is missing", log.number);
                self.damaged(&missing, Error::corrupt(&missing, what));
            }
            (LogEnding::Open | LogEnding::Torn, Some(next)) => {
                let (storage, end) = (&*self.storage, log.end);
                // An unreadable one is damaged as well, and was reported.
                let damage = damage_of_torn(storage, self.directory, log.number, end, behind);
                let damage = damage.ok().flatten().unwrap_or_else(|| {
                    let what = format!(
                        "it ends at offset {end} without an end record: what log {next} holds is \
                         lost"
                    );
                    Error::corrupt(path, what)
                });
                self.damaged(path, damage);
            }
            _ => {}
        }
    }

    /// A power loss tears the last record. Whole records after the torn place mean that writes are
    /// lost, although the store opens.
    fn check_torn_end(&mut self, path: &Path, log: &LogDescription) {
        if log.ending != LogEnding::Torn {
            return;
        }
        match self.record_behind(path, log) {
            Ok(None) => {}
            Ok(Some(offset)) => {
                let what = format!(
                    "the record at offset {} is not intact, but the one at offset {offset} is: \
                     the data from there on is lost",
                    log.end
                );
                self.damaged(path, Error::corrupt(path, what));
            }
            Err(error) => self.damaged(path, error),
        }
    }

    /// The first whole record of `log` after its end.
    fn record_behind(&self, path: &Path, log: &LogDescription) -> Result<Option<u64>> {
        let file = self.storage.open_read(path, Access::Buffered)?;
        let bytes = file.read_at(log.end, (log.bytes - log.end) as usize)?;
        for at in 1..bytes.len().saturating_sub(HEADER_BYTES) {
            let Some(header) = Header::decode(&bytes[at..], log.end + at as u64, log.bytes) else {
                continue;
            };
            let frame = &bytes[at..at + HEADER_BYTES + header.payload_len as usize];
            if is_intact(frame, log.number, header) {
                return Ok(Some(log.end + at as u64));
            }
        }
        Ok(None)
    }

    // ---- A store that is open meanwhile ----

    /// Drops findings on files that have become obsolete since the check began.
    fn drop_findings_on_removed_files(&mut self) -> Result<()> {
        if self.report.damage.is_empty() || self.found.state.is_none() {
            return Ok(());
        }
        let Ok(Some((now, manifest))) = manifest::file::read(&*self.storage, self.directory) else {
            return Ok(());
        };
        let counts = |damage: &Damage| {
            let name = damage.file.file_name().and_then(|name| name.to_str());
            match name.and_then(FileName::parse) {
                Some(FileName::Table(file)) => now.tables().any(|table| table.file == file),
                Some(FileName::Log(number)) => number >= now.min_log,
                Some(FileName::Manifest(number)) => number == manifest,
                _ => true,
            }
        };
        self.report.damage.retain(counts);
        Ok(())
    }
}

/// Whether an error is about the file at `path`: messages begin with it.
fn names(error: &Error, path: &Path) -> bool {
    error.to_string().starts_with(&path.display().to_string())
}

/// The sorted runs whose tables must not overlap, each with its level: the tables of one ingest in
/// level 0, and the levels below.
fn sorted_runs(keyspace: &KeyspaceState) -> Vec<(usize, Vec<&TableMeta>)> {
    let mut ingested: BTreeMap<Sequence, Vec<&TableMeta>> = BTreeMap::new();
    for table in keyspace.levels[0]
        .values()
        .map(|table| &**table)
        .filter(|table| table.sequence_override > 0)
    {
        ingested.entry(table.sequence_override).or_default().push(table);
    }
    let levels = keyspace.levels.iter().enumerate().skip(1);
    let levels =
        levels.map(|(level, tables)| (level, tables.values().map(|table| &**table).collect()));
    ingested.into_values().map(|tables| (0, tables)).chain(levels).collect()
}

#[cfg(test)]
mod tests;
