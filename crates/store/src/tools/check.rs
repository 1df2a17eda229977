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
//! locks and creates nothing.
//!
//! What counts as damage is what the next opening would refuse, and what it would not see. What a
//! loss of power explains is not damage: ends of files that the opening cuts off are listed apart.
//!
//! The store may be open elsewhere. Tables do not change, so a damaged one is reported if the store
//! still uses it at the end. The manifest and the logs do change: findings on them are reported if a
//! second pass over an unchanged store finds the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidekv_io::{Access, LocalStorage, Storage};

use crate::compaction::output::meta_of;
use crate::engine::tree_set::check_length;
use crate::error::{Error, ErrorKind, Result};
use crate::format::files::{CURRENT, FileName, log_numbers, log_path, manifest_name, table_path};
use crate::format::key::{SEQUENCE_MAX, Sequence};
use crate::lifecycle::recovery::missing_log;
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

/// Passes over a store that changes meanwhile.
const PASSES_MAX: usize = 10;

/// A finding on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// A sentence that names the file.
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
    /// Ends of files that a loss of power has torn. The next opening cuts them off: nothing in them
    /// was acknowledged as durable.
    pub torn: Vec<Damage>,
    /// Files that the system refused to read, for lack of permission or because of a failing device:
    /// it is unknown whether they are damaged.
    pub unreadable: Vec<Damage>,
    /// Whether the store was changing all the time, so that its manifest and logs could not be
    /// judged.
    pub is_in_use: bool,
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
        sound: BTreeMap::new(),
    };
    let mut before = None;
    for _ in 0..PASSES_MAX {
        checker.pass()?;
        let (of_tables, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut checker.report.damage).into_iter().partition(is_of_table);
        if others.is_empty() {
            checker.report.damage = of_tables;
            return Ok(checker.report);
        }
        let seen = (checker.found.state.clone(), others);
        if before.as_ref() == Some(&seen) {
            checker.report.damage = of_tables.into_iter().chain(seen.1).collect();
            return Ok(checker.report);
        }
        checker.report.damage = of_tables;
        before = Some(seen);
    }
    checker.report.is_in_use = true;
    Ok(checker.report)
}

/// Whether the finding is on a table.
fn is_of_table(damage: &Damage) -> bool {
    let name = damage.file.file_name().and_then(|name| name.to_str());
    matches!(name.and_then(FileName::parse), Some(FileName::Table(_)))
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
    /// The blocks and entries of the tables that an earlier pass has found sound, and their bytes.
    sound: BTreeMap<u64, [u64; 3]>,
}

impl Checker<'_> {
    /// Checks everything once; tables that were found sound before are not read again.
    fn pass(&mut self) -> Result<()> {
        self.report = CheckReport::default();
        (self.found, self.bytes) = (Found::default(), 0);
        self.read_manifest()?;
        self.list_files()?;
        self.check_tables();
        self.check_levels();
        self.check_logs()?;
        self.drop_findings_on_removed_files()
    }

    /// Files an error about `file`: damage, or a refusal of the system.
    fn failed(&mut self, file: &Path, error: &Error) {
        match error.kind() {
            ErrorKind::Storage => self
                .report
                .unreadable
                .push(Damage { file: file.to_owned(), message: error.to_string() }),
            _ => self.damaged(file, error),
        }
    }

    fn torn(&mut self, file: &Path, what: impl std::fmt::Display) {
        let message = format!("{}: {what}", file.display());
        self.report.torn.push(Damage { file: file.to_owned(), message });
    }

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
                let files = self.storage.list(self.directory)?;
                let names = || files.iter().map(|file| FileName::parse(&file.name));
                let has_data = |name| matches!(name, FileName::Table(_) | FileName::Log(_));
                if let Some(at) = names().position(|name| name.is_some_and(has_data)) {
                    let what = format!("it is missing, but {} exists", files[at].name);
                    self.damaged(&current, Error::corrupt(&current, what));
                } else if names().any(|name| name.is_some_and(|name| name.number().is_some())) {
                    let what = "it is missing, because the creation of the store was \
                                interrupted: opening begins an empty store";
                    self.torn(&current, what);
                } else {
                    return Err(Error::no_store(self.directory));
                }
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
                self.failed(&file, &error);
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

    /// The last edit may be torn, if power was lost before it was acknowledged and the store was not
    /// opened since. Any other torn end is damage, which reading the manifest has found.
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
                        "the edit at offset {} is not whole, because power was lost while it was \
                         written: opening ignores it",
                        log.end
                    );
                    self.torn(&path, what);
                }
            }
            Err(error) => self.failed(&path, &error),
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
            let known = self.report.damage.len();
            match self.check_table(&path, *id, meta.as_ref()) {
                Ok(counts) if known == self.report.damage.len() => {
                    self.sound.insert(*id, counts);
                }
                Ok(_) => {}
                Err(error) => self.failed(&path, &error),
            }
        }
        self.found.tables = tables;
        let state = self.found.state.take();
        if let Some(state) = &state {
            self.check_numbers(state);
        }
        self.found.state = state;
    }

    /// Returns the numbers of blocks and entries, and the bytes.
    fn check_table(
        &mut self,
        path: &Path,
        id: u64,
        meta: Option<&(u32, TableMeta)>,
    ) -> Result<[u64; 3]> {
        if let Some(&[blocks, entries, bytes]) = self.sound.get(&id) {
            self.report.tables += 1;
            self.report.blocks += blocks;
            self.report.entries += entries;
            self.report.bytes += bytes;
            return Ok([blocks, entries, bytes]);
        }
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
        Ok([found.blocks, found.entries, bytes])
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
                    self.failed(&path, &error);
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
        let begun: Vec<u64> = read[..counting].iter().map(|(number, _)| *number).collect();
        if let Some(state) = &self.found.state
            && let Some(number) = state.last_log_with_frames()
            && !begun.contains(&number)
        {
            let path = log_path(self.directory, number);
            let is_there = read.iter().any(|(found, _)| *found == number);
            // A first log that is missing was reported.
            if is_there || number != min_log {
                let error = missing_log(&path, state, is_there);
                self.damaged(&path, error);
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
            (LogEnding::Open | LogEnding::Torn, next) => {
                let (storage, end) = (&*self.storage, log.end);
                let state = self.found.state.as_ref();
                if let Some(what) = state.and_then(|state| state.missing_of_log(log.number, end)) {
                    return self.damaged(path, Error::corrupt(path, what));
                }
                let Some(next) = next else { return };
                // An unreadable one was reported.
                match damage_of_torn(storage, self.directory, log.number, end, behind) {
                    Ok(Some(damage)) => self.damaged(path, damage),
                    Ok(None) | Err(_) => {
                        let what = format!(
                            "it ends at offset {end} without an end record, because power was \
                             lost: opening ignores log {next} and later ones, which were not synced"
                        );
                        self.torn(path, what);
                    }
                }
            }
            _ => {}
        }
    }

    /// A power loss tears the last record, or an earlier one if those behind it reached the disk
    /// first.
    fn check_torn_end(&mut self, path: &Path, log: &LogDescription) {
        if log.ending != LogEnding::Torn {
            return;
        }
        match self.record_behind(path, log) {
            Ok(None) => {}
            Ok(Some(offset)) => {
                let what = format!(
                    "the record at offset {} is not whole, but the one at offset {offset} is, \
                     because power was lost before either was synced: opening cuts the log there",
                    log.end
                );
                self.torn(path, what);
            }
            Err(error) => self.failed(path, &error),
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
