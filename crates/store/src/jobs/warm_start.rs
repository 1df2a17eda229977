//! The hot contents of the caches at a clean shutdown are restored when the store is opened.
//!
//! ```text
//!   close ──▶ HOT ──▶ open: pointers, ─────▶ replay of the logs ──▶ in the background:
//!             (hot_list.rs) values of the                            blocks, then the
//!                           hottest keys                             other values
//! ```
//!
//! Guarantees:
//! 1. The pointers and values of a list are restored before the logs are replayed, and only if it
//!    is the same store with the tables that it was closed with; so everything newer goes through a
//!    flush, which updates them as usual. If it is not, the values are removed from the file: they
//!    are of no use any more, and a user who deletes keys expects them to be gone. (A list that is
//!    not read, because there is no cache or too little memory, stays unchanged.)
//! 2. All else is read like any other data: a list is trusted only about which entries were hot.
//!    Entries that are wrong or do not exist any more are skipped.
//! 3. A list takes at most a hundredth of the bytes of the tables (`listing.rs`) and an eighth of
//!    all memory; its memory is budgeted like that of open tables. A list of more than twice that
//!    share of memory is left unread, for a run with more memory. A list that has not been fully
//!    restored when the store is closed, for lack of time or room, stays unchanged, unless there
//!    were more gets in this run than it has names.
//! 4. Blocks use the memory that KV does not fill yet; however the refill ends, KV gets it back
//!    then.
//!
//! Jobs of low priority read the named entries in pieces, at the rate limit of compactions: first
//! blocks, which lookups of keys need, then keys, the hottest first; each piece in a few batches of
//! reads, in file order. They hold no lock while they read. Only the thread that closes the store
//! waits for them, and for at most one piece.

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
/// A list that takes this many times the memory allowed now is from a run with more memory: it is
/// not read.
const LIST_EXCESS_MAX: u64 = 2;

/// Blocks and keys that one job restores: enough to keep the drive busy and to read neighbours
/// together.
const BLOCKS_PER_JOB: usize = 256;
const KEYS_PER_JOB: usize = 1024;
/// But only as many keys as have their blocks in this part of all memory, which is half of the
/// share of reads in flight.
const IN_FLIGHT_SHARE: u64 = 32;

/// A part of the cache with less room than this in all its shards together is full. One with more
/// may be full too: each full shard has some bytes left.
const ROOM_MIN: usize = 64 << 10;

/// The memory of the rest of a list is measured once per this many jobs, because that walks all of
/// it.
const JOBS_PER_LOOK: u32 = 256;

/// The rest of a list.
#[derive(Debug)]
struct Refill {
    list: HotList,
    pacer: Pacer,
    jobs: u32,
    loan: BorrowedBudgetGuard,
}

/// Returns the borrowed budget, also if a job is dropped before the refill ends.
#[derive(Debug)]
struct BorrowedBudgetGuard(Arc<BorrowedBudget>);

impl Drop for BorrowedBudgetGuard {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Engine {
    // ---- Closing ----

    /// Saves the contents of the caches, unless the list of the previous run is better. Call it
    /// after background work has ended; it leaves the caches empty.
    pub(crate) fn write_hot_list(&self) -> Result<()> {
        let is_wanted = self.options.warm_start && !self.options.read_only;
        let names = self.jobs.hot_list_names() as u64;
        if !is_wanted || self.memory.caches().budget() == 0 || self.stats.gets.get() < names {
            return Ok(());
        }
        // A dropped job may not have returned its loan yet.
        self.memory.borrowed().give_back();
        let list = self.hot_list(self.list_bytes_max());
        self.memory.caches().set_budget(0);
        self.put_hot_list(&list)
    }

    /// Replaces the list file.
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

    /// The list of the previous run, after its pointers and values were restored. Call it when the
    /// tables are open, before the logs are replayed.
    pub(crate) fn take_hot_list(&self) -> Option<HotList> {
        if !self.options.warm_start {
            // Keys that are deleted from now on would stay in the file forever.
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
                // It stays for a run with more memory, unless this run has more gets than it can
                // have names.
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
        // Entries that were not restored are read by name.
        let values = list.keys.iter_mut().filter_map(|key| key.value.take()).count();
        if values > 0 && !is_of_these {
            note_failure(self.put_hot_list(&list));
        }
        Some(list)
    }

    /// Restores the values that KV has room for, and removes their keys from the list.
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

    /// Restores pointers, whose hashes are those of a cache of `shards` shards.
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

    /// Restores the blocks and values of a list in the background.
    pub(crate) fn refill(self: &Arc<Self>, mut list: HotList) {
        self.jobs.set_hot_list_names(list.blocks.len() + list.keys.len());
        // They are taken from the end.
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
        // A waiting job does not keep a store open.
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

    /// The list is empty, or there is no room for more of it; then it stays for a run with more
    /// memory.
    fn end_refill(&self, list: &HotList) {
        if list.blocks.is_empty() && list.keys.is_empty() {
            self.jobs.set_hot_list_names(0);
        }
        self.memory.follow_hot_list(&self.trees, 0);
    }

    /// Restores the next blocks; returns how many bytes were read, or `None` if there are no more
    /// blocks or no room for them.
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

    /// The addresses of the blocks, all of one table, that are not in memory.
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
        // Damage is reported to the reader that needs the block.
        let read = |indexes: &[BlockAddress]| self.reads.blocks.try_read_many(indexes);
        handle.table().addresses_at(&offsets, read).unwrap_or_default()
    }

    /// Restores the next values; returns about how many bytes were read, or `None` if there are no
    /// more keys or no room for them.
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
        // In the order of the tables: neighbours are read together.
        next.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let Some(tree) = tree else { return Some(0) };
        let before = self.reads.blocks.read_bytes();
        if self.read_hot(&tree, &next).is_ok() {
            self.stats.warm_values.add(next.len() as u64);
        }
        // Other threads have read meanwhile; this job has read at most one block per key.
        let most = next.len() as u64 * u64::from(tree.options().block_bytes);
        Some((self.reads.blocks.read_bytes() - before).min(most))
    }

    /// Reads keys, so that the point cache keeps their values.
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

/// Logs a failure: a list is useful, but optional.
fn note_failure(outcome: Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "the list of hot entries cannot be updated");
    }
}

/// Takes the last `count`, in their order; frees memory when less than half of it is used.
fn take_last<T>(all: &mut Vec<T>, count: usize) -> Vec<T> {
    let last = all.split_off(all.len() - count);
    if all.len() < all.capacity() / 2 {
        all.shrink_to_fit();
    }
    last
}
