//! Curves from how many requests lie between two of one object, which is cheaper to know than how
//! many objects: O(1) a request, no tree.
//!
//! * [`ReuseTimes::footprint`]: the mean number of objects in windows of each length, and from it
//!   the curve (Xiang et al., HOTL, ASPLOS 2013; ElCached has compared with it).
//! * [`ReuseTimes::average_eviction_time`]: how long objects stay in a cache of each size (Hu et al.,
//!   AET, USENIX ATC 2016).
//!
//! Both take every request for a load, sizes in objects, and hold where a trace goes on as it begins.
//! What is deleted or expires is not told of: exact is [`crate::Profiler`].
//!
//! Guarantees: a time between two requests is never told as less, and as more by less than one part
//! in 512, as [`crate::distances`] has it. Pure; one thread's.

use hashbrown::HashMap;

use crate::access::Access;
use crate::curve::{Curve, Point};

/// Points of a curve, at most.
const POINTS_MAX: usize = 4096;
/// Of two windows that are looked at one is longer by this part, beyond the short ones.
const GROWTH: f64 = 1.01;

/// The times between requests for an object, in requests.
#[derive(Debug, Default)]
pub struct ReuseTimes {
    /// Number of the last request for each object, from 1.
    last: HashMap<u64, u64>,
    /// Requests by the time since the one before.
    times: HashMap<u64, u64>,
    /// Numbers of first requests: a sum for each length of window would need them again.
    first: Vec<u64>,
    requests: u64,
}

impl ReuseTimes {
    /// Takes a request in.
    pub fn see(&mut self, access: &Access) {
        if !access.action.is_request() {
            return;
        }
        self.requests += 1;
        match self.last.insert(access.key, self.requests) {
            Some(before) => *self.times.entry(self.requests - before).or_default() += 1,
            None => self.first.push(self.requests),
        }
    }

    /// The curve by the mean footprint of windows: `fp(w)` is, with `n` requests for `m` objects,
    /// `m - (Σ (t - w) r_t + Σ (f_i - w) + Σ (l_i - w)) / (n - w + 1)`, each sum over what is
    /// longer than `w`; `r_t` requests come `t` after the one before, `f_i` is when an object is first
    /// asked for and `l_i` the same from the end (HOTL, equation 1). Of a cache of `fp(w)` objects
    /// `fp(w + 1) - fp(w)` of the requests miss.
    pub fn footprint(&self) -> Curve {
        let n = self.requests;
        let ends = self.last.values().map(|last| n + 1 - last);
        let times = self.times.iter().map(|(time, count)| (*time, *count));
        let gaps =
            times.chain(self.first.iter().map(|first| (*first, 1))).chain(ends.map(|end| (end, 1)));
        let beyond = Beyond::new(gaps.collect());
        let objects = self.last.len() as f64;
        let footprint = |w: u64| objects - beyond.sum(w) / (n - w + 1) as f64;
        self.curve(|w| {
            let here = footprint(w);
            (here, footprint(w + 1) - here)
        })
    }

    /// The curve by how long objects stay: a share `P(t)` of requests comes more than `t` after the one
    /// before, or is the first; a cache of `P(0) + … + P(t - 1)` objects keeps them for `t` requests and
    /// misses `P(t)` (AET, equations 2 and 3).
    pub fn average_eviction_time(&self) -> Curve {
        let n = self.requests;
        let beyond = Beyond::new(self.times.iter().map(|(time, count)| (*time, *count)).collect());
        let first = self.first.len() as f64;
        // The sum of all P up to a time: of each reuse as much of its time as that.
        let reuses = beyond.sum(0);
        self.curve(|t| {
            let kept = (reuses - beyond.sum(t) + first * t as f64) / n as f64;
            (kept, (beyond.count(t) as f64 + first) / n as f64)
        })
    }

    /// The curve through the size and the miss ratio that `at` says for lengths of windows.
    fn curve(&self, at: impl Fn(u64) -> (f64, f64)) -> Curve {
        let (mut points, mut least) = (Vec::<Point>::new(), 1.0_f64);
        let mut length = 1;
        while length < self.requests && points.len() < POINTS_MAX {
            let (size, miss_ratio) = at(length);
            // Rounded up: it holds from there on.
            let size = size.ceil().max(1.0) as u64;
            least = least.min(miss_ratio.clamp(0.0, 1.0));
            match points.last_mut() {
                Some(before) if before.size >= size => before.miss_ratio = least,
                _ => points.push(Point { size, miss_ratio: least }),
            }
            length = (length + 1).max((length as f64 * GROWTH) as u64);
        }
        match Curve::new(points, self.requests as f64) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }
}

/// Numbers, and what is left of them beyond a bound.
struct Beyond {
    /// In their order, each with how many there are of it.
    numbers: Vec<(u64, u64)>,
    /// Of those from each place on: how many, and their sum.
    from: Vec<(u64, f64)>,
}

impl Beyond {
    fn new(mut numbers: Vec<(u64, u64)>) -> Self {
        numbers.sort_unstable();
        let mut from = vec![(0, 0.0); numbers.len() + 1];
        for (place, (number, count)) in numbers.iter().enumerate().rev() {
            let (counts, sum) = from[place + 1];
            from[place] = (counts + count, sum + *number as f64 * *count as f64);
        }
        Self { numbers, from }
    }

    fn behind(&self, bound: u64) -> (u64, f64) {
        self.from[self.numbers.partition_point(|(number, _)| *number <= bound)]
    }

    /// How many are larger than `bound`.
    fn count(&self, bound: u64) -> u64 {
        self.behind(bound).0
    }

    /// The sum of what those are larger by.
    fn sum(&self, bound: u64) -> f64 {
        let (count, sum) = self.behind(bound);
        sum - bound as f64 * count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Action;
    use crate::profiler::{Expiry, Profiler, Settings, Unit};

    fn load(key: u64) -> Access {
        Access::new(key, Action::Load(1))
    }

    /// The mean number of objects in windows of that length, counted.
    fn counted(keys: &[u64], length: usize) -> f64 {
        let distinct = |window: &[u64]| {
            let mut window = window.to_vec();
            window.sort_unstable();
            window.dedup();
            window.len() as f64
        };
        let windows = keys.windows(length);
        let count = windows.len() as f64;
        windows.map(distinct).sum::<f64>() / count
    }

    #[test]
    fn footprints_are_means_over_all_windows() {
        let keys: Vec<u64> = (0..200_u64).map(|i| i * i % 37 % (1 + i % 23)).collect();
        let mut times = ReuseTimes::default();
        keys.iter().for_each(|key| times.see(&load(*key)));
        let n = times.requests;
        let ends = times.last.values().map(|last| (n + 1 - last, 1));
        let gaps = times.times.iter().map(|(time, count)| (*time, *count));
        let first = times.first.iter().map(|first| (*first, 1));
        let beyond = Beyond::new(gaps.chain(first).chain(ends).collect());
        for length in [1, 2, 3, 10, 50, 199] {
            let told = times.last.len() as f64 - beyond.sum(length) / (n - length + 1) as f64;
            assert!((told - counted(&keys, length as usize)).abs() < 1e-9, "{length}");
        }
    }

    #[test]
    fn both_are_near_the_exact_curve_where_nothing_changes() {
        let settings = Settings { unit: Unit::Objects, expiry: Expiry::Ignored };
        let (mut exact, mut times) = (Profiler::new(settings), ReuseTimes::default());
        let mut state = 7_u64;
        for _ in 0..300_000 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let part = (state >> 11) as f64 / (1_u64 << 53) as f64;
            let access = load((5_000.0 * part * part * part) as u64);
            exact.see(&access);
            times.see(&access);
        }
        for curve in [times.footprint(), times.average_eviction_time()] {
            let error = curve.mean_absolute_error(&exact.curve(), 100);
            assert!(error < 0.01, "{error}");
        }
    }

    #[test]
    fn few_requests_make_a_curve_too() {
        for requests in 0..4 {
            let mut times = ReuseTimes::default();
            (0..requests).for_each(|_| times.see(&load(1)));
            for curve in [times.footprint(), times.average_eviction_time()] {
                assert_eq!(curve.requests(), requests as f64);
                assert_eq!(curve.miss_ratio(0), 1.0);
            }
        }
    }
}
