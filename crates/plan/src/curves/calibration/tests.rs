//! The correction of a curve; `shards` tests its benefit on traces.

use super::*;

fn curve(ratios: &[f64]) -> Curve {
    let point = |(at, ratio): (usize, &f64)| Point { size: at as u64 * 10, miss_ratio: *ratio };
    Curve::new(ratios.iter().enumerate().map(point), 100.0).expect("it falls")
}

fn ratios(curve: &Curve) -> Vec<f64> {
    curve.points().iter().map(|point| point.miss_ratio).collect()
}

#[test]
fn rising_ratios_are_levelled_at_their_mean() {
    let before = curve(&[1.0, 0.8, 0.6, 0.4, 0.2]);
    let after = non_increasing(&before, vec![1.0, 0.7, 0.5, 0.54, 0.1]);
    assert_eq!(ratios(&after), [1.0, 0.7, 0.52, 0.1]);
    assert_eq!((after.miss_ratio(30), after.requests()), (0.52, 100.0));
    // A point that is far off levels all before it; the last weighs a single byte. Ratios stay
    // between 0 and 1.
    let after = non_increasing(&before, vec![1.0, 0.7, 0.5, 0.9, 0.95]);
    let level = ratios(&after);
    assert_eq!(level.len(), 2);
    assert!((level[1] - (21.0 + 0.95) / 31.0).abs() < 1e-12, "{level:?}");
    assert_eq!(ratios(&non_increasing(&before, vec![1.2, 1.1, 0.5, -0.1, -0.2])), [1.0, 0.5, 0.0]);
}

#[test]
fn interpolation_is_linear_inside_and_constant_outside() {
    let points = [(10.0, 1.0), (20.0, 3.0), (40.0, 2.0)];
    let at = [0.0, 10.0, 15.0, 30.0, 40.0, 99.0].map(|x| interpolate(&points, x));
    assert_eq!(at, [1.0, 1.0, 2.0, 2.5, 2.0, 2.0].map(Some));
    assert_eq!(interpolate(&[], 1.0), None);
}

#[test]
fn differences_within_chance_are_dropped() {
    let difference = |by: f64| Difference { bytes: 1.0, by, variance: 4.0 };
    let mut chance = [difference(2.0), difference(-1.0)];
    shrink(&mut chance);
    assert_eq!(chance.map(|it| it.by), [0.0, 0.0]);
    let mut mostly = [difference(4.0), difference(-4.0)];
    shrink(&mut mostly);
    assert_eq!(mostly.map(|it| it.by), [3.0, -3.0]);
}

fn average(new: f64) -> Average {
    Average { by_bytes: vec![(0.0, new), (1e9, new)], by_age: vec![(0.0, new), (1e9, new)] }
}

#[test]
fn differences_are_grouped_without_gaps() {
    let requests = |seen: f64, new: f64| Requests { seen, new, new_squares: new };
    let by_bytes = [
        (100.0, requests(1_000.0, 500.0)),
        (104.0, requests(3_000.0, 1_500.0)),
        // Wide enough.
        (106.0, requests(1_000.0, 600.0)),
        // Enough requests.
        (200.0, requests(1_000_000.0, 400_000.0)),
        // The rest.
        (300.0, requests(100.0, 50.0)),
    ];
    let found = differences(&by_bytes, &average(0.5));
    let by: Vec<f64> = found.iter().map(|it| (it.by * 1e6).round() / 1e6).collect();
    assert_eq!(by, [0.02, -0.1, 0.0]);
    assert_eq!(found[0].bytes, (100.0 + 3.0 * 104.0 + 106.0) / 5.0);
    assert!((found[1].variance * 1e6 - 0.4 * 0.5).abs() < 1e-9, "{}", found[1].variance);
}

#[test]
fn trace_is_stationary_if_average_at_all_ages() {
    // A thousand requests at each age, a tenth of which are for the sample and half of these new.
    let ages = |new: fn(u64) -> u64| -> Vec<AgeCounts> {
        (0..100).map(|age| AgeCounts { age, seen: 1_000, sampled_new: new(age) }).collect()
    };
    let is_so = |ages: &[AgeCounts]| is_stationary(ages, &average(0.5), 0.1);
    assert!(is_so(&ages(|_| 50)));
    assert!(is_so(&ages(|age| 50 + age % 10 - age % 7)));
    assert!(!is_so(&ages(|_| 60)));
    // Nothing is new any more at the highest ages.
    assert!(!is_so(&ages(|age| if age < 97 { 50 } else { 0 })));
    // Too few for a test.
    assert!(!is_so(&ages(|_| 50)[..2]));
    assert!(!is_so(&[]));
}
