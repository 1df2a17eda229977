//! The decoders of the store's formats, for fuzzers: bytes in, plain data out. Not part of the
//! public API; may change at any time.
//!
//! All functions are thin wrappers around the code that the store itself uses. Checksums reject
//! most changes that a fuzzer makes, so the `fix_*` functions recompute the checksums of modified
//! bytes, as far as the decoders can follow them.
#![allow(missing_docs, reason = "for fuzzers; the names are those of the formats")]

use std::num::NonZeroU8;
use std::path::Path;
use std::sync::Arc;

use tidekv_cache::BlockKind;
use tidekv_io::{Access, AppendFile, MemoryStorage, Storage};

use crate::batch::{begin_record, decode_record};
use crate::error::Result;
use crate::format::coding::{put_bytes, put_varint};
use crate::format::key::{Kind, LookupKey, SEQUENCE_MAX, Trailer};
use crate::format::range_tombstones::RangeTombstone;
use crate::options::{Compression, FilterKind};
use crate::sst::block::{self, Block, Sealer};
use crate::sst::blocks::Blocks;
use crate::sst::cursor::{Cursor, Target};
use crate::sst::filter::{self, FilterBuilder};
use crate::sst::table::{self, Reading, Step, Table, TableBuilder, TableCursor, TableOptions};
use crate::version::manifest::{self, Edit, State};
use crate::wal::format::{self, HEADER_BYTES, Header};
use crate::wal::{Ending, LogReader, LogWriter};
use crate::warm::hot_list::{self, HotList};
use crate::warm::list_file;
use crate::warm::repair_list::{self, RepairList};

/// The id of the tables that are opened and built here.
pub const TABLE: u64 = 7;

const PATH: &str = "/file";

/// User key, sequence, kind and payload.
pub type Entry = (Vec<u8>, u64, u8, Vec<u8>);

/// First key, end and sequence of a range tombstone.
pub type DeletedRange = (Vec<u8>, Vec<u8>, u64);

fn storage_of(bytes: &[u8]) -> MemoryStorage {
    let storage = MemoryStorage::new();
    storage.write_file(PATH, bytes);
    storage
}

// ---- Tables ----

/// An open table.
#[derive(Debug)]
pub struct TableFile {
    table: Arc<Table>,
    blocks: Arc<Blocks>,
}

impl TableFile {
    pub fn open(bytes: &[u8]) -> Result<Self> {
        let storage = storage_of(bytes);
        let table = Table::open(storage.open_read(Path::new(PATH), Access::Direct)?, TABLE)?;
        Ok(Self {
            table: Arc::new(table),
            blocks: Arc::new(Blocks::standalone(Arc::new(storage), 64 << 10)),
        })
    }

    /// The damage that `tidekv check` finds.
    pub fn damage(&self) -> Vec<String> {
        table::check(&self.table, &self.blocks).damage
    }

    pub fn describe(&self) -> Result<usize> {
        table::describe(&self.table, &self.blocks).map(|blocks| blocks.len())
    }

    /// Entries from one end, up to `bytes_max` bytes, or the first error.
    pub fn walk(&self, forward: bool, bytes_max: usize) -> Result<Vec<Entry>> {
        let (table, blocks) = (self.table.clone(), self.blocks.clone());
        let mut cursor = TableCursor::new(table, blocks, Reading::Cached(Arc::default()));
        let mut entries = Vec::new();
        cursor.seek(if forward { Target::First } else { Target::Last })?;
        let mut bytes = 0;
        while cursor.valid() && bytes < bytes_max {
            bytes += size_of::<Entry>() + cursor.user_key().len() + cursor.value().len();
            let (key, trailer) = (cursor.user_key().to_vec(), cursor.trailer());
            let value = cursor.value().to_vec();
            entries.push((key, trailer.sequence(), trailer.kind() as u8, value));
            if forward {
                cursor.next()?
            } else {
                cursor.prev()?
            };
        }
        Ok(entries)
    }

    /// Sequence, kind and payload of the entry that a reader at `sequence` sees.
    pub fn get(&self, key: &[u8], sequence: u64) -> Result<Option<(u64, u8, Vec<u8>)>> {
        let mut probe = self.table.probe(LookupKey::new(key, sequence.min(SEQUENCE_MAX)));
        let mut supplied = None;
        loop {
            match probe.step(&self.blocks, supplied.take())? {
                Step::Need(address) => supplied = Some(self.blocks.read(&address)?),
                Step::Absent => return Ok(None),
                Step::Found(found) => {
                    let (trailer, payload) = (found.trailer, found.payload().to_vec());
                    return Ok(Some((trailer.sequence(), trailer.kind() as u8, payload)));
                }
            }
        }
    }

    /// The newest range tombstone over `key`.
    pub fn tombstone_over(&self, key: &[u8]) -> u64 {
        self.table.range_tombstones().newest_over(key, SEQUENCE_MAX)
    }
}

fn filter_kind_of(code: u8) -> FilterKind {
    [FilterKind::Bloom, FilterKind::Cuckoo][usize::from(code % 2)]
}

fn compression_of(code: u8) -> Compression {
    [Compression::None, Compression::Lz4, Compression::Zstd][usize::from(code % 3)]
}

/// A table of `entries`, which are in order, each once.
pub fn build_table(
    entries: &[Entry],
    tombstones: &[DeletedRange],
    compression: u8,
    block_bytes: u32,
    (filter_kind, filter_bits_per_key): (u8, u8),
) -> Result<Vec<u8>> {
    let storage = MemoryStorage::new();
    let file = storage.create(Path::new(PATH), Access::Direct)?;
    let compression = compression_of(compression);
    let options = TableOptions {
        id: TABLE,
        keyspace: 1,
        compression,
        block_bytes,
        filter_bits_per_key,
        filter_kind: filter_kind_of(filter_kind),
    };
    let mut builder = TableBuilder::new(AppendFile::new(file, 4096), options);
    for (key, sequence, kind, payload) in entries {
        let kind = Kind::from_u8(*kind).expect("the caller has a kind");
        builder.add(key, Trailer::new(*sequence, kind), payload)?;
    }
    for (start, end, sequence) in tombstones {
        builder.add_range_tombstone(&RangeTombstone::new(start, end, *sequence));
    }
    builder.finish()?;
    Ok(storage.read_file(PATH).expect("it was just written"))
}

/// Recomputes the checksums of table `id`, from the footer downwards.
pub fn fix_table_checksums(bytes: &mut [u8], id: u64) {
    table::fix_checksums(bytes, id);
}

/// Opens `content` as a block of each kind after it went through an envelope; returns the number of
/// entries, if it is a block of entries.
pub fn open_block(content: &[u8], compression: u8) -> Option<usize> {
    let mut sealed = Vec::new();
    Sealer::default().seal(content, compression_of(compression), 1, &mut sealed);
    let opened = block::open_part(&sealed, 1).expect("it was just sealed");
    assert_eq!(&*opened, content, "an envelope returns its input");
    entries_of(opened)
}

/// Opens an envelope after recomputing its checksum.
pub fn open_envelope(sealed: &mut [u8]) -> Option<usize> {
    block::fix_checksum(sealed, 1);
    entries_of(block::open_part(sealed, 1).ok()?)
}

/// Reads every entry of a block and looks up every key.
fn entries_of(content: block::Content) -> Option<usize> {
    let block = Block::new(content, BlockKind::Data, 0)?;
    let view = block.view();
    let mut key = Vec::new();
    for i in 0..view.len() {
        let entry = view.entry(i);
        view.key_into(i, &mut key);
        assert!(view.has_key(i, &key), "a block has the keys that it yields");
        assert!(view.lower_bound(&key, entry.trailer) <= view.len());
        assert_eq!(&block.bytes()[entry.payload_range()], entry.payload);
    }
    Some(view.len())
}

/// Whether the key with `hash` passes `filter`.
pub fn passes_filter(filter: &[u8], hash: u64) -> bool {
    filter::may_contain(filter, hash)
}

pub fn build_filter(kind: u8, bits_per_key: u8, hashes: &[u64]) -> Vec<u8> {
    let bits = NonZeroU8::new(bits_per_key).unwrap_or(NonZeroU8::MIN);
    let mut builder = FilterBuilder::new(filter_kind_of(kind), bits);
    hashes.iter().for_each(|&hash| builder.add(hash));
    builder.finish().filter
}

/// Decodes properties, range tombstones, partitions and handles; returns whether all that decode
/// are the same after encoding them again.
pub fn decode_table_parts(bytes: &[u8]) -> bool {
    table::parts_round_trip(bytes)
}

// ---- Logs ----

/// A log of `records` (payload, and whether a sync follows) in the file
/// `before`, which belongs to other logs.
pub fn write_log(
    before: &[u8],
    number: u64,
    records: &[(Vec<u8>, bool)],
    successor: Option<u64>,
) -> Result<Vec<u8>> {
    let storage = storage_of(before);
    let file = storage.open(Path::new(PATH), Access::Buffered)?;
    let mut writer = LogWriter::recycling(file, number);
    for (record, sync) in records {
        writer.append(|out| {
            out.push(format::RECORD_WRITES);
            out.extend_from_slice(record);
        })?;
        if *sync {
            writer.sync()?;
        }
    }
    if let Some(successor) = successor {
        writer.finish(successor)?;
    }
    Ok(storage.read_file(PATH).expect("it was just written"))
}

/// The records of a log without their kinds, and the number of its successor, if any.
pub fn read_log(bytes: &[u8], number: u64) -> Result<(Vec<Vec<u8>>, Option<u64>)> {
    let storage = storage_of(bytes);
    let file = storage.open_read(Path::new(PATH), Access::Buffered)?;
    let mut reader = LogReader::new(file, number)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record[1..].to_vec());
    }
    let successor = match reader.ending() {
        Ending::Complete { successor } => Some(successor),
        Ending::Cut { .. } => None,
    };
    Ok((records, successor))
}

/// Recomputes the checksums of frames, as far as lengths lead from one to the next.
pub fn fix_log_checksums(bytes: &mut [u8], number: u64) {
    let len = bytes.len() as u64;
    let mut at = 0;
    while let Some(header) = Header::decode(&bytes[at..], at as u64, len) {
        let end = at + HEADER_BYTES + header.payload_len as usize;
        format::seal_frame(&mut bytes[at..end], number, header.synced);
        at = end;
    }
}

// ---- Manifest ----

/// Reads a store's `manifest`, a file of that number, like recovery; returns its number of tables.
pub fn read_manifest(manifest: &[u8], number: u64) -> Result<usize> {
    let storage = MemoryStorage::new();
    storage.write_file(format!("/{}", crate::format::files::manifest_name(number)), manifest);
    storage.write_file("/CURRENT", manifest::file::current_line(number).as_bytes());
    let found = manifest::file::read(&storage, Path::new("/"))?;
    let (state, _) = found.expect("`CURRENT` exists");
    let mut again = State::new(0);
    again.apply(&state.snapshot()).expect("a snapshot contradicts nothing");
    assert_eq!(again, state, "a snapshot makes the state that it was taken of");
    Ok(state.tables().count())
}

/// Decodes an edit and encodes it again.
pub fn decode_edit(record: &[u8]) -> Option<Vec<u8>> {
    let edit = Edit::decode(record).ok()?;
    let mut encoded = Vec::new();
    edit.encode(&mut encoded);
    assert_eq!(Edit::decode(&encoded), Ok(edit), "an edit round-trips");
    Some(encoded)
}

// ---- The list of hot entries ----

/// Recomputes the checksum of a list of hot entries.
pub fn fix_hot_list_checksum(bytes: &mut [u8]) {
    list_file::seal(hot_list::MAGIC, bytes);
}

/// Decodes a list of hot entries; returns its encoding, and its encoding without pointers and
/// values, which are trusted.
pub fn decode_hot_list(bytes: &[u8]) -> Option<[Vec<u8>; 2]> {
    let mut list = HotList::decode(bytes)?;
    let encoded = list.encode();
    assert_eq!(HotList::decode(&encoded).as_ref(), Some(&list), "a list round-trips");
    list.pointers.clear();
    list.keys.iter_mut().for_each(|key| key.value = None);
    Some([encoded, list.encode()])
}

// ---- Filter repairs ----

/// Recomputes the checksum of a list of filter repairs.
pub fn fix_repair_list_checksum(bytes: &mut [u8]) {
    list_file::seal(repair_list::MAGIC, bytes);
}

/// Decodes a list of filter repairs and encodes it again.
pub fn decode_repair_list(bytes: &[u8]) -> Option<Vec<u8>> {
    let list = RepairList::decode(bytes)?;
    let encoded = list.encode();
    assert_eq!(RepairList::decode(&encoded), Some(list), "a list round-trips");
    Some(encoded)
}

// ---- Batches ----

/// Decodes a record of writes; returns its first sequence and its encoding.
pub fn decode_writes(record: &[u8]) -> Option<(u64, Vec<u8>)> {
    let (first, operations) = decode_record(record).ok()?;
    let mut encoded = Vec::new();
    begin_record(&mut encoded, first);
    for operation in operations {
        let operation = operation?;
        encoded.push(operation.kind as u8);
        put_varint(&mut encoded, u64::from(operation.keyspace));
        put_bytes(&mut encoded, operation.key);
        if operation.kind != Kind::Delete {
            put_bytes(&mut encoded, operation.payload);
        }
    }
    Some((first, encoded))
}
