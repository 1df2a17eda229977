//! What scans pay for a run too many.

use std::sync::Arc;

use tidekv_io::{InlineExecutor, MemoryStorage};

use crate::manifest::LEVELS;
use crate::{CachePolicy, Db, Environment, Keyspace, Options};

const KEYS: u32 = 2000;

/// A store with much in its last level and a little of it, newer, in level 0. It has no
/// memory for blocks, and nothing is put in order at rest.
fn little_above_much() -> (Db, Keyspace) {
    let environment = Environment {
        storage: Some(Arc::new(MemoryStorage::new())),
        executor: Some(Arc::new(InlineExecutor::new())),
        ..Environment::default()
    };
    let cache_policy = CachePolicy::BlockOnly;
    let options = Options { cache_bytes_max: 0, cache_policy, environment, ..Options::default() };
    let db = Db::open("/d", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.ingest((0..KEYS).map(|n| (n.to_be_bytes(), [1; 1000]))).unwrap();
    for n in (0..KEYS).step_by(20) {
        keyspace.put(n.to_be_bytes(), [2; 1000]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(tables(&keyspace), (1, 1));
    (db, keyspace)
}

/// In level 0 and in the last one.
fn tables(keyspace: &Keyspace) -> (usize, usize) {
    let version = keyspace.tree().version();
    (version.level(0).len(), version.level(LEVELS - 1).len())
}

/// What seeks have read in level 0, and what it would cost to merge it, in bytes.
fn paid_and_price(keyspace: &Keyspace) -> (u64, u64) {
    let version = keyspace.tree().version();
    let all: u64 = version.tables().map(|table| table.meta().bytes).sum();
    (version.level(0).iter().map(|table| table.seek_bytes()).sum(), 2 * all)
}

/// Reads three entries from somewhere on, forward or backward; the number of its storage reads.
fn scan(db: &Db, keyspace: &Keyspace, lot: u32) -> u64 {
    let reads = || db.statistics().counter("io.reads");
    let (before, from) = (reads(), lot.wrapping_mul(2_654_435_761) % (KEYS - 10));
    let is_new = |n: u32| n.is_multiple_of(20);
    let check = |item: crate::Result<(bytes::Bytes, crate::Entry)>, n: u32| {
        let (key, entry) = item.unwrap();
        let expected = if is_new(n) { 2 } else { 1 };
        assert_eq!((&*key, entry.value[0]), (&n.to_be_bytes()[..], expected));
    };
    if lot.is_multiple_of(2) {
        let walk = keyspace.range(from.to_be_bytes()..);
        walk.take(3).zip(from..).for_each(|(item, n)| check(item, n));
    } else {
        let walk = keyspace.range(..(from + 3).to_be_bytes()).rev();
        walk.take(3).zip((from..from + 3).rev()).for_each(|(item, n)| check(item, n));
    }
    reads() - before
}

#[test]
fn a_run_in_which_scans_have_read_as_much_as_merging_it_costs_is_merged() {
    let (db, keyspace) = little_above_much();
    let (mut scans, mut reads, mut last_paid) = (0, 0, 0);
    let price = paid_and_price(&keyspace).1;
    while tables(&keyspace).0 > 0 {
        last_paid = paid_and_price(&keyspace).0;
        reads += scan(&db, &keyspace, scans);
        scans += 1;
        assert!(scans < 20_000, "{last_paid} of {price}");
    }
    // Somebody looks for each mebibyte that was paid, in whatever run.
    assert!((price..price + (2 << 20)).contains(&last_paid), "{last_paid} of {price}");
    assert_eq!(db.statistics().counter("compaction.for_seeks"), 1);
    let later: u64 = (0..scans).map(|lot| scan(&db, &keyspace, lot)).sum();
    assert!(later * 3 < reads * 2, "{reads} and then {later} reads");
    assert_eq!(db.statistics().counter("compaction.for_seeks"), 1, "one run is one run");
}

#[test]
fn what_does_not_seek_pays_for_no_merge() {
    let (db, keyspace) = little_above_much();
    for n in 0..KEYS {
        assert!(keyspace.get(n.to_be_bytes()).unwrap().is_some());
    }
    assert_eq!(paid_and_price(&keyspace).0, 0, "gets have filters");
    assert_eq!(keyspace.iter().count(), KEYS as usize);
    assert_eq!(keyspace.iter().rev().count(), KEYS as usize);
    // For each walk a block of the index and one of data, whatever it goes through.
    let paid = paid_and_price(&keyspace).0;
    assert!((1..5 * 5000).contains(&paid), "{paid}");
    assert_eq!(db.statistics().counter("compaction.for_seeks"), 0);
}

#[test]
fn what_failed_is_not_tried_again_by_readers() {
    let (db, keyspace) = little_above_much();
    let failure = keyspace.put([0; 1 << 17], "").unwrap_err();
    db.engine().background_errors.lock().compaction = Some(failure);
    let mut scans = 0..;
    let mut pay = || {
        let (paid, price) = paid_and_price(&keyspace);
        while paid_and_price(&keyspace).0.max(1) < paid + price + (3 << 20) {
            scan(&db, &keyspace, scans.next().expect("numbers do not end"));
            if tables(&keyspace).0 == 0 {
                return true;
            }
        }
        false
    };
    assert!(!pay());
    db.engine().background_errors.lock().compaction = None;
    assert!(pay());
}
