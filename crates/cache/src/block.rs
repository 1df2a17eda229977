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

use std::fmt;
use std::sync::Arc;

use crate::block_stats::{BlockCacheStats, BlockKind};
use crate::earc::{BLOCK_BYTES_USUAL, Boundaries};
use crate::eviction::{Eviction, Ordered};
use crate::filter_worth::{FilterWorth, mixed};
use crate::ghost::{Ghost, spread};
use crate::ghost_list::{GhostList, Record};
use crate::ideas::{Idea, Ideas};
use crate::lists::{Key, Removed};
use crate::lru::{Inserted, Lru};
use crate::sketch::{COUNT_MAX, Sketch};
use crate::sync::Mutex;

/// A shard of fewer bytes would push out useful blocks for want of neighbours
/// to balance with: 512 KiB are about a hundred blocks.
pub(crate) const SHARD_BYTES_MIN: usize = 512 << 10;

/// How many blocks a new one is held against before it is refused.
const RIVALS_MAX: usize = 4;

/// Sketches of blocks forget so many times as fast as others: a lookup touches one key,
/// and several blocks.
const PERIOD_SHARE: u64 = 3;

/// Up to here counts are exact enough to tell blocks apart; of higher ones three quarters
/// of what is above may be chance.
const TIMES_EXACT: u8 = 2;

/// Of so many looks at filters one is noted even if its lookup reads nothing.
const LESSONS: u32 = 64;

/// What a filter block takes at most beside the bytes that it has in its table.
const FILTER_SLACK_BYTES: usize = 256;

/// An extent is a MiB of a table: long beside a scan.
const EXTENT_SHIFT: u32 = 20;

/// How many nodes [`BlockCache::evict_tables`] looks at under one lock.
const SWEEP_NODES: usize = 1024;

/// Which block: a table and the offset of the block in it. Both opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// The table's number.
    pub table: u64,
    /// Where the block begins in the table.
    pub offset: u64,
}

impl Key for BlockId {
    /// One wide multiplication whose halves are folded, as in wyhash: all bits
    /// of both numbers reach all bits of the hash.
    fn hash(&self) -> u64 {
        let table = u128::from(self.table ^ 0xA076_1D64_78BD_642F);
        let wide = table * u128::from(self.offset ^ 0xE703_7ED1_A0B4_28DB);
        (wide >> 64) as u64 ^ wide as u64
    }
}

/// What policies and statistics know about a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockTag {
    /// The keyspace that the table belongs to.
    pub keyspace: u32,
    /// What the block holds.
    pub kind: BlockKind,
}

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

/// Whether a block that was asked for so often is worse to have than a rival. Of two that
/// were asked for about equally often, it is the one of the extent with the lower hash: a
/// scan that misses one of the blocks it goes through reads as often as one that misses
/// all of them, so it is better to have all of some extents than some of all. (Without
/// extents it is the older one.)
fn is_worse(
    (times, id): (u8, BlockId),
    (rival_times, rival): (u8, BlockId),
    without: Ideas,
) -> bool {
    let apart = times.saturating_sub(TIMES_EXACT) * 3 / 4;
    match (times - apart..=times + apart).contains(&rival_times) {
        true => !without.has(Idea::Extents) && extent_hash(id) < extent_hash(rival),
        false => times < rival_times,
    }
}

fn extent_hash(BlockId { table, offset }: BlockId) -> u64 {
    BlockId { table, offset: offset >> EXTENT_SHIFT }.hash()
}

#[derive(Debug)]
struct Cached<V> {
    tag: BlockTag,
    /// Half of the block's hash.
    fingerprint: u32,
    /// What it is charged, the overhead included.
    charge: u32,
    /// How often it was asked for since the sketch was told: a hit touches nothing else.
    asked: u8,
    value: V,
}

impl<V> Cached<V> {
    /// Tells the sketch how often the block was asked for.
    fn tell(&mut self, sketch: &Sketch) {
        sketch.add_times(spread(self.fingerprint), std::mem::take(&mut self.asked));
    }
}

#[derive(Debug)]
struct Shard<V> {
    blocks: Ordered<BlockId, Cached<V>>,
    stats: BlockCacheStats,
    admission: Admission,
    /// Reads that a larger cache would have saved.
    ghost_hits: u64,
    without: Ideas,
}

/// How a shard chooses among blocks, and what it knows of those that are not there.
#[derive(Debug)]
enum Admission {
    /// Every block comes in; nothing is known of others.
    All,
    /// Those that are asked for often enough come in.
    ByUse { sketch: Sketch, ghost: Ghost },
    /// Every block comes in; what leaves is noted as AC-Key does.
    Noted(Departed),
}

/// What AC-Key knows of blocks that are not there. (All blocks are about of one size and
/// save one I/O: its E-LRU is LRU.)
#[derive(Debug)]
struct Departed {
    ghost: GhostList,
    boundaries: Arc<Boundaries>,
    /// The shard's part of what all components share is this one.
    shards: usize,
    /// Bytes that new blocks wanted and that were not there, since this was asked last.
    wanted_bytes: usize,
}

impl Departed {
    /// A hit of a block saves one I/O.
    const HALVES: u8 = 2;

    fn note(&mut self, fingerprint: u32, charge: usize, charged: usize) {
        let whole = self.boundaries.total() / self.shards;
        let record = Record::new(fingerprint, charge, Self::HALVES);
        self.ghost.note(record, whole.saturating_sub(charged));
    }
}

impl Admission {
    /// How often blocks were asked for, where that is counted.
    fn sketch(&self) -> Option<&Sketch> {
        match self {
            Self::ByUse { sketch, .. } => Some(sketch),
            Self::All | Self::Noted(_) => None,
        }
    }

    /// A block was asked for that is not there.
    fn note_miss(&mut self, fingerprint: u32) {
        match self {
            Self::All => {}
            Self::ByUse { sketch, .. } => _ = sketch.add(spread(fingerprint)),
            Self::Noted(departed) => {
                if let Some(record) = departed.ghost.take(fingerprint) {
                    departed.boundaries.block_hit(record.efficiency());
                }
            }
        }
    }

    /// A block has left, or was refused; `charged`: what those that are there take.
    fn note_absent(&mut self, fingerprint: u32, charge: usize, charged: usize) {
        match self {
            Self::All => {}
            Self::ByUse { sketch, ghost } => ghost.note(fingerprint, sketch),
            Self::Noted(departed) => departed.note(fingerprint, charge, charged),
        }
    }

    /// A new block wanted so many bytes that were not free.
    fn note_wanted(&mut self, bytes: usize) {
        if let Self::Noted(departed) = self {
            departed.wanted_bytes += bytes;
        }
    }

    /// The bytes of sketch and ghost.
    fn bytes(&self) -> usize {
        match self {
            Self::All => 0,
            Self::ByUse { sketch, ghost } => sketch.charged_bytes() + ghost.charged_bytes(),
            Self::Noted(departed) => departed.ghost.charged_bytes(),
        }
    }
}

impl<V> Shard<V> {
    /// Whether the block may come in: there is room, or it is no worse than one that would
    /// have to leave. A block that is better is as good as used: it becomes the newest,
    /// and the next is looked at.
    fn admits(&mut self, id: BlockId, hash: u64, charge: usize) -> bool {
        let without = self.without;
        if without.has(Idea::Admission) {
            return true;
        }
        let Some(sketch) = self.admission.sketch() else { return true };
        let times = sketch.estimate(spread(hash as u32));
        for _ in 0..RIVALS_MAX {
            if self.has_room(charge) {
                return true;
            }
            let Some((&rival, block)) = self.blocks.oldest() else { return true };
            block.tell(sketch);
            let rival_times = sketch.estimate(spread(block.fingerprint));
            if !is_worse((times, id), (rival_times, rival), without) {
                return true;
            }
            self.blocks.get(rival.hash(), &rival);
        }
        false
    }

    fn has_room(&self, charge: usize) -> bool {
        self.blocks.charged() + charge <= self.blocks.capacity()
    }

    /// How often a block that is not here was asked for lately, as far as is known.
    fn times(&self, hash: u64) -> u8 {
        self.admission.sketch().map_or(1, |sketch| sketch.estimate(spread(hash as u32)))
    }

    /// What `look` makes of the block, if it is here. A look that does not count leaves it
    /// as old as it was.
    fn look_at<R>(
        &mut self,
        hash: u64,
        id: BlockId,
        counts: bool,
        look: impl FnOnce(&V) -> R,
    ) -> Option<R> {
        let seen = if counts {
            let block = self.blocks.get(hash, &id)?;
            block.asked = (block.asked + 1).min(COUNT_MAX);
            look(&block.value)
        } else {
            look(&self.blocks.peek(hash, &id)?.value)
        };
        Some(seen)
    }

    /// A block was asked for that is not here.
    fn note_miss(&mut self, hash: u64, kind: BlockKind) {
        self.stats.kind_mut(kind).misses += 1;
        self.admission.note_miss(hash as u32);
    }

    /// Whether a filter that is not here, of about so many bytes, would be kept if it were
    /// read. One that would not, and is asked for nevertheless, would have been here with
    /// more bytes: the ghost is to know.
    fn wants(&mut self, id: BlockId, hash: u64, bytes: usize, counts: bool) -> bool {
        // Rather too many: what is read and then refused was read for nothing.
        let charge = bytes + Lru::<BlockId, Cached<V>>::ENTRY_OVERHEAD_BYTES + FILTER_SLACK_BYTES;
        let is_known = self.times(hash) > 0;
        if counts && let Some(sketch) = self.admission.sketch() {
            sketch.add(spread(hash as u32));
        }
        if self.has_room(charge) || (counts && is_known && self.admits(id, hash, charge)) {
            return true;
        }
        if counts && let Admission::ByUse { sketch, ghost } = &mut self.admission {
            if ghost.take(hash as u32) {
                self.ghost_hits += u64::from(ghost.sampling());
            }
            ghost.note(hash as u32, sketch);
        }
        false
    }

    /// How often a block was asked for lately, its being put in included.
    fn heat_of(&self, block: &Cached<V>) -> u8 {
        let estimate = |sketch: &Sketch| sketch.estimate(spread(block.fingerprint));
        let told = self.admission.sketch().map_or(1, estimate);
        (told + block.asked).clamp(1, COUNT_MAX)
    }

    /// Puts a block in if it is let in. What is to be dropped without the lock.
    fn insert(
        &mut self,
        hash: u64,
        id: BlockId,
        tag: BlockTag,
        value: V,
        charge: usize,
    ) -> Result<Inserted<Cached<V>>, V> {
        let whole = charge + Lru::<BlockId, Cached<V>>::ENTRY_OVERHEAD_BYTES;
        if !self.admits(id, hash, whole) {
            self.refuse(hash, whole);
            return Err(value);
        }
        let charged = u32::try_from(whole).unwrap_or(u32::MAX);
        let cached = Cached { tag, fingerprint: hash as u32, charge: charged, asked: 0, value };
        let mut inserted = self.blocks.insert(hash, id, cached, charge);
        match &inserted.refused {
            None => self.stats.kind_mut(tag.kind).inserts += 1,
            Some(_) => self.refuse(hash, whole),
        }
        self.count_evictions(&mut inserted.evicted);
        self.admission
            .note_wanted(inserted.evicted.iter().map(|block| block.charge as usize).sum());
        Ok(inserted)
    }

    fn refuse(&mut self, hash: u64, charge: usize) {
        self.admission.note_wanted(charge);
        self.admission.note_absent(hash as u32, charge, self.blocks.charged());
    }

    fn count_evictions(&mut self, evicted: &mut Removed<Cached<V>>) {
        for block in evicted.iter_mut() {
            self.stats.kind_mut(block.tag.kind).evictions += 1;
            if let Some(sketch) = self.admission.sketch() {
                block.tell(sketch);
            }
            let (charge, charged) = (block.charge as usize, self.blocks.charged());
            self.admission.note_absent(block.fingerprint, charge, charged);
        }
    }

    fn new(eviction: Eviction, capacity: usize) -> Self {
        Self {
            blocks: Ordered::new(eviction, capacity),
            stats: BlockCacheStats::default(),
            admission: Admission::All,
            ghost_hits: 0,
            without: Ideas::NONE,
        }
    }
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
    pub const BLOCK_OVERHEAD_BYTES: usize = Lru::<BlockId, Cached<V>>::ENTRY_OVERHEAD_BYTES;

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
            let ghost = Ghost::new(window_bytes / BLOCK_BYTES_USUAL, sampling)
                .keeping_last(without.has(Idea::GhostChoice));
            let sketch = Sketch::new(sketch_bytes);
            sketch.set_period(sketch.period() / PERIOD_SHARE);
            Admission::ByUse { sketch, ghost }
        });
    }

    /// From now on every block comes in, and nothing is noted of others.
    pub fn admit_all(&self) {
        self.set_admission(|_| Admission::All);
    }

    /// From now on every block comes in, and what leaves is noted in ghosts of at most
    /// `ghost_bytes` together, whose hits move the `boundaries`.
    pub fn note_departed(&self, ghost_bytes: usize, boundaries: &Arc<Boundaries>) {
        let shards = self.shards.len();
        self.set_admission(|_| {
            let mut ghost = GhostList::default();
            ghost.set_bytes_max(ghost_bytes / shards);
            let boundaries = Arc::clone(boundaries);
            Admission::Noted(Departed { ghost, boundaries, shards, wanted_bytes: 0 })
        });
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
        let take = |Apart(shard): &Apart<V>| match &mut shard.lock().admission {
            Admission::Noted(departed) => std::mem::take(&mut departed.wanted_bytes),
            Admission::All | Admission::ByUse { .. } => 0,
        };
        self.shards.iter().map(take).sum()
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

    /// How many reads there would not have been with a cache larger by the window.
    pub fn ghost_hits(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.lock().ghost_hits).sum()
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

    /// The block, if it is here; it becomes the most recently used. Counts a
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

    /// Blocks that are not here are about to be read from storage, in one read. With all
    /// of them here it would not be: the ghosts know them all, or more bytes would not
    /// have saved it.
    pub fn note_read(&self, ids: impl Iterator<Item = BlockId>) {
        let (mut all, mut stands_for, mut last) = (true, 0, None);
        for id in ids {
            let hash = id.hash();
            let shard = self.shard(hash);
            let mut locked = shard.lock();
            let Admission::ByUse { ghost, .. } = &mut locked.admission else { return };
            all &= ghost.take(hash as u32);
            stands_for = u64::from(ghost.sampling());
            last = Some(shard);
        }
        if let (true, Some(shard)) = (all, last) {
            shard.lock().ghost_hits += stands_for;
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
    pub fn times(&self, id: BlockId) -> u8 {
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
        let dropped = shard.insert(hash, id, tag, value, charge);
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
        let hash = id.hash();
        let mut shard = self.shard(hash).lock();
        let dropped = shard.insert(hash, id, tag, value, charge);
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
            let mut shard = shard.lock();
            let mut pushed_out = shard.blocks.set_capacity(bytes / self.shards.len());
            shard.count_evictions(&mut pushed_out);
            evicted.push(pushed_out);
        }
        *capacity = bytes;
        drop(capacity);
        drop(evicted);
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
