//! The curve of a cache that evicts by another order than LRU, while it runs: the curve of LRU
//! distances, corrected at a few sizes by scaled-down caches with the real order ("Cache Modeling
//! and Optimization using Miniature Simulations", Waldspurger, Saemundsson, Ahmad, Park, USENIX ATC
//! 2017), and at its own size by what it really misses.
//!
//! ```text
//!  requests of sampled keys ──► caches of 1/4, 1/2, 1 and 2 times the size ──► simulated ratios
//!                                                                                   │ moved so that
//!  the real misses ─────────────────────────────────────────────────────────────────┤ they meet at 1
//!                                                                                   ▼
//!  the curve of LRU distances ──► scaled to meet the ratios ([`corrected`]) ──► the curve
//! ```
//!
//! 1. The caches get the requests for keys of the same sample as the LRU curve, or for up to a
//!    third fewer: with each step of its threshold all of them would be scaled anew. They get fewer
//!    where they would have too many objects together.
//! 2. What a request means depends on the real cache. A hit there that a smaller cache misses loads
//!    the object, as its client would. A miss there that a larger cache hits is a hit, and the
//!    store that follows has no effect there, for its client would not have sent it.
//! 3. Their misses are divided by the expected number of sampled requests (`SHARDS-adj`, as in
//!    [`crate::curves::shards`]).
//! 4. Between sizes the curve has the shape of LRU's; where that one is level it is straight.
//!    Below the smallest size hits, and above the largest misses, are in proportion to LRU's.
//!
//! The cache of the present size should miss what the real one does. It does not quite, because a
//! sample has a few more or fewer hot keys; the others have the same ones, so their ratios are
//! moved with its ratio ([`moved`]).
//!
//! Errors: with 4,000 objects of the sample in the cache of the present size, or with all of them
//! if they are fewer, ratios at half and twice the size were within 0.01 of those measured
//! (`elcached-live` of the lab). The sample of a server has that many, because it has 16,384 of
//! the objects of a cache of four times its size.
//!
//! A cache that has just grown misses more than one that always was that large. It does not count
//! until it is full, or two windows have passed. In a window in which the size changes the ratios of
//! the one before count.
//!
//! Pure; one thread's. The caches are the caller's ([`ScaledCache`]).

use std::fmt;

use crate::curves::curve::{Curve, Point};
use crate::curves::shards::{rate_of, sample_hash};
use crate::curves::watch::Window;

/// The sizes of the caches, by the present size.
const PARTS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
/// The part of the present size.
const PRESENT: usize = 2;
/// The threshold of the caches falls to this part of itself at a time.
const THRESHOLD_STEP: f64 = 2.0 / 3.0;
/// The caches begin anew if the sample has become larger by this factor.
const RESTART_FACTOR: u64 = 2;
/// Missed keys that may be remembered until their objects are stored.
const MISSED_LEN: usize = 1 << 10;
/// Stores between two counts of the objects.
const STORES_PER_COUNT: u64 = 1 << 8;
/// Windows after which a cache that has grown counts, full or not.
const WINDOWS_TO_FILL: u32 = 2;
/// Points that are added where the LRU curve is level and the caches' is not, between two of them.
const STEPS: u64 = 8;

/// A cache of another size than the real one, with its order of eviction, scaled down by a sampling
/// rate.
pub trait ScaledCache: fmt::Debug + Send {
    /// Whether a lookup at `at_ms` hits; the access counts.
    fn get(&mut self, key: u64, at_ms: u64) -> bool;
    /// Whether it has an object, without an access.
    fn contains(&mut self, key: u64) -> bool;
    /// Stores an object of `bytes`, which expires after `ttl_ms`, if at all.
    fn store(&mut self, key: u64, bytes: u64, ttl_ms: Option<u64>, at_ms: u64);
    /// Removes an object.
    fn remove(&mut self, key: u64);
    /// Removes all objects.
    fn clear(&mut self);
    /// Removes the objects that have expired at `at_ms`.
    fn sweep(&mut self, at_ms: u64);
    /// Scales it for a cache of `size` bytes and keys sampled at `rate`, 0 to 1; drops the objects
    /// for which `is_sampled` is false.
    fn set_scale(&mut self, size: u64, rate: f64, is_sampled: &dyn Fn(u64) -> bool);
    /// The number of its objects.
    fn objects(&self) -> usize;
    /// Whether it has no room for more objects.
    fn is_full(&self) -> bool;
    /// Memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// An access to a sampled key, as the real cache answered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// A lookup that hit: bytes of the object, and its remaining time to live in milliseconds.
    Hit(u64, Option<u64>),
    /// The same for an object that nothing was known of: it is learnt, and counts neither as a hit
    /// nor as a miss.
    UnknownHit(u64, Option<u64>),
    /// A lookup that missed.
    Miss,
    /// A store: bytes of the object, and its time to live in milliseconds.
    Store(u64, Option<u64>),
    /// A removal.
    Remove,
}

/// The misses of the real cache in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Its lookups.
    pub requests: u64,
    /// Of these, misses.
    pub misses: u64,
}

/// A cache and its misses.
#[derive(Debug)]
struct Tried {
    size: u64,
    cache: Box<dyn ScaledCache>,
    /// Each divided by the sampling rate at its time.
    misses: f64,
    /// Ends of windows until it counts; 0 if it counts.
    fills_for: u32,
}

/// Scaled-down caches of several sizes beside a real one.
#[derive(Debug)]
pub struct ScaledCaches {
    /// By rising size, as [`PARTS`].
    tried: Vec<Tried>,
    /// The most objects of all of them together, and the stores until they are counted.
    objects_max: usize,
    until_count: u64,
    /// The present size of the real cache in bytes, and whether it was another one in this window.
    size: u64,
    has_changed: bool,
    /// Keys with a [`sample_hash`] below this are in the sample, and below the other simulated.
    sample: u64,
    threshold: u64,
    /// Counted requests of the sample, and those that the real cache missed.
    requests: u64,
    real_misses: u64,
    /// Keys that were missed and not yet stored, each in the place that its hash says.
    missed: Box<[u64]>,
    /// The ratios of the last window in which the size did not change.
    ratios: Vec<Point>,
}

/// The sizes of the caches beside one of `size` bytes.
fn sizes_of(size: u64) -> [u64; PARTS.len()] {
    PARTS.map(|part| (size as f64 * part) as u64)
}

/// The next threshold, of at least one hash.
fn step_below(threshold: u64) -> u64 {
    ((threshold as f64 * THRESHOLD_STEP) as u64).max(1)
}

/// The place of a missed key.
fn place_of(key: u64) -> usize {
    // The upper half: keys of a sample have small hashes.
    (key >> 32) as usize % MISSED_LEN
}

impl ScaledCaches {
    /// Caches beside one of `size` bytes, for keys with a [`sample_hash`] below `threshold`; `make`
    /// creates one of a size in bytes, for a sampling rate. All together have about `objects_max`
    /// objects at most: where there are more, fewer keys are simulated. `None` if `make` cannot.
    pub fn new(
        size: u64,
        threshold: u64,
        objects_max: usize,
        mut make: impl FnMut(u64, f64) -> Option<Box<dyn ScaledCache>>,
    ) -> Option<Self> {
        let mut tried = Vec::with_capacity(PARTS.len());
        for size in sizes_of(size) {
            let cache = make(size, rate_of(threshold))?;
            tried.push(Tried { size, cache, misses: 0.0, fills_for: 0 });
        }
        let missed = vec![0; MISSED_LEN].into();
        let (requests, real_misses) = (0, 0);
        Some(Self {
            tried,
            objects_max,
            until_count: STORES_PER_COUNT,
            size,
            has_changed: false,
            sample: threshold,
            threshold,
            requests,
            real_misses,
            missed,
            ratios: Vec::new(),
        })
    }

    /// Records an access at `at_ms`, if its key is simulated.
    pub fn record(&mut self, key: u64, answered: Answered, at_ms: u64) {
        if sample_hash(key) >= self.threshold {
            return;
        }
        match answered {
            Answered::Hit(bytes, ttl_ms) => {
                self.requests += 1;
                let each = 1.0 / rate_of(self.threshold);
                for tried in &mut self.tried {
                    if !tried.cache.get(key, at_ms) {
                        tried.misses += each;
                        tried.cache.store(key, bytes, ttl_ms, at_ms);
                    }
                }
            }
            Answered::UnknownHit(bytes, ttl_ms) => {
                for Tried { cache, .. } in &mut self.tried {
                    if !cache.get(key, at_ms) {
                        cache.store(key, bytes, ttl_ms, at_ms);
                    }
                }
            }
            Answered::Miss => {
                (self.requests, self.real_misses) = (self.requests + 1, self.real_misses + 1);
                let each = 1.0 / rate_of(self.threshold);
                for tried in &mut self.tried {
                    if !tried.cache.get(key, at_ms) {
                        tried.misses += each;
                    }
                }
                self.missed[place_of(key)] = key;
            }
            Answered::Store(bytes, ttl_ms) => {
                let missed = &mut self.missed[place_of(key)];
                let is_fill = *missed == key;
                if is_fill {
                    *missed = 0;
                }
                for tried in &mut self.tried {
                    if !(is_fill && tried.cache.contains(key)) {
                        tried.cache.store(key, bytes, ttl_ms, at_ms);
                    }
                }
                self.until_count -= 1;
                if self.until_count == 0 {
                    self.until_count = STORES_PER_COUNT;
                    self.bound();
                }
            }
            Answered::Remove => self.tried.iter_mut().for_each(|tried| tried.cache.remove(key)),
        }
    }

    /// Drops all objects, as the real cache has done.
    pub fn clear(&mut self) {
        self.tried.iter_mut().for_each(|tried| tried.cache.clear());
    }

    /// Simulates fewer keys while there are too many objects.
    fn bound(&mut self) {
        let objects = |tried: &Tried| tried.cache.objects();
        while self.threshold > 1 && self.tried.iter().map(objects).sum::<usize>() > self.objects_max
        {
            self.threshold = step_below(self.threshold);
            self.scale();
        }
    }

    /// Follows the sample, which has keys below `threshold`, and the size of the real cache.
    pub fn follow(&mut self, threshold: u64, size: u64) {
        if threshold / RESTART_FACTOR >= self.sample {
            // The sample has begun anew.
            self.threshold = threshold;
            self.clear();
            self.scale();
        }
        self.sample = threshold;
        if threshold < self.threshold {
            while threshold < self.threshold {
                self.threshold = step_below(self.threshold);
            }
            self.scale();
        }
        if size != self.size {
            for (tried, to) in self.tried.iter_mut().zip(sizes_of(size)) {
                if to > tried.size {
                    tried.fills_for = WINDOWS_TO_FILL + 1;
                }
                tried.size = to;
            }
            (self.size, self.has_changed) = (size, true);
            self.scale();
        }
    }

    fn scale(&mut self) {
        let threshold = self.threshold;
        let is_sampled = |key: u64| sample_hash(key) < threshold;
        for tried in &mut self.tried {
            tried.cache.set_scale(tried.size, rate_of(threshold), &is_sampled);
        }
    }

    /// The curve of LRU distances, corrected; in a window in which the size has changed by the
    /// ratios of the window before.
    ///
    /// * `window`: the requests of the curve, and those that were not observed.
    /// * `measured`: the real misses; if every request was observed they are known anyway.
    pub fn correct(&mut self, curve: &Curve, window: Window, measured: Option<Measured>) -> Curve {
        let are_all_simulated = rate_of(self.threshold) >= 1.0;
        let expected = match are_all_simulated {
            true => self.requests,
            false => window.requests.saturating_sub(window.lost),
        };
        if expected == 0 || self.has_changed {
            return corrected(curve, &self.ratios);
        }
        let ratio = |misses: f64| (misses / expected as f64).clamp(0.0, 1.0);
        let real = match are_all_simulated && window.lost == 0 {
            true => Some(ratio(self.real_misses as f64)),
            false => measured
                .filter(|it| it.requests > 0)
                .map(|it| (it.misses as f64 / it.requests as f64).clamp(0.0, 1.0)),
        };
        let present = &self.tried[PRESENT];
        let told = ratio(present.misses);
        let is_valid = present.fills_for == 0;
        let mut least = 1.0_f64;
        let mut points = Vec::with_capacity(PARTS.len());
        for tried in self.tried.iter().filter(|tried| tried.fills_for == 0 && tried.size > 0) {
            let miss_ratio = ratio(tried.misses);
            let miss_ratio = match real.filter(|_| is_valid) {
                Some(real) => moved(miss_ratio, told, real),
                None => miss_ratio,
            };
            least = least.min(miss_ratio);
            points.push(Point { size: tried.size, miss_ratio: least });
        }
        self.ratios = points;
        corrected(curve, &self.ratios)
    }

    /// Ends a window: resets all counts, and removes objects that had expired at `at_ms`.
    pub fn end_window(&mut self, at_ms: u64) {
        (self.requests, self.real_misses, self.has_changed) = (0, 0, false);
        for tried in &mut self.tried {
            tried.misses = 0.0;
            tried.fills_for = tried.fills_for.saturating_sub(1);
            if tried.cache.is_full() {
                tried.fills_for = 0;
            }
            tried.cache.sweep(at_ms);
        }
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let caches: usize = self.tried.iter().map(|tried| tried.cache.memory_bytes()).sum();
        caches + size_of_val(&*self.missed)
    }
}

/// A ratio moved by a line through 1 and `from`, or through `from` and 0, that puts `to` in the place
/// of `from`: hits above and misses below it change in proportion.
fn moved(ratio: f64, from: f64, to: f64) -> f64 {
    let moved = match ratio >= from {
        true if from >= 1.0 => to,
        true => 1.0 - (1.0 - ratio) * (1.0 - to) / (1.0 - from),
        false => ratio * to / from,
    };
    moved.clamp(0.0, 1.0)
}

/// The ratio of a line from one pair of ratios to another; the second one if the line has no length.
fn on_line(ratio: f64, from: (f64, f64), to: (f64, f64)) -> f64 {
    let length = from.0 - to.0;
    let part = if length > 0.0 { (from.0 - ratio) / length } else { 1.0 };
    from.1 + (to.1 - from.1) * part.clamp(0.0, 1.0)
}

/// `curve` with the ratios of `points` at their sizes, which rise, as their ratios fall.
pub(crate) fn corrected(curve: &Curve, points: &[Point]) -> Curve {
    let Some(last) = points.last() else { return curve.clone() };
    let at = |size: u64| curve.miss_ratio(size);
    // The ratio of `curve` and the corrected one, at the beginning of each range of sizes.
    let mut from = (0, (at(0), at(0)));
    let mut new: Vec<Point> = vec![Point { size: 0, miss_ratio: at(0) }];
    for point in points {
        let to = (at(point.size), point.miss_ratio);
        let between = |it: &&Point| it.size > from.0 && it.size < point.size;
        if from.1.0 > to.0 {
            for step in curve.points().iter().filter(between) {
                let miss_ratio = on_line(step.miss_ratio, from.1, to);
                new.push(Point { size: step.size, miss_ratio });
            }
        } else {
            for step in 1..STEPS {
                let size = from.0 + (point.size - from.0) / STEPS * step;
                let miss_ratio = from.1.1 + (to.1 - from.1.1) * step as f64 / STEPS as f64;
                new.push(Point { size, miss_ratio });
            }
        }
        new.push(*point);
        from = (point.size, to);
    }
    // Misses beyond, in proportion.
    let (of_lru, of_last) = from.1;
    for step in curve.points().iter().filter(|step| step.size > last.size) {
        let part = if of_lru > 0.0 { step.miss_ratio / of_lru } else { 1.0 };
        new.push(Point { size: step.size, miss_ratio: of_last * part });
    }
    let mut least = 1.0_f64;
    for point in &mut new {
        least = least.min(point.miss_ratio.clamp(0.0, 1.0));
        point.miss_ratio = least;
    }
    new.dedup_by_key(|point| point.size);
    match Curve::new(new, curve.requests()) {
        Ok(curve) => curve,
        Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
    }
}

#[cfg(test)]
mod tests;
