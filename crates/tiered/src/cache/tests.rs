//! The bytes of a device as released: today's writes equal them, and today's code reads them.

use std::path::Path;

use bytes::Bytes;
use tidekv_io::{Fault, FaultRule, ManualClock, MemoryStorage, Operation, SeededRandom, Storage};

use super::*;
use crate::device::flash_device::Device;
use crate::entry::{Entry, RecordLocation};
use crate::index::locator::Code;
use crate::index::partition::DramLookup;
use crate::object::Deadline;
use crate::options::FlashOptions;
use crate::segment::layout::Layout;
use crate::segment::mark::MARK_BYTES;
use crate::segment::record::{Kind, Record};
use tidekv_testkit::golden::Dump;

const DEVICE: &str = "/device";
const DEVICE_BYTES: u64 = 256 << 10;

fn options() -> Options {
    Options {
        dram_bytes: 1 << 20,
        flash: vec![FlashOptions { path: DEVICE.into(), bytes: DEVICE_BYTES }],
        object_bytes_max: 64 << 10,
        avg_object_bytes: 64 << 10,
        segment_bytes: Some(16 << 10),
        state: Some("/state".into()),
        ..Options::default()
    }
}

fn open(storage: &MemoryStorage) -> Cache {
    try_open(&options(), storage, 7).expect("it opens")
}

/// Opens a cache in that boot of the machine.
fn try_open(options: &Options, storage: &MemoryStorage, boot: u128) -> Result<Cache> {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let environment = Environment {
        storage,
        clock: Arc::new(ManualClock::new(1_700_000_000_000)) as Arc<dyn Clock>,
        random: Arc::new(SeededRandom::new(1)),
        boot,
        is_inline: true,
    };
    Cache::open(options, &environment)
}

fn object(value: &[u8], deadline: Deadline, version: u64) -> Object {
    Object { value: Bytes::copy_from_slice(value), flags: 5, deadline, version, marks: 3 }
}

/// The stored objects: one stays, one expires, one is a record, one is in parts, and one is removed.
fn objects() -> [(&'static [u8], Object); 5] {
    let record = vec![b'r'; 1_000];
    let large: Vec<u8> = b"in parts, of 16 ".iter().copied().cycle().take(20_000).collect();
    [
        (b"stays", object(b"for good", Deadline::NEVER, 1)),
        (b"expires", object(b"for a while", Deadline::at(1_700_000_600), 2)),
        (b"record", object(&record, Deadline::NEVER, 5)),
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
    let mut dump = Dump::new(
        "A flash device of 256 KiB and the state file beside it: see docs/reference/format.md.",
    );
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
    read(dump.hold_against("device"));
}

/// Earlier builds wrote records in the order of their puts, and no record length into the segment
/// table.
#[test]
fn devices_with_records_in_the_order_of_puts_are_read() {
    read(tidekv_testkit::golden::released("device-in-order-of-puts"));
}

fn read(released: Vec<(String, Vec<u8>)>) {
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

/// The version of a page was misread once: it counted as none, that was not written down, and the
/// records of the page reappeared after a kill, over those stored since.
#[test]
fn misread_page_version_does_not_restore_old_records() {
    let storage = MemoryStorage::new();
    let cache = open(&storage);
    cache.store(b"key", object(&[b'o'; 1_000], Deadline::NEVER, 1));
    cache.close();
    drop(cache);
    let layout =
        Layout::of(DEVICE_BYTES, 64 << 10, Some(16 << 10), 40).expect("it is large enough");
    let log_bytes = layout.versions_at() - layout.invalidation_at(0);
    // Two superblocks, twice, the mark, the log in pieces, then the versions.
    let reads_before = 5 + log_bytes.div_ceil(1 << 20);
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

/// The entry of a segment of small objects was misread: it counted as free, and the objects came back
/// that it had tombstones for.
#[test]
fn misread_segment_entry_does_not_restore_removed_small_objects() {
    let storage = MemoryStorage::new();
    let cache = open(&storage);
    cache.store(b"key", object(b"old", Deadline::NEVER, 1));
    cache.close();
    drop(cache);
    let cache = open(&storage);
    cache.remove(b"key");
    cache.store(b"other", object(b"with a tombstone", Deadline::NEVER, 2));
    cache.close();
    drop(cache);
    let layout =
        Layout::of(DEVICE_BYTES, 64 << 10, Some(16 << 10), 40).expect("it is large enough");
    let log_bytes = layout.versions_at() - layout.invalidation_at(0);
    // Two superblocks, twice, the mark, the log in pieces, the versions, then the table.
    let reads_before = 6 + log_bytes.div_ceil(1 << 20);
    for slot in 0..layout.slots as usize {
        let storage = storage.after_power_loss(tidekv_io::Tear::KeepUnsynced);
        let byte = slot * crate::segment::layout::SLOT_BYTES + 30;
        let flip = FaultRule::once(Operation::Read, Fault::FlipBit { byte, bit: 0 });
        storage.add_fault(flip.on_path("device").after(reads_before));
        let cache = open(&storage);
        assert_eq!(storage.struck().len(), 1);
        assert_eq!((cache.warm_devices(), cache.get(b"key")), (1, None), "slot {slot}");
    }
}

/// What a log says from before the last checkpoint has been done: a segment has it as a tombstone, if
/// small objects were removed. Applied again it removed objects that it had not removed before, whose
/// keys could be stored again without a log entry, and then came back.
#[test]
fn logged_invalidation_of_a_record_removes_no_small_object_later() {
    let storage = MemoryStorage::new();
    let cache = open(&storage);
    cache.store(b"small", object(b"stays", Deadline::NEVER, 1));
    cache.close();
    drop(cache);
    let cache = open(&storage);
    let flash = cache.inner.pools[0].flash.as_ref().expect("there is one");
    let device = flash.device(0).expect("it is there");
    // A record whose key the index takes for that of the small object.
    let is_taken_for_it = |key: &Vec<u8>| {
        let tag = device.layout.name_of(xxh3_64(key)).tag();
        device.small.index.find(tag).next().is_some()
    };
    let mut keys = (0_u64..).map(|n| format!("record-{n}").into_bytes());
    let twin = keys.find(is_taken_for_it).expect("one in some ten thousand is");
    let hash = xxh3_64(&twin);
    for version in [2, 3] {
        let found = CachedObject {
            object: object(&[b'r'; 1_000], Deadline::NEVER, version),
            was_fetched: true,
            accessed_s: 0,
        };
        let record = Record { found, kind: Kind::Whole, home: 0, epoch: 1 };
        assert!(device.put(hash, &twin, &record, cache.now_s()).expect("it is written"));
    }
    assert!(device.log.lock().sequence_max > 0, "the second one is logged");
    drop(device);
    assert!(cache.get(b"small").is_some());
    cache.close();
    drop(cache);
    assert!(open(&storage).get(b"small").is_some());
}

/// A checkpoint, which follows a merge of records, must not pass the invalidation of a small object that
/// no segment has as a tombstone.
#[test]
fn log_keeps_invalidations_of_small_objects_until_they_are_tombstones() {
    let storage = MemoryStorage::new();
    let options = Options { index_bytes: Some(1_000), ..options() };
    let open = || try_open(&options, &storage, 7).expect("it opens");
    let cache = open();
    cache.store(b"key", object(b"old", Deadline::NEVER, 1));
    cache.close();
    drop(cache);
    let cache = open();
    cache.remove(b"key");
    let flash = cache.inner.pools[0].flash.as_ref().expect("there is one");
    let device = flash.device(0).expect("it is there");
    let removed_at = device.log.lock().sequence_max;
    for n in 0..60_u64 {
        let found = CachedObject {
            object: object(&[b'r'; 1_000], Deadline::NEVER, 2 + n),
            was_fetched: true,
            accessed_s: 0,
        };
        let record = Record { found, kind: Kind::Whole, home: 0, epoch: 1 };
        let key = format!("record-{n}").into_bytes();
        assert!(device.put(xxh3_64(&key), &key, &record, cache.now_s()).expect("it is written"));
        device.upkeep(&mut 0, cache.now_s()).expect("it works");
    }
    assert!(device.counters.merges.get() > 0, "and a checkpoint after each");
    assert!(device.replay_from.load(Ordering::Acquire) < removed_at);
    drop(device);
    drop(cache);
    assert_eq!(open().get(b"key"), None);
}

/// A device is two files, and an operator may combine files of different days.
#[test]
fn mismatched_metadata_restores_no_old_records() {
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

/// A device that had been closed cleanly could not be read at the next start, and was left out.
/// After a reboot it still claimed to be cleanly closed, was believed, and overwritten objects
/// reappeared.
#[test]
fn device_left_out_at_a_start_is_not_trusted_at_the_next() {
    let flash = |path: &str| FlashOptions { path: path.into(), bytes: DEVICE_BYTES };
    let of = |devices: &[&str]| Options {
        flash: devices.iter().map(|path| flash(path)).collect(),
        state: None,
        ..options()
    };
    let fails = |operation| FaultRule::always(operation, Fault::Fail(tidekv_io::ErrorKind::Failed));
    let keys = || (0..8_u32).map(|n| format!("key-{n}").into_bytes());
    // Past its superblocks `a` cannot be read; or it cannot be written. And `b` cannot be notified
    // either.
    let unread = || fails(Operation::Read).on_path("/a.meta").after(4);
    let unwritten = || fails(Operation::Write).on_path("/a.meta");
    let untold = || fails(Operation::Write).on_path("/b.meta").after(1);
    let both = &["/a", "/b"][..];
    for (devices, faults, opens) in [
        (&["/a"][..], vec![unread()], false),
        (both, vec![unread(), untold()], false),
        (both, vec![unread()], true),
        (both, vec![unwritten()], true),
    ] {
        let (options, storage) = (of(devices), MemoryStorage::new());
        let cache = try_open(&options, &storage, 1).expect("it opens");
        keys().for_each(|key| cache.store(&key, object(b"old", Deadline::NEVER, 1)));
        cache.close();
        drop(cache);
        faults.into_iter().for_each(|fault| storage.add_fault(fault));
        match try_open(&options, &storage, 1) {
            Ok(cache) => {
                assert_eq!((opens, cache.warm_devices()), (true, 1));
                keys().for_each(|key| cache.store(&key, object(b"new", Deadline::NEVER, 2)));
            }
            Err(error) => assert_eq!((opens, error.kind()), (false, crate::ErrorKind::Storage)),
        }
        storage.clear_faults();
        let storage = storage.after_power_loss(tidekv_io::Tear::DropUnsynced);
        let cache = try_open(&options, &storage, 2).expect("it opens");
        let found: Vec<_> = keys().filter_map(|key| cache.get(&key)).collect();
        assert_eq!((devices.len(), opens, found), (devices.len(), opens, vec![]));
    }
}

/// A record that replaces one on a page is two operations, its invalidation and itself. The
/// partition knew only of the second, so a checkpoint could cut the first off the log while the
/// page still had the record that it invalidates; when the new record's segment was lost, the old
/// one reappeared after a kill, whatever operations on the key had followed.
#[test]
fn log_keeps_invalidations_of_records_still_in_a_page() {
    let storage = MemoryStorage::new();
    let cache = open(&storage);
    cache.store(b"key", object(&[b'o'; 1_000], Deadline::NEVER, 1));
    cache.close();
    drop(cache);
    let cache = open(&storage);
    let flash = cache.inner.pools[0].flash.as_ref().expect("there is one");
    let device = flash.device(0).expect("it is there");
    let hash = xxh3_64(b"key");
    let found = CachedObject {
        object: object(b"new", Deadline::NEVER, 2),
        was_fetched: true,
        accessed_s: 0,
    };
    let record = Record { found, kind: Kind::Whole, home: 0, epoch: 1 };
    assert!(device.put(hash, b"key", &record, cache.now_s()).expect("it is written"));
    let oldest = device.partition(device.layout.name_of(hash)).lock().oldest();
    let logged = device.log.lock().sequence_max;
    assert!(oldest <= logged, "the log counts from {oldest} on, and has {logged} last");
}

/// A cache on one device with one partition, whose page has `records` records.
fn settled(storage: &MemoryStorage, records: u64) -> (Cache, Arc<Device>) {
    let cache = open(storage);
    let flash = cache.inner.pools[0].flash.as_ref().expect("there is one");
    let device = flash.device(0).expect("it is there");
    (0..records).for_each(|n| put(&device, n, 1 + n));
    device.settle_all(&mut 0, cache.now_s()).expect("it works");
    assert!(device.locations.is_on() && device.partitions.len() == 1);
    (cache, device)
}

fn put(device: &Device, n: u64, version: u64) {
    let found = CachedObject {
        object: object(&[b'r'; 1_000], Deadline::NEVER, version),
        was_fetched: true,
        accessed_s: 0,
    };
    let record = Record { found, kind: Kind::Whole, home: 0, epoch: 1 };
    let (hash, key) = (xxh3_64(&n.to_le_bytes()), n.to_le_bytes());
    assert!(device.put(hash, &key, &record, 0).expect("it is written"));
}

/// The locations that a key has with any code.
fn led_to(device: &Device, n: u64) -> Vec<RecordLocation> {
    let name = device.layout.name_of(xxh3_64(&n.to_le_bytes()));
    let codes = 0..=device.layout.slots * device.locations.choices().0;
    codes.filter_map(|code| device.locations.find(name, Code(code))).collect()
}

fn location(device: &Device, n: u64) -> Option<RecordLocation> {
    let name = device.layout.name_of(xxh3_64(&n.to_le_bytes()));
    let found = device.partitions[0].lock().find(name.fingerprint, &device.live_segments);
    let DramLookup::Page(code) = found else { return None };
    device.entry_of(name, code).and_then(Entry::location)
}

/// A locator returns an arbitrary code for a few absent keys, possibly that of an old record of the
/// same key.
#[test]
fn no_code_leads_to_a_removed_or_replaced_record() {
    let storage = MemoryStorage::new();
    let (cache, device) = settled(&storage, 40);
    let before: Vec<RecordLocation> = (0..40).filter_map(|n| location(&device, n)).collect();
    assert_eq!(before.len(), 40, "all have codes");
    assert!((0..40).all(|n| led_to(&device, n).contains(&before[n as usize])));
    (0..10_u64).for_each(|n| {
        _ = device.invalidate(xxh3_64(&n.to_le_bytes()), &n.to_le_bytes()).expect("it works");
    });
    (10..20).for_each(|n| put(&device, n, 100));
    device.settle_all(&mut 0, cache.now_s()).expect("it works");
    for n in 0..20 {
        assert!(!led_to(&device, n).contains(&before[n as usize]), "{n}");
        assert_eq!(location(&device, n).is_some(), n >= 10, "{n}");
    }
    assert!((20..40).all(|n| location(&device, n) == Some(before[n as usize])));
}

/// After a page is lost, its records must not be found, though no removal was recorded.
#[test]
fn no_code_leads_to_a_record_of_a_lost_page() {
    let storage = MemoryStorage::new();
    let (cache, device) = settled(&storage, 20);
    let before: Vec<RecordLocation> = (0..20).filter_map(|n| location(&device, n)).collect();
    put(&device, 30, 100);
    let flip = FaultRule::once(Operation::Read, Fault::FlipBit { byte: 5_000, bit: 0 });
    storage.add_fault(flip.on_path(DEVICE));
    device.settle_all(&mut 0, cache.now_s()).expect("it works");
    assert_eq!((storage.struck().len(), device.counters.lost_pages.get()), (1, 1));
    for n in 0..20 {
        assert!(!led_to(&device, n).contains(&before[n as usize]), "{n}");
        assert_eq!(cache.get(&n.to_le_bytes()), None);
    }
    assert!(cache.get(&30_u64.to_le_bytes()).is_some());
}

/// Codes that exceed a lower limit were kept as long as codes stayed on.
#[test]
fn codes_go_that_take_more_than_their_memory() {
    let storage = MemoryStorage::new();
    let (_cache, device) = settled(&storage, 40);
    device.divide_index_memory();
    assert!(device.partitions[0].lock().has_codes());
    device.locations.count(0, 1 << 20);
    device.divide_index_memory();
    assert!(device.locations.is_on() && !device.partitions[0].lock().has_codes());
}
