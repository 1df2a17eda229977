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

use tidekv_cache::kv::KvEntry;

use crate::checksum::key_hash;
use crate::engine::Engine;
use crate::hot_list::{HotBlockId, HotKey, HotList, HotPointer, HotValue, LISTED_BLOCK_BYTES};
use crate::hottest::Hottest;
use crate::key::{Kind, Sequence, Trailer, split_deadline};
use crate::levels::TableHandle;

/// Values take so much of a list, and what names and pointers leave.
const VALUES_SHARE: (usize, usize) = (2, 3);

/// Before all pointers, and these before all names, comes what has a value: nobody is asked
/// for more often than by as many times as four bits count.
const WITH_VALUE: f32 = 512.0;
const POINTER: f32 = 256.0;

/// The tables of a store at one moment.
#[derive(Debug, Default)]
pub(crate) struct TablesNow {
    /// Of the store and all its tables.
    pub(crate) fingerprint: u64,
    bytes: u64,
    /// Of each table by its number: what it is told by from others.
    traits: BTreeMap<u64, [u64; 7]>,
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
        (sequence <= written.flushed || written.ingested.contains(&sequence)) && !has_expired()
    }
}

fn traits_of(table: &TableHandle) -> [u64; 7] {
    let meta = table.meta();
    [
        meta.id,
        meta.bytes,
        meta.entries,
        meta.range_tombstones,
        meta.largest_sequence,
        meta.sequence_override,
        table.table().properties().contents,
    ]
}

/// What a list has of one shard of the point cache.
#[derive(Debug)]
struct OfShard {
    /// Keys by the bytes of their values.
    values: Hottest<HotKey>,
    /// Names, also of keys with values, and pointers.
    rest: Hottest<Listed>,
}

#[derive(Debug)]
enum Listed {
    Key(HotKey),
    Pointer(HotPointer),
}

impl OfShard {
    /// In `room` bytes, of which all names would take so many, and all pointers.
    fn new(room: usize, of_names: usize, of_pointers: usize) -> Self {
        let (part, whole) = VALUES_SHARE;
        let left = room.saturating_sub(of_names + of_pointers);
        let for_values = left.max(room / whole * part);
        Self { values: Hottest::new(for_values), rest: Hottest::new(room - for_values) }
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
            let worth = f32::from(times) / (name_bytes + value_bytes) as f32;
            let (is_in, left) = self.values.offer(worth, value_bytes, with_value);
            left.into_iter().for_each(|key| self.offer_name(HotKey { value: None, ..key }));
            if is_in {
                return;
            }
        }
        self.rest.offer(f32::from(times), name_bytes, || Listed::Key(key(None)));
    }

    fn offer_name(&mut self, key: HotKey) {
        let worth = f32::from(key.times) + if key.value.is_some() { WITH_VALUE } else { 0.0 };
        self.rest.offer(worth, HotKey::bytes_of_name(&key.key), || Listed::Key(key));
    }

    fn offer_pointer(&mut self, pointer: HotPointer) {
        let worth = f32::from(pointer.times) + POINTER;
        self.rest.offer(worth, HotPointer::BYTES, || Listed::Pointer(pointer));
    }

    /// Puts what is kept into a list; the room that is left.
    fn finish(mut self, list: &mut HotList) -> usize {
        let (values, left) = std::mem::replace(&mut self.values, Hottest::new(0)).finish();
        values.into_iter().for_each(|key| self.offer_name(key));
        let (rest, left_of_rest) = self.rest.finish();
        for one in rest {
            match one {
                Listed::Key(key) => list.keys.push(key),
                Listed::Pointer(pointer) => list.pointers.push(pointer),
            }
        }
        left + left_of_rest
    }
}

impl Engine {
    /// What the caches hold, in a list of about `bytes_max` at most.
    pub(crate) fn hot_list(&self, bytes_max: u64) -> HotList {
        let point = self.caches.point();
        let tables = self.tables_now();
        let mut left = (tables.bytes / self.options.hot_list_share).min(bytes_max) as usize;
        let mut list = HotList {
            fingerprint: tables.fingerprint,
            shares: self.caches.shares().map(|share| share as f32),
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
        self.caches.blocks().look_at_all(|id, times| {
            hottest.offer(f32::from(times), LISTED_BLOCK_BYTES, || HotBlockId { id, times });
        });
        let (mut blocks, left) = hottest.finish();
        blocks.sort_unstable();
        (blocks, left)
    }

    /// The room of so many bytes that is left.
    fn list_shard(
        &self,
        shard: usize,
        room: usize,
        tables: &TablesNow,
        list: &mut HotList,
    ) -> usize {
        let point = self.caches.point();
        let (mut of_names, mut of_pointers) = (0, 0);
        point.look_at_values(shard, |entry, _| of_names += HotKey::bytes_of_name(entry.name.key));
        point.look_at_pointers(shard, |_, _, _| of_pointers += HotPointer::BYTES);
        let mut of_shard = OfShard::new(room, of_names, of_pointers);
        point.look_at_values(shard, |entry, times| of_shard.offer_entry(&entry, times, tables));
        point.look_at_pointers(shard, |hash, entry, times| {
            // Into a table, not one that came to nothing.
            if tables.traits.contains_key(&entry.pointer.table) {
                of_shard.offer_pointer(HotPointer { hash, entry, times });
            }
        });
        of_shard.finish(list)
    }

    pub(crate) fn tables_now(&self) -> TablesNow {
        let mut now = TablesNow { now_ms: self.clock.unix_ms(), ..TablesNow::default() };
        let structure = self.structure.lock();
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
                now.traits.insert(meta.id, traits_of(table));
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
