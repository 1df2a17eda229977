//! The annotated golden bytes of a small table: they must not change. `TIDEKV_BLESS=1` writes the
//! file anew, for a new format.

use super::*;
use tidekv_testkit::golden::Dump;

fn entries() -> Vec<Entry> {
    let deadline = 1_800_000_000_000u64.to_le_bytes();
    vec![
        (b"tide/high".to_vec(), Trailer::new(300, Kind::Value), b"spring".to_vec()),
        (b"tide/high".to_vec(), Trailer::new(2, Kind::Value), b"neap".to_vec()),
        (b"tide/low".to_vec(), Trailer::new(5, Kind::Delete), Vec::new()),
        (
            b"tide/slack".to_vec(),
            Trailer::new(6, Kind::Expiring),
            [&deadline[..], b"calm"].concat(),
        ),
        (b"tide/wave".to_vec(), Trailer::new(0, Kind::Value), vec![b'~'; 490]),
    ]
}

fn tiny(filter_kind: FilterKind) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let options = TableOptions { block_bytes: 512, filter_kind, ..options() };
    build(&storage, options, &entries(), &[RangeTombstone::new(b"surf", b"tide", 7)]).unwrap();
    storage
}

/// The dump of the file, a paragraph for each part of it.
fn dump(storage: &MemoryStorage) -> Dump {
    let bytes = storage.read_file(PATH).unwrap();
    let (table, blocks) = open(storage, 0).unwrap();
    let footer_at = bytes.len() - FOOTER_BYTES;
    let footer = Footer::decode(bytes.last_chunk().unwrap(), ID, Path::new(PATH)).unwrap();
    let mut parts: Vec<(usize, usize, String)> = describe(&table, &blocks)
        .unwrap()
        .into_iter()
        .map(|b| {
            let (first, rest) = b.kind.split_at(1);
            let name = format!("{}{rest} block, {} entries", first.to_uppercase(), b.entries);
            (b.offset as usize, b.bytes as usize, name)
        })
        .collect();
    for (handle, name) in [
        (footer.range_tombstones, "Range-tombstone block"),
        (footer.properties, "Properties block"),
        (footer.top, "Top-level index block"),
    ] {
        parts.push((handle.offset as usize, handle.len as usize, name.into()));
    }
    parts.push((footer_at, FOOTER_BYTES, "Footer".into()));
    parts.sort();
    let mut out = Dump::new(
        "A table with id 7 in keyspace 3. See the head of crates/store/src/sst/table/format.rs.",
    );
    let mut at = 0;
    for (offset, len, name) in parts {
        if at < offset {
            out.part("Padding", &bytes[at..offset]);
        }
        out.part(&name, &bytes[offset..offset + len]);
        at = offset + len;
    }
    out
}

#[test]
fn small_table_matches_golden_bytes() {
    for (kind, name) in [(FilterKind::Bloom, "table"), (FilterKind::Cuckoo, "table-with-mirrors")] {
        hold_against_released(&tiny(kind), name);
    }
}

fn hold_against_released(built: &MemoryStorage, name: &str) {
    let released = dump(built).hold_against(name);
    let storage = MemoryStorage::new();
    storage.write_file(PATH, &released[0].1);
    let (table, blocks) = open(&storage, 0).unwrap();
    let found = check(&table, &blocks);
    assert_eq!((found.entries, found.damage), (5, Vec::new()));
    let mut cursor = TableCursor::new(table.clone(), blocks, Reading::Cached(Arc::default()));
    cursor.seek(Target::First).unwrap();
    for entry in entries() {
        assert_eq!(current(&cursor), Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    let tombstones: Vec<_> = table.range_tombstones().tombstones().collect();
    assert_eq!(tombstones, [RangeTombstone::new(b"surf", b"tide", 7)]);
    let properties = table.properties();
    assert_eq!((properties.id, properties.keyspace, properties.entries), (ID, 3, 5));
}
