//! What it costs a server to make curves of what it is asked: the parts `profiling …` of `elcached-elastic`.
//!
//! Some servers make curves and as many do not, all in this process with clients that keep them busy;
//! they take turns. What those with curves do is held against what the others do in the same round, in requests a
//! second, and in requests for a second of the server's processor time: what clients cost is not in that.
//! A part is for each way in which it could cost something:
//!
//! | part | what is asked | why |
//! |---|---|---|
//! | `profiling few` | five thousand objects, 64 gets at a time | all keys would be in the sample |
//! | `profiling many` | two hundred thousand | memory, not the processor, is the limit |
//! | `profiling plain` | one get at a time | the way to the server is most of it |

use std::sync::Arc;
use std::time::Duration;

use tidekv_evidence::Value;
use tidekv_server::CacheServerOptions;

use crate::elcached::cost::modelled;
use crate::experiment::{Found, Model, Params, Point, Rule, Target};
use crate::failure::{Failure, Result};
use crate::scale::Scale;
use crate::served::{Drivers, Target as Sizes, Turn};

const PROFILED: &str = "tidekv:profiled";
const UNPROFILED: &str = "unprofiled";
/// As much as is asked for; part of the design.
const TARGET: Rule = Rule::AtLeast(0.98);
const FEW: &str = "profiling few";
const MANY: &str = "profiling many";
const PLAIN: &str = "profiling plain";

/// So many servers make curves, and as many do not: how memory is laid out in one makes a difference.
const SERVERS: usize = 4;
/// A hundredth of a processor is spent however long it is.
const WINDOW: Duration = Duration::from_secs(10);
const SIZES: Sizes = Sizes { dram_bytes: 256 << 20, flash_bytes: 0 };

#[derive(Debug)]
struct Profiled(Drivers);

impl Model for Profiled {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let options = |number: usize| CacheServerOptions {
            profile_window: is_profiled(number).then_some(WINDOW),
            ..CacheServerOptions::default()
        };
        let options: Vec<CacheServerOptions> = (0..2 * SERVERS).map(options).collect();
        let drivers = Drivers { seed, ..self.0.clone() };
        let (turns, windows) = drivers.drive(&SIZES, &options)?;
        if let Some(number) = (0..options.len()).find(|&n| is_profiled(n) != (windows[n] > 0)) {
            let what = format!("server {number} has told of {} windows", windows[number]);
            return Err(Failure::new(what));
        }
        let of_kind = |are_profiled: bool, metric: fn(&Turn) -> f64| -> Vec<f64> {
            let of_round = |round: usize| {
                let kind = (0..turns.len()).filter(|number| is_profiled(*number) == are_profiled);
                kind.map(|number| metric(&turns[number][round])).sum::<f64>() / SERVERS as f64
            };
            (0..drivers.rounds).map(of_round).collect()
        };
        let kinds = [false, true];
        let [without, with] = kinds.map(|kind| of_kind(kind, Turn::per_s));
        let [cpu_without, cpu_with] = kinds.map(|kind| of_kind(kind, Turn::cpu_us_per_op));
        let [curves_of_cpu, ..] = median_between(&of_kind(true, Turn::curves_of_cpu));
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
        let apart = of_servers(&turns, |number| !is_profiled(number));
        let without = usual(&without, &cpu_without).into_iter().chain([("servers_apart", apart)]);
        let without = without.collect();
        let found = |subject, metrics| Found { subject, params: Params::new(), metrics };
        Ok(vec![found(PROFILED, with), found(UNPROFILED, without)])
    }
}

/// How many times as much processor time for a request as another server of the same kind one takes, by their
/// medians: so much is how memory happens to be laid out.
fn of_servers(turns: &[Vec<Turn>], is_of_kind: impl Fn(usize) -> bool) -> f64 {
    let median = |number: &usize| {
        let of_server: Vec<f64> = turns[*number].iter().map(Turn::cpu_us_per_op).collect();
        median_between(&of_server)[0]
    };
    let kind: Vec<usize> = (0..turns.len()).filter(|number| is_of_kind(*number)).collect();
    let least = kind.iter().map(median).fold(f64::INFINITY, f64::min);
    kind.iter().map(median).fold(0.0, f64::max) / least
}

fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// One of each two: of the first two the later, of the next the earlier, and of the next four the other way
/// round, so that neither kind is older.
fn is_profiled(number: usize) -> bool {
    number.count_ones() % 2 == 1
}

/// The median, and between which values that of all rounds that there might be is, with 19 in 20 chances
/// (by ranks: how many of `n` lie below a median is binomial).
fn median_between(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let many = sorted.len() as f64;
    let below = (many / 2.0 - 0.98 * many.sqrt()).max(1.0) as usize - 1;
    [sorted[(sorted.len() - 1) / 2], sorted[below], sorted[sorted.len() - 1 - below]]
}

pub(super) fn points(scale: &Scale) -> Vec<Point> {
    let (turn, rounds) = match scale.is_quick {
        true => (Duration::from_millis(100), 3),
        // A burst is due each 1.25 s, so that one begins in a turn, and no more are saved up for one.
        false => (Duration::from_millis(1_250), 24),
    };
    let of = |(part, objects, gets_at_once, sets_at_once, threads): (&str, _, _, _, _)| {
        let drivers = Drivers {
            threads,
            objects,
            alpha: 0.8,
            value_bytes: 200,
            gets_at_once,
            sets_at_once,
            turn,
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
        let profiled: Vec<usize> = (0..2 * SERVERS).filter(|number| is_profiled(*number)).collect();
        assert_eq!(profiled, [1, 2, 4, 7]);
    }
}
