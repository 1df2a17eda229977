//! Every file of a released store: today's code writes the same files, and still opens the released
//! ones.

mod support;

use std::path::Path;
use std::sync::Arc;

use support::{DIRECTORY, START_MS, TINY, contents, options};
use tidekv::{Compression, Db, KeyspaceOptions, WriteBatch};
use tidekv_io::{ManualClock, MemoryStorage, Tear};
use tidekv_testkit::golden::{self, Dump};

fn open(disk: &MemoryStorage) -> Db {
    Db::open(DIRECTORY, options(disk, &Arc::new(ManualClock::new(START_MS)), TINY)).unwrap()
}

/// Tables on two levels, a log in a recycled file, and writes that are in the log only.
fn released_store() -> MemoryStorage {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let plain = KeyspaceOptions::default().compression(Compression::None);
    let plain = plain.compression_last(Compression::None);
    let tides = db.keyspace_with("tides", plain.clone()).unwrap();
    let winds = db.keyspace_with("winds", plain).unwrap();
    tides.put("high", "spring").unwrap();
    tides.put("low", "neap").unwrap();
    winds.put("north", "cold").unwrap();
    db.compact().unwrap();
    tides.ingest([("moon", "full"), ("sun", "high")]).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_until(&tides, b"slack", b"calm", 1_800_000_000_000);
    batch.delete(&tides, b"low");
    batch.delete_range(&tides, b"m", b"n");
    db.write(batch).unwrap();
    db.flush().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&tides, b"ebb", b"now");
    batch.put(&winds, b"west", b"wet");
    batch.delete(&winds, b"north");
    db.write(batch).unwrap();
    db.sync().unwrap();
    // As a killed process leaves it.
    disk.after_power_loss(Tear::KeepUnsynced)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn store_matches_released_files_and_opens_them() {
    let disk = released_store();
    let mut dump = Dump::new(
        "All files of a small store that was not closed. Written by crates/store/tests/golden.rs.",
    );
    // The time of the opening is another one each time; its record has a test of its own.
    for path in disk.paths().into_iter().filter(|path| name_of(path) != "CLOCK") {
        dump.file(&name_of(&path));
        dump.part("All of it", &disk.read_file(&path).unwrap());
    }
    let released = dump.hold_against("store");
    let kinds = ["CURRENT", "LOCK", "MANIFEST-", ".log", ".table"];
    for kind in kinds {
        assert!(released.iter().any(|(name, _)| name.contains(kind)), "there is no {kind}");
    }
    let lock = released.iter().find(|(name, _)| name == "LOCK").unwrap();
    assert!(lock.1.is_empty());
    opens_with_all_entries(&released);
}

/// Before small flushes shared a file, each table had its own.
#[test]
fn store_with_a_file_per_table_opens() {
    opens_with_all_entries(&golden::released("store-with-a-file-per-table"));
}

fn opens_with_all_entries(released: &[(String, Vec<u8>)]) {
    let old = MemoryStorage::new();
    for (name, bytes) in released {
        old.write_file(Path::new(DIRECTORY).join(name), bytes);
    }
    let db = open(&old);
    let entry = |key: &str, value: &str| (key.into(), (value.as_bytes().to_vec(), None));
    let slack = (b"slack".to_vec(), (b"calm".to_vec(), Some(1_800_000_000_000)));
    let tides = [entry("ebb", "now"), entry("high", "spring"), slack, entry("sun", "high")];
    assert_eq!(contents(&db, "tides"), tides);
    assert_eq!(contents(&db, "winds"), [entry("west", "wet")]);
}
