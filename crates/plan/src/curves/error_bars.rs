//! The standard error of a sampled curve, by random groups (Wolter, *Introduction to Variance
//! Estimation*, chapter 2).
//!
//! The keys of the sample are divided at random into [`GROUPS`] groups, each of which is a smaller
//! sample of its own, with its own curve. At each cache size, the deviations of these curves from
//! each other tell that of the whole sample:
//!
//! ```text
//! error² = Σ (curve of a group − their mean)² / (GROUPS · (GROUPS − 1))
//! ```
//!
//! This includes every effect of the choice of keys: how popular they are, how large, and how many of
//! them lie between two requests. It says nothing of what the trace does not have, such as the load of
//! another day. A sample that is corrected by counts over all keys is better than this says.
//!
//! The groups have the objects of the sample and no others: where it drops one, so do they. Costs a
//! second stack of the same number of objects.

use std::array;

use crate::curves::access::Access;
use crate::curves::curve::{Curve, Point};
use crate::curves::distances::Distances;
use crate::curves::profiler::{Order, RequestClass, Settings};

/// With eight, the error is itself off by about a quarter (1/√14); with more, each group of a server's
/// sample would have fewer than a thousand keys.
const GROUPS: usize = 8;

/// The groups of a sample.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: [Group; GROUPS],
}

#[derive(Debug)]
struct Group {
    order: Order,
    /// Among the keys of the group, scaled to those of all keys.
    distances: Distances,
}

impl Groups {
    pub(crate) fn new(settings: Settings) -> Self {
        let group = |_| Group { order: Order::new(settings), distances: Distances::default() };
        Self { groups: array::from_fn(group) }
    }

    fn of(&mut self, key: u64) -> &mut Group {
        // Bits that neither the sampling hash nor shards depend on as a whole.
        let mixed = (key ^ key >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        &mut self.groups[mixed as usize % GROUPS]
    }

    /// Records a request for a key of the sample. `scaled_up` is that of the whole sample.
    pub(crate) fn record(&mut self, access: &Access, scaled_up: impl Fn(u64) -> u64) {
        let group = self.of(access.key);
        match group.order.record(access) {
            RequestClass::Nothing => {}
            RequestClass::Reuse(place) => {
                let distance = scaled_up(place.depth).saturating_mul(GROUPS as u64);
                group.distances.reuse(distance, None);
            }
            RequestClass::Miss => group.distances.miss(None),
        }
    }

    /// Removes an object that left the sample.
    pub(crate) fn drop_out(&mut self, key: u64) {
        self.of(key).order.drop_out(key);
    }

    /// The number of objects.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.order.len()).sum()
    }

    /// Multiplies all counts so far by `factor`.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.groups.iter_mut().for_each(|group| group.distances.scale(factor));
    }

    /// The errors of a sample that was expected to have this many requests.
    pub(crate) fn error_bars(&self, expected: f64) -> ErrorBars {
        let of_group = expected / GROUPS as f64;
        let curve = |group: &Group| group.distances.curve(of_group - group.distances.requests());
        ErrorBars { curves: self.groups.each_ref().map(curve) }
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of = |group: &Group| group.order.memory_bytes() + group.distances.memory_bytes();
        size_of::<Self>() + self.groups.iter().map(of).sum::<usize>()
    }
}

/// The standard errors of a sampled curve.
#[derive(Debug, Clone)]
pub struct ErrorBars {
    curves: [Curve; GROUPS],
}

impl ErrorBars {
    /// The standard error of the miss ratio of a cache of that size.
    pub fn miss_ratio_error(&self, size: u64) -> f64 {
        standard_error(self.curves.each_ref().map(|curve| curve.miss_ratio(size)))
    }

    /// The standard error of the least size with that miss ratio, in the unit of sizes. Large where
    /// the curve is flat; that of the miss ratio ([`Self::miss_ratio_error`]) is what counts there.
    pub fn size_error(&self, miss_ratio: f64) -> f64 {
        let last = |curve: &Curve| curve.points().last().map_or(0, |point| point.size);
        let size = |curve: &Curve| curve.size_for(miss_ratio).unwrap_or_else(|| last(curve)) as f64;
        standard_error(self.curves.each_ref().map(size))
    }

    /// The errors of a point: of its miss ratio, and of its size.
    pub fn of(&self, point: Point) -> (f64, f64) {
        (self.miss_ratio_error(point.size), self.size_error(point.miss_ratio))
    }
}

/// That of the mean of these values.
fn standard_error(values: [f64; GROUPS]) -> f64 {
    let mean = values.iter().sum::<f64>() / GROUPS as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (GROUPS * (GROUPS - 1)) as f64).sqrt()
}
