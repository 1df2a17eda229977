//! Counters of lookups that read storage are exact, to the last read.

mod support;

use std::sync::Arc;

use support::{DIRECTORY, Limits, START_MS, count, options};
use tidekv::Db;
use tidekv_cache::CachePolicy;
use tidekv_io::{ManualClock, MemoryStorage};

const ROOMY: Limits = Limits { memtable_bytes: 1 << 20, table_bytes: 256 << 10 };
const ENTRIES: u64 = 20_000;
const LEVELS: [&str; 8] =
    ["level0", "level1", "level2", "level3", "level4", "level5", "level6", "not_found"];

fn key(n: u64) -> String {
    format!("key-{n:06}")
}

/// A store with all keys in the last level, newer versions of a tenth in level 0, and a tiny cache.
fn store(policy: CachePolicy) -> Db {
    let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
    let options = options(&disk, &clock, ROOMY).cache_policy(policy).with_research(|research| {
        research.cache_bytes_max = 200 << 10;
    });
    let db = Db::open(DIRECTORY, options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (0..ENTRIES).for_each(|n| keyspace.put(key(2 * n), [b'v'; 50]).unwrap());
    db.compact().unwrap();
    (0..ENTRIES).step_by(10).for_each(|n| keyspace.put(key(2 * n), [b'w'; 50]).unwrap());
    db.flush().unwrap();
    db
}

fn of_ends(db: &Db, what: &str) -> u64 {
    LEVELS.iter().map(|end| count(db, &format!("cold_lookups.{end}.{what}"))).sum()
}

#[test]
fn every_read_counts_for_the_end_of_its_lookup() {
    for policy in
        [CachePolicy::BlockOnly, CachePolicy::Adaptive, CachePolicy::Fixed { kv: 0, kp: 60 }]
    {
        let db = store(policy);
        let keyspace = db.keyspace("k").unwrap();
        let (io, cold) = (count(&db, "io.reads"), of_ends(&db, "reads"));
        for n in (0..ENTRIES).step_by(7).chain((0..ENTRIES).step_by(21)) {
            assert!(keyspace.get(key(2 * n)).unwrap().is_some());
        }
        assert!(count(&db, "cold_lookups.level0.count") > 0, "{policy}");
        assert_eq!(count(&db, "cold_lookups.not_found.count"), 0, "{policy}");
        for n in (0..ENTRIES).step_by(7) {
            assert_eq!(keyspace.get(key(2 * n + 1)).unwrap(), None);
        }
        let reads = of_ends(&db, "reads");
        assert_eq!(reads - cold, count(&db, "io.reads") - io, "{policy}");
        assert!(count(&db, "cold_lookups.not_found.count") > 0, "{policy}");
        let elsewhere =
            count(&db, "cold_lookups.filter_reads") + count(&db, "cold_lookups.wasted_reads");
        assert!(0 < elsewhere && elsewhere < reads, "{policy}: {elsewhere} of {reads}");
        assert!(
            count(&db, "cold_lookups.wasted_reads")
                >= count(&db, "cold_lookups.not_found.count") / 100
        );

        let lengths = (1..8).map(|n| format!("cold_lookups.by_reads.{n}"));
        let lengths = lengths.chain(["cold_lookups.by_reads.8_or_more".to_owned()]);
        let lookups: u64 = lengths.map(|name| count(&db, &name)).sum();
        assert_eq!(lookups, of_ends(&db, "count"), "{policy}");
    }
}

#[test]
fn lookup_in_memory_is_not_counted() {
    let db = store(CachePolicy::Adaptive);
    let keyspace = db.keyspace("k").unwrap();
    keyspace.get(key(0)).unwrap();
    let before = of_ends(&db, "count");
    assert_eq!(before, 1);
    keyspace.get(key(0)).unwrap();
    assert_eq!(of_ends(&db, "count"), before);
}

/// A batch reads a block once, and all of its keys have waited for it.
#[test]
fn shared_block_read_counts_for_each_waiting_lookup() {
    let db = store(CachePolicy::BlockOnly);
    let keyspace = db.keyspace("k").unwrap();
    let io = count(&db, "io.reads");
    let keys: Vec<String> = (1..9).map(|n| key(2 * n)).collect();
    assert!(keyspace.multi_get(&keys).unwrap().iter().all(Option::is_some));
    assert_eq!(of_ends(&db, "count"), 8);
    let io = count(&db, "io.reads") - io;
    assert!(io < 8 && of_ends(&db, "reads") >= 8, "{io} reads");
    assert_eq!(count(&db, "cold_lookups.reads"), of_ends(&db, "reads"));
}
