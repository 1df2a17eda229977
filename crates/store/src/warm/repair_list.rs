//! The file with the repairs of filters when a store was closed, so that the next run of the
//! process need not repeat them. (Golden bytes: `testdata/filter-repairs.golden.txt`.)
//!
//! ```text
//! OFFSET  SIZE     MEANING                                        (little-endian)
//! 0       8        magic "TideLrn1"                               (do not change)
//! 8       8        checksum of the rest
//! 16      8        identity of the store
//! …       varint   tables; of each
//!         varint     its number, and the bytes of its file
//!         8          the contents fingerprint of its data blocks
//!         varint     partitions; of each its number, how many repairs, and of each repair
//!                    its bucket less the one before (varint), 4 bytes of bits, the seed
//! ```
//!
//! Guarantees:
//! 1. A file that is torn, damaged or of another kind is ignored: the list is optional.
//! 2. The repairs of a table apply to that table alone: of the same store, with the same number,
//!    length and contents. Applied to another one they would hide keys. Tables do not change, so
//!    the list may come from any previous run.

use crate::format::coding::{Reader, put_varint};
use crate::sst::filter::{BUCKETS_MAX, Repair};
use crate::warm::list_file::{self, HEAD_BYTES, Magic};

pub(crate) const MAGIC: Magic = *b"TideLrn1";

/// The repairs of the filters of all tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RepairList {
    /// Identity of the store.
    pub(crate) store: u64,
    pub(crate) tables: Vec<RepairedTable>,
}

/// The repairs of the filters of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepairedTable {
    pub(crate) id: TableIdentity,
    /// Numbers of partitions, with their repairs in the order of buckets.
    pub(crate) partitions: Vec<(u64, Vec<u64>)>,
}

/// Identifies a table in one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TableIdentity {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Never 0: a table with unknown contents is not listed.
    pub(crate) contents: u64,
}

impl RepairList {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES];
        out.extend_from_slice(&self.store.to_le_bytes());
        put_varint(&mut out, self.tables.len() as u64);
        for RepairedTable { id, partitions } in &self.tables {
            put_varint(&mut out, id.number);
            put_varint(&mut out, id.bytes);
            out.extend_from_slice(&id.contents.to_le_bytes());
            put_varint(&mut out, partitions.len() as u64);
            for (partition, repairs) in partitions {
                put_varint(&mut out, *partition);
                put_varint(&mut out, repairs.len() as u64);
                let mut last = 0;
                for &packed in repairs {
                    let (bucket, repair) = Repair::unpack(packed);
                    put_varint(&mut out, u64::from(bucket - last));
                    out.extend_from_slice(&repair.pack(0).to_le_bytes()[..REPAIR_BYTES]);
                    last = bucket;
                }
            }
        }
        list_file::seal(MAGIC, &mut out);
        out
    }

    /// Decodes a list; `None` if `bytes` are not a valid list.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = list_file::open(MAGIC, bytes)?;
        let mut list = Self { store: reader.u64()?, tables: Vec::new() };
        for _ in 0..reader.varint()? {
            let (number, bytes, contents) = (reader.varint()?, reader.varint()?, reader.u64()?);
            let id = TableIdentity { number, bytes, contents };
            let mut partitions = Vec::new();
            for _ in 0..reader.varint()? {
                partitions.push((reader.varint()?, decode_repairs(&mut reader)?));
            }
            list.tables.push(RepairedTable { id, partitions });
        }
        reader.is_empty().then_some(list)
    }
}

/// Bits and seed.
const REPAIR_BYTES: usize = 5;

/// Repairs in ascending order of their buckets, each of a different one.
fn decode_repairs(reader: &mut Reader<'_>) -> Option<Vec<u64>> {
    let mut repairs = Vec::new();
    let mut last: Option<u32> = None;
    for _ in 0..reader.varint()? {
        let step = u32::try_from(reader.varint()?).ok()?;
        let bucket = match last {
            None => step,
            Some(last) => last.checked_add(step).filter(|_| step > 0)?,
        };
        let bytes = reader.take(REPAIR_BYTES)?;
        let packed = bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
        let (_, repair) = Repair::unpack(packed);
        repairs.push(repair.pack(Some(bucket).filter(|bucket| *bucket < BUCKETS_MAX)?));
        last = Some(bucket);
    }
    (!repairs.is_empty()).then_some(repairs)
}

#[cfg(test)]
mod tests;
