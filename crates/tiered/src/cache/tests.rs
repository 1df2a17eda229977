//! The bytes of a device as they were released: what is written today is the same, and what was
//! written then can be read today.

use std::path::Path;

use bytes::Bytes;
use tidekv_io::{Fault, FaultRule, ManualClock, MemoryStorage, Operation, SeededRandom, Storage};

use super::*;
use crate::golden::Dump;
use crate::layout::Layout;
use crate::mark::MARK_BYTES;
use crate::object::Deadline;
use crate::options::FlashOptions;

const DEVICE: &str = "/device";
const DEVICE_BYTES: u64 = 256 << 10;

fn options() -> Options {
    Options {
        dram_bytes: 1 << 20,
        flash: vec![FlashOptions { path: DEVICE.into(), bytes: DEVICE_BYTES }],
        object_bytes_max: 64 << 10,
        object_bytes_usual: 64 << 10,
        segment_bytes: Some(16 << 10),
        state: Some("/state".into()),
        ..Options::default()
    }
}

fn open(storage: &MemoryStorage) -> Cache {
    try_open(&options(), storage, 7).expect("it opens")
}

/// Opens a cache in that run of the machine.
fn try_open(options: &Options, storage: &MemoryStorage, boot: u128) -> Result<Cache> {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let around = Surroundings {
        storage,
        clock: Arc::new(ManualClock::new(1_700_000_000_000)) as Arc<dyn Clock>,
        random: Arc::new(SeededRandom::new(1)),
        boot,
        is_inline: true,
    };
    Cache::open(options, &around)
}

fn object(value: &[u8], deadline: Deadline, version: u64) -> Object {
    Object { value: Bytes::copy_from_slice(value), flags: 5, deadline, version, marks: 3 }
}

/// What is stored: one that stays, one that expires, one in parts, and one that is removed.
fn objects() -> [(&'static [u8], Object); 4] {
    let large: Vec<u8> = b"in parts, of 16 ".iter().copied().cycle().take(20_000).collect();
    [
        (b"stays", object(b"for good", Deadline::NEVER, 1)),
        (b"expires", object(b"for a while", Deadline::at(1_700_000_600), 2)),
        (b"large", object(&large, Deadline::NEVER, 3)),
        (b"removed", object(b"and gone", Deadline::NEVER, 4)),
    ]
}

/// The files of a cache that was closed once and killed after one of its objects was removed.
fn files() -> MemoryStorage {
    let storage = MemoryStorage::new();
    let cache = open(&storage);
    objects().into_iter().for_each(|(key, object)| cache.store(key, object));
    cache.get(b"stays");
    cache.close();
    drop(cache);
    open(&storage).remove(b"removed");
    storage
}

#[test]
fn released_devices_are_read_and_written() {
    let storage = files();
    let layout =
        Layout::of(DEVICE_BYTES, 64 << 10, Some(16 << 10), 40).expect("it is large enough");
    let mut dump =
        Dump::new("A flash device of 256 KiB and the state file beside it: see docs/format.md.");
    dump.file("device.meta");
    let meta = format!("{DEVICE}.meta");
    let meta = storage.read_file(meta).expect("the metadata is there");
    let end = layout.page_at(0, 0) as usize;
    let parts = [
        (layout.superblock_at(1) as usize, "superblock A"),
        (layout.invalidation_at(0) as usize, "superblock B"),
        (layout.versions_at() as usize, "invalidations"),
        (layout.table_at() as usize, "versions of pages"),
        (end, "segment table"),
    ];
    dump.parts(&meta, &parts);
    dump.file("device");
    let device = storage.read_file(DEVICE).expect("the device is there");
    let mut parts = vec![
        (MARK_BYTES as u64, "mark"),
        (layout.page_at(0, 0), "not used: the metadata is in a file of its own"),
        (layout.page_at(0, 1), "page, even versions"),
        (layout.segment_at(0), "page, odd versions"),
    ];
    parts.extend((1..=layout.slots).map(|slot| (layout.segment_at(slot), "slot")));
    parts.push((DEVICE_BYTES, "not used"));
    let parts: Vec<(usize, &str)> =
        parts.into_iter().map(|(end, name)| (end as usize, name)).collect();
    dump.parts(&device, &parts);
    dump.file("state");
    dump.part("two blocks", &storage.read_file("/state").expect("the state file is there"));
    let released = dump.hold_against("device");

    let old = MemoryStorage::new();
    for (name, bytes) in released {
        old.write_file(Path::new("/").join(name), &bytes);
    }
    let cache = open(&old);
    assert_eq!(cache.warm_devices(), 1);
    for (key, object) in objects() {
        let found = cache.get(key);
        match key {
            b"removed" => assert_eq!(found, None),
            _ => assert_eq!(found.map(|found| found.object), Some(object)),
        }
    }
}

/// The version of a page was misread once: it counted as nothing, was not written down as that, and
/// what the page had was there again after a kill, over what had been stored since.
#[test]
fn what_was_misread_once_does_not_come_back() {
    let storage = MemoryStorage::new();
    let cache = open(&storage);
    cache.store(b"key", object(b"old", Deadline::NEVER, 1));
    cache.close();
    drop(cache);
    let layout =
        Layout::of(DEVICE_BYTES, 64 << 10, Some(16 << 10), 40).expect("it is large enough");
    let log_bytes = layout.versions_at() - layout.invalidation_at(0);
    // Two superblocks, the mark, the log in pieces, then the versions.
    let reads_before = 3 + log_bytes.div_ceil(1 << 20);
    let flip = FaultRule::once(Operation::Read, Fault::FlipBit { byte: 8, bit: 0 });
    storage.add_fault(flip.on_path("device").after(reads_before));
    let cache = open(&storage);
    assert_eq!(storage.struck().len(), 1);
    assert_eq!((cache.warm_devices(), cache.get(b"key")), (1, None));
    cache.store(b"key", object(b"new", Deadline::NEVER, 2));
    drop(cache);
    let found = open(&storage).get(b"key").map(|found| found.object.version);
    assert_ne!(found, Some(1));
}

/// A device is two files, and somebody may put the one of another day beside the other.
#[test]
fn metadata_that_does_not_fit_its_device_brings_nothing_old_back() {
    let meta = format!("{DEVICE}.meta");
    let storage = MemoryStorage::new();
    let cache = open(&storage);
    cache.store(b"key", object(b"old", Deadline::NEVER, 1));
    cache.close();
    drop(cache);
    let old_data = storage.read_file(DEVICE).expect("the device is there");
    let old_meta = storage.read_file(&meta).expect("the metadata is there");
    let cache = open(&storage);
    assert!(cache.get(b"key").is_some());
    cache.store(b"key", object(b"new", Deadline::NEVER, 2));
    cache.close();
    drop(cache);

    let beside = |data: &[u8], meta_bytes: &[u8]| {
        let mixed = MemoryStorage::new();
        mixed.write_file(DEVICE, data);
        mixed.write_file(&meta, meta_bytes);
        let cache = open(&mixed);
        let version = cache.get(b"key").map(|found| found.object.version);
        (cache.warm_devices(), version)
    };
    let new_data = storage.read_file(DEVICE).expect("the device is there");
    let new_meta = storage.read_file(&meta).expect("the metadata is there");
    assert_eq!(beside(&new_data, &new_meta), (1, Some(2)), "what fits is there");
    assert_ne!(beside(&old_data, &new_meta).1, Some(1));
    assert_eq!(beside(&new_data, &old_meta), (0, None));
    assert_eq!(beside(&old_data, &old_meta), (1, Some(1)), "a copy of both is as it was");
    assert_eq!(beside(&new_data, &[]), (0, None));
}

/// A device that had been closed in order could not be read at the next start, and was left out. When
/// the machine had been started anew it said still that it was closed in order, was believed, and
/// what had been overwritten meanwhile was there again.
#[test]
fn what_was_left_out_at_a_start_is_not_believed_at_the_next() {
    let flash = |path: &str| FlashOptions { path: path.into(), bytes: DEVICE_BYTES };
    let of = |devices: &[&str]| Options {
        flash: devices.iter().map(|path| flash(path)).collect(),
        state: None,
        ..options()
    };
    let fails = |operation| FaultRule::always(operation, Fault::Fail(tidekv_io::ErrorKind::Failed));
    let keys = || (0..8_u32).map(|n| format!("key-{n}").into_bytes());
    for devices in [&["/a"][..], &["/a", "/b"]] {
        let (options, storage) = (of(devices), MemoryStorage::new());
        let cache = try_open(&options, &storage, 1).expect("it opens");
        keys().for_each(|key| cache.store(&key, object(b"old", Deadline::NEVER, 1)));
        cache.close();
        drop(cache);
        // Past its superblocks `a` cannot be read, and `b` cannot be written when that is told.
        storage.add_fault(fails(Operation::Read).on_path("/a.meta").after(2));
        storage.add_fault(fails(Operation::Write).on_path("/b.meta").after(1));
        match try_open(&options, &storage, 1) {
            Ok(cache) => {
                assert_eq!((devices.len(), cache.warm_devices()), (2, 1));
                keys().for_each(|key| cache.store(&key, object(b"new", Deadline::NEVER, 2)));
            }
            Err(error) => assert_eq!((devices.len(), error.kind()), (1, crate::ErrorKind::Storage)),
        }
        storage.clear_faults();
        let cache = try_open(&options, &storage, 2).expect("it opens");
        let found: Vec<_> = keys().filter_map(|key| cache.get(&key)).collect();
        assert_eq!((devices.len(), found), (devices.len(), vec![]));
    }
}
