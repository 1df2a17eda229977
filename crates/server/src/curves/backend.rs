//! How long what is behind a cache takes: from a miss until the object is stored, on average.
//!
//! It is a mean of the last [`ENOUGH`] that were measured, or of all in a window that measured more. So a window in which
//! hardly anything was missed is not taken at the word of its few misses, and after one in which nothing was, it is still
//! known: a plan that took a database for faster than it is would take away what keeps clients from it.
//!
//! Pure.

/// So many measured times say how long it takes.
const ENOUGH: f64 = 256.0;

/// The times that were measured of a tenant's misses.
#[derive(Debug, Default)]
pub(super) struct Backend {
    /// In the window that runs: how many, and their sum in microseconds.
    count: u64,
    sum_us: u64,
    /// The mean before, in microseconds, and how many it stands for: at most [`ENOUGH`].
    before: (f64, f64),
}

impl Backend {
    pub(super) fn took(&mut self, us: u64) {
        (self.count, self.sum_us) = (self.count + 1, self.sum_us + us);
    }

    /// How many were measured in the window that runs.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The mean as far as it is known, in microseconds; none where nothing has ever been measured.
    pub(super) fn mean_us(&self) -> Option<f64> {
        let (mean_us, of_before) = self.with_before();
        let all = self.count as f64 + of_before;
        (all > 0.0).then_some(mean_us)
    }

    pub(super) fn end_window(&mut self) {
        let (mean_us, of_before) = self.with_before();
        let all = (self.count as f64 + of_before).min(ENOUGH);
        *self = Self { before: (mean_us, all), ..Self::default() };
    }

    /// The mean of what was measured in the window and before, and how many count of the latter.
    fn with_before(&self) -> (f64, f64) {
        let (before_us, of_before) = self.before;
        let count = self.count as f64;
        let of_before = of_before.min((ENOUGH - count).max(0.0));
        let sum_us = self.sum_us as f64 + before_us * of_before;
        (sum_us / (count + of_before).max(1.0), of_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(backend: &mut Backend, count: u64, us: u64) -> Option<f64> {
        (0..count).for_each(|_| backend.took(us));
        let told = backend.mean_us();
        backend.end_window();
        assert_eq!(backend.mean_us(), told, "what was known of a window is known after it");
        told
    }

    #[test]
    fn what_was_measured_is_known_until_something_else_is() {
        let mut backend = Backend::default();
        assert_eq!(window(&mut backend, 0, 0), None);
        assert_eq!(window(&mut backend, 1_000, 10_000), Some(10_000.0));
        assert_eq!(window(&mut backend, 0, 0), Some(10_000.0), "nothing was missed");
        // A stall in which a few were missed is no slow database.
        assert_eq!(window(&mut backend, 4, 1_000_000), Some(25_468.75));
        // Many speak for themselves.
        assert_eq!(window(&mut backend, 300, 2_000), Some(2_000.0));
    }

    #[test]
    fn few_count_for_as_many_as_they_are() {
        let mut backend = Backend::default();
        assert_eq!(window(&mut backend, 2, 500), Some(500.0));
        assert_eq!(window(&mut backend, 6, 1_500), Some(1_250.0));
        // There is room for 64 of those before, and there were 8.
        assert_eq!(window(&mut backend, 192, 1_000), Some(1_010.0));
    }
}
