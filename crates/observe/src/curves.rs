//! Miss-ratio curves of the requests of clients, computed online ([`tidekv_plan::WindowedProfiler`]).
//!
//! A server reports each access to a key ([`Curves::record`]): accesses to keys of the sample go
//! into a queue, which a dedicated thread ([`run`]) drains. When a time window ends, the thread
//! publishes the curve of each tenant.
//!
//! Guarantees: [`Curves::record`] never blocks. A tenant with more accesses than the thread can
//! process at negligible cost is profiled in bursts (`bursts.rs`); accesses outside bursts are
//! counted, and not taken for hits.
//!
//! **Generations.** When a tenant is cleared (`flush_all`), its generation increases, under the
//! locks of all its shards. The queue may still contain earlier accesses, so each carries its
//! generation. The thread empties the sample at the first access of a later generation, or when the
//! queue is empty and the generation has increased.

mod backend;
mod beside;
mod bursts;
mod flash;
mod gate;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use parking_lot::Mutex;
use tidekv_io::{Clock, SpreadCounter, SystemClock};
use tidekv_plan::{
    Access, Action, Answered, Curve, Expiry, ScaledCache, ScaledCaches, Settings, Unit, Window,
    WindowedProfiler, sample_hash,
};
use tokio::sync::watch::Receiver;

use self::backend::{BackendTimes, LONGEST_US};
use self::beside::Beside;
pub use self::beside::CacheCounts;
use self::bursts::{Bursts, Turn, part_of};
use self::flash::FlashTimes;
pub use self::flash::{FlashTime, TimeSum};
use self::gate::{ALL_KEYS, Gate, NO_KEYS, Wanted};

/// Queue length of a tenant: the accesses of some hundredths of a second while all keys are in the
/// sample. With many tenants each has a shorter queue.
const QUEUE_LEN: usize = 1 << 14;
const QUEUE_LEN_MIN: usize = 1 << 11;
/// Objects of a tenant's sample, less than 4 MiB: twice the usual number for traces, because they
/// are spread over caches of up to [`SIZE_FACTOR`] times the size.
const OBJECTS_MAX: usize = 2 * tidekv_plan::DEFAULT_SAMPLE_SIZE;
/// Curves extend to this multiple of the current size.
const SIZE_FACTOR: u64 = 4;
/// Sleep of the idle thread: the first one, and the longest.
const SLEEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// A window with unprofiled requests needs at least this many profiled ones for a report.
const REQUESTS_MIN: u64 = 1_000;
/// The thread wakes again soon if a queue was filled to at least 1/8.
const MUCH: u64 = 8;
/// Maximum misses that are followed until their objects are stored.
const FOLLOWED_MAX: usize = 1 << 12;
/// For a tenant profiled in bursts, misses of one in 16 sampled keys are followed, because a
/// backend may take longer than a burst; the share is halved each time that the queue is found that
/// full.
const FOLLOWED_OF: u64 = 16;
const ASIDES_MAX: u64 = 256;

/// The kind of an access to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// A lookup that hit: bytes of the object, and its remaining time to live in milliseconds.
    Hit(u64, Option<u64>),
    /// A lookup that missed.
    Miss,
    /// A read that loads the object if it is not in memory: its bytes.
    Load(u64),
    /// A store: bytes of the object, and its time to live in milliseconds.
    Store(u64, Option<u64>),
    /// A removal.
    Remove,
}

impl AccessKind {
    /// Whether it is a lookup.
    fn is_asked(self) -> bool {
        matches!(self, Self::Hit(..) | Self::Miss | Self::Load(_))
    }

    /// Whether the time between two of them is measured.
    fn is_timed(self) -> bool {
        matches!(self, Self::Miss | Self::Store(..))
    }
}

/// An access to a key, with its time.
#[derive(Debug, Clone, Copy)]
struct AccessEvent {
    key: u64,
    kind: AccessKind,
    /// Time of the expiry clock.
    at_ms: u64,
    /// Time of the monotonic clock, for timed kinds.
    monotonic_us: u64,
    /// The tenant's generation at the time.
    generation: u64,
    /// Whether it was recorded outside a burst, for its time alone.
    is_aside: bool,
}

/// The report of a tenant's window.
#[derive(Debug, Clone)]
pub struct WindowReport {
    /// Miss ratio by size in bytes.
    pub curve: Curve,
    /// Length of the window.
    pub seconds: f64,
    /// Share of the keys in the sample.
    pub sampled: f64,
    /// Requests outside the profiled bursts.
    pub unseen: u64,
    /// Mean size of an object.
    pub object_bytes: Option<f64>,
    /// Mean time from a miss to the store of the object, in microseconds; none if too few were
    /// measured.
    pub backend_us: Option<f64>,
    /// Number of the window, from 1; before the first window ends, that of the current one.
    pub window: u64,
}

/// The curves of all tenants.
#[derive(Debug)]
pub struct Curves {
    tenants: Box<[OfTenant]>,
    window: Duration,
    /// Number of windows that have ended.
    ended: AtomicU64,
    /// Whether profiling is on.
    is_on: AtomicBool,
    /// Number and total nanoseconds of single-key requests that waited for flash.
    waits: SpreadCounter,
    waited_ns: SpreadCounter,
    /// Flash latency of the windows that have ended.
    flash: Mutex<Option<FlashTime>>,
    clock: SystemClock,
}

#[derive(Debug)]
struct OfTenant {
    queue: ArrayQueue<AccessEvent>,
    gate: Gate,
    /// Requests while the gate was open.
    seen: SpreadCounter,
    /// Loads of all keys; the cache counts hits and misses.
    loads: SpreadCounter,
    /// Increases when the tenant is cleared.
    generation: AtomicU64,
    told: Mutex<Option<WindowReport>>,
}

impl OfTenant {
    fn new(queue_len: usize) -> Self {
        Self {
            queue: ArrayQueue::new(queue_len),
            gate: Gate::default(),
            seen: SpreadCounter::default(),
            loads: SpreadCounter::default(),
            generation: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }
}

impl Curves {
    /// Curves of `tenants` tenants, with windows of length `window`.
    pub fn new(tenants: usize, window: Duration) -> Self {
        let queue_len = (QUEUE_LEN / tenants.max(1)).max(QUEUE_LEN_MIN);
        Self {
            tenants: (0..tenants).map(|_| OfTenant::new(queue_len)).collect(),
            window,
            ended: AtomicU64::new(0),
            is_on: AtomicBool::new(true),
            waits: SpreadCounter::default(),
            waited_ns: SpreadCounter::default(),
            flash: Mutex::default(),
            clock: SystemClock::new(),
        }
    }

    /// Records an access to a key, or drops it. `at_ms` is a time of the expiry clock.
    #[inline]
    pub fn record(&self, tenant: usize, key: u64, kind: AccessKind, at_ms: impl FnOnce() -> u64) {
        let Some(of_tenant) = self.tenants.get(tenant) else { return };
        if matches!(kind, AccessKind::Load(_)) {
            of_tenant.loads.add(1);
        }
        let (is_aside, below) = match of_tenant.gate.wanted() {
            Wanted::All(below) => (false, below),
            Wanted::Times(below) if kind.is_timed() => (true, below),
            Wanted::Times(_) => return,
        };
        if sample_hash(key) < below {
            let monotonic_us = if kind.is_timed() { self.monotonic_us() } else { 0 };
            // `record_clear` is called under the locks of all shards, one of which the caller
            // holds.
            let generation = of_tenant.generation.load(Ordering::Relaxed);
            let at_ms = at_ms();
            let event = AccessEvent { key, kind, at_ms, monotonic_us, generation, is_aside };
            if of_tenant.queue.push(event).is_err() {
                // Later accesses would leave a gap in the sequence.
                of_tenant.gate.shut();
                return;
            }
        }
        if kind.is_asked() && !is_aside {
            of_tenant.seen.add(1);
        }
    }

    /// Records that a tenant was cleared. No access to its keys may be recorded meanwhile.
    pub fn record_clear(&self, tenant: usize) {
        if let Some(of_tenant) = self.tenants.get(tenant) {
            of_tenant.generation.fetch_add(1, Ordering::Release);
        }
    }

    fn monotonic_us(&self) -> u64 {
        self.clock.monotonic_ns() / 1_000
    }

    /// Pauses or resumes profiling; a tenant resumes with its next burst. Windows end as before,
    /// and the requests that they missed are counted.
    pub fn set_profiling(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Number of windows that have ended and been reported.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Flash latency of the windows that have ended (`flash.rs`).
    pub fn flash(&self) -> Option<FlashTime> {
        *self.flash.lock()
    }

    /// Records the time that a single-key request waited for flash, from the miss in memory to its
    /// reply.
    pub fn waited(&self, ns: u64) {
        self.waits.add(1);
        self.waited_ns.add(ns);
    }

    /// Number and total time of single-key requests that waited so far.
    pub fn waits(&self) -> TimeSum {
        TimeSum { count: self.waits.get(), sum_ns: self.waited_ns.get() }
    }

    /// Length of a window.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Number of loads by tenant.
    pub fn loads(&self) -> Vec<u64> {
        self.tenants.iter().map(|of_tenant| of_tenant.loads.get()).collect()
    }

    /// The last report of a tenant.
    pub fn told(&self, tenant: usize) -> Option<WindowReport> {
        self.tenants.get(tenant)?.told.lock().clone()
    }
}

/// The state of a tenant in the thread.
struct Profile {
    watch: WindowedProfiler,
    beside: Beside,
    bursts: Bursts,
    /// The generation of the objects in the sample.
    generation: u64,
    /// Misses of keys below this hash are followed while there are gaps.
    followed_below: u64,
    /// Lookups at the start of the window, and those of them recorded.
    requests: u64,
    seen: u64,
    /// Requests represented by hits of unknown objects.
    unknown: f64,
    /// Missed keys, and the times of the misses.
    followed: HashMap<u64, u64>,
    /// Times from a miss to the store.
    backend: BackendTimes,
    /// Time of the last access.
    latest_us: u64,
}

/// Counters of a tenant since the start of the server.
#[derive(Debug, Clone, Copy)]
struct Totals {
    requests: u64,
    seen: u64,
}

impl Profile {
    fn new(size_max: u64, requests: u64, began_ns: u64, beside: Beside) -> Self {
        let settings = Settings { unit: Unit::Bytes, expiry: Expiry::AtOnce };
        Self {
            watch: WindowedProfiler::new(OBJECTS_MAX, size_max, settings),
            beside,
            bursts: Bursts::new(began_ns),
            generation: 0,
            followed_below: ALL_KEYS / FOLLOWED_OF,
            requests,
            seen: 0,
            unknown: 0.0,
            followed: HashMap::new(),
            backend: BackendTimes::default(),
            latest_us: 0,
        }
    }

    /// Empties the sample if this generation is a later one.
    fn enter(&mut self, generation: u64) {
        if generation > self.generation {
            self.watch.clear();
            self.beside.clear();
            self.generation = generation;
        }
    }

    fn record(&mut self, event: &AccessEvent) {
        self.enter(event.generation);
        if sample_hash(event.key) >= self.watch.threshold() {
            // It was in the sample when it was recorded.
            return;
        }
        self.follow(event);
        if event.is_aside {
            return;
        }
        let &AccessEvent { key, kind, at_ms, .. } = event;
        // Loads look for themselves, where it matters.
        let is_known = !matches!(kind, AccessKind::Hit(..)) || self.watch.has(key, at_ms);
        self.simulate(key, kind, at_ms, is_known);
        let (action, ttl_ms) = match kind {
            // It was stored before profiling began: its reuse distance is unknown, and counting it
            // as a miss of every cache would be wrong.
            AccessKind::Hit(bytes, ttl_ms) if !is_known => {
                self.unknown += 1.0 / self.watch.rate();
                (Action::Set(bytes), ttl_ms)
            }
            // It may have been stored in a gap.
            AccessKind::Load(bytes)
                if self.bursts.has_had_gaps() && !self.watch.has(key, at_ms) =>
            {
                self.unknown += 1.0 / self.watch.rate();
                (Action::Set(bytes), None)
            }
            AccessKind::Hit(..) | AccessKind::Miss => (Action::Get, None),
            AccessKind::Load(bytes) => (Action::Load(bytes), None),
            AccessKind::Store(bytes, ttl_ms) => (Action::Set(bytes), ttl_ms),
            AccessKind::Remove => (Action::Delete, None),
        };
        self.watch.record(&Access { at_ms, ttl_ms, ..Access::new(key, action) });
        self.beside.follow_sample(self.watch.threshold());
    }

    /// Passes an access to the scaled-down caches. `is_known` is whether the sample had the object of
    /// a hit.
    fn simulate(&mut self, key: u64, kind: AccessKind, at_ms: u64, is_known: bool) {
        let answered = match kind {
            AccessKind::Hit(bytes, ttl_ms) if !is_known => Answered::UnknownHit(bytes, ttl_ms),
            AccessKind::Hit(bytes, ttl_ms) => Answered::Hit(bytes, ttl_ms),
            AccessKind::Miss => Answered::Miss,
            AccessKind::Store(bytes, ttl_ms) => Answered::Store(bytes, ttl_ms),
            AccessKind::Remove => Answered::Remove,
            // A read of a store, which has no such caches.
            AccessKind::Load(_) => return,
        };
        self.beside.record(key, answered, at_ms);
    }

    /// Whether misses of a key are followed.
    fn is_followed(&self, key: u64) -> bool {
        !self.bursts.has_had_gaps() || sample_hash(key) < self.followed_below
    }

    /// Ends the profiling of the tenant: misses of fewer keys are followed.
    fn close(&mut self) {
        self.followed_below = self.followed_below.min(self.watch.threshold() / FOLLOWED_OF);
        let mut followed = std::mem::take(&mut self.followed);
        followed.retain(|key, _| self.is_followed(*key));
        self.followed = followed;
    }

    /// Measures the time from a miss to the store of the object.
    fn follow(&mut self, event: &AccessEvent) {
        let &AccessEvent { key, kind, monotonic_us, .. } = event;
        self.latest_us = self.latest_us.max(monotonic_us);
        if !self.is_followed(key) {
            return;
        }
        match kind {
            AccessKind::Miss if self.followed.len() < FOLLOWED_MAX => {
                self.followed.insert(key, monotonic_us);
            }
            AccessKind::Store(..) => {
                let missed_us = self.followed.get(&key);
                let took_us = missed_us.map(|missed_us| monotonic_us.saturating_sub(*missed_us));
                if took_us.is_some_and(|took_us| self.backend.took(took_us)) {
                    self.followed.remove(&key);
                }
            }
            // Its store was not recorded.
            AccessKind::Hit(..) | AccessKind::Remove if !self.followed.is_empty() => {
                self.followed.remove(&key);
            }
            AccessKind::Hit(..) | AccessKind::Miss | AccessKind::Load(_) | AccessKind::Remove => {}
        }
    }

    /// The report of the window; ends the window if `is_end`.
    fn tell(
        &mut self,
        totals: Totals,
        tenants: usize,
        seconds: f64,
        number: u64,
        is_end: bool,
    ) -> Option<WindowReport> {
        let requests = totals.requests.saturating_sub(self.requests);
        let seen = totals.seen.saturating_sub(self.seen);
        let unseen = if self.bursts.has_gaps() { requests.saturating_sub(seen) } else { 0 };
        let window = Window { requests, lost: unseen + self.unknown.round() as u64 };
        let (sampled, object_bytes) = (self.watch.rate(), self.watch.mean_bytes());
        let backend_us = self.backend.mean_us();
        let curve = match is_end {
            false => self.watch.curve(window),
            true => {
                Totals { requests: self.requests, seen: self.seen } = totals;
                self.backend.end_window();
                self.unknown = 0.0;
                let latest_us = self.latest_us;
                self.followed.retain(|_, missed_us| *missed_us + LONGEST_US > latest_us);
                self.followed_below = ALL_KEYS / FOLLOWED_OF;
                self.bursts.end_window(seconds, tenants);
                self.watch.end_window(window)
            }
        };
        let curve = curve.map(|curve| self.beside.correct(curve, window));
        if is_end {
            self.beside.end_window();
            self.beside.follow_sample(self.watch.threshold());
        }
        let told = |curve| WindowReport {
            curve,
            seconds,
            sampled,
            unseen,
            object_bytes,
            backend_us,
            window: number,
        };
        // A fragment of a burst is no basis for a report.
        let is_enough = unseen == 0 || requests - unseen >= REQUESTS_MIN;
        curve.filter(|_| is_enough).map(told)
    }
}

/// Counters of a server's tenants.
pub trait Source: Send {
    /// Lookups by tenant.
    fn lookups(&self) -> Vec<u64>;
    /// Maximum size of all tenants together, in bytes.
    fn bytes_max(&self) -> u64;
    /// Sets whether hits of a tenant must be recorded from now on.
    fn report_hits(&self, tenant: usize, is_wanted: bool);
    /// Flash reads so far.
    fn flash_reads(&self) -> TimeSum;
    /// The caches of the tenants, if they can be modelled: otherwise curves are those of LRU.
    fn caches(&self) -> Vec<CacheCounts> {
        Vec::new()
    }
    /// A model of a tenant's cache with this size in bytes, for keys sampled at this rate, 0 to 1;
    /// none if there is no such model.
    fn scaled_cache(&self, tenant: usize, bytes: u64, rate: f64) -> Option<Box<dyn ScaledCache>> {
        _ = (tenant, bytes, rate);
        None
    }
}

/// The scaled-down caches beside the one of a tenant.
fn beside_of(source: &impl Source, tenant: usize) -> Beside {
    let Some(counts) = source.caches().get(tenant).copied() else { return Beside::default() };
    let make = |bytes, rate| source.scaled_cache(tenant, bytes, rate);
    Beside::new(ScaledCaches::new(counts.size_bytes, ALL_KEYS, OBJECTS_MAX, make), counts)
}

/// Computes curves until `stopped` becomes true. May be called again after a panic: the profiles
/// begin anew, the numbers of windows go on.
pub fn run(curves: &Arc<Curves>, source: &impl Source, stopped: &Receiver<bool>) {
    let size_max = source.bytes_max().saturating_mul(SIZE_FACTOR);
    let (mut number, mut began_ns) = (curves.ended() + 1, curves.clock.monotonic_ns());
    let profile =
        |(tenant, requests)| Profile::new(size_max, requests, began_ns, beside_of(source, tenant));
    let mut profiles: Vec<Profile> =
        source.lookups().into_iter().enumerate().map(profile).collect();
    let mut shown_ns = began_ns;
    let mut flash = FlashTimes::new(curves.waits(), source.flash_reads());
    let mut sleep = SLEEPS.0;
    while !*stopped.borrow() && stopped.has_changed().is_ok() {
        let is_much = curves.take_in(&mut profiles);
        for (profile, counts) in profiles.iter_mut().zip(source.caches()) {
            profile.beside.follow_cache(counts, profile.watch.threshold());
        }
        let now_ns = curves.clock.monotonic_ns();
        let is_begun = curves.turn(&mut profiles, source, now_ns);
        let is_end = now_ns - began_ns >= curves.window.as_nanos() as u64;
        // Before the first window ends, it is reported from time to time.
        let is_early = number == 1 && (now_ns - shown_ns) as u128 * 16 >= curves.window.as_nanos();
        if is_end || is_early {
            // Read first: later lookups are not yet in the sample.
            let lookups = source.lookups();
            if is_end {
                // Before the end of the window is announced, because a planner acts on it.
                *curves.flash.lock() = flash.end_window(curves.waits(), source.flash_reads());
            }
            let seconds = (now_ns - began_ns) as f64 / 1e9;
            curves.tell(&mut profiles, &lookups, seconds, number, is_end);
            shown_ns = now_ns;
        }
        if is_end {
            (number, began_ns) = (number + 1, now_ns);
        }
        sleep = if is_much || is_begun { SLEEPS.0 } else { (sleep * 2).min(SLEEPS.1) };
        curves.clock.sleep(sleep.min(curves.window / 16));
    }
}

impl Curves {
    /// Drains the queues; returns whether one was so full that it must be drained again soon.
    fn take_in(&self, profiles: &mut [Profile]) -> bool {
        let mut is_much = false;
        for (profile, of_tenant) in profiles.iter_mut().zip(&self.tenants) {
            let (mut taken, mut asides) = (0, 0);
            let generation = of_tenant.generation.load(Ordering::Acquire);
            // At most one queue length, so that windows end under constant load.
            for _ in 0..of_tenant.queue.capacity() {
                let Some(event) = of_tenant.queue.pop() else {
                    // The queue contains no earlier generation.
                    profile.enter(generation);
                    break;
                };
                taken += 1;
                asides += u64::from(event.is_aside);
                profile.record(&event);
                of_tenant.gate.set_threshold(profile.watch.threshold());
            }
            profile.bursts.record(taken - asides);
            if asides >= ASIDES_MAX && profile.bursts.is_closed() {
                profile.followed_below /= 2;
                of_tenant.gate.close(profile.followed_below);
            }
            is_much |= taken >= of_tenant.queue.capacity() as u64 / MUCH;
        }
        is_much
    }

    /// Starts and ends bursts as due; returns whether one has started.
    fn turn(&self, profiles: &mut [Profile], source: &impl Source, now_ns: u64) -> bool {
        let mut is_begun = false;
        let is_on = self.is_on.load(Ordering::Relaxed);
        let part = part_of(profiles.iter().filter(|profile| profile.bursts.is_busy()).count());
        for (tenant, (profile, of_tenant)) in profiles.iter_mut().zip(&self.tenants).enumerate() {
            if !is_on {
                profile.bursts.pause();
                // Stores in the gap are not recorded.
                profile.followed.clear();
                of_tenant.gate.close(NO_KEYS);
                source.report_hits(tenant, false);
                continue;
            }
            let threshold = profile.watch.threshold();
            let is_closed = of_tenant.gate.is_closed();
            match profile.bursts.turn(now_ns, part, is_closed, self.window) {
                Some(Turn::Close) => {
                    profile.close();
                    of_tenant.gate.close(profile.followed_below);
                    source.report_hits(tenant, false);
                }
                Some(Turn::Open) => {
                    source.report_hits(tenant, true);
                    if of_tenant.gate.open(threshold) && !is_closed {
                        // The gate was shut in between.
                        profile.bursts.has_gap();
                    }
                    is_begun = true;
                }
                None => {}
            }
        }
        is_begun
    }

    fn tell(
        &self,
        profiles: &mut [Profile],
        lookups: &[u64],
        seconds: f64,
        number: u64,
        is_end: bool,
    ) {
        for ((profile, of_tenant), &requests) in profiles.iter_mut().zip(&self.tenants).zip(lookups)
        {
            let totals = Totals { requests, seen: of_tenant.seen.get() };
            let told = profile.tell(totals, self.tenants.len(), seconds, number, is_end);
            of_tenant.gate.set_threshold(profile.watch.threshold());
            if told.is_some() {
                *of_tenant.told.lock() = told;
            }
        }
        if is_end {
            self.ended.store(number, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
