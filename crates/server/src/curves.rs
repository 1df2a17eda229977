//! Miss-ratio curves of what clients ask for, made while they do ([`tidekv_plan::Watch`]).
//!
//! Whoever serves a request hands in what it does to a key ([`Curves::saw`]): what is in the sample goes
//! into a queue, and a thread of its own ([`run`]) takes it from there. When a window of time ends,
//! the curve of each tenant is told.
//!
//! Guarantees: [`Curves::saw`] waits for nothing. What a full queue has no room for is dropped and
//! counted, and what is missing is not taken for hits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use parking_lot::Mutex;
use tidekv_io::{Clock, SystemClock};
use tidekv_plan::{Access, Action, Curve, Expiry, Settings, Unit, Watch, Window, sample_hash};
use tokio::sync::watch::Receiver;

/// Sightings of a tenant that may wait: what comes in some hundredths of a second while all keys are in
/// the sample, and later in as many seconds. Where there are many tenants each may have fewer.
const QUEUE_LEN: usize = 1 << 14;
const QUEUE_LEN_MIN: usize = 1 << 11;
/// Objects of a tenant's sample, less than 4 MiB: twice what is usual for traces, for it is
/// spread over caches of up to [`SIZE_FACTOR`] times the size.
const OBJECTS_MAX: usize = 2 * tidekv_plan::SIZE_USUAL;
/// Curves go up to so many times what there is.
const SIZE_FACTOR: u64 = 4;
/// How long the thread sleeps when there is nothing to do: at first, and at last.
const SLEEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// So long nobody waits for an answer of what is behind a cache.
const BACKEND_US_MAX: u64 = 10_000_000;
/// Misses that are followed until their objects are stored.
const FOLLOWED_MAX: usize = 1 << 12;

/// What is done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Asked for, and there: so many bytes.
    Hit(u64),
    Miss,
    /// Read, and loaded where it was not in memory: so many bytes.
    Load(u64),
    /// Of so many bytes, with so many milliseconds to live.
    Store(u64, Option<u64>),
    Remove,
}

/// What has been done to a key, and when.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    key: u64,
    deed: Deed,
    /// By the clock of deadlines.
    at_ms: u64,
    /// By one that never goes back.
    monotonic_us: u64,
}

/// What was seen of a tenant in a window.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// Sizes in bytes.
    pub(crate) curve: Curve,
    /// How long the window was.
    pub(crate) seconds: f64,
    /// How many keys of each were looked at.
    pub(crate) sampled: f64,
    /// Requests that sightings stood for which were dropped.
    pub(crate) lost: u64,
    /// The mean size of an object.
    pub(crate) object_bytes: Option<f64>,
    /// How long it took after a miss until the object was stored, on average.
    pub(crate) backend_us: Option<f64>,
    /// The number of the window, from 1; of the one that still runs, before any has ended.
    pub(crate) window: u64,
}

/// Curves of tenants.
#[derive(Debug)]
pub(crate) struct Curves {
    tenants: Box<[OfTenant]>,
    window: Duration,
    /// How many windows have ended.
    ended: AtomicU64,
    clock: SystemClock,
}

#[derive(Debug)]
struct OfTenant {
    queue: ArrayQueue<Sighting>,
    /// Keys with a hash below are in the sample.
    threshold: AtomicU64,
    /// Loads of all keys; hits and misses are counted by who finds them.
    loads: AtomicU64,
    /// Requests that sightings stood for which were dropped.
    lost: AtomicU64,
    told: Mutex<Option<Told>>,
}

/// The threshold of a sample that has all keys.
const ALL_KEYS: u64 = 1 << 32;

/// How many requests one of a sample stands for.
fn stands_for(threshold: u64) -> u64 {
    (ALL_KEYS / threshold.clamp(1, ALL_KEYS)).max(1)
}

impl Curves {
    /// Of so many tenants, with windows of that length.
    pub(crate) fn new(tenants: usize, window: Duration) -> Self {
        let queue_len = (QUEUE_LEN / tenants.max(1)).max(QUEUE_LEN_MIN);
        let of_tenant = |_| OfTenant {
            queue: ArrayQueue::new(queue_len),
            threshold: AtomicU64::new(ALL_KEYS),
            loads: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            told: Mutex::default(),
        };
        Self {
            tenants: (0..tenants).map(of_tenant).collect(),
            window,
            ended: AtomicU64::new(0),
            clock: SystemClock::new(),
        }
    }

    /// Takes in what has been done to a key, or drops it.
    #[inline]
    pub(crate) fn saw(&self, tenant: usize, key: u64, at_ms: u64, deed: Deed) {
        let Some(of_tenant) = self.tenants.get(tenant) else { return };
        if matches!(deed, Deed::Load(_)) {
            of_tenant.loads.fetch_add(1, Ordering::Relaxed);
        }
        let threshold = of_tenant.threshold.load(Ordering::Relaxed);
        if sample_hash(key) < threshold {
            let monotonic_us = self.clock.monotonic_ns() / 1_000;
            let sighting = Sighting { key, deed, at_ms, monotonic_us };
            let is_asked = matches!(deed, Deed::Hit(_) | Deed::Miss | Deed::Load(_));
            if of_tenant.queue.push(sighting).is_err() && is_asked {
                // It stood for those of other keys as well.
                of_tenant.lost.fetch_add(stands_for(threshold), Ordering::Relaxed);
            }
        }
    }

    /// How many windows have ended, and been told of.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// How long a window is.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// How many loads there were by tenant.
    pub(crate) fn loads(&self) -> Vec<u64> {
        self.tenants.iter().map(|of_tenant| of_tenant.loads.load(Ordering::Relaxed)).collect()
    }

    /// What was told of a tenant last.
    pub(crate) fn told(&self, tenant: usize) -> Option<Told> {
        self.tenants.get(tenant)?.told.lock().clone()
    }
}

/// What the thread knows of a tenant.
struct Profile {
    watch: Watch,
    /// Lookups when the window began.
    requests: u64,
    lost: u64,
    /// Requests that hits stood for of what was not known.
    unknown: u64,
    /// Keys that were missed, and when.
    followed: HashMap<u64, u64>,
    /// How long they took until they were stored: of how many, and their sum.
    backend_us: (u64, u64),
}

impl Profile {
    fn new(size_max: u64, requests: u64) -> Self {
        let settings = Settings { unit: Unit::Bytes, expiry: Expiry::AtOnce };
        Self {
            watch: Watch::new(OBJECTS_MAX, size_max, settings),
            requests,
            lost: 0,
            unknown: 0,
            followed: HashMap::new(),
            backend_us: (0, 0),
        }
    }

    fn see(&mut self, sighting: &Sighting) {
        let &Sighting { key, deed, at_ms, monotonic_us } = sighting;
        if sample_hash(key) >= self.watch.threshold() {
            // It was in the sample when it was seen.
            return;
        }
        let (action, ttl_ms) = match deed {
            // It was stored before anybody looked: how far it is from its last request is not known,
            // and to count as a miss of every cache would be wrong.
            Deed::Hit(bytes) if !self.watch.has(key) => {
                self.unknown += stands_for(self.watch.threshold());
                (Action::Set(bytes), None)
            }
            Deed::Hit(_) | Deed::Miss => (Action::Get, None),
            Deed::Load(bytes) => (Action::Load(bytes), None),
            Deed::Store(bytes, ttl_ms) => (Action::Set(bytes), ttl_ms),
            Deed::Remove => (Action::Delete, None),
        };
        self.watch.see(&Access { key, action, at_ms, ttl_ms });
        match deed {
            Deed::Miss if self.followed.len() < FOLLOWED_MAX => {
                self.followed.insert(key, monotonic_us);
            }
            Deed::Store(..) => {
                let took_us = self.followed.remove(&key).map(|at| monotonic_us.saturating_sub(at));
                if let Some(took_us) = took_us.filter(|took_us| *took_us <= BACKEND_US_MAX) {
                    self.backend_us = (self.backend_us.0 + 1, self.backend_us.1 + took_us);
                }
            }
            Deed::Hit(_) | Deed::Miss | Deed::Load(_) | Deed::Remove => {}
        }
    }

    /// What is told of the window; it ends if that is wanted.
    fn tell(
        &mut self,
        requests: u64,
        lost: u64,
        seconds: f64,
        number: u64,
        is_end: bool,
    ) -> Option<Told> {
        let window = Window {
            requests: requests.saturating_sub(self.requests),
            lost: lost.saturating_sub(self.lost) + self.unknown,
        };
        let dropped = lost.saturating_sub(self.lost);
        let (sampled, object_bytes) = (self.watch.rate(), self.watch.mean_bytes());
        let (count, sum_us) = self.backend_us;
        let curve = match is_end {
            false => self.watch.curve(window),
            true => {
                (self.requests, self.lost, self.backend_us) = (requests, lost, (0, 0));
                self.unknown = 0;
                self.followed.clear();
                self.watch.end_window(window)
            }
        };
        let backend_us = (count > 0).then(|| sum_us as f64 / count as f64);
        let told = |curve| Told {
            curve,
            seconds,
            sampled,
            lost: dropped,
            object_bytes,
            backend_us,
            window: number,
        };
        curve.map(told)
    }
}

/// What a server says of its tenants.
pub(crate) trait Source: Send {
    /// How often keys of each have been asked for.
    fn lookups(&self) -> Vec<u64>;
    /// How much there is for all of them at most, in bytes.
    fn bytes_max(&self) -> u64;
}

/// Makes curves until `stopped` turns true.
pub(crate) fn run(curves: &Arc<Curves>, source: &impl Source, stopped: &Receiver<bool>) {
    let size_max = source.bytes_max().saturating_mul(SIZE_FACTOR);
    let mut profiles: Vec<Profile> =
        source.lookups().into_iter().map(|requests| Profile::new(size_max, requests)).collect();
    let (mut number, mut began_ns) = (1, curves.clock.monotonic_ns());
    let mut shown_ns = began_ns;
    let mut sleep = SLEEPS.0;
    while !*stopped.borrow() && stopped.has_changed().is_ok() {
        let has_seen = curves.take_in(&mut profiles);
        let now_ns = curves.clock.monotonic_ns();
        let is_end = now_ns - began_ns >= curves.window.as_nanos() as u64;
        // Before there is any other, the one that runs is shown now and then.
        let is_early = number == 1 && (now_ns - shown_ns) as u128 * 16 >= curves.window.as_nanos();
        if is_end || is_early {
            let seconds = (now_ns - began_ns) as f64 / 1e9;
            curves.tell(&mut profiles, &source.lookups(), seconds, number, is_end);
            shown_ns = now_ns;
        }
        if is_end {
            (number, began_ns) = (number + 1, now_ns);
        }
        sleep = if has_seen { SLEEPS.0 } else { (sleep * 2).min(SLEEPS.1) };
        curves.clock.sleep(sleep.min(curves.window / 16));
    }
}

impl Curves {
    /// Takes what is in the queue; whether there was anything.
    fn take_in(&self, profiles: &mut [Profile]) -> bool {
        let mut seen = 0;
        for (profile, of_tenant) in profiles.iter_mut().zip(&self.tenants) {
            // As many as may wait: windows end though there is always more.
            for _ in 0..of_tenant.queue.capacity() {
                let Some(sighting) = of_tenant.queue.pop() else { break };
                seen += 1;
                profile.see(&sighting);
                of_tenant.threshold.store(profile.watch.threshold(), Ordering::Relaxed);
            }
        }
        seen > 0
    }

    fn tell(
        &self,
        profiles: &mut [Profile],
        lookups: &[u64],
        seconds: f64,
        number: u64,
        is_end: bool,
    ) {
        for ((profile, of_tenant), requests) in profiles.iter_mut().zip(&self.tenants).zip(lookups)
        {
            let lost = of_tenant.lost.load(Ordering::Relaxed);
            let told = profile.tell(*requests, lost, seconds, number, is_end);
            of_tenant.threshold.store(profile.watch.threshold(), Ordering::Relaxed);
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
