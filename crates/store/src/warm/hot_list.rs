//! The file with the contents of the caches when a store was closed, from which the next run of the
//! process warms them: blocks, keys and pointers, and the values of the hottest keys. (Golden
//! bytes: `testdata/hot-list.golden.txt`.)
//!
//! ```text
//! OFFSET  SIZE     MEANING                                        (little-endian)
//! 0       8        magic "TideHot2"                               (do not change)
//! 8       8        checksum of the rest
//! 16      8        fingerprint of the store: its identity and all its tables
//! 24      8        shares of KV and KP in what entries and blocks took, two `f32`
//! …       varint   shards of the point cache
//! …       varint+  hot tables: how many; of each its number, how many blocks, and of
//!                  each block its offset less the one before, and how often (1 byte)
//! …       varint+  keys: how many; of each its keyspace, its length, the key, how often
//!                  (1 byte; 128 more where a value follows: sequence and kind, level (1
//!                  byte), length, the payload)
//! …       varint+  pointers: how many; of each 8 bytes of hash, then table, offset,
//!                  length, position, level and how often (the last two 1 byte each)
//! ```
//!
//! Guarantees:
//! 1. A file that is torn, damaged or of another kind is ignored: the list is optional.
//! 2. Pointers and values are as valid as they were in the cache, for a store of the same
//!    fingerprint, whatever its logs hold: it consists of the same tables, and the contents of logs
//!    are flushed. They must not be used for any other store.
//!
//! Relies on: tables of the same fingerprint have the same contents
//! ([`contents`](crate::sst::table::TableProperties::contents)).

use tidekv_cache::BlockId;
use tidekv_cache::{KpEntry, LEVEL_MAX, Pointer};

use crate::format::coding::{Reader, put_bytes, put_varint};
use crate::format::key::{Kind, Trailer, split_deadline};
use crate::warm::list_file::{self, HEAD_BYTES, Magic};

pub(crate) const MAGIC: Magic = *b"TideHot2";
/// Flag in the access count of a key: its value follows.
const HAS_VALUE: u8 = 0x80;
/// Approximate size of a block in a list.
pub(crate) const LISTED_BLOCK_BYTES: usize = 4;

/// The hot contents of the caches.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HotList {
    /// Fingerprint of the store and all its tables.
    pub(crate) fingerprint: u64,
    /// Shares of KV, KP and blocks.
    pub(crate) shares: [f32; 3],
    /// Number of shards of the point cache: hashes of pointers are cut to one of these and its
    /// lower half.
    pub(crate) shards: u64,
    /// In ascending order.
    pub(crate) blocks: Vec<HotBlockId>,
    pub(crate) keys: Vec<HotKey>,
    pub(crate) pointers: Vec<HotPointer>,
}

/// A block, and its access count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HotBlockId {
    pub(crate) id: BlockId,
    pub(crate) times: u8,
}

/// A key of KV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HotKey {
    pub(crate) keyspace: u32,
    pub(crate) key: Box<[u8]>,
    pub(crate) times: u8,
    /// The value in KV, if there was room for it.
    pub(crate) value: Option<Box<HotValue>>,
}

/// The value of a key in KV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HotValue {
    pub(crate) trailer: Trailer,
    pub(crate) level: u8,
    pub(crate) payload: Box<[u8]>,
}

/// A pointer of KP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HotPointer {
    pub(crate) hash: u64,
    pub(crate) entry: KpEntry,
    pub(crate) times: u8,
}

impl HotKey {
    /// Approximate size of a key in a list, without its value.
    pub(crate) fn bytes_of_name(key: &[u8]) -> usize {
        key.len() + 4
    }

    /// Approximate size of a value in a list.
    pub(crate) fn bytes_of_value(payload: &[u8]) -> usize {
        payload.len() + 12
    }

    /// The memory that it takes: allocation sizes are multiples of 16 bytes.
    fn memory_bytes(&self) -> usize {
        let given = |bytes: usize| bytes.next_multiple_of(16);
        let of_value = |value: &HotValue| given(size_of::<HotValue>()) + given(value.payload.len());
        let value = self.value.as_deref().map_or(0, of_value);
        size_of::<Self>() + given(self.key.len()) + value
    }
}

impl HotValue {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.trailer.0);
        out.push(self.level);
        put_bytes(out, &self.payload);
    }

    /// A value that KV may hold for the key, or `None`.
    fn decode(key: &[u8], reader: &mut Reader<'_>) -> Option<Self> {
        let (trailer, level) = (Trailer(reader.varint()?), reader.u8()?);
        let payload: Box<[u8]> = reader.bytes()?.into();
        let is_value = match Kind::from_u8(trailer.0 as u8)? {
            Kind::Value => true,
            Kind::Expiring => split_deadline(&payload).is_some(),
            Kind::Delete | Kind::RangeDelete => false,
        };
        (is_value && !key.is_empty()).then_some(Self { trailer, level, payload })
    }
}

impl HotPointer {
    /// Approximate size of a pointer in a list.
    pub(crate) const BYTES: usize = 22;
}

impl HotList {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES];
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        self.shares[..2].iter().for_each(|share| out.extend_from_slice(&share.to_le_bytes()));
        put_varint(&mut out, self.shards);
        self.encode_blocks(&mut out);
        put_varint(&mut out, self.keys.len() as u64);
        for HotKey { keyspace, key, times, value } in &self.keys {
            put_varint(&mut out, u64::from(*keyspace));
            put_bytes(&mut out, key);
            let times = (*times).min(HAS_VALUE - 1);
            match value {
                None => out.push(times),
                Some(value) => {
                    out.push(HAS_VALUE | times);
                    value.encode(&mut out);
                }
            }
        }
        put_varint(&mut out, self.pointers.len() as u64);
        for HotPointer { hash, entry: KpEntry { pointer, level }, times } in &self.pointers {
            out.extend_from_slice(&hash.to_le_bytes());
            let Pointer { table, offset, len, position } = *pointer;
            let numbers = [table, offset, u64::from(len), u64::from(position)];
            numbers.into_iter().for_each(|number| put_varint(&mut out, number));
            out.extend_from_slice(&[*level, *times]);
        }
        list_file::seal(MAGIC, &mut out);
        out
    }

    fn encode_blocks(&self, out: &mut Vec<u8>) {
        let of_tables = || self.blocks.chunk_by(|a, b| a.id.table == b.id.table);
        put_varint(out, of_tables().count() as u64);
        for of_table in of_tables() {
            put_varint(out, of_table[0].id.table);
            put_varint(out, of_table.len() as u64);
            let mut last = 0;
            for HotBlockId { id, times } in of_table {
                put_varint(out, id.offset - last);
                out.push(*times);
                last = id.offset;
            }
        }
    }

    /// Bytes of DRAM held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(HotKey::memory_bytes).sum();
        self.blocks.capacity() * size_of::<HotBlockId>()
            + (self.keys.capacity() - self.keys.len()) * size_of::<HotKey>()
            + keys
            + self.pointers.capacity() * size_of::<HotPointer>()
    }

    /// Decodes a list; `None` if `bytes` are not a valid list.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = list_file::open(MAGIC, bytes)?;
        let mut list = Self { fingerprint: reader.u64()?, ..Self::default() };
        let share = |reader: &mut Reader<'_>| -> Option<f32> {
            Some(f32::from_bits(reader.u32()?)).filter(|share| (0.0..=1.0).contains(share))
        };
        let (kv, kp) = (share(&mut reader)?, share(&mut reader)?);
        list.shares = [kv, kp, (1.0 - kv - kp).max(0.0)];
        list.shards = reader.varint()?;
        for _ in 0..reader.varint()? {
            let (table, count) = (reader.varint()?, reader.varint()?);
            let mut offset = 0u64;
            for _ in 0..count {
                offset = offset.checked_add(reader.varint()?)?;
                list.blocks.push(HotBlockId { id: BlockId { table, offset }, times: reader.u8()? });
            }
        }
        if !list.blocks.is_sorted_by_key(|block| block.id) {
            return None;
        }
        for _ in 0..reader.varint()? {
            let keyspace = u32::try_from(reader.varint()?).ok()?;
            let key: Box<[u8]> = reader.bytes()?.into();
            let times = reader.u8()?;
            let value = match times & HAS_VALUE {
                0 => None,
                _ => Some(Box::new(HotValue::decode(&key, &mut reader)?)),
            };
            list.keys.push(HotKey { keyspace, key, times: times & !HAS_VALUE, value });
        }
        for _ in 0..reader.varint()? {
            list.pointers.push(decode_pointer(&mut reader)?);
        }
        reader.is_empty().then_some(list)
    }
}

fn decode_pointer(reader: &mut Reader<'_>) -> Option<HotPointer> {
    let hash = reader.u64()?;
    let pointer = Pointer {
        table: reader.varint()?,
        offset: reader.varint()?,
        len: u32::try_from(reader.varint()?).ok()?,
        position: u32::try_from(reader.varint()?).ok()?,
    };
    let level = reader.u8().filter(|level| *level <= LEVEL_MAX)?;
    let entry = KpEntry { pointer, level };
    Some(HotPointer { hash, entry, times: reader.u8()? })
}

#[cfg(test)]
mod tests;
