//! Random entries are about equally likely, and estimate how many there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidekv_io::{InlineExecutor, ManualClock, MemoryStorage, Random, SeededRandom};

use super::*;
use crate::api::db::Db;
use crate::options::{Environment, Options};

fn open() -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_000));
    let environment = Environment::default()
        .storage(Arc::new(MemoryStorage::new()))
        .clock(clock.clone())
        .executor(Arc::new(InlineExecutor::new()));
    (Db::open("data", Options::new().environment(environment)).unwrap(), clock)
}

/// How often each key is drawn.
fn draws(keyspace: &Keyspace, count: usize) -> BTreeMap<Bytes, usize> {
    let random = SeededRandom::new(42);
    let mut drawn = BTreeMap::new();
    while drawn.values().sum::<usize>() < count {
        match keyspace.draw(|| random.next_u64()).unwrap() {
            Draw::Entry(key, entry) => {
                assert_eq!(keyspace.get_entry(&key).unwrap(), Some(entry));
                *drawn.entry(key).or_default() += 1;
            }
            Draw::Missed | Draw::Stale => {}
            Draw::Empty => panic!("there are entries"),
        }
    }
    drawn
}

fn assert_uniform(drawn: &BTreeMap<Bytes, usize>, keys: usize) {
    assert_eq!(drawn.len(), keys, "each key is drawn");
    let mean = drawn.values().sum::<usize>() / keys;
    for (key, &count) in drawn {
        assert!(count > mean / 2 && count < mean * 2, "{key:?}: {count} of {mean}");
    }
}

#[test]
fn keys_are_drawn_equally_often_from_memtables_and_tables() {
    let (db, clock) = open();
    let keyspace = db.keyspace("default").unwrap();
    assert_eq!(keyspace.draw(|| 0).unwrap(), Draw::Empty);
    let key = |i: usize| format!("user:{i}");
    for i in 0..400 {
        keyspace.put(key(i), vec![b'x'; i % 7 * 100]).unwrap();
    }
    assert_uniform(&draws(&keyspace, 40_000), 400);
    db.compact().unwrap();
    assert_uniform(&draws(&keyspace, 40_000), 400);
    // Overwritten in another table and in the memtable, deleted, expired, and ingested.
    (0..100).for_each(|i| keyspace.put(key(i), "again").unwrap());
    db.flush().unwrap();
    (0..50).for_each(|i| keyspace.put(key(i), "and again").unwrap());
    (50..100).for_each(|i| keyspace.delete(key(i)).unwrap());
    (100..150).for_each(|i| {
        keyspace.put_with_ttl(key(i), "", std::time::Duration::from_millis(5)).unwrap();
    });
    keyspace.delete_range("user:39", "user:40").unwrap();
    keyspace.ingest((500..550).map(|i| (key(i), "ingested"))).unwrap();
    clock.advance(std::time::Duration::from_millis(10));
    let keys = keyspace.iter().count();
    assert_uniform(&draws(&keyspace, 100 * keys), keys);
}

#[test]
fn the_share_of_entries_estimates_their_number() {
    let (db, _) = open();
    let keyspace = db.keyspace("default").unwrap();
    (0..3_000).for_each(|i| keyspace.put(format!("k{}", i % 1_000), "").unwrap());
    let random = SeededRandom::new(1);
    let drawn = |_| keyspace.draw(|| random.next_u64()).unwrap();
    let draws: Vec<Draw> = (0..4_000).map(drawn).collect();
    let count = |is: fn(&Draw) -> bool| draws.iter().filter(|draw| is(draw)).count() as u64;
    let found = count(|draw| matches!(draw, Draw::Entry(..)));
    let stale = count(|draw| *draw == Draw::Stale);
    assert_eq!(keyspace.versions(), 3_000);
    let estimate = keyspace.versions() * found / (found + stale);
    assert!(estimate > 900 && estimate < 1_100, "{estimate}");
}
