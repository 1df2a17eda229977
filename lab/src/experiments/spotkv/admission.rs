//! `spotkv-admission`: the cells of `ackey-sweep` over a million entries, and a load with puts.
//! Admission to the caches and eviction depend on
//!
//! | `admission` | |
//! |---|---|
//! | `none` | no admission: every entry is admitted, and the least recently used is evicted |
//! | `by rate` | the recent access frequency of a key, per byte |
//! | `by rate and cost` | the same times the I/Os of lookups that end on its level (the policy of `adaptive`) |
//! | `by counted I/Os` | the recent I/Os of the lookups of that key, per byte (SpotKV's weighted sketch) |
//!
//! The rows also contain the cost of lookups that read storage (`cold_...`): by the level where
//! they ended, the number with one read, two, three and more, and the number of their reads that
//! did not lead to the key; and the same for RocksDB, as far as it reports it.

use tidekv_cache::{Ablation, Ablations, CachePolicy};

use crate::experiment::{Experiment, Figure, Point, Rule, Shape, Subjects, Target};
use crate::experiments::ackey::caches::{self, Load};
use crate::experiments::policy;
use crate::harness::job::{Length, WarmUp};
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subjects::tidekv;

/// Admission policies, the baseline first.
const ADMISSIONS: &[(&str, &[Ablation])] = &[
    (NO_ADMISSION, &[Ablation::Admission]),
    ("by rate", &[Ablation::Cost]),
    ("by rate and cost", &[]),
    ("by counted I/Os", &[Ablation::CostByLevel]),
];
const NO_ADMISSION: &str = "none";

/// RocksDB, which has no admission, shows the lookup costs of another engine.
const COUNTING: &str = "rocksdb:counting";

/// Operations of the warm-up and of the measurement, as fractions of the entries.
const WARM_UP_SHARE: f64 = 0.5;
const MEASURED_SHARE: f64 = 0.25;

/// One load, and its part of the experiment.
struct Case {
    part: &'static str,
    load: Load,
    /// Percent of the operations; the others depend on the load.
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
            // Counts hardly differ between turns.
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

/// At most this multiple of the reads without admission.
const fn reads_at_most(part: &'static str, times: f64) -> Target {
    let rule = Rule::RatioToNamedPointAtMost("admission", NO_ADMISSION, times);
    Target::in_phase(part, "reads_per_op", rule)
}

pub(super) const ADMISSION: Experiment = Experiment {
    name: "spotkv-admission",
    about: "cache admission: none, by access frequency, and by frequency and read cost (SpotKV)",
    paper: "the I/O cost of keys varies with their level and with false positives, which admission \
            is to weigh by a weighted Count-Min sketch (abstract; no numbers of admission alone)",
    claim: "a fifth fewer reads with admission where gets and scans are mixed, and no more reads \
            elsewhere",
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
            title: "Reads per operation",
            metric: "reads_per_op",
            x: "admission",
            y: "cache_percent",
            shape: Shape::Map,
        },
        Figure {
            title: "Reads per lookup that reads storage",
            metric: "cold_reads",
            x: "admission",
            y: "cache_percent",
            shape: Shape::Map,
        },
    ],
    ..Experiment::USUAL
};
