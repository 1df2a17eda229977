//! Predicted and measured miss ratios of caches of several sizes, and their requests.

use std::sync::Arc;

use tidekv_plan::{
    Access, Action, CacheSize, ClassProfiler, Curve, Expiry, GROWTH, LookupResult, Miniature,
    PAGE_BYTES, Profiler, Simulated, SlabClasses,
};
use tidekv_testkit::evidence::Value;

use crate::experiment::{Found, Model, Params, Point};
use crate::experiments::elcached::cost::modelled;
use crate::experiments::elcached::simulated::SimulatedTier;
use crate::experiments::elcached::workload::{self, Law, Sizes};
use crate::failure::Result;
use crate::load::dice::mix;
use crate::machine::parallel::in_parallel;
use crate::scale::Scale;

/// By distances in bytes of keys and values.
pub(super) const BYTE_LRU: &str = "model:byte-lru";

/// Sizes of caches.
const SIZES: usize = 8;
/// Approximate number of processors: the number of sizes measured at a time.
const AT_ONCE: usize = 2;

/// Prediction and measurement of one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    size: u64,
    predicted: f64,
    measured: f64,
}

impl Beside {
    /// The predictions of a curve, and the measurements.
    pub(super) fn all(curve: &Curve, sizes: &[u64], measured: &[f64]) -> Vec<Self> {
        let beside = |(&size, &measured): (&u64, &f64)| Self {
            size,
            predicted: curve.miss_ratio(size),
            measured,
        };
        sizes.iter().zip(measured).map(beside).collect()
    }

    fn error(&self) -> f64 {
        (self.predicted - self.measured).abs() / self.measured
    }

    fn found(&self, subject: &'static str) -> Found {
        let params: Params = [("phase", Value::from("size")), ("mib", (self.size >> 20).into())]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        let metrics = vec![
            ("predicted_miss_ratio", self.predicted),
            ("miss_ratio", self.measured),
            ("relative_error", self.error()),
        ];
        Found { subject, params, metrics }
    }
}

/// The results of a subject: at each size, and on average.
pub(super) fn found_of(subject: &'static str, all: &[Beside]) -> Vec<Found> {
    let mean = all.iter().map(Beside::error).sum::<f64>() / all.len().max(1) as f64;
    let most = all.iter().map(Beside::error).fold(0.0, f64::max);
    let metrics = vec![("mean_relative_error", mean), ("relative_error_most", most)];
    let found = all.iter().map(|beside| beside.found(subject));
    found.chain([Found { subject, params: Params::new(), metrics }]).collect()
}

/// The minimum of memcached, as its largest item is a page.
const PAGES_MIN: u64 = 2;

/// Whole MiB, evenly spaced on a logarithmic scale.
pub(super) fn sizes_from(bytes_max: u64) -> Vec<u64> {
    sizes_between(bytes_max / 32, bytes_max)
}

/// The same from this number of bytes on.
pub(super) fn sizes_between(bytes_min: u64, bytes_max: u64) -> Vec<u64> {
    let (from, to) = (bytes_min as f64, bytes_max as f64 * 0.75);
    let step = (to / from).powf(1.0 / (SIZES - 1) as f64);
    let mib = |number: usize| (from * step.powi(number as i32) / PAGE_BYTES as f64).round();
    let mut sizes: Vec<u64> =
        (0..SIZES).map(|number| (mib(number) as u64).max(PAGES_MIN) * PAGE_BYTES).collect();
    sizes.dedup();
    sizes
}

/// The requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) law: Law,
    pub(super) shrink: u64,
    /// The number of requests.
    pub(super) requests: usize,
}

impl Load {
    pub(super) fn keys(&self, seed: u64) -> impl Iterator<Item = u64> {
        workload::keys(self.law, self.shrink, seed).take(self.requests)
    }

    /// A profile of the slab classes of all requests.
    pub(super) fn slabs(&self, seed: u64) -> ClassProfiler {
        let mut profiler = ClassProfiler::new(SlabClasses::of_growth(GROWTH), Expiry::Ignored);
        for key in self.keys(seed) {
            let Sizes { key_bytes, value_bytes } = workload::sizes_of(key);
            let bytes = SlabClasses::item_bytes(key_bytes, value_bytes);
            profiler.record(&Access::new(mix(key), Action::Load(bytes)));
        }
        profiler
    }

    /// By distances in bytes.
    pub(super) fn byte_lru(&self, seed: u64) -> Curve {
        let mut profiler = Profiler::new(workload::SETTINGS);
        for key in self.keys(seed) {
            let bytes = workload::object_bytes(key);
            profiler.record(&Access::new(mix(key), Action::Load(bytes)));
        }
        profiler.curve()
    }

    pub(super) fn point(self, scale: &Scale, part: &str, model: Arc<dyn Model>) -> Point {
        modelled(scale, part, self.shrink, model).with("requests", self.requests as u64)
    }

    /// The misses of the created caches, by size, in the order of the sizes.
    pub(super) fn measured(
        &self,
        sizes: &[CacheSize],
        seed: u64,
        make: impl Fn(CacheSize) -> Result<SimulatedTier> + Sync,
    ) -> Result<Vec<f64>> {
        let at = |size: &CacheSize, _| -> Result<(u64, f64)> {
            let mut cache = make(*size)?;
            let (mut gets, mut misses) = (0_u64, 0_u64);
            for key in self.keys(seed) {
                gets += 1;
                misses += u64::from(cache.record(&key) == Some(LookupResult::Miss));
            }
            Ok((size.bytes(), misses as f64 / gets as f64))
        };
        let all: Result<Vec<(u64, f64)>> = in_parallel(AT_ONCE, sizes, at).into_iter().collect();
        let mut all = all?;
        all.sort_unstable_by_key(|(size, _)| *size);
        Ok(all.into_iter().map(|(_, ratio)| ratio).collect())
    }

    /// The predicted misses of caches, by simulated small caches for this fraction of the keys.
    pub(super) fn predicted(
        &self,
        sizes: &[CacheSize],
        seed: u64,
        rate: f64,
        make: impl Fn(CacheSize) -> Result<SimulatedTier>,
    ) -> Result<Curve> {
        let mut miniature = Miniature::new(rate, sizes, |in_small, _| make(in_small))?;
        for key in self.keys(seed) {
            miniature.record(mix(key), true, &key);
        }
        Ok(miniature.curve())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_each_size_and_their_mean() {
        let beside = |size: u64, predicted| Beside { size: size << 20, predicted, measured: 0.2 };
        let found = found_of("it", &[beside(1, 0.2), beside(4, 0.19), beside(9, 0.21)]);
        let metric = |found: &Found, name: &str| {
            found.metrics.iter().find(|metric| metric.0 == name).map(|metric| metric.1)
        };
        assert_eq!(found.len(), 4);
        assert_eq!(found[1].params["mib"], 4);
        assert!((metric(&found[2], "relative_error").expect("it is there") - 0.05).abs() < 1e-9);
        let mean = metric(&found[3], "mean_relative_error").expect("it is there");
        assert!((mean - 0.1 / 3.0).abs() < 1e-9, "{mean}");
        assert_eq!(sizes_from(320 << 20).first(), Some(&(10 << 20)));
        assert_eq!(sizes_from(320 << 20).last(), Some(&(240 << 20)));
    }
}
