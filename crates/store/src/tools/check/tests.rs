//! A sound store has no damage; damaged files are named.

use super::*;
use crate::{Db, Durability, Environment, Options};
use tidekv_io::MemoryStorage;

/// A store with tables on two levels and writes in its log.
fn store(disk: &MemoryStorage) {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let environment = Environment::default().storage(storage);
    let options = Options::default().environment(environment).durability(Durability::Sync);
    let db = Db::open("/d", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let put = |from: u32| {
        for i in from..from + 500 {
            keyspace.put(i.to_be_bytes(), vec![b'v'; 100]).unwrap();
        }
    };
    put(0);
    db.compact().unwrap();
    put(100);
    keyspace.delete_range(10u32.to_be_bytes(), 20u32.to_be_bytes()).unwrap();
    db.flush().unwrap();
    put(200);
    db.close().unwrap();
}

fn run(disk: &MemoryStorage) -> Result<CheckReport> {
    check("/d", Some(Arc::new(disk.clone())), &mut |_| {})
}

fn contents(disk: &MemoryStorage) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = disk.read_file(Path::new("/d").join(&name)).unwrap();
        (name, bytes)
    };
    disk.list(Path::new("/d")).unwrap().into_iter().map(|e| read(e.name)).collect()
}

fn inspector(disk: &MemoryStorage) -> crate::tools::inspect::Inspector {
    crate::tools::inspect::Inspector::new("/d", Some(Arc::new(disk.clone()))).unwrap()
}

#[test]
fn check_of_a_sound_store_finds_and_changes_nothing() {
    let disk = MemoryStorage::new();
    assert_eq!(run(&disk).unwrap_err().kind(), ErrorKind::Unavailable);
    store(&disk);
    disk.write_file(Path::new("/d/notes.txt"), b"mine");
    disk.write_file(Path::new("/d/000999.table"), b"left over");
    let before = contents(&disk);
    let report = run(&disk).unwrap();
    assert_eq!(report.damage, []);
    assert_eq!(report.tables, 2);
    assert_eq!(report.entries, 1000);
    assert_eq!(report.logs.len(), 1);
    assert_eq!(report.logs[0].records, 500);
    assert_eq!(report.foreign, ["notes.txt"]);
    assert!(report.left_over.contains(&"000999.table".to_owned()));
    assert_eq!(contents(&disk), before);
}

#[test]
fn flipped_bit_anywhere_is_found_and_its_file_is_named() {
    let disk = MemoryStorage::new();
    store(&disk);
    let log_end = inspector(&disk).logs(|_| ()).unwrap()[0].end;
    for file in inspector(&disk).store().unwrap().files {
        let end = match file.role {
            // An opening goes by the machine's clock instead.
            FileRole::Lock | FileRole::LeftOver | FileRole::Clock => continue,
            FileRole::Log => log_end,
            _ => file.bytes,
        };
        let path = Path::new("/d").join(&file.name);
        let good = disk.read_file(&path).unwrap();
        // Padding between blocks and after the manifest is not data.
        let step = (end as usize / 40).max(1);
        for at in (0..end as usize).step_by(step).filter(|&at| good[at] != 0) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            disk.write_file(&path, &bad);
            match run(&disk) {
                Err(error) => assert!(error.to_string().contains(&file.name), "{error}"),
                Ok(report) => {
                    let named = report.damage.iter().any(|damage| damage.file == path);
                    assert!(named, "{} at {at}: {:?}", file.name, report.damage);
                }
            }
        }
        disk.write_file(&path, &good);
    }
    assert_eq!(run(&disk).unwrap().damage, []);
}

#[test]
fn a_log_that_was_cut_after_a_clean_shutdown_is_damage() {
    let disk = MemoryStorage::new();
    store(&disk);
    let log = inspector(&disk).logs(|_| ()).unwrap().remove(0);
    let path = log_path(Path::new("/d"), log.number);
    let good = disk.read_file(&path).unwrap();
    let open = || {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        Db::open("/d", Options::default().environment(Environment::default().storage(storage)))
    };
    for len in (0..log.end as usize).step_by(997).chain([log.end as usize - 1]) {
        disk.write_file(&path, &good[..len]);
        let report = run(&disk).unwrap();
        assert!(report.damage.iter().any(|damage| damage.file == path), "{len}: {report:?}");
        assert_eq!(open().unwrap_err().kind(), ErrorKind::Corrupt, "{len}");
    }
    disk.remove(&path).unwrap();
    assert!(run(&disk).unwrap().damage[0].message.contains("missing"));
    assert_eq!(open().unwrap_err().kind(), ErrorKind::Corrupt);
    disk.write_file(&path, &good);
    assert_eq!(run(&disk).unwrap().damage, []);
    assert_eq!(open().unwrap().keyspace("k").unwrap().iter().count(), 690);
}

#[test]
fn a_flush_records_how_much_of_the_log_was_synced() {
    let disk = MemoryStorage::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let environment = Environment::default().storage(storage);
    let options = Options::default().environment(environment).durability(Durability::Sync);
    let db = Db::open("/d", options.clone()).unwrap();
    let (k, l) = (db.keyspace("k").unwrap(), db.keyspace("l").unwrap());
    for i in 0..500_u32 {
        k.put(i.to_be_bytes(), "synced").unwrap();
        l.put(i.to_be_bytes(), "synced").unwrap();
    }
    // The writes of `l` are in the log only.
    k.flush().unwrap();
    let crashed = disk.after_power_loss(tidekv_io::Tear::DropUnsynced);
    let state = manifest::file::read(&crashed, Path::new("/d")).unwrap().unwrap().0;
    let path = log_path(Path::new("/d"), state.log_synced.log);
    let good = crashed.read_file(&path).unwrap();
    crashed.write_file(&path, &good[..state.log_synced.offset as usize / 2]);
    let again = |disk: &MemoryStorage| {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        Db::open("/d", options.clone().environment(Environment::default().storage(storage)))
    };
    assert_eq!(again(&crashed).unwrap_err().kind(), ErrorKind::Corrupt);
    crashed.write_file(&path, &good);
    assert_eq!(again(&crashed).unwrap().keyspace("l").unwrap().iter().count(), 500);
}

#[test]
fn a_store_that_is_being_written_is_never_called_damaged() {
    let disk = MemoryStorage::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let options = Options::default()
        .environment(Environment::default().storage(storage))
        .memory_bytes(8 << 20)
        .memtable_bytes(16 << 10)
        .table_bytes(16 << 10);
    let db = Db::open("/d", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut i = 0_u32;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                i = i.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                keyspace.put((i >> 16).to_be_bytes(), [b'v'; 200]).unwrap();
            }
        });
        for _ in 0..100 {
            let report = run(&disk).unwrap();
            assert_eq!(report.damage, []);
            assert_eq!(report.unreadable, []);
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_file_that_cannot_be_read_is_not_called_damaged() {
    use tidekv_io::{Fault, FaultRule, Operation};

    let disk = MemoryStorage::new();
    store(&disk);
    for name in ["table", "log", "MANIFEST", "CURRENT"] {
        disk.add_fault(FaultRule {
            operation: Some(Operation::Open),
            path_contains: Some(name.into()),
            skip: 0,
            times: None,
            fault: Fault::Fail(tidekv_io::ErrorKind::Failed),
        });
        let report = run(&disk).unwrap();
        assert_eq!(report.damage, [], "{name}");
        assert!(!report.unreadable.is_empty(), "{name}");
        assert!(report.unreadable.iter().all(|file| file.message.contains(name)), "{report:?}");
        disk.clear_faults();
    }
    assert_eq!(run(&disk).unwrap().unreadable, []);
}

#[test]
fn an_interrupted_creation_is_not_damage() {
    let disk = MemoryStorage::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.write_file(Path::new("/d/MANIFEST-000001"), b"half");
    let report = run(&disk).unwrap();
    assert_eq!(report.damage, []);
    assert!(report.torn[0].message.contains("begins an empty store"), "{report:?}");
    disk.write_file(Path::new("/d/000001.log"), b"");
    assert_eq!(run(&disk).unwrap().damage.len(), 1);
}

#[test]
fn missing_file_is_named_and_the_others_are_checked() {
    let disk = MemoryStorage::new();
    store(&disk);
    for file in inspector(&disk).store().unwrap().files {
        if matches!(file.role, FileRole::Lock | FileRole::LeftOver | FileRole::Clock) {
            continue;
        }
        let path = Path::new("/d").join(&file.name);
        let good = disk.read_file(&path).unwrap();
        disk.remove(&path).unwrap();
        let report = run(&disk).unwrap();
        let named = report.damage.iter().any(|damage| damage.message.contains(&file.name));
        assert!(named, "{}: {:?}", file.name, report.damage);
        assert!(report.entries > 0);
        disk.write_file(&path, &good);
    }
}
