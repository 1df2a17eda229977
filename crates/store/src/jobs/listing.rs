//! What the caches hold, as a list for the next life: of everything what a byte of the list
//! saves most with.
//!
//! A drive that has to read each hot key by itself is busy for seconds with what a list of
//! values brings back in milliseconds; but six names stand where one value does. So where
//! not everything fits, values of the hottest keys take two thirds of a list, and as many
//! more keys as there is room for stand there by name.
//!
//! Guarantee: a value of a list is what the tables of its fingerprint say of the key, and
//! has not expired. Relies on background work having ended: tables and caches stay as they
//! are.

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

/// Where not everything fits, values take so much of a list with their names.
const VALUES_SHARE: (usize, usize) = (2, 3);

/// Pointers come before names, however often these were asked for: they bring back at once
/// what a name takes reads for.
const POINTER: f32 = u8::MAX as f32 + 1.0;

/// The tables of a store at one moment.
#[derive(Debug, Default)]
pub(crate) struct TablesNow {
    /// Of the store and all its tables.
    pub(crate) fingerprint: u64,
    bytes: u64,
    /// Of each table by its number: all by which one of its number may differ from it.
    traits: BTreeMap<u64, [u64; 8]>,
    /// Whether all tables know what they hold: those of before do not.
    is_known: bool,
    keyspaces: BTreeMap<u32, InTables>,
    /// Milliseconds since 1970.
    now_ms: u64,
}

/// Which writes of a keyspace stand in tables.
#[derive(Debug, Default)]
struct InTables {
    /// All up to here.
    flushed: Sequence,
    /// What was ingested with these sequences.
    ingested: BTreeSet<Sequence>,
}

impl TablesNow {
    /// Whether the next life may believe an entry of KV. What a flush has told of that came
    /// to nothing stands in a log alone, in which it may be damaged; what has expired stays
    /// so even if clocks go back.
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

/// Of a table of the keyspace with this number.
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

/// What a list has of one shard of the point cache.
#[derive(Debug)]
struct OfShard {
    values: Hottest<HotKey>,
    /// Names and pointers; where all names fit, also those of keys with values.
    rest: Hottest<Listed>,
    /// Whether all names fit, and what they leave is for values.
    has_all_names: bool,
}

/// What everything in a shard would take in a list.
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
    /// In `room` bytes.
    fn new(room: usize, wanted: Wanted) -> Self {
        let (part, whole) = VALUES_SHARE;
        let (left, share) =
            (room.saturating_sub(wanted.names + wanted.pointers), room / whole * part);
        // Of what has its names counted in, so much is values.
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

    /// Puts what is kept into a list; the room that is left.
    fn finish(self, list: &mut HotList) -> usize {
        let (values, mut left) = self.values.finish();
        let (rest, left_of_rest) = self.rest.finish();
        left += left_of_rest;
        if self.has_all_names {
            // Room was left for these among the rest.
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
    /// What the caches hold, in a list of about `bytes_max` at most.
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
        // The hottest first; of those that are about as hot, as they stand in tables.
        let place = |hot: &HotKey| (Reverse(hot.times), hot.keyspace);
        list.keys.sort_unstable_by(|a, b| (place(a), &a.key).cmp(&(place(b), &b.key)));
        list
    }

    /// In ascending order, and the room that they leave.
    fn hot_blocks(&self, room: usize) -> (Vec<HotBlockId>, usize) {
        let mut hottest = Hottest::new(room);
        self.memory.caches().blocks().for_each_block(|id, times| {
            hottest.offer(f32::from(times), LISTED_BLOCK_BYTES, || HotBlockId { id, times });
        });
        let (mut blocks, left) = hottest.finish();
        blocks.sort_unstable();
        (blocks, left)
    }

    /// Fills the rest of the room, in bytes.
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
            // Into a table, not one that came to nothing.
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
            // Not what the tree believes: it counts ingests as well.
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
