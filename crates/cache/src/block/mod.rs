//! The block cache: sharded lists of blocks, bounded in bytes, in a configurable eviction order
//! ([`Eviction`]; LRU at first). With LRU it can admit only frequently accessed blocks (TinyLFU),
//! or record evicted blocks as in AC-Key.
//!
//! Guarantees:
//! 1. The charged bytes are at most the capacity at every moment, shard by shard; they equal the
//!    allocation: the value, as its owner states, and the list's own memory for it. Sketches and
//!    ghosts come on top ([`BlockCache::measuring_bytes`]).
//! 2. A lookup returns an inserted block unchanged, or none.
//! 3. A hit takes one hash and one short lock, and allocates nothing.
//! 4. No value is dropped under a lock.
//!
//! Thread-safe. A thread holds one shard's lock at a time, inside that of the capacity when it
//! changes it. `clone` of a value, and the closures that read one in place, run under that lock:
//! they must be cheap, like an `Arc`'s.

pub(crate) mod filter_worth;
pub(crate) mod stats;
pub(crate) mod id;
pub(crate) mod admission;
pub(crate) mod shard;

use std::fmt;

use crate::ablation::{Ablation, Ablations};
use crate::block::admission::{Admission, BlockGhost};
use crate::block::filter_worth::{FilterWorth, mixed};
use crate::block::id::{BlockId, BlockTag};
use crate::block::shard::{InsertReason, Shard};
use crate::block::stats::BlockCacheStats;
use crate::eviction::lists::Key;
use crate::eviction::order::{Eviction, Ordered};
use crate::partition::ghost::{GhostHits, spread};
use crate::sync::Mutex;

/// A smaller shard would evict useful blocks because it has too few to balance: 512 KiB are about a
/// hundred blocks.
pub(crate) const SHARD_BYTES_MIN: usize = 512 << 10;

/// One in this number of filter lookups is recorded even if it reads nothing.
const SAMPLING: u32 = 64;

/// Nodes per lock in a scan of all blocks.
const SWEEP_NODES: usize = 1024;

/// The result of looking up a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterLookup<R> {
    /// It is cached, with this result.
    Hit(R),
    /// It is not cached; read it.
    Read,
    /// It is not cached; skip it.
    Skip,
}

/// A shard on its own cache lines: two shards' locks on one line would slow each other down (two
/// lines, because the processor fetches pairs).
#[derive(Debug)]
#[repr(align(128))]
struct CachePadded<V>(Mutex<Shard<V>>);

/// A sharded cache of blocks, bounded in bytes.
pub struct BlockCache<V> {
    /// A power of two.
    shards: Box<[CachePadded<V>]>,
    /// Locked before the shards while it changes, so that concurrent changes leave the same
    /// capacity in all shards.
    capacity: Mutex<usize>,
}

impl<V: Clone> BlockCache<V> {
    /// The charge of a block besides its own bytes.
    pub const BLOCK_OVERHEAD_BYTES: usize = Shard::<V>::BLOCK_OVERHEAD_BYTES;

    /// A cache of `capacity_bytes` in `shards` shards, rounded up to a power of two; fewer if they
    /// would be smaller than 512 KiB. The number stays when the capacity changes.
    pub fn new(capacity_bytes: usize, shards: usize) -> Self {
        let most = (capacity_bytes / SHARD_BYTES_MIN).max(1);
        let mut count = shards.clamp(1, 1 << 16).next_power_of_two();
        while count > most {
            count /= 2;
        }
        let shard = || Shard::new(Eviction::Lru, capacity_bytes / count);
        Self {
            shards: (0..count).map(|_| CachePadded(Mutex::new(shard()))).collect(),
            capacity: Mutex::new(capacity_bytes),
        }
    }

    /// Admits only frequently accessed blocks from now on, by sketches of at most `sketch_bytes`
    /// together; blocks that are not cached are recorded in ghosts with windows of `window_bytes`
    /// together, every `sampling`-th. Earlier counts are dropped.
    pub fn admit_by_use(&self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        let (sketch_bytes, window_bytes) =
            (sketch_bytes / self.shards.len(), window_bytes / self.shards.len());
        self.set_admission(|ablations| {
            Admission::by_use(sketch_bytes, window_bytes, sampling, ablations)
        });
    }

    /// Admits every block from now on, and records no others.
    pub fn admit_all(&self) {
        self.set_admission(|_| Admission::All);
    }

    /// Admits every block from now on, and notifies the ghosts from `make` (called once per shard)
    /// of misses and of evicted or rejected blocks.
    pub(crate) fn record_evictions(&self, make: impl Fn() -> Box<dyn BlockGhost>) {
        self.set_admission(|_| Admission::Baseline(make()));
    }

    /// Switches mechanisms off. Set the admission afterwards.
    pub fn set_ablations(&self, ablations: Ablations) {
        self.shards.iter().for_each(|CachePadded(shard)| shard.lock().ablations = ablations);
    }

    fn set_admission(&self, make: impl Fn(Ablations) -> Admission) {
        for CachePadded(shard) in &self.shards {
            let ablations = shard.lock().ablations;
            let new = make(ablations);
            let before = std::mem::replace(&mut shard.lock().admission, new);
            drop(before);
        }
    }

    /// The bytes that new blocks needed and did not find free since the last call.
    pub fn take_wanted_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().admission.take_wanted_bytes()).sum()
    }

    /// Changes the eviction order; drops all blocks if it differs.
    pub fn set_eviction(&self, eviction: Eviction) {
        for CachePadded(shard) in &self.shards {
            let mut shard = shard.lock();
            if shard.blocks.eviction() != eviction {
                let blocks = Ordered::new(eviction, shard.blocks.capacity());
                let gone = std::mem::replace(&mut shard.blocks, blocks);
                drop(shard);
                drop(gone);
            }
        }
    }

    /// Bytes of sketches and ghosts, which are not part of the charged bytes.
    pub fn measuring_bytes(&self) -> usize {
        self.sum(|shard| shard.admission.bytes())
    }

    /// Reads that a larger cache would have saved.
    pub fn wanted(&self) -> GhostHits {
        let mut wanted = GhostHits::default();
        self.shards.iter().for_each(|shard| wanted += shard.0.lock().wanted);
        wanted
    }

    /// The number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The shard of a hash. The hash table uses the lowest bits for the slot and the highest for
    /// comparison: these are others.
    fn shard(&self, hash: u64) -> &Mutex<Shard<V>> {
        let index = (hash >> 40) as usize & (self.shards.len() - 1);
        &self.shards[index].0
    }

    /// The block, if it is cached; it becomes the most recently used, or with admission by
    /// frequency stays one of the most recently used. Counts a hit or a miss for the kind in `tag`.
    pub fn get(&self, id: BlockId, tag: BlockTag) -> Option<V> {
        self.get_with(id, tag, V::clone)
    }

    /// Like [`BlockCache::get`], but returns the result of `look` on the block. `look` runs under
    /// the lock and must be as short as a clone.
    pub fn get_with<R>(&self, id: BlockId, tag: BlockTag, look: impl FnOnce(&V) -> R) -> Option<R> {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        let found = shard.get_with(hash, id, true, look);
        match found {
            Some(_) => shard.stats.kind_mut(tag.kind).hits += 1,
            None => shard.note_miss(hash, tag.kind),
        }
        found
    }

    /// Like [`BlockCache::get_with`], for a filter of `bytes` that a lookup can do without. With
    /// admission by frequency, a filter that is not cached is read if that saves the lookup a read,
    /// or if it would be admitted, with accesses weighted by their savings. The flag returned with
    /// it: whether to record the lookup even if it reads nothing ([`FilterWorth::note`]).
    pub fn look_for<R>(
        &self,
        id: BlockId,
        tag: BlockTag,
        (worth, bytes): (&FilterWorth, usize),
        look: impl FnOnce(&V) -> R,
    ) -> (FilterLookup<R>, bool) {
        let hash = id.hash();
        let pays = worth.pays_at_once();
        let mut shard = self.shard(hash).lock();
        let stats = shard.stats.kind(tag.kind);
        let sample_id = stats.hits + stats.misses + stats.skips;
        let is_sample = mixed(sample_id).is_multiple_of(SAMPLING);
        let is_optional = shard.admission.sketch().is_some()
            && !shard.ablations.has(Ablation::FilterWorth)
            && !pays;
        let counts = !is_optional || worth.counts(sample_id);
        if let Some(seen) = shard.get_with(hash, id, counts, look) {
            shard.stats.kind_mut(tag.kind).hits += 1;
            return (FilterLookup::Hit(seen), is_sample);
        }
        if !is_optional {
            shard.note_miss(hash, tag.kind);
            return (FilterLookup::Read, is_sample);
        }
        let look = match shard.wants(id, hash, bytes, counts) {
            true => FilterLookup::Read,
            false => FilterLookup::Skip,
        };
        let counters = shard.stats.kind_mut(tag.kind);
        match look {
            FilterLookup::Read => counters.misses += 1,
            _ => counters.skips += 1,
        }
        (look, is_sample)
    }

    /// The block, if it was inserted since the miss, which counts as another hit; else records that
    /// it is about to be read alone ([`BlockCache::note_read`]).
    pub fn get_or_note_read(&self, id: BlockId, tag: BlockTag) -> Option<V> {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        let found = shard.get_with(hash, id, true, V::clone);
        match &found {
            Some(_) => shard.stats.kind_mut(tag.kind).hits += 1,
            None => shard.note_read(hash),
        }
        found
    }

    /// Records that blocks that are not cached are about to be read from storage in one read. Only
    /// with all of them cached the read would be saved: it counts if the ghosts have all of them,
    /// and is as near as the farthest one.
    pub fn note_read(&self, ids: impl Iterator<Item = BlockId>) {
        let mut saved = None;
        for id in ids {
            let hash = id.hash();
            let shard = self.shard(hash);
            let Some(hit) = shard.lock().admission.take_ghost_hit(hash as u32) else { return };
            // The last shard records it.
            let others = saved.map_or(hit, |(_, others)| others);
            saved = Some((shard, hit.min(others)));
        }
        if let Some((shard, wanted)) = saved {
            shard.lock().wanted += wanted;
        }
    }

    /// Calls `see` for every block with its recent access count, shard by shard with short locks.
    pub fn for_each_block(&self, mut see: impl FnMut(BlockId, u8)) {
        for CachePadded(shard) in &self.shards {
            let mut first = 0;
            loop {
                let locked = shard.lock();
                if first >= locked.blocks.nodes() {
                    break;
                }
                locked.blocks.scan(first, SWEEP_NODES, |id, block| {
                    see(*id, locked.heat_of(block));
                });
                first += SWEEP_NODES;
            }
        }
    }

    /// Raises the access count of a block that is about to be inserted to `times`.
    pub fn restore_frequency(&self, id: BlockId, times: u8) {
        let hash = id.hash();
        if let Some(sketch) = self.shard(hash).lock().admission.sketch() {
            sketch.raise(spread(hash as u32), times);
        }
    }

    /// The recent access count of the block, if known.
    #[cfg(test)]
    pub(crate) fn times(&self, id: BlockId) -> u16 {
        let hash = id.hash();
        self.shard(hash).lock().times(hash)
    }

    /// The recent access count of a cached block, its insert included; 0: it is not cached. Moves
    /// nothing.
    pub fn heat(&self, id: BlockId) -> u8 {
        let hash = id.hash();
        let shard = self.shard(hash).lock();
        shard.blocks.peek(hash, &id).map_or(0, |block| shard.heat_of(block))
    }

    /// Like [`BlockCache::insert`], for a block that a compaction has written and whose content was
    /// accessed `times` times under other identifiers.
    pub fn insert_prefilled(&self, id: BlockId, tag: BlockTag, value: V, charge: usize, times: u8) {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        if let Some(sketch) = shard.admission.sketch() {
            sketch.raise(spread(hash as u32), times);
        }
        let inserts = shard.stats.kind(tag.kind).inserts;
        let dropped = shard.insert(hash, id, tag, value, charge, InsertReason::Alone);
        let counters = shard.stats.kind_mut(tag.kind);
        counters.compaction_prefills += counters.inserts - inserts;
        drop(shard);
        drop(dropped);
    }

    /// Whether the block is cached; counts and moves nothing.
    pub fn contains(&self, id: BlockId) -> bool {
        let hash = id.hash();
        self.shard(hash).lock().blocks.contains(hash, &id)
    }

    /// Inserts a block whose value takes `charge` bytes, replacing an older one with that
    /// identifier. A block larger than a shard is not cached.
    pub fn insert(&self, id: BlockId, tag: BlockTag, value: V, charge: usize) {
        self.insert_read(id, tag, value, charge, InsertReason::Alone);
    }

    /// Like [`BlockCache::insert`], with the reason of the insert.
    pub fn insert_read(
        &self,
        id: BlockId,
        tag: BlockTag,
        value: V,
        charge: usize,
        reason: InsertReason,
    ) {
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        let dropped = shard.insert(hash, id, tag, value, charge, reason);
        drop(shard);
        drop(dropped);
    }

    /// Removes all blocks of tables that are `dead`: shard by shard, with short locks, so that
    /// readers continue. Blocks inserted meanwhile may stay.
    pub fn evict_tables(&self, dead: &dyn Fn(u64) -> bool) {
        for CachePadded(shard) in &self.shards {
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

    /// Changes the capacity in bytes, and evicts blocks until all fit.
    pub fn set_capacity(&self, bytes: usize) {
        let mut evicted = Vec::with_capacity(self.shards.len());
        let mut capacity = self.capacity.lock();
        for CachePadded(shard) in &self.shards {
            evicted.push(shard.lock().set_capacity(bytes / self.shards.len()));
        }
        *capacity = bytes;
        drop(capacity);
        drop(evicted);
    }

    /// Whether most shards have room for another block. (The total of free bytes is not conclusive:
    /// every full shard has some.)
    pub fn has_room(&self) -> bool {
        2 * self.sum(|shard| usize::from(shard.has_room_for_one())) > self.shards.len()
    }

    /// The upper bound of [`BlockCache::charged_bytes`].
    pub fn capacity(&self) -> usize {
        *self.capacity.lock()
    }

    /// The charged bytes.
    pub fn charged_bytes(&self) -> usize {
        self.sum(|shard| shard.blocks.charged())
    }

    /// The number of cached blocks.
    pub fn len(&self) -> usize {
        self.sum(|shard| shard.blocks.len())
    }

    /// Whether no block is cached.
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
