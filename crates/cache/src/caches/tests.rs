//! One budget for all caches: the bytes never exceed it, and go where they save reads.

use proptest::prelude::*;

use super::*;
use crate::block::id::{BlockId, BlockTag};
use crate::block::stats::BlockKind;
use crate::name::Name;
use crate::point::kp::Pointer;
use crate::point::kv::KvEntry;
use crate::point::shard::{LookupResult, PointCacheLookup};

fn hash_of(name: Name<'_>) -> u64 {
    let number = name.key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
    name.hash((number ^ number >> 29).wrapping_mul(0x7FB5_D329_728E_A185).rotate_left(31))
}

/// Looks up a key that is alone in its block, through the caches.
fn get(caches: &Caches<()>, number: u64) {
    let key = number.to_be_bytes();
    let name = Name { keyspace: 0, key: &key };
    let hash = hash_of(name);
    let epoch = caches.point().epoch(hash);
    let found = caches.point().lookup(hash, name, |_| Some(()));
    if found == PointCacheLookup::Value(()) {
        return;
    }
    let data_reads = touch(caches, BlockKind::Data, number);
    let reads = data_reads + touch(caches, BlockKind::Index, number / 64);
    let pointer = Pointer { table: 1, offset: number << 12 & 0xFFFF_FFFF, len: 4096, position: 0 };
    let entry = KvEntry { name, stamp: 1, value: &[1; 100], level: 2 };
    if reads == 0.0 && !caches.point().caches_memory_hits() {
        return;
    }
    caches.point().record_access(hash);
    let by_pointer = found != PointCacheLookup::Miss;
    let resolved = LookupResult { entry, pointer: Some(pointer), reads, data_reads, by_pointer };
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
fn adaptive_policy_gives_bytes_to_scattered_keys() {
    let caches = Caches::new(hash_of, 1 << 20, 4, CachePolicy::Adaptive);
    assert_eq!(caches.split()[..2], [0, 0]);
    // Four thousand keys, each in its own data block and index block: as blocks they do not fit,
    // and pointers save the index read. (With two thousand keys KV holds all before it has taken
    // most bytes.)
    for round in 0..200u64 {
        (0..1000).for_each(|n| get(&caches, (n + 1000 * (round % 4)) * 64));
        assert!(caches.charged_bytes() <= 1 << 20);
    }
    let [kv, kp, block] = caches.split();
    assert!(kv + kp > 4 * block, "{kv}, {kp} and {block}");
    let (reads, saved) = (caches.blocks().stats().total().misses, caches.saved_reads());
    (0..1000).for_each(|n| get(&caches, n * 64));
    assert!(caches.blocks().stats().total().misses - reads < 200);
    // Each would have read at least one block.
    let [kv_saved, kp_saved, _] = std::array::from_fn(|c| caches.saved_reads()[c] - saved[c]);
    assert!(kv_saved + kp_saved > 800.0, "{kv_saved} and {kp_saved}");
    let [kv_wanted, kp_wanted, _] = caches.wanted_reads();
    // KP gets no credit for keys of which it saved no read when they were looked up.
    assert!(kv_wanted > 1_000.0 && kp_wanted > 500.0, "{kv_wanted} and {kp_wanted}");
}

/// Empty bytes should go to other components.
#[test]
fn component_with_free_room_grows_little() {
    let budget = 64 << 20;
    let caches = Caches::<()>::new(hash_of, budget, 1, CachePolicy::Adaptive);
    let fillable = || caches.fillable(&caches.control.lock());
    let step = READS_PER_STEP as usize * TYPICAL_BLOCK_BYTES;
    assert_eq!(fillable(), [step, step, 0], "no entry has room, and all blocks have");
    caches.set_shares([0.5, 0.03, 0.47]);
    let [kv, kp, _] = fillable();
    assert_eq!(kv, 0, "a sixteenth is empty already");
    assert!(kp > 0 && kp < budget / ROOM_SHARE, "{kp}");
}

#[test]
fn bytes_go_to_values_when_nothing_is_read() {
    for (policy, is_told) in [("adaptive", true), ("adaptive-without:spared-time", false)] {
        let caches = Caches::<()>::new(hash_of, 1 << 20, 1, policy.parse().unwrap());
        for sample in 0..40 * u64::from(READS_PER_STEP * READ_PARTS) {
            let key = (sample % 500).to_be_bytes();
            let name = Name { keyspace: 0, key: &key };
            let hash = hash_of(name);
            if caches.point().lookup(hash, name, |_| Some(())) == PointCacheLookup::Miss {
                let entry = KvEntry { name, stamp: 1, value: &[1; 100], level: 2 };
                caches.offer_memory_hit(hash, caches.point().epoch(hash), entry);
            }
        }
        // All of them fit, and KV takes no more.
        let expected = if is_told { (500, 0) } else { (0, 0) };
        assert_eq!(caches.point().len(), expected, "{policy}");
        assert!(caches.split()[0] < 1 << 17, "{:?}", caches.split());
    }
}

#[test]
fn fixed_split_stays_and_block_only_gets_everything() {
    let caches = Caches::new(hash_of, 1 << 20, 1, CachePolicy::Fixed { kv: 30, kp: 20 });
    (0..20_000).for_each(|n| get(&caches, n % 3000));
    let [kv, kp, block] = caches.split();
    let whole = (kv + kp + block) as f64;
    assert!((kv as f64 / whole - 0.3).abs() < 0.001 && (kp as f64 / whole - 0.2).abs() < 0.001);
    assert!(!caches.point().is_empty() && caches.point().is_used());
    caches.set_policy(CachePolicy::BlockOnly);
    assert!(caches.point().is_empty() && !caches.point().is_used());
    assert_eq!((caches.split(), caches.measuring_bytes()), ([0, 0, 1 << 20], 0));
    caches.set_policy(CachePolicy::Adaptive);
    assert!(caches.point().is_used() && caches.measuring_bytes() > 0);
}

#[test]
fn ghosts_of_a_large_cache_record_a_sample_of_keys() {
    let bytes =
        |budget| Caches::<()>::new(hash_of, budget, 1, CachePolicy::Adaptive).measuring_bytes();
    let (all, sample) = (bytes(SAMPLED_BYTES_MIN - 1), bytes(SAMPLED_BYTES_MIN));
    // Of a window of a tenth: four bytes per entry of 120, and per entry of 16 in four.
    let ghosts = SAMPLED_BYTES_MIN / 10 / 30 + SAMPLED_BYTES_MIN / 10 / 16;
    let spared = all.abs_diff(sample);
    assert!(sample < all && (ghosts * 6 / 7..=ghosts).contains(&spared), "{all} and {sample}");
}

#[test]
fn zero_budget_caches_nothing() {
    for policy in [CachePolicy::Adaptive, CachePolicy::AC_KEY, CachePolicy::BlockS3Fifo] {
        let caches = Caches::new(hash_of, 1 << 20, 1, policy);
        (0..2_000).for_each(|n| get(&caches, n));
        caches.set_budget(0);
        assert_eq!(caches.charged_bytes(), 0);
        (0..2_000).for_each(|n| get(&caches, n));
        assert_eq!(caches.charged_bytes(), 0);
    }
}

#[test]
fn block_policies_use_the_whole_budget_and_keep_hot_blocks() {
    for policy in [CachePolicy::BlockOnly, CachePolicy::BlockClock, CachePolicy::BlockS3Fifo] {
        let caches = Caches::new(hash_of, 1 << 20, 1, policy);
        assert_eq!(caches.split(), [0, 0, 1 << 20]);
        // A hundred blocks of 250 that fit are accessed repeatedly, others once.
        for round in 0..100u64 {
            for n in 0..100 {
                touch(&caches, BlockKind::Data, n);
                touch(&caches, BlockKind::Data, 1000 + round * 100 + n);
            }
            assert!(caches.charged_bytes() <= 1 << 20);
        }
        let before = caches.blocks().stats().data.hits;
        (0..100).for_each(|n| _ = touch(&caches, BlockKind::Data, n));
        assert_eq!(caches.blocks().stats().data.hits - before, 100, "{policy}");
    }
}

#[test]
fn ac_key_boundaries_follow_its_ghosts() {
    let caches = Caches::new(hash_of, 1 << 20, 2, CachePolicy::AcKey { k: 100_000, theta: 0 });
    assert!(caches.point().caches_memory_hits());
    for round in 0..60u64 {
        (0..1000).for_each(|n| get(&caches, n * 64 + round % 2));
        assert!(caches.charged_bytes() <= 1 << 20);
    }
    let [kv, kp, block] = caches.split();
    assert!(kv + kp > 300_000, "{kv}, {kp} and {block}");
    // With only scans, blocks need the bytes.
    for _ in 0..300u64 {
        (0..200).for_each(|n| _ = touch(&caches, BlockKind::Data, 1_000_000 + n));
    }
    let [kv, kp, block_then] = caches.split();
    assert!(block_then > block, "{kv}, {kp} and {block_then}");
    caches.set_policy(CachePolicy::Adaptive);
    assert!(caches.point().is_empty() && !caches.point().caches_memory_hits());
}

#[test]
fn fixed_ac_key_boundaries_stay_and_empty_components_stay_empty() {
    for (kv, kp) in [(60, 20), (50, 0), (0, 50), (100, 0), (0, 100), (0, 0)] {
        let policy = CachePolicy::AcKeyFixed { kv, kp };
        let caches = Caches::new(hash_of, 1 << 20, 2, policy);
        let shares = policy.shares().unwrap();
        for round in 0..20u64 {
            (0..1000).for_each(|n| get(&caches, n * 64 + round % 2));
            // This one is not accessed again.
            get(&caches, 1_000_000 + round);
            (0..100).for_each(|n| _ = touch(&caches, BlockKind::Data, 1_000_000 + n));
            assert!(caches.charged_bytes() <= 1 << 20);
            assert_eq!(caches.measuring_bytes(), 0, "{policy} keeps no ghosts");
            assert_eq!(caches.shares(), shares, "{policy}");
        }
        let (values, pointers) = caches.point().len();
        let found = (values > 0, pointers > 0);
        assert_eq!(found, (kv > 0, kp > 0), "{policy}: {values} values, {pointers} pointers");
    }
}

#[test]
fn ac_key_ghosts_have_memory_only_while_hit_ratios_change() {
    let caches = Caches::new(hash_of, 1 << 20, 1, CachePolicy::AcKey { k: 100_000, theta: 20 });
    let rounds = |count: u64| {
        for n in 0..count {
            get(&caches, (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 30_000);
            assert!(caches.charged_bytes() <= 1 << 20);
        }
    };
    rounds(30_000);
    assert!(caches.measuring_bytes() > 2_000, "{}", caches.measuring_bytes());
    rounds(300_000);
    assert_eq!(caches.measuring_bytes(), 0, "hit ratios are stable");
    assert_eq!(caches.split().iter().sum::<usize>(), 1 << 20);
    // Keys that fit, mixed with others that are never repeated.
    let are_back = (0..100_000u64).any(|n| {
        get(&caches, 1_000_000 + n % 500);
        get(&caches, 2_000_000 + n);
        caches.measuring_bytes() > 2_000
    });
    assert!(are_back && caches.charged_bytes() <= 1 << 20);
}

#[derive(Debug, Clone)]
enum Operation {
    Gets(u64, u64),
    Budget(usize),
    Policy(CachePolicy),
    Step,
}

/// `adaptive` with this mechanism switched off.
fn without(idea: Ablation) -> CachePolicy {
    CachePolicy::AdaptiveWithout(Ablations::NONE.and(idea))
}

#[test]
fn without_admission_every_entry_is_cached() {
    let is_there = |policy| {
        let caches = Caches::new(hash_of, 1 << 20, 1, policy);
        for _ in 0..4 {
            (0..20).for_each(|n| _ = touch(&caches, BlockKind::Data, n));
        }
        (1_000..2_000).for_each(|n| _ = touch(&caches, BlockKind::Data, n));
        let id = |offset| BlockId { table: BlockKind::Data as u64, offset };
        [0, 1_999].map(|offset| caches.blocks().contains(id(offset)))
    };
    assert!(is_there(CachePolicy::Adaptive)[0], "frequently accessed blocks stay");
    assert_eq!(is_there(without(Ablation::Admission)), [false, true]);
}

#[test]
fn without_controller_boundaries_stay() {
    let caches = Caches::new(hash_of, 1 << 20, 1, without(Ablation::Controller));
    assert_eq!(caches.shares(), Ablations::SPLIT);
    for _ in 0..20 {
        (0..2_000).for_each(|n| get(&caches, n));
    }
    caches.step();
    caches.set_shares([0.1, 0.1, 0.8]);
    assert_eq!(caches.shares(), Ablations::SPLIT);
    assert!(caches.window_bytes() > 0, "ghosts are unchanged");
}

#[test]
fn entries_charged_as_published_are_fewer() {
    let ideas = Ablations::NONE.and(Ablation::Controller);
    let caches = Caches::<()>::new(hash_of, 1 << 20, 1, CachePolicy::AdaptiveWithout(ideas));
    let (kv, kp) = caches.point().capacities();
    caches.set_policy(CachePolicy::AdaptiveWithout(ideas.and(Ablation::CompactEntries)));
    let fewer = caches.point().capacities();
    let [kv_share, kp_share] = [fewer.0 as f64 / kv as f64, fewer.1 as f64 / kp as f64];
    assert!((0.8..0.9).contains(&kv_share) && (0.35..0.45).contains(&kp_share), "{fewer:?}");
    assert!(caches.split()[1] > 2 * fewer.1, "their charge is higher");
}

fn operation() -> impl Strategy<Value = Operation> {
    let policy = prop_oneof![
        Just(CachePolicy::Adaptive),
        Just(CachePolicy::BlockOnly),
        Just(CachePolicy::BlockClock),
        Just(CachePolicy::BlockS3Fifo),
        Just(CachePolicy::AC_KEY),
        (1..1_u32 << Ablations::all().count()).prop_map(|bits| {
            let chosen = Ablations::all().enumerate().filter(|(n, _)| bits & 1 << n != 0);
            CachePolicy::AdaptiveWithout(
                chosen.fold(Ablations::NONE, |set, (_, (idea, _))| set.and(idea)),
            )
        }),
        (0..10_000_000u32, 0..=100u8).prop_map(|(k, theta)| CachePolicy::AcKey { k, theta }),
        (0..=100u8).prop_flat_map(|kv| {
            (0..=100 - kv).prop_map(move |kp| CachePolicy::Fixed { kv, kp })
        }),
        (0..=100u8).prop_flat_map(|kv| {
            (0..=100 - kv).prop_map(move |kp| CachePolicy::AcKeyFixed { kv, kp })
        }),
    ];
    prop_oneof![
        8 => (0..5_000u64, 1..500u64).prop_map(|(first, count)| Operation::Gets(first, count)),
        1 => (0..2_000_000usize).prop_map(Operation::Budget),
        1 => policy.prop_map(Operation::Policy),
        2 => Just(Operation::Step),
    ]
}

/// A restart restores the boundaries; bytes lent meanwhile are not a change of load.
#[test]
fn restored_boundaries_are_not_searched_again() {
    let caches = Caches::<()>::new(hash_of, 1 << 20, 2, CachePolicy::Adaptive);
    let searches = || caches.control.lock().controller.searches();
    assert!(searches());
    caches.set_shares([0.5, 0.0, 0.5]);
    assert!(!searches());
    // Ghosts for another budget are empty at first.
    caches.set_budget(8 << 20);
    assert!(searches());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn bytes_stay_within_the_budget_under_random_operations(
        operations in prop::collection::vec(operation(), 1..60),
    ) {
        let caches = Caches::new(hash_of, 1 << 20, 2, CachePolicy::Adaptive);
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
