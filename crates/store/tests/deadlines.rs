//! Deadlines do not come back, last as long as they say, and start when they are written; a store
//! refuses handles of another.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidekv::{
    Cached, Commit, Db, Durability, Environment, ErrorKind, KeyspaceOptions, KeyspaceRef, Options,
    WriteBatch,
};
use tidekv_io::ErrorKind as StorageError;
use tidekv_io::{
    Clock, Fault, FaultRule, LocalStorage, ManualClock, MemoryStorage, Operation, Storage,
    SystemClock,
};

const START_MS: u64 = 1_800_000_000_000;
const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: u64 = 3_600_000;

fn open_on(disk: &MemoryStorage, clock: &Arc<ManualClock>) -> Db {
    let environment =
        Environment::default().storage(Arc::new(disk.clone())).clock(Arc::clone(clock) as Arc<_>);
    Db::open("/data", Options::new().environment(environment).memory_bytes(8 << 20)).unwrap()
}

fn scene() -> (MemoryStorage, Arc<ManualClock>, Db) {
    let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
    let db = open_on(&disk, &clock);
    (disk, clock, db)
}

#[test]
fn entries_that_have_expired_do_not_come_back_when_the_clock_is_set_back() {
    for is_flushed in [false, true] {
        let (disk, clock, db) = scene();
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put_with_ttl("a", "1", Duration::from_millis(700)).unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        clock.advance(Duration::from_millis(700));
        assert_eq!(keyspace.get("a").unwrap(), None);
        clock.set_back(HOUR_MS);
        assert_eq!(keyspace.get("a").unwrap(), None);
        assert!(!keyspace.contains("a").unwrap());
        assert_eq!(keyspace.multi_get(&["a"]).unwrap(), [None]);
        assert_eq!(keyspace.iter().count(), 0);
        assert_eq!(keyspace.try_get_cached("a").unwrap(), Cached::Ready(None));
        db.close().unwrap();
        drop((keyspace, db));
        // In the next life too, and the machine's clock is still wrong.
        let db = open_on(&disk, &clock);
        assert_eq!(db.keyspace("k").unwrap().get("a").unwrap(), None);
        assert_eq!(db.clock_offset_ms(), -(HOUR_MS as i64));
        assert_eq!(db.unix_ms(), START_MS + 700);
    }
}

/// The contents of the device once a record of `store_ms` survives `tear`.
fn wait_for_record(disk: &MemoryStorage, tear: tidekv_io::Tear, store_ms: u64) -> MemoryStorage {
    let machine = SystemClock::new();
    let began = machine.monotonic_ns();
    loop {
        let cut = disk.after_power_loss(tear);
        let bytes = cut.read_file(Path::new("/data/CLOCK")).unwrap_or_default();
        if bytes.get(16..24).is_some_and(|at| at == store_ms.to_le_bytes()) {
            return cut;
        }
        assert!(machine.monotonic_ns() - began < 60_000_000_000, "the time is never saved");
        machine.sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_was_seen_to_have_expired_stays_so_after_a_kill() {
    for by_scan in [false, true] {
        let (disk, clock, db) = scene();
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put_with_ttl("a", "1", Duration::from_secs(60)).unwrap();
        db.sync().unwrap();
        clock.advance(Duration::from_secs(61));
        match by_scan {
            true => assert_eq!(keyspace.iter().count(), 0),
            false => assert_eq!(keyspace.get("a").unwrap(), None),
        }
        // What a killed process leaves; the opening has saved a record as well.
        let killed = wait_for_record(&disk, tidekv_io::Tear::KeepUnsynced, START_MS + 61_000);
        clock.set_back(2 * HOUR_MS);
        let db = open_on(&killed, &clock);
        assert_eq!(db.keyspace("k").unwrap().get("a").unwrap(), None);
    }
}

/// The machine's clock goes back with the power cut, or just before: what is on stable storage is the
/// record of the opening, or one that is at most a minute old.
#[test]
fn what_has_expired_stays_so_after_a_power_cut_that_sets_the_clock_back() {
    let (disk, clock, db) = scene();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put_with_ttl("a", "1", HOUR).unwrap();
    keyspace.put_with_ttl("b", "1", 2 * HOUR).unwrap();
    keyspace.put_with_ttl("c", "1", 3 * HOUR).unwrap();
    drop(keyspace);
    db.close().unwrap();
    drop(db);
    // The record of the opening.
    clock.advance(HOUR);
    let db = open_on(&disk, &clock);
    let keyspace = db.keyspace("k").unwrap();
    assert!(!keyspace.contains("a").unwrap());
    clock.set_back(HOUR_MS);
    let cut = disk.after_power_loss(tidekv_io::Tear::DropUnsynced);
    let after = open_on(&cut, &clock);
    assert!(!after.keyspace("k").unwrap().contains("a").unwrap());
    assert_eq!(after.unix_ms(), START_MS + HOUR_MS);
    drop(after);
    clock.set_forward(HOUR_MS);
    // The record of a minute ago.
    clock.advance(HOUR);
    assert!(!keyspace.contains("b").unwrap());
    let cut = wait_for_record(&disk, tidekv_io::Tear::DropUnsynced, START_MS + 2 * HOUR_MS);
    clock.set_back(2 * HOUR_MS);
    let after = open_on(&cut, &clock);
    let keyspace = after.keyspace("k").unwrap();
    assert!(!keyspace.contains("b").unwrap());
    assert!(keyspace.contains("c").unwrap());
}

/// The directory is synced for a table just after a record of the time was saved for a kill alone.
#[test]
fn a_flush_does_not_make_an_unsynced_record_replace_a_synced_one() {
    let (disk, clock, db) = scene();
    let life = HOUR + Duration::from_secs(1);
    db.keyspace("k").unwrap().put_with_ttl("a", "1", life).unwrap();
    db.close().unwrap();
    drop(db);
    clock.set_forward(HOUR_MS);
    let db = open_on(&disk, &clock);
    let keyspace = db.keyspace("k").unwrap();
    clock.advance(Duration::from_secs(2));
    assert!(!keyspace.contains("a").unwrap());
    wait_for_record(&disk, tidekv_io::Tear::KeepUnsynced, START_MS + HOUR_MS + 2_000);
    keyspace.put("b", "1").unwrap();
    db.flush().unwrap();
    let cut = disk.after_power_loss(tidekv_io::Tear::DropUnsynced);
    clock.set_back(HOUR_MS);
    assert_eq!(open_on(&cut, &clock).unix_ms(), START_MS + HOUR_MS + 2_000);
}

/// A failed sync leaves no guarantee for a power cut, but nothing less than no sync would for a kill.
#[test]
fn what_has_expired_stays_so_after_a_kill_if_the_time_cannot_be_synced() {
    for fault in [Fault::Fail(StorageError::Failed), Fault::SyncLost, Fault::SyncDropped] {
        let (disk, clock, db) = scene();
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put_with_ttl("a", "1", HOUR).unwrap();
        drop(keyspace);
        db.close().unwrap();
        drop(db);
        clock.set_forward(HOUR_MS);
        disk.add_fault(FaultRule::always(Operation::Sync, fault).on_path("CLOCK"));
        let db = open_on(&disk, &clock);
        assert!(!db.keyspace("k").unwrap().contains("a").unwrap());
        let killed = disk.after_power_loss(tidekv_io::Tear::KeepUnsynced);
        clock.set_back(HOUR_MS);
        let db = open_on(&killed, &clock);
        assert!(!db.keyspace("k").unwrap().contains("a").unwrap(), "{fault:?}");
        assert_eq!(db.unix_ms(), START_MS + HOUR_MS);
    }
}

#[test]
fn a_time_to_live_lasts_as_long_as_it_says_whatever_the_time_of_day() {
    let (disk, clock, db) = scene();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put_with_ttl("a", "1", HOUR).unwrap();
    clock.set_forward(24 * HOUR_MS);
    clock.advance(HOUR - Duration::from_millis(1));
    assert!(keyspace.contains("a").unwrap());
    keyspace.put_with_ttl("b", "1", HOUR).unwrap();
    let offset = u64::try_from(db.clock_offset_ms()).unwrap();
    assert_eq!(offset, 24 * HOUR_MS);
    // A deadline that is a time of day is the machine's.
    let mut batch = WriteBatch::new();
    batch.put_until(&keyspace, "c", "value", clock.unix_ms() + 1000 - offset);
    db.write(batch).unwrap();
    clock.advance(Duration::from_millis(1));
    assert!(!keyspace.contains("a").unwrap());
    clock.advance(Duration::from_millis(998));
    assert!(keyspace.contains("c").unwrap());
    clock.advance(Duration::from_millis(1));
    assert!(!keyspace.contains("c").unwrap());
    // Time passes while the store is closed.
    db.close().unwrap();
    drop((keyspace, db));
    clock.advance(HOUR / 2);
    let db = open_on(&disk, &clock);
    let keyspace = db.keyspace("k").unwrap();
    assert!(keyspace.contains("b").unwrap());
    clock.advance(HOUR / 2);
    assert!(!keyspace.contains("b").unwrap());
}

/// A step that was noticed is saved, and a checkpoint has the time of its store.
#[test]
fn the_clock_goes_on_after_a_kill_and_in_a_checkpoint() {
    let (disk, clock, db) = scene();
    let keyspace = db.keyspace("k").unwrap();
    clock.set_forward(24 * HOUR_MS);
    keyspace.put_with_ttl("a", "1", HOUR).unwrap();
    db.checkpoint("/copy").unwrap();
    db.sync().unwrap();
    let machine = SystemClock::new();
    let began = machine.monotonic_ns();
    // The record that was saved at the opening has no step.
    let is_saved = |killed: &MemoryStorage| open_on(killed, &clock).unix_ms() == START_MS;
    while !is_saved(&disk.after_power_loss(tidekv_io::Tear::KeepUnsynced)) {
        assert!(machine.monotonic_ns() - began < 60_000_000_000, "the time is never saved");
        machine.sleep(Duration::from_millis(1));
    }
    let killed = disk.after_power_loss(tidekv_io::Tear::DropUnsynced);
    assert!(open_on(&killed, &clock).keyspace("k").unwrap().contains("a").unwrap());
    let environment =
        Environment::default().storage(Arc::new(disk.clone())).clock(Arc::clone(&clock) as Arc<_>);
    let copy = Db::open("/copy", Options::new().environment(environment)).unwrap();
    assert_eq!(copy.unix_ms(), START_MS);
    assert!(copy.keyspace("k").unwrap().contains("a").unwrap());
    clock.advance(HOUR);
    assert!(!copy.keyspace("k").unwrap().contains("a").unwrap());
}

#[test]
fn a_damaged_record_of_the_time_is_ignored() {
    let (disk, clock, db) = scene();
    db.keyspace("k").unwrap().put("a", "1").unwrap();
    db.close().unwrap();
    drop(db);
    let file = disk.open(Path::new("/data/CLOCK"), tidekv_io::Access::Buffered).unwrap();
    file.write_at(20, b"damage").unwrap();
    let db = open_on(&disk, &clock);
    assert_eq!(db.unix_ms(), START_MS);
    assert_eq!(db.keyspace("k").unwrap().get("a").unwrap().unwrap(), "1");
}

#[test]
fn a_time_to_live_starts_when_it_is_written() {
    let (_disk, clock, db) = scene();
    let ttl = Duration::from_secs(10);
    let keyspace = db.keyspace_with("k", KeyspaceOptions::new().default_ttl(ttl)).unwrap();
    let reference = KeyspaceRef::from(&keyspace);
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "early", "value");
    batch.put_with_ttl(&keyspace, "own", "value", ttl / 2);
    let mut transaction = db.transaction();
    transaction.put(&keyspace, "transaction", "value");
    clock.advance(Duration::from_secs(11));
    batch.put(reference, "late", "value");
    db.write(batch).unwrap();
    assert_eq!(transaction.commit(Durability::Buffered).unwrap(), Commit::Done);
    let now = db.unix_ms();
    let deadline = |key: &str| keyspace.get_entry(key).unwrap().unwrap().expires_at_ms.unwrap();
    for key in ["early", "late", "transaction"] {
        assert_eq!(deadline(key), now + 10_000, "{key}");
    }
    assert_eq!(deadline("own"), now + 5_000);
    // A batch that is cleared and filled again has other deadlines at other places.
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "a", "value");
    batch.clear();
    batch.put_without_ttl(&keyspace, "a", "a longer value than before, of more than eight bytes");
    db.write(batch).unwrap();
    let entry = keyspace.get_entry("a").unwrap().unwrap();
    assert_eq!(entry.value, "a longer value than before, of more than eight bytes");
    assert_eq!(entry.expires_at_ms, None);
}

#[test]
fn the_default_time_to_live_is_the_same_for_every_way_to_write() {
    let (_disk, _clock, db) = scene();
    let ttl = Duration::from_secs(10);
    let keyspace = db.keyspace_with("k", KeyspaceOptions::new().default_ttl(ttl)).unwrap();
    keyspace.put("keyspace", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "batch", "1");
    batch.put_without_ttl(&keyspace, "batch, none", "1");
    db.write(batch).unwrap();
    let mut transaction = db.transaction();
    transaction.put(&keyspace, "transaction", "1");
    transaction.put_without_ttl(&keyspace, "transaction, none", "1");
    assert_eq!(
        transaction.get(&keyspace, "transaction").unwrap().unwrap().expires_at_ms,
        Some(START_MS + 10_000)
    );
    assert_eq!(transaction.commit(Durability::Buffered).unwrap(), Commit::Done);
    assert!(keyspace.compare_and_set("compared", None, Some(b"1")).unwrap());
    keyspace.ingest([("ingested", "1")]).unwrap();
    keyspace.increment("incremented", 1).unwrap();
    for key in ["keyspace", "batch", "transaction", "compared", "ingested", "incremented"] {
        let entry = keyspace.get_entry(key).unwrap().unwrap();
        assert_eq!(entry.expires_at_ms, Some(START_MS + 10_000), "{key}");
    }
    // An increment keeps a deadline, and keeps a key that has none without one.
    for key in ["batch, none", "transaction, none"] {
        assert_eq!(keyspace.get_entry(key).unwrap().unwrap().expires_at_ms, None, "{key}");
        assert_eq!(keyspace.increment(key, 1).unwrap(), 2);
        assert_eq!(keyspace.get_entry(key).unwrap().unwrap().expires_at_ms, None, "{key}");
    }
}

#[test]
fn handles_of_another_store_are_refused() {
    let (_disk, _clock, one) = scene();
    let (_other_disk, _other_clock, two) = scene();
    let theirs = two.keyspace("k").unwrap();
    one.keyspace("k").unwrap().put("a", "one").unwrap();
    theirs.put("a", "two").unwrap();
    let snapshot = one.snapshot();
    let mut transaction = one.transaction();
    let refused = [
        snapshot.get(&theirs, "a").err(),
        snapshot.get_entry(&theirs, "a").err(),
        snapshot.try_get_cached(&theirs, "a").err(),
        snapshot.multi_get(&theirs, &["a"]).err(),
        snapshot.multi_get_up_to(&theirs, &["a"], 9).err(),
        snapshot.iter(&theirs).next().and_then(Result::err),
        snapshot.range(&theirs, "a"..).next_back().and_then(Result::err),
        snapshot.prefix(&theirs, "a").next_ref().err(),
        transaction.get(&theirs, "a").err(),
        transaction.try_get_cached(&theirs, "a").err(),
        transaction.prefix(&theirs, "a").err(),
        one.watch(&theirs, "a").err(),
    ];
    for (at, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("{at} is accepted"));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{at}: {error}");
        assert!(error.to_string().contains("another store"), "{at}: {error}");
    }
    transaction.require_unchanged(&two.watch(&theirs, "a").unwrap());
    transaction.put(&one.keyspace("k").unwrap(), "b", "value");
    let error = transaction.commit(Durability::Buffered).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let mut transaction = one.transaction();
    transaction.put(&theirs, "b", "value");
    assert_eq!(
        transaction.commit(Durability::Buffered).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert!(!theirs.contains("b").unwrap());
}

#[test]
fn a_missing_keyspace_of_a_read_only_store_is_unavailable() {
    let (disk, clock, db) = scene();
    db.close().unwrap();
    drop(db);
    let environment =
        Environment::default().storage(Arc::new(disk)).clock(Arc::clone(&clock) as Arc<_>);
    let db = Db::open("/data", Options::new().environment(environment).read_only(true)).unwrap();
    assert_eq!(db.keyspace("none").unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_checkpoint_needs_a_new_directory_and_may_be_on_another_file_system() {
    let (disk, clock, db) = scene();
    db.keyspace("k").unwrap().put("a", "1").unwrap();
    disk.create_dir_all(Path::new("/empty")).unwrap();
    assert_eq!(db.checkpoint("/empty").unwrap_err().kind(), ErrorKind::InvalidInput);
    db.checkpoint("/copy").unwrap();
    assert_eq!(db.checkpoint("/copy").unwrap_err().kind(), ErrorKind::InvalidInput);
    drop(clock);

    let here = tempfile::tempdir().unwrap();
    let Ok(there) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: there is no /dev/shm");
        return;
    };
    let db = Db::open(here.path().join("data"), Options::new().memory_bytes(8 << 20)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let value = vec![7; 3000];
    (0..1000_u32).for_each(|n| keyspace.put(n.to_be_bytes(), &value).unwrap());
    db.flush().unwrap();
    let copy = there.path().join("copy");
    let link = LocalStorage::new().hard_link(&here.path().join("data/CURRENT"), &copy);
    if link.is_ok() {
        println!("skipped: /dev/shm is on the same file system");
        return;
    }
    db.checkpoint(&copy).unwrap();
    let copy = Db::open(&copy, Options::new().memory_bytes(8 << 20)).unwrap();
    assert_eq!(copy.keyspace("k").unwrap().iter().count(), 1000);
}
