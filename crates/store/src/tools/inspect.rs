//! Describes the files of a store: keyspaces, levels, tables and their blocks, the edits of the
//! manifest, the records of the logs. For people who want to look inside; nothing in the store
//! depends on it.
//!
//! Guarantees: writes, locks and creates nothing; returns plain data. A store that is open
//! elsewhere can be inspected: each call describes a consistent moment, but two calls may describe
//! different ones.
//!
//! An [`Inspector`] holds no files open and may be used from any thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidekv_io::{Access, LocalStorage, Storage};

use crate::batch::decode_record;
use crate::error::{Error, ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::files::{FileName, log_numbers, log_path, manifest_name, table_path};
use crate::format::key::{Kind, split_deadline};
use crate::options::KeyspaceOptions;
use crate::sst::blocks::Blocks;
use crate::sst::file_handles::FileHandle;
use crate::sst::table::{self, Table};
use crate::version::manifest::{self, Change, Edit, State, TableMeta};
use crate::wal::{Ending, LogReader};

/// A whole store, as described by its manifest and directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreDescription {
    /// The random number that identifies this store.
    pub store: u64,
    /// The number of the current manifest.
    pub manifest: u64,
    /// The next unused file number.
    pub next_file: u64,
    /// Tables may contain sequences up to this one.
    pub last_sequence: u64,
    /// Logs with smaller numbers are obsolete.
    pub min_log: u64,
    /// The keyspaces, in the order of their creation.
    pub keyspaces: Vec<KeyspaceDescription>,
    /// The files of the directory, by name.
    pub files: Vec<FileDescription>,
}

/// A keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceDescription {
    /// Its number in batches, logs and tables.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub options: KeyspaceOptions,
    /// Tables hold the writes up to this sequence.
    pub flushed: u64,
    /// Its tables by level: level 0 newest first, the others in key order.
    pub levels: Vec<Vec<TableSummary>>,
}

/// The manifest's record of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSummary {
    /// Its number.
    pub id: u64,
    /// The number of its file: its own, or that of a file that holds several tables.
    pub file: u64,
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Lower bound of the table's keys.
    pub smallest: Vec<u8>,
    /// Upper bound of the table's keys.
    pub largest: Vec<u8>,
    /// Whether `largest` itself is excluded.
    pub largest_is_exclusive: bool,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
    /// Number of range deletions.
    pub range_tombstones: u64,
    /// The newest sequence in it.
    pub largest_sequence: u64,
    /// Earliest deadline of its entries, in milliseconds since 1970.
    pub earliest_deadline_ms: Option<u64>,
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// The lock of the process that has the store open.
    Lock,
    /// Names the current manifest.
    Current,
    /// Contents of the caches when the store was closed; optional.
    HotList,
    /// Repairs of filters when the store was closed; optional.
    RepairList,
    /// The time when the store was last open; optional.
    Clock,
    /// The log of edits.
    Manifest,
    /// A write-ahead log.
    Log,
    /// A sorted table.
    Table,
    /// Unfinished or obsolete file, or a log kept for recycling: the next opening removes it.
    LeftOver,
    /// Not a file of the store; the store ignores it.
    Foreign,
}

impl FileRole {
    /// The purpose in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Current => "current",
            Self::HotList => "hot-list",
            Self::RepairList => "filter-repairs",
            Self::Clock => "clock",
            Self::Manifest => "manifest",
            Self::Log => "log",
            Self::Table => "table",
            Self::LeftOver => "left-over",
            Self::Foreign => "foreign",
        }
    }
}

/// A file of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDescription {
    /// Its name in the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its purpose.
    pub role: FileRole,
}

/// A table and its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// Its number.
    pub id: u64,
    /// Its keyspace.
    pub keyspace: u32,
    /// Names and values of the table's properties.
    pub numbers: Vec<(&'static str, u64)>,
    /// First and last key of its entries; empty when it has none.
    pub smallest: Vec<u8>,
    /// See `smallest`.
    pub largest: Vec<u8>,
    /// Its blocks in the order of their keys.
    pub blocks: Vec<BlockDescription>,
}

/// A block of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDescription {
    /// `data`, `index`, `filter` or `mirror`.
    pub kind: &'static str,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes in memory, uncompressed.
    pub content_bytes: u64,
    /// Entries; 0 for filters and mirrors.
    pub entries: u64,
}

/// One edit of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEdit {
    /// Offset of its record in the file.
    pub offset: u64,
    /// Its changes.
    pub changes: Vec<ManifestChange>,
}

/// One change of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestChange {
    /// The kind of change, in a word such as `add-table`.
    pub kind: &'static str,
    /// Names and values of its fields.
    pub fields: Vec<(&'static str, Field)>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A number.
    Number(u64),
    /// A key.
    Bytes(Vec<u8>),
    /// A name.
    Text(String),
}

/// A required log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDescription {
    /// Its number.
    pub number: u64,
    /// Its file's length; logs are allocated in advance.
    pub bytes: u64,
    /// The end of its last whole record.
    pub end: u64,
    /// Number of records.
    pub records: u64,
    /// Its ending.
    pub ending: LogEnding,
}

/// The ending of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEnding {
    /// With an end record that names the next log.
    Complete {
        /// The number of that log.
        successor: u64,
    },
    /// Without an end record: the store was not closed, or is open now.
    Open,
    /// In bytes that are not a whole record: a record torn by a power loss, or earlier contents of
    /// a recycled file. The log is cut there.
    Torn,
}

impl From<Ending> for LogEnding {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Complete { successor } => Self::Complete { successor },
            Ending::Cut { torn: false } => Self::Open,
            Ending::Cut { torn: true } => Self::Torn,
        }
    }
}

/// A record of a log: writes that took effect together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// The log's number.
    pub log: u64,
    /// Offset of the record in the file.
    pub offset: u64,
    /// The sequence of its first operation.
    pub sequence: u64,
    /// The writes.
    pub operations: Vec<LogOperation>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOperation {
    /// `put`, `delete` or `delete-range`.
    pub kind: &'static str,
    /// The keyspace's number.
    pub keyspace: u32,
    /// The key; for a range deletion its start.
    pub key: Vec<u8>,
    /// The end (exclusive) of a range deletion.
    pub range_end: Option<Vec<u8>>,
    /// Bytes of the value.
    pub value_bytes: u64,
    /// The entry's deadline, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
}

/// Reads the files of one store.
#[derive(Debug, Clone)]
pub struct Inspector {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
}

impl Inspector {
    /// For the store in `directory` on `storage` (`None`: the local disk). Fails if there is none,
    /// or if a newer version wrote it.
    pub fn new(directory: impl AsRef<Path>, storage: Option<Arc<dyn Storage>>) -> Result<Self> {
        let storage = storage.unwrap_or_else(|| Arc::new(LocalStorage::new()));
        let inspector = Self { storage, directory: directory.as_ref().to_owned() };
        inspector.state()?;
        Ok(inspector)
    }

    fn state(&self) -> Result<(State, u64)> {
        let found = manifest::file::read(&*self.storage, &self.directory)?;
        found.ok_or_else(|| Error::no_store(&self.directory))
    }

    /// The manifest's description of the store, and the files of its directory.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidekv::{Db, Environment, MemoryStorage, Options, inspect::Inspector};
    ///
    /// let disk = Arc::new(MemoryStorage::new());
    /// let environment = Environment::default().storage(disk.clone());
    /// let db = Db::open("data", Options::new().environment(environment))?;
    /// db.keyspace("fruits")?.put("apple", "red")?;
    /// db.close()?;
    /// let store = Inspector::new("data", Some(disk))?.store()?;
    /// assert_eq!(store.keyspaces[0].name, "fruits");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn store(&self) -> Result<StoreDescription> {
        let (state, manifest) = self.state()?;
        let files = self.storage.list(&self.directory)?;
        let files = files.into_iter().map(|entry| FileDescription {
            role: role_of(&entry.name, entry.is_directory, &state, manifest),
            name: entry.name,
            bytes: entry.bytes,
        });
        Ok(StoreDescription {
            store: state.store,
            manifest,
            next_file: state.next_file,
            last_sequence: state.last_sequence,
            min_log: state.min_log,
            files: files.collect(),
            keyspaces: keyspaces(&state),
        })
    }

    /// Describes the table with the number `id`, current or obsolete.
    pub fn table(&self, id: u64) -> Result<TableDescription> {
        let known = self.state().ok().and_then(|(state, _)| {
            state.tables().find(|table| table.id == id && table.shares_file()).cloned()
        });
        let file = known.as_ref().map_or(id, |meta| meta.file);
        let file = self.storage.open_read(&table_path(&self.directory, file), Access::Buffered)?;
        let table = match known {
            None => Table::open(file, id)?,
            Some(meta) => Table::open_in((FileHandle::of(file), meta.offset), id, meta.bytes)?,
        };
        let blocks = uncached_blocks(&self.storage);
        let properties = table.properties();
        let blocks = table::describe(&table, &blocks)?;
        let blocks = blocks.iter().map(|block| BlockDescription {
            kind: block.kind,
            offset: block.offset,
            bytes: u64::from(block.bytes),
            content_bytes: block.content_bytes as u64,
            entries: block.entries as u64,
        });
        Ok(TableDescription {
            id,
            keyspace: properties.keyspace,
            numbers: vec![
                ("bytes", properties.file_bytes),
                ("entries", properties.entries),
                ("tombstones", properties.tombstones),
                ("expiring", properties.expiring),
                ("range_tombstones", properties.range_tombstones),
                ("smallest_sequence", properties.smallest_sequence),
                ("largest_sequence", properties.largest_sequence),
                ("key_bytes", properties.raw_key_bytes),
                ("value_bytes", properties.raw_value_bytes),
                ("data_blocks", properties.data_blocks),
                ("data_bytes", properties.data_bytes),
                ("filter_bits_per_key", u64::from(properties.filter_bits_per_key)),
            ],
            smallest: properties.smallest_key.to_vec(),
            largest: properties.largest_key.to_vec(),
            blocks: blocks.collect(),
        })
    }

    /// The edits of the manifest, from its first to its last.
    pub fn manifest(&self) -> Result<Vec<ManifestEdit>> {
        let (_, number) = self.state()?;
        let path = self.directory.join(manifest_name(number));
        let mut edits = Vec::new();
        walk_log(&*self.storage, &path, number, |offset, record| {
            let edit = Edit::decode(record)
                .map_err(|_| Error::corrupt(&path, format!("the edit at offset {offset}")))?;
            edits.push(ManifestEdit { offset, changes: edit.changes.iter().map(change).collect() });
            Ok(())
        })?;
        Ok(edits)
    }

    /// Calls `visit` for every record of the required logs, and returns the logs.
    pub fn logs(&self, mut visit: impl FnMut(LogRecord)) -> Result<Vec<LogDescription>> {
        let (state, _) = self.state()?;
        let mut logs = Vec::new();
        for number in log_numbers(&*self.storage, &self.directory, state.min_log)? {
            let path = log_path(&self.directory, number);
            let log = walk_log(&*self.storage, &path, number, |offset, record| {
                let record = log_record(number, offset, record)
                    .map_err(|what| malformed(&path, offset, what))?;
                visit(record);
                Ok(())
            });
            match log {
                Ok(log) => logs.push(log),
                // It has become obsolete, and its file may have been reused.
                Err(_) if self.state()?.0.min_log > number => {}
                Err(error) => return Err(error),
            }
        }
        Ok(logs)
    }
}

pub(crate) fn malformed(path: &Path, offset: u64, what: &str) -> Error {
    Error::corrupt(path, format!("the record at offset {offset} {what}"))
}

/// Block reads without a cache.
pub(crate) fn uncached_blocks(storage: &Arc<dyn Storage>) -> Blocks {
    Blocks::standalone(Arc::clone(storage), 0)
}

/// Reads a log from its first to its last whole record and passes each to `visit` once with its
/// offset. A record that looks damaged is read again: it may have been written concurrently.
pub(crate) fn walk_log(
    storage: &dyn Storage,
    path: &Path,
    number: u64,
    mut visit: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<LogDescription> {
    let mut visited = None;
    let mut walk = || -> Result<LogDescription> {
        let file = storage.open_read(path, Access::Buffered)?;
        let bytes = file.len()?;
        let mut reader = LogReader::new(file, number)?;
        let mut records = 0;
        let mut offset = 0;
        while let Some(record) = reader.next()? {
            if visited < Some(offset) {
                visit(offset, record)?;
                visited = Some(offset);
            }
            records += 1;
            offset = reader.offset();
        }
        let ending = reader.ending().into();
        // Marks follow the last record.
        Ok(LogDescription { number, bytes, end: reader.offset(), records, ending })
    };
    match walk() {
        Err(error) if error.kind() == ErrorKind::Corrupt => walk(),
        walked => walked,
    }
}

/// The writes in a record of a write-ahead log, or the reason why it is malformed.
pub(crate) fn log_record(
    log: u64,
    offset: u64,
    record: &[u8],
) -> std::result::Result<LogRecord, &'static str> {
    let (sequence, encoded) = decode_record(record)?;
    let mut operations = Vec::new();
    for operation in encoded {
        let operation = operation.ok_or("contains a malformed operation")?;
        let (kind, range_end, expires_at_ms, value_bytes) = match operation.kind {
            Kind::Delete => ("delete", None, None, 0),
            Kind::Value => ("put", None, None, operation.payload.len()),
            Kind::RangeDelete => ("delete-range", Some(operation.payload.to_vec()), None, 0),
            Kind::Expiring => match split_deadline(operation.payload) {
                Some((deadline, value)) => ("put", None, Some(deadline), value.len()),
                None => return Err("contains an operation without its deadline"),
            },
        };
        operations.push(LogOperation {
            kind,
            keyspace: operation.keyspace,
            key: operation.key.to_vec(),
            range_end,
            value_bytes: value_bytes as u64,
            expires_at_ms,
        });
    }
    Ok(LogRecord { log, offset, sequence, operations })
}

pub(crate) fn role_of(name: &str, is_directory: bool, state: &State, manifest: u64) -> FileRole {
    let counts = |counts: bool, role| if counts { role } else { FileRole::LeftOver };
    match FileName::parse(name).filter(|_| !is_directory) {
        None => FileRole::Foreign,
        Some(FileName::Lock) => FileRole::Lock,
        Some(FileName::Current) => FileRole::Current,
        Some(FileName::HotList) => FileRole::HotList,
        Some(FileName::RepairList) => FileRole::RepairList,
        Some(FileName::Clock) => FileRole::Clock,
        Some(FileName::Temporary) => FileRole::LeftOver,
        Some(FileName::Manifest(number)) => counts(number == manifest, FileRole::Manifest),
        Some(FileName::Log(number)) => counts(number >= state.min_log, FileRole::Log),
        Some(FileName::Table(file)) => {
            counts(state.tables().any(|table| table.file == file), FileRole::Table)
        }
    }
}

fn keyspaces(state: &State) -> Vec<KeyspaceDescription> {
    let describe = |(&id, keyspace): (&u32, &manifest::KeyspaceState)| {
        let levels = (0..LEVELS).map(|level| {
            let mut tables: Vec<&TableMeta> =
                keyspace.levels[level].values().map(|table| &**table).collect();
            match level {
                0 => tables.sort_by_key(|t| {
                    std::cmp::Reverse((t.largest_sequence.max(t.sequence_override), t.id))
                }),
                _ => tables.sort_by(|a, b| a.smallest.cmp(&b.smallest)),
            }
            tables.into_iter().map(summary).collect()
        });
        KeyspaceDescription {
            id,
            name: keyspace.name.to_string(),
            options: keyspace.options.clone(),
            flushed: keyspace.flushed,
            levels: levels.collect(),
        }
    };
    state.keyspaces.iter().map(describe).collect()
}

fn summary(meta: &TableMeta) -> TableSummary {
    TableSummary {
        id: meta.id,
        file: meta.file,
        offset: meta.offset,
        bytes: meta.bytes,
        smallest: meta.smallest.to_vec(),
        largest: meta.largest.to_vec(),
        largest_is_exclusive: meta.largest_is_exclusive,
        entries: meta.entries,
        tombstones: meta.tombstones,
        range_tombstones: meta.range_tombstones,
        largest_sequence: meta.largest_sequence.max(meta.sequence_override),
        earliest_deadline_ms: Some(meta.earliest_deadline_ms).filter(|&ms| ms > 0),
    }
}

fn change(change: &Change) -> ManifestChange {
    use Field::{Bytes, Number, Text};
    let id_of = |keyspace: &u32| ("keyspace", Number(u64::from(*keyspace)));
    let level_of = |level: &u8| ("level", Number(u64::from(*level)));
    let (kind, fields) = match change {
        Change::Identity { format, store } => {
            ("identity", vec![("format", Number(*format)), ("store", Number(*store))])
        }
        Change::NextFile(number) => ("next-file", vec![("number", Number(*number))]),
        Change::LastSequence(sequence) => ("last-sequence", vec![("sequence", Number(*sequence))]),
        Change::MinLog(number) => ("min-log", vec![("number", Number(*number))]),
        Change::LogPassed(position) => {
            let fields = [("number", position.log), ("offset", position.offset)];
            ("log-passed", fields.map(|(name, value)| (name, Number(value))).to_vec())
        }
        Change::LogSynced(position) => {
            let fields = [("number", position.log), ("offset", position.offset)];
            ("log-synced", fields.map(|(name, value)| (name, Number(value))).to_vec())
        }
        Change::PutKeyspace { id, name, .. } => {
            ("put-keyspace", vec![id_of(id), ("name", Text(name.to_string()))])
        }
        Change::NextKeyspace(id) => ("next-keyspace", vec![id_of(id)]),
        Change::DropKeyspace { id } => ("drop-keyspace", vec![id_of(id)]),
        Change::Flushed { keyspace, sequence } => {
            ("flushed", vec![id_of(keyspace), ("sequence", Number(*sequence))])
        }
        Change::AddTable { keyspace, level, table } => {
            let mut fields = vec![
                id_of(keyspace),
                level_of(level),
                ("table", Number(table.id)),
                ("bytes", Number(table.bytes)),
                ("entries", Number(table.entries)),
                ("smallest", Bytes(table.smallest.to_vec())),
                ("largest", Bytes(table.largest.to_vec())),
            ];
            if table.shares_file() {
                fields.extend([("file", Number(table.file)), ("offset", Number(table.offset))]);
            }
            ("add-table", fields)
        }
        Change::RemoveTable { keyspace, level, id } => {
            ("remove-table", vec![id_of(keyspace), level_of(level), ("table", Number(*id))])
        }
    };
    ManifestChange { kind, fields }
}
