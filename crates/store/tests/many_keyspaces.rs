//! Stores of many small keyspaces: few files, few syncs, and space that comes back.

use std::sync::Arc;

use tidekv::inspect::Inspector;
use tidekv::{
    Db, Environment, InlineExecutor, Keyspace, ManualClock, MemoryStorage, Options, check,
};
use tidekv_io::Storage;

const KEYSPACES: usize = 200;

fn options(disk: &MemoryStorage) -> Options {
    let environment = Environment::default()
        .storage(Arc::new(disk.clone()))
        .clock(Arc::new(ManualClock::new(1_000_000)))
        .executor(Arc::new(InlineExecutor::new()));
    Options::new().memory_bytes(8 << 20).warm_start(false).environment(environment)
}

fn open(disk: &MemoryStorage) -> Db {
    Db::open("/d", options(disk)).unwrap()
}

fn keyspaces(db: &Db) -> Vec<Keyspace> {
    (0..KEYSPACES).map(|n| db.keyspace(&format!("k{n}")).unwrap()).collect()
}

/// The number of table files, and their bytes.
fn table_files(disk: &MemoryStorage) -> (usize, u64) {
    let files = disk.list("/d".as_ref()).unwrap();
    let tables: Vec<_> = files.iter().filter(|file| file.name.ends_with(".table")).collect();
    (tables.len(), tables.iter().map(|file| file.bytes).sum())
}

/// Writes an entry to each keyspace.
fn put_all(keyspaces: &[Keyspace], key: &str, value: &str) {
    keyspaces.iter().for_each(|keyspace| keyspace.put(key, value).unwrap());
}

fn assert_sound(disk: &MemoryStorage, tables: u64) {
    let report = check::check("/d", Some(Arc::new(disk.clone())), &mut |_| {}).unwrap();
    assert_eq!(report.damage, []);
    assert!(!report.left_over.iter().any(|name| name.ends_with(".table")));
    assert_eq!(report.tables, tables);
}

/// Each keyspace was flushed into a file of its own, with syncs of its own.
#[test]
fn one_flush_of_many_keyspaces_makes_one_file() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let all = keyspaces(&db);
    put_all(&all, "a", "one");
    db.flush().unwrap();
    assert_eq!(table_files(&disk).0, 1);
    put_all(&all, "b", "two");
    db.flush().unwrap();
    let (files, bytes) = table_files(&disk);
    assert_eq!(files, 2);
    assert!(bytes < 2 * KEYSPACES as u64 * 1024, "{bytes}: small tables take no page each");
    let statistics = db.statistics();
    assert_eq!(statistics.counter("flush.count"), 2);
    assert_eq!(statistics.counter("level0.tables"), 2 * KEYSPACES as u64);
    drop(all);
    db.close().unwrap();
    assert_sound(&disk, 2 * KEYSPACES as u64);

    let db = open(&disk);
    for keyspace in keyspaces(&db) {
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "one");
        assert_eq!(keyspace.get("b").unwrap().unwrap(), "two");
        assert_eq!(keyspace.iter().rev().count(), 2);
    }
    let store = Inspector::new("/d", Some(Arc::new(disk))).unwrap();
    let tables: Vec<_> =
        store.store().unwrap().keyspaces.into_iter().flat_map(|k| k.levels).flatten().collect();
    assert_eq!(tables.len(), 2 * KEYSPACES);
    assert!(tables.iter().all(|table| table.file != table.id && table.offset % 64 == 0));
    let last = tables.last().unwrap();
    assert_eq!(store.table(last.id).unwrap().keyspace, KEYSPACES as u32 - 1);
}

/// When the memtables of many keyspaces together took too much memory, only the largest was flushed,
/// and the next one after 16 KiB more: 200 000 puts to 3 000 keyspaces made 15 863 tables.
#[test]
fn small_memtables_are_flushed_together_when_memory_is_short() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let all = keyspaces(&db);
    let value = "v".repeat(200);
    for n in 0..100 {
        put_all(&all, &format!("key {n}"), &value);
    }
    let flushes = db.statistics().counter("flush.count");
    assert!((2..=20).contains(&flushes), "{flushes}");
    for keyspace in &all {
        assert_eq!(keyspace.iter().count(), 100);
    }
    drop(all);
    db.close().unwrap();
    let (disk, before) = (disk.after_power_loss(tidekv_io::Tear::KeepUnsynced), table_files(&disk));
    let db = open(&disk);
    assert!(table_files(&disk).0 <= before.0 + 1, "an opening makes one file of the logs");
    assert!(keyspaces(&db).iter().all(|keyspace| keyspace.iter().count() == 100));
}

#[test]
fn file_of_several_tables_is_removed_with_the_last_of_them() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    put_all(&keyspaces(&db), "a", "one");
    db.flush().unwrap();
    let kept = db.keyspace("k7").unwrap();
    for n in (0..KEYSPACES).filter(|&n| n != 7) {
        assert!(db.drop_keyspace(&format!("k{n}")).unwrap());
    }
    assert_eq!(kept.get("a").unwrap().unwrap(), "one");
    let mut walk = kept.iter();
    assert!(walk.next().unwrap().is_ok());
    assert!(db.drop_keyspace("k7").unwrap());
    assert_eq!(table_files(&disk).0, 1, "an iterator reads it");
    drop(walk);
    db.keyspace("other").unwrap().put("key", "value").unwrap();
    db.compact().unwrap();
    assert_eq!(table_files(&disk).0, 1, "that of the other keyspace");
    db.close().unwrap();
    assert_sound(&disk, 1);
}

#[test]
fn keyspace_dropped_during_a_flush_of_several_gets_no_table() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let all = keyspaces(&db);
    put_all(&all, "a", "one");
    db.drop_keyspace("k3").unwrap();
    db.flush().unwrap();
    drop(all);
    assert_eq!(db.statistics().counter("level0.tables"), KEYSPACES as u64 - 1);
    assert!(db.keyspace("k3").unwrap().get("a").unwrap().is_none());
}

#[test]
fn checkpoint_has_the_files_of_several_tables_once() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    put_all(&keyspaces(&db), "a", "one");
    db.checkpoint("/copy").unwrap();
    let files = disk.list("/copy".as_ref()).unwrap();
    assert_eq!(files.iter().filter(|file| file.name.ends_with(".table")).count(), 1);
    put_all(&keyspaces(&db), "a", "two");
    db.compact().unwrap();
    let copy = Db::open("/copy", options(&disk)).unwrap();
    for keyspace in keyspaces(&copy) {
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "one");
    }
}

/// A file of several tables stays until the last of them is gone, so one keyspace could keep the
/// space of hundreds that were dropped.
#[test]
fn space_of_dropped_keyspaces_comes_back_although_others_share_their_files() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let all = keyspaces(&db);
    put_all(&all, "a", &"v".repeat(2000));
    db.flush().unwrap();
    let (_, full) = table_files(&disk);
    for n in (0..KEYSPACES).filter(|n| n % 20 != 0) {
        db.drop_keyspace(&format!("k{n}")).unwrap();
    }
    let (files, left) = table_files(&disk);
    assert!(left <= 2 * full / 20, "{left} bytes in {files} files are left of {full}");
    for n in (0..KEYSPACES).step_by(20) {
        assert_eq!(all[n].get("a").unwrap().unwrap(), "v".repeat(2000));
        all[n].put("b", "new").unwrap();
    }
    drop(all);
    db.close().unwrap();
    assert_sound(&disk, KEYSPACES as u64 / 20);
}

/// Each keyspace kept up to twelve tables in level 0, whose metadata took more memory than their
/// entries, and each merge made a file.
#[test]
fn small_tables_of_many_keyspaces_are_merged_into_few_files() {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let all = keyspaces(&db);
    for n in 0..12 {
        put_all(&all, &format!("key {n}"), "value");
        db.flush().unwrap();
    }
    let tables: u64 = db.statistics().levels().iter().map(|level| level.tables).sum();
    assert!(tables <= 3 * KEYSPACES as u64, "{tables}");
    assert!(table_files(&disk).0 <= 4, "{:?}", table_files(&disk));
    for keyspace in &all {
        assert_eq!(keyspace.iter().count(), 12);
    }
    drop(all);
    db.close().unwrap();
    assert_sound(&disk, tables);
}
