//! Curves: ratios between points, hulls, and caches divided by fixed shares.

use proptest::prelude::*;

use super::*;

fn curve(points: &[(u64, f64)], requests: f64) -> Curve {
    let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
    Curve::new(points, requests).expect("it is a curve")
}

fn sizes(points: &[Point]) -> Vec<u64> {
    points.iter().map(|point| point.size).collect()
}

#[test]
fn between_points_the_smaller_size_applies() {
    let curve = curve(&[(10, 0.5), (20, 0.5), (100, 0.1)], 7.0);
    assert_eq!(sizes(curve.points()), [0, 10, 100]);
    let at = [0, 9, 10, 99, 100, u64::MAX].map(|size| curve.miss_ratio(size));
    assert_eq!(at, [1.0, 1.0, 0.5, 0.5, 0.1, 0.1]);
    let sizes = [1.0, 0.5, 0.4, 0.1, 0.05].map(|ratio| curve.size_for(ratio));
    assert_eq!(sizes, [Some(0), Some(10), Some(100), Some(100), None]);
    assert_eq!(curve.requests(), 7.0);
}

#[test]
fn rising_ratios_are_refused() {
    for points in [
        vec![(10, 0.5), (20, 0.6)],
        vec![(10, 0.5), (10, 0.4)],
        vec![(10, 0.5), (5, 0.4)],
        vec![(10, 1.5)],
        vec![(10, -0.1)],
        vec![(10, f64::NAN)],
    ] {
        let points = points.into_iter().map(|(size, miss_ratio)| Point { size, miss_ratio });
        assert!(Curve::new(points, 1.0).is_err());
    }
    assert!(Curve::new([], f64::NAN).is_err());
    assert_eq!(Curve::new([], 0.0).expect("nothing is known").miss_ratio(5), 1.0);
}

#[test]
fn hull_omits_points_above_it() {
    let cliff = curve(&[(1, 0.9), (2, 0.85), (10, 0.84), (11, 0.2), (50, 0.1)], 1.0);
    assert_eq!(sizes(&cliff.hull()), [0, 1, 11, 50]);
    let convex = curve(&[(1, 0.5), (2, 0.25), (3, 0.125)], 1.0);
    assert_eq!(sizes(&convex.hull()), [0, 1, 2, 3]);
}

#[test]
fn divided_cache_gives_parts_their_shares() {
    let small = curve(&[(10, 0.5), (30, 0.0)], 100.0);
    let large = curve(&[(100, 0.2)], 300.0);
    // A quarter and three quarters.
    let all = Curve::divided(&[(small.clone(), 1.0), (large.clone(), 3.0)]).expect("requests");
    assert_eq!(sizes(all.points()), [0, 40, 120, 134]);
    for size in [0, 39, 40, 119, 120, 133, 134, 1_000] {
        let misses = 100.0 * small.miss_ratio(size / 4) + 300.0 * large.miss_ratio(size * 3 / 4);
        assert!((all.miss_ratio(size) - misses / 400.0).abs() < 1e-12, "{size}");
    }
    assert_eq!(Curve::divided(&[]), None);
}

proptest! {
    #[test]
    fn a_hull_is_below_its_curve_and_convex(steps in prop::collection::vec((1..1_000_u64, 0.0..1.0_f64), 1..60)) {
        let mut all = Point { size: 0, miss_ratio: 1.0 };
        let points: Vec<Point> = steps.into_iter().map(|(further, part)| {
            all = Point { size: all.size + further, miss_ratio: all.miss_ratio * (1.0 - part / 4.0) };
            all
        }).collect();
        let curve = Curve::new(points, 1.0).unwrap();
        let hull = curve.hull();
        prop_assert_eq!(hull.first(), curve.points().first());
        prop_assert_eq!(hull.last(), curve.points().last());
        for three in hull.windows(3) {
            prop_assert!(turns_up(three[0], three[1], three[2]));
        }
        for point in curve.points() {
            let place = hull.partition_point(|it| it.size <= point.size).clamp(1, hull.len() - 1);
            let (from, to) = (hull[place - 1], hull[place]);
            let part = (point.size - from.size) as f64 / (to.size - from.size) as f64;
            let line = from.miss_ratio + part * (to.miss_ratio - from.miss_ratio);
            prop_assert!(line <= point.miss_ratio + 1e-12);
        }
        for most in [2, 3, 10] {
            let thin = curve.thinned(most);
            prop_assert!(thin.points().len() <= most.max(2));
            prop_assert_eq!(thin.points().first(), curve.points().first());
            prop_assert_eq!(thin.points().last(), curve.points().last());
            prop_assert!(thin.points().iter().all(|point| curve.points().contains(point)));
        }
        prop_assert_eq!(curve.mean_absolute_error(&curve, 100), 0.0);
    }
}

#[test]
fn a_margin_is_for_ratios_and_for_sizes() {
    let curve = curve(&[(10, 0.9), (20, 0.5), (30, 0.48), (40, 0.1)], 7.0);
    let ratio_error = |size: u64| [0.0, 0.2, 0.01, 0.03, 0.0][size as usize / 10];
    let at = |curve: &Curve| {
        [0, 10, 20, 30, 35, 40].map(|size| (curve.miss_ratio(size) * 100.0).round())
    };
    let raised = curve.with_margin(1.0, |point| (ratio_error(point.size), 0.0));
    assert_eq!(at(&raised), [100.0, 100.0, 51.0, 51.0, 51.0, 10.0]);
    // A size that gains nothing is no point.
    assert_eq!(sizes(raised.points()), [0, 20, 40]);
    assert_eq!((raised.requests(), curve.with_margin(3.0, |_| (0.0, 0.0))), (7.0, curve.clone()));
    // A cliff may be further to the right.
    let shifted = curve.with_margin(2.0, |point| (0.0, if point.size == 30 { 0.0 } else { 2.5 }));
    assert_eq!(sizes(shifted.points()), [0, 15, 25, 30, 45]);
    assert_eq!(at(&shifted), [100.0, 100.0, 90.0, 48.0, 48.0, 48.0]);
    // One that may be anywhere does not hide those behind it.
    let shifted = curve.with_margin(1.0, |point| (0.0, if point.size == 10 { 1e30 } else { 0.0 }));
    assert_eq!(at(&shifted), [100.0, 100.0, 50.0, 48.0, 48.0, 10.0]);
}
