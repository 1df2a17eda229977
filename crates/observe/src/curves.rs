//! Miss-ratio curves of what clients ask for, made while they do ([`tidekv_plan::WindowedProfiler`]).
//!
//! Whoever serves a request hands in what it does to a key ([`Curves::saw`]): what is in the sample goes
//! into a queue, and a thread of its own ([`run`]) takes it from there. When a window of time ends,
//! the curve of each tenant is told.
//!
//! Guarantees: [`Curves::saw`] waits for nothing. Who asks for more than a thread can look at without
//! being felt is looked at in bursts (`bursts.rs`), and what is not looked at is counted, and not taken for hits.
//!
//! **Generations.** When all that a tenant has is forgotten (`flush_all`), his generation rises, under the locks of all his
//! shards. The queue may still have sightings from before; so each says of which generation it is. The thread empties the sample
//! when it comes to one of a later generation, or when nothing waits and the generation has risen.

mod backend;
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
    Access, Action, Curve, Expiry, Settings, Unit, Window, WindowedProfiler, sample_hash,
};
use tokio::sync::watch::Receiver;

use self::backend::{BackendTimes, LONGEST_US};
use self::bursts::{Bursts, Turn, part_of};
use self::flash::FlashTimes;
pub use self::flash::{FlashTime, TimeSum};
use self::gate::{ALL_KEYS, Gate, NO_KEYS, Wanted};

/// Sightings of a tenant that may wait: what comes in some hundredths of a second while all keys are in
/// the sample. Where there are many tenants each may have fewer.
const QUEUE_LEN: usize = 1 << 14;
const QUEUE_LEN_MIN: usize = 1 << 11;
/// Objects of a tenant's sample, less than 4 MiB: twice what is usual for traces, for it is
/// spread over caches of up to [`SIZE_FACTOR`] times the size.
const OBJECTS_MAX: usize = 2 * tidekv_plan::DEFAULT_SAMPLE_SIZE;
/// Curves go up to so many times what there is.
const SIZE_FACTOR: u64 = 4;
/// How long the thread sleeps when there is nothing to do: at first, and at last.
const SLEEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Where some requests were not seen, the others are to be as many.
const REQUESTS_MIN: u64 = 1_000;
/// It wakes soon again when a queue had one of so many that it has room for.
const MUCH: u64 = 8;
/// Misses that are followed until their objects are stored.
const FOLLOWED_MAX: usize = 1 << 12;
/// Of a tenant who is looked at in bursts, misses of one key of so many of the sample are followed, for an
/// answer may take longer than a burst; of half as many each time that so many are found in the queue.
const FOLLOWED_OF: u64 = 16;
const ASIDES_MAX: u64 = 256;

/// What is done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// Asked for, and there: of so many bytes, with so many milliseconds left to live.
    Hit(u64, Option<u64>),
    /// Asked for, and not there.
    Miss,
    /// Read, and loaded where it was not in memory: so many bytes.
    Load(u64),
    /// Of so many bytes, with so many milliseconds to live.
    Store(u64, Option<u64>),
    /// Removed.
    Remove,
}

impl AccessKind {
    /// Whether it can be a hit or a miss.
    fn is_asked(self) -> bool {
        matches!(self, Self::Hit(..) | Self::Miss | Self::Load(_))
    }

    /// Whether it counts how long it takes from one to the next.
    fn is_timed(self) -> bool {
        matches!(self, Self::Miss | Self::Store(..))
    }
}

/// What has been done to a key, and when.
#[derive(Debug, Clone, Copy)]
struct AccessEvent {
    key: u64,
    deed: AccessKind,
    /// By the clock of deadlines.
    at_ms: u64,
    /// By one that never goes back; of deeds that are timed.
    monotonic_us: u64,
    /// The tenant's when it was seen.
    generation: u64,
    /// Whether it was seen while nobody looked, for the time alone.
    is_aside: bool,
}

/// What was seen of a tenant in a window.
#[derive(Debug, Clone)]
pub struct WindowReport {
    /// Sizes in bytes.
    pub curve: Curve,
    /// How long the window was.
    pub seconds: f64,
    /// How many keys of each were looked at.
    pub sampled: f64,
    /// Requests that were not looked at.
    pub unseen: u64,
    /// The mean size of an object.
    pub object_bytes: Option<f64>,
    /// How long it takes after a miss until the object is stored, on average; none where that was seen too seldom.
    pub backend_us: Option<f64>,
    /// The number of the window, from 1; of the one that still runs, before any has ended.
    pub window: u64,
}

/// Curves of tenants.
#[derive(Debug)]
pub struct Curves {
    tenants: Box<[OfTenant]>,
    window: Duration,
    /// How many windows have ended.
    ended: AtomicU64,
    /// Whether anybody is looked at.
    is_on: AtomicBool,
    /// Requests for one key that have waited for flash, and how long in all, in nanoseconds.
    waits: SpreadCounter,
    waited_ns: SpreadCounter,
    /// How long flash takes, by the windows that have ended.
    flash: Mutex<Option<FlashTime>>,
    clock: SystemClock,
}

#[derive(Debug)]
struct OfTenant {
    queue: ArrayQueue<AccessEvent>,
    gate: Gate,
    /// Requests while all of them were wanted.
    seen: SpreadCounter,
    /// Loads of all keys; hits and misses are counted by who finds them.
    loads: SpreadCounter,
    /// Rises when all that the tenant has is forgotten.
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
    /// Of so many tenants, with windows of that length.
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

    /// Takes in what has been done to a key, or drops it. `at_ms` is by the clock of deadlines.
    #[inline]
    pub fn record(&self, tenant: usize, key: u64, deed: AccessKind, at_ms: impl FnOnce() -> u64) {
        let Some(of_tenant) = self.tenants.get(tenant) else { return };
        if matches!(deed, AccessKind::Load(_)) {
            of_tenant.loads.add(1);
        }
        let (is_aside, below) = match of_tenant.gate.wanted() {
            Wanted::All(below) => (false, below),
            Wanted::Times(below) if deed.is_timed() => (true, below),
            Wanted::Times(_) => return,
        };
        if sample_hash(key) < below {
            let monotonic_us = if deed.is_timed() { self.monotonic_us() } else { 0 };
            // Whoever says that all has been forgotten holds the locks of all shards, one of which is the caller's.
            let generation = of_tenant.generation.load(Ordering::Relaxed);
            let at_ms = at_ms();
            let sighting = AccessEvent { key, deed, at_ms, monotonic_us, generation, is_aside };
            if of_tenant.queue.push(sighting).is_err() {
                // What came after it would not be a sequence.
                of_tenant.gate.shut();
                return;
            }
        }
        if deed.is_asked() && !is_aside {
            of_tenant.seen.add(1);
        }
    }

    /// That nothing of a tenant is there any more. Nobody hands in what is done to his keys meanwhile.
    pub fn record_clear(&self, tenant: usize) {
        if let Some(of_tenant) = self.tenants.get(tenant) {
            of_tenant.generation.fetch_add(1, Ordering::Release);
        }
    }

    fn monotonic_us(&self) -> u64 {
        self.clock.monotonic_ns() / 1_000
    }

    /// Looks at nobody, or at everybody again when it is their turn. Windows end as before, and what they did not see
    /// is counted.
    pub fn set_profiling(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// How many windows have ended, and been told of.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// How long flash takes, by the windows that have ended (`flash.rs`).
    pub fn flash(&self) -> Option<FlashTime> {
        *self.flash.lock()
    }

    /// That a request for one key has waited so long for flash, from when memory could not answer it until its reply was
    /// made.
    pub fn waited(&self, ns: u64) {
        self.waits.add(1);
        self.waited_ns.add(ns);
    }

    /// How long requests for one key have waited so far.
    pub fn waits(&self) -> TimeSum {
        TimeSum { count: self.waits.get(), sum_ns: self.waited_ns.get() }
    }

    /// How long a window is.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// How many loads there were by tenant.
    pub fn loads(&self) -> Vec<u64> {
        self.tenants.iter().map(|of_tenant| of_tenant.loads.get()).collect()
    }

    /// What was told of a tenant last.
    pub fn told(&self, tenant: usize) -> Option<WindowReport> {
        self.tenants.get(tenant)?.told.lock().clone()
    }
}

/// What the thread knows of a tenant.
struct Profile {
    watch: WindowedProfiler,
    bursts: Bursts,
    /// That of the objects in the sample.
    generation: u64,
    /// Misses of keys below are followed while there are gaps.
    followed_below: u64,
    /// Lookups when the window began, and those that were seen.
    requests: u64,
    seen: u64,
    /// Requests that hits stood for of what was not known.
    unknown: f64,
    /// Keys that were missed, and when.
    followed: HashMap<u64, u64>,
    /// How long they took until they were stored.
    backend: BackendTimes,
    /// When something was seen last.
    latest_us: u64,
}

/// What there has been of a tenant since the server began.
#[derive(Debug, Clone, Copy)]
struct Totals {
    requests: u64,
    seen: u64,
}

impl Profile {
    fn new(size_max: u64, requests: u64, began_ns: u64) -> Self {
        let settings = Settings { unit: Unit::Bytes, expiry: Expiry::AtOnce };
        Self {
            watch: WindowedProfiler::new(OBJECTS_MAX, size_max, settings),
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

    /// Empties the sample where this generation is a later one.
    fn enter(&mut self, generation: u64) {
        if generation > self.generation {
            self.watch.clear();
            self.generation = generation;
        }
    }

    fn record(&mut self, sighting: &AccessEvent) {
        self.enter(sighting.generation);
        if sample_hash(sighting.key) >= self.watch.threshold() {
            // It was in the sample when it was seen.
            return;
        }
        self.follow(sighting);
        if sighting.is_aside {
            return;
        }
        let &AccessEvent { key, deed, at_ms, .. } = sighting;
        let (action, ttl_ms) = match deed {
            // It was stored before anybody looked: how far it is from its last request is not known,
            // and to count as a miss of every cache would be wrong.
            AccessKind::Hit(bytes, ttl_ms) if !self.watch.has(key, at_ms) => {
                self.unknown += 1.0 / self.watch.rate();
                (Action::Set(bytes), ttl_ms)
            }
            // In a gap it may have been.
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
        self.watch.record(&Access { key, action, at_ms, ttl_ms });
    }

    /// Whether misses of a key are followed.
    fn is_followed(&self, key: u64) -> bool {
        !self.bursts.has_had_gaps() || sample_hash(key) < self.followed_below
    }

    /// That the tenant is looked at no more: of fewer keys misses are followed.
    fn close(&mut self) {
        self.followed_below = self.followed_below.min(self.watch.threshold() / FOLLOWED_OF);
        let mut followed = std::mem::take(&mut self.followed);
        followed.retain(|key, _| self.is_followed(*key));
        self.followed = followed;
    }

    /// Looks how long it takes from a miss until the object is stored.
    fn follow(&mut self, sighting: &AccessEvent) {
        let &AccessEvent { key, deed, monotonic_us, .. } = sighting;
        self.latest_us = self.latest_us.max(monotonic_us);
        if !self.is_followed(key) {
            return;
        }
        match deed {
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
            // Its store was not seen.
            AccessKind::Hit(..) | AccessKind::Remove if !self.followed.is_empty() => {
                self.followed.remove(&key);
            }
            AccessKind::Hit(..) | AccessKind::Miss | AccessKind::Load(_) | AccessKind::Remove => {}
        }
    }

    /// What is told of the window; it ends if that is wanted.
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
        let told = |curve| WindowReport {
            curve,
            seconds,
            sampled,
            unseen,
            object_bytes,
            backend_us,
            window: number,
        };
        // By a scrap of a burst nothing is told of all.
        let is_enough = unseen == 0 || requests - unseen >= REQUESTS_MIN;
        curve.filter(|_| is_enough).map(told)
    }
}

/// What a server says of its tenants.
pub trait Source: Send {
    /// How often keys of each have been asked for.
    fn lookups(&self) -> Vec<u64>;
    /// How much there is for all of them at most, in bytes.
    fn bytes_max(&self) -> u64;
    /// Whether hits of one need to be handed in, from now on.
    fn report_hits(&self, tenant: usize, is_wanted: bool);
    /// Reads of flash so far.
    fn flash_reads(&self) -> TimeSum;
}

/// Makes curves until `stopped` turns true.
pub fn run(curves: &Arc<Curves>, source: &impl Source, stopped: &Receiver<bool>) {
    let size_max = source.bytes_max().saturating_mul(SIZE_FACTOR);
    let (mut number, mut began_ns) = (1, curves.clock.monotonic_ns());
    let profile = |requests| Profile::new(size_max, requests, began_ns);
    let mut profiles: Vec<Profile> = source.lookups().into_iter().map(profile).collect();
    let mut shown_ns = began_ns;
    let mut flash = FlashTimes::new(curves.waits(), source.flash_reads());
    let mut sleep = SLEEPS.0;
    while !*stopped.borrow() && stopped.has_changed().is_ok() {
        let is_much = curves.take_in(&mut profiles);
        let now_ns = curves.clock.monotonic_ns();
        let is_begun = curves.turn(&mut profiles, source, now_ns);
        let is_end = now_ns - began_ns >= curves.window.as_nanos() as u64;
        // Before there is any other, the one that runs is shown now and then.
        let is_early = number == 1 && (now_ns - shown_ns) as u128 * 16 >= curves.window.as_nanos();
        if is_end || is_early {
            // At once: what is asked for meanwhile has not been taken in.
            let lookups = source.lookups();
            if is_end {
                // Before it is told that the window has ended, for then somebody plans.
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
    /// Takes what is in the queues; whether one was so full that its like has to be fetched soon.
    fn take_in(&self, profiles: &mut [Profile]) -> bool {
        let mut is_much = false;
        for (profile, of_tenant) in profiles.iter_mut().zip(&self.tenants) {
            let (mut taken, mut asides) = (0, 0);
            let generation = of_tenant.generation.load(Ordering::Acquire);
            // As many as may wait: windows end though there is always more.
            for _ in 0..of_tenant.queue.capacity() {
                let Some(sighting) = of_tenant.queue.pop() else {
                    // Nothing of an earlier generation is still to come.
                    profile.enter(generation);
                    break;
                };
                taken += 1;
                asides += u64::from(sighting.is_aside);
                profile.record(&sighting);
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

    /// Looks at tenants or not, as it is their turn; whether one is looked at again.
    fn turn(&self, profiles: &mut [Profile], source: &impl Source, now_ns: u64) -> bool {
        let mut is_begun = false;
        let is_on = self.is_on.load(Ordering::Relaxed);
        let part = part_of(profiles.iter().filter(|profile| profile.bursts.is_busy()).count());
        for (tenant, (profile, of_tenant)) in profiles.iter_mut().zip(&self.tenants).enumerate() {
            if !is_on {
                profile.bursts.pause();
                // What is stored meanwhile is not seen.
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
                        // It was shut in between.
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
