//! One shard of the point cache: what answers point lookups without the tree.
//!
//! ```text
//!              ┌── KV ──► the value            0 I/Os
//!   lookup ────┤
//!              ├── KP ──► the block's place    1 I/O, or 0 if the block is cached
//!              └── neither: the tree           as many as it takes
//! ```
//!
//! After a lookup that read storage (of others see [`PointShard::found_in_memory`]),
//! [`PointShard::resolved`] decides what is kept
//! of what it found, by what the entry is worth: how often its key was asked for lately,
//! times the I/Os that a hit saves, per byte. The I/Os are measured: a moving average
//! of those that lookups ending on that level really did (AC-Key, section 4.2, takes
//! them from a formula; the ideas `cost` and `cost-by-level` change what a lookup is taken to
//! cost, see `CostBy`). What is refused is noted in the ghosts, as is what leaves:
//! otherwise a component without bytes could never show that it wants some.
//!
//! What is here is told of every change of the tree ([`PointShard::sync`],
//! [`PointShard::redirect`], [`PointShard::forget`]); the rules of who may put something
//! in are [`PointCache`](crate::point::cache::PointCache)'s.
//!
//! For one thread at a time; pure.

use std::ops::AddAssign;

use crate::block::filter_worth::mixed;
use crate::ideas::{Idea, Ideas};
use crate::name::Name;
use crate::partition::ghost::{Ghost, Wanted, spread};
use crate::partition::sketch::{Narrow, Sketch};
use crate::point::kp::{self, KpEntry, KpShard, Pointer};
use crate::point::kv::{self, KvEntry, KvShard};

/// Levels that are told apart.
pub const LEVELS: usize = kv::LEVEL_MAX as usize + 1;

/// A refusal lowers the price of KV entries by one part in so many, so that a price
/// from another time does not stay: entries leave only when others come.
const PRICE_DECAY: f32 = 1.0 / 512.0;

/// What a ghost of KV takes an entry of usual size to be: one with a name of 16 bytes and a
/// value of 100. (Kept at 120, not at the 139 that it takes: with those, gets of hot keys at
/// 1 % read 1.18 times as often, as KV stays at a place that is only better than nearby.)
const KV_GHOST_BYTES: usize = 120;
const KV_USUAL_BYTES: f32 = 139.0;
/// The average size of entries is that of the last so many, about: of fewer, a ghost would
/// often be made anew where long and short ones come mixed.
const SIZES_AVERAGED: u32 = 4096;
/// As many of usual size have come before the first.
const SIZES_AT_FIRST: u32 = 64;
/// A ghost is made anew when entries have become so many times as long or short.
const SIZE_CHANGE: f32 = 1.25;
/// One part in so many of KP's window is near: its first bytes are worth the most by far where
/// few keys need a pointer, so that less is lost by telling them by one fingerprint of a bucket.
const KP_NEAR_PART: usize = 8;
const _: () = assert!(Ideas::COMPACT.kp == kp::ENTRY_BYTES);

/// The hash that entries of a name are found by ([`Name::hash`]).
pub type HashOf = fn(Name<'_>) -> u64;

/// How a lookup ended that KV could not answer.
#[derive(Debug, Clone, Copy)]
pub struct LookupResult<'a> {
    /// The entry, its level included.
    pub entry: KvEntry<'a>,
    /// Where it stands.
    pub pointer: Option<Pointer>,
    /// Storage I/Os that the lookup did.
    pub reads: f32,
    /// Of these, those of the data block: one or none.
    pub data_reads: f32,
    /// Whether KP knew the place.
    pub by_pointer: bool,
}

/// Storage I/Os that are put down to KV and KP: a number (`R`), or what ghosts say of one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PointReads<R = f64> {
    /// To KV.
    pub kv: R,
    /// To KP.
    pub kp: R,
}

impl<R: AddAssign> AddAssign for PointReads<R> {
    fn add_assign(&mut self, other: Self) {
        self.kv += other.kv;
        self.kp += other.kp;
    }
}

/// What KV and KP hold of one part of the hashes.
#[derive(Debug)]
#[repr(C)]
pub struct PointShard {
    // What every hit changes comes first, to stand in one cache line with the lock.
    /// Hits of entries that are asked for all the time.
    hot_hits: u64,
    saved: PointReads,
    hash_of: HashOf,
    /// Of a hash, what KP knows it by.
    fingerprint_mask: u32,
    kv: KvShard,
    kp: KpShard,
    sketch: Sketch<Narrow>,
    kv_ghost: Ghost,
    kv_window: KvWindow,
    kp_ghost: Ghost,
    costs: Costs,
    /// Below this worth, entries do not come into KV.
    kv_price: f32,
    wanted: PointReads<Wanted>,
    without: Ideas,
}

/// What KV's ghost is made for.
#[derive(Debug, Clone, Copy)]
struct KvWindow {
    /// Entries of usual size.
    entries: usize,
    sampling: u32,
    keeps_last: bool,
    /// What a ghost of so many entries takes; it never is larger.
    bytes_max: usize,
    /// Bytes of an entry, on average of those that were found, and of how many.
    average: f32,
    averaged: u32,
    /// Bytes of an entry that the ghost was made for: at least the usual ones.
    made_for: f32,
}

impl KvWindow {
    const NONE: Self = Self {
        entries: 0,
        sampling: 1,
        keeps_last: false,
        bytes_max: 0,
        average: KV_USUAL_BYTES,
        averaged: SIZES_AT_FIRST,
        made_for: KV_USUAL_BYTES,
    };

    fn ghost(&self) -> Ghost {
        let entries = (self.entries as f32 * (KV_USUAL_BYTES / self.made_for)) as usize;
        Ghost::new(entries, self.sampling).keeping_last(self.keeps_last)
    }

    /// An entry of so many bytes was found; another ghost, if that is due.
    fn note(&mut self, charge: usize) -> Option<Ghost> {
        self.averaged = (self.averaged + 1).min(SIZES_AVERAGED);
        self.average += (charge as f32 - self.average) / self.averaged as f32;
        let due = self.average.max(KV_USUAL_BYTES);
        let is_apart = due > self.made_for * SIZE_CHANGE || due * SIZE_CHANGE < self.made_for;
        if !is_apart {
            return None;
        }
        self.made_for = due;
        Some(self.ghost())
    }

    /// What a hit of an entry of so many bytes counts for: by what a byte would save.
    fn share(&self, charge: usize) -> f32 {
        self.made_for / charge as f32
    }
}

/// What lookups cost.
#[derive(Debug, Clone, Copy)]
struct Costs {
    /// By level: I/Os of a lookup that ends there, on average.
    measured: [f32; LEVELS],
    /// I/Os of a lookup, on average.
    average: f32,
    by: CostBy,
}

/// What a lookup of a key is taken to cost.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CostBy {
    /// The average of lookups that end on its level.
    Level,
    /// What the sketch has counted: it counts the I/Os of each key, not its lookups.
    Sketch,
    /// The average of all lookups.
    Nothing,
}

impl Costs {
    const UNKNOWN: Self = Self { measured: [1.0; LEVELS], average: 1.0, by: CostBy::Level };

    /// A lookup that ended on `level` did so many.
    fn note(&mut self, level: u8, reads: f32) {
        for known in [&mut self.measured[usize::from(level)], &mut self.average] {
            *known += (reads - *known) * READS_GAIN;
        }
    }

    /// I/Os of a lookup that ends on `level`.
    fn measured(&self, level: u8) -> f32 {
        self.measured[usize::from(level)]
    }

    /// What a lookup that ends on `level` is taken to cost, when it is judged.
    fn taken(&self, level: u8) -> f32 {
        if self.by == CostBy::Nothing { self.average } else { self.measured(level) }
    }

    /// What a hit of KV saves, for each that the sketch counts.
    fn saved_by_value(&self, level: u8) -> f32 {
        if self.by == CostBy::Sketch { 1.0 } else { self.taken(level) }
    }

    /// What the sketch counts for a lookup.
    fn counted_for(&self, level: u8) -> f32 {
        if self.by == CostBy::Sketch { self.taken(level).max(1.0) } else { 1.0 }
    }

    /// The same in whole numbers, for one that KV or KP has answered.
    fn times_counted(&self, level: u8) -> u16 {
        self.counted_for(level).round() as u16
    }

    /// What a hit of KP saves, for each that the sketch counts: all but the read of the block.
    fn saved_by_pointer(&self, level: u8) -> f32 {
        (self.taken(level) - 1.0).max(0.0) / self.counted_for(level)
    }
}

struct KvJudge<'a> {
    hash_of: HashOf,
    sketch: &'a Sketch<Narrow>,
    costs: &'a Costs,
    ghost: &'a mut Ghost,
}

impl kv::Judge for KvJudge<'_> {
    fn hash(&self, name: Name<'_>) -> u64 {
        (self.hash_of)(name)
    }

    fn worth(&mut self, hash: u64, entry: &KvEntry<'_>, asked: u8) -> f32 {
        let each = self.costs.counted_for(entry.level);
        let times = times(self.sketch, hash as u32, asked, each);
        times * self.costs.saved_by_value(entry.level) / entry.charge() as f32
    }

    fn left(&mut self, hash: u64, _: usize) {
        self.ghost.note(hash as u32, self.sketch);
    }
}

struct KpJudge<'a> {
    sketch: &'a Sketch<Narrow>,
    costs: &'a Costs,
    ghost: &'a mut Ghost,
}

impl kp::Judge for KpJudge<'_> {
    fn worth(&mut self, hash: u32, entry: &KpEntry, asked: u8) -> f32 {
        let each = self.costs.counted_for(entry.level);
        times(self.sketch, hash, asked, each) * self.costs.saved_by_pointer(entry.level)
    }

    fn left(&mut self, hash: u32) {
        self.ghost.note(hash, self.sketch);
    }
}

/// Puts an entry into KV. Has its price follow if that pushed out something.
fn insert(
    kv: &mut KvShard,
    kv_price: &mut f32,
    hash: u64,
    entry: KvEntry<'_>,
    judge: &mut KvJudge<'_>,
) {
    let before = kv.price();
    kv.insert(hash, entry, judge);
    if kv.price() != before {
        *kv_price = kv.price();
    }
}

/// How often a key will be asked for, in no unit; where I/Os are counted, times those that a
/// lookup does.
fn times(sketch: &Sketch<Narrow>, hash: u32, asked: u8, each: f32) -> f32 {
    sketch.rate(spread(hash)) + 0.25 * f32::from(asked) * each
}

/// Of so many hits of entries that are asked for all the time the sketch is told once.
const HOT_HITS_TOLD: u16 = 8;

/// A key that is found in memory and shown counts as asked for so many times: it is one of
/// many that are not shown.
const SHOWN: u8 = 16;

/// How fast averages of I/Os follow: a new lookup counts for so much.
const READS_GAIN: f32 = 1.0 / 256.0;

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PointCacheLookup<R> {
    /// The entry.
    Value(R),
    /// Where it stands, if that is the key at all.
    Pointer(KpEntry),
    /// Neither.
    Miss,
}

impl PointShard {
    /// A shard without bytes, which will have about `bytes_usual`. It measures nothing
    /// until [`PointShard::measure`] says how much it may take for that.
    pub fn new(hash_of: HashOf, bytes_usual: usize) -> Self {
        Self {
            hash_of,
            fingerprint_mask: u32::MAX,
            kv: KvShard::new(0, bytes_usual),
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
            without: Ideas::NONE,
        }
    }

    /// From now on it does without these. `reads`: what AC-Key takes lookups that end on a
    /// level to cost. To be followed by [`PointShard::measure`].
    pub fn set_without(&mut self, without: Ideas, reads: [f32; LEVELS]) {
        let was_given = self.without.has(Idea::MeasuredBenefit);
        if without.has(Idea::MeasuredBenefit) {
            self.costs = Costs { measured: reads, ..Costs::UNKNOWN };
        } else if was_given {
            self.costs = Costs::UNKNOWN;
        }
        self.costs.by = match () {
            () if without.has(Idea::Cost) => CostBy::Nothing,
            () if without.has(Idea::CostByLevel) => CostBy::Sketch,
            () => CostBy::Level,
        };
        self.kv.set_by_age(without.has(Idea::Admission));
        self.kp.set_by_age(without.has(Idea::Admission));
        if without != self.without {
            self.kv_price = 0.0;
        }
        self.without = without;
    }

    /// Begins to measure anew, with a sketch of at most `sketch_bytes`, and ghosts for
    /// windows of `window_bytes` that know of every `sampling`-th key (KP's of a fourth
    /// of these).
    pub fn measure(&mut self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        self.sketch = Sketch::new(sketch_bytes);
        let bytes = self.without.entry_bytes();
        let entries = window_bytes / KV_GHOST_BYTES * Ideas::COMPACT.kv / bytes.kv;
        let keeps_last = self.without.has(Idea::GhostChoice);
        let bytes_max = Ghost::new(entries, sampling).charged_bytes();
        self.kv_window = KvWindow { entries, sampling, keeps_last, bytes_max, ..self.kv_window };
        self.kv_ghost = self.kv_window.ghost();
        self.kp_ghost = Ghost::new(window_bytes / bytes.kp, 4 * sampling)
            .keeping_last(keeps_last)
            .with_near_part(KP_NEAR_PART);
    }

    /// Has KP know keys by so many bits of their hashes, at most 32. For tests of what
    /// happens when keys are taken for each other; before anything is put in.
    pub fn set_fingerprint_bits(&mut self, bits: u32) {
        assert!(self.kp.is_empty(), "fingerprints change while there are entries");
        self.fingerprint_mask = u32::MAX.checked_shr(u32::BITS - bits.min(32)).unwrap_or(0);
    }

    /// Whether values could come in without any leaving for them, and whether pointers could.
    pub fn have_room(&self) -> (bool, bool) {
        (self.kv.has_room(), self.kp.has_room())
    }

    /// The bytes of KV and KP.
    pub fn charged_bytes(&self) -> (usize, usize) {
        (self.kv.charged_bytes(), self.kp.charged_bytes())
    }

    /// The bytes of sketch and ghosts, KV's as large as it may become.
    pub fn measuring_bytes(&self) -> usize {
        self.sketch.charged_bytes() + self.kv_window.bytes_max + self.kp_ghost.charged_bytes()
    }

    /// Entries of KV and KP.
    pub fn len(&self) -> (usize, usize) {
        (self.kv.len(), self.kp.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// I/Os of a lookup that ends on `level`, on average.
    pub fn reads(&self, level: u8) -> f32 {
        self.costs.measured(level.min(kv::LEVEL_MAX))
    }

    /// Notes that a key was asked for.
    pub fn asked(&self, hash: u64) {
        self.sketch.add(spread(hash as u32));
    }

    /// What is known of the key of `name`; `read` makes of an entry what is wanted, or
    /// nothing if that may not be seen.
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
        // The read of the block is counted when it is done.
        let times = self.costs.times_counted(entry.level) - 1;
        if times > 0 {
            self.sketch.add_times(spread(hash as u32), times);
        }
        PointCacheLookup::Pointer(entry)
    }

    /// A value would have cost reads of storage. Of one that is asked for all the time the
    /// sketch is told now and then: that spares most hits a cache line.
    fn note_hit(&mut self, hash: u64, is_hot: bool, level: u8) {
        let times = self.costs.times_counted(level);
        match is_hot {
            false if times == 1 => self.asked(hash),
            false => self.sketch.add_times(spread(hash as u32), times),
            true => {
                self.hot_hits += 1;
                // In no order: keys may be asked for in turn.
                if mixed(self.hot_hits).is_multiple_of(u32::from(HOT_HITS_TOLD)) {
                    self.sketch.add_times(spread(hash as u32), times * HOT_HITS_TOLD);
                }
            }
        }
    }

    /// I/Os that hits have saved, as far as lookups of their levels say.
    pub fn saved(&self) -> PointReads {
        self.saved
    }

    /// I/Os that larger components would have saved, by their ghosts.
    pub fn wanted(&self) -> PointReads<Wanted> {
        self.wanted
    }

    /// Decides what is kept of what a lookup found.
    pub fn resolved(&mut self, hash: u64, resolved: &LookupResult<'_>) {
        let fingerprint = self.fingerprint(hash);
        let Self { hash_of, sketch, costs, kv_ghost, kv_window, kp_ghost, wanted, .. } = self;
        let is_measured = !self.without.has(Idea::MeasuredBenefit);
        let (reads, data_reads) = match is_measured {
            true => (resolved.reads, resolved.data_reads),
            false => (costs.measured(resolved.entry.level), 1.0),
        };

        // KV wants no bytes for what it would not hold, KP none while it can grow.
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
        // One is counted already; ghosts are asked by what was counted before.
        if costs.by == CostBy::Sketch && reads >= 2.0 && !resolved.by_pointer {
            sketch.add_times(spread(hash as u32), reads as u16 - 1);
        }
        let mut judge = KvJudge { hash_of: *hash_of, sketch, costs, ghost: kv_ghost };
        let worth = kv::Judge::worth(&mut judge, hash, &resolved.entry, 0);
        if worth >= self.kv_price || self.without.has(Idea::Admission) {
            insert(&mut self.kv, &mut self.kv_price, hash, resolved.entry, &mut judge);
        } else {
            self.kv_price *= 1.0 - PRICE_DECAY;
        }
        if is_for_kv && !self.kv.contains(hash, resolved.entry.name) {
            kv_ghost.note(hash as u32, sketch);
        }
        // Where no more than the data block was read a pointer would have spared nothing.
        let spares = reads > data_reads || self.without.has(Idea::Admission);
        if let (Some(pointer), false, true) = (resolved.pointer, resolved.by_pointer, spares) {
            let entry = KpEntry { pointer, level: resolved.entry.level };
            let mut judge = KpJudge { sketch, costs, ghost: kp_ghost };
            self.kp.insert(fingerprint, entry, &mut judge);
        }
    }

    /// A lookup found the entry in blocks that were in memory, one of many that did. KV keeps
    /// it where it has room, so that nothing leaves that saves reads; and if it was shown
    /// before, where it is worth more than what would leave: its data block takes many times
    /// its bytes, and goes if nobody else asks for it any more. That spares a read in its
    /// place. For how many lookups that a larger KV would have answered this one stands.
    pub fn found_in_memory(&mut self, hash: u64, entry: KvEntry<'_>) -> u32 {
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        if self.kv.has_room() {
            let mut judge = KvJudge { hash_of: *hash_of, sketch, costs, ghost };
            self.kv.insert(hash, entry, &mut judge);
            return 0;
        }
        if !self.kv.can_hold(&entry) {
            return 0;
        }
        let answered = ghost.take(hash as u32, sketch).unwrap_or_default();
        let of_level = costs.saved_by_value(entry.level).max(1.0);
        let mut judge = KvJudge { hash_of: *hash_of, sketch, costs, ghost };
        // Shown once, a key may have been asked for by chance: it is to be shown again.
        let worth = kv::Judge::worth(&mut judge, hash, &entry, 0) / of_level;
        // Without ageing others, which are asked for where this one was not shown.
        let told = u8::try_from(sketch.count(spread(hash as u32))).unwrap_or(u8::MAX);
        sketch.raise(spread(hash as u32), told.saturating_add(SHOWN));
        // Without a price nothing has left yet that saves reads.
        if self.kv_price > 0.0 && worth >= self.kv_price {
            insert(&mut self.kv, &mut self.kv_price, hash, entry, &mut judge);
        }
        if !self.kv.contains(hash, entry.name) {
            self.kv_ghost.note(hash as u32, &self.sketch);
        }
        answered.window as u32
    }

    /// A key has a new version, in level 0: `entry`, or nothing. What KV holds of it
    /// becomes that; whether KP has an entry that must be redirected.
    pub fn sync(&mut self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        let fingerprint = self.fingerprint(hash);
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        let mut judge = KvJudge { hash_of: *hash_of, sketch, costs, ghost };
        match entry {
            Some(entry) => {
                if self.kv.contains(hash, name) {
                    self.kv.insert(hash, entry, &mut judge);
                }
                self.kp.peek(fingerprint).is_some()
            }
            None => {
                self.kv.remove(hash, name, &judge);
                self.kp.remove(fingerprint);
                false
            }
        }
    }

    /// What KP has under `hash` leads to `to` from now on: the newest version of a key of
    /// that hash.
    pub fn redirect(&mut self, hash: u64, to: KpEntry) {
        self.kp.redirect(self.fingerprint(hash), to);
    }

    /// The entry of a key of that hash, which stood at `from`, stands at `to` now; whether
    /// KP knew it.
    pub fn follow(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool {
        let fingerprint = self.fingerprint(hash);
        let is_it = self.kp.peek(fingerprint).is_some_and(|entry| entry.pointer == from);
        is_it && self.kp.redirect(fingerprint, to)
    }

    /// Takes out the KV entries whose names are `is_named`, and the KP entries that lead
    /// into tables that are `is_in`.
    pub fn forget(&mut self, is_named: impl Fn(Name<'_>) -> bool, is_in: impl Fn(u64) -> bool) {
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        let judge = KvJudge { hash_of: *hash_of, sketch, costs, ghost };
        self.kv.remove_where(|entry| is_named(entry.name), &judge);
        self.kp.remove_where(|entry| is_in(entry.pointer.table));
    }

    /// Has `see` look at every KV entry, with how often its key was asked for lately.
    pub fn look_at_values(&self, mut see: impl FnMut(KvEntry<'_>, u8)) {
        self.kv.look_at_all(|entry, asked| {
            let hash = (self.hash_of)(entry.name);
            see(entry, self.count(hash as u32).max(asked));
        });
    }

    /// All KP entries by their fingerprints, with how often their keys were asked for
    /// lately.
    pub fn pointers(&self) -> impl Iterator<Item = (u32, KpEntry, u8)> {
        let see = move |(fingerprint, entry)| (fingerprint, entry, self.count(fingerprint));
        self.kp.iter().map(see)
    }

    fn count(&self, fingerprint: u32) -> u8 {
        u8::try_from(self.sketch.count(spread(fingerprint))).unwrap_or(u8::MAX)
    }

    /// A key of that hash was asked for so many times.
    pub fn remember(&self, hash: u64, times: u8) {
        self.sketch.raise(spread(hash as u32), times);
    }

    /// KV has this entry, as it had in an earlier life, if there is room; whether it has it.
    pub fn restore_value(&mut self, hash: u64, entry: KvEntry<'_>) -> bool {
        let Self { hash_of, sketch, costs, kv_ghost: ghost, .. } = self;
        let has_room = self.kv.has_room();
        if has_room {
            let mut judge = KvJudge { hash_of: *hash_of, sketch, costs, ghost };
            self.kv.insert(hash, entry, &mut judge);
        }
        has_room && self.kv.contains(hash, entry.name)
    }

    /// KP has this entry for a key of that hash, as it had in an earlier life.
    pub fn restore_pointer(&mut self, hash: u64, entry: KpEntry) {
        let fingerprint = self.fingerprint(hash);
        let Self { sketch, costs, kp_ghost: ghost, .. } = self;
        self.kp.insert(fingerprint, entry, &mut KpJudge { sketch, costs, ghost });
    }

    /// The KP entries that lead into tables that are `is_in`, by their fingerprints.
    pub fn pointers_into(
        &self,
        is_in: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (u32, Pointer)> {
        let entries = self.kp.iter().map(|(fingerprint, entry)| (fingerprint, entry.pointer));
        entries.filter(move |(_, pointer)| is_in(pointer.table))
    }

    /// Changes the bounds of KV and KP; what does not fit any more leaves.
    pub fn set_capacities(&mut self, kv: usize, kp: usize) {
        let Self { hash_of, sketch, costs, kv_ghost, kp_ghost, .. } = self;
        let mut judge = KvJudge { hash_of: *hash_of, sketch, costs, ghost: kv_ghost };
        if kv > self.kv.capacity() {
            self.kv_price = 0.0;
        }
        self.kv.set_capacity(kv, &mut judge);
        let mut judge = KpJudge { sketch, costs, ghost: kp_ghost };
        self.kp.set_capacity(kp, &mut judge);
    }

    /// The bounds of KV and KP.
    pub fn capacities(&self) -> (usize, usize) {
        (self.kv.capacity(), self.kp.capacity())
    }

    fn fingerprint(&self, hash: u64) -> u32 {
        hash as u32 & self.fingerprint_mask
    }
}

#[cfg(test)]
mod tests;
