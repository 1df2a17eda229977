//! Time as the product sees it: a wall clock for deadlines and a monotonic one
//! for durations and times to live, real ([`SystemClock`]) or set by hand ([`ManualClock`]).

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the seam that the bans point to"
)]

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};

const NS_PER_MS: u64 = 1_000_000;

/// [`Clock::moment`] is content with readings that are at most so far apart.
const APART_NS_ENOUGH: u64 = 20_000;
const READINGS_MAX: usize = 10;

/// Readings of two clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// [`Clock::unix_ns`].
    pub unix_ns: u64,
    /// [`Clock::boot_ns`], read at the same time or later.
    pub boot_ns: u64,
    /// How much later at most.
    pub apart_ns: u64,
}

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Nanoseconds since 1970-01-01 UTC: the time of day, which an operator may set.
    fn unix_ns(&self) -> u64;

    /// [`Clock::unix_ns`] in whole milliseconds.
    fn unix_ms(&self) -> u64 {
        self.unix_ns() / NS_PER_MS
    }

    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Nanoseconds since some fixed moment, also of the time that the machine was suspended; never
    /// goes back. Times to live last by this clock.
    fn boot_ns(&self) -> u64 {
        self.monotonic_ns()
    }

    /// [`Clock::unix_ns`] and [`Clock::boot_ns`] at one moment. A thread may lose the processor
    /// between two readings, so this returns the closest of a few.
    fn moment(&self) -> Moment {
        let read = || {
            let before_ns = self.boot_ns();
            let (unix_ns, boot_ns) = (self.unix_ns(), self.boot_ns());
            Moment { unix_ns, boot_ns, apart_ns: boot_ns.saturating_sub(before_ns) }
        };
        let mut closest = read();
        for _ in 1..READINGS_MAX {
            if closest.apart_ns <= APART_NS_ENOUGH {
                break;
            }
            let next = read();
            if next.apart_ns < closest.apart_ns {
                closest = next;
            }
        }
        closest
    }

    /// Waits, or moves a simulated clock on.
    fn sleep(&self, duration: Duration);
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn unix_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[cfg(target_os = "linux")]
    fn boot_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.cast_unsigned())
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock that moves only by calls; sleeping moves it.
#[derive(Debug)]
pub struct ManualClock {
    ns: AtomicU64,
    epoch_ms: AtomicU64,
}

impl ManualClock {
    /// A clock set to `unix_ms`.
    pub fn new(unix_ms: u64) -> Self {
        Self { ns: AtomicU64::new(0), epoch_ms: AtomicU64::new(unix_ms) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Sets the time of day back, as an operator may.
    pub fn set_back(&self, ms: u64) {
        self.epoch_ms.fetch_sub(ms, Ordering::Relaxed);
    }

    /// Sets the time of day forward, as an operator may.
    pub fn set_forward(&self, ms: u64) {
        self.epoch_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn unix_ns(&self) -> u64 {
        let epoch_ns = self.epoch_ms.load(Ordering::Relaxed) * NS_PER_MS;
        epoch_ns + self.ns.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which the first readings are interrupted.
    #[derive(Debug)]
    struct Interrupted {
        inner: ManualClock,
        times: AtomicU64,
    }

    impl Clock for Interrupted {
        fn unix_ns(&self) -> u64 {
            let unix_ns = self.inner.unix_ns();
            let left = self.times.load(Ordering::Relaxed);
            if left > 0 {
                self.times.store(left - 1, Ordering::Relaxed);
                self.inner.advance(Duration::from_millis(100 * left));
            }
            unix_ns
        }

        fn monotonic_ns(&self) -> u64 {
            self.inner.monotonic_ns()
        }

        fn sleep(&self, duration: Duration) {
            self.inner.sleep(duration);
        }
    }

    #[test]
    fn a_moment_is_read_again_when_the_reading_was_interrupted() {
        let machine =
            |times| Interrupted { inner: ManualClock::new(1000), times: AtomicU64::new(times) };
        for times in [0, 1, 5] {
            let clock = machine(times);
            let moment = clock.moment();
            let Moment { unix_ns, boot_ns, apart_ns } = moment;
            assert_eq!((unix_ns, apart_ns), (1000 * NS_PER_MS + boot_ns, 0), "{times}");
        }
        // The closest of all.
        let closest = machine(1000).moment().apart_ns;
        assert_eq!(closest, (1000 - READINGS_MAX as u64 + 1) * 100 * NS_PER_MS);
    }

    #[test]
    fn the_clocks_of_the_machine_agree() {
        let clock = SystemClock::new();
        let (first, ms, second) = (clock.moment(), clock.unix_ms(), clock.moment());
        assert!(first.boot_ns <= second.boot_ns);
        assert!(ms.abs_diff(first.unix_ns / NS_PER_MS) < 3_600_000);
    }
}
