//! The cache: objects by key, in DRAM and on flash, for many threads at once.
//!
//! Guarantees:
//! 1. What is found under a key is what was last stored under it, before its deadline; never
//!    an older state, never another key's. It may be missing at any time.
//! 2. [`Cache::change`] is one step: nothing else happens to the key between what it shows and
//!    what it does.
//! 3. Methods named `try_…` answer from memory or not at all; they wait for no device, but
//!    that the operating system may let a buffered write wait.
//! 4. No fault of a device is an error: it is a miss.
//!
//! A key belongs to a shard, by its hash, and the shard's lock orders all that happens to it
//! in DRAM and on flash. No lock is held while a device is read: who reads draws a ticket
//! from the shard, and what was read counts only if the ticket is still valid
//! ([`crate::dram`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tidekv_cache::Removed;
use tidekv_io::{Buffer, Clock, ReadQueue, ReadRequest, Storage};
use xxhash_rust::xxh3::xxh3_64;

use crate::device::Limits;
use crate::dram::{self, Held, Ticket};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::flash::{DeviceStats, Flash, Place, Start};
use crate::flash_lookup::{FlashLookup, FlashStep, Outcome};
use crate::layout::Layout;
use crate::object::{Change, Found, Object};
use crate::options::{DRAM_BYTES_MIN, OBJECT_DRAM_DIVISOR, Options};
use crate::stats::{Counter, Counters, Stats};
use crate::superblock::NO_TIME;
use crate::surroundings::Surroundings;

/// Most shards of DRAM.
const SHARDS_MAX: u64 = 64;
/// So many versions are set aside at once, so that none comes twice after a kill.
const VERSIONS: u64 = 1 << 24;

/// One in so many bytes of the DRAM may be write buffers of flash.
const BUFFERS_DRAM_DIVISOR: u64 = 8;
/// One that is filled, one that is written, and one more.
const BUFFERS_MIN: u64 = 3;
/// More would be for groups of objects that no load has all at once.
const BUFFERS_MAX: u64 = 24;
/// One in so many bytes of the DRAM is for hot entries and changes of the flash index.
const INDEX_DRAM_DIVISOR: u64 = 16;
/// More changes of the index would only take long to be read again after a kill: with so many, pages
/// of a hundred million objects are written for some fifty at a time.
const CHANGES_MAX: u64 = 3 << 20;

type Shard = dram::Shard<Place>;

/// What memory says about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// It is there.
    Hit(Found),
    /// It is not.
    Miss,
    /// It may be on flash.
    Unknown,
}

/// The answer is not in memory: ask again where it may be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldWait;

/// Where a walk over DRAM stands ([`Cache::visit`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    shard: usize,
    place: usize,
}

/// What is under a key on flash, on its way from there.
#[derive(Debug)]
pub struct Recall {
    cache: Cache,
    hash: u64,
    key: Box<[u8]>,
    /// Until it is given back.
    ticket: Option<Ticket>,
    lookup: FlashLookup,
    /// What has been read, when all has.
    outcome: Option<Outcome>,
}

impl Recall {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Goes on; `read` is what the step before said is to be read. What is to be read next, or
    /// nothing: then it is ready for [`Cache::change_recalled`].
    pub fn step(&mut self, read: Option<tidekv_io::Result<Buffer>>) -> Option<ReadRequest> {
        let flash = self.cache.inner.flash.as_ref()?;
        match self.lookup.step(flash, read) {
            FlashStep::Read(request) => Some(request),
            FlashStep::Done(outcome) => {
                self.outcome = Some(outcome);
                None
            }
        }
    }
}

impl Drop for Recall {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.cache.shard(self.hash).redeem(self.hash, ticket);
        }
    }
}

/// A cache. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shards: Box<[Mutex<Shard>]>,
    flash: Option<Flash>,
    clock: Arc<dyn Clock>,
    storage: Arc<dyn Storage>,
    counters: Counters,
    versions: AtomicU64,
    /// Up to this one flash knows that versions are given out.
    versions_reserved: AtomicU64,
    dram_bytes: AtomicU64,
    /// Of the DRAM, what flash has for its index and its buffers.
    flash_dram_bytes: u64,
    object_bytes_max: u64,
    /// When everything is forgotten.
    clear_at_s: AtomicU32,
    /// Held while that is changed or done, here and on flash.
    clearing: Mutex<()>,
    /// The second in which devices were last looked after.
    ticked_s: AtomicU32,
    warm_devices: usize,
}

impl Cache {
    /// Opens a cache. What is on flash from before is there again, as far as that is certain to
    /// be what was stored last.
    ///
    /// # Errors
    ///
    /// When a setting breaks a bound, a device belongs to another process, or the only device
    /// cannot be used at all.
    pub fn open(options: &Options, around: &Surroundings) -> Result<Self> {
        options.check()?;
        let (limits, flash_bytes) = limits(options)?;
        let (flash, start) = match options.flash.is_empty() {
            true => (None, Start { warm: 0, version_max: 0, clear_at_s: NO_TIME }),
            false => {
                let (flash, start) = Flash::open(options, limits, around)?;
                (Some(flash), start)
            }
        };
        let shard_bytes_min = (options.object_bytes_max * OBJECT_DRAM_DIVISOR / 2).max(1 << 20);
        let shards = (options.dram_bytes / shard_bytes_min).clamp(1, SHARDS_MAX);
        let shard_bytes = (options.dram_bytes - flash_bytes) / shards;
        let shard = |_| Mutex::new(Shard::new(options.eviction, shard_bytes as usize));
        let inner = Inner {
            shards: (0..shards).map(shard).collect(),
            flash,
            clock: Arc::clone(&around.clock),
            storage: Arc::clone(&around.storage),
            counters: Counters::default(),
            versions: AtomicU64::new(start.version_max),
            versions_reserved: AtomicU64::new(start.version_max),
            dram_bytes: AtomicU64::new(options.dram_bytes),
            flash_dram_bytes: flash_bytes,
            object_bytes_max: options.object_bytes_max,
            clear_at_s: AtomicU32::new(start.clear_at_s),
            clearing: Mutex::new(()),
            ticked_s: AtomicU32::new(0),
            warm_devices: start.warm,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How many flash devices had what was on them when the cache was opened.
    pub fn warm_devices(&self) -> usize {
        self.inner.warm_devices
    }

    /// Brings what is in DRAM to flash, as far as there is room for it, and says there that it
    /// was closed in order. The cache holds nothing any more.
    pub fn close(&self) {
        let now_s = self.now_s();
        let Some(flash) = &self.inner.flash else { return };
        for shard in &self.inner.shards {
            let mut shard = shard.lock();
            let left = shard.set_capacity_bytes(0);
            for held in left.iter() {
                // Here there is time to wait for a buffer.
                flash.catch_up();
                self.put_on_flash(held, now_s);
            }
        }
        flash.close();
    }

    /// The present second.
    pub fn now_s(&self) -> u32 {
        u32::try_from(self.inner.clock.unix_ms() / 1000).unwrap_or(u32::MAX - 1)
    }

    /// Does what is due: forgets everything if its time has come, and looks after devices that
    /// are out or warming. Every operation does that too, so who calls this once in a while
    /// sees to it that it happens also without any. May wait for a device.
    pub fn look_after(&self) {
        self.tick();
    }

    /// Does what waits on flash devices, in this thread. Who stores more than flash takes, and
    /// would rather wait than have objects dropped, calls this now and then.
    pub fn catch_up(&self) {
        if let Some(flash) = &self.inner.flash {
            flash.catch_up();
        }
    }

    /// A version that no object has had.
    pub fn next_version(&self) -> u64 {
        let version = self.inner.versions.fetch_add(1, Ordering::Relaxed) + 1;
        if version > self.inner.versions_reserved.load(Ordering::Acquire)
            && let Some(flash) = &self.inner.flash
        {
            flash.set_version_max(version + VERSIONS);
            self.inner.versions_reserved.fetch_max(version + VERSIONS, Ordering::AcqRel);
        }
        version
    }

    /// The largest value that is taken, in bytes.
    pub fn object_bytes_max(&self) -> u64 {
        self.inner.object_bytes_max
    }

    /// Whether an object with a key and a value of these lengths can be kept. If not, storing
    /// it only removes what stands under its key.
    pub fn has_room_for(&self, key_len: usize, value_len: usize) -> bool {
        let dram_bytes = self.inner.dram_bytes.load(Ordering::Relaxed);
        let charge_bytes = dram::charge_bytes(key_len, value_len);
        value_len as u64 <= self.inner.object_bytes_max
            && Shard::has_room_for(self.inner.shard_bytes(dram_bytes), charge_bytes)
    }

    /// The object under `key`, if memory says what that is. It counts as fetched.
    pub fn try_get(&self, key: &[u8]) -> Lookup {
        let hash = xxh3_64(key);
        let now_s = self.tick();
        let mut shard = self.shard(hash);
        match self.recall(&mut shard, hash, key, now_s) {
            Some(held) => Lookup::Hit(self.inner.fetch(held, now_s)),
            None if self.may_be_on_flash(hash) => Lookup::Unknown,
            None => {
                self.inner.counters.misses.add(1);
                Lookup::Miss
            }
        }
    }

    /// The object under `key`, which counts as fetched. May wait for flash.
    pub fn get(&self, key: &[u8]) -> Option<Found> {
        match self.try_get(key) {
            Lookup::Hit(found) => Some(found),
            Lookup::Miss => None,
            Lookup::Unknown => self.change(key, |found| (Change::Fetch, found.cloned())),
        }
    }

    /// Shows `decide` what stands under `key`, and does what it says, if memory knows;
    /// otherwise `decide` is not called.
    pub fn try_change<R>(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&Found>) -> (Change, R),
    ) -> std::result::Result<R, WouldWait> {
        let hash = xxh3_64(key);
        let now_s = self.tick();
        let mut shard = self.shard(hash);
        let found = self.recall(&mut shard, hash, key, now_s).map(|held| held.found.clone());
        if found.is_none() && self.may_be_on_flash(hash) {
            return Err(WouldWait);
        }
        let (change, result) = decide(found.as_ref());
        let counters = &self.inner.counters;
        counters.count_lookup(&change, found.is_some(), &counters.dram_hits);
        let left = self.apply(&mut shard, hash, key, now_s, change);
        drop(shard);
        drop(left);
        Ok(result)
    }

    /// Shows `decide` what stands under `key`, and does what it says, in one step. It is
    /// called once.
    pub fn change<R>(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&Found>) -> (Change, R),
    ) -> R {
        loop {
            if let Ok(result) = self.try_change(key, &mut decide) {
                return result;
            }
            let Some(mut recall) = self.recall_from_flash(key) else { continue };
            let mut read = None;
            while let Some(ReadRequest { file, offset, len }) = recall.step(read) {
                read = Some(file.read_at(offset, len));
            }
            if let Ok(result) = self.change_recalled(recall, &mut decide) {
                return result;
            }
        }
    }

    /// Begins to read what is under `key` from flash, for who may not wait; nothing, if there is
    /// no flash.
    pub fn recall_from_flash(&self, key: &[u8]) -> Option<Recall> {
        let flash = self.inner.flash.as_ref()?;
        let hash = xxh3_64(key);
        let now_s = self.tick();
        let ticket = self.shard(hash).draw_ticket(hash);
        let lookup = FlashLookup::new(flash, hash, key, now_s);
        let (key, cache) = (key.into(), self.clone());
        Some(Recall { cache, hash, key, ticket: Some(ticket), lookup, outcome: None })
    }

    /// Shows `decide` what has been read under a key, and does what it says, in one step; not if
    /// anything has happened to the key meanwhile, or not all has been read: then `decide` is not
    /// called, and one begins anew.
    pub fn change_recalled<R>(
        &self,
        mut recall: Recall,
        mut decide: impl FnMut(Option<&Found>) -> (Change, R),
    ) -> std::result::Result<R, WouldWait> {
        let hash = recall.hash;
        let now_s = self.tick();
        let ticket = recall.ticket.take().ok_or(WouldWait)?;
        let mut shard = self.shard(hash);
        let is_valid = shard.redeem(hash, ticket);
        let read = recall.outcome.take().filter(|_| is_valid).ok_or(WouldWait)?;
        if shard.peek(hash, &recall.key).is_some() {
            // Another has read it.
            return Err(WouldWait);
        }
        let read = read.filter(|(found, _)| !found.object.deadline.has_passed(now_s));
        let is_found = read.is_some();
        let (change, result) = match read {
            None => decide(None),
            Some((found, copy)) => {
                let held = Held { key: recall.key.clone(), found: found.clone(), copy };
                self.leave(shard.put(hash, held), now_s);
                decide(Some(&found))
            }
        };
        let counters = &self.inner.counters;
        counters.count_lookup(&change, is_found, &counters.flash_hits);
        let left = self.apply(&mut shard, hash, &recall.key, now_s, change);
        drop(shard);
        drop(left);
        Ok(result)
    }

    /// Reads that are begun and end later, on the storage of the flash devices, if it has such.
    pub fn read_queue(&self) -> Option<Box<dyn ReadQueue>> {
        self.inner.flash.as_ref().and_then(|_| self.inner.storage.read_queue())
    }

    /// Stores an object, whatever stands under its key.
    pub fn store(&self, key: &[u8], object: Object) {
        self.overrule(key, Change::Store(object));
    }

    /// Removes what stands under `key`, if anything does.
    pub fn remove(&self, key: &[u8]) {
        self.overrule(key, Change::Remove);
    }

    fn overrule(&self, key: &[u8], change: Change) {
        let hash = xxh3_64(key);
        let now_s = self.tick();
        let left = self.apply(&mut self.shard(hash), hash, key, now_s, change);
        drop(left);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        // All at once: what is read from flash into one shard, or leaves another for it, would
        // else be there again when the other side has been cleared.
        let mut shards: Vec<_> = self.inner.shards.iter().map(Mutex::lock).collect();
        shards.iter_mut().for_each(|shard| shard.clear());
        if let Some(flash) = &self.inner.flash {
            flash.clear();
        }
    }

    /// Forgets at the second `unix_s` everything that is there then, in place of an earlier
    /// call's second.
    pub fn clear_at(&self, unix_s: u32) {
        let unix_s = unix_s.min(NO_TIME - 1);
        let one_by_one = self.inner.clearing.lock();
        if let Some(flash) = &self.inner.flash {
            flash.set_clear_at(unix_s);
        }
        self.inner.clear_at_s.store(unix_s, Ordering::Release);
        drop(one_by_one);
        self.tick();
    }

    /// Changes how much DRAM there is. What does not fit any more leaves at once.
    ///
    /// # Errors
    ///
    /// When it is too little.
    pub fn set_dram_bytes(&self, dram_bytes: u64) -> Result<()> {
        let least = DRAM_BYTES_MIN.max(self.inner.object_bytes_max * OBJECT_DRAM_DIVISOR);
        let least = least + self.inner.flash_dram_bytes;
        if dram_bytes < least {
            return Err(Error::invalid(format!("the cache needs at least {least} bytes of DRAM")));
        }
        self.inner.dram_bytes.store(dram_bytes, Ordering::Relaxed);
        let shard_bytes = self.inner.shard_bytes(dram_bytes);
        let now_s = self.now_s();
        for shard in &self.inner.shards {
            let mut shard = shard.lock();
            let left = shard.set_capacity_bytes(shard_bytes);
            self.leave(left, now_s);
        }
        Ok(())
    }

    /// Shows `see` about `count` places of objects in DRAM from `from` on, with their keys;
    /// where to go on, if there are more. What is there all along is shown once, unless the
    /// memory's size changes.
    pub fn visit(
        &self,
        from: Cursor,
        count: usize,
        mut see: impl FnMut(&[u8], &Found),
    ) -> Option<Cursor> {
        let now_s = self.tick();
        let shard = self.inner.shards.get(from.shard)?.lock();
        shard.look_at(from.place, count, |held| {
            if !held.found.object.deadline.has_passed(now_s) {
                see(&held.key, &held.found);
            }
        });
        let place = from.place + count;
        let next = match place < shard.places() {
            true => Cursor { place, ..from },
            false => Cursor { shard: from.shard + 1, place: 0 },
        };
        (next.shard < self.inner.shards.len()).then_some(next)
    }

    /// How the flash devices stand, in the order of their seats.
    pub fn device_stats(&self) -> Vec<DeviceStats> {
        self.inner.flash.as_ref().map_or_else(Vec::new, Flash::stats)
    }

    /// How the cache stands.
    pub fn stats(&self) -> Stats {
        let counters = &self.inner.counters;
        let mut stats = Stats {
            dram_hits: counters.dram_hits.get(),
            flash_hits: counters.flash_hits.get(),
            misses: counters.misses.get(),
            expired: counters.expired.get(),
            evicted: counters.evicted.get(),
            evicted_unfetched: counters.evicted_unfetched.get(),
            stores: counters.stores.get(),
            dram_bytes_max: self.inner.dram_bytes.load(Ordering::Relaxed),
            ..Stats::default()
        };
        for shard in &self.inner.shards {
            let shard = shard.lock();
            stats.dram_objects += shard.len() as u64;
            stats.dram_bytes += shard.charged_bytes() as u64;
        }
        stats
    }
}

impl Cache {
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let shards = &self.inner.shards;
        // The upper half: the lower one places objects inside of a shard.
        shards[((hash >> 32) as usize * shards.len()) >> 32].lock()
    }

    /// The present second, after what is due by then.
    fn tick(&self) -> u32 {
        let now_s = self.now_s();
        let clear_at_s = &self.inner.clear_at_s;
        let due_s = clear_at_s.load(Ordering::Acquire);
        if due_s <= now_s {
            // Whoever comes meanwhile waits until it is done.
            let _one_by_one = self.inner.clearing.lock();
            if clear_at_s.load(Ordering::Acquire) == due_s {
                self.clear();
                if let Some(flash) = &self.inner.flash {
                    flash.set_clear_at(NO_TIME);
                }
                clear_at_s.store(NO_TIME, Ordering::Release);
            }
        }
        // To look is cheap for many threads at once, to write is not.
        let ticked_s = &self.inner.ticked_s;
        if ticked_s.load(Ordering::Relaxed) != now_s
            && ticked_s.swap(now_s, Ordering::Relaxed) != now_s
            && let Some(flash) = &self.inner.flash
        {
            flash.tick();
        }
        now_s
    }

    fn may_be_on_flash(&self, hash: u64) -> bool {
        self.inner.flash.as_ref().is_some_and(|flash| flash.may_hold(hash))
    }

    /// What DRAM has under `key`, unless its deadline has passed.
    fn recall<'s>(
        &self,
        shard: &'s mut Shard,
        hash: u64,
        key: &[u8],
        now_s: u32,
    ) -> Option<&'s mut Held<Place>> {
        if shard.peek(hash, key)?.found.object.deadline.has_passed(now_s) {
            self.inner.counters.expired.add(1);
            shard.remove(hash);
            return None;
        }
        shard.get(hash, key)
    }

    /// Does what was decided, under the shard's lock. What comes back is to be dropped outside.
    fn apply(
        &self,
        shard: &mut Shard,
        hash: u64,
        key: &[u8],
        now_s: u32,
        change: Change,
    ) -> Option<Held<Place>> {
        let held = match change {
            Change::Keep => return None,
            Change::Fetch => {
                let held = shard.get(hash, key)?;
                (held.found.was_fetched, held.found.accessed_s) = (true, now_s);
                return None;
            }
            Change::Remove => {
                self.forget_copies(shard, hash);
                return shard.remove(hash);
            }
            Change::Store(object) => Held::new(key, object, now_s),
            Change::Revise(object) => self.revised(shard, hash, key, object, now_s),
            Change::ReviseAndFetch(object) => {
                let mut held = self.revised(shard, hash, key, object, now_s);
                (held.found.was_fetched, held.found.accessed_s) = (true, now_s);
                held
            }
        };
        self.inner.counters.stores.add(1);
        self.forget_copies(shard, hash);
        // One that goes before it comes leaves no trace among what is evicted.
        let old = shard.remove(hash);
        if held.found.object.deadline.has_passed(now_s) {
            return old;
        }
        self.leave(shard.put(hash, held), now_s);
        old
    }

    /// An object in place of another, of which it keeps what is known of fetches.
    fn revised(
        &self,
        shard: &Shard,
        hash: u64,
        key: &[u8],
        object: Object,
        now_s: u32,
    ) -> Held<Place> {
        let mut held = Held::new(key, object, now_s);
        if let Some(before) = shard.peek(hash, key) {
            held.found.was_fetched = before.found.was_fetched;
            held.found.accessed_s = before.found.accessed_s;
        }
        held
    }

    /// What is on flash under a key, or being read from there, counts no more.
    fn forget_copies(&self, shard: &mut Shard, hash: u64) {
        shard.void_ticket(hash);
        if let Some(flash) = &self.inner.flash {
            flash.invalidate(hash);
        }
    }

    /// Objects have left DRAM: flash may take them. Under the lock of their shard, so that
    /// nothing happens to their keys in between.
    fn leave(&self, left: Removed<Held<Place>>, now_s: u32) {
        let counters = &self.inner.counters;
        for held in left.iter() {
            counters.evicted.add(1);
            if !held.found.was_fetched {
                counters.evicted_unfetched.add(1);
            }
            self.put_on_flash(held, now_s);
        }
    }

    fn put_on_flash(&self, held: &Held<Place>, now_s: u32) {
        if let Some(flash) = &self.inner.flash
            && !held.found.object.deadline.has_passed(now_s)
        {
            flash.put(xxh3_64(&held.key), &held.key, &held.found, held.copy, now_s);
        }
    }
}

/// What flash may take of the DRAM: its limits for each device, and all of it in bytes.
fn limits(options: &Options) -> Result<(Limits, u64)> {
    let devices = options.flash.len() as u64;
    if devices == 0 {
        let expiry = options.expiry;
        return Ok((Limits { buffers: 0, open: 0, changes: 0, hot_bytes: 0, expiry }, 0));
    }
    let mut fixed_bytes = 0;
    let mut segment_bytes = 0;
    for flash in &options.flash {
        let (usual, bits) = (options.object_bytes_usual, options.fingerprint_bits);
        let layout = Layout::of(flash.bytes, usual, options.segment_bytes, bits)?;
        segment_bytes = segment_bytes.max(u64::from(layout.segment_bytes));
        fixed_bytes += layout.index_bytes_max();
    }
    let buffers = options.dram_bytes / BUFFERS_DRAM_DIVISOR / devices / segment_bytes;
    let buffers = buffers.clamp(BUFFERS_MIN, BUFFERS_MAX);
    let index_bytes = options.index_bytes.unwrap_or(options.dram_bytes / INDEX_DRAM_DIVISOR);
    let changes_bytes = (index_bytes / 3).min(CHANGES_MAX * size_of::<Entry>() as u64);
    let limits = Limits {
        buffers: buffers as usize,
        open: (buffers - 1).min(buffers / 2 + 1) as usize,
        changes: (changes_bytes / devices / size_of::<Entry>() as u64) as usize,
        hot_bytes: ((index_bytes - changes_bytes) / devices) as usize,
        expiry: options.expiry,
    };
    let all_bytes = buffers * devices * segment_bytes + fixed_bytes + index_bytes;
    if all_bytes > options.dram_bytes / 2 {
        return Err(Error::invalid(format!(
            "{devices} flash devices need at least {} bytes of DRAM, for their index and their \
             write buffers",
            all_bytes * 2
        )));
    }
    Ok((limits, all_bytes))
}

impl Counters {
    /// A change that counts as a fetch is a lookup: a hit of that tier, or a miss.
    fn count_lookup(&self, change: &Change, is_found: bool, hits: &Counter) {
        if matches!(change, Change::Fetch | Change::ReviseAndFetch(_)) {
            if is_found { hits } else { &self.misses }.add(1);
        }
    }
}

impl Inner {
    /// What a shard has of so much DRAM.
    fn shard_bytes(&self, dram_bytes: u64) -> usize {
        let objects_bytes = dram_bytes.saturating_sub(self.flash_dram_bytes);
        (objects_bytes / self.shards.len() as u64) as usize
    }

    fn fetch(&self, held: &mut Held<Place>, now_s: u32) -> Found {
        self.counters.dram_hits.add(1);
        let found = held.found.clone();
        (held.found.was_fetched, held.found.accessed_s) = (true, now_s);
        found
    }
}

#[cfg(test)]
mod tests;
