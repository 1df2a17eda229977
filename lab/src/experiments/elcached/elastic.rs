//! `elcached-elastic`: a cache that resizes itself while its load changes (which ElCached left
//! open, §6).
//!
//! | subject | description |
//! |---|---|
//! | `tidekv:elastic` | `tidekv cache --elastic`: the cheapest DRAM and flash that meet a latency target |
//! | `fixed` | the same cache with its maximum sizes, all the time |
//! | `asked` | the latency target |
//!
//! In the parts `loop …` clients use a real cache behind a socket, with flash in a real file: first
//! few objects, then five times as many, then few again. Latencies are those of the clients,
//! including the database time of misses. `windows_until_kept` is the number of windows after a
//! change from which on the mean of each window meets the target; figures have fifths of windows.
//!
//! | part | database latency | target | purpose |
//! |---|---|---|---|
//! | `loop` | 1 ms | 300 µs | a hit takes a significant part of it, so DRAM and flash are weighed; needs processors that are kept awake: otherwise a virtual machine's host is measured |
//! | `loop slow database` | 50 ms | 10 ms | misses dominate, and other load on the machine has little effect |
//!
//! The rows report the state of the machine: whether processors were kept awake (`is_awake`), the
//! latency of a hit before (`hit_us`), and the number of windows in which the fixed cache was late
//! although hits of that length would have met the target (`windows_late_by_machine`). With such
//! windows, `tidekv:elastic` may have been late for the same reason.
//!
//! The parts `windows …` measure the effect of the window length
//! ([`crate::experiments::elcached::windows`]), the parts `profiling …` the cost of curves for a
//! server ([`crate::experiments::elcached::profiled`]).

use std::sync::Arc;
use std::time::Duration;

use tidekv_memcached::{CacheServerOptions, ElasticGoal, ElasticOptions};
use tidekv_plan::{LatencyOverrides, Prices};
use tidekv_testkit::evidence::Value;

use crate::experiment::{
    Experiment, Figure, Found, Model, Params, Point, Rule, Shape, Subjects, Target,
};
use crate::experiments::elcached::cost::modelled;
use crate::experiments::elcached::{pauses, profiled, windows};
use crate::failure::Result;
use crate::scale::Scale;
use crate::subjects::served::{Clients, Course, Stage, Stretch, Target as Sizes};

const ELASTIC: &str = "tidekv:elastic";
const FIXED: &str = "fixed";
const ASKED: &str = "asked";
/// The parts with a real cache.
const LOOP: &str = "loop";
const LOOP_SLOW: &str = "loop slow database";

/// Bytes of a value. Large, so that few requests fill a cache: with many, clients would wait for a
/// processor, which no plan can improve.
const VALUE_BYTES: u64 = 16 << 10;
/// Stretches of a window.
const STRETCHES: u32 = 5;
/// The maximum sizes of a cache.
const MOST: Sizes = Sizes { dram_bytes: 256 << 20, flash_bytes: 1 << 30 };

#[derive(Debug)]
struct Loop {
    /// The latency target, in microseconds.
    sla_us: f64,
    /// The latency of the database.
    backend: Duration,
    /// The pause of clients between their requests.
    pause: Duration,
    window: Duration,
    /// Windows of each stage, and objects.
    stages: &'static [(u32, u64)],
    threads: u64,
}

impl Loop {
    fn clients(&self, seed: u64) -> Clients {
        let stage =
            |&(windows, objects): &(u32, u64)| Stage { time: self.window * windows, objects };
        Clients {
            threads: self.threads,
            stages: self.stages.iter().map(stage).collect(),
            alpha: 0.8,
            value_bytes: VALUE_BYTES as usize,
            backend: self.backend,
            pause: self.pause,
            stretch: self.window / STRETCHES,
            seed,
        }
    }

    /// The options of an elastic cache whose DRAM answers in this number of microseconds.
    fn options(&self, hit_us: f64) -> CacheServerOptions {
        // The server cannot measure the way to the cache.
        let latencies = LatencyOverrides { memory_us: Some(hit_us), ..LatencyOverrides::default() };
        CacheServerOptions {
            profile_window: Some(self.window),
            elastic: Some(ElasticOptions {
                goal: ElasticGoal::Latency { all: Some(self.sla_us), of: Vec::new() },
                prices: Prices::DEFAULT,
                latencies,
            }),
            ..CacheServerOptions::default()
        }
    }

    /// The start times of the stages after the first one, in seconds.
    fn changes(&self) -> Vec<f64> {
        let mut at = 0;
        let ends = self.stages.iter().map(|(windows, _)| {
            at += windows;
            (self.window * at).as_secs_f64()
        });
        let ends: Vec<f64> = ends.collect();
        ends[..ends.len() - 1].to_vec()
    }

    /// The measurements of each window, stage by stage.
    fn windows(&self, stretches: &[Stretch]) -> Vec<Vec<WindowSeen>> {
        let begins = [vec![0.0], self.changes()].concat();
        let stage = |(number, from): (usize, &f64)| {
            let to = begins.get(number + 1).copied().unwrap_or(f64::INFINITY);
            let is_of_stage = |it: &&Stretch| it.at_s >= *from && it.at_s < to;
            let of_stage: Vec<&Stretch> = stretches.iter().filter(is_of_stage).collect();
            of_stage.chunks(STRETCHES as usize).map(WindowSeen::of).collect()
        };
        begins.iter().enumerate().map(stage).collect()
    }

    /// The number of windows after which the mean of each meets the target, until the next change.
    fn windows_until_kept(&self, stretches: &[Stretch]) -> f64 {
        let until = |windows: Vec<WindowSeen>| {
            windows.iter().rposition(|it| it.latency_us > self.sla_us).map_or(0, |late| late + 1)
        };
        let after_changes = self.windows(stretches).into_iter().skip(1);
        after_changes.map(until).max().unwrap_or(0) as f64
    }

    /// The number of late windows whose misses, with hits as short as before the run, would not
    /// have made them late.
    fn windows_late_by_machine(&self, course: &Course) -> f64 {
        let backend_us = self.backend.as_secs_f64() * 1e6;
        let is_by_machine = |it: &&WindowSeen| {
            let expected_us = it.miss_ratio * backend_us + course.hit_us;
            it.latency_us > self.sla_us && expected_us <= self.sla_us
        };
        self.windows(&course.stretches).iter().flatten().filter(is_by_machine).count() as f64
    }

    fn found(&self, subject: &'static str, stretches: &[Stretch]) -> Vec<Found> {
        let row = |stretch: &Stretch| {
            let metrics = vec![
                ("latency_us", stretch.latency_us),
                ("miss_ratio", stretch.misses as f64 / stretch.gets.max(1) as f64),
                ("plan_dram_bytes", stretch.dram_bytes as f64),
                ("plan_flash_bytes", stretch.flash_bytes as f64),
                ("cost", Prices::DEFAULT.cost(stretch.dram_bytes, stretch.flash_bytes)),
            ];
            Found { subject, params: at(stretch), metrics }
        };
        stretches.iter().map(row).collect()
    }
}

/// The measurements of a window.
#[derive(Debug, Clone, Copy)]
struct WindowSeen {
    latency_us: f64,
    miss_ratio: f64,
}

impl WindowSeen {
    fn of(window: &[&Stretch]) -> Self {
        let gets = window.iter().map(|it| it.gets).sum::<u64>().max(1) as f64;
        let sum: f64 = window.iter().map(|it| it.latency_us * it.gets as f64).sum();
        let misses: u64 = window.iter().map(|it| it.misses).sum();
        Self { latency_us: sum / gets, miss_ratio: misses as f64 / gets }
    }
}

fn at(stretch: &Stretch) -> Params {
    let second = (stretch.at_s * 10.0).round() / 10.0;
    [("phase", Value::from("time")), ("second", second.into())]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

fn mean(stretches: &[Stretch], of: impl Fn(&Stretch) -> f64) -> f64 {
    stretches.iter().map(of).sum::<f64>() / stretches.len().max(1) as f64
}

impl Model for Loop {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let clients = self.clients(seed);
        let elastic = clients.ask(&MOST, |hit_us| self.options(hit_us))?;
        let fixed = clients.ask(&MOST, |_| CacheServerOptions::default())?;
        let mut all = self.found(ELASTIC, &elastic.stretches);
        all.extend(self.found(FIXED, &fixed.stretches));
        all.extend(elastic.stretches.iter().map(|stretch| Found {
            subject: ASKED,
            params: at(stretch),
            metrics: vec![("latency_us", self.sla_us)],
        }));
        let cost = |of: &Course| {
            mean(&of.stretches, |it| Prices::DEFAULT.cost(it.dram_bytes, it.flash_bytes))
        };
        let of = |subject, course: &Course| {
            let longest_us = course.stretches.iter().map(|it| it.longest_us).fold(0.0, f64::max);
            let metrics = vec![
                ("windows_until_kept", self.windows_until_kept(&course.stretches)),
                ("cost_to_fixed", cost(course) / cost(&fixed)),
                ("longest_hit_us", longest_us),
                ("hit_us", course.hit_us),
                ("is_awake", f64::from(u8::from(course.is_awake))),
            ];
            Found { subject, params: Params::new(), metrics }
        };
        let mut of_fixed = of(FIXED, &fixed);
        of_fixed.metrics.push(("windows_late_by_machine", self.windows_late_by_machine(&fixed)));
        all.extend([of(ELASTIC, &elastic), of_fixed]);
        Ok(all)
    }
}

/// Clients of a fast database.
const FAST_DATABASE: Loop = Loop {
    sla_us: 300.0,
    backend: Duration::from_millis(1),
    pause: Duration::from_millis(2),
    window: Duration::from_secs(10),
    stages: &[(5, 2_500), (6, 12_500), (6, 2_500)],
    threads: 10,
};

/// Clients of a slow one: more clients, as each waits longer; with all hits, about the same request
/// rate.
const SLOW_DATABASE: Loop = Loop {
    sla_us: 10_000.0,
    backend: Duration::from_millis(50),
    pause: Duration::from_millis(10),
    window: Duration::from_secs(20),
    threads: 40,
    ..FAST_DATABASE
};

fn points(scale: &Scale) -> Vec<Point> {
    let of = |(part, usual): (&str, Loop)| {
        let model = match scale.is_quick {
            true => Loop {
                window: usual.window / 5,
                stages: &[(5, 1_000), (6, 5_000), (5, 1_000)],
                ..usual
            },
            false => usual,
        };
        let threads = model.threads;
        let point = modelled(scale, part, 1, Arc::new(model));
        Point { value_bytes: VALUE_BYTES, ..point }
            .with("threads", threads)
            .with("value_bytes", VALUE_BYTES)
    };
    let loops = [(LOOP, FAST_DATABASE), (LOOP_SLOW, SLOW_DATABASE)].map(of);
    let parts = [windows::points(scale), profiled::points(scale), pauses::points(scale)];
    loops.into_iter().chain(parts.into_iter().flatten()).collect()
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elcached-elastic",
    about: "a cache that resizes its DRAM and flash to meet a latency target at the lowest cost, \
            while the number of requested objects grows fivefold and shrinks again; and the best \
            window length of its curves (left open in ElCached, §6)",
    paper: "future work",
    claim: "after a change the latency meets its target again within two windows; a server that \
            computes curves has 98 % of its throughput without; no request waits for more than \
            10 ms while DRAM shrinks",
    subjects: Subjects::Default,
    points,
    targets: &[
        Target::in_phase(LOOP, "windows_until_kept", Rule::AtMost(2.0)),
        Target::in_phase(LOOP_SLOW, "windows_until_kept", Rule::AtMost(2.0)),
        profiled::TARGETS[0],
        profiled::TARGETS[1],
        profiled::TARGETS[2],
        profiled::TARGETS[3],
        profiled::TARGETS[4],
        profiled::TARGETS[5],
        pauses::TARGETS[0],
        pauses::TARGETS[1],
    ],
    figures: &[
        Figure {
            title: "Mean latency of clients; after a third of the time they request five times \
                    as many objects, after two thirds the original number again",
            metric: "latency_us",
            x: "second",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "DRAM limit of the cache",
            metric: "plan_dram_bytes",
            x: "second",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "Flash limit of the cache",
            metric: "plan_flash_bytes",
            x: "second",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "Cost of both, 13 per GiB of DRAM, 1 per GiB of flash",
            metric: "cost",
            x: "second",
            y: "",
            shape: Shape::Subjects,
        },
        windows::FIGURES[0],
        windows::FIGURES[1],
    ],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_from_the_window_after_which_it_stays_met() {
        let model = Loop { stages: &[(2, 1), (3, 9), (2, 1)], ..FAST_DATABASE };
        // Late before the first change, in the first window after it and for a moment in the
        // second, and never again.
        let late_us = |at_s: f64| match at_s {
            ..10.0 | 20.0..30.0 => 500.0,
            30.0..34.0 => 700.0,
            50.0..52.0 => 900.0,
            _ => 100.0,
        };
        let stretches: Vec<Stretch> = (0..35)
            .map(|number| {
                let at_s = f64::from(number) * 2.0;
                Stretch { at_s, latency_us: late_us(at_s), gets: 10, ..Stretch::default() }
            })
            .collect();
        assert_eq!(model.changes(), [20.0, 50.0]);
        // (2 · 700 + 3 · 100) / 5 is more than 300, (900 + 4 · 100) / 5 is not.
        assert!((model.windows_until_kept(&stretches) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_machine_was_slow_in_late_windows_that_misses_do_not_explain() {
        let model = Loop { stages: &[(2, 1), (2, 9)], ..FAST_DATABASE };
        // By windows: late without misses, late because of misses, late because of both, in time.
        let of = [(400.0, 0), (400.0, 3), (350.0, 1), (250.0, 1)];
        let stretch = |number: u32| {
            let (latency_us, misses) = of[number as usize / STRETCHES as usize];
            Stretch {
                at_s: f64::from(number) * 2.0,
                latency_us,
                gets: 10,
                misses,
                ..Stretch::default()
            }
        };
        let stretches: Vec<Stretch> = (0..20).map(stretch).collect();
        let slow = |hit_us| {
            let stretches = stretches.clone();
            model.windows_late_by_machine(&Course { hit_us, is_awake: true, stretches })
        };
        // A database takes 1 ms, and the target is 300 microseconds: 10 % of misses are 100 of
        // them.
        assert_eq!([150.0, 210.0, 310.0].map(slow), [2.0, 1.0, 0.0]);
    }
}
