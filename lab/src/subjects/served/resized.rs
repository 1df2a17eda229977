//! A cache behind its own server that may resize itself under load, and the clients' measurements
//! of it.
//!
//! The server runs in this process, with flash in a real file and a Unix socket. Clients send one
//! request after another; after a miss they wait for the latency of a database, and store the
//! object. A latency is the client's: from the request until it has the object, from any source.
//! Processors are kept from idling, if permitted ([`Awake`]); otherwise latencies include the
//! wake-up time of a processor.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};
use tidekv_memcached::CacheServerOptions;
use tidekv_tiered::Cache;

use crate::failure::Result;
use crate::load::dice::{Dice, mix};
use crate::load::keys::{Choice, Picker, key_of};
use crate::machine::idle::Awake;
use crate::subjects::served::directory::Directory;
use crate::subjects::served::own::{OwnServer, Target};

/// The duration of the measurement of a get that DRAM answers,
const TRIAL_STRETCH: Duration = Duration::from_millis(200);
/// and the number of such measurements, of which the median counts: other load may disturb one,
/// hardly most.
const TRIAL_STRETCHES: u32 = 15;

/// One stage of the clients' requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    /// Its duration.
    pub(crate) time: Duration,
    /// The number of objects, by Zipf's law.
    pub(crate) objects: u64,
}

/// The clients.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// Their number.
    pub(crate) threads: u64,
    /// Consecutive stages.
    pub(crate) stages: Vec<Stage>,
    /// The exponent of Zipf's law.
    pub(crate) alpha: f64,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// The latency of the database.
    pub(crate) backend: Duration,
    /// The pause of each client between requests.
    pub(crate) pause: Duration,
    /// The length of the reported intervals.
    pub(crate) stretch: Duration,
    pub(crate) seed: u64,
}

/// The clients' measurements in an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stretch {
    /// Its start, in seconds.
    pub(crate) at_s: f64,
    /// Gets, and misses among them.
    pub(crate) gets: u64,
    pub(crate) misses: u64,
    /// Mean latency of gets, in microseconds.
    pub(crate) latency_us: f64,
    /// The maximum latency of hits.
    pub(crate) longest_us: f64,
    /// The cache's size limits at its end.
    pub(crate) dram_bytes: u64,
    pub(crate) flash_bytes: u64,
}

/// The clients' measurements of a cache.
#[derive(Debug)]
pub(crate) struct Course {
    /// The latency of a hit in DRAM before the stages: a median, in microseconds.
    pub(crate) hit_us: f64,
    /// Whether processors were kept awake.
    pub(crate) is_awake: bool,
    /// The intervals of the stages.
    pub(crate) stretches: Vec<Stretch>,
}

/// The shared counters of the clients.
#[derive(Debug, Default)]
struct Seen {
    gets: AtomicU64,
    misses: AtomicU64,
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Seen {
    fn add(&self, ns: u64, is_hit: bool) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        match is_hit {
            true => _ = self.longest_ns.fetch_max(ns, Ordering::Relaxed),
            false => _ = self.misses.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The difference since the last call.
    fn take(&self) -> (u64, u64, u64, u64) {
        let take = |number: &AtomicU64| number.swap(0, Ordering::Relaxed);
        (take(&self.gets), take(&self.misses), take(&self.sum_ns), take(&self.longest_ns))
    }
}

impl Clients {
    /// Starts a cache, sends requests and returns the measurements, interval by interval. `options`
    /// gives the options of the server for the measured latency of a get that DRAM answers, in
    /// microseconds.
    ///
    /// # Errors
    /// If the cache cannot be started, or a client loses its connection.
    pub(crate) fn ask(
        &self,
        target: &Target,
        options: impl Fn(f64) -> CacheServerOptions,
    ) -> Result<Course> {
        let one = Self {
            stages: vec![Stage { time: TRIAL_STRETCH * TRIAL_STRETCHES, objects: 1 }],
            stretch: TRIAL_STRETCH,
            ..self.clone()
        };
        let awake = Awake::hold();
        let directory = Directory::new()?;
        let start = |name: &str, options| {
            OwnServer::start(&directory, name, target, self.value_bytes, options)
        };
        let mut tried = one.follow(&start("tried", CacheServerOptions::default())?)?;
        tried.retain(|tried| tried.gets > 0);
        tried.sort_by(|one, other| one.latency_us.total_cmp(&other.latency_us));
        // Except for the first requests, all are hits.
        let hit_us = tried.get(tried.len() / 2).map_or(0.0, |tried| tried.latency_us);
        let stretches = self.follow(&start("asked", options(hit_us))?)?;
        Ok(Course { hit_us, is_awake: awake.is_granted(), stretches })
    }

    fn follow(&self, server: &OwnServer) -> Result<Vec<Stretch>> {
        let (seen, is_over, stage) = (Seen::default(), AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let client = |thread| {
                let (seen, is_over, stage) = (&seen, &is_over, &stage);
                move || self.client(thread, server, seen, is_over, stage)
            };
            let clients: Vec<_> =
                (0..self.threads).map(|thread| scope.spawn(client(thread))).collect();
            let stretches = self.watch(server.cache(), &seen, &stage);
            is_over.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(stretches)
        })
    }

    /// Switches from stage to stage, and records the measurements meanwhile.
    fn watch(&self, cache: &Cache, seen: &Seen, stage: &AtomicUsize) -> Vec<Stretch> {
        let clock = SystemClock::new();
        let (began_ns, mut end_ns) = (clock.monotonic_ns(), 0);
        let mut stretches = Vec::new();
        for (number, of_stage) in self.stages.iter().enumerate() {
            stage.store(number, Ordering::Relaxed);
            end_ns += of_stage.time.as_nanos() as u64;
            while clock.monotonic_ns() - began_ns < end_ns {
                let at_ns = clock.monotonic_ns() - began_ns;
                clock.sleep(self.stretch.min(Duration::from_nanos(end_ns - at_ns)));
                let (gets, misses, sum_ns, longest_ns) = seen.take();
                let tenants = cache.tenant_stats();
                stretches.push(Stretch {
                    at_s: at_ns as f64 / 1e9,
                    gets,
                    misses,
                    latency_us: sum_ns as f64 / 1e3 / gets.max(1) as f64,
                    longest_us: longest_ns as f64 / 1e3,
                    dram_bytes: tenants.iter().map(|it| it.cache.dram_bytes_max).sum(),
                    flash_bytes: tenants.iter().map(|it| it.flash_bytes_max).sum(),
                });
            }
        }
        stretches
    }

    fn client(
        &self,
        thread: u64,
        server: &OwnServer,
        seen: &Seen,
        is_over: &AtomicBool,
        stage: &AtomicUsize,
    ) -> Result<()> {
        let clock = SystemClock::new();
        let mut connection = server.connect()?;
        let value = vec![b'v'; self.value_bytes];
        let choice = Choice::Zipf { alpha: self.alpha, is_scattered: false };
        let picker = |of: &Stage| Picker::new(&choice, of.objects, self.seed, 0, 1);
        let mut pickers: Vec<Picker> = self.stages.iter().map(picker).collect();
        let mut dice = Dice::of_thread(self.seed, thread);
        while !is_over.load(Ordering::Relaxed) {
            let number = pickers[stage.load(Ordering::Relaxed)].next(&mut dice);
            let key = key_of(mix(number));
            let began_ns = clock.monotonic_ns();
            let is_hit = connection.get(&key, &mut |_| {})?;
            if !is_hit {
                clock.sleep(self.backend);
            }
            seen.add(clock.monotonic_ns() - began_ns, is_hit);
            if !is_hit {
                connection.set(&key, &value)?;
            }
            clock.sleep(self.pause);
        }
        Ok(())
    }
}
