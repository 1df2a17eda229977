//! What was hot when a store was closed is brought back when it is opened.
//!
//! ```text
//!   close ──▶ HOT ──▶ open: pointers, ─────▶ replay of the logs ──▶ in the background:
//!             (hot_list.rs) values of the                            blocks, then the
//!                           hottest keys                             other values
//! ```
//!
//! Guarantees:
//! 1. The pointers and values of a list come back before the logs are replayed, and only
//!    if it is the same store with the tables that it was closed with; so whatever is
//!    newer goes through a flush that syncs them, as ever.
//! 2. All else is read like anything: nothing is believed of a list but what was asked
//!    for. Whatever of it is wrong, or not there any more, is passed over.
//! 3. A list takes at most a hundredth of the bytes of the tables and an eighth of all
//!    memory; what it takes counts as open tables do. One of twice that share of memory
//!    is left unread, for a life with more. One that has not been gone through when the
//!    store is closed, for want of time or room, stays as it is, unless more was asked
//!    for in this life than it names.
//! 4. What KV does not fill yet is blocks' meanwhile; whatever ends the refill, KV has it
//!    back then.
//!
//! A drive that has to read each hot key by itself is busy for seconds with what a list of
//! values brings back in milliseconds, but six names stand where one value does. So the
//! hottest keys have their values in the list, and as many more as there is room for stand
//! there by name.
//!
//! Jobs of low priority read these, in pieces, at the rate that compactions are held to: blocks
//! first, which keys are found by, then keys, the hottest first; each piece in a few batches
//! of reads, in the order of the file. They hold no lock while they read, and nobody waits
//! for them but who closes the store: for one piece.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidekv_cache::Name;
use tidekv_cache::kv::KvEntry;
use tidekv_io::{Access, Priority};

use crate::blocks::BlockAddress;
use crate::checksum::{key_hash, name_hash};
use crate::coding::put_bytes;
use crate::compaction::output::Pacer;
use crate::engine::Engine;
use crate::error::Result;
use crate::files::HOT;
use crate::hot_list::{HotBlockId, HotKey, HotList, HotPointer, HotValue};
use crate::key::{LookupKey, Sequence, Trailer};
use crate::lending::Lent;
use crate::manifest::TableMeta;
use crate::point_read::{self, PointRead};
use crate::question::{Question, Reader};
use crate::sync::atomic::Ordering;
use crate::tree::Tree;

/// A list takes at most one part in so many of what it is about, one in so many of all
/// memory, and so many bytes.
const LIST_SHARE: u64 = 100;
const LIST_MEMORY_SHARE: u64 = 8;
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Values take so much of a list, and what names and pointers leave.
const VALUES_SHARE: (usize, usize) = (2, 3);
/// A list that takes so many times what one may take now is of a life with more memory:
/// it is not read.
const LIST_EXCESS_MAX: u64 = 2;
/// About what a block takes in a list.
const LISTED_BLOCK_BYTES: usize = 4;

/// Blocks and keys that one job brings back: many, so that the drive has much to do and
/// neighbours are found.
const BLOCKS_PER_JOB: usize = 256;
const KEYS_PER_JOB: usize = 1024;
/// But no more keys than have their blocks in this part of all memory, half of what there
/// is for reads under way.
const IN_FLIGHT_SHARE: u64 = 32;

/// A part of the cache with less room than this in all its shards together is full. One
/// with more may be too: each full shard has some bytes left.
const ROOM_MIN: usize = 64 << 10;

/// What is left of a list is measured after so many jobs: that looks at all of it.
const JOBS_PER_LOOK: u32 = 256;

/// What is left of a list.
#[derive(Debug)]
struct Refill {
    list: HotList,
    pacer: Pacer,
    jobs: u32,
    loan: Loan,
}

/// The tables of a store at one moment.
#[derive(Debug)]
struct TablesNow {
    /// Of the store and all its tables.
    fingerprint: u64,
    bytes: u64,
    /// Of each table by its number.
    traits: BTreeMap<u64, Vec<u8>>,
    /// By keyspace: writes up to here stand in tables.
    flushed: BTreeMap<u32, Sequence>,
}

/// Gives back what is lent, also when a job is dropped that was to go on.
#[derive(Debug)]
struct Loan(Arc<Lent>);

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Engine {
    // ---- Closing ----

    /// Writes down what the caches hold, unless the list of an earlier life knows better.
    /// Once background work has ended; the caches are empty afterwards.
    pub(crate) fn write_hot_list(&self) -> Result<()> {
        let is_wanted = self.options.warm_start && !self.options.read_only;
        let names = self.hot_list_names.load(Ordering::Acquire) as u64;
        if !is_wanted || self.caches.budget() == 0 || self.stats.gets.get() < names {
            return Ok(());
        }
        // A job that was to go on may not have been dropped yet.
        self.lent.give_back();
        let list = self.hot_list();
        self.caches.set_budget(0);
        let path = self.directory.join(HOT);
        if self.storage.exists(&path)? {
            self.storage.remove(&path)?;
        }
        if list.blocks.is_empty() && list.keys.is_empty() && list.pointers.is_empty() {
            return Ok(());
        }
        // Not synced: whoever finds it torn does without it.
        self.storage.create(&path, Access::Buffered)?.write_at(0, &list.encode())?;
        Ok(())
    }

    fn hot_list(&self) -> HotList {
        let (point, blocks) = (self.caches.point(), self.caches.blocks());
        let tables = self.tables_now();
        let mut left = (tables.bytes / LIST_SHARE).min(self.list_bytes_max()) as usize;
        let mut hot = Vec::new();
        blocks.look_at_all(|id, times| hot.push(HotBlockId { id, times }));
        keep_hottest(&mut hot, &mut left, |_| LISTED_BLOCK_BYTES, |block| block.times);
        hot.sort_unstable();
        let (mut keys, mut pointers) = (Vec::new(), Vec::new());
        let shards = point.shards();
        for shard in 0..shards {
            let mut room = left / (shards - shard);
            left -= room;
            let (mut names, mut of_shard) = (Vec::new(), Vec::new());
            point.look_at_values(shard, |entry, times| {
                names.push(hot_key(&entry, times, &tables));
            });
            point.look_at_pointers(shard, |hash, entry, times| {
                if tables.traits.contains_key(&entry.pointer.table) {
                    of_shard.push(HotPointer { hash, entry, times });
                }
            });
            let of_pointers = of_shard.len() * HotPointer::BYTES;
            keys.append(&mut take_hottest_values(&mut names, &mut room, of_pointers));
            keep_hottest(&mut of_shard, &mut room, |_| HotPointer::BYTES, |p| p.times);
            pointers.append(&mut of_shard);
            keep_hottest(&mut names, &mut room, HotKey::bytes, |key| key.times);
            keys.append(&mut names);
            left += room;
        }
        // The hottest first; of those that are about as hot, as they stand in tables.
        let place = |hot: &HotKey| (std::cmp::Reverse(hot.times), hot.keyspace);
        keys.sort_unstable_by(|a, b| (place(a), &a.key).cmp(&(place(b), &b.key)));
        let shares = self.caches.shares().map(|share| share as f32);
        let fingerprint = tables.fingerprint;
        HotList { fingerprint, shares, shards: shards as u64, blocks: hot, keys, pointers }
    }

    fn list_bytes_max(&self) -> u64 {
        LIST_BYTES_MAX.min(self.memory_bytes.load(Ordering::Relaxed) / LIST_MEMORY_SHARE)
    }

    fn tables_now(&self) -> TablesNow {
        let store = self.structure.lock().manifest.state().store;
        let (mut traits, mut flushed, mut bytes) = (BTreeMap::new(), BTreeMap::new(), 0);
        for (&id, tree) in &**self.trees.load() {
            flushed.insert(id, tree.flushed());
            for table in tree.version().tables() {
                let meta = table.meta();
                traits.insert(meta.id, traits_of(meta));
                bytes += meta.bytes;
            }
        }
        let mut all = store.to_le_bytes().to_vec();
        traits.values().for_each(|traits| all.extend_from_slice(traits));
        TablesNow { fingerprint: key_hash(&all), bytes, traits, flushed }
    }

    // ---- Opening ----

    /// The list that an earlier life has left, its pointers and values brought back. When
    /// the tables are open, before the logs are replayed.
    pub(crate) fn take_hot_list(&self) -> Option<HotList> {
        if !self.options.warm_start || self.caches.budget() == 0 {
            return None;
        }
        let path = self.directory.join(HOT);
        let read = || -> Result<Option<HotList>> {
            let file = self.storage.open_read(&path, Access::Buffered)?;
            let bytes = file.len()?;
            if bytes > LIST_EXCESS_MAX * self.list_bytes_max() {
                // It stays for a life with more, unless this one asks for more than it can
                // name.
                let names = bytes as usize / LISTED_BLOCK_BYTES;
                self.hot_list_names.store(names, Ordering::Release);
                return Ok(None);
            }
            Ok(Some(HotList::decode(&file.read_at(0, bytes as usize)?).unwrap_or_default()))
        };
        let mut list = read().ok()??;
        self.caches.set_shares(list.shares.map(f64::from));
        let (pointers, shards) = (std::mem::take(&mut list.pointers), list.shards);
        if list.fingerprint == self.tables_now().fingerprint {
            self.restore_values(&mut list.keys);
            self.restore_pointers(&pointers, shards);
        }
        // What has not come back is read by its name.
        list.keys.iter_mut().for_each(|key| key.value = None);
        Some(list)
    }

    /// Brings those values back that KV has room for, and takes their keys out.
    fn restore_values(&self, keys: &mut Vec<HotKey>) {
        let point = self.caches.point();
        keys.retain(|HotKey { keyspace, key, times, value }| {
            let Some(value) = value else { return true };
            let name = Name { keyspace: *keyspace, key };
            let HotValue { trailer, level, payload } = &**value;
            let entry = KvEntry { name, stamp: trailer.0, value: payload, level: *level };
            let hash = name_hash(name);
            point.remember(hash, *times);
            let is_back = point.restore_value(hash, entry);
            self.stats.warm_values.add(u64::from(is_back));
            !is_back
        });
    }

    /// Brings pointers back, whose hashes are those of a cache of so many shards.
    fn restore_pointers(&self, pointers: &[HotPointer], shards: u64) {
        let point = self.caches.point();
        if shards < point.shards() as u64 {
            return;
        }
        for HotPointer { hash, entry, times } in pointers {
            point.remember(*hash, *times);
            point.restore_pointer(*hash, *entry);
            self.stats.warm_pointers.add(1);
        }
    }

    /// Has the blocks and values of a list brought back in the background.
    pub(crate) fn refill(self: &Arc<Self>, mut list: HotList) {
        self.hot_list_names.store(list.blocks.len() + list.keys.len(), Ordering::Release);
        // They are taken from the back.
        list.blocks.reverse();
        list.keys.reverse();
        let pacer = self.compaction_pacer();
        let loan = Loan(Arc::clone(&self.lent));
        self.refill_after(Duration::ZERO, Refill { list, pacer, jobs: 0, loan });
    }

    fn refill_after(self: &Arc<Self>, wait: Duration, mut refill: Refill) {
        if refill.jobs.is_multiple_of(JOBS_PER_LOOK) {
            self.hot_list_bytes.store(refill.list.memory_bytes(), Ordering::Relaxed);
            self.share_memory_out();
        }
        refill.jobs += 1;
        // Whoever waits for a turn does not keep a store open.
        let engine = Arc::downgrade(self);
        let job = move || {
            let Some(engine) = engine.upgrade() else { return };
            if engine.is_closed.load(Ordering::Acquire) {
                return;
            }
            refill.loan.0.follow();
            let read = engine.refill_blocks(&mut refill.list);
            match read.or_else(|| engine.refill_values(&mut refill.list)) {
                Some(bytes) => {
                    let wait = refill.pacer.wait_for(bytes, &*engine.clock);
                    engine.refill_after(wait, refill);
                }
                None => engine.end_refill(&refill.list),
            }
        };
        match wait.is_zero() {
            true => self.executor.execute(Priority::Low, Box::new(job)),
            false => self.executor.execute_later(wait, Box::new(job)),
        }
    }

    /// There is nothing left of the list, or no room for more of it; then it stays for a
    /// life with more.
    fn end_refill(&self, list: &HotList) {
        if list.blocks.is_empty() && list.keys.is_empty() {
            self.hot_list_names.store(0, Ordering::Release);
        }
        self.hot_list_bytes.store(0, Ordering::Relaxed);
        self.share_memory_out();
    }

    /// Brings the next blocks back; how many bytes were read, if there were any and room
    /// for them.
    fn refill_blocks(&self, list: &mut HotList) -> Option<u64> {
        let blocks = self.caches.blocks();
        let table = list.blocks.last()?.id.table;
        if blocks.charged_bytes() + ROOM_MIN > blocks.capacity() || !blocks.has_room() {
            return None;
        }
        let of_table = list.blocks.iter().rev().take_while(|block| block.id.table == table);
        let count = of_table.take(BLOCKS_PER_JOB).count();
        let mut next = take_last(&mut list.blocks, count);
        next.reverse();
        next.iter().for_each(|block| blocks.remember(block.id, block.times));
        let addresses = self.addresses_of(&next);
        let read = self.blocks.try_read_many(&addresses);
        self.stats.warm_blocks.add(read.iter().filter(|block| block.is_ok()).count() as u64);
        Some(addresses.iter().map(|address| u64::from(address.handle.len)).sum())
    }

    /// Where the blocks stand, all of one table, that are not in memory.
    fn addresses_of(&self, blocks: &[HotBlockId]) -> Vec<BlockAddress> {
        let trees = self.trees.load();
        let table = blocks[0].id.table;
        let mut tables = trees.values().flat_map(|tree| {
            let version = tree.version();
            version.tables().find(|handle| handle.meta().id == table).cloned()
        });
        let Some(handle) = tables.next() else { return Vec::new() };
        let offsets: Vec<u64> = blocks
            .iter()
            .filter(|block| !self.caches.blocks().contains(block.id))
            .map(|block| block.id.offset)
            .collect();
        // Damage is for those to meet who want the block.
        let read = |indexes: &[BlockAddress]| self.blocks.try_read_many(indexes);
        handle.table().addresses_at(&offsets, read).unwrap_or_default()
    }

    /// Brings the next values back; about how many bytes were read, if there were any and
    /// room for them.
    fn refill_values(&self, list: &mut HotList) -> Option<u64> {
        let point = self.caches.point();
        let keyspace = list.keys.last()?.keyspace;
        let is_full = point.charged_bytes().0 + ROOM_MIN > point.capacities().0;
        if is_full || !point.has_room_for_values() {
            return None;
        }
        let tree = self.tree(keyspace);
        let block_bytes = tree.as_ref().map_or(1, |tree| u64::from(tree.options().block_bytes));
        let in_flight = self.memory_bytes.load(Ordering::Relaxed) / IN_FLIGHT_SHARE;
        let most = (in_flight / block_bytes.max(1)).clamp(1, KEYS_PER_JOB as u64);
        let of_tree = list.keys.iter().rev().take_while(|key| key.keyspace == keyspace);
        let count = of_tree.take(most as usize).count();
        let mut next = take_last(&mut list.keys, count);
        // As they stand in tables: neighbours are read together.
        next.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let Some(tree) = tree else { return Some(0) };
        let before = self.blocks.read_bytes();
        if self.read_hot(&tree, &next).is_ok() {
            self.stats.warm_values.add(next.len() as u64);
        }
        // Others have read meanwhile; this here no more than a block a key.
        let most = next.len() as u64 * u64::from(tree.options().block_bytes);
        Some((self.blocks.read_bytes() - before).min(most))
    }

    /// Reads keys, so that the point cache keeps what they are.
    fn read_hot(&self, tree: &Tree, keys: &[HotKey]) -> Result<()> {
        let point = self.caches.point();
        // Epochs, what was seen, view, sequence: in this order, see `docs/concurrency.md`.
        let hash = |hot: &HotKey| name_hash(Name { keyspace: hot.keyspace, key: &hot.key });
        let hashes: Vec<u64> = keys.iter().map(hash).collect();
        let epochs: Vec<_> = hashes.iter().map(|&hash| point.epoch(hash)).collect();
        let known = self.visible();
        let view = tree.view();
        let reader = Reader { tree, sequence: self.visible(), known, is_at_snapshot: false };
        let reads = keys.iter().zip(hashes).zip(epochs).map(|((hot, hash), epoch)| {
            point.remember(hash, hot.times);
            let key = LookupKey::new(&hot.key, reader.sequence);
            PointRead::new(Question::new(&view, key, reader), Some(epoch)).remembered()
        });
        point_read::read_many(reads, &self.blocks)?;
        Ok(())
    }
}

/// The last `count`, in their order; gives memory back when half of it is not needed.
fn take_last<T>(all: &mut Vec<T>, count: usize) -> Vec<T> {
    let last = all.split_off(all.len() - count);
    if all.len() < all.capacity() / 2 {
        all.shrink_to_fit();
    }
    last
}

/// What a table is told by from one of another store that has its number.
fn traits_of(meta: &TableMeta) -> Vec<u8> {
    let numbers = [
        meta.id,
        meta.bytes,
        meta.entries,
        meta.largest_sequence,
        meta.sequence_override,
        meta.earliest_deadline_ms,
    ];
    let mut traits: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    put_bytes(&mut traits, &meta.smallest);
    put_bytes(&mut traits, &meta.largest);
    traits
}

/// An entry of KV. What a flush has told of that came to nothing has no value: it stands
/// in a log, in which it may be damaged.
fn hot_key(entry: &KvEntry<'_>, times: u8, tables: &TablesNow) -> HotKey {
    let (trailer, level) = (Trailer(entry.stamp), entry.level);
    let flushed = tables.flushed.get(&entry.name.keyspace);
    let is_in_table = flushed.is_some_and(|&flushed| trailer.sequence() <= flushed);
    let value = || Box::new(HotValue { trailer, level, payload: entry.value.into() });
    let (keyspace, key) = (entry.name.keyspace, entry.name.key.into());
    HotKey { keyspace, key, times, value: is_in_table.then(value) }
}

/// Takes those out whose values save most for their bytes, as far as there is room for
/// them; the others are names from here on. So many bytes are wanted for pointers.
fn take_hottest_values(
    keys: &mut Vec<HotKey>,
    room: &mut usize,
    of_pointers: usize,
) -> Vec<HotKey> {
    let of_names: usize = keys.iter().map(|key| key.bytes() - key.value_bytes()).sum();
    let (part, whole) = VALUES_SHARE;
    let mut for_values = (*room / whole * part).max(room.saturating_sub(of_names + of_pointers));
    let worth = |key: &HotKey| f32::from(key.times) / key.bytes() as f32;
    keys.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let (hottest, names) = std::mem::take(keys).into_iter().partition(|key| {
        let fits = key.value_bytes() <= for_values && key.bytes() <= *room;
        let is_taken = fits && key.value.is_some();
        if is_taken {
            for_values -= key.value_bytes();
            *room -= key.bytes();
        }
        is_taken
    });
    *keys = names;
    keys.iter_mut().for_each(|key| key.value = None);
    hottest
}

/// Keeps those that were asked for most often, as far as there is room for them.
fn keep_hottest<T>(
    all: &mut Vec<T>,
    room: &mut usize,
    bytes: impl Fn(&T) -> usize,
    times: impl Fn(&T) -> u8,
) {
    all.sort_by_key(|one| std::cmp::Reverse(times(one)));
    let mut kept = 0;
    for one in all.iter() {
        let Some(left) = room.checked_sub(bytes(one)) else { break };
        *room = left;
        kept += 1;
    }
    all.truncate(kept);
}

#[cfg(test)]
mod tests;
