//! Victims compared with a model that scans all entries, and the charged bytes.

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number(u64);

impl Key for Number {
    fn hash(&self) -> u64 {
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

type Cache = GreedyDual<Number, u64>;

fn put(cache: &mut Cache, n: u64, charge: usize, benefit: u32) -> Vec<u64> {
    let inserted = cache.insert_for(Number(n).hash(), Number(n), n, charge, benefit);
    assert_eq!(inserted.refused, None);
    inserted.evicted.iter().copied().collect()
}

fn ask(cache: &mut Cache, n: u64) -> bool {
    cache.get(Number(n).hash(), &Number(n)).is_some()
}

#[test]
fn larger_entry_is_evicted_first_and_older_among_equals() {
    let mut cache = Cache::new(10_000);
    assert!(put(&mut cache, 1, 1_000, 1).is_empty());
    assert!(put(&mut cache, 2, 5_000, 1).is_empty());
    assert!(put(&mut cache, 3, 1_000, 1).is_empty());
    assert_eq!(put(&mut cache, 4, 5_000, 1), [2]);
    assert_eq!(put(&mut cache, 5, 5_000, 1), [4]);
    // The eviction has aged the rest: a new entry of equal worth stays.
    assert_eq!(put(&mut cache, 6, 2_900, 1), [5]);
    assert_eq!(put(&mut cache, 7, 4_900, 1), [1]);
}

#[test]
fn frequent_or_valuable_entry_stays_regardless_of_size() {
    for (uses, benefit) in [(20, 1), (0, 20)] {
        let mut cache = Cache::new(10_000);
        assert!(put(&mut cache, 1, 5_000, benefit).is_empty());
        (0..uses).for_each(|_| assert!(ask(&mut cache, 1)));
        for n in 2..8 {
            assert!(!put(&mut cache, n, 1_000, 1).contains(&1));
        }
        assert!(ask(&mut cache, 1));
        // It ages like every other entry.
        let leaves = |n: &u64| put(&mut cache, *n, 1_000, 1).contains(&1);
        assert!((8..500).find(leaves).is_some(), "{uses} {benefit}");
    }
}

#[test]
fn weights_are_rounded_down_by_less_than_a_half_power_of_two() {
    let mut before = 0;
    for charge in (1..2_000_000_usize).rev().step_by(997) {
        let exact = (7_u64 << SCALE_SHIFT) / charge as u64;
        let weight = weight_of(class_of(7, 1, charge));
        assert!(weight <= exact && exact as f64 <= weight as f64 * 1.44, "{weight} {exact}");
        assert!(weight >= before);
        before = weight;
    }
    assert_eq!(class_of(USES_MAX, BENEFIT_MAX, 1), CLASSES - 1);
    assert_eq!(class_of(1, 0, usize::MAX), 0);
}

/// Entries with their priorities by definition.
#[derive(Default)]
struct Model {
    entries: Vec<(u64, usize, u32, u8, u64, u64)>,
    age: u64,
    time: u64,
}

impl Model {
    fn ask(&mut self, n: u64) {
        self.time += 1;
        let (age, time) = (self.age, self.time);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.0 == n) {
            entry.3 = entry.3.saturating_add(1);
            entry.4 = age + weight_of(class_of(entry.3, entry.2, entry.1));
            entry.5 = time;
        }
    }

    fn put(&mut self, n: u64, charge: usize, benefit: u32, capacity: usize) -> Vec<u64> {
        self.time += 1;
        self.entries.retain(|entry| entry.0 != n);
        let charge = charge + Cache::OVERHEAD_BYTES;
        let mut left = Vec::new();
        while self.charged() + charge > capacity {
            // Of equal priorities the one of the lower class, and of one class the older.
            let least = self
                .entries
                .iter()
                .min_by_key(|entry| (entry.4, class_of(entry.3, entry.2, entry.1), entry.5));
            let least = *least.expect("there is one");
            self.age = least.4;
            self.entries.retain(|entry| entry.0 != least.0);
            left.push(least.0);
        }
        let priority = self.age + weight_of(class_of(1, benefit, charge));
        self.entries.push((n, charge, benefit, 1, priority, self.time));
        left
    }

    fn charged(&self) -> usize {
        self.entries.iter().map(|entry| entry.1).sum()
    }
}

#[test]
fn lowest_priority_is_evicted() {
    let capacity = 60_000;
    let (mut cache, mut model) = (Cache::new(capacity), Model::default());
    let mut state = 5_u64;
    let mut left = 0;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let (n, dice) = ((state >> 33) % 300, state >> 56);
        if dice < 120 && ask(&mut cache, n) {
            model.ask(n);
        } else if dice < 130 {
            assert_eq!(cache.remove(Number(n).hash(), &Number(n)).is_some(), {
                let there = model.entries.len();
                model.entries.retain(|entry| entry.0 != n);
                there > model.entries.len()
            });
        } else {
            let (charge, benefit) = (50 + (state >> 20) as usize % 4_000, 1 + (dice % 3) as u32);
            let expected = model.put(n, charge, benefit, capacity);
            left += expected.len();
            assert_eq!(put(&mut cache, n, charge, benefit), expected);
        }
        assert_eq!((cache.charged(), cache.len()), (model.charged(), model.entries.len()));
        assert!(cache.charged() <= cache.capacity());
    }
    assert!(left > 5_000, "{left}");
}

#[test]
fn shrinking_and_removals_keep_the_eviction_order() {
    let mut cache = Cache::new(1 << 20);
    (0..2_000).for_each(|n| assert!(put(&mut cache, n, 100 + n as usize % 7 * 50, 1).is_empty()));
    (0..2_000).step_by(3).for_each(|n| assert!(ask(&mut cache, n)));
    let taken = cache.take_where(0, usize::MAX, |_, n| n % 5 == 0);
    assert_eq!(taken.iter().count(), 400);
    let half = cache.charged() / 2;
    let left: Vec<u64> = cache.set_capacity(half).iter().copied().collect();
    assert!(cache.charged() <= half && left.len() + cache.len() == 1_600);
    // The accessed ones are evicted last, and of the others large ones first.
    assert!(left.iter().all(|n| n % 3 != 0 || n % 7 > 0));
    assert!(cache.scan(0, usize::MAX).any(|(_, n)| n % 3 != 0));
    let rest: Vec<u64> = cache.set_capacity(0).iter().copied().collect();
    assert_eq!((rest.len(), cache.charged(), cache.len()), (1_600 - left.len(), 0, 0));
}
