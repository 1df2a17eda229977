//! The watch over the files of an open store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidekv_io::MemoryStorage;

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
