//! The block cache: sharded lists of blocks, bounded in bytes, in the order that was
//! chosen ([`Eviction`]; LRU at first). In that of LRU it can be asked to let only those
//! in that are asked for often enough (TinyLFU), or to note what leaves as AC-Key does.
//!
//! Guarantees:
//! 1. The bytes charged are at most the capacity at every moment, shard by
//!    shard; what is charged is what is allocated: the value, as its owner
//!    says, and the list's own memory for it. Sketches and ghosts come on top
//!    ([`BlockCache::measuring_bytes`]).
//! 2. A block that was put in is returned as it was, or not at all.
//! 3. A hit takes one hash and one short lock, and allocates nothing.
//! 4. No value is dropped under a lock.
//!
//! Safe to use from all threads. A thread holds one shard's lock at a time,
//! inside that of the capacity when it changes it.
//! `clone` of a value, and what looks at one in its place, run under that lock: they
//! are to be cheap, as an `Arc`'s.

pub(crate) mod filter_worth;
pub(crate) mod stats;
pub(crate) mod id;
pub(crate) mod admission;
pub(crate) mod shard;

use std::fmt;

use crate::block::admission::{Admission, DepartedBlocks};
use crate::block::filter_worth::{FilterWorth, mixed};
use crate::block::id::{BlockId, BlockTag};
use crate::block::shard::{Arrival, Shard};
use crate::block::stats::BlockCacheStats;
use crate::eviction::lists::Key;
use crate::eviction::order::{Eviction, Ordered};
use crate::ideas::{Idea, Ideas};
use crate::partition::ghost::{Wanted, spread};
use crate::sync::Mutex;

/// A shard of fewer bytes would push out useful blocks for want of neighbours
/// to balance with: 512 KiB are about a hundred blocks.
pub(crate) const SHARD_BYTES_MIN: usize = 512 << 10;

/// Of so many looks at filters one is noted even if its lookup reads nothing.
const LESSONS: u32 = 64;

/// How many nodes a walk over all blocks looks at under one lock.
const SWEEP_NODES: usize = 1024;

/// What a look for a filter comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look<R> {
    /// It is here, and said this.
    Seen(R),
    /// It is not here, and to be read.
    Read,
    /// It is not here, and to be passed by.
    Skip,
}

/// A shard on cache lines of its own: two shards' locks on one line would
/// slow each other down (two lines, because the processor fetches pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Apart<V>(Mutex<Shard<V>>);

/// A sharded cache of blocks, bounded in bytes.
pub struct BlockCache<V> {
    /// A power of two of them.
    shards: Box<[Apart<V>]>,
    /// Locked before the shards while it changes, so that two changes at once
    /// leave all shards with the same one.
    capacity: Mutex<usize>,
}

impl<V: Clone> BlockCache<V> {
    /// What a block is charged beside its own bytes.
    pub const BLOCK_OVERHEAD_BYTES: usize = Shard::<V>::BLOCK_OVERHEAD_BYTES;

    /// A cache of `capacity_bytes` in `shards` shards, rounded up to a power
    /// of two; fewer when they would be smaller than 512 KiB. Their number
    /// stays when the capacity changes.
    pub fn new(capacity_bytes: usize, shards: usize) -> Self {
        let most = (capacity_bytes / SHARD_BYTES_MIN).max(1);
        let mut count = shards.clamp(1, 1 << 16).next_power_of_two();
        while count > most {
            count /= 2;
        }
        let shard = || Shard::new(Eviction::Lru, capacity_bytes / count);
        Self {
            shards: (0..count).map(|_| Apart(Mutex::new(shard()))).collect(),
            capacity: Mutex::new(capacity_bytes),
        }
    }

    /// From now on blocks come in only if they are asked for often enough, by sketches of
    /// at most `sketch_bytes` together; those that are not here are noted in ghosts with
    /// windows of `window_bytes` together, every `sampling`-th. What was counted before
    /// is forgotten.
    pub fn admit_by_use(&self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        let (sketch_bytes, window_bytes) =
            (sketch_bytes / self.shards.len(), window_bytes / self.shards.len());
        self.set_admission(|without| {
            Admission::by_use(sketch_bytes, window_bytes, sampling, without)
        });
    }

    /// From now on every block comes in, and nothing is noted of others.
    pub fn admit_all(&self) {
        self.set_admission(|_| Admission::All);
    }

    /// From now on every block comes in, and `make` (called once for each shard) is told of
    /// misses and of blocks that are evicted or refused.
    pub(crate) fn note_departed(&self, make: impl Fn() -> Box<dyn DepartedBlocks>) {
        self.set_admission(|_| Admission::Noted(make()));
    }

    /// From now on it does without these. To be followed by what says how blocks come in.
    pub fn set_without(&self, without: Ideas) {
        self.shards.iter().for_each(|Apart(shard)| shard.lock().without = without);
    }

    fn set_admission(&self, make: impl Fn(Ideas) -> Admission) {
        for Apart(shard) in &self.shards {
            let without = shard.lock().without;
            let new = make(without);
            let before = std::mem::replace(&mut shard.lock().admission, new);
            drop(before);
        }
    }

    /// What new blocks wanted and did not find free since this was asked last, in bytes.
    pub fn take_wanted_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().admission.take_wanted_bytes()).sum()
    }

    /// From now on blocks leave in another order; those that are here go, if it is one.
    pub fn set_eviction(&self, eviction: Eviction) {
        for Apart(shard) in &self.shards {
            let mut shard = shard.lock();
            if shard.blocks.eviction() != eviction {
                let blocks = Ordered::new(eviction, shard.blocks.capacity());
                let gone = std::mem::replace(&mut shard.blocks, blocks);
                drop(shard);
                drop(gone);
            }
        }
    }

    /// The bytes of sketches and ghosts, which do not count as charged.
    pub fn measuring_bytes(&self) -> usize {
        self.sum(|shard| shard.admission.bytes())
    }

    /// How many reads there would not have been with a larger cache.
    pub fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        self.shards.iter().for_each(|shard| wanted += shard.0.lock().wanted);
        wanted
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The shard of a hash. The hash table places by the lowest bits and
    /// compares by the highest: these are others.
    fn shard(&self, hash: u64) -> &Mutex<Shard<V>> {
        let index = (hash >> 40) as usize & (self.shards.len() - 1);
        &self.shards[index].0
    }

    /// The block, if it is here; it becomes the most recently used, or stays one of the most
    /// recently used where blocks come in by use. Counts a
    /// hit or a miss for the kind in `tag`.
    pub fn get(&self, id: BlockId, tag: BlockTag) -> Option<V> {
        self.get_with(id, tag, V::clone)
    }

    /// As [`BlockCache::get`], with what `look` makes of the block in its place. For a
    /// look that is as short as a clone: it runs under the lock.
    pub fn get_with<R>(&self, id: BlockId, tag: BlockTag, look: impl FnOnce(&V) -> R) -> Option<R> {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        let found = shard.look_at(hash, id, true, look);
        match found {
            Some(_) => shard.stats.kind_mut(tag.kind).hits += 1,
            None => shard.note_miss(hash, tag.kind),
        }
        found
    }

    /// As [`BlockCache::get_with`], for a filter of `bytes` that a lookup can do without.
    /// Where blocks come in by use, a filter that is not here is read if that saves the
    /// lookup a read, or if it would be kept, with looks that count by what they save.
    /// Beside it: whether to note the lookup even if it reads nothing ([`FilterWorth::note`]).
    pub fn look_for<R>(
        &self,
        id: BlockId,
        tag: BlockTag,
        (worth, bytes): (&FilterWorth, usize),
        look: impl FnOnce(&V) -> R,
    ) -> (Look<R>, bool) {
        let hash = id.hash();
        let pays = worth.pays_at_once();
        let mut shard = self.shard(hash).lock();
        let stats = shard.stats.kind(tag.kind);
        let lot = stats.hits + stats.misses + stats.skips;
        let is_lesson = mixed(lot).is_multiple_of(LESSONS);
        let is_optional =
            shard.admission.sketch().is_some() && !shard.without.has(Idea::FilterWorth) && !pays;
        let counts = !is_optional || worth.counts(lot);
        if let Some(seen) = shard.look_at(hash, id, counts, look) {
            shard.stats.kind_mut(tag.kind).hits += 1;
            return (Look::Seen(seen), is_lesson);
        }
        if !is_optional {
            shard.note_miss(hash, tag.kind);
            return (Look::Read, is_lesson);
        }
        let look = match shard.wants(id, hash, bytes, counts) {
            true => Look::Read,
            false => Look::Skip,
        };
        let counters = shard.stats.kind_mut(tag.kind);
        match look {
            Look::Read => counters.misses += 1,
            _ => counters.skips += 1,
        }
        (look, is_lesson)
    }

    /// The block, if somebody has put it in since it was missed, which counts as another hit;
    /// else it is about to be read, alone ([`BlockCache::note_read`]).
    pub fn get_or_note_read(&self, id: BlockId, tag: BlockTag) -> Option<V> {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        let found = shard.look_at(hash, id, true, V::clone);
        match &found {
            Some(_) => shard.stats.kind_mut(tag.kind).hits += 1,
            None => shard.note_read(hash),
        }
        found
    }

    /// Blocks that are not here are about to be read from storage, in one read. With all
    /// of them here it would not be: the ghosts know them all, or more bytes would not
    /// have saved it. It is as near as the farthest of them.
    pub fn note_read(&self, ids: impl Iterator<Item = BlockId>) {
        let mut saved = None;
        for id in ids {
            let hash = id.hash();
            let shard = self.shard(hash);
            let Some(hit) = shard.lock().admission.take_ghost_hit(hash as u32) else { return };
            // Whichever shard is last has it.
            let others = saved.map_or(hit, |(_, others)| others);
            saved = Some((shard, hit.min(others)));
        }
        if let Some((shard, wanted)) = saved {
            shard.lock().wanted += wanted;
        }
    }

    /// Has `see` look at every block, with how often it was asked for lately; shard by
    /// shard, with short locks.
    pub fn look_at_all(&self, mut see: impl FnMut(BlockId, u8)) {
        for Apart(shard) in &self.shards {
            let mut first = 0;
            loop {
                let locked = shard.lock();
                if first >= locked.blocks.nodes() {
                    break;
                }
                locked.blocks.look_at(first, SWEEP_NODES, |id, block| {
                    see(*id, locked.heat_of(block));
                });
                first += SWEEP_NODES;
            }
        }
    }

    /// A block that is about to come was asked for so many times.
    pub fn remember(&self, id: BlockId, times: u8) {
        let hash = id.hash();
        if let Some(sketch) = self.shard(hash).lock().admission.sketch() {
            sketch.raise(spread(hash as u32), times);
        }
    }

    /// How often the block was asked for lately, as far as is known.
    #[cfg(test)]
    pub(crate) fn times(&self, id: BlockId) -> u16 {
        let hash = id.hash();
        self.shard(hash).lock().times(hash)
    }

    /// How often a block that is here was asked for lately, as far as is known, its being
    /// put in included; 0: it is not here. Moves nothing.
    pub fn heat(&self, id: BlockId) -> u8 {
        let hash = id.hash();
        let shard = self.shard(hash).lock();
        shard.blocks.peek(hash, &id).map_or(0, |block| shard.heat_of(block))
    }

    /// As [`BlockCache::insert`], for a block whose content was asked for so many times
    /// under other names.
    pub fn insert_heir(&self, id: BlockId, tag: BlockTag, value: V, charge: usize, times: u8) {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        if let Some(sketch) = shard.admission.sketch() {
            sketch.raise(spread(hash as u32), times);
        }
        let inserts = shard.stats.kind(tag.kind).inserts;
        let dropped = shard.insert(hash, id, tag, value, charge, Arrival::Alone);
        let counters = shard.stats.kind_mut(tag.kind);
        counters.heirs += counters.inserts - inserts;
        drop(shard);
        drop(dropped);
    }

    /// Whether the block is here; counts nothing and moves nothing.
    pub fn contains(&self, id: BlockId) -> bool {
        let hash = id.hash();
        self.shard(hash).lock().blocks.contains(hash, &id)
    }

    /// Puts a block in whose value takes `charge` bytes, in place of an older
    /// one of that name. A block larger than a shard is not kept.
    pub fn insert(&self, id: BlockId, tag: BlockTag, value: V, charge: usize) {
        self.insert_read(id, tag, value, charge, Arrival::Alone);
    }

    /// As [`BlockCache::insert`], of a block that came with such a read.
    pub fn insert_read(
        &self,
        id: BlockId,
        tag: BlockTag,
        value: V,
        charge: usize,
        arrival: Arrival,
    ) {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        let dropped = shard.insert(hash, id, tag, value, charge, arrival);
        drop(shard);
        drop(dropped);
    }

    /// Takes out all blocks of tables that are `dead`: shard by shard, with
    /// short locks, so that readers go on. Blocks that are put in meanwhile
    /// may stay.
    pub fn evict_tables(&self, dead: &dyn Fn(u64) -> bool) {
        for Apart(shard) in &self.shards {
            let mut first = 0;
            loop {
                let mut locked = shard.lock();
                if first >= locked.blocks.nodes() {
                    break;
                }
                let removed = locked.blocks.take_where(first, SWEEP_NODES, |id, _| dead(id.table));
                drop(locked);
                drop(removed);
                first += SWEEP_NODES;
            }
        }
    }

    /// Changes the capacity, and pushes out blocks until all fit.
    pub fn set_capacity(&self, bytes: usize) {
        let mut evicted = Vec::with_capacity(self.shards.len());
        let mut capacity = self.capacity.lock();
        for Apart(shard) in &self.shards {
            evicted.push(shard.lock().set_capacity(bytes / self.shards.len()));
        }
        *capacity = bytes;
        drop(capacity);
        drop(evicted);
    }

    /// Whether most shards have room for another block. (The bytes that are free in all of
    /// them say little: every full one has some.)
    pub fn has_room(&self) -> bool {
        2 * self.sum(|shard| usize::from(shard.has_room_for_one())) > self.shards.len()
    }

    /// The bound on [`BlockCache::charged_bytes`].
    pub fn capacity(&self) -> usize {
        *self.capacity.lock()
    }

    /// The bytes charged now.
    pub fn charged_bytes(&self) -> usize {
        self.sum(|shard| shard.blocks.charged())
    }

    /// How many blocks are here.
    pub fn len(&self) -> usize {
        self.sum(|shard| shard.blocks.len())
    }

    /// Whether no block is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters, summed over the shards.
    pub fn stats(&self) -> BlockCacheStats {
        let mut stats = BlockCacheStats::default();
        self.shards.iter().for_each(|shard| stats += shard.0.lock().stats);
        stats
    }

    fn sum(&self, number: impl Fn(&Shard<V>) -> usize) -> usize {
        self.shards.iter().map(|shard| number(&shard.0.lock())).sum()
    }
}

impl<V> fmt::Debug for BlockCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("shards", &self.shards.len())
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
