//! Caches with other eviction policies than LRU: each size is simulated with a smaller cache
//! ("miniature simulations", Waldspurger, Saemundsson, Ahmad, Park, USENIX ATC 2017).
//!
//! 1. A key is sampled if its hash is below a threshold, as in [`crate::curves::shards`]: with all
//!    of its requests.
//! 2. For each size there is a cache that is scaled down by the sampling rate, and it is the
//!    product's own code: the caller provides it ([`Simulated`]).
//! 3. Its misses are divided by the expected number of sampled requests, not by the actual one:
//!    very popular keys are in the sample or not, and hardly ever missed (`SHARDS-adj`, as there).
//!
//! What we changed: a cache may have flash behind its memory, scaled down alike, and the misses of
//! memory are counted as well. And a curve never rises, so where a larger cache has missed more, as
//! is possible with other policies than LRU, the least ratio so far is returned.
//!
//! Pure; one thread's.

use crate::curves::curve::{Curve, Point};
use crate::curves::shards;

/// The size of a cache, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheSize {
    /// Memory.
    pub memory_bytes: u64,
    /// Flash behind it.
    pub flash_bytes: u64,
}

impl CacheSize {
    /// A cache of memory alone.
    pub fn of_memory(memory_bytes: u64) -> Self {
        Self { memory_bytes, flash_bytes: 0 }
    }

    /// Memory and flash together.
    pub fn bytes(self) -> u64 {
        self.memory_bytes.saturating_add(self.flash_bytes)
    }

    /// Scaled by `part`.
    fn times(self, part: f64) -> Self {
        let of = |bytes: u64| (bytes as f64 * part).round() as u64;
        Self { memory_bytes: of(self.memory_bytes), flash_bytes: of(self.flash_bytes) }
    }
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupResult {
    /// A hit in memory.
    Memory,
    /// A hit on flash.
    Flash,
    /// It had not.
    Miss,
}

/// The estimated miss ratios of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MissRatios {
    /// The size of the cache.
    pub size: CacheSize,
    /// Misses of memory per request.
    pub memory_miss_ratio: f64,
    /// Misses of memory and flash per request.
    pub miss_ratio: f64,
}

/// A cache to simulate.
pub trait Simulated {
    /// Its type of request.
    type Request: ?Sized;

    /// Handles a request as its server would, including the client that stores missed objects.
    /// `None` if the request cannot be a hit or a miss.
    fn record(&mut self, request: &Self::Request) -> Option<LookupResult>;
}

/// A cache and its counts.
#[derive(Debug)]
struct Tried<C> {
    size: CacheSize,
    cache: C,
    memory_misses: u64,
    misses: u64,
}

/// Small caches that simulate larger ones.
#[derive(Debug)]
pub struct Miniature<C> {
    /// Keys with a hash below this are sampled.
    threshold: u64,
    /// By rising size.
    tried: Vec<Tried<C>>,
    /// Of all keys.
    requests: u64,
}

impl<C: Simulated> Miniature<C> {
    /// Samples keys at `rate`, 0 to 1, for caches of these sizes; `make` creates a cache of its
    /// first argument, which is its second scaled down.
    pub fn new<E>(
        rate: f64,
        sizes: &[CacheSize],
        mut make: impl FnMut(CacheSize, CacheSize) -> Result<C, E>,
    ) -> Result<Self, E> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let threshold = shards::threshold_of(rate);
        let rate = shards::rate_of(threshold);
        let mut tried = Vec::with_capacity(sizes.len());
        for size in sizes {
            let cache = make(size.times(rate), size)?;
            tried.push(Tried { size, cache, memory_misses: 0, misses: 0 });
        }
        Ok(Self { threshold, tried, requests: 0 })
    }

    /// The sampling rate.
    pub fn rate(&self) -> f64 {
        shards::rate_of(self.threshold)
    }

    /// Records a request for the key with that hash. `is_request` is whether it can be a hit or a
    /// miss, as not every key is sampled.
    pub fn record(&mut self, hash: u64, is_request: bool, request: &C::Request) {
        self.requests += u64::from(is_request);
        if shards::sample_hash(hash) < self.threshold {
            for tried in &mut self.tried {
                let result = tried.cache.record(request);
                tried.memory_misses +=
                    u64::from(result.is_some_and(|it| it != LookupResult::Memory));
                tried.misses += u64::from(result == Some(LookupResult::Miss));
            }
        }
    }

    /// The estimated miss ratios of each cache so far, by rising size.
    pub fn miss_ratios(&self) -> impl Iterator<Item = MissRatios> {
        let expected = (self.requests as f64 * self.rate()).max(1.0);
        let part = move |misses: u64| (misses as f64 / expected).min(1.0);
        self.tried.iter().map(move |tried| MissRatios {
            size: tried.size,
            memory_miss_ratio: part(tried.memory_misses),
            miss_ratio: part(tried.misses),
        })
    }

    /// The miss-ratio curve by memory and flash together; of two caches of the same total size, the
    /// lower ratio.
    pub fn curve(&self) -> Curve {
        let mut miss_ratios: Vec<MissRatios> = self.miss_ratios().collect();
        miss_ratios.sort_by_key(|miss_ratios| miss_ratios.size.bytes());
        let mut least = 1.0_f64;
        let mut points: Vec<Point> = Vec::with_capacity(miss_ratios.len());
        for MissRatios { size, miss_ratio, .. } in miss_ratios {
            least = least.min(miss_ratio);
            points.pop_if(|last| last.size == size.bytes());
            points.push(Point { size: size.bytes(), miss_ratio: least });
        }
        match Curve::new(points, self.requests as f64) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }
}

#[cfg(test)]
mod tests;
