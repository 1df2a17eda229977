//! All caches under one budget: KV entries, KP entries and blocks, and what moves the
//! boundaries between them.
//!
//! Guarantees:
//! 1. What is charged for entries, blocks, their tables, sketches and ghosts is at most
//!    the budget at every moment: what shrinks does so before another part grows.
//! 2. Policy and budget may change at any time; entries stay where there is room, unless
//!    the new policy keeps them in another form.
//!
//! The boundaries move when storage is read, once in [`READS_PER_STEP`] reads. Gets that
//! find everything in blocks count a little as well ([`MEMORY_GETS`]): where bytes spare no
//! reads any more, they go to KV, which answers sooner. (AC-Key's boundaries:
//! `hac_controller.rs`.)
//!
//! Safe to use from all threads.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::ac_key::controller::{self as hac_controller, HacController};
use crate::ac_key::earc::Boundaries;
use crate::ac_key::shard::{Benefit, HacShard};
use crate::ac_key::turnoff::{Counts, Turnoff};
use crate::block::filter_worth::mixed;
use crate::block::id::BLOCK_BYTES_USUAL;
use crate::block::{BlockCache, SHARD_BYTES_MIN};
use crate::ideas::{Idea, Ideas};
use crate::partition::controller::{COMPONENTS, Split, Tide};
use crate::partition::ghost::Wanted;
use crate::point::cache::{Epoch, PointCache};
use crate::point::entries::PointEntries;
use crate::point::kv::KvEntry;
use crate::point::shard::HashOf;
use crate::policy::CachePolicy;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Storage reads from one step of the boundaries to the next.
pub const READS_PER_STEP: u32 = 1024;

/// So many gets that find everything in blocks count as a read: each costs most of a
/// microsecond more than a hit of KV, a read more than a hundred.
const MEMORY_GETS: u32 = 256;

/// One in so many of such gets is shown to [`Caches::found_in_memory`].
const MEMORY_LESSONS: u32 = 64;

/// Whether a get that has drawn this lot, a number that comes once, is one of those that
/// [`Caches::found_in_memory`] is shown if they find everything in blocks. In no order: keys
/// may be asked for in turn.
#[inline]
pub fn is_memory_lesson(lot: u64) -> bool {
    mixed(lot).is_multiple_of(MEMORY_LESSONS)
}

/// Reads are counted in parts: a lesson of memory is one.
const READ_PARTS: u32 = MEMORY_GETS / MEMORY_LESSONS;

/// Of the budget: the window of each ghost, and the sketches of keys and blocks.
const WINDOW: f64 = 0.1;
const POINT_SKETCH: f64 = 0.02;
const BLOCK_SKETCH: f64 = 0.008;

/// Sketches and ghosts are made anew when the budget has become so many times what they
/// were made for, or the other way round.
const REMEASURE: usize = 3;

/// Less is not worth measuring anything for, and of more a part says enough: keys of
/// larger caches are as well known by sketches of some tens of MiB.
const MEASURED_BYTES_MIN: usize = 64 << 10;
const MEASURED_BYTES_MAX: usize = 1 << 30;
/// Made for this budget or more, the ghost of KV knows one key in [`POINT_SAMPLING`], by its
/// hash, and that of KP one in four times as many: they are large enough for a sample to say
/// what all do. (The ghost of blocks knows all: a read is saved only if none of its blocks is
/// missing.)
const SAMPLED_BYTES_MIN: usize = 16 << 20;
const POINT_SAMPLING: u32 = 8;
/// Ghosts take less than one part in so many of their windows.
const GHOSTS_DIVISOR: usize = 8;

/// Of the budget, one part in so many may stand empty for entries that are to come: those of
/// small values fill it a block's time for a hundred bytes. With none, KV would grow only when
/// it is full, and lose entries on its way.
const ROOM_SHARE: usize = 16;
/// And so much may in any case: it is filled in some steps.
const ROOM_BYTES_MIN: usize = 1 << 20;

/// What the caches share.
#[derive(Debug)]
struct Control {
    policy: CachePolicy,
    budget: usize,
    /// Of what entries and blocks may take, the part of each component.
    shares: [f64; 3],
    tide: Tide,
    /// What sketches and ghosts were made for; 0: there are none.
    measured_for: usize,
    /// What the controller knows of [`Caches::wanted`].
    credited: [Wanted; 3],
    /// While entries are AC-Key's.
    hac: Option<HacController>,
    /// The paper's `n0`.
    level0_tables: u8,
}

/// The caches of a store.
#[derive(Debug)]
pub struct Caches<V> {
    point: PointCache,
    blocks: BlockCache<V>,
    control: Mutex<Control>,
    /// Since the last step ([`READ_PARTS`]).
    parts_of_reads: AtomicU32,
    /// From one step to the next.
    reads_per_step: AtomicU32,
    /// Whether gets that read nothing count ([`Idea::SparedTime`]).
    spares_time: AtomicBool,
    /// Of those, since the last step, lessons that a larger KV would have answered.
    spared: AtomicU32,
}

impl<V: Clone> Caches<V> {
    /// Caches of `budget` bytes in at most `shards` shards. Blocks have all of it until
    /// the policy says otherwise.
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
                tide: Tide::new(0),
                measured_for: 0,
                credited: [Wanted::default(); 3],
                hac: None,
                level0_tables: hac_controller::LEVEL0_TABLES,
            }),
            parts_of_reads: AtomicU32::new(0),
            reads_per_step: AtomicU32::new(READS_PER_STEP),
            spares_time: AtomicBool::new(false),
            spared: AtomicU32::new(0),
        };
        caches.set_policy(policy);
        caches
    }

    /// KV and KP entries.
    pub fn point(&self) -> &PointCache {
        &self.point
    }

    /// Blocks.
    pub fn blocks(&self) -> &BlockCache<V> {
        &self.blocks
    }

    /// How the budget is used.
    pub fn policy(&self) -> CachePolicy {
        self.control.lock().policy
    }

    /// The bound on [`Caches::charged_bytes`].
    pub fn budget(&self) -> usize {
        self.control.lock().budget
    }

    /// The bytes of entries, blocks, their tables, sketches and ghosts.
    pub fn charged_bytes(&self) -> usize {
        let (kv, kp) = self.point.charged_bytes();
        kv + kp + self.blocks.charged_bytes() + self.measuring_bytes()
    }

    /// The bytes of sketches and ghosts.
    pub fn measuring_bytes(&self) -> usize {
        self.point.measuring_bytes() + self.blocks.measuring_bytes()
    }

    /// Storage reads that hits have saved, of each component in the order of
    /// [`COMPONENTS`]: of KV and KP by what lookups of their levels did, even where blocks
    /// are in memory that would have answered as well; a block saves one.
    pub fn saved_reads(&self) -> [f64; 3] {
        let (point, blocks) = (self.point.saved(), self.blocks.stats());
        let hits = blocks.data.hits + blocks.index.hits + blocks.filter.hits;
        [point.kv, point.kp, hits as f64]
    }

    /// Storage reads that each component would have saved with
    /// [`Caches::window_bytes`] more.
    pub fn wanted_reads(&self) -> [f64; 3] {
        self.wanted().map(|wanted| wanted.window)
    }

    /// [`Caches::wanted_reads`], by both reaches of the ghosts.
    fn wanted(&self) -> [Wanted; 3] {
        let point = self.point.wanted();
        [point.kv, point.kp, self.blocks.wanted()]
    }

    /// For how many more bytes of a component ghosts stand; 0: nothing is measured.
    pub fn window_bytes(&self) -> usize {
        let control = self.control.lock();
        // AC-Key's ghosts are of other sizes.
        let measured_for = if control.hac.is_some() { 0 } else { control.measured_for };
        (measured_for as f64 * WINDOW) as usize
    }

    /// What each component may take, in the order of
    /// [`COMPONENTS`](crate::partition::controller::COMPONENTS).
    pub fn split(&self) -> Split {
        let control = self.control.lock();
        self.split_of(&control)
    }

    /// So many tables level 0 of the tree can hold: AC-Key takes from that what hits save.
    /// To be told before there are entries.
    pub fn set_level0_tables(&self, tables: u8) {
        let mut control = self.control.lock();
        control.level0_tables = tables;
        if control.hac.is_some() || control.policy.lacks(Idea::MeasuredBenefit) {
            let policy = control.policy;
            self.change_policy(&mut control, policy);
        }
    }

    /// Changes the budget; what does not fit any more leaves.
    pub fn set_budget(&self, bytes: usize) {
        let mut control = self.control.lock();
        control.budget = bytes;
        let (wanted, now) = (measured_for(control.policy, bytes), control.measured_for);
        let ghosts = control.hac.as_ref().map_or(0, HacController::ghost_bytes);
        let is_far = now > REMEASURE * wanted
            || REMEASURE * now < wanted
            || ghosts > bytes / hac_controller::GHOSTS_DIVISOR_MIN;
        if is_far {
            self.measure(&mut control);
        }
        self.set_pace(&control);
        self.apply(&control);
    }

    /// Changes how the budget is used. Boundaries that move begin where they are.
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
        let without = policy.left_out();
        let benefit = Benefit { level0_tables: control.level0_tables };
        let reads = std::array::from_fn(|level| benefit.reads(level as u8));
        self.point.set_without(without, reads);
        self.blocks.set_without(without);
        let spares_time = policy.is_compact() && !without.has(Idea::SparedTime);
        self.spares_time.store(spares_time, Ordering::Relaxed);
        self.measure(control);
        self.set_pace(control);
        self.apply(control);
    }

    /// Has entries and blocks be kept as the policy does.
    fn set_formats(&self, control: &mut Control) {
        let split = split_of(control.budget, control.shares);
        let of_ac_key = match control.policy {
            CachePolicy::Hac { k, theta } => Some((Boundaries::new(k, split), theta)),
            // No ghosts, and nothing that turns them on.
            CachePolicy::Offline { .. } => Some((Boundaries::fixed(split), 0)),
            _ => None,
        };
        if let Some((boundaries, theta)) = of_ac_key {
            let boundaries = Arc::new(boundaries);
            let (shards, level0_tables) = (self.point.shards(), control.level0_tables);
            let make = || -> Box<dyn PointEntries> {
                let benefit = Benefit { level0_tables };
                Box::new(HacShard::new(Arc::clone(&boundaries), shards, benefit))
            };
            self.point.set_baseline(Some(&make));
            control.hac = Some(HacController::new(boundaries, Turnoff::new(theta, self.counts())));
        } else if control.hac.take().is_some() {
            self.point.set_baseline(None);
        }
        self.blocks.set_eviction(control.policy.eviction());
    }

    fn set_pace(&self, control: &Control) {
        let reads = match control.hac {
            Some(_) => hac_controller::reads_per_step(control.budget),
            None => READS_PER_STEP,
        };
        self.reads_per_step.store(reads, Ordering::Relaxed);
    }

    /// Of what entries and blocks take, the part of each component.
    pub fn shares(&self) -> [f64; 3] {
        self.control.lock().shares
    }

    /// Has boundaries that move begin elsewhere.
    pub fn set_shares(&self, shares: [f64; 3]) {
        let mut control = self.control.lock();
        if control.policy.is_moved_by_worth() && control.measured_for > 0 {
            control.shares = shares;
            let split = self.split_of(&control);
            control.tide.settle_at(split);
            self.apply(&control);
        }
    }

    /// So many reads of storage were done: moves the boundaries if it is time.
    pub fn note_reads(&self, reads: u32) {
        self.note_parts_of_reads(reads * READ_PARTS);
    }

    fn note_parts_of_reads(&self, parts: u32) {
        let parts_per_step = self.reads_per_step.load(Ordering::Relaxed) * READ_PARTS;
        if self.parts_of_reads.fetch_add(parts, Ordering::Relaxed) + parts < parts_per_step {
            return;
        }
        // Whoever is first does it for all.
        if self.parts_of_reads.swap(0, Ordering::Relaxed) >= parts_per_step {
            self.step();
        }
    }

    /// A lookup that began at `epoch` found the entry without a read, one of some that do
    /// ([`is_memory_lesson`]). For policies that do not keep whatever is looked up.
    pub fn found_in_memory(&self, hash: u64, epoch: Epoch, entry: KvEntry<'_>) {
        if self.spares_time.load(Ordering::Relaxed) {
            let answered = self.point.found_in_memory(hash, epoch, entry);
            self.spared.fetch_add(answered, Ordering::Relaxed);
            self.note_parts_of_reads(1);
        }
    }

    /// Moves the boundaries, if the policy does.
    pub fn step(&self) {
        let mut control = self.control.lock();
        match control.policy {
            CachePolicy::Hac { .. } => self.step_hac(&mut control),
            policy if policy.is_moved_by_worth() && control.measured_for > 0 => {
                self.step_tide(&mut control);
            }
            _ => {}
        }
    }

    /// Has bytes go where they would save most.
    fn step_tide(&self, control: &mut Control) {
        let wanted = self.wanted();
        for component in COMPONENTS {
            let of_it = component as usize;
            let new = wanted[of_it] - control.credited[of_it];
            control.tide.credit(component, new);
        }
        control.credited = wanted;
        let spared = f64::from(self.spared.swap(0, Ordering::Relaxed));
        control.tide.spare(spared / f64::from(READ_PARTS));
        let before = self.split_of(control);
        let whole: usize = before.iter().sum();
        let after = control.tide.step(before, self.fillable(control));
        if after != before && whole > 0 {
            control.shares = after.map(|bytes| bytes as f64 / whole as f64);
            self.apply(control);
        }
    }

    /// What each component may take in a step: entries that have room left, no more than makes
    /// it [`ROOM_SHARE`] of the budget ([`ROOM_BYTES_MIN`] at least); blocks that have any, nothing.
    fn fillable(&self, control: &Control) -> Split {
        let step = READS_PER_STEP as usize * BLOCK_BYTES_USUAL;
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

    /// Has the boundaries follow AC-Key's targets.
    fn step_hac(&self, control: &mut Control) {
        let is_measured = control.measured_for > 0;
        let Some(hac) = &mut control.hac else { return };
        if let Some(is_on) = hac.looks_to_turn(self.counts()).filter(|_| is_measured) {
            self.turn_ghosts(control, is_on);
        }
        let before = self.split_of(control);
        let Some(hac) = &control.hac else { return };
        let after = hac.follow(before, &self.point, &self.blocks);
        let whole: usize = before.iter().sum();
        if after != before && whole > 0 {
            // Half a byte more, so that no byte is lost to rounding.
            control.shares = after.map(|bytes| (bytes as f64 + 0.5) / whole as f64);
            self.apply(control);
        }
        if let Some(hac) = &mut control.hac
            && let Some(bytes) = hac.wants(&self.point)
        {
            hac.set_point_ghost_bytes(bytes, &self.point);
            self.apply(control);
            self.point.set_ghost_bytes(bytes);
        }
    }

    /// What AC-Key's ghosts go by.
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

    /// Gives AC-Key's ghosts memory, or takes it back.
    fn turn_ghosts(&self, control: &mut Control, is_on: bool) {
        let budget = control.budget;
        if let Some(hac) = &mut control.hac {
            hac.turn(is_on, budget, &self.point, &self.blocks);
        }
        self.apply(control);
        if let Some(hac) = &control.hac {
            hac.grant(&self.point, &self.blocks);
        }
    }

    /// What entries and blocks may take together.
    fn whole(&self, control: &Control) -> usize {
        let measuring = match &control.hac {
            Some(hac) => hac.ghost_bytes(),
            None => self.measuring_bytes(),
        };
        control.budget.saturating_sub(measuring)
    }

    fn split_of(&self, control: &Control) -> Split {
        split_of(self.whole(control), control.shares)
    }

    /// Makes what takes more than its part of `whole` bytes smaller.
    fn shrink(&self, whole: usize, control: &Control) {
        let [kv, kp, block] = capacities_of(split_of(whole, control.shares), control.policy);
        let (kv_now, kp_now) = self.point.capacities();
        self.blocks.set_capacity(block.min(self.blocks.capacity()));
        self.point.set_capacities(kv.min(kv_now), kp.min(kp_now));
    }

    /// Gives the components the bytes of their shares; what shrinks does so first.
    fn apply(&self, control: &Control) {
        let [kv, kp, block] = capacities_of(self.split_of(control), control.policy);
        match &control.hac {
            Some(hac) => {
                hac.boundaries.set_total(self.whole(control));
                // KV and KP share their bytes: what one gives the other is not lost.
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

    /// Makes sketches and ghosts as the policy and the budget want them.
    fn measure(&self, control: &mut Control) {
        control.measured_for = measured_for(control.policy, control.budget);
        if control.hac.is_some() {
            return self.turn_ghosts(control, control.measured_for > 0);
        }
        let part = |share: f64| (control.measured_for as f64 * share) as usize;
        // There must be room for them before they are made.
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
        self.spared.store(0, Ordering::Relaxed);
        control.tide = Tide::new(part(WINDOW));
    }
}

/// What sketches and ghosts are made for.
fn measured_for(policy: CachePolicy, budget: usize) -> usize {
    let is_measured = policy.is_measured() && budget >= MEASURED_BYTES_MIN;
    if is_measured { budget.min(MEASURED_BYTES_MAX) } else { 0 }
}

/// What components may really take: less than their part where entries are to be charged as
/// if they were larger.
fn capacities_of([kv, kp, block]: Split, policy: CachePolicy) -> Split {
    let bytes = policy.left_out().entry_bytes();
    let part = |whole, real, charged| (whole as u128 * real as u128 / charged as u128) as usize;
    let compact = Ideas::COMPACT;
    [part(kv, compact.kv, bytes.kv), part(kp, compact.kp, bytes.kp), block]
}

fn split_of(whole: usize, shares: [f64; 3]) -> Split {
    let part = |share: f64| (whole as f64 * share) as usize;
    let kv = part(shares[0]).min(whole);
    let kp = part(shares[1]).min(whole - kv);
    [kv, kp, whole - kv - kp]
}
