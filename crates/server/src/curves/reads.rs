//! How long flash takes: lately, and not since the server began.
//!
//! What is told is a mean of the windows in which there was enough, in which the last counts a quarter and all before it the
//! rest: so one stall does not turn a plan over, nor do the writes of a cache that is being filled, and a device that has
//! become slower is known after some windows. Where nobody has read for long nothing is known: else flash that a plan has
//! taken away, for it was slow, would be slow for ever.
//!
//! **A slow window.** Windows differ, and who has promised a latency has promised it in each of them. So beside the mean it is
//! told how long flash takes in a window in which it is slow: the mean and [`DEVIATIONS`] mean deviations of windows from
//! it, as TCP works out when to send again (Jacobson, "Congestion Avoidance and Control", 1988; RFC 6298).
//!
//! Pure.

/// So many reads of a window say how long they take.
const READS_MIN: u64 = 256;
/// How much the last window counts, in the mean and in the mean deviation.
const LEARNT: f64 = 0.25;
/// One window does not say how much others differ from it; that is taken for so much of it.
const FIRST_DEVIATION: f64 = 0.25;
/// Slow is by so many mean deviations.
const DEVIATIONS: f64 = 2.0;
/// After so many windows with fewer, all of them together, what was known is forgotten.
const WINDOWS_MAX: u32 = 8;

/// How long flash takes, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FlashTime {
    /// On average.
    pub(crate) mean_us: f64,
    /// In a window in which it is slow.
    pub(crate) slow_us: f64,
}

impl FlashTime {
    /// Where only a mean is known.
    pub(crate) fn always(us: f64) -> Self {
        Self { mean_us: us, slow_us: us }
    }
}

/// How often flash has been read or waited for since the server began, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FlashReads {
    pub(crate) count: u64,
    /// Of all of them, in nanoseconds.
    pub(crate) sum_ns: u64,
}

impl FlashReads {
    /// The mean, in microseconds; none where nobody has read.
    pub(crate) fn mean_us(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e3)
    }

    fn since(self, before: Self) -> Self {
        let count = self.count.saturating_sub(before.count);
        Self { count, sum_ns: self.sum_ns.saturating_sub(before.sum_ns) }
    }
}

/// The reads of the last windows.
#[derive(Debug, Default)]
pub(super) struct RecentReads {
    /// As it was when the windows began that have not been looked at.
    before: FlashReads,
    /// How many these are.
    windows: u32,
    /// The mean of windows, and how far they are from it on average, in microseconds.
    known: Option<(f64, f64)>,
}

impl RecentReads {
    /// Of a server that has read so much by now.
    pub(super) fn new(now: FlashReads) -> Self {
        Self { before: now, ..Self::default() }
    }

    /// That a window has ended; how long a read takes, if that is known.
    pub(super) fn end_window(&mut self, now: FlashReads) -> Option<FlashTime> {
        let reads = now.since(self.before);
        self.windows += 1;
        let is_enough = reads.count >= READS_MIN;
        if is_enough && let Some(lately_us) = reads.mean_us() {
            self.known = Some(match self.known {
                None => (lately_us, FIRST_DEVIATION * lately_us),
                Some((mean_us, deviation_us)) => {
                    let off_us = lately_us - mean_us;
                    let more_us = off_us.abs() - deviation_us;
                    (mean_us + LEARNT * off_us, deviation_us + LEARNT * more_us)
                }
            });
        } else if self.windows >= WINDOWS_MAX {
            self.known = None;
        }
        if is_enough || self.windows >= WINDOWS_MAX {
            (self.before, self.windows) = (now, 0);
        }
        let told = |(mean_us, deviation_us): (f64, f64)| FlashTime {
            mean_us,
            slow_us: mean_us + DEVIATIONS * deviation_us,
        };
        self.known.map(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(count: u64, sum_us: u64) -> FlashReads {
        FlashReads { count, sum_ns: sum_us * 1_000 }
    }

    fn mean_us(recent: &mut RecentReads, now: FlashReads) -> Option<f64> {
        recent.end_window(now).map(|told| told.mean_us)
    }

    #[test]
    fn reads_take_as_long_as_they_did_lately() {
        let mut recent = RecentReads::new(reads(1_000, 1_000_000));
        assert_eq!(mean_us(&mut recent, reads(1_100, 1_010_000)), None, "too few");
        // With those of the window before.
        assert_eq!(mean_us(&mut recent, reads(1_400, 1_040_000)), Some(100.0));
        // Slower, and in one window no more than a quarter of that is believed.
        assert_eq!(mean_us(&mut recent, reads(2_400, 2_040_000)), Some(325.0));
        assert_eq!(mean_us(&mut recent, reads(3_400, 3_040_000)), Some(493.75));
        // As it was again.
        let last = (0..24)
            .map(|n| mean_us(&mut recent, reads(4_400 + n * 1_000, 3_140_000 + n * 100_000)));
        assert!(last.last().flatten().is_some_and(|us| (100.0..101.0).contains(&us)));
    }

    #[test]
    fn slow_windows_take_as_much_longer_as_windows_differ() {
        let mut recent = RecentReads::new(FlashReads::default());
        let mut all = FlashReads::default();
        let mut window = |us: u64| {
            all = FlashReads { count: all.count + 1_000, sum_ns: all.sum_ns + us * 1_000_000 };
            recent.end_window(all).map_or(0.0, |told| told.slow_us)
        };
        // Of one window nobody knows how others will be: a half more.
        assert_eq!([window(200), window(200), window(200)], [300.0, 275.0, 256.25]);
        // As far as 400 is from 200 counts a quarter, beside what was known.
        assert_eq!(window(400), 250.0 + 2.0 * (0.75 * 28.125 + 50.0));
        let steady = (0..40).map(|_| window(300)).last();
        assert!(steady.is_some_and(|us| (299.0..303.0).contains(&us)), "{steady:?}");
        // Every second window takes 400, and the others 200: it is as if all were slow ones.
        let by_turns = (0..40).map(|n| window([400, 200][n % 2])).last();
        assert!(by_turns.is_some_and(|us| us > 400.0), "{by_turns:?}");
    }

    #[test]
    fn what_nobody_has_read_for_long_is_not_known_any_more() {
        let mut recent = RecentReads::new(FlashReads::default());
        let slow = reads(300, 3_000_000);
        assert_eq!(mean_us(&mut recent, slow), Some(10_000.0));
        for _ in 1..WINDOWS_MAX {
            assert_eq!(mean_us(&mut recent, slow), Some(10_000.0));
        }
        assert_eq!(mean_us(&mut recent, slow), None);
        assert_eq!(recent.end_window(reads(600, 3_030_000)).map(|it| it.slow_us), Some(150.0));
    }
}
