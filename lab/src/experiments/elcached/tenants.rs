//! `elcached-tenants`: two tenants share 3 GB of DRAM in some ratio and have four times as much
//! flash each; compared with a plan for the same latencies (Figure 4).
//!
//! The first tenant's requests follow Zipf's law, the second's the exponential one. The plan must
//! make the first tenant a twentieth faster, and the second no slower. The paper's savings are
//! computed for three sets of [`terms`](crate::experiments::elcached::terms), the last of which are
//! solved from the paper: with these it uses all of its requests, and objects with memcached's
//! sizes (part `whole tenants`).

use std::sync::Arc;

use tidekv_plan::{
    Allotment, Bounds, DEFAULT_FLASH_FOR_DRAM, DEFAULT_POINTS, Goal, Plan, PlanRequest, Tenant,
    plan_exactly,
};
use tidekv_testkit::evidence::Value;

use crate::experiment::{
    Experiment, Figure, Found, Model, Params, Point, Rule, Shape, Subjects, Target,
};
use crate::experiments::elcached::cost::{OTHER_TERMS, PLAN, PROPORTIONAL, modelled, shrink};
use crate::experiments::elcached::terms::{Asked, SOLVED, Terms, VARIED};
use crate::experiments::elcached::workload::{Law, Workload};
use crate::failure::{Failure, Result};
use crate::scale::Scale;

/// DRAM of both, in bytes, before it is shrunk with the workload.
const DRAM_BYTES: u64 = 3_000_000_000;
/// The first tenant's share of it; the paper uses 1.63 of 3 GB.
const SHARES: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, PAPER_SHARE, 0.6, 0.7, 0.8, 0.9];
const PAPER_SHARE: f64 = 0.54;
/// The judged metrics.
const PAPER: &str = "paper";
/// The same with faster flash and a slower back end.
const PAPER_SOONER: &str = "paper-sooner-flash";
/// The same with the times of the paper's example.
const PAPER_EXAMPLE: &str = "paper-example";
/// The speedup target of the first tenant.
const LATENCY_PART: f64 = 0.9499;

#[derive(Debug)]
struct Tenants {
    /// Of both, whose requests are scaled by the same factor.
    workloads: [Workload; 2],
    /// Curve points examined at a time.
    points: usize,
    terms: &'static [Terms],
}

impl Tenants {
    fn at(&self, tenants: &[Tenant; 2], terms: &Terms, share: f64) -> Result<Vec<Found>> {
        let tenants =
            &tenants.clone().map(|tenant| Tenant { latencies: terms.latencies, ..tenant });
        let dram = DRAM_BYTES / self.workloads[0].shrink;
        let first = (dram as f64 * share) as u64;
        let fixed = [first, dram - first]
            .map(|memory| (memory, (memory as f64 * DEFAULT_FLASH_FOR_DRAM) as u64));
        let request = |tenants: &[Tenant; 2]| PlanRequest {
            tenants: tenants.to_vec(),
            prices: terms.prices,
            bounds: Bounds { dram_bytes: Some(dram), ..Bounds::default() },
            goal: Goal::Cost,
        };
        let before = Plan::of(&request(tenants), &fixed);
        let latency = |number: usize, part: f64| Some(before.tenants[number].latency_us * part);
        let [zipf, exponential] = tenants.clone();
        let asked = [
            Tenant { sla_us: latency(0, LATENCY_PART), ..zipf },
            Tenant { sla_us: latency(1, 1.0), ..exponential },
        ];
        let phase = match terms.asked {
            Asked::Usual if share != PAPER_SHARE => "other-shares",
            Asked::Usual => PAPER,
            Asked::Sooner if share == PAPER_SHARE => PAPER_SOONER,
            Asked::Solved if share == PAPER_SHARE => PAPER_EXAMPLE,
            Asked::Sooner | Asked::Solved | Asked::Nothing => OTHER_TERMS,
        };
        let params: Params =
            [("share", Value::from(share)), ("phase", phase.into()), ("terms", terms.name.into())]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        let dram_of =
            |plan: &Plan| plan.tenants.iter().map(Allotment::dram_bytes).sum::<u64>() as f64;
        let flash_of =
            |plan: &Plan| plan.tenants.iter().map(|gets| gets.flash_bytes).sum::<u64>() as f64;
        let metrics = |plan: &Plan| {
            vec![
                ("cost", plan.cost),
                ("plan_dram_bytes", dram_of(plan)),
                ("plan_flash_bytes", flash_of(plan)),
                ("latency_first_us", plan.tenants[0].latency_us),
                ("latency_second_us", plan.tenants[1].latency_us),
            ]
        };
        let found = |subject, metrics| Found { subject, params: params.clone(), metrics };
        let mut all = vec![found(PROPORTIONAL, metrics(&before))];
        match plan_exactly(&request(&asked), self.points) {
            Ok(plan) => {
                let ratio = |number: usize| {
                    plan.tenants[number].latency_us / before.tenants[number].latency_us
                };
                let ratios = [
                    ("cost_to_proportional", plan.cost / before.cost),
                    ("dram_to_proportional", dram_of(&plan) / dram_of(&before)),
                    ("latency_first_to_proportional", ratio(0)),
                    ("latency_second_to_proportional", ratio(1)),
                ];
                all.push(found(PLAN, metrics(&plan).into_iter().chain(ratios).collect()));
            }
            Err(tidekv_plan::Infeasible::Solver(error)) => return Err(Failure::new(error)),
            Err(why) if [PAPER, PAPER_SOONER, PAPER_EXAMPLE].contains(&phase) => {
                return Err(Failure::new(format!("there is no plan for {phase}: {why:?}")));
            }
            // It has almost no potential: its misses are those of an unbounded cache.
            Err(_) => {}
        }
        Ok(all)
    }
}

impl Model for Tenants {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let tenant = |workload: Workload| Tenant::new(workload.law.name(), workload.curve(seed));
        let tenants = self.workloads.map(tenant);
        let each =
            self.terms.iter().flat_map(|terms| SHARES.iter().map(move |share| (terms, *share)));
        let found = each.map(|(terms, share)| self.at(&tenants, terms, share));
        Ok(found.collect::<Result<Vec<_>>>()?.concat())
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let of = |part, workload: &dyn Fn(Law) -> Workload, terms| {
        let workloads = Law::ALL.map(workload);
        let shrink = workloads[0].shrink;
        let model = Tenants { workloads, points: DEFAULT_POINTS, terms };
        modelled(scale, part, shrink, Arc::new(model))
    };
    let small = |law| Workload::small(law, shrink(scale));
    let mut all = vec![of("tenants", &small, &VARIED)];
    if !scale.is_quick {
        all.push(of("whole tenants", &Workload::whole, &[SOLVED]));
    }
    all
}

const fn target(phase: &'static str, of: &'static str, most: f64) -> Target {
    Target::in_phase(phase, of, Rule::AtMost(most))
}

pub(super) const TENANTS: Experiment = Experiment {
    name: "elcached-tenants",
    about: "two tenants that share DRAM in some ratio with four times as much flash, and a plan \
            with the same latencies (ElCached, Figure 4)",
    paper: "a quarter cheaper (26 %), little more than half of the DRAM (46 % less), 5 % sooner for the \
            first tenant and no later for the second, where the first has 54 % of the DRAM",
    claim: "at least that",
    subjects: Subjects::Default,
    points,
    targets: &[
        target(PAPER, "cost_to_proportional", 0.74),
        target(PAPER, "dram_to_proportional", 0.54),
        target(PAPER, "latency_first_to_proportional", 0.95),
        target(PAPER, "latency_second_to_proportional", 1.0),
        target(PAPER_SOONER, "cost_to_proportional", 0.74),
        target(PAPER_SOONER, "dram_to_proportional", 0.54),
        target(PAPER_EXAMPLE, "cost_to_proportional", 0.74),
        target(PAPER_EXAMPLE, "dram_to_proportional", 0.54),
        target(PAPER_EXAMPLE, "latency_first_to_proportional", 0.95),
        target(PAPER_EXAMPLE, "latency_second_to_proportional", 1.0),
    ],
    figures: &[
        Figure {
            title: "Cost of the plan, relative to the proportional one",
            metric: "cost_to_proportional",
            x: "share",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "DRAM of the plan, relative to the proportional one",
            metric: "dram_to_proportional",
            x: "share",
            y: "",
            shape: Shape::Subjects,
        },
    ],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_meets_the_latencies_at_a_lower_cost() {
        let workloads = Law::ALL.map(|law| Workload::small(law, 4_000));
        let tenants = Tenants { workloads, points: 60, terms: &VARIED[..1] };
        let found = tenants.run(1).expect("nothing fails");
        let plans: Vec<&Found> = found.iter().filter(|found| found.subject == PLAN).collect();
        assert!(plans.len() >= 5, "{}", plans.len());
        for plan in plans {
            let metric = |name: &str| {
                plan.metrics.iter().find(|metric| metric.0 == name).expect("it is there").1
            };
            assert!(metric("latency_first_to_proportional") <= 0.95 + 1e-6);
            assert!(metric("latency_second_to_proportional") <= 1.0 + 1e-6);
            assert!(metric("dram_to_proportional") <= 1.0 + 1e-9);
        }
    }
}
