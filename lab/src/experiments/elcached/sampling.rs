//! Of `elcached-accuracy`, the parts about samples: how far the curve of a sample of the keys is from
//! that of all, and how many requests a processor profiles in a second.
//!
//! | subject | what it is |
//! |---|---|
//! | `tidekv:shards-rate` | one key of a hundred, held against what is known of all; what its error would be by these keys alone is told as well |
//! | `tidekv:shards-size` | at most 8192 objects, whatever the trace |
//!
//! The error is the mean absolute one, over a thousand sizes that are spread evenly up to that of
//! everything: as the literature has it. That of the curve of bytes, which is by the sample alone, is told as well.
//! Requests are drawn a million at a time, and handed to each profile as `tidekv profile`
//! does, a thousand at a time out of a small buffer; of that only the profile's own time counts.

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

/// What is judged of each.
const BY_RATE: &str = "fixed-rate";
const BY_SIZE: &str = "fixed-size";

const RATE: f64 = 0.01;
/// Requests that are drawn at a time.
const AT_ONCE: usize = 1 << 20;
/// Requests that are handed to a profile at a time.
const HANDED: usize = 1 << 10;
/// Sizes at which curves are held against each other.
const SIZES: u32 = 1_000;

#[derive(Debug)]
struct Sampling {
    law: Law,
    shrink: u64,
    /// So many of the workload's requests.
    requests: usize,
}

/// A profile, and the time that it has taken.
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
    // With fewer keys there are fewer hot ones in a hundredth of them, and it is further off.
    let (shrink, requests) = if scale.is_quick { (200, 4_000_000) } else { (1, 100_000_000) };
    let of = |(law, part)| {
        let model = Arc::new(Sampling { law, shrink, requests });
        modelled(scale, part, shrink, model).with("requests", requests as u64)
    };
    [(Law::Zipf, "samples zipf"), (Law::Exponential, "samples exponential")].map(of).into()
}

/// What is asked of them.
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
            // Of a few hundred objects.
            for error in ["mean_absolute_error", "mean_absolute_error_bytes"].map(metric) {
                assert!(error.is_some_and(|error| error < 0.1), "{subject}: {metrics:?}");
            }
            assert!(metric("profile_bytes") < Some((2 << 20) as f64), "{subject}: {metrics:?}");
        }
    }
}
