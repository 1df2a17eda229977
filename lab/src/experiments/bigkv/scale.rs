//! `bigkv-scale`: one device and eight, on devices with modelled service time.
//!
//! The cache's own code, in real time, on storage in memory whose direct operations take as long as
//! on modelled devices ([`tidekv_io::PacedStorage`]). All objects are on flash and all entries of
//! the index in memory: the experiment measures how well devices work in parallel.
//!
//! | subject | description |
//! |---|---|
//! | `tidekv:cache` | shards: each key belongs to one device |
//! | `model:raid-5-N` | the same cache on one array of eight devices, striped with parity, with chunks of N KiB |
//!
//! Chunks of 4 KiB spread each object over all devices; chunks of 64 and 512 KiB (the default of
//! Linux's md) keep most objects on one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Array, Clock, MemoryStorage, PacedStorage, ServiceTime, SystemClock};
use tidekv_tiered::{Cache, Environment, Options};

use crate::experiment::{Experiment, Figure, Found, Model, Point, Rule, Shape, Subjects, Target};
use crate::experiments::bigkv::load::Load;
use crate::failure::{Failure, Result};
use crate::load::keys::{Choice, key_of, present};
use crate::load::values::Values;
use crate::load::workload::{Kind, Operation};
use crate::scale::Scale;
use crate::subjects::tiered::{TIDEKV_CACHE, flash_in, open, plain};

/// Approximate reads of an object per second on one device.
const SERVICE: ServiceTime =
    ServiceTime { fixed: Duration::from_micros(500), bytes_per_s: 400 << 20, channels: 1 };

const VALUE_BYTES: u64 = 16 << 10;
const DEVICES: u64 = 8;
/// Pending operations.
const THREADS: u64 = 64;
/// The phase before the measurement, to give all devices work.
const RAMP: Duration = Duration::from_millis(300);

const ARRAYS: [(&str, u64); 3] =
    [("model:raid-5-4", 4 << 10), ("model:raid-5-64", 64 << 10), ("model:raid-5-512", 512 << 10)];

#[derive(Debug)]
struct Devices {
    load: Load,
    seconds: f64,
}

impl Devices {
    /// Operations per second on this number of devices, as shards or as an array.
    fn rate(&self, devices: u64, chunk_bytes: Option<u64>, seed: u64) -> Result<f64> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let array = chunk_bytes.map(|chunk_bytes| Array { devices: devices as usize, chunk_bytes });
        let memory = Arc::new(MemoryStorage::new());
        let storage = Arc::new(PacedStorage::new(memory, Arc::clone(&clock), SERVICE, array));
        storage.set_on(false);
        let files = if array.is_some() { 1 } else { devices };
        let options = Options {
            dram_bytes: self.load.memory_bytes,
            flash: flash_in(Path::new(""), files, self.load.flash_bytes / files),
            object_bytes_max: 64 << 10,
            avg_object_bytes: VALUE_BYTES,
            index_bytes: self.load.index_bytes,
            segment_bytes: Some(512 << 10),
            ..Options::default()
        };
        let around = Environment::new(storage.clone(), Arc::clone(&clock));
        let cache = open(&options, &around)?;
        let values = Values::new(VALUE_BYTES as usize);
        let lane = |thread| Lane { cache: &cache, values: &values, thread, value: Vec::new() };
        fill(&mut lane(0), self.load.objects)?;
        storage.set_on(true);
        let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let workload = self.load.workload();
        let (operations, ns) = std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let mut stream = workload.stream(seed, thread, THREADS);
                let mut lane = lane(thread);
                let (is_over, done) = (&is_over, &done);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        lane.step(stream.next_operation());
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            clock.sleep(RAMP);
            let look = || (done.load(Ordering::Relaxed), clock.monotonic_ns());
            let first = look();
            clock.sleep(Duration::from_secs_f64(self.seconds));
            let last = look();
            is_over.store(true, Ordering::Relaxed);
            (last.0 - first.0, last.1 - first.1)
        });
        storage.set_on(false);
        cache.close();
        Ok(operations as f64 * 1e9 / ns as f64)
    }
}

/// The work of one thread.
struct Lane<'a> {
    cache: &'a Cache,
    values: &'a Values,
    thread: u64,
    value: Vec<u8>,
}

impl Lane<'_> {
    fn step(&mut self, operation: Operation) {
        let key = key_of(operation.number);
        let is_there = operation.kind == Kind::Fetch && self.cache.get(&key).is_some();
        if !is_there {
            self.put(operation.number);
        }
    }

    fn put(&mut self, number: u64) {
        self.values.fill(&mut self.value, number, self.thread);
        let object = plain(self.cache, Bytes::copy_from_slice(&self.value));
        self.cache.store(&key_of(number), object);
    }
}

/// Stores all objects and requests them until nearly all index entries are in memory.
fn fill(lane: &mut Lane<'_>, objects: u64) -> Result<()> {
    let numbers = (0..objects).map(present);
    for _ in 0..4 {
        for number in numbers.clone() {
            lane.step(Operation { kind: Kind::Fetch, number });
            lane.cache.drain_writes();
        }
    }
    let found = numbers.filter(|number| lane.cache.get(&key_of(*number)).is_some()).count();
    match found as f64 >= 0.99 * objects as f64 {
        true => Ok(()),
        false => Err(Failure::new(format!("only {found} of {objects} objects are hits"))),
    }
}

impl Model for Devices {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let found = |subject, devices: u64, rate| Found {
            subject,
            params: [("devices".to_owned(), devices.into())].into(),
            metrics: vec![("ops_per_s", rate)],
        };
        let own = TIDEKV_CACHE.name;
        let mut all = Vec::new();
        for devices in [1, 2, 4, DEVICES] {
            all.push(found(own, devices, self.rate(devices, None, seed)?));
        }
        let of_one = all[0].metrics[0].1;
        let of_all = &mut all.last_mut().expect("there are some").metrics;
        of_all.push(("times_one_device", of_all[0].1 / of_one));
        for (name, chunk_bytes) in ARRAYS {
            all.push(found(name, DEVICES, self.rate(DEVICES, Some(chunk_bytes), seed)?));
        }
        Ok(all)
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    // With more writes, a device that cannot keep up drops them, and answers faster.
    let loads: &[(&str, u32)] = &[("fetch", 0), ("fetch-95-put-5", 5)];
    let loads = if scale.is_quick { &loads[1..] } else { loads };
    let point = |&(name, puts): &(&'static str, u32)| {
        let mix = [(Kind::Fetch, 100 - puts), (Kind::Put, puts)];
        let load = Load {
            name,
            choice: Choice::Uniform,
            mix: mix.into_iter().filter(|(_, weight)| *weight > 0).collect(),
            objects: 16_384,
            value_bytes: VALUE_BYTES,
            memory_bytes: 64 << 20,
            flash_bytes: 768 << 20,
            devices: DEVICES,
            index_bytes: Some(4 << 20),
            threads: THREADS,
        };
        let point = load.point(scale, &[]).with("part", name);
        let seconds = if scale.is_quick { 0.5 } else { scale.seconds };
        Point { model: Some(Arc::new(Devices { load, seconds })), ..point }
    };
    loads.iter().map(point).collect()
}

const SHARDS: Rule = Rule::AtLeast(7.0);
const STRIPES: [Rule; 3] = [
    Rule::RatioToSubjectAtLeast(ARRAYS[0].0, 5.4),
    Rule::RatioToSubjectAtLeast(ARRAYS[1].0, 5.4),
    Rule::RatioToSubjectAtLeast(ARRAYS[2].0, 5.4),
];

pub(super) const SCALE: Experiment = Experiment {
    name: "bigkv-scale",
    about: "the same load on one to eight modelled devices, as shards and striped with parity \
            (BigKV)",
    paper: "5.4 times the throughput with 8 SSDs",
    claim: "eight shards have seven times the throughput of one, and 5.4 times that of an array \
            of the same devices striped with parity",
    subjects: Subjects::Only(&[TIDEKV_CACHE.name]),
    points,
    targets: &[
        Target::in_phase("fetch", "times_one_device", SHARDS),
        Target::in_phase("fetch-95-put-5", "times_one_device", SHARDS),
        Target::in_phase("fetch-95-put-5", "ops_per_s", STRIPES[0]),
        Target::in_phase("fetch-95-put-5", "ops_per_s", STRIPES[1]),
        Target::in_phase("fetch-95-put-5", "ops_per_s", STRIPES[2]),
    ],
    figures: &[Figure {
        title: "Operations per second",
        metric: "ops_per_s",
        x: "devices",
        y: "load",
        shape: Shape::Lines,
    }],
    ..Experiment::USUAL
};
