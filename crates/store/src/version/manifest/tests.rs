//! Golden bytes of a manifest and of `CURRENT`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{MemoryStorage, Storage};

use super::*;
use crate::options::{Compression, FilterKind, KeyspaceOptions};
use crate::wal::LogPosition;
use crate::wal::format::{HEADER_BYTES, Header};
use crate::wal::names::Names;
use tidekv_testkit::golden::Dump;

const DIRECTORY: &str = "/data";

fn table(id: u64) -> TableMeta {
    TableMeta {
        id,
        file: id,
        offset: 0,
        bytes: 70_000,
        smallest: b"surf"[..].into(),
        largest: b"tide"[..].into(),
        largest_is_exclusive: true,
        entries: 300,
        tombstones: 2,
        range_tombstones: 1,
        largest_sequence: 290,
        sequence_override: 0,
        earliest_deadline_ms: 1_800_000_000_000,
    }
}

/// An edit for each kind of change.
fn edits() -> Vec<Edit> {
    let options = KeyspaceOptions::default()
        .compression(Compression::Lz4)
        .compression_last(Compression::Zstd)
        .block_bytes(8192)
        .filter_bits_per_key(12)
        .filter_kind(FilterKind::Bloom)
        .default_ttl(Duration::from_secs(60));
    let keyspace = Change::PutKeyspace { id: 1, name: "tides".into(), options };
    let ingested = TableMeta { sequence_override: 301, ..table(5) };
    [
        vec![keyspace],
        vec![
            Change::AddTable { keyspace: 1, level: 0, table: Arc::new(table(4)) },
            Change::Flushed { keyspace: 1, sequence: 300 },
            Change::LastSequence(300),
            Change::MinLog(3),
            Change::LogPassed(LogPosition { log: 3, offset: 5000 }),
            Change::LogSynced(LogPosition { log: 3, offset: 6000 }),
        ],
        vec![
            Change::RemoveTable { keyspace: 1, level: 0, id: 4 },
            Change::AddTable { keyspace: 1, level: 6, table: Arc::new(ingested) },
        ],
        vec![Change::DropKeyspace { id: 1 }],
    ]
    .map(|changes| Edit { changes })
    .into()
}

/// The state that results from the edits.
fn expected() -> State {
    let mut state = State::new(77);
    edits().iter().for_each(|edit| state.apply(edit).unwrap());
    state.next_file = 2;
    state
}

#[test]
fn manifest_matches_golden_bytes() {
    let disk = MemoryStorage::new();
    disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
    let names = Names::new(Arc::new(disk.clone()), Path::new(DIRECTORY));
    let mut manifest = Manifest::new(Arc::new(names), State::new(77));
    edits().into_iter().for_each(|edit| manifest.commit(edit).unwrap());
    let mut dump = Dump::new(
        "CURRENT, and a manifest of four edits, each with a mark behind it. See \
         crates/store/src/version/manifest/edit.rs and manifest/file.rs.",
    );
    dump.file("CURRENT");
    dump.part("A line", &disk.read_file("/data/CURRENT").unwrap());
    dump.file("MANIFEST-000001");
    let bytes = disk.read_file("/data/MANIFEST-000001").unwrap();
    let mut at = 0;
    let parts = ["First edit: a snapshot", "Second edit", "Third edit", "Fourth edit"];
    for name in parts.iter().flat_map(|edit| [*edit, "Mark"]) {
        let header = Header::decode(&bytes[at..], at as u64, bytes.len() as u64).unwrap();
        let len = HEADER_BYTES + header.payload_len as usize;
        dump.part(&format!("{name}, {} bytes were synced", header.synced), &bytes[at..at + len]);
        at += len;
    }
    assert!(bytes[at..].iter().all(|&byte| byte == 0), "allocated for later edits");
    let released = dump.hold_against("manifest");
    let old = MemoryStorage::new();
    for (name, bytes) in &released {
        old.write_file(Path::new(DIRECTORY).join(name), bytes);
    }
    let (state, number) = file::read(&old, Path::new(DIRECTORY)).unwrap().unwrap();
    assert_eq!((state, number), (expected(), 1));
}
