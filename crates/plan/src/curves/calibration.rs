//! The curve of a sample of the keys, corrected by counts over all keys: a control variate.
//!
//! Where no key is popular the number of hot keys in a sample and their sizes are random, and with
//! ten thousand of them a curve is off by some tenths of a per cent.
//!
//! 1. `all(s)`: of the requests while a cache that fills with all keys holds `s` bytes, the
//!    fraction that is new to it ([`crate::curves::filling`]).
//! 2. `sample(s)`: the same with the keys of the sample, on average over all times at which the
//!    cache could have begun ([`crate::curves::reuse_times`]: HOTL), with sizes and requests
//!    divided by the rate.
//! 3. The corrected curve is that of the sample plus `all(s) - sample(s)`, up to the largest `s`
//!    that was counted. Neither term includes the beginning of a trace, when caches of all sizes
//!    were empty; that part stays as in the sample.
//!
//! Three rules keep this from doing harm.
//!
//! * `all` covers some times of the trace, and `sample` all. In a changing trace these differ, also
//!   for keys of the sample, which are measured both ways: if they differ by more than chance, at
//!   the same ages of the cache, nothing is corrected ([`is_stationary`]).
//! * Sizes must be constant, and the bytes spread over many objects: where a few have most bytes,
//!   the average content of a cache predicts its content poorly ([`Calibration::correct`]).
//! * The counts over all keys are random as well. Differences no larger than chance are dropped,
//!   and others reduced accordingly ([`shrink`]).
//!
//! Pure; one thread's.

use crate::curves::curve::{Curve, Point};
use crate::curves::filling::{AgeCounts, Requests, WarmupCurve};
use crate::curves::reuse_times::{Footprint, Intervals};
use crate::curves::stack::LastAccess;

/// Differences are computed for groups of sizes: with this many requests, or until sizes differ by
/// one part of 20.
const GROUP_REQUESTS: f64 = 1e6;
const GROUP_GROWTH: f64 = 1.05;
/// The number of groups that are shrunk together.
const BLOCK: usize = 16;
/// Ranges of ages in which the sample is tested: at most `RANGES`, with equal expected numbers of
/// new objects, at least `EXPECTED_MIN` of them each; and at least `RANGES_MIN` ranges.
const RANGES: f64 = 32.0;
const EXPECTED_MIN: f64 = 16.0;
const RANGES_MIN: usize = 8;
/// The most standard deviations by which the mean square may exceed its expected value.
const DEVIATIONS_MAX: f64 = 4.0;
/// The largest fraction of requests that may find an object of another size than before.
const RESIZED_MAX: f64 = 0.01;
/// The least effective number of the sample's objects, as if they were of one size: none has more
/// than a thirtieth of the bytes.
const OBJECTS_MIN: f64 = 1_000.0;

/// Counts over all keys, to correct a sample of them.
#[derive(Debug)]
pub(crate) struct Calibration {
    warmup: WarmupCurve,
    /// Between requests for keys of the sample.
    intervals: Intervals,
}

/// The difference of the miss ratios of all keys and of the sample.
#[derive(Debug, Clone, Copy)]
struct Difference {
    /// The cache size.
    bytes: f64,
    /// Misses per request.
    by: f64,
    /// The variance of that.
    variance: f64,
}

/// The fraction of the sample's requests that are new to a cache that fills with the keys of the
/// sample, on average over all times at which it could begin.
struct Average {
    /// By the bytes that it holds, scaled from the sample to all keys.
    by_bytes: Vec<(f64, f64)>,
    /// By its age: the number of requests of all keys since it began.
    by_age: Vec<(f64, f64)>,
}

impl Average {
    fn of(footprints: &[Footprint], rate: f64) -> Self {
        let by = |x: fn(&Footprint) -> f64, scale: f64| {
            footprints
                .iter()
                .map(|footprint| (x(footprint) * scale, footprint.new / rate))
                .collect()
        };
        Self {
            by_bytes: by(|footprint| footprint.bytes, 1.0 / rate),
            by_age: by(|footprint| footprint.length, 1.0),
        }
    }

    fn new_with(&self, bytes: f64) -> f64 {
        interpolate(&self.by_bytes, bytes).unwrap_or(1.0).clamp(0.0, 1.0)
    }

    fn new_at(&self, age: f64) -> f64 {
        interpolate(&self.by_age, age).unwrap_or(1.0).clamp(0.0, 1.0)
    }
}

/// Linear interpolation at `x` between points with rising first numbers; outside of them, the
/// nearest point's value.
fn interpolate(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let behind = points.partition_point(|point| point.0 < x);
    let (before, after) = (points.get(behind.wrapping_sub(1)), points.get(behind));
    match (before, after) {
        (Some(before), Some(after)) => {
            let part = (x - before.0) / (after.0 - before.0);
            Some(before.1 + (after.1 - before.1) * part)
        }
        (one, other) => one.or(other).map(|point| point.1),
    }
}

impl Calibration {
    pub(crate) fn new() -> Self {
        Self { warmup: WarmupCurve::new(), intervals: Intervals::default() }
    }

    /// How many requests may be passed in one call, at least one.
    pub(crate) fn batch_max(&self) -> usize {
        self.warmup.batch_max()
    }

    /// Records a request for a key of the sample: its number, from 1, the bytes of the object, and
    /// the previous request for it. Call this before [`Self::record`] with the same requests.
    pub(crate) fn record_sampled(&mut self, number: u64, bytes: u64, before: Option<LastAccess>) {
        self.intervals.record(number, bytes, before);
        self.warmup.record_sampled(number, before.map(|before| before.number));
    }

    /// Records requests for all keys: the keys, and the bytes of their objects, which are loaded on
    /// a miss. No more than [`Self::batch_max`].
    #[inline]
    pub(crate) fn record(&mut self, requests: impl ExactSizeIterator<Item = (u64, u64)>) {
        self.warmup.record(requests);
    }

    /// The corrected curve of a sample of `rate` of the keys, with the last access of each of its
    /// objects. `None` if the trace is not stationary, objects change their sizes, or a few have
    /// most of the bytes.
    pub(crate) fn correct(
        &self,
        curve: &Curve,
        rate: f64,
        last_accesses: impl Iterator<Item = LastAccess> + Clone,
    ) -> Option<Curve> {
        if effective_objects(last_accesses.clone()) < OBJECTS_MIN
            || self.intervals.resized() > RESIZED_MAX
        {
            return None;
        }
        let footprints = self.intervals.footprints(self.warmup.requests(), last_accesses);
        let average = Average::of(&footprints, rate);
        if !is_stationary(&self.warmup.by_age(), &average, rate) {
            return None;
        }
        let mut differences = differences(&self.warmup.by_bytes(), &average);
        differences.chunks_mut(BLOCK).for_each(shrink);
        let until = differences.last()?.bytes;
        let by_bytes: Vec<(f64, f64)> = differences.iter().map(|it| (it.bytes, it.by)).collect();
        let corrected = |point: &Point| {
            let bytes = point.size as f64;
            let by = interpolate(&by_bytes, bytes).filter(|_| bytes > 0.0 && bytes <= until);
            point.miss_ratio + by.unwrap_or(0.0)
        };
        let ratios = curve.points().iter().map(corrected).collect();
        Some(non_increasing(curve, ratios))
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.warmup.memory_bytes() + self.intervals.memory_bytes()
    }
}

/// The effective number of objects: the square of their bytes by the sum of the squares (Kish 1965,
/// the effective size of a sample).
fn effective_objects(objects: impl Iterator<Item = LastAccess>) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for object in objects {
        let bytes = object.bytes as f64;
        sum += bytes;
        squares += bytes * bytes;
    }
    sum * sum / f64::max(squares, 1.0)
}

/// Whether the cache has filled with the keys of the sample as it does on average: by the mean of
/// the squares of its deviations, in standard deviations, with an expected value of 1 and a
/// variance of 2 in each range.
fn is_stationary(by_age: &[AgeCounts], average: &Average, rate: f64) -> bool {
    let expected_of = |at: &AgeCounts| average.new_at(at.age as f64) * rate * at.seen as f64;
    let all: f64 = by_age.iter().map(expected_of).sum();
    let least = (all / RANGES).max(EXPECTED_MIN);
    let (mut expected, mut found, mut squares, mut ranges) = (0.0, 0.0, 0.0, 0_usize);
    for (at, left) in by_age.iter().zip((0..by_age.len()).rev()) {
        expected += expected_of(at);
        found += at.sampled_new as f64;
        if expected >= least || (left == 0 && expected >= EXPECTED_MIN) {
            squares += (found - expected) * (found - expected) / expected;
            ranges += 1;
            (expected, found) = (0.0, 0.0);
        }
    }
    let mean_max = 1.0 + DEVIATIONS_MAX * (2.0 / ranges as f64).sqrt();
    ranges >= RANGES_MIN && squares / ranges as f64 <= mean_max
}

/// The difference of all keys' miss ratios and the sample's, by rising sizes.
fn differences(by_bytes: &[(f64, Requests)], average: &Average) -> Vec<Difference> {
    let mut differences = Vec::new();
    let (mut group, mut seen) = (Vec::new(), 0.0);
    for (at, of_size) in by_bytes.iter().enumerate() {
        group.push(*of_size);
        seen += of_size.1.seen;
        let is_wide = of_size.0 > group[0].0 * GROUP_GROWTH;
        if seen >= GROUP_REQUESTS || is_wide || at + 1 == by_bytes.len() {
            differences.push(difference_of(&group, average));
            (group, seen) = (Vec::new(), 0.0);
        }
    }
    differences
}

/// A cold miss that was observed stands for `w` of them; so with an expected miss ratio `p` the
/// variance of the misses is `Σ w² found (1 - p / w)`.
fn difference_of(group: &[(f64, Requests)], average: &Average) -> Difference {
    let (mut seen, mut bytes, mut misses, mut variance) = (0.0, 0.0, 0.0, 0.0);
    for (of_bytes, requests) in group {
        let expected = average.new_with(*of_bytes);
        let found = requests.new / requests.new_squares.max(f64::MIN_POSITIVE);
        seen += requests.seen;
        bytes += requests.seen * of_bytes;
        misses += requests.new - expected * requests.seen;
        variance += requests.new_squares * (1.0 - (expected * found).clamp(0.0, 1.0));
    }
    Difference { bytes: bytes / seen, by: misses / seen, variance: variance / (seen * seen) }
}

/// Shrinks the differences by their random part: the positive part of James and Stein's estimator
/// (1961), with the sum of the variances in the place of `(k - 2)` times one, for they are not
/// alike.
fn shrink(block: &mut [Difference]) {
    let squares: f64 = block.iter().map(|it| it.by * it.by).sum();
    let chance: f64 = block.iter().map(|it| it.variance).sum();
    let part = if squares > chance { 1.0 - chance / squares } else { 0.0 };
    block.iter_mut().for_each(|it| it.by *= part);
}

/// The curve with other ratios, rising ones levelled at their mean (pool of adjacent violators,
/// Ayer et al. 1955), each weighted by the range of sizes for which it holds; the last as one byte.
fn non_increasing(curve: &Curve, ratios: Vec<f64>) -> Curve {
    let points = curve.points();
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(points.len());
    for (at, ratio) in ratios.into_iter().enumerate() {
        let sizes = points.get(at + 1).map_or(1, |next| next.size - points[at].size);
        let mut pool = (ratio, sizes as f64, 1);
        while let Some((before, weight, count)) = pools.last().copied()
            && before < pool.0
        {
            pools.pop();
            let both = weight + pool.1;
            pool = ((before * weight + pool.0 * pool.1) / both, both, count + pool.2);
        }
        pools.push(pool);
    }
    let level = pools.iter().flat_map(|(ratio, _, count)| std::iter::repeat_n(*ratio, *count));
    let points = points.iter().zip(level);
    let mut points =
        points.map(|(point, ratio)| Point { miss_ratio: ratio.clamp(0.0, 1.0), ..*point });
    let first = points.next().map(|first| Point { miss_ratio: 1.0, ..first });
    match Curve::new(first.into_iter().chain(points), curve.requests()) {
        Ok(curve) => curve,
        Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
    }
}

#[cfg(test)]
mod tests;
