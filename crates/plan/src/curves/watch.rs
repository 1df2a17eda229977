//! A profile for as long as a server runs: a sample of fixed size, and a curve for each window of time.
//!
//! What has been asked for before a window is known in it: its curve is that of caches that were warm
//! when it began.
//!
//! A [`Sampler`] alone would not do. It keeps all keys that there ever were, so that of a working set
//! that moves on its sample has fewer and fewer; and its rate never rises. So
//!
//! * what no cache of [`Watch::new`]'s size would have leaves the sample; and
//! * a sample that has become small begins anew with more of the keys, and the first window after
//!   that, in which it learns what there is, has no curve.
//!
//! Not every request need come here: who hands them in asks [`Watch::threshold`] first, and says in
//! the end how many there were. As long as all keys are in the sample that is not asked: what was seen has been
//! counted here, and who counts it elsewhere counts some that are still on their way.
//!
//! Pure; one thread's.

use crate::curves::access::Access;
use crate::curves::curve::Curve;
use crate::curves::profiler::Settings;
use crate::curves::shards::{Sampler, sample_hash};

/// A sample that has fewer of its objects begins anew, with as many keys as make it half full.
const SMALL_DIVISOR: usize = 8;

/// What was seen in a window, beside the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Requests that can be hits or misses, of all keys; of no matter while all keys are in the sample.
    pub requests: u64,
    /// Of these, those that nothing is known of: sightings that were lost on their way here, each as
    /// many requests as it stood for.
    pub lost: u64,
}

/// A profile of a server's requests.
#[derive(Debug)]
pub struct Watch {
    sampler: Sampler,
    settings: Settings,
    objects_max: usize,
    size_max: u64,
    /// Whether the sample has begun in this window, though the server has not.
    is_learning: bool,
    /// Whether all has been forgotten in this window: that there is little says nothing of how much there will be.
    was_cleared: bool,
}

impl Watch {
    /// One of at most so many objects, for caches of up to `size_max`.
    pub fn new(objects_max: usize, size_max: u64, settings: Settings) -> Self {
        let sampler = Sampler::of_size(objects_max, settings);
        Self { sampler, settings, objects_max, size_max, is_learning: false, was_cleared: false }
    }

    /// Requests for keys with a [`sample_hash`] below this are wanted. It changes.
    pub fn threshold(&self) -> u64 {
        self.sampler.threshold()
    }

    /// How many keys of each are looked at.
    pub fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// How many objects are in the sample.
    pub fn objects(&self) -> usize {
        self.sampler.objects()
    }

    /// The mean size of an object, where there is one.
    pub fn mean_bytes(&mut self) -> Option<f64> {
        self.sampler.order().mean_bytes()
    }

    /// For caches of up to that size from now on.
    pub fn set_size_max(&mut self, size_max: u64) {
        self.size_max = size_max;
    }

    /// Whether the sample has an object at that time; if not, nothing is known of how far its next
    /// request is.
    pub fn has(&mut self, key: u64, at_ms: u64) -> bool {
        let order = self.sampler.order();
        order.advance(at_ms);
        order.has(key)
    }

    /// Forgets all objects, as caches of all sizes do: what is asked for next they all miss.
    pub fn clear(&mut self) {
        self.sampler.clear();
        self.was_cleared = true;
    }

    /// Takes a request in, if its key is in the sample.
    pub fn see(&mut self, access: &Access) {
        if sample_hash(access.key) >= self.threshold() {
            return;
        }
        self.sampler.see(access);
        let most = (self.size_max as f64 * self.rate()).ceil() as u64;
        self.sampler.order().cut_off(most);
    }

    /// What caches have missed in the window that runs; nothing while the sample learns.
    pub fn curve(&self, window: Window) -> Option<Curve> {
        if self.is_learning {
            return None;
        }
        let are_all_seen = self.rate() >= 1.0;
        let seen = self.sampler.sampled_requests() as u64;
        let requests = if are_all_seen { seen + window.lost } else { window.requests };
        (requests > 0).then(|| self.sampler.curve_of(requests, window.lost))
    }

    /// Ends the window, and begins another: its curve.
    pub fn end_window(&mut self, window: Window) -> Option<Curve> {
        let curve = self.curve(window);
        self.is_learning = false;
        self.sampler.count_anew();
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
