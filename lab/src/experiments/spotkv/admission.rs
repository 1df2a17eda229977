//! `spotkv-admission`: the cells of `ackey-sweep` over a million entries, and a load with puts beside
//! them. What comes into the caches, and what leaves for it, is chosen by
//!
//! | `admission` | |
//! |---|---|
//! | `none` | nothing: all comes in, and what was not asked for for the longest time leaves |
//! | `by rate` | how often a key was asked for lately, per byte |
//! | `by rate and cost` | the same times the I/Os that lookups ending on its level do (what `adaptive` does) |
//! | `by counted I/Os` | the I/Os that the lookups of that key did lately, per byte (SpotKV's weighted sketch) |
//!
//! The rows also say what lookups cost that read storage (`cold_...`): by the level where they
//! ended, how many did one read, two, three and more, and how many reads of them did not lead to
//! the key; and the same of RocksDB, as far as it tells.

use tidekv_cache::{Ablation, Ablations, CachePolicy};

use crate::experiment::{Experiment, Figure, Point, Rule, Shape, Subjects, Target};
use crate::experiments::ackey::caches::{self, Load};
use crate::experiments::policy;
use crate::harness::job::{Length, WarmUp};
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subjects::tidekv;

/// Ways to choose what caches keep, the one first that others are held against.
const ADMISSIONS: &[(&str, &[Ablation])] = &[
    (NO_ADMISSION, &[Ablation::Admission]),
    ("by rate", &[Ablation::Cost]),
    ("by rate and cost", &[]),
    ("by counted I/Os", &[Ablation::CostByLevel]),
];
const NO_ADMISSION: &str = "none";

/// RocksDB, which has none, shows what lookups cost elsewhere.
const COUNTING: &str = "rocksdb:counting";

/// Of the entries, so many operations are a warm-up, and so many are measured.
const WARM_UP_SHARE: f64 = 0.5;
const MEASURED_SHARE: f64 = 0.25;

/// One load, and its part of the experiment.
struct Case {
    part: &'static str,
    load: Load,
    /// Of a hundred operations; the others are as the load says.
    puts: u32,
}

const GETS: &str = "gets";
const SCANS: &str = "scans";
const GETS_AND_SCANS: &str = "gets and scans";
const GETS_AND_PUTS: &str = "gets and puts";
const PUTS: u32 = 20;

fn cases(scale: &Scale) -> Vec<Case> {
    if scale.is_quick {
        return vec![Case { part: GETS_AND_SCANS, load: Load::zipf(1.0), puts: 0 }];
    }
    let mut cases = Vec::new();
    for (part, scans) in [(GETS, 0), (GETS_AND_SCANS, 50), (SCANS, 100)] {
        for (name, choice) in caches::choices() {
            for cache_percent in caches::CACHE_PERCENTS {
                let (name, choice) = (name.to_owned(), choice.clone());
                let load = Load { name, choice, scans, cache_percent, ..Load::usual() };
                cases.push(Case { part, load, puts: 0 });
            }
        }
    }
    cases.extend(caches::CACHE_PERCENTS.map(|cache_percent| {
        let load = Load { scans: 0, ..Load::zipf(cache_percent) };
        Case { part: GETS_AND_PUTS, load, puts: PUTS }
    }));
    cases
}

impl Case {
    fn point(&self, scale: &Scale, admission: &'static str, without: &[Ablation]) -> Point {
        let policy = match without {
            [] => CachePolicy::Adaptive,
            _ => CachePolicy::AdaptiveWithout(
                without.iter().fold(Ablations::NONE, |all, it| all.and(*it)),
            ),
        };
        let operations = |share: f64| (scale.entries as f64 * share) as u64;
        let only: &[&str] = match admission {
            NO_ADMISSION => &[tidekv::TIDEKV.name, COUNTING],
            _ => &[tidekv::TIDEKV.name],
        };
        let point = caches::point(scale, caches::threads(scale), &self.load)
            .with("part", self.part)
            .with("admission", admission)
            .driven(|drive| {
                drive.warm_up = WarmUp::Operations(operations(WARM_UP_SHARE));
                drive.length = Length::Operations(operations(MEASURED_SHARE));
                if self.puts > 0 {
                    drive.workload.mix = vec![(Kind::Get, 100 - self.puts), (Kind::Put, self.puts)];
                }
            });
        Point {
            policy: Some(policy.to_string()),
            changes_store: self.puts > 0,
            only,
            // What is counted hardly differs from turn to turn.
            alternations: 1,
            ..point
        }
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let scale = &Scale { entries: policy::entries(scale), ..scale.clone() };
    let of_case = |case: Case| {
        ADMISSIONS.iter().map(move |(admission, without)| case.point(scale, admission, without))
    };
    cases(scale).into_iter().flat_map(of_case).collect()
}

/// At most so many times the reads without admission.
const fn reads_at_most(part: &'static str, times: f64) -> Target {
    let rule = Rule::RatioToNamedPointAtMost("admission", NO_ADMISSION, times);
    Target::in_phase(part, "reads_per_op", rule)
}

pub(super) const ADMISSION: Experiment = Experiment {
    name: "spotkv-admission",
    about: "what caches keep, chosen by nothing, by how often keys are asked for, and by what they \
            cost to read besides (SpotKV)",
    paper: "the I/O cost of keys varies with their level and with false positives, which admission \
            is to weigh by a weighted Count-Min sketch (abstract; no numbers of admission alone)",
    claim: "a fifth fewer reads with admission where gets and scans are mixed, and nowhere more",
    subjects: Subjects::Only(&[tidekv::TIDEKV.name, COUNTING]),
    points,
    targets: &[
        reads_at_most(GETS_AND_SCANS, 0.8),
        reads_at_most(GETS, 1.0),
        reads_at_most(SCANS, 1.0),
        reads_at_most(GETS_AND_PUTS, 1.0),
    ],
    figures: &[
        Figure {
            title: "Reads of an operation",
            metric: "reads_per_op",
            x: "admission",
            y: "cache_percent",
            shape: Shape::Map,
        },
        Figure {
            title: "Reads of a lookup that reads storage",
            metric: "cold_reads",
            x: "admission",
            y: "cache_percent",
            shape: Shape::Map,
        },
    ],
    ..Experiment::USUAL
};
