//! Miss-ratio curves of a cache: the cache reports accesses to its keys, and a thread computes the
//! curves.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidekv_io::threads::restarting;
use tidekv_net::error::{Error, Result};
use tidekv_observe::curves::{self, AccessKind, Curves, Source, TimeSum};
use tidekv_tiered::{Access, AccessObserver, Cache, Deadline, ReadTimes};
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
