//! Every byte of every file of a small store is changed, in three ways: reads then return correct
//! data, or an error, except for the limits that `docs/reference/format.md` names.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use support::{DIRECTORY, START_MS, TINY, Value, options};
use tidekv::{Db, WriteBatch};
use tidekv_io::{ManualClock, MemoryStorage, Tear};

/// The contents of both keyspaces.
type Contents = Vec<Vec<(Vec<u8>, Value)>>;

fn open(disk: &MemoryStorage) -> tidekv::Result<Db> {
    Db::open(DIRECTORY, options(disk, &Arc::new(ManualClock::new(START_MS)), TINY))
}

/// Reads by iteration, and by gets of the found keys.
fn contents(disk: &MemoryStorage) -> tidekv::Result<Contents> {
    let db = open(disk)?;
    let mut all = Vec::new();
    for name in ["a", "b"] {
        let keyspace = db.keyspace(name)?;
        let mut found = Vec::new();
        for item in keyspace.iter() {
            let (key, entry) = item?;
            assert_eq!(keyspace.get_entry(&key)?.as_ref(), Some(&entry));
            found.push((key.to_vec(), (entry.value.to_vec(), entry.expires_at_ms)));
        }
        all.push(found);
    }
    Ok(all)
}

/// A store with tables and a log of three batches, all of it synced, as a killed process leaves it;
/// and its contents after each batch.
fn store() -> (MemoryStorage, Vec<Contents>) {
    let disk = MemoryStorage::new();
    let db = open(&disk).unwrap();
    let (a, b) = (db.keyspace("a").unwrap(), db.keyspace("b").unwrap());
    for i in 0..8 {
        a.put(format!("key-{i}"), [b'~'; 20]).unwrap();
    }
    b.put("compressed", [b'~'; 300]).unwrap();
    db.compact().unwrap();
    a.delete("key-3").unwrap();
    a.delete_range("key-5", "key-7").unwrap();
    db.flush().unwrap();
    let mut states = vec![contents(&disk.after_power_loss(Tear::KeepUnsynced)).unwrap()];
    for number in 0..3 {
        let mut batch = WriteBatch::new();
        batch.put_until(&a, b"slack", [number], START_MS + 1000);
        batch.put(&b, format!("batch-{number}").as_bytes(), b"here");
        db.write(batch).unwrap();
        db.sync().unwrap();
        states.push(contents(&disk.after_power_loss(Tear::KeepUnsynced)).unwrap());
    }
    (disk.after_power_loss(Tear::KeepUnsynced), states)
}

#[test]
fn changed_byte_gives_an_error_or_correct_data() {
    let (disk, states) = store();
    let truth = states.last().unwrap();
    let last_log = disk.paths().into_iter().rfind(|p| p.to_string_lossy().ends_with(".log"));
    // By kind of file: detected changes, and all changes.
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for path in disk.paths() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let kinds = ["CURRENT", "MANIFEST-", ".log", ".table", "LOCK"];
        let kind = kinds.into_iter().find(|kind| name.contains(kind)).unwrap();
        let bytes = disk.read_file(&path).unwrap();
        // Of the zeros after the last frame of a log, some represent all.
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 40);
        for at in 0..used.min(bytes.len()) {
            for change in [1 << (at % 8), 0xff, bytes[at] ^ b'~'] {
                let hurt = disk.after_power_loss(Tear::KeepUnsynced);
                hurt.corrupt(&path, |bytes| bytes[at] ^= change);
                let count = counts.entry(kind).or_default();
                count.1 += 1;
                let place = || format!("{name}, byte {at} changed by {change:02x}");
                match contents(&hurt) {
                    Ok(found) if found == *truth => {}
                    // No later frame confirms the last record of a log: a change in it looks like a
                    // torn end. The only limit of this kind.
                    Ok(found) => {
                        assert_eq!(Some(&path), last_log.as_ref(), "{} reads wrongly", place());
                        assert_eq!(found, states[states.len() - 2], "{} reads wrongly", place());
                    }
                    Err(error) => {
                        count.0 += 1;
                        assert!(error.to_string().contains(DIRECTORY), "{}: {error}", place());
                    }
                }
            }
        }
    }
    for kind in ["CURRENT", "MANIFEST-", ".log", ".table"] {
        let (noticed, all) = counts[kind];
        assert!(noticed > 50, "{noticed} of {all} changes in {kind}s noticed");
    }
}
