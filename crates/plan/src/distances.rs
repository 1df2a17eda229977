//! How far reuses are: a histogram of distances, each by its requests, and the curve that follows.
//!
//! Guarantees: a distance is never told as less than it is, and as more by less than one part in
//! 512 ([`PRECISION_BITS`]); memory depends on the largest distance's logarithm alone.

use crate::curve::{Curve, Point};

/// Distances below 2^that are exact.
pub(crate) const PRECISION_BITS: u32 = 10;

/// A histogram.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distances {
    /// Requests by the place of their distance ([`place_of`]).
    reuses: Vec<f64>,
    /// Requests that no cache answers.
    misses: f64,
}

/// Distances with one place: one, or those up to a number of [`PRECISION_BITS`] and zeros.
fn place_of(distance: u64) -> usize {
    let bits = (u64::BITS - distance.leading_zeros()).saturating_sub(PRECISION_BITS);
    // Rounded up, which may take one bit more.
    let rounded = (distance >> bits) + u64::from(distance & ((1 << bits) - 1) > 0);
    (bits as usize) * (1 << (PRECISION_BITS - 1)) + rounded as usize
}

/// The largest distance that has that place.
fn distance_of(place: usize) -> u64 {
    let half = 1_usize << (PRECISION_BITS - 1);
    // From half to all of it are the numbers of a length.
    let bits = (place / half).saturating_sub(1);
    let rounded = (place - bits * half) as u64;
    rounded
        .checked_shl(bits as u32)
        .filter(|shifted| shifted >> bits == rounded)
        .unwrap_or(u64::MAX)
}

impl Distances {
    /// A request that caches of at least `distance` answer, as much as `weight` requests.
    pub(crate) fn reuse(&mut self, distance: u64, weight: f64) {
        let place = place_of(distance);
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
            points.push(Point { size: distance_of(place), miss_ratio: least });
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
    fn a_distance_is_told_as_at_most_a_little_more() {
        let near = |power: u32| [-1_i64, 0, 1].map(|by| (1_u64 << power).wrapping_add_signed(by));
        let all = (0..5_000).chain((12..63).flat_map(near)).chain([12_345_678_901, u64::MAX]);
        for distance in all {
            let told = distance_of(place_of(distance));
            assert!(told >= distance, "{distance} as {told}");
            let more = (told - distance) as f64;
            assert!(
                more <= distance as f64 / f64::from(1 << (PRECISION_BITS - 1)),
                "{distance} as {told}"
            );
            if distance < 1 << PRECISION_BITS {
                assert_eq!(told, distance);
            }
        }
        let places: Vec<usize> = (0..100_000).map(place_of).collect();
        assert!(places.is_sorted());
    }

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
