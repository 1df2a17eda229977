//! `elcached-cost`: the least cost at which a latency is kept, with DRAM and flash in whatever ratio,
//! and in one that is fixed (Figure 3).
//!
//! | subject | what it is |
//! |---|---|
//! | `tidekv:plan` | the plan of `tidekv plan`, by the curve's own points |
//! | `tidekv:plan-hull` | the linear program on its hull, what it costs by that and what the curve makes of it |
//! | `proportional` | DRAM and flash as 1 to 4 |
//!
//! `cost_to_searched` is held against a search through every point of the curve for DRAM, with the
//! least flash that will do for each: no plan can cost less. `latency_error` is how far the latency of a
//! plan is from that of other requests by the same law, every one of which is followed through caches
//! of its sizes. The paper states no times and no prices ([`terms`](crate::elcached::terms)): what it saves is asked of
//! the usual ones, of those with flash that is sooner and a back end that is later, and of those that its own example
//! has. The last are of all its requests (parts `whole …`, half an hour each and 5 GB of memory), and of objects as memcached has them.

use std::sync::Arc;

use tidekv_evidence::Value;
use tidekv_plan::{
    Allotment, Bounds, Curve, Goal, Latencies, POINTS_USUAL, Plan, Prices, Question, Tenant,
    plan_exactly, plan_on_hull,
};

use crate::elcached::terms::{EXAMPLE, FLASH_FOR_DRAM, PAPERS, SOONER, TERMS, Terms, USUAL};
use crate::elcached::workload::{self, Law};
use crate::engine::filling;
use crate::experiment::{
    Experiment, Figure, Found, Model, Params, Point, Rule, Shape, Subjects, Target,
};
use crate::failure::{Failure, Result};
use crate::keys::Choice;
use crate::scale::{self, Scale};

/// The plan by a curve's own points.
pub(super) const PLAN: &str = "tidekv:plan";
const PLAN_HULL: &str = "tidekv:plan-hull";
/// DRAM and flash in a fixed ratio.
pub(super) const PROPORTIONAL: &str = "proportional";

/// Latencies that are to be kept, in microseconds.
const SLAS: &[f64] =
    &[150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1_000.0];

/// By Zipf's law, and of short and of long latencies by the exponential one: by the usual terms.
const PHASES: [&str; 3] = ["zipf", "exponential-to-250us", "exponential-from-300us"];
/// The same with sooner flash.
const SOONER_PHASES: [&str; 3] = [
    "zipf-sooner-flash",
    "exponential-to-250us-sooner-flash",
    "exponential-from-300us-sooner-flash",
];
/// The same by the terms of the paper's example.
const EXAMPLE_PHASES: [&str; 3] =
    ["zipf-example", "exponential-to-250us-example", "exponential-from-300us-example"];
/// How far the terms are from the example.
const EXAMPLE_PHASE: &str = "example";
/// Of other terms nothing is asked.
pub(super) const OTHER_TERMS: &str = "other-terms";

#[derive(Debug)]
struct Costs {
    law: Law,
    shrink: u64,
    /// Points of the curve that are looked at at a time.
    points: usize,
    terms: &'static [Terms],
    /// What the object of a key takes, in bytes.
    bytes: fn(u64) -> u64,
}

/// The least that a latency costs, found by looking at every point.
fn searched(tenant: &Tenant, prices: Prices) -> Option<Allotment> {
    let sla_us = tenant.sla_us?;
    let Latencies { memory_us, flash_us, backend_us } = tenant.latencies;
    let with = |memory: u64, memory_misses: f64| {
        let misses = (sla_us - memory_us - flash_us * memory_misses) / backend_us;
        let all = tenant.curve.size_for(misses)?.max(memory);
        Some(tenant.allot(memory, all - memory, prices))
    };
    let points = tenant.curve.points().iter();
    let all = points.filter_map(|point| with(point.size, point.miss_ratio));
    all.min_by(|one, other| one.cost.total_cmp(&other.cost))
}

/// What an allotment is, as rows have it.
pub(super) fn metrics_of(gets: &Allotment) -> Vec<(&'static str, f64)> {
    vec![
        ("cost", gets.cost),
        ("plan_dram_bytes", gets.dram_bytes() as f64),
        ("plan_flash_bytes", gets.flash_bytes as f64),
        ("latency_us", gets.latency_us),
    ]
}

/// The question that one tenant asks alone.
fn question(tenant: Tenant, prices: Prices) -> Question {
    Question { tenants: vec![tenant], prices, bounds: Bounds::default(), goal: Goal::Cost }
}

impl Costs {
    /// What is judged together: the paper says other things of short latencies than of long ones.
    fn phase(&self, terms: &Terms, sla_us: f64) -> &'static str {
        let [zipf, short, long] = match terms.name {
            name if name == USUAL.name => PHASES,
            name if name == SOONER.name => SOONER_PHASES,
            name if name == EXAMPLE.name => EXAMPLE_PHASES,
            _ => return OTHER_TERMS,
        };
        match self.law {
            Law::Zipf => zipf,
            Law::Exponential if sla_us <= 250.0 => short,
            Law::Exponential => long,
        }
    }

    fn at(
        &self,
        (curve, followed): (&Curve, &Curve),
        terms: &Terms,
        sla_us: f64,
    ) -> Result<Vec<Found>> {
        let tenant = Tenant {
            latencies: terms.latencies,
            sla_us: Some(sla_us),
            ..Tenant::new(self.law.name(), curve.clone())
        };
        let Some(best) = searched(&tenant, terms.prices) else { return Ok(Vec::new()) };
        let question = question(tenant.clone(), terms.prices);
        let failed = |why| Failure::new(format!("{sla_us} µs, though there is a plan: {why:?}"));
        let of_curve = |plan: &Plan| {
            let gets = plan.tenants[0];
            tenant.allot(gets.memory_bytes, gets.flash_bytes, terms.prices)
        };
        let plan = of_curve(&plan_exactly(&question, self.points).map_err(failed)?);
        let hull = of_curve(&plan_on_hull(&question).map_err(failed)?);
        let fixed = tenant.proportional(FLASH_FOR_DRAM, terms.prices);
        let params: Params = [
            ("phase", Value::from(self.phase(terms, sla_us))),
            ("terms", terms.name.into()),
            ("sla_us", sla_us.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let found = |subject, metrics| Found { subject, params: params.clone(), metrics };
        let beside = |gets: &Allotment| {
            let searched = [("cost_to_searched", gets.cost / best.cost)];
            let fixed = fixed.iter().map(|fixed| ("cost_to_proportional", gets.cost / fixed.cost));
            // Where nothing is needed, nothing is saved.
            let ratios = searched.into_iter().chain(fixed).filter(|(_, ratio)| ratio.is_finite());
            let other = Tenant { curve: followed.clone(), ..tenant.clone() };
            let really = other.allot(gets.memory_bytes, gets.flash_bytes, terms.prices);
            let error = (really.latency_us - gets.latency_us).abs() / really.latency_us;
            let ratios = ratios.chain([("latency_error", error)]);
            metrics_of(gets).into_iter().chain(ratios).collect::<Vec<_>>()
        };
        let mut all = vec![found(PLAN, beside(&plan)), found(PLAN_HULL, beside(&hull))];
        all.extend(fixed.map(|fixed| found(PROPORTIONAL, metrics_of(&fixed))));
        Ok(all)
    }
}

/// What the paper's example says of times, and how far ours are from it.
fn example(curve: &Curve) -> Option<Found> {
    let solved = PAPERS.solve(curve, EXAMPLE.latencies.memory_us)?;
    let params = Params::from([("phase".to_owned(), Value::from(EXAMPLE_PHASE))]);
    let metrics = vec![
        ("example_latency_error", PAPERS.error(curve, &EXAMPLE.latencies)),
        ("example_flash_us", solved.flash_us),
        ("example_backend_us", solved.backend_us),
    ];
    Some(Found { subject: PLAN, params, metrics })
}

impl Model for Costs {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let curve = workload::curve(self.law, self.shrink, seed, self.bytes);
        let followed = workload::curve(self.law, self.shrink, seed + 1, self.bytes);
        let mut all = Vec::new();
        if self.law == Law::Zipf && self.terms.iter().any(|terms| terms.name == EXAMPLE.name) {
            all.extend(example(&curve));
        }
        for terms in self.terms {
            for &sla_us in SLAS {
                all.extend(self.at((&curve, &followed), terms, sla_us)?);
            }
        }
        Ok(all)
    }
}

/// A point of which a model finds everything.
pub(super) fn modelled(scale: &Scale, part: &str, shrink: u64, model: Arc<dyn Model>) -> Point {
    let value_bytes = workload::VALUE_BYTES_MEAN;
    let shape = scale::Shape { entries: 1, value_bytes, is_compressed: false };
    let params: Params = [
        ("part", Value::from(part)),
        ("shrink", shrink.into()),
        ("value_bytes", value_bytes.into()),
        ("threads", 1_u64.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let point = filling(scale, shape, 1, Choice::Sequential, 1);
    Point { params, store: None, model: Some(model), alternations: 1, ..point }
}

/// How much smaller than in the paper everything is.
pub(super) fn shrink(scale: &Scale) -> u64 {
    if scale.is_quick { 1_000 } else { 20 }
}

fn points(scale: &Scale) -> Vec<Point> {
    let shrink = shrink(scale);
    let of = |law: Law| {
        let bytes = workload::object_bytes;
        let model = Costs { law, shrink, points: POINTS_USUAL, terms: &TERMS, bytes };
        modelled(scale, law.name(), shrink, Arc::new(model))
    };
    let whole = |(law, part)| {
        let bytes = workload::chunk_bytes;
        let model = Costs { law, shrink: 1, points: POINTS_USUAL, terms: &[EXAMPLE], bytes };
        modelled(scale, part, 1, Arc::new(model))
    };
    let wholes = [(Law::Zipf, "whole zipf"), (Law::Exponential, "whole exponential")];
    // Those that have so few requests that the example has no place in them are left out.
    let wholes = wholes.into_iter().filter(|_| !scale.is_quick).map(whole);
    Law::ALL.map(of).into_iter().chain(wholes).collect()
}

const fn target(part: &'static str, of: &'static str, most: f64) -> Target {
    Target::in_phase(part, of, Rule::AtMost(most))
}

pub(super) const COST: Experiment = Experiment {
    name: "elcached-cost",
    about: "the least cost of DRAM and flash that keeps a latency, by a plan and with both in a \
            fixed ratio, for two workloads after Facebook's ETC (ElCached, Figure 3)",
    paper: "about 0.40 of the proportional cost by Zipf's law; by an exponential one 0.90 up to 250 µs, \
            and 0.30 from 300 µs on",
    claim: "within a thousandth of the least there is; and what the paper saves, with the times of the design, \
            with flash in 50 µs before a back end in 2 ms (chosen after others had been seen), or with \
            those that the paper's own example has, of all its requests",
    subjects: Subjects::Default,
    points,
    targets: &[
        target(PHASES[0], "cost_to_searched", 1.001),
        target(PHASES[1], "cost_to_searched", 1.001),
        target(PHASES[2], "cost_to_searched", 1.001),
        target(EXAMPLE_PHASES[0], "cost_to_searched", 1.001),
        target(EXAMPLE_PHASES[1], "cost_to_searched", 1.001),
        target(EXAMPLE_PHASES[2], "cost_to_searched", 1.001),
        target(PHASES[0], "latency_error", 0.03),
        target(PHASES[1], "latency_error", 0.03),
        target(PHASES[2], "latency_error", 0.03),
        target(EXAMPLE_PHASES[0], "latency_error", 0.03),
        target(EXAMPLE_PHASES[1], "latency_error", 0.03),
        target(EXAMPLE_PHASES[2], "latency_error", 0.03),
        target(PHASES[0], "cost_to_proportional", 0.40),
        target(PHASES[1], "cost_to_proportional", 0.90),
        target(PHASES[2], "cost_to_proportional", 0.30),
        target(SOONER_PHASES[0], "cost_to_proportional", 0.40),
        target(SOONER_PHASES[2], "cost_to_proportional", 0.30),
        target(EXAMPLE_PHASE, "example_latency_error", 0.01),
        target(EXAMPLE_PHASES[0], "cost_to_proportional", 0.40),
        target(EXAMPLE_PHASES[1], "cost_to_proportional", 0.90),
        target(EXAMPLE_PHASES[2], "cost_to_proportional", 0.30),
    ],
    figures: &[
        Figure {
            title: "Cost of keeping a latency",
            metric: "cost",
            x: "sla_us",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "Cost of the plan, as a part of the proportional one",
            metric: "cost_to_proportional",
            x: "sla_us",
            y: "terms",
            shape: Shape::Map,
        },
    ],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_cost_what_a_search_finds_and_less_than_a_fixed_ratio() {
        for law in Law::ALL {
            let bytes = workload::object_bytes;
            let terms = &TERMS[..1];
            let costs = Costs { law, shrink: 4_000, points: POINTS_USUAL, terms, bytes };
            let found = costs.run(1).expect("nothing fails");
            let of_plan = || found.iter().filter(|found| found.subject == PLAN);
            assert!(of_plan().count() > 3, "{law:?}: {}", of_plan().count());
            let metric = |found: &Found, name: &str| {
                found.metrics.iter().find(|metric| metric.0 == name).map(|metric| metric.1)
            };
            for found in of_plan() {
                let ratio = metric(found, "cost_to_searched").unwrap_or(1.0);
                assert!((1.0 - 1e-9..1.001).contains(&ratio), "{found:?}");
                let ratio = metric(found, "cost_to_proportional").unwrap_or(1.0);
                assert!(ratio <= 1.001, "{found:?}");
            }
        }
    }
}
