//! The cache: objects by key, in DRAM and on flash, for many threads at once.
//!
//! Guarantees:
//! 1. A lookup returns the object last stored under the key, before its deadline; never an older
//!    state, never another key's object. It may miss at any time.
//! 2. [`Cache::change`] is atomic: nothing else happens to the key between the read and the update.
//! 3. Methods named `try_…` answer from memory or not at all; they wait for no device, except that
//!    the operating system may delay a buffered write.
//! 4. A device fault is not an error: it is a miss.
//!
//! Keys belong to tenants ([`crate::tenant::tenants`]). Each tenant has its own [`Pool`], which
//! implements all operations on keys; time, and the actions that depend on it, are common to all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidekv_io::{Buffer, Clock, ReadQueue, ReadRequest, Storage};
use xxhash_rust::xxh3::xxh3_64;

use crate::access_observer::AccessObserver;
use crate::device::recovery;
use crate::dram::{DramObject, Lease};
use crate::environment::{Environment, second};
use crate::error::{Error, Result};
use crate::fleet::device_slot::DeviceStats;
use crate::fleet::flash::{Flash, Start};
use crate::fleet::flash_lookup::{FlashLookup, FlashStep, Outcome};
use crate::object::{CachedObject, Change, Object};
use crate::options::{Options, TenantOptions};
use crate::segment::superblock::{NO_TIME, Opening};
use crate::stats::{Stats, TenantStats};
use crate::tenant::pool::{self, Pool, hit_of};
use crate::tenant::scaled_dram::ScaledDram;
use crate::tenant::tenants::{self, DEFAULT_TENANT, Tenants};

/// Versions are reserved in batches of this many, so that none is issued twice after a kill.
const VERSIONS: u64 = 1 << 24;

/// The result of a lookup in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The object.
    Hit(CachedObject),
    /// There is no object.
    Miss,
    /// Flash may hold the object.
    Unknown,
}

/// The answer is not in memory: retry with a call that may wait for flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldBlock;

/// The position of a scan over DRAM ([`Cache::visit`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    pool: usize,
    shard: usize,
    place: usize,
}

/// A pending read of a key from flash.
#[derive(Debug)]
pub struct PendingRead {
    cache: Cache,
    /// The tenant's pool.
    pool: usize,
    /// Held until it is returned.
    lease: Option<Lease>,
    lookup: FlashLookup,
    /// The result, once the read is complete.
    outcome: Option<Outcome>,
}

impl PendingRead {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.lookup.key()
    }

    /// The length of the value that was read, if the read is complete and has found one.
    pub fn value_len(&self) -> Option<usize> {
        let (found, _) = self.outcome.as_ref()?.as_ref()?;
        Some(found.object.value.len())
    }

    /// Advances the read; `read` is the result of the previous step's request. Returns the next
    /// request, or `None` when the result is ready for [`Cache::finish_update`].
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

impl Drop for PendingRead {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            let hash = self.lookup.hash();
            self.cache.inner.pools[self.pool].shard(hash).validate_lease(hash, lease);
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
    /// The default pool, then each tenant's.
    pools: Box<[Pool]>,
    tenants: Tenants,
    names: Box<[TenantOptions]>,
    clock: Arc<dyn Clock>,
    storage: Arc<dyn Storage>,
    versions: AtomicU64,
    /// The highest version that flash has recorded as reserved.
    versions_reserved: AtomicU64,
    object_bytes_max: u64,
    evicts: bool,
    /// When the whole cache is cleared.
    clear_at_s: AtomicU32,
    /// Held while that is changed or carried out, in DRAM and on flash.
    clearing: Mutex<()>,
    /// The second of the last device maintenance.
    maintained_s: AtomicU32,
    warm_devices: usize,
}

impl Cache {
    /// The segment size that these options give flash that has not been used before, in bytes;
    /// `None` without flash.
    ///
    /// # Errors
    ///
    /// When a setting is out of bounds, or there is too little DRAM for the flash.
    pub fn segment_bytes_for(options: &Options) -> Result<Option<u64>> {
        options.check()?;
        pool::segment_bytes_for(options)
    }

    /// Opens a cache. Objects on flash are restored if they are certain to be the last stored.
    ///
    /// # Errors
    ///
    /// When a setting is out of bounds, another process has locked a device, or a device cannot be
    /// used and [`Options::requires_flash`] is set.
    pub fn open(options: &Options, environment: &Environment) -> Result<Self> {
        options.check()?;
        let split = tenants::split(options)?;
        if !options.tenants.is_empty() {
            refuse_block_devices(options, environment)?;
        }
        let names = std::iter::once(DEFAULT_TENANT)
            .chain(options.tenants.iter().map(|tenant| tenant.name.as_str()));
        let (mut pools, mut starts) = (Vec::new(), Vec::<Start>::new());
        let opening = Opening {
            tenants: tenants::hash(&options.tenants, &options.flash),
            number: environment.random.next_u64(),
        };
        let may_be_warm = was_same(&split, opening.tenants, environment);
        for (options, name) in split.iter().zip(names) {
            let (pool, start) = Pool::open(options, opening, may_be_warm, environment)
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
            clock: Arc::clone(&environment.clock),
            storage: Arc::clone(&environment.storage),
            versions: AtomicU64::new(version_max),
            versions_reserved: AtomicU64::new(version_max),
            object_bytes_max: options.object_bytes_max,
            evicts: options.evicts,
            clear_at_s: AtomicU32::new(clear_at_s),
            clearing: Mutex::new(()),
            maintained_s: AtomicU32::new(0),
            warm_devices: starts.iter().map(|start| start.warm).sum(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How many flash devices were restored by warm start; a device counts once for each tenant
    /// that has a part of it.
    pub fn warm_devices(&self) -> usize {
        self.inner.warm_devices
    }

    /// Writes the objects in DRAM to flash, as far as there is room, and marks flash as cleanly
    /// closed. The cache is empty afterwards.
    pub fn close(&self) {
        let now_s = self.now_s();
        self.inner.pools.iter().for_each(|pool| pool.close(now_s));
    }

    /// The present second.
    pub fn now_s(&self) -> u32 {
        second(&*self.inner.clock)
    }

    /// Runs due maintenance: clears the cache if its time has come, checks devices that are out or
    /// warming, and removes expired objects from DRAM. Call it once a second. All but the last also
    /// happens with every operation. May wait for a device.
    pub fn run_maintenance(&self) {
        let now_s = self.tick();
        self.inner.pools.iter().for_each(|pool| pool.sweep(now_s));
    }

    /// Drains the pending writes of the flash devices in this thread. A caller that stores faster
    /// than flash accepts, and prefers to wait over dropped objects, calls this from time to time.
    pub fn drain_writes(&self) {
        self.flashes().for_each(Flash::drain_writes);
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

    /// Whether objects are evicted from DRAM to make room for others.
    pub fn evicts(&self) -> bool {
        self.inner.evicts
    }

    /// The largest value that is accepted, in bytes.
    pub fn object_bytes_max(&self) -> u64 {
        self.inner.object_bytes_max
    }

    /// The bytes of DRAM that the cache charges for an object with a key and a value of these
    /// lengths, in bytes.
    pub fn object_dram_bytes(key_len: usize, value_len: usize) -> usize {
        pool::object_bytes(key_len, value_len)
    }

    /// Whether any tenant can keep an object with a key and a value of these lengths, in bytes. If
    /// not, storing it only removes the object under its key.
    pub fn has_room_for(&self, key_len: usize, value_len: usize) -> bool {
        self.inner.pools.iter().any(|pool| pool.has_room_for(key_len, value_len))
    }

    /// Whether an object with such a value has room without eviction, in place of one whose value
    /// has `old_len` bytes, if there is one. Always, unless the cache must not evict
    /// ([`Options::evicts`]). May be called while a change of `key` is decided, and is exact then.
    pub fn has_free_room_for(&self, key: &[u8], value_len: usize, old_len: Option<usize>) -> bool {
        self.pool(key).has_free_room_for(xxh3_64(key), (key.len(), value_len), old_len)
    }

    /// Looks `key` up in memory. The object counts as fetched.
    pub fn try_get(&self, key: &[u8]) -> Lookup {
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        let now_s = self.tick();
        let mut shard = pool.shard(hash);
        match pool.get_from_dram(&mut shard, hash, key, now_s) {
            Some(cached) => Lookup::Hit(pool.fetch(hash, cached, now_s)),
            None if pool.may_be_on_flash(hash) => Lookup::Unknown,
            None => {
                pool.miss(hash, now_s);
                Lookup::Miss
            }
        }
    }

    /// The length of the value under `key`, if it is in DRAM. Fetches nothing.
    pub fn value_len(&self, key: &[u8]) -> Option<usize> {
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        pool.shard(hash).peek(hash, key).map(|cached| cached.found.object.value.len())
    }

    /// Whether a lookup of `key` would have to read flash. Reads nothing, and fetches nothing.
    pub fn needs_flash_read(&self, key: &[u8]) -> bool {
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        pool.shard(hash).peek(hash, key).is_none() && pool.may_be_on_flash(hash)
    }

    /// The object under `key`, which counts as fetched. May wait for flash.
    pub fn get(&self, key: &[u8]) -> Option<CachedObject> {
        loop {
            match self.try_get(key) {
                Lookup::Hit(found) => return Some(found),
                Lookup::Miss => return None,
                Lookup::Unknown => {}
            }
            let fetch = |found: Option<&CachedObject>| (Change::Fetch, found.cloned());
            if let Ok(found) = self.read_and_change(key, fetch) {
                return found;
            }
        }
    }

    /// Passes the object under `key` to `decide` and applies its change, if memory has the answer;
    /// otherwise `decide` is not called.
    pub fn try_change<R>(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&CachedObject>) -> (Change, R),
    ) -> std::result::Result<R, WouldBlock> {
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        let now_s = self.tick();
        let mut shard = pool.shard(hash);
        let found =
            pool.get_from_dram(&mut shard, hash, key, now_s).map(|cached| cached.found.clone());
        if found.is_none() && pool.may_be_on_flash(hash) {
            return Err(WouldBlock);
        }
        let (change, result) = decide(found.as_ref());
        let hits = &pool.counters.dram_hits;
        let hit = found.as_ref().map(|found| hit_of(key, found));
        pool.count_lookup(hash, now_s, &change, hit, hits);
        let removed = pool.apply(&mut shard, hash, key, now_s, change);
        drop(shard);
        drop(removed);
        Ok(result)
    }

    /// Passes the object under `key` to `decide` and applies its change, atomically. `decide` is
    /// called once. May wait for flash.
    pub fn change<R>(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&CachedObject>) -> (Change, R),
    ) -> R {
        loop {
            if let Ok(result) = self.try_change(key, &mut decide) {
                return result;
            }
            if let Ok(result) = self.read_and_change(key, &mut decide) {
                return result;
            }
        }
    }

    /// Reads the object under `key` from flash, passes it to `decide` and applies its change. Fails
    /// as [`Cache::finish_update`] does. Waits for flash.
    fn read_and_change<R>(
        &self,
        key: &[u8],
        decide: impl FnMut(Option<&CachedObject>) -> (Change, R),
    ) -> std::result::Result<R, WouldBlock> {
        let mut pending = self.begin_read(key).ok_or(WouldBlock)?;
        let mut read = None;
        while let Some(ReadRequest { file, offset, len }) = pending.step(read) {
            read = Some(file.read_at(offset, len));
        }
        self.finish_update(pending, decide)
    }

    /// Begins to read `key` from flash, for callers that must not block; `None` if there is no
    /// flash.
    pub fn begin_read(&self, key: &[u8]) -> Option<PendingRead> {
        let number = self.inner.tenants.of(key);
        let pool = &self.inner.pools[number];
        let flash = pool.flash.as_ref()?;
        let hash = xxh3_64(key);
        let now_s = self.tick();
        let lease = pool.shard(hash).acquire_lease(hash);
        let lookup = FlashLookup::new(flash, hash, key, now_s);
        let cache = self.clone();
        Some(PendingRead { cache, pool: number, lease: Some(lease), lookup, outcome: None })
    }

    /// Passes the object that was read to `decide` and applies its change, atomically. Fails if the
    /// key has been touched meanwhile or the read is incomplete: then `decide` is not called, and
    /// the caller starts over.
    pub fn finish_update<R>(
        &self,
        mut pending: PendingRead,
        mut decide: impl FnMut(Option<&CachedObject>) -> (Change, R),
    ) -> std::result::Result<R, WouldBlock> {
        let hash = pending.lookup.hash();
        let now_s = self.tick();
        let lease = pending.lease.take().ok_or(WouldBlock)?;
        let pool = &self.inner.pools[pending.pool];
        let mut shard = pool.shard(hash);
        let is_valid = shard.validate_lease(hash, lease);
        let read = pending.outcome.take().filter(|_| is_valid).ok_or(WouldBlock)?;
        if shard.peek(hash, pending.key()).is_some() {
            // Another thread has read it.
            return Err(WouldBlock);
        }
        let read = read.filter(|(found, _)| !found.object.deadline.has_passed(now_s));
        let hit = read.as_ref().map(|(found, _)| hit_of(pending.key(), found));
        let (change, result) = match read {
            None => decide(None),
            Some((found, copy)) => {
                let cached = DramObject { key: pending.key().into(), found: found.clone(), copy };
                pool.evict(&shard.put(hash, cached), now_s);
                decide(Some(&found))
            }
        };
        pool.count_lookup(hash, now_s, &change, hit, &pool.counters.flash_hits);
        let removed = pool.apply(&mut shard, hash, pending.key(), now_s, change);
        drop(shard);
        drop(removed);
        Ok(result)
    }

    /// A queue for asynchronous reads of the flash devices' storage, if it has one.
    pub fn read_queue(&self) -> Option<Box<dyn ReadQueue>> {
        self.flashes().next().and_then(|_| self.inner.storage.read_queue())
    }

    /// Stores an object, unconditionally.
    pub fn store(&self, key: &[u8], object: Object) {
        self.put_unconditional(key, Change::Store(object));
    }

    /// Removes the object under `key`, if there is one.
    pub fn remove(&self, key: &[u8]) {
        self.put_unconditional(key, Change::Remove);
    }

    fn put_unconditional(&self, key: &[u8], change: Change) {
        let (pool, hash) = (self.pool(key), xxh3_64(key));
        let now_s = self.tick();
        let removed = pool.apply(&mut pool.shard(hash), hash, key, now_s, change);
        drop(removed);
    }

    /// Clears the cache.
    pub fn clear(&self) {
        // All at once: else an object read from flash into one shard, or evicted from another to
        // flash, would reappear after the other side has been cleared.
        let pools = &self.inner.pools;
        let shards = pools.iter().flat_map(|pool| &pool.shards);
        let mut shards: Vec<_> = shards.map(Mutex::lock).collect();
        shards.iter_mut().for_each(|shard| shard.clear());
        self.flashes().for_each(Flash::clear);
        pools.iter().for_each(|pool| pool.observer.on_clear());
        drop(shards);
        pools.iter().for_each(Pool::note_all_free_bytes);
    }

    /// Clears the cache at the second `unix_s`, in place of the second of an earlier call.
    pub fn clear_at(&self, unix_s: u32) {
        let unix_s = unix_s.min(NO_TIME - 1);
        let one_by_one = self.inner.clearing.lock();
        self.flashes().for_each(|flash| flash.set_clear_at(unix_s));
        self.inner.clear_at_s.store(unix_s, Ordering::Release);
        drop(one_by_one);
        self.tick();
    }

    /// Changes the size of DRAM, in bytes; tenants keep theirs. Objects that no longer fit are
    /// evicted, a few of each shard at a time: other threads still find theirs, and the caller
    /// waits until all have been evicted and flash has taken them.
    ///
    /// # Errors
    ///
    /// When it is too little.
    pub fn set_dram_bytes(&self, dram_bytes: u64) -> Result<()> {
        let (others, tenants) = (&self.inner.pools[0], &self.inner.pools[1..]);
        let taken: u64 = tenants.iter().map(Pool::dram_bytes).sum();
        others.set_dram_bytes(dram_bytes.saturating_sub(taken), self.now_s())
    }

    /// Changes the DRAM of a tenant, in bytes; `default` names the keys of no tenant. The others
    /// keep theirs.
    ///
    /// # Errors
    ///
    /// When it is too little, or there is no such tenant.
    pub fn set_tenant_dram_bytes(&self, name: &str, dram_bytes: u64) -> Result<()> {
        self.pool_of(name)?.set_dram_bytes(dram_bytes, self.now_s())
    }

    /// Changes how many bytes of flash may be used; tenants keep theirs. More can be used at once,
    /// up to the size with which the cache was opened. With less, objects are evicted in the
    /// background, in the usual order, and their space returns to the file system. 0 means none.
    /// The limit is not stored: a reopened cache may use all that its options give.
    ///
    /// # Errors
    ///
    /// When it is more than there is, or too little.
    pub fn set_flash_bytes(&self, flash_bytes: u64) -> Result<()> {
        let (others, tenants) = (&self.inner.pools[0], &self.inner.pools[1..]);
        let taken: u64 = tenants.iter().map(Pool::flash_bytes).sum();
        let bytes = flash_bytes
            .checked_sub(taken)
            .ok_or_else(|| Error::invalid(format!("the tenants have {taken} bytes of flash")))?;
        others.set_flash_bytes(bytes)
    }

    /// Changes how many bytes of flash a tenant may use, as [`Cache::set_flash_bytes`] does;
    /// `default` names the keys of no tenant. The others keep theirs.
    ///
    /// # Errors
    ///
    /// When it is more than the tenant had when the cache was opened, or too little, or there is no
    /// such tenant.
    pub fn set_tenant_flash_bytes(&self, name: &str, flash_bytes: u64) -> Result<()> {
        self.pool_of(name)?.set_flash_bytes(flash_bytes)
    }

    /// Calls `see` for about `count` objects in DRAM from `from` on, with their keys; returns the
    /// next position, if there are more. An object that is present all along is visited once,
    /// unless DRAM is resized.
    pub fn visit(
        &self,
        from: Cursor,
        count: usize,
        mut see: impl FnMut(&[u8], &CachedObject),
    ) -> Option<Cursor> {
        let now_s = self.tick();
        let shards = &self.inner.pools.get(from.pool)?.shards;
        let shard = shards.get(from.shard)?.lock();
        shard.look_at(from.place, count, |cached| {
            if !cached.found.object.deadline.has_passed(now_s) {
                see(&cached.key, &cached.found);
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

    /// Sets the observer of all accesses; returns whether there was none before, for the first one
    /// stays.
    pub fn set_observer(&self, observer: &Arc<dyn AccessObserver>) -> bool {
        let pools = self.inner.pools.iter().enumerate();
        pools.fold(true, |all, (tenant, pool)| {
            pool.observer.set_observer(tenant, Arc::clone(observer)) && all
        })
    }

    /// Switches the notification of a tenant's hits in DRAM on or off; it is on at first. An
    /// observer that samples windows of time keeps most hits free of cost.
    pub fn observe_hits(&self, tenant: usize, is_enabled: bool) {
        if let Some(pool) = self.inner.pools.get(tenant) {
            pool.observer.set_observes_hits(is_enabled);
        }
    }

    /// The number of lookups of each tenant, in the order of [`Cache::tenant_stats`]. Takes no
    /// lock.
    pub fn lookups(&self) -> Vec<u64> {
        self.inner.pools.iter().map(Pool::lookups).collect()
    }

    /// The number of misses of each tenant, in the order of [`Cache::tenant_stats`]. Takes no lock.
    pub fn misses(&self) -> Vec<u64> {
        self.inner.pools.iter().map(Pool::misses).collect()
    }

    /// The DRAM of each tenant in bytes, in the order of [`Cache::tenant_stats`]. Takes no lock.
    pub fn dram_bytes(&self) -> Vec<u64> {
        self.inner.pools.iter().map(Pool::dram_bytes).collect()
    }

    /// An empty model of a tenant's DRAM as if it had been opened with `dram_bytes`, for keys that
    /// are sampled at `rate`, 0 to 1. `None` for a tenant with flash, one that never evicts
    /// ([`Options::evicts`]), or one that does not exist.
    pub fn scaled_dram(&self, tenant: usize, dram_bytes: u64, rate: f64) -> Option<ScaledDram> {
        let (eviction, object_bytes_max) = self.inner.pools.get(tenant)?.dram_policy()?;
        Some(ScaledDram::new(eviction, object_bytes_max, dram_bytes, rate))
    }

    /// The statistics of the flash devices, tenant by tenant, in the order of their slots.
    pub fn device_stats(&self) -> Vec<DeviceStats> {
        self.flashes().flat_map(Flash::stats).collect()
    }

    /// The statistics of the cache.
    pub fn stats(&self) -> Stats {
        self.inner.pools.iter().map(Pool::stats).fold(Stats::default(), |all, stats| all + stats)
    }

    /// The statistics of each tenant; `default` first.
    pub fn tenant_stats(&self) -> Vec<TenantStats> {
        let names = std::iter::once((DEFAULT_TENANT, &[][..]));
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
                flash_overhead_bytes: pool.flash_overhead_bytes(),
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

    /// The pool of the tenant with this name.
    fn pool_of(&self, name: &str) -> Result<&Pool> {
        let number = self.inner.names.iter().position(|tenant| tenant.name == name);
        let number = number.map(|number| number + 1).or((name == DEFAULT_TENANT).then_some(0));
        let number = number.ok_or_else(|| Error::invalid(format!("there is no tenant {name}")))?;
        Ok(&self.inner.pools[number])
    }

    fn flashes(&self) -> impl Iterator<Item = &Flash> {
        self.inner.pools.iter().filter_map(|pool| pool.flash.as_ref())
    }

    /// The present second, after all maintenance due by then.
    fn tick(&self) -> u32 {
        let now_s = self.now_s();
        let clear_at_s = &self.inner.clear_at_s;
        let due_s = clear_at_s.load(Ordering::Acquire);
        if due_s <= now_s {
            // Concurrent callers wait until it is done.
            let _one_by_one = self.inner.clearing.lock();
            if clear_at_s.load(Ordering::Acquire) == due_s {
                self.clear();
                self.flashes().for_each(|flash| flash.set_clear_at(NO_TIME));
                clear_at_s.store(NO_TIME, Ordering::Release);
            }
        }
        // Loads are cheap for many threads at once, stores are not.
        let maintained_s = &self.inner.maintained_s;
        if maintained_s.load(Ordering::Relaxed) != now_s
            && maintained_s.swap(now_s, Ordering::Relaxed) != now_s
        {
            self.flashes().for_each(Flash::tick);
        }
        now_s
    }
}

/// Whether all flash belonged to this cache when it was last opened, with these tenants. Of a
/// tenant's devices the one with the newest membership decides.
fn was_same(split: &[Options], tenants: u64, environment: &Environment) -> bool {
    let opening = |options: &Options| {
        let flash = options.flash.iter();
        let openings =
            flash.filter_map(|flash| recovery::last_opening(&environment.storage, &flash.path));
        openings.max_by_key(|(_, epoch)| *epoch).map(|(opening, _)| opening)
    };
    let mut openings = split.iter().filter_map(opening);
    let Some(first) = openings.next() else { return true };
    first.tenants == tenants && openings.all(|other| other == first)
}

/// A block device cannot be split among tenants: there is no file next to it.
fn refuse_block_devices(options: &Options, environment: &Environment) -> Result<()> {
    for flash in &options.flash {
        if environment.storage.exists(&flash.path)?
            && environment
                .storage
                .open_read(&flash.path, tidekv_io::Access::Buffered)?
                .is_block_device()
        {
            let path = flash.path.display();
            return Err(Error::invalid(format!("tenants cannot share the block device {path}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
