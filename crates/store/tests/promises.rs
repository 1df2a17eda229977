//! The store's guarantees, one test each, in the smallest scenario that shows the violation.
//! `tests/mutations/list.rs` breaks the code in ways that these tests must notice.

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use support::held::HeldExecutor;
use support::{DIRECTORY, Limits, START_MS, TINY, options};
use tidekv::check::check;
use tidekv::{Db, Durability, ErrorKind, Keyspace, WriteBatch};
use tidekv_io::{Fault, FaultRule, ManualClock, MemoryStorage, Operation, Tear};

const FAILED: Fault = Fault::Fail(tidekv_io::ErrorKind::Failed);

fn open(disk: &MemoryStorage) -> Db {
    try_open(disk).unwrap()
}

fn try_open(disk: &MemoryStorage) -> tidekv::Result<Db> {
    Db::open(DIRECTORY, options(disk, &Arc::new(ManualClock::new(START_MS)), TINY))
}

/// A new store with a keyspace whose first write is in a log.
fn scene() -> (MemoryStorage, Db, Keyspace) {
    let disk = MemoryStorage::new();
    let db = open(&disk);
    let keyspace = db.keyspace("k").unwrap();
    (disk, db, keyspace)
}

fn put_synced(db: &Db, keyspace: &Keyspace, key: &str, value: &str) {
    let mut batch = WriteBatch::new();
    batch.put(keyspace, key.as_bytes(), value.as_bytes());
    db.write_with(batch, Durability::Sync).unwrap();
}

/// The values of `keys` in a keyspace of the store on `disk`.
fn reopened(disk: &MemoryStorage, keys: &[&str]) -> Vec<Option<String>> {
    let db = open(disk);
    let keyspace = db.keyspace("k").unwrap();
    keys.iter().map(|key| value(&keyspace, key)).collect()
}

fn value(keyspace: &Keyspace, key: &str) -> Option<String> {
    keyspace.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

fn files(disk: &MemoryStorage, suffix: &str) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.to_string_lossy().ends_with(suffix)).collect()
}

/// Flips a bit of `text` in the file ending in `suffix` that contains it once.
fn hurt(disk: &MemoryStorage, suffix: &str, text: &str) {
    let mut places = 0;
    for path in files(disk, suffix) {
        let bytes = disk.read_file(&path).unwrap();
        for at in 0..bytes.len().saturating_sub(text.len()) {
            if bytes[at..].starts_with(text.as_bytes()) {
                disk.corrupt(&path, |bytes| bytes[at] ^= 1);
                places += 1;
            }
        }
    }
    assert_eq!(places, 1, "{text} occurs once in {suffix}");
}

#[test]
fn synced_write_survives_a_power_loss() {
    let (disk, db, keyspace) = scene();
    put_synced(&db, &keyspace, "a", "1");
    put_synced(&db, &keyspace, "b", "2");
    let after = disk.after_power_loss(Tear::DropUnsynced);
    assert_eq!(reopened(&after, &["a", "b"]), some(&["1", "2"]));
}

/// Fills a memtable, which the next write rotates and flushes.
fn fill_memtable(keyspace: &Keyspace) {
    (0..2).for_each(|_| keyspace.put("filler", vec![0; 4 << 10]).unwrap());
}

/// A finished log is renamed into its successor; data that is then synced in the successor must be
/// found under its new name.
#[test]
fn synced_write_in_a_recycled_log_survives_a_power_loss() {
    let (disk, db, keyspace) = scene();
    keyspace.put("a", "1").unwrap();
    db.flush().unwrap();
    // The next log reuses the file of the first. Its flush fails, so that nothing else syncs the
    // directory.
    disk.add_fault(FaultRule::always(Operation::Create, FAILED).on_path(".table"));
    keyspace.put("b", "2").unwrap();
    disk.record_history(true);
    db.flush().unwrap_err();
    assert!(
        disk.history().iter().any(|r| r.to_string().contains("rename")),
        "no log was recycled: {:?}",
        disk.history()
    );
    put_synced(&db, &keyspace, "c", "3");
    let after = disk.after_power_loss(Tear::DropUnsynced);
    after.clear_faults();
    assert_eq!(reopened(&after, &["a", "b", "c"]), some(&["1", "2", "3"]));
}

/// After a failed sync the manifest continues in a new file, which `CURRENT` names.
#[test]
fn keyspace_in_a_new_manifest_survives_a_power_loss() {
    let (disk, db, _) = scene();
    disk.add_fault(FaultRule::once(Operation::Sync, Fault::SyncLost).on_path("MANIFEST"));
    db.keyspace("refused").unwrap_err();
    db.keyspace("made").unwrap();
    let after = disk.after_power_loss(Tear::DropUnsynced);
    assert!(open(&after).keyspace_names().contains(&"made".to_owned()));
}

#[test]
fn flushed_table_survives_a_power_loss() {
    let (disk, db, keyspace) = scene();
    keyspace.put("a", "1").unwrap();
    db.flush().unwrap();
    let after = disk.after_power_loss(Tear::DropUnsynced);
    assert_eq!(reopened(&after, &["a"]), some(&["1"]));
}

/// The damage that a check of the store finds.
fn checked(disk: &MemoryStorage) -> String {
    let report = check(DIRECTORY, Some(Arc::new(disk.clone())), &mut |_| {}).unwrap();
    let told: Vec<String> = report.damage.into_iter().map(|one| one.message).collect();
    told.join("; ")
}

/// What the check says of ends that the next opening cuts off.
fn torn(disk: &MemoryStorage) -> String {
    let report = check(DIRECTORY, Some(Arc::new(disk.clone())), &mut |_| {}).unwrap();
    let told: Vec<String> = report.torn.into_iter().map(|one| one.message).collect();
    told.join("; ")
}

/// An ended log that was not synced, except for its first write, "a", and an empty log after it.
/// Then calls `write`; the disk is that of a killed store.
fn two_logs(write: impl FnOnce(&MemoryStorage, &Db, &Keyspace)) -> MemoryStorage {
    let (disk, held) = (MemoryStorage::new(), Arc::new(HeldExecutor::default()));
    // One memtable fills a log.
    let large = Limits { memtable_bytes: 16 << 20, ..TINY };
    let mut options = options(&disk, &Arc::new(ManualClock::new(START_MS)), large);
    options.memory_bytes = Some(256 << 20);
    options.environment.executor = Some(held.clone());
    let db = Db::open(DIRECTORY, options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    put_synced(&db, &keyspace, "a", "synced");
    keyspace.put("b", "not synced").unwrap();
    keyspace.put("filler", vec![0; 16 << 20]).unwrap();
    assert_eq!(files(&disk, ".log").len(), 1);
    db.write(WriteBatch::new()).unwrap();
    assert_eq!(files(&disk, ".log").len(), 2);
    write(&disk, &db, &keyspace);
    let after = disk.after_power_loss(Tear::KeepUnsynced);
    held.run();
    after
}

/// Writers do not wait for the end of a log; a sync in the next one does.
#[test]
fn synced_write_makes_the_preceding_log_durable() {
    two_logs(|disk, db, keyspace| {
        let before = disk.after_power_loss(Tear::DropUnsynced);
        let found = [Some("synced".to_owned()), None];
        assert_eq!(reopened(&before, &["a", "b"]), found);
        put_synced(db, keyspace, "c", "synced");
        let after = disk.after_power_loss(Tear::DropUnsynced);
        assert_eq!(reopened(&after, &["a", "b", "c"]), some(&["synced", "not synced", "synced"]));
    });
}

/// A power loss may lose the end of a log and keep writes after it.
#[test]
fn writes_after_a_torn_log_are_dropped() {
    let after = two_logs(|_, _, keyspace| keyspace.put("c", "behind it").unwrap());
    let whole = after.after_power_loss(Tear::KeepUnsynced);
    assert_eq!(reopened(&whole, &["b", "c"]), some(&["not synced", "behind it"]));
    hurt(&after, ".log", "not synced");
    assert_eq!(checked(&after), "");
    assert!(torn(&after).ends_with("later ones, which were not synced"), "{}", torn(&after));
    for _ in 0..2 {
        let found = [Some("synced".to_owned()), None, None];
        assert_eq!(reopened(&after, &["a", "b", "c"]), found, "a prefix of the writes");
    }
}

/// Data synced in a later log was synced after it.
#[test]
fn torn_log_before_a_synced_one_is_damaged() {
    type Write = fn(&MemoryStorage, &Db, &Keyspace);
    let put_c: Write = |_, db, keyspace| put_synced(db, keyspace, "c", "synced");
    let only_sync: Write = |_, db, _| db.sync().unwrap();
    for write in [put_c, only_sync] {
        let after = two_logs(write);
        hurt(&after, ".log", "not synced");
        let error = try_open(&after).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("without an end record, but was on stable storage"));
        assert!(checked(&after).ends_with(&error.to_string()), "{}", checked(&after));
    }
}

/// The sync of the preceding log failed on another thread.
#[test]
fn log_after_a_lost_one_takes_no_writes() {
    two_logs(|disk, db, keyspace| {
        disk.add_fault(FaultRule::once(Operation::Sync, Fault::SyncLost).on_path("2.log"));
        let mut batch = WriteBatch::new();
        batch.put(keyspace, b"c", b"3");
        db.write_with(batch, Durability::Sync).unwrap_err();
        let error = keyspace.put("d", "4").unwrap_err();
        assert!(error.to_string().contains("reopen the store"), "{error}");
    });
}

/// A mark that could not be written used to leave its record before it, and the next log began with
/// the same sequence.
#[test]
fn failed_synced_write_is_not_written_again() {
    for skip in 0..3 {
        let after = two_logs(|disk, db, keyspace| {
            let rule = FaultRule::once(Operation::Write, FAILED).on_path(".log");
            disk.add_fault(rule.after(skip));
            let mut batch = WriteBatch::new();
            batch.put(keyspace, b"c", b"may be there");
            let outcome = db.write_with(batch, Durability::Sync);
            assert_eq!(outcome.is_err(), skip < 2, "a mark, then the record");
            if outcome.is_err() {
                put_synced(db, keyspace, "d", "there");
            }
        });
        after.clear_faults();
        let key = if skip < 2 { "d" } else { "c" };
        assert!(reopened(&after, &[key])[0].is_some(), "{skip}");
    }
}

/// A frame that reaches a new page of a recycled log is written with zeros after it. It may be
/// complete although its write was reported as failed.
#[test]
fn failed_write_does_not_reappear_over_an_ingest() {
    // In some of them the next frame begins a page.
    for before in (3800..4100).step_by(12) {
        let (disk, db, keyspace) = scene();
        for _ in 0..2 {
            keyspace.put("a", "1").unwrap();
            db.flush().unwrap();
        }
        db.keyspace("other").unwrap().put("a", vec![0; before]).unwrap();
        disk.add_fault(FaultRule::once(Operation::Write, Fault::ShortWrite).on_path(".log"));
        keyspace.put("k", "failed").unwrap_err();
        keyspace.ingest([("k", "ingested")]).unwrap();
        let after = disk.after_power_loss(Tear::KeepUnsynced);
        assert_eq!(reopened(&after, &["k"]), some(&["ingested"]), "{before}");
    }
}

/// A sync with a waiting caller writes a mark even after a torn place.
#[test]
fn sync_of_a_torn_log_confirms_the_preceding_one() {
    let after = two_logs(|disk, db, keyspace| {
        disk.add_fault(FaultRule::once(Operation::Write, Fault::ShortWrite).on_path(".log"));
        keyspace.put("c", "failed").unwrap_err();
        db.sync().unwrap();
    });
    hurt(&after, ".log", "not synced");
    assert_eq!(try_open(&after).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// The file of a prepared log holds frames of earlier logs, which an opening would search.
#[test]
fn clean_shutdown_leaves_no_prepared_log() {
    let (disk, db, keyspace) = scene();
    for i in 0..90 {
        keyspace.put(format!("{i:03}"), vec![7; 500]).unwrap();
    }
    assert_eq!(files(&disk, ".log").len(), 2);
    drop(keyspace);
    db.close().unwrap();
    assert_eq!(files(&disk, ".log").len(), 1);
    assert!(open(&disk).keyspace("k").unwrap().contains("089").unwrap());
}

/// The next log exists, with a durable name, before the current one is full.
#[test]
fn writers_do_not_wait_for_the_next_log() {
    let (disk, _db, keyspace) = scene();
    let [current] = &*files(&disk, ".log") else { panic!("there is one log") };
    disk.record_history(true);
    let (mut made, mut used) = (None, None);
    for i in 0..200 {
        let seen = disk.history().len();
        keyspace.put(format!("{i:03}"), vec![7; 500]).unwrap();
        for operation in &disk.history()[seen..] {
            let is_next = operation.path.extension().is_some_and(|suffix| suffix == "log")
                && operation.path != *current;
            match operation.operation {
                Operation::Create if is_next => made = made.or(Some(i)),
                Operation::Write if is_next => used = used.or(Some(i)),
                _ => {}
            }
        }
    }
    let (made, used) = (made.unwrap(), used.unwrap());
    assert!(used > made + 20, "made for write {made}, used for write {used}");
}

/// The job that prepares the next log ignores its failure: the writer that reaches the end of the
/// current log creates it.
#[test]
fn unprepared_log_is_created_when_needed() {
    for operation in [Operation::Create, Operation::Allocate] {
        let (disk, db, keyspace) = scene();
        disk.add_fault(FaultRule::once(operation, FAILED).on_path(".log"));
        for i in 0..300 {
            keyspace.put(format!("{i:03}"), vec![7; 500]).unwrap();
        }
        assert_eq!(disk.struck().len(), 1, "{operation:?}");
        drop((db, keyspace));
        let db = open(&disk);
        let keyspace = db.keyspace("k").unwrap();
        for i in 0..300 {
            assert!(keyspace.contains(format!("{i:03}")).unwrap(), "{operation:?}: {i}");
        }
    }
}

/// The flush does not end the log that holds the other half of the batch.
#[test]
fn half_flushed_batch_survives_completely() {
    let (disk, db, keyspace) = scene();
    let other = db.keyspace("other").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, b"a", b"1");
    batch.put(&other, b"b", b"2");
    db.write(batch).unwrap();
    fill_memtable(&keyspace);
    keyspace.put("next", "3").unwrap();
    assert_eq!(files(&disk, ".table").len(), 1, "half of it was flushed");
    let after = disk.after_power_loss(Tear::DropUnsynced);
    assert_eq!(reopened(&after, &["a"]), some(&["1"]));
    assert_eq!(value(&open(&after).keyspace("other").unwrap(), "b").as_deref(), Some("2"));
}

/// A log continues after writes that a flush has put into tables; an opening reads only the part
/// that another keyspace still needs, to the byte.
#[test]
fn opening_skips_log_records_that_are_in_tables() {
    let (disk, db, keyspace) = scene();
    keyspace.put("flushed", "in a table").unwrap();
    fill_memtable(&keyspace);
    keyspace.put("first", "1").unwrap();
    assert_eq!(files(&disk, ".table").len(), 1);
    drop((db, keyspace));
    let other = disk.after_power_loss(Tear::KeepUnsynced);
    hurt(&other, ".log", "in a table");
    assert_eq!(reopened(&other, &["flushed", "first"]), some(&["in a table", "1"]));

    // Here the frame before the flushed ones belongs to another keyspace.
    let (disk, db, keyspace) = scene();
    db.keyspace("other").unwrap().put("needed", "in the log only").unwrap();
    keyspace.put("flushed", "in a table").unwrap();
    fill_memtable(&keyspace);
    keyspace.put("first", "1").unwrap();
    assert_eq!(files(&disk, ".table").len(), 1);
    drop((db, keyspace));
    let db = open(&disk);
    let needed = value(&db.keyspace("other").unwrap(), "needed");
    assert_eq!(needed.as_deref(), Some("in the log only"));
    let keyspace = db.keyspace("k").unwrap();
    assert_eq!(value(&keyspace, "flushed").as_deref(), Some("in a table"));
    assert_eq!(value(&keyspace, "first").as_deref(), Some("1"));
}

/// No log is ended before the next one exists: if that cannot be created, writers continue in the
/// current one.
#[test]
fn log_without_a_possible_successor_is_not_ended() {
    let (disk, db, keyspace) = scene();
    keyspace.put("a", "1".repeat(12 << 10)).unwrap();
    disk.add_fault(FaultRule::once(Operation::Create, FAILED).on_path(".log"));
    db.flush().unwrap_err();
    put_synced(&db, &keyspace, "b", "2");
    assert_eq!(files(&disk, ".log").len(), 1);
    assert_eq!(files(&disk, ".table").len(), 1, "it was flushed in passing");
    drop((db, keyspace));
    let after = disk.after_power_loss(Tear::DropUnsynced);
    assert_eq!(reopened(&after, &["b"]), some(&["2"]));
    assert_eq!(reopened(&after, &["a"]), some(&[&"1".repeat(12 << 10)]));
}

/// A background sync of the log reports its failure to the writers.
#[test]
fn writes_fail_after_a_flush_cannot_sync_the_log() {
    let (disk, db, keyspace) = scene();
    keyspace.put("a", "1").unwrap();
    disk.add_fault(FaultRule::once(Operation::Sync, Fault::SyncLost).on_path(".log"));
    fill_memtable(&keyspace);
    // The flush that this starts fails; the disk would report success if it were asked again, but
    // has dropped the data.
    let error = keyspace.put("b", "2").unwrap_err();
    assert!(error.to_string().contains("reopen the store"), "{error}");
    assert_eq!(db.statistics().counter("background.errors"), 1);
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, b"c", b"3");
    db.write_with(batch, Durability::Sync).unwrap_err();
    assert_eq!(value(&keyspace, "a").as_deref(), Some("1"));
    drop((db, keyspace));
    let after = disk.after_power_loss(Tear::DropUnsynced);
    reopened(&after, &["a"]);
}

#[test]
fn a_damaged_block_is_not_read() {
    let (disk, db, keyspace) = scene();
    keyspace.put("key", "a value that is hurt").unwrap();
    db.flush().unwrap();
    drop((db, keyspace));
    hurt(&disk, ".table", "a value that is hurt");
    let db = open(&disk);
    let error = db.keyspace("k").unwrap().get("key").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn a_damaged_frame_of_the_log_is_not_replayed() {
    let (disk, _db, keyspace) = scene();
    keyspace.put("a", "1").unwrap();
    keyspace.put("key", "a value that is hurt").unwrap();
    let after = disk.after_power_loss(Tear::KeepUnsynced);
    hurt(&after, ".log", "a value that is hurt");
    assert_eq!(reopened(&after, &["a", "key"]), [Some("1".to_owned()), None]);
}

/// The surviving unsynced writes are a prefix of all.
#[test]
fn recovery_stops_at_a_torn_record() {
    let (disk, _db, keyspace) = scene();
    for (key, value) in [("a", "the first"), ("b", "the second"), ("c", "the third")] {
        keyspace.put(key, value).unwrap();
    }
    let after = disk.after_power_loss(Tear::KeepUnsynced);
    hurt(&after, ".log", "the second");
    assert_eq!(reopened(&after, &["a", "b", "c"]), [Some("the first".to_owned()), None, None]);
}

#[test]
fn snapshot_gets_the_state_at_its_creation() {
    let (_disk, db, keyspace) = scene();
    keyspace.put("a", "old").unwrap();
    let snapshot = db.snapshot();
    keyspace.put("a", "new").unwrap();
    keyspace.put("b", "new").unwrap();
    let get = |key| snapshot.get(&keyspace, key).unwrap();
    assert_eq!(get("a").as_deref(), Some(&b"old"[..]));
    assert_eq!(get("b"), None);
}

#[test]
fn snapshot_iterates_the_state_at_its_creation() {
    let (_disk, db, keyspace) = scene();
    keyspace.put("a", "old").unwrap();
    let snapshot = db.snapshot();
    keyspace.put("a", "new").unwrap();
    keyspace.put("b", "new").unwrap();
    let found: Vec<_> = snapshot
        .iter(&keyspace)
        .map(|item| item.map(|(key, entry)| (key, entry.value)).unwrap())
        .collect();
    assert_eq!(found, [("a".into(), "old".into())]);
}

#[test]
fn a_flushed_deletion_hides_older_tables() {
    let (_disk, db, keyspace) = scene();
    keyspace.put("a", "old").unwrap();
    db.flush().unwrap();
    keyspace.delete("a").unwrap();
    db.flush().unwrap();
    assert_eq!(value(&keyspace, "a"), None);
}

/// Deletions are compacted level by level, with the values that they hide always further down.
#[test]
fn a_compacted_deletion_hides_lower_levels() {
    let (_disk, db, keyspace) = scene();
    let key = |i: u32| format!("key-{:04}", i * 7919 % 5000);
    for i in 0..5000 {
        keyspace.put(key(i), [b'v'; 100]).unwrap();
    }
    let tables_of_levels: Vec<u64> =
        (1..7).map(|l| db.statistics().counter(&format!("level{l}.tables"))).collect();
    assert!(
        tables_of_levels.iter().filter(|&&tables| tables > 0).count() > 1,
        "tables are on one level only: {tables_of_levels:?}"
    );
    for i in 0..1000 {
        keyspace.delete(key(i)).unwrap();
        assert_eq!(value(&keyspace, &key(i / 2)), None, "deletion {}, found again at {i}", i / 2);
    }
    db.flush().unwrap();
    for i in 0..1000 {
        assert_eq!(value(&keyspace, &key(i)), None, "deletion {i} is gone");
    }
}

/// The versions that a snapshot sees coexist with the range tombstone that hides them from the
/// present, over several tables.
#[test]
fn range_deletion_spans_tables() {
    let (disk, db, keyspace) = scene();
    for i in 0..200 {
        keyspace.put(format!("key-{i:03}"), [b'v'; 100]).unwrap();
    }
    let snapshot = db.snapshot();
    keyspace.delete_range("key-", "key-~").unwrap();
    db.compact().unwrap();
    assert!(files(&disk, ".table").len() > 3, "the keys fill several tables");
    assert_eq!(keyspace.iter().count(), 0);
    for i in 0..200 {
        let key = format!("key-{i:03}");
        assert_eq!(keyspace.get(&key).unwrap(), None, "{key}");
        assert!(snapshot.get(&keyspace, &key).unwrap().is_some(), "{key} of the snapshot");
    }
}

/// The next write reuses the sequences of a failed batch: any inserted part of it would then become
/// visible.
#[test]
fn batch_refused_by_the_log_leaves_nothing() {
    let (disk, db, keyspace) = scene();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, b"a", b"1");
    batch.put(&keyspace, b"b", b"2");
    disk.add_fault(FaultRule::once(Operation::Write, FAILED).on_path(".log"));
    db.write(batch).unwrap_err();
    keyspace.put("c", "3").unwrap();
    keyspace.put("d", "4").unwrap();
    let keys: Vec<_> = keyspace.iter().map(|item| item.unwrap().0).collect();
    assert_eq!(keys, ["c", "d"]);
    assert_eq!((value(&keyspace, "a"), value(&keyspace, "b")), (None, None));
}

#[test]
fn iteration_sees_memtables_that_wait_for_their_flush() {
    let (disk, db, keyspace) = scene();
    keyspace.put("a", "1").unwrap();
    // The memtable is rotated but not flushed.
    disk.add_fault(FaultRule::always(Operation::Create, FAILED).on_path(".table"));
    db.flush().unwrap_err();
    keyspace.put("b", "2").unwrap();
    let forwards: Vec<_> = keyspace.iter().map(|item| item.unwrap().0).collect();
    assert_eq!(forwards, ["a", "b"]);
    let backwards: Vec<_> = keyspace.iter().rev().map(|item| item.unwrap().0).collect();
    assert_eq!(backwards, ["b", "a"]);
}

#[test]
fn table_file_is_kept_while_an_iterator_reads_it() {
    let (disk, db, keyspace) = scene();
    for i in 0..200 {
        keyspace.put(format!("key-{i:03}"), [b'v'; 100]).unwrap();
    }
    db.compact().unwrap();
    let mut walk = keyspace.iter();
    walk.next().unwrap().unwrap();
    let held = files(&disk, ".table");
    assert!(held.len() > 3, "the keys fill several tables");
    for i in 0..200 {
        keyspace.put(format!("key-{i:03}"), [b'w'; 100]).unwrap();
    }
    db.compact().unwrap();
    let there = files(&disk, ".table");
    assert!(held.iter().all(|path| there.contains(path)), "{held:?} were read, {there:?} are left");
    assert_eq!(walk.map(|item| item.unwrap().1.value).filter(|v| v[0] == b'v').count(), 199);
    keyspace.put("more", "1").unwrap();
    db.flush().unwrap();
    let there = files(&disk, ".table");
    assert!(!held.iter().any(|path| there.contains(path)), "no reader of {held:?} is left");
}

/// A seek reads for all tables at once the blocks that scans usually go through. A damaged block
/// among them failed scans that end before it.
#[test]
fn iteration_that_ends_before_damage_succeeds() {
    let disk = MemoryStorage::new();
    let limits = Limits { memtable_bytes: 1 << 20, table_bytes: 64 << 20 };
    let clock = Arc::new(ManualClock::new(START_MS));
    let db = Db::open(DIRECTORY, options(&disk, &clock, limits)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for table in 0..2 {
        for n in 0..200 {
            let value = if (table, n) == (0, 100) { "what is hurt" } else { "sound" };
            keyspace.put(format!("{n:03}{table}"), format!("{value:100}")).unwrap();
        }
        db.flush().unwrap();
    }
    // Full scans become the usual ones.
    for _ in 0..8 {
        assert!(keyspace.iter().all(|entry| entry.is_ok()));
    }
    hurt(&disk, ".table", "what is hurt");
    // Evicts the blocks read so far.
    db.set_cache_bytes_max(0);
    db.set_cache_bytes_max(u64::MAX);
    assert_eq!(keyspace.iter().take(20).filter(|entry| entry.is_ok()).count(), 20);
    let error = keyspace.iter().find_map(Result::err).expect("a whole walk meets it");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}
