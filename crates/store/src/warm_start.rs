//! What was hot when a store was closed is brought back when it is opened.
//!
//! ```text
//!   close ──▶ HOT ──▶ open: pointers ──▶ replay of the logs ──▶ in the background:
//!             (hot_list.rs)                                      blocks, then values
//! ```
//!
//! Guarantees:
//! 1. Pointers come back before the logs are replayed, and only if the store consists of
//!    the tables that it was closed with; so whatever is newer goes through a flush that
//!    syncs them, as ever.
//! 2. Values are read like any others: nothing is believed of a list but what was asked
//!    for. Whatever of it is wrong, or not there any more, is passed over.
//! 3. A list takes at most a hundredth of the bytes of the tables. One that has not been
//!    gone through when the store is closed stays as it is.
//!
//! Jobs of low priority do it, in pieces, at the rate that compactions are held to.

use std::sync::Arc;

use tidekv_cache::Name;
use tidekv_io::{Access, Priority};

use crate::blocks::BlockAddress;
use crate::checksum::name_hash;
use crate::compaction::output::Pacer;
use crate::engine::Engine;
use crate::error::Result;
use crate::files::HOT;
use crate::hot_list::{HotBlockId, HotKey, HotList, HotPointer};
use crate::key::LookupKey;
use crate::point_read::{self, PointRead, Reader};
use crate::sync::atomic::Ordering;
use crate::tree::Tree;

/// A list takes at most one part in so many of what it is about, and so many bytes.
const LIST_SHARE: u64 = 100;
const LIST_BYTES_MAX: u64 = 64 << 20;
/// About what a block takes in a list.
const LISTED_BLOCK_BYTES: usize = 4;

/// Blocks and keys that one job brings back.
const BLOCKS_PER_JOB: usize = 64;
const KEYS_PER_JOB: usize = 256;

/// A part of the cache with less room than this is full.
const ROOM_MIN: usize = 64 << 10;

/// What is left of a list.
#[derive(Debug)]
struct Refill {
    list: HotList,
    /// Of the blocks and of the keys, how many are done.
    blocks_done: usize,
    keys_done: usize,
    pacer: Pacer,
}

impl Engine {
    // ---- Closing ----

    /// Writes down what the caches hold, unless the list of the life before has not been
    /// gone through yet. Once background work has ended.
    pub(crate) fn write_hot_list(&self) -> Result<()> {
        let is_wanted = self.options.warm_start && !self.options.read_only;
        if !is_wanted || self.refills_running.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        let list = self.hot_list();
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
        let (tables, table_bytes) = self.tables_now();
        let mut left = (table_bytes / LIST_SHARE).min(LIST_BYTES_MAX) as usize;
        let mut hot = Vec::new();
        blocks.look_at_all(|id, times| hot.push(HotBlockId { id, times }));
        keep_hottest(&mut hot, &mut left, |_| LISTED_BLOCK_BYTES, |block| block.times);
        hot.sort_unstable();
        let (mut keys, mut pointers) = (Vec::new(), Vec::new());
        let shards = point.shards();
        for shard in 0..shards {
            let mut room = left / (shards - shard);
            left -= room;
            let mut of_shard = Vec::new();
            point.look_at_values(shard, |entry, times| {
                let (keyspace, key) = (entry.name.keyspace, entry.name.key.into());
                of_shard.push(HotKey { keyspace, key, times });
            });
            keep_hottest(&mut of_shard, &mut room, HotKey::bytes, |key| key.times);
            keys.append(&mut of_shard);
            let mut of_shard = Vec::new();
            point.look_at_pointers(shard, |hash, entry, times| {
                of_shard.push(HotPointer { hash, entry, times });
            });
            keep_hottest(&mut of_shard, &mut room, |_| HotPointer::BYTES, |p| p.times);
            pointers.append(&mut of_shard);
            left += room;
        }
        // As they stand in tables.
        keys.sort_unstable_by(|a, b| (a.keyspace, &a.key).cmp(&(b.keyspace, &b.key)));
        let shares = self.caches.shares().map(|share| share as f32);
        HotList { tables, shares, shards: shards as u64, blocks: hot, keys, pointers }
    }

    /// The numbers of all tables, ascending, and their bytes.
    fn tables_now(&self) -> (Vec<u64>, u64) {
        let (mut ids, mut bytes) = (Vec::new(), 0);
        for tree in self.trees.load().values() {
            for table in tree.version().tables() {
                ids.push(table.meta().id);
                bytes += table.meta().bytes;
            }
        }
        ids.sort_unstable();
        (ids, bytes)
    }

    // ---- Opening ----

    /// The list that an earlier life has left, its pointers brought back. When the tables
    /// are open, before the logs are replayed.
    pub(crate) fn take_hot_list(&self) -> Option<HotList> {
        if !self.options.warm_start || self.caches.budget() == 0 {
            return None;
        }
        let path = self.directory.join(HOT);
        let read = || -> Result<HotList> {
            let file = self.storage.open_read(&path, Access::Buffered)?;
            let bytes = file.len()?.min(2 * LIST_BYTES_MAX) as usize;
            Ok(HotList::decode(&file.read_at(0, bytes)?).unwrap_or_default())
        };
        let mut list = read().ok()?;
        let point = self.caches.point();
        self.caches.set_shares(list.shares.map(f64::from));
        let pointers = std::mem::take(&mut list.pointers);
        if list.tables == self.tables_now().0 && list.shards >= point.shards() as u64 {
            for HotPointer { hash, entry, times } in pointers {
                point.remember(hash, times);
                point.restore_pointer(hash, entry);
                self.stats.warm_pointers.add(1);
            }
        }
        Some(list)
    }

    /// Has the blocks and values of a list brought back in the background.
    pub(crate) fn refill(self: &Arc<Self>, list: HotList) {
        self.refills_running.fetch_add(1, Ordering::AcqRel);
        let pacer = self.compaction_pacer();
        self.refill_later(Refill { list, blocks_done: 0, keys_done: 0, pacer });
    }

    fn refill_later(self: &Arc<Self>, mut refill: Refill) {
        // Whoever waits for a turn does not keep a store open.
        let engine = Arc::downgrade(self);
        let job = move || {
            let Some(engine) = engine.upgrade() else { return };
            let Ok(gate) = engine.enter() else { return };
            let goes_on = engine.refill_blocks(&mut refill) || engine.refill_values(&mut refill);
            drop(gate);
            match goes_on {
                true => engine.refill_later(refill),
                false => drop(engine.refills_running.fetch_sub(1, Ordering::AcqRel)),
            }
        };
        self.executor.execute(Priority::Low, Box::new(job));
    }

    /// Brings the next blocks back; whether there were any, and room for them.
    fn refill_blocks(&self, refill: &mut Refill) -> bool {
        let blocks = self.caches.blocks();
        let rest = &refill.list.blocks[refill.blocks_done..];
        let of_table = rest.chunk_by(|a, b| a.id.table == b.id.table).next().unwrap_or_default();
        let next = &of_table[..of_table.len().min(BLOCKS_PER_JOB)];
        if next.is_empty() || blocks.charged_bytes() + ROOM_MIN > blocks.capacity() {
            return false;
        }
        refill.blocks_done += next.len();
        next.iter().for_each(|block| blocks.remember(block.id, block.times));
        let addresses = self.addresses_of(next);
        let before = self.blocks.read_bytes();
        let read = self.blocks.try_read_many(&addresses);
        self.stats.warm_blocks.add(read.iter().filter(|block| block.is_ok()).count() as u64);
        refill.pacer.spend(self.blocks.read_bytes() - before, &*self.clock);
        true
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
        let read = |address: &BlockAddress| self.blocks.get(address);
        handle.table().addresses_at(&offsets, read).unwrap_or_default()
    }

    /// Brings the next values back; whether there were any, and room for them.
    fn refill_values(&self, refill: &mut Refill) -> bool {
        let point = self.caches.point();
        let rest = &refill.list.keys[refill.keys_done..];
        let of_tree = rest.chunk_by(|a, b| a.keyspace == b.keyspace).next().unwrap_or_default();
        let next = &of_tree[..of_tree.len().min(KEYS_PER_JOB)];
        if next.is_empty() || point.charged_bytes().0 + ROOM_MIN > point.capacities().0 {
            return false;
        }
        refill.keys_done += next.len();
        let read = self.blocks.read_bytes();
        if let Some(tree) = self.tree(next[0].keyspace)
            && self.read_hot(&tree, next).is_ok()
        {
            self.stats.warm_values.add(next.len() as u64);
        }
        refill.pacer.spend(self.blocks.read_bytes() - read, &*self.clock);
        true
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
        let reader = Reader { keyspace: tree.id, sequence: self.visible(), known };
        let reads = keys.iter().zip(hashes).zip(epochs).map(|((hot, hash), epoch)| {
            point.remember(hash, hot.times);
            let key = LookupKey::new(&hot.key, reader.sequence);
            PointRead::new(&view, key, reader, Some(epoch)).remembered(hot.times)
        });
        point_read::read_many(reads, &self.blocks)?;
        Ok(())
    }
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
