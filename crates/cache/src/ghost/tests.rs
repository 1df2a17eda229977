//! What a ghost knows, and for how long.

use super::*;

fn fingerprint(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x7FEB_352D);
    ((n ^ n >> 15).wrapping_mul(0x846C_A68B) ^ n >> 16) | 1
}

fn known(ghost: &mut Ghost, numbers: std::ops::Range<u32>) -> usize {
    numbers.filter(|&n| ghost.take(fingerprint(n))).count()
}

#[test]
fn among_equals_the_last_ones_are_known() {
    let sketch = Sketch::new(1 << 20);
    let mut ghost = Ghost::new(10_000, 1);
    (0..100_000).for_each(|n| ghost.note(fingerprint(n), &sketch));
    assert!(known(&mut ghost, 95_000..100_000) > 4_800);
    assert!(known(&mut ghost, 0..75_000) < 100);
    // Each is told once; some share a fingerprint.
    assert!(known(&mut ghost, 95_000..100_000) < 5);
    assert!(known(&mut ghost, 200_000..300_000) < 5);
}

#[test]
fn what_is_asked_for_stays_through_a_flood_of_what_is_not() {
    let sketch = Sketch::new(1 << 20);
    let mut ghost = Ghost::new(2_000, 1);
    for n in 0..1_000 {
        (0..3).for_each(|_| {
            sketch.add(spread(fingerprint(n)));
        });
        ghost.note(fingerprint(n), &sketch);
    }
    (1_000..100_000).for_each(|n| ghost.note(fingerprint(n), &sketch));
    assert!(known(&mut ghost, 0..1_000) > 970);
    // Beside them there is room for the last of the others.
    assert!(known(&mut ghost, 99_000..100_000) > 300);
}

#[test]
fn one_that_keeps_what_left_last_is_flushed_by_a_flood() {
    let sketch = Sketch::new(1 << 20);
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
fn a_sample_stands_for_all() {
    let sketch = Sketch::new(1 << 20);
    let mut ghost = Ghost::new(100_000, 8);
    (0..80_000).for_each(|n| ghost.note(fingerprint(n), &sketch));
    let estimate = known(&mut ghost, 0..80_000) * ghost.sampling() as usize;
    assert!((70_000..=84_000).contains(&estimate), "{estimate}");
    assert_eq!(ghost.charged_bytes(), 12_504 * 4);
}

#[test]
fn the_smallest_have_one_entry_and_none() {
    let sketch = Sketch::new(64);
    let mut ghost = Ghost::new(1, 1);
    ghost.note(5, &sketch);
    ghost.note(7, &sketch);
    assert!(!ghost.take(5) && ghost.take(7) && !ghost.take(7));
    let mut none = Ghost::new(0, 1);
    none.note(5, &sketch);
    assert!(!none.take(5) && none.charged_bytes() == 0);
}
