//! Pointers: returned as inserted, one per fingerprint; growing and shrinking loses only reported
//! entries.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Worth equals the access count; records evictions.
#[derive(Default)]
struct ByUse {
    left: Vec<u32>,
}

impl Scorer for ByUse {
    fn worth(&mut self, _: u32, _: &KpEntry, uses: u8) -> f32 {
        f32::from(uses)
    }

    fn evicted(&mut self, hash: u32) {
        self.left.push(hash);
    }
}

fn hash(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x7FEB_352D);
    (n ^ n >> 15).wrapping_mul(0x846C_A68B) ^ n >> 16
}

fn entry(n: u32) -> KpEntry {
    let (table, offset) = (u64::from(n), u64::from(n) * 4096);
    let pointer = Pointer { table, offset, len: 4096 + n % 100, position: n % 512 };
    KpEntry { pointer, level: (n % 8) as u8 }
}

#[test]
fn pointers_are_returned_as_inserted() {
    let mut shard = KpShard::new(1 << 20);
    let mut scorer = ByUse::default();
    for n in 0..20_000 {
        shard.insert(hash(n), entry(n), &mut scorer);
    }
    assert!(scorer.left.len() < 1000, "{}", scorer.left.len());
    let found = (0..20_000).filter(|&n| shard.get(hash(n)) == Some(entry(n))).count();
    assert_eq!(found + scorer.left.len(), 20_000);
    assert_eq!(shard.len(), found);
    assert!((20_000..60_000).all(|n| shard.get(hash(n)).is_none()));
}

/// A small cache has a few hundredths of its bytes for pointers: most of these must be usable.
#[test]
fn small_capacity_holds_pointers() {
    for bytes in [1200, 2400, 3600] {
        let (mut shard, mut scorer) = (KpShard::new(bytes), ByUse::default());
        (0..1000).for_each(|n| shard.insert(hash(n), entry(n), &mut scorer));
        assert!((bytes * 4 / 5..=bytes).contains(&shard.charged_bytes()));
        assert!(shard.allocated_bytes() <= shard.charged_bytes());
        assert!(shard.len() * ENTRY_BYTES * 10 > bytes * 7, "{} in {bytes}", shard.len());
    }
}

#[test]
fn extreme_pointers_fit_and_larger_ones_are_not_stored() {
    let mut shard = KpShard::new(1 << 20);
    let mut scorer = ByUse::default();
    let (table, offset) = (u64::from(u32::MAX), u64::from(u32::MAX));
    let usual = Pointer { table, offset, len: (1 << 17) - 1, position: 511 };
    let largest = Pointer { table, offset, len: (1 << 22) - 1, position: 15 };
    let kept = KpEntry { pointer: largest, level: 7 };
    for (hash, pointer) in [(0, usual), (1, largest), (u32::MAX, usual)] {
        let kept = KpEntry { pointer, level: 7 };
        shard.insert(hash, kept, &mut scorer);
        for _ in 0..5 {
            assert_eq!(shard.get(hash), Some(kept));
        }
    }
    for pointer in [
        Pointer { table: 1 << 32, ..largest },
        Pointer { offset: 1 << 32, ..largest },
        Pointer { len: 1 << 22, ..largest },
        Pointer { len: 0, ..largest },
        Pointer { position: 16, ..largest },
        Pointer { position: 512, ..usual },
    ] {
        assert!(shard.peek(1).is_some());
        shard.insert(1, KpEntry { pointer, level: 1 }, &mut scorer);
        assert_eq!(shard.peek(1), None);
        shard.insert(1, kept, &mut scorer);
        assert!(shard.redirect(1, KpEntry { pointer, level: 1 }));
        assert_eq!(shard.peek(1), None);
        shard.insert(1, kept, &mut scorer);
    }
}

#[test]
fn full_shard_keeps_hot_pointers_within_its_bytes() {
    let mut shard = KpShard::new(64 << 10);
    let mut scorer = ByUse::default();
    for n in 0..100_000u32 {
        shard.insert(hash(n), entry(n), &mut scorer);
        assert!(shard.charged_bytes() <= 64 << 10);
        (0..3).for_each(|k| {
            shard.get(hash((n * 3 + k) % 500));
        });
    }
    assert!(shard.len() > 4096 * 9 / 10, "{} of 4096", shard.len());
    let kept = (0..500).filter(|&n| shard.peek(hash(n)).is_some()).count();
    assert!(kept > 430, "{kept}");
    assert_eq!(shard.len() + scorer.left.len(), 100_000);
}

#[test]
fn one_entry_per_fingerprint() {
    let mut shard = KpShard::new(64 << 10);
    let mut scorer = ByUse::default();
    for n in 0..2_000 {
        shard.insert(hash(n % 1000), entry(n), &mut scorer);
    }
    assert!(shard.len() > 900 && shard.len() <= 1000);
    assert!((0..1000).all(|n| shard.peek(hash(n)).is_none_or(|e| e == entry(n + 1000))));
    assert!(shard.remove(hash(7)) && !shard.remove(hash(7)));
    assert_eq!(shard.peek(hash(7)), None);
    assert!(!shard.redirect(hash(7), entry(8)));
    assert!(shard.redirect(hash(9), entry(8)));
    assert_eq!(shard.peek(hash(9)), Some(entry(8)));
}

#[derive(Debug, Clone)]
enum Operation {
    Insert(u32),
    Remove(u32),
    Resize(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..2_000u32).prop_map(Operation::Insert),
        2 => (0..2_000u32).prop_map(Operation::Remove),
        1 => (0..60_000usize).prop_map(Operation::Resize),
    ]
}

proptest! {
    #[test]
    fn resizing_loses_only_reported_entries(
        operations in prop::collection::vec(operation(), 1..600),
    ) {
        let mut shard = KpShard::new(20_000);
        let mut scorer = ByUse::default();
        let mut model: HashMap<u32, KpEntry> = HashMap::new();
        for operation in operations {
            match operation {
                Operation::Insert(n) => {
                    model.insert(hash(n), entry(n));
                    shard.insert(hash(n), entry(n), &mut scorer);
                }
                Operation::Remove(n) => {
                    shard.remove(hash(n));
                    model.remove(&hash(n));
                }
                Operation::Resize(bytes) => shard.set_capacity(bytes, &mut scorer),
            }
            scorer.left.drain(..).for_each(|hash| {
                model.remove(&hash);
            });
            prop_assert!(shard.charged_bytes() <= shard.capacity());
            prop_assert!(shard.allocated_bytes() <= shard.charged_bytes());
            prop_assert_eq!(shard.len(), model.len());
        }
        for (hash, entry) in model {
            prop_assert_eq!(shard.peek(hash), Some(entry));
        }
    }
}
