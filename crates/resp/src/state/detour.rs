//! Whether writes may be done on the event loop: not for a while after one of
//! them was slow.
//!
//! A write on the event loop hands bytes to the operating system, which takes
//! them into memory. When it is short of memory, or its journal is busy, it lets
//! the writer wait for the disk all the same, and nothing says so beforehand. So
//! the event loop takes the time: after a slow write all writes make a detour
//! over the I/O threads, where waiting holds up nobody else. Each time that the
//! first write after a detour is slow again, the next detour is twice as long:
//! a disk that stays slow holds an event loop up ever less often.
//!
//! Pure: time is handed in. May be used from any thread; two that are slow at
//! once count as one or two, which does not matter.

use std::sync::atomic::{AtomicU64, Ordering};

/// A write that took longer was held up by the disk. By itself it takes a
/// hundredth of a millisecond; but where processors are short, other programs
/// may hold it up for a few of them, and a detour would only make that worse.
const SLOW_NS: u64 = 20_000_000;
/// The first detour; a disk is seldom busy for shorter.
const SHORTEST_NS: u64 = 100_000_000;
/// The longest: after it one write tries the disk again.
const LONGEST_NS: u64 = 12_800_000_000;
/// When writes have been quick for so long after a detour, the next one is a
/// short one again.
const FORGIVEN_NS: u64 = 1_000_000_000;

/// The way that writes take at the moment.
#[derive(Debug, Default)]
pub(crate) struct Detour {
    /// Until when; 0: there was none yet.
    until_ns: AtomicU64,
    length_ns: AtomicU64,
}

impl Detour {
    /// Whether writes go over the I/O threads now. The clock is looked at only
    /// if there ever was a detour.
    pub(crate) fn is_on(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        until_ns > 0 && now_ns() < until_ns
    }

    /// A write on the event loop has begun and ended.
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
    fn a_slow_write_sends_others_round_for_a_while() {
        let detour = Detour::default();
        detour.note(0, 9 * MS);
        assert!(!detour.is_on(|| 0) && !detour.is_on(|| 9 * MS));
        detour.note(10 * MS, 30 * MS);
        assert!(detour.is_on(|| 30 * MS) && detour.is_on(|| 129 * MS));
        assert!(!detour.is_on(|| 130 * MS));
    }

    #[test]
    fn a_disk_that_stays_slow_is_tried_ever_less_often() {
        let detour = Detour::default();
        let (mut now, mut slow) = (0, 0);
        while now < 60_000 * MS {
            if !detour.is_on(|| now) {
                detour.note(now, now + 50 * MS);
                slow += 1;
            }
            now += MS;
        }
        assert_eq!(slow, 11, "0.1, 0.2, … 12.8, 12.8, 12.8 seconds apart");
        // Once it has been quick for a while, a hiccup counts little again.
        let later = now + 20_000 * MS;
        detour.note(later, later + 25 * MS);
        assert!(detour.is_on(|| later + 124 * MS) && !detour.is_on(|| later + 126 * MS));
    }
}
