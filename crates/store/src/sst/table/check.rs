//! [`check()`] reads all of a table and lists the damage; [`describe`] lists its blocks. Both read
//! past the cache.

use tidekv_cache::BlockKind;

use super::format::Partition;
use super::properties::TableProperties;
use super::reader::Table;
use crate::error::Result;
use crate::format::checksum::key_hash;
use crate::format::key::{Kind, Trailer, compare, split_deadline};
use crate::sst::block::{Block, BlockHandle, BlockRef};
use crate::sst::blocks::Blocks;
use crate::sst::filter::{self, FilterAnswer};

/// The result of a check.
#[derive(Debug, Default)]
pub(crate) struct TableCheck {
    pub(crate) blocks: u64,
    pub(crate) entries: u64,
    /// A sentence for each damage; empty when the table is sound.
    pub(crate) damage: Vec<String>,
}

/// A block of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockDescription {
    /// `data`, `index`, `filter` or `mirror`.
    pub(crate) kind: &'static str,
    pub(crate) offset: u64,
    /// On disk, envelope included.
    pub(crate) bytes: u32,
    /// In memory, uncompressed.
    pub(crate) content_bytes: usize,
    /// 0 for filters and mirrors.
    pub(crate) entries: usize,
}

/// Reads all of `table` and checks that all checksums agree, entries and separators are in order,
/// every key passes its filter, and the properties are correct.
pub(crate) fn check(table: &Table, blocks: &Blocks) -> TableCheck {
    let mut checker = Checker {
        table,
        blocks,
        found: TableCheck::default(),
        counted: TableProperties::default(),
        last: None,
        complete: true,
    };
    for partition in 0..table.partitions().len() {
        checker.check_partition(partition);
    }
    checker.check_properties();
    checker.found.entries = checker.counted.entries;
    checker.found
}

/// A list of the blocks of `table`, in the order of keys: each partition's
/// data blocks, then its filter, its index and its mirror.
pub(crate) fn describe(table: &Table, blocks: &Blocks) -> Result<Vec<BlockDescription>> {
    let read = |handle, kind| read_one(table, blocks, handle, kind);
    let mut list = Vec::new();
    for partition in table.partitions() {
        let index = read(partition.index, BlockKind::Index)?;
        for i in 0..index.view().len() {
            let handle = table.data_handle(&index, i)?;
            list.push(description(handle, &*read(handle, BlockKind::Data)?));
        }
        if !partition.filter.is_none() {
            list.push(description(partition.filter, &*read(partition.filter, BlockKind::Filter)?));
        }
        list.push(description(partition.index, &index));
        for handle in partition.mirror_blocks() {
            let block = read(handle, BlockKind::Filter)?;
            list.push(BlockDescription { kind: "mirror", ..description(handle, &block) });
        }
    }
    Ok(list)
}

fn description(handle: BlockHandle, block: &Block) -> BlockDescription {
    let entries = if block.kind() == BlockKind::Filter { 0 } else { block.view().len() };
    BlockDescription {
        kind: name_of(block.kind()),
        offset: handle.offset,
        bytes: handle.len,
        content_bytes: block.bytes().len(),
        entries,
    }
}

fn name_of(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Data => "data",
        BlockKind::Index => "index",
        BlockKind::Filter => "filter",
    }
}

fn read_one(
    table: &Table,
    blocks: &Blocks,
    handle: BlockHandle,
    kind: BlockKind,
) -> Result<BlockRef> {
    Ok(blocks.read_past_cache(&[table.address(handle, kind)])?.swap_remove(0))
}

/// The structure that lacks the key with this hash, if any.
fn missing_in(filter: &[u8], mirror: Option<&[u8]>, hash: u64) -> Option<&'static str> {
    let (matches, mirror) = match (filter::look(filter, hash), mirror) {
        (FilterAnswer::Absent, _) => return Some("filter"),
        (FilterAnswer::Matches(matches), Some(mirror)) => (matches, mirror),
        _ => return None,
    };
    let tails_of = |bucket: u32| {
        let at = bucket as usize * filter::MIRROR_BUCKET_BYTES;
        Some(filter::tails(*mirror.get(at..)?.first_chunk()?))
    };
    (!matches.stand_in(tails_of)).then_some("filter's mirror")
}

/// An owned internal key.
type OwnedKey = (Vec<u8>, Trailer);

struct Checker<'a> {
    table: &'a Table,
    blocks: &'a Blocks,
    found: TableCheck,
    /// Properties computed from the entries.
    counted: TableProperties,
    /// The last entry or separator.
    last: Option<OwnedKey>,
    /// Whether all data blocks could be read, so that counts are meaningful.
    complete: bool,
}

impl Checker<'_> {
    fn damaged(&mut self, what: impl std::fmt::Display) {
        self.found.damage.push(format!("{}: {what}", self.table.path().display()));
    }

    fn read(&mut self, handle: BlockHandle, kind: BlockKind) -> Option<BlockRef> {
        match read_one(self.table, self.blocks, handle, kind) {
            Ok(block) => {
                self.found.blocks += 1;
                Some(block)
            }
            Err(error) => {
                self.found.damage.push(error.to_string());
                None
            }
        }
    }

    fn check_partition(&mut self, number: usize) {
        let partition = self.table.partitions()[number];
        let filter = if partition.filter.is_none() {
            None
        } else {
            self.read(partition.filter, BlockKind::Filter)
        };
        let mirror = self.read_mirror(&partition);
        let filter = filter.map(|filter| (filter, mirror));
        let Some(index) = self.read(partition.index, BlockKind::Index) else {
            self.complete = false;
            return;
        };
        for i in 0..index.view().len() {
            let handle = match self.table.data_handle(&index, i) {
                Ok(handle) => handle,
                Err(error) => {
                    self.damaged(error);
                    self.complete = false;
                    continue;
                }
            };
            match self.read(handle, BlockKind::Data) {
                Some(block) => {
                    self.check_entries(&block, filter.as_ref());
                    self.counted.count_data_block(block.bytes(), handle.len);
                }
                None => self.complete = false,
            }
            self.check_separator(&index, i);
        }
        let top = self.table.top();
        let mut separator = Vec::new();
        top.key_into(number, &mut separator);
        let last = (separator, top.entry(number).trailer);
        if self.last.as_ref() != Some(&last) {
            self.damaged(format_args!(
                "the top-level index and partition {number} end at different keys"
            ));
        }
    }

    /// The tails of all buckets; `None`: there is no mirror, or a part of it cannot be read.
    fn read_mirror(&mut self, partition: &Partition) -> Option<Vec<u8>> {
        let mut mirror = Vec::new();
        for handle in partition.mirror_blocks() {
            mirror.extend_from_slice(self.read(handle, BlockKind::Filter)?.bytes());
        }
        (!mirror.is_empty()).then_some(mirror)
    }

    fn check_entries(&mut self, block: &Block, filter: Option<&(BlockRef, Option<Vec<u8>>)>) {
        let (view, at) = (block.view(), block.offset());
        let mut key = Vec::new();
        for i in 0..view.len() {
            let entry = view.entry(i);
            view.key_into(i, &mut key);
            if self
                .last
                .as_ref()
                .is_some_and(|(k, t)| compare((k, *t), (&key, entry.trailer)).is_ge())
            {
                self.damaged(format_args!("entry {i} of the block at offset {at} is out of order"));
            }
            if let Some(what) = filter.and_then(|(filter, mirror)| {
                missing_in(filter.bytes(), mirror.as_deref(), key_hash(&key))
            }) {
                self.damaged(format_args!(
                    "entry {i} of the block at offset {at} is not in its {what}"
                ));
            }
            let expiring = entry.trailer.kind() == Kind::Expiring;
            if entry.trailer.kind() == Kind::RangeDelete
                || (expiring && split_deadline(entry.payload).is_none())
            {
                self.damaged(format_args!(
                    "entry {i} of the block at offset {at} is no point entry"
                ));
            }
            if self.counted.entries == 0 {
                self.counted.smallest_key = key.as_slice().into();
            }
            self.counted.count_entry(&key, entry.trailer, entry.payload);
            let last = self.last.get_or_insert_with(|| (Vec::new(), entry.trailer));
            last.0.clone_from(&key);
            last.1 = entry.trailer;
        }
        self.counted.largest_key = key.into();
    }

    fn check_separator(&mut self, index: &Block, i: usize) {
        let mut separator = Vec::new();
        index.view().key_into(i, &mut separator);
        let trailer = index.view().entry(i).trailer;
        if self.last.as_ref().is_some_and(|(k, t)| compare((k, *t), (&separator, trailer)).is_gt())
        {
            let at = index.offset();
            self.damaged(format_args!(
                "entry {i} of the index block at offset {at} is out of order"
            ));
        }
        self.last = Some((separator, trailer));
    }

    fn check_properties(&mut self) {
        if !self.complete {
            return;
        }
        let stored = self.table.properties();
        for tombstone in self.table.range_tombstones().tombstones() {
            self.counted.count_range_tombstone(&tombstone);
        }
        self.counted.deadlines.compress();
        let counted = TableProperties {
            id: stored.id,
            keyspace: stored.keyspace,
            filter_kind: stored.filter_kind,
            filter_bits_per_key: stored.filter_bits_per_key,
            file_bytes: stored.file_bytes,
            contents: if stored.contents == 0 { 0 } else { self.counted.contents },
            deadlines: match stored.deadlines.is_assumed() {
                true => stored.deadlines.clone(),
                false => std::mem::take(&mut self.counted.deadlines),
            },
            // The builder has cut overlapping tombstones into fragments.
            range_tombstones: stored.range_tombstones,
            ..std::mem::take(&mut self.counted)
        };
        if counted != *stored {
            self.damaged(format_args!(
                "its properties are {stored:?}, but its entries give {counted:?}"
            ));
        }
        self.counted = counted;
    }
}
