//! What the sketch counts, forgets and takes.

use super::*;

fn hash(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x7FB5_D329_728E_A185);
    (n ^ n >> 27).wrapping_mul(0x81DA_DEF4_BC2D_D44D) ^ n >> 33
}

#[test]
fn what_was_asked_for_more_often_counts_more() {
    let sketch = Sketch::new(64 << 10);
    sketch.set_period(1 << 30);
    for round in 0..12 {
        for key in 0..1000 {
            if round < key % 12 {
                sketch.add(hash(key));
            }
        }
    }
    for key in 0..1000 {
        let (estimate, added) = (u64::from(sketch.estimate(hash(key))), key % 12);
        assert!(estimate >= added.min(8), "{key}: {estimate} of {added}");
    }
    let right = |key: u64| u64::from(sketch.estimate(hash(key))) == key % 12;
    assert!((0..1000).filter(|&key| key % 12 <= 8 && right(key)).count() > 700);
}

#[test]
fn large_counts_are_right_to_within_half_on_average() {
    let sketch = Sketch::new(64 << 10);
    sketch.set_period(1 << 30);
    for (times, range) in [(12u32, 0..500u64), (20, 500..1000), (36, 1000..1500)] {
        for _ in 0..times {
            range.clone().for_each(|key| {
                sketch.add(hash(key));
            });
        }
        let keys = range.end - range.start;
        let mean = range.map(|key| u64::from(sketch.estimate(hash(key)))).sum::<u64>() / keys;
        let (least, most) = (u64::from(times) * 3 / 4, u64::from(times) * 3 / 2);
        assert!((least..=most).contains(&mean), "{mean} of {times}");
    }
}

#[test]
fn the_last_addition_can_be_taken_away_on_average() {
    let sketch = Sketch::new(64 << 10);
    sketch.set_period(1 << 30);
    assert_eq!(sketch.estimate_before(hash(1)), 0);
    let mut before = [0; 1000];
    for times in 1..=40 {
        let (mut is, mut was) = (0, 0);
        for key in 0..1000 {
            sketch.add(hash(key));
            is += u64::from(sketch.estimate_before(hash(key)));
            was += std::mem::replace(&mut before[key as usize], sketch.estimate(hash(key))) as u64;
        }
        assert!(is.abs_diff(was) <= was / 32 + 50, "{is} and {was} after {times}");
    }
}

#[test]
fn counts_are_halved_once_in_a_period() {
    let sketch = Sketch::new(4 << 10);
    sketch.set_period(6_400);
    assert_eq!(sketch.period(), 6_400);
    sketch.raise(hash(1), COUNT_MAX);
    assert_eq!((sketch.estimate(hash(1)), sketch.add(hash(1))), (COUNT_MAX, COUNT_MAX));
    sketch.raise(hash(2), 7);
    let age = || {
        (0..6_400).for_each(|n| {
            sketch.add(hash(1_000_000 + n % 5));
        });
    };
    for left in [28, 12, 6, 3, 1, 0] {
        age();
        assert_eq!(sketch.estimate(hash(1)), left);
    }
    assert_eq!(sketch.estimate(hash(2)), 0);
}

#[test]
fn a_count_is_raised_and_never_lowered() {
    let sketch = Sketch::new(4 << 10);
    sketch.raise(hash(1), 5);
    sketch.raise(hash(1), 3);
    assert_eq!((sketch.estimate(hash(1)), sketch.add(hash(1))), (5, 6));
    sketch.raise(hash(1), 35);
    assert_eq!(sketch.estimate(hash(1)), 28);
}

#[test]
fn it_takes_no_more_than_it_may() {
    for bytes in [0, 63, 64, 1000, 4096, 5000] {
        let sketch = Sketch::new(bytes);
        assert!(sketch.charged_bytes() <= bytes, "{bytes}");
        assert!(bytes < 64 || sketch.charged_bytes() * 2 > bytes, "{bytes}");
    }
    let none = Sketch::new(63);
    assert_eq!((none.add(5), none.estimate(5)), (0, 0));
}
