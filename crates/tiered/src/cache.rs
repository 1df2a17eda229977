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
//! Keys are those of tenants ([`crate::tenant::tenants`]), and each tenant has a [`Pool`] of his own, with
//! all that happens to a key; what is the same for all is the time, and what follows from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidekv_io::{Buffer, Clock, ReadQueue, ReadRequest, Storage};
use xxhash_rust::xxh3::xxh3_64;

use crate::device::recovery;
use crate::dram::{Held, Ticket};
use crate::error::{Error, Result};
use crate::fleet::flash::{Flash, Start};
use crate::fleet::flash_lookup::{FlashLookup, FlashStep, Outcome};
use crate::fleet::seat::DeviceStats;
use crate::object::{Change, Found, Object};
use crate::options::{Options, TenantOptions};
use crate::segment::superblock::{NO_TIME, Opening};
use crate::stats::{Stats, TenantStats};
use crate::surroundings::{Surroundings, second};
use crate::tenant::pool::{self, Pool, hit_of};
use crate::tenant::tenants::{self, OTHERS, Tenants};
use crate::witness::Witness;

/// So many versions are set aside at once, so that none comes twice after a kill.
const VERSIONS: u64 = 1 << 24;

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
    pool: usize,
    shard: usize,
    place: usize,
}

/// What is under a key on flash, on its way from there.
#[derive(Debug)]
pub struct Recall {
    cache: Cache,
    /// Of the tenant.
    pool: usize,
    /// Until it is given back.
    ticket: Option<Ticket>,
    lookup: FlashLookup,
    /// What has been read, when all has.
    outcome: Option<Outcome>,
}

impl Recall {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.lookup.key()
    }

    /// Goes on; `read` is what the step before said is to be read. What is to be read next, or
    /// nothing: then it is ready for [`Cache::change_recalled`].
    pub fn step(&mut self, read: Option<tidekv_io::Result<Buffer>>) -> Option<ReadRequest> {
        let flash = self.cache.inner.pools[self.pool].flash.as_ref()?;
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
            let hash = self.lookup.hash();
            self.cache.inner.pools[self.pool].shard(hash).redeem(hash, ticket);
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
    /// The others', and each tenant's.
    pools: Box<[Pool]>,
    tenants: Tenants,
    names: Box<[TenantOptions]>,
    clock: Arc<dyn Clock>,
    storage: Arc<dyn Storage>,
    versions: AtomicU64,
    /// Up to this one flash knows that versions are given out.
    versions_reserved: AtomicU64,
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
    /// The size of the segments into which flash is divided by these options where it has not been
    /// used before, in bytes; none where there is no flash.
    ///
    /// # Errors
    ///
    /// When a setting breaks a bound, or there is too little DRAM for the flash.
    pub fn segment_bytes_for(options: &Options) -> Result<Option<u64>> {
        options.check()?;
        pool::segment_bytes_for(options)
    }

    /// Opens a cache. What is on flash from before is there again, as far as that is certain to
    /// be what was stored last.
    ///
    /// # Errors
    ///
    /// When a setting breaks a bound, a device belongs to another process, or the only device
    /// of a tenant cannot be used at all.
    pub fn open(options: &Options, around: &Surroundings) -> Result<Self> {
        options.check()?;
        let split = tenants::split(options)?;
        if !options.tenants.is_empty() {
            refuse_block_devices(options, around)?;
        }
        let names = std::iter::once(OTHERS)
            .chain(options.tenants.iter().map(|tenant| tenant.name.as_str()));
        let (mut pools, mut starts) = (Vec::new(), Vec::<Start>::new());
        let opening =
            Opening { tenants: tenants::hash(&options.tenants), number: around.random.next_u64() };
        let may_be_warm = was_same(&split, opening.tenants, around);
        for (options, name) in split.iter().zip(names) {
            let (pool, start) = Pool::open(options, opening, may_be_warm, around)
                .map_err(|error| if split.len() > 1 { error.of_tenant(name) } else { error })?;
            pools.push(pool);
            starts.push(start);
        }
        let version_max = starts.iter().map(|start| start.version_max).max().unwrap_or(0);
        let clear_at_s = starts.iter().map(|start| start.clear_at_s).min().unwrap_or(NO_TIME);
        let inner = Inner {
            pools: pools.into(),
            tenants: Tenants::new(&options.tenants),
            names: options.tenants.as_slice().into(),
            clock: Arc::clone(&around.clock),
            storage: Arc::clone(&around.storage),
            versions: AtomicU64::new(version_max),
            versions_reserved: AtomicU64::new(version_max),
            object_bytes_max: options.object_bytes_max,
            clear_at_s: AtomicU32::new(clear_at_s),
            clearing: Mutex::new(()),
            ticked_s: AtomicU32::new(0),
            warm_devices: starts.iter().map(|start| start.warm).sum(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How many flash devices had what was on them when the cache was opened; a device counts
    /// for each tenant who has a part of it.
    pub fn warm_devices(&self) -> usize {
        self.inner.warm_devices
    }

    /// Brings what is in DRAM to flash, as far as there is room for it, and says there that it
    /// was closed in order. The cache holds nothing any more.
    pub fn close(&self) {
        let now_s = self.now_s();
        self.inner.pools.iter().for_each(|pool| pool.close(now_s));
    }

    /// The present second.
    pub fn now_s(&self) -> u32 {
        second(&*self.inner.clock)
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
        self.flashes().for_each(Flash::catch_up);
    }

    /// A version that no object has had.
    pub fn next_version(&self) -> u64 {
        let version = self.inner.versions.fetch_add(1, Ordering::Relaxed) + 1;
        if version > self.inner.versions_reserved.load(Ordering::Acquire) {
            let upto = version + VERSIONS;
            self.flashes().for_each(|flash| flash.set_version_max(upto));
            self.inner.versions_reserved.fetch_max(upto, Ordering::AcqRel);
        }
        version
    }

    /// The largest value that is taken, in bytes.
    pub fn object_bytes_max(&self) -> u64 {
        self.inner.object_bytes_max
    }

    /// Whether an object with a key and a value of these lengths can be kept by some tenant. If not,
    /// storing it only removes what stands under its key.
    pub fn has_room_for(&self, key_len: usize, value_len: usize) -> bool {
        self.inner.pools.iter().any(|pool| pool.has_room_for(key_len, value_len))
    }

    /// The object under `key`, if memory says what that is. It counts as fetched.
    pub fn try_get(&self, key: &[u8]) -> Lookup {
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        let now_s = self.tick();
        let mut shard = pool.shard(hash);
        match pool.recall(&mut shard, hash, key, now_s) {
            Some(held) => Lookup::Hit(pool.fetch(hash, held, now_s)),
            None if pool.may_be_on_flash(hash) => Lookup::Unknown,
            None => {
                pool.miss(hash, now_s);
                Lookup::Miss
            }
        }
    }

    /// Whether only flash may have something under `key`. Nothing is read, and nothing fetched.
    pub fn waits_for_flash(&self, key: &[u8]) -> bool {
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        pool.shard(hash).peek(hash, key).is_none() && pool.may_be_on_flash(hash)
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
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        let now_s = self.tick();
        let mut shard = pool.shard(hash);
        let found = pool.recall(&mut shard, hash, key, now_s).map(|held| held.found.clone());
        if found.is_none() && pool.may_be_on_flash(hash) {
            return Err(WouldWait);
        }
        let (change, result) = decide(found.as_ref());
        let hits = &pool.counters.dram_hits;
        let hit = found.as_ref().map(|found| hit_of(key, found));
        pool.count_lookup(hash, now_s, &change, hit, hits);
        let left = pool.apply(&mut shard, hash, key, now_s, change);
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
        let number = self.inner.tenants.of(key);
        let pool = &self.inner.pools[number];
        let flash = pool.flash.as_ref()?;
        let hash = xxh3_64(key);
        let now_s = self.tick();
        let ticket = pool.shard(hash).draw_ticket(hash);
        let lookup = FlashLookup::new(flash, hash, key, now_s);
        let cache = self.clone();
        Some(Recall { cache, pool: number, ticket: Some(ticket), lookup, outcome: None })
    }

    /// Shows `decide` what has been read under a key, and does what it says, in one step; not if
    /// anything has happened to the key meanwhile, or not all has been read: then `decide` is not
    /// called, and one begins anew.
    pub fn change_recalled<R>(
        &self,
        mut recall: Recall,
        mut decide: impl FnMut(Option<&Found>) -> (Change, R),
    ) -> std::result::Result<R, WouldWait> {
        let hash = recall.lookup.hash();
        let now_s = self.tick();
        let ticket = recall.ticket.take().ok_or(WouldWait)?;
        let pool = &self.inner.pools[recall.pool];
        let mut shard = pool.shard(hash);
        let is_valid = shard.redeem(hash, ticket);
        let read = recall.outcome.take().filter(|_| is_valid).ok_or(WouldWait)?;
        if shard.peek(hash, recall.key()).is_some() {
            // Another has read it.
            return Err(WouldWait);
        }
        let read = read.filter(|(found, _)| !found.object.deadline.has_passed(now_s));
        let hit = read.as_ref().map(|(found, _)| hit_of(recall.key(), found));
        let (change, result) = match read {
            None => decide(None),
            Some((found, copy)) => {
                let held = Held { key: recall.key().into(), found: found.clone(), copy };
                pool.leave(&shard.put(hash, held), now_s);
                decide(Some(&found))
            }
        };
        pool.count_lookup(hash, now_s, &change, hit, &pool.counters.flash_hits);
        let left = pool.apply(&mut shard, hash, recall.key(), now_s, change);
        drop(shard);
        drop(left);
        Ok(result)
    }

    /// Reads that are begun and end later, on the storage of the flash devices, if it has such.
    pub fn read_queue(&self) -> Option<Box<dyn ReadQueue>> {
        self.flashes().next().and_then(|_| self.inner.storage.read_queue())
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
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        let now_s = self.tick();
        let left = pool.apply(&mut pool.shard(hash), hash, key, now_s, change);
        drop(left);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        // All at once: what is read from flash into one shard, or leaves another for it, would
        // else be there again when the other side has been cleared.
        let pools = &self.inner.pools;
        let shards = pools.iter().flat_map(|pool| &pool.shards);
        let mut shards: Vec<_> = shards.map(Mutex::lock).collect();
        shards.iter_mut().for_each(|shard| shard.clear());
        self.flashes().for_each(Flash::clear);
        pools.iter().for_each(|pool| pool.witnessed.saw_clear());
    }

    /// Forgets at the second `unix_s` everything that is there then, in place of an earlier
    /// call's second.
    pub fn clear_at(&self, unix_s: u32) {
        let unix_s = unix_s.min(NO_TIME - 1);
        let one_by_one = self.inner.clearing.lock();
        self.flashes().for_each(|flash| flash.set_clear_at(unix_s));
        self.inner.clear_at_s.store(unix_s, Ordering::Release);
        drop(one_by_one);
        self.tick();
    }

    /// Changes how much DRAM there is; what tenants have stays theirs. What does not fit any more
    /// leaves, a little of each shard at a time: others find their objects meanwhile, and the caller
    /// waits until all has left, and for flash to take it.
    ///
    /// # Errors
    ///
    /// When it is too little.
    pub fn set_dram_bytes(&self, dram_bytes: u64) -> Result<()> {
        let (others, tenants) = (&self.inner.pools[0], &self.inner.pools[1..]);
        let taken: u64 = tenants.iter().map(Pool::dram_bytes).sum();
        others.set_dram_bytes(dram_bytes.saturating_sub(taken), self.now_s())
    }

    /// Changes how much DRAM a tenant has, who may be called `default`; what the others have stays
    /// theirs.
    ///
    /// # Errors
    ///
    /// When it is too little, or there is no such tenant.
    pub fn set_tenant_dram_bytes(&self, name: &str, dram_bytes: u64) -> Result<()> {
        self.pool_of(name)?.set_dram_bytes(dram_bytes, self.now_s())
    }

    /// Changes how much flash may be used; what tenants have stays theirs. More may be at once, but no
    /// more than the cache was opened with; if less may, objects go in the background, in the order in
    /// which they would anyway, and their room goes back to the file system. 0 is none. The devices do
    /// not know of it: a cache that is opened may use all that it is opened with.
    ///
    /// # Errors
    ///
    /// When it is more than there is, or too little.
    pub fn set_flash_bytes(&self, flash_bytes: u64) -> Result<()> {
        let (others, tenants) = (&self.inner.pools[0], &self.inner.pools[1..]);
        let taken: u64 = tenants.iter().map(Pool::flash_bytes).sum();
        let bytes = flash_bytes.checked_sub(taken).ok_or_else(|| {
            Error::invalid(format!("tenants have {taken} bytes of flash between them"))
        })?;
        others.set_flash_bytes(bytes)
    }

    /// Changes how much flash a tenant may use, who may be called `default`, as
    /// [`Cache::set_flash_bytes`]; what the others have stays theirs.
    ///
    /// # Errors
    ///
    /// When it is more than he had when the cache was opened, or too little, or there is no such tenant.
    pub fn set_tenant_flash_bytes(&self, name: &str, flash_bytes: u64) -> Result<()> {
        self.pool_of(name)?.set_flash_bytes(flash_bytes)
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
        let shards = &self.inner.pools.get(from.pool)?.shards;
        let shard = shards.get(from.shard)?.lock();
        shard.look_at(from.place, count, |held| {
            if !held.found.object.deadline.has_passed(now_s) {
                see(&held.key, &held.found);
            }
        });
        let place = from.place + count;
        let next = match place < shard.places() {
            true => Cursor { place, ..from },
            false if from.shard + 1 < shards.len() => {
                Cursor { shard: from.shard + 1, place: 0, ..from }
            }
            false => Cursor { pool: from.pool + 1, shard: 0, place: 0 },
        };
        (next.pool < self.inner.pools.len()).then_some(next)
    }

    /// From now on that one is told of all that happens to keys; whether there was none before, for
    /// the first one stays.
    pub fn watch(&self, witness: &Arc<dyn Witness>) -> bool {
        let pools = self.inner.pools.iter().enumerate();
        pools.fold(true, |all, (tenant, pool)| {
            pool.witnessed.watch(tenant, Arc::clone(witness)) && all
        })
    }

    /// Whether the witness is told, from now on, of a tenant's hits in DRAM; at first it is. Who looks now
    /// and then keeps most of them from costing anything.
    pub fn watch_hits(&self, tenant: usize, is_told: bool) {
        if let Some(pool) = self.inner.pools.get(tenant) {
            pool.witnessed.set_of_hits(is_told);
        }
    }

    /// How often each tenant's keys have been asked for, in the order of [`Cache::tenant_stats`].
    /// Takes no lock.
    pub fn lookups(&self) -> Vec<u64> {
        self.inner.pools.iter().map(Pool::lookups).collect()
    }

    /// How the flash devices stand, in the order of their seats, tenant by tenant.
    pub fn device_stats(&self) -> Vec<DeviceStats> {
        self.flashes().flat_map(Flash::stats).collect()
    }

    /// How the cache stands.
    pub fn stats(&self) -> Stats {
        self.inner.pools.iter().map(Pool::stats).fold(Stats::default(), |all, stats| all + stats)
    }

    /// How the part of each tenant stands; the first are the others.
    pub fn tenant_stats(&self) -> Vec<TenantStats> {
        let names = std::iter::once((OTHERS, &[][..]));
        let names =
            names.chain(self.inner.names.iter().map(|tenant| (&*tenant.name, &*tenant.prefix)));
        let of = |(pool, (name, prefix)): (&Pool, (&str, &[u8]))| {
            let devices = pool.flash.as_ref().map_or_else(Vec::new, Flash::stats);
            TenantStats {
                name: name.into(),
                prefix: prefix.into(),
                cache: pool.stats(),
                flash_objects: devices.iter().map(|device| device.objects).sum(),
                flash_bytes_max: pool.flash_bytes(),
                flash_segments_evicted: devices
                    .iter()
                    .map(|device| device.counts.segments_evicted)
                    .sum(),
                flash_dram: pool.flash_dram(),
                dram_bytes_min: pool.dram_bytes_for_all(),
                flash_bytes_min: pool.flash_bytes_min(),
                flash_bytes_beside: pool.flash_bytes_beside(),
            }
        };
        self.inner.pools.iter().zip(names).map(of).collect()
    }
}

impl Cache {
    /// The pool of a key's tenant.
    fn pool(&self, key: &[u8]) -> &Pool {
        &self.inner.pools[self.inner.tenants.of(key)]
    }

    /// The pool of the tenant of that name.
    fn pool_of(&self, name: &str) -> Result<&Pool> {
        let number = self.inner.names.iter().position(|tenant| tenant.name == name);
        let number = number.map(|number| number + 1).or((name == OTHERS).then_some(0));
        let number = number.ok_or_else(|| Error::invalid(format!("there is no tenant {name}")))?;
        Ok(&self.inner.pools[number])
    }

    fn flashes(&self) -> impl Iterator<Item = &Flash> {
        self.inner.pools.iter().filter_map(|pool| pool.flash.as_ref())
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
                self.flashes().for_each(|flash| flash.set_clear_at(NO_TIME));
                clear_at_s.store(NO_TIME, Ordering::Release);
            }
        }
        // To look is cheap for many threads at once, to write is not.
        let ticked_s = &self.inner.ticked_s;
        if ticked_s.load(Ordering::Relaxed) != now_s
            && ticked_s.swap(now_s, Ordering::Relaxed) != now_s
        {
            self.flashes().for_each(Flash::tick);
        }
        now_s
    }
}

/// Whether the flash of all was part of the cache when it was opened last, and it was shared by those
/// tenants. Of a tenant's devices that one says it that knows best who has left.
fn was_same(split: &[Options], tenants: u64, around: &Surroundings) -> bool {
    let opening = |options: &Options| {
        let flash = options.flash.iter();
        let told = flash.filter_map(|flash| recovery::last_opening(&around.storage, &flash.path));
        told.max_by_key(|(_, epoch)| *epoch).map(|(opening, _)| opening)
    };
    let mut told = split.iter().filter_map(opening);
    let Some(first) = told.next() else { return true };
    first.tenants == tenants && told.all(|other| other == first)
}

/// A block device cannot be split: there is nothing beside it.
fn refuse_block_devices(options: &Options, around: &Surroundings) -> Result<()> {
    for flash in &options.flash {
        if around.storage.exists(&flash.path)?
            && around.storage.open_read(&flash.path, tidekv_io::Access::Buffered)?.is_block_device()
        {
            let path = flash.path.display();
            return Err(Error::invalid(format!("tenants cannot share the block device {path}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
