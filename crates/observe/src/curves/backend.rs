//! The mean time from a miss to the store of the object: the latency of the backend.
//!
//! Each time of the current window counts once; earlier times count as copies of their mean, as
//! many as are missing to [`ENOUGH`], and fewer with each window that measures something. So a few
//! misses during a stall do not make the database slow, many do, and a database that has become
//! slow is recognised after some windows. A window without misses forgets nothing, unlike in
//! [`super::flash`]: a cache that holds its whole working set misses nothing for hours, and if its
//! database were then assumed to be faster than it is, a plan would take away the memory that keeps
//! clients from it.
//!
//! A handful of misses gives no result: they may be locks rather than reads of a database.
//!
//! Pure.

/// This many times give a mean without earlier ones.
const ENOUGH: f64 = 256.0;
/// The weight of earlier times in the next window that measures something.
const FADED: f64 = 0.75;
/// Fewer measured times give no result.
const KNOWN_MIN: u64 = 32;
/// No client stores this soon after a miss, in microseconds: the request that missed has stored the
/// object itself.
const SOONEST_US: u64 = 5;
/// No client waits this long for an answer, in microseconds.
pub(super) const LONGEST_US: u64 = 10_000_000;

/// The times of a tenant's misses.
#[derive(Debug, Default)]
pub(super) struct BackendTimes {
    /// Number and sum in microseconds of the current window.
    count: u64,
    sum_us: u64,
    /// Mean of earlier windows in microseconds, and its weight as a number of times.
    before: (f64, f64),
    /// Number measured in all earlier windows.
    measured: u64,
}

impl BackendTimes {
    /// Records that an object was stored `us` microseconds after its miss. Returns whether that
    /// counts as an answer of the backend.
    pub(super) fn took(&mut self, us: u64) -> bool {
        if (SOONEST_US..=LONGEST_US).contains(&us) {
            (self.count, self.sum_us) = (self.count + 1, self.sum_us + us);
        }
        us >= SOONEST_US
    }

    /// Number measured in the current window.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The mean in microseconds; none if too few times have been measured.
    pub(super) fn mean_us(&self) -> Option<f64> {
        (self.measured + self.count >= KNOWN_MIN).then(|| self.together().0)
    }

    pub(super) fn end_window(&mut self) {
        let measured = self.measured + self.count;
        *self = Self { before: self.together(), measured, ..Self::default() };
    }

    /// The mean of the window's times and the earlier ones in microseconds, and its weight.
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
    fn a_mean_holds_until_other_times_are_measured() {
        let mut times = BackendTimes::default();
        assert_eq!(window(&mut times, 0, 0), None);
        assert_eq!(window(&mut times, 256, 10_000), Some(10_000.0));
        for _ in 0..100 {
            assert_eq!(window(&mut times, 0, 0), Some(10_000.0), "nothing was missed");
        }
        // A stall with few misses does not make the database slow: 192 earlier times count, and 8
        // new ones.
        assert_eq!(window(&mut times, 8, 110_000), Some(14_000.0));
        // Nor do times that no client waits for.
        assert_eq!(window(&mut times, 256, LONGEST_US + 1), Some(14_000.0));
        // Many new times replace the earlier mean.
        assert_eq!(window(&mut times, 300, 2_000), Some(2_000.0));
        // Few misses show gradually that a database has become slow.
        let last = (0..25).map(|_| window(&mut times, 2, 50_000)).last().flatten();
        assert!(last.is_some_and(|us| us > 45_000.0), "{last:?}");
    }

    #[test]
    fn a_handful_gives_no_mean() {
        let mut times = BackendTimes::default();
        assert_eq!(window(&mut times, 16, 500), None);
        assert_eq!(window(&mut times, 15, 500), None);
        assert_eq!(window(&mut times, 1, 500), Some(500.0));
    }

    #[test]
    fn a_store_by_the_request_that_missed_does_not_count() {
        let mut times = BackendTimes::default();
        assert!(!times.took(SOONEST_US - 1) && times.took(SOONEST_US) && times.took(u64::MAX));
        assert_eq!(times.count(), 1);
    }
}
