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
//!    newer goes through a flush that syncs them, as ever. If it is not, the values leave
//!    the file: nobody can use them any more, and who deletes keys wants them gone. (A list
//!    that is not read, for want of a cache or of memory, stays as it is.)
//! 2. All else is read like anything: nothing is believed of a list but what was asked
//!    for. Whatever of it is wrong, or not there any more, is passed over.
//! 3. A list takes at most a hundredth of the bytes of the tables (`listing.rs`) and an
//!    eighth of all memory; what it takes counts as open tables do. One of twice that share
//!    of memory is left unread, for a life with more. One that has not been gone through when the
//!    store is closed, for want of time or room, stays as it is, unless more was asked
//!    for in this life than it names.
//! 4. What KV does not fill yet is blocks' meanwhile; whatever ends the refill, KV has it
//!    back then.
//!
//! Jobs of low priority read what is there by name, in pieces, at the rate that
//! compactions are held to: blocks first, which keys are found by, then keys, the hottest
//! first; each piece in a few batches of reads, in the order of the file. They hold no
//! lock while they read, and nobody waits for them but who closes the store: for one
//! piece.

use std::sync::Arc;
use std::time::Duration;

use tidekv_cache::KvEntry;
use tidekv_cache::Name;
use tidekv_io::{Access, Priority};

use crate::compaction::output::Pacer;
use crate::engine::Engine;
use crate::error::Result;
use crate::format::checksum::name_hash;
use crate::format::files::HOT;
use crate::read::begin_read::begin_read;
use crate::read::point_read::{self, PointRead};
use crate::sst::block_address::BlockAddress;
use crate::version::tree::Tree;
use crate::warm::borrowed_budget::BorrowedBudget;
use crate::warm::hot_list::{
    HotBlockId, HotKey, HotList, HotPointer, HotValue, LISTED_BLOCK_BYTES,
};

/// A list takes at most one part in this many of all memory.
const LIST_MEMORY_SHARE: u64 = 8;
const LIST_BYTES_MAX: u64 = 64 << 20;
/// A list that takes this many times the memory allowed now is of a run with more memory:
/// it is not read.
const LIST_EXCESS_MAX: u64 = 2;

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
    loan: BorrowedBudgetGuard,
}

/// Gives back what is lent, also when a job is dropped that was to go on.
#[derive(Debug)]
struct BorrowedBudgetGuard(Arc<BorrowedBudget>);

impl Drop for BorrowedBudgetGuard {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Engine {
    // ---- Closing ----

    /// Saves what the caches hold, unless the list of the previous run is better.
    /// Once background work has ended; the caches are empty afterwards.
    pub(crate) fn write_hot_list(&self) -> Result<()> {
        let is_wanted = self.options.warm_start && !self.options.read_only;
        let names = self.jobs.hot_list_names() as u64;
        if !is_wanted || self.memory.caches().budget() == 0 || self.stats.gets.get() < names {
            return Ok(());
        }
        // A job that was to go on may not have been dropped yet.
        self.memory.borrowed().give_back();
        let list = self.hot_list(self.list_bytes_max());
        self.memory.caches().set_budget(0);
        self.put_hot_list(&list)
    }

    /// Puts a list in the place of the one that is there.
    fn put_hot_list(&self, list: &HotList) -> Result<()> {
        let HotList { blocks, keys, pointers, .. } = list;
        let is_empty = blocks.is_empty() && keys.is_empty() && pointers.is_empty();
        let list = (!is_empty).then(|| list.encode());
        self.put_list(HOT, list.as_deref())
    }

    fn list_bytes_max(&self) -> u64 {
        LIST_BYTES_MAX.min(self.memory.total_bytes() / LIST_MEMORY_SHARE)
    }

    // ---- Opening ----

    /// The list of the previous run; its pointers and values are restored. When
    /// the tables are open, before the logs are replayed.
    pub(crate) fn take_hot_list(&self) -> Option<HotList> {
        if !self.options.warm_start {
            // What is deleted from now on would stand there for ever.
            note_failure(self.put_list(HOT, None));
        }
        if !self.options.warm_start || self.memory.caches().budget() == 0 {
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
                self.jobs.set_hot_list_names(names);
                return Ok(None);
            }
            Ok(Some(HotList::decode(&file.read_at(0, bytes as usize)?).unwrap_or_default()))
        };
        let mut list = read().ok()??;
        self.memory.caches().set_shares(list.shares.map(f64::from));
        let (pointers, shards) = (std::mem::take(&mut list.pointers), list.shards);
        let is_of_these = list.fingerprint == self.tables_now().fingerprint;
        if is_of_these {
            self.restore_values(&mut list.keys);
            self.restore_pointers(&pointers, shards);
        }
        // What has not come back is read by its name.
        let values = list.keys.iter_mut().filter_map(|key| key.value.take()).count();
        if values > 0 && !is_of_these {
            note_failure(self.put_hot_list(&list));
        }
        Some(list)
    }

    /// Brings those values back that KV has room for, and takes their keys out.
    fn restore_values(&self, keys: &mut Vec<HotKey>) {
        let point = self.memory.caches().point();
        keys.retain(|HotKey { keyspace, key, times, value }| {
            let Some(value) = value else { return true };
            let name = Name { keyspace: *keyspace, key };
            let HotValue { trailer, level, payload } = &**value;
            let entry = KvEntry { name, stamp: trailer.0, value: payload, level: *level };
            let hash = name_hash(name);
            point.restore_frequency(hash, *times);
            let is_back = point.restore_value(hash, entry);
            self.stats.warm_values.add(u64::from(is_back));
            !is_back
        });
    }

    /// Brings pointers back, whose hashes are those of a cache of so many shards.
    fn restore_pointers(&self, pointers: &[HotPointer], shards: u64) {
        let point = self.memory.caches().point();
        if shards < point.shards() as u64 {
            return;
        }
        for HotPointer { hash, entry, times } in pointers {
            point.restore_frequency(*hash, *times);
            point.restore_pointer(*hash, *entry);
            self.stats.warm_pointers.add(1);
        }
    }

    /// Has the blocks and values of a list brought back in the background.
    pub(crate) fn refill(self: &Arc<Self>, mut list: HotList) {
        self.jobs.set_hot_list_names(list.blocks.len() + list.keys.len());
        // They are taken from the back.
        list.blocks.reverse();
        list.keys.reverse();
        let pacer = self.compaction_pacer();
        let loan = BorrowedBudgetGuard(Arc::clone(self.memory.borrowed()));
        self.refill_after(Duration::ZERO, Refill { list, pacer, jobs: 0, loan });
    }

    fn refill_after(self: &Arc<Self>, wait: Duration, mut refill: Refill) {
        if refill.jobs.is_multiple_of(JOBS_PER_LOOK) {
            self.memory.follow_hot_list(&self.trees, refill.list.memory_bytes());
        }
        refill.jobs += 1;
        // Whoever waits for a turn does not keep a store open.
        let engine = Arc::downgrade(self);
        let job = move || {
            let Some(engine) = engine.upgrade() else { return };
            if engine.jobs.is_closed() {
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
            self.jobs.set_hot_list_names(0);
        }
        self.memory.follow_hot_list(&self.trees, 0);
    }

    /// Brings the next blocks back; how many bytes were read, if there were any and room
    /// for them.
    fn refill_blocks(&self, list: &mut HotList) -> Option<u64> {
        let blocks = self.memory.caches().blocks();
        let table = list.blocks.last()?.id.table;
        if blocks.charged_bytes() + ROOM_MIN > blocks.capacity() || !blocks.has_room() {
            return None;
        }
        let of_table = list.blocks.iter().rev().take_while(|block| block.id.table == table);
        let count = of_table.take(BLOCKS_PER_JOB).count();
        let mut next = take_last(&mut list.blocks, count);
        next.reverse();
        next.iter().for_each(|block| blocks.restore_frequency(block.id, block.times));
        let addresses = self.addresses_of(&next);
        let read = self.reads.blocks.try_read_many(&addresses);
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
            .filter(|block| !self.memory.caches().blocks().contains(block.id))
            .map(|block| block.id.offset)
            .collect();
        // Damage is for those to meet who want the block.
        let read = |indexes: &[BlockAddress]| self.reads.blocks.try_read_many(indexes);
        handle.table().addresses_at(&offsets, read).unwrap_or_default()
    }

    /// Brings the next values back; about how many bytes were read, if there were any and
    /// room for them.
    fn refill_values(&self, list: &mut HotList) -> Option<u64> {
        let point = self.memory.caches().point();
        let keyspace = list.keys.last()?.keyspace;
        let is_full = point.charged_bytes().0 + ROOM_MIN > point.capacities().0;
        if is_full || !point.have_room().0 {
            return None;
        }
        let tree = self.trees.get(keyspace);
        let block_bytes = tree.as_ref().map_or(1, |tree| u64::from(tree.options().block_bytes));
        let in_flight = self.memory.total_bytes() / IN_FLIGHT_SHARE;
        let most = (in_flight / block_bytes.max(1)).clamp(1, KEYS_PER_JOB as u64);
        let of_tree = list.keys.iter().rev().take_while(|key| key.keyspace == keyspace);
        let count = of_tree.take(most as usize).count();
        let mut next = take_last(&mut list.keys, count);
        // As they stand in tables: neighbours are read together.
        next.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let Some(tree) = tree else { return Some(0) };
        let before = self.reads.blocks.read_bytes();
        if self.read_hot(&tree, &next).is_ok() {
            self.stats.warm_values.add(next.len() as u64);
        }
        // Others have read meanwhile; this here no more than a block a key.
        let most = next.len() as u64 * u64::from(tree.options().block_bytes);
        Some((self.reads.blocks.read_bytes() - before).min(most))
    }

    /// Reads keys, so that the point cache keeps what they are.
    fn read_hot(&self, tree: &Tree, keys: &[HotKey]) -> Result<()> {
        let point = self.memory.caches().point();
        let visible = || self.snapshots.visible();
        let begun = begin_read(&self.reads.caches, tree, None, visible, |prepared| {
            keys.iter().map(|hot| prepared.prepare(&hot.key)).collect::<Vec<_>>()
        });
        let reads = keys.iter().zip(&begun.keys).map(|(hot, &key)| {
            point.restore_frequency(key.hash, hot.times);
            PointRead::new(begun.lookup(key), key.epoch).remembered()
        });
        point_read::read_many(reads, &self.reads)?;
        Ok(())
    }
}

/// A list is of use, but nobody needs it.
fn note_failure(outcome: Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "the list of what was hot is not put in order");
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
