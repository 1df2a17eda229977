//! Damaged files: an error or the correct data, never a panic or other data.

use tidekv_io::{Fault, FaultRule, Operation};

use super::*;

fn small(compression: Compression) -> (MemoryStorage, Vec<Entry>) {
    let storage = MemoryStorage::new();
    let entries = sorted(
        (0..24u64)
            .map(|n| {
                let key = format!("key{:02}", n / 2).into_bytes();
                (key, Trailer::new(n + 1, Kind::Value), vec![b'a' + n as u8; 40])
            })
            .collect(),
    );
    let options = TableOptions { compression, block_bytes: 512, ..options() };
    build(&storage, options, &entries, &[RangeTombstone::new(b"key05", b"key07", 9)]).unwrap();
    (storage, entries)
}

/// Reads all of the table in `storage` in every way; every successful read must be correct. `true`
/// if all reads succeeded.
fn all_reads_are_correct(storage: &MemoryStorage, entries: &[Entry]) -> bool {
    let Ok((table, blocks)) = open(storage, 0) else { return false };
    let mut sound = check(&table, &blocks).damage.is_empty();
    assert_eq!(table.range_tombstones().newest_over(b"key06", 100), 9);
    for (key, trailer, _) in entries {
        match get(&table, &blocks, key, trailer.sequence()) {
            Ok(found) => assert_eq!(found, expected(entries, key, trailer.sequence())),
            Err(_) => sound = false,
        }
    }
    let mut cursor = TableCursor::new(table, blocks, Reading::Cached(Arc::default()));
    let mut seen = 0;
    let mut moved = cursor.seek(Target::First);
    while moved.is_ok() && cursor.valid() {
        assert_eq!(current(&cursor).as_ref(), entries.get(seen));
        seen += 1;
        moved = cursor.next();
    }
    assert!(moved.is_err() || seen == entries.len());
    if moved.is_err() {
        assert!(!cursor.valid() && cursor.next().is_err(), "a cursor that failed stays failed");
    }
    sound && moved.is_ok()
}

#[test]
fn flipped_bit_gives_an_error_or_correct_data() {
    for compression in [Compression::None, Compression::Zstd] {
        let (storage, entries) = small(compression);
        assert!(all_reads_are_correct(&storage, &entries));
        let whole = storage.read_file(PATH).unwrap();
        let mut unnoticed = 0;
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            storage.write_file(PATH, &bytes);
            unnoticed += usize::from(all_reads_are_correct(&storage, &entries));
        }
        // Only padding has no checksum.
        assert!(unnoticed < 8 * 256, "{unnoticed} of {} flips went unnoticed", whole.len() * 8);
    }
}

#[test]
fn every_truncation_is_an_error() {
    let (storage, entries) = small(Compression::None);
    let whole = storage.read_file(PATH).unwrap();
    for len in 0..whole.len() {
        storage.write_file(PATH, &whole[..len]);
        assert!(!all_reads_are_correct(&storage, &entries));
    }
}

#[test]
fn damage_is_named_by_file_and_offset() {
    let (storage, _) = small(Compression::None);
    storage.corrupt(PATH, |bytes| bytes[20] ^= 1);
    let (table, blocks) = open(&storage, 0).unwrap();
    let error = get(&table, &blocks, b"key00", 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(
        text.contains(PATH) && text.contains("block at offset 0") && text.contains("checksum"),
        "{text}"
    );
    let damage = check(&table, &blocks).damage;
    assert!(damage.len() == 1 && damage[0].contains("block at offset 0"), "{damage:?}");
}

#[test]
fn failed_read_names_its_block_and_may_be_retried() {
    let (storage, entries) = small(Compression::None);
    let (table, blocks) = open(&storage, 0).unwrap();
    storage
        .add_fault(FaultRule::always(Operation::Read, Fault::Fail(tidekv_io::ErrorKind::Failed)));
    let error = get(&table, &blocks, b"key00", 100).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Storage && error.to_string().contains("block at offset"),
        "{error}"
    );
    storage.clear_faults();
    assert_eq!(get(&table, &blocks, b"key00", 100).unwrap(), expected(&entries, b"key00", 100));
}

#[test]
fn table_with_another_id_or_a_newer_version_does_not_open() {
    let (storage, _) = small(Compression::None);
    let file = || storage.open_read(Path::new(PATH), Access::Direct).unwrap();
    assert_eq!(Table::open(file(), ID + 1).unwrap_err().kind(), ErrorKind::Corrupt);
    storage.corrupt(PATH, |bytes| {
        let version_at = bytes.len() - 12;
        bytes[version_at] = 9;
    });
    let error = Table::open(file(), ID).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("newer"),
        "{error}"
    );
}

#[test]
fn writing_to_a_full_disk_is_an_error() {
    let storage = MemoryStorage::new();
    storage.set_capacity(Some(10_000));
    let error: Error = build(&storage, options(), &numbered(1000, 100), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_safe_in_every_decoder(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = TableProperties::decode(&bytes);
        let _ = super::super::format::decode_range_tombstones(&bytes);
        let _ = super::super::format::Partition::decode(&bytes);
        if let Some(footer) = bytes.first_chunk::<FOOTER_BYTES>() {
            let _ = Footer::decode(footer, ID, Path::new(PATH));
        }
        let storage = MemoryStorage::new();
        storage.write_file(PATH, &bytes);
        prop_assert!(open(&storage, 0).is_err());
    }
}
