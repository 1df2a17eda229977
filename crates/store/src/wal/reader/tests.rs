//! Torn tails, damage, and the search after the end.

use super::*;
use crate::wal::LogWriter;
use crate::wal::format::RECORD_WRITES;
use std::path::Path;
use tidekv_io::{Access, MemoryStorage, Storage};

const NUMBER: u64 = 7;

proptest::proptest! {
    /// The fast search finds the same offset as a check of every offset.
    #[test]
    fn search_misses_no_synced_header(
        piece in proptest::collection::vec(proptest::sample::select(&[0u8, 0, 0, 1, 40][..]), 16..120),
        cut in 0u64..60,
        skipped in 0u64..40,
    ) {
        let storage = MemoryStorage::new();
        let file = storage.create(Path::new("/log"), Access::Buffered).unwrap();
        let mut reader = LogReader::new(file, NUMBER).unwrap();
        reader.piece_offset = 30;
        reader.piece = tidekv_io::Buffer::copy_from(&piece);
        let from = 30 + skipped.min(piece.len() as u64 - 16);
        let places = from - 30..=piece.len() as u64 - 16;
        let expected = places.map(|place| place + 30).find(|&at| {
            let start = (at - 30) as usize + 8;
            let synced = u64::from_le_bytes(piece[start..start + 8].try_into().unwrap());
            synced > cut && synced <= at
        });
        let behind = 30 + piece.len() as u64 - 15;
        let expected = expected.map_or((behind, false), |at| (at, true));
        proptest::prop_assert_eq!(reader.next_synced_header(from, cut, &Finder::new(&ZEROS)), expected);
    }
}

fn write(storage: &MemoryStorage, records: &[(&[u8], bool)], finish: bool) -> Vec<u64> {
    let file = storage.create(Path::new("/log"), Access::Buffered).unwrap();
    file.allocate(8192).unwrap();
    let mut writer = LogWriter::new(file, NUMBER);
    let mut offsets = vec![0];
    for (payload, sync) in records {
        writer
            .append(|out| {
                out.push(RECORD_WRITES);
                out.extend_from_slice(payload);
            })
            .unwrap();
        if *sync {
            writer.sync().unwrap();
        }
        offsets.push(writer.offset());
    }
    if finish {
        writer.finish(12).unwrap();
    }
    offsets
}

fn read(storage: &MemoryStorage) -> Result<(Vec<Vec<u8>>, Ending, u64)> {
    let file = storage.open_read(Path::new("/log"), Access::Buffered).unwrap();
    let mut reader = LogReader::new(file, NUMBER)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record[1..].to_vec());
    }
    Ok((records, reader.ending(), reader.offset()))
}

fn storage() -> MemoryStorage {
    let storage = MemoryStorage::new();
    storage.create_dir_all(Path::new("/")).unwrap();
    storage
}

#[test]
fn records_are_read_back_in_order() {
    let disk = storage();
    let large = vec![5; PIECE_BYTES + 100];
    write(&disk, &[(b"one", false), (&large, true), (b"three", false)], true);
    let (records, ending, _) = read(&disk).unwrap();
    assert_eq!(records, [b"one".to_vec(), large, b"three".to_vec()]);
    assert_eq!(ending, Ending::Complete { successor: 12 });
}

#[test]
fn a_torn_end_is_cut_wherever_it_tears() {
    let disk = storage();
    let offsets = write(&disk, &[(b"one", true), (b"two", true), (b"three", false)], false);
    let whole = disk.read_file(Path::new("/log")).unwrap();
    for cut in offsets[2]..offsets[3] {
        let mut torn = whole.clone();
        torn[cut as usize..].fill(0);
        disk.write_file(Path::new("/log"), &torn);
        let (records, ending, offset) = read(&disk).unwrap();
        assert_eq!(records.len(), 2, "cut at {cut}");
        assert_eq!(offset, offsets[2]);
        assert_eq!(ending, Ending::Cut { torn: cut > offsets[2] });
    }
}

#[test]
fn damage_before_the_synced_offset_is_refused() {
    let disk = storage();
    let offsets = write(&disk, &[(b"one", true), (b"two", true), (b"three", false)], false);
    let whole = disk.read_file(Path::new("/log")).unwrap();
    for at in 0..offsets[2] as usize {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            disk.write_file(Path::new("/log"), &flipped);
            let error = read(&disk).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "byte {at} bit {bit}");
            assert!(error.to_string().contains("/log"));
        }
    }
}

#[test]
fn frames_of_an_earlier_log_are_not_read() {
    let disk = storage();
    write(&disk, &[(b"old one", true), (b"old two", true), (b"old three", true)], false);
    let file = disk.open(Path::new("/log"), Access::Buffered).unwrap();
    let mut writer = LogWriter::new(file, NUMBER + 1);
    writer.append(|out| out.extend_from_slice(&[RECORD_WRITES, b'n'])).unwrap();
    let file = disk.open(Path::new("/log"), Access::Buffered).unwrap();
    let mut reader = LogReader::new(file, NUMBER + 1).unwrap();
    assert_eq!(reader.next().unwrap(), Some(&[RECORD_WRITES, b'n'][..]));
    assert_eq!(reader.next().unwrap(), None);
}
