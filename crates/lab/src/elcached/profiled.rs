//! What it costs a server to make curves of what it is asked: the parts `profiling …` of `elcached-elastic`.
//!
//! Some servers make curves and as many do not, all in this process with clients that keep them busy;
//! they take turns. A part is for each way in which it could cost something:
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
use crate::served::{Drivers, Target as Sizes};

const PROFILED: &str = "tidekv:profiled";
const UNPROFILED: &str = "unprofiled";
/// As much as is asked for; part of the design.
const TARGET: Rule = Rule::AtLeast(0.98);
const FEW: &str = "profiling few";
const MANY: &str = "profiling many";
const PLAIN: &str = "profiling plain";

/// So many servers make curves, and as many do not: how memory is laid out in one makes a difference.
const SERVERS: usize = 3;
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
        let per_s = |are_profiled: bool| -> Vec<f64> {
            let of = |round: usize| {
                let of_kind =
                    (0..turns.len()).filter(|number| is_profiled(*number) == are_profiled);
                of_kind.map(|number| turns[number][round]).sum::<f64>() / SERVERS as f64
            };
            (0..drivers.rounds).map(of).collect()
        };
        let (with, without) = (per_s(true), per_s(false));
        let ratios: Vec<f64> =
            with.iter().zip(&without).map(|(with, without)| with / without).collect();
        let metrics = vec![
            ("to_unprofiled", quantile(&ratios, 0.5)),
            ("to_unprofiled_low", quantile(&ratios, 0.25)),
            ("to_unprofiled_high", quantile(&ratios, 0.75)),
            ("ops_per_s", quantile(&with, 0.5)),
        ];
        let without = vec![("ops_per_s", quantile(&without, 0.5))];
        let found = |subject, metrics| Found { subject, params: Params::new(), metrics };
        Ok(vec![found(PROFILED, metrics), found(UNPROFILED, without)])
    }
}

/// One of each two: of the first two the later, of the next the earlier, so that neither kind is older.
fn is_profiled(number: usize) -> bool {
    number % 4 == 1 || number % 4 == 2
}

/// The value of which that part are less.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

pub(super) fn points(scale: &Scale) -> Vec<Point> {
    let (turn, rounds) = match scale.is_quick {
        true => (Duration::from_millis(100), 3),
        false => (Duration::from_secs(1), 20),
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

pub(super) const TARGETS: [Target; 3] = [
    Target::in_phase(FEW, "to_unprofiled", TARGET),
    Target::in_phase(MANY, "to_unprofiled", TARGET),
    Target::in_phase(PLAIN, "to_unprofiled", TARGET),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted() {
        let values = [3.0, 1.0, 2.0, 5.0, 4.0];
        assert_eq!([0.25, 0.5, 0.75].map(|part| quantile(&values, part)), [2.0, 3.0, 4.0]);
        let profiled: Vec<usize> = (0..2 * SERVERS).filter(|number| is_profiled(*number)).collect();
        assert_eq!(profiled.len(), SERVERS);
    }
}
