//! `bigkv-dataset-size`: caches behind a socket with data of one, ten and a hundred times their
//! memory.
//!
//! Objects are small for caches with flash, so the metadata per object in memory outgrows the
//! memory as the data grows: at a hundred times, memcached's item headers are eight times the
//! memory.
//! large as memory.

use crate::experiment::{Experiment, Figure, Point, Rule, Shape, Subjects, Target};
use crate::experiments::bigkv::load::{Load, SERVED};
use crate::load::keys::Choice;
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subjects::served::{MEMCACHED, MEMCACHED_EXTSTORE, MEMCACHED_SWAP, TIDEKV_CACHE_SERVED};

const CACHES: &[&str] =
    &[TIDEKV_CACHE_SERVED.name, MEMCACHED_EXTSTORE.name, MEMCACHED.name, MEMCACHED_SWAP.name];

const VALUE_BYTES: u64 = 1 << 10;
const THREADS: u64 = 16;
/// The data size as a multiple of the memory.
const TIMES: [u64; 3] = [1, 10, 100];

fn points(scale: &Scale) -> Vec<Point> {
    let memory_bytes = if scale.is_quick { 16 << 20 } else { 32 << 20 };
    let times = if scale.is_quick { &TIMES[..2] } else { &TIMES };
    let point = |&times: &u64| {
        let load = Load {
            name: "fetch",
            choice: Choice::Zipf { alpha: 0.99, is_scattered: true },
            mix: vec![(Kind::Fetch, 100)],
            objects: times * memory_bytes / VALUE_BYTES,
            value_bytes: VALUE_BYTES,
            memory_bytes,
            flash_bytes: (times * memory_bytes / 20 * 27).max(256 << 20),
            devices: 1,
            index_bytes: None,
            threads: THREADS,
        };
        // Properties that differ with the data are not parameters of their own.
        load.point(scale, CACHES)
            .without(&["objects", "flash_bytes"])
            .with("data_in_memories", times)
            .with("part", SERVED)
            .once_if_quick(scale)
    };
    times.iter().map(point).collect()
}

pub(super) const DATASET_SIZE: Experiment = Experiment {
    name: "bigkv-dataset-size",
    about: "objects of 1 KiB by Zipf's law, 1, 10 and 100 times the memory in total, on caches \
            behind a socket with flash, without, and with swap (BigKV)",
    paper: "level throughput whatever the size, where memcached and Fatcache stop once metadata \
            cannot be kept in DRAM, and are very slow with swap",
    claim: "from ten to a hundred times the memory, the throughput stays within a fifth",
    subjects: Subjects::Only(CACHES),
    points,
    targets: &[
        Target::in_phase(
            SERVED,
            "ops_per_s",
            Rule::RatioToPointAtLeast("data_in_memories", 10, 0.8),
        ),
        Target::in_phase(
            SERVED,
            "hit_ratio",
            Rule::RatioToPointAtLeast("data_in_memories", 10, 0.99),
        ),
    ],
    figures: &[
        Figure {
            title: "Operations per second",
            metric: "ops_per_s",
            x: "data_in_memories",
            y: "",
            shape: Shape::Lines,
        },
        Figure {
            title: "Hit ratio of gets",
            metric: "hit_ratio",
            x: "data_in_memories",
            y: "",
            shape: Shape::Lines,
        },
    ],
    ..Experiment::USUAL
};
