//! [`TableBuilder`]: writes a table from its first entry to its last, in one pass; memory holds
//! only the index and the key hashes of the current partition, and a few bytes for each previous
//! partition. Several tables can be written into one file, one after another. All offsets in a table
//! count from its beginning.
//!
//! Relies on: entries are added in internal order, each once. After an error the caller removes the
//! file.

use std::num::NonZeroU8;

use tidekv_cache::BlockKind;
use tidekv_cache::Pointer;
use tidekv_io::AppendFile;

use super::format::{
    BEHIND_ALL_VERSIONS, Footer, MIRROR_BUCKETS, PAGE_BYTES, Partition, encode_range_tombstones,
};
use super::properties::TableProperties;
use crate::error::Result;
use crate::format::checksum::key_hash;
use crate::format::entry_location::{RelocatedEntry, Tag};
use crate::format::key::{Trailer, compare, shortest_separator};
use crate::format::range_tombstones::RangeTombstone;
use crate::options::{Compression, FilterKind};
use crate::sst::block::{BlockBuilder, BlockHandle, Sealer, TRAILER_BYTES, seed};
use crate::sst::blocks::HotBlock;
use crate::sst::filter::{self, FilterBuilder, LINE_BYTES, MIRROR_BUCKET_BYTES};

/// Where tables begin in a file of several: filters, whose probes read a line, keep their alignment.
pub(crate) const TABLE_ALIGNMENT: u64 = LINE_BYTES as u64;

/// Target size of an index block. Like a data block it is read and cached as one unit; with one
/// page, an index block refers to some 300 data blocks.
const INDEX_BYTES: usize = 4096;

/// An index block may be this many times as large as the prefix that its separators share: a page
/// would hold little else where keys of kilobytes share most of their bytes.
const INDEX_PREFIXES: usize = 4;

/// Target size of a filter block, which is the larger half of a partition's metadata: four pages,
/// about 13 000 keys at 10 bits. With larger ones a cold lookup would read, and the cache keep, far
/// more than the lookup needs.
const FILTER_BYTES: usize = 16 << 10;

/// A data block is padded to whole pages if the padding is at most one part in sixteen of it.
const PADDING_MAX: u64 = 16;

/// A compressed data block may exceed the requested size by one part in this many, if without its
/// last entry it would fall short by more than that.
const OVERFLOW_SHARE: usize = 8;

/// Settings of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableOptions {
    pub(crate) id: u64,
    pub(crate) keyspace: u32,
    pub(crate) compression: Compression,
    /// Maximum size of a data block, envelope included, unless one entry is larger (compressed
    /// blocks may be slightly larger).
    pub(crate) block_bytes: u32,
    /// 0: no filters.
    pub(crate) filter_bits_per_key: u8,
    pub(crate) filter_kind: FilterKind,
}

/// Writes blocks one after another.
#[derive(Debug)]
struct BlockWriter {
    file: AppendFile,
    /// Where the table begins in the file.
    start: u64,
    sealer: Sealer,
    /// The last block in its envelope.
    sealed: Vec<u8>,
    table: u64,
}

impl BlockWriter {
    fn write(&mut self, content: &[u8], compression: Compression) -> Result<(BlockHandle, bool)> {
        let offset = self.offset();
        self.sealed.clear();
        let packed =
            self.sealer.seal(content, compression, seed(self.table, offset), &mut self.sealed);
        self.file.append(&self.sealed)?;
        // A block is at most 256 MiB of value and a few KiB (`key.rs`).
        let len = u32::try_from(self.sealed.len()).expect("blocks are shorter than 4 GiB");
        Ok((BlockHandle { offset, len }, packed))
    }

    /// The bytes of the table so far.
    fn offset(&self) -> u64 {
        self.file.offset() - self.start
    }

    /// Bytes from here to the next multiple of `unit` in the file.
    fn gap(&self, unit: u64) -> u64 {
        self.file.offset().next_multiple_of(unit) - self.file.offset()
    }

    fn pad_to(&mut self, unit: u64) -> Result<()> {
        let zeros = [0; PAGE_BYTES as usize];
        self.file.append(&zeros[..self.gap(unit) as usize])?;
        Ok(())
    }
}

/// Writes a table.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    writer: BlockWriter,
    options: TableOptions,
    properties: TableProperties,
    range_tombstones: Vec<RangeTombstone>,
    data: BlockBuilder,
    index: BlockBuilder,
    top: BlockBuilder,
    filter: Option<FilterBuilder>,
    last: Option<LastEntry>,
    /// A written data block without a separator: the next key determines it.
    unindexed: Option<BlockHandle>,
    /// Whether data blocks currently begin at pages.
    paged: bool,
    has_mirrors: bool,
    scratch: Vec<u8>,
    separator: Vec<u8>,
    /// Tagged entries of the data block under construction, with their positions.
    tagged: Vec<(Tag, u32)>,
    placed: Vec<RelocatedEntry>,
    /// Access frequency of the entries since the last block of each kind.
    heat: EntryHeat,
    hot: Vec<HotBlock>,
}

/// How often the blocks that hold an entry are accessed, divided among their entries.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct EntryHeat {
    pub(crate) data: f32,
    pub(crate) index: f32,
    pub(crate) filter: f32,
}

/// Blocks with more accesses than this are hot. Every block in the cache was accessed once.
pub(crate) const HEAT_MIN: f32 = 1.5;

/// A finished table.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) properties: TableProperties,
    /// The locations of the tagged entries.
    pub(crate) placed: Vec<RelocatedEntry>,
    /// Hot blocks that [`TableBuilder::take_hot`] has not taken.
    pub(crate) hot: Vec<HotBlock>,
}

/// The most recently added entry.
#[derive(Debug)]
struct LastEntry {
    user_key: Vec<u8>,
    trailer: Trailer,
}

impl TableBuilder {
    /// A builder that appends to `file`, which is empty or ends with a table, at a multiple of
    /// [`TABLE_ALIGNMENT`].
    pub(crate) fn new(file: AppendFile, options: TableOptions) -> Self {
        let filter = NonZeroU8::new(options.filter_bits_per_key)
            .map(|bits| FilterBuilder::new(options.filter_kind, bits));
        let properties = TableProperties {
            id: options.id,
            keyspace: options.keyspace,
            filter_kind: filter.as_ref().map_or(0, |_| filter::code_of(options.filter_kind)),
            filter_bits_per_key: options.filter_bits_per_key,
            ..TableProperties::default()
        };
        Self {
            writer: BlockWriter {
                start: file.offset(),
                file,
                sealer: Sealer::default(),
                sealed: Vec::new(),
                table: options.id,
            },
            options,
            properties,
            range_tombstones: Vec::new(),
            data: BlockBuilder::default(),
            index: BlockBuilder::default(),
            top: BlockBuilder::default(),
            filter,
            last: None,
            unindexed: None,
            paged: false,
            has_mirrors: false,
            scratch: Vec::new(),
            separator: Vec::new(),
            tagged: Vec::new(),
            placed: Vec::new(),
            heat: EntryHeat::default(),
            hot: Vec::new(),
        }
    }

    /// Adds a point entry after all others.
    pub(crate) fn add(&mut self, user_key: &[u8], trailer: Trailer, payload: &[u8]) -> Result<()> {
        if let Some(last) = &self.last {
            let order = compare((&last.user_key, last.trailer), (user_key, trailer));
            assert!(order.is_lt(), "entries are added in order, each once");
        }
        let bytes = self.data.bytes_with(user_key, trailer, payload.len()) + TRAILER_BYTES;
        if !self.data.is_empty() && self.is_full_before(bytes) {
            self.write_data_block()?;
        }
        self.index_block_before(user_key, trailer)?;
        if self.properties.entries == 0 {
            self.properties.smallest_key = user_key.into();
        }
        self.properties.count_entry(user_key, trailer, payload);
        self.data.add(user_key, trailer, payload);
        if let Some(filter) = &mut self.filter {
            filter.add(key_hash(user_key));
        }
        let last = self.last.get_or_insert_with(|| LastEntry { user_key: Vec::new(), trailer });
        last.user_key.clear();
        last.user_key.extend_from_slice(user_key);
        last.trailer = trailer;
        Ok(())
    }

    /// Adds to the access frequency of the blocks that hold the most recently added entry.
    pub(crate) fn warm(&mut self, heat: EntryHeat) {
        self.heat.data += heat.data;
        self.heat.index += heat.index;
        self.heat.filter += heat.filter;
    }

    /// Blocks that turned out to be hot since the last call.
    pub(crate) fn take_hot(&mut self) -> std::vec::Drain<'_, HotBlock> {
        self.hot.drain(..)
    }

    /// Makes [`TableBuilder::build`] return the location of the most recently added entry.
    pub(crate) fn tag(&mut self, tag: Tag) {
        self.tagged.push((tag, self.data.len() as u32 - 1));
    }

    /// Whether the data block ends before an entry that would make it `bytes` long.
    fn is_full_before(&self, bytes: usize) -> bool {
        let target = self.options.block_bytes as usize;
        // Compressed blocks begin and end anywhere in a page: slightly too large is as good as far
        // too small.
        let is_compressed = self.options.compression != Compression::None;
        let is_much_too_small = self.data.bytes() < target - target / OVERFLOW_SHARE;
        let is_near = bytes <= target + target / OVERFLOW_SHARE;
        bytes > target && !(is_compressed && is_much_too_small && is_near)
    }

    /// Adds a range tombstone, in any order, between entries or after them. An empty range is
    /// ignored.
    pub(crate) fn add_range_tombstone(&mut self, tombstone: &RangeTombstone) {
        if tombstone.start < tombstone.end {
            self.properties.count_range_tombstone(tombstone);
            self.range_tombstones.push(tombstone.clone());
        }
    }

    /// Bytes of the file so far, including the block under construction, without the parts that
    /// only [`TableBuilder::finish`] writes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, FilterBuilder::bytes);
        self.writer.offset() + (self.data.bytes() + self.index.bytes() + filter) as u64
    }

    /// Like [`TableBuilder::build`], but returns only the properties.
    pub(crate) fn finish(self) -> Result<TableProperties> {
        self.build().map(|built| built.properties)
    }

    /// Writes the rest and makes the file durable.
    pub(crate) fn build(self) -> Result<Built> {
        let (built, file) = self.complete()?;
        file.finish()?;
        Ok(built)
    }

    /// Writes the rest, and returns the file for further tables.
    pub(crate) fn complete(mut self) -> Result<(Built, AppendFile)> {
        if !self.data.is_empty() {
            self.write_data_block()?;
        }
        if let (Some(handle), Some(last)) = (self.unindexed.take(), self.last.take()) {
            self.properties.largest_key = last.user_key.as_slice().into();
            self.separator.clear();
            self.separator.extend_from_slice(&last.user_key);
            self.add_to_index(handle, BEHIND_ALL_VERSIONS)?;
        }
        if !self.index.is_empty() {
            self.write_partition(BEHIND_ALL_VERSIONS)?;
        }
        let none = Compression::None;
        let range_tombstones = encode_range_tombstones(&self.range_tombstones);
        let (range_tombstones, _) = self.writer.write(&range_tombstones, none)?;
        self.properties.deadlines.compress();
        let (properties, _) = self.writer.write(&self.properties.encode(), none)?;
        self.scratch.clear();
        self.top.finish(&mut self.scratch);
        let (top, _) = self.writer.write(&self.scratch, none)?;
        let footer = Footer { range_tombstones, properties, top, has_mirrors: self.has_mirrors };
        self.writer.file.append(&footer.encode(self.options.id))?;
        self.properties.file_bytes = self.writer.offset();
        let built = Built { properties: self.properties, placed: self.placed, hot: self.hot };
        Ok((built, self.writer.file))
    }

    /// Records the block that was written from `self.scratch`, if it is hot.
    fn note_heat(&mut self, kind: BlockKind, BlockHandle { offset, .. }: BlockHandle, heat: f32) {
        if heat >= HEAT_MIN {
            let (times, content) = (heat.round() as u8, self.scratch.as_slice().into());
            self.hot.push(HotBlock { kind, offset, times, content });
        }
    }

    fn write_data_block(&mut self) -> Result<()> {
        if self.paged && self.writer.gap(PAGE_BYTES) > 0 {
            // Index and filter are between this block and the previous one.
            self.writer.pad_to(PAGE_BYTES)?;
        }
        self.scratch.clear();
        self.data.finish(&mut self.scratch);
        let (handle, packed) = self.writer.write(&self.scratch, self.options.compression)?;
        let heat = std::mem::take(&mut self.heat.data);
        self.note_heat(BlockKind::Data, handle, heat);
        self.properties.count_data_block(&self.scratch, handle.len);
        self.unindexed = Some(handle);
        let (table, BlockHandle { offset, len }) = (self.options.id, handle);
        self.placed.extend(self.tagged.drain(..).map(|(tag, position)| RelocatedEntry {
            tag,
            to: Pointer { table, offset, len, position },
        }));
        let gap = self.writer.gap(PAGE_BYTES);
        let padding_max = u64::from(self.options.block_bytes.max(handle.len)) / PADDING_MAX;
        self.paged = !packed && gap <= padding_max;
        if self.paged {
            self.writer.pad_to(PAGE_BYTES)?;
        }
        Ok(())
    }

    /// Adds the pending data block to the index, now that the next entry determines its separator.
    fn index_block_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        let (Some(handle), Some(last)) = (self.unindexed.take(), &self.last) else {
            return Ok(());
        };
        debug_assert!(compare((&last.user_key, last.trailer), (user_key, trailer)).is_lt());
        let separator_trailer = if last.user_key == user_key {
            self.separator.clear();
            self.separator.extend_from_slice(user_key);
            last.trailer
        } else {
            shortest_separator(&last.user_key, user_key, &mut self.separator);
            BEHIND_ALL_VERSIONS
        };
        self.add_to_index(handle, separator_trailer)
    }

    /// Adds a data block under `self.separator`, and ends the partition when it is full.
    fn add_to_index(&mut self, handle: BlockHandle, trailer: Trailer) -> Result<()> {
        let mut payload = Vec::with_capacity(16);
        handle.encode(&mut payload);
        self.index.add(&self.separator, trailer, &payload);
        let filter_bytes = self.filter.as_ref().map_or(0, FilterBuilder::bytes);
        // The next block's keys are added to these: stop while a block of the average length still
        // fits.
        let blocks = self.index.len();
        let full = |bytes: usize, target: usize| bytes + bytes / blocks + TRAILER_BYTES > target;
        let index_bytes = INDEX_BYTES.max(INDEX_PREFIXES * self.index.prefix_len());
        if full(self.index.bytes(), index_bytes) || full(filter_bytes, FILTER_BYTES) {
            self.write_partition(trailer)?;
        }
        Ok(())
    }

    /// Writes filter and index of the data blocks since the last partition, which ends at
    /// `self.separator` and `trailer`.
    fn write_partition(&mut self, trailer: Trailer) -> Result<()> {
        let (mut filter_handle, mut mirror) = (BlockHandle::default(), Vec::new());
        // In a table of pages, metadata is padded to whole pages too.
        let unit = if self.paged { PAGE_BYTES } else { LINE_BYTES as u64 };
        if let Some(filter) = &mut self.filter {
            self.writer.pad_to(unit)?;
            let built = filter.finish();
            (self.scratch, mirror) = (built.filter, built.mirror);
            (filter_handle, _) = self.writer.write(&self.scratch, Compression::None)?;
            let heat = std::mem::take(&mut self.heat.filter);
            self.note_heat(BlockKind::Filter, filter_handle, heat);
        }
        if self.paged {
            self.writer.pad_to(unit)?;
        }
        self.scratch.clear();
        self.index.finish(&mut self.scratch);
        let (index, _) = self.writer.write(&self.scratch, Compression::None)?;
        let heat = std::mem::take(&mut self.heat.index);
        self.note_heat(BlockKind::Index, index, heat);
        let mirror = self.write_mirror(&mirror)?;
        let partition = Partition { index, filter: filter_handle, mirror };
        self.top.add(&self.separator, trailer, &partition.encode());
        Ok(())
    }

    /// Writes the blocks of a mirror, if the filter has one: each is a page, so that the repair of
    /// a bucket reads one page.
    fn write_mirror(&mut self, mirror: &[u8]) -> Result<BlockHandle> {
        let mut whole = BlockHandle::default();
        for block in mirror.chunks(MIRROR_BUCKETS * MIRROR_BUCKET_BYTES) {
            self.writer.pad_to(PAGE_BYTES)?;
            let (handle, _) = self.writer.write(block, Compression::None)?;
            if whole.is_none() {
                whole.offset = handle.offset;
            }
            whole.len = u32::try_from(handle.end() - whole.offset)
                .expect("filters are much shorter than 4 GiB");
            self.has_mirrors = true;
        }
        Ok(whole)
    }
}
