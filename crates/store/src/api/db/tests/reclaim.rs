//! Dead data and the threads of a real pool; pauses for users.

use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, InlineExecutor, ManualClock, MemoryStorage, SystemClock};

use super::super::Db;
use crate::api::keyspace::Keyspace;
use crate::options::Options;

/// Far more than the second that it takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(options: impl FnOnce(&mut Options)) -> (Db, Keyspace) {
    let mut all = Options::default().memory_bytes(8 << 20).table_bytes(64 << 10);
    all.environment.storage = Some(Arc::new(MemoryStorage::new()));
    options(&mut all);
    let db = Db::open("/d", all).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

#[test]
fn space_comes_back_in_the_background() {
    let (db, keyspace) = open(|_| {});
    let key = |i: u32| format!("{i:05}");
    (0..5000).for_each(|i| keyspace.put(key(i), vec![i as u8; 200]).unwrap());
    db.flush().unwrap();
    let before: u64 = keyspace.tree().version().tables().map(|table| table.meta().entries).sum();
    (0..5000).filter(|i| i % 10 != 0).for_each(|i| keyspace.delete(key(i)).unwrap());
    let left = || {
        let version = keyspace.tree().version();
        version.tables().map(|table| table.meta().entries).sum::<u64>()
    };
    let clock = SystemClock::new();
    while left() > before / 9 {
        assert!(clock.monotonic_ns() < PATIENCE.as_nanos() as u64, "{} of {before}", left());
        clock.sleep(Duration::from_millis(5));
    }
    assert_eq!(keyspace.iter().count(), 500);
}

#[test]
fn a_compaction_for_space_pauses_while_users_are_active() {
    let clock = Arc::new(ManualClock::new(0));
    let (db, keyspace) = open(|options| {
        options.environment.clock = Some(clock.clone());
        options.environment.executor = Some(Arc::new(InlineExecutor::new()));
    });
    let engine = db.engine();
    let way = engine.give_way();
    let work = Duration::from_millis(10);
    let pause = || {
        clock.advance(work);
        let before = clock.monotonic_ns();
        way.pause();
        Duration::from_nanos(clock.monotonic_ns() - before)
    };
    assert_eq!(pause(), Duration::ZERO);
    keyspace.get("a").unwrap();
    assert_eq!(pause(), 4 * work);
    assert_eq!(pause(), Duration::ZERO, "nobody came since");
    keyspace.put("a", "b").unwrap();
    assert_eq!(pause(), 4 * work);
    // Writers will need the tables soon.
    engine.memory.note_backlog(crate::compaction::picker::LEVEL0_TRIGGER, 0, 0);
    keyspace.put("a", "c").unwrap();
    assert_eq!(pause(), Duration::ZERO);
}
