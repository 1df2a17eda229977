//! Small caches that simulate large ones, and the misses of their memory and flash.

use std::collections::VecDeque;
use std::convert::Infallible;

use super::*;
use crate::curves::access::{Access, Action};
use crate::curves::profiler::{Profiler, Settings, Unit};

/// First in, first out: a policy that reuse distances do not describe.
struct Fifo {
    room: usize,
    queue: VecDeque<u64>,
}

impl Simulated for Fifo {
    type Request = u64;

    fn record(&mut self, key: &u64) -> Option<LookupResult> {
        if self.queue.contains(key) {
            return Some(LookupResult::Memory);
        }
        if self.queue.len() >= self.room {
            self.queue.pop_front();
        }
        self.queue.push_back(*key);
        Some(LookupResult::Miss)
    }
}

fn fifo(room: CacheSize, _: CacheSize) -> Result<Fifo, Infallible> {
    Ok(Fifo { room: room.bytes() as usize, queue: VecDeque::new() })
}

/// Keys of which the first are the most popular.
fn keys() -> impl Iterator<Item = u64> {
    (0..200_000_u64).map(|number| {
        let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number >> 3);
        let unit = (random.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f64 / 16_777_216.0;
        ((unit * unit * 2_000.0) as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    })
}

#[test]
fn small_caches_predict_large_ones() {
    let sizes = [50, 200, 500, 1_000];
    let [mut all, mut some] = [1.0, 0.25].map(|rate| {
        let sizes = sizes.map(CacheSize::of_memory);
        Miniature::new(rate, &sizes, fifo).expect("nothing fails")
    });
    let unit = Settings { unit: Unit::Objects, ..Settings::default() };
    let mut profiler = Profiler::new(unit);
    for key in keys() {
        all.record(key, true, &key);
        some.record(key, true, &key);
        profiler.record(&Access::new(key, Action::Load(1)));
    }
    assert!((some.rate() - 0.25).abs() < 1e-6 && all.rate() == 1.0);
    let [exact, estimated, by_distances] = [all.curve(), some.curve(), profiler.curve()];
    for size in sizes {
        let [exact, estimated, by_distances] =
            [&exact, &estimated, &by_distances].map(|curve| curve.miss_ratio(size));
        assert!((estimated / exact - 1.0).abs() < 0.06, "{size}: {estimated}, {exact}");
        // Here LRU is the better policy.
        assert!(exact > by_distances, "{size}: {exact}, {by_distances}");
    }
}

#[test]
fn curve_never_rises_for_any_policy() {
    struct Late(u64);
    impl Simulated for Late {
        type Request = ();
        fn record(&mut self, (): &()) -> Option<LookupResult> {
            Some(if self.0 == 7 { LookupResult::Memory } else { LookupResult::Miss })
        }
    }
    let make = |size: CacheSize, _| Ok::<_, Infallible>(Late(size.bytes()));
    let sizes = [9, 7, 9].map(CacheSize::of_memory);
    let mut miniature = Miniature::new(1.0, &sizes, make).expect("nothing fails");
    miniature.record(1, true, &());
    let curve = miniature.curve();
    assert_eq!([6, 7, 9].map(|size| curve.miss_ratio(size)), [1.0, 0.0, 0.0]);
    // The error of `make` is returned to the caller.
    assert_eq!(Miniature::<Late>::new(1.0, &sizes, |_, _| Err("full")).map(drop), Err("full"));
}

#[test]
fn misses_of_memory_are_counted_separately() {
    /// Two queues: the second is as large as memory and flash together.
    struct Both([Fifo; 2]);
    impl Simulated for Both {
        type Request = u64;
        fn record(&mut self, key: &u64) -> Option<LookupResult> {
            // Deletes are neither.
            if *key == 0 {
                return None;
            }
            let [memory, all] = &mut self.0;
            let (memory, all) = (memory.record(key), all.record(key));
            Some(match memory {
                Some(LookupResult::Memory) => LookupResult::Memory,
                _ if all == Some(LookupResult::Memory) => LookupResult::Flash,
                _ => LookupResult::Miss,
            })
        }
    }
    let make = |size: CacheSize, whole| {
        let memory = CacheSize::of_memory(size.memory_bytes);
        Ok::<_, Infallible>(Both([fifo(memory, whole)?, fifo(size, whole)?]))
    };
    let size = |memory_bytes, flash_bytes| CacheSize { memory_bytes, flash_bytes };
    let sizes = [size(2, 2), size(1, 1), size(3, 1)];
    let mut miniature = Miniature::new(1.0, &sizes, make).expect("nothing fails");
    for key in [1, 2, 3, 1, 2, 3, 0, 1, 1] {
        miniature.record(key, key != 0, &key);
    }
    let estimated: Vec<MissRatios> = miniature.miss_ratios().collect();
    let miss_ratios = |size, memory: f64, all: f64| MissRatios {
        size,
        memory_miss_ratio: memory / 8.0,
        miss_ratio: all / 8.0,
    };
    // (1, 1): only the last is in memory, and none is on flash; (2, 2): as many in memory, and all four that
    // come again are on flash; (3, 1): they are in memory.
    let expected = [(1, 1, 7.0, 7.0), (2, 2, 7.0, 3.0), (3, 1, 3.0, 3.0)];
    let expected = expected.map(|(memory, flash, of_memory, of_all)| {
        miss_ratios(size(memory, flash), of_memory, of_all)
    });
    assert_eq!(estimated, expected);
    // Those of the same size are one point.
    let curve = miniature.curve();
    let sizes: Vec<u64> = curve.points().iter().map(|point| point.size).collect();
    assert_eq!(sizes, [0, 2, 4]);
    assert_eq!(curve.miss_ratio(4), 3.0 / 8.0);
}
