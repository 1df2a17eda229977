//! The experiments `ackey-*` with a changing load or a changing store: phases, YCSB, writes.
//!
//! The six loads of YCSB (Cooper et al., SoCC 2010), in percent of the operations:
//!
//! | | get | update | insert | scan | read, then write | keys |
//! |---|---|---|---|---|---|---|
//! | A | 50 | 50 | | | | zipf |
//! | B | 95 | 5 | | | | zipf |
//! | C | 100 | | | | | zipf |
//! | D | 95 | | 5 | | | latest |
//! | E | | | 5 | 95 | | zipf |
//! | F | 50 | | | | 50 | zipf |
//!
//! Zipf's law is that of YCSB, with an exponent of 0.99 and scattered keys. A thread inserts
//! separate keys after all others, and in D it mostly reads its own latest inserts. Scans have 100
//! entries, as in all experiments here, rather than 1 to 100.

use crate::experiment::{Experiment, Point, Rule, Subjects, Target};
use crate::experiments::ackey::caches::{Load, ZIPF, point, threads};
use crate::harness::job::{Phase, Sampling, WarmUp};
use crate::load::keys::Choice;
use crate::load::workload::{Kind, Workload};
use crate::scale::Scale;

/// The sampling period of counters in a phase.
const SAMPLES: u64 = 20;

/// A name, a mix, a key distribution.
pub(crate) type NamedLoad = (&'static str, Vec<(Kind, u32)>, Choice);

/// YCSB.
pub(crate) fn ycsb_loads() -> [NamedLoad; 6] {
    let latest = Choice::Latest { alpha: 0.99 };
    [
        ("A", vec![(Kind::Get, 50), (Kind::Put, 50)], ZIPF),
        ("B", vec![(Kind::Get, 95), (Kind::Put, 5)], ZIPF),
        ("C", vec![(Kind::Get, 1)], ZIPF),
        ("D", vec![(Kind::Get, 95), (Kind::Insert, 5)], latest),
        ("E", vec![(Kind::Scan, 95), (Kind::Insert, 5)], ZIPF),
        ("F", vec![(Kind::Get, 50), (Kind::Modify, 50)], ZIPF),
    ]
}

fn ycsb(scale: &Scale) -> Vec<Point> {
    let points = ycsb_loads().map(|(name, mix, choice)| {
        let point = point(scale, threads(scale), &Load::zipf(1.0))
            .without(&["scan_percent", "keys"])
            .with("ycsb", name)
            .driven(|drive| {
                drive.workload = Workload { mix, choice, ..drive.workload.clone() };
            })
            .once_if_quick(scale);
        Point { changes_store: name != "C", ..point }
    });
    points.into()
}

/// A point in phases, each with a number of operations of a kind.
fn in_phases(scale: &Scale, load: &Load, phases: &[(&str, Kind, u64)]) -> Point {
    point(scale, threads(scale), load).without(&["scan_percent"]).driven(|drive| {
        let phases = phases.iter().map(|&(name, kind, operations)| {
            let workload = Workload { mix: vec![(kind, 1)], ..drive.workload.clone() };
            let sampling = Sampling::Even(SAMPLES);
            Phase { sampling, ..Phase::new(name, workload, operations) }
        });
        drive.phases = phases.collect();
        drive.warm_up = WarmUp::None;
    })
}

fn phase(scale: &Scale) -> Vec<Point> {
    // A tenth of the entries: one scan per entry would take an hour.
    let operations = if scale.is_quick { 100_000 } else { scale.entries / 10 };
    let phases = [
        ("1-scans", Kind::Scan, operations),
        ("2-gets", Kind::Get, 3 * operations),
        ("3-scans", Kind::Scan, operations),
    ];
    let caches: &[f64] = if scale.is_quick { &[5.0] } else { &[1.0, 5.0] };
    let point =
        |&percent: &f64| in_phases(scale, &Load::zipf(percent), &phases).once_if_quick(scale);
    caches.iter().map(point).collect()
}

/// Gets fill the caches, so that writes must keep cached entries up to date.
fn write(scale: &Scale) -> Vec<Point> {
    // Memtables have a fixed size, independent of the cache size.
    let memory_bytes = in_phases(scale, &Load::zipf(10.0), &[]).memory_bytes;
    let points = [0.0, 10.0].map(|cache_percent| {
        let gets = scale.entries / 10;
        let puts = scale.entries * if scale.is_quick { 1 } else { 2 };
        let phases = [("1-gets", Kind::Get, gets), ("2-puts", Kind::Put, puts)];
        let point = in_phases(scale, &Load::zipf(cache_percent), &phases)
            .with("cache_percent", cache_percent as u64)
            .driven(|drive| {
                // Without caching, gets are slow and there is no cache to fill.
                if cache_percent == 0.0 {
                    drive.phases.iter_mut().take(1).for_each(|phase| phase.operations /= 10);
                }
            });
        Point { changes_store: true, counts_everything: false, memory_bytes, ..point }
    });
    points.into()
}

/// All of them, in the order of listing and running.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "ackey-phase",
        about: "scans, then gets, then scans again: how fast boundaries adapt, and the cost of \
                the adaptation (AC-Key, Fig. 12)",
        paper: "AC-Key is 32 to 66 % faster than the best single split in the phase of scans, \
                and 2 to 20 % in that of gets",
        claim: "after a switch at most 5 % more reads than with the best boundaries of each \
                phase; in total at most 2 % more than with the best single split; and as much \
                faster than that one, and than that of AC-Key's caches, as the paper says",
        subjects: Subjects::Also(&["tidekv:block-lru"]),
        points: phase,
        targets: &[
            Target::new("reads_per_op", Rule::RatioToSubjectAtMost("tidekv:best-split", 1.02)),
            Target::in_phase(
                "2-gets",
                "reads_per_op",
                Rule::RatioToSubjectAtMost("tidekv:best-at-switch", 1.05),
            ),
            Target::in_phase(
                "3-scans",
                "reads_per_op",
                Rule::RatioToSubjectAtMost("tidekv:best-at-switch", 1.05),
            ),
            Target::in_phase(
                "2-gets",
                "ops_per_s",
                Rule::RatioToSubjectAtLeast("tidekv:best-split", 1.02),
            ),
            Target::in_phase(
                "3-scans",
                "ops_per_s",
                Rule::RatioToSubjectAtLeast("tidekv:best-split", 1.32),
            ),
            Target::in_phase(
                "2-gets",
                "ops_per_s",
                Rule::RatioToSubjectAtLeast("tidekv:offline", 1.02),
            ),
            Target::in_phase(
                "3-scans",
                "ops_per_s",
                Rule::RatioToSubjectAtLeast("tidekv:offline", 1.32),
            ),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-ycsb",
        about: "YCSB A to F (AC-Key, Fig. 13)",
        paper: "AC-Key is 3.6 to 59.9 % faster than RocksDB, 0.1 to 20.7 % than values alone \
                and 1.2 to 25.2 % than pointers alone; A to F: 4285, 4500, 4785, 6214, 785 and \
                3928 operations per second",
        claim: "faster than RocksDB at every load, by 3.6 % or more",
        subjects: Subjects::Also(&["tidekv:block-lru"]),
        points: ycsb,
        targets: &[
            Target::new("ops_per_s", Rule::RatioAtLeast(1.036)),
            Target::new("reads_per_op", Rule::RatioToSubjectAtMost("tidekv:block-lru", 1.0)),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "ackey-write",
        about: "overwrite at random, with full caches and without caches (AC-Key, Table 2)",
        paper: "writes of AC-Key are at most 5 % slower than those of RocksDB",
        claim: "writes with caches at least 0.95 times as fast as without, and as with blocks \
                alone",
        subjects: Subjects::Also(&["tidekv:block-lru"]),
        points: write,
        targets: &[
            Target::in_phase(
                "2-puts",
                "ops_per_s",
                Rule::RatioToPointAtLeast("cache_percent", 0, 0.95),
            ),
            Target::in_phase(
                "2-puts",
                "ops_per_s",
                Rule::RatioToSubjectAtLeast("tidekv:block-lru", 0.95),
            ),
        ],
        ..Experiment::USUAL
    },
];
