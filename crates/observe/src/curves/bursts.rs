//! When a tenant is looked at, and when not, so that looking is not felt.
//!
//! ```text
//!          ┌── a burst of sightings came, or the queue is full, ──► closed ──┐
//!          │   and they were more than [`RATE`] a second                      │
//!        open ◄── they were not: the next burst begins                        │
//!          ▲                                                                  │
//!          └──── they are that many again, since the burst began ─────────────┘
//! ```
//!
//! Who has few sightings is always looked at. Fewer keys, as SHARDS would have it, do not help against many:
//! a small hot set, of which a part says little, has the most. So time is what is left out. What
//! a burst sees after a gap goes on from what the one before saw, as if there had been no gap. Where requests are
//! independent of each other the distances that are seen are as frequent as all. Where they are not, those
//! that reach over a gap are wrong, which are few: a burst has as many sightings as a sample has objects, or some
//! times as many. Of a burst nothing is left out, but for what a full queue ends.
//!
//! Not guaranteed: tenants who each have a little less than their part are all looked at all the time. And a
//! burst ends when somebody looks, by when the queue may be full: in windows of a second, or with
//! more than sixty busy tenants in windows of ten, there may be one in which nobody looked.
//!
//! Pure.

use std::time::Duration;

/// Sightings a second, of all tenants who have too many, on average. One takes half a microsecond, so that
/// this is a hundredth of a processor.
const RATE: u64 = 1 << 14;
/// Sightings of a burst.
const BURST: u64 = 1 << 16;
/// A window has so many bursts at least, where they end in time.
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
    is_closed: bool,
    /// When the last burst began, and how many sightings there have been since.
    began_ns: u64,
    sightings: u64,
    /// Sightings of this window, and whether those of the last one were more than his part.
    of_window: u64,
    had_much: bool,
    /// Whether there were gaps in this window, and in the one before.
    has_gaps: bool,
    had_gaps: bool,
}

/// The part of one of so many busy tenants, in sightings a second.
pub(super) fn part_of(busy: usize) -> u64 {
    (RATE / busy.max(1) as u64).max(1)
}

impl Bursts {
    /// Those of one who is looked at since then.
    pub(super) fn new(began_ns: u64) -> Self {
        Self {
            is_closed: false,
            began_ns,
            sightings: 0,
            of_window: 0,
            had_much: false,
            has_gaps: false,
            had_gaps: false,
        }
    }

    /// That there were so many.
    pub(super) fn saw(&mut self, sightings: u64) {
        self.sightings += sightings;
        self.of_window += sightings;
    }

    /// That something was not seen.
    pub(super) fn has_gap(&mut self) {
        self.has_gaps = true;
    }

    /// That nobody looks for a while, whoever's turn it is.
    pub(super) fn pause(&mut self) {
        (self.is_closed, self.has_gaps) = (true, true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether there were gaps in this window.
    pub(super) fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// Whether there were gaps lately.
    pub(super) fn has_had_gaps(&self) -> bool {
        self.has_gaps || self.had_gaps
    }

    /// Whether he is one of those who have more than others.
    pub(super) fn is_busy(&self) -> bool {
        self.has_had_gaps() || self.had_much
    }

    /// That a window of so many seconds has ended, of one of so many tenants.
    pub(super) fn end_window(&mut self, seconds: f64, tenants: usize) {
        self.had_much = self.of_window as f64 > part_of(tenants) as f64 * seconds;
        self.of_window = 0;
        self.had_gaps = self.has_gaps;
        self.has_gaps = self.is_closed;
    }

    /// What is to be done now, if anything.
    ///
    /// * `part`: sightings a second that he may have ([`part_of`]);
    /// * `is_full`: whether he is not looked at any more because his queue was full;
    /// * `window`: how long windows are.
    pub(super) fn turn(
        &mut self,
        now_ns: u64,
        part: u64,
        is_full: bool,
        window: Duration,
    ) -> Option<Turn> {
        let due_ns = self.began_ns + (self.sightings as f64 * 1e9 / part as f64) as u64;
        if !self.is_closed {
            self.has_gaps |= is_full;
            let burst = ((part as f64 * window.as_secs_f64() / BURSTS_MIN) as u64).min(BURST);
            if !is_full && self.sightings < burst {
                return None;
            }
            if now_ns < due_ns {
                (self.is_closed, self.has_gaps) = (true, true);
                return Some(Turn::Close);
            }
        } else if now_ns < due_ns {
            return None;
        }
        (self.is_closed, self.began_ns, self.sightings) = (false, now_ns, 0);
        Some(Turn::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);

    /// How many of so many sightings a second are seen in a minute, and how many bursts there are.
    fn seen(rate: u64, busy: usize) -> (u64, u64) {
        let (mut bursts, mut is_open, mut seen, mut count) = (Bursts::new(0), true, 0, 0);
        for ms in 1..=60_000 {
            if is_open {
                bursts.saw(rate / 1_000);
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
                let most = RATE * 60 / busy as u64;
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
        assert_eq!(bursts.turn(1_000, RATE, true, MINUTE), Some(Turn::Close));
        assert!(bursts.is_busy() && bursts.is_closed());
        // What was in the queue is to be paid for as well: in all a quarter of a second's.
        bursts.saw(RATE / 8);
        assert_eq!(bursts.turn(SECOND / 5, RATE, true, MINUTE), None);
        assert_eq!(bursts.turn(SECOND / 4, RATE, true, MINUTE), Some(Turn::Open));
        (0..2).for_each(|_| bursts.end_window(60.0, 1));
        assert!(!bursts.is_busy());
        // Full only because nobody took anything out for long: that is no reason to close, but something
        // is missing.
        bursts.saw(10);
        assert_eq!(bursts.turn(SECOND, RATE, true, MINUTE), Some(Turn::Open));
        assert!(bursts.has_gaps() && !bursts.is_closed());
    }

    #[test]
    fn who_has_more_than_his_part_of_all_is_busy() {
        let mut bursts = Bursts::new(0);
        bursts.saw(RATE / 2 * 60 + 1);
        bursts.end_window(60.0, 1);
        assert!(!bursts.is_busy());
        bursts.saw(RATE / 2 * 60 + 1);
        bursts.end_window(60.0, 2);
        assert!(bursts.is_busy() && !bursts.has_had_gaps());
    }
}
