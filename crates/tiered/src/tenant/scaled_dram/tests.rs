//! The model beside a real cache, and its rates, sizes and deadlines.

use std::sync::Arc;

use bytes::Bytes;
use tidekv_io::{ManualClock, MemoryStorage};

use super::*;
use crate::access_observer::{Access, AccessObserver};
use crate::cache::{Cache, Lookup};
use crate::environment::Environment;
use crate::object::Object;
use crate::options::{FlashOptions, Options};

const NOW_S: u32 = 1_700_000_000;

/// Notes the last access.
#[derive(Debug, Default)]
struct Last(parking_lot::Mutex<(u64, u64)>);

impl AccessObserver for Last {
    fn on_access(&self, _tenant: usize, hash: u64, _now_s: u32, access: Access) {
        let bytes = match access {
            Access::Hit { bytes, .. } | Access::Stored { bytes, .. } => bytes,
            Access::Miss | Access::Removed => 0,
        };
        *self.0.lock() = (hash, bytes);
    }

    fn on_clear(&self, _tenant: usize) {}
}

/// A number from 0 to `end`, small ones more often.
fn skewed(number: u64, end: u64) -> u64 {
    let random = (number + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29);
    let unit = (random.wrapping_mul(0xA076_1D64_78BD_642F) >> 32) as f64 / (1_u64 << 32) as f64;
    (unit.powi(3) * end as f64) as u64
}

fn mixed(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// With all keys a model hits and misses exactly as the cache does, in each order of eviction.
#[test]
fn model_of_all_keys_equals_the_cache() {
    for eviction in [Eviction::S3Fifo, Eviction::Lru, Eviction::Clock, Eviction::GreedyDual] {
        let options = Options { dram_bytes: 8 << 20, eviction, ..Options::default() };
        let storage: Arc<dyn tidekv_io::Storage> = Arc::new(MemoryStorage::new());
        let clock = Arc::new(ManualClock::new(u64::from(NOW_S) * 1_000));
        let cache = Cache::open(&options, &Environment::new(storage, clock)).expect("it opens");
        let observer = Arc::new(Last::default());
        cache.set_observer(&(Arc::clone(&observer) as Arc<dyn AccessObserver>));
        let mut model = cache.scaled_dram(0, 8 << 20, 1.0).expect("it has no flash");
        let (mut hits, mut differ) = (0, 0);
        for number in 0..30_000 {
            let key = skewed(number, 6_000).to_be_bytes();
            let is_hit = matches!(cache.try_get(&key), Lookup::Hit(_));
            let hash = observer.0.lock().0;
            differ += u64::from(model.get(hash, NOW_S) != is_hit);
            hits += u64::from(is_hit);
            if !is_hit {
                let value = Bytes::from(vec![0; 3_000 + number as usize % 3_000]);
                let deadline = Deadline::NEVER;
                let version = cache.next_version();
                cache.store(&key, Object { value, flags: 0, deadline, version, marks: 0 });
                let (hash, bytes) = *observer.0.lock();
                model.store(hash, bytes, deadline);
            }
        }
        assert!(hits > 10_000 && cache.stats().evicted > 5_000, "{eviction:?}: {hits}");
        assert_eq!(differ, 0, "{eviction:?}");
    }
}

/// The hit ratio of a model for a sample of the keys, by the expected number of its requests.
fn hit_ratio(model: &mut ScaledDram, rate: f64, is_sampled: impl Fn(u64) -> bool) -> f64 {
    let (mut misses, mut requests) = (0.0, 0.0);
    for number in 0..600_000 {
        let hash = mixed(skewed(number, 60_000));
        let counts = if number >= 200_000 { 1.0 } else { 0.0 };
        requests += counts * rate;
        if is_sampled(hash) && !model.get(hash, NOW_S) {
            misses += counts;
            model.store(hash, 1_000, Deadline::NEVER);
        }
    }
    1.0 - misses / requests
}

#[test]
fn model_of_a_sample_hits_as_often_as_one_of_all_keys() {
    let of = |rate| ScaledDram::new(Eviction::S3Fifo, 1 << 20, 16 << 20, rate);
    let all = hit_ratio(&mut of(1.0), 1.0, |_| true);
    let is_eighth = |hash: u64| sample(hash) < 1 << 29;
    let (mut eighth, mut lowered) = (of(1.0 / 8.0), of(1.0));
    let sampled = hit_ratio(&mut eighth, 1.0 / 8.0, is_eighth);
    assert!((0.3..0.8).contains(&all) && (all - sampled).abs() < 0.02, "{all} {sampled}");
    assert!(eighth.memory_bytes() < 16_000 / 8 * 120, "{}", eighth.memory_bytes());
    // A rate that falls keeps the objects that are still in the sample.
    hit_ratio(&mut lowered, 1.0, |_| true);
    lowered.set_scale(16 << 20, 1.0 / 8.0, is_eighth);
    let objects = lowered.objects();
    assert!((1_900..2_200).contains(&objects) && lowered.shards.len() == 1, "{objects}");
    let sampled = hit_ratio(&mut lowered, 1.0 / 8.0, is_eighth);
    assert!((all - sampled).abs() < 0.02, "{all} {sampled}");
}

/// 32 bits that do not depend on those that choose a shard.
fn sample(hash: u64) -> u64 {
    hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

#[test]
fn sizes_change_and_objects_expire() {
    let mut model = ScaledDram::new(Eviction::S3Fifo, 64 << 10, 2 << 20, 1.0);
    assert!(!model.is_full());
    (0..4_000).for_each(|number| model.store(mixed(number), 1_000, Deadline::NEVER));
    assert!(model.is_full());
    let before = model.objects();
    model.set_scale(1 << 20, 1.0, |_| true);
    assert!(model.objects() < before * 6 / 10 && model.objects() > before * 4 / 10);
    model.set_scale(4 << 20, 1.0, |_| true);
    assert!(!model.is_full());
    model.clear();
    assert_eq!(model.objects(), 0);
    for number in 0..10 {
        model.store(number, 1_000, Deadline::at(u64::from(NOW_S) + number));
    }
    assert!(!model.get(0, NOW_S) && model.get(1, NOW_S) && model.contains(2));
    model.sweep(NOW_S + 5);
    assert_eq!(model.objects(), 4);
    model.remove(9);
    assert!(!model.contains(9));
}

/// Flash holds what DRAM evicts, and a cache that refuses objects evicts nothing.
#[test]
fn only_caches_of_dram_alone_that_evict_are_modelled() {
    let is_modelled = |options: &Options| {
        let storage: Arc<dyn tidekv_io::Storage> = Arc::new(MemoryStorage::new());
        let clock = Arc::new(ManualClock::new(u64::from(NOW_S) * 1_000));
        let cache = Cache::open(options, &Environment::new(storage, clock)).expect("it opens");
        assert!(cache.scaled_dram(1, 8 << 20, 1.0).is_none(), "there is one tenant");
        cache.scaled_dram(0, 8 << 20, 1.0).is_some()
    };
    let plain = Options { dram_bytes: 16 << 20, object_bytes_max: 64 << 10, ..Options::default() };
    assert!(is_modelled(&plain));
    assert!(!is_modelled(&Options { evicts: false, ..plain.clone() }));
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 64 << 20 }];
    assert!(!is_modelled(&Options { flash, ..plain }));
}
