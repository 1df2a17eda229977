//! Commits that never wait: they write if they can, return an error if they cannot, and never apply
//! a part.
#![allow(clippy::disallowed_types, reason = "real threads wait and are waited for")]

use std::sync::Arc;
use std::sync::mpsc::channel;

use parking_lot::Mutex;
use tidekv::{Attempt, Cached, Db, Environment, Keyspace, Options};
use tidekv_io::{
    ErrorKind, Executor, Fault, FaultRule, InlineExecutor, MemoryStorage, Operation, threads,
};

fn open(disk: &MemoryStorage, executor: Option<Arc<dyn Executor>>) -> (Db, Keyspace) {
    let environment = {
        let mut options = Environment::default().storage(Arc::new(disk.clone()));
        options.executor = executor;
        options
    };
    let options = Options::default().memory_bytes(8 << 20).environment(environment);
    let db = Db::open("/d", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn try_put(db: &Db, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> tidekv::Result<Attempt> {
    let mut transaction = db.transaction();
    transaction.put(keyspace, key, value);
    transaction.try_commit()
}

#[test]
fn try_commit_writes_like_a_commit_and_survives_a_restart() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk, None);
    let mut transaction = db.transaction();
    assert_eq!(transaction.try_get_cached(&keyspace, b"a").unwrap(), Cached::Ready(None));
    transaction.put(&keyspace, b"a", b"1");
    transaction.put(&keyspace, b"b", b"2");
    transaction.delete(&keyspace, b"a");
    // Its own writes are visible, before and after they are first read.
    assert_eq!(transaction.try_get_cached(&keyspace, b"a").unwrap(), Cached::Ready(None));
    transaction.put_until(&keyspace, b"a", b"3", u64::MAX);
    let Cached::Ready(Some(entry)) = transaction.try_get_cached(&keyspace, b"a").unwrap() else {
        panic!("its own write is in memory");
    };
    assert_eq!((&entry.value[..], entry.expires_at_ms), (&b"3"[..], Some(u64::MAX)));
    assert_eq!(keyspace.get("b").unwrap(), None);
    assert_eq!(transaction.try_commit().unwrap(), Attempt::Done);
    assert_eq!(keyspace.get("b").unwrap().unwrap(), "2");
    db.close().unwrap();
    drop((db, keyspace));
    let (_db, keyspace) = open(&disk, None);
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "3");
    assert_eq!(keyspace.get("b").unwrap().unwrap(), "2");
}

#[test]
fn try_commit_is_refused_while_another_writes() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk, None);
    let (reached, is_reached) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    disk.on_operation(move |record| {
        if record.operation == Operation::Write {
            reached.send(()).unwrap();
            released.lock().recv().unwrap();
        }
    });
    let writer = {
        let keyspace = keyspace.clone();
        threads::spawn("writer", move || keyspace.put("a", "slow").unwrap()).unwrap()
    };
    is_reached.recv().unwrap();
    for _ in 0..3 {
        assert_eq!(try_put(&db, &keyspace, b"a", b"quick").unwrap(), Attempt::Busy);
        assert!(db.is_busy());
    }
    release.send(()).unwrap();
    writer.join().unwrap();
    disk.clear_on_operation();
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "slow");
    assert_eq!(try_put(&db, &keyspace, b"a", b"quick").unwrap(), Attempt::Done);
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "quick");
}

#[test]
fn try_commit_makes_no_room() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk, Some(Arc::new(InlineExecutor::new())));
    let value = vec![7; 10_000];
    let mut keys = 0u32..;
    let mut write_until_full = || {
        for key in &mut keys {
            if try_put(&db, &keyspace, &key.to_be_bytes(), &value).unwrap() != Attempt::Done {
                return key;
            }
        }
        unreachable!("a memtable is full some time")
    };
    let first = write_until_full();
    assert!((10..1000).contains(&first), "{first}");
    assert_eq!(db.statistics().counter("flush.count"), 0);
    assert_eq!(keyspace.get(first.to_be_bytes()).unwrap(), None);
    assert_eq!(try_put(&db, &keyspace, b"a", b"1").unwrap(), Attempt::WouldBlock);
    // A write that may wait makes the room.
    keyspace.put(first.to_be_bytes(), &value).unwrap();
    let second = write_until_full();
    assert!(second > first + 10);
    for key in 0..second {
        assert_eq!(keyspace.get(key.to_be_bytes()).unwrap().unwrap(), value);
    }
}

#[test]
fn try_commit_detects_conflicts_known_in_memory() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk, Some(Arc::new(InlineExecutor::new())));
    keyspace.put("a", "1").unwrap();
    let begin = || {
        let mut transaction = db.transaction();
        let read = transaction.try_get_cached(&keyspace, b"a").unwrap();
        assert!(matches!(read, Cached::Ready(Some(_))));
        transaction.put(&keyspace, b"b", b"2");
        transaction
    };
    let (good, late, flushed) = (begin(), begin(), begin());
    assert_eq!(good.try_commit().unwrap(), Attempt::Done);
    keyspace.put("a", "2").unwrap();
    assert_eq!(late.try_commit().unwrap(), Attempt::Conflict);
    keyspace.flush().unwrap();
    // Only the tables have the answer now; it leaves the check to a commit that may read.
    assert_eq!(flushed.try_commit().unwrap(), Attempt::WouldBlock);
    let watch = db.watch(&keyspace, b"a").unwrap();
    let mut watching = db.transaction();
    watching.require_unchanged(&watch);
    watching.put(&keyspace, b"c", b"3");
    keyspace.delete("a").unwrap();
    assert_eq!(watching.try_commit().unwrap(), Attempt::Conflict);
    assert_eq!(keyspace.get("c").unwrap(), None);
}

#[test]
fn failed_try_commit_writes_nothing_and_leaves_repair_to_others() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk, None);
    keyspace.put("a", "1").unwrap();
    let failure = Fault::Fail(ErrorKind::Full);
    disk.add_fault(FaultRule::once(Operation::Write, failure).on_path(".log"));
    assert!(try_put(&db, &keyspace, b"a", b"2").is_err());
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
    // The log must first be ended with a sync.
    assert_eq!(try_put(&db, &keyspace, b"a", b"3").unwrap(), Attempt::WouldBlock);
    keyspace.put("b", "1").unwrap();
    assert_eq!(try_put(&db, &keyspace, b"a", b"3").unwrap(), Attempt::Done);
    db.close().unwrap();
    assert!(try_put(&db, &keyspace, b"a", b"4").is_err());
    drop((db, keyspace));
    let (_db, keyspace) = open(&disk, None);
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "3");
}

#[test]
fn snapshot_is_read_from_memory_or_in_batches() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk, Some(Arc::new(InlineExecutor::new())));
    for key in 0..500u32 {
        keyspace.put(key.to_be_bytes(), vec![1; 100]).unwrap();
    }
    keyspace.flush().unwrap();
    let snapshot = db.snapshot();
    keyspace.put(3u32.to_be_bytes(), "new").unwrap();
    keyspace.delete(4u32.to_be_bytes()).unwrap();
    let keys: Vec<_> = [3u32, 4, 499, 500].map(u32::to_be_bytes).into();
    let then = snapshot.multi_get(&keyspace, &keys).unwrap();
    let is_there: Vec<_> = then.iter().map(|entry| entry.is_some()).collect();
    assert_eq!(is_there, [true, true, true, false]);
    assert_eq!(then[0].as_ref().unwrap().value, vec![1; 100]);
    assert_eq!(
        snapshot.try_get_cached(&keyspace, keys[0]).unwrap(),
        Cached::Ready(then[0].clone())
    );
    let now = keyspace.multi_get(&keys).unwrap();
    assert_eq!(now[0].as_ref().unwrap().value, "new");
    assert_eq!(now[1], None);
    let mut transaction = db.transaction();
    transaction.put(&keyspace, b"x", b"y");
    assert_eq!(transaction.try_commit().unwrap(), Attempt::Done);
    assert_eq!(snapshot.multi_get(&keyspace, &[b"x"]).unwrap(), [None]);
    assert!(snapshot.multi_get(&keyspace, &[b""]).is_err());
    assert_eq!(
        keyspace.get_entry(keys[2]).unwrap(),
        snapshot.get_entry(&keyspace, keys[2]).unwrap()
    );
}
