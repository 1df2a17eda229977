//! The effect of the window length on the curve and on the plan: the part `windows` of
//! `elcached-elastic`.
//!
//! A server's profile ([`WindowedProfiler`]) processes consecutive windows of a constant workload, whose true
//! curve is known from all of its requests. Each window's plan is compared with that: its real
//! latency with the target, and its cost with the best plan.

use std::sync::Arc;

use tidekv_plan::{
    Bounds, Curve, DEFAULT_POINTS, DEFAULT_SAMPLE_SIZE, Expiry, Goal, Latencies, PlanRequest,
    Prices, Settings, Tenant, Unit, Window, WindowedProfiler, plan_exactly, sample_hash,
};
use tidekv_testkit::evidence::Value;

use crate::experiment::{Figure, Found, Model, Params, Point, Shape};
use crate::experiments::elcached::cost::{modelled, shrink};
use crate::experiments::elcached::workload::{self, Law};
use crate::failure::{Failure, Result};
use crate::scale::Scale;

const WATCH: &str = "tidekv:watch";
/// The latency target of plans, in microseconds.
const SLA_US: f64 = 300.0;
/// Requests of a window.
const LENGTHS: [u64; 6] = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000];
/// The number of windows of each length.
const WINDOWS: usize = 6;
/// The maximum sample of a server.
const OBJECTS_MAX: usize = 2 * DEFAULT_SAMPLE_SIZE;
const SETTINGS: Settings = Settings { unit: Unit::Bytes, expiry: Expiry::Ignored };
/// The largest cache considered.
const SIZE_MAX: u64 = 1 << 40;

#[derive(Debug)]
struct Windows {
    law: Law,
    shrink: u64,
}

impl Windows {
    fn tenant(&self, curve: Curve) -> Tenant {
        Tenant {
            latencies: Latencies::DEFAULT,
            sla_us: Some(SLA_US),
            ..Tenant::new(self.law.name(), curve)
        }
    }

    /// The sizes in a plan by this curve: DRAM, and flash.
    fn planned(&self, curve: Curve) -> Option<(u64, u64)> {
        let request = PlanRequest {
            tenants: vec![self.tenant(curve)],
            prices: Prices::DEFAULT,
            bounds: Bounds::default(),
            goal: Goal::Cost,
        };
        let plan = plan_exactly(&request, DEFAULT_POINTS).ok()?;
        Some((plan.tenants[0].memory_bytes, plan.tenants[0].flash_bytes))
    }

    /// The misses of warm caches: of the second half of all requests, each simulated.
    fn truth(&self, seed: u64) -> Option<Curve> {
        let mut watch = WindowedProfiler::new(usize::MAX / 16, SIZE_MAX, SETTINGS);
        let half = workload::requests(self.shrink) / 2;
        let mut accesses = workload::accesses(self.law, self.shrink, seed);
        let mut window = || {
            accesses.by_ref().take(half as usize).for_each(|access| watch.record(&access));
            watch.end_window(Window { requests: half, lost: 0 })
        };
        window();
        window()
    }

    fn of_length(&self, length: u64, truth: &Curve, best: f64, seed: u64) -> Option<Found> {
        let mut watch = WindowedProfiler::new(OBJECTS_MAX, SIZE_MAX, SETTINGS);
        let mut accesses = workload::accesses(self.law, self.shrink, seed);
        let tenant = self.tenant(truth.clone());
        let (mut errors, mut latencies, mut costs, mut windows) = (0.0, 0.0_f64, 0.0, 0);
        // Half of all requests warm it up, as in a long-running server.
        let learnt = workload::requests(self.shrink) / 2;
        for access in accesses.by_ref().take(learnt as usize) {
            watch.record(&access);
        }
        watch.end_window(Window { requests: learnt, lost: 0 });
        while windows < WINDOWS {
            let mut requests = 0;
            for access in accesses.by_ref().take(length as usize) {
                requests += 1;
                if sample_hash(access.key) < watch.threshold() {
                    watch.record(&access);
                }
            }
            if requests < length {
                break;
            }
            let curve = watch.end_window(Window { requests, lost: 0 })?;
            errors += curve.mean_absolute_error(truth, 1_000);
            windows += 1;
            // A window without a feasible plan takes the maximum sizes.
            let Some((memory, flash)) = self.planned(curve) else { continue };
            let really = tenant.allot(memory, flash, Prices::DEFAULT);
            latencies = latencies.max(really.latency_us / SLA_US);
            costs += really.cost / best;
        }
        let params: Params =
            [("phase", Value::from(self.law.name())), ("window_requests", length.into())]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        let metrics = vec![
            ("mean_absolute_error", errors / windows as f64),
            ("latency_to_asked", latencies),
            ("cost_to_searched", costs / windows as f64),
        ];
        (windows > 0).then_some(Found { subject: WATCH, params, metrics })
    }
}

impl Model for Windows {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let Some(truth) = self.truth(seed) else {
            return Err(Failure::new("there are no requests"));
        };
        let best = self.planned(truth.clone()).ok_or_else(|| Failure::new("there is no plan"))?;
        let best = self.tenant(truth.clone()).allot(best.0, best.1, Prices::DEFAULT).cost;
        let of = |length: &u64| self.of_length(*length, &truth, best, seed + 1);
        Ok(LENGTHS.iter().filter_map(of).collect())
    }
}

pub(super) fn points(scale: &Scale) -> Vec<Point> {
    let shrink = shrink(scale);
    let of = |law: Law| {
        let part = match law {
            Law::Zipf => "windows zipf",
            Law::Exponential => "windows exponential",
        };
        modelled(scale, part, shrink, Arc::new(Windows { law, shrink }))
    };
    Law::ALL.map(of).into()
}

pub(super) const FIGURES: [Figure; 2] = [
    Figure {
        title: "Mean absolute error of a curve",
        metric: "mean_absolute_error",
        x: "window_requests",
        y: "",
        shape: Shape::Subjects,
    },
    Figure {
        title: "Maximum latency of a window's plan by the true curve, relative to the target",
        metric: "latency_to_asked",
        x: "window_requests",
        y: "",
        shape: Shape::Subjects,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_windows_have_smaller_errors() {
        let windows = Windows { law: Law::Zipf, shrink: 1_000 };
        let truth = windows.truth(1).expect("there are requests");
        let error = |length| {
            let found = windows.of_length(length, &truth, 1.0, 2).expect("there are windows");
            found.metrics[0].1
        };
        let (short, long) = (error(3_000), error(100_000));
        assert!(long < short && long < 0.02, "{long} and {short}");
    }
}
