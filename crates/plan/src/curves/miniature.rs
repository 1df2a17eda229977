//! Caches that evict by other rules than the least recent use: each size is tried, in small
//! ("miniature simulations", Waldspurger, Saemundsson, Ahmad, Park, USENIX ATC 2017).
//!
//! 1. A key is looked at if a hash of it is below a threshold, as in [`crate::curves::shards`]: of such a key
//!    all requests are.
//! 2. For each size there is a cache of so much less as there are fewer keys, and it is the
//!    product's own code: whoever profiles hands it in ([`Simulated`]).
//! 3. Its misses are counted, and held against the requests that the sample should have had, not those
//!    that it has: keys of very many requests are there or not, and hardly ever missed
//!    (`SHARDS-adj`, as there).
//!
//! What we changed: a cache may have flash behind its memory, as much smaller as that, and what memory has
//! missed is counted as well. And a curve falls, so where a larger cache has missed more, as one may that is not
//! the least recent use's, the least so far is told.
//!
//! Pure; one thread's.

use crate::curves::curve::{Curve, Point};
use crate::curves::shards;

/// How much a cache has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheSize {
    /// In memory.
    pub memory_bytes: u64,
    /// On flash behind it.
    pub flash_bytes: u64,
}

impl CacheSize {
    /// Memory alone.
    pub fn of_memory(memory_bytes: u64) -> Self {
        Self { memory_bytes, flash_bytes: 0 }
    }

    /// Both together.
    pub fn bytes(self) -> u64 {
        self.memory_bytes.saturating_add(self.flash_bytes)
    }

    /// So much smaller.
    fn times(self, part: f64) -> Self {
        let of = |bytes: u64| (bytes as f64 * part).round() as u64;
        Self { memory_bytes: of(self.memory_bytes), flash_bytes: of(self.flash_bytes) }
    }
}

/// What a cache says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It had it in memory.
    Memory,
    /// It had it on flash.
    Flash,
    /// It had not.
    Miss,
}

/// What a cache is thought to miss, as parts of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Missed {
    /// Of which cache.
    pub size: CacheSize,
    /// What its memory does not have.
    pub memory_miss_ratio: f64,
    /// What it has not.
    pub miss_ratio: f64,
}

/// A cache that requests are tried on.
pub trait Simulated {
    /// What it is asked.
    type Request: ?Sized;

    /// Does as a server of it would, and its client, who stores what was missed. None where the request
    /// is nothing that can be a hit or a miss.
    fn see(&mut self, request: &Self::Request) -> Option<Answer>;
}

/// A cache, and how it did.
#[derive(Debug)]
struct Tried<C> {
    size: CacheSize,
    cache: C,
    memory_misses: u64,
    misses: u64,
}

/// Small caches that stand for larger ones.
#[derive(Debug)]
pub struct Miniature<C> {
    /// Keys whose hash is below are looked at.
    threshold: u64,
    /// The smallest first.
    tried: Vec<Tried<C>>,
    /// Of all keys.
    requests: u64,
}

impl<C: Simulated> Miniature<C> {
    /// Of so many keys of each, 0 to 1, for caches of these sizes; `make` makes one of the first size that it
    /// is given, which is as much smaller than the second.
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

    /// How many keys of each are looked at.
    pub fn rate(&self) -> f64 {
        shards::rate_of(self.threshold)
    }

    /// Takes a request in, for the key with that hash. Whether it can be a hit or a miss is said by
    /// `is_request`, as not every key is looked at.
    pub fn see(&mut self, hash: u64, is_request: bool, request: &C::Request) {
        self.requests += u64::from(is_request);
        if shards::sample_hash(hash) < self.threshold {
            for tried in &mut self.tried {
                let answer = tried.cache.see(request);
                tried.memory_misses += u64::from(answer.is_some_and(|it| it != Answer::Memory));
                tried.misses += u64::from(answer == Some(Answer::Miss));
            }
        }
    }

    /// What each cache is thought to miss of the requests so far; the smallest first.
    pub fn missed(&self) -> impl Iterator<Item = Missed> {
        let expected = (self.requests as f64 * self.rate()).max(1.0);
        let part = move |misses: u64| (misses as f64 / expected).min(1.0);
        self.tried.iter().map(move |tried| Missed {
            size: tried.size,
            memory_miss_ratio: part(tried.memory_misses),
            miss_ratio: part(tried.misses),
        })
    }

    /// What caches are thought to miss, by memory and flash together; of two that have as much, the least.
    pub fn curve(&self) -> Curve {
        let mut missed: Vec<Missed> = self.missed().collect();
        missed.sort_by_key(|missed| missed.size.bytes());
        let mut least = 1.0_f64;
        let mut points: Vec<Point> = Vec::with_capacity(missed.len());
        for Missed { size, miss_ratio, .. } in missed {
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
