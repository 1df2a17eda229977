//! The layout of a table file: footer, range tombstones, partitions. (Blocks are in `block.rs`,
//! their envelope in `block/envelope.rs`.)
//!
//! ```text
//! data block …            ┐
//! filter block            │ partition, repeated; no filter block when the
//! index block             │ table has no filters, no mirror when these cannot
//! mirror blocks           ┘ be repaired
//! range-tombstone block     varint count; each: varint+ start, varint+ end,
//!                           varint sequence
//! properties block          `table/properties.rs`
//! top-level index block     an entry for each partition: its last separator;
//!                           payload: handles of its index and filter block, and of
//!                           all its mirror blocks together, if there are any
//! footer
//! ```
//!
//! A mirror (`filter/cuckoo.rs`) is cut into blocks of 511 buckets, each of which fills a page
//! together with its envelope and three zeros; the first one begins at a page.
//!
//! Every block is in an envelope. Zeros may separate blocks: an uncompressed data block that nearly
//! fills its pages is padded so that the next one begins at a page, and an uncached read of it is
//! that one page.
//!
//! The footer is the last 64 bytes:
//!
//! ```text
//! OFFSET  SIZE  MEANING                                  (little-endian)
//! 0       12    range-tombstone block: offset (8), bytes with envelope (4)
//! 12      12    properties block
//! 24      12    top-level index block
//! 36      12    zero
//! 48      4     checksum of bytes 0..48 and 52..64, seeded with the table's id
//! 52      4     format version: 1, or 2 where there are mirrors
//! 56      8     magic "TideTabl"
//! ```
//!
//! A file may hold several tables (`version/manifest/edit.rs` says where): each begins at a multiple
//! of 64, and its offsets count from there. Pages are those of the file.
//!
//! Version and magic have the same distance from the end in every version, so that an old program
//! can report that a file is too new for it. Values on disk: do not change.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::checksum;
use crate::format::coding::{Reader, put_bytes, put_varint};
use crate::format::key::{SEQUENCE_MAX, Trailer};
use crate::format::range_tombstones::RangeTombstone;
use crate::sst::block::{BlockHandle, TRAILER_BYTES};
use crate::sst::filter::MIRROR_BUCKET_BYTES;

pub(super) const FOOTER_BYTES: usize = 64;

/// The alignment of padded data blocks: the page size of direct reads.
pub(super) const PAGE_BYTES: u64 = 4096;

/// The newest version that can be read, and that of tables with mirrors.
const FORMAT_VERSION: u32 = 2;
const WITHOUT_MIRRORS: u32 = 1;
const MAGIC: [u8; 8] = *b"TideTabl";

const HANDLE_BYTES: usize = 12;
const CHECKSUM_AT: usize = 48;
const VERSION_AT: usize = 52;
const MAGIC_AT: usize = 56;
const _: () = assert!(3 * HANDLE_BYTES <= CHECKSUM_AT && MAGIC_AT + MAGIC.len() == FOOTER_BYTES);

/// The trailer of a separator that sorts after all versions of its key.
pub(super) const BEHIND_ALL_VERSIONS: Trailer = Trailer(0);

/// The contents of the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) range_tombstones: BlockHandle,
    pub(super) properties: BlockHandle,
    pub(super) top: BlockHandle,
    pub(super) has_mirrors: bool,
}

impl Footer {
    pub(super) fn encode(&self, table: u64) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        for (i, handle) in [self.range_tombstones, self.properties, self.top].iter().enumerate() {
            let at = i * HANDLE_BYTES;
            out[at..at + 8].copy_from_slice(&handle.offset.to_le_bytes());
            out[at + 8..at + HANDLE_BYTES].copy_from_slice(&handle.len.to_le_bytes());
        }
        let version = if self.has_mirrors { FORMAT_VERSION } else { WITHOUT_MIRRORS };
        out[VERSION_AT..MAGIC_AT].copy_from_slice(&version.to_le_bytes());
        out[MAGIC_AT..].copy_from_slice(&MAGIC);
        let sum = footer_checksum(&out, table);
        out[CHECKSUM_AT..VERSION_AT].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the footer of table `table` from untrusted bytes.
    pub(super) fn decode(bytes: &[u8; FOOTER_BYTES], table: u64, path: &Path) -> Result<Self> {
        if bytes[MAGIC_AT..] != MAGIC {
            return Err(Error::corrupt(path, "it does not end with a table footer"));
        }
        let version = u32_at(bytes, VERSION_AT);
        if version > FORMAT_VERSION {
            let what = format!(
                "{} has table format {version}, and this version of TideKV reads up to {FORMAT_VERSION}: \
                 the file was written by a newer one",
                path.display()
            );
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
        if version == 0 || u32_at(bytes, CHECKSUM_AT) != footer_checksum(bytes, table) {
            return Err(Error::corrupt(
                path,
                format_args!("the footer of table {table} fails its checksum"),
            ));
        }
        Ok(Self::decode_unchecked(bytes))
    }

    /// The handles in a footer.
    pub(super) fn decode_unchecked(bytes: &[u8; FOOTER_BYTES]) -> Self {
        let mut reader = Reader::new(bytes);
        let mut handle = || BlockHandle {
            offset: reader.u64().expect("three handles fit into a footer"),
            len: reader.u32().expect("three handles fit into a footer"),
        };
        Self {
            range_tombstones: handle(),
            properties: handle(),
            top: handle(),
            has_mirrors: u32_at(bytes, VERSION_AT) > WITHOUT_MIRRORS,
        }
    }
}

fn u32_at(footer: &[u8; FOOTER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([footer[at], footer[at + 1], footer[at + 2], footer[at + 3]])
}

fn footer_checksum(footer: &[u8; FOOTER_BYTES], table: u64) -> u32 {
    let mut covered = *footer;
    covered[CHECKSUM_AT..VERSION_AT].fill(0);
    checksum(table, &covered)
}

/// A part of a table: some data blocks with their index and filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) index: BlockHandle,
    /// None when the table has no filters.
    pub(super) filter: BlockHandle,
    /// All blocks of the filter's mirror; none if the filter cannot be repaired.
    pub(super) mirror: BlockHandle,
}

/// Buckets of a full block of a mirror, which with its envelope fills a page.
pub(super) const MIRROR_BUCKETS: usize =
    (PAGE_BYTES as usize - TRAILER_BYTES) / MIRROR_BUCKET_BYTES;

impl Partition {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.index.encode(&mut out);
        self.filter.encode(&mut out);
        if !self.mirror.is_none() {
            self.mirror.encode(&mut out);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let index = BlockHandle::decode(&mut reader)?;
        let filter = BlockHandle::decode(&mut reader)?;
        let mirror = match reader.is_empty() {
            true => BlockHandle::default(),
            false => BlockHandle::decode(&mut reader).filter(|mirror| !mirror.is_none())?,
        };
        reader.is_empty().then_some(Self { index, filter, mirror })
    }

    /// The block of the mirror that has a bucket, and the offset of the bucket in its content.
    pub(super) fn mirror_block(&self, bucket: u32) -> Option<(BlockHandle, usize)> {
        let (block, bucket) = (bucket as usize / MIRROR_BUCKETS, bucket as usize % MIRROR_BUCKETS);
        let at = block as u64 * PAGE_BYTES;
        let left = u64::from(self.mirror.len).checked_sub(at).filter(|left| *left > 0)?;
        let whole = MIRROR_BUCKETS * MIRROR_BUCKET_BYTES + TRAILER_BYTES;
        let handle = BlockHandle {
            offset: self.mirror.offset.checked_add(at)?,
            len: left.min(whole as u64) as u32,
        };
        Some((handle, bucket * MIRROR_BUCKET_BYTES))
    }

    /// All blocks of the mirror.
    pub(super) fn mirror_blocks(&self) -> impl Iterator<Item = BlockHandle> {
        let blocks = (0..).step_by(MIRROR_BUCKETS);
        blocks.map_while(|bucket| self.mirror_block(bucket)).map(|(handle, _)| handle)
    }
}

pub(super) fn encode_range_tombstones(tombstones: &[RangeTombstone]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, tombstones.len() as u64);
    for tombstone in tombstones {
        put_bytes(&mut out, &tombstone.start);
        put_bytes(&mut out, &tombstone.end);
        put_varint(&mut out, tombstone.sequence);
    }
    out
}

/// Reads range tombstones from untrusted bytes.
pub(super) fn decode_range_tombstones(bytes: &[u8]) -> Option<Vec<RangeTombstone>> {
    let mut reader = Reader::new(bytes);
    let count = reader.varint()?;
    let mut tombstones = Vec::new();
    for _ in 0..count {
        let (start, end) = (reader.bytes()?, reader.bytes()?);
        let sequence = reader.varint().filter(|&s| s <= SEQUENCE_MAX)?;
        tombstones.push(RangeTombstone::new(start, end, sequence));
    }
    reader.is_empty().then_some(tombstones)
}
