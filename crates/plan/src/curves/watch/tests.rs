//! Windows of a server whose clients change their working sets.

use super::*;
use crate::curves::access::Action;
use crate::curves::profiler::{Expiry, Profiler, Unit};

const SETTINGS: Settings = Settings { unit: Unit::Bytes, expiry: Expiry::AtOnce };

/// Requests for objects of 100 bytes, numbered from `first` on, most for few of them.
struct Clients {
    state: u64,
}

impl Clients {
    fn next(&mut self, first: u64, objects: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let part = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        let key = first + ((objects as f64).powf(part) - 1.0) as u64;
        (key + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29) ^ key
    }

    /// Sends this many requests, as a server does: only the sampled ones are reported.
    fn ask(
        &mut self,
        watch: &mut WindowedProfiler,
        requests: u64,
        (first, objects): (u64, u64),
    ) -> Window {
        for _ in 0..requests {
            let key = self.next(first, objects);
            if sample_hash(key) < watch.threshold() {
                watch.record(&Access::new(key, Action::Load(100)));
            }
        }
        Window { requests, lost: 0 }
    }
}

#[test]
fn cleared_objects_miss_and_are_sampled_again() {
    let mut watch = WindowedProfiler::new(100, u64::MAX / 2, SETTINGS);
    let mut clients = Clients { state: 3 };
    clients.ask(&mut watch, 20_000, (0, 10_000));
    let (rate, objects) = (watch.rate(), watch.objects());
    assert!(objects > 50 && rate < 1.0);
    watch.clear();
    // The rate stays as it is.
    assert_eq!((watch.rate(), watch.objects()), (rate, 0));
    // Though there are few: there was no time for more.
    watch.end_window(Window { requests: 20_000, lost: 0 });
    let window = clients.ask(&mut watch, 20_000, (0, 10_000));
    assert_eq!(watch.rate(), rate);
    assert!(watch.end_window(window).is_some(), "it has nothing to learn");
    // And with all keys: each of ten is missed once more.
    let mut watch = WindowedProfiler::new(1_000, u64::MAX / 2, SETTINGS);
    let circle = |watch: &mut WindowedProfiler| {
        (0..100).for_each(|at| watch.record(&Access::new(at % 10, Action::Load(100))));
        watch.end_window(Window { requests: 100, lost: 0 }).expect("it is not learning")
    };
    let missed = [false, true, false].map(|is_cleared| {
        if is_cleared {
            watch.clear();
        }
        circle(&mut watch).miss_ratio(1_000)
    });
    assert_eq!(missed, [0.1, 0.1, 0.0]);
}

#[test]
fn a_window_has_the_curve_of_caches_that_were_warm_before() {
    let mut watch = WindowedProfiler::new(1_000_000, u64::MAX / 2, SETTINGS);
    let mut clients = Clients { state: 7 };
    let first = clients.ask(&mut watch, 100_000, (0, 10_000));
    watch.end_window(first).expect("it is not learning");
    let second = clients.ask(&mut watch, 100_000, (0, 10_000));
    let curve = watch.end_window(second).expect("it is not learning");
    // The same with all previous requests, without their own misses.
    let mut again = Clients { state: 7 };
    let mut exact = Profiler::new(SETTINGS);
    let misses = |exact: &Profiler, size| {
        let curve = exact.curve();
        curve.miss_ratio(size) * curve.requests()
    };
    let mut record = |exact: &mut Profiler| {
        (0..100_000)
            .for_each(|_| exact.record(&Access::new(again.next(0, 10_000), Action::Load(100))));
    };
    record(&mut exact);
    let sizes = [1_000, 10_000, 100_000, 500_000, 1_000_000];
    let before = sizes.map(|size| misses(&exact, size));
    record(&mut exact);
    for (size, before) in sizes.into_iter().zip(before) {
        let of_window = (misses(&exact, size) - before) / 100_000.0;
        assert!((curve.miss_ratio(size) - of_window).abs() < 1e-9, "{size}");
    }
}

#[test]
fn requests_in_flight_count_in_the_next_window() {
    let mut watch = WindowedProfiler::new(1_000, u64::MAX / 2, SETTINGS);
    // Every second request for a key that is never there.
    let mut ask = |asked: u64, counted: u64, lost: u64| {
        for at in 0..asked {
            match at % 2 {
                0 => watch.record(&Access::new(1_000 + at, Action::Get)),
                _ => watch.record(&Access::new(7, Action::Load(100))),
            }
        }
        let curve = watch.end_window(Window { requests: counted, lost });
        curve.map(|curve| (curve.miss_ratio(100), curve.requests()))
    };
    ask(2, 2, 0);
    // One more was counted than has arrived, and then one fewer.
    assert_eq!(ask(100, 101, 0), Some((0.5, 100.0)));
    assert_eq!(ask(100, 99, 0), Some((0.5, 100.0)));
    // Lost ones count like the others.
    assert_eq!(ask(100, 151, 50), Some((0.5, 150.0)));
    assert_eq!(ask(0, 1, 0), None);
}

#[test]
fn dropped_objects_do_not_change_the_curve_of_smaller_caches() {
    let mut watch = WindowedProfiler::new(1_000_000, 50_000, SETTINGS);
    let mut exact = Profiler::new(SETTINGS);
    let mut clients = Clients { state: 11 };
    for number in 0..100_000_u64 {
        let key = clients.next(number / 50, 3_000);
        let action = match key % 16 {
            0 => Action::Delete,
            1..4 => Action::Set(50 + key % 100),
            4..8 => Action::Get,
            _ => Action::Load(50 + key % 100),
        };
        let ttl_ms = key.is_multiple_of(5).then_some(500);
        let access = Access { at_ms: number, ttl_ms, ..Access::new(key, action) };
        watch.record(&access);
        exact.record(&access);
    }
    let exact = exact.curve();
    let window = Window { requests: exact.requests() as u64, lost: 0 };
    let curve = watch.curve(window).expect("it is not learning");
    for size in (0..=50_000).step_by(500) {
        let (all, left) = (exact.miss_ratio(size), curve.miss_ratio(size));
        assert!((all - left).abs() < 1e-9, "{size}: {all} and {left}");
    }
    assert!(watch.objects() < 1_000);
}

#[test]
fn sample_of_a_moving_working_set_stays_large() {
    let most = 4_096;
    // Caches of up to 10 000 objects, with requests for new ones all the time.
    let mut watch = WindowedProfiler::new(most, 1_000_000, SETTINGS);
    let mut alone = Sampler::of_size(most, SETTINGS);
    let mut clients = Clients { state: 3 };
    for day in 0..200 {
        let window = clients.ask(&mut watch, 20_000, (day * 20_000, 20_000));
        watch.end_window(window);
        let mut same = Clients { state: day };
        for _ in 0..20_000 {
            let key = same.next(day * 20_000, 20_000);
            alone.record(&Access::new(key, Action::Load(100)));
        }
    }
    assert!(alone.rate() < 0.01, "{}", alone.rate());
    assert!(watch.rate() > 0.1, "{}", watch.rate());
    assert!(watch.objects() >= most / SMALL_DIVISOR && watch.objects() <= most);
}

#[test]
fn small_sample_restarts_and_warms_up_for_a_window() {
    let mut watch = WindowedProfiler::new(1_000, u64::MAX / 2, SETTINGS);
    let mut clients = Clients { state: 5 };
    let window = clients.ask(&mut watch, 200_000, (0, 100_000));
    assert!(watch.end_window(window).is_some());
    assert!(watch.rate() < 0.1);
    for key in 0..100_000_u64 {
        let key = (key + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29) ^ key;
        watch.record(&Access::new(key, Action::Delete));
    }
    assert_eq!(watch.objects(), 0);
    assert!(watch.end_window(Window { requests: 1, lost: 0 }).is_some());
    assert_eq!(watch.rate(), 1.0);
    let window = clients.ask(&mut watch, 1_000, (0, 100));
    assert_eq!((watch.curve(window), watch.end_window(window)), (None, None));
    let window = clients.ask(&mut watch, 1_000, (0, 100));
    let curve = watch.end_window(window).expect("it has learnt");
    assert!(curve.miss_ratio(1_000_000) < 0.01);
}

#[test]
fn lost_requests_do_not_count_as_hits() {
    let mut watch = WindowedProfiler::new(1_000, u64::MAX / 2, SETTINGS);
    let mut clients = Clients { state: 9 };
    let window = clients.ask(&mut watch, 10_000, (0, 1_000_000));
    assert!(watch.rate() < 1.0);
    let all = watch.curve(window).expect("there is one");
    let as_hits = watch.curve(Window { requests: 20_000, lost: 0 }).expect("there is one");
    let lost = watch.curve(Window { requests: 20_000, lost: 10_000 }).expect("there is one");
    assert!(as_hits.miss_ratio(1 << 40) < all.miss_ratio(1 << 40) * 0.6);
    assert!((lost.miss_ratio(1 << 40) - all.miss_ratio(1 << 40)).abs() < 1e-9);
}

#[test]
fn window_without_requests_has_no_curve() {
    let mut watch = WindowedProfiler::new(10, 1_000, SETTINGS);
    assert_eq!(watch.end_window(Window::default()), None);
    assert_eq!((watch.mean_bytes(), watch.objects(), watch.rate()), (None, 0, 1.0));
    watch.record(&Access::new(1, Action::Set(300)));
    assert_eq!(watch.mean_bytes(), Some(300.0));
    // Objects that no cache would have are dropped.
    (2..9).for_each(|key| watch.record(&Access::new(key, Action::Set(300))));
    assert_eq!(watch.objects(), 3);
}
