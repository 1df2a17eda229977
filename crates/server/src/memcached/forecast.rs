//! What caches of other sizes would miss, as it is told: in `stats mrc`, in `/metrics` and in
//! `/api/stats`.
//!
//! Each tenant has a curve of its last window, or of the one that runs where that is the first; none
//! where nothing was asked for.

use std::fmt::Write;

use serde_json::{Value, json};
use tidekv_plan::Curve;
use tidekv_tiered::{ReadTimes, TenantStats};

use crate::curves::Told;
use crate::memcached::state::State;
use crate::metrics::Kind::Gauge;
use crate::prometheus;

/// Points of a curve that are told in `stats mrc`.
const POINTS_MAX: usize = 400;
/// Points that a page draws.
const POINTS_DRAWN: usize = 100;
/// In `/metrics` a curve has a point for each power of two, from this one on.
const METRIC_POWER_MIN: u32 = 20;
/// The metric.
pub(crate) const METRIC: (&str, &str) = (
    "tidekv_cache_tenant_predicted_miss_ratio",
    "What a cache of so many bytes of DRAM and flash together would have missed of the tenant's requests in the last window, by their reuse distances.",
);

/// A tenant, and what was seen of his requests.
struct Forecast {
    stats: TenantStats,
    told: Told,
}

/// Those of whom something is known.
fn forecasts(state: &State) -> Vec<Forecast> {
    let Some(curves) = &state.curves else { return Vec::new() };
    let tenants = state.objects.cache.tenant_stats().into_iter().enumerate();
    let of = |(tenant, stats)| Some(Forecast { told: curves.told(tenant)?, stats });
    tenants.filter_map(of).collect()
}

/// How long requests take, in microseconds: those that DRAM answers, half of them at most, and what
/// flash adds, on average; `None` where there was none.
fn latencies_us(state: &State) -> (Option<f64>, Option<f64>) {
    let requests = state.latency.summary();
    let mut reads = ReadTimes::default();
    state.objects.cache.device_stats().iter().for_each(|device| reads.add(&device.read_times));
    let memory_us = (requests.count > 0).then(|| requests.p50_ns as f64 / 1e3);
    let flash_us = (reads.count() > 0).then(|| reads.sum_ns() as f64 / reads.count() as f64 / 1e3);
    (memory_us, flash_us)
}

impl Forecast {
    /// What is known beside the curve, by its names; numbers with so many places.
    fn facts(&self) -> Vec<(&'static str, usize, f64)> {
        let told = &self.told;
        let mut facts = vec![
            ("window", 0, told.window as f64),
            ("seconds", 3, told.seconds),
            ("requests", 0, told.curve.requests()),
            ("sampled", 6, told.sampled),
            ("lost", 0, told.lost as f64),
            ("dram_bytes_max", 0, self.stats.cache.dram_bytes_max as f64),
            ("flash_dram_bytes", 0, self.stats.flash_dram_bytes as f64),
            ("flash_bytes_max", 0, self.stats.flash_bytes_max as f64),
        ];
        facts.extend(told.object_bytes.map(|bytes| ("object_bytes", 1, bytes)));
        facts.extend(told.backend_us.map(|us| ("backend_us", 1, us)));
        facts
    }
}

/// `stats mrc`.
pub(crate) fn lines(state: &State, text: &mut String) {
    let (memory_us, flash_us) = latencies_us(state);
    for (name, us) in [("memory_us", memory_us), ("flash_us", flash_us)] {
        if let Some(us) = us {
            let _ = write!(text, "STAT {name} {us:.1}\r\n");
        }
    }
    for forecast in forecasts(state) {
        let name = &forecast.stats.name;
        for (fact, places, number) in forecast.facts() {
            let _ = write!(text, "STAT {name}:{fact} {number:.places$}\r\n");
        }
        for point in forecast.told.curve.thinned(POINTS_MAX).points() {
            let _ = write!(text, "STAT {name}:mr:{} {:.6}\r\n", point.size, point.miss_ratio);
        }
    }
}

/// Curves for `/api/stats`, in the order of tenants.
pub(crate) fn to_json(state: &State) -> Value {
    let of = |forecast: Forecast| {
        let facts = forecast.facts().into_iter();
        let mut told: serde_json::Map<String, Value> =
            facts.map(|(name, _, number)| (name.to_owned(), json!(number))).collect();
        let curve = forecast.told.curve.thinned(POINTS_DRAWN);
        let points = curve.points().iter().map(|point| json!([point.size, point.miss_ratio]));
        told.insert("points".into(), points.collect());
        told.insert("name".into(), json!(forecast.stats.name));
        Value::Object(told)
    };
    forecasts(state).into_iter().map(of).collect()
}

/// Curves for Prometheus.
pub(crate) fn write_metrics(out: &mut String, state: &State) {
    let forecasts = forecasts(state);
    if forecasts.is_empty() {
        return;
    }
    prometheus::head(out, METRIC.0, Gauge, METRIC.1);
    for Forecast { stats, told } in &forecasts {
        for bytes in sizes(&told.curve) {
            let labels = [("tenant", &*stats.name), ("bytes", &bytes.to_string())];
            prometheus::line(out, METRIC.0, &labels, told.curve.miss_ratio(bytes));
        }
    }
}

/// Powers of two up to where the curve ends, and at least one.
fn sizes(curve: &Curve) -> impl Iterator<Item = u64> {
    let last = curve.points().last().map_or(0, |point| point.size);
    let powers = METRIC_POWER_MIN..u64::BITS;
    let end = powers.clone().find(|power| 1 << power >= last).unwrap_or(u64::BITS - 1);
    (METRIC_POWER_MIN..=end).map(|power| 1 << power)
}

#[cfg(test)]
mod tests {
    use tidekv_plan::Point;

    use super::*;

    #[test]
    fn metrics_have_the_powers_of_two_up_to_the_end() {
        let of = |size| {
            let curve = Curve::new([Point { size, miss_ratio: 0.5 }], 1.0).expect("it is one");
            sizes(&curve).map(|bytes| bytes >> 20).collect::<Vec<_>>()
        };
        assert_eq!(of(1), [1]);
        assert_eq!(of(1 << 20), [1]);
        assert_eq!(of((4 << 20) + 1), [1, 2, 4, 8]);
        assert_eq!(of(u64::MAX).len(), 44);
    }
}
