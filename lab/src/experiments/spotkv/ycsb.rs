//! `spotkv-ycsb`: the six loads of YCSB with values of a kilobyte. LevelDB reads through the
//! kernel's page cache; its process may take, including that cache, the budget plus the base memory
//! of a process. The others read directly, and their rows contain their memory (`rss_bytes_max`).

use crate::experiment::{Experiment, Point, Rule, Subjects, Target};
use crate::experiments::ackey::caches::{self, Load};
use crate::experiments::ackey::changing::ycsb_loads;
use crate::load::workload::Workload;
use crate::scale::Scale;
use crate::subjects::tidekv;

const VALUE_BYTES: u64 = 1000;
/// Percent of the data.
const BUDGETS: &[f64] = &[1.0, 5.0];
/// The base memory of a process before it opens a store, and the overhead of allocators: no less
/// than the measured values of the others.
const BESIDE_BUDGET_BYTES: u64 = 32 << 20;
const LEVELDB: &str = "leveldb";

fn points(scale: &Scale) -> Vec<Point> {
    let budgets = if scale.is_quick { &BUDGETS[1..] } else { BUDGETS };
    let of_budget = |&percent: &f64| {
        ycsb_loads().map(|(name, mix, choice)| {
            let load = Load { value_bytes: VALUE_BYTES, ..Load::zipf(percent) };
            let point = caches::point(scale, caches::threads(scale), &load)
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

pub(super) const YCSB: Experiment = Experiment {
    name: "spotkv-ycsb",
    about: "YCSB with values of a kilobyte and a budget of 1 and 5 % of the data, compared with \
            LevelDB, whose files in the kernel's page cache count as its memory (SpotKV)",
    paper: "1.2 to 3.0 times the read throughput of state-of-the-art stores under the read-heavy \
            loads of YCSB with the same or less memory (abstract)",
    claim: "at least 1.2 times the throughput of LevelDB, and of RocksDB with its best settings",
    subjects: Subjects::Only(&[
        tidekv::TIDEKV.name,
        LEVELDB,
        "rocksdb:lru",
        "rocksdb:pinned",
        "rocksdb:row-cache",
        "rocksdb:tuned",
    ]),
    points,
    targets: &[
        Target::new("ops_per_s", Rule::RatioToSubjectAtLeast(LEVELDB, 1.2)),
        Target::new("ops_per_s", Rule::RatioAtLeast(1.2)),
    ],
    ..Experiment::USUAL
};
