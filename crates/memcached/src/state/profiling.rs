//! Miss-ratio curves of a cache: the cache reports accesses to its keys, and a thread computes the
//! curves.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidekv_io::threads::restarting;
use tidekv_net::error::{Error, Result};
use tidekv_observe::curves::{self, AccessKind, CacheCounts, Curves, Source, TimeSum};
use tidekv_plan::ScaledCache;
use tidekv_tiered::{Access, AccessObserver, Cache, Deadline, ReadTimes, ScaledDram};
use tokio::sync::watch::Receiver;

/// Records the accesses that a cache reports.
#[derive(Debug)]
struct ProfilingObserver(Arc<Curves>);

impl AccessObserver for ProfilingObserver {
    fn on_access(&self, tenant: usize, hash: u64, now_s: u32, sight: Access) {
        let left_ms = |deadline: Deadline| Some(u64::from(deadline.remaining_s(now_s)?) * 1_000);
        let kind = match sight {
            Access::Hit { bytes, deadline } => AccessKind::Hit(bytes, left_ms(deadline)),
            Access::Miss => AccessKind::Miss,
            Access::Stored { bytes, deadline } => AccessKind::Store(bytes, left_ms(deadline)),
            Access::Removed => AccessKind::Remove,
        };
        self.0.record(tenant, hash, kind, || u64::from(now_s) * 1_000);
    }

    fn on_clear(&self, tenant: usize) {
        self.0.record_clear(tenant);
    }
}

/// A cache as the source of curves.
struct Profiled(Cache);

impl Source for Profiled {
    fn lookups(&self) -> Vec<u64> {
        self.0.lookups()
    }

    fn bytes_max(&self) -> u64 {
        let flash_bytes: u64 = self.0.device_stats().iter().map(|device| device.bytes).sum();
        self.0.stats().dram_bytes_max + flash_bytes
    }

    fn report_hits(&self, tenant: usize, is_wanted: bool) {
        self.0.observe_hits(tenant, is_wanted);
    }

    fn flash_reads(&self) -> TimeSum {
        flash_reads(&self.0)
    }

    fn caches(&self) -> Vec<CacheCounts> {
        let counts = self.0.dram_bytes().into_iter().zip(self.0.lookups()).zip(self.0.misses());
        counts
            .map(|((size_bytes, lookups), misses)| CacheCounts { size_bytes, lookups, misses })
            .collect()
    }

    fn scaled_cache(&self, tenant: usize, bytes: u64, rate: f64) -> Option<Box<dyn ScaledCache>> {
        let model = self.0.scaled_dram(tenant, bytes, rate)?;
        Some(Box::new(Modelled(model)))
    }
}

/// The DRAM of a cache of another size, as a model for curves.
#[derive(Debug)]
struct Modelled(ScaledDram);

/// Whole seconds, as a cache has them.
fn seconds(ms: u64) -> u32 {
    u32::try_from(ms / 1_000).unwrap_or(u32::MAX)
}

impl ScaledCache for Modelled {
    fn get(&mut self, key: u64, at_ms: u64) -> bool {
        self.0.get(key, seconds(at_ms))
    }

    fn contains(&mut self, key: u64) -> bool {
        self.0.contains(key)
    }

    fn store(&mut self, key: u64, bytes: u64, ttl_ms: Option<u64>, at_ms: u64) {
        let at = |ttl_ms: u64| Deadline::at(at_ms.saturating_add(ttl_ms) / 1_000);
        self.0.store(key, bytes, ttl_ms.map_or(Deadline::NEVER, at));
    }

    fn remove(&mut self, key: u64) {
        self.0.remove(key);
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn sweep(&mut self, at_ms: u64) {
        self.0.sweep(seconds(at_ms));
    }

    fn set_scale(&mut self, size: u64, rate: f64, is_sampled: &dyn Fn(u64) -> bool) {
        self.0.set_scale(size, rate, is_sampled);
    }

    fn objects(&self) -> usize {
        self.0.objects()
    }

    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// Number and total time of a cache's lookups that read flash.
pub(crate) fn flash_reads(cache: &Cache) -> TimeSum {
    let mut times = ReadTimes::default();
    cache.device_stats().iter().for_each(|device| times.add(&device.read_times));
    TimeSum { count: times.count(), sum_ns: times.sum_ns() }
}

/// Starts the thread that computes the curves of a cache, until `stopped` becomes true.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn start(
    cache: &Cache,
    window: Duration,
    stopped: &Receiver<bool>,
) -> Result<(Arc<Curves>, JoinHandle<()>)> {
    let curves = Arc::new(Curves::new(cache.lookups().len(), window));
    let eye: Arc<dyn AccessObserver> = Arc::new(ProfilingObserver(Arc::clone(&curves)));
    cache.set_observer(&eye);
    let (cache, stopped) = (Profiled(cache.clone()), stopped.clone());
    let of_thread = Arc::clone(&curves);
    let thread = tidekv_io::threads::spawn_behind("tide-curves", move || {
        _ = restarting(|| curves::run(&of_thread, &cache, &stopped));
    })
    .map_err(|error| Error::unavailable("a thread for curves", error))?;
    Ok((curves, thread))
}

#[cfg(test)]
mod tests {
    use tidekv_io::{Clock, MemoryStorage, Storage};
    use tidekv_plan::{
        Access as Request, Action, Answered, Expiry, ScaledCaches, Settings, Unit, WindowedProfiler,
    };
    use tidekv_tiered::{Environment, Options};

    use super::*;

    /// The objects of a server's sample.
    const OBJECTS_MAX: usize = 16 << 10;

    /// The memory of the caches beside one with `objects` objects of `bytes`, each stored and
    /// requested by turns, and that of the sample.
    fn memory_bytes(dram_bytes: u64, objects: u64, bytes: u64) -> (usize, usize) {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let clock: Arc<dyn Clock> = Arc::new(tidekv_io::ManualClock::new(1_000_000_000));
        let options = Options { dram_bytes, ..Options::default() };
        let cache = Cache::open(&options, &Environment::new(storage, clock)).expect("it opens");
        let source = Profiled(cache);
        let make = |bytes, rate| source.scaled_cache(0, bytes, rate);
        let mut caches =
            ScaledCaches::new(dram_bytes, 1 << 32, OBJECTS_MAX, make).expect("there is no flash");
        let settings = Settings { unit: Unit::Bytes, expiry: Expiry::AtOnce };
        let mut watch = WindowedProfiler::new(OBJECTS_MAX, dram_bytes * 4, settings);
        let (mut most, mut sample) = (0, 0);
        for number in 0..objects * 2 {
            let key = (number % objects + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29);
            caches.record(key, Answered::Miss, 0);
            caches.record(key, Answered::Store(bytes, None), 0);
            watch.record(&Request::new(key, Action::Load(bytes)));
            caches.follow(watch.threshold(), dram_bytes);
            if number % 1_024 == 0 {
                most = most.max(caches.memory_bytes());
                sample = sample.max(watch.memory_bytes());
            }
        }
        (most, sample)
    }

    /// `docs/guide/flash-cache.md` promises it.
    #[test]
    fn curves_of_a_tenant_take_at_most_six_mebibytes() {
        // Few and large, as many as the sample has, many and small; and all objects in the smallest
        // cache.
        for (dram_bytes, objects, bytes) in [
            (16 << 20, 4_000, 33_000),
            (16 << 20, 16_000, 4_000),
            (64 << 20, 1_000_000, 300),
            (1 << 30, 400_000, 300),
        ] {
            let (caches, sample) = memory_bytes(dram_bytes, objects, bytes);
            assert!(caches < 2 << 20, "{objects} of {bytes}: {caches}");
            assert!(caches + sample < 6 << 20, "{objects} of {bytes}: {caches} and {sample}");
        }
    }
}
