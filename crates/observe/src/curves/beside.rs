//! Scaled-down caches beside that of a tenant ([`ScaledCaches`]): they get the recorded accesses,
//! and the cache's counters say what it really misses.
//!
//! Accesses in gaps between bursts are not simulated: a cache continues with the next burst.

use tidekv_plan::{Answered, Curve, Measured, ScaledCaches, Window};

/// A tenant's cache as its counters describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// Lookups so far, and those without a result.
    pub lookups: u64,
    /// Of these, misses.
    pub misses: u64,
}

/// The caches beside a tenant's, if its cache can be modelled.
#[derive(Debug, Default)]
pub(super) struct Beside {
    caches: Option<ScaledCaches>,
    /// The counters at the start of the window, and the latest.
    before: CacheCounts,
    now: CacheCounts,
    /// The time of the last access.
    at_ms: u64,
}

impl Beside {
    pub(super) fn new(caches: Option<ScaledCaches>, counts: CacheCounts) -> Self {
        Self { caches, before: counts, now: counts, at_ms: 0 }
    }

    pub(super) fn record(&mut self, key: u64, answered: Answered, at_ms: u64) {
        if let Some(caches) = &mut self.caches {
            self.at_ms = self.at_ms.max(at_ms);
            caches.record(key, answered, at_ms);
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(caches) = &mut self.caches {
            caches.clear();
        }
    }

    /// Follows a sample with keys below `threshold`.
    pub(super) fn follow_sample(&mut self, threshold: u64) {
        if let Some(caches) = &mut self.caches {
            caches.follow(threshold, self.now.size_bytes);
        }
    }

    /// Follows the cache.
    pub(super) fn follow_cache(&mut self, counts: CacheCounts, threshold: u64) {
        self.now = counts;
        self.follow_sample(threshold);
    }

    pub(super) fn correct(&mut self, curve: Curve, window: Window) -> Curve {
        let Some(caches) = &mut self.caches else { return curve };
        let since = |of: fn(&CacheCounts) -> u64| of(&self.now).saturating_sub(of(&self.before));
        let requests = since(|counts| counts.lookups);
        let misses = since(|counts| counts.misses);
        caches.correct(&curve, window, Some(Measured { requests, misses }))
    }

    pub(super) fn end_window(&mut self) {
        self.before = self.now;
        if let Some(caches) = &mut self.caches {
            caches.end_window(self.at_ms);
        }
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.caches.as_ref().map_or(0, ScaledCaches::memory_bytes)
    }
}
