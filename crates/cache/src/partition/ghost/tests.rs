//! The fingerprints that a ghost keeps, and for how long.

use super::*;
use crate::partition::sketch::Narrow;

fn fingerprint(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x7FEB_352D);
    ((n ^ n >> 15).wrapping_mul(0x846C_A68B) ^ n >> 16) | 1
}

fn take(ghost: &mut Ghost, fingerprint: u32) -> bool {
    ghost.take(fingerprint, &Sketch::<Narrow>::new(64)).is_some()
}

fn known(ghost: &mut Ghost, numbers: std::ops::Range<u32>) -> usize {
    numbers.filter(|&n| take(ghost, fingerprint(n))).count()
}

#[test]
fn latest_of_equal_fingerprints_are_kept() {
    let sketch = Sketch::<Narrow>::new(1 << 20);
    let mut ghost = Ghost::new(10_000, 1);
    (0..100_000).for_each(|n| ghost.note(fingerprint(n), &sketch));
    assert!(known(&mut ghost, 95_000..100_000) > 4_800);
    assert!(known(&mut ghost, 0..75_000) < 100);
    // Each is reported once; some share a fingerprint.
    assert!(known(&mut ghost, 95_000..100_000) < 5);
    assert!(known(&mut ghost, 200_000..300_000) < 5);
}

#[test]
fn hot_fingerprints_survive_a_flood_of_cold_ones() {
    let sketch = Sketch::<Narrow>::new(1 << 20);
    let mut ghost = Ghost::new(2_000, 1);
    for n in 0..1_000 {
        (0..3).for_each(|_| {
            sketch.add(spread(fingerprint(n)));
        });
        ghost.note(fingerprint(n), &sketch);
    }
    (1_000..100_000).for_each(|n| ghost.note(fingerprint(n), &sketch));
    assert!(known(&mut ghost, 0..1_000) > 970);
    // There is also room for the last of the others.
    assert!(known(&mut ghost, 99_000..100_000) > 300);
}

#[test]
fn ghost_in_eviction_order_is_flushed_by_a_flood() {
    let sketch = Sketch::<Narrow>::new(1 << 20);
    let mut ghost = Ghost::new(2_000, 1).keeping_last(true);
    for n in 0..1_000 {
        (0..3).for_each(|_| {
            sketch.add(spread(fingerprint(n)));
        });
        ghost.note(fingerprint(n), &sketch);
    }
    (1_000..100_000).for_each(|n| ghost.note(fingerprint(n), &sketch));
    assert_eq!(known(&mut ghost, 0..1_000), 0);
    assert!(known(&mut ghost, 99_000..100_000) > 800);
}

#[test]
fn sample_represents_all_keys() {
    let sketch = Sketch::<Narrow>::new(1 << 20);
    let mut ghost = Ghost::new(100_000, 8);
    (0..80_000).for_each(|n| ghost.note(fingerprint(n), &sketch));
    let hits = (0..80_000).filter_map(|n| ghost.take(fingerprint(n), &sketch));
    let estimate: f64 = hits.map(|hit| hit.window).sum();
    assert!((70_000.0..=84_000.0).contains(&estimate), "{estimate}");
    assert_eq!(ghost.charged_bytes(), 12_504 * 4);
}

#[test]
fn smallest_ghosts_hold_one_entry_or_none() {
    let sketch = Sketch::<Narrow>::new(64);
    let mut ghost = Ghost::new(1, 1);
    ghost.note(5, &sketch);
    ghost.note(7, &sketch);
    assert!(!take(&mut ghost, 5) && take(&mut ghost, 7) && !take(&mut ghost, 7));
    let mut none = Ghost::new(0, 1);
    none.note(5, &sketch);
    assert!(!take(&mut none, 5) && none.charged_bytes() == 0);
}

/// Ghost hits of many random lookups, in which each of the first `hot` fingerprints is accessed
/// `times` as often as each of the others: hits of the hot ones, and of all.
fn hits(
    ghost: &mut Ghost,
    sketch: &Sketch<Narrow>,
    (hot, all): (u32, u32),
    times: u32,
) -> [GhostHits; 2] {
    let (mut of_hot, mut of_all, mut sample_id) =
        (GhostHits::default(), GhostHits::default(), 1u32);
    for n in 0..400_000 {
        sample_id = sample_id.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let sample_id = ((u64::from(sample_id) * u64::from(all + hot * (times - 1))) >> 32) as u32;
        let number =
            if sample_id < hot * times { sample_id / times } else { sample_id - hot * (times - 1) };
        let fingerprint = fingerprint(number);
        sketch.add(spread(fingerprint));
        let hit = ghost.take(fingerprint, sketch).unwrap_or_default();
        ghost.note(fingerprint, sketch);
        // Warm up until the ghost is in its steady state.
        if n >= 200_000 {
            of_all += hit;
            of_hot += if number < hot { hit } else { GhostHits::default() };
        }
    }
    [of_hot, of_all]
}

#[test]
fn near_part_holds_the_most_frequent_fingerprints() {
    let mut ghost = Ghost::new(8_000, 1);
    let [hot, all] = hits(&mut ghost, &Sketch::<Narrow>::new(1 << 20), (1_000, 6_000), 10);
    assert!(hot.near > 3.0 * hot.window, "{hot:?}");
    let cold = all - hot;
    assert!(cold.window > 50_000.0 && cold.near < cold.window, "{cold:?}");
}

/// The current access is no evidence of a higher frequency.
#[test]
fn equal_frequencies_give_each_part_of_the_window_equal_hits() {
    for period in [20_000, 80_000, 320_000] {
        let sketch = Sketch::<Narrow>::new(256 << 10);
        sketch.set_period(period);
        let [_, all] = hits(&mut Ghost::new(8_000, 1), &sketch, (0, 8_000), 1);
        assert!(all.window > 100_000.0, "{all:?}");
        let share = all.near / all.window;
        assert!((0.8..1.25).contains(&share), "halved in {period} additions: {share}");
    }
}

#[test]
fn ghost_in_eviction_order_has_the_latest_near() {
    let sketch = Sketch::<Narrow>::new(1 << 20);
    let mut ghost = Ghost::new(8, 1).keeping_last(true);
    (1..=8).for_each(|n| ghost.note(n, &sketch));
    let mut near = |n| ghost.take(n, &sketch).map(|hit| hit.near);
    assert_eq!((near(1), near(7), near(8)), (Some(0.0), Some(4.0), Some(4.0)));
}

#[test]
fn near_part_is_configurable() {
    let sketch = Sketch::<Narrow>::new(1 << 20);
    let mut ghost = Ghost::new(8, 1).with_near_part(8);
    for n in 1..=8 {
        ghost.note(n, &sketch);
        sketch.add_times(spread(n), 2 * n as u16);
    }
    let mut near = |n| ghost.take(n, &sketch).map(|hit| hit.near);
    assert_eq!((near(7), near(8)), (Some(0.0), Some(8.0)));
}
