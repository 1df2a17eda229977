//! AC-Key's shard: placement, eviction and boundary movement.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ac_key::earc::Targets;

/// `n0` in all tests.
const LEVEL0: u8 = 2;
const KEY: usize = 1 + 4;
const OVERHEAD: usize = Lists::<Fingerprint, Entry, 2>::OVERHEAD_BYTES;
/// Charges of entries with a value of 100 bytes.
const KV_BYTES: usize = OVERHEAD + KEY + STAMP_BYTES + 100;
const KP_BYTES: usize = OVERHEAD + KEY + POINTER_BYTES;
const TOTAL: usize = 400_000;

fn hash_of(name: Name<'_>) -> u64 {
    let number = name.key.first_chunk().map_or(0, |head| u32::from_be_bytes(*head));
    name.hash((u64::from(number) + 1).wrapping_mul(0x7FB5_D329_728E_A185).rotate_left(31))
}

fn shard(kv: usize, kp: usize) -> AcKeyShard {
    let boundaries = Boundaries::new(1000, [kv, kp, TOTAL - kv - kp]);
    let mut shard = AcKeyShard::new(Arc::new(boundaries), 1, Benefit { level0_tables: LEVEL0 });
    shard.set_capacities(kv, kp);
    shard.set_ghost_bytes(64 << 10);
    shard
}

fn pointer(n: u32, table: u64) -> Pointer {
    Pointer { table, offset: u64::from(n) << 12, len: 4096, position: 1 }
}

/// Looks up key `n` like a store, where it is on `level` with `value`; returns the point cache's
/// answer.
fn get_of(shard: &mut AcKeyShard, n: u32, level: u8, value: &[u8]) -> PointCacheLookup<Vec<u8>> {
    let key = n.to_be_bytes();
    let name = Name { keyspace: 1, key: &key };
    let found = shard.lookup(hash_of(name), name, |entry| Some(entry.value.to_vec()));
    if !matches!(found, PointCacheLookup::Value(_)) {
        let entry = KvEntry { name, stamp: 9, value, level };
        let (pointer, by_pointer) = (Some(pointer(n, 1)), found != PointCacheLookup::Miss);
        let found = LookupResult { entry, pointer, reads: 0.0, data_reads: 0.0, by_pointer };
        shard.resolved(hash_of(name), &found);
    }
    found
}

fn get(shard: &mut AcKeyShard, n: u32) -> PointCacheLookup<Vec<u8>> {
    get_of(shard, n, 4, &[7; 100])
}

fn sync(shard: &mut AcKeyShard, n: u32, value: Option<&[u8]>) -> bool {
    let key = n.to_be_bytes();
    let name = Name { keyspace: 1, key: &key };
    let entry = value.map(|value| KvEntry { name, stamp: 10, value, level: 0 });
    shard.update(hash_of(name), name, entry)
}

fn hash(n: u32) -> u64 {
    hash_of(Name { keyspace: 1, key: &n.to_be_bytes() })
}

#[test]
fn first_lookup_caches_pointer_and_second_moves_key_to_kv() {
    let mut shard = shard(50_000, 50_000);
    assert_eq!(get(&mut shard, 1), PointCacheLookup::Miss);
    assert_eq!(shard.len(), (0, 1));
    assert_eq!(shard.charged_bytes(), (0, KP_BYTES));
    let expected = KpEntry { pointer: pointer(1, 1), level: 4 };
    assert_eq!(get(&mut shard, 1), PointCacheLookup::Pointer(expected));
    assert_eq!(shard.len(), (1, 0));
    assert_eq!(shard.charged_bytes(), (KV_BYTES, 0));
    assert_eq!(get(&mut shard, 1), PointCacheLookup::Value(vec![7; 100]));
    assert_eq!(shard.saved(), PointReads { kv: 8.0, kp: 7.0 });
}

#[test]
fn short_value_stays_in_kp_until_its_second_access() {
    let mut shard = shard(50_000, 50_000);
    let short = [5; POINTER_BYTES - 1];
    assert_eq!(get_of(&mut shard, 1, 4, &short), PointCacheLookup::Miss);
    assert_eq!(shard.len(), (0, 1));
    assert_eq!(get_of(&mut shard, 1, 4, &short), PointCacheLookup::Value(short.to_vec()));
    assert_eq!(shard.len(), (1, 0));
    // One byte more is a pointer's size.
    get_of(&mut shard, 2, 4, &[5; POINTER_BYTES]);
    assert!(matches!(get_of(&mut shard, 2, 4, &[5; POINTER_BYTES]), PointCacheLookup::Pointer(_)));
}

#[test]
fn component_without_bytes_stays_empty_under_fixed_targets() {
    for (kv, kp) in [(50_000, 0), (0, 50_000)] {
        let mut shard = shard(kv, kp);
        shard.boundaries = Arc::new(Boundaries::fixed([kv, kp, TOTAL - kv - kp]));
        // One value smaller than a pointer, and one larger.
        for (n, value) in [(1, &[7; 10][..]), (2, &[7; 100])] {
            (0..3).for_each(|_| _ = get_of(&mut shard, n, 4, value));
        }
        let expected = if kv > 0 { (2, 0) } else { (0, 2) };
        assert_eq!(shard.len(), expected, "{kv} bytes of values, {kp} of pointers");
    }
}

#[test]
fn hits_save_reads_by_the_formula() {
    let benefit = Benefit { level0_tables: 2 };
    let key = 1u32.to_be_bytes();
    let name = Name { keyspace: 1, key: &key };
    let of = |level, body| {
        let entry = Entry::new(&KvEntry { name, stamp: 1, value: b"v", level }, body);
        f64::from(benefit.halves(&entry)) / 2.0
    };
    assert_eq!([0, 1, 4].map(|level| of(level, Body::Value)), [3.0, 5.0, 8.0]);
    assert_eq!([0, 1, 4].map(|level| of(level, Body::Pointer)), [2.0, 4.0, 7.0]);
    let odd = Benefit { level0_tables: 5 };
    assert_eq!(odd.tables_halves(0), 5);
}

#[test]
fn component_above_its_target_evicts() {
    let mut shard = shard(20 * KV_BYTES, 30 * KP_BYTES);
    (0..100).for_each(|n| drop(get(&mut shard, n)));
    // KP has all bytes while KV is empty.
    let pointers = shard.len().1;
    assert_eq!(pointers, (20 * KV_BYTES + 30 * KP_BYTES) / KP_BYTES);
    // Entries accessed again move to KV until it reaches its target.
    (60..100).for_each(|n| drop(get(&mut shard, n)));
    assert!(shard.charged_bytes().0 > 20 * KV_BYTES, "KP is not at its target yet");
    (100..200).for_each(|n| drop(get(&mut shard, n)));
    let (kv, _) = shard.charged_bytes();
    assert!((19 * KV_BYTES..=21 * KV_BYTES).contains(&kv), "{kv}");
    shard.set_capacities(10 * KV_BYTES, 20 * KP_BYTES + 10 * KV_BYTES + 10 * KP_BYTES);
    assert!(shard.charged_bytes().0 > 18 * KV_BYTES, "no eviction before an insert");
    (200..400).for_each(|n| drop(get(&mut shard, n)));
    let (kv, _) = shard.charged_bytes();
    assert!((9 * KV_BYTES..=10 * KV_BYTES).contains(&kv), "{kv}");
}

#[test]
fn ghost_hits_move_the_boundaries_by_k_times_e() {
    let mut shard = shard(10 * KV_BYTES, 10 * KP_BYTES);
    let before = shard.boundaries.targets();
    let pushed_out = (10 * KV_BYTES + 10 * KP_BYTES) / KP_BYTES;
    (0..=pushed_out as u32).for_each(|n| drop(get(&mut shard, n)));
    assert_eq!(shard.boundaries.targets(), before);
    // Key 0 was evicted from KP, whose ghost has room, because KV is empty.
    assert_eq!(shard.ghosts.each_ref().map(GhostList::len), [0, 0, 1]);
    let kv = (0..30).map(|n| 1000 + n).collect::<Vec<u32>>();
    kv.iter().for_each(|&n| drop((get(&mut shard, n), get(&mut shard, n))));
    assert!(shard.ghosts[KP].len() > 0 && shard.ghosts[KV].len() > 0);

    let left = (0..100).find(|&n| shard.ghosts[KP].take(Fingerprint(hash(n) as u32).0).is_some());
    let left = left.unwrap();
    let record = Record::new(hash(left) as u32, KP_BYTES, 14);
    shard.ghosts[KP].note(record, usize::MAX);
    shard.ghosts[BOTH].note(record, usize::MAX);
    get(&mut shard, left);
    let step = 1000.0 * 7.0 / KP_BYTES as f64;
    let expected = Boundaries::new(1000, [10 * KV_BYTES, 10 * KP_BYTES, before.block as usize]);
    expected.point_hit(Some(Lower::Kp(step / 1000.0)), Some(step / 1000.0));
    assert_eq!(shard.boundaries.targets(), expected.targets());
    let name = left.to_be_bytes();
    let name = Name { keyspace: 1, key: &name };
    let index = shard.find(hash_of(name), name).unwrap();
    assert_eq!(shard.entries.list(index), KV, "it was accessed before");
}

#[test]
fn ghosts_record_as_many_bytes_as_the_other_components_hold() {
    let mut shard = shard(100 * KV_BYTES, 200 * KP_BYTES);
    for n in 0..6000 {
        get(&mut shard, n);
        if n % 2 == 0 {
            get(&mut shard, n);
        }
    }
    let (kv, kp) = shard.charged_bytes();
    let point = 100 * KV_BYTES + 200 * KP_BYTES;
    let noted = shard.ghosts.each_ref().map(GhostList::noted_bytes);
    let nearly = |noted: usize, whole: usize| noted <= whole && noted + 4 * KV_BYTES > whole;
    assert!(nearly(noted[KV], point - kv), "{noted:?}");
    assert!(nearly(noted[KP], point - kp), "{noted:?}");
    assert!(nearly(noted[BOTH], TOTAL - kv - kp), "{noted:?}");
}

#[test]
fn least_efficient_of_the_oldest_entries_is_evicted() {
    let mut shard = shard(0, 60_000);
    // Long keys on a low level number: small benefit, many bytes.
    for n in 0..20u32 {
        let level = if n == 3 { 0 } else { 4 };
        let key = [&n.to_be_bytes()[..], &vec![1; if n == 3 { 4000 } else { 10 }]].concat();
        let name = Name { keyspace: 1, key: &key };
        let entry = KvEntry { name, stamp: 1, value: &[7; 100], level };
        let (pointer, by_pointer) = (Some(pointer(n, 1)), false);
        let found = LookupResult { entry, pointer, reads: 0.0, data_reads: 0.0, by_pointer };
        shard.resolved(hash_of(name), &found);
    }
    // More of both, so that efficiencies differ widely.
    for n in 20..24u32 {
        let key = [&n.to_be_bytes()[..], &[1; 9000]].concat();
        let name = Name { keyspace: 1, key: &key };
        let entry = KvEntry { name, stamp: 1, value: &[7; 100], level: 0 };
        let (pointer, by_pointer) = (Some(pointer(n, 1)), false);
        let found = LookupResult { entry, pointer, reads: 0.0, data_reads: 0.0, by_pointer };
        shard.resolved(hash_of(name), &found);
    }
    let oldest = || shard.entries.oldest_first(KP).take(4);
    let long = oldest().find(|&index| shard.entries.charge(index) > 4000).unwrap();
    let first = oldest().next().unwrap();
    let candidates = shard.efficiencies[KP].candidates();
    let expected = if candidates >= 4 { long } else { first };
    shard.evict(KP);
    assert!(shard.entries.entry(expected).is_none(), "of {candidates}");
}

#[test]
fn flush_updates_values_and_drops_pointers_until_redirected() {
    let mut shard = shard(50_000, 50_000);
    (0..2).for_each(|_| drop(get(&mut shard, 1)));
    get(&mut shard, 2);
    get_of(&mut shard, 3, 4, b"short");
    assert!(!sync(&mut shard, 1, Some(b"new")));
    assert_eq!(get(&mut shard, 1), PointCacheLookup::Value(b"new".to_vec()));
    assert!(sync(&mut shard, 2, Some(&[8; 100])));
    let name = 2u32.to_be_bytes();
    let name = Name { keyspace: 1, key: &name };
    assert_eq!(shard.lookup(hash(2), name, |_| Some(())), PointCacheLookup::Miss);
    let to = KpEntry { pointer: pointer(2, 5), level: 0 };
    shard.redirect(hash(2), to);
    assert_eq!(shard.lookup(hash(2), name, |_| Some(())), PointCacheLookup::Pointer(to));
    // No update for this key: its location stays.
    shard.redirect(hash(2), KpEntry { pointer: pointer(2, 6), level: 0 });
    assert_eq!(shard.lookup(hash(2), name, |_| Some(())), PointCacheLookup::Pointer(to));
    // A short value replaces the entry, or a long one replaces a short one.
    assert!(!sync(&mut shard, 2, Some(b"x")));
    assert!(sync(&mut shard, 3, Some(&[9; 100])));
    assert!(!sync(&mut shard, 4, Some(b"not here")));
    assert_eq!(shard.len(), (1, 2));
    (1..=3).for_each(|n| assert!(!sync(&mut shard, n, None)));
    assert_eq!(shard.len(), (0, 0));
    assert_eq!(shard.charged_bytes(), (0, 0));
}

#[test]
fn keys_with_equal_fingerprints_keep_no_stale_pointer() {
    let mut shard = shard(0, 50_000);
    shard.set_fingerprint_bits(0);
    (1..=2).for_each(|n| drop(get(&mut shard, n)));
    assert_eq!(shard.len(), (0, 2));
    assert!(sync(&mut shard, 2, Some(&[8; 100])));
    shard.redirect(hash(2), KpEntry { pointer: pointer(2, 5), level: 0 });
    let place = |shard: &mut AcKeyShard, n: u32| {
        let key = n.to_be_bytes();
        match shard.lookup(hash(n), Name { keyspace: 1, key: &key }, |_| Some(())) {
            PointCacheLookup::Pointer(entry) => Some(entry.pointer),
            _ => None,
        }
    };
    assert_eq!(place(&mut shard, 1), Some(pointer(1, 1)));
    assert_eq!(place(&mut shard, 2), Some(pointer(2, 5)));
    assert!(shard.relocate(hash(1), pointer(2, 5), KpEntry { pointer: pointer(2, 7), level: 3 }));
    assert_eq!(place(&mut shard, 1), Some(pointer(1, 1)));
    assert_eq!(place(&mut shard, 2), Some(pointer(2, 7)));
    assert_eq!(shard.pointers_into(|table| table == 7).count(), 1);
    shard.forget(|_| false, |table| table == 7);
    assert_eq!((place(&mut shard, 1).is_some(), place(&mut shard, 2)), (true, None));
}

#[derive(Debug, Clone)]
enum Step {
    Get(u32, usize),
    Sync(u32, Option<usize>),
    Redirect(u32),
    Forget(u32),
    Capacities(usize, usize),
    Ghosts(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..60_u32;
    let len = prop_oneof![0..40_usize, 0..400_usize];
    prop_oneof![
        12 => (key.clone(), len.clone()).prop_map(|(n, len)| Step::Get(n, len)),
        2 => (key.clone(), prop::option::of(len)).prop_map(|(n, len)| Step::Sync(n, len)),
        2 => key.clone().prop_map(Step::Redirect),
        1 => key.prop_map(Step::Forget),
        1 => (0..6000_usize, 0..6000_usize).prop_map(|(kv, kp)| Step::Capacities(kv, kp)),
        1 => (0..6000_usize).prop_map(Step::Ghosts),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// The tree is a map of lengths; a flush replaces a value and sets its location.
    #[test]
    fn answers_match_the_tree_and_bytes_stay_within_bounds(
        steps in prop::collection::vec(step(), 1..250),
        bits in prop_oneof![Just(32_u32), Just(3)],
    ) {
        let mut shard = shard(3000, 3000);
        shard.set_fingerprint_bits(bits);
        let mut ghost_bytes = 64 << 10;
        let mut tree: BTreeMap<u32, usize> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Get(n, len) => {
                    let len = *tree.entry(n).or_insert(len);
                    let found = get_of(&mut shard, n, (n % 5) as u8, &vec![len as u8; len]);
                    if let PointCacheLookup::Value(value) = found {
                        prop_assert_eq!(value, vec![len as u8; len]);
                    }
                }
                Step::Sync(n, len) => {
                    let value = len.map(|len| vec![len as u8; len]);
                    if sync(&mut shard, n, value.as_deref()) {
                        let to = KpEntry { pointer: pointer(n, 1), level: 0 };
                        shard.redirect(hash(n), to);
                    }
                    match len {
                        Some(len) => tree.insert(n, len),
                        None => tree.remove(&n),
                    };
                }
                Step::Redirect(n) => {
                    shard.redirect(hash(n), KpEntry { pointer: pointer(n, 1), level: 0 });
                }
                Step::Forget(n) => shard.forget(|name| name.key == n.to_be_bytes(), |_| n == 5),
                Step::Capacities(kv, kp) => shard.set_capacities(kv, kp),
                Step::Ghosts(bytes) => {
                    ghost_bytes = bytes;
                    shard.set_ghost_bytes(bytes);
                }
            }
            let (kv, kp) = shard.charged_bytes();
            let (kv_max, kp_max) = shard.capacities();
            prop_assert!(kv + kp <= kv_max + kp_max);
            prop_assert!(shard.measuring_bytes() <= ghost_bytes);
            for list in [KV, KP] {
                let charges = shard.entries.oldest_first(list).map(|index| shard.entries.charge(index));
                prop_assert_eq!(charges.sum::<usize>(), shard.entries.charged(list));
            }
            let Targets { kv, kp, block } = shard.boundaries.targets();
            prop_assert!((kv + kp + block - TOTAL as f64).abs() < 1.0);
        }
    }
}
