//! When a tenant is looked at, and when not: all profiles together take no more than a bounded part of
//! a processor, however much clients ask for.
//!
//! ```text
//!    open ── a burst of sightings came too soon, or the queue is full ──► closed
//!      ▲                                                                    │
//!      └──── when they are [`RATE`] a second again, since the burst began ──┘
//! ```
//!
//! Who has few sightings is always looked at. Fewer keys, as SHARDS would have it, do not help against many:
//! a small hot set, of which a part says little, has the most. So time is what is left out. What
//! a burst sees after a gap goes on from what the one before saw, as if there had been no gap. Where requests are
//! independent of each other the distances that are seen are as frequent as all. Where they are not, those
//! that reach over a gap are wrong, which are few: a burst has as many sightings as a sample has objects, or some
//! times as many. Guarantee: of a burst, nothing is left out.
//!
//! Pure.

use std::time::Duration;

/// Sightings a second, of all tenants who have too many, on average. One takes half a microsecond, so that
/// this is a hundredth of a processor.
const RATE: u64 = 1 << 14;
/// Sightings of a burst.
const BURST: u64 = 1 << 16;
/// A window has so many bursts at least.
const BURSTS_MIN: f64 = 8.0;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The tenant is looked at no more.
    Close,
    /// He is looked at, from now on or still.
    Open,
}

/// The bursts of a tenant.
#[derive(Debug)]
pub(super) struct Bursts {
    began_ns: u64,
    /// Since then.
    sightings: u64,
    closed_until_ns: Option<u64>,
    /// Whether there were gaps in this window, and in the one before.
    has_gaps: bool,
    had_gaps: bool,
}

impl Bursts {
    /// Those of one who is looked at since then.
    pub(super) fn new(began_ns: u64) -> Self {
        Self { began_ns, sightings: 0, closed_until_ns: None, has_gaps: false, had_gaps: false }
    }

    /// That there were so many.
    pub(super) fn saw(&mut self, sightings: u64) {
        self.sightings += sightings;
    }

    /// Whether he has too many sightings to be always looked at.
    pub(super) fn is_busy(&self) -> bool {
        self.has_gaps || self.had_gaps
    }

    /// Whether there were gaps in this window.
    pub(super) fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// That a window has ended.
    pub(super) fn end_window(&mut self) {
        self.had_gaps = self.has_gaps;
        self.has_gaps = self.closed_until_ns.is_some();
    }

    /// What is to be done now, if anything: where he is one of so many `busy` ones, his queue is full and
    /// he is looked at no more `is_full`, and windows are that long.
    pub(super) fn turn(
        &mut self,
        now_ns: u64,
        busy: u64,
        is_full: bool,
        window: Duration,
    ) -> Option<Turn> {
        if let Some(until_ns) = self.closed_until_ns {
            return (now_ns >= until_ns).then(|| self.begin(now_ns));
        }
        let rate = (RATE / busy.max(1)).max(1);
        let burst = ((rate as f64 * window.as_secs_f64() / BURSTS_MIN) as u64).min(BURST);
        if !is_full && self.sightings < burst {
            return None;
        }
        let due_ns = self.began_ns + (self.sightings as f64 * 1e9 / rate as f64) as u64;
        if due_ns <= now_ns {
            return Some(self.begin(now_ns));
        }
        (self.closed_until_ns, self.has_gaps) = (Some(due_ns), true);
        Some(Turn::Close)
    }

    fn begin(&mut self, now_ns: u64) -> Turn {
        (self.began_ns, self.sightings, self.closed_until_ns) = (now_ns, 0, None);
        Turn::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);

    /// How many of so many sightings a second are seen in a minute, and how many bursts there are.
    fn seen(rate: u64, busy: u64) -> (u64, u64) {
        let (mut bursts, mut is_open, mut seen, mut count) = (Bursts::new(0), true, 0, 0);
        for ms in 1..=60_000 {
            if is_open {
                bursts.saw(rate / 1_000);
                seen += rate / 1_000;
            }
            match bursts.turn(ms * SECOND / 1_000, busy, false, MINUTE) {
                Some(Turn::Close) => (is_open, count) = (false, count + 1),
                Some(Turn::Open) => is_open = true,
                None => {}
            }
        }
        (seen, count)
    }

    #[test]
    fn few_sightings_are_all_seen() {
        for rate in [1_000, RATE / 2, RATE * 9 / 10] {
            assert_eq!(seen(rate, 1), (rate / 1_000 * 60_000, 0));
        }
    }

    #[test]
    fn of_many_as_many_are_seen_as_may_be_in_whole_bursts() {
        for rate in [RATE * 2, RATE * 20] {
            for busy in [1, 3, 50] {
                let (seen, count) = seen(rate, busy);
                let most = RATE * 60 / busy;
                // The last burst may be paid for later.
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
        bursts.saw(RATE / 8);
        assert_eq!(bursts.turn(1_000, 1, true, MINUTE), Some(Turn::Close));
        assert!(bursts.is_busy());
        // An eighth of a second's were seen.
        assert_eq!(bursts.turn(SECOND / 9, 1, true, MINUTE), None);
        assert_eq!(bursts.turn(SECOND / 8, 1, true, MINUTE), Some(Turn::Open));
        // Full only because nobody took anything out for long: that is no reason to close.
        bursts.saw(10);
        assert_eq!(bursts.turn(SECOND, 1, true, MINUTE), Some(Turn::Open));
        bursts.end_window();
        assert!(bursts.is_busy());
        bursts.end_window();
        assert!(!bursts.is_busy());
    }
}
