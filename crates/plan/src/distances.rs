//! How far reuses are: a histogram of distances, each by its requests, and the curve that follows.
//!
//! Guarantees: a distance is never told as less than it is, and as more by less than one part in
//! 512 ([`PRECISION_BITS`]); memory depends on the largest distance's logarithm alone.

use crate::curve::{Curve, Point};
use crate::places::{number_of, place_of};

/// Distances below 2^that are exact.
const PRECISION_BITS: u32 = 10;

/// A histogram.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distances {
    /// Requests by the place of their distance ([`crate::places`]).
    reuses: Vec<f64>,
    /// Requests that no cache answers.
    misses: f64,
}

impl Distances {
    /// A request that caches of at least `distance` answer, as much as `weight` requests.
    #[inline]
    pub(crate) fn reuse(&mut self, distance: u64, weight: f64) {
        let place = place_of::<PRECISION_BITS>(distance);
        if place >= self.reuses.len() {
            self.reuses.resize(place + 1, 0.0);
        }
        self.reuses[place] += weight;
    }

    /// A request that none answers.
    pub(crate) fn miss(&mut self, weight: f64) {
        self.misses += weight;
    }

    /// How many requests there were.
    pub(crate) fn requests(&self) -> f64 {
        self.reuses.iter().sum::<f64>() + self.misses
    }

    /// As if there had been so many times as many requests of all so far.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.reuses.iter_mut().for_each(|requests| *requests *= factor);
        self.misses *= factor;
    }

    /// The curve, as if there had been `more` requests of the shortest distance (fewer, where that
    /// is negative): what a sample is thought to lack (`SHARDS-adj`, Waldspurger et al. 2015 §4.2).
    pub(crate) fn curve(&self, more: f64) -> Curve {
        let requests = (self.requests() + more).max(0.0);
        let ratio =
            |misses: f64| if requests > 0.0 { (misses / requests).clamp(0.0, 1.0) } else { 1.0 };
        let (mut left, mut owed, mut least) = (requests, more, 1.0_f64);
        let mut points = Vec::new();
        for (place, reuses) in self.reuses.iter().enumerate().filter(|(_, reuses)| **reuses > 0.0) {
            left -= reuses + std::mem::take(&mut owed);
            // By rounding alone it could rise.
            least = least.min(ratio(left));
            points.push(Point { size: number_of::<PRECISION_BITS>(place), miss_ratio: least });
        }
        match Curve::new(points, requests) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.reuses.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_falls_by_the_reuses_up_to_a_size() {
        let mut distances = Distances::default();
        for (distance, weight) in [(3, 2.0), (7, 5.0), (7, 1.0), (100, 1.0)] {
            distances.reuse(distance, weight);
        }
        distances.miss(1.0);
        let curve = distances.curve(0.0);
        let at = [0, 2, 3, 6, 7, 99, 100].map(|size| (curve.miss_ratio(size) * 10.0).round());
        assert_eq!((at, curve.requests()), ([10.0, 10.0, 8.0, 8.0, 2.0, 2.0, 1.0], 10.0));
        // Ten more at once.
        let curve = distances.curve(10.0);
        assert_eq!((curve.miss_ratio(3) * 20.0).round(), 8.0);
        assert_eq!(Distances::default().curve(0.0).points().len(), 1);
    }
}
