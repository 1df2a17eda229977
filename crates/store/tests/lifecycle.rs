//! Regression tests of opening, closing and conflicts: each test opens with the data that was lost,
//! or the call that hung, and why.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real threads wait and are waited for"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::within;
use tidekv::{Commit, Db, Durability, Environment, Options};
use tidekv_io::{
    Executor, Fault, FaultRule, InlineExecutor, MemoryStorage, Operation, Tear, ThreadPool,
};

fn options(disk: &MemoryStorage, executor: Option<Arc<dyn Executor>>) -> Options {
    Options::default().memory_bytes(8 << 20).environment({
        let mut options = Environment::default().storage(Arc::new(disk.clone()));
        options.executor = executor;
        options
    })
}
fn inline() -> Option<Arc<dyn Executor>> {
    Some(Arc::new(InlineExecutor::new()))
}

/// A write between a transaction's read and its commit was flushed and compacted:
/// its sequence became 0, so the commit went ahead and the write was lost.
#[test]
fn write_between_read_and_commit_is_detected_despite_a_compaction() {
    let disk = MemoryStorage::new();
    let db = Db::open("/d", options(&disk, inline())).unwrap();
    let ks = db.keyspace("k").unwrap();
    ks.put("k", "v1").unwrap();
    let mut tx = db.transaction();
    assert_eq!(tx.get(&ks, b"k").unwrap().unwrap().value, "v1");
    let watch = db.watch(&ks, b"k").unwrap();
    ks.put("k", "v2").unwrap();
    db.compact().unwrap();
    tx.put(&ks, b"k", b"v3");
    assert_eq!(tx.commit(Durability::Buffered).unwrap(), Commit::Conflict, "lost update");
    let mut tx = db.transaction();
    tx.require_unchanged(&watch);
    tx.put(&ks, b"x", b"y");
    assert_eq!(tx.commit(Durability::Buffered).unwrap(), Commit::Conflict, "watch missed");
}

/// A transaction whose own group found the memtable full was refused as a conflict although no
/// other write had touched its keys: the flush happened after its conditions were made and before
/// they were validated, and memtables that no longer show older writes were treated as if they did.
/// Now the keys are looked up again. (Found by running one list of operations under many settings.)
#[test]
fn flush_during_a_commit_is_not_a_conflict() {
    let disk = MemoryStorage::new();
    let options = options(&disk, inline()).memtable_bytes(4 << 10);
    let db = Db::open("/d", options).unwrap();
    let (ks, other) = (db.keyspace("k").unwrap(), db.keyspace("other").unwrap());
    ks.put("k", "v").unwrap();
    for round in 0..200 {
        let mut tx = db.transaction();
        assert_eq!(tx.get(&ks, b"k").unwrap().unwrap().value, "v");
        ks.put(format!("filler-{round}"), vec![0; 300]).unwrap();
        tx.put(&other, b"x", b"y");
        assert_eq!(tx.commit(Durability::Buffered).unwrap(), Commit::Done, "round {round}");
        let mut tx = db.transaction();
        tx.get(&ks, b"k").unwrap();
        ks.put("k", "v").unwrap();
        ks.put(format!("filler-{round}"), vec![0; 300]).unwrap();
        tx.put(&other, b"x", b"y");
        assert_eq!(tx.commit(Durability::Buffered).unwrap(), Commit::Conflict, "round {round}");
    }
    assert!(db.statistics().counter("flush.count") > 10);
}

/// Closing waited for progress while holding a lock that progress needs.
#[test]
fn closing_waits_for_jobs_of_a_shared_pool() {
    let done = within(30, || {
        let disk = MemoryStorage::new();
        let pool: Arc<dyn Executor> = Arc::new(ThreadPool::new("p", 2));
        let slow = disk.clone();
        slow.on_operation(|r| {
            if format!("{r:?}").contains("table") {
                std::thread::sleep(Duration::from_millis(5))
            }
        });
        let db = Db::open("/d", options(&disk, Some(pool))).unwrap();
        let ks = db.keyspace("k").unwrap();
        for i in 0..3000u32 {
            ks.put(i.to_be_bytes(), vec![1; 1000]).unwrap();
        }
        db.close().unwrap();
    });
    assert!(done.is_some(), "close hangs");
}

/// The pool dropped the queued flush at shutdown, and the flushing thread waited for it forever.
#[test]
fn flush_concurrent_with_close_returns() {
    let done = within(60, || {
        let disk = MemoryStorage::new();
        disk.on_operation(|r| {
            if format!("{r:?}").contains("table") {
                std::thread::sleep(Duration::from_millis(5))
            }
        });
        let mut o = options(&disk, None);
        o.compaction_threads = Some(1);
        let db = Db::open("/d", o).unwrap();
        let keyspaces: Vec<_> = (0..8).map(|i| db.keyspace(&format!("k{i}")).unwrap()).collect();
        for ks in &keyspaces {
            ks.put("a", "b").unwrap();
        }
        let other = db.clone();
        let t = std::thread::spawn(move || other.flush());
        std::thread::sleep(Duration::from_millis(10));
        db.close().unwrap();
        let _ = t.join().unwrap();
    });
    assert!(done.is_some(), "flush concurrent with close hangs");
}

/// Synced writes to `./data` were lost after a power cut: the directory's own entry had never been
/// synced, nor those of its new parents.
#[test]
fn store_directory_survives_a_power_loss() {
    for path in ["data", "/a/b/c"] {
        let disk = MemoryStorage::new();
        let mut o = options(&disk, inline());
        o.durability = Durability::Sync;
        let db = Db::open(path, o).unwrap();
        db.keyspace("k").unwrap().put("a", "b").unwrap();
        let after = disk.after_power_loss(Tear::DropUnsynced);
        let db = Db::open(path, options(&after, inline())).unwrap();
        assert_eq!(
            db.keyspace("k").unwrap().get("a").unwrap().as_deref(),
            Some(&b"b"[..]),
            "{path}"
        );
    }
}

/// Empty memtables were charged 4 KiB each: 600 of them filled the memtables' share without
/// anything to flush, and writers stopped forever.
#[test]
fn many_idle_keyspaces_do_not_stop_writers() {
    let done = within(100, || {
        let disk = MemoryStorage::new();
        let db = Db::open("/d", options(&disk, None)).unwrap();
        for i in 0..600 {
            let ks = db.keyspace(&format!("k{i}")).unwrap();
            ks.put("a", "b").unwrap();
        }
        println!("{:?}", db.statistics());
    });
    assert!(done.is_some(), "writers hang with 600 keyspaces");
}

/// A failed compaction was picked again at once, forever.
#[test]
fn failing_compaction_is_not_retried_forever() {
    let done = within(30, || {
        let disk = MemoryStorage::new();
        let db = Db::open("/d", options(&disk, inline())).unwrap();
        let ks = db.keyspace("k").unwrap();
        for round in 0..3 {
            for i in 0..100u32 {
                ks.put(i.to_be_bytes(), vec![round; 100]).unwrap();
            }
            ks.flush().unwrap();
        }
        disk.add_fault(
            FaultRule::always(Operation::Read, Fault::Fail(tidekv_io::ErrorKind::Failed))
                .on_path(".table"),
        );
        for i in 0..100u32 {
            ks.put(i.to_be_bytes(), vec![9; 100]).unwrap();
        }
        let _ = ks.flush();
        disk.clear_faults();
        disk.add_fault(
            FaultRule::always(Operation::Create, Fault::Fail(tidekv_io::ErrorKind::Failed))
                .on_path(".table"),
        );
        let _ = ks.ingest([("zzz", "b")]);
        drop(ks);
        drop(db);
        disk.clear_faults();
        disk.add_fault(
            FaultRule::always(Operation::Create, Fault::Fail(tidekv_io::ErrorKind::Failed))
                .on_path(".table"),
        );
        let _ = Db::open("/d", options(&disk, inline()));
    });
    assert!(done.is_some(), "hangs");
}

/// Closing did not wait for a compaction in a user's thread; the next opening
/// removed its outputs while it was about to publish them.
#[test]
fn closing_waits_for_a_compaction_in_another_thread() {
    let disk = MemoryStorage::new();
    let db = Db::open("/d", options(&disk, None)).unwrap();
    let ks = db.keyspace("k").unwrap();
    for r in 0..3u8 {
        for i in 0..2000u32 {
            ks.put(i.to_be_bytes(), vec![r; 500]).unwrap();
        }
        ks.flush().unwrap();
    }
    let slow = disk.clone();
    slow.on_operation(|r| {
        if format!("{r:?}").contains("table") {
            std::thread::sleep(Duration::from_millis(3))
        }
    });
    let other = db.clone();
    let t = std::thread::spawn(move || other.compact());
    std::thread::sleep(Duration::from_millis(15));
    db.close().unwrap();
    let again = Db::open("/d", options(&disk, inline())).unwrap();
    let ks = again.keyspace("k").unwrap();
    println!("compact: {:?}", t.join().unwrap());
    drop(again.clone());
    for i in 0..2000u32 {
        assert_eq!(ks.get(i.to_be_bytes()).unwrap().as_deref(), Some(&vec![2u8; 500][..]), "{i}");
    }
    drop(ks);
    drop(again);
    let again = Db::open("/d", options(&disk, inline())).unwrap();
    let ks = again.keyspace("k").unwrap();
    for i in 0..2000u32 {
        assert_eq!(ks.get(i.to_be_bytes()).unwrap().as_deref(), Some(&vec![2u8; 500][..]), "{i}");
    }
}

/// As above, at opening.
#[test]
fn failed_compaction_at_opening_does_not_prevent_it() {
    let done = within(20, || {
        let disk = MemoryStorage::new();
        let db = Db::open("/d", options(&disk, inline())).unwrap();
        let ks = db.keyspace("k").unwrap();
        disk.add_fault(
            FaultRule::always(Operation::Read, Fault::Fail(tidekv_io::ErrorKind::Failed))
                .on_path(".table"),
        );
        for round in 0..3 {
            for i in 0..100u32 {
                ks.put(i.to_be_bytes(), vec![round; 100]).unwrap();
            }
            let _ = ks.flush();
        }
        disk.clear_faults();
        for round in 0..3 {
            for i in 0..100u32 {
                ks.put(i.to_be_bytes(), vec![round; 100]).unwrap();
            }
            let _ = ks.flush();
        }
        disk.add_fault(FaultRule::always(
            Operation::Rename,
            Fault::Fail(tidekv_io::ErrorKind::Failed),
        ));
        let snap = db.snapshot();
        for i in 0..100u32 {
            ks.put(i.to_be_bytes(), vec![9; 100]).unwrap();
        }
        drop(snap);
        drop(ks);
        drop(db);
        disk.clear_faults();
        let mut rule =
            FaultRule::always(Operation::Create, Fault::Fail(tidekv_io::ErrorKind::Failed))
                .on_path(".table")
                .after(1);
        rule.times = None;
        disk.add_fault(rule);
        let opened = Db::open("/d", options(&disk, inline()));
        println!("{:?}", opened.map(|db| db.statistics()));
    });
    assert!(done.is_some(), "hangs");
}

/// A panicking thread that held the last handle released the directory's lock while its background
/// jobs were still running: a second engine opened concurrently.
#[test]
fn directory_stays_locked_after_a_panic_until_jobs_end() {
    let disk = MemoryStorage::new();
    let tiny = || options(&disk, None).memtable_bytes(16 << 10).table_bytes(16 << 10);
    for round in 1..=4u32 {
        let opening = std::time::Instant::now();
        let db = loop {
            match Db::open("/d", tiny()) {
                Ok(db) => break db,
                Err(error) => assert_eq!(error.kind(), tidekv::ErrorKind::Locked, "{error}"),
            }
            assert!(opening.elapsed() < Duration::from_secs(30), "the lock is never given up");
            std::thread::sleep(Duration::from_millis(1));
        };
        let keyspace = db.keyspace("k").unwrap();
        for i in 0..if round == 1 { 0 } else { 3000u32 } {
            let value = keyspace.get(i.to_be_bytes()).unwrap().unwrap();
            assert_eq!(value[..4], (round - 1).to_be_bytes(), "round {round}, key {i}");
        }
        let panicking = std::thread::spawn(move || {
            for i in 0..3000u32 {
                let value = [&round.to_be_bytes()[..], &[0; 100]].concat();
                keyspace.put(i.to_be_bytes(), value).unwrap();
            }
            drop(keyspace);
            let _db = db;
            panic!("as the test wants it");
        });
        assert!(panicking.join().is_err());
    }
}

/// A transaction's range deletion hides the covered keys from the transaction's own later reads,
/// and later writes of the transaction are visible again.
#[test]
fn transaction_reads_see_its_own_range_deletion() {
    let disk = MemoryStorage::new();
    let db = Db::open("/d", options(&disk, inline())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for key in ["a", "b", "c", "d"] {
        keyspace.put(key, "old").unwrap();
    }
    let mut tx = db.transaction();
    tx.put(&keyspace, b"bb", b"own");
    tx.delete_range(&keyspace, b"b", b"d");
    tx.put(&keyspace, b"c", b"new");
    assert_eq!(tx.get(&keyspace, b"b").unwrap(), None);
    assert_eq!(tx.get(&keyspace, b"bb").unwrap(), None);
    assert_eq!(tx.get(&keyspace, b"c").unwrap().unwrap().value, "new");
    assert_eq!(tx.get(&keyspace, b"d").unwrap().unwrap().value, "old");
    let keys = |entries: Vec<(tidekv::Bytes, tidekv::Entry)>| {
        entries.into_iter().map(|e| e.0).collect::<Vec<_>>()
    };
    assert_eq!(keys(tx.prefix(&keyspace, b"").unwrap()), ["a", "c", "d"]);
    assert_eq!(tx.commit(Durability::Buffered).unwrap(), Commit::Done);
    let after: Vec<_> = keyspace.iter().map(|item| item.unwrap().0).collect();
    assert_eq!(after, ["a", "c", "d"]);
    assert_eq!(keyspace.get("c").unwrap().unwrap(), "new");
}

/// An ingest whose commit failed gave its sequence to the next write; the failed edit may have
/// reached the disk, and recovery would have found both.
#[test]
fn failed_ingest_consumes_its_sequence() {
    let disk = MemoryStorage::new();
    let db = Db::open("/d", options(&disk, inline())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    // Otherwise the ingest would flush first, and the fault would hit the flush.
    keyspace.flush().unwrap();
    let before = db.statistics().counter("store.last_sequence");
    let failed = Fault::Fail(tidekv_io::ErrorKind::Failed);
    disk.add_fault(FaultRule::once(Operation::Sync, failed).on_path("MANIFEST"));
    assert!(keyspace.ingest([("a", "2"), ("b", "2")]).is_err());
    assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
    assert_eq!(keyspace.increment("n", 1).unwrap(), 1);
    assert_eq!(db.statistics().counter("store.last_sequence"), before + 2);
    assert_eq!(keyspace.get("b").unwrap(), None);
}

/// A transaction read back its own write with a deadline that had passed, and a later `SETNX` in
/// the same transaction wrote nothing.
#[test]
fn transaction_does_not_read_its_own_expired_writes() {
    let db = Db::open("/d", options(&MemoryStorage::new(), inline())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "old").unwrap();
    let mut tx = db.transaction();
    tx.put_until(&keyspace, b"a", b"gone", 1);
    tx.put_until(&keyspace, b"b", b"there", u64::MAX);
    assert_eq!(tx.get(&keyspace, b"a").unwrap(), None);
    assert_eq!(tx.get(&keyspace, b"b").unwrap().unwrap().value, "there");
    let found = tx.prefix(&keyspace, b"").unwrap();
    assert!(found.iter().map(|(key, _)| key).eq(["b"]));
    assert_eq!(tx.commit(Durability::Buffered).unwrap(), Commit::Done);
    assert_eq!(keyspace.get("a").unwrap(), None);
}
