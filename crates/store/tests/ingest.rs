//! Bulk ingests of many tables into a store with data: they do not stall writers, reads are
//! correct, and an ingest waits for merges as a write does.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use support::held::HeldExecutor;
use support::{DIRECTORY, Dice, Limits, START_MS, TINY, options, within};
use tidekv::{Bytes, Db, Entry, Keyspace};
use tidekv_io::{ManualClock, MemoryStorage};

/// Tables of a few keys.
const SMALL_TABLES: Limits = Limits { memtable_bytes: 16 << 10, table_bytes: 4 << 10 };

/// A store whose background work runs on request.
fn open_held() -> (Db, Keyspace, Arc<HeldExecutor>) {
    let held = Arc::new(HeldExecutor::default());
    let clock = Arc::new(ManualClock::new(START_MS));
    let mut options = options(&MemoryStorage::new(), &clock, SMALL_TABLES);
    options.environment.executor = Some(held.clone());
    let db = Db::open(DIRECTORY, options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace, held)
}

fn key(n: u64) -> String {
    format!("key-{n:05}")
}

/// Some 300 incompressible bytes.
fn value(n: u64, age: &str) -> String {
    let mut dice = Dice(n + 1);
    let noise: String = (0..50).map(|_| format!("{:06x}", dice.below(1 << 24))).collect();
    format!("{age} {n} {noise}")
}

fn ingest(keyspace: &Keyspace, keys: impl Iterator<Item = u64>, age: &str) {
    keyspace.ingest(keys.map(|n| (key(n), value(n, age)))).unwrap();
}

fn entries(items: impl Iterator<Item = tidekv::Result<(Bytes, Entry)>>) -> Vec<(Bytes, Bytes)> {
    items.map(|item| item.map(|(key, entry)| (key, entry.value)).unwrap()).collect()
}

#[test]
fn tables_of_one_ingest_do_not_stall_writers() {
    let (db, keyspace, held) = open_held();
    ingest(&keyspace, 0..1200, "old");
    ingest(&keyspace, (0..1200).filter(|n: &u64| n.is_multiple_of(2)), "new");
    let of_level0 = db.statistics().counter("level0.tables");
    assert!(of_level0 > 36, "{of_level0} tables would stop writers, were they not one run");
    let writer = keyspace.clone();
    // Large enough that writers check the pending compactions.
    let write = move |n| writer.put("key-99999", value(n, "written")).unwrap();
    within(20, move || (0..200).for_each(write)).expect("writers go on");
    let age = |n: u64| if n.is_multiple_of(2) { "new" } else { "old" };
    let assert_right = || {
        let found = entries(keyspace.iter());
        assert_eq!(found.len(), 1201);
        for (n, (found_key, found)) in (0..1200).zip(&found) {
            assert_eq!((found_key, found), (&key(n).into(), &value(n, age(n)).into()));
            assert_eq!(keyspace.get(key(n)).unwrap().unwrap(), found);
        }
        let mut back = entries(keyspace.iter().rev());
        back.reverse();
        assert_eq!(back, found);
    };
    assert_right();
    held.run();
    assert!(db.statistics().counter("level0.tables") < of_level0);
    assert_right();
}

/// Writers did not cause them, and waiting would not reduce them.
#[test]
fn ingested_data_is_not_compaction_debt_of_writers() {
    let (_db, keyspace, held) = open_held();
    let other = keyspace.clone();
    let bring = move || {
        // Enough levels that a new table has two levels to go through.
        ingest(&other, 0..5000, "old");
        // Eleven times the bytes of these would stop writers.
        for age in 0..14 {
            ingest(&other, (0..600).map(|n| 8 * n), &age.to_string());
        }
        (0..200).for_each(|n| other.put("key-99999", value(n, "written")).unwrap());
    };
    within(60, bring).expect("ingests and writes continue");
    held.run();
    assert_eq!(keyspace.get(key(4792)).unwrap().unwrap(), value(4792, "13").as_bytes());
}

#[test]
fn ingest_stalls_where_a_write_would() {
    let (_db, keyspace, held) = open_held();
    // Each is a run of its own, and no job merges them.
    for age in 0..37 {
        ingest(&keyspace, [0, 9].into_iter(), &age.to_string());
    }
    let (sender, receiver) = mpsc::channel();
    let other = keyspace.clone();
    #[allow(clippy::disallowed_methods, reason = "a real thread waits")]
    std::thread::spawn(move || {
        ingest(&other, [0, 9].into_iter(), "last");
        sender.send(()).unwrap();
    });
    assert!(receiver.recv_timeout(Duration::from_secs(1)).is_err(), "it waits");
    held.run();
    receiver.recv_timeout(Duration::from_secs(30)).expect("there is room now");
    assert_eq!(keyspace.get(key(9)).unwrap().unwrap(), value(9, "last").as_bytes());
}

/// Ingests of several overlapping tables, with writes and range deletions in between, iterated from
/// both sides, from any position, in the present and at a snapshot.
#[test]
fn overlapping_ingests_are_read_in_order() {
    for seed in 0..6 {
        let (mut dice, mut model) = (Dice(seed), BTreeMap::new());
        let clock = Arc::new(ManualClock::new(START_MS));
        let db = Db::open(DIRECTORY, options(&MemoryStorage::new(), &clock, TINY)).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let mut kept = (db.snapshot(), model.clone());
        for round in 0..60u64 {
            let age = format!("{round}");
            let first = dice.below(300);
            match dice.below(5) {
                0 => {
                    keyspace.put(key(first), value(first, &age)).unwrap();
                    model.insert(Bytes::from(key(first)), Bytes::from(value(first, &age)));
                }
                1 => {
                    let end = first + 1 + dice.below(20);
                    keyspace.delete_range(key(first), key(end)).unwrap();
                    model
                        .retain(|k, _| **k < *key(first).as_bytes() || **k >= *key(end).as_bytes());
                }
                2 => kept = (db.snapshot(), model.clone()),
                _ => {
                    let step = 1 + dice.below(3);
                    let keys: Vec<u64> =
                        (0..30 + dice.below(60)).map(|at| first + at * step).collect();
                    ingest(&keyspace, keys.iter().copied(), &age);
                    let fresh = |&n: &u64| (Bytes::from(key(n)), Bytes::from(value(n, &age)));
                    model.extend(keys.iter().map(fresh));
                }
            }
            let from = key(dice.below(500));
            let to = key(dice.below(500));
            let range = if from < to { from..to } else { to..from };
            let of = |model: &BTreeMap<Bytes, Bytes>| -> Vec<(Bytes, Bytes)> {
                let range = Bytes::from(range.start.clone())..Bytes::from(range.end.clone());
                model.range(range).map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            let mut backward = entries(keyspace.range(range.clone()).rev());
            backward.reverse();
            assert_eq!(entries(keyspace.range(range.clone())), of(&model), "round {round}");
            assert_eq!(backward, of(&model), "round {round}");
            let (snapshot, then) = &kept;
            let seen = snapshot.range(&keyspace, range.clone());
            assert_eq!(entries(seen), of(then), "round {round}");
        }
        db.compact().unwrap();
        assert_eq!(entries(keyspace.iter()), model.into_iter().collect::<Vec<_>>());
    }
}
