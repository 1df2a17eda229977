//! The objects of one tenant: in DRAM, in shards, and on flash behind them.
//!
//! Guarantees: those of [`crate::cache`], of which it is all but time and versions.
//!
//! A key belongs to a shard, by its hash, and the shard's lock serialises its operations in DRAM
//! and on flash. No lock is held while a device is read: a reader acquires a lease from the shard,
//! and its result counts only if the lease is still valid ([`crate::dram`]).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tidekv_cache::{Evicted, Eviction};
use xxhash_rust::xxh3::xxh3_64;

use crate::access_observer::{Access, ObserverSlot};
use crate::device::recovery;
use crate::dram::{self, DramObject};
use crate::entry::SEGMENT_BYTES_MAX;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::fleet::copy_location::CopyLocation;
use crate::fleet::flash::{Flash, Start};
use crate::index::flash_dram::FlashDram;
use crate::object::{CachedObject, Change, Object};
use crate::options::{DRAM_BYTES_MIN, KEY_BYTES_MAX, OBJECT_DRAM_DIVISOR, Options};
use crate::segment::layout::{Layout, SEGMENT_BYTES_MIN};
use crate::segment::superblock::{NO_TIME, Opening};
use crate::stats::{Counter, Counters, Stats};

/// The most shards of DRAM.
const SHARDS_MAX: u64 = 64;
/// DRAM shrinks by this many bytes of a shard at a time ...
const STEP_BYTES: usize = 256 << 10;
/// ... and by this many if evicted objects go to flash, which takes ten times as long.
const STEP_BYTES_TO_FLASH: usize = 32 << 10;

/// Places of a shard that a sweep for expired objects visits under one lock.
const SWEEP_PLACES: usize = 1024;

pub(crate) type Shard = dram::Shard<CopyLocation>;

/// The objects of a tenant.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) shards: Box<[Mutex<Shard>]>,
    pub(crate) flash: Option<Flash>,
    pub(crate) counters: Counters,
    pub(crate) observer: ObserverSlot,
    /// Each shard has at least its part of this.
    dram_bytes: AtomicU64,
    /// The target size of each shard; read under its lock.
    shard_bytes_wanted: AtomicUsize,
    /// Held while both are changed.
    resizing: Mutex<()>,
    /// The part of the DRAM that flash takes.
    flash_dram: FlashDram,
    /// The least DRAM that it can have, and the DRAM with which it was opened.
    dram_bytes_min: u64,
    dram_bytes_opened: u64,
    object_bytes_max: u64,
    eviction: Eviction,
    /// The free bytes of each shard, if nothing may be evicted; written under its lock.
    free_bytes: Option<Box<[AtomicUsize]>>,
}

impl Pool {
    /// Opens the pool of these options.
    ///
    /// # Errors
    ///
    /// As [`crate::Cache::open`].
    pub(crate) fn open(
        options: &Options,
        opening: Opening,
        may_be_warm: bool,
        environment: &Environment,
    ) -> Result<(Self, Start)> {
        options.check()?;
        let (segment_bytes, flash_dram) = fitting(options, || evicted(options, environment))?;
        let options = &Options { segment_bytes, ..options.clone() };
        let flash_bytes = flash_dram.bytes(options.dram_bytes);
        let (flash, start) = match options.flash.is_empty() {
            true => (None, Start { warm: 0, version_max: 0, clear_at_s: NO_TIME }),
            false => {
                let limits = flash_dram.limits(options.dram_bytes);
                let (flash, start) =
                    Flash::open(options, limits, opening, may_be_warm, environment)?;
                (Some(flash), start)
            }
        };
        let objects_bytes = options.dram_bytes - flash_bytes;
        let shards_max = shards_max(options.object_bytes_max, options.dram_bytes);
        let shards = shards_for(options.object_bytes_max, objects_bytes, shards_max);
        let shard_bytes = objects_bytes / shards;
        let shard = |_| Mutex::new(Shard::new(options.eviction, shard_bytes as usize));
        let least = DRAM_BYTES_MIN.max(options.object_bytes_max * OBJECT_DRAM_DIVISOR);
        let pool = Self {
            // The present size evidently suffices for a cache.
            dram_bytes_min: options.dram_bytes.min(flash_dram.dram_bytes_for(least)),
            dram_bytes_opened: options.dram_bytes,
            shards: (0..shards).map(shard).collect(),
            flash,
            counters: Counters::default(),
            observer: ObserverSlot::default(),
            dram_bytes: AtomicU64::new(options.dram_bytes),
            shard_bytes_wanted: AtomicUsize::new(shard_bytes as usize),
            resizing: Mutex::new(()),
            flash_dram,
            object_bytes_max: options.object_bytes_max,
            eviction: options.eviction,
            free_bytes: (!options.evicts)
                .then(|| (0..shards).map(|_| AtomicUsize::new(shard_bytes as usize)).collect()),
        };
        Ok((pool, start))
    }

    /// Writes the objects in DRAM to flash, as far as there is room, and marks flash as cleanly
    /// closed. The pool is empty afterwards.
    pub(crate) fn close(&self, now_s: u32) {
        let Some(flash) = &self.flash else { return };
        for shard in &self.shards {
            let mut shard = shard.lock();
            let evicted = shard.set_capacity_bytes(0);
            for cached in evicted.iter() {
                // Here there is time to wait for a buffer.
                flash.drain_writes();
                self.put_on_flash(cached, now_s);
            }
        }
        flash.close();
    }

    /// The shard of a key with that hash.
    pub(crate) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.shards[self.shard_number(hash)].lock()
    }

    fn shard_number(&self, hash: u64) -> usize {
        // The upper half: the lower one places objects within a shard.
        ((hash >> 32) as usize * self.shards.len()) >> 32
    }

    /// Whether an object of these lengths has room without eviction, in place of one whose value
    /// has `old_len` bytes, if there is one. Locks nothing; exact under the lock of the key's shard.
    pub(crate) fn has_free_room_for(
        &self,
        hash: u64,
        (key_len, value_len): (usize, usize),
        old_len: Option<usize>,
    ) -> bool {
        let Some(free_bytes) = &self.free_bytes else { return true };
        let free_bytes = free_bytes[self.shard_number(hash)].load(Ordering::Relaxed);
        let taken = |len| object_bytes(key_len, len);
        taken(value_len) <= free_bytes + old_len.map_or(0, taken)
    }

    /// Records the free bytes of a shard, under its lock.
    fn note_free_bytes(&self, hash: u64, shard: &Shard) {
        if let Some(free_bytes) = &self.free_bytes {
            free_bytes[self.shard_number(hash)].store(shard.free_bytes(), Ordering::Relaxed);
        }
    }

    /// Removes expired objects from DRAM, a few at a time, so that other threads hardly wait.
    pub(crate) fn sweep(&self, now_s: u32) {
        for (number, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.lock();
            if !shard.begin_sweep(now_s) {
                continue;
            }
            let (mut first, mut expires_from_s) = (0, u32::MAX);
            while first < shard.places() {
                let expired = shard.sweep(first, SWEEP_PLACES, now_s, &mut expires_from_s);
                self.counters.swept.add(expired.len() as u64);
                if let Some(free_bytes) = &self.free_bytes {
                    free_bytes[number].store(shard.free_bytes(), Ordering::Relaxed);
                }
                MutexGuard::unlocked_fair(&mut shard, || drop(expired));
                first += SWEEP_PLACES;
            }
            shard.end_sweep(expires_from_s);
        }
    }

    /// DRAM of the pool, in bytes.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.dram_bytes.load(Ordering::Relaxed)
    }

    /// The least DRAM with room for the largest object, in bytes, but no more than the pool was
    /// opened with.
    pub(crate) fn dram_bytes_for_all(&self) -> u64 {
        let largest = dram::charge_bytes(KEY_BYTES_MAX, self.object_bytes_max as usize);
        let shard_bytes = Shard::bytes_with_room_for(largest) as u64;
        let least = self.flash_dram.dram_bytes_for(shard_bytes * self.shards.len() as u64);
        least.max(self.dram_bytes_min).min(self.dram_bytes_opened)
    }

    /// The eviction policy and the largest value in bytes, if the pool is DRAM alone and evicts.
    pub(crate) fn dram_policy(&self) -> Option<(Eviction, u64)> {
        let evicts = self.free_bytes.is_none();
        (self.flash.is_none() && evicts).then_some((self.eviction, self.object_bytes_max))
    }

    /// The number of lookups without a result so far.
    pub(crate) fn misses(&self) -> u64 {
        self.counters.misses.get()
    }

    /// The part of the DRAM that flash takes.
    pub(crate) fn flash_dram(&self) -> FlashDram {
        self.flash_dram
    }

    /// Whether an object with a key and a value of these lengths can be kept.
    pub(crate) fn has_room_for(&self, key_len: usize, value_len: usize) -> bool {
        let charge_bytes = dram::charge_bytes(key_len, value_len);
        value_len as u64 <= self.object_bytes_max
            && Shard::has_room_for(self.shard_bytes(self.dram_bytes()), charge_bytes)
    }

    /// Resizes the DRAM: an increase takes effect at once, a decrease step by step, with locks
    /// released between steps. Of two concurrent callers the later one decides, and both do the
    /// work.
    ///
    /// # Errors
    ///
    /// When it is too little.
    pub(crate) fn set_dram_bytes(&self, dram_bytes: u64, now_s: u32) -> Result<()> {
        let least = self.dram_bytes_min;
        if dram_bytes < least {
            return Err(Error::invalid(format!("the cache needs at least {least} bytes of DRAM")));
        }
        let resizing = self.resizing.lock();
        let before = self.dram_bytes.fetch_min(dram_bytes, Ordering::Relaxed);
        let shard_bytes = self.shard_bytes(dram_bytes);
        self.shard_bytes_wanted.store(shard_bytes, Ordering::Relaxed);
        if dram_bytes > before {
            for shard in &self.shards {
                shard.lock().grow_to(shard_bytes);
            }
            self.note_all_free_bytes();
            self.dram_bytes.store(dram_bytes, Ordering::Relaxed);
        }
        drop(resizing);
        let mut is_done = false;
        while !is_done {
            is_done = true;
            // Round-robin: no shard stays much larger than the others for long.
            for shard in &self.shards {
                is_done &= !self.shrink_some(shard, now_s);
                // Evicted objects wait in flash buffers, and once these are full no more are
                // accepted.
                self.flash.iter().for_each(Flash::drain_writes);
            }
        }
        // Evicted objects go through buffers: reduce these afterwards.
        let _one_by_one = self.resizing.lock();
        let limits = self.flash_dram.limits(self.dram_bytes());
        self.flash.iter().for_each(|flash| flash.set_limits(limits));
        // A little less DRAM may leave a little more for objects: flash has whole buffers.
        let shard_bytes = self.shard_bytes(self.dram_bytes());
        self.shards.iter().for_each(|shard| shard.lock().grow_to(shard_bytes));
        self.note_all_free_bytes();
        Ok(())
    }

    /// Records the free bytes of all shards.
    pub(crate) fn note_all_free_bytes(&self) {
        for (shard, free_bytes) in self.shards.iter().zip(self.free_bytes.iter().flatten()) {
            let shard = shard.lock();
            free_bytes.store(shard.free_bytes(), Ordering::Relaxed);
        }
    }

    /// Shrinks a shard by one step, if it is too large; returns whether it still is.
    fn shrink_some(&self, shard: &Mutex<Shard>, now_s: u32) -> bool {
        let mut shard = shard.lock();
        let wanted = self.shard_bytes_wanted.load(Ordering::Relaxed);
        let step_bytes = if self.flash.is_some() { STEP_BYTES_TO_FLASH } else { STEP_BYTES };
        let Some(evicted) = shard.shrink_towards(wanted, step_bytes) else { return false };
        self.evict(&evicted, now_s);
        drop(shard);
        // Only now, so that other threads do not wait.
        drop(evicted);
        true
    }

    /// Overhead of the flash in use, in bytes.
    pub(crate) fn flash_overhead_bytes(&self) -> u64 {
        self.flash.as_ref().map_or(0, Flash::overhead_bytes)
    }

    /// The flash limit, in bytes.
    pub(crate) fn flash_bytes(&self) -> u64 {
        self.flash.as_ref().map_or(0, Flash::bytes_max)
    }

    /// The least flash that can be used, if any is, in bytes.
    pub(crate) fn flash_bytes_min(&self) -> u64 {
        self.flash.as_ref().map_or(0, Flash::bytes_min)
    }

    /// Changes the flash limit.
    ///
    /// # Errors
    ///
    /// When it is more than there is, or too little.
    pub(crate) fn set_flash_bytes(&self, bytes: u64) -> Result<()> {
        match &self.flash {
            Some(flash) => flash.set_bytes_max(bytes),
            None if bytes == 0 => Ok(()),
            None => Err(Error::invalid("the cache was opened with 0 bytes of flash")),
        }
    }

    /// A shard's part of `dram_bytes`.
    fn shard_bytes(&self, dram_bytes: u64) -> usize {
        (self.flash_dram.objects_bytes(dram_bytes) / self.shards.len() as u64) as usize
    }

    /// Its statistics.
    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.counters;
        let mut stats = Stats {
            dram_hits: counters.dram_hits.get(),
            flash_hits: counters.flash_hits.get(),
            misses: counters.misses.get(),
            expired: counters.expired.get(),
            swept: counters.swept.get(),
            reclaimed: counters.reclaimed.get(),
            refused: counters.refused.get(),
            evicted: counters.evicted.get(),
            evicted_unfetched: counters.evicted_unfetched.get(),
            stores: counters.stores.get(),
            dram_bytes_max: self.dram_bytes(),
            ..Stats::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            stats.dram_objects += shard.len() as u64;
            stats.dram_bytes += shard.charged_bytes() as u64;
        }
        stats
    }

    /// Whether flash may have an object under a key with that hash. Reads nothing.
    pub(crate) fn may_be_on_flash(&self, hash: u64) -> bool {
        self.flash.as_ref().is_some_and(|flash| flash.may_hold(hash))
    }

    /// Counts a lookup, if the change fetches.
    pub(crate) fn count_lookup(
        &self,
        hash: u64,
        now_s: u32,
        change: &Change,
        hit: Option<Access>,
        hits: &Counter,
    ) {
        if matches!(change, Change::Fetch | Change::ReviseAndFetch(_)) {
            if hit.is_some() { hits } else { &self.counters.misses }.add(1);
            self.observer.on_access(hash, now_s, || hit.unwrap_or(Access::Miss));
        }
    }

    /// Counts a lookup that missed.
    pub(crate) fn miss(&self, hash: u64, now_s: u32) {
        self.counters.misses.add(1);
        self.observer.on_access(hash, now_s, || Access::Miss);
    }

    /// Lookups so far.
    pub(crate) fn lookups(&self) -> u64 {
        let counters = &self.counters;
        counters.dram_hits.get() + counters.flash_hits.get() + counters.misses.get()
    }

    /// Fetches an object.
    pub(crate) fn fetch(
        &self,
        hash: u64,
        cached: &mut DramObject<CopyLocation>,
        now_s: u32,
    ) -> CachedObject {
        // First of all: accesses in between keep the processor from prefetching the object.
        let found = cached.found.clone();
        (cached.found.was_fetched, cached.found.accessed_s) = (true, now_s);
        self.counters.dram_hits.add(1);
        self.observer.on_hit(hash, now_s, || hit_of(&cached.key, &cached.found));
        found
    }

    /// The object in DRAM under `key`, unless it has expired.
    pub(crate) fn get_from_dram<'s>(
        &self,
        shard: &'s mut Shard,
        hash: u64,
        key: &[u8],
        now_s: u32,
    ) -> Option<&'s mut DramObject<CopyLocation>> {
        if shard.peek(hash, key)?.found.object.deadline.has_passed(now_s) {
            self.counters.expired.add(1);
            shard.remove(hash);
            self.note_free_bytes(hash, shard);
            return None;
        }
        shard.get(hash, key)
    }

    /// Applies the change, under the shard's lock. Drop the result outside the lock.
    pub(crate) fn apply(
        &self,
        shard: &mut Shard,
        hash: u64,
        key: &[u8],
        now_s: u32,
        change: Change,
    ) -> Option<DramObject<CopyLocation>> {
        let cached = match change {
            Change::Keep => return None,
            Change::Fetch => {
                let cached = shard.get(hash, key)?;
                (cached.found.was_fetched, cached.found.accessed_s) = (true, now_s);
                return None;
            }
            Change::Remove => {
                self.observer.on_access(hash, now_s, || Access::Removed);
                self.forget_copies(shard, hash, key);
                let removed = shard.remove(hash);
                self.note_free_bytes(hash, shard);
                return removed;
            }
            Change::Store(object) => DramObject::new(key, object, now_s),
            Change::Revise(object) => self.revised(shard, hash, key, object, now_s),
            Change::ReviseAndFetch(object) => {
                let mut cached = self.revised(shard, hash, key, object, now_s);
                (cached.found.was_fetched, cached.found.accessed_s) = (true, now_s);
                cached
            }
        };
        self.counters.stores.add(1);
        self.forget_copies(shard, hash, key);
        self.observer.on_access(hash, now_s, || stored(&cached));
        // An object that is removed before it is replaced does not count as evicted.
        let old = shard.remove(hash);
        self.note_free_bytes(hash, shard);
        if cached.found.object.deadline.has_passed(now_s) {
            return old;
        }
        let lengths = (key.len(), cached.found.object.value.len());
        if !self.has_free_room_for(hash, lengths, None) {
            self.counters.refused.add(1);
            return old;
        }
        self.evict(&shard.put(hash, cached), now_s);
        self.note_free_bytes(hash, shard);
        old
    }

    /// The new object with the fetch history of the old one.
    fn revised(
        &self,
        shard: &Shard,
        hash: u64,
        key: &[u8],
        object: Object,
        now_s: u32,
    ) -> DramObject<CopyLocation> {
        let mut cached = DramObject::new(key, object, now_s);
        if let Some(before) = shard.peek(hash, key) {
            cached.found.was_fetched = before.found.was_fetched;
            cached.found.accessed_s = before.found.accessed_s;
        }
        cached
    }

    /// Invalidates the copies on flash of a key, and pending reads of it.
    fn forget_copies(&self, shard: &mut Shard, hash: u64, key: &[u8]) {
        shard.void_lease(hash);
        if let Some(flash) = &self.flash {
            flash.invalidate(hash, key);
        }
    }

    /// Offers objects evicted from DRAM to flash. Under the lock of their shard, so that nothing
    /// happens to their keys in between.
    pub(crate) fn evict(&self, evicted: &Evicted<DramObject<CopyLocation>>, now_s: u32) {
        let counters = &self.counters;
        for cached in evicted.iter() {
            if cached.found.object.deadline.has_passed(now_s) {
                counters.reclaimed.add(1);
                continue;
            }
            counters.evicted.add(1);
            if !cached.found.was_fetched {
                counters.evicted_unfetched.add(1);
            }
            self.put_on_flash(cached, now_s);
        }
    }

    fn put_on_flash(&self, cached: &DramObject<CopyLocation>, now_s: u32) {
        if let Some(flash) = &self.flash
            && !cached.found.object.deadline.has_passed(now_s)
        {
            flash.put(xxh3_64(&cached.key), &cached.key, &cached.found, cached.copy, now_s);
        }
    }
}

fn stored(cached: &DramObject<CopyLocation>) -> Access {
    let deadline = cached.found.object.deadline;
    Access::Stored { bytes: taken_bytes(&cached.key, &cached.found), deadline }
}

/// A hit as an access event.
pub(crate) fn hit_of(key: &[u8], found: &CachedObject) -> Access {
    Access::Hit { bytes: taken_bytes(key, found), deadline: found.object.deadline }
}

/// All bytes of DRAM that an object with a key and a value of these lengths takes.
pub(crate) fn object_bytes(key_len: usize, value_len: usize) -> usize {
    dram::charge_bytes(key_len, value_len) + Shard::OVERHEAD_BYTES
}

/// All bytes of DRAM that an object takes.
fn taken_bytes(key: &[u8], found: &CachedObject) -> u64 {
    object_bytes(key.len(), found.object.value.len()) as u64
}

/// The most shards of a pool of `dram_bytes` for values of up to `object_bytes_max`.
pub(crate) fn shards_max(object_bytes_max: u64, dram_bytes: u64) -> u64 {
    let shard_bytes_min = (object_bytes_max * OBJECT_DRAM_DIVISOR / 2).max(1 << 20);
    (dram_bytes / shard_bytes_min).clamp(1, SHARDS_MAX)
}

/// The most of `shards_max` shards that leave each room for the largest object, between
/// `objects_bytes`.
pub(crate) fn shards_for(object_bytes_max: u64, objects_bytes: u64, shards_max: u64) -> u64 {
    let largest_bytes = dram::charge_bytes(KEY_BYTES_MAX, object_bytes_max as usize);
    let has_room =
        |shards: &u64| Shard::has_room_for((objects_bytes / shards) as usize, largest_bytes);
    (1..=shards_max).rev().find(has_room).unwrap_or(1)
}

/// The segment size of flash that has not been formatted yet, in bytes; `None` without flash.
///
/// # Errors
/// When there is too little DRAM for the flash.
pub(crate) fn segment_bytes_for(options: &Options) -> Result<Option<u64>> {
    fitting(options, || None).map(|(_, flash_dram)| flash_dram.segment_bytes())
}

/// The segment size with which flash fits the DRAM, and its DRAM share then: the existing size, so
/// that a cache with another DRAM size than before finds its objects again; the default for the
/// devices' size; or a smaller one, which needs smaller buffers.
fn fitting(
    options: &Options,
    evicted: impl FnOnce() -> Option<u64>,
) -> Result<(Option<u64>, FlashDram)> {
    let with = |segment_bytes| {
        let options = Options { segment_bytes, ..options.clone() };
        FlashDram::of(&options).map(|flash_dram| (segment_bytes, flash_dram))
    };
    let default_fit = with(options.segment_bytes);
    if options.segment_bytes.is_some() {
        return default_fit;
    }
    if let Some(found) = evicted()
        && let Ok(fitting) = with(Some(found))
    {
        return Ok(fitting);
    }
    let halves = |bytes: &u64| Some(bytes / 2).filter(|bytes| *bytes >= SEGMENT_BYTES_MIN);
    let smaller = std::iter::successors(Some(SEGMENT_BYTES_MAX as u64), halves);
    let smallest = || with(Some(SEGMENT_BYTES_MIN));
    default_fit
        .or_else(|_| smaller.map(Some).find_map(|bytes| with(bytes).ok()).map_or_else(smallest, Ok))
}

/// The segment size on the devices, if their layouts otherwise match these options.
fn evicted(options: &Options, environment: &Environment) -> Option<u64> {
    let (default_fit, bits) = (options.avg_object_bytes, options.fingerprint_bits);
    let mut sizes = options.flash.iter().filter_map(|flash| {
        let layout = recovery::last_layout(&environment.storage, &flash.path)?;
        let bytes = u64::from(layout.segment_bytes);
        let is_so = Layout::of(flash.bytes, default_fit, Some(bytes), bits).ok() == Some(layout);
        is_so.then_some(bytes)
    });
    let first = sizes.next()?;
    sizes.all(|bytes| bytes == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::FlashOptions;

    /// Segments in MiB, and the share of the DRAM that flash takes; `None` where it is refused.
    fn segments(dram_mib: u64, flash_gib: u64) -> Option<(u64, f64)> {
        let flash = vec![FlashOptions { path: "/flash".into(), bytes: flash_gib << 30 }];
        let options = Options { dram_bytes: dram_mib << 20, flash, ..Options::default() };
        let bytes = fitting(&options, || None).ok()?.1.bytes(options.dram_bytes);
        let segment_bytes = segment_bytes_for(&options).expect("it fits")?;
        Some((segment_bytes >> 20, bytes as f64 / options.dram_bytes as f64))
    }

    #[test]
    fn segments_shrink_with_much_flash_behind_little_dram() {
        let sizes =
            [(256, 8), (64, 4), (48, 8), (32, 8)].map(|(dram, flash)| segments(dram, flash));
        assert_eq!(
            sizes.map(|found| found.map(|(mib, _)| mib)),
            [Some(8), Some(4), Some(8), Some(4)]
        );
        for (_, share) in sizes.into_iter().flatten() {
            assert!(share <= 0.75, "{share}");
        }
        assert_eq!(segments(16, 16), None);
    }

    #[test]
    fn each_shard_has_room_for_the_largest_object() {
        for (dram_mib, object_kib) in [(64, 1_024), (64, 256), (4, 1_024), (8, 1_024), (512, 1_024)]
        {
            let object_bytes_max = object_kib << 10;
            let options =
                Options { dram_bytes: dram_mib << 20, object_bytes_max, ..Options::default() };
            for share in [0.0, 0.3, 0.5, 0.6, 0.7] {
                let bytes = (options.dram_bytes as f64 * (1.0 - share)) as u64;
                let shards = shards_for(options.object_bytes_max, bytes, 64);
                let largest_bytes = dram::charge_bytes(KEY_BYTES_MAX, object_bytes_max as usize);
                let has_room = Shard::has_room_for((bytes / shards) as usize, largest_bytes);
                assert!(has_room || shards == 1, "{dram_mib} MiB, {share}: {shards} shards");
                assert!(shards > 1 || bytes < 4 * object_bytes_max, "{dram_mib} MiB, {share}");
            }
        }
    }
}
