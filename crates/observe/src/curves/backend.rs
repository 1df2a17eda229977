//! How long it takes from a miss until the object is stored, on average.
//!
//! Each time of the window that runs counts as one; those before count as so many of their mean as are missing to
//! [`ENOUGH`], and less with each window that measures something. So a few misses in a stall make no slow database, many
//! speak for themselves, and a database that has become slow is known after some windows. One in which nothing was missed
//! forgets nothing, unlike in [`super::flash`]: a cache that has all it needs misses nothing for hours, and if its
//! database were then taken for faster than it is, a plan would take away what keeps clients from it.
//!
//! Nothing is told by a handful of misses: a lock that is taken is no database.
//!
//! Pure.

/// So many times are a mean that needs no help from earlier ones.
const ENOUGH: f64 = 256.0;
/// Of what was known before, so much counts in the next window that measures something.
const FADED: f64 = 0.75;
/// Before so many have been measured, nothing is known.
const KNOWN_MIN: u64 = 32;
/// No client answers so soon, in microseconds: the request that missed has stored something itself.
const SOONEST_US: u64 = 5;
/// So long nobody waits for an answer, in microseconds.
pub(super) const LONGEST_US: u64 = 10_000_000;

/// What the misses of a tenant have taken.
#[derive(Debug, Default)]
pub(super) struct BackendTimes {
    /// In the window that runs: how many, and their sum in microseconds.
    count: u64,
    sum_us: u64,
    /// The mean before, in microseconds, and how many times it stands for.
    before: (f64, f64),
    /// How many have ever been measured before.
    measured: u64,
}

impl BackendTimes {
    /// That an object was stored so long after it had been missed. Whether that was the answer.
    pub(super) fn took(&mut self, us: u64) -> bool {
        if (SOONEST_US..=LONGEST_US).contains(&us) {
            (self.count, self.sum_us) = (self.count + 1, self.sum_us + us);
        }
        us >= SOONEST_US
    }

    /// How many were measured in the window that runs.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The mean as far as it is known, in microseconds; none where too little has ever been measured.
    pub(super) fn mean_us(&self) -> Option<f64> {
        (self.measured + self.count >= KNOWN_MIN).then(|| self.together().0)
    }

    pub(super) fn end_window(&mut self) {
        let measured = self.measured + self.count;
        *self = Self { before: self.together(), measured, ..Self::default() };
    }

    /// The mean of the window's times with what was before, in microseconds, and how many it stands for.
    fn together(&self) -> (f64, f64) {
        let (before_us, of_before) = self.before;
        if self.count == 0 {
            return self.before;
        }
        let count = self.count as f64;
        let of_before = (of_before * FADED).min((ENOUGH - count).max(0.0));
        let all = count + of_before;
        ((self.sum_us as f64 + before_us * of_before) / all, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(times: &mut BackendTimes, count: u64, us: u64) -> Option<f64> {
        (0..count).for_each(|_| _ = times.took(us));
        let told = times.mean_us();
        times.end_window();
        assert_eq!(times.mean_us(), told, "what was known of a window is known after it");
        told
    }

    #[test]
    fn what_was_measured_is_known_until_something_else_is() {
        let mut times = BackendTimes::default();
        assert_eq!(window(&mut times, 0, 0), None);
        assert_eq!(window(&mut times, 256, 10_000), Some(10_000.0));
        for _ in 0..100 {
            assert_eq!(window(&mut times, 0, 0), Some(10_000.0), "nothing was missed");
        }
        // A stall in which a few were missed is no slow database: 192 of before count, and 8.
        assert_eq!(window(&mut times, 8, 110_000), Some(14_000.0));
        // Nor is what nobody waits for.
        assert_eq!(window(&mut times, 256, LONGEST_US + 1), Some(14_000.0));
        // Many speak for themselves.
        assert_eq!(window(&mut times, 300, 2_000), Some(2_000.0));
        // Of a database that has become slow few misses tell by and by.
        let last = (0..25).map(|_| window(&mut times, 2, 50_000)).last().flatten();
        assert!(last.is_some_and(|us| us > 45_000.0), "{last:?}");
    }

    #[test]
    fn a_handful_says_nothing() {
        let mut times = BackendTimes::default();
        assert_eq!(window(&mut times, 16, 500), None);
        assert_eq!(window(&mut times, 15, 500), None);
        assert_eq!(window(&mut times, 1, 500), Some(500.0));
    }

    #[test]
    fn what_a_request_stores_that_missed_is_no_answer() {
        let mut times = BackendTimes::default();
        assert!(!times.took(SOONEST_US - 1) && times.took(SOONEST_US) && times.took(u64::MAX));
        assert_eq!(times.count(), 1);
    }
}
