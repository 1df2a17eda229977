//! How a curve is corrected; `shards` has what that is worth on traces.

use super::*;

fn curve(ratios: &[f64]) -> Curve {
    let point = |(at, ratio): (usize, &f64)| Point { size: at as u64 * 10, miss_ratio: *ratio };
    Curve::new(ratios.iter().enumerate().map(point), 100.0).expect("it falls")
}

fn ratios(curve: &Curve) -> Vec<f64> {
    curve.points().iter().map(|point| point.miss_ratio).collect()
}

#[test]
fn ratios_that_rise_are_level_at_their_mean() {
    let before = curve(&[1.0, 0.8, 0.6, 0.4, 0.2]);
    let after = falling(&before, vec![1.0, 0.7, 0.5, 0.54, 0.1]);
    assert_eq!(ratios(&after), [1.0, 0.7, 0.52, 0.1]);
    assert_eq!((after.miss_ratio(30), after.requests()), (0.52, 100.0));
    // One that is far off draws on all before it; the last is of a single byte. None leaves what a ratio can be.
    let after = falling(&before, vec![1.0, 0.7, 0.5, 0.9, 0.95]);
    let level = ratios(&after);
    assert_eq!(level.len(), 2);
    assert!((level[1] - (21.0 + 0.95) / 31.0).abs() < 1e-12, "{level:?}");
    assert_eq!(ratios(&falling(&before, vec![1.2, 1.1, 0.5, -0.1, -0.2])), [1.0, 0.5, 0.0]);
}

#[test]
fn between_points_lines_are_straight_and_beside_them_level() {
    let points = [(10.0, 1.0), (20.0, 3.0), (40.0, 2.0)];
    let at = [0.0, 10.0, 15.0, 30.0, 40.0, 99.0].map(|x| between(&points, x));
    assert_eq!(at, [1.0, 1.0, 2.0, 2.5, 2.0, 2.0].map(Some));
    assert_eq!(between(&[], 1.0), None);
}

#[test]
fn of_what_chance_could_have_done_nothing_is_taken() {
    let apart = |by: f64| Apart { bytes: 1.0, by, variance: 4.0 };
    let mut chance = [apart(2.0), apart(-1.0)];
    take_less(&mut chance);
    assert_eq!(chance.map(|apart| apart.by), [0.0, 0.0]);
    let mut mostly = [apart(4.0), apart(-4.0)];
    take_less(&mut mostly);
    assert_eq!(mostly.map(|apart| apart.by), [3.0, -3.0]);
}
