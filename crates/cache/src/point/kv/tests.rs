//! Entries in rings of chunks: returned as inserted, the most valuable stay, and the bytes are
//! always bounded.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A name in keyspace 3.
fn name_of(key: &[u8]) -> Name<'_> {
    Name { keyspace: 3, key }
}

fn hash_of(key: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = key.iter().fold(0xCBF2_9CE4_8422_2325, fold);
    (hash ^ hash >> 29).wrapping_mul(0x7FB5_D329_728E_A185)
}

/// Worth equals the access count; records evictions.
#[derive(Default)]
struct ByUse {
    left: Vec<(u64, usize)>,
}

impl Scorer for ByUse {
    fn hash(&self, name: Name<'_>) -> u64 {
        hash_of(name.key)
    }

    fn worth(&mut self, _: u64, _: &KvEntry<'_>, uses: u8) -> f32 {
        f32::from(uses)
    }

    fn evicted(&mut self, hash: u64, charge: usize) {
        self.left.push((hash, charge));
    }
}

fn entry<'a>(key: &'a [u8], value: &'a [u8]) -> KvEntry<'a> {
    KvEntry { name: name_of(key), stamp: key.len() as u64 + 7, value, level: 3 }
}

fn found<'a>(shard: &'a mut KvShard, key: &'a [u8]) -> Option<KvEntry<'a>> {
    shard.get(hash_of(key), name_of(key)).map(|(entry, _)| entry)
}

#[test]
fn equally_long_value_is_overwritten_in_place() {
    let mut shard = KvShard::new(100 << 10, 100 << 10);
    let mut scorer = ByUse::default();
    shard.insert(hash_of(b"key"), entry(b"key", b"first"), &mut scorer);
    for times in 0..5 {
        let (_, is_hot) = shard.get(hash_of(b"key"), name_of(b"key")).unwrap();
        assert_eq!(is_hot, times >= 3);
    }
    let free = shard.free;
    let other = KvEntry { stamp: 99, level: 0, ..entry(b"key", b"other") };
    shard.insert(hash_of(b"key"), other, &mut scorer);
    assert_eq!((shard.free, shard.len()), (free, 1), "it is in the same place");
    let (now, is_hot) = shard.get(hash_of(b"key"), name_of(b"key")).unwrap();
    assert_eq!((now, is_hot), (other, true), "the access count stays");
    shard.insert(hash_of(b"key"), entry(b"key", b"longer"), &mut scorer);
    assert!(shard.free > free);
    assert_eq!(found(&mut shard, b"key"), Some(entry(b"key", b"longer")));
}

#[test]
fn entry_is_returned_as_inserted() {
    let mut shard = KvShard::new(100 << 10, 100 << 10);
    let mut scorer = ByUse::default();
    for (name, value) in [(&b"a"[..], &b"first"[..]), (b"bcd", b""), (b"ef", b"third and last")] {
        shard.insert(hash_of(name), entry(name, value), &mut scorer);
    }
    assert_eq!(found(&mut shard, b"a"), Some(entry(b"a", b"first")));
    assert_eq!(found(&mut shard, b"bcd"), Some(entry(b"bcd", b"")));
    assert_eq!(shard.get(hash_of(b"b"), name_of(b"b")), None);
    shard.insert(hash_of(b"a"), entry(b"a", b"second"), &mut scorer);
    assert_eq!(found(&mut shard, b"a"), Some(entry(b"a", b"second")));
    assert!(
        shard.remove(hash_of(b"a"), name_of(b"a"), &scorer)
            && !shard.remove(hash_of(b"a"), name_of(b"a"), &scorer)
    );
    assert_eq!(shard.get(hash_of(b"a"), name_of(b"a")), None);
    assert_eq!(shard.len(), 2);
    assert!(scorer.left.is_empty(), "there was no eviction");
}

#[test]
fn hot_entries_stay_and_cold_ones_are_evicted() {
    let mut shard = KvShard::new(200 << 10, 200 << 10);
    let mut scorer = ByUse::default();
    let name = |n: u32| n.to_be_bytes();
    for n in 0..20_000u32 {
        shard.insert(hash_of(&name(n)), entry(&name(n), &[7; 100]), &mut scorer);
        assert!(shard.charged_bytes() <= shard.capacity());
        // The first hundred in sequence.
        shard.get(hash_of(&name(n % 100)), name_of(&name(n % 100)));
    }
    let kept = (0..100).filter(|&n| shard.contains(hash_of(&name(n)), name_of(&name(n)))).count();
    assert_eq!(kept, 100);
    assert_eq!(shard.len() + scorer.left.len(), 20_000);
    // 116 bytes, four of them for the length of the name, in 200 KiB less the table.
    assert!(shard.len() > 1350, "{}", shard.len());
}

#[test]
fn entries_cost_less_than_24_bytes_beside_their_own() {
    let mut shard = KvShard::new(8 << 20, 8 << 20);
    let mut scorer = ByUse::default();
    for n in 0..1_000_000u64 {
        let name = n.to_be_bytes();
        shard.insert(hash_of(&name), entry(&name, &[1; 92]), &mut scorer);
    }
    let overhead = shard.charged_bytes() as f64 / shard.len() as f64 - 100.0;
    assert!(overhead < 24.0, "{overhead}");
    assert_eq!(entry(&[0; 8], &[1; 92]).charge(), 123);
}

/// Valuable if the name begins with a 1.
struct ByName;

impl Scorer for ByName {
    fn hash(&self, name: Name<'_>) -> u64 {
        hash_of(name.key)
    }

    fn worth(&mut self, _: u64, entry: &KvEntry<'_>, _: u8) -> f32 {
        if entry.name.key[0] == 1 { 8.0 } else { 1.0 }
    }

    fn evicted(&mut self, _: u64, _: usize) {}
}

/// Regression: once a quarter of every chunk was evicted in its turn, whatever it held.
#[test]
fn valuable_entries_inserted_together_stay() {
    let mut shard = KvShard::new(1 << 20, 1 << 20);
    let mut scorer = ByName;
    let name = |kind: u8, n: u32| [[kind, 0, 0, 0], n.to_be_bytes()].concat();
    let put = |shard: &mut KvShard, scorer: &mut ByName, kind, n| {
        let name = name(kind, n);
        shard.insert(hash_of(&name), entry(&name, &[7; 100]), scorer);
    };
    for kind in [0, 1] {
        (0..1_500).for_each(|n| put(&mut shard, &mut scorer, kind, n));
    }
    for n in 1_500..100_000 {
        put(&mut shard, &mut scorer, 0, n);
        // At first the removals leave enough room: nothing is evicted, which sets no price.
        if (30_000..50_000).contains(&n) {
            let gone = name(0, n - 1_000);
            shard.remove(hash_of(&gone), name_of(&gone), &scorer);
            assert_eq!(shard.price_average, 1.0);
        }
    }
    let good = (0..1_500).filter(|&n| shard.contains(hash_of(&name(1, n)), name_of(&name(1, n))));
    assert_eq!(good.count(), 1_500);
    assert_eq!(shard.price(), 1.0);
    // When no others are left, they are evicted for one another.
    for n in 1_500..20_000 {
        put(&mut shard, &mut scorer, 1, n);
    }
    assert!(shard.contains(hash_of(&name(1, 19_999)), name_of(&name(1, 19_999))));
    assert_eq!(shard.price(), 8.0);
}

#[test]
fn shrinking_keeps_the_most_valuable_entries() {
    let mut shard = KvShard::new(1 << 20, 1 << 20);
    let mut scorer = ByUse::default();
    let name = |n: u32| n.to_be_bytes();
    for n in 0..6_000 {
        shard.insert(hash_of(&name(n)), entry(&name(n), &[7; 100]), &mut scorer);
    }
    for n in (0..6_000).step_by(10).chain((0..6_000).step_by(10)) {
        shard.get(hash_of(&name(n)), name_of(&name(n)));
    }
    shard.set_capacity(256 << 10, &mut scorer);
    assert!(shard.charged_bytes() <= 256 << 10);
    let kept =
        (0..6_000).step_by(10).filter(|&n| shard.contains(hash_of(&name(n)), name_of(&name(n))));
    assert_eq!(kept.count(), 600);
    assert!(shard.price() < 1.0, "accessed entries were not evicted");
    shard.set_capacity(0, &mut scorer);
    assert_eq!((shard.len(), shard.charged_bytes()), (0, 0));
    shard.insert(hash_of(b"x"), entry(b"x", b"y"), &mut scorer);
    assert_eq!(shard.len(), 0);
}

#[test]
fn oversized_entry_is_not_cached_and_removes_the_older_one() {
    let mut shard = KvShard::new(1 << 20, 1 << 20);
    let mut scorer = ByUse::default();
    let most = shard.entry_bytes_max();
    let largest = vec![1; most - 2];
    shard.insert(hash_of(b"x"), entry(b"x", &largest), &mut scorer);
    assert_eq!(found(&mut shard, b"x"), Some(entry(b"x", &largest)));
    shard.insert(hash_of(b"x"), entry(b"x", &vec![2; most - 1]), &mut scorer);
    assert_eq!(shard.get(hash_of(b"x"), name_of(b"x")), None);
}

#[derive(Debug, Clone)]
enum Operation {
    Insert(u8, usize),
    Get(u8),
    Remove(u8),
    Resize(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (any::<u8>(), 0..1_365usize).prop_map(|(k, v)| Operation::Insert(k, v)),
        4 => any::<u8>().prop_map(Operation::Get),
        1 => any::<u8>().prop_map(Operation::Remove),
        1 => (0..300_000usize).prop_map(Operation::Resize),
    ]
}

proptest! {
    #[test]
    fn answers_are_right_and_bytes_bounded_under_random_operations(
        operations in prop::collection::vec(operation(), 1..400),
    ) {
        let mut shard = KvShard::new(100_000, 100_000);
        let mut scorer = ByUse::default();
        let mut model: HashMap<u8, Vec<u8>> = HashMap::new();
        for (time, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Insert(key, len) => {
                    let value = vec![time as u8; len];
                    shard.insert(hash_of(&[key, 1]), entry(&[key, 1], &value), &mut scorer);
                    model.insert(key, value);
                }
                Operation::Get(key) => {
                    if let Some((found, _)) = shard.get(hash_of(&[key, 1]), name_of(&[key, 1])) {
                        prop_assert_eq!(Some(found.value), model.get(&key).map(|v| &v[..]));
                    }
                }
                Operation::Remove(key) => {
                    shard.remove(hash_of(&[key, 1]), name_of(&[key, 1]), &scorer);
                    prop_assert!(!shard.contains(hash_of(&[key, 1]), name_of(&[key, 1])));
                    model.remove(&key);
                }
                Operation::Resize(bytes) => shard.set_capacity(bytes, &mut scorer),
            }
            prop_assert!(shard.charged_bytes() <= shard.capacity());
        }
    }
}
