//! A shard of the block cache: a list of blocks, bounded in bytes, and which of two blocks
//! is better to have, by what its [`Admission`] knows.
//!
//! Guarantees:
//! 1. The bytes charged are at most the capacity.
//! 2. A block that is refused, or pushed out, is handed out, so that it is dropped without
//!    the lock; the admission is told of it.
//! 3. A hit touches its block and the list alone. The sketch is told of hits when the block
//!    is held against another, and when it leaves.
//!
//! Relies on the caller, who has chosen the shard by a hash, for the same one everywhere.
//!
//! For one thread at a time: the cache puts a lock around it.

use std::cmp::Reverse;

use crate::block::admission::Admission;
use crate::block::id::{BlockId, BlockTag};
use crate::block::stats::{BlockCacheStats, BlockKind};
use crate::eviction::lists::Removed;
use crate::eviction::lru::{Inserted, Lru};
use crate::eviction::order::{Eviction, Ordered};
use crate::ideas::{Idea, Ideas};
use crate::partition::ghost::{Wanted, spread};
use crate::partition::sketch::{Sketch, Wide};

/// Of two blocks whose rates are apart by at most this part of one, neither is better.
const EQUAL: f32 = 0.3;

/// A shard with less room than this is full, however small its blocks are.
const BLOCK_BYTES_MIN: usize = 4 << 10;

/// What a filter block takes at most beside the bytes that it has in its table.
const FILTER_SLACK_BYTES: usize = 256;

/// A block that was read together with others, and whose place is behind that of the one that
/// would leave, comes in if it is asked for so many times as often.
const BEHIND_TOGETHER: f32 = 8.0;

/// One whose place is in front of it, if it is asked for so many times as often. More than that
/// would leave holes where all of a range is asked for alike.
const AHEAD_TOGETHER: f32 = 1.05;

/// What brought a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A read of its own, or a compaction.
    Alone,
    /// A read that brought others as well.
    Together,
}

impl Arrival {
    /// Of a block out of a read of so many.
    pub fn of_read(blocks: usize) -> Self {
        if blocks > 1 { Self::Together } else { Self::Alone }
    }
}

/// Whether a newcomer that is asked for at such a rate is worse to have than its rival, which
/// is here. Of two that are asked for about equally often, it is the one of the extent with
/// the lower hash, in one extent the later one: a scan that misses one of the blocks it goes
/// through reads as often as one that misses all of them, so it is better to have all of some
/// extents than some of all. (Without extents it is the older one.)
///
/// Rates are chance in part, a newcomer is held against one rival after another, and one that
/// came together with others spares no read before all of them are in. So it does not make a
/// hole for nothing: it must be asked for a little more often than its rival, and far more often
/// where extents do not say that it is to be here.
fn is_worse(
    (rate, id): (f32, BlockId),
    (rival_rate, rival): (f32, BlockId),
    arrival: Arrival,
    without: Ideas,
) -> bool {
    let is_equal = (rate - rival_rate).abs() <= rate * EQUAL;
    if without.has(Idea::Extents) {
        return !is_equal && rate < rival_rate;
    }
    let place = |id: BlockId| (id.extent_hash(), Reverse(id.offset));
    let is_behind = place(id) < place(rival);
    match arrival {
        Arrival::Alone if is_equal => is_behind,
        Arrival::Alone => rate < rival_rate,
        Arrival::Together if is_behind => rate < rival_rate * BEHIND_TOGETHER,
        Arrival::Together => rate < rival_rate * AHEAD_TOGETHER,
    }
}

/// A block that is here.
#[derive(Debug)]
pub(crate) struct Cached<V> {
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
    fn tell(&mut self, sketch: &Sketch<Wide>) {
        sketch.add_times(spread(self.fingerprint), std::mem::take(&mut self.asked).into());
    }
}

/// A part of the cache.
#[derive(Debug)]
pub(crate) struct Shard<V> {
    pub(crate) blocks: Ordered<BlockId, Cached<V>>,
    pub(crate) stats: BlockCacheStats,
    pub(crate) admission: Admission,
    /// Reads that a larger cache would have saved.
    pub(crate) wanted: Wanted,
    pub(crate) without: Ideas,
}

impl<V> Shard<V> {
    /// What a block is charged beside its own bytes.
    pub(crate) const BLOCK_OVERHEAD_BYTES: usize = Lru::<BlockId, Cached<V>>::ENTRY_OVERHEAD_BYTES;

    /// An empty one, which every block comes into.
    pub(crate) fn new(eviction: Eviction, capacity: usize) -> Self {
        Self {
            blocks: Ordered::new(eviction, capacity),
            stats: BlockCacheStats::default(),
            admission: Admission::All,
            wanted: Wanted::default(),
            without: Ideas::NONE,
        }
    }

    /// Whether the block may come in: there is room, or it is no worse than the one that
    /// would have to leave first. If that one is better it becomes the newest, so that the
    /// next newcomer is held against another. (With more rivals a newcomer no fewer reads
    /// were done, and each rival is memory that is not in the processor's cache:
    /// `docs/adr/0018-adaptive-cache-partitioning.md`.)
    fn admits(&mut self, id: BlockId, hash: u64, charge: usize, arrival: Arrival) -> bool {
        let without = self.without;
        if without.has(Idea::Admission) {
            return true;
        }
        let Some(sketch) = self.admission.sketch() else { return true };
        if self.has_room(charge) {
            return true;
        }
        let Some((&rival, block)) = self.blocks.oldest() else { return true };
        block.tell(sketch);
        let [rate, rival_rate] = [hash as u32, block.fingerprint].map(|f| sketch.rate(spread(f)));
        if !is_worse((rate, id), (rival_rate, rival), arrival, without) {
            return true;
        }
        self.blocks.renew_oldest();
        false
    }

    fn has_room(&self, charge: usize) -> bool {
        self.blocks.charged() + charge <= self.blocks.capacity()
    }

    /// Whether another block could come in, such as are here, without any leaving for it.
    pub(crate) fn has_room_for_one(&self) -> bool {
        let usual = self.blocks.charged() / self.blocks.len().max(1);
        self.has_room(usual.max(BLOCK_BYTES_MIN))
    }

    /// How often a block that is not here was asked for lately, as far as is known.
    pub(crate) fn times(&self, hash: u64) -> u16 {
        self.admission.sketch().map_or(1, |sketch| sketch.count(spread(hash as u32)))
    }

    /// What `look` makes of the block, if it is here. A look that does not count leaves it
    /// as old as it was.
    pub(crate) fn look_at<R>(
        &mut self,
        hash: u64,
        id: BlockId,
        counts: bool,
        look: impl FnOnce(&V) -> R,
    ) -> Option<R> {
        let seen = if counts {
            // Where counts decide, the exact order does not.
            let by_counts = self.admission.sketch().is_some() && !self.without.has(Idea::Admission);
            let block = match by_counts {
                true => self.blocks.get_lazily(hash, &id)?,
                false => self.blocks.get(hash, &id)?,
            };
            block.asked = block.asked.saturating_add(1);
            look(&block.value)
        } else {
            look(&self.blocks.peek(hash, &id)?.value)
        };
        Some(seen)
    }

    /// A block was asked for that is not here.
    pub(crate) fn note_miss(&mut self, hash: u64, kind: BlockKind) {
        self.stats.kind_mut(kind).misses += 1;
        self.admission.note_miss(hash as u32);
    }

    /// A block that is not here is about to be read from storage, alone.
    pub(crate) fn note_read(&mut self, hash: u64) {
        self.wanted += self.admission.take_ghost_hit(hash as u32).unwrap_or_default();
    }

    /// Whether a filter that is not here, of about so many bytes, would be kept if it were
    /// read. One that would not, and is asked for nevertheless, would have been here with
    /// more bytes: the ghost is to know.
    pub(crate) fn wants(&mut self, id: BlockId, hash: u64, bytes: usize, counts: bool) -> bool {
        // Rather too many: what is read and then refused was read for nothing.
        let charge = bytes + Self::BLOCK_OVERHEAD_BYTES + FILTER_SLACK_BYTES;
        let is_known = self.times(hash) > 0;
        if counts && let Some(sketch) = self.admission.sketch() {
            sketch.add(spread(hash as u32));
        }
        if self.has_room(charge)
            || (counts && is_known && self.admits(id, hash, charge, Arrival::Alone))
        {
            return true;
        }
        if counts {
            self.note_read(hash);
            self.admission.note_absent(hash as u32, charge, self.blocks.charged());
        }
        false
    }

    /// How often a block was asked for lately, its being put in included.
    pub(crate) fn heat_of(&self, block: &Cached<V>) -> u8 {
        let count = |sketch: &Sketch<Wide>| sketch.count(spread(block.fingerprint));
        let told = self.admission.sketch().map_or(1, count);
        (told + u16::from(block.asked)).clamp(1, u8::MAX.into()) as u8
    }

    /// Puts a block in if it is let in. What is to be dropped without the lock.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        id: BlockId,
        tag: BlockTag,
        value: V,
        charge: usize,
        arrival: Arrival,
    ) -> Result<Inserted<Cached<V>>, V> {
        let whole = charge + Self::BLOCK_OVERHEAD_BYTES;
        if !self.admits(id, hash, whole, arrival) {
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

    /// Changes the capacity. What is pushed out is to be dropped without the lock.
    pub(crate) fn set_capacity(&mut self, bytes: usize) -> Removed<Cached<V>> {
        let mut evicted = self.blocks.set_capacity(bytes);
        self.count_evictions(&mut evicted);
        evicted
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
}
