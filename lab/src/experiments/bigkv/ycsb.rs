//! `bigkv-ycsb`: the loads of YCSB with one field of 32 KiB, and others, on caches whose objects
//! are mostly on flash.
//!
//! | load | operations | keys |
//! |---|---|---|
//! | `a`, `b`, `c` | 50, 95 and 100 % reads, the others writes | by Zipf's law, 0.99 |
//! | `d` | 95 % reads, the others new objects | the newest most |
//! | `f` | two reads for each write, as if half of all read and half read and wrote | by Zipf's law, 0.99 |
//! | `b-hot-spot` | 95 % reads, the others writes | a fifth of them takes 80 % |
//! | `c-uniform` | reads only | all alike |
//!
//! YCSB's E scans, which caches do not support.
//!
//! The device's own rate is a bound in two ways. `device:objects` keeps nothing in memory, so by
//! Zipf's law it reads the same few objects again and again, which the machine below may cache:
//! `c-uniform` compares reads of the same objects. And a cache that answers gets from memory
//! writes more for each read: with writes, bytes read and written per second count, not reads.
//!
//! At `headers` memory is smaller than the headers of all objects, which memcached keeps in memory:
//! with objects of 4 KiB, and with small ones. At `memory` memcached has memory for all objects of
//! the same load: no server behind the same sockets, with the same client, does better.

use crate::experiment::{Experiment, Figure, Point, Rule, Shape, Subjects, Target};
use crate::experiments::bigkv::load::{EMBEDDED, Load, SERVED};
use crate::load::keys::Choice;
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subjects::indexes::DEVICE_OBJECTS;
use crate::subjects::served::{MEMCACHED, MEMCACHED_EXTSTORE, TIDEKV_CACHE_SERVED};
use crate::subjects::tiered::TIDEKV_CACHE;

const ZIPF: Choice = Choice::Zipf { alpha: 0.99, is_scattered: true };
const HOT_SPOT: Choice = Choice::Hot { entries: 0.2, operations: 0.8, run: 1 };

const SERVED_CACHES: &[&str] = &[TIDEKV_CACHE_SERVED.name, MEMCACHED_EXTSTORE.name];
const IN_MEMORY: &[&str] = &[MEMCACHED.name];
const EMBEDDED_CACHES: &[&str] = &[TIDEKV_CACHE.name, "foyer", DEVICE_OBJECTS.name];

/// Concurrent requests: a device is slow for one, and fast for many.
const THREADS: u64 = 16;
/// Values of objects that TideKV keeps in buckets on flash, at `headers`.
const SMALL_VALUES: [u64; 3] = [128, 256, 512];
const SMALL_OBJECTS_MAX: u64 = 1_000_000;
/// Memory in percent of the objects.
const MEMORY_PERCENT: u64 = 6;

type Mix = &'static [(Kind, u32)];

const LOADS: &[(&str, Choice, Mix)] = &[
    ("a", ZIPF, &[(Kind::Fetch, 50), (Kind::Put, 50)]),
    ("b", ZIPF, &[(Kind::Fetch, 95), (Kind::Put, 5)]),
    ("c", ZIPF, &[(Kind::Fetch, 100)]),
    ("d", Choice::Latest { alpha: 0.99 }, &[(Kind::Fetch, 95), (Kind::Insert, 5)]),
    ("f", ZIPF, &[(Kind::Fetch, 67), (Kind::Put, 33)]),
    ("b-hot-spot", HOT_SPOT, &[(Kind::Fetch, 95), (Kind::Put, 5)]),
    ("c-uniform", Choice::Uniform, &[(Kind::Fetch, 100)]),
];

/// Bytes of all objects.
fn data_bytes(scale: &Scale) -> u64 {
    (scale.entries * 200).clamp(256 << 20, 4 << 30)
}

fn load(scale: &Scale, (name, choice, mix): &(&'static str, Choice, Mix), value: u64) -> Load {
    let data_bytes = data_bytes(scale);
    Load {
        name,
        choice: choice.clone(),
        mix: mix.to_vec(),
        objects: data_bytes / value,
        value_bytes: value,
        memory_bytes: data_bytes * MEMORY_PERCENT / 100,
        // No subject's flash is full: making room is a separate topic.
        flash_bytes: data_bytes * 2,
        devices: 1,
        index_bytes: None,
        threads: THREADS,
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let of_load = |load: &Load, scale: &Scale| {
        [(SERVED, SERVED_CACHES), (EMBEDDED, EMBEDDED_CACHES)]
            .map(|(part, only)| load.point(scale, only).with("part", part).once_if_quick(scale))
    };
    if scale.is_quick {
        return of_load(&load(scale, &LOADS[1], 32 << 10), scale).into();
    }
    let others = [&LOADS[1], &LOADS[5]];
    let others = [16 << 10, 4 << 10].into_iter().flat_map(|value| others.map(|it| (it, value)));
    let loads = LOADS.iter().map(|it| (it, 32 << 10)).chain(others);
    let mut points: Vec<Point> =
        loads.flat_map(|(it, value)| of_load(&load(scale, it, value), scale)).collect();
    let headers = |value| headers(scale, value).point(scale, SERVED_CACHES).with("part", "headers");
    points.push(headers(4 << 10));
    points.extend(SMALL_VALUES.map(headers));
    points.push(in_memory(scale, 4 << 10).point(scale, IN_MEMORY).with("part", "memory"));
    points
}

/// The load whose headers take more than memory.
fn headers(scale: &Scale, value: u64) -> Load {
    let load = load(scale, &LOADS[1], value);
    // Filling takes one request per object: so small values take less space than large ones.
    let objects = (load.objects * 9 / 5).min(SMALL_OBJECTS_MAX);
    Load {
        objects,
        // A header has 48 bytes, a key 16, and the flash location of its value takes 12 more.
        memory_bytes: objects * 46,
        // Small values have more overhead on flash.
        flash_bytes: if value < 1 << 10 { objects * value * 2 } else { objects * value * 11 / 10 },
        ..load
    }
}

/// The same load with memory for all objects.
fn in_memory(scale: &Scale, value: u64) -> Load {
    let load = headers(scale, value);
    Load { memory_bytes: load.objects * value * 3 / 2, ..load }
}

pub(super) const YCSB: Experiment = Experiment {
    name: "bigkv-ycsb",
    about: "YCSB loads with fields of 4 to 32 KiB on caches with flash, in this process and \
            behind a socket (BigKV)",
    paper: "3.1 times the throughput of uDepot",
    claim: "as fast as memcached with extstore, twice as fast where its headers do not fit \
            memory; 1.5 times as fast as foyer; nine tenths of the device's own rate",
    subjects: Subjects::Only(&[
        TIDEKV_CACHE.name,
        TIDEKV_CACHE_SERVED.name,
        MEMCACHED_EXTSTORE.name,
        MEMCACHED.name,
        "foyer",
        DEVICE_OBJECTS.name,
    ]),
    points,
    targets: &[
        Target::in_phase(
            SERVED,
            "ops_per_s",
            Rule::RatioToSubjectAtLeast(MEMCACHED_EXTSTORE.name, 1.0),
        ),
        Target::in_phase(
            "headers",
            "ops_per_s",
            Rule::RatioToSubjectAtLeast(MEMCACHED_EXTSTORE.name, 2.0),
        ),
        Target::in_phase(EMBEDDED, "ops_per_s", Rule::RatioToSubjectAtLeast("foyer", 1.5)),
        Target::in_phase(
            EMBEDDED,
            "reads_per_s",
            Rule::RatioToSubjectAtLeast(DEVICE_OBJECTS.name, 0.9),
        ),
        Target::in_phase(
            EMBEDDED,
            "storage_bytes_per_s",
            Rule::RatioToSubjectAtLeast(DEVICE_OBJECTS.name, 0.9),
        ),
        Target::in_phase(EMBEDDED, "write_amp", Rule::AtMost(1.1)),
    ],
    figures: &[
        Figure {
            title: "Operations per second",
            metric: "ops_per_s",
            x: "load",
            y: "value_bytes",
            shape: Shape::Map,
        },
        Figure {
            title: "Hit ratio of gets",
            metric: "hit_ratio",
            x: "load",
            y: "value_bytes",
            shape: Shape::Map,
        },
    ],
    ..Experiment::USUAL
};
