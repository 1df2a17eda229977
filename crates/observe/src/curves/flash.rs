//! Flash latency: recent, not since the start of the server.
//!
//! A window counts if it has at least [`COUNT_MIN`] times; otherwise it is added to the next. The
//! latency is the mean of the last [`WINDOWS`] windows that count, except for stalls, which take
//! more than twice the median: one window of writes that fill a cache, or of a machine that paused,
//! does not change a plan, and a device that has become slower is recognised after four. After
//! [`WAITED_MAX`] windows that do not count the earlier ones are forgotten, and the latency since
//! the start is reported: otherwise flash that a plan took away while it was slow would be
//! considered slow forever.
//!
//! **A slow window.** Windows differ, and a latency target holds for each of them. So the latency
//! of a slow window is reported in addition to the mean: that of the slowest window, plus a tenth.
//! The next window is slower than the `n` before it once in `n + 1` times, for any distribution:
//! without the tenth, one of nine would be late. Mean deviations, as for TCP's retransmission
//! time-out (RFC 6298), were tried first: a stall raised them for ten windows, and so did flash
//! that had become faster.
//!
//! **What is timed.** The waits of single-key requests are the best measure, because they include
//! everything that flash adds. If too few requests have waited (pipelines read many keys at once),
//! the latency of reads is used.
//!
//! Pure.

use std::collections::VecDeque;

/// Windows with fewer times do not count.
const COUNT_MIN: u64 = 256;
/// Number of windows that are kept.
const WINDOWS: usize = 8;
/// A window of this multiple of the median is a stall.
const STALL: f64 = 2.0;
/// The latency of a slow window is this multiple of the slowest window.
const SLOW: f64 = 1.1;
/// After this many windows that do not count even together, earlier ones are forgotten.
const WAITED_MAX: u32 = 8;

/// Flash latency, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlashTime {
    /// Mean.
    pub mean_us: f64,
    /// In a slow window.
    pub slow_us: f64,
}

impl FlashTime {
    /// The latency if only a mean is known.
    pub fn of_mean(us: f64) -> Self {
        Self { mean_us: us, slow_us: us * SLOW }
    }
}

/// Number and total time of events since the start of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeSum {
    /// Number.
    pub count: u64,
    /// Sum of their times, in nanoseconds.
    pub sum_ns: u64,
}

impl TimeSum {
    /// The mean, in microseconds; none without events.
    pub fn mean_us(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e3)
    }

    fn since(self, before: Self) -> Self {
        let count = self.count.saturating_sub(before.count);
        Self { count, sum_ns: self.sum_ns.saturating_sub(before.sum_ns) }
    }
}

/// Times of one kind.
#[derive(Debug, Default)]
struct Times {
    /// The sums at the start of the windows that have not been evaluated.
    before: TimeSum,
    /// Number of these windows.
    waited: u32,
    /// The means of the windows that count, the latest last, in microseconds.
    lately_us: VecDeque<f64>,
}

impl Times {
    fn new(now: TimeSum) -> Self {
        Self { before: now, ..Self::default() }
    }

    fn end_window(&mut self, now: TimeSum) -> Option<FlashTime> {
        let lately = now.since(self.before);
        self.waited += 1;
        let is_enough = lately.count >= COUNT_MIN;
        if is_enough || self.waited >= WAITED_MAX {
            (self.before, self.waited) = (now, 0);
            if !is_enough {
                self.lately_us.clear();
            } else if self.lately_us.len() == WINDOWS {
                self.lately_us.pop_front();
            }
            self.lately_us.extend(lately.mean_us().filter(|_| is_enough));
        }
        self.told()
    }

    fn told(&self) -> Option<FlashTime> {
        let mut sorted = Vec::from_iter(self.lately_us.iter().copied());
        sorted.sort_by(f64::total_cmp);
        let stall_us = STALL * sorted.get(sorted.len() / 2)?;
        sorted.retain(|us| *us <= stall_us);
        let mean_us = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(FlashTime { mean_us, slow_us: sorted.last()? * SLOW })
    }
}

/// Flash latency by window.
#[derive(Debug)]
pub(super) struct FlashTimes {
    waits: Times,
    reads: Times,
}

impl FlashTimes {
    /// Starts with the current sums of waits and of reads.
    pub(super) fn new(waits: TimeSum, reads: TimeSum) -> Self {
        Self { waits: Times::new(waits), reads: Times::new(reads) }
    }

    /// Ends a window; returns the flash latency, if it is known.
    pub(super) fn end_window(&mut self, waits: TimeSum, reads: TimeSum) -> Option<FlashTime> {
        let (of_waits, of_reads) = (self.waits.end_window(waits), self.reads.end_window(reads));
        let ever_us = || waits.mean_us().or(reads.mean_us());
        of_waits.or(of_reads).or_else(|| ever_us().map(FlashTime::of_mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of a thousand times each.
    #[derive(Default)]
    struct Server {
        times: Times,
        all: TimeSum,
    }

    impl Server {
        fn window(&mut self, us: u64) -> FlashTime {
            self.all.count += 1_000;
            self.all.sum_ns += us * 1_000_000;
            self.times.end_window(self.all).expect("that is enough")
        }

        fn slow_us(&mut self, windows: impl IntoIterator<Item = u64>) -> Vec<f64> {
            let tenths = |us: f64| (us * 10.0).round() / 10.0;
            windows.into_iter().map(|us| tenths(self.window(us).slow_us)).collect()
        }
    }

    fn times(count: u64, sum_us: u64) -> TimeSum {
        TimeSum { count, sum_ns: sum_us * 1_000 }
    }

    #[test]
    fn a_window_with_few_times_does_not_count() {
        let mut recent = Times::new(times(1_000, 1_000_000));
        assert_eq!(recent.end_window(times(1_100, 1_010_000)), None);
        // Together with those of the previous window.
        let told = recent.end_window(times(1_400, 1_040_000));
        assert_eq!(told.map(|told| told.mean_us), Some(100.0));
    }

    #[test]
    fn a_slow_window_takes_a_tenth_more_than_the_slowest() {
        let mut server = Server::default();
        assert_eq!(server.slow_us([200, 240, 220]), [220.0, 264.0, 264.0]);
        assert!((server.window(220).mean_us - 220.0).abs() < 1e-9);
        // Until the window is too old.
        assert_eq!(server.slow_us([220; 6]), [264.0, 264.0, 264.0, 264.0, 264.0, 242.0]);
    }

    #[test]
    fn one_stall_is_ignored_and_four_slow_windows_are_not() {
        let mut server = Server::default();
        server.slow_us([200; 8]);
        assert_eq!(server.slow_us([2_000, 200, 200]), [220.0; 3]);
        server.slow_us([200; 8]);
        assert_eq!(server.slow_us([2_000; 4]), [220.0, 220.0, 220.0, 2_200.0]);
        server.slow_us([2_000; 8]);
        // Nor does a faster device count as slow.
        assert_eq!(
            server.slow_us([200; 6])[..],
            [2_200.0, 2_200.0, 2_200.0, 2_200.0, 220.0, 220.0]
        );
    }

    #[test]
    fn a_cache_that_is_being_filled_is_slow_for_two_windows() {
        assert_eq!(Server::default().slow_us([1_000, 200, 200]), [1_100.0, 1_100.0, 220.0]);
    }

    #[test]
    fn without_waits_the_latency_since_the_start_is_reported() {
        let nothing = TimeSum::default();
        let mut recent = FlashTimes::new(nothing, nothing);
        assert_eq!(recent.end_window(nothing, nothing), None);
        let mean_us = |recent: &mut FlashTimes, waits, reads| {
            recent.end_window(waits, reads).map(|told| told.mean_us)
        };
        let fast = times(9_700, 970_000);
        assert_eq!(mean_us(&mut recent, fast, nothing), Some(100.0));
        let slow = times(10_000, 970_000 + 300 * 150);
        assert_eq!(mean_us(&mut recent, slow, nothing), Some(125.0), "each window counts once");
        // Eight windows without waits.
        let idle: Vec<_> = (0..8).map(|_| mean_us(&mut recent, slow, nothing)).collect();
        assert_eq!(idle, [[Some(125.0); 7].as_slice(), &[Some(101.5)]].concat());
    }

    #[test]
    fn waits_are_preferred_to_reads() {
        let nothing = TimeSum::default();
        let mut recent = FlashTimes::new(nothing, nothing);
        let told = recent.end_window(times(255, 25_500), times(1_000, 80_000));
        assert_eq!(told.map(|told| told.mean_us), Some(80.0));
        let told = recent.end_window(times(300, 30_000), times(2_000, 160_000));
        assert_eq!(told.map(|told| told.mean_us), Some(100.0));
    }
}
