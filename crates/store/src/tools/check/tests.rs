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
