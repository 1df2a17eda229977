//! The bytes of a small table, annotated, as they were released: they must
//! not change. `TIDEKV_BLESS=1` writes the file anew, for a new format.

use std::fmt::Write;

use super::*;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/table.golden.txt");

fn tiny() -> MemoryStorage {
    let storage = MemoryStorage::new();
    let deadline = 1_800_000_000_000u64.to_le_bytes();
    let entries: Vec<Entry> = vec![
        (b"tide/high".to_vec(), Trailer::new(300, Kind::Value), b"spring".to_vec()),
        (b"tide/high".to_vec(), Trailer::new(2, Kind::Value), b"neap".to_vec()),
        (b"tide/low".to_vec(), Trailer::new(5, Kind::Delete), Vec::new()),
        (
            b"tide/slack".to_vec(),
            Trailer::new(6, Kind::Expiring),
            [&deadline[..], b"calm"].concat(),
        ),
        (b"tide/wave".to_vec(), Trailer::new(0, Kind::Value), vec![b'~'; 490]),
    ];
    let options = TableOptions { block_bytes: 512, ..options() };
    build(&storage, options, &entries, &[RangeTombstone::new(b"surf", b"tide", 7)]).unwrap();
    storage
}

/// The file, a paragraph for each part of it.
fn dump(storage: &MemoryStorage) -> String {
    let bytes = storage.read_file(PATH).unwrap();
    let (table, blocks) = open(storage, 0).unwrap();
    let footer_at = bytes.len() - FOOTER_BYTES;
    let footer = Footer::decode(bytes.last_chunk().unwrap(), ID, Path::new(PATH)).unwrap();
    let mut parts: Vec<(usize, usize, String)> = describe(&table, &blocks)
        .unwrap()
        .into_iter()
        .map(|b| {
            (
                b.offset as usize,
                b.bytes as usize,
                format!("{:?} block, {} entries", b.kind, b.entries),
            )
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
    let mut out = String::from(
        "A table with id 7 in keyspace 3. See the head of crates/store/src/table/format.rs.\n",
    );
    let mut at = 0;
    for (offset, len, name) in parts {
        if at < offset {
            hex(&mut out, &bytes, at..offset, "Padding");
        }
        hex(&mut out, &bytes, offset..offset + len, &name);
        at = offset + len;
    }
    out
}

/// As `hexdump` does: a star stands for lines that repeat the one before.
fn hex(out: &mut String, bytes: &[u8], range: std::ops::Range<usize>, name: &str) {
    writeln!(out, "\n# {name}, {} bytes", range.len()).unwrap();
    let mut before: &[u8] = &[];
    let mut starred = false;
    for (i, line) in bytes[range.clone()].chunks(16).enumerate() {
        if line == before {
            if !std::mem::replace(&mut starred, true) {
                out.push_str("*\n");
            }
            continue;
        }
        (before, starred) = (line, false);
        let numbers: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        let text: String =
            line.iter().map(|&b| if b.is_ascii_graphic() { b as char } else { '.' }).collect();
        writeln!(out, "{:06x}  {:<47}  {text}", range.start + 16 * i, numbers.join(" ")).unwrap();
    }
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the golden file stands in the source tree, not in a store"
)]
fn a_tiny_table_has_the_released_bytes() {
    let now = dump(&tiny());
    if std::env::var_os("TIDEKV_BLESS").is_some() {
        std::fs::write(GOLDEN, &now).unwrap();
    }
    let released = std::fs::read_to_string(GOLDEN).expect("the golden file is there");
    assert!(now == released, "the format has changed; it now writes\n{now}");
}
