//! Decides when a tenant is profiled, so that the cost of profiling is negligible.
//!
//! ```text
//!          ┌── a burst of accesses came, or the queue is full, ──► closed ───┐
//!          │   and they were more than [`RATE`] a second                      │
//!        open ◄── they were not: the next burst begins                        │
//!          ▲                                                                  │
//!          └──── they are that many again, since the burst began ─────────────┘
//! ```
//!
//! A tenant with few accesses is always profiled. Sampling fewer keys, as in SHARDS, does not help
//! with many: most accesses go to a small hot set, a part of which says little. So bursts leave out
//! time instead. A burst after a gap continues the sequence of the previous one, as if there had
//! been no gap. If requests are independent, the observed distances have the same distribution as
//! all. If not, the distances that span a gap are wrong, which are few: a burst has as many
//! accesses as a sample has objects, or several times as many. A burst is complete unless a full
//! queue ends it.
//!
//! Not guaranteed: tenants that each have a little less than their share are all profiled all the
//! time. And a burst ends when the thread runs, by when the queue may be full: in windows of a
//! second, or with more than sixty busy tenants in windows of ten, a window may contain no burst.
//!
//! Pure.

use std::time::Duration;

/// Mean accesses per second of all busy tenants together. One takes 0.2 to 0.4 µs, and with
/// scaled-down caches 0.5 to 0.9 µs, so this is about a hundredth of a processor.
const RATE: u64 = 1 << 14;
/// Accesses of a burst.
const BURST: u64 = 1 << 16;
/// A window has at least this many bursts, if they end in time.
const BURSTS_MIN: f64 = 8.0;

/// A decision about a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// End the burst.
    Close,
    /// Start or continue a burst.
    Open,
}

/// The bursts of a tenant.
#[derive(Debug)]
pub(super) struct Bursts {
    is_closed: bool,
    /// Start of the last burst, and the number of accesses since.
    began_ns: u64,
    accesses: u64,
    /// Accesses of this window, and whether those of the last one exceeded the tenant's share.
    of_window: u64,
    had_much: bool,
    /// Whether this window and the previous one had gaps.
    has_gaps: bool,
    had_gaps: bool,
}

/// The share of each of `busy` busy tenants, in accesses per second.
pub(super) fn part_of(busy: usize) -> u64 {
    (RATE / busy.max(1) as u64).max(1)
}

impl Bursts {
    /// The bursts of a tenant that is profiled since `began_ns`.
    pub(super) fn new(began_ns: u64) -> Self {
        Self {
            is_closed: false,
            began_ns,
            accesses: 0,
            of_window: 0,
            had_much: false,
            has_gaps: false,
            had_gaps: false,
        }
    }

    /// Adds accesses.
    pub(super) fn record(&mut self, accesses: u64) {
        self.accesses += accesses;
        self.of_window += accesses;
    }

    /// Records a gap.
    pub(super) fn has_gap(&mut self) {
        self.has_gaps = true;
    }

    /// Pauses profiling.
    pub(super) fn pause(&mut self) {
        (self.is_closed, self.has_gaps) = (true, true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether this window has gaps.
    pub(super) fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// Whether this window or the previous one has gaps.
    pub(super) fn has_had_gaps(&self) -> bool {
        self.has_gaps || self.had_gaps
    }

    /// Whether the tenant exceeded its share in the last window.
    pub(super) fn is_busy(&self) -> bool {
        self.has_had_gaps() || self.had_much
    }

    /// Ends a window of `seconds`, for one of `tenants` tenants.
    pub(super) fn end_window(&mut self, seconds: f64, tenants: usize) {
        self.had_much = self.of_window as f64 > part_of(tenants) as f64 * seconds;
        self.of_window = 0;
        self.had_gaps = self.has_gaps;
        self.has_gaps = self.is_closed;
    }

    /// The decision at this moment, if there is one.
    ///
    /// * `part`: the tenant's share of accesses per second ([`part_of`]);
    /// * `is_full`: whether its full queue has ended the burst;
    /// * `window`: the length of windows.
    pub(super) fn turn(
        &mut self,
        now_ns: u64,
        part: u64,
        is_full: bool,
        window: Duration,
    ) -> Option<Turn> {
        let due_ns = self.began_ns + (self.accesses as f64 * 1e9 / part as f64) as u64;
        if !self.is_closed {
            self.has_gaps |= is_full;
            let burst = ((part as f64 * window.as_secs_f64() / BURSTS_MIN) as u64).min(BURST);
            if !is_full && self.accesses < burst {
                return None;
            }
            if now_ns < due_ns {
                (self.is_closed, self.has_gaps) = (true, true);
                return Some(Turn::Close);
            }
        } else if now_ns < due_ns {
            return None;
        }
        (self.is_closed, self.began_ns, self.accesses) = (false, now_ns, 0);
        Some(Turn::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);

    /// The number of accesses profiled in a minute of `rate` accesses per second, and the number of
    /// bursts.
    fn seen(rate: u64, busy: usize) -> (u64, u64) {
        let (mut bursts, mut is_open, mut seen, mut count) = (Bursts::new(0), true, 0, 0);
        for ms in 1..=60_000 {
            if is_open {
                bursts.record(rate / 1_000);
                seen += rate / 1_000;
            }
            match bursts.turn(ms * SECOND / 1_000, part_of(busy), false, MINUTE) {
                Some(Turn::Close) => (is_open, count) = (false, count + 1),
                Some(Turn::Open) => is_open = true,
                None => {}
            }
        }
        (seen, count)
    }

    #[test]
    fn few_accesses_are_all_profiled() {
        for rate in [1_000, RATE / 2, RATE * 9 / 10] {
            assert_eq!(seen(rate, 1), (rate / 1_000 * 60_000, 0));
        }
    }

    #[test]
    fn many_accesses_are_profiled_up_to_the_rate_in_whole_bursts() {
        for rate in [RATE * 2, RATE * 20] {
            for busy in [1, 3, 50] {
                let (seen, count) = seen(rate, busy);
                let most = RATE * 60 / busy as u64;
                // The last burst may be compensated later.
                assert!(
                    seen >= most * 4 / 5 && seen <= most + BURST + rate / 1_000,
                    "{seen} {most}"
                );
                assert!(count >= BURSTS_MIN as u64 - 1, "{count}");
            }
        }
    }

    #[test]
    fn a_full_queue_ends_a_burst() {
        let mut bursts = Bursts::new(0);
        bursts.record(RATE / 8);
        assert_eq!(bursts.turn(1_000, RATE, true, MINUTE), Some(Turn::Close));
        assert!(bursts.is_busy() && bursts.is_closed());
        // The accesses in the queue must be compensated as well: a quarter of a second in all.
        bursts.record(RATE / 8);
        assert_eq!(bursts.turn(SECOND / 5, RATE, true, MINUTE), None);
        assert_eq!(bursts.turn(SECOND / 4, RATE, true, MINUTE), Some(Turn::Open));
        (0..2).for_each(|_| bursts.end_window(60.0, 1));
        assert!(!bursts.is_busy());
        // Full only because the queue was not drained for long: no reason to end the burst, but
        // there is a gap.
        bursts.record(10);
        assert_eq!(bursts.turn(SECOND, RATE, true, MINUTE), Some(Turn::Open));
        assert!(bursts.has_gaps() && !bursts.is_closed());
    }

    #[test]
    fn a_tenant_over_its_share_is_busy() {
        let mut bursts = Bursts::new(0);
        bursts.record(RATE / 2 * 60 + 1);
        bursts.end_window(60.0, 1);
        assert!(!bursts.is_busy());
        bursts.record(RATE / 2 * 60 + 1);
        bursts.end_window(60.0, 2);
        assert!(bursts.is_busy() && !bursts.has_had_gaps());
    }
}
