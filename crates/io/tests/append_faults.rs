//! What the append writer promises when the disk does not cooperate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tidekv_io::{
    Access, AppendFile, ErrorKind, Fault, FaultRule, MemoryStorage, Operation, Storage, Tear,
};

fn start(storage: &MemoryStorage) -> AppendFile {
    AppendFile::new(storage.create(Path::new("/a"), Access::Direct).unwrap(), 8192)
}

#[test]
fn what_was_finished_is_durable() {
    let storage = MemoryStorage::new();
    let mut append = start(&storage);
    storage.sync_dir(Path::new("/")).unwrap();
    append.append(&[7; 20_000]).unwrap();
    append.finish().unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/a").unwrap(), [7; 20_000]);
}

#[test]
fn preallocated_space_past_the_end_is_cut_off() {
    let storage = MemoryStorage::new();
    let mut append = start(&storage);
    append.file().allocate(1 << 20).unwrap();
    append.append(&[7; 8192]).unwrap();
    append.finish().unwrap();
    assert_eq!(storage.read_file("/a").unwrap().len(), 8192);
}

#[test]
fn every_failure_reaches_the_caller() {
    for operation in [Operation::Write, Operation::Truncate, Operation::Sync] {
        let storage = MemoryStorage::new();
        storage.add_fault(FaultRule::once(operation, Fault::Fail(ErrorKind::Full)));
        let mut append = start(&storage);
        let result = append.append(&[7; 9000]).and_then(|()| append.finish());
        assert_eq!(result.unwrap_err().operation(), operation);
    }
}

#[test]
fn nothing_is_appended_after_a_failure() {
    let storage = MemoryStorage::new();
    storage.add_fault(FaultRule::once(Operation::Write, Fault::ShortWrite));
    let mut append = start(&storage);
    assert!(append.append(&[7; 9000]).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| append.append(b"more"))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| append.finish())).is_err());
}
