//! The cost of miss-ratio curves for a server: the parts `profiling …` of `elcached-elastic`.
//!
//! Several servers, all in this process with clients that keep them busy, take turns; each has one
//! turn with curves and one without. The experiment compares both turns in requests per second, and
//! in requests per second of the server's processor time, which excludes the cost of clients.
//! Without curves the sampling check still runs for each request, as in a server that was started
//! without any; a store runs it twice. Each part tests one way in which profiling could cost time:
//!
//! | part | load | reason |
//! |---|---|---|
//! | `profiling few` | five thousand objects, 64 gets at a time | every key is in the sample: the most work for curves |
//! | `profiling many` | two hundred thousand | memory, not the processor, is the limit |
//! | `profiling plain` | one get at a time | most of the time is the way to the server |

use std::sync::Arc;
use std::time::Duration;

use tidekv_testkit::evidence::Value;

use crate::experiment::{Found, Model, Params, Point, Rule, Target};
use crate::experiments::elcached::cost::modelled;
use crate::failure::{Failure, Result};
use crate::scale::Scale;
use crate::subjects::served::{Drivers, Target as Sizes, Turn, Turns};

const PROFILED: &str = "tidekv:profiled";
const UNPROFILED: &str = "unprofiled";
/// The requested amount; part of the design.
const TARGET: Rule = Rule::AtLeast(0.98);
const FEW: &str = "profiling few";
const MANY: &str = "profiling many";
const PLAIN: &str = "profiling plain";

/// The memory layout of a server affects its speed.
const SERVERS: usize = 4;
/// A hundredth of a processor is used for any length of the turn.
const WINDOW: Duration = Duration::from_secs(10);
const SIZES: Sizes = Sizes { dram_bytes: 256 << 20, flash_bytes: 0 };

#[derive(Debug)]
struct Profiled(Drivers);

impl Model for Profiled {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let drivers = Drivers { seed, ..self.0.clone() };
        let servers = drivers.drive(&SIZES, SERVERS, WINDOW)?;
        if let Some(number) = servers.iter().position(|turns| turns.last_window == 0) {
            return Err(Failure::new(format!("server {number} has reported no window")));
        }
        let of_all = |is_profiled: bool, metric: fn(&Turn) -> f64| -> Vec<f64> {
            let turns = servers.iter().flat_map(|turns| turns.of(is_profiled));
            turns.map(metric).collect()
        };
        let [without, with] = [false, true].map(|kind| of_all(kind, Turn::per_s));
        let [cpu_without, cpu_with] = [false, true].map(|kind| of_all(kind, Turn::cpu_us_per_op));
        let [curves_of_cpu, ..] = median_between(&of_all(true, Turn::curves_of_cpu));
        let [rate, rate_low, rate_high] = median_between(&ratios(&with, &without));
        let [cpu, cpu_low, cpu_high] = median_between(&ratios(&cpu_without, &cpu_with));
        let beside = [
            ("to_unprofiled", rate),
            ("to_unprofiled_low", rate_low),
            ("to_unprofiled_high", rate_high),
            ("cpu_to_unprofiled", cpu),
            ("cpu_to_unprofiled_low", cpu_low),
            ("cpu_to_unprofiled_high", cpu_high),
            ("curves_of_cpu", curves_of_cpu),
        ];
        let usual = |per_s: &[f64], cpu: &[f64]| {
            [("ops_per_s", median_between(per_s)[0]), ("cpu_us_per_op", median_between(cpu)[0])]
        };
        let with = beside.into_iter().chain(usual(&with, &cpu_with)).collect();
        let apart = servers_apart(&servers);
        let without = usual(&without, &cpu_without).into_iter().chain([("servers_apart", apart)]);
        let without = without.collect();
        let found = |subject, metrics| Found { subject, params: Params::new(), metrics };
        Ok(vec![found(PROFILED, with), found(UNPROFILED, without)])
    }
}

/// Processor time per request of the slowest server compared with the fastest one, both without
/// curves and by their medians: the effect of memory layout alone.
fn servers_apart(servers: &[Turns]) -> f64 {
    let median = |turns: &Turns| {
        let of_server: Vec<f64> = turns.of(false).iter().map(Turn::cpu_us_per_op).collect();
        median_between(&of_server)[0]
    };
    let least = servers.iter().map(median).fold(f64::INFINITY, f64::min);
    servers.iter().map(median).fold(0.0, f64::max) / least
}

fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// The median, and the 95 % confidence interval of the median of all possible turns (by ranks: the
/// number of `n` values below a median is binomial).
fn median_between(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let many = sorted.len() as f64;
    let below = (many / 2.0 - 0.98 * many.sqrt()).max(1.0) as usize - 1;
    [sorted[(sorted.len() - 1) / 2], sorted[below], sorted[sorted.len() - 1 - below]]
}

pub(super) fn points(scale: &Scale) -> Vec<Point> {
    let (lead_in, turn_length, rounds) = match scale.is_quick {
        true => (Duration::from_millis(50), Duration::from_millis(100), 3),
        // A burst is due every 1.25 s. Saved budget is spent when a turn counts, and it has two.
        false => (Duration::from_millis(1_250), Duration::from_millis(2_500), 12),
    };
    let of = |(part, objects, gets_at_once, sets_at_once, threads): (&str, _, _, _, _)| {
        let drivers = Drivers {
            threads,
            objects,
            alpha: 0.8,
            value_bytes: 200,
            gets_at_once,
            sets_at_once,
            lead_in,
            turn_length,
            rounds,
            seed: 0,
        };
        let mut point = modelled(scale, part, 1, Arc::new(Profiled(drivers)));
        point.params.insert("threads".into(), Value::from(threads));
        point
    };
    [(FEW, 5_000, 64, 4, 2), (MANY, 200_000, 64, 4, 2), (PLAIN, 5_000, 1, 0, 8)].map(of).into()
}

const fn target(part: &'static str, of: &'static str) -> Target {
    Target::in_phase(part, of, TARGET)
}

pub(super) const TARGETS: [Target; 6] = [
    target(FEW, "to_unprofiled"),
    target(MANY, "to_unprofiled"),
    target(PLAIN, "to_unprofiled"),
    target(FEW, "cpu_to_unprofiled"),
    target(MANY, "cpu_to_unprofiled"),
    target(PLAIN, "cpu_to_unprofiled"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_between_ranks() {
        let values: Vec<f64> = (0..24).map(|n| f64::from(n * 7 % 24)).collect();
        // Of 24 the 7th to the 18th.
        assert_eq!(median_between(&values), [11.0, 6.0, 17.0]);
        assert_eq!(median_between(&[3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
        assert_eq!(median_between(&[1.0]), [1.0; 3]);
    }
}
