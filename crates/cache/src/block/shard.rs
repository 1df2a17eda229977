//! A shard of the block cache: a list of blocks, bounded in bytes, and the choice of the better one
//! of two blocks by its [`Admission`].
//!
//! Guarantees:
//! 1. The charged bytes are at most the capacity.
//! 2. A rejected or evicted block is returned, so that it is dropped outside of the lock; the
//!    admission is notified of it.
//! 3. A hit touches only its block and the list. The sketch is updated with hits when the block is
//!    compared with another, and when it is evicted.
//!
//! Relies on the caller to select the same shard for a hash every time.
//!
//! Single-threaded: the cache puts a lock around it.

use std::cmp::Reverse;

use crate::ablation::{Ablation, Ablations};
use crate::block::admission::Admission;
use crate::block::id::{BlockId, BlockTag};
use crate::block::stats::{BlockCacheStats, BlockKind};
use crate::eviction::lists::Evicted;
use crate::eviction::lru::{Inserted, Lru};
use crate::eviction::order::{Eviction, Ordered};
use crate::partition::ghost::{GhostHits, spread};
use crate::partition::sketch::{Sketch, Wide};

/// Two blocks whose rates differ by at most this fraction of one count as equal.
const EQUAL: f32 = 0.3;

/// A shard with less room than this is full, however small its blocks are.
const BLOCK_BYTES_MIN: usize = 4 << 10;

/// Most bytes of a cached filter block beyond its bytes in the table.
const FILTER_SLACK_BYTES: usize = 256;

/// A block that was read together with others, and that ranks behind the eviction candidate, is
/// admitted if its rate is this many times higher.
const BEHIND_TOGETHER: f32 = 8.0;

/// One that ranks ahead of it, if its rate is this many times higher. A higher factor would leave
/// holes where a whole range is accessed equally often.
const AHEAD_TOGETHER: f32 = 1.05;

/// The reason of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertReason {
    /// A read of this block alone, or a compaction.
    Alone,
    /// A read of several blocks.
    Together,
}

impl InsertReason {
    /// For a block from a read of `blocks` blocks.
    pub fn of_read(blocks: usize) -> Self {
        if blocks > 1 { Self::Together } else { Self::Alone }
    }
}

/// Whether a new block with rate `rate` is worse to cache than its rival, which is cached. Of two
/// blocks of about equal frequency, the better one is that of the extent with the higher hash, in
/// one extent the earlier one: a scan that misses one of its blocks reads as often as one that
/// misses all of them, so it is better to cache all of some extents than some of all. (Without
/// extents it is the newer one.)
///
/// Rates are partly chance, a new block is compared with one rival after another, and one that was
/// read together with others saves no read before all of them are cached. So it must not replace a
/// block without reason: it must be accessed a little more often than its rival, and far more often
/// where extents do not favour it.
fn is_worse(
    (rate, id): (f32, BlockId),
    (rival_rate, rival): (f32, BlockId),
    reason: InsertReason,
    ablations: Ablations,
) -> bool {
    let is_equal = (rate - rival_rate).abs() <= rate * EQUAL;
    if ablations.has(Ablation::Extents) {
        return !is_equal && rate < rival_rate;
    }
    let place = |id: BlockId| (id.extent_hash(), Reverse(id.offset));
    let is_behind = place(id) < place(rival);
    match reason {
        InsertReason::Alone if is_equal => is_behind,
        InsertReason::Alone => rate < rival_rate,
        InsertReason::Together if is_behind => rate < rival_rate * BEHIND_TOGETHER,
        InsertReason::Together => rate < rival_rate * AHEAD_TOGETHER,
    }
}

/// A cached block.
#[derive(Debug)]
pub(crate) struct Cached<V> {
    tag: BlockTag,
    /// Half of the block's hash.
    fingerprint: u32,
    /// Its charge, overhead included.
    charge: u32,
    /// Accesses since the sketch was updated: a hit touches nothing else.
    accesses: u8,
    value: V,
}

impl<V> Cached<V> {
    /// Adds the block's accesses to the sketch.
    fn update_sketch(&mut self, sketch: &Sketch<Wide>) {
        sketch.add_times(spread(self.fingerprint), std::mem::take(&mut self.accesses).into());
    }
}

/// A shard of the cache.
#[derive(Debug)]
pub(crate) struct Shard<V> {
    pub(crate) blocks: Ordered<BlockId, Cached<V>>,
    pub(crate) stats: BlockCacheStats,
    pub(crate) admission: Admission,
    /// Reads that a larger cache would have saved.
    pub(crate) wanted: GhostHits,
    pub(crate) ablations: Ablations,
}

impl<V> Shard<V> {
    /// The charge of a block besides its own bytes.
    pub(crate) const BLOCK_OVERHEAD_BYTES: usize = Lru::<BlockId, Cached<V>>::ENTRY_OVERHEAD_BYTES;

    /// An empty shard that admits every block.
    pub(crate) fn new(eviction: Eviction, capacity: usize) -> Self {
        Self {
            blocks: Ordered::new(eviction, capacity),
            stats: BlockCacheStats::default(),
            admission: Admission::All,
            wanted: GhostHits::default(),
            ablations: Ablations::NONE,
        }
    }

    /// Whether to admit the block: there is room, or it is no worse than the eviction candidate. A
    /// better candidate becomes the newest, so that the next new block is compared with another.
    /// (More rivals per new block saved no reads, and each rival is memory that is not in the
    /// processor's cache: `docs/adr/0018-adaptive-cache-partitioning.md`.)
    fn admits(&mut self, id: BlockId, hash: u64, charge: usize, reason: InsertReason) -> bool {
        let ablations = self.ablations;
        if ablations.has(Ablation::Admission) {
            return true;
        }
        let Some(sketch) = self.admission.sketch() else { return true };
        if self.has_room(charge) {
            return true;
        }
        let Some((&rival, block)) = self.blocks.oldest() else { return true };
        block.update_sketch(sketch);
        let [rate, rival_rate] = [hash as u32, block.fingerprint].map(|f| sketch.rate(spread(f)));
        if !is_worse((rate, id), (rival_rate, rival), reason, ablations) {
            return true;
        }
        self.blocks.renew_oldest();
        false
    }

    fn has_room(&self, charge: usize) -> bool {
        self.blocks.charged() + charge <= self.blocks.capacity()
    }

    /// Whether another block of average size fits without an eviction.
    pub(crate) fn has_room_for_one(&self) -> bool {
        let usual = self.blocks.charged() / self.blocks.len().max(1);
        self.has_room(usual.max(BLOCK_BYTES_MIN))
    }

    /// The recent access count of a block that is not cached, if known.
    pub(crate) fn times(&self, hash: u64) -> u16 {
        self.admission.sketch().map_or(1, |sketch| sketch.count(spread(hash as u32)))
    }

    /// The result of `look` on the block, if it is cached. A look that does not count leaves the
    /// block in its place.
    pub(crate) fn get_with<R>(
        &mut self,
        hash: u64,
        id: BlockId,
        counts: bool,
        look: impl FnOnce(&V) -> R,
    ) -> Option<R> {
        let seen = if counts {
            // Where frequencies decide, the exact order is irrelevant.
            let by_counts =
                self.admission.sketch().is_some() && !self.ablations.has(Ablation::Admission);
            let block = match by_counts {
                true => self.blocks.get_lazily(hash, &id)?,
                false => self.blocks.get(hash, &id)?,
            };
            block.accesses = block.accesses.saturating_add(1);
            look(&block.value)
        } else {
            look(&self.blocks.peek(hash, &id)?.value)
        };
        Some(seen)
    }

    /// Records a block miss.
    pub(crate) fn note_miss(&mut self, hash: u64, kind: BlockKind) {
        self.stats.kind_mut(kind).misses += 1;
        self.admission.note_miss(hash as u32);
    }

    /// Records that a block that is not cached is about to be read from storage alone.
    pub(crate) fn note_read(&mut self, hash: u64) {
        self.wanted += self.admission.take_ghost_hit(hash as u32).unwrap_or_default();
    }

    /// Whether a filter that is not cached, of about `bytes` bytes, would be admitted if it were
    /// read. One that would not, although it is accessed, would have been cached with more bytes:
    /// the ghost records it.
    pub(crate) fn wants(&mut self, id: BlockId, hash: u64, bytes: usize, counts: bool) -> bool {
        // Rather an overestimate: the read of a filter that is then rejected is wasted.
        let charge = bytes + Self::BLOCK_OVERHEAD_BYTES + FILTER_SLACK_BYTES;
        let is_known = self.times(hash) > 0;
        if counts && let Some(sketch) = self.admission.sketch() {
            sketch.add(spread(hash as u32));
        }
        if self.has_room(charge)
            || (counts && is_known && self.admits(id, hash, charge, InsertReason::Alone))
        {
            return true;
        }
        if counts {
            self.note_read(hash);
            self.admission.note_absent(hash as u32, charge, self.blocks.charged());
        }
        false
    }

    /// The recent access count of a block, its insert included.
    pub(crate) fn heat_of(&self, block: &Cached<V>) -> u8 {
        let count = |sketch: &Sketch<Wide>| sketch.count(spread(block.fingerprint));
        let counted = self.admission.sketch().map_or(1, count);
        (counted + u16::from(block.accesses)).clamp(1, u8::MAX.into()) as u8
    }

    /// Inserts a block if it is admitted. Returns the values to drop outside of the lock.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        id: BlockId,
        tag: BlockTag,
        value: V,
        charge: usize,
        reason: InsertReason,
    ) -> Result<Inserted<Cached<V>>, V> {
        let whole = charge + Self::BLOCK_OVERHEAD_BYTES;
        if !self.admits(id, hash, whole, reason) {
            self.reject(hash, whole);
            return Err(value);
        }
        let charged = u32::try_from(whole).unwrap_or(u32::MAX);
        let cached = Cached { tag, fingerprint: hash as u32, charge: charged, accesses: 0, value };
        let mut inserted = self.blocks.insert(hash, id, cached, charge);
        match &inserted.refused {
            None => self.stats.kind_mut(tag.kind).inserts += 1,
            Some(_) => self.reject(hash, whole),
        }
        self.count_evictions(&mut inserted.evicted);
        self.admission
            .note_wanted(inserted.evicted.iter().map(|block| block.charge as usize).sum());
        Ok(inserted)
    }

    fn reject(&mut self, hash: u64, charge: usize) {
        self.admission.note_wanted(charge);
        self.admission.note_absent(hash as u32, charge, self.blocks.charged());
    }

    /// Changes the capacity. Returns the evicted values to drop outside of the lock.
    pub(crate) fn set_capacity(&mut self, bytes: usize) -> Evicted<Cached<V>> {
        let mut evicted = self.blocks.set_capacity(bytes);
        self.count_evictions(&mut evicted);
        evicted
    }

    fn count_evictions(&mut self, evicted: &mut Evicted<Cached<V>>) {
        for block in evicted.iter_mut() {
            self.stats.kind_mut(block.tag.kind).evictions += 1;
            if let Some(sketch) = self.admission.sketch() {
                block.update_sketch(sketch);
            }
            let (charge, charged) = (block.charge as usize, self.blocks.charged());
            self.admission.note_absent(block.fingerprint, charge, charged);
        }
    }
}
