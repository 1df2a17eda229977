//! Accesses of tenants and stores, and the resulting curves.

use super::*;

#[derive(Default)]
struct Fixed {
    lookups: Vec<u64>,
    /// The last value of `is_wanted`.
    are_hits_wanted: Mutex<Option<bool>>,
}

impl Source for Fixed {
    fn lookups(&self) -> Vec<u64> {
        self.lookups.clone()
    }

    fn bytes_max(&self) -> u64 {
        1 << 20
    }

    fn report_hits(&self, _tenant: usize, is_wanted: bool) {
        *self.are_hits_wanted.lock() = Some(is_wanted);
    }

    fn flash_reads(&self) -> TimeSum {
        TimeSum::default()
    }
}

fn profiles(tenants: u64) -> Vec<Profile> {
    (0..tenants).map(|_| Profile::new(1 << 20, 0, 0, Beside::default())).collect()
}

#[test]
fn each_tenant_has_a_curve_of_its_own() {
    let curves = Curves::new(2, Duration::from_secs(60));
    let mut profiles = profiles(2);
    for turn in 0..10 {
        for key in 0..40_u64 {
            let kind = if turn == 0 { AccessKind::Miss } else { AccessKind::Hit(100, None) };
            curves.record(0, key << 40, kind, || 0);
        }
        curves.clock.sleep(Duration::from_millis(1));
        for key in 0..40_u64 {
            curves.record(0, key << 40, AccessKind::Store(100, None), || 0);
        }
        curves.record(1, 7, AccessKind::Miss, || 0);
    }
    curves.take_in(&mut profiles);
    curves.tell(&mut profiles, &[400, 10], 2.0, 1, true);
    let told = curves.told(0).expect("there were requests");
    assert_eq!((told.curve.miss_ratio(4_000), told.curve.miss_ratio(3_999)), (0.1, 1.0));
    assert_eq!((told.seconds, told.window, told.object_bytes), (2.0, 1, Some(100.0)));
    assert!(told.backend_us.is_some_and(|us| (1e3..1e6).contains(&us)));
    // Never stored, so no cache has it, and the backend's latency is unknown.
    assert_eq!(curves.told(1).expect("there were requests").backend_us, None);
    assert_eq!(curves.told(1).expect("there were requests").curve.miss_ratio(1 << 20), 1.0);
    // Without lookups there is no new report.
    curves.tell(&mut profiles, &[400, 10], 2.0, 2, true);
    assert_eq!(curves.told(0).expect("it stays").window, 1);
    assert!(curves.told(2).is_none());
    // After a window without misses the backend's latency is still known.
    let before_us = curves.told(0).and_then(|told| told.backend_us);
    for key in 0..10_u64 {
        curves.record(0, key << 40, AccessKind::Hit(100, None), || 0);
    }
    curves.take_in(&mut profiles);
    curves.tell(&mut profiles, &[410, 10], 2.0, 3, true);
    let told = curves.told(0).expect("there were requests");
    assert_eq!((told.window, told.backend_us), (3, before_us));
}

#[test]
fn accesses_dropped_by_a_full_queue_are_counted() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let mut profiles = profiles(1);
    let (more, source) = (1_000, Fixed::default());
    for key in 0..(QUEUE_LEN + more) as u64 {
        curves.record(0, key, AccessKind::Miss, || 0);
    }
    assert!(curves.take_in(&mut profiles));
    // There is room again, but the rate is too high.
    assert!(!curves.turn(&mut profiles, &source, 1_000_000));
    assert_eq!(*source.are_hits_wanted.lock(), Some(false));
    curves.record(0, 7, AccessKind::Hit(100, None), || 0);
    assert!(!curves.take_in(&mut profiles));
    let requests = (QUEUE_LEN + more + 1) as u64;
    curves.tell(&mut profiles, &[requests], 1.0, 1, true);
    let told = curves.told(0).expect("there were requests");
    assert_eq!((told.unseen, told.curve.miss_ratio(1 << 40)), (more as u64 + 1, 1.0));
    // A window without a burst gives no report.
    curves.tell(&mut profiles, &[requests + 9], 1.0, 2, true);
    assert_eq!(curves.told(0).expect("it stays").window, 1);
    assert!(curves.turn(&mut profiles, &source, 2_000_000_000));
    assert_eq!(*source.are_hits_wanted.lock(), Some(true));
    curves.record(0, 7, AccessKind::Hit(100, None), || 0);
    curves.take_in(&mut profiles);
    curves.tell(&mut profiles, &[requests + 10], 1.0, 3, true);
    assert_eq!(curves.told(0).map(|told| (told.window, told.unseen)), Some((3, 0)));
}

/// One of two thousand keys; every second request goes to a tenth of them.
fn skewed(number: u64) -> u64 {
    let random = (number + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29);
    let random = random.wrapping_mul(0xA076_1D64_78BD_642F) >> 20;
    let key = if random.is_multiple_of(2) { random / 2 % 200 } else { random / 2 % 2_000 };
    (key + 1).wrapping_mul(0x9FB2_1C65_1E98_DF25)
}

#[test]
fn paused_curves_record_nothing_and_count_everything() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let (mut profiles, source) = (profiles(1), Fixed::default());
    let ask = |times: u64| {
        for key in 0..times {
            curves.record(0, key << 40, AccessKind::Miss, || 0);
            curves.record(0, key << 40, AccessKind::Store(100, None), || 0);
        }
    };
    let waiting = || curves.tenants[0].queue.len();
    curves.set_profiling(false);
    assert!(!curves.turn(&mut profiles, &source, 1_000_000_000));
    assert_eq!(*source.are_hits_wanted.lock(), Some(false));
    ask(1_000);
    assert_eq!(waiting(), 0);
    // After any time.
    assert!(!curves.turn(&mut profiles, &source, 9_000_000_000));
    curves.set_profiling(true);
    assert!(curves.turn(&mut profiles, &source, 9_000_000_000));
    assert_eq!(*source.are_hits_wanted.lock(), Some(true));
    ask(2_000);
    assert_eq!(waiting(), 4_000);
    curves.take_in(&mut profiles);
    curves.tell(&mut profiles, &[3_000], 9.0, 1, true);
    assert_eq!(curves.told(0).map(|told| told.unseen), Some(1_000));
}

#[test]
fn every_cache_misses_cleared_objects() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let mut profiles = profiles(1);
    // Ten keys, requested again and again, and stored after a miss.
    let round = |is_there: bool| {
        for key in 0..10_u64 {
            let kind = if is_there { AccessKind::Hit(100, None) } else { AccessKind::Miss };
            curves.record(0, key << 40, kind, || 0);
            if !is_there {
                curves.record(0, key << 40, AccessKind::Store(100, None), || 0);
            }
        }
    };
    round(false);
    round(true);
    // The queue contains earlier accesses.
    curves.record_clear(0);
    round(false);
    round(true);
    curves.take_in(&mut profiles);
    // And with an empty queue.
    curves.record_clear(0);
    curves.take_in(&mut profiles);
    assert_eq!(profiles[0].watch.objects(), 0);
    round(false);
    curves.take_in(&mut profiles);
    curves.tell(&mut profiles, &[50], 1.0, 1, true);
    let curve = curves.told(0).expect("there were requests").curve;
    assert_eq!((curve.miss_ratio(1_000), curve.miss_ratio(999)), (0.6, 1.0));
}

#[test]
fn in_bursts_a_curve_is_the_same() {
    let curves = Curves::new(1, Duration::from_secs(8));
    let mut profiles = profiles(1);
    let mut all = Profile::new(1 << 20, 0, 0, Beside::default());
    // A million per second for this many milliseconds, in one window after another.
    let mut number = 0;
    let mut run = |profiles: &mut [Profile], from_ms: u64, to_ms: u64| {
        for ms in from_ms..to_ms {
            for _ in 0..1_000 {
                let (key, kind) = (skewed(number), AccessKind::Hit(100, None));
                curves.record(0, key, kind, || 0);
                all.record(&AccessEvent {
                    key,
                    kind,
                    at_ms: 0,
                    monotonic_us: 0,
                    generation: 0,
                    is_aside: false,
                });
                number += 1;
            }
            curves.take_in(profiles);
            curves.turn(profiles, &Fixed::default(), ms * 1_000_000);
        }
        curves.tell(profiles, &[number], 4.0, from_ms / 4_000 + 1, true);
        all.tell(Totals { requests: number, seen: number }, 1, 4.0, 1, true).expect("requests")
    };
    run(&mut profiles, 0, 4_000);
    let exact = run(&mut profiles, 4_000, 8_000);
    let told = curves.told(0).expect("there were requests");
    // A sixtieth is profiled, and the report describes all.
    assert_eq!((told.window, exact.unseen), (2, 0));
    assert!(told.unseen > 3_900_000 && told.unseen < 3_950_000, "{}", told.unseen);
    assert_eq!((told.curve.requests(), exact.curve.requests()), (4e6, 4e6));
    for objects in [20, 100, 200, 500, 1_000, 1_900, 2_100] {
        let ratios = [&told, &exact].map(|told| told.curve.miss_ratio(objects * 100));
        assert!((ratios[0] - ratios[1]).abs() < 0.01, "{objects}: {ratios:?}");
    }
    assert!(exact.curve.miss_ratio(20 * 100) > 0.9 && exact.curve.miss_ratio(2_100 * 100) < 1e-6);
}

/// An object lives for five to fifteen seconds, is requested all the time, and stored after a miss.
/// Curves of bursts once assumed that an object seen again after a gap lives forever, and reported
/// a part of the misses.
#[test]
fn objects_expire_in_bursts_too() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let mut profiles = profiles(1);
    let (mut number, mut missed, mut deadlines) = (0, 0, HashMap::new());
    for window in 0..2 {
        (number, missed) = (0, 0);
        for ms in window * 60_000..(window + 1) * 60_000 {
            for _ in 0..50 {
                let key = skewed(number);
                number += 1;
                let left_ms = deadlines.get(&key).and_then(|at: &u64| at.checked_sub(ms));
                match left_ms.filter(|left_ms| *left_ms > 0) {
                    Some(left_ms) => {
                        curves.record(0, key, AccessKind::Hit(100, Some(left_ms)), || ms)
                    }
                    None => {
                        missed += 1;
                        let ttl_ms = 5_000 + (key ^ ms).wrapping_mul(0x9FB2_1C65) % 10_000;
                        curves.record(0, key, AccessKind::Miss, || ms);
                        curves.record(0, key, AccessKind::Store(100, Some(ttl_ms)), || ms);
                        deadlines.insert(key, ms + ttl_ms);
                    }
                }
            }
            curves.take_in(&mut profiles);
            curves.turn(&mut profiles, &Fixed::default(), ms * 1_000_000);
        }
        curves.tell(&mut profiles, &[number * (window + 1)], 60.0, window + 1, true);
    }
    let told = curves.told(0).expect("there were requests");
    assert!(told.window == 2 && told.unseen > number / 2, "{}", told.unseen);
    let (ratio, real) = (told.curve.miss_ratio(1 << 20), f64::from(missed) / number as f64);
    assert!(ratio > real * 0.75 && ratio < real * 1.25, "{ratio} for {real}");
}

/// For an object that is created for the first client that requests it (`mg KEY N60`), and filled
/// by this client.
#[test]
fn the_time_of_a_miss_ends_with_the_clients_store() {
    let mut profile = Profile::new(1 << 20, 0, 0, Beside::default());
    let see = |profile: &mut Profile, key, kind, monotonic_us| {
        let (at_ms, generation, is_aside) = (0, 0, false);
        profile.record(&AccessEvent { key, kind, at_ms, monotonic_us, generation, is_aside });
    };
    for key in 0..40 {
        see(&mut profile, key, AccessKind::Miss, 1_000);
        see(&mut profile, key, AccessKind::Store(60, None), 1_001);
        see(&mut profile, key, AccessKind::Store(100, None), 11_000);
        // It exists already, and its store was not recorded.
        see(&mut profile, key, AccessKind::Miss, 20_000);
        see(&mut profile, key, AccessKind::Hit(100, None), 21_000);
        see(&mut profile, key, AccessKind::Store(100, None), 9_000_000);
    }
    // A window may end in between, if the miss is not too old.
    see(&mut profile, 50, AccessKind::Miss, 10_000_000);
    see(&mut profile, 51, AccessKind::Miss, 19_000_000);
    profile.tell(Totals { requests: 100, seen: 100 }, 1, 1.0, 1, true);
    assert_eq!(profile.backend.mean_us(), Some(10_000.0));
    see(&mut profile, 52, AccessKind::Miss, 20_500_000);
    profile.tell(Totals { requests: 101, seen: 101 }, 1, 1.0, 2, true);
    assert_eq!(profile.followed.len(), 2);
}

#[test]
fn times_longer_than_a_burst_are_measured_too() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let mut profiles = profiles(1);
    let source = Fixed::default();
    let key_of = |number: u64| number.wrapping_mul(0x9FB2_1C65_1E98_DF25);
    let mut see = |curves: &Curves, kind| {
        (0..1_000).for_each(|number| curves.record(0, key_of(number), kind, || 0));
        curves.take_in(&mut profiles);
        _ = curves.turn(&mut profiles, &source, 1_000_000);
    };
    // Fewer than a queue length at a time, until the burst ends.
    for _ in 0..BURST_AND_MORE / 1_000 {
        see(&curves, AccessKind::Hit(100, None));
    }
    assert!(curves.tenants[0].gate.is_closed());
    see(&curves, AccessKind::Hit(100, None));
    see(&curves, AccessKind::Miss);
    curves.clock.sleep(Duration::from_millis(3));
    see(&curves, AccessKind::Store(100, None));
    let backend = &profiles[0].backend;
    // About one key in sixteen.
    assert!((30..=100).contains(&backend.count()), "{}", backend.count());
    assert!(backend.mean_us().is_some_and(|us| us >= 3_000.0), "{backend:?}");
    assert_eq!(curves.tenants[0].seen.get(), BURST_AND_MORE / 1_000 * 1_000);
}

/// More accesses than a burst has.
const BURST_AND_MORE: u64 = 66_000;

#[test]
fn objects_stored_before_profiling_are_learned_from_hits() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let mut profiles = profiles(1);
    // Ten objects in a circle, stored before profiling began.
    for key in (0..10_u64).cycle().take(100) {
        curves.record(0, key << 40, AccessKind::Hit(100, None), || 0);
    }
    curves.take_in(&mut profiles);
    curves.tell(&mut profiles, &[100], 1.0, 1, true);
    let told = curves.told(0).expect("there were requests");
    assert_eq!((told.curve.miss_ratio(1_000), told.curve.miss_ratio(999)), (0.0, 1.0));
    assert_eq!((told.unseen, told.curve.requests()), (0, 100.0));
}

#[test]
fn queued_accesses_to_keys_outside_the_sample_do_not_count() {
    let mut profile = Profile::new(u64::MAX, 0, 0, Beside::default());
    // More objects than fit into a sample.
    let objects = 3 * OBJECTS_MAX as u64;
    let key = |number: u64| (number + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29);
    let see = |profile: &mut Profile, key, kind| {
        profile.record(&AccessEvent {
            key,
            kind,
            at_ms: 0,
            monotonic_us: 0,
            generation: 0,
            is_aside: false,
        });
    };
    (0..objects).for_each(|number| see(&mut profile, key(number), AccessKind::Store(100, None)));
    assert!(profile.watch.rate() < 0.5 && profile.watch.memory_bytes() < 4 << 20);
    (0..objects).for_each(|number| see(&mut profile, key(number), AccessKind::Hit(100, None)));
    assert_eq!(profile.unknown, 0.0, "all of the sample is known");
    see(&mut profile, key(objects), AccessKind::Hit(100, None));
    let is_in = sample_hash(key(objects)) < profile.watch.threshold();
    assert_eq!(profile.unknown > 0.0, is_in);
}

#[test]
fn a_thread_reports_curves_until_it_is_stopped() {
    let curves = Arc::new(Curves::new(1, Duration::from_millis(20)));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let thread = tidekv_io::threads::spawn("curves", {
        let curves = Arc::clone(&curves);
        move || run(&curves, &Fixed { lookups: vec![0], ..Fixed::default() }, &stopped)
    })
    .expect("there can be another thread");
    // No requests.
    curves.clock.sleep(Duration::from_millis(60));
    assert!(curves.told(0).is_none());
    stop.send(true).expect("it runs");
    thread.join().expect("it ends");
}

/// Evicts the oldest object first, so that LRU's curve is not its own.
#[derive(Debug)]
struct OldestFirst {
    objects_max: usize,
    queue: std::collections::VecDeque<u64>,
}

impl OldestFirst {
    fn new(bytes: u64) -> Self {
        Self { objects_max: bytes as usize / 100, queue: std::collections::VecDeque::new() }
    }
}

impl ScaledCache for OldestFirst {
    fn get(&mut self, key: u64, _at_ms: u64) -> bool {
        self.queue.contains(&key)
    }

    fn contains(&mut self, key: u64) -> bool {
        self.queue.contains(&key)
    }

    fn store(&mut self, key: u64, _bytes: u64, _ttl_ms: Option<u64>, _at_ms: u64) {
        self.remove(key);
        self.queue.push_back(key);
        while self.queue.len() > self.objects_max {
            self.queue.pop_front();
        }
    }

    fn remove(&mut self, key: u64) {
        self.queue.retain(|other| *other != key);
    }

    fn clear(&mut self) {
        self.queue.clear();
    }

    fn sweep(&mut self, _at_ms: u64) {}

    fn set_scale(&mut self, size: u64, rate: f64, is_sampled: &dyn Fn(u64) -> bool) {
        self.objects_max = (size as f64 * rate) as usize / 100;
        self.queue.retain(|key| is_sampled(*key));
    }

    fn objects(&self) -> usize {
        self.queue.len()
    }

    fn is_full(&self) -> bool {
        self.queue.len() >= self.objects_max
    }

    fn memory_bytes(&self) -> usize {
        self.queue.len()
    }
}

/// The finalizer of splitmix64: `skewed` alone depends on the numbers before.
fn mixed(number: u64) -> u64 {
    let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Requests of a cache of that many objects, in bursts: the miss ratio of the second window, and
/// its report, with scaled-down caches beside it if `is_modelled`.
fn of_oldest_first(objects: u64, is_modelled: bool) -> (f64, WindowReport) {
    let curves = Curves::new(1, Duration::from_secs(8));
    let make = |bytes, _rate| {
        let cache: Box<dyn ScaledCache> = Box::new(OldestFirst::new(bytes));
        is_modelled.then_some(cache)
    };
    let mut counts = CacheCounts { size_bytes: objects * 100, ..CacheCounts::default() };
    let caches = ScaledCaches::new(counts.size_bytes, ALL_KEYS, OBJECTS_MAX, make);
    let mut profiles = [Profile::new(1 << 20, 0, 0, Beside::new(caches, counts))];
    let mut real = OldestFirst::new(counts.size_bytes);
    let mut missed = 0;
    for ms in 0..8_000 {
        if ms == 4_000 {
            curves.tell(&mut profiles, &[counts.lookups], 4.0, 1, true);
            missed = counts.misses;
        }
        for _ in 0..100 {
            let key = skewed(mixed(counts.lookups));
            counts.lookups += 1;
            if real.get(key, 0) {
                curves.record(0, key, AccessKind::Hit(100, None), || 0);
            } else {
                counts.misses += 1;
                curves.record(0, key, AccessKind::Miss, || 0);
                real.store(key, 100, None, 0);
                curves.record(0, key, AccessKind::Store(100, None), || 0);
            }
        }
        curves.take_in(&mut profiles);
        let threshold = profiles[0].watch.threshold();
        profiles[0].beside.follow_cache(counts, threshold);
        curves.turn(&mut profiles, &Fixed::default(), ms * 1_000_000);
    }
    curves.tell(&mut profiles, &[counts.lookups], 4.0, 2, true);
    assert_eq!(profiles[0].beside.memory_bytes() > 0, is_modelled);
    let miss_ratio = (counts.misses - missed) as f64 / 400_000.0;
    (miss_ratio, curves.told(0).expect("there were requests"))
}

/// The curve was that of LRU, whatever the cache evicts first.
#[test]
fn curve_is_that_of_the_caches_own_order() {
    let (_, told) = of_oldest_first(400, true);
    let (_, by_lru) = of_oldest_first(400, false);
    assert!(told.unseen > 100_000, "it was observed in bursts: {}", told.unseen);
    for objects in [200, 400, 800] {
        let (real, _) = of_oldest_first(objects, true);
        let [own, lru] = [&told, &by_lru].map(|told| told.curve.miss_ratio(objects * 100) - real);
        assert!(own.abs() < 0.01 && lru.abs() > 0.02, "{objects}: {own}, by LRU {lru}");
    }
}
