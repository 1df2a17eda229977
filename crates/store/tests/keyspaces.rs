//! Drops of keyspaces: durable, never undone, files removed, other data unaffected, and safe with
//! concurrent readers, writers and jobs.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real threads race with each other"
)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use support::held::HeldExecutor;
use support::{DIRECTORY, Dice, START_MS, TINY, contents, options, within};
use tidekv::inspect::Inspector;
use tidekv::{
    CachePolicy, Db, Durability, ErrorKind, Iter, Keyspace, KeyspaceOptions, Options, WriteBatch,
};
use tidekv_io::{Fault, FaultRule, ManualClock, MemoryStorage, Operation, Storage, Tear};

fn settings(disk: &MemoryStorage) -> Options {
    options(disk, &Arc::new(ManualClock::new(START_MS)), TINY)
}

fn open(disk: &MemoryStorage) -> Db {
    Db::open(DIRECTORY, settings(disk)).unwrap()
}

fn tables(disk: &MemoryStorage) -> usize {
    disk.paths().iter().filter(|path| path.extension().is_some_and(|e| e == "table")).count()
}

/// Puts keys that take several memtables, tables and levels.
fn fill(keyspace: &Keyspace, seed: u64) {
    let mut dice = Dice(seed);
    for _ in 0..300 {
        let key = format!("key-{:03}", dice.below(200));
        keyspace.put(key, vec![dice.below(256) as u8; 100]).unwrap();
    }
}

fn check_sound(disk: &MemoryStorage) {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let report = tidekv::check::check(DIRECTORY, Some(storage), &mut |_| ()).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    let tables = report.left_over.iter().filter(|name| name.ends_with(".table")).count();
    assert_eq!(tables, 0, "{:?}", report.left_over);
}

fn assert_dropped<T: std::fmt::Debug>(result: tidekv::Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("dropped"), "{error}");
}

fn keys(iter: Iter) -> Vec<String> {
    iter.map(|item| String::from_utf8(item.unwrap().0.to_vec()).unwrap()).collect()
}

#[test]
fn every_use_of_a_dropped_keyspace_fails() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let keyspace = db.keyspace("k").unwrap();
    fill(&keyspace, 1);
    let snapshot = db.snapshot();
    let mut transaction = db.transaction();
    transaction.get(&keyspace, "key-001").unwrap();
    let unflushed = db.keyspace("unflushed").unwrap();
    unflushed.put("key", "value").unwrap();
    let mut other = db.transaction();
    other.get(&unflushed, "key").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "key", "value");
    assert!(db.drop_keyspace("k").unwrap());
    assert!(db.drop_keyspace("unflushed").unwrap());

    assert_dropped(keyspace.get("key-001"));
    assert_dropped(keyspace.try_get_cached("key-001"));
    assert_dropped(keyspace.multi_get(&["key-001"]));
    assert_dropped(keyspace.contains("key-001"));
    assert_dropped(keyspace.put("key", "value"));
    assert_dropped(keyspace.increment("key", 1));
    assert_dropped(keyspace.ingest([("key", "value")]));
    assert_dropped(keyspace.clear());
    assert_dropped(keyspace.flush());
    assert_dropped(keyspace.compact_range::<&str>(..));
    assert_dropped(db.write(batch));
    assert_dropped(snapshot.get(&keyspace, "key-001"));
    for mut iter in [keyspace.iter(), snapshot.iter(&keyspace), keyspace.prefix("key")] {
        assert_dropped(iter.next().unwrap());
        assert!(iter.next().is_none(), "an error ends an iterator");
    }
    assert_dropped(keyspace.iter().next_back().unwrap());
    transaction.put(&keyspace, "key", "value");
    assert_dropped(transaction.commit(Durability::Buffered));
    let kept = db.keyspace("kept").unwrap();
    other.put(&kept, "key", "value");
    assert_dropped(other.commit(Durability::Buffered));
    assert_eq!(db.keyspace_names(), ["kept"]);
    assert!(!db.has_keyspace("k") && !db.drop_keyspace("k").unwrap());
}

#[test]
fn recreated_keyspace_starts_empty() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let old = db.keyspace_with("k", KeyspaceOptions::new().block_bytes(1024)).unwrap();
    fill(&old, 1);
    db.drop_keyspace("k").unwrap();
    let new = db.keyspace("k").unwrap();
    assert_ne!(old, new);
    assert_eq!(new.options(), KeyspaceOptions::default());
    assert_eq!(new.iter().count(), 0);
    new.put("key-001", "new").unwrap();
    assert_dropped(old.get("key-001"));
    // Also after openings that replay the log, with the old writes in it.
    let mut disk = disk;
    for _ in 0..3 {
        disk = disk.after_power_loss(Tear::KeepUnsynced);
        let db = open(&disk);
        assert_eq!(contents(&db, "k"), [(b"key-001".to_vec(), (b"new".to_vec(), None))]);
        check_sound(&disk);
    }
}

/// The writes of the dropped keyspace are in the log only, which is replayed.
#[test]
fn replay_skips_writes_to_dropped_keyspaces() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let (kept, dropped) = (db.keyspace("kept").unwrap(), db.keyspace("dropped").unwrap());
    for round in 0..5 {
        let mut batch = WriteBatch::new();
        batch.put(&dropped, "key", "value");
        batch.put(&kept, format!("key-{round}"), "value");
        batch.delete_range(&dropped, "a", "b");
        db.write(batch).unwrap();
    }
    db.drop_keyspace("dropped").unwrap();
    kept.put("later", "value").unwrap();
    let after = disk.after_power_loss(Tear::KeepUnsynced);
    check_sound(&after);
    let reader = Db::open(DIRECTORY, settings(&after).read_only(true)).unwrap();
    assert_eq!(reader.keyspace_names(), ["kept"]);
    assert_eq!(contents(&reader, "kept").len(), 6);
    let db = open(&after);
    assert_eq!(contents(&db, "kept").len(), 6);
    assert_eq!(contents(&db, "dropped"), []);
}

#[test]
fn tables_of_a_dropped_keyspace_are_removed_after_their_last_reader() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let (kept, dropped) = (db.keyspace("kept").unwrap(), db.keyspace("dropped").unwrap());
    fill(&kept, 1);
    kept.flush().unwrap();
    let of_kept = tables(&disk);
    fill(&dropped, 2);
    dropped.flush().unwrap();
    assert!(tables(&disk) > of_kept + 1);
    let expected = keys(dropped.iter());
    let mut iter = dropped.iter();
    let first = iter.next().unwrap().unwrap();
    db.drop_keyspace("dropped").unwrap();
    assert!(tables(&disk) > of_kept, "an iterator reads them");
    let rest = keys(iter);
    assert_eq!(first.0, expected[0]);
    assert_eq!(rest, expected[1..]);
    // As after a compaction, the next job removes them.
    kept.put("key", "value").unwrap();
    kept.flush().unwrap();
    kept.compact_range::<&str>(..).unwrap();
    let statistics = db.statistics();
    let named: u64 = (0..7).map(|n| statistics.counter(&format!("level{n}.tables"))).sum();
    assert_eq!(tables(&disk) as u64, named);
    check_sound(&disk);
    assert_eq!(contents(&db, "kept").len(), kept.iter().count());
}

#[test]
fn drop_releases_memory() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    db.set_cache_policy(CachePolicy::Fixed { kv: 30, kp: 30 });
    let dropped = db.keyspace("dropped").unwrap();
    fill(&dropped, 1);
    for n in (0..200).chain(0..200) {
        dropped.get(format!("key-{n:03}")).unwrap();
    }
    dropped.put("in the memtable", "value").unwrap();
    let counters = [
        "memory.memtable_bytes",
        "memory.metadata_bytes",
        "cache.kv.entries",
        "cache.kp.entries",
        "cache.block.bytes",
    ];
    let before = db.statistics();
    assert!(counters.iter().all(|counter| before.counter(counter) > 0), "{before:?}");
    db.drop_keyspace("dropped").unwrap();
    let after = db.statistics();
    for counter in counters {
        assert_eq!(after.counter(counter), 0, "{counter}, before {}", before.counter(counter));
    }
}

/// Drops the keyspace at the moment when a job has begun to write a table of it.
fn drop_while_a_table_is_written(fill: impl FnOnce(&Keyspace)) {
    let disk = MemoryStorage::new();
    let held = Arc::new(HeldExecutor::default());
    let mut options = settings(&disk);
    options.environment.executor = Some(held.clone());
    let db = Db::open(DIRECTORY, options).unwrap();
    let kept = db.keyspace("kept").unwrap();
    let metadata = |db: &Db| db.statistics().counter("memory.metadata_bytes");
    let of_kept = metadata(&db);
    let dropped = db.keyspace("dropped").unwrap();
    kept.put("key", "value").unwrap();
    fill(&dropped);
    let (other, is_dropped) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let has_run = Arc::clone(&is_dropped);
    disk.on_operation(move |operation| {
        let is_table = operation.path.extension().is_some_and(|e| e == "table");
        if is_table
            && operation.operation == Operation::Write
            && !is_dropped.swap(true, Ordering::SeqCst)
        {
            assert!(other.drop_keyspace("dropped").unwrap());
        }
    });
    held.run();
    disk.clear_on_operation();
    assert!(has_run.load(Ordering::SeqCst), "a job wrote a table");
    assert_eq!(tables(&disk), 0);
    db.health().unwrap();
    assert_eq!(db.statistics().counter("background.errors"), 0);
    assert_eq!(metadata(&db), of_kept);
    db.close().unwrap();
    check_sound(&disk);
    let db = open(&disk);
    assert_eq!(db.keyspace_names(), ["kept"]);
    assert_eq!(contents(&db, "kept").len(), 1);
}

#[test]
fn running_flush_installs_nothing_in_a_dropped_keyspace() {
    drop_while_a_table_is_written(|dropped| {
        for n in 0..3 {
            dropped.put(format!("key-{n}"), vec![n; 9 << 10]).unwrap();
        }
    });
}

#[test]
fn running_compaction_installs_nothing_in_a_dropped_keyspace() {
    drop_while_a_table_is_written(|dropped| {
        for round in 0..8 {
            dropped.ingest((0..200).map(|n| (format!("key-{n:03}"), vec![round; 100]))).unwrap();
        }
    });
}

/// The files of a dropped keyspace do not wait for the next write.
#[test]
fn dropping_the_last_iterator_removes_the_tables_of_a_dropped_keyspace() {
    let disk = MemoryStorage::new();
    let held = Arc::new(HeldExecutor::default());
    let mut options = settings(&disk);
    options.environment.executor = Some(held.clone());
    let db = Db::open(DIRECTORY, options).unwrap();
    let dropped = db.keyspace("dropped").unwrap();
    dropped.ingest((0..200).map(|n| (format!("key-{n:03}"), vec![0; 100]))).unwrap();
    let mut iter = dropped.iter();
    iter.next().unwrap().unwrap();
    held.run();
    db.drop_keyspace("dropped").unwrap();
    held.run();
    assert!(tables(&disk) > 0, "the iterator reads them");
    drop(iter);
    held.run();
    assert_eq!(tables(&disk), 0);
}

/// Closing held the gate and waited for jobs, of which one waited for the gate.
#[test]
fn closing_does_not_wait_for_the_removal_of_tables() {
    let ended = within(60, || {
        let disk = MemoryStorage::new();
        let mut options = settings(&disk);
        options.environment.executor = None;
        options.compaction_threads = Some(1);
        let db = Db::open(DIRECTORY, options).unwrap();
        let (kept, dropped) = (db.keyspace("kept").unwrap(), db.keyspace("dropped").unwrap());
        dropped.ingest([("key", "value")]).unwrap();
        let iter = dropped.iter();
        // The thread for compactions is busy until the gate is shut.
        let flags: [Arc<AtomicBool>; 3] = Default::default();
        let [is_busy, is_closing, is_shut] = flags.clone();
        let [busy, closing, shut] = flags;
        disk.on_operation(move |operation| {
            let is_of = |kind: &str| operation.path.extension().is_some_and(|e| e == kind);
            let is_of_pool = std::thread::current().name().is_some_and(|n| n.starts_with("tidekv"));
            if operation.operation == Operation::Read && is_of("table") && is_of_pool {
                busy.store(true, Ordering::SeqCst);
                while !shut.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
            // Closing writes the end of the log. Jobs go on for a while before it stops them.
            if is_of("log") && closing.load(Ordering::SeqCst) {
                let is_first = !shut.swap(true, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(200 * u64::from(is_first)));
            }
        });
        for round in 0..14 {
            kept.ingest((0..200).map(|n| (format!("key-{n:03}"), vec![round; 100]))).unwrap();
        }
        while !is_busy.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        db.drop_keyspace("dropped").unwrap();
        drop(iter);
        is_closing.store(true, Ordering::SeqCst);
        db.close().unwrap();
        assert!(is_shut.load(Ordering::SeqCst), "the compaction has waited");
    });
    assert!(ended.is_some(), "it hangs");
}

#[test]
fn failure_of_a_flush_is_reported_for_its_keyspace_until_it_is_dropped() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let (sound, failing) = (db.keyspace("sound").unwrap(), db.keyspace("failing").unwrap());
    failing.put("key", "value").unwrap();
    disk.add_fault(FaultRule {
        operation: Some(Operation::Create),
        path_contains: Some(".table".into()),
        skip: 0,
        times: None,
        fault: Fault::Fail(tidekv_io::ErrorKind::Full),
    });
    failing.flush().unwrap_err();
    disk.clear_faults();
    sound.put("key", "value").unwrap();
    sound.flush().unwrap();
    let error = db.health().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "no other keyspace hides it: {error}");
    db.drop_keyspace("failing").unwrap();
    db.health().unwrap();
    sound.put("key", "later").unwrap();
    db.flush().unwrap();
}

fn fail_manifest(disk: &MemoryStorage, operation: Operation, times: Option<u64>) {
    disk.add_fault(FaultRule {
        operation: Some(operation),
        path_contains: Some("MANIFEST".into()),
        skip: 0,
        times,
        fault: Fault::Fail(tidekv_io::ErrorKind::Failed),
    });
}

/// A failed edit may be in the manifest file all the same; a power cut then would take writes with
/// it that were acknowledged after the failed drop.
#[test]
fn keyspace_whose_drop_failed_is_kept_with_later_writes() {
    for tear in [Tear::DropUnsynced, Tear::KeepUnsynced] {
        let disk = MemoryStorage::new();
        let db = open(&disk);
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put("before", "value").unwrap();
        fail_manifest(&disk, Operation::Sync, Some(1));
        let error = db.drop_keyspace("k").unwrap_err();
        assert!(error.to_string().contains("cannot drop"), "{error}");
        keyspace.put("after", "value").unwrap();
        db.sync().unwrap();
        let db = open(&disk.after_power_loss(tear));
        assert_eq!(keys(db.keyspace("k").unwrap().iter()), ["after", "before"], "{tear:?}");
    }
}

#[test]
fn keyspace_in_doubt_rejects_writes_until_resolved() {
    let in_doubt = || {
        let disk = MemoryStorage::new();
        let db = open(&disk);
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put("before", "value").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&keyspace, "early", "value");
        fail_manifest(&disk, Operation::Sync, None);
        db.drop_keyspace("k").unwrap_err();
        let error = keyspace.put("after", "value").unwrap_err();
        assert!(error.to_string().contains("reopen"), "{error}");
        assert!(db.write(batch).is_err());
        assert_eq!(keyspace.get("before").unwrap().unwrap(), "value", "reads go on");
        assert!(db.health().is_err() && db.resume().is_err(), "the manifest cannot be written");
        disk.clear_faults();
        (disk, db, keyspace)
    };
    // By a call that keeps it.
    let (disk, db, keyspace) = in_doubt();
    db.resume().unwrap();
    db.health().unwrap();
    keyspace.put("after", "value").unwrap();
    db.sync().unwrap();
    for tear in [Tear::DropUnsynced, Tear::KeepUnsynced] {
        let db = open(&disk.after_power_loss(tear));
        assert_eq!(keys(db.keyspace("k").unwrap().iter()), ["after", "before"]);
    }
    // By any other change of the manifest.
    let (_, db, keyspace) = in_doubt();
    db.keyspace("other").unwrap();
    keyspace.put("after", "value").unwrap();
    // By another drop.
    let (disk, db, keyspace) = in_doubt();
    assert!(db.drop_keyspace("k").unwrap());
    assert_dropped(keyspace.put("after", "value"));
    assert!(!open(&disk.after_power_loss(Tear::DropUnsynced)).has_keyspace("k"));
    // By closing, which keeps it if the manifest can be written again.
    let (disk, db, keyspace) = in_doubt();
    drop((db, keyspace));
    assert_eq!(keys(open(&disk).keyspace("k").unwrap().iter()), ["before"]);
    // By a crash, one way or the other.
    let (disk, _db, _keyspace) = in_doubt();
    let db = open(&disk.after_power_loss(Tear::KeepUnsynced));
    if db.has_keyspace("k") {
        assert_eq!(keys(db.keyspace("k").unwrap().iter()), ["before"]);
    }
}

/// The drop and everything before it, or a prefix of that: never the drop without an earlier write.
#[test]
fn power_cut_at_any_operation_keeps_a_prefix_of_writes_and_drop() {
    let run = |disk: &MemoryStorage| -> tidekv::Result<()> {
        let db = Db::open(DIRECTORY, settings(disk))?;
        let (kept, dropped) = (db.keyspace("kept")?, db.keyspace("dropped")?);
        db.write_with(
            {
                let mut batch = WriteBatch::new();
                batch.put(&dropped, "key", "value");
                batch.put(&kept, "synced", "value");
                batch
            },
            Durability::Sync,
        )?;
        dropped.flush()?;
        kept.put("buffered", "value")?;
        db.drop_keyspace("dropped")?;
        db.keyspace("dropped")?.put("new", "value")?;
        db.sync()
    };
    let whole = MemoryStorage::new();
    run(&whole).unwrap();
    let mut seen = [false; 3];
    for cut in 0..=whole.operations() {
        for tear in [Tear::DropUnsynced, Tear::KeepUnsynced, Tear::Torn { seed: cut }] {
            let disk = MemoryStorage::new();
            disk.cut_power_at(cut);
            let _ = run(&disk);
            let after = disk.after_power_loss(tear);
            let db = open(&after);
            let kept = db.existing_keyspace("kept").map_or(0, |kept| kept.iter().count());
            let dropped = db.existing_keyspace("dropped").map(|dropped| keys(dropped.iter()));
            let state = match &dropped {
                Some(keys) if *keys == ["key"] => 0,
                None if kept == 2 => 1,
                Some(keys) if kept == 2 && *keys == ["new"] => 2,
                // Before the first write, or between the second creation and its write.
                Some(keys) if keys.is_empty() && (kept == 0 || kept == 2) => continue,
                None if kept == 0 => continue,
                other => panic!("cut {cut}, {tear:?}: {kept} writes are kept, and {other:?}"),
            };
            seen[state] = true;
            check_sound(&after);
        }
    }
    assert_eq!(seen, [true; 3]);
}

#[test]
fn checkpoint_does_not_bring_dropped_keyspaces_back() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    db.keyspace("kept").unwrap().put("key", "value").unwrap();
    fill(&db.keyspace("dropped").unwrap(), 1);
    db.drop_keyspace("dropped").unwrap();
    db.checkpoint("/copy").unwrap();
    let copy = Db::open("/copy", settings(&disk)).unwrap();
    assert_eq!(copy.keyspace_names(), ["kept"]);
    // Nor does it use their ids again.
    let new = copy.keyspace("new").unwrap();
    new.put("key", "value").unwrap();
    drop((copy, new));
    let inspector = Inspector::new("/copy", Some(Arc::new(disk.clone()))).unwrap();
    let described = inspector.store().unwrap();
    let ids: Vec<u32> = described.keyspaces.iter().map(|keyspace| keyspace.id).collect();
    assert_eq!(ids, [0, 2]);
}

#[test]
fn drop_fails_if_read_only_or_closed() {
    let disk = MemoryStorage::new();
    open(&disk).keyspace("k").unwrap().put("key", "value").unwrap();
    let reader = Db::open(DIRECTORY, settings(&disk).read_only(true)).unwrap();
    assert_eq!(reader.drop_keyspace("k").unwrap_err().kind(), ErrorKind::Closed);
    assert!(reader.has_keyspace("k"));
    let db = Db::open("/other", settings(&disk)).unwrap();
    db.close().unwrap();
    assert_eq!(db.drop_keyspace("k").unwrap_err().kind(), ErrorKind::Closed);
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers, readers, flushes and compactions race with drops of the keyspace that they use. Each
/// write fails because its keyspace was dropped, or reads find it until the drop.
#[test]
fn drops_race_with_everything_else() {
    let scale: u64 = std::env::var("TIDEKV_DROP_ROUNDS").map_or(30, |text| text.parse().unwrap());
    let ended = within(300, move || {
        let disk = MemoryStorage::new();
        let mut options = settings(&disk);
        options.environment.executor = None;
        options.compaction_threads = Some(2);
        let db = Db::open(DIRECTORY, options).unwrap();
        let kept = db.keyspace("kept").unwrap();
        for round in 0..scale {
            let name = format!("k{}", round % 3);
            let keyspace = db.keyspace(&name).unwrap();
            let (stop, start) = (AtomicBool::new(false), Barrier::new(5));
            let written = std::thread::scope(|scope| {
                let is_dropped = |error: &tidekv::Error| error.kind() == ErrorKind::Unavailable;
                let (db, kept, keyspace, name) = (&db, &kept, &keyspace, &name);
                let (stop, start) = (&stop, &start);
                let writers: Vec<_> = (0..2u64)
                    .map(|writer| {
                        scope.spawn(move || {
                            start.wait();
                            let mut written = 0u64;
                            loop {
                                let key = format!("{round}-{writer}-{written}");
                                let mut batch = WriteBatch::new();
                                batch.put(kept, &key, "value");
                                batch.put(keyspace, &key, vec![0; 200]);
                                match db.write(batch) {
                                    Ok(()) => written += 1,
                                    Err(error) => {
                                        assert!(is_dropped(&error), "{error}");
                                        return (writer, written);
                                    }
                                }
                            }
                        })
                    })
                    .collect();
                scope.spawn(move || {
                    start.wait();
                    while !stop.load(Ordering::Relaxed) {
                        let outcome = keyspace.flush().and_then(|()| {
                            keyspace.compact_range::<&str>(..)?;
                            keyspace.increment("count", 1)
                        });
                        if let Err(error) = outcome {
                            assert!(is_dropped(&error), "{error}");
                        }
                    }
                });
                scope.spawn(move || {
                    start.wait();
                    while !stop.load(Ordering::Relaxed) {
                        for item in keyspace.iter() {
                            if let Err(error) = item {
                                assert!(is_dropped(&error), "{error}");
                            }
                        }
                        match keyspace.get(format!("{round}-0-0")) {
                            Ok(_) => {}
                            Err(error) => assert!(is_dropped(&error), "{error}"),
                        }
                    }
                });
                // Also when this thread panics, or the others would go on for ever.
                let _stop = SetOnDrop(stop);
                start.wait();
                std::thread::sleep(std::time::Duration::from_millis(round % 20));
                assert!(db.drop_keyspace(name).unwrap());
                writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
            });
            for (writer, written) in written {
                // A batch is in both keyspaces or in none.
                let key = |n: u64| format!("{round}-{writer}-{n}");
                for n in 0..written {
                    assert!(kept.contains(key(n)).unwrap(), "{} is lost", key(n));
                }
                assert!(!kept.contains(key(written)).unwrap(), "{} was refused", key(written));
            }
            assert_eq!(db.statistics().counter("background.errors"), 0);
        }
        db.health().unwrap();
        db.close().unwrap();
        check_sound(&disk);
        let expected = keys(open(&disk).keyspace("kept").unwrap().iter());
        assert_eq!(expected.len(), kept_len(&disk));
    });
    assert!(ended.is_some(), "it hangs or fails");
}

fn kept_len(disk: &MemoryStorage) -> usize {
    let reader = Db::open(DIRECTORY, settings(disk).read_only(true)).unwrap();
    contents(&reader, "kept").len()
}
