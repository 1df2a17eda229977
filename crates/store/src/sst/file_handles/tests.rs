//! Which files are open, and which can be removed.

use tidekv_io::MemoryStorage;

use super::*;

fn files(count: u64, open_max: usize) -> (Arc<FileHandles>, Vec<Arc<FileHandle>>) {
    let storage = MemoryStorage::new();
    let path = |number: u64| PathBuf::from(format!("/{number}.table"));
    (0..count).for_each(|number| storage.write_file(path(number), &number.to_le_bytes()));
    let all = Arc::new(FileHandles::new(Arc::new(storage), Access::Direct, open_max));
    let handles = (0..count).map(|number| all.handle(number, path(number), false)).collect();
    (all, handles)
}

#[test]
fn no_more_files_are_open_than_the_bound() {
    let (all, handles) = files(20, 5);
    for round in 0..3 {
        for (number, handle) in handles.iter().enumerate() {
            let bytes = handle.file().unwrap().read_at(0, 8).unwrap();
            assert_eq!(*bytes, (number as u64).to_le_bytes(), "round {round}");
            assert!(all.open_files() <= 5);
        }
    }
    assert_eq!(all.opened(), 60, "in turns, none stays open until it is read again");
    drop(handles);
    assert_eq!(all.open_files(), 0);
}

#[test]
fn files_that_are_read_stay_open() {
    let (all, handles) = files(20, 5);
    for handle in &handles {
        handles[0].file().unwrap();
        handle.file().unwrap();
    }
    assert_eq!(all.opened(), 20, "the first file is opened once");
}

#[test]
fn the_ring_does_not_grow_with_files_that_come_and_go() {
    let (all, _) = files(0, 5);
    for number in 0..1000 {
        let handle = all.handle(number, "/0.table".into(), false);
        all.storage.create(Path::new("/0.table"), Access::Direct).ok();
        handle.file().unwrap();
    }
    assert_eq!(all.open_files(), 0);
    assert!(all.ring.lock().files.len() <= RING_LEN_MIN + 1);
}

#[test]
fn a_file_is_obsolete_when_its_last_table_is_retired_and_its_last_user_gone() {
    let (all, handles) = files(2, 5);
    let path = handles[0].path().to_owned();
    let shared = all.handle(0, path.clone(), true);
    let same = all.handle(0, path, true);
    assert!(Arc::ptr_eq(&shared, &same));
    shared.add_table(8);
    same.add_table(8);
    shared.retire_table(8);
    shared.leave_table();
    assert!(all.take_obsolete().is_empty(), "one of its tables is part of the store");
    same.retire_table(8);
    assert!(all.take_obsolete().is_empty(), "it is in use");
    same.leave_table();
    assert_eq!(all.take_obsolete(), [0]);
    handles[1].add_table(8);
    handles[1].leave_table();
    drop(handles);
    assert_eq!(all.take_obsolete(), [0; 0], "a file of the store stays when the store is closed");
}
