//! The experiments `engine-*`: engines compared with the same keys, values, memory, threads and
//! disk.
//!
//! Memory is a fraction of the data (keys and values):
//!
//! | store | memory | resident in memory |
//! |---|---|---|
//! | cached | 2.5 times the data and 64 MiB | everything |
//! | cold | a tenth, at least 16 MiB | index and filters, and about 5 % of the blocks |
//! | written | a quarter, 32 MiB to 512 MiB | |

use tidekv_testkit::evidence::Value;

use crate::experiment::{Experiment, Params, Point, Rule, StoreEnd, StorePlan, Target};
use crate::harness::job::{Drive, Ending, Length, WarmUp};
use crate::load::keys::{Choice, KEY_BYTES};
use crate::load::workload::{Kind, Workload};
use crate::scale::{Scale, Shape};
use crate::subject::Choices;
use crate::subjects::nothing;

const MIB: u64 = 1 << 20;

/// The maximum length of a warm-up, as a multiple of the measurement.
const WARM_UP_SHARE_MAX: f64 = 12.0;

/// Snapshots that must not slow writes down.
const HOLDS: u64 = 1000;

/// Writes arrive at this fraction of the slowest subject's throughput.
const SUSTAINED_SHARE: f64 = 0.5;

fn cached_memory(shape: Shape) -> u64 {
    shape.data_bytes() * 5 / 2 + 64 * MIB
}

fn cold_memory(shape: Shape) -> u64 {
    (shape.data_bytes() / 10).max(16 * MIB)
}

fn written_memory(shape: Shape) -> u64 {
    (shape.data_bytes() / 4).clamp(32 * MIB, 512 * MIB)
}

/// Small values with every number of threads; large ones with the first.
fn grid(scale: &Scale) -> Vec<(Shape, u64)> {
    let small = scale.threads.iter().map(|&threads| (Shape::small(scale), threads));
    let large = scale.threads.first().map(|&threads| (Shape::large(scale), threads));
    small.chain(large).collect()
}

fn params(shape: Shape, threads: u64, memory_bytes: u64) -> Params {
    let compression = if shape.is_compressed { "lz4" } else { "none" };
    [
        ("entries", Value::from(shape.entries)),
        ("value_bytes", shape.value_bytes.into()),
        ("compression", compression.into()),
        ("threads", threads.into()),
        ("memory_bytes", memory_bytes.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

pub(crate) fn settled(shape: Shape) -> StorePlan {
    StorePlan {
        entries: shape.entries,
        key_bytes: KEY_BYTES,
        value_bytes: shape.value_bytes,
        is_compressed: shape.is_compressed,
        choice: Choice::Shuffled,
        memory_bytes: written_memory(shape),
        end: StoreEnd::Settled,
    }
}

/// A point that reads a store for a fixed time.
pub(crate) fn reading(
    scale: &Scale,
    shape: Shape,
    threads: u64,
    kind: Kind,
    warm_up: WarmUp,
) -> Point {
    let is_cached = warm_up == WarmUp::UntilCached;
    let memory_bytes = if is_cached { cached_memory(shape) } else { cold_memory(shape) };
    Point {
        params: params(shape, threads, memory_bytes),
        memory_bytes,
        process_bytes: None,
        cache_bytes: None,
        value_bytes: shape.value_bytes,
        is_compressed: shape.is_compressed,
        is_buffered: false,
        choices: Choices::new(),
        store: Some(settled(shape)),
        changes_store: false,
        drive: Some(Drive {
            workload: Workload::only(kind, Choice::Uniform, shape.entries),
            threads,
            fills_first: false,
            warm_up,
            warm_up_seconds_max: WARM_UP_SHARE_MAX * scale.seconds,
            length: Length::Seconds(scale.seconds),
            operations_per_sample: if is_cached && kind == Kind::Get { 16 } else { 1 },
            arrivals_per_s: None,
            holds: 0,
            phases: Vec::new(),
        }),
        replay: None,
        corpus: None,
        reclaim: None,
        ending: Ending::Close,
        policy: None,
        // Where storage is read, a counter has no visible cost.
        counts_everything: !is_cached,
        share_of_slowest: None,
        alternations: scale.alternations,
        only: &[],
        model: None,
        flash: None,
        is_of_drive: false,
    }
}

/// A point that fills an empty store, `passes` times over.
pub(crate) fn filling(
    scale: &Scale,
    shape: Shape,
    threads: u64,
    choice: Choice,
    passes: u64,
) -> Point {
    let memory_bytes = written_memory(shape);
    Point {
        params: params(shape, threads, memory_bytes),
        memory_bytes,
        process_bytes: None,
        store: None,
        drive: Some(Drive {
            workload: Workload::only(Kind::Put, choice, shape.entries),
            threads,
            fills_first: false,
            warm_up: WarmUp::None,
            warm_up_seconds_max: 0.0,
            length: Length::Operations(shape.entries * passes),
            operations_per_sample: 4,
            arrivals_per_s: None,
            holds: 0,
            phases: Vec::new(),
        }),
        ending: Ending::Settle,
        counts_everything: false,
        alternations: scale.long_alternations(),
        ..reading(scale, shape, threads, Kind::Put, WarmUp::None)
    }
}

/// A point that writes to a copy of a store for a fixed time.
fn writing(scale: &Scale, shape: Shape, threads: u64, mix: Vec<(Kind, u32)>) -> Point {
    let memory_bytes = written_memory(shape);
    let reading = reading(scale, shape, threads, Kind::Put, WarmUp::None);
    let mut workload = Workload::only(Kind::Put, Choice::Uniform, shape.entries);
    workload.mix = mix;
    let seconds = 2.0 * scale.seconds;
    let drive =
        reading.drive.map(|drive| Drive { workload, length: Length::Seconds(seconds), ..drive });
    Point {
        params: params(shape, threads, memory_bytes),
        memory_bytes,
        process_bytes: None,
        changes_store: true,
        drive,
        counts_everything: false,
        alternations: scale.long_alternations(),
        ..reading
    }
}

fn on_grid(scale: &Scale, point: impl Fn(Shape, u64) -> Point) -> Vec<Point> {
    grid(scale).into_iter().map(|(shape, threads)| point(shape, threads)).collect()
}

fn mixed(scale: &Scale, shape: Shape, threads: u64) -> Point {
    writing(scale, shape, threads, vec![(Kind::Get, 1), (Kind::Put, 1)]).driven(|drive| {
        drive.warm_up = WarmUp::UntilSteady;
        drive.warm_up_seconds_max = scale.seconds;
    })
}

fn space(scale: &Scale) -> Vec<Point> {
    let shapes = [Shape::small(scale), Shape::large(scale)];
    shapes
        .map(|shape| {
            let point = filling(scale, shape, 1, Choice::Shuffled, 2).with("passes", 2);
            Point { counts_everything: true, ..point }
        })
        .into()
}

fn open(scale: &Scale) -> Vec<Point> {
    let shape = Shape::small(scale);
    let memory_bytes = written_memory(shape);
    let mut params = params(shape, 1, memory_bytes);
    params.remove("threads");
    vec![Point {
        params,
        memory_bytes,
        process_bytes: None,
        store: Some(StorePlan { end: StoreEnd::Killed, ..settled(shape) }),
        changes_store: true,
        drive: None,
        ..reading(scale, shape, 1, Kind::Get, WarmUp::None)
    }]
}

fn snapshots(scale: &Scale) -> Vec<Point> {
    [0, HOLDS]
        .map(|holds| {
            let shape = Shape::small(scale);
            writing(scale, shape, 1, vec![(Kind::Put, 1)])
                .with("snapshots", holds)
                .driven(|drive| drive.holds = holds)
        })
        .into()
}

fn write_tail(scale: &Scale) -> Vec<Point> {
    // One thread waits for arrivals on its own processor; the other processors are for the engine's
    // background work.
    let point = writing(scale, Shape::small(scale), 1, vec![(Kind::Put, 1)])
        .with("share_of_slowest", SUSTAINED_SHARE)
        .driven(|drive| drive.length = Length::Seconds(4.0 * scale.seconds));
    vec![Point { share_of_slowest: Some(SUSTAINED_SHARE), ..point }]
}

fn drive_overhead(scale: &Scale) -> Vec<Point> {
    let mut shape = Shape::small(scale);
    shape.value_bytes = nothing::VALUE_BYTES as u64;
    [Kind::Get, Kind::Put]
        .map(|kind| {
            let (operation, per_sample) = if kind == Kind::Get { ("get", 16) } else { ("put", 4) };
            let point = reading(scale, shape, 1, kind, WarmUp::None)
                .without(&["memory_bytes"])
                .with("operation", operation)
                .driven(|drive| drive.operations_per_sample = per_sample);
            Point { store: None, is_of_drive: true, ..point }
        })
        .into()
}

const fn at_least(ratio: f64) -> Target {
    Target::new("ops_per_s", Rule::RatioAtLeast(ratio))
}

/// All of them, in the order of listing and running.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "drive-overhead",
        about: "operations of the lab without a store: the measurement overhead",
        claim: "at most 50 ns per operation",
        points: drive_overhead,
        targets: &[Target::new("cpu_us_per_op", Rule::AtMost(0.05))],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-fill-random",
        about: "put every entry once, in random order, into an empty store",
        claim: "at least as fast as RocksDB",
        points: |scale| on_grid(scale, |s, t| filling(scale, s, t, Choice::Shuffled, 1)),
        targets: &[at_least(1.0)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-fill-seq",
        about: "put every entry once, in ascending order, into an empty store",
        claim: "1.2 times as fast as RocksDB",
        points: |scale| on_grid(scale, |s, t| filling(scale, s, t, Choice::Sequential, 1)),
        targets: &[at_least(1.2)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-get-cached",
        about: "get random keys from a store that fits memory",
        claim: "1.5 times as fast as RocksDB with 1, 2 and 8 threads",
        points: |scale| on_grid(scale, |s, t| reading(scale, s, t, Kind::Get, WarmUp::UntilCached)),
        targets: &[at_least(1.5)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-get-cold",
        about: "get random keys with memory for index, filters and 5 % of the blocks",
        claim: "at least as fast as RocksDB, and one storage read per get",
        points: |scale| on_grid(scale, |s, t| reading(scale, s, t, Kind::Get, WarmUp::UntilSteady)),
        targets: &[at_least(1.0), Target::new("reads_per_op", Rule::AtMost(1.02))],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-get-absent",
        about: "get absent keys between existing ones, memory as for cold gets",
        claim: "at least as fast as RocksDB",
        points: |scale| {
            on_grid(scale, |s, t| reading(scale, s, t, Kind::GetAbsent, WarmUp::UntilSteady))
        },
        targets: &[at_least(1.0)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-scan-cold",
        about: "scan 100 entries from a random key on, memory as for cold gets",
        claim: "1.5 times as fast as RocksDB",
        points: |scale| {
            on_grid(scale, |s, t| reading(scale, s, t, Kind::Scan, WarmUp::UntilSteady))
        },
        targets: &[at_least(1.5)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-scan-cached",
        about: "scan 100 entries from a random key on in a store that fits memory",
        claim: "1.2 times as fast as RocksDB",
        points: |scale| {
            on_grid(scale, |s, t| reading(scale, s, t, Kind::Scan, WarmUp::UntilCached))
        },
        targets: &[at_least(1.2)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-multi-get",
        about: "get 100 random keys at once, memory as for cold gets",
        claim: "at least as fast as RocksDB (here without io_uring)",
        points: |scale| {
            on_grid(scale, |s, t| reading(scale, s, t, Kind::MultiGet, WarmUp::UntilSteady))
        },
        targets: &[at_least(1.0)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-mixed",
        about: "half gets, half puts, at random, memory a quarter of the data",
        claim: "at least as fast as RocksDB",
        points: |scale| on_grid(scale, |s, t| mixed(scale, s, t)),
        targets: &[at_least(1.0)],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-space",
        about: "fill a store and overwrite all of it once, at random; then let it settle",
        claim: "writes at most 1.05 times as much as RocksDB, and takes at most 1.15 times \
                the data (before compression)",
        points: space,
        targets: &[
            Target::new("write_amp", Rule::RatioAtMost(1.05)),
            Target::new("space_amp", Rule::AtMost(1.15)),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-open",
        about: "open a store whose process was killed after the last put of a random fill",
        claim: "at most 2 s, and no longer than RocksDB",
        points: open,
        targets: &[
            Target::new("open_s", Rule::AtMost(2.0)),
            Target::new("open_s", Rule::RatioAtMost(1.0)),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-snapshots",
        about: "overwrite at random while 1000 snapshots with iterators are open, or none",
        claim: "open snapshots slow writes by at most 10 %",
        points: snapshots,
        targets: &[Target::new("ops_per_s", Rule::RatioToPointAtLeast("snapshots", 0, 0.9))],
        ..Experiment::USUAL
    },
    Experiment {
        name: "engine-write-tail",
        about: "random overwrites that arrive at half the throughput of the slowest subject",
        claim: "p99.9 of the write latency is no longer than with RocksDB",
        points: write_tail,
        targets: &[Target::new("p999_us", Rule::RatioAtMost(1.0))],
        ..Experiment::USUAL
    },
];
