//! The budget while a store is written and read.

use std::sync::Arc;

use tidekv_io::{InlineExecutor, MemoryStorage};

use crate::{Attempt, Db, Environment, Keyspace, Options};

const BUDGET: u64 = 16 << 20;

const VALUE_BYTES: usize = 4 << 10;

fn store() -> (Db, Keyspace) {
    let environment = Environment::default()
        .storage(Arc::new(MemoryStorage::new()))
        .executor(Arc::new(InlineExecutor::new()));
    let options = Options::default().memory_bytes(BUDGET).environment(environment);
    let db = Db::open("db", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn cache_bytes_max(db: &Db) -> u64 {
    db.statistics().counter("memory.cache_bytes_max")
}

/// Nothing is given to two: what memtables and open tables take and what the
/// cache may take fit the budget.
fn check(db: &Db) {
    let statistics = db.statistics();
    let of = |name: &str| statistics.counter(name);
    let taken = of("memory.memtable_bytes") + of("memory.metadata_bytes");
    assert!(taken + of("memory.cache_bytes_max") <= BUDGET, "{:?}", statistics.counters);
    assert!(of("memory.cache_bytes") <= of("memory.cache_bytes_max"));
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

#[test]
fn the_cache_has_what_memtables_do_not_take() {
    let (db, keyspace) = store();
    let at_rest = cache_bytes_max(&db);
    assert!(at_rest > BUDGET / 8 * 7, "{at_rest}");
    let metadata = || db.statistics().counter("memory.metadata_bytes");
    let (of_keyspace, mut least) = (metadata(), at_rest);
    for i in 0..4000 {
        keyspace.put(key(i), [i as u8; VALUE_BYTES]).unwrap();
        if i % 8 == 0 {
            // So that there is something in the cache to be pushed out.
            keyspace.get(key(i / 2)).unwrap();
        }
        check(&db);
        least = least.min(cache_bytes_max(&db));
    }
    assert!(db.statistics().counter("flush.count") > 2);
    assert!(at_rest - least > BUDGET / 16, "{least} of {at_rest}: it never gave way");

    db.flush().unwrap();
    assert_eq!(cache_bytes_max(&db) + metadata() - of_keyspace, at_rest);
    for i in 0..4000 {
        assert_eq!(&keyspace.get(key(i)).unwrap().unwrap()[..], &[i as u8; VALUE_BYTES]);
    }
    check(&db);
    assert!(db.statistics().counter("memory.cache_bytes") > BUDGET / 4 * 3);
}

/// Those of an event loop, which never wait for room.
#[test]
fn writes_that_do_not_wait_push_blocks_out_as_well() {
    let (db, keyspace) = store();
    let at_rest = cache_bytes_max(&db);
    for i in 0..200 {
        let mut transaction = db.transaction();
        transaction.put(&keyspace, key(i), [i as u8; VALUE_BYTES]);
        assert_eq!(transaction.try_commit().unwrap(), Attempt::Done);
        check(&db);
    }
    let taken = db.statistics().counter("memory.memtable_bytes");
    assert!(at_rest - cache_bytes_max(&db) >= taken / 2, "{taken} bytes");
}

/// A flush of a few bytes is mostly syncs.
#[test]
fn only_flushes_of_full_memtables_tell_how_fast_flushes_are() {
    let (db, keyspace) = store();
    let rate = || db.engine().memory.flush_bytes_per_s();
    keyspace.put(key(0), "1").unwrap();
    db.flush().unwrap();
    assert_eq!(rate(), 0);
    (0..600).for_each(|i| keyspace.put(key(i), [1; VALUE_BYTES]).unwrap());
    assert!(db.statistics().counter("flush.count") > 1 && rate() > 0);
}

/// 200 000 puts to 10 000 keyspaces left 60 000 tables, which took more memory than the budget has.
#[test]
fn tables_that_merges_would_close_are_a_backlog() {
    let (db, _) = store();
    let all: Vec<_> = (0..50).map(|n| db.keyspace(&format!("k{n}")).unwrap()).collect();
    let backlog = || db.engine().memory.backlog(&db.engine().trees);
    let flush = |value: &str| {
        all.iter().for_each(|keyspace| keyspace.put("key", value).unwrap());
        db.flush().unwrap();
    };
    flush("1");
    assert_eq!(backlog().mergeable_bytes, 0, "one table for each");
    flush("2");
    let of_one_flush = backlog().mergeable_bytes;
    assert!(of_one_flush > 50 * 500, "{of_one_flush}");
    flush("3");
    assert_eq!(backlog().mergeable_bytes, 2 * of_one_flush);
    assert_eq!(backlog().mergeable_bytes_slow, BUDGET / 8);
    db.compact().unwrap();
    assert_eq!(backlog().mergeable_bytes, 0);
}
