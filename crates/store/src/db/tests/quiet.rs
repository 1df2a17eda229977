//! What happens once nothing is written any more.

use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, MemoryStorage, SystemClock};

use super::super::Db;
use crate::keyspace::Keyspace;
use crate::options::Options;

/// Far more than the half second that it takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(disk: &MemoryStorage) -> (Db, Keyspace) {
    let mut options = Options { memory_bytes: Some(8 << 20), ..Options::default() };
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
    let clock = SystemClock::new();
    while level0(keyspace) > 0 {
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
fn what_an_earlier_life_left_in_level_0_is_merged_too() {
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk);
    flush(&db, &keyspace, 3);
    let left = level0(&keyspace);
    drop(keyspace);
    db.close().unwrap();
    let (_db, keyspace) = open(&disk);
    assert!(is_merged(&keyspace), "{left} tables were left");
}

/// One byte behind much in the level below: it waits until enough has come.
#[test]
fn no_more_is_rewritten_than_flushes_have_paid_for() {
    let (db, keyspace) = open(&MemoryStorage::new());
    let large = vec![7; 1 << 20];
    (0..4).for_each(|i| keyspace.put(format!("{i}"), &large[..]).unwrap());
    db.flush().unwrap();
    keyspace.compact_range::<&str>(..).unwrap();
    let spare = || db.engine().quiet.spare_bytes();
    db.engine().quiet.spend(spare());
    flush(&db, &keyspace, 1);
    // The span of what was flushed holds all that is below.
    keyspace.put("0", "new").unwrap();
    keyspace.put("9", "new").unwrap();
    db.flush().unwrap();
    assert!(spare() < 1 << 20);
    SystemClock::new().sleep(Duration::from_millis(1200));
    assert_eq!(level0(&keyspace), 2);
}
