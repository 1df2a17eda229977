//! Aftermaths of power losses, faults, and independence of aftermaths.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const BUFFERED: Access = Access::Buffered;

fn storage_with_directory() -> MemoryStorage {
    let storage = MemoryStorage::new();
    storage.create_dir_all(Path::new("/db")).unwrap();
    storage.sync_dir(Path::new("/")).unwrap();
    storage
}

/// A storage with "/db/a": "old" durable.
fn storage_with_file() -> (MemoryStorage, Arc<dyn File>) {
    let storage = storage_with_directory();
    storage.write_file("/db/a", b"old");
    let file = storage.open(Path::new("/db/a"), BUFFERED).unwrap();
    (storage, file)
}

fn kind<T: fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("this fails").kind()
}

fn torn(storage: &MemoryStorage) -> impl Iterator<Item = MemoryStorage> {
    (0..300).map(|seed| storage.after_power_loss(Tear::Torn { seed }))
}

#[test]
fn only_synced_bytes_survive_a_strict_loss() {
    let (storage, file) = storage_with_file();
    file.write_at(0, b"new and longer").unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"old");
    assert_eq!(storage.read_file("/db/a").unwrap(), b"new and longer");
    file.sync().unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"new and longer");
    file.truncate(3).unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"new and longer");
    file.sync().unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"new");
}

#[test]
fn keep_all_tear_keeps_everything() {
    let (storage, file) = storage_with_file();
    file.write_at(0, b"new and longer").unwrap();
    file.truncate(7).unwrap();
    file.allocate(9).unwrap();
    storage.create(Path::new("/db/b"), BUFFERED).unwrap();
    let after = storage.after_power_loss(Tear::KeepUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"new and\0\0");
    assert_eq!(after.paths(), [Path::new("/db/a"), Path::new("/db/b")]);
}

#[test]
fn a_new_file_survives_by_its_name_and_its_bytes_apart() {
    let storage = storage_with_directory();
    let named = storage.create(Path::new("/db/named"), BUFFERED).unwrap();
    named.write_at(0, b"bytes").unwrap();
    storage.sync_dir(Path::new("/db")).unwrap();
    let synced = storage.create(Path::new("/db/synced"), BUFFERED).unwrap();
    synced.write_at(0, b"bytes").unwrap();
    synced.sync().unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.paths(), [Path::new("/db/named")]);
    assert_eq!(after.read_file("/db/named").unwrap(), b"");
}

#[test]
fn a_rename_happened_or_did_not() {
    let (storage, _) = storage_with_file();
    storage.write_file("/db/a.tmp", b"new");
    storage.rename(Path::new("/db/a.tmp"), Path::new("/db/a")).unwrap();
    let mut seen = HashSet::new();
    for after in torn(&storage) {
        let state = (after.read_file("/db/a").unwrap(), after.read_file("/db/a.tmp"));
        seen.insert(state);
    }
    let (old, new) = (b"old".to_vec(), b"new".to_vec());
    assert_eq!(seen, HashSet::from([(old, Some(new.clone())), (new, None)]));
    storage.sync_dir(Path::new("/db")).unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"new");
}

#[test]
fn a_rename_across_directories_is_never_half_durable() {
    for synced in ["/one", "/two"] {
        let storage = MemoryStorage::new();
        storage.write_file("/one/a", b"a");
        storage.write_file("/two/b", b"b");
        storage.rename(Path::new("/one/a"), Path::new("/two/a")).unwrap();
        let after = storage.after_power_loss(Tear::DropUnsynced);
        assert_eq!(after.paths(), [Path::new("/one/a"), Path::new("/two/b")]);
        storage.sync_dir(Path::new(synced)).unwrap();
        let after = storage.after_power_loss(Tear::DropUnsynced);
        assert_eq!(after.paths(), [Path::new("/two/a"), Path::new("/two/b")]);
    }
}

#[test]
fn removals_and_links_need_the_directory_synced() {
    let (storage, _) = storage_with_file();
    storage.hard_link(Path::new("/db/a"), Path::new("/db/b")).unwrap();
    storage.sync_dir(Path::new("/db")).unwrap();
    storage.remove(Path::new("/db/a")).unwrap();
    let before = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(before.paths(), [Path::new("/db/a"), Path::new("/db/b")]);
    before.open(Path::new("/db/a"), BUFFERED).unwrap().write_at(0, b"OLD").unwrap();
    assert_eq!(before.read_file("/db/b").unwrap(), b"OLD", "links stay links");
    storage.sync_dir(Path::new("/db")).unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.paths(), [Path::new("/db/b")]);
    assert_eq!(after.read_file("/db/b").unwrap(), b"old");
}

#[test]
fn a_directory_whose_name_is_lost_takes_its_files_along() {
    let storage = MemoryStorage::new();
    storage.create_dir_all(Path::new("/db")).unwrap();
    let file = storage.create(Path::new("/db/a"), BUFFERED).unwrap();
    file.sync().unwrap();
    storage.sync_dir(Path::new("/db")).unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert!(after.paths().is_empty() && !after.exists(Path::new("/db")).unwrap());
    storage.sync_dir(Path::new("/")).unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.paths(), [Path::new("/db/a")]);
}

#[test]
fn names_that_build_on_each_other_survive_in_order() {
    let storage = storage_with_directory();
    storage.write_file("/db/log", b"first");
    storage.rename(Path::new("/db/log"), Path::new("/db/log.old")).unwrap();
    storage.create(Path::new("/db/log"), BUFFERED).unwrap();
    storage.create(Path::new("/db/other"), BUFFERED).unwrap();
    let mut states = HashSet::new();
    for after in torn(&storage) {
        let first = [after.read_file("/db/log"), after.read_file("/db/log.old")];
        assert!(first.contains(&Some(b"first".to_vec())), "a durable file is never lost");
        states.insert(after.paths());
    }
    assert_eq!(states.len(), 6, "none, the rename, or both; each with the other or without");
}

#[test]
fn torn_writes_show_old_new_and_parts_of_each() {
    let (storage, file) = storage_with_file();
    storage.corrupt("/db/a", |bytes| *bytes = vec![b'.'; 100]);
    file.write_at(0, &[b'x'; 50]).unwrap();
    file.write_at(50, &[b'y'; 50]).unwrap();
    let states: HashSet<Vec<u8>> = torn(&storage).map(|s| s.read_file("/db/a").unwrap()).collect();
    let state = |x: u8, y: u8| [[x; 50], [y; 50]].concat();
    for whole in [state(b'.', b'.'), state(b'x', b'.'), state(b'.', b'y'), state(b'x', b'y')] {
        assert!(states.contains(&whole));
    }
    assert!(states.len() > 100, "only {} states of 300", states.len());
    assert!(states.iter().all(|bytes| bytes.len() == 100));
    let inner =
        |bytes: &Vec<u8>| bytes[0] == b'.' && bytes[..50].contains(&b'x') && bytes[49] == b'.';
    assert!(states.iter().any(inner), "a part from the middle");
}

#[test]
fn hole_is_visible_at_once_and_durable_after_sync() {
    let (storage, file) = storage_with_file();
    storage.corrupt("/db/a", |bytes| *bytes = vec![b'x'; 100]);
    file.punch_hole(10, 20).unwrap();
    // Up to the end of the file.
    file.punch_hole(90, 50).unwrap();
    let punched = [vec![b'x'; 10], vec![0; 20], vec![b'x'; 60], vec![0; 10]].concat();
    assert_eq!(*file.read_at(0, 100).unwrap(), punched);
    let left = |tear| storage.after_power_loss(tear).read_file("/db/a").unwrap();
    assert_eq!(left(Tear::DropUnsynced), [b'x'; 100]);
    assert_eq!(left(Tear::KeepUnsynced), punched);
    file.sync().unwrap();
    assert_eq!(left(Tear::DropUnsynced), punched);
}

#[test]
fn torn_appends_leave_every_length() {
    let (storage, file) = storage_with_file();
    file.write_at(3, b" and new").unwrap();
    let lengths: HashSet<usize> =
        torn(&storage).map(|s| s.read_file("/db/a").unwrap().len()).collect();
    assert_eq!(lengths, (3..=11).collect());
}

#[test]
fn same_seed_gives_the_same_aftermath() {
    let (storage, file) = storage_with_file();
    for n in 0..10 {
        file.write_at(n * 3, &[n as u8; 7]).unwrap();
        storage.create(&Path::new("/db").join(n.to_string()), BUFFERED).unwrap();
    }
    let look = |seed| {
        let after = storage.after_power_loss(Tear::Torn { seed });
        (after.paths(), after.read_file("/db/a"))
    };
    assert_eq!(look(5), look(5));
    assert_ne!(look(5), look(6));
}

#[test]
fn aftermath_is_independent() {
    let (storage, file) = storage_with_file();
    let lock = storage.lock(Path::new("/db/LOCK")).unwrap();
    storage.sync_dir(Path::new("/db")).unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.operations(), 0);
    after.lock(Path::new("/db/LOCK")).unwrap();
    after.open(Path::new("/db/a"), BUFFERED).unwrap().write_at(0, b"other").unwrap();
    after.remove(Path::new("/db/a")).unwrap();
    assert_eq!(&*file.read_at(0, 3).unwrap(), b"old");
    file.write_at(0, b"new").unwrap();
    file.sync().unwrap();
    let again = after.after_power_loss(Tear::DropUnsynced);
    assert_eq!(again.read_file("/db/a").unwrap(), b"old", "surviving bytes are durable");
    drop(lock);
}

#[test]
fn power_can_be_cut_before_any_operation() {
    let run = |storage: &MemoryStorage| -> Result<()> {
        let file = storage.create(Path::new("/db/b"), BUFFERED)?;
        file.write_at(0, b"1")?;
        file.sync()?;
        storage.sync_dir(Path::new("/db"))?;
        file.read_at(0, 1).map(drop)
    };
    let whole = storage_with_directory();
    let first = whole.operations();
    run(&whole).unwrap();
    assert_eq!(whole.operations(), first + 5);
    for cut in 0..5 {
        let storage = storage_with_directory();
        storage.cut_power_at(first + cut);
        assert_eq!(kind(run(&storage)), ErrorKind::Failed);
        assert_eq!(kind(storage.list(Path::new("/db"))), ErrorKind::Failed, "it stays off");
        let after = storage.after_power_loss(Tear::DropUnsynced);
        assert_eq!(after.paths().len(), usize::from(cut > 3), "cut at {cut}");
        run(&storage_with_directory()).unwrap();
    }
}

#[test]
fn the_callback_comes_before_the_operation_and_may_clone_aftermaths() {
    let (storage, file) = storage_with_file();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inner, log) = (storage.clone(), Arc::clone(&seen));
    storage.record_history(true);
    storage.on_operation(move |record| {
        let after = inner.after_power_loss(Tear::KeepUnsynced);
        log.lock().push((record.clone(), after.read_file("/db/a").unwrap()));
    });
    file.write_at(0, b"new").unwrap();
    storage.rename(Path::new("/db/a"), Path::new("/db/a")).unwrap();
    storage.clear_on_operation();
    file.sync().unwrap();
    let seen = std::mem::take(&mut *seen.lock());
    assert_eq!(seen[0].1, b"old");
    assert_eq!(seen[1].1, b"new");
    let history = storage.history();
    assert_eq!(history[..2], [seen[0].0.clone(), seen[1].0.clone()]);
    let lines: Vec<String> = history.iter().map(ToString::to_string).collect();
    let first = history[0].number;
    assert_eq!(
        lines,
        [
            format!("{first}: write /db/a"),
            format!("{}: rename /db/a -> /db/a", first + 1),
            format!("{}: sync /db/a", first + 2),
        ]
    );
}

#[test]
fn a_failing_operation_does_nothing() {
    let (storage, file) = storage_with_file();
    storage.add_fault(FaultRule::once(Operation::Write, Fault::Fail(ErrorKind::Full)));
    assert_eq!(kind(file.write_at(0, b"new")), ErrorKind::Full);
    assert_eq!(&*file.read_at(0, 3).unwrap(), b"old");
    file.write_at(0, b"new").unwrap();
    storage.add_fault(FaultRule::always(Operation::Sync, Fault::Fail(ErrorKind::Failed)));
    assert_eq!(kind(file.sync()), ErrorKind::Failed);
    assert_eq!(kind(file.sync()), ErrorKind::Failed);
    storage.clear_faults();
    file.sync().unwrap();
}

#[test]
fn rules_count_and_choose_their_operations() {
    let (storage, file) = storage_with_file();
    let strikes = AtomicU64::new(0);
    let reads = || {
        for _ in 0..6 {
            strikes.fetch_add(u64::from(file.read_at(0, 3).is_err()), Ordering::Relaxed);
        }
        strikes.swap(0, Ordering::Relaxed)
    };
    let fail = Fault::Fail(ErrorKind::Failed);
    let mut rule = FaultRule::once(Operation::Read, fail).after(3);
    rule.times = Some(2);
    storage.add_fault(rule);
    assert_eq!(reads(), 2);
    assert_eq!(reads(), 0);
    storage.add_fault(FaultRule::always(Operation::Read, fail).on_path("elsewhere"));
    assert_eq!(reads(), 0);
    storage.add_fault(FaultRule { operation: None, ..FaultRule::always(Operation::Read, fail) });
    assert_eq!(reads(), 6);
    assert!(storage.list(Path::new("/db")).is_err(), "no operation given: all of them");
    storage.clear_faults();
    storage.add_fault(FaultRule::always(Operation::Rename, fail).on_path("target"));
    let renamed = storage.rename(Path::new("/db/a"), Path::new("/db/target"));
    assert_eq!(kind(renamed), ErrorKind::Failed);
}

#[test]
fn a_short_write_leaves_half() {
    let (storage, file) = storage_with_file();
    storage.add_fault(FaultRule::once(Operation::Write, Fault::ShortWrite));
    assert_eq!(kind(file.write_at(3, b"12345678")), ErrorKind::Failed);
    assert_eq!(storage.read_file("/db/a").unwrap(), b"old1234");
}

#[test]
fn reads_come_back_short_or_wrong() {
    let (storage, file) = storage_with_file();
    storage.add_fault(FaultRule::once(Operation::Read, Fault::ShortRead));
    assert_eq!(kind(file.read_at(0, 3)), ErrorKind::ShortRead);
    storage.add_fault(FaultRule::once(Operation::Read, Fault::FlipBit { byte: 4, bit: 0 }));
    let request = ReadRequest { file: Arc::clone(&file), offset: 0, len: 3 };
    let results = storage.read_batch(&[request.clone(), request]);
    assert_eq!(&**results[0].as_ref().unwrap(), b"omd");
    assert_eq!(&**results[1].as_ref().unwrap(), b"old");
}

#[test]
fn later_sync_does_not_repair_a_lost_sync() {
    let (storage, file) = storage_with_file();
    file.write_at(0, b"lost").unwrap();
    storage.add_fault(FaultRule::once(Operation::Sync, Fault::SyncLost));
    assert_eq!(kind(file.sync()), ErrorKind::Failed);
    assert_eq!(&*file.read_at(0, 4).unwrap(), b"lost", "still visible");
    file.write_at(6, b"kept").unwrap();
    let lucky = storage.after_power_loss(Tear::KeepUnsynced);
    assert_eq!(lucky.read_file("/db/a").unwrap(), b"old\0\0\0kept");
    file.sync().unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"old\0\0\0kept");
}

/// Linux may do this after a failed fsync: the pages are dropped, and the next fsync succeeds
/// without them.
#[test]
fn a_sync_that_drops_pages_shows_what_the_device_holds() {
    let (storage, file) = storage_with_file();
    file.write_at(0, b"gone for good").unwrap();
    storage.add_fault(FaultRule::once(Operation::Sync, Fault::SyncDropped));
    assert_eq!(kind(file.sync()), ErrorKind::Failed);
    assert_eq!(storage.read_file("/db/a").unwrap(), b"old");
    file.sync().unwrap();
    file.write_at(3, b"er").unwrap();
    file.sync().unwrap();
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/db/a").unwrap(), b"older");
    let struck = storage.struck();
    assert_eq!((struck.len(), struck[0].operation), (1, Operation::Sync));
}

#[test]
fn later_sync_does_not_repair_a_lost_directory_sync() {
    let (storage, _) = storage_with_file();
    storage.create(Path::new("/db/lost"), BUFFERED).unwrap();
    storage.add_fault(FaultRule::once(Operation::SyncDirectory, Fault::SyncLost));
    assert_eq!(kind(storage.sync_dir(Path::new("/db"))), ErrorKind::Failed);
    storage.create(Path::new("/db/kept"), BUFFERED).unwrap();
    storage.sync_dir(Path::new("/db")).unwrap();
    assert!(storage.exists(Path::new("/db/lost")).unwrap());
    let after = storage.after_power_loss(Tear::KeepUnsynced);
    assert_eq!(after.paths(), [Path::new("/db/a"), Path::new("/db/kept")]);
}

#[test]
fn a_full_disk_refuses_growth_only() {
    let (storage, file) = storage_with_file();
    storage.hard_link(Path::new("/db/a"), Path::new("/db/b")).unwrap();
    storage.set_capacity(Some(10));
    assert_eq!(storage.free_bytes(Path::new("/db")).unwrap(), 7);
    file.write_at(0, &[1; 10]).unwrap();
    assert_eq!(kind(file.write_at(10, &[1])), ErrorKind::Full);
    assert_eq!(kind(file.allocate(11)), ErrorKind::Full);
    assert_eq!(kind(file.truncate(11)), ErrorKind::Full);
    file.write_at(0, &[2; 10]).unwrap();
    file.truncate(4).unwrap();
    let other = storage.create(Path::new("/db/c"), BUFFERED).unwrap();
    assert_eq!(kind(other.write_at(0, &[3; 7])), ErrorKind::Full);
    other.write_at(0, &[3; 6]).unwrap();
    storage.set_capacity(None);
    other.write_at(6, &[3; 100]).unwrap();
}

#[test]
fn tampering_is_durable_and_no_operation() {
    let storage = MemoryStorage::new();
    storage.write_file("/x/y/z", b"abc");
    let file = storage.open(Path::new("x/./y/../y/z"), BUFFERED).unwrap();
    let operations = storage.operations();
    storage.corrupt("/x/y/z", |bytes| bytes[1] ^= 0xFF);
    let after = storage.after_power_loss(Tear::DropUnsynced);
    assert_eq!(after.read_file("/x/y/z").unwrap(), [b'a', !b'b', b'c']);
    storage.write_file("/x/y/z", b"other");
    assert_eq!(storage.after_power_loss(Tear::DropUnsynced).read_file("x/y/z").unwrap(), b"other");
    assert_eq!(storage.read_file("/x"), None);
    assert_eq!(storage.operations(), operations);
    assert_eq!(file.read_at(0, 1).unwrap()[0], b'a', "a replaced file lives on in its handles");
}

#[test]
fn thousands_of_aftermaths_are_cheap() {
    let storage = storage_with_directory();
    let (bytes, aftermaths) = if cfg!(miri) { (1 << 13, 2) } else { (1 << 20, 2000) };
    for n in 0..20 {
        storage.write_file(format!("/db/{n}"), &vec![n; bytes]);
    }
    let kept: Vec<_> =
        (0..aftermaths).map(|seed| storage.after_power_loss(Tear::Torn { seed })).collect();
    assert_eq!(kept.last().unwrap().paths().len(), 20);
}
