//! What surrounds a store: a disk that stays full, a read-only file system, files that somebody
//! removes, a process that reads beside the writer, and stores of a few kilobytes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real threads wait and are waited for; looks at files from outside"
)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::{DIRECTORY, Limits, START_MS, TINY, contents, options};
use tidekv::{Db, Durability, Environment, Error, ErrorKind, Options, WriteBatch};
use tidekv_io::{Fault, FaultRule, ManualClock, MemoryStorage, Operation, Storage, Tear};

fn over(disk: &MemoryStorage) -> Options {
    Options::new()
        .memory_bytes(8 << 20)
        .environment(Environment::default().storage(Arc::new(disk.clone())))
}

/// Every write is refused with an error that `is_expected`, and reads go on.
fn only_reads(
    db: &Db,
    expected: &[(Vec<u8>, support::Value)],
    is_expected: impl Fn(&Error) -> bool,
) {
    let keyspace = db.keyspace("k").unwrap();
    assert_eq!(contents(db, "k"), expected);
    let errors = [
        keyspace.put("x", "y").unwrap_err(),
        keyspace.delete("x").unwrap_err(),
        keyspace.clear().unwrap_err(),
        db.flush().unwrap_err(),
        db.compact().unwrap_err(),
        db.drop_keyspace("k").unwrap_err(),
        db.health().unwrap_err(),
    ];
    assert!(errors.iter().all(is_expected), "{errors:?}");
    let missing = db.keyspace("none").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Unavailable);
}

#[test]
fn a_store_that_was_killed_on_a_full_disk_opens_for_reads() {
    let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
    let open = |disk: &MemoryStorage| Db::open(DIRECTORY, options(disk, &clock, TINY));
    let db = open(&disk).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for i in 0..1000_u32 {
        keyspace.put(i.to_be_bytes(), vec![i as u8; 300]).unwrap();
    }
    db.sync().unwrap();
    let expected = contents(&db, "k");
    let killed = disk.after_power_loss(Tear::DropUnsynced);
    killed.set_capacity(Some(0));
    let before = killed.paths();
    for _ in 0..3 {
        let db = open(&killed).unwrap();
        only_reads(&db, &expected, |error| {
            error.kind() == ErrorKind::Full && error.to_string().contains("open for reads only")
        });
        db.close().unwrap();
    }
    // Attempts leave nothing behind that fills the disk.
    assert_eq!(killed.paths(), before);
    killed.set_capacity(None);
    let db = open(&killed).unwrap();
    assert_eq!(contents(&db, "k"), expected);
    db.keyspace("k").unwrap().put("x", "y").unwrap();
}

/// A flush that had failed was tried again without the deletion that came after it, and failed again:
/// the store refused writes although everything in it was deleted. A compaction that had failed was an
/// error for good, although nothing was left to compact.
#[test]
fn a_full_disk_is_emptied_by_a_range_deletion() {
    let spaces = [(64, 64, 20), (16, 64, 20), (8, 4, 20)].into_iter().flat_map(
        |(memtable_kib, table_kib, step_kib)| {
            let limits =
                Limits { memtable_bytes: memtable_kib << 10, table_bytes: table_kib << 10 };
            (10..65_u64).map(move |n| (limits, n * (step_kib << 10)))
        },
    );
    let mut failures = 0;
    for (limits, space) in spaces {
        let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
        let db = Db::open(DIRECTORY, options(&disk, &clock, limits)).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let files = disk.paths();
        let used: usize = files.iter().map(|path| disk.read_file(path).unwrap().len()).sum();
        disk.set_capacity(Some(used as u64 + space));
        let refused =
            (0..10_000_u32).find_map(|i| keyspace.put(i.to_be_bytes(), vec![b'v'; 3000]).err());
        let error = refused.expect("the disk is bounded");
        assert_eq!(error.kind(), ErrorKind::Full);
        if let Err(failed) = db.health() {
            assert!(failed.to_string().contains(".table"), "{failed}");
            failures += 1;
        }
        keyspace.clear().unwrap();
        let again = (space / 4 / 3000) as u32;
        for i in 0..again {
            let put = keyspace.put(i.to_be_bytes(), vec![b'n'; 3000]);
            put.unwrap_or_else(|after| panic!("{space}, {i}: {after}, first {error}"));
        }
        assert_eq!(keyspace.iter().count(), again as usize);
        db.resume().unwrap();
        db.health().unwrap();
    }
    assert!(failures > 20, "{failures}");
}

/// Writers waited for memory that a failed flush held, although all its keys were deleted.
#[test]
fn deletions_of_single_keys_free_the_memory_of_a_flush_that_failed() {
    let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
    let db = Db::open(DIRECTORY, options(&disk, &clock, TINY)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let full = Fault::Fail(tidekv_io::ErrorKind::Full);
    disk.add_fault(FaultRule::always(Operation::Write, full).on_path(".table"));
    let put = |i: u32| keyspace.put(i.to_be_bytes(), vec![b'v'; 3000]);
    let refused_at = (0..100_000).find(|&i| put(i).is_err()).expect("memory is bounded");
    (0..refused_at).for_each(|i| keyspace.delete(i.to_be_bytes()).unwrap());
    // Writers retry every ten seconds.
    clock.advance(Duration::from_secs(11));
    put(0).unwrap();
    assert_eq!(keyspace.iter().count(), 1);
    db.health().unwrap();
}

/// Deletions of single keys used up what the log reserves for deletions, and the store refused even the
/// deletion of everything.
#[test]
fn a_range_deletion_is_accepted_where_those_of_single_keys_are_not() {
    for space in (5..20_u64).map(|n| n * (20 << 10)) {
        let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
        let limits = Limits { memtable_bytes: 1 << 20, table_bytes: 64 << 10 };
        let db = Db::open(DIRECTORY, options(&disk, &clock, limits)).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let files = disk.paths();
        let used: usize = files.iter().map(|path| disk.read_file(path).unwrap().len()).sum();
        disk.set_capacity(Some(used as u64 + space));
        // So that a flush cannot free space before everything is deleted.
        let full = Fault::Fail(tidekv_io::ErrorKind::Full);
        disk.add_fault(FaultRule::always(Operation::Write, full).on_path(".table"));
        let put = |i: u32| keyspace.put(i.to_be_bytes(), [b'v'; 100]);
        assert!((0..100_000).any(|i| put(i).is_err()));
        let delete = |i: u32| keyspace.delete([&[0xff][..], &i.to_be_bytes()].concat());
        let error = (0..10_000).find_map(|i| delete(i).err()).expect("the reserve is bounded");
        assert_eq!(error.kind(), ErrorKind::Full);
        keyspace.clear().unwrap_or_else(|error| panic!("{space}: {error}"));
        clock.advance(Duration::from_secs(2));
        put(0).unwrap_or_else(|error| panic!("{space}: {error}"));
        assert_eq!(keyspace.iter().count(), 1);
    }
}

/// Opens a store with threads of its own.
fn open_with_threads(disk: &MemoryStorage) -> Db {
    let environment = Environment::default().storage(Arc::new(disk.clone()));
    let options = Options::new().memory_bytes(8 << 20).environment(environment);
    Db::open(DIRECTORY, options).unwrap()
}

/// Each retry cleared the failure of the flush, so writers waited forever. The range deletion here is
/// older than the data, so no retry can succeed.
#[test]
fn writers_do_not_wait_for_a_flush_that_cannot_succeed() {
    let disk = MemoryStorage::new();
    let db = open_with_threads(&disk);
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    keyspace.clear().unwrap();
    let full = Fault::Fail(tidekv_io::ErrorKind::Full);
    disk.add_fault(FaultRule::always(Operation::Write, full).on_path(".table"));
    let put = |i: u32| keyspace.put(i.to_be_bytes(), vec![b'v'; 4000]);
    let refused = (0..100_000).find_map(|i| put(i).err()).expect("memory is bounded");
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert_eq!(keyspace.get(0_u32.to_be_bytes()).unwrap().unwrap().len(), 4000);
    assert!(db.health().is_err());
    // A newer deletion is worth a flush, and that fails as well.
    keyspace.clear().unwrap();
    assert!((0..100_000).any(|i| put(i).is_err()));
    disk.clear_faults();
    keyspace.clear().unwrap();
    // A flush that began before may fail yet, and each write retries it.
    let is_accepted = |_| {
        std::thread::sleep(Duration::from_millis(10));
        put(0).is_ok()
    };
    assert!((0..1000).any(is_accepted), "{:?}", db.health());
    (0..5000).for_each(|i| put(i).unwrap());
    assert_eq!(keyspace.iter().count(), 5000);
}

/// A log of which nothing was needed any more was kept, because there was nothing to flush: an empty
/// store had no space for a write.
#[test]
fn a_full_disk_that_was_emptied_a_while_ago_accepts_writes() {
    for space in [300_000, 600_000, 900_000] {
        let disk = MemoryStorage::new();
        let db = open_with_threads(&disk);
        let keyspace = db.keyspace("k").unwrap();
        let files = disk.paths();
        let used: u64 = files.iter().map(|path| disk.read_file(path).unwrap().len() as u64).sum();
        disk.set_capacity(Some(used + space));
        let put = |i: u32| keyspace.put(i.to_be_bytes(), vec![b'v'; 1000]);
        assert!((0..10_000).any(|i| put(i).is_err()));
        keyspace.clear().unwrap();
        // Something flushes the deletion.
        std::thread::sleep(Duration::from_millis(1500));
        let refused = (0..space as u32 / 4000).find_map(|i| put(i).err());
        assert_eq!(refused.map(|error| error.to_string()), None, "{space}");
        db.health().unwrap();
    }
}

/// A failed compaction stayed an error, although its tables had been dropped.
#[test]
fn a_compaction_that_failed_is_forgotten_when_none_is_needed() {
    let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
    let db = Db::open(DIRECTORY, options(&disk, &clock, TINY)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let mut failures = 0;
    for skipped in 0..40 {
        let full = Fault::Fail(tidekv_io::ErrorKind::Full);
        let rule = FaultRule::always(Operation::Create, full).on_path(".table").after(skipped);
        // A compaction is tried again once with the space of the next log.
        disk.add_fault(FaultRule { times: Some(2), ..rule });
        let is_healthy = |i: u32| {
            // Not in order: tables without common keys would only be moved.
            keyspace.put((i * 7919 % 2000).to_be_bytes(), vec![b'v'; 300]).unwrap();
            db.health().is_ok()
        };
        failures += u32::from(!(0..2000).all(is_healthy));
        disk.clear_faults();
        keyspace.clear().unwrap();
        db.flush().unwrap();
        db.resume().unwrap();
        db.health().unwrap_or_else(|error| panic!("{skipped}: {error}"));
    }
    assert!(failures > 10, "{failures}");
}

/// A flush needs space before it frees its logs, and the next log had taken the last of it: the store
/// refused all writes until it was opened again.
#[test]
fn a_flush_on_a_full_disk_gets_the_space_of_the_next_log() {
    for (is_prepared, what) in [(true, "a prepared log"), (false, "a log kept for reuse")] {
        let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
        let db = Db::open(DIRECTORY, options(&disk, &clock, TINY)).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let count = std::cell::Cell::new(0_u32);
        let put = || {
            count.update(|count| count + 1);
            keyspace.put(count.get().to_be_bytes(), [b'v'; 300]).unwrap();
        };
        let logs = || -> Vec<_> {
            let is_log = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "log");
            disk.paths().into_iter().filter(is_log).collect()
        };
        (0..30).for_each(|_| put());
        match is_prepared {
            true => while_less_than(2, || logs().len(), put),
            // The log of what is flushed is kept.
            false => db.flush().unwrap(),
        }
        let before = logs();
        assert_eq!(before.len(), 2, "{what}");
        disk.record_history(true);
        // The disk is full when the next flush creates its table.
        let is_full = Arc::new(AtomicBool::new(false));
        let (device, was_full) = (disk.clone(), Arc::clone(&is_full));
        disk.on_operation(move |operation| {
            let is_table = operation.path.extension().is_some_and(|kind| kind == "table");
            let is_first = operation.operation == Operation::Create && is_table;
            if is_first && !was_full.swap(true, Ordering::Relaxed) {
                let files = device.paths();
                let bytes = files.iter().map(|path| device.read_file(path).unwrap().len() as u64);
                device.set_capacity(Some(bytes.sum()));
            }
        });
        let flushes = support::count(&db, "flush.count");
        while_less_than(flushes + 1, || support::count(&db, "flush.count"), put);
        assert!(support::count(&db, "background.full_disk_retries") > 0, "{what}");
        disk.clear_on_operation();
        assert!(is_full.load(Ordering::Relaxed));
        // Its name may be in use again.
        let is_removed = |log: &PathBuf| {
            let mut history = disk.history().into_iter();
            history.any(|done| done.operation == Operation::Remove && done.path == *log)
        };
        assert!(before.iter().any(is_removed), "{what} is not removed");
        db.health().unwrap();
        assert_eq!(support::count(&db, "background.errors"), 0, "{what}");
        // Nothing relies on the log that is gone.
        disk.set_capacity(None);
        (0..200).for_each(|_| put());
        db.close().unwrap();
        let db = Db::open(DIRECTORY, options(&disk, &clock, TINY)).unwrap();
        assert_eq!(contents(&db, "k").len(), count.get() as usize);
    }
}

/// Repeats `step` as long as `count` is less than `least`.
fn while_less_than<N: PartialOrd>(least: N, count: impl Fn() -> N, step: impl Fn()) {
    for _ in 0..1000 {
        if count() >= least {
            return;
        }
        step();
    }
    panic!("it never comes to that");
}

#[test]
fn a_store_on_a_read_only_file_system_opens_for_reads() {
    let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
    let open = || Db::open(DIRECTORY, options(&disk, &clock, TINY));
    let db = open().unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for i in 0..300_u32 {
        keyspace.put(i.to_be_bytes(), vec![i as u8; 300]).unwrap();
    }
    let expected = contents(&db, "k");
    db.close().unwrap();
    for operation in [Operation::Lock, Operation::Create, Operation::Write, Operation::Rename] {
        let fault = Fault::Fail(tidekv_io::ErrorKind::ReadOnly);
        let operation = Some(operation);
        disk.add_fault(FaultRule { operation, path_contains: None, skip: 0, times: None, fault });
    }
    let db = open().unwrap();
    only_reads(&db, &expected, |error| error.to_string().contains("file system is read-only"));
    db.close().unwrap();
    disk.clear_faults();
    open().unwrap().keyspace("k").unwrap().put("x", "y").unwrap();
}

#[test]
fn a_store_whose_files_are_removed_refuses_writes() {
    for removed in ["CURRENT", "MANIFEST", ".table", ".log"] {
        let disk = MemoryStorage::new();
        let db = Db::open(DIRECTORY, over(&disk)).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put("a", "1").unwrap();
        db.flush().unwrap();
        keyspace.put("b", "2").unwrap();
        let is_one = |path: &Path| path.to_string_lossy().contains(removed);
        let path = disk.paths().into_iter().rfind(|path| is_one(path)).expect("there is one");
        disk.remove(&path).unwrap();
        let mut tries = 0;
        let error = loop {
            match keyspace.put("c", "3") {
                Err(error) => break error,
                Ok(()) if tries < 300 => std::thread::sleep(Duration::from_millis(100)),
                Ok(()) => panic!("{removed}: nobody notices"),
            }
            tries += 1;
        };
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        assert!(error.to_string().contains("was removed"), "{error}");
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
        assert_eq!(keyspace.get("b").unwrap().unwrap(), "2");
        assert!(db.health().is_err());
    }
}

/// Ends the writer when it is dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn reading_beside_a_writer_never_fails() {
    let disk = MemoryStorage::new();
    let options = || over(&disk).memtable_bytes(8 << 10).table_bytes(8 << 10);
    let db = Db::open(DIRECTORY, options()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("first", "1").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut i = 0_u32;
            while !is_done.load(Ordering::Relaxed) {
                i += 1;
                let mut batch = WriteBatch::new();
                batch.put(&keyspace, (i % 5000).to_be_bytes(), i.to_be_bytes().repeat(25));
                // A reader also meets logs that are being synced.
                let durability =
                    if i.is_multiple_of(4) { Durability::Sync } else { Durability::Buffered };
                db.write_with(batch, durability).unwrap();
            }
        });
        // Also if an assertion fails: otherwise the writer would go on for ever.
        let _done = Done(&is_done);
        let mut newest = 0;
        for _ in 0..100 {
            let beside = Db::open(DIRECTORY, options().read_only(true)).unwrap();
            let keyspace = beside.keyspace("k").unwrap();
            assert_eq!(keyspace.get("first").unwrap().unwrap(), "1");
            // What one opening has seen, later ones see as well.
            let value = |item: tidekv::Result<(_, tidekv::Entry)>| {
                let (_, entry) = item.unwrap();
                entry.value.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
            };
            let seen = keyspace.iter().map(value).filter(|&n| n < 1 << 24).max().unwrap_or(0);
            assert!(seen >= newest, "{seen} after {newest}");
            newest = seen;
        }
    });
}

#[test]
fn a_small_store_takes_little_space() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = || -> u64 {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    for round in 0..3 {
        let db = Db::open(directory.path(), Options::new().memory_bytes(256 << 20)).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        for i in 0..1000_u32 {
            keyspace.put(format!("key-{i:06}"), [b'v'; 100]).unwrap();
        }
        assert!(bytes() < 1 << 20, "{} bytes while open, in round {round}", bytes());
        db.close().unwrap();
        assert!(bytes() < 512 << 10, "{} bytes when closed, in round {round}", bytes());
    }
}
