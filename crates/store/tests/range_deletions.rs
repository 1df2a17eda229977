//! Range deletions without an end: `delete_from` and `clear`.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{DIRECTORY, START_MS, collect, count, options};
use tidekv::{Commit, Db, Durability, Environment, KEY_BYTES_MAX, Keyspace, Options, WriteBatch};
use tidekv_io::{ManualClock, MemoryStorage, Tear};

fn opened(disk: &MemoryStorage) -> (Db, Keyspace) {
    let clock = Arc::new(ManualClock::new(START_MS));
    let limits = support::Limits { memtable_bytes: 1 << 20, table_bytes: 1 << 20 };
    let db = Db::open(DIRECTORY, options(disk, &clock, limits)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn keys(keyspace: &Keyspace) -> Vec<Vec<u8>> {
    collect(keyspace.iter()).into_iter().map(|(key, _)| key).collect()
}

/// A key of `len` bytes, the largest of that length.
fn largest(len: usize) -> Vec<u8> {
    vec![0xff; len]
}

#[test]
fn every_key_from_the_start_on_is_deleted_wherever_it_is() {
    for long_len in [1, 2, 300, KEY_BYTES_MAX] {
        let (db, keyspace) = opened(&MemoryStorage::new());
        let fill = |round: u8| {
            for key in [&b"a"[..], b"m", b"z", &largest(long_len)] {
                keyspace.put(key, [round]).unwrap();
            }
        };
        // In a table, in a full memtable and in the active one.
        fill(1);
        keyspace.put(largest(long_len), "only in the table").unwrap();
        keyspace.flush().unwrap();
        keyspace.put("zz", "in the memtable").unwrap();
        let snapshot = db.snapshot();
        keyspace.delete_from("m").unwrap();
        assert_eq!(keys(&keyspace), [b"a"], "{long_len}");
        assert_eq!(collect(snapshot.iter(&keyspace)).len(), 5);
        fill(2);
        keyspace.delete_from(largest(long_len)).unwrap();
        assert_eq!(keys(&keyspace), [&b"a"[..], b"m", b"z"]);
        keyspace.delete_from("").unwrap();
        assert_eq!(keys(&keyspace), [[0; 0]; 0]);
        assert_eq!(collect(snapshot.iter(&keyspace)).len(), 5);
        drop(snapshot);
        fill(3);
        db.compact().unwrap();
        assert_eq!(keys(&keyspace).len(), 4, "newer than the deletion");
    }
}

#[test]
fn puts_of_a_batch_are_deleted_if_they_come_before() {
    let (db, keyspace) = opened(&MemoryStorage::new());
    let other = db.keyspace("other").unwrap();
    other.put("x", "kept").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, largest(9), "before");
    batch.put(&other, largest(20), "kept");
    batch.delete_from(&keyspace, "");
    batch.put(&keyspace, "after", "after");
    batch.put(&keyspace, largest(30), "after");
    db.write(batch).unwrap();
    assert_eq!(keys(&keyspace), [b"after".to_vec(), largest(30)]);
    assert_eq!(keys(&other).len(), 2);
}

#[test]
fn a_transaction_reads_its_own_deletions() {
    let (db, keyspace) = opened(&MemoryStorage::new());
    for key in ["a", "b", "c"] {
        keyspace.put(key, "old").unwrap();
    }
    let mut transaction = db.transaction();
    transaction.put(&keyspace, "d", "own");
    transaction.delete_from(&keyspace, "b");
    transaction.put(&keyspace, "c", "own");
    let mut read = |key: &str| transaction.get(&keyspace, key).unwrap().map(|entry| entry.value);
    assert_eq!(read("a").unwrap(), "old");
    assert_eq!((read("b"), read("d")), (None, None));
    assert_eq!(read("c").unwrap(), "own");
    let all = transaction.prefix(&keyspace, "").unwrap();
    assert_eq!(all.iter().map(|(key, _)| &key[..]).collect::<Vec<_>>(), [b"a", b"c"]);
    assert_eq!(transaction.commit(Durability::Buffered).unwrap(), Commit::Done);
    assert_eq!(keys(&keyspace), [b"a", b"c"]);
}

#[test]
fn a_deleted_key_has_changed_for_other_transactions() {
    let (db, keyspace) = opened(&MemoryStorage::new());
    keyspace.put("b", "old").unwrap();
    for (start, expected) in [("b", Commit::Conflict), ("c", Commit::Done)] {
        keyspace.put("b", "old").unwrap();
        keyspace.put("d", "old").unwrap();
        let mut transaction = db.transaction();
        transaction.get(&keyspace, "b").unwrap();
        transaction.put(&keyspace, "a", "new");
        keyspace.delete_from(start).unwrap();
        assert_eq!(transaction.commit(Durability::Buffered).unwrap(), expected, "{start}");
    }
}

#[test]
fn a_killed_store_deletes_the_same_keys_again() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = opened(&disk);
    for i in 0..2000u32 {
        keyspace.put([&largest(4)[..], &i.to_be_bytes()].concat(), vec![7; 1000]).unwrap();
    }
    keyspace.put("a", "kept").unwrap();
    keyspace.delete_from(largest(1)).unwrap();
    keyspace.put(largest(5), "after").unwrap();
    db.sync().unwrap();
    let killed = disk.after_power_loss(Tear::DropUnsynced);
    drop((db, keyspace));
    let (_db, keyspace) = opened(&killed);
    assert_eq!(keys(&keyspace), [b"a".to_vec(), largest(5)]);
}

/// The server's `FLUSHALL` on a full disk took 65 KB of log, and as much of each table, for every
/// keyspace.
#[test]
fn a_deletion_without_an_end_takes_a_few_bytes() {
    let (db, keyspace) = opened(&MemoryStorage::new());
    let mut key = vec![b'k'; KEY_BYTES_MAX];
    keyspace.put(&key, "in a table").unwrap();
    keyspace.flush().unwrap();
    key[9] = b'l';
    keyspace.put(&key, "in the memtable").unwrap();
    let before = count(&db, "log.bytes");
    keyspace.delete_from("").unwrap();
    let bytes = count(&db, "log.bytes") - before;
    assert!((1..40).contains(&bytes), "{bytes} bytes of log");
    assert_eq!(keyspace.iter().count(), 0);
}

#[test]
fn deletions_of_nothing_write_nothing() {
    let (db, keyspace) = opened(&MemoryStorage::new());
    let before = count(&db, "log.bytes");
    keyspace.delete_from("").unwrap();
    keyspace.clear().unwrap();
    assert_eq!(count(&db, "log.bytes"), before);
    keyspace.put("a", "").unwrap();
    let before = count(&db, "log.bytes");
    keyspace.delete_from("b").unwrap();
    assert_eq!(count(&db, "log.bytes"), before);
    assert!(keyspace.contains("a").unwrap());
    let too_long = keyspace.delete_from(largest(KEY_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(too_long.kind(), tidekv::ErrorKind::InvalidInput);
}

/// The end was chosen before the deletion's turn: a larger key that was put in between survived,
/// although a smaller one that was put after it was deleted.
#[test]
fn deletions_are_atomic_beside_writers_of_larger_keys() {
    let environment = Environment::default().storage(Arc::new(MemoryStorage::new()));
    let options = Options::new().memory_bytes(16 << 20).environment(environment);
    let db = Db::open(Path::new(DIRECTORY), options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                keyspace.clear().unwrap();
            }
        });
        // The large key of each pair comes first, and is the largest so far.
        for i in 0..20_000u32 {
            keyspace.put([&b"large"[..], &i.to_be_bytes()].concat(), "").unwrap();
            keyspace.put([&b"small"[..], &i.to_be_bytes()].concat(), "").unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    for key in keys(&keyspace).iter().filter(|key| key.starts_with(b"large")) {
        let small = [b"small", &key[5..]].concat();
        assert!(keyspace.contains(&small).unwrap(), "{key:?} has survived alone");
    }
}

#[test]
fn a_flush_drops_deletions_of_what_no_table_holds() {
    let (db, keyspace) = opened(&MemoryStorage::new());
    let tables = || (0..7).map(|level| count(&db, &format!("level{level}.tables"))).sum::<u64>();
    let write_and_delete = || {
        for i in 0..100_u32 {
            keyspace.put(i.to_be_bytes(), "short-lived").unwrap();
            keyspace.delete(i.to_be_bytes()).unwrap();
        }
        keyspace.delete_range("a", "z").unwrap();
        keyspace.flush().unwrap();
    };
    write_and_delete();
    assert_eq!((tables(), count(&db, "flush.bytes")), (0, 0));
    // A snapshot still sees what it saw, and a later one that it is deleted.
    keyspace.put("m", "old").unwrap();
    let snapshot = db.snapshot();
    write_and_delete();
    assert_eq!(tables(), 1);
    assert_eq!(collect(snapshot.iter(&keyspace)).len(), 1);
    assert_eq!(keys(&keyspace), [[0; 0]; 0]);
    drop(snapshot);
    // Now a table holds keys of the range.
    write_and_delete();
    assert!(tables() > 1);
    assert_eq!(keys(&keyspace), [[0; 0]; 0]);
}
