//! Miss-ratio curves: the fraction of requests that a cache of each size misses.
//!
//! Guarantees of a [`Curve`]: sizes rise from zero, ratios fall and are between 0 and 1; at size
//! zero every request misses. Between two points the ratio is that of the smaller size: a cache
//! smaller than a reuse distance misses the reuse.

use std::fmt;

/// Neighbours kept on each side ([`Curve::closer`]): the optimum may be near a point that looked
/// nearly as good.
const NEIGHBOURS: usize = 4;

/// A cache size and its miss ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// In the unit of the curve: bytes, as a rule.
    pub size: u64,
    /// Misses per request, 0 to 1.
    pub miss_ratio: f64,
}

/// A miss-ratio curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
    requests: f64,
}

/// The reason why points are no curve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCurve(String);

impl fmt::Display for InvalidCurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidCurve {}

impl Curve {
    /// A curve through these points, of `requests` requests. A point at size zero is prepended if
    /// there is none, and a point with the same ratio as the previous one is dropped.
    ///
    /// # Errors
    /// Sizes that do not rise; ratios that rise, or are not between 0 and 1.
    pub fn new(
        points: impl IntoIterator<Item = Point>,
        requests: f64,
    ) -> Result<Self, InvalidCurve> {
        let mut curve: Vec<Point> = vec![Point { size: 0, miss_ratio: 1.0 }];
        for (number, point) in (1..).zip(points) {
            let Some(before) = curve.last() else { break };
            let no = |what: &str| Err(InvalidCurve(format!("point {number}: {what}")));
            if !(0.0..=1.0).contains(&point.miss_ratio) {
                return no("the miss ratio is not between 0 and 1");
            }
            if point.miss_ratio > before.miss_ratio {
                return no("the miss ratio rises");
            }
            if point.size == 0 && curve.len() == 1 {
                curve[0] = point;
                continue;
            }
            if point.size <= before.size {
                return no("the size does not rise");
            }
            if point.miss_ratio < before.miss_ratio {
                curve.push(point);
            }
        }
        if !(requests.is_finite() && requests >= 0.0) {
            return Err(InvalidCurve(format!("{requests} is not a number of requests")));
        }
        Ok(Self { points: curve, requests })
    }

    /// Its points, from size zero on; the ratio falls with each.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The number of requests that it describes.
    pub fn requests(&self) -> f64 {
        self.requests
    }

    /// The same curve for another number of requests.
    pub(crate) fn of_requests(self, requests: f64) -> Self {
        Self { requests, ..self }
    }

    /// The same curve in another unit of size, of which one old unit is `factor`.
    pub fn in_units(&self, factor: f64) -> Self {
        let scaled =
            |point: &Point| Point { size: (point.size as f64 * factor).ceil() as u64, ..*point };
        let mut points: Vec<Point> = Vec::with_capacity(self.points.len());
        for point in self.points.iter().map(scaled) {
            match points.last_mut() {
                Some(before) if before.size == point.size => *before = point,
                _ => points.push(point),
            }
        }
        Self { points, requests: self.requests }
    }

    /// The same curve with a margin: each miss ratio is raised by `margin` of its standard errors, and
    /// each size by `margin` of its own; the higher of the two curves counts. Where a curve falls
    /// steeply, the second is what matters.
    ///
    /// `error_of` is for each point the standard errors of its miss ratio and of its size.
    pub fn with_margin(&self, margin: f64, error_of: impl Fn(Point) -> (f64, f64)) -> Self {
        // Where a size is at its latest, and what the ratio may be there.
        let latest = |point: &Point| {
            let shift = margin * error_of(*point).1;
            // Nothing can be hit without a cache.
            let size = if point.size == 0 { 0.0 } else { point.size as f64 + shift.max(0.0) };
            Point { size: size.ceil() as u64, ..*point }
        };
        let mut later: Vec<Point> = self.points.iter().map(latest).collect();
        later.sort_by(|one, other| {
            one.size.cmp(&other.size).then(one.miss_ratio.total_cmp(&other.miss_ratio))
        });
        let mut least = 1.0_f64;
        later.retain(|point| {
            let falls = point.size == 0 || point.miss_ratio < least;
            least = least.min(point.miss_ratio);
            falls
        });
        later.dedup_by_key(|point| point.size);
        // The higher ratio of two curves, at the points of either.
        let mut higher: Vec<(u64, f64)> = self
            .points
            .iter()
            .map(|point| (point.size, (point.miss_ratio + margin * error_of(*point).0).min(1.0)))
            .collect();
        let mut highest = 0.0_f64;
        for (_, ratio) in higher.iter_mut().rev() {
            highest = highest.max(*ratio);
            *ratio = highest;
        }
        let at = |curve: &[(u64, f64)], size: u64| {
            let above = curve.partition_point(|point| point.0 <= size);
            curve.get(above.wrapping_sub(1)).map_or(1.0, |point| point.1)
        };
        let later: Vec<(u64, f64)> =
            later.iter().map(|point| (point.size, point.miss_ratio)).collect();
        let mut sizes: Vec<u64> = later.iter().chain(&higher).map(|point| point.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut points: Vec<Point> = sizes
            .into_iter()
            .map(|size| Point { size, miss_ratio: at(&later, size).max(at(&higher, size)) })
            .collect();
        points.dedup_by(|point, before| point.miss_ratio >= before.miss_ratio);
        Self { points, requests: self.requests }
    }

    /// The miss ratio of a cache of that size.
    pub fn miss_ratio(&self, size: u64) -> f64 {
        let above = self.points.partition_point(|point| point.size <= size);
        self.points[above - 1].miss_ratio
    }

    /// The least cache size with at most that miss ratio, if there is one.
    pub fn size_for(&self, miss_ratio: f64) -> Option<u64> {
        let place = self.points.partition_point(|point| point.miss_ratio > miss_ratio);
        self.points.get(place).map(|point| point.size)
    }

    /// The lower convex hull: no point is above a line between two others. Interpolate linearly
    /// between its points.
    pub fn hull(&self) -> Vec<Point> {
        let mut hull: Vec<Point> = Vec::new();
        for point in &self.points {
            while let [.., first, second] = hull[..]
                && !turns_up(first, second, *point)
            {
                hull.pop();
            }
            hull.push(*point);
        }
        hull
    }

    /// The total miss ratio of a cache that is divided by fixed shares of its size, in proportion
    /// to the weights of `parts`: shards of a cache with a part of the keys each and equal memory,
    /// or the slab classes of memcached (ElCached §3).
    ///
    /// `None` if there are no requests.
    pub fn divided(parts: &[(Self, f64)]) -> Option<Self> {
        let all: f64 = parts.iter().map(|(_, share)| share).sum();
        let requests: f64 = parts.iter().map(|(curve, _)| curve.requests).sum();
        if requests <= 0.0 || all <= 0.0 {
            return None;
        }
        // The total size at which a part reaches one of its points.
        let mut steps = Vec::new();
        let mut misses = 0.0;
        for (curve, share) in parts.iter().filter(|(curve, _)| curve.requests > 0.0) {
            misses += curve.points[0].miss_ratio * curve.requests;
            for pair in curve.points.windows(2) {
                let size = pair[1].size as f64 * all / share;
                if size < u64::MAX as f64 {
                    let fewer = (pair[0].miss_ratio - pair[1].miss_ratio) * curve.requests;
                    steps.push((size.ceil() as u64, fewer));
                }
            }
        }
        steps.sort_unstable_by_key(|(size, _)| *size);
        let ratio = |misses: f64| (misses / requests).clamp(0.0, 1.0);
        let mut points = vec![Point { size: 0, miss_ratio: ratio(misses) }];
        for (size, fewer) in steps {
            misses -= fewer;
            let Some(last) = points.last_mut() else { break };
            // Rounding alone could make it rise.
            let miss_ratio = ratio(misses).min(last.miss_ratio);
            match last.size == size {
                true => last.miss_ratio = miss_ratio,
                false => points.push(Point { size, miss_ratio }),
            }
        }
        Self::new(points, requests).ok()
    }

    /// At most `most` of its points, from the first to the last, spread evenly by the logarithm of
    /// the size; between them it is above the original, as every curve is.
    pub fn thinned(&self, most: usize) -> Self {
        let [.., last] = self.points[..] else { return self.clone() };
        if self.points.len() <= most.max(2) {
            return self.clone();
        }
        let steps = most.max(2) - 1;
        let first = self.points[1].size.max(1) as f64;
        let ratio = (last.size as f64 / first).powf(1.0 / (steps as f64 - 1.0).max(1.0));
        let mut points = vec![self.points[0]];
        for step in 0..steps {
            let size = (first * ratio.powi(step as i32)).round() as u64;
            let size = if step + 1 == steps { last.size } else { size };
            let place = self.points.partition_point(|point| point.size <= size).max(1) - 1;
            if points.last().is_some_and(|before| before.size < self.points[place].size) {
                points.push(self.points[place]);
            }
        }
        Self { points, requests: self.requests }
    }

    /// The points of `coarse`, a subset of these, and those of the others that are no further from
    /// any of `sizes` than its next few neighbours in `coarse`: all of them, or about `most`.
    pub(crate) fn closer(&self, coarse: &Self, sizes: &[u64], most: usize) -> Self {
        let mut points = coarse.points.clone();
        for &size in sizes {
            let place = coarse.points.partition_point(|point| point.size <= size);
            let before = place.saturating_sub(1 + NEIGHBOURS);
            let from = coarse.points.get(before).map_or(0, |point| point.size);
            let behind = coarse.points.get(place + NEIGHBOURS - 1);
            let to = behind.map_or(u64::MAX, |point| point.size);
            let first = self.points.partition_point(|point| point.size <= from);
            let end = self.points.partition_point(|point| point.size < to);
            let between = &self.points[first..end.max(first)];
            let step = (between.len() * sizes.len()).div_ceil(most.max(1)).max(1);
            points.extend(between.iter().step_by(step));
        }
        points.sort_unstable_by_key(|point| point.size);
        points.dedup();
        Self { points, requests: self.requests }
    }

    /// The mean absolute error with respect to another curve, over `sizes` sizes spread evenly up
    /// to the larger one's last point, as in the literature.
    pub fn mean_absolute_error(&self, other: &Self, sizes: u32) -> f64 {
        let last = |curve: &Self| curve.points.last().map_or(0, |point| point.size);
        let end = last(self).max(last(other)) as f64;
        let at = |step: u32| (end * f64::from(step) / f64::from(sizes)) as u64;
        let apart = |size: u64| (self.miss_ratio(size) - other.miss_ratio(size)).abs();
        (1..=sizes).map(|step| apart(at(step))).sum::<f64>() / f64::from(sizes.max(1))
    }
}

/// Whether the path from `first` over `second` to `third` turns upwards.
fn turns_up(first: Point, second: Point, third: Point) -> bool {
    let slope =
        |from: Point, to: Point| (to.miss_ratio - from.miss_ratio) / (to.size - from.size) as f64;
    slope(first, second) < slope(second, third)
}

#[cfg(test)]
mod tests;
