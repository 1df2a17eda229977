//! The list compared with a naive model, and its bounds.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TestKey(u8);

impl Key for TestKey {
    /// Deliberately poor: keys collide.
    fn hash(&self) -> u64 {
        u64::from(self.0 % 7) << 57 | u64::from(self.0 % 3)
    }
}

const OVERHEAD: usize = Lru::<TestKey, u32>::ENTRY_OVERHEAD_BYTES;

/// The model: a vector from the least to the most recently used.
#[derive(Default)]
struct Model {
    entries: Vec<(TestKey, u32, usize)>,
    capacity: usize,
}

impl Model {
    fn charged(&self) -> usize {
        self.entries.iter().map(|(_, _, charge)| charge + OVERHEAD).sum()
    }

    fn take(&mut self, key: TestKey) -> Option<(TestKey, u32, usize)> {
        let place = self.entries.iter().position(|entry| entry.0 == key)?;
        Some(self.entries.remove(place))
    }

    fn get(&mut self, key: TestKey) -> Option<u32> {
        let entry = self.take(key)?;
        self.entries.push(entry);
        Some(entry.1)
    }

    fn shrink(&mut self) -> Vec<u32> {
        let mut evicted = Vec::new();
        while self.charged() > self.capacity {
            evicted.push(self.entries.remove(0).1);
        }
        evicted
    }

    fn insert(&mut self, key: TestKey, value: u32, charge: usize) -> Vec<u32> {
        self.take(key);
        if charge + OVERHEAD > self.capacity {
            return Vec::new();
        }
        self.entries.push((key, value, charge));
        self.shrink()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Get(u8),
    Insert(u8, u32, usize),
    Remove(u8),
    SetCapacity(usize),
    RemoveWhere(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..24_u8;
    prop_oneof![
        6 => key.clone().prop_map(Step::Get),
        8 => (key.clone(), any::<u32>(), 0..400_usize).prop_map(|(k, v, c)| Step::Insert(k, v, c)),
        2 => key.prop_map(Step::Remove),
        1 => (0..2000_usize).prop_map(Step::SetCapacity),
        1 => (2..5_u8).prop_map(Step::RemoveWhere),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_like_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let mut list = Lru::new(1500);
        let mut model = Model { capacity: 1500, ..Model::default() };
        for step in steps {
            match step {
                Step::Get(key) => {
                    let key = TestKey(key);
                    prop_assert_eq!(list.get(key.hash(), &key).copied(), model.get(key));
                }
                Step::Insert(key, value, charge) => {
                    let key = TestKey(key);
                    let inserted = list.insert(key.hash(), key, value, charge);
                    let evicted: Vec<u32> = inserted.evicted.iter().copied().collect();
                    prop_assert_eq!(evicted, model.insert(key, value, charge));
                }
                Step::Remove(key) => {
                    let key = TestKey(key);
                    let removed = list.remove(key.hash(), &key);
                    prop_assert_eq!(removed, model.take(key).map(|entry| entry.1));
                }
                Step::SetCapacity(capacity) => {
                    model.capacity = capacity;
                    let evicted: Vec<u32> = list.set_capacity(capacity).iter().copied().collect();
                    prop_assert_eq!(evicted, model.shrink());
                }
                Step::RemoveWhere(divisor) => {
                    let dead = |key: &TestKey, _: &u32| key.0.is_multiple_of(divisor);
                    let half = list.entries.nodes() / 2;
                    drop(list.entries.take_where(0, half, dead));
                    drop(list.entries.take_where(half, usize::MAX, dead));
                    model.entries.retain(|entry| !dead(&entry.0, &entry.1));
                }
            }
            prop_assert_eq!(list.entries.len(), model.entries.len());
            prop_assert_eq!(list.charged(), model.charged());
            prop_assert!(list.charged() <= list.capacity());
            for (key, _, _) in &model.entries {
                prop_assert!(list.entries.contains(key.hash(), key));
            }
        }
        let order: Vec<u32> = list.set_capacity(0).iter().copied().collect();
        prop_assert_eq!(order, model.entries.iter().map(|entry| entry.1).collect::<Vec<_>>());
    }
}

#[test]
fn oversized_entry_is_rejected_and_removes_the_old_one() {
    let mut list = Lru::new(1000);
    let key = TestKey(1);
    drop(list.insert(key.hash(), key, 7, 10));
    let inserted = list.insert(key.hash(), key, 8, 1000);
    assert_eq!((inserted.refused, inserted.replaced), (Some(8), Some(7)));
    assert_eq!(list.entries.len(), 0);
    let huge = list.insert(key.hash(), key, 9, usize::MAX);
    assert_eq!(huge.refused, Some(9), "a charge that overflows is larger than all");
}

/// A list filled with `len` entries, `0` the oldest.
fn full(len: u8) -> Lru<TestKey, u32> {
    let mut list = Lru::new(OVERHEAD * usize::from(len));
    for n in 0..len {
        let key = TestKey(n);
        drop(list.insert(key.hash(), key, u32::from(n), 0));
    }
    list
}

#[test]
fn the_oldest_can_be_made_the_newest() {
    let mut list = full(3);
    list.renew_oldest();
    let order: Vec<u32> = list.set_capacity(0).iter().copied().collect();
    assert_eq!(order, [1, 2, 0]);
    list.renew_oldest();
    assert_eq!(list.oldest(), None);
}

#[test]
fn lazy_access_moves_only_entries_that_are_not_among_the_newest() {
    let len = 160_u8;
    let two_generations = 2 * (len / 16 + 1);
    let mut list = full(len);
    let moved = [len - two_generations - 1, 5, 0];
    for n in [len - 2, len - two_generations / 2, moved[0], moved[1], moved[2]] {
        let key = TestKey(n);
        assert_eq!(list.get_lazily(key.hash(), &key), Some(&mut u32::from(n)));
    }
    let order: Vec<u32> = list.set_capacity(0).iter().copied().collect();
    let stayed = (0..len).filter(|n| !moved.contains(n));
    assert_eq!(order, stayed.chain(moved).map(u32::from).collect::<Vec<_>>());
}

#[test]
fn frequent_lazy_access_keeps_an_entry() {
    let mut list = full(32);
    for n in 32..250 {
        let (asked, new) = (TestKey(0), TestKey(n));
        assert!(list.get_lazily(asked.hash(), &asked).is_some(), "before {n}");
        drop(list.insert(new.hash(), new, 0, 0));
    }
}

#[test]
fn freed_nodes_are_used_again() {
    let mut list = Lru::new(OVERHEAD * 3);
    for n in 0..200 {
        let key = TestKey(n);
        drop(list.insert(key.hash(), key, u32::from(n), 0));
    }
    assert_eq!((list.entries.len(), list.entries.nodes()), (3, 3));
}

#[test]
fn slab_overhead_is_small() {
    let mut list = Lru::new(usize::MAX);
    for n in 0..=255 {
        let key = TestKey(n);
        drop(list.insert(key.hash(), key, 0, 0));
    }
    let spent = list.entries.allocated_bytes();
    assert!(spent <= list.charged() * 5 / 4, "spent {spent}, charged {}", list.charged());
}
