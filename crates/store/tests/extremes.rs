//! Files with valid checksums and absurd numbers, which no sound store writes: the result is an
//! error that names the file, never a panic.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use support::{DIRECTORY, Limits, START_MS, TINY, options};
use tidekv::{Db, WriteBatch, fuzzing};
use tidekv_io::{ManualClock, MemoryStorage, Tear};

fn open(disk: &MemoryStorage) -> tidekv::Result<Db> {
    Db::open(DIRECTORY, options(disk, &Arc::new(ManualClock::new(START_MS)), TINY))
}

/// A store with a write in its log, and its file whose name starts or ends with `part`.
fn killed(part: &str) -> (MemoryStorage, PathBuf, u64) {
    let disk = MemoryStorage::new();
    let db = open(&disk).unwrap();
    db.keyspace("k").unwrap().put("a", "b").unwrap();
    let killed = disk.after_power_loss(Tear::KeepUnsynced);
    let path = killed.paths().into_iter().find(|p| p.to_string_lossy().contains(part)).unwrap();
    let digits: String = path.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    (killed, path, digits.parse().unwrap())
}

/// Frames of `records`, kinds included.
fn log_of(records: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut file = Vec::new();
    for record in records {
        file.extend_from_slice(&[0; 4]);
        file.extend_from_slice(&(record.len() as u32).to_le_bytes());
        file.extend_from_slice(&[0; 8]);
        file.extend_from_slice(record);
    }
    fuzzing::fix_log_checksums(&mut file, number);
    file
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// The error of the store once `path` holds `bytes`; it may also open, and then accept writes.
fn outcome(disk: &MemoryStorage, path: &Path, bytes: &[u8]) -> Result<(), String> {
    disk.write_file(path, bytes);
    let use_it = || -> tidekv::Result<()> {
        let db = open(disk)?;
        db.keyspace("k")?.put("c", "d")?;
        db.flush()?;
        db.keyspace("new")?.put("c", "d")?;
        db.compact()?;
        db.close()?;
        open(disk)?.keyspace("new")?.get("c").map(drop)
    };
    use_it().map_err(|error| error.to_string())
}

const SEQUENCES: [u64; 4] = [u64::MAX, u64::MAX - 1, 1 << 56, (1 << 56) - 1];

/// The sequences of a record count up from its first: beyond the maximum they wrapped around, and
/// with overflow checks the program ended.
#[test]
fn record_at_the_maximum_sequence_is_an_error() {
    for first in SEQUENCES {
        let (disk, path, number) = killed(".log");
        let operations = [&[1, 1, 1][..], b"x", &[1], b"y"].concat();
        let record = [&[1][..], &varint(first), &operations, &operations, &operations].concat();
        let error = outcome(&disk, &path, &log_of(&[record], number)).unwrap_err();
        assert!(error.contains(".log") && error.contains("sequence"), "{first}: {error}");
    }
}

/// Files and sequences are numbered from the manifest's numbers on.
#[test]
fn manifest_at_the_maximum_numbers_is_an_error() {
    const NEXT_FILE: u8 = 2;
    const LAST_SEQUENCE: u8 = 3;
    const MIN_LOG: u8 = 4;
    for tag in [NEXT_FILE, LAST_SEQUENCE, MIN_LOG] {
        for number in SEQUENCES {
            let (disk, path, file) = killed("MANIFEST-");
            let body = varint(number);
            let edit = [&[2, tag, body.len() as u8][..], &body].concat();
            let mut sound = disk.read_file(&path).unwrap();
            // Space that is allocated for later edits.
            let end = sound.iter().rposition(|&byte| byte != 0).unwrap() + 1;
            sound.truncate(end);
            let bytes = [&sound[..], &log_of(&[edit], file)].concat();
            let error = outcome(&disk, &path, &bytes).unwrap_err();
            let names_it = error.contains("MANIFEST-") || tag == MIN_LOG && error.contains(".log");
            assert!(names_it, "tag {tag}, {number}: {error}");
        }
    }
}

/// A file whose name only looks like ours, with the largest number.
#[test]
fn file_with_the_maximum_number_is_foreign() {
    let (disk, _, _) = killed(".log");
    disk.write_file("/data/18446744073709551615.table", b"a stranger's");
    let db = open(&disk).unwrap();
    assert_eq!(db.keyspace("k").unwrap().get("a").unwrap().as_deref(), Some(&b"b"[..]));
    db.flush().unwrap();
    assert!(disk.read_file("/data/18446744073709551615.table").is_some());
}

/// Each of them used to be written once for every later one: some hundreds of megabytes here, and
/// gigabytes for twice as many.
#[test]
fn nested_range_deletions_are_written_once() {
    let disk = MemoryStorage::new();
    let roomy = Limits { memtable_bytes: 1 << 20, table_bytes: 1 << 20 };
    let clock = Arc::new(ManualClock::new(START_MS));
    let db = Db::open(DIRECTORY, options(&disk, &clock, roomy)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for key in [5u32, 1500, 2500, 3500] {
        keyspace.put(key.to_be_bytes(), "kept?").unwrap();
    }
    let (mut one_batch, mut seen) = (WriteBatch::new(), None);
    for end in 1..=3000u32 {
        match end {
            995 => keyspace.put(997u32.to_be_bytes(), "soon gone").unwrap(),
            ..1000 => keyspace.delete_range(b"", end.to_be_bytes()).unwrap(),
            1000 => seen = Some(db.snapshot()),
            _ => one_batch.delete_range(&keyspace, b"", end.to_be_bytes()),
        }
    }
    db.write(one_batch).unwrap();
    db.flush().unwrap();
    let table_bytes: usize = disk
        .paths()
        .iter()
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "table"))
        .map(|path| disk.read_file(path).unwrap().len())
        .sum();
    assert!(table_bytes < 3000 * 100, "{table_bytes} bytes");
    assert!(db.statistics().counter("flush.count") > 1, "tombstones fill a memtable too");
    let seen = seen.unwrap();
    let found = |key: u32| {
        let key = key.to_be_bytes();
        (keyspace.contains(key).unwrap(), seen.get(&keyspace, key).unwrap().is_some())
    };
    assert_eq!(
        [5, 997, 1500, 2500, 3500].map(found),
        [(false, false), (false, false), (false, true), (false, true), (true, true)]
    );
}
