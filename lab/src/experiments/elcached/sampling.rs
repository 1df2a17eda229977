//! The parts of `elcached-accuracy` about samples: the distance of the curve of a sample of the
//! keys from that of all keys, and the number of requests per second that a processor profiles.
//!
//! | subject | description |
//! |---|---|
//! | `tidekv:shards-rate` | one key of a hundred, compared with all keys; the rows also report its error by these keys alone |
//! | `tidekv:shards-size` | at most 8192 objects, for any trace |
//!
//! The error is the mean absolute error over a thousand evenly spaced sizes up to that of all
//! objects, as in the literature. The rows also report the error of the curve of bytes, which uses
//! the sample alone. Requests are generated a million at a time and passed to each profile as in
//! `tidekv profile`, a thousand at a time out of a small buffer; only the profile's own time
//! counts.

use std::sync::Arc;

use tidekv_io::{Clock, SystemClock};
use tidekv_plan::{Access, Curve, DEFAULT_SAMPLE_SIZE, Profiler, Sampler};
use tidekv_testkit::evidence::Value;

use crate::experiment::{Found, Model, Params, Point, Rule, Target};
use crate::experiments::elcached::cost::modelled;
use crate::experiments::elcached::workload::{self, Law, SETTINGS};
use crate::failure::Result;
use crate::scale::Scale;

const OF_RATE: &str = "tidekv:shards-rate";
const OF_SIZE: &str = "tidekv:shards-size";

/// The judged metrics of each.
const BY_RATE: &str = "fixed-rate";
const BY_SIZE: &str = "fixed-size";

const RATE: f64 = 0.01;
/// Requests generated at a time.
const AT_ONCE: usize = 1 << 20;
/// Requests passed to a profile at a time.
const HANDED: usize = 1 << 10;
/// Sizes at which curves are compared.
const SIZES: u32 = 1_000;

#[derive(Debug)]
struct Sampling {
    law: Law,
    shrink: u64,
    /// The number of the workload's requests.
    requests: usize,
}

/// A profile, and its time.
struct Timed {
    sampler: Sampler,
    /// The same with bytes, which is not timed.
    of_bytes: Sampler,
    handed: Vec<Access>,
    ns: u64,
    bytes_max: usize,
}

impl Timed {
    fn new(make: impl Fn() -> Sampler) -> Self {
        let (sampler, of_bytes) = (make(), make().with_bytes());
        Self { sampler, of_bytes, handed: Vec::with_capacity(HANDED), ns: 0, bytes_max: 0 }
    }

    fn record(&mut self, requests: &[Access], clock: &SystemClock) {
        for some in requests.chunks(HANDED) {
            self.handed.clear();
            self.handed.extend_from_slice(some);
            let from_ns = clock.monotonic_ns();
            self.sampler.record_all(&self.handed);
            self.ns += clock.monotonic_ns() - from_ns;
        }
        self.of_bytes.record_all(requests);
        self.bytes_max = self.bytes_max.max(self.sampler.memory_bytes());
    }
}

impl Model for Sampling {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let clock = SystemClock::new();
        let mut all = Profiler::new(SETTINGS);
        let mut samples = [
            (OF_RATE, BY_RATE, Timed::new(|| Sampler::of_rate(RATE, SETTINGS))),
            (OF_SIZE, BY_SIZE, Timed::new(|| Sampler::of_size(DEFAULT_SAMPLE_SIZE, SETTINGS))),
        ];
        let requests = workload::accesses(self.law, self.shrink, seed);
        let mut requests = requests.take(self.requests);
        let mut some = Vec::with_capacity(AT_ONCE);
        loop {
            some.clear();
            some.extend(requests.by_ref().take(AT_ONCE));
            if some.is_empty() {
                break;
            }
            samples.iter_mut().for_each(|(_, _, timed)| timed.record(&some, &clock));
            some.iter().for_each(|access| all.record(access));
        }
        let exact = all.curve();
        let exact_bytes = all.byte_curve();
        let error_of = |curve: Curve| exact.mean_absolute_error(&curve, SIZES);
        let error_of_bytes = |sampler: &Sampler| {
            let curves = exact_bytes.as_ref().zip(sampler.byte_curve());
            curves.map(|(exact, curve)| exact.mean_absolute_error(&curve, SIZES))
        };
        let found = |(subject, phase, timed): (_, &str, Timed)| {
            let params = Params::from([("phase".to_owned(), Value::from(phase))]);
            let seconds = timed.ns as f64 / 1e9;
            let mut metrics = vec![
                ("mean_absolute_error", error_of(timed.sampler.curve())),
                ("mean_absolute_error_sampled", error_of(timed.sampler.sampled_curve())),
                ("profiled_per_s", exact.requests() / seconds),
                ("profile_bytes", timed.bytes_max as f64),
            ];
            let of_bytes = error_of_bytes(&timed.of_bytes);
            metrics.extend(of_bytes.map(|error| ("mean_absolute_error_bytes", error)));
            Found { subject, params, metrics }
        };
        Ok(samples.into_iter().map(found).collect())
    }
}

/// The parts.
pub(super) fn points(scale: &Scale) -> Vec<Point> {
    // With fewer keys a hundredth contains fewer hot ones, and the error is larger.
    let (shrink, requests) = if scale.is_quick { (200, 4_000_000) } else { (1, 100_000_000) };
    let of = |(law, part)| {
        let model = Arc::new(Sampling { law, shrink, requests });
        modelled(scale, part, shrink, model).with("requests", requests as u64)
    };
    [(Law::Zipf, "samples zipf"), (Law::Exponential, "samples exponential")].map(of).into()
}

/// Their metrics.
pub(super) const TARGETS: [Target; 4] = [
    Target::in_phase(BY_RATE, "mean_absolute_error", Rule::AtMost(0.001)),
    Target::in_phase(BY_RATE, "profiled_per_s", Rule::AtLeast(60e6)),
    Target::in_phase(BY_SIZE, "mean_absolute_error", Rule::AtMost(0.01)),
    Target::in_phase(BY_SIZE, "profile_bytes", Rule::AtMost((2 << 20) as f64)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_near_the_whole() {
        let found = Sampling { law: Law::Exponential, shrink: 2_000, requests: usize::MAX }.run(1);
        for Found { subject, metrics, .. } in found.expect("nothing fails") {
            let metric = |name: &str| metrics.iter().find(|metric| metric.0 == name).map(|it| it.1);
            // A few hundred objects.
            for error in ["mean_absolute_error", "mean_absolute_error_bytes"].map(metric) {
                assert!(error.is_some_and(|error| error < 0.1), "{subject}: {metrics:?}");
            }
            assert!(metric("profile_bytes") < Some((2 << 20) as f64), "{subject}: {metrics:?}");
        }
    }
}
