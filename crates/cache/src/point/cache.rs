//! The point cache: sharded KV and KP entries for all threads.
//!
//! A reader that looks up a key and caches the result takes five steps:
//!
//! ```text
//!   1. epoch = cache.epoch(hash)          before it chooses the view
//!   2. view  = the current tree
//!   3. memtables of the view              a version there is newer than the cache
//!   4. cache.lookup(name), else the tree
//!   5. cache.resolved(epoch, ...)         only versions from the tree, and only if the
//!                                         lookup skipped no newer version
//! ```
//!
//! A flush, whose new versions are in memtables until the view changes:
//!
//! ```text
//!   1. cache.advance_epoch()                older results are rejected from now on
//!   2. cache.update(name), redirect(...)    for every key
//!   3. publish the view with the tables, without the memtables
//! ```
//!
//! Any other change, whose new versions are invisible until the view changes:
//!
//! ```text
//!   1. change = cache.begin_change()      results are rejected until it ends
//!   2. cache.forget(...)
//!   3. publish the view, and everything else that makes the versions visible
//!   4. drop(change)
//! ```
//!
//! Guarantees:
//! 1. *No stale insert.* A result from a view before a flush is rejected; later readers find the
//!    new version in the memtables of their view. So at each moment a cached entry is the newest
//!    version of its key in the tables of any view that is loaded from then on, or newer than that.
//! 2. *Pointers are exact.* A KP entry points to the one position of the newest version of a key;
//!    the reader that follows it checks the key there. There is at most one per fingerprint (under
//!    AC-Key, which stores keys, per key), so an update of a key replaces the older one.
//! 3. The bytes of each component are at most its capacity at every moment.
//!
//! A lookup takes one short lock. Thread-safe; changes of different trees may run concurrently,
//! changes of one tree may not.

use std::ops::AddAssign;

use crate::ablation::Ablations;
use crate::name::Name;
use crate::partition::ghost::GhostHits;
use crate::point::entries::{Entries, PointEntries};
use crate::point::kp::{KpEntry, Pointer};
use crate::point::kv::KvEntry;
use crate::point::shard::{HashOf, LEVELS, LookupResult, PointCacheLookup, PointReads, PointShard};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::epoch::AtomicU64;

/// The bits of a hash above this one select the shard.
const SHARD_SHIFT: u32 = 40;

/// An epoch counts changes; this number of its lowest bits counts the running ones.
const UNDER_WAY_BITS: u32 = 16;

/// The changes that a shard had seen when a lookup began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// Whether a result from this epoch may still be cached at `now`.
    fn holds(self, now: u64) -> bool {
        self.0 == now && now & ((1 << UNDER_WAY_BITS) - 1) == 0
    }
}

/// Counters of the point cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PointStats {
    /// Lookups answered by KV.
    pub kv_hits: u64,
    /// Lookups for which KP had a pointer.
    pub kp_hits: u64,
    /// Lookups with neither.
    pub misses: u64,
    /// Pointers to a missing entry or to another key.
    pub kp_errors: u64,
    /// Pointers that were redirected when their entries moved.
    pub kp_moves: u64,
    /// Entries rejected because the tree had changed.
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
struct ShardState {
    /// The counter that every hit changes, next to the other fields that a hit changes: the fewer
    /// cache lines cores take from each other, the better.
    kv_hits: u64,
    entries: Entries,
    /// All but `kv_hits`.
    stats: PointStats,
    /// Reads saved by, and ghost hits of, earlier entries in other formats.
    before: (PointReads, PointReads<GhostHits>),
}

/// A shard on its own cache lines (two, because the processor fetches pairs).
#[derive(Debug)]
#[repr(C, align(128))]
struct Shard {
    /// Incremented under the lock.
    epoch: AtomicU64,
    state: Mutex<ShardState>,
}

/// KV and KP entries, sharded.
#[derive(Debug)]
pub struct PointCache {
    hash_of: HashOf,
    /// The expected bytes of a shard.
    shard_bytes: usize,
    /// Number of hash bits that identify a key in KP.
    fingerprint_bits: AtomicU32,
    /// Whether results of lookups without reads are offered too.
    caches_memory_hits: AtomicBool,
    /// A power of two.
    shards: Box<[Shard]>,
    /// Whether the cache may hold entries or measures accesses.
    is_used: AtomicBool,
    /// Whether KV or KP has a capacity.
    holds_entries: AtomicBool,
}

/// A running change of the tree; it ends when this is dropped.
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
    /// A cache without capacity in `shards` shards (a power of two), of about `shard_bytes` bytes
    /// each in the end.
    pub fn new(hash_of: HashOf, shards: usize, shard_bytes: usize) -> Self {
        assert!(shards.is_power_of_two(), "{shards} shards are no power of two");
        let shard = || Shard {
            epoch: AtomicU64::new(0),
            state: Mutex::new(ShardState {
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
            caches_memory_hits: AtomicBool::new(false),
            shards: (0..shards).map(|_| shard()).collect(),
            is_used: AtomicBool::new(false),
            holds_entries: AtomicBool::new(false),
        }
    }

    /// Whether the cache is enabled.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Uses other bits than the position within the shard, which uses the lowest.
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> SHARD_SHIFT) as usize & (self.shards.len() - 1)]
    }

    // ---- Reading ----

    /// The current epoch; take it before the view that the lookup reads.
    pub fn epoch(&self, hash: u64) -> Epoch {
        Epoch(self.shard(hash).epoch.load(Ordering::Acquire))
    }

    /// Looks up `name`; `read` converts the entry, or returns none if the reader must not see it.
    /// `read` runs under a lock: keep it short.
    #[inline]
    pub fn lookup<R>(
        &self,
        hash: u64,
        name: Name<'_>,
        read: impl FnOnce(KvEntry<'_>) -> Option<R>,
    ) -> PointCacheLookup<R> {
        let mut state = self.shard(hash).state.lock();
        let found = state.entries.lookup(hash, name, read);
        match &found {
            PointCacheLookup::Value(_) => state.kv_hits += 1,
            PointCacheLookup::Pointer(_) => state.stats.kp_hits += 1,
            PointCacheLookup::Miss => state.stats.misses += 1,
        }
        found
    }

    /// Records that a lookup of the key reads storage; memory hits save no read.
    pub fn record_access(&self, hash: u64) {
        self.shard(hash).state.lock().entries.record_access(hash);
    }

    /// Whether to offer results of lookups without storage reads too: AC-Key caches every result.
    pub fn caches_memory_hits(&self) -> bool {
        self.caches_memory_hits.load(Ordering::Relaxed)
    }

    /// Whether there may be entries to look up.
    pub fn holds_entries(&self) -> bool {
        self.holds_entries.load(Ordering::Relaxed)
    }

    /// Counts a pointer to a missing entry or to another key; the lookup's result replaces it.
    pub fn pointer_failed(&self, hash: u64) {
        self.shard(hash).state.lock().stats.kp_errors += 1;
    }

    /// Offers the result of a lookup that began at `epoch`; the policy decides what to cache.
    pub fn resolved(&self, hash: u64, epoch: Epoch, resolved: &LookupResult<'_>) {
        self.insert_if_fresh(hash, epoch, |entries| entries.resolved(hash, resolved));
    }

    /// The same for a lookup without reads ([`PointShard::offer_memory_hit`]).
    pub fn offer_memory_hit(&self, hash: u64, epoch: Epoch, entry: KvEntry<'_>) -> u32 {
        self.insert_if_fresh(hash, epoch, |entries| entries.offer_memory_hit(hash, entry))
    }

    /// Passes the result of a lookup that began at `epoch` on to the entries, unless it may be
    /// stale.
    fn insert_if_fresh<R: Default>(
        &self,
        hash: u64,
        epoch: Epoch,
        show: impl FnOnce(&mut Entries) -> R,
    ) -> R {
        let shard = self.shard(hash);
        let mut state = shard.state.lock();
        if !epoch.holds(shard.epoch.load(Ordering::Relaxed)) {
            state.stats.stale_inserts += 1;
            return R::default();
        }
        show(&mut state.entries)
    }

    // ---- Changes of the tree ----

    /// Call before memtables of the view are flushed: results of running lookups will be rejected.
    pub fn advance_epoch(&self) {
        self.advance_epochs(1 << UNDER_WAY_BITS);
    }

    /// Call before the tree changes: results of lookups that begin before the change ends will be
    /// rejected.
    pub fn begin_change(&self) -> Change<'_> {
        self.advance_epochs((1 << UNDER_WAY_BITS) + 1);
        Change { cache: self }
    }

    fn advance_epochs(&self, by: u64) {
        for shard in &self.shards {
            // Waits for inserts that have compared epochs already.
            let _inside = shard.state.lock();
            shard.epoch.fetch_add(by, Ordering::AcqRel);
        }
    }

    /// Updates the key to its new version: `entry`, or none. Returns whether KP has a pointer for
    /// its hash, which the caller must redirect before the change is published.
    pub fn update(&self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        self.shard(hash).state.lock().entries.update(hash, name, entry)
    }

    /// Points the KP entry of `hash` to `to`.
    pub fn redirect(&self, hash: u64, to: KpEntry) {
        self.shard(hash).state.lock().entries.redirect(hash, to);
    }

    /// Drops the KV entries whose names are `is_named`, and the KP entries that point into tables
    /// that are `is_in`.
    pub fn forget(&self, is_named: impl Fn(Name<'_>) -> bool, is_in: impl Fn(u64) -> bool) {
        for shard in &self.shards {
            shard.state.lock().entries.forget(&is_named, &is_in);
        }
    }

    /// At most `pointers_max` pointers into tables that are `is_in`, each with a hash for
    /// [`PointCache::relocate`].
    pub fn pointers_into(
        &self,
        is_in: impl Fn(u64) -> bool,
        pointers_max: usize,
    ) -> Vec<(Pointer, u64)> {
        let mut pointers = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let left = pointers_max - pointers.len();
            let state = shard.state.lock();
            let found = state.entries.pointers_into(&is_in).take(left);
            let hash = |fingerprint| (number as u64) << SHARD_SHIFT | u64::from(fingerprint);
            pointers.extend(found.map(|(fingerprint, pointer)| (pointer, hash(fingerprint))));
        }
        pointers
    }

    /// Moves the pointer of `hash` from `from` to `to`, if there is one.
    pub fn relocate(&self, hash: u64, from: Pointer, to: KpEntry) {
        let mut state = self.shard(hash).state.lock();
        state.stats.kp_moves += u64::from(state.entries.relocate(hash, from, to));
    }

    // ---- Warm start ----

    /// The number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// [`PointShard::for_each_value`] of one shard.
    pub fn for_each_value(&self, shard: usize, see: impl FnMut(KvEntry<'_>, u8)) {
        self.shards[shard].state.lock().entries.for_each_value(see);
    }

    /// Calls `see` for the KP entries of one shard, with the known part of the hash and the recent
    /// access count.
    pub fn for_each_pointer(&self, shard: usize, mut see: impl FnMut(u64, KpEntry, u8)) {
        let state = self.shards[shard].state.lock();
        state.entries.for_each_pointer(|fingerprint, entry, times| {
            see((shard as u64) << SHARD_SHIFT | u64::from(fingerprint), entry, times);
        });
    }

    /// Raises the access count of `hash` to `times`, from a previous run of the process.
    pub fn restore_frequency(&self, hash: u64, times: u8) {
        self.shard(hash).state.lock().entries.restore_frequency(hash, times);
    }

    /// Restores an entry from [`PointCache::for_each_value`] if there is room; returns whether it
    /// is cached now. Call it before any lookup, and only while the tables are unchanged.
    pub fn restore_value(&self, hash: u64, entry: KvEntry<'_>) -> bool {
        self.shard(hash).state.lock().entries.restore_value(hash, entry)
    }

    /// Restores an entry from [`PointCache::for_each_pointer`] of a cache with at most as many
    /// shards. Call it before any lookup.
    pub fn restore_pointer(&self, hash: u64, entry: KpEntry) {
        self.shard(hash).state.lock().entries.restore_pointer(hash, entry);
    }

    // ---- Formats ----

    /// Replaces the crate's own entries by the baselines that `make` creates, one per shard, or
    /// switches back. Drops all entries; the capacity is 0 until it is set again.
    pub(crate) fn set_baseline(&self, make: Option<&dyn Fn() -> Box<dyn PointEntries>>) {
        self.caches_memory_hits.store(make.is_some(), Ordering::Relaxed);
        self.holds_entries.store(false, Ordering::Relaxed);
        for shard in &self.shards {
            let own = PointShard::new(self.hash_of, self.shard_bytes);
            let mut entries = Entries::new(own, make.map(|make| make()));
            entries.set_fingerprint_bits(self.fingerprint_bits.load(Ordering::Relaxed));
            let mut state = shard.state.lock();
            let old = std::mem::replace(&mut state.entries, entries);
            state.before.0 += old.saved();
            state.before.1 += old.wanted();
            drop(state);
            drop(old);
        }
    }

    /// [`PointShard::set_ablations`] for all shards.
    pub fn set_ablations(&self, ablations: Ablations, reads: [f32; LEVELS]) {
        self.shards.iter().for_each(|s| s.state.lock().entries.set_ablations(ablations, reads));
    }

    /// Bounds a baseline's ghosts, in bytes for all shards together; they start empty.
    pub fn set_ghost_bytes(&self, bytes: usize) {
        let bytes = bytes / self.shards.len();
        self.each_baseline(|shard| shard.set_ghost_bytes(bytes));
    }

    /// The bytes that a baseline's ghosts would use, for all shards together.
    pub fn ghost_bytes_wanted(&self) -> usize {
        let mut most = 0;
        self.each_baseline(|shard| most = most.max(shard.ghost_bytes_wanted()));
        most * self.shards.len()
    }

    /// The bytes that new entries of a baseline needed and did not find free since the last call.
    pub fn take_wanted_bytes(&self) -> usize {
        let mut bytes = 0;
        self.each_baseline(|shard| bytes += shard.take_wanted_bytes());
        bytes
    }

    fn each_baseline(&self, mut does: impl FnMut(&mut dyn PointEntries)) {
        for shard in &self.shards {
            shard.state.lock().entries.baseline().into_iter().for_each(&mut does);
        }
    }

    // ---- Bytes ----

    /// Restarts the measurement, with bytes for all shards together ([`PointShard::measure`]).
    pub fn measure(&self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        let shards = self.shards.len();
        for shard in &self.shards {
            let entries = &mut shard.state.lock().entries;
            entries.measure(sketch_bytes / shards, window_bytes / shards, sampling);
        }
    }

    /// Enables or disables lookups.
    pub fn set_used(&self, is_used: bool) {
        self.is_used.store(is_used, Ordering::Relaxed);
    }

    /// Sets the capacities of KV and KP in bytes, for all shards together; entries that no longer
    /// fit are evicted.
    pub fn set_capacities(&self, kv: usize, kp: usize) {
        self.holds_entries.store(kv + kp > 0, Ordering::Relaxed);
        let shards = self.shards.len();
        for shard in &self.shards {
            shard.state.lock().entries.set_capacities(kv / shards, kp / shards);
        }
    }

    /// The capacities of KV and KP in bytes, for all shards together.
    pub fn capacities(&self) -> (usize, usize) {
        self.sum(|state| state.entries.capacities())
    }

    /// [`PointShard::set_fingerprint_bits`] for all shards.
    pub fn set_fingerprint_bits(&self, bits: u32) {
        self.fingerprint_bits.store(bits, Ordering::Relaxed);
        self.shards.iter().for_each(|s| s.state.lock().entries.set_fingerprint_bits(bits));
    }

    /// Charged bytes of KV and KP.
    pub fn charged_bytes(&self) -> (usize, usize) {
        self.sum(|state| state.entries.charged_bytes())
    }

    /// Whether most shards have room for more values, and for more pointers (like
    /// [`BlockCache::has_room`](crate::BlockCache::has_room)).
    pub fn have_room(&self) -> (bool, bool) {
        let (kv, kp) = self.sum(|state| {
            let (kv, kp) = state.entries.have_room();
            (usize::from(kv), usize::from(kp))
        });
        (2 * kv > self.shards.len(), 2 * kp > self.shards.len())
    }

    /// The number of KV and KP entries.
    pub fn len(&self) -> (usize, usize) {
        self.sum(|state| state.entries.len())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// Bytes of sketches and ghosts.
    pub fn measuring_bytes(&self) -> usize {
        self.sum(|state| (state.entries.measuring_bytes(), 0)).0
    }

    /// I/Os saved by hits.
    pub fn saved(&self) -> PointReads {
        self.reads(|state| (state.before.0, state.entries.saved()))
    }

    /// I/Os that larger components would have saved.
    pub fn wanted(&self) -> PointReads<GhostHits> {
        self.reads(|state| (state.before.1, state.entries.wanted()))
    }

    fn reads<R: Default + AddAssign>(
        &self,
        of: impl Fn(&ShardState) -> (PointReads<R>, PointReads<R>),
    ) -> PointReads<R> {
        let mut all = PointReads::default();
        for shard in &self.shards {
            let (before, now) = of(&shard.state.lock());
            all += before;
            all += now;
        }
        all
    }

    /// The counters, summed over the shards.
    pub fn stats(&self) -> PointStats {
        let mut stats = PointStats::default();
        for shard in &self.shards {
            let state = shard.state.lock();
            stats += PointStats { kv_hits: state.kv_hits, ..state.stats };
        }
        stats
    }

    fn sum(&self, of: impl Fn(&ShardState) -> (usize, usize)) -> (usize, usize) {
        let add = |(a, b), (c, d)| (a + c, b + d);
        self.shards.iter().map(|shard| of(&shard.state.lock())).fold((0, 0), add)
    }
}

#[cfg(test)]
mod tests;
