//! A clock that can be stopped and moved, for tests of expiry: the command `debugtime`.
//!
//! Safe to use from all threads. Only the time of day changes; the monotonic clock does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tidekv_io::Clock;

/// The clock runs.
const RUNNING: u64 = u64::MAX;

/// A clock with an offset to another one.
#[derive(Debug)]
pub struct OffsetClock {
    inner: Arc<dyn Clock>,
    offset_ms: AtomicI64,
    /// The time of the other clock when it was stopped.
    stopped_ns: AtomicU64,
}

impl OffsetClock {
    /// A clock that initially agrees with `inner`.
    pub fn new(inner: Arc<dyn Clock>) -> Self {
        Self { inner, offset_ms: AtomicI64::new(0), stopped_ns: AtomicU64::new(RUNNING) }
    }

    /// Moves the clock forwards or backwards.
    pub fn shift_s(&self, seconds: i64) {
        self.offset_ms.fetch_add(seconds.saturating_mul(1000), Ordering::Relaxed);
    }

    /// Stops the clock.
    pub fn stop(&self) {
        let now_ns = self.inner.unix_ns();
        // A stopped clock keeps its time.
        let _ =
            self.stopped_ns.compare_exchange(RUNNING, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Resumes the clock at the current time.
    pub fn resume(&self) {
        self.stopped_ns.store(RUNNING, Ordering::Relaxed);
    }
}

impl Clock for OffsetClock {
    fn unix_ns(&self) -> u64 {
        let now_ns = match self.stopped_ns.load(Ordering::Relaxed) {
            RUNNING => self.inner.unix_ns(),
            stopped_ns => stopped_ns,
        };
        let offset_ms = self.offset_ms.load(Ordering::Relaxed);
        now_ns.saturating_add_signed(offset_ms.saturating_mul(1_000_000))
    }

    fn monotonic_ns(&self) -> u64 {
        self.inner.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }
}

#[cfg(test)]
mod tests {
    use tidekv_io::ManualClock;

    use super::*;

    #[test]
    fn it_is_moved_and_stopped() {
        let inner = Arc::new(ManualClock::new(100_000));
        let clock = OffsetClock::new(inner.clone());
        clock.shift_s(5);
        assert_eq!(clock.unix_ms(), 105_000);
        clock.stop();
        inner.sleep(Duration::from_secs(7));
        clock.stop();
        clock.shift_s(-1);
        assert_eq!(clock.unix_ms(), 104_000);
        clock.resume();
        assert_eq!(clock.unix_ms(), 111_000);
        clock.shift_s(i64::MIN);
        assert_eq!(clock.unix_ms(), 0);
    }
}
