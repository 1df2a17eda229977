//! CLOCK compared with a naive model.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TestKey(u8);

impl Key for TestKey {
    fn hash(&self) -> u64 {
        u64::from(self.0 % 7) << 57 | u64::from(self.0 % 3)
    }
}

const OVERHEAD: usize = Lists::<TestKey, u32, 1>::OVERHEAD_BYTES;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    key: TestKey,
    value: u32,
    charge: usize,
    is_marked: bool,
}

/// In order from the hand on.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    capacity: usize,
}

impl Model {
    fn charged(&self) -> usize {
        self.entries.iter().map(|entry| entry.charge + OVERHEAD).sum()
    }

    fn shrink_to(&mut self, bytes: usize) -> Vec<u32> {
        let mut evicted = Vec::new();
        while self.charged() > bytes {
            let mut entry = self.entries.remove(0);
            match std::mem::take(&mut entry.is_marked) {
                true => self.entries.push(entry),
                false => evicted.push(entry.value),
            }
        }
        evicted
    }

    fn insert(&mut self, key: TestKey, value: u32, charge: usize) -> Vec<u32> {
        self.entries.retain(|entry| entry.key != key);
        if charge + OVERHEAD > self.capacity {
            return Vec::new();
        }
        let evicted = self.shrink_to(self.capacity - charge - OVERHEAD);
        self.entries.push(Entry { key, value, charge, is_marked: false });
        evicted
    }

    fn get(&mut self, key: TestKey) -> Option<u32> {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key)?;
        entry.is_marked = true;
        Some(entry.value)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Get(u8),
    Insert(u8, u32, usize),
    SetCapacity(usize),
    RemoveWhere(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..24_u8;
    prop_oneof![
        6 => key.clone().prop_map(Step::Get),
        8 => (key, any::<u32>(), 0..400_usize).prop_map(|(k, v, c)| Step::Insert(k, v, c)),
        1 => (0..2000_usize).prop_map(Step::SetCapacity),
        1 => (2..5_u8).prop_map(Step::RemoveWhere),
    ]
}

fn all(removed: &Evicted<u32>) -> Vec<u32> {
    removed.iter().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_like_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let mut clock = Clock::new(1500);
        let mut model = Model { capacity: 1500, ..Model::default() };
        for step in steps {
            match step {
                Step::Get(key) => {
                    let key = TestKey(key);
                    prop_assert_eq!(clock.get(key.hash(), &key).copied(), model.get(key));
                }
                Step::Insert(key, value, charge) => {
                    let key = TestKey(key);
                    let inserted = clock.insert(key.hash(), key, value, charge);
                    prop_assert_eq!(all(&inserted.evicted), model.insert(key, value, charge));
                }
                Step::SetCapacity(capacity) => {
                    model.capacity = capacity;
                    let evicted = model.shrink_to(capacity);
                    prop_assert_eq!(all(&clock.set_capacity(capacity)), evicted);
                }
                Step::RemoveWhere(divisor) => {
                    let dead = |key: &TestKey, _: &u32| key.0.is_multiple_of(divisor);
                    drop(clock.entries.take_where(0, usize::MAX, dead));
                    model.entries.retain(|entry| !dead(&entry.key, &entry.value));
                }
            }
            prop_assert_eq!((clock.entries.len(), clock.charged()), (model.entries.len(), model.charged()));
            prop_assert!(clock.charged() <= clock.capacity());
        }
    }
}

#[test]
fn accessed_entry_gets_one_second_chance() {
    let mut clock = Clock::new(3 * OVERHEAD);
    let key = TestKey;
    for n in 0..3 {
        drop(clock.insert(key(n).hash(), key(n), u32::from(n), 0));
    }
    clock.get(key(0).hash(), &key(0));
    let evicted = clock.insert(key(3).hash(), key(3), 3, 0).evicted;
    assert_eq!(all(&evicted), [1]);
    let order = all(&clock.set_capacity(0));
    assert_eq!(order, [2, 0, 3]);
}
