//! The envelope of every block on disk: compression and checksum.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       n     content; when compressed, its length as a varint first
//! n       1     compression: 0 none, 1 LZ4, 2 Zstandard       (do not change)
//! n+1     4     checksum of the n+1 bytes before, seeded with the table's id
//!               and the block's offset (little-endian)
//! ```
//!
//! Guarantees: a block that is damaged, or that belongs to another table or offset, does not open;
//! no more memory is allocated than the compressed bytes can fill in their format.

use std::ops::Deref;

use tidekv_io::Buffer;
use tidekv_io::buffer::ALIGNMENT;

use crate::format::checksum::checksum;
use crate::format::coding::{Reader, put_varint};
use crate::options::Compression;
use crate::sst::block::codec;

/// Bytes of the envelope after the content.
pub(crate) const TRAILER_BYTES: usize = 5;

/// Maximum size of a block's content: twice the longest value.
pub(crate) const CONTENT_BYTES_MAX: usize = 512 << 20;

/// A block is stored compressed if that saves at least one part in eight; a smaller saving does not
/// justify decompressing at every read.
const SAVING_MIN: usize = 8;

/// No LZ4 stream holds more than 255 bytes per byte.
const LZ4_RATIO_MAX: usize = 255;

/// No Zstandard stream holds more than 128 KiB in the 4 bytes of a run block.
const ZSTD_RATIO_MAX: usize = 32 << 10;

/// Content that wastes more than one part in eight of its memory moves to a smaller allocation
/// before it enters the cache.
const WASTE_MAX: usize = 8;

// Values on disk: do not change.
const NONE: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// The content of a block in memory.
#[derive(Debug)]
pub(crate) enum Content {
    /// As read, in aligned memory.
    Read(Buffer),
    /// Copied or decompressed, with exactly its length.
    Exact(Box<[u8]>),
}

impl Content {
    /// Bytes of DRAM held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Read(buffer) => buffer.memory_bytes(),
            Self::Exact(bytes) => bytes.len(),
        }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(buffer) => buffer,
            Self::Exact(bytes) => bytes,
        }
    }
}

/// The seed of the checksum of the block at `offset` of table `table`.
pub(crate) fn seed(table: u64, offset: u64) -> u64 {
    // The multiplication keeps nearby tables and offsets from colliding.
    table ^ offset.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Puts blocks into envelopes; reuses the memory of its compressors.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    /// The uncompressed length, as a varint.
    head: Vec<u8>,
    /// Large enough for everything that was compressed so far; never cleared, because that would
    /// cost as much as a small block.
    packed: Vec<u8>,
}

impl Sealer {
    /// Appends `content` in its envelope to `out`; returns whether it was stored compressed.
    pub(crate) fn seal(
        &mut self,
        content: &[u8],
        compression: Compression,
        seed: u64,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        let packed = self.pack(content, compression);
        match packed {
            Some((tag, len)) => {
                out.extend_from_slice(&self.head);
                out.extend_from_slice(&self.packed[..len]);
                out.push(tag);
            }
            None => {
                out.extend_from_slice(content);
                out.push(NONE);
            }
        }
        let sum = checksum(seed, &out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
        packed.is_some()
    }

    /// Compresses `content` into the first bytes of `self.packed`, if that is worthwhile; returns
    /// the method and the number of bytes.
    fn pack(&mut self, content: &[u8], compression: Compression) -> Option<(u8, usize)> {
        let (tag, bound) = match compression {
            Compression::None => return None,
            Compression::Lz4 => (LZ4, codec::lz4_bound(content.len())?),
            Compression::Zstd => (ZSTD, codec::zstd_bound(content.len())?),
        };
        self.head.clear();
        put_varint(&mut self.head, content.len() as u64);
        if self.packed.len() < bound {
            self.packed.resize(bound, 0);
        }
        let len = match compression {
            Compression::Zstd => codec::zstd_compress(content, &mut self.packed)?,
            _ => codec::lz4_compress(content, &mut self.packed)?,
        };
        let worth = content.len() - content.len() / SAVING_MIN;
        (self.head.len() + len <= worth).then_some((tag, len))
    }
}

/// Opens the envelope `disk`, which has its memory for itself. The error describes the damage.
pub(crate) fn open(disk: Buffer, seed: u64) -> Result<Content, String> {
    let (content, tag) = check(&disk, seed)?;
    if tag != NONE {
        return unpack(content, tag).map(Content::Exact);
    }
    let len = content.len();
    let memory_max = len + TRAILER_BYTES + len / WASTE_MAX;
    if disk.memory_bytes() <= memory_max {
        return Ok(Content::Read(disk.window(0, len)));
    }
    // Aligned memory is preferable where it fits: a line of a filter is then one line of the
    // processor's cache.
    if len.next_multiple_of(ALIGNMENT) <= memory_max {
        return Ok(Content::Read(Buffer::copy_from(content)));
    }
    Ok(Content::Exact(content.into()))
}

/// Opens the envelope `disk`, a part of a longer read: copies its content.
pub(crate) fn open_part(disk: &[u8], seed: u64) -> Result<Content, String> {
    let (content, tag) = check(disk, seed)?;
    let exact = if tag == NONE { content.into() } else { unpack(content, tag)? };
    Ok(Content::Exact(exact))
}

/// Recomputes the checksum of a modified envelope, for fuzzers.
pub(crate) fn fix_checksum(disk: &mut [u8], seed: u64) {
    if let Some((body, stored)) = disk.split_last_chunk_mut::<4>() {
        *stored = checksum(seed, body).to_le_bytes();
    }
}

/// Splits an envelope into content and compression, after checking its checksum.
fn check(disk: &[u8], seed: u64) -> Result<(&[u8], u8), String> {
    let Some((body, stored)) = disk.split_last_chunk::<4>() else {
        return Err(format!("{} bytes are too few for a checksum", disk.len()));
    };
    let stored = u32::from_le_bytes(*stored);
    let computed = checksum(seed, body);
    if stored != computed {
        return Err(format!("its checksum is {computed:08x} and should be {stored:08x}"));
    }
    let Some((&tag, content)) = body.split_last() else {
        return Err("it has no bytes".into());
    };
    Ok((content, tag))
}

/// Why a block that is whole cannot be decompressed by this build.
fn not_built_in(name: &str, feature: &str) -> String {
    format!("it is compressed with {name}, and this build lacks the feature `{feature}`")
}

fn unpack(packed: &[u8], tag: u8) -> Result<Box<[u8]>, String> {
    let mut reader = Reader::new(packed);
    let len = reader.varint_usize().ok_or("its uncompressed length is missing")?;
    let body = reader.rest();
    let ratio_max = match tag {
        LZ4 if !Compression::Lz4.is_available() => return Err(not_built_in("LZ4", "lz4")),
        ZSTD if !Compression::Zstd.is_available() => return Err(not_built_in("Zstandard", "zstd")),
        LZ4 => LZ4_RATIO_MAX,
        ZSTD => ZSTD_RATIO_MAX,
        _ => return Err(format!("its compression {tag} is unknown")),
    };
    if len > CONTENT_BYTES_MAX || len > body.len().saturating_mul(ratio_max) {
        return Err(format!("{} compressed bytes cannot hold {len}", body.len()));
    }
    let mut content = vec![0; len];
    let got = match tag {
        LZ4 => codec::lz4_decompress(body, &mut content),
        _ => codec::zstd_decompress(body, &mut content),
    };
    if got != Some(len) {
        return Err("it does not decompress to its length".into());
    }
    Ok(content.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    fn sealed(content: &[u8], compression: Compression) -> Vec<u8> {
        let mut out = Vec::new();
        Sealer::default().seal(content, compression, 9, &mut out);
        out
    }

    #[test]
    fn content_round_trips_through_both_ways_of_reading() {
        let text = b"tide ".repeat(2000);
        let noise: Vec<u8> = (0..5000u32).map(|i| checksum(0, &i.to_le_bytes()) as u8).collect();
        for compression in ALL {
            for content in [&b""[..], b"a", &text, &noise, &vec![0; 1 << 20]] {
                let disk = sealed(content, compression);
                assert_eq!(&*open(Buffer::copy_from(&disk), 9).unwrap(), content);
                assert_eq!(&*open_part(&disk, 9).unwrap(), content);
                assert!(open_part(&disk, 8).is_err());
            }
            let packs = sealed(&text, compression).len() < text.len() / 2;
            assert_eq!(packs, compression != Compression::None);
            assert_eq!(sealed(&noise, compression).len(), noise.len() + TRAILER_BYTES);
        }
    }

    #[test]
    fn impossible_length_is_refused_before_allocation() {
        for tag in [LZ4, ZSTD, 7] {
            let mut packed = Vec::new();
            put_varint(&mut packed, 400 << 20);
            packed.extend_from_slice(&[0; 8]);
            assert!(unpack(&packed, tag).is_err());
        }
    }

    #[test]
    fn oversized_buffer_is_not_kept() {
        let disk = sealed(&[1; 300], Compression::None);
        assert_eq!(open(Buffer::copy_from(&disk), 9).unwrap().memory_bytes(), 300);
        let disk = sealed(&[1; 4091], Compression::None);
        assert_eq!(open(Buffer::copy_from(&disk), 9).unwrap().memory_bytes(), 4096);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200), tag in 0u8..4) {
            let _ = open_part(&bytes, 1);
            let _ = unpack(&bytes, tag);
        }
    }
}
