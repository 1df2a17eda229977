//! Guarantees of the append writer under disk faults.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use std::sync::Arc;

use tidekv_io::{
    Access, AppendFile, ErrorKind, Executor, Fault, FaultRule, InlineExecutor, Job, MemoryStorage,
    Operation, Priority, Storage, Tear, ThreadPool,
};

fn start(storage: &MemoryStorage) -> AppendFile {
    AppendFile::new(storage.create(Path::new("/a"), Access::Direct).unwrap(), 8192)
}

/// Drops all jobs, like an executor after shutdown.
#[derive(Debug)]
struct DroppingExecutor;

impl Executor for DroppingExecutor {
    fn execute(&self, _: Priority, _: Job) {}

    fn parallelism(&self) -> usize {
        1
    }

    fn shutdown(&self) {}

    fn is_inline(&self) -> bool {
        false
    }
}

fn helpers() -> [Arc<dyn Executor>; 3] {
    [
        Arc::new(ThreadPool::new("helper", 1)),
        Arc::new(InlineExecutor::new()),
        Arc::new(DroppingExecutor),
    ]
}

#[test]
fn finished_file_is_durable() {
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

#[test]
fn helper_writes_the_same_bytes() {
    for helper in helpers() {
        for len in [0, 1, 8191, 8192, 8193, 100_000] {
            let storage = MemoryStorage::new();
            let mut append = start(&storage).with_helper(Arc::clone(&helper));
            storage.sync_dir(Path::new("/")).unwrap();
            let bytes: Vec<u8> = (0..len).map(|n: usize| (n * 7 / 5) as u8).collect();
            for part in bytes.chunks(777) {
                append.append(part).unwrap();
            }
            assert_eq!(append.offset(), len as u64);
            assert_eq!(append.finish().unwrap(), len as u64);
            let after = storage.after_power_loss(Tear::DropUnsynced);
            assert_eq!(after.read_file("/a").unwrap(), bytes, "{helper:?}");
        }
    }
}

#[test]
fn with_a_helper_every_failure_reaches_the_caller() {
    for helper in helpers() {
        for (operation, lengths) in [
            (Operation::Write, &[100, 8192, 9000, 30_000][..]),
            (Operation::Truncate, &[100, 9000]),
            (Operation::Sync, &[100, 8192, 30_000]),
        ] {
            for &len in lengths {
                let storage = MemoryStorage::new();
                storage.add_fault(FaultRule::once(operation, Fault::Fail(ErrorKind::Full)));
                let mut append = start(&storage).with_helper(Arc::clone(&helper));
                let result = append.append(&vec![7; len]).and_then(|()| append.finish());
                assert_eq!(result.unwrap_err().operation(), operation);
            }
        }
    }
}

/// Keeps jobs until the test runs them.
#[derive(Default)]
struct DeferredExecutor(std::sync::Mutex<Vec<Job>>);

impl std::fmt::Debug for DeferredExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeferredExecutor")
    }
}

impl Executor for DeferredExecutor {
    fn execute(&self, _: Priority, job: Job) {
        self.0.lock().unwrap().push(job);
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn shutdown(&self) {}

    fn is_inline(&self) -> bool {
        false
    }
}

#[test]
fn dropped_file_is_not_written_later() {
    let (storage, helper) = (MemoryStorage::new(), Arc::new(DeferredExecutor::default()));
    let mut append = start(&storage).with_helper(helper.clone());
    append.append(&[7; 8192]).unwrap();
    drop(append);
    let jobs = std::mem::take(&mut *helper.0.lock().unwrap());
    assert_eq!(jobs.len(), 1);
    jobs.into_iter().for_each(|job| job());
    assert!(storage.read_file("/a").unwrap().is_empty());
}
