//! How long flash takes: lately, and not since the server began.
//!
//! A window counts if there were at least [`COUNT_MIN`] times in it; else it is added to the next. The last [`WINDOWS`] that
//! count say how long flash takes, but for stalls, which take more than twice the median: one window of writes that fill a
//! cache, or of a machine that stood still, does not turn a plan over, and a device that has become slower is known after
//! four. After [`WAITED_MAX`] windows that do not count these are forgotten, and what is known since the beginning is told:
//! else flash that a plan has taken away while it was slow would stay as slow.
//!
//! **A slow window.** Windows differ, and who has promised a latency has promised it in each of them. So beside the mean it is
//! told how long flash takes in a slow window: as long as in the slowest of them, and a tenth more. The next window is slower
//! than `n` before it once in `n + 1` times, whatever the distribution: without the tenth one of nine would be late. Mean
//! deviations, as for TCP's retransmission time-out (RFC 6298), were tried first: a stall raised them for ten windows, and so
//! did flash that had become faster.
//!
//! **What is timed.** What requests for one key have waited says it best, for it has all that flash adds. Where too few have
//! waited like that (pipelines read many keys at once), reads say it.
//!
//! Pure.

use std::collections::VecDeque;

/// Fewer times of a window say nothing of it.
const COUNT_MIN: u64 = 256;
/// So many windows are remembered.
const WINDOWS: usize = 8;
/// A window that takes so many times the median of all is a stall.
const STALL: f64 = 2.0;
/// A slow window takes so many times as long as the slowest that is remembered.
const SLOW: f64 = 1.1;
/// After so many windows that do not count, all of them together, those before are forgotten.
const WAITED_MAX: u32 = 8;

/// How long flash takes, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlashTime {
    /// On average.
    pub mean_us: f64,
    /// In a slow window.
    pub slow_us: f64,
}

impl FlashTime {
    /// Where nothing but a mean is known.
    pub fn of_mean(us: f64) -> Self {
        Self { mean_us: us, slow_us: us * SLOW }
    }
}

/// How often something has happened since the server began, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeSum {
    /// How many.
    pub count: u64,
    /// Of all of them, in nanoseconds.
    pub sum_ns: u64,
}

impl TimeSum {
    /// The mean, in microseconds; none where there was nothing.
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
    /// As it was when the windows began that have not been looked at.
    before: TimeSum,
    /// How many these are.
    waited: u32,
    /// The means of those that count, the latest last, in microseconds.
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

/// How long flash takes, window by window.
#[derive(Debug)]
pub(super) struct FlashTimes {
    waits: Times,
    reads: Times,
}

impl FlashTimes {
    /// Of a server whose requests for one key have waited so much by now, and that has read so much.
    pub(super) fn new(waits: TimeSum, reads: TimeSum) -> Self {
        Self { waits: Times::new(waits), reads: Times::new(reads) }
    }

    /// That a window has ended; how long flash takes, if anything is known of it.
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
    fn a_few_times_are_no_window() {
        let mut recent = Times::new(times(1_000, 1_000_000));
        assert_eq!(recent.end_window(times(1_100, 1_010_000)), None);
        // With those of the window before.
        let told = recent.end_window(times(1_400, 1_040_000));
        assert_eq!(told.map(|told| told.mean_us), Some(100.0));
    }

    #[test]
    fn a_slow_window_takes_a_tenth_more_than_any_before() {
        let mut server = Server::default();
        assert_eq!(server.slow_us([200, 240, 220]), [220.0, 264.0, 264.0]);
        assert!((server.window(220).mean_us - 220.0).abs() < 1e-9);
        // Until it is too long ago.
        assert_eq!(server.slow_us([220; 6]), [264.0, 264.0, 264.0, 264.0, 264.0, 242.0]);
    }

    #[test]
    fn a_stall_is_no_slow_device_and_four_are() {
        let mut server = Server::default();
        server.slow_us([200; 8]);
        assert_eq!(server.slow_us([2_000, 200, 200]), [220.0; 3]);
        server.slow_us([200; 8]);
        assert_eq!(server.slow_us([2_000; 4]), [220.0, 220.0, 220.0, 2_200.0]);
        server.slow_us([2_000; 8]);
        // Nor is it slower because it has become faster.
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
    fn what_nobody_waits_for_takes_as_long_as_it_ever_did() {
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
        // In eight windows nobody has waited.
        let idle: Vec<_> = (0..8).map(|_| mean_us(&mut recent, slow, nothing)).collect();
        assert_eq!(idle, [[Some(125.0); 7].as_slice(), &[Some(101.5)]].concat());
    }

    #[test]
    fn waits_say_it_and_reads_where_nobody_waits_alone() {
        let nothing = TimeSum::default();
        let mut recent = FlashTimes::new(nothing, nothing);
        let told = recent.end_window(times(255, 25_500), times(1_000, 80_000));
        assert_eq!(told.map(|told| told.mean_us), Some(80.0));
        let told = recent.end_window(times(300, 30_000), times(2_000, 160_000));
        assert_eq!(told.map(|told| told.mean_us), Some(100.0));
    }
}
