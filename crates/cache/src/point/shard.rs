//! One shard of the point cache, which answers point lookups without the tree.
//!
//! ```text
//!              ┌── KV ──► the value            0 I/Os
//!   lookup ────┤
//!              ├── KP ──► the block's location 1 I/O, or 0 if the block is cached
//!              └── neither: the tree           all I/Os of the lookup
//! ```
//!
//! After a lookup that read storage (for others see [`PointShard::offer_memory_hit`]),
//! [`PointShard::resolved`] decides whether to cache the entry, by its worth: the recent access
//! count of its key, times the I/Os that a hit saves, per byte. The I/Os are measured: a moving
//! average over lookups that ended on that level (AC-Key, section 4.2, takes them from a formula;
//! the ablations `cost` and `cost-by-level` change the assumed cost of a lookup, see `CostBy`).
//! Rejected and evicted entries are recorded in the ghosts: otherwise a component without bytes
//! could never show that it needs some.
//!
//! The shard is notified of every change of the tree ([`PointShard::update`],
//! [`PointShard::redirect`], [`PointShard::forget`]); the rules for inserts are in
//! [`PointCache`](crate::point::cache::PointCache).
//!
//! Single-threaded; pure.

use std::ops::AddAssign;

use crate::ablation::{Ablation, Ablations};
use crate::block::filter_worth::mixed;
use crate::name::Name;
use crate::partition::ghost::{Ghost, GhostHits, spread};
use crate::partition::sketch::{Narrow, Sketch};
use crate::point::kp::{self, KpEntry, KpShard, Pointer};
use crate::point::kv::{self, KvEntry, KvShard};

/// Levels that are distinguished.
pub const LEVELS: usize = kv::LEVEL_MAX as usize + 1;

/// A rejection lowers the price of KV entries by this fraction, so that an outdated price does not
/// persist: entries are evicted only when others are inserted.
const PRICE_DECAY: f32 = 1.0 / 512.0;

/// The assumed size in KV's ghost of a typical entry: a name of 16 bytes and a value of 100. (Kept
/// at 120, not at the real 139: with 139, gets of hot keys at 1 % read 1.18 times as often, because
/// KV stays at a local optimum.)
const KV_GHOST_BYTES: usize = 120;
const KV_TYPICAL_BYTES: f32 = 139.0;
/// The average entry size is that of about the last 4096 entries: with fewer, a ghost would often
/// be rebuilt where long and short entries alternate.
const SIZES_AVERAGED: u32 = 4096;
/// The average starts with this number of typical entries.
const SIZES_AT_FIRST: u32 = 64;
/// A ghost is rebuilt when the average size has changed by this factor, up or down.
const SIZE_CHANGE: f32 = 1.25;
/// One fingerprint in this number of KP's window is near: its first bytes are by far the most
/// valuable where few keys need a pointer, so the coarser measure (one fingerprint of a bucket)
/// costs less.
const KP_NEAR_PART: usize = 8;
const _: () = assert!(Ablations::COMPACT.kp == kp::ENTRY_BYTES);

/// The hash of a name ([`Name::hash`]).
pub type HashOf = fn(Name<'_>) -> u64;

/// The result of a lookup that KV could not answer.
#[derive(Debug, Clone, Copy)]
pub struct LookupResult<'a> {
    /// The entry, with its level.
    pub entry: KvEntry<'a>,
    /// Its location.
    pub pointer: Option<Pointer>,
    /// Storage I/Os of the lookup.
    pub reads: f32,
    /// The part of them for the data block: one or none.
    pub data_reads: f32,
    /// Whether KP had a pointer for it.
    pub by_pointer: bool,
}

/// Storage I/Os attributed to KV and KP: a number, or ghost hits (`R`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PointReads<R = f64> {
    /// By KV.
    pub kv: R,
    /// By KP.
    pub kp: R,
}

impl<R: AddAssign> AddAssign for PointReads<R> {
    fn add_assign(&mut self, other: Self) {
        self.kv += other.kv;
        self.kp += other.kp;
    }
}

/// The KV and KP entries of one part of the hashes.
#[derive(Debug)]
#[repr(C)]
pub struct PointShard {
    // Fields that every hit changes come first, to share one cache line with the lock.
    /// Hits of permanently hot entries.
    hot_hits: u64,
    saved: PointReads,
    hash_of: HashOf,
    /// The bits of a hash that identify a key in KP.
    fingerprint_mask: u32,
    kv: KvShard,
    kp: KpShard,
    sketch: Sketch<Narrow>,
    kv_ghost: Ghost,
    kv_window: KvWindow,
    kp_ghost: Ghost,
    costs: Costs,
    /// Entries worth less than this are not admitted to KV.
    kv_price: f32,
    wanted: PointReads<GhostHits>,
    ablations: Ablations,
}

/// The sizing of KV's ghost.
#[derive(Debug, Clone, Copy)]
struct KvWindow {
    /// Number of typical entries.
    entries: usize,
    sampling: u32,
    keeps_last: bool,
    /// Memory of a ghost of this number of entries; it is never larger.
    bytes_max: usize,
    /// Average bytes of a looked-up entry, and the number of entries in the average.
    average: f32,
    averaged: u32,
    /// Bytes per entry that the ghost was sized for: at least the typical ones.
    made_for: f32,
}

impl KvWindow {
    const NONE: Self = Self {
        entries: 0,
        sampling: 1,
        keeps_last: false,
        bytes_max: 0,
        average: KV_TYPICAL_BYTES,
        averaged: SIZES_AT_FIRST,
        made_for: KV_TYPICAL_BYTES,
    };

    fn ghost(&self) -> Ghost {
        let entries = (self.entries as f32 * (KV_TYPICAL_BYTES / self.made_for)) as usize;
        Ghost::new(entries, self.sampling).keeping_last(self.keeps_last)
    }

    /// Records the size of a looked-up entry; returns a new ghost if it must be rebuilt.
    fn note(&mut self, charge: usize) -> Option<Ghost> {
        self.averaged = (self.averaged + 1).min(SIZES_AVERAGED);
        self.average += (charge as f32 - self.average) / self.averaged as f32;
        let due = self.average.max(KV_TYPICAL_BYTES);
        let is_apart = due > self.made_for * SIZE_CHANGE || due * SIZE_CHANGE < self.made_for;
        if !is_apart {
            return None;
        }
        self.made_for = due;
        Some(self.ghost())
    }

    /// The weight of a hit of an entry of `charge` bytes, by the benefit per byte.
    fn share(&self, charge: usize) -> f32 {
        self.made_for / charge as f32
    }
}

/// The cost of lookups.
#[derive(Debug, Clone, Copy)]
struct Costs {
    /// Average I/Os of a lookup by the level on which it ends.
    measured: [f32; LEVELS],
    /// Average I/Os of all lookups.
    average: f32,
    by: CostBy,
}

/// The assumed cost of a key's lookup.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CostBy {
    /// The average of lookups that end on its level.
    Level,
    /// The sketch's count: it counts the I/Os of each key, not its lookups.
    Sketch,
    /// The average of all lookups.
    Average,
}

impl Costs {
    const UNKNOWN: Self = Self { measured: [1.0; LEVELS], average: 1.0, by: CostBy::Level };

    /// Records the reads of a lookup that ended on `level`.
    fn note(&mut self, level: u8, reads: f32) {
        for known in [&mut self.measured[usize::from(level)], &mut self.average] {
            *known += (reads - *known) * READS_GAIN;
        }
    }

    /// Average I/Os of a lookup that ends on `level`.
    fn measured(&self, level: u8) -> f32 {
        self.measured[usize::from(level)]
    }

    /// The assumed cost of a lookup that ends on `level`, for scoring.
    fn assumed(&self, level: u8) -> f32 {
        if self.by == CostBy::Average { self.average } else { self.measured(level) }
    }

    /// I/Os that a KV hit saves, per count of the sketch.
    fn saved_by_value(&self, level: u8) -> f32 {
        if self.by == CostBy::Sketch { 1.0 } else { self.assumed(level) }
    }

    /// The sketch's count for one lookup.
    fn counted_for(&self, level: u8) -> f32 {
        if self.by == CostBy::Sketch { self.assumed(level).max(1.0) } else { 1.0 }
    }

    /// The same rounded, for a lookup that KV or KP answered.
    fn times_counted(&self, level: u8) -> u16 {
        self.counted_for(level).round() as u16
    }

    /// I/Os that a KP hit saves, per count of the sketch: all but the read of the block.
    fn saved_by_pointer(&self, level: u8) -> f32 {
        (self.assumed(level) - 1.0).max(0.0) / self.counted_for(level)
    }
}

struct KvScorer<'a> {
    hash_of: HashOf,
    sketch: &'a Sketch<Narrow>,
    costs: &'a Costs,
    ghost: &'a mut Ghost,
}

impl kv::Scorer for KvScorer<'_> {
    fn hash(&self, name: Name<'_>) -> u64 {
        (self.hash_of)(name)
    }

    fn worth(&mut self, hash: u64, entry: &KvEntry<'_>, uses: u8) -> f32 {
        let each = self.costs.counted_for(entry.level);
        let times = times(self.sketch, hash as u32, uses, each);
        times * self.costs.saved_by_value(entry.level) / entry.charge() as f32
    }

    fn evicted(&mut self, hash: u64, _: usize) {
        self.ghost.note(hash as u32, self.sketch);
    }
}

struct KpScorer<'a> {
    sketch: &'a Sketch<Narrow>,
    costs: &'a Costs,
    ghost: &'a mut Ghost,
}

impl kp::Scorer for KpScorer<'_> {
    fn worth(&mut self, hash: u32, entry: &KpEntry, uses: u8) -> f32 {
        let each = self.costs.counted_for(entry.level);
        times(self.sketch, hash, uses, each) * self.costs.saved_by_pointer(entry.level)
    }

    fn evicted(&mut self, hash: u32) {
        self.ghost.note(hash, self.sketch);
    }
}

/// Inserts an entry into KV and updates the price if that evicted an entry.
fn insert(
    kv: &mut KvShard,
    kv_price: &mut f32,
    hash: u64,
    entry: KvEntry<'_>,
    scorer: &mut KvScorer<'_>,
) {
    let before = kv.price();
    kv.insert(hash, entry, scorer);
    if kv.price() != before {
        *kv_price = kv.price();
    }
}

/// The expected accesses of a key, without a unit; where I/Os are counted, times the I/Os of a
/// lookup.
fn times(sketch: &Sketch<Narrow>, hash: u32, uses: u8, each: f32) -> f32 {
    sketch.rate(spread(hash)) + 0.25 * f32::from(uses) * each
}

/// The sketch is updated once per this number of hits of permanently hot entries.
const HOT_HITS_PER_UPDATE: u16 = 8;

/// An offered memory hit counts as this number of accesses, because most are not offered.
const MEMORY_HIT_WEIGHT: u8 = 16;

/// Weight of a new lookup in the moving averages of I/Os.
const READS_GAIN: f32 = 1.0 / 256.0;

/// The result of a lookup in the point cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PointCacheLookup<R> {
    /// The value.
    Value(R),
    /// A pointer, which may belong to another key.
    Pointer(KpEntry),
    /// Neither.
    Miss,
}

impl PointShard {
    /// A shard without capacity, of about `bytes_expected` bytes in the end. It measures nothing
    /// until [`PointShard::measure`] sets the bytes for that.
    pub fn new(hash_of: HashOf, bytes_expected: usize) -> Self {
        Self {
            hash_of,
            fingerprint_mask: u32::MAX,
            kv: KvShard::new(0, bytes_expected),
            kp: KpShard::new(0),
            sketch: Sketch::new(0),
            hot_hits: 0,
            kv_ghost: Ghost::new(0, 1),
            kv_window: KvWindow::NONE,
            kp_ghost: Ghost::new(0, 1),
            costs: Costs::UNKNOWN,
            kv_price: 0.0,
            saved: PointReads::default(),
            wanted: PointReads::default(),
            ablations: Ablations::NONE,
        }
    }

    /// Switches mechanisms off. `reads`: the I/Os of lookups by level according to AC-Key. Call
    /// [`PointShard::measure`] afterwards.
    pub fn set_ablations(&mut self, ablations: Ablations, reads: [f32; LEVELS]) {
        let was_given = self.ablations.has(Ablation::MeasuredBenefit);
        if ablations.has(Ablation::MeasuredBenefit) {
            self.costs = Costs { measured: reads, ..Costs::UNKNOWN };
        } else if was_given {
            self.costs = Costs::UNKNOWN;
        }
        self.costs.by = match () {
            () if ablations.has(Ablation::Cost) => CostBy::Average,
            () if ablations.has(Ablation::CostByLevel) => CostBy::Sketch,
            () => CostBy::Level,
        };
        self.kv.set_by_age(ablations.has(Ablation::Admission));
        self.kp.set_by_age(ablations.has(Ablation::Admission));
        if ablations != self.ablations {
            self.kv_price = 0.0;
        }
        self.ablations = ablations;
    }

    /// Restarts the measurement, with a sketch of at most `sketch_bytes`, and ghosts for windows of
    /// `window_bytes` that record every `sampling`-th key (KP's a fourth of these).
    pub fn measure(&mut self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        self.sketch = Sketch::new(sketch_bytes);
        let bytes = self.ablations.entry_bytes();
        let entries = window_bytes / KV_GHOST_BYTES * Ablations::COMPACT.kv / bytes.kv;
        let keeps_last = self.ablations.has(Ablation::GhostChoice);
        let bytes_max = Ghost::new(entries, sampling).charged_bytes();
        self.kv_window = KvWindow { entries, sampling, keeps_last, bytes_max, ..self.kv_window };
        self.kv_ghost = self.kv_window.ghost();
        self.kp_ghost = Ghost::new(window_bytes / bytes.kp, 4 * sampling)
            .keeping_last(keeps_last)
            .with_near_part(KP_NEAR_PART);
    }

    /// Makes KP identify keys by `bits` bits of their hashes, at most 32. For tests of fingerprint
    /// collisions; call it before any insert.
    pub fn set_fingerprint_bits(&mut self, bits: u32) {
        assert!(self.kp.is_empty(), "fingerprints change while there are entries");
        self.fingerprint_mask = u32::MAX.checked_shr(u32::BITS - bits.min(32)).unwrap_or(0);
    }

    /// Whether values, and pointers, fit without evictions.
    pub fn have_room(&self) -> (bool, bool) {
        (self.kv.has_room(), self.kp.has_room())
    }

    /// Charged bytes of KV and KP.
    pub fn charged_bytes(&self) -> (usize, usize) {
        (self.kv.charged_bytes(), self.kp.charged_bytes())
    }

    /// Bytes of sketch and ghosts, with KV's at its largest.
    pub fn measuring_bytes(&self) -> usize {
        self.sketch.charged_bytes() + self.kv_window.bytes_max + self.kp_ghost.charged_bytes()
    }

    /// The number of entries of KV and KP.
    pub fn len(&self) -> (usize, usize) {
        (self.kv.len(), self.kp.len())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// Average I/Os of a lookup that ends on `level`.
    pub fn reads(&self, level: u8) -> f32 {
        self.costs.measured(level.min(kv::LEVEL_MAX))
    }

    /// Counts an access of a key.
    pub fn record_access(&self, hash: u64) {
        self.sketch.add(spread(hash as u32));
    }

    /// Looks up `name`; `read` converts the entry, or returns none if the reader must not see it.
    pub fn lookup<R>(
        &mut self,
        hash: u64,
        name: Name<'_>,
        read: impl FnOnce(KvEntry<'_>) -> Option<R>,
    ) -> PointCacheLookup<R> {
        if let Some((entry, is_hot)) = self.kv.get(hash, name) {
            let level = entry.level;
            let Some(found) = read(entry) else { return PointCacheLookup::Miss };
            self.saved.kv += f64::from(self.costs.measured(level));
            self.note_hit(hash, is_hot, level);
            return PointCacheLookup::Value(found);
        }
        let Some(entry) = self.kp.get(self.fingerprint(hash)) else {
            return PointCacheLookup::Miss;
        };
        self.saved.kp += f64::from((self.costs.measured(entry.level) - 1.0).max(0.0));
        // The read of the block is counted when it happens.
        let times = self.costs.times_counted(entry.level) - 1;
        if times > 0 {
            self.sketch.add_times(spread(hash as u32), times);
        }
        PointCacheLookup::Pointer(entry)
    }

    /// Counts a hit that saved storage reads. For permanently hot values the sketch is updated only
    /// now and then, which saves most hits a cache line.
    fn note_hit(&mut self, hash: u64, is_hot: bool, level: u8) {
        let times = self.costs.times_counted(level);
        match is_hot {
            false if times == 1 => self.record_access(hash),
            false => self.sketch.add_times(spread(hash as u32), times),
            true => {
                self.hot_hits += 1;
                // Pseudo-random, because keys may be accessed in sequence.
                if mixed(self.hot_hits).is_multiple_of(u32::from(HOT_HITS_PER_UPDATE)) {
                    self.sketch.add_times(spread(hash as u32), times * HOT_HITS_PER_UPDATE);
                }
            }
        }
    }

    /// I/Os saved by hits, by the averages of their levels.
    pub fn saved(&self) -> PointReads {
        self.saved
    }

    /// I/Os that larger components would have saved, by their ghosts.
    pub fn wanted(&self) -> PointReads<GhostHits> {
        self.wanted
    }

    /// Offers the result of a lookup; decides what to cache.
    pub fn resolved(&mut self, hash: u64, resolved: &LookupResult<'_>) {
        let fingerprint = self.fingerprint(hash);
        let Self { hash_of, sketch, costs, kv_ghost, kv_window, kp_ghost, wanted, .. } = self;
        let is_measured = !self.ablations.has(Ablation::MeasuredBenefit);
        let (reads, data_reads) = match is_measured {
            true => (resolved.reads, resolved.data_reads),
            false => (costs.measured(resolved.entry.level), 1.0),
        };

        // KV needs no bytes for entries that it would not hold, KP none while it can grow.
        let is_for_kv = self.kv.can_hold(&resolved.entry);
        if is_for_kv {
            let charge = resolved.entry.charge();
            if let Some(hits) = kv_ghost.take(hash as u32, sketch) {
                wanted.kv += hits * f64::from(reads * kv_window.share(charge));
            }
            if let Some(ghost) = kv_window.note(charge) {
                *kv_ghost = ghost;
            }
        }
        if !resolved.by_pointer {
            if let Some(hits) = kp_ghost.take(fingerprint, sketch)
                && !self.kp.can_grow()
            {
                wanted.kp += hits * f64::from((reads - data_reads).max(0.0));
            }
            if is_measured {
                costs.note(resolved.entry.level, reads);
            }
        }
        // One is counted already; ghosts use the counts before this lookup.
        if costs.by == CostBy::Sketch && reads >= 2.0 && !resolved.by_pointer {
            sketch.add_times(spread(hash as u32), reads as u16 - 1);
        }
        let mut scorer = KvScorer { hash_of: *hash_of, sketch, costs, ghost: kv_ghost };
        let worth = kv::Scorer::worth(&mut scorer, hash, &resolved.entry, 0);
        if worth >= self.kv_price || self.ablations.has(Ablation::Admission) {
            insert(&mut self.kv, &mut self.kv_price, hash, resolved.entry, &mut scorer);
        } else {
            self.kv_price *= 1.0 - PRICE_DECAY;
        }
        if is_for_kv && !self.kv.contains(hash, resolved.entry.name) {
            kv_ghost.note(hash as u32, sketch);
        }
        // If only the data block was read, a pointer would have saved nothing.
        let spares = reads > data_reads || self.ablations.has(Ablation::Admission);
        if let (Some(pointer), false, true) = (resolved.pointer, resolved.by_pointer, spares) {
            let entry = KpEntry { pointer, level: resolved.entry.level };
            let mut scorer = KpScorer { sketch, costs, ghost: kp_ghost };
            self.kp.insert(fingerprint, entry, &mut scorer);
        }
    }

    /// Offers the entry of a sampled lookup that found it in cached blocks. KV caches it if it has
    /// room, so that this evicts no entry that saves reads; and if it was offered before, also if
    /// it is worth more than the next victim: its data block takes many times its bytes, and is
    /// evicted if no other entry of it is accessed. That saves a read elsewhere. Returns the number
    /// of lookups, represented by this one, that a larger KV would have answered.
    pub fn offer_memory_hit(&mut self, hash: u64, entry: KvEntry<'_>) -> u32 {
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        if self.kv.has_room() {
            let mut scorer = KvScorer { hash_of: *hash_of, sketch, costs, ghost };
            self.kv.insert(hash, entry, &mut scorer);
            return 0;
        }
        if !self.kv.can_hold(&entry) {
            return 0;
        }
        let answered = ghost.take(hash as u32, sketch).unwrap_or_default();
        let of_level = costs.saved_by_value(entry.level).max(1.0);
        let mut scorer = KvScorer { hash_of: *hash_of, sketch, costs, ghost };
        // A key offered once may be a chance access: it must be offered again.
        let worth = kv::Scorer::worth(&mut scorer, hash, &entry, 0) / of_level;
        // Does not age other counts: unsampled accesses are not counted.
        let counted = u8::try_from(sketch.count(spread(hash as u32))).unwrap_or(u8::MAX);
        sketch.raise(spread(hash as u32), counted.saturating_add(MEMORY_HIT_WEIGHT));
        // Without a price, no entry that saves reads has been evicted yet.
        if self.kv_price > 0.0 && worth >= self.kv_price {
            insert(&mut self.kv, &mut self.kv_price, hash, entry, &mut scorer);
        }
        if !self.kv.contains(hash, entry.name) {
            self.kv_ghost.note(hash as u32, &self.sketch);
        }
        answered.window as u32
    }

    /// Updates a key to its new version in level 0: `entry`, or none. KV takes the new value if it
    /// holds the key; returns whether KP has an entry to redirect.
    pub fn update(&mut self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        let fingerprint = self.fingerprint(hash);
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        let mut scorer = KvScorer { hash_of: *hash_of, sketch, costs, ghost };
        match entry {
            Some(entry) => {
                if self.kv.contains(hash, name) {
                    self.kv.insert(hash, entry, &mut scorer);
                }
                self.kp.peek(fingerprint).is_some()
            }
            None => {
                self.kv.remove(hash, name, &scorer);
                self.kp.remove(fingerprint);
                false
            }
        }
    }

    /// Points the KP entry of `hash` to `to`: the newest version of a key with that hash.
    pub fn redirect(&mut self, hash: u64, to: KpEntry) {
        self.kp.redirect(self.fingerprint(hash), to);
    }

    /// Moves the pointer of `hash` from `from` to `to`; returns whether there was one.
    pub fn relocate(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool {
        let fingerprint = self.fingerprint(hash);
        let matches = self.kp.peek(fingerprint).is_some_and(|entry| entry.pointer == from);
        matches && self.kp.redirect(fingerprint, to)
    }

    /// Drops the KV entries whose names are `is_named`, and the KP entries that point into tables
    /// that are `is_in`.
    pub fn forget(&mut self, is_named: impl Fn(Name<'_>) -> bool, is_in: impl Fn(u64) -> bool) {
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        let scorer = KvScorer { hash_of: *hash_of, sketch, costs, ghost };
        self.kv.remove_where(|entry| is_named(entry.name), &scorer);
        self.kp.remove_where(|entry| is_in(entry.pointer.table));
    }

    /// Calls `see` for every KV entry, with the recent access count of its key.
    pub fn for_each_value(&self, mut see: impl FnMut(KvEntry<'_>, u8)) {
        self.kv.for_each_entry(|entry, uses| {
            let hash = (self.hash_of)(entry.name);
            see(entry, self.count(hash as u32).max(uses));
        });
    }

    /// All KP entries with their fingerprints and the recent access counts of their keys.
    pub fn pointers(&self) -> impl Iterator<Item = (u32, KpEntry, u8)> {
        let see = move |(fingerprint, entry)| (fingerprint, entry, self.count(fingerprint));
        self.kp.iter().map(see)
    }

    fn count(&self, fingerprint: u32) -> u8 {
        u8::try_from(self.sketch.count(spread(fingerprint))).unwrap_or(u8::MAX)
    }

    /// Raises the access count of `hash` to `times`.
    pub fn restore_frequency(&self, hash: u64, times: u8) {
        self.sketch.raise(spread(hash as u32), times);
    }

    /// Restores a KV entry of a previous run, if there is room; returns whether it is cached now.
    pub fn restore_value(&mut self, hash: u64, entry: KvEntry<'_>) -> bool {
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        let has_room = self.kv.has_room();
        if has_room {
            let mut scorer = KvScorer { hash_of: *hash_of, sketch, costs, ghost };
            self.kv.insert(hash, entry, &mut scorer);
        }
        has_room && self.kv.contains(hash, entry.name)
    }

    /// Restores a KP entry of a previous run for `hash`.
    pub fn restore_pointer(&mut self, hash: u64, entry: KpEntry) {
        let fingerprint = self.fingerprint(hash);
        let Self { sketch, costs, kp_ghost: ghost, .. } = self;
        self.kp.insert(fingerprint, entry, &mut KpScorer { sketch, costs, ghost });
    }

    /// The KP entries that point into tables that are `is_in`, with their fingerprints.
    pub fn pointers_into(
        &self,
        is_in: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (u32, Pointer)> {
        let entries = self.kp.iter().map(|(fingerprint, entry)| (fingerprint, entry.pointer));
        entries.filter(move |(_, pointer)| is_in(pointer.table))
    }

    /// Changes the capacities of KV and KP; entries that no longer fit are evicted.
    pub fn set_capacities(&mut self, kv: usize, kp: usize) {
        let Self { hash_of, sketch, costs, kv_ghost, kp_ghost, .. } = self;
        let mut scorer = KvScorer { hash_of: *hash_of, sketch, costs, ghost: kv_ghost };
        if kv > self.kv.capacity() {
            self.kv_price = 0.0;
        }
        self.kv.set_capacity(kv, &mut scorer);
        let mut scorer = KpScorer { sketch, costs, ghost: kp_ghost };
        self.kp.set_capacity(kp, &mut scorer);
    }

    /// The capacities of KV and KP in bytes.
    pub fn capacities(&self) -> (usize, usize) {
        (self.kv.capacity(), self.kp.capacity())
    }

    fn fingerprint(&self, hash: u64) -> u32 {
        hash as u32 & self.fingerprint_mask
    }
}

#[cfg(test)]
mod tests;
