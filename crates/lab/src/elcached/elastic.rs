//! `elcached-elastic`: a cache that changes its sizes by itself, while its clients change their minds (what
//! ElCached left open, §6).
//!
//! | subject | what it is |
//! |---|---|
//! | `tidekv:elastic` | `tidekv cache --elastic`: as much DRAM and flash as keeps a latency, for the least money |
//! | `fixed` | the same cache with all that it may have, all the time |
//! | `asked` | the latency that is to be kept |
//!
//! In the part `loop` clients ask a real cache behind a socket, with flash in a real file: first for few
//! objects, then for five times as many, then for few again. Latencies are theirs, with the time that a
//! database takes for what the cache has not. `windows_until_kept` says after how many windows from a change
//! on the mean of each window is what is asked, and stays so; pictures have fifths of windows.
//!
//! The parts `windows …` say what a window's length does ([`crate::elcached::windows`]), the parts
//! `profiling …` what curves cost a server ([`crate::elcached::profiled`]).

use std::sync::Arc;
use std::time::Duration;

use tidekv_evidence::Value;
use tidekv_plan::{GivenLatencies, Prices};
use tidekv_server::{CacheServerOptions, ElasticGoal, ElasticOptions};

use crate::elcached::cost::modelled;
use crate::elcached::{pauses, profiled, windows};
use crate::experiment::{
    Experiment, Figure, Found, Model, Params, Point, Rule, Shape, Subjects, Target,
};
use crate::failure::Result;
use crate::scale::Scale;
use crate::served::{Clients, Stage, Stretch, Target as Sizes};

const ELASTIC: &str = "tidekv:elastic";
const FIXED: &str = "fixed";
const ASKED: &str = "asked";
/// The part with a real cache.
const LOOP: &str = "loop";

/// The latency that is to be kept, in microseconds.
const SLA_US: f64 = 300.0;
/// What a database takes.
const BACKEND: Duration = Duration::from_millis(1);
/// How long clients wait between their requests.
const PAUSE: Duration = Duration::from_micros(300);
/// Stretches of a window.
const STRETCHES: u32 = 5;
/// What a cache may have.
const MOST: Sizes = Sizes { dram_bytes: 256 << 20, flash_bytes: 1 << 30 };

#[derive(Debug)]
struct Loop {
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
            value_bytes: 4 << 10,
            backend: BACKEND,
            pause: PAUSE,
            stretch: self.window / STRETCHES,
            seed,
        }
    }

    /// How a cache is set up that keeps the latency by itself, where DRAM answers in so many microseconds.
    fn options(&self, hit_us: f64) -> CacheServerOptions {
        // The way to the cache is not the server's to measure.
        let latencies = GivenLatencies { memory_us: Some(hit_us), ..GivenLatencies::default() };
        CacheServerOptions {
            profile_window: Some(self.window),
            elastic: Some(ElasticOptions {
                goal: ElasticGoal::Latency { all: Some(SLA_US), of: Vec::new() },
                prices: Prices::USUAL,
                latencies,
            }),
            ..CacheServerOptions::default()
        }
    }

    /// When the stages after the first one begin, in seconds.
    fn changes(&self) -> Vec<f64> {
        let mut at = 0;
        let ends = self.stages.iter().map(|(windows, _)| {
            at += windows;
            (self.window * at).as_secs_f64()
        });
        let ends: Vec<f64> = ends.collect();
        ends[..ends.len() - 1].to_vec()
    }

    /// After how many windows the mean of each is what is asked, until the next change.
    fn windows_until_kept(&self, stretches: &[Stretch]) -> f64 {
        let changes = self.changes();
        let until = |(number, from): (usize, &f64)| {
            let to = changes.get(number + 1).copied().unwrap_or(f64::INFINITY);
            let is_of_stage = |it: &&Stretch| it.at_s >= *from && it.at_s < to;
            let of_stage: Vec<&Stretch> = stretches.iter().filter(is_of_stage).collect();
            let mean_us = |window: &[&Stretch]| {
                let gets: u64 = window.iter().map(|it| it.gets).sum();
                let sum: f64 = window.iter().map(|it| it.latency_us * it.gets as f64).sum();
                sum / gets.max(1) as f64
            };
            let means: Vec<f64> = of_stage.chunks(STRETCHES as usize).map(mean_us).collect();
            means.iter().rposition(|mean_us| *mean_us > SLA_US).map_or(0, |late| late + 1)
        };
        changes.iter().enumerate().map(until).max().unwrap_or(0) as f64
    }

    fn found(&self, subject: &'static str, stretches: &[Stretch]) -> Vec<Found> {
        let row = |stretch: &Stretch| {
            let metrics = vec![
                ("latency_us", stretch.latency_us),
                ("miss_ratio", stretch.misses as f64 / stretch.gets.max(1) as f64),
                ("plan_dram_bytes", stretch.dram_bytes as f64),
                ("plan_flash_bytes", stretch.flash_bytes as f64),
                ("cost", Prices::USUAL.cost(stretch.dram_bytes, stretch.flash_bytes)),
            ];
            Found { subject, params: at(stretch), metrics }
        };
        stretches.iter().map(row).collect()
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
        let mut all = self.found(ELASTIC, &elastic);
        all.extend(self.found(FIXED, &fixed));
        all.extend(elastic.iter().map(|stretch| Found {
            subject: ASKED,
            params: at(stretch),
            metrics: vec![("latency_us", SLA_US)],
        }));
        let cost = |it: &Stretch| Prices::USUAL.cost(it.dram_bytes, it.flash_bytes);
        let longest_us = |of: &[Stretch]| of.iter().map(|it| it.longest_us).fold(0.0, f64::max);
        let metrics = vec![
            ("windows_until_kept", self.windows_until_kept(&elastic)),
            ("cost_to_fixed", mean(&elastic, cost) / mean(&fixed, cost)),
            ("longest_hit_us", longest_us(&elastic)),
        ];
        all.push(Found { subject: ELASTIC, params: Params::new(), metrics });
        let metrics = vec![
            ("windows_until_kept", self.windows_until_kept(&fixed)),
            ("longest_hit_us", longest_us(&fixed)),
        ];
        all.push(Found { subject: FIXED, params: Params::new(), metrics });
        Ok(all)
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let model = match scale.is_quick {
        true => Loop {
            window: Duration::from_secs(2),
            stages: &[(5, 4_000), (6, 20_000), (5, 4_000)],
            threads: 8,
        },
        false => Loop {
            window: Duration::from_secs(10),
            stages: &[(5, 10_000), (6, 50_000), (6, 10_000)],
            threads: 10,
        },
    };
    let of_loop = modelled(scale, LOOP, 1, Arc::new(model));
    let parts = [windows::points(scale), profiled::points(scale), pauses::points(scale)];
    [of_loop].into_iter().chain(parts.into_iter().flatten()).collect()
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elcached-elastic",
    about: "a cache that changes its DRAM and flash by itself so that a latency is kept for the least \
            money, while clients ask for five times as many objects and for few again; and how long \
            the windows of its curves should be (what ElCached, §6, left open)",
    paper: "future work",
    claim: "after a change the latency is kept again within two windows; a server that makes curves does 98 % \
            of what it does without; nobody waits for more than 10 ms while DRAM becomes smaller",
    subjects: Subjects::Default,
    points,
    targets: &[
        Target::in_phase(LOOP, "windows_until_kept", Rule::AtMost(2.0)),
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
            title: "Mean latency of clients; at a third of the time they begin to ask for five times as many \
                    objects, at two thirds for as few again",
            metric: "latency_us",
            x: "second",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "DRAM that the cache may use",
            metric: "plan_dram_bytes",
            x: "second",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "Flash that it may use",
            metric: "plan_flash_bytes",
            x: "second",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "What both cost, 13 for a GiB of DRAM, 1 for one of flash",
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
    fn a_latency_is_kept_from_where_it_stays_so() {
        let model =
            Loop { window: Duration::from_secs(10), stages: &[(2, 1), (3, 9), (2, 1)], threads: 1 };
        // Late before the first change, in the first window after it and for a moment in the second, and
        // never again.
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
}
