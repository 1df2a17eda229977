//! How long a read of flash takes: lately, and not since the server began.
//!
//! What plans are made with is a mean of the windows in which there were enough reads, in which the last counts a quarter
//! and all before it the rest: so one stall does not turn a plan over, nor do the writes of a cache that is being filled,
//! and a device that has become slower is known after some windows. Where nobody has read for long nothing is known: else
//! flash that a plan has taken away, for it was slow, would be slow for ever.
//!
//! Pure.

/// So many reads of a window say how long they take.
const READS_MIN: u64 = 256;
/// How much the last window counts.
const LEARNT: f64 = 0.25;
/// After so many windows with fewer, all of them together, what was known is forgotten.
const WINDOWS_MAX: u32 = 8;

/// How often flash has been read for a request since the server began, and how long that took.
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
    mean_us: Option<f64>,
}

impl RecentReads {
    /// Of a server that has read so much by now.
    pub(super) fn new(now: FlashReads) -> Self {
        Self { before: now, ..Self::default() }
    }

    /// That a window has ended; how long a read takes, in microseconds, if that is known.
    pub(super) fn end_window(&mut self, now: FlashReads) -> Option<f64> {
        let reads = now.since(self.before);
        self.windows += 1;
        if reads.count >= READS_MIN {
            let mean_us = |lately_us: f64| {
                self.mean_us.map_or(lately_us, |it| it + LEARNT * (lately_us - it))
            };
            self.mean_us = reads.mean_us().map(mean_us);
        } else if self.windows >= WINDOWS_MAX {
            self.mean_us = None;
        } else {
            return self.mean_us;
        }
        (self.before, self.windows) = (now, 0);
        self.mean_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(count: u64, sum_us: u64) -> FlashReads {
        FlashReads { count, sum_ns: sum_us * 1_000 }
    }

    #[test]
    fn reads_take_as_long_as_they_did_lately() {
        let mut recent = RecentReads::new(reads(1_000, 1_000_000));
        assert_eq!(recent.end_window(reads(1_100, 1_010_000)), None, "too few");
        // With those of the window before.
        assert_eq!(recent.end_window(reads(1_400, 1_040_000)), Some(100.0));
        // Slower, and in one window no more than a quarter of that is believed.
        assert_eq!(recent.end_window(reads(2_400, 2_040_000)), Some(325.0));
        assert_eq!(recent.end_window(reads(3_400, 3_040_000)), Some(493.75));
        // As it was again.
        let last =
            (0..24).map(|n| recent.end_window(reads(4_400 + n * 1_000, 3_140_000 + n * 100_000)));
        assert!(last.last().flatten().is_some_and(|us| (100.0..101.0).contains(&us)));
    }

    #[test]
    fn what_nobody_has_read_for_long_is_not_known_any_more() {
        let mut recent = RecentReads::new(FlashReads::default());
        let slow = reads(300, 3_000_000);
        assert_eq!(recent.end_window(slow), Some(10_000.0));
        for _ in 1..WINDOWS_MAX {
            assert_eq!(recent.end_window(slow), Some(10_000.0));
        }
        assert_eq!(recent.end_window(slow), None);
        assert_eq!(recent.end_window(reads(600, 3_030_000)), Some(100.0));
    }
}
