//! Caches that evict by other rules than the least recent use: each size is tried, in small
//! ("miniature simulations", Waldspurger, Saemundsson, Ahmad, Park, USENIX ATC 2017).
//!
//! 1. A key is looked at if a hash of it is below a threshold, as in [`crate::shards`]: of such a key
//!    all requests are.
//! 2. For each size there is a cache of so much less as there are fewer keys, and it is the
//!    product's own code: whoever profiles hands it in ([`Simulated`]).
//! 3. Its misses are counted, and held against the requests that the sample should have had, not those
//!    that it has: keys of very many requests are there or not, and hardly ever missed
//!    (`SHARDS-adj`, as there).
//!
//! What we changed: a curve falls, so where a larger cache has missed more, as one may that is not
//! the least recent use's, the least so far is told.
//!
//! Pure; one thread's.

use crate::curve::{Curve, Point};
use crate::shards;

/// A cache that requests are tried on.
pub trait Simulated {
    /// What it is asked.
    type Request: ?Sized;

    /// Does as a server of it would, and its client, who stores what was missed. Whether a request was
    /// a hit; none where it is nothing that can be a hit or a miss.
    fn see(&mut self, request: &Self::Request) -> Option<bool>;
}

/// A cache, and how it did.
#[derive(Debug)]
struct Tried<C> {
    size: u64,
    cache: C,
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
    /// Of so many keys of each, 0 to 1, for caches of these sizes; `make` makes one of the size that it
    /// is given, which is as much smaller.
    pub fn new<E>(
        rate: f64,
        sizes: &[u64],
        mut make: impl FnMut(u64) -> Result<C, E>,
    ) -> Result<Self, E> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let threshold = shards::threshold_of(rate);
        let rate = shards::rate_of(threshold);
        let mut tried = Vec::with_capacity(sizes.len());
        for size in sizes {
            let cache = make((size as f64 * rate).round() as u64)?;
            tried.push(Tried { size, cache, misses: 0 });
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
                tried.misses += u64::from(tried.cache.see(request) == Some(false));
            }
        }
    }

    /// What caches of each size are thought to miss of the requests so far.
    pub fn curve(&self) -> Curve {
        let expected = (self.requests as f64 * self.rate()).max(1.0);
        let mut least = 1.0_f64;
        let points = self.tried.iter().map(|tried| {
            least = least.min(tried.misses as f64 / expected);
            Point { size: tried.size, miss_ratio: least }
        });
        match Curve::new(points, self.requests as f64) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;
    use crate::access::{Access, Action};
    use crate::profiler::{Profiler, Settings, Unit};

    /// First in, first out: what a profile of distances does not know.
    struct Fifo {
        room: usize,
        queue: VecDeque<u64>,
    }

    impl Simulated for Fifo {
        type Request = u64;

        fn see(&mut self, key: &u64) -> Option<bool> {
            if self.queue.contains(key) {
                return Some(true);
            }
            if self.queue.len() >= self.room {
                self.queue.pop_front();
            }
            self.queue.push_back(*key);
            Some(false)
        }
    }

    fn fifo(room: u64) -> Result<Fifo, Infallible> {
        Ok(Fifo { room: room as usize, queue: VecDeque::new() })
    }

    /// Keys of which the first are asked for most.
    fn keys() -> impl Iterator<Item = u64> {
        (0..200_000_u64).map(|number| {
            let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number >> 3);
            let unit = (random.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f64 / 16_777_216.0;
            ((unit * unit * 2_000.0) as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
        })
    }

    #[test]
    fn small_caches_stand_for_large_ones() {
        let sizes = [50, 200, 500, 1_000];
        let [mut all, mut some] =
            [1.0, 0.25].map(|rate| Miniature::new(rate, &sizes, fifo).expect("nothing fails"));
        let unit = Settings { unit: Unit::Objects, ..Settings::default() };
        let mut profiler = Profiler::new(unit);
        for key in keys() {
            all.see(key, true, &key);
            some.see(key, true, &key);
            profiler.see(&Access::new(key, Action::Load(1)));
        }
        assert!((some.rate() - 0.25).abs() < 1e-6 && all.rate() == 1.0);
        let [exact, told, by_distances] = [all.curve(), some.curve(), profiler.curve()];
        for size in sizes {
            let [exact, told, by_distances] =
                [&exact, &told, &by_distances].map(|curve| curve.miss_ratio(size));
            assert!((told / exact - 1.0).abs() < 0.06, "{size}: {told}, {exact}");
            // Here the least recent use is the better order.
            assert!(exact > by_distances, "{size}: {exact}, {by_distances}");
        }
    }

    #[test]
    fn a_curve_falls_whatever_caches_do() {
        struct Late(u64);
        impl Simulated for Late {
            type Request = ();
            fn see(&mut self, (): &()) -> Option<bool> {
                Some(self.0 == 7)
            }
        }
        let make = |size| Ok::<_, Infallible>(Late(size));
        let mut miniature = Miniature::new(1.0, &[9, 7, 9], make).expect("nothing fails");
        miniature.see(1, true, &());
        let curve = miniature.curve();
        assert_eq!([6, 7, 9].map(|size| curve.miss_ratio(size)), [1.0, 0.0, 0.0]);
        // A store that refuses is told to whoever asked.
        assert_eq!(Miniature::<Late>::new(1.0, &[1], |_| Err("full")).map(drop), Err("full"));
    }
}
