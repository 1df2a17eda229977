//! Commits that power cuts, failed syncs and full disks interrupt.

use super::*;
use crate::options::KeyspaceOptions;
use crate::version::manifest::Change;
use tidekv_io::{Fault, FaultRule, MemoryStorage, Operation, Tear};

fn put(id: u32) -> Edit {
    let options = KeyspaceOptions::default();
    Edit { changes: vec![Change::PutKeyspace { id, name: format!("k{id}").into(), options }] }
}

fn new(disk: &MemoryStorage) -> Manifest {
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let names = Names::new(Arc::new(disk.clone()), Path::new("/d"));
    Manifest::new(Arc::new(names), State::new(1))
}

fn keyspaces(disk: &MemoryStorage) -> Vec<u32> {
    let state = read(disk, Path::new("/d")).unwrap().unwrap().0;
    state.keyspaces.keys().copied().collect()
}

#[test]
fn acknowledged_edits_survive_a_power_cut_at_any_operation() {
    let whole = MemoryStorage::new();
    let mut manifest = new(&whole);
    let start = whole.operations();
    for id in 0..5 {
        manifest.commit(put(id)).unwrap();
    }
    let end = whole.operations();
    for cut in start..=end {
        for tear in [Tear::DropUnsynced, Tear::KeepUnsynced, Tear::Torn { seed: cut }] {
            let disk = MemoryStorage::new();
            let mut manifest = new(&disk);
            disk.cut_power_at(cut);
            let mut acknowledged = 0;
            while acknowledged < 5 && manifest.commit(put(acknowledged)).is_ok() {
                acknowledged += 1;
            }
            let after = disk.after_power_loss(tear);
            let found = match read(&after, Path::new("/d")).unwrap() {
                Some((state, _)) => state.keyspaces.len() as u32,
                None => 0,
            };
            assert!(found >= acknowledged && found <= acknowledged + 1, "cut {cut} {tear:?}");
        }
    }
}

#[test]
fn after_a_failed_sync_the_next_commit_begins_a_new_file() {
    let disk = MemoryStorage::new();
    let mut manifest = new(&disk);
    manifest.commit(put(1)).unwrap();
    disk.add_fault(FaultRule {
        operation: Some(Operation::Sync),
        path_contains: None,
        skip: 0,
        times: Some(1),
        fault: Fault::SyncLost,
    });
    assert!(manifest.commit(put(2)).is_err());
    assert_eq!(manifest.state().keyspaces.len(), 1);
    manifest.commit(put(3)).unwrap();
    assert_eq!(keyspaces(&disk), [1, 3]);
    assert_eq!(keyspaces(&disk.after_power_loss(Tear::DropUnsynced)), [1, 3]);
}

/// On a full disk, edits that add tables left no space for edits that drop some.
#[test]
fn a_full_disk_leaves_space_for_edits_that_add_nothing() {
    let disk = MemoryStorage::new();
    let mut manifest = new(&disk);
    manifest.commit(put(1)).unwrap();
    let used: usize = disk.paths().iter().map(|p| disk.read_file(p).map_or(0, |f| f.len())).sum();
    disk.set_capacity(Some(used as u64));
    let mut id = 2;
    while manifest.commit(put(id)).is_ok() {
        id += 1;
    }
    let error = manifest.commit(put(id)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(manifest.is_intact(), "a refused edit is not in the file");
    for dropped in 1..id.min(100) {
        manifest.commit(Edit { changes: vec![Change::DropKeyspace { id: dropped }] }).unwrap();
    }
    let left: Vec<u32> = (id.min(100)..id).collect();
    assert_eq!(keyspaces(&disk.after_power_loss(Tear::DropUnsynced)), left);
    disk.set_capacity(None);
    manifest.commit(put(id)).unwrap();
}

/// A manifest that had grown long could not be rewritten on a full disk, and accepted no edit.
#[test]
fn a_long_manifest_goes_on_if_there_is_no_space_for_a_new_file() {
    let disk = MemoryStorage::new();
    let mut manifest = new(&disk);
    let options = KeyspaceOptions::default();
    let name: Box<str> = "long".repeat(60).into();
    let put = |id| Edit {
        changes: vec![Change::PutKeyspace { id, name: name.clone(), options: options.clone() }],
    };
    for n in 0.. {
        manifest.commit(put(n % 2)).unwrap();
        if manifest.log.as_ref().unwrap().offset() > ROLL_BYTES {
            break;
        }
    }
    let number = manifest.file_number();
    let used: usize = disk.paths().iter().map(|p| disk.read_file(p).map_or(0, |f| f.len())).sum();
    disk.set_capacity(Some(used as u64));
    manifest.commit(Edit { changes: vec![Change::DropKeyspace { id: 1 }] }).unwrap();
    assert_eq!(manifest.file_number(), number);
    assert_eq!(keyspaces(&disk.after_power_loss(Tear::DropUnsynced)), [0]);
    disk.set_capacity(None);
    manifest.commit(put(5)).unwrap();
    assert_ne!(manifest.file_number(), number);
    assert_eq!(keyspaces(&disk.after_power_loss(Tear::DropUnsynced)), [0, 5]);
}

#[test]
fn newer_current_is_refused_and_damaged_one_is_named() {
    let disk = MemoryStorage::new();
    new(&disk).commit(put(1)).unwrap();
    let current = Path::new("/d/CURRENT");
    let good = disk.read_file(current).unwrap();
    disk.write_file(current, b"tidekv 2 SOMETHING else\n");
    assert_eq!(read(&disk, Path::new("/d")).unwrap_err().kind(), ErrorKind::Unavailable);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        disk.write_file(current, &bad);
        let error = read(&disk, Path::new("/d")).unwrap_err();
        assert!(error.to_string().contains("CURRENT"), "{error}");
    }
}
