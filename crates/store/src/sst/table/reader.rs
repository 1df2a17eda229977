//! [`Table`]: an open table. It holds the top level of the index, the properties and the range
//! tombstones; all other blocks are read through [`Blocks`](crate::sst::blocks::Blocks). Immutable,
//! shared between threads.

use std::path::Path;
use std::sync::Arc;

use tidekv_cache::{BlockKind, FilterWorth};
use tidekv_io::File;

use super::format::{FOOTER_BYTES, Footer, Partition, decode_range_tombstones};
use super::properties::TableProperties;
use crate::error::{Error, Result};
use crate::format::key::{SEQUENCE_MAX, Trailer};
use crate::format::range_tombstones::RangeTombstones;
use crate::sst::block::{Block, BlockHandle, BlockView, Content, TRAILER_BYTES, open_part, seed};
use crate::sst::block_address::{BlockAddress, TableFile};
use crate::sst::block_tier::Fingerprints;
use crate::sst::file_handles::FileHandle;
use crate::sst::filter::TableRepairs;

/// Size of the first read: enough for footer, properties and top level of tables up to about a GiB,
/// so that a table opens with one read.
const TAIL_BYTES: u64 = 16 << 10;

/// An open table.
#[derive(Debug)]
pub(crate) struct Table {
    file: Arc<TableFile>,
    /// An entry for each partition: its last separator.
    top: Block,
    /// The partitions that the entries of `top` refer to.
    partitions: Box<[Partition]>,
    properties: TableProperties,
    range_tombstones: RangeTombstones,
    filter_worth: FilterWorth,
    filter_repairs: TableRepairs,
    /// Size of all filters.
    filter_bytes: u64,
}

impl Table {
    /// Opens the table `id`, which is all of `file`.
    pub(crate) fn open(file: Arc<dyn File>, id: u64) -> Result<Self> {
        let bytes = file.len()?;
        Self::open_in((FileHandle::of(file), 0), id, bytes)
    }

    /// Opens the table `id`, which takes `bytes` bytes of `file` from `start` on.
    pub(crate) fn open_in(
        (handle, start_in_file): (Arc<FileHandle>, u64),
        id: u64,
        bytes: u64,
    ) -> Result<Self> {
        let file = handle.file()?;
        let read = |offset: u64| {
            file.read_at(start_in_file.saturating_add(offset), (bytes - offset) as usize)
        };
        if bytes < FOOTER_BYTES as u64 {
            return Err(Error::corrupt(
                file.path(),
                format_args!("{bytes} bytes are too few for a table"),
            ));
        }
        let tail_start = bytes.saturating_sub(TAIL_BYTES);
        let tail = read(tail_start)?;
        let footer: &[u8; FOOTER_BYTES] =
            tail.last_chunk().expect("the tail is longer than the footer");
        let footer = Footer::decode(footer, id, file.path())?;
        // The three blocks are adjacent and precede the footer.
        let start =
            footer.range_tombstones.offset.min(footer.properties.offset).min(footer.top.offset);
        let mut sections = Sections { file: &*file, id, start: tail_start, bytes: tail };
        if start < tail_start {
            sections = Sections { start, bytes: read(start)?, ..sections };
        }
        let range_tombstones = sections.content(footer.range_tombstones)?;
        let range_tombstones = decode_range_tombstones(&range_tombstones)
            .ok_or_else(|| Error::corrupt(file.path(), "its range tombstones cannot be decoded"))?;
        let encoded = sections.content(footer.properties)?;
        let properties = TableProperties::decode(&encoded)
            .filter(|properties| properties.id == id)
            .ok_or_else(|| Error::corrupt(file.path(), "its properties cannot be decoded"))?;
        let properties = TableProperties { file_bytes: bytes, ..properties };
        let top = Block::new(sections.content(footer.top)?, BlockKind::Index, footer.top.offset);
        let top = top.ok_or_else(|| Error::corrupt(file.path(), "its index cannot be decoded"))?;
        let partitions =
            (0..top.view().len()).map(|i| Partition::decode(top.view().entry(i).payload));
        let partitions: Option<Box<[Partition]>> = partitions.collect();
        let partitions = partitions
            .ok_or_else(|| Error::corrupt(file.path(), "its index leads to no blocks"))?;
        if partitions.iter().any(|partition| partition.mirror.end() > bytes) {
            return Err(Error::corrupt(file.path(), "a mirror reaches past its end"));
        }
        let fingerprints = Fingerprints::new(properties.contents, &encoded, top.bytes());
        let place = (Arc::clone(&handle), start_in_file);
        let table_file = TableFile::new(place, id, properties.keyspace, bytes);
        let is_repairable = partitions.iter().any(|partition| !partition.mirror.is_none());
        Ok(Self {
            filter_bytes: partitions.iter().map(|it| u64::from(it.filter.len)).sum(),
            filter_repairs: TableRepairs::new(if is_repairable { partitions.len() } else { 0 }),
            file: Arc::new(table_file.known_by(fingerprints)),
            top,
            partitions,
            properties,
            range_tombstones: RangeTombstones::new(&range_tombstones),
            filter_worth: FilterWorth::default(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn properties(&self) -> &TableProperties {
        &self.properties
    }

    pub(crate) fn range_tombstones(&self) -> &RangeTombstones {
        &self.range_tombstones
    }

    /// Bytes of DRAM that the open table holds outside the cache.
    pub(crate) fn charge(&self) -> usize {
        size_of::<Self>()
            + size_of::<TableFile>()
            + self.top.charge()
            + size_of_val(&*self.partitions)
            + self.properties.charge()
            + self.range_tombstones.charge()
            + self.filter_repairs.charge()
    }

    /// The approximate number of bytes of the file before `user_key`, accurate to a partition; no
    /// I/O.
    pub(crate) fn approximate_offset_of(&self, user_key: &[u8]) -> u64 {
        let partition = self.partition_of(user_key, Trailer::seek(SEQUENCE_MAX));
        match partition.checked_sub(1) {
            Some(before) => self.partitions[before].index.end(),
            None => 0,
        }
    }

    /// User keys that cut the table into partitions (a MiB or two of data each), ascending: a
    /// partition holds the keys up to its separator, inclusive.
    pub(crate) fn separators(&self) -> Vec<Box<[u8]>> {
        let view = self.top.view();
        let mut key = Vec::new();
        let mut separators: Vec<Box<[u8]>> = (1..view.len())
            .map(|i| {
                view.key_into(i - 1, &mut key);
                key.as_slice().into()
            })
            .collect();
        separators.dedup();
        separators
    }

    /// Index block and filter block (of length 0 if there is none) of each partition, in the order
    /// of the file; its data blocks precede them.
    pub(crate) fn metadata_blocks(&self) -> impl Iterator<Item = (BlockHandle, BlockHandle)> {
        self.partitions.iter().map(|partition| (partition.index, partition.filter))
    }

    /// The addresses of the blocks that begin at `offsets`, ascending; offsets where no block
    /// begins are skipped. `get` fetches all required index blocks at once; parts of the table
    /// whose index it does not return are skipped, too.
    pub(crate) fn addresses_at(
        &self,
        offsets: &[u64],
        get: impl FnOnce(&[BlockAddress]) -> Vec<Result<Arc<Block>>>,
    ) -> Result<Vec<BlockAddress>> {
        let (mut wanted, mut indexes) = (Vec::new(), Vec::new());
        let mut rest = offsets;
        for partition in &self.partitions {
            let (of_partition, behind) =
                rest.split_at(rest.partition_point(|&offset| offset < partition.index.end()));
            rest = behind;
            if !of_partition.is_empty() {
                wanted.push((partition, of_partition));
                indexes.push(self.address(partition.index, BlockKind::Index));
            }
        }
        let mut addresses = Vec::with_capacity(offsets.len());
        for ((Partition { index, filter, .. }, offsets), block) in
            wanted.into_iter().zip(get(&indexes))
        {
            let Ok(block) = block else { continue };
            let mut find = |handle: BlockHandle, kind| {
                if handle.len > 0 && offsets.binary_search(&handle.offset).is_ok() {
                    addresses.push(self.address(handle, kind));
                }
            };
            for i in 0..block.view().len() {
                find(self.data_handle(&block, i)?, BlockKind::Data);
            }
            find(*filter, BlockKind::Filter);
            find(*index, BlockKind::Index);
        }
        Ok(addresses)
    }

    pub(crate) fn file(&self) -> &Arc<TableFile> {
        &self.file
    }

    /// The last key of each partition but the last, and the bytes of the file up to its end.
    pub(crate) fn partition_ends(&self) -> Vec<(Box<[u8]>, u64)> {
        let view = self.top.view();
        let mut key = Vec::new();
        let end = |i: usize| {
            view.key_into(i, &mut key);
            (key.as_slice().into(), self.partitions[i].index.end())
        };
        (0..view.len().saturating_sub(1)).map(end).collect()
    }

    pub(super) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Measured savings of the table's filters.
    pub(super) fn filter_worth(&self) -> &FilterWorth {
        &self.filter_worth
    }

    /// Bytes of all filters.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.filter_bytes
    }

    /// Repairs of its filters.
    pub(crate) fn filter_repairs(&self) -> &TableRepairs {
        &self.filter_repairs
    }

    pub(super) fn top(&self) -> BlockView<'_> {
        self.top.view()
    }

    /// The partition that holds the first entry at or after an internal key; the number of
    /// partitions if none does.
    pub(super) fn partition_of(&self, user_key: &[u8], trailer: Trailer) -> usize {
        self.top.view().lower_bound(user_key, trailer)
    }

    pub(super) fn address(&self, handle: BlockHandle, kind: BlockKind) -> BlockAddress {
        BlockAddress { file: self.file.clone(), handle, kind }
    }

    /// The data block that entry `i` of an index block refers to.
    pub(super) fn data_handle(&self, index: &Block, i: usize) -> Result<BlockHandle> {
        let payload = index.view().entry(i).payload;
        BlockHandle::decode(&mut crate::format::coding::Reader::new(payload)).ok_or_else(|| {
            let what =
                format!("entry {i} of the index block at offset {} leads nowhere", index.offset());
            Error::corrupt(self.path(), what)
        })
    }
}

/// The end of a file, from which blocks are taken while the table opens.
struct Sections<'a> {
    file: &'a dyn File,
    id: u64,
    start: u64,
    bytes: tidekv_io::Buffer,
}

impl Sections<'_> {
    /// The content of a block that must be inside the section.
    fn content(&self, handle: BlockHandle) -> Result<Content> {
        let damaged = |what: &str| {
            Error::corrupt(
                self.file.path(),
                format_args!("block at offset {}: {what}", handle.offset),
            )
        };
        let end = self.bytes.len() - FOOTER_BYTES;
        let disk = handle
            .offset
            .checked_sub(self.start)
            .and_then(|start| {
                self.bytes[..end].get(usize::try_from(start).ok()?..)?.get(..handle.len as usize)
            })
            .filter(|disk| disk.len() >= TRAILER_BYTES)
            .ok_or_else(|| damaged("it does not lie inside the file"))?;
        open_part(disk, seed(self.id, handle.offset)).map_err(|what| damaged(&what))
    }
}
