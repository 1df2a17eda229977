//! One budget for all: the bytes stay within it whatever is done, and go where they
//! save reads.

use proptest::prelude::*;

use super::*;
use crate::block::{BlockId, BlockKind, BlockTag};
use crate::kp::Pointer;
use crate::kv::KvEntry;
use crate::name::Name;
use crate::point::{Found, Resolved};

fn hash_of(name: Name<'_>) -> u64 {
    let number = name.key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
    name.hash((number ^ number >> 29).wrapping_mul(0x7FB5_D329_728E_A185).rotate_left(31))
}

/// Looks up a key that stands alone in its block, through the caches.
fn get(caches: &Caches<()>, number: u64) {
    let key = number.to_be_bytes();
    let name = Name { keyspace: 0, key: &key };
    let hash = hash_of(name);
    let epoch = caches.point().epoch(hash);
    let found = caches.point().lookup(hash, name, |_| Some(()));
    if found == Found::Value(()) {
        return;
    }
    let reads =
        touch(caches, BlockKind::Data, number) + touch(caches, BlockKind::Index, number / 64);
    let pointer = Pointer { table: 1, offset: number << 12 & 0xFFFF_FFFF, len: 4096, position: 0 };
    let entry = KvEntry { name, stamp: 1, value: &[1; 100], level: 2 };
    if reads == 0.0 {
        return;
    }
    caches.point().asked(hash);
    let (data_reads, by_pointer) = (1.0, found != Found::Nothing);
    let resolved = Resolved { entry, pointer: Some(pointer), reads, data_reads, by_pointer };
    caches.point().resolved(hash, epoch, &resolved);
}

fn touch(caches: &Caches<()>, kind: BlockKind, number: u64) -> f32 {
    let id = BlockId { table: kind as u64, offset: number };
    let tag = BlockTag { keyspace: 0, kind };
    if caches.blocks().get(id, tag).is_some() {
        return 0.0;
    }
    caches.blocks().insert(id, tag, (), 4096);
    caches.note_reads(1);
    1.0
}

#[test]
fn bytes_go_to_scattered_keys_under_the_tide() {
    let caches = Caches::new(hash_of, 1 << 20, 4, CachePolicy::Tide);
    assert_eq!(caches.split()[..2], [0, 0]);
    // A thousand keys, each in a block of its own: as blocks they do not fit.
    for round in 0..200u64 {
        (0..1000).for_each(|n| get(&caches, n * 64 + round % 2));
        assert!(caches.charged_bytes() <= 1 << 20);
    }
    let [kv, kp, block] = caches.split();
    assert!(kv + kp > 4 * block, "{kv}, {kp} and {block}");
    let (reads, saved) = (caches.blocks().stats().total().misses, caches.saved_reads());
    (0..1000).for_each(|n| get(&caches, n * 64));
    assert!(caches.blocks().stats().total().misses - reads < 200);
    // Each would have read a block at the least.
    let [kv_saved, kp_saved, _] = std::array::from_fn(|c| caches.saved_reads()[c] - saved[c]);
    assert!(kv_saved + kp_saved > 800.0, "{kv_saved} and {kp_saved}");
    let [kv_wanted, kp_wanted, _] = caches.wanted_reads();
    assert!(kv_wanted > 1_000.0 && kp_wanted > 1_000.0, "{kv_wanted} and {kp_wanted}");
}

#[test]
fn a_fixed_split_stays_and_blocks_alone_have_all() {
    let caches = Caches::new(hash_of, 1 << 20, 1, CachePolicy::Fixed { kv: 30, kp: 20 });
    (0..20_000).for_each(|n| get(&caches, n % 3000));
    let [kv, kp, block] = caches.split();
    let whole = (kv + kp + block) as f64;
    assert!((kv as f64 / whole - 0.3).abs() < 0.001 && (kp as f64 / whole - 0.2).abs() < 0.001);
    assert!(!caches.point().is_empty() && caches.point().is_used());
    caches.set_policy(CachePolicy::BlockOnly);
    assert!(caches.point().is_empty() && !caches.point().is_used());
    assert_eq!((caches.split(), caches.measuring_bytes()), ([0, 0, 1 << 20], 0));
    caches.set_policy(CachePolicy::Tide);
    assert!(caches.point().is_used() && caches.measuring_bytes() > 0);
}

#[test]
fn without_a_budget_there_is_nothing() {
    let caches = Caches::new(hash_of, 1 << 20, 1, CachePolicy::Tide);
    (0..2_000).for_each(|n| get(&caches, n));
    caches.set_budget(0);
    assert_eq!(caches.charged_bytes(), 0);
    (0..2_000).for_each(|n| get(&caches, n));
    assert_eq!(caches.charged_bytes(), 0);
}

#[derive(Debug, Clone)]
enum Operation {
    Gets(u64, u64),
    Budget(usize),
    Policy(CachePolicy),
    Step,
}

fn operation() -> impl Strategy<Value = Operation> {
    let policy = prop_oneof![
        Just(CachePolicy::Tide),
        Just(CachePolicy::BlockOnly),
        (0..=100u8).prop_flat_map(|kv| {
            (0..=100 - kv).prop_map(move |kp| CachePolicy::Fixed { kv, kp })
        }),
    ];
    prop_oneof![
        8 => (0..5_000u64, 1..500u64).prop_map(|(first, count)| Operation::Gets(first, count)),
        1 => (0..2_000_000usize).prop_map(Operation::Budget),
        1 => policy.prop_map(Operation::Policy),
        2 => Just(Operation::Step),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_the_bytes_are_within_the_budget(
        operations in prop::collection::vec(operation(), 1..60),
    ) {
        let caches = Caches::new(hash_of, 1 << 20, 2, CachePolicy::Tide);
        for operation in operations {
            match operation {
                Operation::Gets(first, count) => {
                    for n in 0..count {
                        get(&caches, first + n % 200);
                        prop_assert!(caches.charged_bytes() <= caches.budget());
                    }
                }
                Operation::Budget(bytes) => caches.set_budget(bytes),
                Operation::Policy(policy) => caches.set_policy(policy),
                Operation::Step => caches.step(),
            }
            prop_assert!(caches.charged_bytes() <= caches.budget());
            prop_assert!(caches.split().iter().sum::<usize>() <= caches.budget());
        }
    }
}
