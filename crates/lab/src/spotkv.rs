//! The experiments `spotkv-*`: admission, filters that unlearn, and YCSB beside LevelDB (SpotKV).
//!
//! Of `spotkv-filter`: a store of a million entries of 128 bytes in one run is asked for keys that
//! are not there, each between two that are. What a filter lets pass is looked for in a block for
//! nothing. Such *wasted reads* are what filters are held to, whether storage or a cache answers them:
//! a cache keeps the blocks of hot ones, and has no room for others then. Blocks are read directly,
//! through a cache that holds filters, indexes and as much again.
//!
//! | part | keys | lookups of a key, on average |
//! |---|---|---|
//! | `fresh` | all alike | 1 |
//! | `10 a key` | by Zipf's law, 0.99 | 10 |
//! | `100 a key` | by Zipf's law, 0.99 | 100 |
//! | `with gets` | by Zipf's law, 0.99; as many gets of keys that are there | 5 |
//! | `in memory` | those that are there, by Zipf's law; nothing is read | 3 |
//! | `absent in memory` | all alike; nothing is read but for false positives | 3 |
//! | `written` | an empty store is filled, each key four times in no order | |
//!
//! A repair of a filter counts as the reads that it takes.
//!
//! Of `spotkv-admission`: the cells of `ackey-sweep` over a million entries, with a load that has
//! puts beside it. What comes into the caches, and what leaves for it, is chosen by
//!
//! | `admission` | |
//! |---|---|
//! | `none` | nothing: all comes in, and what was not asked for for the longest time leaves |
//! | `by rate` | how often a key was asked for lately, per byte |
//! | `by rate and cost` | the same times the I/Os that lookups ending on its level do (what `tide` does) |
//! | `by counted I/Os` | the I/Os that the lookups of that key did lately, per byte (SpotKV's weighted sketch) |
//!
//! The rows also say what lookups cost that read storage (`cold_...`): by the level where they
//! ended, how many did one read, two, three and more, and how many reads of them did not lead to
//! the key; and the same of RocksDB, as far as it tells.
//!
//! Of `spotkv-ycsb`: the six loads of YCSB with values of a kilobyte. LevelDB reads through the
//! kernel's cache of files; its process may take, with that, the budget and what a process takes by
//! itself. The others read directly, and what they take is in their rows (`rss_bytes_max`).

use tidekv_cache::{CachePolicy, Idea, Ideas};

use crate::ackey::{self, Load};
use crate::changing::ycsb_loads;
use crate::engine::filling;
use crate::experiment::{
    Experiment, Figure, Point, Rule, Shape, StoreEnd, StorePlan, Subjects, Target,
};
use crate::job::{Length, WarmUp};
use crate::keys::Choice;
use crate::question::Question;
use crate::scale::Scale;
use crate::subject::Choices;
use crate::workload::{Kind, Workload};
use crate::{policy, tide};

const ZIPF: f64 = 0.99;

/// Hundredths of the data: filters have 1.1, indexes 0.4.
const METADATA_TWICE: f64 = 3.0;
const SOME_DATA: f64 = 5.0;
const EVERYTHING: f64 = 150.0;

/// Filters and who has them, the one that others are held against first.
const FILTERS: &[(&str, &[&str])] = &[
    (BLOOM_OF_SAME_MEMORY, &[tide::TIDEKV.name, ROCKS]),
    ("bloom-10", &[ROCKS]),
    ("cuckoo-10", &[tide::TIDEKV.name]),
    ("ribbon-10", &[ROCKS]),
    ("ribbon-14", &[ROCKS]),
];
/// Eleven bits and a quarter are what a cuckoo filter may take with all that it has unlearned.
const BLOOM_OF_SAME_MEMORY: &str = "bloom-11";

const ROCKS: &str = "rocksdb:options";

fn filter(scale: &Scale) -> Vec<Point> {
    let usual = Question { cache_percent: METADATA_TWICE, ..policy::usual(scale) };
    let usual = Question { zipf: ZIPF, mix: vec![(Kind::GetAbsent, 100)], ..usual };
    let operations = usual.operations;
    // As TideKV has it: whole filters are as large as a part of RocksDB's cache.
    let usual = usual.choosing("metadata", "parts");
    let in_memory =
        Question { cache_percent: EVERYTHING, operations: 3 * operations, ..usual.clone() };
    let parts = [
        ("fresh", Question { zipf: 0.0, ..usual.clone() }),
        ("10 a key", Question { operations: 10 * operations, ..usual.clone() }),
        ("100 a key", Question { operations: 100 * operations, ..usual.clone() }),
        (
            "with gets",
            Question {
                mix: vec![(Kind::GetAbsent, 50)],
                cache_percent: SOME_DATA,
                operations: 10 * operations,
                ..usual.clone()
            },
        ),
        ("in memory", Question { mix: Vec::new(), ..in_memory.clone() }),
        ("absent in memory", Question { zipf: 0.0, ..in_memory }),
    ];
    let of_part = |(part, question): &(&'static str, Question)| {
        let (part, question) = (*part, question.clone());
        let is_of_time = part.ends_with("in memory");
        FILTERS.iter().map(move |&(filter, only)| {
            let point = question.clone().choosing("filter", filter).point().with("part", part);
            let point = point.driven(|drive| {
                if is_of_time {
                    drive.warm_up = WarmUp::UntilCached;
                    drive.warm_up_seconds_max = 60.0;
                }
            });
            let plan = point.store.clone();
            let store = plan.map(|plan| StorePlan { end: StoreEnd::Merged, ..plan });
            // What is counted hardly differs from turn to turn.
            let alternations = if is_of_time { scale.long_alternations() } else { 1 };
            Point { only, store, alternations, ..point }
        })
    };
    let (wanted, filters): (_, &[_]) =
        if scale.is_quick { (&parts[..2], &[]) } else { (&parts[..], FILTERS) };
    let written = filters.iter().map(|&(filter, only)| {
        let scale = &Scale { entries: policy::entries(scale), ..scale.clone() };
        let (shape, threads) = (crate::scale::Shape::small(scale), ackey::threads(scale));
        let point = filling(scale, shape, threads, Choice::Shuffled, FILTER_PASSES);
        let choices = Choices::from([("filter".to_owned(), filter.to_owned())]);
        Point { only, choices, ..point.with("filter", filter).with("part", "written") }
    });
    wanted.iter().flat_map(of_part).chain(written).collect()
}

/// How often each key is written: most of it is merged into what there is.
const FILTER_PASSES: u64 = 4;

/// Ways to choose what caches keep, the one first that others are held against.
const ADMISSIONS: &[(&str, &[Idea])] = &[
    (NO_ADMISSION, &[Idea::Admission]),
    ("by rate", &[Idea::Cost]),
    (BY_RATE_AND_COST, &[]),
    ("by counted I/Os", &[Idea::CostByLevel]),
];
const NO_ADMISSION: &str = "none";
/// RocksDB, which has none, shows what lookups cost elsewhere.
const COUNTING: &str = "rocksdb:counting";
const BY_RATE_AND_COST: &str = "by rate and cost";
const GETS_AND_SCANS: &str = "gets and scans";

/// Of the entries, so many operations are a warm-up, and as many are measured.
const ADMISSION_SHARE: f64 = 0.5;

/// The load with its part of the experiment, and puts in hundredths.
fn admission_loads(scale: &Scale) -> Vec<(&'static str, Load, u32)> {
    let usual = (GETS_AND_SCANS, Load::zipf(1.0), 0);
    if scale.is_quick {
        return vec![usual];
    }
    let mut loads = Vec::new();
    for (part, scans) in [("gets", 0), (GETS_AND_SCANS, 50), ("scans", 100)] {
        for (name, choice) in ackey::choices() {
            for cache_percent in ackey::CACHE_PERCENTS {
                let (name, choice) = (name.to_owned(), choice.clone());
                let load = Load { name, choice, scans, cache_percent, ..Load::usual() };
                loads.push((part, load, 0));
            }
        }
    }
    let of_puts = |cache_percent| {
        ("gets and puts", Load { scans: 0, ..Load::zipf(cache_percent) }, ADMISSION_PUTS)
    };
    loads.extend(ackey::CACHE_PERCENTS.map(of_puts));
    loads
}

const ADMISSION_PUTS: u32 = 20;

fn admission(scale: &Scale) -> Vec<Point> {
    let scale = &Scale { entries: policy::entries(scale), ..scale.clone() };
    let operations = (scale.entries as f64 * ADMISSION_SHARE) as u64;
    let of_load = |(part, load, puts): (&'static str, Load, u32)| {
        ADMISSIONS.iter().map(move |(admission, without)| {
            let without = without.iter().fold(Ideas::NONE, |ideas, idea| ideas.and(*idea));
            let policy = match without {
                Ideas::NONE => CachePolicy::Tide,
                without => CachePolicy::TideWithout(without),
            };
            let point = ackey::point(scale, ackey::threads(scale), &load)
                .with("part", part)
                .with("admission", *admission)
                .driven(|drive| {
                    drive.warm_up = WarmUp::Operations(operations);
                    drive.length = Length::Operations(operations);
                    if puts > 0 {
                        drive.workload.mix = vec![(Kind::Get, 100 - puts), (Kind::Put, puts)];
                    }
                });
            let (policy, changes_store) = (Some(policy.to_string()), puts > 0);
            let only: &[&str] = match *admission {
                NO_ADMISSION => &[tide::TIDEKV.name, COUNTING],
                _ => &[tide::TIDEKV.name],
            };
            // What is counted hardly differs from turn to turn.
            Point { policy, changes_store, only, alternations: 1, ..point }
        })
    };
    admission_loads(scale).into_iter().flat_map(of_load).collect()
}

const YCSB_VALUE_BYTES: u64 = 1000;
/// Of the data, in hundredths.
const YCSB_BUDGETS: &[f64] = &[1.0, 5.0];
/// What a process takes before it opens a store, and allocators beyond what they are asked for:
/// no less than others are seen to take.
const BESIDE_BUDGET_BYTES: u64 = 32 << 20;
const LEVELDB: &str = "leveldb";

fn ycsb(scale: &Scale) -> Vec<Point> {
    let budgets = if scale.is_quick { &YCSB_BUDGETS[1..] } else { YCSB_BUDGETS };
    let of_budget = |&percent: &f64| {
        ycsb_loads().map(|(name, mix, choice)| {
            let load = Load { value_bytes: YCSB_VALUE_BYTES, ..Load::zipf(percent) };
            let point = ackey::point(scale, ackey::threads(scale), &load)
                .without(&["scan_percent", "keys", "cache_percent"])
                .with("ycsb", name)
                .with("budget_percent", percent)
                .driven(|drive| {
                    drive.workload = Workload { mix, choice, ..drive.workload.clone() };
                })
                .once_if_quick(scale);
            let budget = point.cache_bytes.unwrap_or_default();
            Point {
                memory_bytes: budget,
                cache_bytes: None,
                process_bytes: Some(budget + BESIDE_BUDGET_BYTES),
                changes_store: name != "C",
                ..point
            }
        })
    };
    budgets.iter().flat_map(of_budget).collect()
}

const YCSB: Experiment = Experiment {
    name: "spotkv-ycsb",
    about: "YCSB with values of a kilobyte and a budget of 1 and 5 % of the data, beside LevelDB, \
            whose files in the kernel's cache count as its memory (SpotKV)",
    paper: "1.2 to 3.0 times the read throughput of state-of-the-art stores under the read-heavy \
            loads of YCSB with the same or less memory (abstract)",
    claim: "at least 1.2 times LevelDB's operations a second, and RocksDB's at its best setting",
    subjects: Subjects::Only(&[
        tide::TIDEKV.name,
        LEVELDB,
        "rocksdb:lru",
        "rocksdb:pinned",
        "rocksdb:row-cache",
        "rocksdb:tuned",
    ]),
    points: ycsb,
    targets: &[
        Target::new("ops_per_s", Rule::RatioToSubjectAtLeast(LEVELDB, 1.2)),
        Target::new("ops_per_s", Rule::RatioAtLeast(1.2)),
    ],
    ..Experiment::USUAL
};

const ADMISSION: Experiment = Experiment {
    name: "spotkv-admission",
    about: "what caches keep, chosen by nothing, by how often keys are asked for, and by what they \
            cost to read besides (SpotKV)",
    paper: "the I/O cost of keys varies with their level and with false positives, which admission \
            is to weigh by a weighted Count-Min sketch (abstract; no numbers of admission alone)",
    claim: "a fifth fewer reads with admission where gets and scans are mixed, and nowhere more",
    subjects: Subjects::Only(&[tide::TIDEKV.name, COUNTING]),
    points: admission,
    targets: &[
        Target::in_phase(
            GETS_AND_SCANS,
            "reads_per_op",
            Rule::RatioToNamedPointAtMost("admission", NO_ADMISSION, 0.8),
        ),
        Target::in_phase(
            "gets",
            "reads_per_op",
            Rule::RatioToNamedPointAtMost("admission", NO_ADMISSION, 1.0),
        ),
        Target::in_phase(
            "scans",
            "reads_per_op",
            Rule::RatioToNamedPointAtMost("admission", NO_ADMISSION, 1.0),
        ),
        Target::in_phase(
            "gets and puts",
            "reads_per_op",
            Rule::RatioToNamedPointAtMost("admission", NO_ADMISSION, 1.0),
        ),
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

const FILTER: Experiment = Experiment {
    name: "spotkv-filter",
    about: "keys that are not there, asked for once, ten and a hundred times, and keys that are \
            there, with filters of all kinds (SpotKV)",
    paper: "false positives of Bloom filters introduce a large overhead, dynamic-seed cuckoo \
            filters eliminate them (abstract; no numbers of filters alone)",
    claim: "a key that is not there costs a cuckoo filter about three reads, however often it is \
            asked for; keys that are there are found as fast",
    subjects: Subjects::Only(&[tide::TIDEKV.name, ROCKS]),
    points: filter,
    targets: &[
        Target::in_phase(
            "10 a key",
            "wasted_reads_per_op",
            Rule::RatioToNamedPointAtMost("filter", BLOOM_OF_SAME_MEMORY, 1.0 / 5.0),
        ),
        Target::in_phase(
            "100 a key",
            "wasted_reads_per_op",
            Rule::RatioToNamedPointAtMost("filter", BLOOM_OF_SAME_MEMORY, 1.0 / 20.0),
        ),
        Target::in_phase(
            "with gets",
            "reads_per_op",
            Rule::RatioToNamedPointAtMost("filter", BLOOM_OF_SAME_MEMORY, 1.0),
        ),
        Target::in_phase(
            "in memory",
            "ops_per_s",
            Rule::RatioToNamedPointAtLeast("filter", BLOOM_OF_SAME_MEMORY, 0.8),
        ),
        Target::in_phase(
            "absent in memory",
            "ops_per_s",
            Rule::RatioToNamedPointAtLeast("filter", BLOOM_OF_SAME_MEMORY, 0.8),
        ),
        Target::in_phase(
            "written",
            "settled_ops_per_s",
            Rule::RatioToNamedPointAtLeast("filter", BLOOM_OF_SAME_MEMORY, 0.9),
        ),
        Target::in_phase("fresh", "false_positives_per_op", Rule::AtMost(0.01)),
        Target::in_phase("100 a key", "filter_bits_per_key", Rule::AtMost(11.25)),
    ],
    figures: &[
        Figure {
            title: "Wasted reads of an operation",
            metric: "wasted_reads_per_op",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Reads of an operation",
            metric: "reads_per_op",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Bits of filters for each key",
            metric: "filter_bits_per_key",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Operations a second",
            metric: "ops_per_s",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
    ],
    ..Experiment::USUAL
};

/// All of them, in the order in which they are listed and run.
pub(crate) const EXPERIMENTS: &[Experiment] = &[ADMISSION, FILTER, YCSB];
