//! The ghost list compared with a plain list, and its memory.

use proptest::prelude::*;

use super::*;

const ROOMY: usize = 1 << 20;

fn ghost(bytes_max: usize) -> GhostList {
    let mut ghost = GhostList::default();
    ghost.set_bytes_max(bytes_max);
    ghost
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Note(u32, usize, u8),
    Take(u32),
    Fit(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let fingerprint = 1..200_u32;
    prop_oneof![
        8 => (fingerprint.clone(), 1..300_usize, 1..40_u8).prop_map(|(f, s, b)| Step::Note(f, s, b)),
        3 => fingerprint.prop_map(Step::Take),
        1 => (0..6000_usize).prop_map(Step::Fit),
    ]
}

/// The model: a vector, the oldest first.
#[derive(Default)]
struct Model(Vec<Record>);

impl Model {
    fn bytes(&self) -> usize {
        self.0.iter().map(|record| record.size()).sum()
    }

    fn take(&mut self, fingerprint: u32) -> Option<Record> {
        let at = self.0.iter().position(|record| record.fingerprint == fingerprint)?;
        Some(self.0.remove(at))
    }

    fn fit(&mut self, bytes: usize) {
        while self.bytes() > bytes {
            let mut spread = Efficiencies::default();
            self.0.iter().for_each(|record| spread.add(record.efficiency()));
            let all = self.0.iter().map(|record| record.efficiency()).enumerate();
            let victim = spread.victim(all).unwrap();
            self.0.swap(0, victim);
            self.0.remove(0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 300 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_like_the_model(steps in prop::collection::vec(step(), 1..400)) {
        let (mut ghost, mut model) = (ghost(ROOMY), Model::default());
        for step in steps {
            match step {
                Step::Note(fingerprint, size, halves) => {
                    let record = Record::new(fingerprint, size, halves);
                    ghost.note(record, 5000);
                    model.take(fingerprint);
                    model.fit(5000 - size);
                    model.0.push(record);
                }
                Step::Take(fingerprint) => {
                    prop_assert_eq!(ghost.take(fingerprint), model.take(fingerprint));
                }
                Step::Fit(bytes) => {
                    ghost.fit(bytes);
                    model.fit(bytes);
                }
            }
            prop_assert_eq!(ghost.len(), model.0.len());
            prop_assert_eq!(ghost.noted_bytes(), model.bytes());
        }
        for record in model.0 {
            prop_assert_eq!(ghost.take(record.fingerprint), Some(record));
        }
        prop_assert_eq!((ghost.len(), ghost.noted_bytes()), (0, 0));
    }

    #[test]
    fn memory_stays_within_its_bound(
        steps in prop::collection::vec((1..5000_u32, 0..8000_usize), 1..300),
    ) {
        let mut ghost = ghost(4000);
        for (number, bytes_max) in steps {
            match number % 50 {
                0 => ghost.set_bytes_max(bytes_max),
                1 => drop(ghost.take(number / 2)),
                _ => (0..20).for_each(|n| {
                    ghost.note(Record::new(number * 20 + n, 10 + n as usize, 8), usize::MAX);
                }),
            }
            prop_assert!(ghost.charged_bytes() <= ghost.bytes_max);
        }
    }
}

#[test]
fn latest_records_are_kept_and_each_is_returned_once() {
    let mut ghost = ghost(ROOMY);
    (1..=10_000).for_each(|n| ghost.note(Record::new(n, 100, 12), 100_000));
    assert_eq!(ghost.len(), 1000);
    assert_eq!(ghost.take(9_000), None);
    let record = ghost.take(9_001).unwrap();
    assert!((record.efficiency() - 6.0 / 100.0).abs() < 1e-9);
    assert_eq!(ghost.take(9_001), None);
    assert_eq!(ghost.len(), 999);
}

#[test]
fn a_record_takes_about_fifteen_bytes() {
    let mut ghost = ghost(ROOMY);
    (1..=30_000).for_each(|n| ghost.note(Record::new(n, 100, 12), 2_000_000));
    let each = ghost.charged_bytes() as f64 / ghost.len() as f64;
    assert!((14.0..17.0).contains(&each), "{each}");
}

#[test]
fn least_efficient_record_is_dropped_first() {
    let mut ghost = ghost(ROOMY);
    // Large ones are worth almost nothing.
    for n in 1..=40 {
        ghost.note(Record::new(n, if n % 2 == 0 { 1000 } else { 10 }, 12), usize::MAX);
    }
    ghost.fit(ghost.noted_bytes() - 5_000);
    assert_eq!(ghost.take(1).map(|record| record.size()), Some(10));
    assert_eq!(ghost.take(2), None);
}

#[test]
fn no_records_without_memory() {
    let mut ghost = ghost(100);
    ghost.note(Record::new(5, 10, 2), usize::MAX);
    assert_eq!((ghost.take(5), ghost.charged_bytes()), (None, 0));
}
