//! Many threads on a real directory with real background threads: counters add up, conditional
//! writes exclude each other, batches are never partially visible, reads never go back, while
//! flushes and compactions run.
//!
//! `TIDEKV_THREADS_SCALE` makes each test that many times longer. Each prints the number of
//! operations that the store counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidekv::{Commit, Db, Durability, Options, WriteBatch};

fn options() -> Options {
    Options::default().memory_bytes(16 << 20).memtable_bytes(64 << 10).table_bytes(64 << 10)
}

fn scale() -> u32 {
    std::env::var("TIDEKV_THREADS_SCALE").map_or(1, |scale| scale.parse().expect("a number"))
}

/// Prints the operations since the store was opened, for runs that count them.
fn report(db: &Db) {
    let statistics = db.statistics();
    let [gets, writes] = ["store.gets", "store.writes"].map(|name| statistics.counter(name));
    assert!(writes > 0);
    println!("operations: {}", gets + writes);
}

#[test]
fn increments_of_many_threads_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    let keyspace = db.keyspace("counters").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..1500 * scale() {
                    keyspace.increment(format!("counter-{}", i % 3), 1).unwrap();
                    keyspace.put(format!("filler-{i}"), vec![0; 100]).unwrap();
                }
            });
        }
    });
    for i in 0..3 {
        assert_eq!(
            keyspace.increment(format!("counter-{i}"), 0).unwrap(),
            2000 * i64::from(scale())
        );
    }
    report(&db);
}

#[test]
fn compare_and_set_lock_has_one_holder() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    let keyspace = db.keyspace("locks").unwrap();
    let inside = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut held = 0;
                while held < 200 * scale() {
                    if keyspace.compare_and_set("lock", None, Some(b"held")).unwrap() {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        keyspace.put("filler", vec![0; 2000]).unwrap();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        assert!(keyspace.compare_and_set("lock", Some(b"held"), None).unwrap());
                        held += 1;
                    }
                }
            });
        }
    });
    report(&db);
}

/// Two accounts in two keyspaces; transactions and batches move money between them. The sum is the
/// same in every snapshot.
#[test]
fn every_snapshot_sees_the_sum_that_transactions_keep() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    let keyspaces = [db.keyspace("left").unwrap(), db.keyspace("right").unwrap()];
    let mut batch = WriteBatch::new();
    keyspaces.iter().for_each(|keyspace| batch.put(keyspace, b"account", b"1000"));
    db.write(batch).unwrap();
    let number = |value: Option<tidekv::Bytes>| -> i64 {
        String::from_utf8(value.unwrap().to_vec()).unwrap().parse().unwrap()
    };
    let (done, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..3)
            .map(|t| {
                let (db, keyspaces, number, moved) = (&db, &keyspaces, &number, &moved);
                scope.spawn(move || {
                    for i in 0..600 * scale() as usize {
                        let (from, to) = (&keyspaces[(i + t) % 2], &keyspaces[(i + t + 1) % 2]);
                        let mut tx = db.transaction();
                        let balance = |tx: &mut tidekv::Transaction, k: &tidekv::Keyspace| {
                            number(tx.get(k, b"account").unwrap().map(|e| e.value))
                        };
                        let (a, b) = (balance(&mut tx, from), balance(&mut tx, to));
                        tx.put(from, b"account", (a - 7).to_string().as_bytes());
                        tx.put(to, b"account", (b + 7).to_string().as_bytes());
                        tx.put(from, format!("filler-{i}").as_bytes(), [0; 300]);
                        if tx.commit(Durability::Buffered).unwrap() == Commit::Done {
                            moved.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) || looks == 0 {
                let snapshot = db.snapshot();
                let sum: i64 =
                    keyspaces.iter().map(|k| number(snapshot.get(k, "account").unwrap())).sum();
                assert_eq!(sum, 2000);
                looks += 1;
            }
        });
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert!(moved.load(Ordering::Relaxed) > 300);
    report(&db);
    db.close().unwrap();
    drop((keyspaces, db));
    let db = Db::open(directory.path(), options()).unwrap();
    let sum: i64 = ["left", "right"]
        .iter()
        .map(|k| number(db.keyspace(k).unwrap().get("account").unwrap()))
        .sum();
    assert_eq!(sum, 2000);
}

/// Each key counts up; a reader that has seen a number never sees a smaller one, by get, multi_get,
/// iteration in either direction, or after a flush.
#[test]
fn reads_never_go_back() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    const KEYS: u64 = 50;
    let key = |k: u64| format!("key-{k:04}");
    let done = AtomicBool::new(false);
    let round = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1..=400 * u64::from(scale()) {
                for k in 0..KEYS {
                    let mut value = number.to_le_bytes().to_vec();
                    value.resize(150, 0);
                    keyspace.put(key(k), value).unwrap();
                }
                if number % 150 == 0 {
                    keyspace.compact_range::<&[u8]>(..).unwrap();
                }
                if number % 50 == 0 {
                    // On a busy machine one flush takes all waiting memtables.
                    keyspace.flush().unwrap();
                }
            }
        });
        for reader in 0..2u64 {
            let (keyspace, done) = (&keyspace, &done);
            scope.spawn(move || {
                let mut seen = vec![0u64; KEYS as usize];
                let mut dice = reader;
                while !done.load(Ordering::Relaxed) {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
                    let k = (dice >> 33) % KEYS;
                    let mut note = |k: u64, value: &[u8]| {
                        let number = round(value);
                        assert!(
                            number >= seen[k as usize],
                            "key {k}: {number} after {}",
                            seen[k as usize]
                        );
                        seen[k as usize] = number;
                    };
                    match dice >> 60 {
                        0 | 1 => {
                            let walk: Box<dyn Iterator<Item = _>> = if dice >> 60 == 0 {
                                Box::new(keyspace.iter())
                            } else {
                                Box::new(keyspace.iter().rev())
                            };
                            for item in walk {
                                let (found, entry) = item.unwrap();
                                let k = std::str::from_utf8(&found[4..]).unwrap().parse().unwrap();
                                note(k, &entry.value);
                            }
                        }
                        2 => {
                            let keys = [key(k), key((k + 1) % KEYS)];
                            for (i, entry) in
                                keyspace.multi_get(&keys).unwrap().into_iter().enumerate()
                            {
                                if let Some(entry) = entry {
                                    note((k + i as u64) % KEYS, &entry.value);
                                }
                            }
                        }
                        _ => {
                            if let Some(value) = keyspace.get(key(k)).unwrap() {
                                note(k, &value);
                            }
                        }
                    }
                }
            });
        }
        let outcome = writer.join();
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    let flushes = db.statistics().counter("flush.count");
    assert!(flushes > 5, "only {flushes} flushes ran");
    report(&db);
}
