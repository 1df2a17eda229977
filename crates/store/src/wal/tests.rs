//! Golden bytes of logs, in a fresh and in a recycled file, and the requests to the disk.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tidekv_io::{Access, Fault, FaultRule, File, MemoryStorage, Operation, Storage};

use super::format::{Header, RECORD_END, RECORD_MARK, RECORD_WRITES};
use super::*;
use crate::sync::Mutex;
use tidekv_testkit::golden::Dump;

const PATH: &str = "/000007.log";

/// The frame is under test; these are payloads of the kind "writes".
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

/// Adds the frames of `bytes` to the dump, and `rest` for the bytes after the last intact frame.
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
fn fresh_log_matches_golden_bytes() {
    let disk = MemoryStorage::new();
    fresh(&disk);
    let mut dump = Dump::new("Log 7, ended. See crates/store/src/wal/format.rs.");
    add_frames(&mut dump, &disk.read_file(PATH).unwrap(), 7, "Allocated, not written");
    let released = dump.hold_against("log");
    let (records, ending) = read(&released[0].1, 7);
    assert_eq!(records, RECORDS);
    assert_eq!(ending, Ending::Complete { successor: 9 });
}

/// The format from before writers filled whole pages: it is read the same way.
#[test]
fn recycled_log_matches_golden_bytes() {
    let disk = MemoryStorage::new();
    fresh(&disk);
    let mut writer = LogWriter::new(file(&disk), 9);
    write(&mut writer, b"ebb");
    let mut dump = Dump::new(
        "Log 9 in the file that was log 7, not ended. See crates/store/src/wal/format.rs.",
    );
    add_frames(&mut dump, &disk.read_file(PATH).unwrap(), 9, "What is left of log 7");
    let released = dump.hold_against("log-recycled");
    let (records, ending) = read(&released[0].1, 9);
    assert_eq!(records, [b"ebb"]);
    assert!(matches!(ending, Ending::Cut { .. }));
}

/// When a write covers only the beginning of a page, the system reads the page from the disk first,
/// to keep its end.
#[test]
fn writer_fills_whole_pages_of_a_recycled_file() {
    let disk = MemoryStorage::new();
    disk.write_file(PATH, &[0xab; 40_000]);
    let asked = Arc::new(Asked::new(file(&disk), u64::MAX));
    let mut writer = LogWriter::recycling(asked.clone(), 9);
    let mut pages_before = 0;
    for len in [5, 3000, 1000, 60, 1, 4000, 9000, 15, 4096 - 17, 4096 - 17, 300] {
        let start = writer.offset() as usize;
        write(&mut writer, &vec![7; len]);
        let bytes = disk.read_file(PATH).unwrap();
        let end = writer.offset() as usize;
        let pages = end.div_ceil(4096);
        assert!(bytes[end..pages * 4096].iter().all(|&byte| byte == 0), "{len} to {end}");
        assert!(bytes[pages * 4096..].iter().all(|&byte| byte == 0xab), "{len} to {end}");
        let until = if pages > pages_before { pages * 4096 } else { end };
        assert_eq!(*asked.written_bytes.lock(), until - start, "{len}: once is enough");
        pages_before = pages;
    }
    let mut reader = LogReader::new(file(&disk), 9).unwrap();
    let mut records = 0;
    while reader.next().unwrap().is_some() {
        records += 1;
    }
    assert_eq!((records, reader.ending()), (11, Ending::Cut { torn: false }));
}

/// The files that the disk synced, in order.
fn syncs(disk: &MemoryStorage) -> Vec<String> {
    let history = disk.history();
    let syncs = history.iter().map(ToString::to_string).filter(|one| one.contains("sync"));
    syncs.map(|one| one.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

/// Three successive logs, none of them synced, the last one empty.
fn chain(disk: &MemoryStorage) -> [LogWriter; 3] {
    let begin = |number: u64| {
        let path = format!("/{number}.log");
        LogWriter::new(disk.create(Path::new(&path), Access::Buffered).unwrap(), number)
    };
    let [mut first, mut second, mut third] = [begin(1), begin(2), begin(3)];
    write(&mut first, b"a");
    first.end(2).unwrap();
    second.follow(&first);
    write(&mut second, b"b");
    second.end(3).unwrap();
    third.follow(&second);
    disk.record_history(true);
    [first, second, third]
}

#[test]
fn log_is_not_synced_before_preceding_logs() {
    let disk = MemoryStorage::new();
    let [_, _, mut third] = chain(&disk);
    third.syncer().sync_up_to(0).unwrap();
    assert_eq!(syncs(&disk), ["1.log", "2.log"], "also when nothing was appended yet");
    write(&mut third, b"c");
    third.sync().unwrap();
    third.sync().unwrap();
    assert_eq!(syncs(&disk), ["1.log", "2.log", "3.log"]);
}

/// The mark before the first record after a sync waited for the next sync.
#[test]
fn append_does_not_wait_for_a_concurrent_sync() {
    let disk = MemoryStorage::new();
    let create = |path: &str| disk.create(Path::new(path), Access::Buffered).unwrap();
    let mut front = LogWriter::new(create("/1.log"), 1);
    front.end(2).unwrap();
    let asked = Arc::new(Asked::new(create("/2.log"), u64::MAX));
    let (begun, has_begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    *asked.gate.lock() = Some((begun, goes_on));
    let mut writer = LogWriter::new(asked, 2);
    writer.follow(&front);
    write(&mut writer, b"a");
    let (syncer, offset) = (Arc::clone(writer.syncer()), writer.offset());
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || syncer.sync_up_to(offset).unwrap());
        has_begun.recv().unwrap();
        scope.spawn(move || {
            write(&mut writer, b"b");
            done.send(()).unwrap();
        });
        let waited = is_done.recv_timeout(Duration::from_secs(20));
        go_on.send(()).unwrap();
        waited.expect("the writer goes on");
    });
}

#[test]
fn log_after_a_lost_one_refuses_appends() {
    let disk = MemoryStorage::new();
    let [first, _, mut third] = chain(&disk);
    disk.add_fault(FaultRule::once(Operation::Sync, Fault::SyncLost).on_path("1.log"));
    first.syncer().sync_up_to(1).unwrap_err();
    assert!(!third.is_open());
    assert!(third.mark().unwrap_err().to_string().contains("reopen the store"));
}

#[test]
fn log_is_lost_when_a_preceding_one_is() {
    let disk = MemoryStorage::new();
    let [_, _, mut third] = chain(&disk);
    disk.add_fault(FaultRule::once(Operation::Sync, Fault::SyncLost).on_path("1.log"));
    write(&mut third, b"c");
    assert!(third.sync().unwrap_err().to_string().contains("reopen the store"));
    assert!(!third.is_open() && third.sync().is_err() && third.finish(4).is_err());
    assert_eq!(syncs(&disk).len(), 1, "the disk would say that all is well");
}

/// Forwards all calls and records the ranges of writeback requests, the number of bytes read, and
/// the size of the last write.
#[derive(Debug)]
struct Asked {
    file: Arc<dyn File>,
    ranges: Mutex<Vec<(u64, u64)>>,
    read_bytes: Mutex<u64>,
    written_bytes: Mutex<usize>,
    /// Signals the start of a sync, and blocks it.
    gate: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    /// From this offset on, the disk fails.
    fails_from: u64,
}

impl Asked {
    fn new(file: Arc<dyn File>, fails_from: u64) -> Self {
        Self {
            file,
            ranges: Mutex::default(),
            read_bytes: Mutex::default(),
            written_bytes: Mutex::default(),
            gate: Mutex::default(),
            fails_from,
        }
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
        *self.written_bytes.lock() = data.len();
        self.file.write_at(offset, data)
    }

    fn sync(&self) -> tidekv_io::Result<()> {
        if let Some((begun, go_on)) = self.gate.lock().take() {
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
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
fn long_log_is_written_back_before_its_sync() {
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

/// After a failed writeback the log is as lost as after a failed sync.
#[test]
fn log_is_lost_after_a_failed_writeback() {
    let disk = MemoryStorage::new();
    let file = disk.create(Path::new(PATH), Access::Buffered).unwrap();
    let asked = Arc::new(Asked::new(file, 1 << 20));
    let mut writer = LogWriter::new(asked, 7);
    let fill = |out: &mut Vec<u8>| out.resize(out.len() + 600_000, RECORD_WRITES);
    let outcomes: Vec<bool> = (0..6).map(|_| writer.append(fill).is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, false, false, false]);
    assert!(!writer.is_open() && writer.sync().is_err() && writer.finish(8).is_err());
}

/// One byte before each frame of an earlier log are bytes that look like the header of a current
/// frame, 281 000 bytes long.
#[test]
fn bytes_that_only_look_like_a_frame_are_not_read() {
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
