//! Golden bytes of logs: a fresh file, and one that had an earlier life; and what
//! the disk is asked for meanwhile.

use std::path::Path;
use std::sync::Arc;

use tidekv_io::{Access, File, MemoryStorage, Storage};

use super::format::{Header, RECORD_END, RECORD_MARK, RECORD_WRITES};
use super::*;
use crate::golden::Dump;
use crate::sync::Mutex;

const PATH: &str = "/000007.log";

/// What is under test is the frame; these are payloads of the kind "writes".
const RECORDS: [&[u8]; 3] = [b"spring", b"neap, and what follows it", b"slack"];

fn write(writer: &mut LogWriter, payload: &[u8]) {
    let fill = |out: &mut Vec<u8>| {
        out.push(RECORD_WRITES);
        out.extend_from_slice(payload);
    };
    writer.append(fill).unwrap();
}

fn file(disk: &MemoryStorage) -> Arc<dyn File> {
    disk.open(Path::new(PATH), Access::Buffered).unwrap()
}

/// Three records, the first two synced before the third, a mark, an end.
fn fresh(disk: &MemoryStorage) {
    let file = disk.create(Path::new(PATH), Access::Buffered).unwrap();
    file.allocate(192).unwrap();
    let mut writer = LogWriter::new(file, 7);
    write(&mut writer, RECORDS[0]);
    write(&mut writer, RECORDS[1]);
    writer.sync().unwrap();
    writer.mark().unwrap();
    write(&mut writer, RECORDS[2]);
    writer.finish(9).unwrap();
}

/// Adds the frames of `bytes`, and `rest` behind the last that is intact.
fn add_frames(dump: &mut Dump, bytes: &[u8], number: u64, rest: &str) {
    let mut at = 0;
    let header_at = |at: usize| Header::decode(&bytes[at..], at as u64, bytes.len() as u64);
    while let Some(header) = header_at(at) {
        let frame = &bytes[at..at + format::HEADER_BYTES + header.payload_len as usize];
        if !format::is_intact(frame, number, header) {
            break;
        }
        let kind = match frame[format::HEADER_BYTES] {
            RECORD_END => "end, the next log is 9",
            RECORD_MARK => "mark",
            _ => "record",
        };
        dump.part(&format!("Frame, {kind}, {} bytes were synced", header.synced), frame);
        at += frame.len();
    }
    dump.part(rest, &bytes[at..]);
}

fn read(bytes: &[u8], number: u64) -> (Vec<Vec<u8>>, Ending) {
    let disk = MemoryStorage::new();
    disk.write_file(PATH, bytes);
    let mut reader = LogReader::new(file(&disk), number).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        assert_eq!(record[0], RECORD_WRITES);
        records.push(record[1..].to_vec());
    }
    (records, reader.ending())
}

#[test]
fn a_fresh_log_has_the_released_bytes_and_they_are_still_read() {
    let disk = MemoryStorage::new();
    fresh(&disk);
    let mut dump = Dump::new("Log 7, ended. See crates/store/src/log/format.rs.");
    add_frames(&mut dump, &disk.read_file(PATH).unwrap(), 7, "Allocated, not written");
    let released = dump.hold_against("log");
    let (records, ending) = read(&released[0].1, 7);
    assert_eq!(records, RECORDS);
    assert_eq!(ending, Ending::Complete { successor: 9 });
}

#[test]
fn a_recycled_log_has_the_released_bytes_and_they_are_still_read() {
    let disk = MemoryStorage::new();
    fresh(&disk);
    let mut writer = LogWriter::new(file(&disk), 9);
    write(&mut writer, b"ebb");
    let mut dump = Dump::new(
        "Log 9 in the file that was log 7, not ended. See crates/store/src/log/format.rs.",
    );
    add_frames(&mut dump, &disk.read_file(PATH).unwrap(), 9, "What is left of log 7");
    let released = dump.hold_against("log-recycled");
    let (records, ending) = read(&released[0].1, 9);
    assert_eq!(records, [b"ebb"]);
    assert!(matches!(ending, Ending::Cut { .. }));
}

/// Hands everything on and remembers which ranges were to be written back, and how
/// many bytes were read.
#[derive(Debug)]
struct Asked {
    file: Arc<dyn File>,
    ranges: Mutex<Vec<(u64, u64)>>,
    read_bytes: Mutex<u64>,
    /// From this offset on the disk is broken.
    fails_from: u64,
}

impl Asked {
    fn new(file: Arc<dyn File>, fails_from: u64) -> Self {
        Self { file, ranges: Mutex::default(), read_bytes: Mutex::default(), fails_from }
    }
}

impl File for Asked {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> tidekv_io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> tidekv_io::Result<tidekv_io::Buffer> {
        *self.read_bytes.lock() += len as u64;
        self.file.read_at(offset, len)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> tidekv_io::Result<()> {
        self.file.write_at(offset, data)
    }

    fn sync(&self) -> tidekv_io::Result<()> {
        self.file.sync()
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> tidekv_io::Result<()> {
        self.ranges.lock().push((offset, bytes));
        match offset < self.fails_from {
            true => Ok(()),
            false => Err(tidekv_io::Error::new(
                tidekv_io::ErrorKind::Failed,
                tidekv_io::Operation::Sync,
                self.path(),
            )),
        }
    }

    fn allocate(&self, bytes: u64) -> tidekv_io::Result<()> {
        self.file.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> tidekv_io::Result<()> {
        self.file.truncate(bytes)
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn the_disk_is_kept_busy_behind_a_long_log() {
    let disk = MemoryStorage::new();
    let file = disk.create(Path::new(PATH), Access::Buffered).unwrap();
    let asked = Arc::new(Asked::new(file, u64::MAX));
    let mut writer = LogWriter::new(asked.clone(), 7);
    let payload = vec![7; 10_000];
    let mut left_max = 0;
    while writer.offset() < 5 << 20 {
        write(&mut writer, &payload);
        let ranges = asked.ranges.lock();
        let mut end = 0;
        for &(offset, bytes) in &*ranges {
            assert_eq!(offset, end, "every byte once");
            end = offset + bytes;
        }
        left_max = left_max.max(writer.offset() - end);
    }
    assert!(left_max < 1 << 20, "{left_max} bytes were left");
    assert!(asked.ranges.lock().len() < 6, "asking costs a system call");
}

/// What the disk could not take is as lost as if a sync had failed.
#[test]
fn a_log_that_cannot_be_written_back_is_lost() {
    let disk = MemoryStorage::new();
    let file = disk.create(Path::new(PATH), Access::Buffered).unwrap();
    let asked = Arc::new(Asked::new(file, 1 << 20));
    let mut writer = LogWriter::new(asked, 7);
    let fill = |out: &mut Vec<u8>| out.resize(out.len() + 600_000, RECORD_WRITES);
    let outcomes: Vec<bool> = (0..6).map(|_| writer.append(fill).is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, false, false, false]);
    assert!(!writer.is_open() && writer.sync().is_err() && writer.finish(8).is_err());
}

/// A byte in front of each frame of an earlier life stands what looks like the header
/// of a frame of this one, 281 000 bytes long.
#[test]
fn what_only_looks_like_a_frame_is_not_read() {
    let disk = MemoryStorage::new();
    let mut writer = LogWriter::new(disk.create(Path::new(PATH), Access::Buffered).unwrap(), 7);
    write(&mut writer, b"");
    writer.sync().unwrap();
    while writer.offset() < 3 << 20 {
        write(&mut writer, &[7; 1099]);
    }
    let mut writer = LogWriter::new(file(&disk), 9);
    write(&mut writer, b"ebb");
    let asked = Arc::new(Asked::new(file(&disk), u64::MAX));
    let mut reader = LogReader::new(asked.clone(), 9).unwrap();
    assert!(reader.next().unwrap().is_some() && reader.next().unwrap().is_none());
    let read_bytes = *asked.read_bytes.lock();
    assert!(read_bytes < 2 * (3 << 20), "{read_bytes} bytes were read of three million");
}
