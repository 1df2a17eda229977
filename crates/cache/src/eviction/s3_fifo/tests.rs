//! The queues compared with naive ones.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TestKey(u16);

impl Key for TestKey {
    fn hash(&self) -> u64 {
        u64::from(self.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

const OVERHEAD: usize = Lists::<TestKey, u32, 2>::OVERHEAD_BYTES;
const CHARGE: usize = 4096;
const CAPACITY: usize = 40 * CHARGE;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u16,
    value: u32,
    charge: usize,
    uses: u8,
}

/// The model with plain queues. The caller passes the ghost's memory.
#[derive(Default)]
struct Model {
    small: VecDeque<Entry>,
    main: VecDeque<Entry>,
    ghost: VecDeque<(u16, usize)>,
}

/// Allocated bytes.
fn taken(queues: &S3Fifo<TestKey, u32>) -> usize {
    let entries = queues.entries.charged(SMALL) + queues.entries.charged(MAIN);
    entries + queues.ghost.charged_bytes()
}

fn bytes(queue: &VecDeque<Entry>) -> usize {
    queue.iter().map(|entry| entry.charge).sum()
}

impl Model {
    fn get(&mut self, key: u16) -> Option<u32> {
        let entry = self.small.iter_mut().chain(&mut self.main).find(|entry| entry.key == key)?;
        entry.uses = (entry.uses + 1).min(3);
        Some(entry.value)
    }

    fn insert(&mut self, key: u16, value: u32, charge: usize, room: usize) -> Vec<u32> {
        self.small.retain(|entry| entry.key != key);
        self.main.retain(|entry| entry.key != key);
        let known = self.ghost.iter().position(|ghost| ghost.0 == key);
        known.map(|at| self.ghost.remove(at));
        let mut evicted = Vec::new();
        while bytes(&self.small) + bytes(&self.main) + charge > room {
            if bytes(&self.small) >= CAPACITY / 10 || self.main.is_empty() {
                let mut entry = self.small.pop_front().unwrap();
                match std::mem::take(&mut entry.uses) {
                    0 | 1 => {
                        evicted.push(entry.value);
                        self.note(entry.key, entry.charge);
                    }
                    _ => self.main.push_back(entry),
                }
            } else {
                let mut entry = self.main.pop_front().unwrap();
                match entry.uses {
                    0 => evicted.push(entry.value),
                    _ => {
                        entry.uses -= 1;
                        self.main.push_back(entry);
                    }
                }
            }
        }
        let queue = if known.is_some() { &mut self.main } else { &mut self.small };
        queue.push_back(Entry { key, value, charge, uses: 0 });
        evicted
    }

    fn note(&mut self, key: u16, charge: usize) {
        self.ghost.retain(|ghost| ghost.0 != key);
        self.ghost.push_back((key, charge));
        while self.ghost.iter().map(|ghost| ghost.1).sum::<usize>() > CAPACITY * 9 / 10 {
            self.ghost.pop_front();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_like_the_model(
        steps in prop::collection::vec((0..160_u16, 0..4_u8, any::<u32>()), 1..600),
    ) {
        let (mut queues, mut model) = (S3Fifo::new(CAPACITY), Model::default());
        // The ghost has its memory from the beginning, so the rest is constant.
        (1000..1200).for_each(|n| queues.ghost.note(Record::new(n, 1, 0), usize::MAX));
        (1000..1200).for_each(|n| _ = queues.ghost.take(n));
        for (key, kind, value) in steps {
            let name = TestKey(key);
            if kind > 0 {
                prop_assert_eq!(queues.get(name.hash(), &name).copied(), model.get(key));
                continue;
            }
            let before = queues.ghost.charged_bytes();
            let inserted = queues.insert(name.hash(), name, value, CHARGE);
            prop_assume!(queues.ghost.charged_bytes() == before);
            let charge = CHARGE + OVERHEAD;
            let evicted = model.insert(key, value, charge, CAPACITY - before);
            prop_assert_eq!(inserted.evicted.iter().copied().collect::<Vec<_>>(), evicted);
            prop_assert_eq!(queues.entries.charged(SMALL), bytes(&model.small));
            prop_assert_eq!(queues.entries.charged(MAIN), bytes(&model.main));
            prop_assert!(taken(&queues) <= queues.capacity());
        }
    }

    #[test]
    fn the_bytes_stay_within_any_capacity(
        steps in prop::collection::vec((0..60_u16, 0..9000_usize, 0..8_u8), 1..300),
    ) {
        let mut queues = S3Fifo::new(30_000);
        for (key, bytes, kind) in steps {
            let key = TestKey(key);
            match kind {
                0 => drop(queues.set_capacity(bytes * 5)),
                1 => drop(queues.entries.take_where(0, usize::MAX, |k: &TestKey, _| k.0 % 3 == key.0 % 3)),
                2..4 => drop(queues.get(key.hash(), &key).copied()),
                _ => drop(queues.insert(key.hash(), key, 7, bytes)),
            }
            prop_assert!(taken(&queues) <= queues.capacity());
        }
        drop(queues.set_capacity(0));
        prop_assert_eq!((queues.entries.len(), queues.charged()), (0, 0));
    }
}

fn insert(queues: &mut S3Fifo<TestKey, u32>, key: u16) {
    drop(queues.insert(TestKey(key).hash(), TestKey(key), u32::from(key), CHARGE));
}

fn get(queues: &mut S3Fifo<TestKey, u32>, key: u16) -> bool {
    queues.get(TestKey(key).hash(), &TestKey(key)).is_some()
}

#[test]
fn entry_accessed_twice_survives_a_flood() {
    let mut queues = S3Fifo::new(CAPACITY);
    for key in 0..20 {
        insert(&mut queues, key);
        (0..2).for_each(|_| assert!(get(&mut queues, key)));
    }
    (100..1100).for_each(|key| insert(&mut queues, key));
    assert!((0..20).all(|key| get(&mut queues, key)));
    // One access is not enough.
    insert(&mut queues, 30);
    assert!(get(&mut queues, 30));
    (2000..2100).for_each(|key| insert(&mut queues, key));
    assert!(!get(&mut queues, 30));
}

#[test]
fn ghost_hit_inserts_into_the_main_queue() {
    let mut queues = S3Fifo::new(CAPACITY);
    (0..60).for_each(|key| insert(&mut queues, key));
    assert!(!get(&mut queues, 5));
    let main = queues.entries.len_of(MAIN);
    insert(&mut queues, 5);
    assert_eq!(queues.entries.len_of(MAIN), main + 1);
    (100..1100).for_each(|key| insert(&mut queues, key));
    assert!(get(&mut queues, 5));
    // A ghost hit counts once.
    insert(&mut queues, 6);
    assert_eq!(queues.entries.len_of(MAIN), main + 1);
}

#[test]
fn small_queue_stays_below_its_tenth() {
    let mut queues = S3Fifo::new(CAPACITY);
    // Repeated keys go to the main queue, until the small one is within its bound.
    let mut key = 0;
    (0..60).for_each(|key| insert(&mut queues, key));
    while queues.entries.charged(SMALL) >= CAPACITY / SMALL_DIVISOR {
        insert(&mut queues, key);
        key = (key + 1) % 60;
    }
    let (small, main) = (queues.entries.len_of(SMALL), queues.entries.len_of(MAIN));
    assert!(small > 0 && main > 30);
    let known = (0..60).find(|&key| queues.ghost.take(TestKey(key).hash() as u32).is_some());
    let hash = TestKey(known.unwrap()).hash();
    queues.ghost.note(Record::new(hash as u32, CHARGE, 0), CAPACITY);
    insert(&mut queues, known.unwrap());
    assert_eq!((queues.entries.len_of(SMALL), queues.entries.len_of(MAIN)), (small, main));
}
