//! What happens once nothing is written any more.

use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, MemoryStorage, SystemClock};

use super::super::Db;
use crate::api::keyspace::Keyspace;
use crate::compaction::picker;
use crate::format::LEVELS;
use crate::options::Options;

/// Far more than the half second that it takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(disk: &MemoryStorage) -> (Db, Keyspace) {
    let mut options = Options::default().memory_bytes(8 << 20);
    options.environment.storage = Some(Arc::new(disk.clone()));
    let db = Db::open("/d", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn level0(keyspace: &Keyspace) -> usize {
    keyspace.tree().version().level(0).len()
}

fn flush(db: &Db, keyspace: &Keyspace, tables: usize) {
    for i in 0..tables {
        for key in ["a", "b", "c"] {
            keyspace.put(key, i.to_string()).unwrap();
        }
        db.flush().unwrap();
    }
}

/// Whether level 0 is merged in time.
fn is_merged(keyspace: &Keyspace) -> bool {
    comes_true(|| level0(keyspace) == 0)
}

fn comes_true(condition: impl Fn() -> bool) -> bool {
    let clock = SystemClock::new();
    while !condition() {
        if clock.monotonic_ns() > PATIENCE.as_nanos() as u64 {
            return false;
        }
        clock.sleep(Duration::from_millis(5));
    }
    true
}

#[test]
fn level_0_is_merged_when_writers_rest() {
    let (db, keyspace) = open(&MemoryStorage::new());
    flush(&db, &keyspace, 3);
    assert!(is_merged(&keyspace));
    assert_eq!(keyspace.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    // And again.
    flush(&db, &keyspace, 1);
    assert!(is_merged(&keyspace));
}

#[test]
fn level_0_of_a_previous_run_is_compacted_too() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk);
    flush(&db, &keyspace, 3);
    let left = level0(&keyspace);
    drop(keyspace);
    db.close().unwrap();
    let (_db, keyspace) = open(&disk);
    assert!(is_merged(&keyspace), "{left} tables were left");
}

/// A store with a large table in its last level and two small ones, which span it,
/// in level 0.
fn little_above_much() -> (Db, Keyspace) {
    let (db, keyspace) = open(&MemoryStorage::new());
    let large = vec![7; 1 << 20];
    (0..4).for_each(|i| keyspace.put(format!("{i}"), &large[..]).unwrap());
    db.flush().unwrap();
    keyspace.compact_range::<&str>(..).unwrap();
    for value in ["new", "newer"] {
        keyspace.put("0", value).unwrap();
        keyspace.put("9", value).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(level0(&keyspace), 2);
    (db, keyspace)
}

#[test]
fn small_level_0_is_compacted_within_itself() {
    let (_db, keyspace) = little_above_much();
    let below = keyspace.tree().version().level(LEVELS - 1)[0].meta().id;
    assert!(comes_true(|| level0(&keyspace) == 1));
    let version = keyspace.tree().version();
    assert_eq!(version.level(LEVELS - 1)[0].meta().id, below);
    for key in ["0", "9"] {
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&b"newer"[..]));
    }
    // What comes later is newer.
    keyspace.put("0", "newest").unwrap();
    keyspace.compact_range::<&str>(..).unwrap();
    assert_eq!(keyspace.get("0").unwrap().as_deref(), Some(&b"newest"[..]));
}

#[test]
fn no_more_is_rewritten_than_flushes_have_paid_for() {
    let (db, keyspace) = little_above_much();
    let quiet = db.engine().jobs.idle();
    quiet.spend(quiet.spare_bytes());
    SystemClock::new().sleep(Duration::from_millis(1200));
    assert_eq!(level0(&keyspace), 2);
}

/// An ingested table is newer than what a memtable still holds of other keys. Merged
/// with an older table of level 0 it made that pass for newer than the memtable.
#[test]
fn an_older_version_is_not_made_newer_by_an_ingested_neighbour() {
    let (db, keyspace) = little_above_much();
    keyspace.put("0", "in a memtable").unwrap();
    keyspace.ingest([("2", "ingested")]).unwrap();
    assert_eq!(level0(&keyspace), 3);
    SystemClock::new().sleep(Duration::from_millis(1200));
    db.flush().unwrap();
    assert_eq!(keyspace.get("0").unwrap().as_deref(), Some(&b"in a memtable"[..]));
    assert_eq!(keyspace.get("2").unwrap().as_deref(), Some(&b"ingested"[..]));
}

/// Tables that had become one of the same level were taken to have gone down.
#[test]
fn a_range_is_compacted_also_while_level_0_is_merged_with_itself() {
    let (db, keyspace) = little_above_much();
    let (engine, tree) = (db.engine(), keyspace.tree());
    let itself = engine
        .claim(tree, |version| picker::pick_idle(version, engine.picker_options(tree), 1 << 20))
        .unwrap();
    assert_eq!((itself.inputs.len(), itself.output_level), (2, 0));
    std::thread::scope(|scope| {
        let compacted = scope.spawn(|| keyspace.compact_range::<&str>(..));
        SystemClock::new().sleep(Duration::from_millis(100));
        engine.compact_here(tree, itself).unwrap();
        compacted.join().unwrap().unwrap();
    });
    assert_eq!(level0(&keyspace), 0);
}
