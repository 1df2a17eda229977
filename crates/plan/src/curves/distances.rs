//! A histogram of reuse distances, by requests and by requested bytes, and the curves derived from
//! it.
//!
//! Guarantees: a distance is never recorded as less than it is, and as more by less than one part
//! in 512 ([`PRECISION_BITS`]); memory depends on the largest distance's logarithm alone.

use crate::curves::curve::{Curve, Point};
use crate::curves::histogram_scale::{number_of, place_of};

/// Distances below 2^that are exact.
const PRECISION_BITS: u32 = 10;
/// Deviations below this many standard deviations count as chance.
const CHANCE: f64 = 2.0;

/// A histogram.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distances {
    /// Requests by the bucket of their distance ([`crate::curves::histogram_scale`]).
    reuses: Vec<Volume>,
    /// Requests that miss in every cache.
    misses: Volume,
    /// Whether the size of some requests is unknown.
    has_unsized: bool,
    /// What one request counts now. Counts are divided by it when they are read: so it costs nothing
    /// to scale all of them.
    weight: Weight,
}

#[derive(Debug, Clone, Copy)]
struct Weight(f64);

impl Default for Weight {
    fn default() -> Self {
        Self(1.0)
    }
}

/// The largest weight: the counts of an `f64` stay far from its limits.
const WEIGHT_MAX: f64 = 1e100;

/// A number of requests, and the bytes that they request.
#[derive(Debug, Clone, Copy, Default)]
struct Volume {
    requests: f64,
    bytes: f64,
}

/// The difference between a sample's expected and actual requests; negative where it has more.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deficit {
    pub(crate) requests: f64,
    pub(crate) bytes: f64,
    /// The variance of the bytes, due to the random choice of objects.
    pub(crate) variance: f64,
}

impl Volume {
    fn add(&mut self, bytes: u64, weight: Weight) {
        self.requests += weight.0;
        self.bytes += bytes as f64 * weight.0;
    }

    fn scale(&mut self, factor: f64) {
        self.requests *= factor;
        self.bytes *= factor;
    }
}

impl Distances {
    /// A histogram of misses only.
    pub(crate) fn of_misses(requests: f64) -> Self {
        let misses = Volume { requests, bytes: 0.0 };
        Self { misses, has_unsized: true, ..Self::default() }
    }

    /// Records a request, of this many bytes if known, that hits in caches of at least `distance`.
    #[inline]
    pub(crate) fn reuse(&mut self, distance: u64, bytes: Option<u64>) {
        let place = place_of::<PRECISION_BITS>(distance);
        if place >= self.reuses.len() {
            self.reuses.resize(place + 1, Volume::default());
        }
        self.reuses[place].add(bytes.unwrap_or(0), self.weight);
        self.has_unsized |= bytes.is_none();
    }

    /// Records a request that misses in every cache.
    pub(crate) fn miss(&mut self, bytes: Option<u64>) {
        self.misses.add(bytes.unwrap_or(0), self.weight);
        self.has_unsized |= bytes.is_none();
    }

    /// The number of requests.
    pub(crate) fn requests(&self) -> f64 {
        self.sum(|volume| volume.requests)
    }

    /// The requested bytes, as far as they are known.
    pub(crate) fn bytes(&self) -> f64 {
        self.sum(|volume| volume.bytes)
    }

    fn sum(&self, of: impl Fn(&Volume) -> f64) -> f64 {
        (self.reuses.iter().map(&of).sum::<f64>() + of(&self.misses)) / self.weight.0
    }

    /// Multiplies all counts so far by `factor`.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.weight.0 /= factor;
        if self.weight.0 > WEIGHT_MAX {
            let down = 1.0 / self.weight.0;
            self.reuses.iter_mut().for_each(|volume| volume.scale(down));
            self.misses.scale(down);
            self.weight = Weight::default();
        }
    }

    /// The curve, with `more` additional requests of the shortest distance (fewer, if negative):
    /// the correction of a sample (`SHARDS-adj`, Waldspurger et al. 2015 §4.2).
    pub(crate) fn curve(&self, more: f64) -> Curve {
        self.curve_by(|volume| volume.requests, more, self.requests() + more)
    }

    /// The byte miss ratio by size, corrected by `deficit`. `None` if the size of some requests is
    /// unknown.
    pub(crate) fn byte_curve(&self, deficit: Deficit) -> Option<Curve> {
        let more = self.more_bytes(deficit);
        (!self.has_unsized).then(|| self.curve_by(|volume| volume.bytes, more, self.requests()))
    }

    /// The bytes added at the shortest distance. Missing requests have the mean size of as many of
    /// the nearest present ones. Other missing bytes may belong to popular keys, which are near as
    /// well, or to large objects that happen to be in the sample or not, most of which are missed:
    /// of the amount that chance explains, [`CHANCE`] standard deviations, none is added, and
    /// larger amounts are reduced accordingly (James and Stein, 1961).
    fn more_bytes(&self, deficit: Deficit) -> f64 {
        let near = deficit.requests * self.bytes_of_nearest(deficit.requests.abs());
        let rest = deficit.bytes - near;
        let (square, chance) = (rest * rest, CHANCE * CHANCE * deficit.variance);
        near + if square > chance { rest * (1.0 - chance / square) } else { 0.0 }
    }

    /// The mean size of this many requests of the shortest distances, with all those as far as the
    /// last of them.
    fn bytes_of_nearest(&self, requests: f64) -> f64 {
        let mut nearest = Volume::default();
        for volume in self.reuses.iter().filter(|volume| volume.requests > 0.0) {
            nearest.requests += volume.requests / self.weight.0;
            nearest.bytes += volume.bytes / self.weight.0;
            if nearest.requests >= requests {
                break;
            }
        }
        nearest.bytes / nearest.requests.max(f64::MIN_POSITIVE)
    }

    fn curve_by(&self, of: impl Fn(&Volume) -> f64, more: f64, requests: f64) -> Curve {
        let all = (self.sum(&of) + more).max(0.0);
        let ratio = |misses: f64| if all > 0.0 { (misses / all).clamp(0.0, 1.0) } else { 1.0 };
        let (mut left, mut owed, mut least) = (all, more, 1.0_f64);
        let mut points = Vec::new();
        let reuses = self.reuses.iter().map(|volume| of(volume) / self.weight.0);
        for (place, reuses) in reuses.enumerate().filter(|it| it.1 > 0.0) {
            left -= reuses + std::mem::take(&mut owed);
            // Rounding alone could make it rise.
            least = least.min(ratio(left));
            points.push(Point { size: number_of::<PRECISION_BITS>(place), miss_ratio: least });
        }
        match Curve::new(points, requests.max(0.0)) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.reuses.capacity() * size_of::<Volume>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_falls_by_the_reuses_up_to_a_size() {
        let mut distances = Distances::default();
        for (distance, requests, bytes) in [(3, 2, 10), (7, 6, 1), (100, 1, 34)] {
            (0..requests).for_each(|_| distances.reuse(distance, Some(bytes)));
        }
        distances.miss(Some(40));
        let curve = distances.curve(0.0);
        let at = [0, 2, 3, 6, 7, 99, 100].map(|size| (curve.miss_ratio(size) * 10.0).round());
        assert_eq!((at, curve.requests()), ([10.0, 10.0, 8.0, 8.0, 2.0, 2.0, 1.0], 10.0));
        // Ten more at once.
        let curve = distances.curve(10.0);
        assert_eq!((curve.miss_ratio(3) * 20.0).round(), 8.0);
        assert_eq!(Distances::default().curve(0.0).points().len(), 1);
        // Of a hundred bytes.
        let curve = distances.byte_curve(Deficit::default()).expect("all are known");
        let at = [0, 2, 3, 6, 7, 99, 100].map(|size| (curve.miss_ratio(size) * 100.0).round());
        assert_eq!((at, curve.requests()), ([100.0, 100.0, 80.0, 80.0, 74.0, 74.0, 40.0], 10.0));
        distances.reuse(7, None);
        assert_eq!(distances.byte_curve(Deficit::default()), None);
    }

    #[test]
    fn scaled_counts_are_as_if_each_had_been_scaled() {
        let mut distances = Distances::default();
        for _ in 0..8 {
            distances.reuse(3, Some(10));
        }
        distances.scale(0.5);
        distances.reuse(7, Some(1));
        distances.miss(Some(100));
        assert_eq!((distances.requests(), distances.bytes()), (6.0, 141.0));
        let curve = distances.curve(0.0);
        assert_eq!([curve.miss_ratio(3) * 6.0, curve.miss_ratio(7) * 6.0], [2.0, 1.0]);
        (0..2_000).for_each(|_| distances.scale(0.5));
        distances.reuse(7, Some(1));
        assert!((distances.requests() - 1.0).abs() < 1e-9 && distances.bytes().is_finite());
    }

    #[test]
    fn byte_deficit_within_chance_is_not_corrected() {
        let mut distances = Distances::default();
        (0..100).for_each(|_| distances.reuse(3, Some(10)));
        (0..100).for_each(|_| distances.reuse(4, Some(30)));
        let more_bytes =
            |requests, bytes| distances.more_bytes(Deficit { requests, bytes, variance: 100.0 });
        // A hundred are of 10 bytes, two hundred of 20 on average.
        assert_eq!([more_bytes(100.0, 1_000.0), more_bytes(-200.0, -4_000.0)], [1e3, -4e3]);
        // Two deviations are 20 bytes; of twice as many three quarters are added.
        assert_eq!(
            [20.0, -20.0, 40.0, -40.0].map(|deficit| more_bytes(0.0, deficit)),
            [0.0, 0.0, 30.0, -30.0]
        );
        assert_eq!(more_bytes(10.0, 140.0), 130.0);
        assert_eq!(
            Distances::default().more_bytes(Deficit { requests: 9.0, ..Deficit::default() }),
            0.0
        );
    }
}
