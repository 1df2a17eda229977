//! FIFO caches beside a FIFO cache, whose curve is not that of LRU.

use std::collections::{HashMap, VecDeque};

use super::*;
use crate::curves::access::{Access, Action};
use crate::curves::profiler::{Expiry, Settings, Unit};
use crate::curves::watch::WindowedProfiler;

/// A cache that evicts its first object first.
#[derive(Debug)]
struct Fifo {
    size: u64,
    bytes: u64,
    queue: VecDeque<u64>,
    objects: HashMap<u64, (u64, Option<u64>)>,
}

impl Fifo {
    fn new(size: u64) -> Self {
        Self { size, bytes: 0, queue: VecDeque::new(), objects: HashMap::new() }
    }

    fn boxed(size: u64, rate: f64) -> Option<Box<dyn ScaledCache>> {
        Some(Box::new(Self::new((size as f64 * rate) as u64)))
    }

    fn make_room(&mut self) {
        while self.bytes > self.size
            && let Some(key) = self.queue.pop_front()
        {
            self.bytes -= self.objects.remove(&key).map_or(0, |(bytes, _)| bytes);
        }
    }
}

impl ScaledCache for Fifo {
    fn get(&mut self, key: u64, at_ms: u64) -> bool {
        let found = self.objects.get(&key);
        found.is_some_and(|(_, until_ms)| until_ms.is_none_or(|until_ms| until_ms > at_ms))
    }

    fn contains(&mut self, key: u64) -> bool {
        self.objects.contains_key(&key)
    }

    fn store(&mut self, key: u64, bytes: u64, ttl_ms: Option<u64>, at_ms: u64) {
        self.remove(key);
        self.queue.push_back(key);
        self.objects.insert(key, (bytes, ttl_ms.map(|ttl_ms| at_ms + ttl_ms)));
        self.bytes += bytes;
        self.make_room();
    }

    fn remove(&mut self, key: u64) {
        if let Some((bytes, _)) = self.objects.remove(&key) {
            self.bytes -= bytes;
            self.queue.retain(|other| *other != key);
        }
    }

    fn clear(&mut self) {
        *self = Self::new(self.size);
    }

    fn sweep(&mut self, at_ms: u64) {
        let is_over = |until_ms: &Option<u64>| until_ms.is_some_and(|until_ms| until_ms <= at_ms);
        let objects = self.objects.iter();
        let over: Vec<u64> =
            objects.filter(|(_, (_, until_ms))| is_over(until_ms)).map(|(key, _)| *key).collect();
        over.into_iter().for_each(|key| self.remove(key));
    }

    fn set_scale(&mut self, size: u64, rate: f64, is_sampled: &dyn Fn(u64) -> bool) {
        let out: Vec<u64> = self.queue.iter().copied().filter(|key| !is_sampled(*key)).collect();
        out.into_iter().for_each(|key| self.remove(key));
        self.size = (size as f64 * rate) as u64;
        self.make_room();
    }

    fn objects(&self) -> usize {
        self.objects.len()
    }

    fn is_full(&self) -> bool {
        self.bytes + 1 > self.size
    }

    fn memory_bytes(&self) -> usize {
        self.objects.len()
    }
}

/// One of `keys` keys, small ones more often: by the cube of a uniform number.
fn skewed(number: u64, keys: u64) -> u64 {
    let random = (number + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29);
    let unit = (random.wrapping_mul(0xA076_1D64_78BD_642F) >> 32) as f64 / (1_u64 << 32) as f64;
    hash((unit.powi(3) * keys as f64) as u64)
}

fn hash(key: u64) -> u64 {
    let mixed = (key + 1).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    (mixed ^ mixed >> 29).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// A FIFO cache with its clients, its sample and the caches beside it.
struct Server {
    real: Fifo,
    watch: WindowedProfiler,
    caches: ScaledCaches,
    counts: Measured,
}

impl Server {
    fn new(size: u64, objects_max: usize) -> Self {
        let settings = Settings { unit: Unit::Bytes, expiry: Expiry::AtOnce };
        Self {
            real: Fifo::new(size),
            watch: WindowedProfiler::new(objects_max, size * 4, settings),
            caches: ScaledCaches::new(size, 1 << 32, objects_max, Fifo::boxed)
                .expect("it can be modelled"),
            counts: Measured { requests: 0, misses: 0 },
        }
    }

    fn see(&mut self, key: u64, answered: Answered, action: Action) {
        if sample_hash(key) < self.watch.threshold() {
            self.caches.record(key, answered, 0);
            self.watch.record(&Access::new(key, action));
            self.caches.follow(self.watch.threshold(), self.real.size);
        }
    }

    /// A get, and a set after a miss.
    fn request(&mut self, key: u64) {
        self.counts.requests += 1;
        if self.real.get(key, 0) {
            return self.see(key, Answered::Hit(1, None), Action::Get);
        }
        self.counts.misses += 1;
        self.see(key, Answered::Miss, Action::Get);
        self.real.store(key, 1, None, 0);
        self.see(key, Answered::Store(1, None), Action::Set(1));
    }

    /// The curve of LRU distances, and the corrected one.
    fn end_window(&mut self) -> (Curve, Curve) {
        let counts = std::mem::replace(&mut self.counts, Measured { requests: 0, misses: 0 });
        let window = Window { requests: counts.requests, lost: 0 };
        let lru = self.watch.end_window(window).expect("there were requests");
        let corrected = self.caches.correct(&lru, window, Some(counts));
        self.caches.end_window(0);
        (lru, corrected)
    }
}

/// The miss ratio of a FIFO cache of that size for the last of these requests.
fn measured(size: u64, requests: u64, last: u64, key: impl Fn(u64) -> u64) -> f64 {
    let (mut cache, mut misses) = (Fifo::new(size), 0);
    for number in 0..requests {
        if !cache.get(key(number), 0) {
            misses += u64::from(number >= requests - last);
            cache.store(key(number), 1, None, 0);
        }
    }
    misses as f64 / last as f64
}

/// Curves of LRU were off by several hundredths for a cache that evicts by another order.
#[test]
fn curve_is_that_of_the_order_by_which_the_cache_evicts() {
    let key = |number| skewed(number, 16_000);
    for (objects_max, most) in [(20_000, 0.002), (6_000, 0.01)] {
        let mut server = Server::new(2_000, objects_max);
        (0..200_000).for_each(|number| server.request(key(number)));
        server.end_window();
        (200_000..400_000).for_each(|number| server.request(key(number)));
        let rate = server.watch.rate();
        assert_eq!(rate < 1.0, objects_max < 16_000, "{rate}");
        let (lru, corrected) = server.end_window();
        let mut apart = 0.0_f64;
        for size in [1_000, 2_000, 4_000] {
            let real = measured(size, 400_000, 200_000, key);
            let error = corrected.miss_ratio(size) - real;
            assert!(error.abs() < most, "{objects_max}, {size}: {error}");
            apart = apart.max((lru.miss_ratio(size) - real).abs());
        }
        assert!(apart > 0.02, "LRU is {apart} off");
        // Between and below the simulated sizes, no more than LRU.
        for size in [250, 700, 1_400, 2_800] {
            let real = measured(size, 400_000, 200_000, key);
            let errors = [&corrected, &lru].map(|curve| (curve.miss_ratio(size) - real).abs());
            assert!(errors[0] < 0.015_f64.max(errors[1]), "{objects_max}, {size}: {errors:?}");
        }
    }
}

#[test]
fn curve_follows_another_workload() {
    let mut server = Server::new(1_000, 20_000);
    (0..200_000).for_each(|number| server.request(skewed(number, 8_000)));
    let (_, before) = server.end_window();
    let other = |number| skewed(number, 2_500).wrapping_add(1 << 60);
    (0..100_000).for_each(|number| server.request(other(number)));
    server.end_window();
    (100_000..200_000).for_each(|number| server.request(other(number)));
    let (_, after) = server.end_window();
    for size in [500, 1_000, 2_000] {
        let real = measured(size, 200_000, 100_000, other);
        assert!((after.miss_ratio(size) - real).abs() < 0.005, "{size}");
        assert!((before.miss_ratio(size) - real).abs() > 0.05, "{size}");
    }
}

/// A larger cache that hits what the real one misses gets no store for it.
#[test]
fn store_after_a_miss_does_not_renew_an_object_that_a_larger_cache_has() {
    let mut caches = ScaledCaches::new(2, 1 << 32, 100, Fifo::boxed).expect("it can be modelled");
    let mut load = |key| {
        caches.record(key, Answered::Miss, 0);
        caches.record(key, Answered::Store(1, None), 0);
    };
    // The real cache of 2 evicts the first; the one of 4 has it, and 5 is the second store after.
    [1, 2, 3, 1, 4, 5].into_iter().for_each(|key| load(key << 40));
    let is_in = |caches: &mut ScaledCaches, key: u64| {
        let largest = caches.tried.last_mut().expect("there are several");
        largest.cache.contains(key << 40)
    };
    assert!(!is_in(&mut caches, 1), "the first one in is the first one out");
    // A store without a miss does.
    caches.record(2 << 40, Answered::Store(1, None), 0);
    caches.record(6 << 40, Answered::Store(1, None), 0);
    assert!(is_in(&mut caches, 2) && !is_in(&mut caches, 3));
}

/// Objects of unknown age count nothing, removed ones are gone.
#[test]
fn unknown_hits_are_learnt_and_removals_followed() {
    let mut server = Server::new(100, 1_000);
    let one = 1 << 40;
    server.caches.record(one, Answered::UnknownHit(1, None), 0);
    assert_eq!(server.caches.requests, 0);
    let ratios = |server: &mut Server| {
        let lru = Curve::new([], 1.0).expect("it is level");
        let window = Window { requests: server.caches.requests, lost: 0 };
        server.caches.correct(&lru, window, None).miss_ratio(100)
    };
    server.caches.record(one, Answered::Hit(1, None), 0);
    assert_eq!(ratios(&mut server), 0.0);
    server.caches.record(one, Answered::Remove, 0);
    server.caches.record(one, Answered::Miss, 0);
    assert_eq!(ratios(&mut server), 0.5);
    server.caches.record(one, Answered::Store(1, Some(10)), 0);
    server.caches.end_window(20);
    assert!(server.caches.tried.iter_mut().all(|tried| !tried.cache.contains(one)));
    server.caches.record(one, Answered::Store(1, None), 0);
    server.caches.clear();
    assert_eq!(server.caches.memory_bytes(), MISSED_LEN * 8);
}

/// A cache that has just grown is not full: its misses would say that a large cache misses much.
#[test]
fn caches_that_grow_count_once_they_are_full() {
    let key = |number| skewed(number, 16_000);
    let mut server = Server::new(1_000, 40_000);
    (0..200_000).for_each(|number| server.request(key(number)));
    let (_, before) = server.end_window();
    server.real.size = 8_000;
    (200_000..202_000).for_each(|number| server.request(key(number)));
    let (_, during) = server.end_window();
    let apart = (during.miss_ratio(1_000) - before.miss_ratio(1_000)).abs();
    assert!(apart < 0.03, "the ratios of the window before count: {apart}");
    (202_000..210_000).for_each(|number| server.request(key(number)));
    assert!(server.caches.tried.iter().any(|tried| tried.fills_for > 0));
    server.end_window();
    (210_000..400_000).for_each(|number| server.request(key(number)));
    server.end_window();
    (400_000..600_000).for_each(|number| server.request(key(number)));
    let (_, after) = server.end_window();
    for size in [4_000, 8_000, 16_000] {
        let real = measured(size, 600_000, 200_000, key);
        assert!((after.miss_ratio(size) - real).abs() < 0.005, "{size}");
    }
}

/// Where everything fits into all of them, each has the whole sample.
#[test]
fn caches_have_a_bounded_number_of_objects_together() {
    let mut caches =
        ScaledCaches::new(1 << 20, 1 << 32, 5_000, Fifo::boxed).expect("it can be modelled");
    for key in (0..40_000).map(hash) {
        caches.record(key, Answered::Miss, 0);
        caches.record(key, Answered::Store(1, None), 0);
        assert!(caches.memory_bytes() <= 5_000 + 4 * STORES_PER_COUNT as usize + MISSED_LEN * 8);
    }
    assert!(caches.memory_bytes() > 2_500 + MISSED_LEN * 8);
    caches.follow(1 << 32, 1 << 20);
    assert!(rate_of(caches.threshold) < 0.05, "the sample has not begun anew");
}

fn curve(points: &[(u64, f64)]) -> Curve {
    let point = |&(size, miss_ratio): &(u64, f64)| Point { size, miss_ratio };
    Curve::new(points.iter().map(point), 100.0).expect("they fall")
}

#[test]
fn corrected_curve_meets_the_ratios_and_keeps_the_shape_between() {
    let lru = curve(&[(50, 0.9), (100, 0.8), (150, 0.6), (200, 0.4), (400, 0.2)]);
    let told = [(100, 0.6), (200, 0.3)].map(|(size, miss_ratio)| Point { size, miss_ratio });
    let by = corrected(&lru, &told);
    let ratios = [0, 50, 100, 150, 200, 400].map(|size| by.miss_ratio(size));
    let expected = [1.0, 0.8, 0.6, 0.45, 0.3, 0.15];
    for (ratio, expected) in ratios.into_iter().zip(expected) {
        assert!((ratio - expected).abs() < 1e-9, "{ratios:?}");
    }
    assert_eq!(by.requests(), 100.0);
    assert_eq!(corrected(&lru, &[]), lru);
    // A circle of requests misses everything by LRU up to its length; where that curve is level,
    // the corrected one falls evenly.
    let lru = curve(&[(1_000, 0.0)]);
    let told = [(800, 0.4), (1_600, 0.0)].map(|(size, miss_ratio)| Point { size, miss_ratio });
    let by = corrected(&lru, &told);
    assert!((by.miss_ratio(400) - 0.7).abs() < 1e-9 && by.miss_ratio(1_000) < 1e-9);
    assert!((by.miss_ratio(799) - 0.475).abs() < 1e-9);
}

#[test]
fn ratios_move_with_the_present_one() {
    // Above it hits change in proportion, below it misses.
    assert!((moved(0.5, 0.5, 0.4) - 0.4).abs() < 1e-9);
    assert!((moved(0.75, 0.5, 0.4) - 0.7).abs() < 1e-9);
    assert!((moved(0.25, 0.5, 0.4) - 0.2).abs() < 1e-9);
    for (ratio, from, expected) in [(1.0, 1.0, 0.1), (0.0, 0.0, 0.1), (1.0, 0.0, 1.0)] {
        assert!((moved(ratio, from, 0.1) - expected).abs() < 1e-9, "{ratio} {from}");
    }
}
