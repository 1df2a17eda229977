//! All caches under one budget: KV entries, KP entries and blocks, and the movement of the
//! boundaries between them.
//!
//! Guarantees:
//! 1. The bytes charged for entries, blocks, their tables, sketches and ghosts never exceed the
//!    budget: one part shrinks before another grows.
//! 2. Policy and budget may change at any time; entries stay as long as there is room, unless the
//!    new policy stores them in another form.
//!
//! The boundaries move once in [`READS_PER_STEP`] storage reads. Gets that find everything in
//! blocks count a little as well ([`MEMORY_GETS`]): where more bytes save no more reads, they go to
//! KV, which answers faster. (AC-Key's boundaries: `ac_key/controller.rs`.)
//!
//! Thread-safe.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::ablation::{Ablation, Ablations};
use crate::ac_key::controller::{self as ac_key_controller, AcKeyController};
use crate::ac_key::earc::Boundaries;
use crate::ac_key::shard::{AcKeyShard, Benefit};
use crate::ac_key::turnoff::{Counts, Turnoff};
use crate::block::filter_worth::mixed;
use crate::block::id::TYPICAL_BLOCK_BYTES;
use crate::block::{BlockCache, SHARD_BYTES_MIN};
use crate::partition::controller::{COMPONENTS, PartitionController, Split};
use crate::partition::ghost::GhostHits;
use crate::point::cache::{Epoch, PointCache};
use crate::point::entries::PointEntries;
use crate::point::kv::KvEntry;
use crate::point::shard::HashOf;
use crate::policy::CachePolicy;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Storage reads between two steps of the boundaries.
pub const READS_PER_STEP: u32 = 1024;

/// This number of gets that find everything in blocks counts as one read: each costs most of a
/// microsecond more than a KV hit, a read more than a hundred.
const MEMORY_GETS: u32 = 256;

/// One in this number of such gets is offered to [`Caches::offer_memory_hit`].
const MEMORY_SAMPLING: u32 = 64;

/// Whether the get with this unique sample id is offered to [`Caches::offer_memory_hit`] if it
/// finds everything in blocks. The choice is pseudo-random, because keys may be read in sequence.
#[inline]
pub fn should_sample_hit(sample_id: u64) -> bool {
    mixed(sample_id).is_multiple_of(MEMORY_SAMPLING)
}

/// Reads are counted in parts: one sampled memory hit is one part.
const READ_PARTS: u32 = MEMORY_GETS / MEMORY_SAMPLING;

/// Fractions of the budget: the window of each ghost, and the sketches of keys and of blocks.
const WINDOW: f64 = 0.1;
const POINT_SKETCH: f64 = 0.02;
const BLOCK_SKETCH: f64 = 0.008;

/// Sketches and ghosts are rebuilt when the budget has changed by this factor, up or down, since
/// they were sized.
const RESIZE_FACTOR: usize = 3;

/// Smaller caches are not measured. For larger ones the measurement stops growing: sketches of some
/// tens of MiB are accurate enough for their keys.
const MEASURED_BYTES_MIN: usize = 64 << 10;
const MEASURED_BYTES_MAX: usize = 1 << 30;
/// Sized for at least this budget, the ghost of KV records one key in [`POINT_SAMPLING`], by hash,
/// and that of KP one in four times as many: they are large enough for a sample to be
/// representative. (The ghost of blocks records all: a read is saved only if none of its blocks is
/// missing.)
const SAMPLED_BYTES_MIN: usize = 16 << 20;
const POINT_SAMPLING: u32 = 8;
/// Ghosts take less than this fraction of their windows.
const GHOSTS_DIVISOR: usize = 8;

/// This fraction of the budget may stay free for new entries: with small values they fill it at a
/// hundred bytes per block read. Without it, KV would grow only when full, and evict entries as it
/// grows.
const ROOM_SHARE: usize = 16;
/// Lower bound of that free room in bytes: it fills within a few steps.
const ROOM_BYTES_MIN: usize = 1 << 20;

/// State shared by the caches.
#[derive(Debug)]
struct Control {
    policy: CachePolicy,
    budget: usize,
    /// The share of each component in the bytes for entries and blocks.
    shares: [f64; 3],
    controller: PartitionController,
    /// The budget that sketches and ghosts were sized for; 0: there are none.
    measured_for: usize,
    /// The part of [`Caches::wanted`] that the controller has been credited with.
    credited: [GhostHits; 3],
    /// Set while entries are AC-Key's.
    ac_key: Option<AcKeyController>,
    /// The paper's `n0`.
    level0_tables: u8,
}

/// The caches of a store.
#[derive(Debug)]
pub struct Caches<V> {
    point: PointCache,
    blocks: BlockCache<V>,
    control: Mutex<Control>,
    /// Parts of reads since the last step ([`READ_PARTS`]).
    parts_of_reads: AtomicU32,
    /// Reads between two steps.
    reads_per_step: AtomicU32,
    /// Whether gets without a read are sampled ([`Ablation::MemoryHitTime`]).
    samples_memory_hits: AtomicBool,
    /// Sampled memory hits since the last step that a larger KV would have answered.
    sampled_ghost_hits: AtomicU32,
}

impl<V: Clone> Caches<V> {
    /// Caches of `budget` bytes in at most `shards` shards. Blocks get the whole budget until the
    /// policy sets other shares.
    pub fn new(hash_of: HashOf, budget: usize, shards: usize, policy: CachePolicy) -> Self {
        let shards = shards.clamp(1, 1 << 16).next_power_of_two();
        let most = (budget / SHARD_BYTES_MIN).checked_ilog2().map_or(1, |log| 1 << log);
        let shards = shards.min(most);
        let caches = Self {
            point: PointCache::new(hash_of, shards, budget / shards),
            blocks: BlockCache::new(budget, shards),
            control: Mutex::new(Control {
                policy,
                budget,
                shares: [0.0, 0.0, 1.0],
                controller: PartitionController::new(0),
                measured_for: 0,
                credited: [GhostHits::default(); 3],
                ac_key: None,
                level0_tables: ac_key_controller::LEVEL0_TABLES,
            }),
            parts_of_reads: AtomicU32::new(0),
            reads_per_step: AtomicU32::new(READS_PER_STEP),
            samples_memory_hits: AtomicBool::new(false),
            sampled_ghost_hits: AtomicU32::new(0),
        };
        caches.set_policy(policy);
        caches
    }

    /// The cache of KV and KP entries.
    pub fn point(&self) -> &PointCache {
        &self.point
    }

    /// The block cache.
    pub fn blocks(&self) -> &BlockCache<V> {
        &self.blocks
    }

    /// The current policy.
    pub fn policy(&self) -> CachePolicy {
        self.control.lock().policy
    }

    /// The budget in bytes, the upper bound of [`Caches::charged_bytes`].
    pub fn budget(&self) -> usize {
        self.control.lock().budget
    }

    /// Charged bytes of entries, blocks, their tables, sketches and ghosts.
    pub fn charged_bytes(&self) -> usize {
        let (kv, kp) = self.point.charged_bytes();
        kv + kp + self.blocks.charged_bytes() + self.measuring_bytes()
    }

    /// Bytes of sketches and ghosts.
    pub fn measuring_bytes(&self) -> usize {
        self.point.measuring_bytes() + self.blocks.measuring_bytes()
    }

    /// Storage reads saved by hits, per component in the order of `COMPONENTS`. KV and KP count
    /// the average reads of lookups that end on the same level, even where cached blocks would have
    /// answered as well; a block hit saves one.
    pub fn saved_reads(&self) -> [f64; 3] {
        let (point, blocks) = (self.point.saved(), self.blocks.stats());
        let hits = blocks.data.hits + blocks.index.hits + blocks.filter.hits;
        [point.kv, point.kp, hits as f64]
    }

    /// Storage reads that each component would have saved with [`Caches::window_bytes`] more.
    pub fn wanted_reads(&self) -> [f64; 3] {
        self.wanted().map(|wanted| wanted.window)
    }

    /// [`Caches::wanted_reads`], for both the whole window and the near part of the ghosts.
    fn wanted(&self) -> [GhostHits; 3] {
        let point = self.point.wanted();
        [point.kv, point.kp, self.blocks.wanted()]
    }

    /// The additional bytes per component that its ghost covers; 0: nothing is measured.
    pub fn window_bytes(&self) -> usize {
        let control = self.control.lock();
        // AC-Key's ghosts are of other sizes.
        let measured_for = if control.ac_key.is_some() { 0 } else { control.measured_for };
        (measured_for as f64 * WINDOW) as usize
    }

    /// The capacity of each component in bytes, in the order of
    /// `COMPONENTS`.
    pub fn split(&self) -> Split {
        let control = self.control.lock();
        self.split_of(&control)
    }

    /// Sets the number of tables that level 0 of the tree can hold: AC-Key computes the benefit of
    /// a hit from it. Call it before there are entries.
    pub fn set_level0_tables(&self, tables: u8) {
        let mut control = self.control.lock();
        control.level0_tables = tables;
        if control.ac_key.is_some() || control.policy.disables(Ablation::MeasuredBenefit) {
            let policy = control.policy;
            self.change_policy(&mut control, policy);
        }
    }

    /// Changes the budget in bytes; entries and blocks that no longer fit are evicted.
    pub fn set_budget(&self, bytes: usize) {
        let mut control = self.control.lock();
        control.budget = bytes;
        let (wanted, now) = (measured_for(control.policy, bytes), control.measured_for);
        let ghosts = control.ac_key.as_ref().map_or(0, AcKeyController::ghost_bytes);
        let is_far = now > RESIZE_FACTOR * wanted
            || RESIZE_FACTOR * now < wanted
            || ghosts > bytes / ac_key_controller::GHOSTS_DIVISOR_MIN;
        if is_far {
            self.measure(&mut control);
        }
        self.set_step_interval(&control);
        self.apply(&control);
    }

    /// Changes the policy. Moving boundaries start from their current positions.
    pub fn set_policy(&self, policy: CachePolicy) {
        let mut control = self.control.lock();
        self.change_policy(&mut control, policy);
    }

    fn change_policy(&self, control: &mut Control, policy: CachePolicy) {
        control.policy = policy;
        if let Some(shares) = policy.shares() {
            control.shares = shares;
        }
        self.set_formats(control);
        let ablations = policy.ablations();
        let benefit = Benefit { level0_tables: control.level0_tables };
        let reads = std::array::from_fn(|level| benefit.reads(level as u8));
        self.point.set_ablations(ablations, reads);
        self.blocks.set_ablations(ablations);
        let samples_memory_hits = policy.is_compact() && !ablations.has(Ablation::MemoryHitTime);
        self.samples_memory_hits.store(samples_memory_hits, Ordering::Relaxed);
        self.measure(control);
        self.set_step_interval(control);
        self.apply(control);
    }

    /// Stores entries and blocks in the form of the policy.
    fn set_formats(&self, control: &mut Control) {
        let split = split_of(control.budget, control.shares);
        let of_ac_key = match control.policy {
            CachePolicy::AcKey { k, theta } => Some((Boundaries::new(k, split), theta)),
            // No ghosts, and nothing that turns them on.
            CachePolicy::AcKeyFixed { .. } => Some((Boundaries::fixed(split), 0)),
            _ => None,
        };
        if let Some((boundaries, theta)) = of_ac_key {
            let boundaries = Arc::new(boundaries);
            let (shards, level0_tables) = (self.point.shards(), control.level0_tables);
            let make = || -> Box<dyn PointEntries> {
                let benefit = Benefit { level0_tables };
                Box::new(AcKeyShard::new(Arc::clone(&boundaries), shards, benefit))
            };
            self.point.set_baseline(Some(&make));
            control.ac_key =
                Some(AcKeyController::new(boundaries, Turnoff::new(theta, self.counts())));
        } else if control.ac_key.take().is_some() {
            self.point.set_baseline(None);
        }
        self.blocks.set_eviction(control.policy.eviction());
    }

    fn set_step_interval(&self, control: &Control) {
        let reads = match control.ac_key {
            Some(_) => ac_key_controller::reads_per_step(control.budget),
            None => READS_PER_STEP,
        };
        self.reads_per_step.store(reads, Ordering::Relaxed);
    }

    /// The share of each component in the bytes of entries and blocks.
    pub fn shares(&self) -> [f64; 3] {
        self.control.lock().shares
    }

    /// Restarts moving boundaries from `shares`.
    pub fn set_shares(&self, shares: [f64; 3]) {
        let mut control = self.control.lock();
        if control.policy.moves_by_utility() && control.measured_for > 0 {
            control.shares = shares;
            let split = self.split_of(&control);
            control.controller.settle_at(split);
            self.apply(&control);
        }
    }

    /// Counts storage reads, and moves the boundaries if it is time.
    pub fn note_reads(&self, reads: u32) {
        self.note_parts_of_reads(reads * READ_PARTS);
    }

    fn note_parts_of_reads(&self, parts: u32) {
        let parts_per_step = self.reads_per_step.load(Ordering::Relaxed) * READ_PARTS;
        if self.parts_of_reads.fetch_add(parts, Ordering::Relaxed) + parts < parts_per_step {
            return;
        }
        // The first thread moves them for all.
        if self.parts_of_reads.swap(0, Ordering::Relaxed) >= parts_per_step {
            self.step();
        }
    }

    /// Offers the entry of a lookup that began at `epoch` and was answered without a read. Call it
    /// for a sample of those ([`should_sample_hit`]). For policies that do not cache every
    /// looked-up entry.
    pub fn offer_memory_hit(&self, hash: u64, epoch: Epoch, entry: KvEntry<'_>) {
        if self.samples_memory_hits.load(Ordering::Relaxed) {
            let answered = self.point.offer_memory_hit(hash, epoch, entry);
            self.sampled_ghost_hits.fetch_add(answered, Ordering::Relaxed);
            self.note_parts_of_reads(1);
        }
    }

    /// Moves the boundaries, if the policy does.
    pub fn step(&self) {
        let mut control = self.control.lock();
        match control.policy {
            CachePolicy::AcKey { .. } => self.step_ac_key(&mut control),
            policy if policy.moves_by_utility() && control.measured_for > 0 => {
                self.step_adaptive(&mut control);
            }
            _ => {}
        }
    }

    /// Moves bytes to the component where they would save the most.
    fn step_adaptive(&self, control: &mut Control) {
        let wanted = self.wanted();
        for component in COMPONENTS {
            let of_it = component as usize;
            let new = wanted[of_it] - control.credited[of_it];
            control.controller.credit(component, new);
        }
        control.credited = wanted;
        let sampled_ghost_hits = f64::from(self.sampled_ghost_hits.swap(0, Ordering::Relaxed));
        control.controller.credit_time(sampled_ghost_hits / f64::from(READ_PARTS));
        let before = self.split_of(control);
        let whole: usize = before.iter().sum();
        let after = control.controller.step(before, self.fillable(control));
        if after != before && whole > 0 {
            control.shares = after.map(|bytes| bytes as f64 / whole as f64);
            self.apply(control);
        }
    }

    /// The bytes by which each component may grow in a step. Entries with free room: at most up to
    /// [`ROOM_SHARE`] of the budget ([`ROOM_BYTES_MIN`] at least); blocks with free room: 0.
    fn fillable(&self, control: &Control) -> Split {
        let step = READS_PER_STEP as usize * TYPICAL_BLOCK_BYTES;
        let ((kv, kp), (kv_max, kp_max)) = (self.point.charged_bytes(), self.point.capacities());
        let room_max = (control.budget / ROOM_SHARE).max(ROOM_BYTES_MIN);
        let of_entries = |has_room: bool, room: usize| match has_room {
            true => step.min(room_max.saturating_sub(room)),
            false => step,
        };
        let (kv_has_room, kp_has_room) = self.point.have_room();
        [
            of_entries(kv_has_room, kv_max.saturating_sub(kv)),
            of_entries(kp_has_room, kp_max.saturating_sub(kp)),
            if self.blocks.has_room() { 0 } else { step },
        ]
    }

    /// Makes the boundaries follow AC-Key's targets.
    fn step_ac_key(&self, control: &mut Control) {
        let is_measured = control.measured_for > 0;
        let Some(ac_key) = &mut control.ac_key else { return };
        if let Some(is_on) = ac_key.ghost_switch(self.counts()).filter(|_| is_measured) {
            self.switch_ghosts(control, is_on);
        }
        let before = self.split_of(control);
        let Some(ac_key) = &control.ac_key else { return };
        let after = ac_key.follow(before, &self.point, &self.blocks);
        let whole: usize = before.iter().sum();
        if after != before && whole > 0 {
            // Half a byte more, so that no byte is lost to rounding.
            control.shares = after.map(|bytes| (bytes as f64 + 0.5) / whole as f64);
            self.apply(control);
        }
        if let Some(ac_key) = &mut control.ac_key
            && let Some(bytes) = ac_key.ghost_bytes_due(&self.point)
        {
            ac_key.set_point_ghost_bytes(bytes, &self.point);
            self.apply(control);
            self.point.set_ghost_bytes(bytes);
        }
    }

    /// The counters for AC-Key's ghost turn-off.
    fn counts(&self) -> Counts {
        let (point, blocks) = (self.point.stats(), self.blocks.stats().total());
        Counts {
            kv_hits: point.kv_hits,
            kp_hits: point.kp_hits,
            lookups: point.kv_hits + point.kp_hits + point.misses,
            block_hits: blocks.hits,
            block_lookups: blocks.hits + blocks.misses,
        }
    }

    /// Gives memory to AC-Key's ghosts, or takes it back.
    fn switch_ghosts(&self, control: &mut Control, is_on: bool) {
        let budget = control.budget;
        if let Some(ac_key) = &mut control.ac_key {
            ac_key.switch_ghosts(is_on, budget, &self.point, &self.blocks);
        }
        self.apply(control);
        if let Some(ac_key) = &control.ac_key {
            ac_key.grant(&self.point, &self.blocks);
        }
    }

    /// The capacity of entries and blocks together.
    fn whole(&self, control: &Control) -> usize {
        let measuring = match &control.ac_key {
            Some(ac_key) => ac_key.ghost_bytes(),
            None => self.measuring_bytes(),
        };
        control.budget.saturating_sub(measuring)
    }

    fn split_of(&self, control: &Control) -> Split {
        split_of(self.whole(control), control.shares)
    }

    /// Shrinks every component that exceeds its share of `whole` bytes.
    fn shrink(&self, whole: usize, control: &Control) {
        let [kv, kp, block] = capacities_of(split_of(whole, control.shares), control.policy);
        let (kv_now, kp_now) = self.point.capacities();
        self.blocks.set_capacity(block.min(self.blocks.capacity()));
        self.point.set_capacities(kv.min(kv_now), kp.min(kp_now));
    }

    /// Applies the shares; components shrink before others grow.
    fn apply(&self, control: &Control) {
        let [kv, kp, block] = capacities_of(self.split_of(control), control.policy);
        match &control.ac_key {
            Some(ac_key) => {
                ac_key.boundaries.set_total(self.whole(control));
                // KV and KP share their bytes: a byte lent by one to the other is not lost.
                let (kv_now, kp_now) = self.point.capacities();
                if kv + kp < kv_now + kp_now {
                    self.point.set_capacities(kv, kp);
                }
            }
            None => self.shrink(self.whole(control), control),
        }
        self.blocks.set_capacity(block);
        self.point.set_capacities(kv, kp);
        self.point.set_used(kv + kp > 0 || control.measured_for > 0);
    }

    /// Rebuilds sketches and ghosts for the current policy and budget.
    fn measure(&self, control: &mut Control) {
        control.measured_for = measured_for(control.policy, control.budget);
        if control.ac_key.is_some() {
            return self.switch_ghosts(control, control.measured_for > 0);
        }
        let part = |share: f64| (control.measured_for as f64 * share) as usize;
        // Make room for them before they are built.
        let room = part(POINT_SKETCH) + part(BLOCK_SKETCH) + part(WINDOW) / GHOSTS_DIVISOR;
        self.shrink(control.budget.saturating_sub(room), control);
        let is_sampled = control.measured_for >= SAMPLED_BYTES_MIN;
        let sampling = if is_sampled { POINT_SAMPLING } else { 1 };
        self.point.measure(part(POINT_SKETCH), part(WINDOW), sampling);
        match control.measured_for > 0 {
            true => self.blocks.admit_by_use(part(BLOCK_SKETCH), part(WINDOW), 1),
            false => self.blocks.admit_all(),
        }
        control.credited = self.wanted();
        self.sampled_ghost_hits.store(0, Ordering::Relaxed);
        control.controller = PartitionController::new(part(WINDOW));
    }
}

/// The budget that sketches and ghosts are sized for.
fn measured_for(policy: CachePolicy, budget: usize) -> usize {
    let is_measured = policy.is_measured() && budget >= MEASURED_BYTES_MIN;
    if is_measured { budget.min(MEASURED_BYTES_MAX) } else { 0 }
}

/// Real capacities: smaller than the shares where entries are charged as if they were larger.
fn capacities_of([kv, kp, block]: Split, policy: CachePolicy) -> Split {
    let bytes = policy.ablations().entry_bytes();
    let part = |whole, real, charged| (whole as u128 * real as u128 / charged as u128) as usize;
    let compact = Ablations::COMPACT;
    [part(kv, compact.kv, bytes.kv), part(kp, compact.kp, bytes.kp), block]
}

fn split_of(whole: usize, shares: [f64; 3]) -> Split {
    let part = |share: f64| (whole as f64 * share) as usize;
    let kv = part(shares[0]).min(whole);
    let kp = part(shares[1]).min(whole - kv);
    [kv, kp, whole - kv - kp]
}
