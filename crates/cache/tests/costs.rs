//! The cost of eviction orders for an object cache with flash behind its DRAM, by simulation:
//! objects of 1 to 256 KiB, or all of one size, with Zipfian accesses.
//!
//! 1. DRAM is [`Objects`]. A DRAM miss is read from flash, if it is there, or fetched from the
//!    origin, and put into DRAM; one request in ten stores an object anew.
//! 2. Flash is a log: objects evicted from DRAM without a copy are written at its head, and
//!    accessed ones with a copy, if the copy is in the oldest quarter. Objects that fall off the
//!    log's end are lost.
//! 3. A flash read costs 80 µs and 2 GB/s, an origin fetch 5 ms and 1 GB/s.
//!
//! No time passes and no bytes are stored. `TIDEKV_COSTS_OBJECTS` sets the number of objects, and
//! thus the length of a run: 20 000 for the figures of `docs/adr/0036-cost-aware-eviction.md`.

use std::collections::{HashMap, VecDeque};

use tidekv_cache::{Eviction, Objects};

const OBJECTS: u64 = 1_200;
/// Requests per object; the first half is the warm-up.
const REQUESTS_PER_OBJECT: u64 = 60;
const SEEDS: u64 = 3;
const LARGEST_PER_SMALLEST: f64 = 256.0;
const SMALLEST_BYTES: f64 = 1024.0;
/// The charge of an object besides its bytes: that of allocations.
const CHARGE_BYTES: usize = 48;

/// The workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Objects of 1 to 256 KiB, as many from 1 to 2 as from 128 to 256.
    Mixed,
    /// Objects of 16 KiB.
    Equal,
    /// Like `Mixed`, and a third of the requests stores objects that are never read.
    Stream,
}

/// A way to choose victims.
#[derive(Debug, Clone, Copy)]
struct Choice {
    name: &'static str,
    eviction: Eviction,
    /// The assumed benefit of an object without a copy on flash, relative to one with a copy.
    without_copy: u32,
}

const CHOICES: [Choice; 4] = [
    Choice { name: "lru", eviction: Eviction::Lru, without_copy: 1 },
    Choice { name: "s3-fifo", eviction: Eviction::S3Fifo, without_copy: 1 },
    Choice { name: "greedy-dual", eviction: Eviction::GreedyDual, without_copy: 1 },
    Choice { name: "greedy-dual, 16", eviction: Eviction::GreedyDual, without_copy: 16 },
];

/// DRAM and flash in percent of all objects.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    dram: u64,
    flash: u64,
}

struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Debug, Clone, Copy)]
struct MemoryUse {
    object: u32,
    has_copy: bool,
    was_fetched: bool,
}

/// Counters of the second half of the requests.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    gets: f64,
    bytes: f64,
    hits: f64,
    hit_bytes: f64,
    flash_reads: f64,
    back_end_trips: f64,
    cost_us: f64,
    written_bytes: f64,
}

/// A log of objects.
#[derive(Default)]
struct Flash {
    capacity: u64,
    places: HashMap<u32, u64>,
    log: VecDeque<(u32, u64)>,
    head: u64,
    tail: u64,
}

impl Flash {
    /// Whether it takes an object evicted from DRAM.
    fn wants(&self, held: MemoryUse) -> bool {
        match self.places.get(&held.object) {
            None => true,
            Some(place) => held.was_fetched && self.head - place > self.capacity / 4 * 3,
        }
    }

    fn write(&mut self, object: u32, bytes: u64, bytes_of: impl Fn(u32) -> u64) {
        self.places.insert(object, self.head);
        self.log.push_back((object, self.head));
        self.head += bytes;
        while self.head - self.tail > self.capacity {
            let (oldest, place) = self.log.pop_front().expect("it is longer than it may be");
            self.tail = place + bytes_of(oldest);
            if self.places.get(&oldest) == Some(&place) {
                self.places.remove(&oldest);
            }
        }
    }
}

struct Scene {
    choice: Choice,
    bytes_of: Vec<u64>,
    dram: Objects<MemoryUse>,
    flash: Flash,
    counts: Counts,
}

fn hash(object: u32) -> u64 {
    let n = (u64::from(object) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (n ^ n >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(32)
}

impl Scene {
    fn put(&mut self, held: MemoryUse) {
        let charge_bytes = self.bytes_of[held.object as usize] as usize + CHARGE_BYTES;
        let benefit = if held.has_copy { 1 } else { self.choice.without_copy };
        let insertion = self.dram.insert_for(hash(held.object), held, charge_bytes, benefit);
        for left in insertion.evicted.iter().chain(&insertion.refused) {
            let bytes = self.bytes_of[left.object as usize];
            if bytes <= self.flash.capacity && self.flash.wants(*left) {
                self.counts.written_bytes += bytes as f64;
                self.flash.write(left.object, bytes, |object| self.bytes_of[object as usize]);
            }
        }
    }

    fn store(&mut self, object: u32) {
        self.dram.remove(hash(object));
        self.flash.places.remove(&object);
        self.put(MemoryUse { object, has_copy: false, was_fetched: false });
    }

    fn get(&mut self, object: u32) {
        let bytes = self.bytes_of[object as usize] as f64;
        self.counts.gets += 1.0;
        self.counts.bytes += bytes;
        if let Some(held) = self.dram.get(hash(object)) {
            held.was_fetched = true;
            self.counts.hits += 1.0;
            self.counts.hit_bytes += bytes;
            return;
        }
        let has_copy = self.flash.places.contains_key(&object);
        if has_copy {
            self.counts.flash_reads += 1.0;
            self.counts.cost_us += 80.0 + bytes / 2_000.0;
        } else {
            self.counts.back_end_trips += 1.0;
            self.counts.cost_us += 5_000.0 + bytes / 1_000.0;
        }
        self.put(MemoryUse { object, has_copy, was_fetched: has_copy });
    }
}

fn simulate(load: Load, sizes: Sizes, choice: Choice, objects: u64, seed: u64) -> Counts {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let draw = |random: &mut Random| match load {
        Load::Equal => 16 << 10,
        _ => (SMALLEST_BYTES * LARGEST_PER_SMALLEST.powf(random.share())) as u64,
    };
    let bytes_of: Vec<u64> = (0..objects).map(|_| draw(&mut random)).collect();
    let all_bytes: u64 = bytes_of.iter().sum();
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=objects {
        sum += (rank as f64).powf(-0.99);
        sums.push(sum);
    }
    let dram = Objects::new(choice.eviction, (all_bytes * sizes.dram / 100) as usize);
    let flash = Flash { capacity: all_bytes * sizes.flash / 100, ..Flash::default() };
    let mut scene = Scene { choice, bytes_of, dram, flash, counts: Counts::default() };
    let requests = objects * REQUESTS_PER_OBJECT;
    for request in 0..requests {
        if request == requests / 2 {
            scene.counts = Counts::default();
        }
        if load == Load::Stream && random.share() < 0.33 {
            let object = scene.bytes_of.len() as u32;
            scene.bytes_of.push(draw(&mut random));
            scene.store(object);
            continue;
        }
        let wanted = random.share() * sum;
        let object = sums.partition_point(|sum| *sum < wanted).min(objects as usize - 1) as u32;
        match random.share() < 0.1 {
            true => scene.store(object),
            false => scene.get(object),
        }
    }
    scene.counts
}

/// Averages per get over seeds: hits, byte hits, flash reads, origin fetches, µs; KiB written.
type Means = [f64; 6];

fn means(load: Load, sizes: Sizes, choice: Choice, objects: u64) -> Means {
    let mut means = Means::default();
    for seed in 1..=SEEDS {
        let c = simulate(load, sizes, choice, objects, seed);
        let of_seed = [
            c.hits / c.gets,
            c.hit_bytes / c.bytes,
            c.flash_reads / c.gets,
            c.back_end_trips / c.gets,
            c.cost_us / c.gets,
            c.written_bytes / c.gets / 1024.0,
        ];
        means.iter_mut().zip(of_seed).for_each(|(mean, n)| *mean += n / SEEDS as f64);
    }
    let [hits, hit_bytes, flash, trips, cost_us, written] = means;
    println!(
        "{load:?} | {} | {} | {} | {hits:.3} | {hit_bytes:.3} | {flash:.3} | {trips:.4} | \
         {cost_us:.0} | {written:.1}",
        sizes.dram, sizes.flash, choice.name
    );
    means
}

fn objects() -> u64 {
    let text = std::env::var("TIDEKV_COSTS_OBJECTS").ok();
    text.map_or(OBJECTS, |text| text.parse().expect("the variable is a number"))
}

fn table(load: Load) -> Vec<(Sizes, [Means; CHOICES.len()])> {
    let cells = [(2, 30), (10, 30), (5, 120), (5, 0)].map(|(dram, flash)| Sizes { dram, flash });
    let row = |sizes| (sizes, CHOICES.map(|choice| means(load, sizes, choice, objects())));
    cells.into_iter().map(row).collect()
}

const HITS: usize = 0;
const HIT_BYTES: usize = 1;
const COST_US: usize = 4;

#[test]
fn greedy_dual_costs_less_for_mixed_sizes() {
    for (sizes, [lru, s3_fifo, greedy_dual, by_copy]) in table(Load::Mixed) {
        let best = lru[COST_US].min(s3_fifo[COST_US]);
        assert!(greedy_dual[COST_US] < 0.9 * best, "{sizes:?}");
        assert!(by_copy[COST_US] < 0.88 * best, "{sizes:?}");
        // It holds more objects, and fewer bytes.
        assert!(greedy_dual[HITS] > s3_fifo[HITS] + 0.04, "{sizes:?}");
        assert!(greedy_dual[HIT_BYTES] < s3_fifo[HIT_BYTES], "{sizes:?}");
    }
}

#[test]
fn greedy_dual_tolerates_objects_that_are_never_read() {
    for (sizes, [lru, s3_fifo, greedy_dual, by_copy]) in table(Load::Stream) {
        let best = lru[COST_US].min(s3_fifo[COST_US]);
        assert!(greedy_dual[COST_US].max(by_copy[COST_US]) < best, "{sizes:?}");
    }
}

#[test]
fn greedy_dual_matches_others_for_equal_sizes() {
    for (sizes, [lru, s3_fifo, greedy_dual, by_copy]) in table(Load::Equal) {
        assert!(greedy_dual[COST_US] < 1.05 * s3_fifo[COST_US], "{sizes:?}");
        assert!(greedy_dual[COST_US] < lru[COST_US], "{sizes:?}");
        assert!(by_copy[COST_US] < 1.05 * greedy_dual[COST_US], "{sizes:?}");
    }
}
