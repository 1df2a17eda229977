//! A curve by a sample of the keys, nearer to the truth by what can be counted of all keys.
//!
//! Where no key is popular it is chance how many hot keys a sample has and how large they are, and with some ten
//! thousand of them a curve is off by some tenths of a per cent. How caches fill is known of all keys ([`crate::filling`]), and
//! how they would fill on average with the keys of the sample from when these were asked for
//! ([`crate::reuse_times`]). What the first miss more than the second is what the sample lacks, and
//! is added to its curve: a control variate. That both leave out what a trace misses at its beginning does
//! not matter, for it is in neither.
//!
//! Two things keep it from doing harm.
//!
//! * Caches fill at some times of the trace, and the average is over all. Where a trace changes, these differ, for keys of
//!   the sample as well: then their requests in the same caches are not as many as the average says,
//!   and the curve is left as it is ([`Calibration::correct`]).
//! * What is counted of all keys is a number of requests, and chance too. Of a difference that is no larger than
//!   chance nothing is taken, and of others as much less (James and Stein's estimator, by blocks of sizes).
//!
//! Pure; one thread's.

use crate::curve::{Curve, Point};
use crate::filling::{Filling, Requests, Watched};
use crate::reuse_times::{Held, ReuseTimes};

/// Differences are looked at in groups of sizes: as many requests as this, or sizes that differ by one part of 20.
const GROUP_REQUESTS: f64 = 1e6;
const GROUP_GROWTH: f64 = 1.05;
/// Groups that are taken less of together.
const BLOCK: usize = 16;
/// Requests of the sample's keys are held against what is expected in so many ranges of sizes, with as many requests each,
/// if that is at least so many.
const RANGES: f64 = 32.0;
const EXPECTED_MIN: f64 = 16.0;
const RANGES_MIN: usize = 8;
/// They may be further off than chance has it on average by so many of its standard deviations.
const DEVIATIONS_MAX: f64 = 4.0;

/// What is known of all keys beside a sample of them.
#[derive(Debug)]
pub(crate) struct Calibration {
    filling: Filling,
    /// Of keys of the sample.
    times: ReuseTimes,
}

/// How far all keys are from those of the sample, at some size.
#[derive(Debug, Clone, Copy)]
struct Apart {
    bytes: f64,
    /// Misses of each request.
    by: f64,
    /// The variance of that.
    variance: f64,
}

/// What a cache that fills would do with the keys of the sample, on average.
struct Average {
    /// The part of the requests that brings something new, by the bytes that it holds.
    by_bytes: Vec<(f64, f64)>,
    /// The same, by how many requests it has seen.
    by_age: Vec<(f64, f64)>,
}

impl Average {
    fn of(times: &ReuseTimes, requests: u64, rate: f64) -> Self {
        let windows: Vec<Held> = times.windows(requests).into_iter().rev().collect();
        let by = |x: fn(&Held) -> f64, scale: f64| {
            windows.iter().map(|held| (x(held) * scale, held.new / rate)).collect()
        };
        Self { by_bytes: by(|held| held.bytes, 1.0 / rate), by_age: by(|held| held.length, 1.0) }
    }

    fn new_with(&self, bytes: f64) -> f64 {
        between(&self.by_bytes, bytes).unwrap_or(1.0).clamp(0.0, 1.0)
    }

    fn new_at(&self, age: f64) -> f64 {
        between(&self.by_age, age).unwrap_or(1.0).clamp(0.0, 1.0)
    }
}

/// What is at `x`, on straight lines through points whose first numbers rise; beside them what the nearest has.
fn between(points: &[(f64, f64)], x: f64) -> Option<f64> {
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
        Self { filling: Filling::new(), times: ReuseTimes::default() }
    }

    /// That a request, by their numbers from 1, is for a key of the sample; before all keys are told of it.
    pub(crate) fn see_sampled(&mut self, number: u64, key: u64, bytes: u64) {
        let before = self.times.see_as(number, key, bytes);
        self.filling.see_watched(number, before);
    }

    /// Takes at most [`crate::filling::AT_ONCE`] requests in for all keys: these, and the bytes of their objects, which are loaded
    /// where they are not there.
    #[inline]
    pub(crate) fn see(&mut self, requests: impl ExactSizeIterator<Item = (u64, u64)>) {
        self.filling.see(requests);
    }

    /// The curve of a sample of `rate` of the keys, with what it lacks. Nothing where caches have not filled with its
    /// keys as they would on average.
    pub(crate) fn correct(&self, curve: &Curve, rate: f64) -> Option<Curve> {
        let average = Average::of(&self.times, self.filling.requests(), rate);
        if !is_average(&self.filling.watched(), &average, rate) {
            return None;
        }
        let mut apart = apart(&self.filling.by_bytes(), &average);
        apart.chunks_mut(BLOCK).for_each(take_less);
        let until = apart.last()?.bytes;
        let apart: Vec<(f64, f64)> = apart.iter().map(|apart| (apart.bytes, apart.by)).collect();
        let more = |point: &Point| {
            let bytes = point.size as f64;
            // Of what has been counted nowhere nothing is known.
            let by = between(&apart, bytes).filter(|_| bytes > 0.0 && bytes <= until);
            point.miss_ratio + by.unwrap_or(0.0)
        };
        let ratios = curve.points().iter().map(more).collect();
        Some(falling(curve, ratios))
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.filling.memory_bytes() + self.times.memory_bytes()
    }
}

/// Whether caches have filled with the keys of the sample as they do on average: by the mean square of how
/// far they were from it, in standard deviations, which is 1 with a variance of 2 in each range.
fn is_average(watched: &[Watched], average: &Average, rate: f64) -> bool {
    let expected_of =
        |watched: &Watched| average.new_at(watched.age as f64) * rate * watched.seen as f64;
    let all: f64 = watched.iter().map(expected_of).sum();
    let least = (all / RANGES).max(EXPECTED_MIN);
    let (mut expected, mut found, mut squares, mut ranges) = (0.0, 0.0, 0.0, 0_usize);
    for watched in watched {
        expected += expected_of(watched);
        found += watched.new as f64;
        if expected >= least {
            squares += (found - expected) * (found - expected) / expected;
            ranges += 1;
            (expected, found) = (0.0, 0.0);
        }
    }
    let mean_max = 1.0 + DEVIATIONS_MAX * (2.0 / ranges as f64).sqrt();
    ranges >= RANGES_MIN && squares / ranges as f64 <= mean_max
}

/// What all keys bring more than those of the sample, by sizes that rise.
fn apart(by_bytes: &[(f64, Requests)], average: &Average) -> Vec<Apart> {
    let mut groups = Vec::new();
    let mut group: Vec<&(f64, Requests)> = Vec::new();
    let mut seen = 0.0;
    for of_place in by_bytes {
        seen += of_place.1.seen;
        group.push(of_place);
        if seen >= GROUP_REQUESTS || of_place.0 > group[0].0 * GROUP_GROWTH {
            groups.push(apart_of(&group, average));
            group.clear();
            seen = 0.0;
        }
    }
    groups
}

fn apart_of(group: &[&(f64, Requests)], average: &Average) -> Apart {
    let seen: f64 = group.iter().map(|(_, requests)| requests.seen).sum();
    let mean = |of: fn(f64, f64, &Requests) -> f64| {
        let sum: f64 = group
            .iter()
            .map(|(bytes, requests)| of(*bytes, average.new_with(*bytes), requests))
            .sum();
        sum / seen
    };
    let variance = mean(|_, expected, requests| {
        // Of what is new those were found that had a slot of their own.
        let found = requests.new / requests.new_squares.max(f64::MIN_POSITIVE);
        requests.new_squares * (1.0 - (expected * found).clamp(0.0, 1.0))
    });
    Apart {
        bytes: mean(|bytes, _, requests| bytes * requests.seen),
        by: mean(|_, expected, requests| requests.new - expected * requests.seen),
        variance: variance / seen,
    }
}

/// Takes less of what is apart, by how much of it is chance.
fn take_less(block: &mut [Apart]) {
    let squares: f64 = block.iter().map(|apart| apart.by * apart.by).sum();
    let chance: f64 = block.iter().map(|apart| apart.variance).sum();
    let part = if squares > chance { 1.0 - chance / squares } else { 0.0 };
    block.iter_mut().for_each(|apart| apart.by *= part);
}

/// The curve with other ratios, those that rise made level at their mean (the pool of adjacent violators), each as much as
/// the sizes for which it holds.
fn falling(curve: &Curve, ratios: Vec<f64>) -> Curve {
    let points = curve.points();
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(points.len());
    for (at, ratio) in ratios.into_iter().enumerate() {
        let until = points.get(at + 1).map_or(points[at].size + 1, |next| next.size);
        let mut pool = (ratio, (until - points[at].size) as f64, 1);
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
