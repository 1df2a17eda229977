//! Admission, answers, and the ghosts' estimate of reads that more room would save.

use super::*;
use crate::point::kv::CHUNK_BYTES_MAX;

fn hash_of(name: Name<'_>) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    name.key.iter().fold(0xCBF2_9CE4_8422_2325, fold).wrapping_mul(0x7FB5_D329_728E_A185)
}

/// Looks `name` up like a store whose lookups take `reads` I/Os.
fn get(shard: &mut PointShard, key: &[u8], reads: f32) -> PointCacheLookup<()> {
    get_long(shard, key, 100, reads)
}

/// The same for a value of `value` bytes.
fn get_long(shard: &mut PointShard, key: &[u8], value: usize, reads: f32) -> PointCacheLookup<()> {
    let value = vec![1; value];
    let name = Name { keyspace: 1, key };
    let hash = hash_of(name);
    let found = shard.lookup(hash, name, |_| Some(()));
    if found == PointCacheLookup::Value(()) {
        return found;
    }
    shard.record_access(hash);
    let by_pointer = found != PointCacheLookup::Miss;
    let offset = u64::from(key[0]) << 12;
    let pointer = Pointer { table: 1, offset, len: 4096, position: 3 };
    let entry = KvEntry { name, stamp: 7, value: &value, level: 4 };
    let reads = if by_pointer { 1.0 } else { reads };
    let resolved =
        LookupResult { entry, pointer: Some(pointer), reads, data_reads: 1.0, by_pointer };
    shard.resolved(hash, &resolved);
    found
}

/// Reads that larger components would have saved.
fn wanted(shard: &PointShard) -> PointReads {
    let PointReads { kv, kp } = shard.wanted();
    PointReads { kv: kv.window, kp: kp.window }
}

#[test]
fn empty_components_earn_ghost_hits() {
    let mut shard = PointShard::new(hash_of, 64 << 10);
    shard.measure(64 << 10, 64 << 10, 1);
    assert_eq!(get(&mut shard, b"key", 4.0), PointCacheLookup::Miss);
    assert_eq!(wanted(&shard), PointReads::default());
    // Ghosts of KP record only a sample of the keys; each hit counts for as many.
    for n in 0..100u8 {
        (0..2).for_each(|_| assert_eq!(get(&mut shard, &[n, 1], 4.0), PointCacheLookup::Miss));
    }
    let PointReads { kv, kp } = wanted(&shard);
    assert!((400.0..=460.0).contains(&kv), "{kv} of 452, as they are shorter than typical");
    assert!((100.0..=600.0).contains(&kp), "{kp} of about 300");
    assert!(shard.is_empty());
}

/// Keys accessed in sequence: the hits of more bytes depend on the entries' bytes, however long
/// they are.
#[test]
fn ghost_hits_account_for_longer_values() {
    // The fraction of lookups that one more window would answer, with `keys` keys in sequence.
    let wanted = |value, keys: u32| {
        let mut shard = PointShard::new(hash_of, 1 << 20);
        shard.measure(64 << 10, 140 << 10, 1);
        let mut round = || {
            (0..keys).for_each(|n| _ = get_long(&mut shard, &n.to_be_bytes(), value, 4.0));
            self::wanted(&shard).kv
        };
        // Sizes are averaged during the run.
        (0..4000 / keys).for_each(|_| _ = round());
        let before = round();
        (round() - before) / f64::from(4 * keys)
    };
    // A window of 140 KiB holds about a thousand short ones, or a hundred of ten times the length.
    let (short, long) = (wanted(100, 500), wanted(1266, 50));
    assert!(short > 0.75 && long > 0.75, "{short} and {long}");
    let (short, long) = (wanted(100, 4000), wanted(1266, 400));
    assert!(short < 0.4 && long < 0.4, "{short} and {long}");
    // KV holds none of these, however many bytes it has.
    assert_eq!(wanted(CHUNK_BYTES_MAX, 10), 0.0);
}

/// Regression: a ghost keeps entries recorded while there was less room. (Pointers to long values
/// once took half of a budget, and filled a tenth of that.)
#[test]
fn kp_earns_ghost_hits_only_when_full() {
    let wanted = |bytes| {
        let mut shard = PointShard::new(hash_of, 64 << 10);
        shard.measure(64 << 10, 64 << 10, 1);
        let round = |shard: &mut PointShard| {
            (0..3000u32).for_each(|n| _ = get(shard, &n.to_be_bytes(), 4.0));
        };
        round(&mut shard);
        shard.set_capacities(0, bytes);
        round(&mut shard);
        self::wanted(&shard).kp
    };
    assert!(wanted(16 << 10) > 1000.0, "where it is full");
    assert_eq!(wanted(1 << 20), 0.0);
}

/// Few long entries among short ones: the ghost must not be rebuilt all the time.
#[test]
fn ghost_is_not_rebuilt_for_mixed_sizes() {
    for one_in in [100, 20, 10, 3] {
        let mut window = KvWindow { entries: 1000, ..KvWindow::NONE };
        let mut sample_id = 1u64;
        let mut charge = || {
            sample_id = sample_id.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if (sample_id >> 33).is_multiple_of(one_in) { 4100 } else { 139 }
        };
        let mut made = |times| (0..times).filter(|_| window.note(charge()).is_some()).count();
        let at_first = made(4096);
        let later = made(200_000);
        assert!(at_first < 20 && later < 5, "one in {one_in}: {at_first}, then {later}");
    }
}

/// Boundaries account for the measuring memory: it must not grow when short entries return, for
/// which the ghost is larger.
#[test]
fn ghost_memory_is_constant_for_any_entry_size() {
    let mut shard = PointShard::new(hash_of, 1 << 20);
    shard.measure(64 << 10, 140 << 10, 1);
    let charged = shard.measuring_bytes();
    for (value, gets) in [(1266, 2000u32), (100, 20_000)] {
        (0..gets).for_each(|n| _ = get_long(&mut shard, &n.to_be_bytes(), value, 4.0));
        assert_eq!(shard.measuring_bytes(), charged);
        assert!(shard.kv_ghost.charged_bytes() <= shard.kv_window.bytes_max);
    }
}

#[test]
fn sampled_ghost_hits_match_those_of_all_keys() {
    let wanted = |sampling| {
        let mut shard = PointShard::new(hash_of, 64 << 10);
        shard.measure(64 << 10, 4 << 20, sampling);
        for n in 0..8_000u32 {
            (0..2).for_each(|_| _ = get(&mut shard, &n.to_be_bytes(), 4.0));
        }
        // In memory, twice: the first time it is recorded, the second time it is a ghost hit.
        let answered = |shard: &mut PointShard, n: u32| {
            let key = (1_000_000 + n).to_be_bytes();
            let name = Name { keyspace: 1, key: &key };
            let entry = KvEntry { name, stamp: 7, value: &[1; 100], level: 4 };
            shard.offer_memory_hit(hash_of(name), entry)
        };
        (0..8_000).for_each(|n| _ = answered(&mut shard, n));
        let spared: u32 = (0..8_000).map(|n| answered(&mut shard, n)).sum();
        (self::wanted(&shard), f64::from(spared))
    };
    let (all, all_spared) = wanted(1);
    // These entries are shorter than typical, by this factor.
    assert!((1.08..=1.1).contains(&(all.kv / 32_000.0)), "{all:?}");
    assert!((0.99..=1.0).contains(&(all_spared / 8_000.0)), "{all_spared}");
    let (sample, spared) = wanted(8);
    let ratios = [sample.kv / all.kv, sample.kp / all.kp, spared / all_spared];
    assert!(ratios.iter().all(|ratio| (0.75..=1.35).contains(ratio)), "{ratios:?}");
}

/// Otherwise its block would stay only for this entry, with many times its bytes.
#[test]
fn memory_hit_is_cached_if_hotter_than_the_victim() {
    let mut shard = PointShard::new(hash_of, 64 << 10);
    shard.measure(64 << 10, 64 << 10, 1);
    shard.set_capacities(64 << 10, 0);
    for _ in 0..4 {
        (0..2_000u32).for_each(|n| _ = get(&mut shard, &n.to_be_bytes(), 4.0));
    }
    let find = |shard: &mut PointShard, number: u32| {
        let key = number.to_be_bytes();
        let name = Name { keyspace: 1, key: &key };
        let entry = KvEntry { name, stamp: 7, value: &[1; 100], level: 4 };
        shard.offer_memory_hit(hash_of(name), entry);
        shard.kv.contains(hash_of(name), name)
    };
    let mut kept = || (0..100).filter(|n| find(&mut shard, 1_000_000 + n)).count();
    // Offered once, they may be chance accesses; offered again, they were accessed more often than
    // others with four accesses of four reads each.
    assert_eq!(kept(), 0);
    assert!(kept() >= 95);
}

#[test]
fn read_entry_is_cached_and_answers() {
    let mut shard = PointShard::new(hash_of, 64 << 10);
    shard.measure(64 << 10, 64 << 10, 1);
    shard.set_capacities(64 << 10, 0);
    get(&mut shard, b"key", 4.0);
    assert_eq!(shard.saved(), PointReads::default());
    assert_eq!(get(&mut shard, b"key", 4.0), PointCacheLookup::Value(()));
    let saved = f64::from(shard.reads(4));
    assert_eq!(shard.saved(), PointReads { kv: saved, kp: 0.0 });
    // Without room for values, the location is cached.
    shard.set_capacities(0, 64 << 10);
    (0..2000).for_each(|_| {
        get(&mut shard, b"key", 4.0);
    });
    let PointCacheLookup::Pointer(entry) = get(&mut shard, b"key", 4.0) else {
        panic!("the location is not cached")
    };
    let saved = 2_000.0 * f64::from(shard.reads(4) - 1.0);
    assert!((shard.saved().kp - saved).abs() < 0.05 * saved, "{:?}", shard.saved());
    assert_eq!(entry.pointer.offset, u64::from(b'k') << 12);
}

#[test]
fn memory_hit_is_cached_while_there_is_room() {
    let mut shard = PointShard::new(hash_of, 64 << 10);
    shard.measure(64 << 10, 64 << 10, 1);
    let find = |shard: &mut PointShard, number: u32| {
        let key = number.to_be_bytes();
        let name = Name { keyspace: 1, key: &key };
        let entry = KvEntry { name, stamp: 7, value: &[1; 100], level: 4 };
        let answered = shard.offer_memory_hit(hash_of(name), entry);
        (answered, shard.kv.contains(hash_of(name), name))
    };
    // Without capacity, repeated ghost entries show that some is needed.
    assert!((0..100).all(|n| find(&mut shard, n) == (0, false)));
    assert!((0..100).all(|n| find(&mut shard, n) == (1, false)));
    assert_eq!(wanted(&shard), PointReads::default());
    shard.set_capacities(64 << 10, 0);
    let kept = (0..2_000).filter(|&n| find(&mut shard, n).1).count();
    assert!((300..600).contains(&kept), "{kept} entries of 130 bytes in 64 KiB");
    assert_eq!(shard.len(), (kept, 0));
    assert!(shard.charged_bytes().0 <= 64 << 10);
    assert_eq!(shard.reads(4), 1.0);
    // Entries that save reads replace them.
    for _ in 0..3 {
        (0..200u8).for_each(|n| _ = get(&mut shard, &[n, 1], 4.0));
    }
    let is_kept = |n: &u8| {
        let name = Name { keyspace: 1, key: &[*n, 1] };
        shard.kv.contains(hash_of(name), name)
    };
    assert_eq!((0..200).filter(is_kept).count(), 200);
    // The bytes freed by these others are not for memory hits.
    assert!((3_000..4_000).all(|n| !find(&mut shard, n).1));
}

#[test]
fn level_cost_is_the_average_of_its_lookups() {
    let mut shard = PointShard::new(hash_of, 0);
    shard.measure(4 << 10, 0, 1);
    for n in 0..5_000u32 {
        get(&mut shard, &n.to_be_bytes(), 3.0);
    }
    assert!((shard.reads(4) - 3.0).abs() < 0.01, "{}", shard.reads(4));
    assert_eq!(shard.reads(2), 1.0);
}

#[test]
fn key_cost_is_by_level_or_uniform() {
    let mut costs = Costs::UNKNOWN;
    (0..4_000).for_each(|_| {
        costs.note(6, 3.0);
        costs.note(1, 1.0);
    });
    let is_about = |found: f32, expected: f32| (found - expected).abs() < 0.02;
    for (by, deep, shallow, by_pointer) in [
        (CostBy::Level, 3.0, 1.0, 2.0),
        (CostBy::Sketch, 3.0, 1.0, 2.0),
        (CostBy::Average, 2.0, 2.0, 1.0),
    ] {
        costs.by = by;
        let saved = |level| costs.counted_for(level) * costs.saved_by_value(level);
        assert!(is_about(saved(6), deep) && is_about(saved(1), shallow), "{by:?}");
        let saved = costs.counted_for(6) * costs.saved_by_pointer(6);
        assert!(is_about(saved, by_pointer), "{by:?}: {saved}");
    }
    assert_eq!(costs.times_counted(6), 1);
    costs.by = CostBy::Sketch;
    assert_eq!((costs.times_counted(6), costs.times_counted(1)), (3, 1));
}

/// A pointer saves the reads before the data block: metadata, and blocks of runs with false
/// positives.
#[test]
fn pointer_is_cached_only_if_it_saves_a_read() {
    let mut shard = PointShard::new(hash_of, 64 << 10);
    shard.measure(4 << 10, 4 << 10, 1);
    shard.set_capacities(0, 8 << 10);
    assert_eq!(get(&mut shard, b"one read", 1.0), PointCacheLookup::Miss);
    assert_eq!(get(&mut shard, b"two reads", 2.0), PointCacheLookup::Miss);
    assert_eq!(shard.len(), (0, 1));
    assert!(matches!(get(&mut shard, b"two reads", 2.0), PointCacheLookup::Pointer(_)));
    shard.set_ablations(Ablations::NONE.and(Ablation::Admission), [1.0; LEVELS]);
    assert_eq!(get(&mut shard, b"one read", 1.0), PointCacheLookup::Miss);
    assert_eq!(shard.len(), (0, 2), "without admission all are cached");
}
