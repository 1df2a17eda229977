//! Lists the contents of the caches for the next run of the process: of everything, the entries
//! that save most per byte of the list.
//!
//! A drive that has to read each hot key separately is busy for seconds with what a list of values
//! restores in milliseconds; but a value takes as much room as six names. So if not everything
//! fits, values of the hottest keys take two thirds of a list, and the names of further keys take
//! the rest.
//!
//! Guarantee: a value of a list is the value of the key in the tables of the list's fingerprint,
//! and has not expired. Relies on background work having ended: tables and caches do not change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tidekv_cache::KvEntry;

use crate::engine::Engine;
use crate::format::checksum::key_hash;
use crate::format::coding::{put_bytes, put_varint};
use crate::format::key::{Kind, Sequence, Trailer, split_deadline};
use crate::format::range_tombstones::RangeTombstone;
use crate::version::levels::TableHandle;
use crate::warm::hot_list::{
    HotBlockId, HotKey, HotList, HotPointer, HotValue, LISTED_BLOCK_BYTES,
};
use crate::warm::hottest::Hottest;

/// If not everything fits, this share of a list is for values with their names.
const VALUES_SHARE: (usize, usize) = (2, 3);

/// Pointers rank before names, however hot the names: they restore at once what costs reads for a
/// name.
const POINTER: f32 = u8::MAX as f32 + 1.0;

/// The tables of a store at one moment.
#[derive(Debug, Default)]
pub(crate) struct TablesNow {
    /// Identifies the store and all its tables.
    pub(crate) fingerprint: u64,
    bytes: u64,
    /// By table number: all properties that distinguish a table from another one with its number.
    traits: BTreeMap<u64, [u64; 8]>,
    /// Whether all tables have a fingerprint of their contents; those of older formats have none.
    is_known: bool,
    keyspaces: BTreeMap<u32, InTables>,
    /// Milliseconds since 1970.
    now_ms: u64,
}

/// The writes of a keyspace that are in tables.
#[derive(Debug, Default)]
struct InTables {
    /// All up to this one.
    flushed: Sequence,
    /// The sequences of ingests.
    ingested: BTreeSet<Sequence>,
}

impl TablesNow {
    /// Whether the next run may trust an entry of KV. A flush that failed may have put values into
    /// the cache that are only in a log, where they may be damaged; expired entries must stay
    /// expired even if clocks go back.
    fn vouch_for(&self, entry: &KvEntry<'_>) -> bool {
        let trailer = Trailer(entry.stamp);
        let Some(written) = self.keyspaces.get(&entry.name.keyspace) else { return false };
        let sequence = trailer.sequence();
        let has_expired = || {
            let deadline = split_deadline(entry.value).map_or(0, |(deadline, _)| deadline);
            trailer.kind() == Kind::Expiring && deadline <= self.now_ms
        };
        let is_in_table = sequence <= written.flushed || written.ingested.contains(&sequence);
        self.is_known && is_in_table && !has_expired()
    }
}

/// The properties of a table of the keyspace with this number.
fn traits_of(keyspace: u32, table: &TableHandle) -> [u64; 8] {
    let (meta, properties) = (table.meta(), table.table().properties());
    let mut ranges = Vec::new();
    for RangeTombstone { start, end, sequence } in table.range_tombstones().tombstones() {
        put_bytes(&mut ranges, &start);
        put_bytes(&mut ranges, &end);
        put_varint(&mut ranges, sequence);
    }
    [
        meta.id,
        u64::from(keyspace),
        meta.bytes,
        meta.entries,
        meta.largest_sequence,
        meta.sequence_override,
        properties.contents,
        key_hash(&ranges),
    ]
}

/// The entries of one shard of the point cache in a list.
#[derive(Debug)]
struct OfShard {
    values: Hottest<HotKey>,
    /// Names and pointers; if all names fit, also those of keys with values.
    rest: Hottest<Listed>,
    /// Whether all names fit, so that the rest of the room is for values.
    has_all_names: bool,
}

/// The size of everything in a shard in a list.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted {
    names: usize,
    values: usize,
    pointers: usize,
}

#[derive(Debug)]
enum Listed {
    Key(HotKey),
    Pointer(HotPointer),
}

impl OfShard {
    /// Selects entries for `room` bytes.
    fn new(room: usize, wanted: Wanted) -> Self {
        let (part, whole) = VALUES_SHARE;
        let (left, share) =
            (room.saturating_sub(wanted.names + wanted.pointers), room / whole * part);
        // The part of `share` that is values if their names are included.
        let of_share =
            share as u128 * wanted.values as u128 / (wanted.names + wanted.values).max(1) as u128;
        let has_all_names = left as u128 >= of_share;
        let for_values = if has_all_names { left } else { share };
        let (values, rest) = (Hottest::new(for_values), Hottest::new(room - for_values));
        Self { values, rest, has_all_names }
    }

    fn offer_entry(&mut self, entry: &KvEntry<'_>, times: u8, tables: &TablesNow) {
        let key = |value| HotKey {
            keyspace: entry.name.keyspace,
            key: entry.name.key.into(),
            times,
            value,
        };
        let name_bytes = HotKey::bytes_of_name(entry.name.key);
        if tables.vouch_for(entry) {
            let value_bytes = HotKey::bytes_of_value(entry.value);
            let with_value = || {
                let (trailer, level) = (Trailer(entry.stamp), entry.level);
                key(Some(Box::new(HotValue { trailer, level, payload: entry.value.into() })))
            };
            let both_bytes = name_bytes + value_bytes;
            let worth = f32::from(times) / both_bytes as f32;
            let bytes = if self.has_all_names { value_bytes } else { both_bytes };
            let (is_in, left) = self.values.offer(worth, bytes, with_value);
            left.into_iter().for_each(|key| self.offer_name(HotKey { value: None, ..key }));
            if is_in {
                return;
            }
        }
        self.rest.offer(f32::from(times), name_bytes, || Listed::Key(key(None)));
    }

    fn offer_name(&mut self, key: HotKey) {
        let bytes = HotKey::bytes_of_name(&key.key);
        self.rest.offer(f32::from(key.times), bytes, || Listed::Key(key));
    }

    fn offer_pointer(&mut self, pointer: HotPointer) {
        let worth = f32::from(pointer.times) + POINTER;
        self.rest.offer(worth, HotPointer::BYTES, || Listed::Pointer(pointer));
    }

    /// Adds the selected entries to a list; returns the free room.
    fn finish(self, list: &mut HotList) -> usize {
        let (values, mut left) = self.values.finish();
        let (rest, left_of_rest) = self.rest.finish();
        left += left_of_rest;
        if self.has_all_names {
            // `rest` has reserved room for these names.
            let names: usize = values.iter().map(|key| HotKey::bytes_of_name(&key.key)).sum();
            left = left.saturating_sub(names);
        }
        list.keys.extend(values);
        for one in rest {
            match one {
                Listed::Key(key) => list.keys.push(key),
                Listed::Pointer(pointer) => list.pointers.push(pointer),
            }
        }
        left
    }
}

impl Engine {
    /// Lists the contents of the caches in at most about `bytes_max` bytes.
    pub(crate) fn hot_list(&self, bytes_max: u64) -> HotList {
        let point = self.memory.caches().point();
        let tables = self.tables_now();
        let share = tables.bytes / self.options.research.hot_list_share.max(1);
        let mut left = share.min(bytes_max) as usize;
        let mut list = HotList {
            fingerprint: tables.fingerprint,
            shares: self.memory.caches().shares().map(|share| share as f32),
            shards: point.shards() as u64,
            ..HotList::default()
        };
        (list.blocks, left) = self.hot_blocks(left);
        for shard in 0..point.shards() {
            let room = left / (point.shards() - shard);
            left -= room;
            left += self.list_shard(shard, room, &tables, &mut list);
        }
        // The hottest first; those that are about equally hot in the order of the tables.
        let place = |hot: &HotKey| (Reverse(hot.times), hot.keyspace);
        list.keys.sort_unstable_by(|a, b| (place(a), &a.key).cmp(&(place(b), &b.key)));
        list
    }

    /// The hottest blocks in ascending order, and the free room.
    fn hot_blocks(&self, room: usize) -> (Vec<HotBlockId>, usize) {
        let mut hottest = Hottest::new(room);
        self.memory.caches().blocks().for_each_block(|id, times| {
            hottest.offer(f32::from(times), LISTED_BLOCK_BYTES, || HotBlockId { id, times });
        });
        let (mut blocks, left) = hottest.finish();
        blocks.sort_unstable();
        (blocks, left)
    }

    /// Adds the entries of a shard to the list; returns the free bytes.
    fn list_shard(
        &self,
        shard: usize,
        room: usize,
        tables: &TablesNow,
        list: &mut HotList,
    ) -> usize {
        let point = self.memory.caches().point();
        let mut wanted = Wanted::default();
        point.for_each_value(shard, |entry, _| {
            wanted.names += HotKey::bytes_of_name(entry.name.key);
            wanted.values += HotKey::bytes_of_value(entry.value);
        });
        point.for_each_pointer(shard, |_, _, _| wanted.pointers += HotPointer::BYTES);
        let mut of_shard = OfShard::new(room, wanted);
        point.for_each_value(shard, |entry, times| of_shard.offer_entry(&entry, times, tables));
        point.for_each_pointer(shard, |hash, entry, times| {
            // Only pointers into live tables, not into one whose flush failed.
            if tables.traits.contains_key(&entry.pointer.table) {
                of_shard.offer_pointer(HotPointer { hash, entry, times });
            }
        });
        of_shard.finish(list)
    }

    pub(crate) fn tables_now(&self) -> TablesNow {
        let now_ms = self.clock.unix_ms();
        let mut now = TablesNow { now_ms, is_known: true, ..TablesNow::default() };
        let structure = self.trees.structure();
        let state = structure.manifest.state();
        for (&id, keyspace) in &state.keyspaces {
            // Not the tree's own number: that includes ingests.
            now.keyspaces.entry(id).or_default().flushed = keyspace.flushed;
        }
        for (&id, tree) in &**self.trees.load() {
            for table in tree.version().tables() {
                let meta = table.meta();
                let ingested = &mut now.keyspaces.entry(id).or_default().ingested;
                ingested.extend((meta.sequence_override > 0).then_some(meta.sequence_override));
                now.traits.insert(meta.id, traits_of(id, table));
                now.is_known &= meta.entries == 0 || table.table().properties().contents != 0;
                now.bytes += meta.bytes;
            }
        }
        let all = [state.store].into_iter().chain(now.traits.values().flatten().copied());
        now.fingerprint = key_hash(&all.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
        now
    }
}

#[cfg(test)]
mod tests;
