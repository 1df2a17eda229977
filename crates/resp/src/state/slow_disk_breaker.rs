//! A circuit breaker that keeps writes off the event loop for a while after a slow one.
//!
//! A write on the event loop passes bytes to the operating system, which buffers them in memory. If
//! memory is short, or the journal is busy, it may block the writer nevertheless, without warning.
//! So the event loop measures the time: after a slow write the breaker opens, and all writes go to
//! the I/O threads, where waiting delays no other connection. Each time that the first write after
//! an open period is slow again, the next period is twice as long: a disk that stays slow delays an
//! event loop less and less often.
//!
//! Pure: the caller provides the time. May be used from any thread; two concurrent slow writes
//! count as one or two, which does not matter.

use std::sync::atomic::{AtomicU64, Ordering};

/// A write that took longer was delayed by the disk. A write takes a hundredth of a millisecond; on
/// a busy machine other programs may delay it by a few milliseconds, and opening the breaker would
/// only make that worse.
const SLOW_NS: u64 = 20_000_000;
/// The first open period; a disk is seldom busy for less.
const SHORTEST_NS: u64 = 100_000_000;
/// The longest open period: after it one write tries the disk again.
const LONGEST_NS: u64 = 12_800_000_000;
/// After this time of fast writes the next open period is the shortest again.
const FORGIVEN_NS: u64 = 1_000_000_000;

/// The state of the breaker.
#[derive(Debug, Default)]
pub(crate) struct SlowDiskBreaker {
    /// End of the open period; 0: there was none.
    until_ns: AtomicU64,
    length_ns: AtomicU64,
}

impl SlowDiskBreaker {
    /// Whether the breaker is open: writes go to the I/O threads. Reads the clock only if the
    /// breaker was ever open.
    pub(crate) fn is_on(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        until_ns > 0 && now_ns() < until_ns
    }

    /// Records the start and the end of a write on the event loop.
    pub(crate) fn note(&self, began_ns: u64, ended_ns: u64) {
        if ended_ns.saturating_sub(began_ns) < SLOW_NS {
            return;
        }
        let last_until = self.until_ns.load(Ordering::Relaxed);
        let length = match self.length_ns.load(Ordering::Relaxed) {
            0 => SHORTEST_NS,
            _ if began_ns > last_until.saturating_add(FORGIVEN_NS) => SHORTEST_NS,
            last => (2 * last).min(LONGEST_NS),
        };
        self.length_ns.store(length, Ordering::Relaxed);
        self.until_ns.store(ended_ns.saturating_add(length), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_slow_write_opens_the_breaker_for_a_while() {
        let breaker = SlowDiskBreaker::default();
        breaker.note(0, 9 * MS);
        assert!(!breaker.is_on(|| 0) && !breaker.is_on(|| 9 * MS));
        breaker.note(10 * MS, 30 * MS);
        assert!(breaker.is_on(|| 30 * MS) && breaker.is_on(|| 129 * MS));
        assert!(!breaker.is_on(|| 130 * MS));
    }

    #[test]
    fn a_disk_that_stays_slow_is_tried_less_and_less_often() {
        let breaker = SlowDiskBreaker::default();
        let (mut now, mut slow) = (0, 0);
        while now < 60_000 * MS {
            if !breaker.is_on(|| now) {
                breaker.note(now, now + 50 * MS);
                slow += 1;
            }
            now += MS;
        }
        assert_eq!(slow, 11, "0.1, 0.2, … 12.8, 12.8, 12.8 seconds apart");
        // After a time of fast writes, one slow write opens it only briefly again.
        let later = now + 20_000 * MS;
        breaker.note(later, later + 25 * MS);
        assert!(breaker.is_on(|| later + 124 * MS) && !breaker.is_on(|| later + 126 * MS));
    }
}
