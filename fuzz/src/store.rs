//! Targets of the store's formats. Each takes arbitrary bytes; decoders must return an error or
//! correct data, without panic and without excessive memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tidekv::fuzzing::{self, DeletedRange, Entry, TABLE, TableFile};
use tidekv::{CachePolicy, Compression, Db, Environment, KeyspaceOptions, Options, WriteBatch};
use tidekv_io::{InlineExecutor, ManualClock, MemoryStorage, SeededRandom, Tear};

use crate::input::Input;
use tidekv_testkit::allocation::bounded;

/// Name and function of each target.
pub const TARGETS: &[crate::corpus::Target] = &[
    ("table", table),
    ("table_parts", table_parts),
    ("block", block),
    ("entries", entries),
    ("log", log),
    ("log_recycled", log_recycled),
    ("manifest", manifest),
    ("edit", edit),
    ("batch", batch),
    ("recovery", recovery),
    ("hot_list", hot_list),
    ("repair_list", repair_list),
];

/// Fixed memory of any test in addition to its input: caches, buffers, pieces.
const FIXED_BYTES: usize = 2 << 20;

/// The maximum expansion of a compressed byte (Zstandard's runs).
const RATIO_MAX: usize = 32 << 10;

/// A table: a byte that selects whether checksums are recomputed, then the file.
pub fn table(data: &[u8]) {
    let Some((&flags, file)) = data.split_first() else { return };
    let mut file = file.to_vec();
    if flags & 1 == 0 {
        fuzzing::fix_table_checksums(&mut file, TABLE);
    }
    // Blocks may be compressed: content, a copy in the cache, one in the cursor.
    let bytes_max = FIXED_BYTES + 4 * RATIO_MAX * file.len();
    let Ok(table) = bounded(bytes_max, || TableFile::open(&file)) else { return };
    let walk = |forward| bounded(bytes_max, || table.walk(forward, 256 << 10));
    let (forward, backward) = (walk(true), walk(false));
    let damage = bounded(bytes_max, || table.damage());
    let _ = bounded(bytes_max, || table.describe());
    let _ = bounded(bytes_max, || table.get(b"key", 9));
    if damage.is_empty() {
        let mut backward = backward.expect("a sound table is read");
        let forward = forward.expect("a sound table is read");
        backward.reverse();
        let is_whole = forward.len() < 1000 && backward.len() < 1000;
        assert!(!is_whole || forward == backward, "both directions agree");
        for (key, sequence, kind, payload) in forward.iter().take(50) {
            let found = table.get(key, *sequence).expect("a sound table is read");
            assert_eq!(found.as_ref(), Some(&(*sequence, *kind, payload.clone())));
        }
    }
}

/// Properties, range tombstones, handles; and the same bytes as a filter.
pub fn table_parts(data: &[u8]) {
    bounded(FIXED_BYTES + 64 * data.len(), || {
        assert!(fuzzing::decode_table_parts(data), "all that decodes round-trips");
        let hash = data.first_chunk().map_or(7, |bytes| u64::from_le_bytes(*bytes));
        fuzzing::passes_filter(data, hash);
    });
    let hashes: Vec<u64> =
        data.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
    let bits = 1 + data.first().copied().unwrap_or(9) % 40;
    for kind in [0, 1] {
        let filter = fuzzing::build_filter(kind, bits, &hashes);
        let passes = |&hash| fuzzing::passes_filter(&filter, hash);
        assert!(hashes.iter().all(passes), "no key is hidden");
    }
}

/// A block: a byte for the kind of envelope, then its content, or its envelope as on disk.
pub fn block(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    if kind % 4 == 3 {
        let mut sealed = bytes.to_vec();
        bounded(FIXED_BYTES + 2 * RATIO_MAX * bytes.len(), || fuzzing::open_envelope(&mut sealed));
    } else {
        bounded(FIXED_BYTES + 16 * bytes.len(), || fuzzing::open_block(bytes, kind));
    }
}

/// A program of entries that are written to a table and read back.
pub fn entries(data: &[u8]) {
    let mut input = Input(data);
    let (compression, filter) = (input.u8(), input.u8());
    let filter = (filter / 128, filter % 20);
    let block_bytes = 64 + u32::from(input.u16() % 8192);
    let mut sorted: BTreeMap<(Vec<u8>, u64), (u8, Vec<u8>)> = BTreeMap::new();
    let mut tombstones: Vec<DeletedRange> = Vec::new();
    while !input.is_empty() {
        let kind = input.u8();
        let sequence = u64::from(input.u8());
        let key = input.bytes(24).to_vec();
        if kind % 8 == 7 {
            tombstones.push((key, input.bytes(24).to_vec(), sequence));
            continue;
        }
        let payload = match kind % 3 {
            0 => Vec::new(),
            1 => input.bytes(200).repeat(1 + usize::from(kind) / 16),
            _ => [&[kind; 8], input.bytes(60)].concat(),
        };
        // Newer versions of a key sort first.
        sorted.insert((key, u64::MAX - sequence), (kind % 3, payload));
    }
    let entries: Vec<Entry> = sorted
        .into_iter()
        .map(|((key, order), (kind, payload))| (key, u64::MAX - order, kind, payload))
        .collect();
    let file = fuzzing::build_table(&entries, &tombstones, compression, block_bytes, filter)
        .expect("memory takes it");
    let table = TableFile::open(&file).expect("a table that was just built opens");
    assert_eq!(table.damage(), Vec::<String>::new());
    assert!(table.walk(true, usize::MAX).unwrap() == entries);
    let mut backward = table.walk(false, usize::MAX).unwrap();
    backward.reverse();
    assert!(backward == entries);
    for (key, sequence, kind, payload) in &entries {
        let found = table.get(key, *sequence).unwrap();
        assert_eq!(found, Some((*sequence, *kind, payload.clone())));
        let covering = tombstones.iter().filter(|(start, end, _)| start <= key && key < end);
        let newest = covering.map(|(_, _, sequence)| *sequence).max().unwrap_or(0);
        assert_eq!(table.tombstone_over(key), newest);
    }
}

/// A log: a byte that selects whether checksums are recomputed, then the file.
pub fn log(data: &[u8]) {
    let Some((&flags, file)) = data.split_first() else { return };
    let mut file = file.to_vec();
    if flags & 1 == 0 {
        fuzzing::fix_log_checksums(&mut file, 7);
    }
    let read = bounded(FIXED_BYTES + 8 * file.len(), || fuzzing::read_log(&file, 7));
    if let Ok((records, _)) = read {
        let bytes: usize = records.iter().map(|record| record.len() + 17).sum();
        assert!(bytes <= file.len(), "records hold no more than their frames");
    }
}

/// A program of two logs, the second in the file of the first, and of damage: the records read back
/// are a prefix of those written last.
pub fn log_recycled(data: &[u8]) {
    let mut input = Input(data);
    let mut records = || -> Vec<(Vec<u8>, bool)> {
        let count = input.u8() % 12;
        (0..count).map(|_| (input.bytes(80).to_vec(), input.u8() % 4 == 0)).collect()
    };
    let (old, new) = (records(), records());
    let allocated = vec![0; usize::from(input.u8()) * 8];
    let flags = input.u8();
    let successor = |flag| (flags & flag != 0).then_some(9);
    let file = fuzzing::write_log(&allocated, 7, &old, successor(1)).unwrap();
    let mut file = fuzzing::write_log(&file, 8, &new, successor(2)).unwrap();
    let written: Vec<&[u8]> = new.iter().map(|(record, _)| &record[..]).collect();
    let (found, next) = fuzzing::read_log(&file, 8).expect("it is sound");
    assert_eq!((found, next), (written.iter().map(|r| r.to_vec()).collect(), successor(2)));
    let mut is_changed = false;
    while !input.is_empty() && !file.is_empty() {
        let (at, change) = (usize::from(input.u16()) % file.len(), input.u8());
        file[at] ^= change;
        is_changed |= change != 0;
    }
    if let Ok((found, next)) = fuzzing::read_log(&file, 8) {
        assert!(found.len() <= written.len() && found.iter().zip(&written).all(|(f, w)| f == w));
        assert!(next.is_none() || next == successor(2));
        assert!(is_changed || found.len() == written.len());
    }
}

/// A manifest, with the same input as a log.
pub fn manifest(data: &[u8]) {
    let Some((&flags, file)) = data.split_first() else { return };
    let mut file = file.to_vec();
    if flags & 1 == 0 {
        fuzzing::fix_log_checksums(&mut file, 7);
    }
    let _ = bounded(FIXED_BYTES + 200 * file.len(), || fuzzing::read_manifest(&file, 7));
}

/// An edit of the manifest without its kind.
pub fn edit(data: &[u8]) {
    let record = [&[2], data].concat();
    let again = bounded(FIXED_BYTES + 100 * data.len(), || fuzzing::decode_edit(&record));
    if let Some(again) = again {
        assert_eq!(fuzzing::decode_edit(&again).as_ref(), Some(&again));
    }
}

/// A record of writes without its kind.
pub fn batch(data: &[u8]) {
    let record = [&[1], data].concat();
    let again = bounded(FIXED_BYTES + 4 * data.len(), || fuzzing::decode_writes(&record));
    if let Some(again) = again {
        assert_eq!(fuzzing::decode_writes(&again.1).as_ref(), Some(&again));
    }
}

// ---- Whole stores ----

const DIRECTORY: &str = "/data";

fn open(disk: &MemoryStorage) -> tidekv::Result<Db> {
    open_with(disk, |_| {})
}

fn open_with(disk: &MemoryStorage, adjust: impl FnOnce(&mut Options)) -> tidekv::Result<Db> {
    let environment = Environment::default()
        .storage(Arc::new(disk.clone()))
        .clock(Arc::new(ManualClock::new(1_000_000)))
        .random(Arc::new(SeededRandom::new(1)))
        .executor(Arc::new(InlineExecutor::new()));
    let mut options = Options::default()
        .memory_bytes(8 << 20)
        .memtable_bytes(8 << 10)
        .table_bytes(4 << 10)
        .environment(environment);
    adjust(&mut options);
    Db::open(DIRECTORY, options)
}

/// The files of a small store as a killed process leaves them.
pub fn store_files() -> &'static [(PathBuf, Vec<u8>)] {
    static FILES: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = MemoryStorage::new();
        let db = open(&disk).unwrap();
        let plain = KeyspaceOptions::default().compression(Compression::None);
        let plain = plain.compression_last(Compression::None);
        let keyspace = db.keyspace_with("tides", plain).unwrap();
        let other = db.keyspace("winds").unwrap();
        for key in ["high", "low", "neap", "spring"] {
            keyspace.put(key, [b'~'; 20]).unwrap();
        }
        other.put("north", [b'c'; 300]).unwrap();
        db.compact().unwrap();
        keyspace.ingest([("moon", "full")]).unwrap();
        keyspace.delete_range("m", "n").unwrap();
        keyspace.delete("low").unwrap();
        db.flush().unwrap();
        let mut batch = WriteBatch::new();
        batch.put_until(&keyspace, b"slack", b"calm", 2_000_000);
        batch.put(&other, b"west", b"wet");
        batch.delete_range(&other, b"n", b"o");
        db.write(batch).unwrap();
        db.sync().unwrap();
        keyspace.put("ebb", "now").unwrap();
        let killed = disk.after_power_loss(Tear::KeepUnsynced);
        // Zeros after the last frame only add work.
        let cut = |bytes: Vec<u8>| {
            let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 33);
            bytes[..len.min(bytes.len())].to_vec()
        };
        let read = |path: PathBuf| {
            let bytes = killed.read_file(&path).unwrap();
            let is_log = path.extension().is_some_and(|extension| extension == "log");
            (path, if is_log { cut(bytes) } else { bytes })
        };
        killed.paths().into_iter().map(read).collect()
    })
}

/// The number in the name of a file.
fn number_of(path: &Path) -> u64 {
    let name = path.file_name().unwrap().to_string_lossy();
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// A store in which one file is replaced: a byte that selects the file and whether its checksums
/// are recomputed, then the file. Opening, reading, writing and opening again return errors or
/// succeed.
pub fn recovery(data: &[u8]) {
    let Some((&flags, file)) = data.split_first() else { return };
    let mut file = file.to_vec();
    let files = store_files();
    let (replaced, _) = &files[usize::from(flags >> 1) % files.len()];
    let name = replaced.to_string_lossy();
    if flags & 1 == 0 {
        if name.ends_with(".table") {
            fuzzing::fix_table_checksums(&mut file, number_of(replaced));
        } else {
            fuzzing::fix_log_checksums(&mut file, number_of(replaced));
        }
    }
    let disk = MemoryStorage::new();
    for (path, bytes) in files {
        disk.write_file(path, if path == replaced { &file } else { bytes });
    }
    // If index, filter or bounds contradict entries and all checksums agree, the damage cannot be
    // detected. Logs contain nothing contradictory.
    let is_consistent = flags & 1 != 0 || name.ends_with(".log");
    let bytes_max = (64 << 20) + 4 * RATIO_MAX * file.len();
    bounded(bytes_max, || {
        if let Ok(db) = open(&disk) {
            expect_no_panic(use_store(&db, is_consistent));
            expect_no_panic(db.close());
            drop(db);
            expect_no_panic(open(&disk).and_then(|db| use_store(&db, is_consistent)));
        }
    });
}

/// A store that caches values and pointers as well.
fn open_warm(disk: &MemoryStorage, cache_bytes: u64) -> tidekv::Result<Db> {
    open_with(disk, |options| {
        options.cache_policy = CachePolicy::Fixed { kv: 30, kp: 30 };
        options.research().cache_bytes_max = cache_bytes;
        (options.memtable_bytes, options.table_bytes) = (Some(1 << 20), 64 << 10);
    })
}

/// The files of a store that was closed while some of its keys were hot.
fn closed_store() -> &'static [(PathBuf, Vec<u8>)] {
    static FILES: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = MemoryStorage::new();
        // Smaller than the data, so that not only blocks are worth caching.
        let db = open_warm(&disk, 64 << 10).unwrap();
        let plain = KeyspaceOptions::default().compression(Compression::None);
        let plain = plain.compression_last(Compression::None);
        let keyspace = db.keyspace_with("tides", plain).unwrap();
        for n in 0..1000 {
            keyspace.put(format!("tide-{n:04}"), [n as u8; 90]).unwrap();
        }
        db.compact().unwrap();
        for n in (0..5).flat_map(|_| (0..1000).step_by(20)) {
            assert!(keyspace.get(format!("tide-{n:04}")).unwrap().is_some());
        }
        db.close().unwrap();
        disk.paths().into_iter().map(|path| (path.clone(), disk.read_file(path).unwrap())).collect()
    })
}

fn is_hot_list(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "HOT")
}

/// The list of hot entries: a byte that selects whether the checksum is recomputed, whether a store
/// with the list is opened, and whether without its pointers; then the list. Pointers are trusted;
/// with any other contents, results are correct.
pub fn hot_list(data: &[u8]) {
    let Some((&flags, list)) = data.split_first() else { return };
    let mut list = list.to_vec();
    if flags & 1 == 0 {
        fuzzing::fix_hot_list_checksum(&mut list);
    }
    let again = bounded(FIXED_BYTES + 100 * list.len(), || fuzzing::decode_hot_list(&list));
    let is_list = again.is_some();
    if let Some([again, without_pointers]) = again {
        let same = fuzzing::decode_hot_list(&again).map(|[same, _]| same);
        assert_eq!(same.as_ref(), Some(&again));
        list = if flags & 4 == 0 { again } else { without_pointers };
    }
    if flags & 2 == 0 {
        return;
    }
    let disk = MemoryStorage::new();
    for (path, bytes) in closed_store() {
        disk.write_file(path, if is_hot_list(path) { &list } else { bytes });
    }
    bounded((16 << 20) + 100 * list.len(), || {
        let db = open_warm(&disk, 1 << 20).expect("a list is optional");
        let used = use_store(&db, !is_list || flags & 4 != 0);
        expect_no_panic(used.and_then(|()| db.close()));
    });
}

/// The list of filter repairs: a byte that selects whether the checksum is recomputed, then the
/// list.
pub fn repair_list(data: &[u8]) {
    let Some((&flags, list)) = data.split_first() else { return };
    let mut list = list.to_vec();
    if flags & 1 == 0 {
        fuzzing::fix_repair_list_checksum(&mut list);
    }
    let again = bounded(FIXED_BYTES + 20 * list.len(), || fuzzing::decode_repair_list(&list));
    if let Some(again) = again {
        assert_eq!(fuzzing::decode_repair_list(&again).as_ref(), Some(&again));
    }
}

/// A panic in background work is returned as an error: damage must not cause any.
fn expect_no_panic(outcome: tidekv::Result<()>) {
    if let Err(error) = outcome {
        assert!(!error.to_string().contains("panicked"), "{error}");
    }
}

fn use_store(db: &Db, is_consistent: bool) -> tidekv::Result<()> {
    for name in db.keyspace_names().into_iter().take(4) {
        let keyspace = db.keyspace(&name)?;
        for item in keyspace.iter().take(200) {
            let (key, entry) = item?;
            let found = keyspace.get(&key)?;
            assert!(!is_consistent || found == Some(entry.value), "a walk and a get agree");
        }
        keyspace.iter().rev().take(200).try_for_each(|item| item.map(drop))?;
        keyspace.put("written", "again")?;
    }
    db.flush()?;
    db.compact()
}

/// Real output of the store, for each target.
pub fn seeds() -> Vec<(crate::corpus::Target, Vec<u8>)> {
    let target = |name: &str| *TARGETS.iter().find(|target| target.0 == name).unwrap();
    let mut seeds = Vec::new();
    let mut add =
        |name, head: &[u8], bytes: &[u8]| seeds.push((target(name), [head, bytes].concat()));
    for (index, (path, bytes)) in store_files().iter().enumerate() {
        let name = path.to_string_lossy();
        add("recovery", &[2 * index as u8], bytes);
        match () {
            () if name.contains("MANIFEST") => {
                add("manifest", &[0], bytes);
                // Its first frame is a snapshot; the edit begins after its kind.
                let len = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
                add("edit", &[], &bytes[17..16 + len]);
            }
            () if name.ends_with(".log") => {
                add("log", &[0], bytes);
                let len = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
                add("batch", &[], &bytes[17..16 + len]);
            }
            () => {}
        }
    }
    let entries: Vec<Entry> = (0..60u64)
        .map(|n| {
            let payload =
                if n % 3 == 2 { vec![n as u8; 12] } else { vec![b'~'; 8 * (n % 3) as usize] };
            (format!("tide/{:02}", n / 2).into(), 100 - n, (n % 3) as u8, payload)
        })
        .collect();
    let stretch = (b"surf".to_vec(), b"tide/03".to_vec(), 70);
    for (compression, block_bytes, filter) in [
        (0, 256, (0, 10)),
        (0, 4096, (0, 0)),
        (1, 512, (0, 10)),
        (2, 1024, (0, 4)),
        (0, 512, (1, 10)),
    ] {
        let some = &entries[..if block_bytes == 256 { 60 } else { 24 }];
        let file = fuzzing::build_table(
            some,
            std::slice::from_ref(&stretch),
            compression,
            block_bytes,
            filter,
        )
        .unwrap();
        add("table", &[0], &file);
        add("table", &[1], &file);
        // Its first block, with its envelope and as content.
        let end = file.len().min(256);
        add("block", &[3], &file[..end]);
        add("block", &[compression], &file[..end - 5]);
    }
    for kind in [0, 1] {
        let filter = fuzzing::build_filter(kind, 10, &[1 << 40, 2 << 50, 3 << 60]);
        add("table_parts", &[], &filter);
    }
    let program: Vec<u8> = (0..=255u8).map(|n| n.wrapping_mul(37)).collect();
    add("entries", &[], &program);
    add("log_recycled", &[], &program);
    let (_, list) = closed_store().iter().find(|(path, _)| is_hot_list(path)).unwrap();
    let [again, without_pointers] = fuzzing::decode_hot_list(list).expect("it was just written");
    assert!(without_pointers.len() > 100 && again.len() > without_pointers.len() + 100);
    [0, 2, 3, 6].iter().for_each(|&flags| add("hot_list", &[flags], list));
    // Of two tables: number, length, contents, partitions with repairs.
    let one = [&[9, 5][..], &[7; 8], &[1, 0, 2, 3, 1, 2, 3, 4, 5, 1, 1, 2, 3, 4, 6]].concat();
    let other = [&[12, 5][..], &[8; 8], &[1, 6, 1, 0x80, 0x80, 1, 9, 9, 9, 9, 0]].concat();
    for tables in [&[][..], &[&one[..]], &[&one, &other]] {
        let body = [&[0; 16][..], &[77; 8], &[tables.len() as u8], &tables.concat()].concat();
        let mut sealed = body.clone();
        fuzzing::fix_repair_list_checksum(&mut sealed);
        assert!(fuzzing::decode_repair_list(&sealed).is_some());
        add("repair_list", &[0], &body);
        add("repair_list", &[1], &sealed);
    }
    seeds
}
