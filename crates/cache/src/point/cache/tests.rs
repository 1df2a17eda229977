//! Lookups concurrent with changes of the tree: results from before a change are rejected, and
//! cached entries are never older than the tables.

#[cfg(not(miri))]
mod models;

use std::sync::Arc;

use super::*;
use crate::ac_key::earc::Boundaries;
use crate::ac_key::shard::{AcKeyShard, Benefit};

fn hash_of(name: Name<'_>) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = name.key.iter().fold(0xCBF2_9CE4_8422_2325, fold);
    name.hash((hash ^ hash >> 29).wrapping_mul(0x7FB5_D329_728E_A185))
}

fn name(key: &[u8]) -> Name<'_> {
    Name { keyspace: 1, key }
}

fn entry<'a>(key: &'a [u8], value: &'a [u8]) -> KvEntry<'a> {
    KvEntry { name: name(key), stamp: 1, value, level: 3 }
}

/// The location of a key in `table`.
fn place(table: u64, position: u32) -> Pointer {
    Pointer { table, offset: 4096, len: 4096, position }
}

fn found<'a>(entry: KvEntry<'a>, pointer: Pointer) -> LookupResult<'a> {
    LookupResult { entry, pointer: Some(pointer), reads: 3.0, data_reads: 1.0, by_pointer: false }
}

/// A cache of `kv` and `kp` bytes in one shard.
fn cache(kv: usize, kp: usize) -> PointCache {
    let cache = PointCache::new(hash_of, 1, kv + kp);
    cache.measure(4 << 10, 16 << 10, 1);
    cache.set_capacities(kv, kp);
    cache
}

/// The same with AC-Key's entries.
fn ac_key_cache(kv: usize, kp: usize) -> PointCache {
    let cache = cache(0, 0);
    let boundaries = Arc::new(Boundaries::new(1000, [kv, kp, 64 << 10]));
    let make = || -> Box<dyn PointEntries> {
        let benefit = Benefit { level0_tables: 2 };
        Box::new(AcKeyShard::new(Arc::clone(&boundaries), 1, benefit))
    };
    cache.set_baseline(Some(&make));
    cache.set_capacities(kv, kp);
    cache.set_ghost_bytes(8 << 10);
    cache
}

fn value(cache: &PointCache, key: &[u8]) -> Option<Vec<u8>> {
    let read = |entry: KvEntry<'_>| Some(entry.value.to_vec());
    match cache.lookup(hash_of(name(key)), name(key), read) {
        PointCacheLookup::Value(value) => Some(value),
        _ => None,
    }
}

fn pointer(cache: &PointCache, key: &[u8]) -> Option<Pointer> {
    match cache.lookup(hash_of(name(key)), name(key), |_| None::<()>) {
        PointCacheLookup::Pointer(entry) => Some(entry.pointer),
        _ => None,
    }
}

#[test]
fn result_from_before_a_change_is_rejected() {
    let cache = cache(64 << 10, 64 << 10);
    let hash = hash_of(name(b"k"));
    let epoch = cache.epoch(hash);
    cache.advance_epoch();
    cache.resolved(hash, epoch, &found(entry(b"k", b"old"), place(1, 0)));
    assert!(cache.is_empty());
    // Two concurrent changes: only results of lookups after both have ended are cached.
    let (first, second) = (cache.begin_change(), cache.begin_change());
    drop(first);
    let during = cache.epoch(hash);
    cache.resolved(hash, during, &found(entry(b"k", b"old"), place(1, 0)));
    drop(second);
    cache.resolved(hash, during, &found(entry(b"k", b"old"), place(1, 0)));
    assert!(cache.is_empty());
    assert_eq!(cache.stats().stale_inserts, 3);
    cache.resolved(hash, cache.epoch(hash), &found(entry(b"k", b"new"), place(2, 0)));
    assert_eq!(value(&cache, b"k"), Some(b"new".to_vec()));
}

#[test]
fn update_replaces_value_and_deletion_removes_entries() {
    let both = cache(64 << 10, 64 << 10);
    let hash = hash_of(name(b"k"));
    both.resolved(hash, both.epoch(hash), &found(entry(b"k", b"old"), place(1, 0)));
    // An update does not insert keys that are not cached.
    assert!(!both.update(hash_of(name(b"other")), name(b"other"), Some(entry(b"other", b"x"))));
    assert_eq!(value(&both, b"other"), None);
    assert!(both.update(hash, name(b"k"), Some(entry(b"k", b"new"))));
    assert_eq!(value(&both, b"k"), Some(b"new".to_vec()));
    both.update(hash, name(b"k"), None);
    assert!(both.is_empty());

    let pointers = cache(0, 64 << 10);
    pointers.resolved(hash, pointers.epoch(hash), &found(entry(b"k", b"old"), place(1, 0)));
    assert_eq!(pointer(&pointers, b"k"), Some(place(1, 0)));
    assert!(pointers.update(hash, name(b"k"), Some(entry(b"k", b"new"))));
    pointers.redirect(hash, KpEntry { pointer: place(2, 5), level: 0 });
    assert_eq!(pointer(&pointers, b"k"), Some(place(2, 5)));
    // The entry of another key has moved.
    pointers.relocate(hash, place(2, 6), KpEntry { pointer: place(3, 0), level: 1 });
    assert_eq!(pointer(&pointers, b"k"), Some(place(2, 5)));
    assert_eq!(pointers.pointers_into(|table| table == 2, 9).len(), 1);
    assert!(pointers.pointers_into(|table| table == 2, 0).is_empty());
    for (from, hash) in pointers.pointers_into(|table| table == 2, 9) {
        pointers.relocate(hash, from, KpEntry { pointer: place(3, 1), level: 1 });
    }
    assert_eq!(pointer(&pointers, b"k"), Some(place(3, 1)));
    pointers.update(hash, name(b"k"), None);
    assert!(pointers.is_empty());
}

#[test]
fn ac_key_entries_follow_the_same_rules() {
    let cache = ac_key_cache(64 << 10, 64 << 10);
    let (hash, long) = (hash_of(name(b"k")), [b'v'; 40]);
    let find = |value: &[u8], table, by_pointer| {
        let resolved = LookupResult { by_pointer, ..found(entry(b"k", value), place(table, 0)) };
        cache.resolved(hash, cache.epoch(hash), &resolved);
    };
    let epoch = cache.epoch(hash);
    cache.advance_epoch();
    cache.resolved(hash, epoch, &found(entry(b"k", &long), place(1, 0)));
    assert!(cache.is_empty() && cache.stats().stale_inserts == 1);
    find(&long, 1, false);
    assert_eq!(pointer(&cache, b"k"), Some(place(1, 0)));
    // A flush: the old location is dropped before the new one is set.
    assert!(cache.update(hash, name(b"k"), Some(entry(b"k", &long))));
    assert_eq!(pointer(&cache, b"k"), None);
    cache.redirect(hash, KpEntry { pointer: place(2, 5), level: 0 });
    assert_eq!(pointer(&cache, b"k"), Some(place(2, 5)));
    for (from, hash) in cache.pointers_into(|table| table == 2, 9) {
        cache.relocate(hash, from, KpEntry { pointer: place(3, 1), level: 1 });
    }
    assert_eq!(pointer(&cache, b"k"), Some(place(3, 1)));
    assert_eq!(cache.stats().kp_moves, 1);
    find(&long, 3, true);
    assert_eq!(cache.len(), (1, 0));
    assert!(!cache.update(hash, name(b"k"), Some(entry(b"k", b"new"))));
    assert_eq!(value(&cache, b"k"), Some(b"new".to_vec()));
    cache.forget(|name| name.key == b"k", |_| false);
    assert!(cache.is_empty());
    // A short value is also forgotten by its name.
    find(b"short", 1, false);
    assert_eq!(cache.len(), (0, 1));
    cache.forget(|name| name.key == b"k", |_| false);
    find(&long, 1, false);
    cache.forget(|_| false, |table| table == 1);
    find(&long, 1, false);
    cache.update(hash, name(b"k"), None);
    assert!(cache.is_empty());
}

#[test]
fn range_and_dead_tables_are_dropped() {
    let cache = cache(64 << 10, 64 << 10);
    for key in [b"a", b"b", b"c", b"d"] {
        let hash = hash_of(name(key));
        let table = u64::from(key[0] - b'a') / 2;
        cache.resolved(hash, cache.epoch(hash), &found(entry(key, b"v"), place(table, 0)));
    }
    let other = Name { keyspace: 2, key: b"b" };
    let elsewhere = KvEntry { name: other, ..entry(b"b", b"w") };
    cache.resolved(hash_of(other), cache.epoch(hash_of(other)), &found(elsewhere, place(9, 0)));
    cache.forget(|n| n.keyspace == 1 && (&b"b"[..]..b"d").contains(&n.key), |table| table == 1);
    let left: Vec<bool> = [b"a", b"b", b"c", b"d"].map(|k| value(&cache, k).is_some()).into();
    assert_eq!(left, [true, false, false, true]);
    assert_eq!(pointer(&cache, b"b"), Some(place(0, 0)));
    assert_eq!(pointer(&cache, b"c"), None);
    let read = |entry: KvEntry<'_>| Some(entry.value == b"w");
    assert_eq!(cache.lookup(hash_of(other), other, read), PointCacheLookup::Value(true));
}

#[test]
fn invisible_version_is_a_miss() {
    let cache = cache(64 << 10, 64 << 10);
    let hash = hash_of(name(b"k"));
    cache.resolved(hash, cache.epoch(hash), &found(entry(b"k", b"v"), place(1, 0)));
    let unseen = cache.lookup(hash, name(b"k"), |_| None::<()>);
    assert_eq!(unseen, PointCacheLookup::Miss);
    assert!(value(&cache, b"k").is_some());
}

#[test]
fn short_fingerprints_limit_the_number_of_entries() {
    let cache = PointCache::new(hash_of, 1, 64 << 10);
    cache.set_fingerprint_bits(6);
    cache.set_capacities(0, 64 << 10);
    for n in 0..1000u32 {
        let key = n.to_be_bytes();
        let hash = hash_of(name(&key));
        cache.resolved(hash, cache.epoch(hash), &found(entry(&key, b"v"), place(1, n % 512)));
    }
    assert!((50..=64).contains(&cache.len().1), "{:?}", cache.len());
}
