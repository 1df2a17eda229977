//! The experiments `ackey-*`: caches of values, pointers and blocks under one budget, as
//! AC-Key (Wu et al., ATC 2020) measures them.
//!
//! The cache is a share of the data (keys and values) and counts all that it takes;
//! write buffers and reads in flight lie beside it, the same for all. Where the paper
//! does not say otherwise, half of the operations are gets and half scans of 100
//! entries, and the hottest hundredth of the keys, in runs of a thousand, takes 99 % of
//! them.

use tidekv_evidence::Value;

use crate::engine::settled;
use crate::experiment::{Experiment, Params, Point, Rule, Target};
use crate::job::{Drive, Ending, Length, WarmUp};
use crate::keys::Choice;
use crate::scale::{Scale, Shape};
use crate::workload::{Kind, Workload};

/// Memory beside the cache.
const BESIDE_BYTES: u64 = 64 << 20;

/// Operations before the measured ones, as a share of the entries.
const WARM_UP_SHARE: f64 = 0.5;
/// A warm-up ends after so many times what is measured, at the latest.
const WARM_UP_SECONDS_SHARE_MAX: f64 = 12.0;

/// One point of the sweeps.
#[derive(Debug, Clone)]
struct Load {
    name: String,
    choice: Choice,
    /// Of a hundred operations.
    scans: u32,
    /// Of the data.
    cache_percent: f64,
    value_bytes: u64,
}

impl Load {
    /// As the paper has it where nothing else is said.
    fn usual() -> Self {
        Self {
            name: "hot-ranges".into(),
            choice: hot_ranges(0.99),
            scans: 50,
            cache_percent: 1.0,
            value_bytes: 100,
        }
    }
}

fn hot_ranges(operations: f64) -> Choice {
    Choice::Hot { entries: 0.01, operations, run: 1000 }
}

fn point(scale: &Scale, threads: u64, load: &Load) -> Point {
    let mut shape = Shape::small(scale);
    // About as much data, whatever the size of the values.
    shape.entries = shape.entries * (16 + 100) / (16 + load.value_bytes);
    shape.value_bytes = load.value_bytes;
    let cache_bytes = (shape.data_bytes() as f64 * load.cache_percent / 100.0) as u64;
    let memory_bytes = cache_bytes + BESIDE_BYTES;
    let mut workload = Workload::only(Kind::Get, load.choice.clone(), shape.entries);
    workload.mix = [(Kind::Get, 100 - load.scans), (Kind::Scan, load.scans)]
        .into_iter()
        .filter(|(_, weight)| *weight > 0)
        .collect();
    let warm_up = (shape.entries as f64 * WARM_UP_SHARE) as u64;
    let params: Params = [
        ("entries", Value::from(shape.entries)),
        ("value_bytes", shape.value_bytes.into()),
        ("keys", load.name.clone().into()),
        ("scan_percent", load.scans.into()),
        ("cache_percent", load.cache_percent.into()),
        ("threads", threads.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    Point {
        params,
        memory_bytes,
        cache_bytes: Some(cache_bytes),
        value_bytes: shape.value_bytes,
        is_compressed: false,
        store: Some(settled(shape)),
        changes_store: false,
        drive: Some(Drive {
            workload,
            threads,
            warm_up: WarmUp::Operations(warm_up),
            warm_up_seconds_max: WARM_UP_SECONDS_SHARE_MAX * scale.seconds,
            length: Length::Seconds(scale.seconds),
            operations_per_sample: 1,
            arrivals_per_s: None,
            holds: 0,
        }),
        ending: Ending::Close,
        counts_everything: true,
        share_of_slowest: None,
        alternations: scale.alternations,
        is_of_drive: false,
    }
}

fn points(scale: &Scale, loads: impl IntoIterator<Item = Load>) -> Vec<Point> {
    let threads = scale.threads.last().copied().unwrap_or(1);
    loads.into_iter().map(|load| point(scale, threads, &load)).collect()
}

/// Every choice of keys with every share of scans and every size of the cache.
fn sweep(scale: &Scale) -> Vec<Point> {
    let choices = [
        ("zipf-0.99", Choice::Zipf { alpha: 0.99, is_scattered: true }),
        ("zipf-0.8", Choice::Zipf { alpha: 0.8, is_scattered: true }),
        ("hot-keys", Choice::Hot { entries: 0.01, operations: 0.9, run: 1 }),
        ("hot-ranges", hot_ranges(0.99)),
    ];
    let mut loads = Vec::new();
    for (name, choice) in choices {
        for scans in [0, 50, 100] {
            for cache_percent in [0.1, 1.0, 5.0, 10.0] {
                let choice = choice.clone();
                let (name, usual) = (name.to_owned(), Load::usual());
                loads.push(Load { name, choice, scans, cache_percent, ..usual });
            }
        }
    }
    points(scale, loads)
}

fn cache_size(scale: &Scale) -> Vec<Point> {
    let sizes = [0.1, 0.3, 1.0, 3.0, 10.0];
    points(scale, sizes.map(|cache_percent| Load { cache_percent, ..Load::usual() }))
}

fn skew(scale: &Scale) -> Vec<Point> {
    let shares = [1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9];
    points(
        scale,
        shares.map(|percent| Load {
            name: format!("hot-ranges-{percent}"),
            choice: hot_ranges(percent / 100.0),
            ..Load::usual()
        }),
    )
}

fn scan_ratio(scale: &Scale) -> Vec<Point> {
    points(scale, [0, 20, 40, 60, 80, 100].map(|scans| Load { scans, ..Load::usual() }))
}

fn value_size(scale: &Scale) -> Vec<Point> {
    let sizes = [50, 100, 150, 200, 1024, 4096];
    points(scale, sizes.map(|value_bytes| Load { value_bytes, ..Load::usual() }))
}

const FASTER: &[Target] = &[Target { of: "ops_per_s", rule: Rule::RatioAtLeast(1.0) }];

/// All of them, in the order in which they are listed and run.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "ackey-sweep",
        about: "four choices of keys, three shares of scans, four sizes of the cache",
        claim: "faster than RocksDB in every cell",
        points: sweep,
        targets: FASTER,
    },
    Experiment {
        name: "ackey-cache-size",
        about: "caches of 0.1 to 10 % of the data (AC-Key, Fig. 7)",
        claim: "faster than RocksDB at every size",
        points: cache_size,
        targets: FASTER,
    },
    Experiment {
        name: "ackey-skew",
        about: "the hottest hundredth takes 1 to 99.9 % of the operations (AC-Key, Fig. 8)",
        claim: "faster than RocksDB at every skew",
        points: skew,
        targets: FASTER,
    },
    Experiment {
        name: "ackey-scan-ratio",
        about: "0 to 100 % of the operations are scans (AC-Key, Fig. 9)",
        claim: "faster than RocksDB at every ratio",
        points: scan_ratio,
        targets: FASTER,
    },
    Experiment {
        name: "ackey-value-size",
        about: "values of 50 B to 4 KiB (AC-Key, Fig. 10)",
        claim: "faster than RocksDB at every size",
        points: value_size,
        targets: FASTER,
    },
];
