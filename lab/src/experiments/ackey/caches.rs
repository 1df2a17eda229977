//! The experiments `ackey-*`: caches of values, pointers and blocks with one budget, with the loads
//! of AC-Key (Wu et al., ATC 2020).
//!
//! The cache size is a percentage of the data (keys and values) and includes all cache overhead;
//! write buffers and pending reads are in addition, equal for all. Unless the paper says otherwise,
//! half of the operations are gets and half are scans of 100 entries, and the hottest hundredth of
//! the keys, in runs of a thousand, gets 99 % of them.

use tidekv_cache::{Ablation, Ablations, CachePolicy};
use tidekv_testkit::evidence::Value;

use crate::experiment::{Experiment, Params, Point, Rule, Subjects, Target};
use crate::experiments::engine::settled;
use crate::harness::job::{Drive, Ending, Length, WarmUp};
use crate::load::keys::{Choice, data_bytes};
use crate::load::workload::{Kind, Workload};
use crate::scale::{Scale, Shape};
use crate::subject::Choices;

/// In a quick run, an experiment with more points than this measures each once instead of twice.
const QUICK_POINTS_TWICE_MAX: usize = 6;

/// Memory in addition to the cache.
const BESIDE_BYTES: u64 = 64 << 20;

/// Operations before the measurement, as a fraction of the entries; and in a quick run, where they
/// would take most of the time.
const WARM_UP_SHARE: f64 = 0.5;
const WARM_UP_SHARE_QUICK: f64 = 0.1;
/// The maximum length of a warm-up, as a multiple of the measurement.
const WARM_UP_SECONDS_SHARE_MAX: f64 = 12.0;

/// One point of the sweeps.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) choice: Choice,
    /// Percent of the operations.
    pub(crate) scans: u32,
    /// Percent of the data.
    pub(crate) cache_percent: f64,
    pub(crate) value_bytes: u64,
}

impl Load {
    /// The paper's default.
    pub(crate) fn usual() -> Self {
        Self {
            name: "hot-ranges".into(),
            choice: hot_ranges(0.99),
            scans: 50,
            cache_percent: 1.0,
            value_bytes: 100,
        }
    }

    /// The same with keys by Zipf's law.
    pub(crate) fn zipf(cache_percent: f64) -> Self {
        Self { name: "zipf-0.99".into(), choice: ZIPF, cache_percent, ..Self::usual() }
    }
}

/// Zipf's law as in YCSB.
pub(crate) const ZIPF: Choice = Choice::Zipf { alpha: 0.99, is_scattered: true };

fn hot_ranges(operations: f64) -> Choice {
    Choice::Hot { entries: 0.01, operations, run: 1000 }
}

pub(crate) fn point(scale: &Scale, threads: u64, load: &Load) -> Point {
    let mut shape = Shape::small(scale);
    // About the same amount of data for every value size.
    shape.entries = shape.data_bytes() / data_bytes(1, load.value_bytes);
    shape.value_bytes = load.value_bytes;
    let cache_bytes = (shape.data_bytes() as f64 * load.cache_percent / 100.0) as u64;
    let memory_bytes = cache_bytes + BESIDE_BYTES;
    let mut workload = Workload::only(Kind::Get, load.choice.clone(), shape.entries);
    workload.mix = [(Kind::Get, 100 - load.scans), (Kind::Scan, load.scans)]
        .into_iter()
        .filter(|(_, weight)| *weight > 0)
        .collect();
    let share = if scale.is_quick { WARM_UP_SHARE_QUICK } else { WARM_UP_SHARE };
    let warm_up = (shape.entries as f64 * share) as u64;
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
        process_bytes: None,
        cache_bytes: Some(cache_bytes),
        value_bytes: shape.value_bytes,
        is_compressed: false,
        is_buffered: false,
        choices: Choices::new(),
        store: Some(settled(shape)),
        changes_store: false,
        drive: Some(Drive {
            workload,
            threads,
            fills_first: false,
            warm_up: WarmUp::Operations(warm_up),
            warm_up_seconds_max: WARM_UP_SECONDS_SHARE_MAX * scale.seconds,
            length: Length::Seconds(scale.seconds),
            operations_per_sample: 1,
            arrivals_per_s: None,
            holds: 0,
            phases: Vec::new(),
        }),
        replay: None,
        corpus: None,
        reclaim: None,
        ending: Ending::Close,
        policy: None,
        counts_everything: true,
        share_of_slowest: None,
        // Each is preceded by a warm-up of up to a minute.
        alternations: scale.long_alternations(),
        only: &[],
        model: None,
        flash: None,
        is_of_drive: false,
    }
}

/// Caches are measured with many threads, as a cold get waits.
pub(crate) fn threads(scale: &Scale) -> u64 {
    scale.threads.last().copied().unwrap_or(1)
}

fn points(scale: &Scale, loads: impl IntoIterator<Item = Load>) -> Vec<Point> {
    let points = loads.into_iter().map(|load| point(scale, threads(scale), &load));
    let mut points: Vec<Point> = points.collect();
    if scale.is_quick && points.len() > QUICK_POINTS_TWICE_MAX {
        points.iter_mut().for_each(|point| point.alternations = 1);
    }
    points
}

/// The key distributions of the sweep.
pub(crate) fn choices() -> [(&'static str, Choice); 4] {
    [
        ("zipf-0.99", ZIPF),
        ("zipf-0.8", Choice::Zipf { alpha: 0.8, is_scattered: true }),
        ("hot-keys", Choice::Hot { entries: 0.01, operations: 0.9, run: 1 }),
        ("hot-ranges", hot_ranges(0.99)),
    ]
}

/// The cache sizes of the sweep, in percent of the data.
pub(crate) const CACHE_PERCENTS: [f64; 4] = [0.1, 1.0, 5.0, 10.0];

/// Every key distribution with every share of scans and every cache size; in a quick run only pure
/// gets and pure scans, with one size.
fn sweep(scale: &Scale) -> Vec<Point> {
    let (shares, sizes): (&[u32], &[f64]) = match scale.is_quick {
        true => (&[0, 100], &[1.0]),
        false => (&[0, 50, 100], &CACHE_PERCENTS),
    };
    let mut loads = Vec::new();
    for (name, choice) in choices() {
        for &scans in shares {
            for &cache_percent in sizes {
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

/// AC-Key with its learning rate and its threshold as parameters, one after the other; both sweeps
/// contain the paper's values. Small caches too: the paper's figures for them are between those for
/// caches of a hundred-thousandth and a ten-thousandth.
fn parameters(scale: &Scale) -> Vec<Point> {
    let usual = (100_000, 5);
    let rates = [1_000, 10_000, 1_000_000, 10_000_000].map(|k| (k, usual.1));
    let thresholds: &[u64] = if scale.is_quick { &[0, 15, 30] } else { &[0, 10, 15, 20, 25, 30] };
    let thresholds = thresholds.iter().map(|&theta| (usual.0, theta));
    let pairs: Vec<(u64, u64)> = [usual].into_iter().chain(rates).chain(thresholds).collect();
    let sizes: &[f64] = if scale.is_quick { &[1.0] } else { &[1.0, 0.1, 0.01] };
    let loads = sizes.iter().flat_map(|&size| pairs.iter().map(move |&pair| (size, pair)));
    let load = |(size, _)| Load { cache_percent: size, ..Load::usual() };
    let points = points(scale, loads.clone().map(load)).into_iter().zip(loads);
    let points = points.map(|(point, (_, (k, theta)))| {
        let policy = Some(format!("ac-key:{k},{theta}"));
        Point { policy, ..point.with("k", k).with("theta", theta) }
    });
    points.collect()
}

fn cpu(scale: &Scale) -> Vec<Point> {
    let sizes: &[f64] = if scale.is_quick { &[1.0] } else { &[1.0, 10.0] };
    points(scale, sizes.iter().map(|&size| Load { cache_percent: size, ..Load::usual() }))
}

/// The loads of the ablation. Loads with writes have flushes and compactions.
struct AblationLoad {
    keys: &'static str,
    choice: Choice,
    scans: u32,
    puts: u32,
    cache_percent: f64,
}

fn ablation_loads() -> [AblationLoad; 5] {
    let hot = Choice::Hot { entries: 0.01, operations: 0.9, run: 1 };
    let load = |keys, choice, scans, puts, cache_percent| AblationLoad {
        keys,
        choice,
        scans,
        puts,
        cache_percent,
    };
    [
        load("zipf-0.99", ZIPF, 0, 20, 5.0),
        load("zipf-0.99", ZIPF, 50, 0, 1.0),
        load("zipf-0.99", ZIPF, 50, 0, 5.0),
        load("hot-keys", hot, 0, 0, 5.0),
        load("hot-ranges", hot_ranges(0.99), 50, 0, 1.0),
    ]
}

/// Operations of a turn with writes, as a fraction of the entries: enough for several memtables.
const WRITES_SHARE: f64 = 0.3;
const WRITES_SHARE_QUICK: f64 = 0.15;

impl AblationLoad {
    fn point(&self, scale: &Scale) -> Point {
        let (name, choice) = (self.keys.to_owned(), self.choice.clone());
        let load = Load {
            name,
            choice,
            scans: self.scans,
            cache_percent: self.cache_percent,
            ..Load::usual()
        };
        let point = point(scale, threads(scale), &load).with("put_percent", self.puts);
        if self.puts == 0 {
            return point;
        }
        // Small memtables, for frequent flushes; the cache size is unchanged.
        let cache_bytes = point.cache_bytes.unwrap_or(0);
        let memory_bytes = cache_bytes + cache_bytes / 2 + BESIDE_BYTES / 8;
        let share = if scale.is_quick { WRITES_SHARE_QUICK } else { WRITES_SHARE };
        let point = point.driven(|drive| {
            drive.workload.mix = vec![(Kind::Get, 100 - self.puts), (Kind::Put, self.puts)];
            let operations = drive.workload.entries as f64 * share;
            drive.length = Length::Operations(operations as u64);
        });
        Point { changes_store: true, memory_bytes, ..point }
    }
}

/// `adaptive` without each of its mechanisms, then other policies; in a quick run only the load
/// with writes, and only `block-only` for comparison.
fn ablation(scale: &Scale) -> Vec<Point> {
    let is_of_changes = |ablation| matches!(ablation, Ablation::Repair | Ablation::Sync);
    let others = [
        ("nothing, blocks by LRU", "block-only"),
        ("boundaries as AC-Key moves them", "ac-key"),
        ("pointers alone", "kp-only"),
        ("values alone", "kv-only"),
        ("admission of blocks alone", "fixed:0,0,100"),
    ];
    let loads = ablation_loads();
    let (loads, others) =
        if scale.is_quick { (&loads[..1], &others[..1]) } else { (&loads[..], &others[..]) };
    let mut all = Vec::new();
    for load in loads {
        let ablations =
            Ablations::all().filter(|(ablation, _)| load.puts > 0 || !is_of_changes(*ablation));
        let mut variants = vec![(NO_ABLATION.to_owned(), CachePolicy::Adaptive.to_string())];
        variants.extend(ablations.map(|(ablation, name)| {
            let policy = CachePolicy::AdaptiveWithout(Ablations::NONE.and(ablation));
            (format!("without {name}"), policy.to_string())
        }));
        variants.extend(
            others.iter().map(|&(variant, policy)| (variant.to_owned(), policy.to_owned())),
        );
        for (variant, policy) in variants {
            let point = load.point(scale).once_if_quick(scale).with("variant", variant);
            all.push(Point { policy: Some(policy), ..point });
        }
    }
    all
}

/// The variant without ablation.
const NO_ABLATION: &str = "all";

const FASTER: &[Target] = &[
    Target::new("ops_per_s", Rule::RatioAtLeast(1.0)),
    Target::new("reads_per_op", Rule::RatioToSubjectAtMost("tidekv:block-lru", 1.0)),
    Target::new("reads_per_op", Rule::RatioToSubjectAtMost("tidekv:best-split", 1.02)),
];

/// All of them, in the order of listing and running.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "ackey-sweep",
        about: "four key distributions, three scan ratios, four cache sizes",
        claim: "faster than RocksDB in every cell",
        points: sweep,
        targets: FASTER,
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-cache-size",
        about: "caches of 0.1 to 10 % of the data (AC-Key, Fig. 7)",
        paper: "AC-Key does 1406, 1607, 1696, 1987 and 2098 operations per second with 1 MB to \
                10 GB for 100 GB; it is 5.0 to 9.1 % faster than RocksDB, 47.1 to 97.7 % \
                than values alone, 52.8 to 104.5 % than pointers alone, and about as fast as \
                the best split",
        claim: "faster than RocksDB at every size",
        points: cache_size,
        targets: FASTER,
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-skew",
        about: "the hottest hundredth takes 1 to 99.9 % of the operations (AC-Key, Fig. 8)",
        paper: "AC-Key is 3.6 to 57.1 % faster than RocksDB, and up to 17.6 times as fast as \
                values alone; at 1, 50, 90, 99 and 99.9 % it does 497, 636, 1333, 10858 and \
                57415 operations per second, RocksDB 497, 636, 1254, 9024 and 35053",
        claim: "faster than RocksDB at every skew",
        points: skew,
        targets: FASTER,
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-scan-ratio",
        about: "0 to 100 % of the operations are scans (AC-Key, Fig. 9)",
        paper: "AC-Key is 1.1 to 42.6 % faster than RocksDB; from 0 to 100 % it does 3283, \
                1962, 1472, 1208, 1019 and 906 operations per second, RocksDB 2302, 1698, \
                1321, 1170, 1019 and 906",
        claim: "faster than RocksDB at every ratio",
        points: scan_ratio,
        targets: FASTER,
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-value-size",
        about: "values of 50 B to 4 KiB (AC-Key, Fig. 10)",
        paper: "AC-Key is 5.9 to 22.4 % faster than RocksDB, 41.4 to 83.6 % than values \
                alone and 44.5 to 96.0 % than pointers alone, with values of 50 to 200 B",
        claim: "faster than RocksDB at every size",
        points: value_size,
        targets: FASTER,
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-cpu",
        about: "processor time and throughput of every cache policy (AC-Key, Fig. 11)",
        paper: "AC-Key does 1320 operations per second, RocksDB 1247, values alone 934, pointers \
                alone 914, the best split 1358; AC-Key takes hardly more processor time than \
                fixed splits, and RocksDB the least",
        claim: "an operation takes at most 1.2 times the processor time of an LRU block cache \
                alone",
        subjects: Subjects::Also(&[
            "tidekv:block-lru",
            "tidekv:kv-only",
            "tidekv:kp-only",
            "tidekv:hac",
        ]),
        points: cpu,
        targets: &[
            Target::new("cpu_us_per_op", Rule::RatioToSubjectAtMost("tidekv:block-lru", 1.2)),
            Target::new("ops_per_s", Rule::RatioToSubjectAtLeast("tidekv:block-lru", 1.0)),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-params",
        about: "AC-Key with learning rates of 1 K to 10 M and thresholds of 0 to 30 % (AC-Key, \
                section 5)",
        paper: "throughput stays within 3.9 % over the learning rates (1461 to 1520 operations per \
                second) and within 2.8 % over the thresholds (1418 to 1459)",
        claim: "reads per operation stay within 3.9 % and 2.8 % of those with the paper's 100 K \
                and 5 %",
        subjects: Subjects::Only(&["tidekv:hac"]),
        points: parameters,
        targets: &[
            Target::new("reads_per_op", Rule::RatioToPointAtLeast("k", 100_000, 0.961)),
            Target::new("reads_per_op", Rule::RatioToPointAtMost("k", 100_000, 1.039)),
            Target::new("reads_per_op", Rule::RatioToPointAtLeast("theta", 5, 0.972)),
            Target::new("reads_per_op", Rule::RatioToPointAtMost("theta", 5, 1.028)),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-ablation",
        about: "ablation: adaptive without one mechanism at a time, and other policies",
        claim: "each mechanism saves reads",
        subjects: Subjects::Only(&["tidekv:tide"]),
        points: ablation,
        targets: &[Target::new(
            "reads_per_op",
            Rule::RatioToNamedPointAtLeast("variant", NO_ABLATION, 1.0),
        )],
        ..Experiment::USUAL
    },
];
