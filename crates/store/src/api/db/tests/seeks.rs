//! What scans pay for a run too many.

use std::sync::Arc;

use tidekv_io::{InlineExecutor, MemoryStorage};

use crate::compaction::picker;
use crate::format::LEVELS;
use crate::version::levels::{TableHandle, Version};
use crate::{Db, Environment, Keyspace, Options};
use tidekv_cache::CachePolicy;

const KEYS: u32 = 2000;

/// A store with much in its last level and a little of it, newer, in level 0. It has no
/// memory for blocks, and nothing is put in order at rest.
fn little_above_much() -> (Db, Keyspace) {
    let (db, keyspace) = little_above_much_on(&MemoryStorage::new(), Options::default());
    assert_eq!(tables(&keyspace).1, 1);
    (db, keyspace)
}

fn little_above_much_on(disk: &MemoryStorage, options: Options) -> (Db, Keyspace) {
    let environment = Environment::default()
        .storage(Arc::new(disk.clone()))
        .executor(Arc::new(InlineExecutor::new()));
    let cache_policy = CachePolicy::BlockOnly;
    let options =
        options.cache_policy(cache_policy).environment(environment).with_research(|research| {
            research.cache_bytes_max = 0;
        });
    let db = Db::open("/d", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.ingest((0..KEYS).map(|n| (n.to_be_bytes(), [1; 1000]))).unwrap();
    for n in (0..KEYS).step_by(20) {
        keyspace.put(n.to_be_bytes(), [2; 1000]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(tables(&keyspace).0, 1);
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
    assert_eq!(db.statistics().counter("compaction.seek_triggered"), 1);
    let later: u64 = (0..scans).map(|lot| scan(&db, &keyspace, lot)).sum();
    assert!(later * 3 < reads * 2, "{reads} and then {later} reads");
    assert_eq!(db.statistics().counter("compaction.seek_triggered"), 1, "one run is one run");
}

#[test]
fn a_look_comes_the_sooner_the_smaller_tables_are() {
    let options = Options::default().table_bytes(64 << 10);
    let (db, keyspace) = little_above_much_on(&MemoryStorage::new(), options);
    let (price, mut last_paid) = (paid_and_price(&keyspace).1, 0);
    assert!(tables(&keyspace).1 > 20);
    scan_until(&db, &keyspace, || {
        let is_merged = tables(&keyspace).0 == 0;
        last_paid = if is_merged { last_paid } else { paid_and_price(&keyspace).0 };
        is_merged
    });
    // But for the last table, which nothing above it meets.
    assert!(last_paid.abs_diff(price) < 128 << 10, "{last_paid} of {price}");
}

#[test]
fn reads_without_seeks_trigger_no_compaction() {
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
    assert_eq!(db.statistics().counter("compaction.seek_triggered"), 0);
}

/// Scans until `is_over`, from other places each time.
fn scan_until(db: &Db, keyspace: &Keyspace, mut is_over: impl FnMut() -> bool) {
    let mut lots = 0..200_000;
    while !is_over() {
        scan(db, keyspace, lots.next().expect("it is never over"));
    }
}

#[test]
fn a_seek_pays_where_it_reads_alone() {
    let (db, keyspace) = little_above_much();
    db.compact().unwrap();
    assert_eq!(tables(&keyspace), (0, 1));
    let paid = || keyspace.tree().version().level(LEVELS - 1)[0].seek_bytes();
    let before = paid();
    scan(&db, &keyspace, 1);
    // A block of the index and one of data.
    assert!((2 * 1000..2 * 5000).contains(&(paid() - before)), "{}", paid() - before);
    (2..5000).for_each(|lot| assert!(scan(&db, &keyspace, lot) > 0));
    assert_eq!(db.statistics().counter("compaction.seek_triggered"), 0, "one run is one run");
}

/// A small flush above a run that had paid for most of its merge had both merged within level
/// 0, for what the one had paid; and so on with each flush.
#[test]
fn seek_bytes_of_a_run_survive_a_compaction_within_level_0() {
    let (db, keyspace) = little_above_much();
    let price = paid_and_price(&keyspace).1;
    scan_until(&db, &keyspace, || paid_and_price(&keyspace).0 > price / 2);
    let paid = paid_and_price(&keyspace).0;
    for n in [0, KEYS - 20] {
        keyspace.put(n.to_be_bytes(), [2; 1000]).unwrap();
    }
    db.flush().unwrap();
    let of_newest = || keyspace.tree().version().level(0)[0].seek_bytes();
    assert_eq!((tables(&keyspace), of_newest()), ((2, 1), 0));
    // Two mebibytes paid: somebody has looked.
    scan_until(&db, &keyspace, || tables(&keyspace).0 == 1 || of_newest() > 2 << 20);
    let version = keyspace.tree().version();
    let within = 2 * version.level(0).iter().map(|table| table.meta().bytes).sum::<u64>();
    assert_eq!(tables(&keyspace), (1, 1), "one run spares seeks the other");
    let left = paid_and_price(&keyspace).0;
    assert!(left >= paid, "{left} of {paid} are left, and {within} were the price");
    scan_until(&db, &keyspace, || tables(&keyspace).0 == 0);
    assert_eq!(db.statistics().counter("compaction.seek_triggered"), 2);
}

#[test]
fn a_merge_that_fails_is_paid_for_again() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = little_above_much_on(&disk, Options::default());
    let failures = || db.statistics().counter("background.errors");
    let price = paid_and_price(&keyspace).1;
    disk.set_capacity(Some(0));
    scan_until(&db, &keyspace, || failures() == 1);
    let left = paid_and_price(&keyspace).0;
    assert!(left < 2 << 20, "{left} of {price} were not spent");
    scan_until(&db, &keyspace, || paid_and_price(&keyspace).0 > price - (1 << 20));
    assert_eq!((failures(), tables(&keyspace)), (1, (1, 1)));
    disk.set_capacity(None);
    scan_until(&db, &keyspace, || tables(&keyspace).0 == 0);
    assert_eq!(failures(), 1);
}

/// Moves level 0 above the last level; what merging that would cost.
fn to_a_level_between(db: &Db, keyspace: &Keyspace) -> u64 {
    let (engine, tree) = (db.engine(), keyspace.tree());
    let down = |version: &Version| picker::pick_wanted(version, 0, LEVELS - 2, |_| true);
    let compaction = engine.claim(tree, down).unwrap();
    engine.compact_here(tree, compaction).unwrap();
    2 * tree.version().tables().map(|table| table.meta().bytes).sum::<u64>()
}

/// The tables above the last level, below level 0.
fn between(keyspace: &Keyspace) -> Vec<Arc<TableHandle>> {
    keyspace.tree().version().level(LEVELS - 2).to_vec()
}

#[test]
fn a_table_of_a_level_between_is_merged_once_it_is_paid_for() {
    let (db, keyspace) = little_above_much();
    let price = to_a_level_between(&db, &keyspace);
    let mut last_paid = 0;
    scan_until(&db, &keyspace, || {
        let between = between(&keyspace);
        last_paid = between.first().map_or(last_paid, |table| table.seek_bytes());
        between.is_empty()
    });
    assert!((price..price + (2 << 20)).contains(&last_paid), "{last_paid} of {price}");
    assert_eq!(db.statistics().counter("compaction.seek_triggered"), 1);
}

#[test]
fn seek_bytes_of_a_table_survive_a_compaction_into_it() {
    let (db, keyspace) = little_above_much();
    let price = to_a_level_between(&db, &keyspace);
    let paid = || between(&keyspace).iter().map(|table| table.seek_bytes()).sum::<u64>();
    scan_until(&db, &keyspace, || paid() > price / 2);
    let before = paid();
    keyspace.put(0u32.to_be_bytes(), [2; 1000]).unwrap();
    db.flush().unwrap();
    to_a_level_between(&db, &keyspace);
    assert_eq!((tables(&keyspace).0, between(&keyspace).len(), paid()), (0, 1, before));
}

#[test]
fn no_merge_for_seeks_begins_beside_another() {
    let (db, keyspace) = little_above_much();
    let price = paid_and_price(&keyspace).1;
    let jobs = &db.engine().jobs;
    jobs.compaction_begins();
    scan_until(&db, &keyspace, || paid_and_price(&keyspace).0 > price + (3 << 20));
    assert_eq!(tables(&keyspace), (1, 1));
    jobs.compaction_ends();
    scan_until(&db, &keyspace, || tables(&keyspace).0 == 0);
}
