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

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970-01-01 UTC: the time of day, which an operator may set.
    fn unix_ms(&self) -> u64;

    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Nanoseconds since some fixed moment, also of the time that the machine was suspended; never
    /// goes back. Times to live last by this clock.
    fn boot_ns(&self) -> u64 {
        self.monotonic_ns()
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
    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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
    fn unix_ms(&self) -> u64 {
        self.epoch_ms.load(Ordering::Relaxed) + self.ns.load(Ordering::Relaxed) / 1_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}
