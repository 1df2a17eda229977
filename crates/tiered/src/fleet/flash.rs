//! Flash behind DRAM: keys are spread over devices, and a device that fails loses no more than its
//! own share (BigKV, "reactive fault tolerance with sharding").
//!
//! Guarantees:
//! 1. A lookup ([`crate::fleet::flash_lookup`]) finds the object last put under a key and not
//!    invalidated since, or nothing: whatever devices fail, return and fail again, and after a
//!    kill.
//! 2. No device error becomes an error of [`Flash`].
//! 3. [`Flash::put`] waits for no device: without a free buffer the object is rejected.
//!
//! Relies on its caller to serialise the operations on a key, and to acquire a lease before it
//! reads: the routing is read after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tidekv_io::Priority;
use xxhash_rust::xxh3::xxh3_64;

use crate::device::flash_device::Device;
use crate::device::read_times::ReadClock;
use crate::device::recovery::{self, Files};
use crate::device::write_budget::WriteBudget;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::fleet::array::Array;
use crate::fleet::copy_location::CopyLocation;
use crate::fleet::device_slot::{DeviceSlot, DeviceStats, SlotLimit};
use crate::fleet::health::{Health, Work};
use crate::fleet::rendezvous::Rendezvous;
use crate::fleet::routing::Routing;
use crate::index::flash_dram::Limits;
use crate::membership::Membership;
use crate::object::{CachedObject, Object};
use crate::options::Options;
use crate::segment::bucket::SmallObject;
use crate::segment::parts::Parts;
use crate::segment::record::{self, Kind, Record};
use crate::segment::state_file::StateFile;
use crate::segment::superblock::{Opening, Superblock};
use crate::stats::Counter;

/// A slot that has been warming for this long is warm.
const WARMING_MAX: Duration = Duration::from_secs(3600);

/// All devices.
#[derive(Debug, Clone)]
pub(crate) struct Flash {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device_slots: Box<[DeviceSlot]>,
    routing: ArcSwap<Routing>,
    membership: Mutex<Membership>,
    /// Held while the devices' limits are changed one by one.
    resizing: Mutex<()>,
    state: Option<StateFile>,
    environment: Environment,
    /// Held while devices are notified, so that one that returns has the current limits.
    limits: Mutex<Limits>,
    opening: Opening,
    object_bytes_max: u64,
    write_budget: Option<WriteBudget>,
    version_max: AtomicU64,
    clear_at_s: AtomicU32,
}

/// The state that was recovered at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) warm: usize,
    pub(crate) version_max: u64,
    pub(crate) clear_at_s: u32,
}

impl Flash {
    /// Opens all devices of the options.
    pub(crate) fn open(
        options: &Options,
        limits: Limits,
        opening: Opening,
        may_be_warm: bool,
        environment: &Environment,
    ) -> Result<(Self, Start)> {
        let array = Array::open(options, limits, opening, may_be_warm, environment)?;
        let start = Start {
            warm: array.warm,
            version_max: array.version_max,
            clear_at_s: array.clear_at_s,
        };
        let now_ns = environment.clock.monotonic_ns();
        let budget = |bytes_per_s| WriteBudget::new(bytes_per_s, now_ns);
        let rendezvous = Rendezvous::new(options.flash.iter().map(|flash| flash.bytes));
        let mut missing = Vec::new();
        let device_slots = array.device_slots.into_iter().enumerate().map(|(number, opened)| {
            let mut health = Health::new();
            if opened.device.is_none() {
                missing.push(number);
                health.detached(now_ns);
            }
            let limit = SlotLimit { bytes: opened.options.bytes, slots: opened.layout.slots };
            DeviceSlot {
                limit: Mutex::new(limit),
                options: opened.options,
                layout: opened.layout,
                device: ArcSwapOption::from(opened.device.map(Arc::new)),
                health: Mutex::new(health),
                executor: environment.executor(number),
                is_scheduled: AtomicBool::new(false),
                cursor: Mutex::new(0),
                times_out: Counter::default(),
                times_back: Counter::default(),
                counters: opened.counters,
                read_clock: ReadClock::default(),
                returned: Mutex::new((0, 0)),
            }
        });
        let device_slots: Box<[DeviceSlot]> = device_slots.collect();
        let (membership, failure) = (array.membership, array.failure);
        let is_warming = device_slots.iter().map(|_| false);
        let routing = Routing::new(rendezvous, &membership, is_warming);
        let flash = Self {
            inner: Arc::new(Inner {
                device_slots,
                routing: ArcSwap::from_pointee(routing),
                membership: Mutex::new(membership),
                resizing: Mutex::new(()),
                state: array.state,
                environment: environment.clone(),
                limits: Mutex::new(limits),
                opening,
                object_bytes_max: options.object_bytes_max,
                write_budget: options.flash_writes_bytes_per_s.map(budget),
                version_max: AtomicU64::new(start.version_max),
                clear_at_s: AtomicU32::new(start.clear_at_s),
            }),
        };
        flash.inner.leave_out(missing, failure)?;
        flash.schedule_all();
        Ok((flash, start))
    }

    /// Whether there may be a record of a key with that hash. Reads nothing.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let routing = self.inner.routing.load();
        let (_, device_slots) = routing.device_slots(hash);
        let may_hold = |device_slot| {
            self.inner.device(device_slot).is_some_and(|device| device.may_hold(hash))
        };
        device_slots.into_iter().flatten().any(may_hold)
    }

    /// The current routing of keys.
    pub(crate) fn routing(&self) -> Arc<Routing> {
        self.inner.routing.load_full()
    }

    /// The device in a slot, if there is one.
    pub(crate) fn device(&self, device_slot: usize) -> Option<Arc<Device>> {
        self.inner.device(device_slot)
    }

    /// Nanoseconds since an arbitrary moment.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.inner.environment.clock.monotonic_ns()
    }

    /// The largest object, in bytes.
    pub(crate) fn object_bytes_max(&self) -> u64 {
        self.inner.object_bytes_max
    }

    /// Reports the end of a lookup that read a slot's device.
    pub(crate) fn has_read(&self, number: usize, began_ns: u64, has_worked: bool) {
        let device_slot = &self.inner.device_slots[number];
        let ended_ns = self.monotonic_ns();
        let mut health = device_slot.health.lock();
        let is_to_go = match has_worked {
            true => health.worked(Work::Read, began_ns, ended_ns),
            false => health.failed(Work::Read, began_ns, ended_ns),
        };
        drop(health);
        // The latency of a failed read is no sample of the device's speed; it would make the device
        // look fast.
        if has_worked {
            device_slot.read_clock.add(ended_ns.saturating_sub(began_ns));
        }
        if is_to_go {
            self.inner.detach(number);
        }
    }

    /// Accepts an object evicted from DRAM, unless flash has a copy of exactly this state.
    pub(crate) fn put(
        &self,
        hash: u64,
        key: &[u8],
        found: &CachedObject,
        copy: Option<CopyLocation>,
        now_s: u32,
    ) {
        let routing = self.inner.routing.load();
        let (home, [Some(device_slot), _]) = routing.device_slots(hash) else { return };
        let Some(device) = self.inner.device(device_slot) else { return };
        let small = SmallObject { found: found.clone(), epoch: routing.epoch };
        let is_small = small.is_small(key.len());
        let has = |location| device.has(location) && (!is_small || device.indexes(hash, location));
        let len = match is_small {
            true => small.record_bytes(key.len()),
            false => record::record_bytes(key.len(), found.object.value.len()),
        };
        let is_here = |copy: &CopyLocation| copy.is_on(device_slot, &device) && has(copy.location);
        let copy = copy.filter(is_here);
        if copy.is_some_and(|it| !found.was_fetched || !device.may_rewrite(it.location, len)) {
            return;
        }
        if len > device.record_bytes_max() {
            // A part of an object would be written in vain.
            let (fits_now, fits_ever) =
                device.has_buffers_for(device.parts_of(key, found.object.value.len()));
            let counters = &self.inner.device_slots[device_slot].counters;
            if !fits_now {
                if fits_ever { &counters.bypassed } else { &counters.too_large }.add(1);
                self.inner.schedule(device_slot, &device);
                return;
            }
        }
        if let Some(budget) = &self.inner.write_budget
            && !budget.spend(
                len as u64,
                found.was_fetched,
                self.inner.environment.clock.monotonic_ns(),
            )
        {
            self.inner.device_slots[device_slot].counters.over_budget.add(1);
            return;
        }
        let whole = Record {
            found: found.clone(),
            kind: Kind::Whole,
            home: home as u64,
            epoch: routing.epoch,
        };
        let put = match len <= device.record_bytes_max() {
            _ if is_small => device.put_small(hash, key, &small, now_s),
            true => device.put(hash, key, &whole, now_s),
            false => self.inner.put_parts(&device, hash, key, whole, now_s),
        };
        if let Ok(true) = put {
            device.rewrites.count(len, copy.is_none());
        }
        if put.is_err() {
            self.inner.detach(device_slot);
        }
        self.inner.schedule(device_slot, &device);
    }

    /// Invalidates the record of a key, now and for recoveries.
    pub(crate) fn invalidate(&self, hash: u64, key: &[u8]) {
        loop {
            let routing = self.inner.routing.load();
            let (_, device_slots) = routing.device_slots(hash);
            let failed = device_slots.into_iter().flatten().find(|device_slot| {
                let Some(device) = self.inner.device(*device_slot) else { return false };
                let invalidated = device.invalidate(hash, key);
                if let Ok(true) = invalidated {
                    self.inner.schedule(*device_slot, &device);
                }
                invalidated.is_err()
            });
            let Some(device_slot) = failed else { return };
            // Once this returns, its records no longer count; the key belongs elsewhere now.
            self.inner.detach(device_slot);
        }
    }

    /// Drops all records, now and for recoveries.
    pub(crate) fn clear(&self) {
        for (device_slot, device) in self.inner.devices() {
            if device.clear().is_err() {
                self.inner.detach(device_slot);
            }
        }
    }

    /// Records when the whole cache must be cleared.
    pub(crate) fn set_clear_at(&self, clear_at_s: u32) {
        self.inner.clear_at_s.store(clear_at_s, Ordering::Release);
        self.inner.write_superblocks(|superblock| superblock.clear_at_s = clear_at_s);
    }

    /// Records that no object has a version above this one.
    pub(crate) fn set_version_max(&self, version_max: u64) {
        self.inner.version_max.fetch_max(version_max, Ordering::AcqRel);
        self.inner.write_superblocks(|superblock| {
            superblock.version_max = superblock.version_max.max(version_max);
        });
    }

    /// Checks devices that are out or warming. Called from time to time, never under a lock.
    pub(crate) fn tick(&self) {
        let now_ns = self.inner.environment.clock.monotonic_ns();
        for (number, device_slot) in self.inner.device_slots.iter().enumerate() {
            let mut health = device_slot.health.lock();
            if health.is_to_be_tried(now_ns) {
                health.try_later(now_ns);
                drop(health);
                let inner = Arc::clone(&self.inner);
                device_slot.executor.execute(Priority::Low, Box::new(move || inner.attach(number)));
            } else if health.is_warming() {
                let (bytes, since_ns) = *device_slot.returned.lock();
                let written = device_slot.counters.segment_bytes_written.get() - bytes;
                let is_old = now_ns.saturating_sub(since_ns) >= WARMING_MAX.as_nanos() as u64;
                if is_old || written >= device_slot.limit.lock().bytes {
                    health.settled();
                    drop(health);
                    self.inner.settle(number);
                }
            }
        }
    }

    /// Runs the pending work of devices in this thread.
    pub(crate) fn drain_writes(&self) {
        for (number, device) in self.inner.devices() {
            if device.wants_upkeep() {
                self.inner.keep_up(number, &device);
            }
        }
    }

    /// Writes everything to flash and marks the devices as cleanly closed.
    pub(crate) fn close(&self) {
        for device_slot in &self.inner.device_slots {
            device_slot.executor.shutdown();
        }
        for (device_slot, device) in self.inner.devices() {
            if let Err(error) = device.close(self.inner.environment.now_s()) {
                tracing::warn!("flash device {}: {error}", self.inner.name(device_slot));
            }
        }
        // An older one could contradict the devices after a power cut: they would begin empty.
        if let Some(state) = &self.inner.state
            && let Err(error) = state.sync()
        {
            tracing::warn!("the state file cannot be synced: {error}");
        }
    }

    /// How many bytes may be used.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.inner.device_slots.iter().map(|device_slot| device_slot.limit.lock().bytes).sum()
    }

    /// Overhead of the flash in use, in bytes: all but the segments, and one partly filled segment
    /// for each device.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        let beside = |device_slot: &DeviceSlot| {
            device_slot.layout.overhead_bytes() + u64::from(device_slot.layout.segment_bytes)
        };
        self.inner.device_slots.iter().map(beside).sum()
    }

    /// The least that can be used, if any is, in bytes.
    pub(crate) fn bytes_min(&self) -> u64 {
        let device_slots = &self.inner.device_slots;
        let all_bytes: u128 =
            device_slots.iter().map(|device_slot| u128::from(device_slot.options.bytes)).sum();
        let least = |device_slot: &DeviceSlot| {
            let part = u128::from(device_slot.layout.in_use_bytes_min()) * all_bytes;
            (part / u128::from(device_slot.options.bytes.max(1))) as u64 + 1
        };
        device_slots.iter().map(least).max().unwrap_or(0)
    }

    /// Limits the flash in use to `bytes`, the same fraction of each device; the excess is evicted
    /// in the background.
    ///
    /// # Errors
    ///
    /// When it is more than the devices were opened with, or too little for one of them.
    pub(crate) fn set_bytes_max(&self, bytes: u64) -> Result<()> {
        let device_slots = &self.inner.device_slots;
        let all_bytes: u64 = device_slots.iter().map(|device_slot| device_slot.options.bytes).sum();
        if bytes > all_bytes {
            return Err(Error::invalid(format!(
                "the cache can use at most the {all_bytes} bytes of flash that it was opened with"
            )));
        }
        let scaled = |part: u64, of: u64, whole: u64| {
            u128::from(part) * u128::from(of) / u128::from(whole.max(1))
        };
        let limit = |device_slot: &DeviceSlot| {
            let bytes = scaled(device_slot.options.bytes, bytes, all_bytes) as u64;
            device_slot.layout.slots_within(bytes).map(|slots| SlotLimit { bytes, slots })
        };
        let Some(limits) = device_slots.iter().map(limit).collect::<Option<Vec<_>>>() else {
            let least = self.bytes_min();
            return Err(Error::invalid(format!(
                "of {all_bytes} bytes of flash either none or at least {least} must be usable"
            )));
        };
        let _one_by_one = self.inner.resizing.lock();
        for (number, (device_slot, limit)) in device_slots.iter().zip(limits).enumerate() {
            let mut now = device_slot.limit.lock();
            *now = limit;
            let device = self.inner.device(number);
            device.iter().for_each(|device| device.set_slots_max(limit.slots));
            drop(now);
            device.iter().for_each(|device| self.inner.schedule(number, device));
        }
        Ok(())
    }

    /// Changes the DRAM limits of each device.
    pub(crate) fn set_limits(&self, limits: Limits) {
        let mut now = self.inner.limits.lock();
        *now = limits;
        for (_, device) in self.inner.devices() {
            device.set_limits(limits);
        }
        drop(now);
        self.schedule_all();
    }

    fn schedule_all(&self) {
        self.inner.devices().for_each(|(number, device)| self.inner.schedule(number, &device));
    }

    /// The statistics of all devices.
    pub(crate) fn stats(&self) -> Vec<DeviceStats> {
        self.inner.device_slots.iter().map(DeviceSlot::stats).collect()
    }
}

impl Inner {
    fn name(&self, device_slot: usize) -> std::path::Display<'_> {
        self.device_slots[device_slot].options.path.display()
    }

    fn device(&self, device_slot: usize) -> Option<Arc<Device>> {
        self.device_slots[device_slot].device.load_full()
    }

    fn devices(&self) -> impl Iterator<Item = (usize, Arc<Device>)> {
        (0..self.device_slots.len())
            .filter_map(|device_slot| Some((device_slot, self.device(device_slot)?)))
    }

    /// Puts an object that is larger than a segment: its parts, then the head that names them;
    /// returns whether all were accepted.
    fn put_parts(
        &self,
        device: &Device,
        hash: u64,
        key: &[u8],
        whole: Record,
        now_s: u32,
    ) -> tidekv_io::Result<bool> {
        let value = whole.found.object.value.clone();
        let part_bytes = device.part_bytes(key);
        let count = device.parts_of(key, value.len()) as u32;
        // Parts of another state of the object have other names.
        let parts = Parts { id: self.environment.random.next_u64(), len: value.len(), count };
        let record = |kind, value| {
            let object = Object { value, ..whole.found.object.clone() };
            Record { kind, found: CachedObject { object, ..whole.found.clone() }, ..whole.clone() }
        };
        for number in 0..count {
            let start = number as usize * part_bytes;
            let part = value.slice(start..value.len().min(start + part_bytes));
            let name = parts.name(key, number);
            if !device.put(xxh3_64(&name), &name, &record(Kind::Part, part), now_s)? {
                return Ok(false);
            }
        }
        device.put(hash, key, &record(Kind::Head, parts.encode()), now_s)
    }

    /// Schedules the pending work of a device in the background.
    fn schedule(self: &Arc<Self>, number: usize, device: &Arc<Device>) {
        let device_slot = &self.device_slots[number];
        // A scheduled run will see all pending work.
        if device_slot.is_scheduled.load(Ordering::Acquire)
            || !device.wants_upkeep()
            || device_slot.is_scheduled.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (inner, device) = (Arc::clone(self), Arc::clone(device));
        let job = move || {
            inner.device_slots[number].is_scheduled.store(false, Ordering::Release);
            inner.keep_up(number, &device);
            // Only a part of the excess is evicted at a time: others get their turn.
            if device.is_to_shrink() {
                inner.schedule(number, &device);
            }
        };
        device_slot.executor.execute(Priority::High, Box::new(job));
    }

    fn keep_up(&self, number: usize, device: &Device) {
        let device_slot = &self.device_slots[number];
        let mut cursor = device_slot.cursor.lock();
        let began_ns = self.environment.clock.monotonic_ns();
        let done = device.upkeep(&mut cursor, self.environment.now_s());
        drop(cursor);
        let ended_ns = self.environment.clock.monotonic_ns();
        let mut health = device_slot.health.lock();
        let is_to_go = match done {
            Ok(()) => health.worked(Work::Write, began_ns, ended_ns),
            Err(_) => health.failed(Work::Write, began_ns, ended_ns),
        };
        drop(health);
        if is_to_go || device.is_broken() {
            self.detach(number);
        }
    }

    /// Detaches a device. When this returns, a recovery sees that.
    fn detach(&self, number: usize) {
        let mut membership = self.membership.lock();
        let mut to_detach = vec![number];
        while let Some(number) = to_detach.pop() {
            if !membership.device_slots[number].is_taken() {
                continue;
            }
            let device_slot = &self.device_slots[number];
            if let Some(device) = self.device(number) {
                device.mark_broken();
            }
            tracing::warn!("flash device {} is out of use", self.name(number));
            membership.detach(number);
            to_detach.extend(self.write_membership(&membership));
            device_slot.times_out.add(1);
            device_slot.health.lock().detached(self.environment.clock.monotonic_ns());
        }
        self.publish(&membership);
        for number in 0..self.device_slots.len() {
            if !membership.device_slots[number].is_taken() {
                self.device_slots[number].device.store(None);
            }
        }
    }

    /// Makes the detachments durable: one of those devices may still claim a clean close.
    ///
    /// # Errors
    ///
    /// When the membership can be written nowhere.
    fn sync_membership(&self) -> tidekv_io::Result<()> {
        let mut synced = Err(tidekv_io::Error::new(
            tidekv_io::ErrorKind::Failed,
            tidekv_io::Operation::Sync,
            &self.device_slots[0].options.path,
        ));
        for (number, device) in self.devices() {
            match device.meta.sync() {
                Ok(()) => synced = Ok(()),
                Err(_) => self.detach(number),
            }
        }
        synced
    }

    /// Detaches the devices that could not be opened, for `failure`, so that the next start sees it.
    ///
    /// # Errors
    ///
    /// When that can be recorded nowhere.
    fn leave_out(
        &self,
        missing: Vec<usize>,
        failure: Option<tidekv_io::Error>,
    ) -> tidekv_io::Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        missing.into_iter().for_each(|device_slot| self.detach(device_slot));
        match self.sync_membership() {
            Err(error) if !self.is_recorded() => Err(failure.unwrap_or(error)),
            _ => Ok(()),
        }
    }

    /// Whether the state file has the membership, also after a reboot if the file is still there.
    fn is_recorded(&self) -> bool {
        let membership = self.membership.lock();
        let write = |state: &StateFile| state.write(&membership, self.environment.boot);
        let has = |state: &StateFile| write(state).and_then(|()| state.sync()).is_ok();
        self.state.as_ref().is_some_and(has)
    }

    /// Writes the membership wherever possible; returns the slots where it failed.
    fn write_membership(&self, membership: &Membership) -> Vec<usize> {
        if let Some(state) = &self.state
            && let Err(error) = state.write(membership, self.environment.boot)
        {
            tracing::warn!(
                "the state file cannot be written, so flash may be empty after a restart: {error}"
            );
        }
        let tell = |(number, device): (usize, Arc<Device>)| {
            let is_in = membership.device_slots[number].is_taken() && !device.is_broken();
            let tell = |superblock: &mut Superblock| superblock.membership = membership.clone();
            let has_failed = is_in && device.write_superblock(tell).is_err();
            has_failed.then_some(number)
        };
        self.devices().filter_map(tell).collect()
    }

    /// Routes keys by this membership from now on.
    fn publish(&self, membership: &Membership) {
        let before = self.routing.load();
        let is_warming = |device_slot: &DeviceSlot| device_slot.health.lock().is_warming();
        let is_warming = self.device_slots.iter().map(is_warming);
        let routing = Routing::new(before.rendezvous.clone(), membership, is_warming);
        self.routing.store(Arc::new(routing));
    }

    /// Tries a device that is out; it returns empty.
    fn attach(self: &Arc<Self>, number: usize) {
        let device_slot = &self.device_slots[number];
        let files = Files::open(
            &self.environment.storage,
            &device_slot.options.path,
            device_slot.options.bytes,
        );
        let Ok(files) = files else { return };
        // This takes long, on a device that may not be well, while no operation waits for it. The
        // lock on its file keeps others off.
        if files.erase(&device_slot.layout).is_err() {
            return;
        }
        let mut membership = self.membership.lock();
        if membership.device_slots[number].is_taken() {
            return;
        }
        let mut next = membership.clone();
        let id = self.environment.device_id();
        next.attach(number, id);
        let fresh = Superblock {
            version_max: self.version_max.load(Ordering::Acquire),
            clear_at_s: self.clear_at_s.load(Ordering::Acquire),
            opening: self.opening,
            ..Superblock::fresh(id, device_slot.layout, self.environment.boot, next.clone())
        };
        let limits = *self.limits.lock();
        let opened = recovery::begin(files, &fresh, limits, Arc::clone(&device_slot.counters));
        *membership = next;
        let Ok(device) = opened else {
            // It may have recorded that it is attached.
            membership.detach(number);
            let failed = self.write_membership(&membership);
            self.publish(&membership);
            drop(membership);
            failed.into_iter().for_each(|device_slot| self.detach(device_slot));
            return;
        };
        let failed = self.write_membership(&membership);
        let device = Arc::new(device);
        // Both may have changed meanwhile.
        let (of_flash, of_dram) = (device_slot.limit.lock(), self.limits.lock());
        device.set_slots_max(of_flash.slots);
        device.set_limits(*of_dram);
        device_slot.device.store(Some(Arc::clone(&device)));
        drop((of_flash, of_dram));
        *device_slot.returned.lock() = (
            device_slot.counters.segment_bytes_written.get(),
            self.environment.clock.monotonic_ns(),
        );
        device_slot.health.lock().returned();
        device_slot.times_back.add(1);
        self.publish(&membership);
        drop(membership);
        tracing::info!("flash device {} has returned, empty", self.name(number));
        failed.into_iter().for_each(|device_slot| self.detach(device_slot));
        self.schedule(number, &device);
    }

    /// Stops looking for the forwarded keys of a slot.
    fn settle(&self, number: usize) {
        self.publish(&self.membership.lock());
        tracing::info!("flash device {} is warm", self.name(number));
    }

    fn write_superblocks(&self, change: impl Fn(&mut Superblock)) {
        for (device_slot, device) in self.devices() {
            if !device.is_broken() && device.write_superblock(&change).is_err() {
                self.detach(device_slot);
            }
        }
    }
}
