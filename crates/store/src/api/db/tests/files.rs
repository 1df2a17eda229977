//! The watch over the files of an open store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidekv_io::{ErrorKind, Fault, FaultRule, MemoryStorage, Operation};

use crate::{Db, Environment, Options};

/// Each removes logs, and many of them lead to compactions, which remove tables.
const FLUSHES: u64 = 200;

/// Looks beside a writer that makes and removes files all the time.
#[test]
fn files_that_the_store_removes_itself_are_not_missed() {
    let environment = Environment::default().storage(Arc::new(MemoryStorage::new()));
    let options = Options::new()
        .memory_bytes(8 << 20)
        .memtable_bytes(8 << 10)
        .table_bytes(8 << 10)
        .environment(environment);
    let db = Db::open("/d", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A slow flush takes many memtables at once, so the number of writes does not say how
            // many files there were.
            for i in 0..5_000_000_u32 {
                let key = i.wrapping_mul(747_796_405) >> 18;
                let is_written = keyspace.put(key.to_be_bytes(), [7; 100]).is_ok();
                if !is_written || i % 5_000 == 0 && db.statistics().background().flushes > FLUSHES {
                    break;
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        while !is_done.load(Ordering::Relaxed) {
            db.engine().look_for_files();
        }
    });
    db.health().unwrap();
    assert!(db.statistics().background().flushes > FLUSHES, "files were removed");
}

/// The check said nothing when it could not see the directory.
#[test]
fn a_directory_that_cannot_be_listed_is_an_error_of_the_background() {
    let disk = MemoryStorage::new();
    let environment = Environment::default().storage(Arc::new(disk.clone()));
    let db = Db::open("/d", Options::new().environment(environment)).unwrap();
    let errors = || db.statistics().counter("background.errors");
    db.engine().look_for_files();
    assert_eq!(errors(), 0);
    disk.add_fault(FaultRule {
        operation: Some(Operation::List),
        path_contains: None,
        skip: 0,
        times: None,
        fault: Fault::Fail(ErrorKind::Failed),
    });
    db.engine().look_for_files();
    assert!(errors() > 0);
    disk.clear_faults();
    // Nothing is known to be missing.
    db.keyspace("k").unwrap().put("a", "1").unwrap();
    db.health().unwrap();
}
