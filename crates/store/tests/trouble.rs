//! Bad input and faults: full disks, failing operations, damaged files, a second process, a
//! directory of a newer version, keys and values out of bounds.

mod support;

use std::path::Path;
use std::sync::{Arc, Mutex};

use support::{DIRECTORY, Dice, START_MS, TINY, contents, options};
use tidekv::{Db, Durability, ErrorKind, KEY_BYTES_MAX, VALUE_BYTES_MAX, WriteBatch};
use tidekv_io::{Fault, FaultRule, ManualClock, MemoryStorage, Operation, Storage, Tear};

fn world() -> (MemoryStorage, Arc<ManualClock>) {
    (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)))
}

fn open(disk: &MemoryStorage, clock: &Arc<ManualClock>) -> tidekv::Result<Db> {
    Db::open(DIRECTORY, options(disk, clock, TINY))
}

/// Fills a store so that it has tables on several levels and a log; returns its contents.
fn fill(db: &Db, writes: u64) -> Vec<(Vec<u8>, support::Value)> {
    let keyspace = db.keyspace("k").unwrap();
    let mut dice = Dice(9);
    for i in 0..writes {
        let value = vec![i as u8; 100 + dice.below(200) as usize];
        keyspace.put(format!("key-{:03}", dice.below(300)), value).unwrap();
    }
    contents(db, "k")
}

#[test]
fn full_disk_refuses_writes_but_not_reads_and_recovers() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let mut expected = fill(&db, 300);
    let keyspace = db.keyspace("k").unwrap();
    disk.set_capacity(Some(0));
    let mut refused = 0;
    for i in 0..400u32 {
        // Some fit into space that was reserved before.
        match keyspace.put("key-000", vec![7; 100 + i as usize]) {
            Ok(()) => {
                expected.retain(|(key, _)| key != b"key-000");
                expected.insert(0, (b"key-000".to_vec(), (vec![7; 100 + i as usize], None)));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    assert_eq!(contents(&db, "k"), expected);
    disk.set_capacity(None);
    keyspace.put("key-999", "again").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    expected.push((b"key-999".to_vec(), (b"again".to_vec(), None)));
    assert_eq!(contents(&db, "k"), expected);
    drop((keyspace, db));
    assert_eq!(contents(&open(&disk, &clock).unwrap(), "k"), expected);
}

/// A keyspace that showed no entry was cleared without a word to storage, although the log still had
/// a write that was reported as failed: it was there after the next opening.
#[test]
fn a_cleared_keyspace_stays_empty_after_a_write_that_failed() {
    let failed = Fault::Fail(tidekv_io::ErrorKind::Failed);
    for (operation, fault, may_clear) in [
        (Operation::Sync, failed, false),
        (Operation::Sync, Fault::SyncLost, false),
        (Operation::Write, failed, true),
        (Operation::Write, Fault::ShortWrite, true),
    ] {
        let (disk, clock) = world();
        let db = open(&disk, &clock).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        disk.add_fault(FaultRule::once(operation, fault).on_path(".log"));
        let mut batch = WriteBatch::new();
        batch.put(&keyspace, b"key", vec![b'v'; 2000]);
        db.write_with(batch, Durability::Sync).unwrap_err();
        assert_eq!(keyspace.clear().is_ok(), may_clear, "{operation:?} {fault:?}");
        drop(keyspace);
        let _ = db.close();
        let after = disk.after_power_loss(Tear::KeepUnsynced);
        for disk in [&disk, &after] {
            let found = contents(&open(disk, &clock).unwrap(), "k");
            assert!(!may_clear || found.is_empty(), "{operation:?} {fault:?}");
        }
    }
}

/// Every storage operation fails once, in a run of its own. Acknowledged writes stay; failed ones
/// may or may not be present.
#[test]
fn any_failing_operation_loses_no_acknowledged_write() {
    let mut failures = 0;
    for skip in 0.. {
        let (disk, clock) = world();
        let fault = [Fault::Fail(tidekv_io::ErrorKind::Failed), Fault::ShortWrite, Fault::SyncLost]
            [skip as usize % 3];
        disk.add_fault(FaultRule {
            operation: None,
            path_contains: None,
            skip,
            times: Some(1),
            fault,
        });
        let before = disk.operations();
        let mut acknowledged = Vec::new();
        let mut failed = false;
        if let Ok(db) = open(&disk, &clock)
            && let Ok(keyspace) = db.keyspace("k")
        {
            for i in 0..120u32 {
                let (key, value) = (format!("{:03}", i * 7 % 120), vec![i as u8; 200]);
                let mut batch = WriteBatch::new();
                batch.put(&keyspace, key.as_bytes(), &value);
                let durability = if i % 5 == 0 { Durability::Sync } else { Durability::Buffered };
                match db.write_with(batch, durability) {
                    Ok(()) => acknowledged.push((key, value)),
                    Err(_) => failed = true,
                }
                if i == 60 {
                    failed |= db.flush().is_err();
                    failed |= db.compact().is_err();
                }
                // Reads continue, whatever happens to writes.
                for (key, value) in acknowledged.iter().rev().take(3) {
                    match keyspace.get(key) {
                        Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "fault {skip}"),
                        Err(_) => failed = true,
                    }
                }
            }
            failed |= db.close().is_err();
        } else {
            failed = true;
        }
        failures += u32::from(failed);
        let operations = disk.operations() - before;
        disk.clear_faults();
        let db =
            open(&disk, &clock).unwrap_or_else(|error| panic!("fault {skip} ({fault:?}): {error}"));
        let keyspace = db.keyspace("k").unwrap();
        for (key, value) in &acknowledged {
            assert_eq!(
                keyspace.get(key).unwrap().as_deref(),
                Some(&value[..]),
                "fault {skip} ({fault:?}), key {key}"
            );
        }
        if skip > operations {
            break;
        }
    }
    assert!(failures > 20, "only {failures} runs met their fault");
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_until_the_store_is_reopened() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("before", "1").unwrap();
    db.sync().unwrap();
    let rule = FaultRule::once(tidekv_io::Operation::Sync, Fault::SyncLost).on_path(".log");
    disk.add_fault(rule);
    keyspace.put("lost?", "2").unwrap();
    assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::Storage);
    let error = keyspace.put("after", "3").unwrap_err();
    assert!(error.to_string().contains("reopen"), "{error}");
    assert!(db.sync().is_err(), "a failed sync is not retried");
    assert_eq!(keyspace.get("lost?").unwrap().as_deref(), Some(&b"2"[..]));
    drop((keyspace, db));
    let after = disk.after_power_loss(Tear::DropUnsynced);
    let db = open(&after, &clock).unwrap();
    assert_eq!(db.keyspace("k").unwrap().get("before").unwrap().as_deref(), Some(&b"1"[..]));
}

/// Recovery used to end the log of the previous run: it synced that file, whose sync had failed,
/// and let the end record confirm all of it. The system had dropped the pages, so the end record
/// was on the device and the confirmed data was not; when power was lost before the recovery was
/// complete, the next one took that for damage and refused to open. Now logs of a previous run are
/// only read.
#[test]
fn log_with_a_failed_sync_is_not_confirmed_after_reopening() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("synced", "1").unwrap();
    db.sync().unwrap();
    keyspace.put("unsynced", "2").unwrap();
    disk.add_fault(FaultRule::once(tidekv_io::Operation::Sync, Fault::SyncLost).on_path(".log"));
    db.sync().unwrap_err();
    drop((keyspace, db));
    let cuts = Arc::new(Mutex::new(Vec::new()));
    let (device, gathered) = (disk.clone(), cuts.clone());
    disk.on_operation(move |operation| {
        let after = device.after_power_loss(Tear::DropUnsynced);
        gathered.lock().unwrap().push((operation.to_string(), after));
    });
    let db = open(&disk, &clock).unwrap();
    disk.clear_on_operation();
    let get = |db: &Db, key| db.keyspace("k").unwrap().get(key).unwrap();
    assert_eq!(get(&db, "unsynced").as_deref(), Some(&b"2"[..]), "it was still to be read");
    for (operation, after) in std::mem::take(&mut *cuts.lock().unwrap()) {
        let db = open(&after, &clock).unwrap_or_else(|error| panic!("{operation}: {error}"));
        assert_eq!(get(&db, "synced").as_deref(), Some(&b"1"[..]), "{operation}");
    }
}

/// A directory whose sync had failed was synced again, and the second success was taken for the
/// first: writes were acknowledged as synced in a log whose name had been lost with the first, and
/// disappeared at a power loss. Now the store creates no new name after such a failure and asks to
/// be reopened.
#[test]
fn failed_directory_sync_is_not_cured_by_the_next() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let put = |i: u32| {
        let mut batch = WriteBatch::new();
        batch.put(&keyspace, format!("{i:03}").as_bytes(), [7; 500]);
        db.write_with(batch, Durability::Sync)
    };
    disk.add_fault(FaultRule::once(tidekv_io::Operation::SyncDirectory, Fault::SyncLost));
    let (done, refused): (Vec<_>, Vec<_>) =
        (0..300).map(|i| (i, put(i))).partition(|(_, outcome)| outcome.is_ok());
    assert!(done.len() > 5 && !refused.is_empty(), "until the log needs a successor");
    for (_, outcome) in &refused {
        let error = outcome.as_ref().unwrap_err();
        assert!(error.to_string().contains("reopen"), "{error}");
    }
    assert!(db.flush().unwrap_err().to_string().contains("reopen"));
    let after = disk.after_power_loss(Tear::DropUnsynced);
    for db in [open(&after, &clock).unwrap(), {
        drop(db.close());
        open(&disk, &clock).unwrap()
    }] {
        let keyspace = db.keyspace("k").unwrap();
        for (i, _) in &done {
            assert!(keyspace.contains(format!("{i:03}")).unwrap(), "{i} is lost");
        }
        keyspace.put("again", "1").unwrap();
        db.flush().unwrap();
    }
}

/// The mark after the first edit of a run could not be written, which does no harm: the manifest is
/// rewritten at the next edit. But then no manifest counted as current, and the opening removed the
/// one that `CURRENT` names together with the old ones: the store was lost. One full disk was
/// enough.
#[test]
fn manifest_with_a_failed_mark_stays_current() {
    let (disk, clock) = world();
    let expected = fill(&open(&disk, &clock).unwrap(), 50);
    let mut opened = 0;
    for skip in 0..12 {
        let disk = disk.after_power_loss(Tear::KeepUnsynced);
        let full = Fault::Fail(tidekv_io::ErrorKind::Full);
        let rule = FaultRule::once(tidekv_io::Operation::Write, full).on_path("MANIFEST-");
        disk.add_fault(rule.after(skip));
        if let Ok(db) = open(&disk, &clock) {
            opened += u32::from(!disk.struck().is_empty());
            assert_eq!(contents(&db, "k"), expected);
        }
        let after = disk.after_power_loss(Tear::KeepUnsynced);
        assert_eq!(contents(&open(&after, &clock).unwrap(), "k"), expected, "fault {skip}");
    }
    assert!(opened > 0, "no opening went on without its mark");
}

/// If the existence of a directory could not be checked, it was assumed, and the names above it
/// were not made durable: the whole store disappeared at a power loss.
#[test]
fn new_store_is_durable_up_to_the_root_or_not_opened() {
    let place = "/one/two/three";
    for skip in 0.. {
        let (disk, clock) = world();
        let failed = Fault::Fail(tidekv_io::ErrorKind::Failed);
        disk.add_fault(FaultRule::once(tidekv_io::Operation::Inspect, failed).after(skip));
        let is_over = match Db::open(place, options(&disk, &clock, TINY)) {
            Err(_) => false,
            Ok(db) => {
                let keyspace = db.keyspace("k").unwrap();
                keyspace.put("a", "b").unwrap();
                db.sync().unwrap();
                disk.struck().is_empty()
            }
        };
        if let Ok(db) = Db::open(place, options(&disk, &clock, TINY)) {
            db.keyspace("k").unwrap().put("a", "b").unwrap();
            db.sync().unwrap();
            let after = disk.after_power_loss(Tear::DropUnsynced);
            let db = Db::open(place, options(&after, &clock, TINY)).unwrap();
            assert!(db.keyspace("k").unwrap().contains("a").unwrap(), "after fault {skip}");
        }
        if is_over {
            assert!(skip > 3);
            break;
        }
    }
}

/// A checkpoint failed because the directory above it could not be synced; the next one
/// synced again with success and was reported as safe. The name had
/// been lost with the first.
#[test]
fn checkpoint_is_not_confirmed_by_a_sync_after_a_failed_one() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let expected = fill(&db, 50);
    let rule = FaultRule::once(tidekv_io::Operation::SyncDirectory, Fault::SyncLost);
    disk.add_fault(rule.on_path("/copies"));
    for path in ["/copies/zero", "/copies/one", "/copies/two"] {
        let error = db.checkpoint(path).unwrap_err();
        assert!(error.to_string().contains("reopen"), "{path}: {error}");
    }
    assert_eq!(disk.struck().len(), 1);
    // Other directories are unaffected, including the store's own.
    db.keyspace("other").unwrap().put("a", "b").unwrap();
    db.flush().unwrap();
    db.checkpoint("/elsewhere").unwrap();
    db.close().unwrap();
    open(&disk, &clock).unwrap().checkpoint("/copies/three").unwrap();
    let after = disk.after_power_loss(Tear::DropUnsynced);
    for path in ["/elsewhere", "/copies/three"] {
        let copy = options(&after, &clock, TINY).create_if_missing(false);
        assert_eq!(contents(&Db::open(path, copy).unwrap(), "k"), expected, "{path}");
    }
}

/// A log with a repeated record is forged: its sequences occur twice.
#[test]
fn a_log_that_repeats_a_record_is_refused() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    keyspace.put("b", "2").unwrap();
    let after = disk.after_power_loss(Tear::KeepUnsynced);
    let logs = after.list(Path::new(DIRECTORY)).unwrap().into_iter();
    let log = logs.map(|entry| entry.name).filter(|name| name.ends_with(".log")).max().unwrap();
    let path = Path::new(DIRECTORY).join(log);
    let mut bytes = after.read_file(&path).unwrap();
    let payload_len = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
    let frame_len = 16 + payload_len as usize;
    assert_ne!(bytes[..frame_len], bytes[frame_len..2 * frame_len]);
    bytes.copy_within(..frame_len, frame_len);
    after.write_file(&path, &bytes);
    let error = open(&after, &clock).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("repeats the sequence"), "{error}");
}

/// A flipped bit anywhere gives correct data or an error that names a file.
#[test]
fn a_flipped_bit_is_never_read_as_data() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let expected = fill(&db, 250);
    // The end of the log, which is not in a table yet, and of which all but the last frame was
    // synced.
    let keyspace = db.keyspace("k").unwrap();
    for (position, (key, (value, _))) in expected.iter().take(12).enumerate() {
        keyspace.put(key, value).unwrap();
        if position == 10 {
            db.sync().unwrap();
        }
    }
    drop((db, keyspace));
    let (mut noticed, mut kinds) = (0, std::collections::BTreeSet::new());
    for path in disk.paths() {
        let bytes = disk.read_file(&path).unwrap_or_default();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let step = (bytes.len() * 8 / 240).max(1);
        for bit in (0..bytes.len() * 8).step_by(step) {
            let hurt = disk.after_power_loss(Tear::KeepUnsynced);
            hurt.corrupt(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            if let Some(error) = read_all(&hurt, &clock, &expected) {
                assert!(error.to_string().contains(DIRECTORY), "{name} bit {bit}: {error}");
                noticed += 1;
                kinds.insert(name.trim_matches(|c: char| c.is_ascii_digit()).to_owned());
            }
        }
    }
    assert!(noticed > 100);
    for kind in ["CURRENT", "MANIFEST-", ".log", ".table"] {
        assert!(kinds.contains(kind), "no damage was noticed in any {kind}: {kinds:?}");
    }
}

/// Reads everything; the first error, or `None` if everything is as expected.
fn read_all(
    disk: &MemoryStorage,
    clock: &Arc<ManualClock>,
    expected: &[(Vec<u8>, support::Value)],
) -> Option<tidekv::Error> {
    let db = match open(disk, clock) {
        Ok(db) => db,
        Err(error) => return Some(error),
    };
    let keyspace = match db.keyspace("k") {
        Ok(keyspace) => keyspace,
        Err(error) => return Some(error),
    };
    let mut found = Vec::new();
    for item in keyspace.iter() {
        match item {
            Ok((key, entry)) => {
                found.push((key.to_vec(), (entry.value.to_vec(), entry.expires_at_ms)))
            }
            Err(error) => return Some(error),
        }
    }
    assert_eq!(found, expected);
    for (key, (value, _)) in expected {
        match keyspace.get(key) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
            Err(error) => return Some(error),
        }
    }
    None
}

#[test]
fn second_opening_is_refused_with_the_directorys_name() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let error = open(&disk, &clock).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(DIRECTORY), "{error}");
    drop(db);
    open(&disk, &clock).unwrap();
}

#[test]
fn directory_of_a_newer_version_is_refused_and_unchanged() {
    let (disk, clock) = world();
    fill(&open(&disk, &clock).unwrap(), 50);
    let current = Path::new("/data/CURRENT");
    disk.write_file(current, b"tidekv 2 SOMETHING-NEW\n");
    let all = |disk: &MemoryStorage| -> Vec<_> {
        disk.paths().into_iter().map(|path| (disk.read_file(&path), path)).collect()
    };
    let before = all(&disk);
    let error = open(&disk, &clock).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("newer"), "{error}");
    assert_eq!(all(&disk), before);
}

#[test]
fn missing_log_or_table_is_detected() {
    let (disk, clock) = world();
    let expected = fill(&open(&disk, &clock).unwrap(), 250);
    let mut found = 0;
    for path in disk.paths() {
        let name = path.to_string_lossy().into_owned();
        if !name.ends_with(".table") && !name.ends_with(".log") {
            continue;
        }
        let hurt = disk.after_power_loss(Tear::KeepUnsynced);
        hurt.remove(&path).unwrap();
        // A finished log that is kept for recycling may be missing without harm.
        if let Some(error) = read_all(&hurt, &clock, &expected) {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(&name), "{name}: {error}");
            found += 1;
        }
    }
    assert!(found > 3);
}

#[test]
fn keys_values_and_bounds_out_of_range_are_refused() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    for error in [
        keyspace.put("", "v").unwrap_err(),
        keyspace.put(&long, "v").unwrap_err(),
        keyspace.get(&long).unwrap_err(),
        keyspace.delete("").unwrap_err(),
        keyspace.put("k", vec![0; VALUE_BYTES_MAX + 1]).unwrap_err(),
        keyspace.ingest([("b", "1"), ("a", "2")]).unwrap_err(),
        keyspace.ingest([("b", "1"), ("b", "2")]).unwrap_err(),
        db.keyspace("").unwrap_err(),
        keyspace
            .increment("text", 0)
            .and(keyspace.put("text", "abc"))
            .and(keyspace.increment("text", 1))
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    keyspace.put(&long[1..], "the longest key").unwrap();
    assert_eq!(keyspace.get(&long[1..]).unwrap().as_deref(), Some(&b"the longest key"[..]));
    // One refused operation refuses its whole batch.
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, b"good", b"1");
    batch.put(&keyspace, b"", b"2");
    assert!(db.write(batch).is_err());
    assert_eq!(keyspace.get("good").unwrap(), None);
}

#[test]
fn read_only_store_changes_nothing_and_needs_no_lock() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let expected = fill(&db, 200);
    db.sync().unwrap();
    let copy = disk.after_power_loss(Tear::KeepUnsynced);
    let before: Vec<_> = copy.paths().into_iter().map(|path| copy.read_file(&path)).collect();
    let reader = Db::open(DIRECTORY, options(&copy, &clock, TINY).read_only(true)).unwrap();
    assert_eq!(contents(&reader, "k"), expected);
    assert_eq!(reader.keyspace("k").unwrap().put("a", "b").unwrap_err().kind(), ErrorKind::Closed);
    drop(reader);
    let after: Vec<_> = copy.paths().into_iter().map(|path| copy.read_file(&path)).collect();
    assert!(before == after);
    let missing = Db::open("/nowhere", options(&copy, &clock, TINY).read_only(true));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn closed_store_returns_an_error() {
    let (disk, clock) = world();
    let db = open(&disk, &clock).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "b").unwrap();
    db.close().unwrap();
    assert_eq!(keyspace.get("a").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(keyspace.put("a", "c").unwrap_err().kind(), ErrorKind::Closed);
    db.close().unwrap();
}
