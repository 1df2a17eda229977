//! The point cache: KV and KP entries in shards, for all threads.
//!
//! Whoever looks something up and puts in what it found does it in five steps:
//!
//! ```text
//!   1. epoch = cache.epoch(hash)          before it decides what it reads
//!   2. view  = the tree as it is now
//!   3. memtables of the view              what they know is newer than what is here
//!   4. cache.lookup(name), else the tree
//!   5. cache.resolved(epoch, ...)         only what stood in the tree, and only if no
//!                                         newer version was passed over
//! ```
//!
//! A flush, whose new versions stand in memtables until the view changes:
//!
//! ```text
//!   1. cache.turn()                       what was found before is refused
//!   2. cache.sync(name), redirect(...)    for every key
//!   3. publishes the view with the tables, without the memtables
//! ```
//!
//! Any other change, whose new versions are seen by nobody until the view changes:
//!
//! ```text
//!   1. change = cache.begin_change()      what is found until it ends is refused
//!   2. cache.forget(...)
//!   3. publishes the view, and whatever else makes them seen
//!   4. drop(change)
//! ```
//!
//! Guarantees:
//! 1. *No stale insert.* What was found in a view from before a flush is refused; whoever
//!    comes later finds the new version in the memtables of its view. So at each moment an
//!    entry that is here is the newest version of its key in the tables of any view that is
//!    loaded from then on, or newer than that.
//! 2. *Pointers are exact.* A KP entry leads to the one position where the newest version
//!    of a key stood; whoever follows it sees whether it is the key. There is at most one
//!    for a fingerprint (under AC-Key, which keeps them, for a key), so that a sync of a
//!    key takes away what is older.
//! 3. The bytes of each component are at most its capacity at every moment.
//!
//! A lookup takes one short lock. Safe to use from all threads; changes of different
//! trees may be under way at once, of one tree only one.

use std::ops::AddAssign;

use crate::ideas::Ideas;
use crate::name::Name;
use crate::partition::ghost::Wanted;
use crate::point::entries::{Entries, PointEntries};
use crate::point::kp::{KpEntry, Pointer};
use crate::point::kv::KvEntry;
use crate::point::shard::{HashOf, LEVELS, LookupResult, PointCacheLookup, PointReads, PointShard};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::epoch::AtomicU64;

/// The bits of a hash from here on say which shard it belongs to.
const SHARD_SHIFT: u32 = 40;

/// An epoch counts changes; so many of its lowest bits count those under way.
const UNDER_WAY_BITS: u32 = 16;

/// What a shard had seen of changes of the tree when a lookup began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// Whether what was found since may be kept if the shard has come to `now`.
    fn holds(self, now: u64) -> bool {
        self.0 == now && now & ((1 << UNDER_WAY_BITS) - 1) == 0
    }
}

/// What the point cache counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PointStats {
    /// Lookups that KV answered.
    pub kv_hits: u64,
    /// Lookups that KP had a pointer for.
    pub kp_hits: u64,
    /// Lookups that it knew nothing of.
    pub misses: u64,
    /// Pointers that led nowhere, or to another key.
    pub kp_errors: u64,
    /// Pointers that were kept when their entries moved.
    pub kp_moves: u64,
    /// Entries that were refused because the tree had changed.
    pub stale_inserts: u64,
}

impl AddAssign for PointStats {
    fn add_assign(&mut self, other: Self) {
        self.kv_hits += other.kv_hits;
        self.kp_hits += other.kp_hits;
        self.misses += other.misses;
        self.kp_errors += other.kp_errors;
        self.kp_moves += other.kp_moves;
        self.stale_inserts += other.stale_inserts;
    }
}

#[derive(Debug)]
#[repr(C)]
struct Inside {
    /// Of the counters the one that every hit changes, beside what else it changes: the
    /// less that one core takes from another, the better.
    kv_hits: u64,
    entries: Entries,
    /// But for `kv_hits`.
    stats: PointStats,
    /// What entries of other formats have saved that were here before, and wanted.
    before: (PointReads, PointReads<Wanted>),
}

/// A shard on cache lines of its own (two, because the processor fetches pairs).
#[derive(Debug)]
#[repr(C, align(128))]
struct Shard {
    /// Counted up under the lock.
    epoch: AtomicU64,
    inside: Mutex<Inside>,
}

/// KV and KP entries, sharded.
#[derive(Debug)]
pub struct PointCache {
    hash_of: HashOf,
    /// About what a shard will have.
    shard_bytes: usize,
    /// By how many bits of their hashes KP knows keys.
    fingerprint_bits: AtomicU32,
    /// Whether lookups are to be shown that read nothing.
    keeps_unread: AtomicBool,
    /// A power of two of them.
    shards: Box<[Shard]>,
    /// Whether anything may be here, or is to be measured.
    is_used: AtomicBool,
    /// Whether KV or KP may have bytes.
    holds_entries: AtomicBool,
}

/// A change of the tree that is under way; it ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Change<'a> {
    cache: &'a PointCache,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        for shard in &self.cache.shards {
            shard.epoch.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl PointCache {
    /// A cache without bytes in `shards` shards (a power of two), of which each will have
    /// about `shard_bytes`.
    pub fn new(hash_of: HashOf, shards: usize, shard_bytes: usize) -> Self {
        assert!(shards.is_power_of_two(), "{shards} shards are no power of two");
        let shard = || Shard {
            epoch: AtomicU64::new(0),
            inside: Mutex::new(Inside {
                kv_hits: 0,
                entries: Entries::new(PointShard::new(hash_of, shard_bytes), None),
                stats: PointStats::default(),
                before: Default::default(),
            }),
        };
        Self {
            hash_of,
            shard_bytes,
            fingerprint_bits: AtomicU32::new(u32::BITS),
            keeps_unread: AtomicBool::new(false),
            shards: (0..shards).map(|_| shard()).collect(),
            is_used: AtomicBool::new(false),
            holds_entries: AtomicBool::new(false),
        }
    }

    /// Whether lookups are worth while.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// The lowest bits of a hash place an entry in its shard; these are others.
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> SHARD_SHIFT) as usize & (self.shards.len() - 1)]
    }

    // ---- Reading ----

    /// To be taken before the view that a lookup reads.
    pub fn epoch(&self, hash: u64) -> Epoch {
        Epoch(self.shard(hash).epoch.load(Ordering::Acquire))
    }

    /// What is known of the key of `name`; `read` makes of an entry what is wanted, or
    /// nothing if that may not be seen. It runs under a lock: it is to be short.
    #[inline]
    pub fn lookup<R>(
        &self,
        hash: u64,
        name: Name<'_>,
        read: impl FnOnce(KvEntry<'_>) -> Option<R>,
    ) -> PointCacheLookup<R> {
        let mut inside = self.shard(hash).inside.lock();
        let found = inside.entries.lookup(hash, name, read);
        match &found {
            PointCacheLookup::Value(_) => inside.kv_hits += 1,
            PointCacheLookup::Pointer(_) => inside.stats.kp_hits += 1,
            PointCacheLookup::Miss => inside.stats.misses += 1,
        }
        found
    }

    /// Notes that a lookup of the key reads storage: what is in memory anyway saves none.
    pub fn asked(&self, hash: u64) {
        self.shard(hash).inside.lock().entries.asked(hash);
    }

    /// Whether what was found is to be shown even if no storage was read for it: AC-Key
    /// keeps whatever is looked up.
    pub fn keeps_unread(&self) -> bool {
        self.keeps_unread.load(Ordering::Relaxed)
    }

    /// Whether there may be anything to look up.
    pub fn holds_entries(&self) -> bool {
        self.holds_entries.load(Ordering::Relaxed)
    }

    /// A pointer led nowhere, or to another key: what is found instead takes its place.
    pub fn pointer_failed(&self, hash: u64) {
        self.shard(hash).inside.lock().stats.kp_errors += 1;
    }

    /// Decides what is kept of what a lookup found that began at `epoch`.
    pub fn resolved(&self, hash: u64, epoch: Epoch, resolved: &LookupResult<'_>) {
        self.show(hash, epoch, |entries| entries.resolved(hash, resolved));
    }

    /// The same of a lookup that read nothing ([`PointShard::found_in_memory`]).
    pub fn found_in_memory(&self, hash: u64, epoch: Epoch, entry: KvEntry<'_>) -> u32 {
        self.show(hash, epoch, |entries| entries.found_in_memory(hash, entry))
    }

    /// Shows entries what a lookup found that began at `epoch`, unless it may be stale.
    fn show<R: Default>(&self, hash: u64, epoch: Epoch, show: impl FnOnce(&mut Entries) -> R) -> R {
        let shard = self.shard(hash);
        let mut inside = shard.inside.lock();
        if !epoch.holds(shard.epoch.load(Ordering::Relaxed)) {
            inside.stats.stale_inserts += 1;
            return R::default();
        }
        show(&mut inside.entries)
    }

    // ---- Changes of the tree ----

    /// Memtables that are in the view are about to be flushed: what lookups under way
    /// have found will be refused.
    pub fn turn(&self) {
        self.count_up(1 << UNDER_WAY_BITS);
    }

    /// The tree is about to change: whatever lookups find that begin before the change
    /// ends will be refused.
    pub fn begin_change(&self) -> Change<'_> {
        self.count_up((1 << UNDER_WAY_BITS) + 1);
        Change { cache: self }
    }

    fn count_up(&self, by: u64) {
        for shard in &self.shards {
            // Nobody who has compared epochs is still putting something in.
            let _inside = shard.inside.lock();
            shard.epoch.fetch_add(by, Ordering::AcqRel);
        }
    }

    /// The key has a new version: `entry`, or nothing. Whether KP has a pointer for its
    /// hash, which is to be redirected before the change is published.
    pub fn sync(&self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        self.shard(hash).inside.lock().entries.sync(hash, name, entry)
    }

    /// What KP has under `hash` leads to `to` from now on.
    pub fn redirect(&self, hash: u64, to: KpEntry) {
        self.shard(hash).inside.lock().entries.redirect(hash, to);
    }

    /// Takes out the KV entries whose names are `is_named`, and the KP entries that lead
    /// into tables that are `is_in`.
    pub fn forget(&self, is_named: impl Fn(Name<'_>) -> bool, is_in: impl Fn(u64) -> bool) {
        for shard in &self.shards {
            shard.inside.lock().entries.forget(&is_named, &is_in);
        }
    }

    /// At most `pointers_max` pointers into tables that are `is_in`, each with a hash that
    /// [`PointCache::follow`] takes.
    pub fn pointers_into(
        &self,
        is_in: impl Fn(u64) -> bool,
        pointers_max: usize,
    ) -> Vec<(Pointer, u64)> {
        let mut pointers = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let left = pointers_max - pointers.len();
            let inside = shard.inside.lock();
            let found = inside.entries.pointers_into(&is_in).take(left);
            let hash = |fingerprint| (number as u64) << SHARD_SHIFT | u64::from(fingerprint);
            pointers.extend(found.map(|(fingerprint, pointer)| (pointer, hash(fingerprint))));
        }
        pointers
    }

    /// The entry of a key of that hash, which stood at `from`, stands at `to` now.
    pub fn follow(&self, hash: u64, from: Pointer, to: KpEntry) {
        let mut inside = self.shard(hash).inside.lock();
        inside.stats.kp_moves += u64::from(inside.entries.follow(hash, from, to));
    }

    // ---- From one life to the next ----

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// As [`PointShard::look_at_values`], of one shard.
    pub fn look_at_values(&self, shard: usize, see: impl FnMut(KvEntry<'_>, u8)) {
        self.shards[shard].inside.lock().entries.look_at_values(see);
    }

    /// Has `see` look at the KP entries of one shard, with the parts of their hashes that
    /// are known, and how often their keys were asked for lately.
    pub fn look_at_pointers(&self, shard: usize, mut see: impl FnMut(u64, KpEntry, u8)) {
        let inside = self.shards[shard].inside.lock();
        inside.entries.look_at_pointers(|fingerprint, entry, times| {
            see((shard as u64) << SHARD_SHIFT | u64::from(fingerprint), entry, times);
        });
    }

    /// A key of that hash was asked for so many times.
    pub fn remember(&self, hash: u64, times: u8) {
        self.shard(hash).inside.lock().entries.remember(hash, times);
    }

    /// Brings back what [`PointCache::look_at_values`] has shown, if there is room; whether
    /// it is here now. Before anything is looked up, and as long as the tables are what
    /// they were.
    pub fn restore_value(&self, hash: u64, entry: KvEntry<'_>) -> bool {
        self.shard(hash).inside.lock().entries.restore_value(hash, entry)
    }

    /// Brings back what [`PointCache::look_at_pointers`] has shown of a cache of as many
    /// shards, or more. Before anything is looked up.
    pub fn restore_pointer(&self, hash: u64, entry: KpEntry) {
        self.shard(hash).inside.lock().entries.restore_pointer(hash, entry);
    }

    // ---- Formats ----

    /// From now on the baselines that `make` makes, one for each shard, are in the place of
    /// the product's own entries, or these are back. What is here goes; it has no bytes until
    /// it gets some.
    pub(crate) fn set_baseline(&self, make: Option<&dyn Fn() -> Box<dyn PointEntries>>) {
        self.keeps_unread.store(make.is_some(), Ordering::Relaxed);
        self.holds_entries.store(false, Ordering::Relaxed);
        for shard in &self.shards {
            let own = PointShard::new(self.hash_of, self.shard_bytes);
            let mut entries = Entries::new(own, make.map(|make| make()));
            entries.set_fingerprint_bits(self.fingerprint_bits.load(Ordering::Relaxed));
            let mut inside = shard.inside.lock();
            let gone = std::mem::replace(&mut inside.entries, entries);
            inside.before.0 += gone.saved();
            inside.before.1 += gone.wanted();
            drop(inside);
            drop(gone);
        }
    }

    /// As [`PointShard::set_without`].
    pub fn set_without(&self, without: Ideas, reads: [f32; LEVELS]) {
        self.shards.iter().for_each(|s| s.inside.lock().entries.set_without(without, reads));
    }

    /// What a baseline's ghosts may take, for all shards together; none knows of anything at
    /// first.
    pub fn set_ghost_bytes(&self, bytes: usize) {
        let bytes = bytes / self.shards.len();
        self.each_baseline(|shard| shard.set_ghost_bytes(bytes));
    }

    /// What a baseline's ghosts would like to take, for all shards together.
    pub fn ghost_bytes_wanted(&self) -> usize {
        let mut most = 0;
        self.each_baseline(|shard| most = most.max(shard.ghost_bytes_wanted()));
        most * self.shards.len()
    }

    /// What entries of a baseline wanted and did not find free since this was asked last, in
    /// bytes.
    pub fn take_wanted_bytes(&self) -> usize {
        let mut bytes = 0;
        self.each_baseline(|shard| bytes += shard.take_wanted_bytes());
        bytes
    }

    fn each_baseline(&self, mut does: impl FnMut(&mut dyn PointEntries)) {
        for shard in &self.shards {
            shard.inside.lock().entries.baseline().into_iter().for_each(&mut does);
        }
    }

    // ---- Bytes ----

    /// Begins to measure anew, with so many bytes for all shards together
    /// ([`PointShard::measure`]).
    pub fn measure(&self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        let shards = self.shards.len();
        for shard in &self.shards {
            let entries = &mut shard.inside.lock().entries;
            entries.measure(sketch_bytes / shards, window_bytes / shards, sampling);
        }
    }

    /// Lookups are worth while from now on, or no more.
    pub fn set_used(&self, is_used: bool) {
        self.is_used.store(is_used, Ordering::Relaxed);
    }

    /// Changes the bounds of KV and KP, for all shards together; what does not fit any
    /// more leaves.
    pub fn set_capacities(&self, kv: usize, kp: usize) {
        self.holds_entries.store(kv + kp > 0, Ordering::Relaxed);
        let shards = self.shards.len();
        for shard in &self.shards {
            shard.inside.lock().entries.set_capacities(kv / shards, kp / shards);
        }
    }

    /// The bounds of KV and KP, for all shards together.
    pub fn capacities(&self) -> (usize, usize) {
        self.sum(|inside| inside.entries.capacities())
    }

    /// As [`PointShard::set_fingerprint_bits`].
    pub fn set_fingerprint_bits(&self, bits: u32) {
        self.fingerprint_bits.store(bits, Ordering::Relaxed);
        self.shards.iter().for_each(|s| s.inside.lock().entries.set_fingerprint_bits(bits));
    }

    /// The bytes of KV and KP.
    pub fn charged_bytes(&self) -> (usize, usize) {
        self.sum(|inside| inside.entries.charged_bytes())
    }

    /// Whether most shards have room for more values, and for more pointers (as
    /// [`BlockCache::has_room`](crate::BlockCache::has_room)).
    pub fn have_room(&self) -> (bool, bool) {
        let (kv, kp) = self.sum(|inside| {
            let (kv, kp) = inside.entries.have_room();
            (usize::from(kv), usize::from(kp))
        });
        (2 * kv > self.shards.len(), 2 * kp > self.shards.len())
    }

    /// How many KV and KP entries there are.
    pub fn len(&self) -> (usize, usize) {
        self.sum(|inside| inside.entries.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// The bytes of sketches and ghosts.
    pub fn measuring_bytes(&self) -> usize {
        self.sum(|inside| (inside.entries.measuring_bytes(), 0)).0
    }

    /// I/Os that hits have saved.
    pub fn saved(&self) -> PointReads {
        self.reads(|inside| (inside.before.0, inside.entries.saved()))
    }

    /// I/Os that larger components would have saved.
    pub fn wanted(&self) -> PointReads<Wanted> {
        self.reads(|inside| (inside.before.1, inside.entries.wanted()))
    }

    fn reads<R: Default + AddAssign>(
        &self,
        of: impl Fn(&Inside) -> (PointReads<R>, PointReads<R>),
    ) -> PointReads<R> {
        let mut all = PointReads::default();
        for shard in &self.shards {
            let (before, now) = of(&shard.inside.lock());
            all += before;
            all += now;
        }
        all
    }

    /// The counters, summed over the shards.
    pub fn stats(&self) -> PointStats {
        let mut stats = PointStats::default();
        for shard in &self.shards {
            let inside = shard.inside.lock();
            stats += PointStats { kv_hits: inside.kv_hits, ..inside.stats };
        }
        stats
    }

    fn sum(&self, of: impl Fn(&Inside) -> (usize, usize)) -> (usize, usize) {
        let add = |(a, b), (c, d)| (a + c, b + d);
        self.shards.iter().map(|shard| of(&shard.inside.lock())).fold((0, 0), add)
    }
}

#[cfg(test)]
mod tests;
