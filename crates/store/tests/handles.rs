//! The bound on open files: a store with more tables than handles works as any other, and removes
//! its files as any other.

use std::sync::Arc;

use tidekv::{Db, Environment, InlineExecutor, ManualClock, MemoryStorage, Options, check};
use tidekv_io::Storage;

const FILES_MAX: usize = 4;

fn options(disk: &MemoryStorage) -> Options {
    let environment = Environment::default()
        .storage(Arc::new(disk.clone()))
        .clock(Arc::new(ManualClock::new(1_000_000)))
        .executor(Arc::new(InlineExecutor::new()));
    // Without caches that would answer instead of the files.
    Options::new()
        .memory_bytes(8 << 20)
        .max_open_files(FILES_MAX)
        .warm_start(false)
        .environment(environment)
}

fn table_files(disk: &MemoryStorage) -> usize {
    let files = disk.list("/d".as_ref()).unwrap();
    files.iter().filter(|file| file.name.ends_with(".table")).count()
}

/// A store of 40 keyspaces of one table each.
fn store(disk: &MemoryStorage) -> Db {
    let db = Db::open("/d", options(disk)).unwrap();
    for n in 0..40 {
        db.keyspace(&format!("k{n}")).unwrap().put("key", [n]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(table_files(disk), 40);
    db
}

/// Every table was held open: a store of 1 100 keyspaces could not be opened at `ulimit -n 1024`.
#[test]
fn store_with_more_tables_than_handles_opens_and_is_read() {
    let disk = MemoryStorage::new();
    store(&disk).close().unwrap();
    let db = Db::open("/d", options(&disk)).unwrap();
    for round in 0..2 {
        for n in 0..40 {
            let keyspace = db.keyspace(&format!("k{n}")).unwrap();
            assert_eq!(keyspace.get("key").unwrap().unwrap(), vec![n], "round {round}");
            assert_eq!(keyspace.iter().count(), 1);
            assert!(db.statistics().counter("files.open") <= FILES_MAX as u64);
        }
    }
    let opened = db.statistics().counter("files.opened");
    assert!(opened >= 40, "{opened}");
}

#[test]
fn iterator_reads_tables_that_were_closed_and_compacted_meanwhile() {
    let disk = MemoryStorage::new();
    let db = store(&disk);
    let keyspace = db.keyspace("k0").unwrap();
    for n in 0..200u32 {
        keyspace.put(n.to_be_bytes(), vec![7; 5000]).unwrap();
    }
    db.flush().unwrap();
    let mut walk = keyspace.iter();
    assert!(walk.next().unwrap().is_ok());
    keyspace.clear().unwrap();
    db.compact().unwrap();
    for n in 1..40 {
        assert!(db.keyspace(&format!("k{n}")).unwrap().get("key").unwrap().is_some());
    }
    assert!(db.statistics().counter("files.open") <= FILES_MAX as u64);
    let rest: Vec<_> = walk.map(|entry| entry.unwrap().0).collect();
    assert_eq!(rest.len(), 200, "199 numbers and the first key");
    // The end of a job removes what is gone.
    db.keyspace("k1").unwrap().put("key", "new").unwrap();
    db.compact().unwrap();
    assert_eq!(table_files(&disk), 39, "with its last reader the table is gone");
    db.close().unwrap();
    let report = check::check("/d", Some(Arc::new(disk)), &mut |_| {}).unwrap();
    assert_eq!(report.damage, []);
}
