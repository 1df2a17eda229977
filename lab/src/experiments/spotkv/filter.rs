//! `spotkv-filter`: gets of absent keys, each between two existing ones, in a store of a million
//! entries of 128 bytes in one run. A false positive of a filter costs the lookup of a block.
//! Filters are judged by these *wasted reads*, whether storage or a cache answers them: a cache
//! keeps the blocks of hot ones, and then has no room for others. Blocks are read directly, through
//! a cache that holds filters, indexes and as much again.
//!
//! | part | keys | average lookups of a key |
//! |---|---|---|
//! | `fresh` | uniform | 1 |
//! | `10 a key` | by Zipf's law, 0.99 | 10 |
//! | `100 a key` | by Zipf's law, 0.99 | 100 |
//! | `with gets` | by Zipf's law, 0.99; the same number of gets of existing keys | 5 |
//! | `in memory` | existing keys, by Zipf's law; no reads | 3 |
//! | `absent in memory` | uniform; no reads except for false positives | 3 |
//! | `written` | an empty store is filled, each key four times in random order | |
//!
//! A repair of a filter counts with its reads.

use crate::experiment::{
    Experiment, Figure, Point, Rule, Shape, StoreEnd, StorePlan, Subjects, Target,
};
use crate::experiments::ackey::caches;
use crate::experiments::engine::filling;
use crate::experiments::policy;
use crate::experiments::scenario::Scenario;
use crate::harness::job::WarmUp;
use crate::load::keys::Choice;
use crate::load::workload::Kind;
use crate::scale::{self, Scale};
use crate::subject::Choices;
use crate::subjects::tidekv;

const ZIPF: f64 = 0.99;

/// Percent of the data: filters have 1.1, indexes 0.4.
const METADATA_TWICE: f64 = 3.0;
const SOME_DATA: f64 = 5.0;
const EVERYTHING: f64 = 150.0;

/// Filters with their subjects, the baseline first.
const FILTERS: &[(&str, &[&str])] = &[
    (BLOOM_OF_SAME_MEMORY, &[tidekv::TIDEKV.name, ROCKS]),
    ("bloom-10", &[ROCKS]),
    ("cuckoo-10", &[tidekv::TIDEKV.name]),
    ("ribbon-10", &[ROCKS]),
    ("ribbon-14", &[ROCKS]),
];
/// A cuckoo filter takes at most eleven and a quarter bits, including its repairs.
const BLOOM_OF_SAME_MEMORY: &str = "bloom-11";

const ROCKS: &str = "rocksdb:options";

fn points(scale: &Scale) -> Vec<Point> {
    let usual = Scenario { cache_percent: METADATA_TWICE, ..policy::usual(scale) };
    let usual = Scenario { zipf: ZIPF, mix: vec![(Kind::GetAbsent, 100)], ..usual };
    let operations = usual.operations;
    // As in TideKV: whole filters are as large as a part of RocksDB's cache.
    let usual = usual.choosing("metadata", "parts");
    let in_memory =
        Scenario { cache_percent: EVERYTHING, operations: 3 * operations, ..usual.clone() };
    let parts = [
        ("fresh", Scenario { zipf: 0.0, ..usual.clone() }),
        ("10 a key", Scenario { operations: 10 * operations, ..usual.clone() }),
        ("100 a key", Scenario { operations: 100 * operations, ..usual.clone() }),
        (
            "with gets",
            Scenario {
                mix: vec![(Kind::GetAbsent, 50)],
                cache_percent: SOME_DATA,
                operations: 10 * operations,
                ..usual.clone()
            },
        ),
        ("in memory", Scenario { mix: Vec::new(), ..in_memory.clone() }),
        ("absent in memory", Scenario { zipf: 0.0, ..in_memory }),
    ];
    let of_part = |(part, scenario): &(&'static str, Scenario)| {
        let (part, scenario) = (*part, scenario.clone());
        let is_of_time = part.ends_with("in memory");
        FILTERS.iter().map(move |&(filter, only)| {
            let point = scenario.clone().choosing("filter", filter).point().with("part", part);
            let point = point.driven(|drive| {
                if is_of_time {
                    drive.warm_up = WarmUp::UntilCached;
                    drive.warm_up_seconds_max = 60.0;
                }
            });
            let plan = point.store.clone();
            let store = plan.map(|plan| StorePlan { end: StoreEnd::Merged, ..plan });
            // Counts hardly differ between turns.
            let alternations = if is_of_time { scale.long_alternations() } else { 1 };
            Point { only, store, alternations, ..point }
        })
    };
    if scale.is_quick {
        return parts[..2].iter().flat_map(of_part).collect();
    }
    parts.iter().flat_map(of_part).chain(written(scale)).collect()
}

/// Writes per key: compactions merge most of them with existing data.
const PASSES: u64 = 4;

fn written(scale: &Scale) -> impl Iterator<Item = Point> {
    let scale = Scale { entries: policy::entries(scale), ..scale.clone() };
    let shape = scale::Shape::small(&scale);
    FILTERS.iter().map(move |&(filter, only)| {
        let point = filling(&scale, shape, caches::threads(&scale), Choice::Shuffled, PASSES);
        let choices = Choices::from([("filter".to_owned(), filter.to_owned())]);
        Point { only, choices, ..point.with("filter", filter).with("part", "written") }
    })
}

pub(super) const FILTER: Experiment = Experiment {
    name: "spotkv-filter",
    about: "absent keys requested once, ten and a hundred times, and existing keys, with all \
            kinds of filters (SpotKV)",
    paper: "false positives of Bloom filters introduce a large overhead, dynamic-seed cuckoo \
            filters eliminate them (abstract; no numbers of filters alone)",
    claim: "an absent key costs about three reads with a cuckoo filter, however often it is \
            requested; lookups of existing keys are as fast",
    subjects: Subjects::Only(&[tidekv::TIDEKV.name, ROCKS]),
    points,
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
            title: "Wasted reads per operation",
            metric: "wasted_reads_per_op",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Reads per operation",
            metric: "reads_per_op",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Filter bits per key",
            metric: "filter_bits_per_key",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Operations per second",
            metric: "ops_per_s",
            x: "filter",
            y: "part",
            shape: Shape::Map,
        },
    ],
    ..Experiment::USUAL
};
