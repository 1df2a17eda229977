//! An edit: changes to the store's structure that take effect together.
//!
//! ```text
//! SIZE     MEANING
//! 1        2 (record kind "edit", `wal/format.rs`)
//! then, for each change:
//! 1        tag, see `Tag`
//! varint   length of the body
//! n        body: varints and length-prefixed byte strings, in the order in
//!          which `Change::encode` writes them
//! ```
//!
//! An unknown tag means that a newer version wrote the store: the store is refused. Values on disk:
//! do not change.

use std::sync::Arc;
use std::time::Duration;

use crate::format::coding::{Reader, put_bytes, put_varint};
use crate::format::key::Sequence;
use crate::options::{Compression, FilterKind, KeyspaceOptions};
use crate::wal::LogPosition;
use crate::wal::format::RECORD_EDIT;

/// The format that this version reads and writes. Format 1 is that of the versions before 0.1.
pub(crate) const FORMAT_VERSION: u64 = 2;

/// The manifest's record of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) id: u64,
    /// The number of its file: its own, or that of a file that holds several tables.
    pub(crate) file: u64,
    /// Where it begins in a file of several tables; 0 in a file of its own.
    pub(crate) offset: u64,
    /// Its length in bytes, which is that of a file of its own.
    pub(crate) bytes: u64,
    /// Every key of the table, range tombstones included, is between `smallest` and `largest`.
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
    /// Whether `largest` is the exclusive end of a range tombstone.
    pub(crate) largest_is_exclusive: bool,
    pub(crate) entries: u64,
    /// Number of tombstones among the entries.
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u64,
    pub(crate) largest_sequence: Sequence,
    /// The sequence that replaces those in the file (bulk ingest); 0: none.
    pub(crate) sequence_override: Sequence,
    /// The earliest deadline of an entry, in milliseconds since 1970; 0: none.
    pub(crate) earliest_deadline_ms: u64,
}

impl TableMeta {
    /// Whether its file holds other tables, too.
    pub(crate) fn shares_file(&self) -> bool {
        self.file != self.id
    }

    /// Where it ends in its file.
    pub(crate) fn end_in_file(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// One change of the store's structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The first change of every manifest.
    Identity {
        format: u64,
        store: u64,
    },
    /// The next unused file number.
    NextFile(u64),
    /// Tables may contain sequences up to this one.
    LastSequence(Sequence),
    /// Logs with smaller numbers are obsolete.
    MinLog(u64),
    /// So are the frames of this log before the offset.
    LogPassed(LogPosition),
    /// The frames of this log before the offset, and all earlier logs, are on stable storage: less
    /// of them is damage. Written by flushes, and when the store is closed.
    LogSynced(LogPosition),
    /// The id of the next new keyspace: ids of dropped ones are not used again.
    NextKeyspace(u32),
    /// Creates a keyspace or changes its options.
    PutKeyspace {
        id: u32,
        name: Box<str>,
        options: KeyspaceOptions,
    },
    /// Drops a keyspace with all its tables. The logs may still hold writes to it.
    DropKeyspace {
        id: u32,
    },
    /// Tables hold the writes of the keyspace up to this sequence; replay skips the log's copies.
    Flushed {
        keyspace: u32,
        sequence: Sequence,
    },
    AddTable {
        keyspace: u32,
        level: u8,
        table: Arc<TableMeta>,
    },
    RemoveTable {
        keyspace: u32,
        level: u8,
        id: u64,
    },
}

/// Changes that take effect together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) changes: Vec<Change>,
}

impl Edit {
    /// Whether it adds tables or keyspaces: such an edit does not give space back.
    pub(crate) fn adds_files(&self) -> bool {
        let adds = |change: &Change| {
            matches!(change, Change::AddTable { .. } | Change::PutKeyspace { .. })
        };
        self.changes.iter().any(adds)
    }
}

/// Tags on disk: do not change.
mod tag {
    pub(super) const IDENTITY: u8 = 1;
    pub(super) const NEXT_FILE: u8 = 2;
    pub(super) const LAST_SEQUENCE: u8 = 3;
    pub(super) const MIN_LOG: u8 = 4;
    pub(super) const PUT_KEYSPACE: u8 = 5;
    pub(super) const FLUSHED: u8 = 6;
    pub(super) const ADD_TABLE: u8 = 7;
    pub(super) const REMOVE_TABLE: u8 = 8;
    pub(super) const LOG_PASSED: u8 = 9;
    pub(super) const NEXT_KEYSPACE: u8 = 10;
    pub(super) const DROP_KEYSPACE: u8 = 11;
    pub(super) const LOG_SYNCED: u8 = 12;
}

/// Why an edit cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The bytes are damaged.
    Damaged,
    /// A newer version wrote them.
    Newer,
    /// A version wrote them whose format is not read any more.
    Older,
}

impl Edit {
    pub(crate) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Appends the record to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(RECORD_EDIT);
        let mut body = Vec::new();
        for change in &self.changes {
            body.clear();
            out.push(change.encode(&mut body));
            put_bytes(out, &body);
        }
    }

    pub(crate) fn decode(record: &[u8]) -> Result<Self, Refused> {
        let mut reader = Reader::new(record);
        match reader.u8() {
            Some(RECORD_EDIT) => {}
            Some(_) => return Err(Refused::Newer),
            None => return Err(Refused::Damaged),
        }
        let mut changes = Vec::new();
        while !reader.is_empty() {
            let tag = reader.u8().ok_or(Refused::Damaged)?;
            let mut body = Reader::new(reader.bytes().ok_or(Refused::Damaged)?);
            if !(tag::IDENTITY..=tag::LOG_SYNCED).contains(&tag) {
                return Err(Refused::Newer);
            }
            let change = Change::decode(tag, &mut body).ok_or(Refused::Damaged)?;
            match change {
                Change::Identity { format, .. } if format > FORMAT_VERSION => {
                    return Err(Refused::Newer);
                }
                Change::Identity { format, .. } if format < FORMAT_VERSION => {
                    return Err(Refused::Older);
                }
                _ => {}
            }
            if !body.is_empty() {
                return Err(Refused::Newer);
            }
            changes.push(change);
        }
        Ok(Self { changes })
    }
}

impl Change {
    /// The keyspace that it changes, if it changes one.
    pub(crate) fn keyspace(&self) -> Option<u32> {
        match self {
            Self::PutKeyspace { id, .. } | Self::DropKeyspace { id } => Some(*id),
            Self::Flushed { keyspace, .. }
            | Self::AddTable { keyspace, .. }
            | Self::RemoveTable { keyspace, .. } => Some(*keyspace),
            Self::Identity { .. }
            | Self::NextFile(_)
            | Self::LastSequence(_)
            | Self::MinLog(_)
            | Self::LogPassed(_)
            | Self::LogSynced(_)
            | Self::NextKeyspace(_) => None,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::Identity { format, store } => {
                put_varint(out, *format);
                put_varint(out, *store);
                tag::IDENTITY
            }
            Self::NextFile(number) => {
                put_varint(out, *number);
                tag::NEXT_FILE
            }
            Self::LastSequence(sequence) => {
                put_varint(out, *sequence);
                tag::LAST_SEQUENCE
            }
            Self::MinLog(number) => {
                put_varint(out, *number);
                tag::MIN_LOG
            }
            Self::LogPassed(position) => {
                put_varint(out, position.log);
                put_varint(out, position.offset);
                tag::LOG_PASSED
            }
            Self::LogSynced(position) => {
                put_varint(out, position.log);
                put_varint(out, position.offset);
                tag::LOG_SYNCED
            }
            Self::NextKeyspace(id) => {
                put_varint(out, u64::from(*id));
                tag::NEXT_KEYSPACE
            }
            Self::DropKeyspace { id } => {
                put_varint(out, u64::from(*id));
                tag::DROP_KEYSPACE
            }
            Self::PutKeyspace { id, name, options } => {
                put_varint(out, u64::from(*id));
                put_bytes(out, name.as_bytes());
                encode_options(options, out);
                tag::PUT_KEYSPACE
            }
            Self::Flushed { keyspace, sequence } => {
                put_varint(out, u64::from(*keyspace));
                put_varint(out, *sequence);
                tag::FLUSHED
            }
            Self::AddTable { keyspace, level, table } => {
                put_varint(out, u64::from(*keyspace));
                out.push(*level);
                encode_table(table, out);
                tag::ADD_TABLE
            }
            Self::RemoveTable { keyspace, level, id } => {
                put_varint(out, u64::from(*keyspace));
                out.push(*level);
                put_varint(out, *id);
                tag::REMOVE_TABLE
            }
        }
    }

    fn decode(tag: u8, body: &mut Reader<'_>) -> Option<Self> {
        let keyspace = |body: &mut Reader<'_>| u32::try_from(body.varint()?).ok();
        Some(match tag {
            tag::IDENTITY => Self::Identity { format: body.varint()?, store: body.varint()? },
            tag::NEXT_FILE => Self::NextFile(body.varint()?),
            tag::LAST_SEQUENCE => Self::LastSequence(body.varint()?),
            tag::MIN_LOG => Self::MinLog(body.varint()?),
            tag::LOG_PASSED => {
                Self::LogPassed(LogPosition { log: body.varint()?, offset: body.varint()? })
            }
            tag::LOG_SYNCED => {
                Self::LogSynced(LogPosition { log: body.varint()?, offset: body.varint()? })
            }
            tag::NEXT_KEYSPACE => Self::NextKeyspace(keyspace(body)?),
            tag::DROP_KEYSPACE => Self::DropKeyspace { id: keyspace(body)? },
            tag::PUT_KEYSPACE => Self::PutKeyspace {
                id: keyspace(body)?,
                name: std::str::from_utf8(body.bytes()?).ok()?.into(),
                options: decode_options(body)?,
            },
            tag::FLUSHED => Self::Flushed { keyspace: keyspace(body)?, sequence: body.varint()? },
            tag::ADD_TABLE => Self::AddTable {
                keyspace: keyspace(body)?,
                level: body.u8()?,
                table: Arc::new(decode_table(body)?),
            },
            tag::REMOVE_TABLE => Self::RemoveTable {
                keyspace: keyspace(body)?,
                level: body.u8()?,
                id: body.varint()?,
            },
            _ => return None,
        })
    }
}

fn encode_table(table: &TableMeta, out: &mut Vec<u8>) {
    put_varint(out, table.id);
    put_varint(out, table.bytes);
    put_bytes(out, &table.smallest);
    put_bytes(out, &table.largest);
    out.push(u8::from(table.largest_is_exclusive));
    for number in [
        table.entries,
        table.tombstones,
        table.range_tombstones,
        table.largest_sequence,
        table.sequence_override,
        table.earliest_deadline_ms,
    ] {
        put_varint(out, number);
    }
    // An older version treats a store with such a table as one of a newer version.
    if table.shares_file() {
        put_varint(out, table.file);
        put_varint(out, table.offset);
    }
}

fn decode_table(body: &mut Reader<'_>) -> Option<TableMeta> {
    let mut table = TableMeta {
        id: body.varint()?,
        file: 0,
        offset: 0,
        bytes: body.varint()?,
        smallest: body.bytes()?.into(),
        largest: body.bytes()?.into(),
        largest_is_exclusive: body.u8()? != 0,
        entries: body.varint()?,
        tombstones: body.varint()?,
        range_tombstones: body.varint()?,
        largest_sequence: body.varint()?,
        sequence_override: body.varint()?,
        earliest_deadline_ms: body.varint()?,
    };
    if body.is_empty() {
        table.file = table.id;
        return Some(table);
    }
    (table.file, table.offset) = (body.varint()?, body.varint()?);
    table.shares_file().then_some(table)
}

/// Numbers on disk: do not change.
pub(crate) fn compression_code(compression: Compression) -> u8 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
    }
}

fn compression_of(code: u8) -> Option<Compression> {
    Some(match code {
        0 => Compression::None,
        1 => Compression::Lz4,
        2 => Compression::Zstd,
        _ => return None,
    })
}

/// Numbers on disk: do not change.
fn filter_code(kind: FilterKind) -> u8 {
    match kind {
        FilterKind::Bloom => 1,
        FilterKind::Cuckoo => 2,
    }
}

/// Leaves unknown bytes unread: the edit is then refused as one of a newer version.
fn decode_filter_kind(body: &mut Reader<'_>) -> FilterKind {
    match body.clone().u8() {
        Some(2) => {
            body.u8();
            FilterKind::Cuckoo
        }
        _ => FilterKind::default(),
    }
}

fn encode_options(options: &KeyspaceOptions, out: &mut Vec<u8>) {
    out.push(compression_code(options.compression));
    out.push(compression_code(options.compression_last));
    put_varint(out, u64::from(options.block_bytes));
    out.push(options.filter_bits_per_key);
    let ttl_ms =
        options.default_ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    put_varint(out, ttl_ms);
    // An older version treats a store with such a keyspace as one of a newer version.
    if options.filter_kind != FilterKind::default() {
        out.push(filter_code(options.filter_kind));
    }
}

fn decode_options(body: &mut Reader<'_>) -> Option<KeyspaceOptions> {
    Some(KeyspaceOptions {
        compression: compression_of(body.u8()?)?,
        compression_last: compression_of(body.u8()?)?,
        block_bytes: u32::try_from(body.varint()?).ok()?,
        filter_bits_per_key: body.u8()?,
        default_ttl: Some(body.varint()?).filter(|&ms| ms > 0).map(Duration::from_millis),
        filter_kind: decode_filter_kind(body),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Edit {
        let table = TableMeta {
            id: 9,
            file: 9,
            offset: 0,
            bytes: 1 << 30,
            smallest: b"a"[..].into(),
            largest: b"zz"[..].into(),
            largest_is_exclusive: true,
            entries: 3,
            tombstones: 1,
            range_tombstones: 1,
            largest_sequence: 99,
            sequence_override: 0,
            earliest_deadline_ms: 12,
        };
        let options = KeyspaceOptions {
            compression_last: Compression::Zstd,
            filter_kind: FilterKind::Cuckoo,
            default_ttl: Some(Duration::from_secs(3)),
            ..KeyspaceOptions::default()
        };
        let sharing = TableMeta { file: 4, offset: 4096, ..table.clone() };
        Edit {
            changes: vec![
                Change::Identity { format: FORMAT_VERSION, store: 77 },
                Change::NextFile(10),
                Change::LastSequence(300),
                Change::MinLog(4),
                Change::LogPassed(LogPosition { log: 4, offset: 4096 }),
                Change::NextKeyspace(3),
                Change::PutKeyspace { id: 1, name: "default".into(), options },
                Change::Flushed { keyspace: 1, sequence: 200 },
                Change::AddTable { keyspace: 1, level: 0, table: Arc::new(table) },
                Change::AddTable { keyspace: 1, level: 0, table: Arc::new(sharing) },
                Change::RemoveTable { keyspace: 1, level: 6, id: 5 },
                Change::DropKeyspace { id: 1 },
            ],
        }
    }

    #[test]
    fn edits_round_trip_and_truncated_ones_are_refused() {
        let mut bytes = Vec::new();
        example().encode(&mut bytes);
        assert_eq!(Edit::decode(&bytes), Ok(example()));
        for cut in 0..bytes.len() {
            if let Ok(edit) = Edit::decode(&bytes[..cut]) {
                assert!(edit.changes.len() < example().changes.len());
            }
        }
    }

    #[test]
    fn edit_of_a_newer_version_is_refused() {
        assert_eq!(Edit::decode(&[RECORD_EDIT, 200, 0]), Err(Refused::Newer));
        let newer =
            Edit { changes: vec![Change::Identity { format: FORMAT_VERSION + 1, store: 1 }] };
        let mut bytes = Vec::new();
        newer.encode(&mut bytes);
        assert_eq!(Edit::decode(&bytes), Err(Refused::Newer));
    }

    #[test]
    fn edit_of_a_format_before_0_1_is_refused() {
        for format in 0..FORMAT_VERSION {
            let older = Edit { changes: vec![Change::Identity { format, store: 1 }] };
            let mut bytes = Vec::new();
            older.encode(&mut bytes);
            assert_eq!(Edit::decode(&bytes), Err(Refused::Older), "format {format}");
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        let mut x = 1u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..(x % 60))
                .map(|_| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (x >> 56) as u8 % 14
                })
                .collect();
            let _ = Edit::decode(&[&[RECORD_EDIT], &bytes[..]].concat());
            x = x.wrapping_add(1);
        }
    }
}
