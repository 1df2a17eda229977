//! A continuous profile of a running server: a sample of fixed size, and a curve for each window of
//! time.
//!
//! The state from before a window is kept: its curve is that of caches that were warm when it
//! began.
//!
//! A [`Sampler`] alone does not suffice. It keeps all keys ever seen, so that it has fewer and
//! fewer of a moving working set; and its rate never rises. So
//!
//! * objects that no cache of [`WindowedProfiler::new`]'s size would have are dropped from the sample; and
//! * a sample that has become small is restarted at a higher rate, and the first window after that,
//!   in which it warms up, has no curve.
//!
//! Not every request needs to be reported: the caller checks [`WindowedProfiler::threshold`] first, and passes
//! the total number of requests in the end. That number is ignored while all keys are in the
//! sample: requests seen are counted here, and a count elsewhere includes some that are still in
//! flight.
//!
//! Pure; one thread's.

use crate::curves::access::Access;
use crate::curves::curve::Curve;
use crate::curves::profiler::Settings;
use crate::curves::shards::{Sampler, sample_hash};

/// A sample with fewer than one in this many of its objects is restarted, at a rate that makes it
/// half full.
const SMALL_DIVISOR: usize = 8;

/// The counts of a window, in addition to the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Requests that can be hits or misses, of all keys; ignored while all keys are in the sample.
    pub requests: u64,
    /// Of these, requests that were not observed: access events lost on their way here, each
    /// weighted by the requests that it represented.
    pub lost: u64,
}

/// A profile of a server's requests.
#[derive(Debug)]
pub struct WindowedProfiler {
    sampler: Sampler,
    settings: Settings,
    objects_max: usize,
    size_max: u64,
    /// Whether the sample was restarted in this window, though the server was not.
    is_learning: bool,
    /// Whether the sample was cleared in this window: its size does not predict how large it will
    /// be.
    was_cleared: bool,
}

impl WindowedProfiler {
    /// A profile of at most `objects_max` objects, for caches of up to `size_max`.
    pub fn new(objects_max: usize, size_max: u64, settings: Settings) -> Self {
        let sampler = Sampler::of_size(objects_max, settings);
        Self { sampler, settings, objects_max, size_max, is_learning: false, was_cleared: false }
    }

    /// Report requests for keys with a [`sample_hash`] below this. It changes.
    pub fn threshold(&self) -> u64 {
        self.sampler.threshold()
    }

    /// The sampling rate.
    pub fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// The number of objects in the sample.
    pub fn objects(&self) -> usize {
        self.sampler.objects()
    }

    /// The mean size of an object, if there is one.
    pub fn mean_bytes(&mut self) -> Option<f64> {
        self.sampler.order().mean_bytes()
    }

    /// Sets the largest cache size.
    pub fn set_size_max(&mut self, size_max: u64) {
        self.size_max = size_max;
    }

    /// Whether the sample has an object at that time; if not, the distance of its next request is
    /// unknown.
    pub fn has(&mut self, key: u64, at_ms: u64) -> bool {
        let order = self.sampler.order();
        order.advance(at_ms);
        order.has(key)
    }

    /// Drops all objects, as caches of all sizes do: their next requests miss.
    pub fn clear(&mut self) {
        self.sampler.clear();
        self.was_cleared = true;
    }

    /// Records a request, if its key is in the sample.
    pub fn record(&mut self, access: &Access) {
        if sample_hash(access.key) >= self.threshold() {
            return;
        }
        self.sampler.record(access);
        self.sampler.truncate(self.size_max);
    }

    /// The miss-ratio curve of the current window; `None` while the sample warms up.
    pub fn curve(&self, window: Window) -> Option<Curve> {
        if self.is_learning {
            return None;
        }
        let are_all_seen = self.rate() >= 1.0;
        let seen = self.sampler.sampled_requests() as u64;
        let requests = if are_all_seen { seen + window.lost } else { window.requests };
        (requests > 0).then(|| self.sampler.curve_of(requests, window.lost))
    }

    /// Ends the window, and begins another; returns its curve.
    pub fn end_window(&mut self, window: Window) -> Option<Curve> {
        let curve = self.curve(window);
        self.is_learning = false;
        self.sampler.reset_counts();
        let was_cleared = std::mem::take(&mut self.was_cleared);
        let is_small = !was_cleared && self.objects() < self.objects_max / SMALL_DIVISOR;
        if is_small && self.rate() < 1.0 && window.requests > 0 {
            let step = self.objects_max as f64 / 2.0 / self.objects().max(1) as f64;
            let rate = (self.rate() * step).min(1.0);
            self.sampler = Sampler::of_size_from(rate, self.objects_max, self.settings);
            self.is_learning = true;
        }
        curve
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.sampler.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
