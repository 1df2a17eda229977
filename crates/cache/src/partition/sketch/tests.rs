//! Counts, ageing and memory of the sketch.

use super::*;

const COUNT_MAX: u8 = 52;

fn hash(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x7FB5_D329_728E_A185);
    (n ^ n >> 27).wrapping_mul(0x81DA_DEF4_BC2D_D44D) ^ n >> 33
}

#[test]
fn more_frequent_key_has_a_higher_count() {
    let sketch = Sketch::<Narrow>::new(64 << 10);
    sketch.set_period(1 << 30);
    for round in 0..12 {
        for key in 0..1000 {
            if round < key % 12 {
                sketch.add(hash(key));
            }
        }
    }
    for key in 0..1000 {
        let (estimate, added) = (u64::from(sketch.count(hash(key))), key % 12);
        assert!(estimate >= added.min(8), "{key}: {estimate} of {added}");
    }
    let right = |key: u64| u64::from(sketch.count(hash(key))) == key % 12;
    assert!((0..1000).filter(|&key| key % 12 <= 8 && right(key)).count() > 700);
}

#[test]
fn large_counts_are_accurate_to_a_half_on_average() {
    let sketch = Sketch::<Narrow>::new(64 << 10);
    sketch.set_period(1 << 30);
    for (times, range) in [(12u32, 0..500u64), (20, 500..1000), (36, 1000..1500)] {
        for _ in 0..times {
            range.clone().for_each(|key| {
                sketch.add(hash(key));
            });
        }
        let keys = range.end - range.start;
        let mean = range.map(|key| u64::from(sketch.count(hash(key)))).sum::<u64>() / keys;
        let (least, most) = (u64::from(times) * 3 / 4, u64::from(times) * 3 / 2);
        assert!((least..=most).contains(&mean), "{mean} of {times}");
    }
}

#[test]
fn last_addition_can_be_subtracted_on_average() {
    let sketch = Sketch::<Narrow>::new(64 << 10);
    sketch.set_period(1 << 30);
    assert_eq!(sketch.count_before(hash(1)), 0);
    let mut before = [0; 1000];
    for times in 1..=40 {
        let (mut is, mut was) = (0, 0);
        for key in 0..1000 {
            sketch.add(hash(key));
            is += u64::from(sketch.count_before(hash(key)));
            was += std::mem::replace(&mut before[key as usize], sketch.count(hash(key))) as u64;
        }
        assert!(is.abs_diff(was) <= was / 32 + 50, "{is} and {was} after {times}");
    }
}

#[test]
fn counts_are_halved_once_in_a_period() {
    let sketch = Sketch::<Narrow>::new(4 << 10);
    sketch.set_period(6_400);
    sketch.raise(hash(1), COUNT_MAX);
    sketch.add(hash(1));
    assert_eq!(sketch.count(hash(1)), u16::from(COUNT_MAX));
    sketch.raise(hash(2), 7);
    let age = || {
        (0..6_400).for_each(|n| {
            sketch.add(hash(1_000_000 + n % 5));
        });
    };
    for left in [28, 12, 6, 3, 1, 0] {
        age();
        assert_eq!(sketch.count(hash(1)), left);
    }
    assert_eq!(sketch.count(hash(2)), 0);
}

#[test]
fn a_count_is_raised_and_never_lowered() {
    let sketch = Sketch::<Narrow>::new(4 << 10);
    sketch.raise(hash(1), 5);
    sketch.raise(hash(1), 3);
    assert_eq!(sketch.count(hash(1)), 5);
    sketch.add(hash(1));
    assert_eq!(sketch.count(hash(1)), 6);
    sketch.raise(hash(1), 35);
    assert_eq!(sketch.count(hash(1)), 28);
}

#[test]
fn sketch_stays_within_its_bytes() {
    for bytes in [0, 63, 64, 1000, 4096, 5000] {
        let sketch = Sketch::<Narrow>::new(bytes);
        assert!(sketch.charged_bytes() <= bytes, "{bytes}");
        assert!(bytes < 64 || sketch.charged_bytes() * 2 > bytes, "{bytes}");
    }
    let none = Sketch::<Narrow>::new(63);
    none.add(5);
    assert_eq!((none.count(5), none.rate(5)), (0, 0.0));
}

#[test]
fn wide_counters_are_accurate_to_an_eighth() {
    for times in [1u16, 16, 40, 300, 5000] {
        let sketch = Sketch::<Wide>::new(64 << 10);
        sketch.set_period(1 << 40);
        // One by one, and all at once.
        (0..200).for_each(|key| (0..times).for_each(|_| sketch.add(hash(key))));
        (200..400).for_each(|key| sketch.add_times(hash(key), times));
        for keys in [0..200, 200..400] {
            let counts: Vec<f64> = keys.map(|key| f64::from(sketch.count(hash(key)))).collect();
            let mean = counts.iter().sum::<f64>() / 200.0;
            let off = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 200.0;
            let times = f64::from(times);
            assert!((mean / times - 1.0).abs() < 0.05, "{mean} of {times}");
            assert!(off.sqrt() <= 0.16 * times, "{} of {times}", off.sqrt());
        }
    }
    let sketch = Sketch::<Wide>::new(64);
    sketch.set_period(1 << 40);
    (0..100).for_each(|_| sketch.add_times(1, u16::MAX));
    assert!(sketch.count(1) > 20_000, "{}", sketch.count(1));
}

/// By counts some would seem to be accessed twice as often as others.
#[test]
fn rates_of_all_lines_cover_the_same_time() {
    let sketch = Sketch::<Wide>::new(4 << 10);
    // 64 lines; each key is added eighty times per period.
    sketch.set_period(200 * 80);
    for periods in 1..=7 {
        for round in 0..80 {
            (0..200).for_each(|n| sketch.add(hash((n + round * 37) % 200)));
        }
        let rates: Vec<f32> = (0..200).map(|n| sketch.rate(hash(n))).collect();
        let is_off = |rate: &&f32| !(60.0..=104.0).contains(*rate);
        let off = rates.iter().filter(is_off).count();
        assert!(off <= 10, "{off} of 200 after {periods} periods: {rates:?}");
    }
    let counts: Vec<u16> = (0..200).map(|n| sketch.count(hash(n))).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most * 2 > least * 3, "{least} to {most}");
}

#[test]
fn many_additions_at_once_age_as_many_lines_as_one_by_one() {
    let [one, other] = [(); 2].map(|()| Sketch::<Wide>::new(4 << 10));
    for sketch in [&one, &other] {
        sketch.set_period(6400);
        sketch.raise(hash(1), 200);
    }
    (0..8).for_each(|_| one.add_times(hash(2), 1600));
    (0..12_800).for_each(|_| other.add(hash(2)));
    assert_eq!(one.count(hash(1)), other.count(hash(1)));
    assert!((40..=50).contains(&one.count(hash(1))), "{}", one.count(hash(1)));
}
