//! The chosen entries and their frequencies.

use super::*;

fn picks(choice: &Choice, entries: u64, count: usize) -> Vec<u64> {
    let mut picker = Picker::new(choice, entries, 7, 0, 1);
    let mut dice = Dice::new(7);
    (0..count).map(|_| picker.next(&mut dice)).collect()
}

#[test]
fn keys_are_ordered_as_their_numbers_and_absent_ones_lie_between() {
    for index in [0, 1, 255, 256, 1 << 40] {
        let keys = [present(index), absent(index), present(index + 1)].map(key_of);
        assert!(keys[0] < keys[1] && keys[1] < keys[2]);
        assert_eq!(number_of(&keys[1]), Some(absent(index)));
    }
    assert_eq!(number_of(b"short"), None);
}

#[test]
fn threads_together_take_every_entry_once() {
    for choice in [Choice::Sequential, Choice::Shuffled] {
        for entries in [1, 2, 3, 100, 1000, 1023, 1025] {
            let mut seen = vec![0; entries as usize];
            for thread in 0..3 {
                let mut picker = Picker::new(&choice, entries, 9, thread, 3);
                let share = (entries + 2 - thread) / 3;
                (0..share).for_each(|_| seen[picker.next(&mut Dice::new(0)) as usize] += 1);
            }
            assert!(seen.iter().all(|&n| n == 1), "{choice:?} {entries}");
        }
    }
}

#[test]
fn a_shuffle_is_not_an_order() {
    let shuffled = picks(&Choice::Shuffled, 10_000, 10_000);
    let ascents = shuffled.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((4_500..5_500).contains(&ascents), "{ascents}");
    let near = shuffled.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 10).count();
    assert!(near < 100, "{near}");
}

#[test]
fn popular_entries_are_not_the_first_written() {
    let (entries, seed) = (10_000, 7);
    let popular = Choice::Zipf { alpha: 0.99, is_scattered: true };
    let likelihoods = Picker::new(&popular, entries, seed, 0, 1).likelihoods();
    let written = picks(&Choice::Shuffled, entries, entries as usize);
    let first: f64 = written[..entries as usize / 2].iter().map(|&i| likelihoods[i as usize]).sum();
    assert!((0.3..0.7).contains(&first), "{first}");
}

#[test]
fn zipf_s_law_holds() {
    for alpha in [0.5, 0.99, 1.0, 1.5] {
        let ranks = 100;
        let choice = Choice::Zipf { alpha, is_scattered: false };
        let mut counts = vec![0u32; ranks as usize];
        let total = 200_000;
        picks(&choice, ranks, total).iter().for_each(|&rank| counts[rank as usize] += 1);
        let norm: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-alpha)).sum();
        for rank in [1u64, 2, 3, 10, 100] {
            let expected = total as f64 * (rank as f64).powf(-alpha) / norm;
            let found = f64::from(counts[rank as usize - 1]);
            // Five standard deviations.
            let slack = 5.0 * expected.sqrt();
            assert!((found - expected).abs() < slack, "{alpha} {rank}: {found} {expected}");
        }
    }
}

#[test]
fn hot_entries_take_their_share_side_by_side_or_scattered() {
    for run in [1, 100] {
        let choice = Choice::Hot { entries: 0.01, operations: 0.9, run };
        let mut counts = vec![0u32; 100_000];
        picks(&choice, 100_000, 500_000).iter().for_each(|&i| counts[i as usize] += 1);
        let hot: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 100).collect();
        assert!((990..=1000).contains(&hot.len()), "{}", hot.len());
        let taken: u32 = hot.iter().map(|&i| counts[i]).sum();
        assert!((445_000..=456_000).contains(&taken), "{taken}");
        let neighbours = hot.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert_eq!(neighbours > 900, run == 100, "{neighbours}");
    }
}

#[test]
fn popular_entries_can_be_scattered() {
    let choice = Choice::Zipf { alpha: 1.2, is_scattered: true };
    let picked = picks(&choice, 10_000, 1000);
    let low = picked.iter().filter(|&&index| index < 100).count();
    assert!(low < 500, "{low}");
}

#[test]
fn entries_are_chosen_with_their_probability() {
    let (entries, count) = (1000, 200_000);
    for choice in [
        Choice::Uniform,
        Choice::Zipf { alpha: 0.99, is_scattered: true },
        Choice::Zipf { alpha: 0.8, is_scattered: false },
        Choice::Hot { entries: 0.01, operations: 0.9, run: 1 },
        // An incomplete run is never chosen.
        Choice::Hot { entries: 0.1, operations: 0.9, run: 3 },
    ] {
        let likelihoods = Picker::new(&choice, entries, 7, 0, 1).likelihoods();
        assert!((likelihoods.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{choice:?}");
        let mut found = vec![0.0; entries as usize];
        picks(&choice, entries, count).iter().for_each(|index| found[*index as usize] += 1.0);
        for (index, (found, likelihood)) in found.iter().zip(&likelihoods).enumerate() {
            let expected = likelihood * count as f64;
            let away = (found - expected).abs();
            assert!(
                away <= 6.0 * expected.sqrt() + 6.0,
                "{choice:?} {index}: {found} of {expected}"
            );
        }
    }
}
