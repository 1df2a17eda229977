//! `elcached-elastic`: a cache that changes its sizes by itself, while its clients change their minds (what
//! ElCached left open, §6).
//!
//! | subject | what it is |
//! |---|---|
//! | `tidekv:elastic` | `tidekv cache --elastic`: as much DRAM and flash as keeps a latency, for the least money |
//! | `fixed` | the same cache with all that it may have, all the time |
//! | `asked` | the latency that is to be kept |
//!
//! In the parts `loop …` clients ask a real cache behind a socket, with flash in a real file: first for few
//! objects, then for five times as many, then for few again. Latencies are theirs, with the time that a
//! database takes for what the cache has not. `windows_until_kept` says after how many windows from a change
//! on the mean of each window is what is asked, and stays so; pictures have fifths of windows.
//!
//! | part | a database takes | is asked | what for |
//! |---|---|---|---|
//! | `loop` | 1 ms | 300 µs | a hit takes a good part of it, so DRAM and flash are weighed; needs processors that are kept awake: else a virtual machine's host is measured |
//! | `loop slow database` | 50 ms | 10 ms | what is missed decides, and a machine that others use changes little |
//!
//! What the machine did is told: whether processors were kept awake (`is_awake`), how long a hit took before (`hit_us`),
//! and in how many windows the cache of fixed size was late though it would not have been with hits of that length
//! (`windows_late_by_machine`). Where there are such windows, `tidekv:elastic` may have been late for the same reason.
//!
//! The parts `windows …` say what a window's length does ([`crate::experiments::elcached::windows`]), the parts
//! `profiling …` what curves cost a server ([`crate::experiments::elcached::profiled`]).

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

/// Bytes of a value. Large, so that few requests fill a cache: with many, clients would wait for a processor, and
/// no plan helps there.
const VALUE_BYTES: u64 = 16 << 10;
/// Stretches of a window.
const STRETCHES: u32 = 5;
/// What a cache may have.
const MOST: Sizes = Sizes { dram_bytes: 256 << 20, flash_bytes: 1 << 30 };

#[derive(Debug)]
struct Loop {
    /// The latency that is to be kept, in microseconds.
    sla_us: f64,
    /// What a database takes.
    backend: Duration,
    /// How long clients wait between their requests.
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

    /// How a cache is set up that keeps the latency by itself, where DRAM answers in so many microseconds.
    fn options(&self, hit_us: f64) -> CacheServerOptions {
        // The way to the cache is not the server's to measure.
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

    /// What was seen in each window, stage by stage.
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

    /// After how many windows the mean of each is what is asked, until the next change.
    fn windows_until_kept(&self, stretches: &[Stretch]) -> f64 {
        let until = |windows: Vec<WindowSeen>| {
            windows.iter().rposition(|it| it.latency_us > self.sla_us).map_or(0, |late| late + 1)
        };
        let after_changes = self.windows(stretches).into_iter().skip(1);
        after_changes.map(until).max().unwrap_or(0) as f64
    }

    /// How many windows were late whose misses, with hits as short as before the run, would not have made
    /// them so.
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

/// What was seen in a window.
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

/// Clients of a database that answers soon.
const FAST_DATABASE: Loop = Loop {
    sla_us: 300.0,
    backend: Duration::from_millis(1),
    pause: Duration::from_millis(2),
    window: Duration::from_secs(10),
    stages: &[(5, 2_500), (6, 12_500), (6, 2_500)],
    threads: 10,
};

/// Of one that takes long: more clients, for each waits longer; when all are hits, about as many requests a second.
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
        let model = Loop { stages: &[(2, 1), (3, 9), (2, 1)], ..FAST_DATABASE };
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

    #[test]
    fn a_machine_was_slow_where_misses_do_not_say_why_it_was_late() {
        let model = Loop { stages: &[(2, 1), (2, 9)], ..FAST_DATABASE };
        // By windows: late and nothing missed, late by what was missed, late by both, in time.
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
        // A database takes 1 ms, and 300 microseconds are asked: 10 % of misses are 100 of them.
        assert_eq!([150.0, 210.0, 310.0].map(slow), [2.0, 1.0, 0.0]);
    }
}
