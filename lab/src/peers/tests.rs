//! RocksDB, LevelDB and fjall as subjects: the conformance test of each, and RocksDB's counters.

use super::*;
use crate::subject::Settings;
use crate::subjects::{conformance, own};

#[test]
fn every_subject_behaves() {
    let is_store = |record: &&SubjectRecord| {
        let engine = record.name.split(':').next();
        matches!(engine, Some("tidekv" | "rocksdb" | "fjall" | "leveldb"))
            && !record.format.contains("cache")
    };
    let subjects = [own::SUBJECTS, SUBJECTS].concat();
    for record in subjects.iter().filter(is_store) {
        for is_compressed in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let settings = Settings { is_compressed, ..Settings::usual(16 << 20) };
            conformance::check(|| (record.open)(directory.path(), &settings).unwrap());
        }
    }
}

#[test]
fn rows_and_blocks_of_rocksdb_share_one_budget() {
    let directory = tempfile::tempdir().unwrap();
    let open = |policy: Option<&str>| {
        let settings = Settings {
            cache_bytes: Some(1_000_000),
            policy: policy.map(str::to_owned),
            ..Settings::usual(16 << 20)
        };
        (rocks::BEST_SPLIT.open)(directory.path(), &settings)
    };
    for (policy, rows) in [(None, 500_000), (Some("rows:30"), 300_000), (Some("rows:0"), 0)] {
        let counts = open(policy).unwrap().counts().unwrap();
        assert_eq!(counts.kv_bytes.unwrap_or(0), rows);
        assert_eq!(counts.block_bytes, Some(1_000_000 - rows));
    }
    assert!(open(Some("rows:101")).err().unwrap().is_usage);

    let subject = open(Some("rows:50")).unwrap();
    subject.put(b"key", &[1; 100]).unwrap();
    subject.settle().unwrap();
    let before = subject.counts().unwrap();
    (0..5).for_each(|_| assert!(subject.get(b"key", &mut |_| ()).unwrap()));
    let counts = subject.counts().unwrap().since(&before);
    assert_eq!((counts.point_lookups, counts.kv_hits), (Some(5), Some(4)), "{counts:?}");
}

#[test]
fn rocksdb_counts_its_reads() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings::usual(16 << 20);
    let open = || (rocks::LRU.open)(directory.path(), &settings).unwrap();
    let subject = open();
    (0..100u8).for_each(|number| subject.put(&[number], &[number; 100]).unwrap());
    subject.settle().unwrap();
    let written = subject.counts().unwrap();
    assert!(written.table_written_bytes.unwrap() > 10_000, "{written:?}");
    assert!(written.log_bytes.unwrap() > 10_000, "{written:?}");
    subject.close().unwrap();
    let subject = open();
    let before = subject.counts().unwrap();
    assert!(subject.get(&[50], &mut |_| ()).unwrap());
    assert!(subject.get(&[50], &mut |_| ()).unwrap());
    let counts = subject.counts().unwrap().since(&before);
    // At least the data block, once.
    assert!((1..=4).contains(&counts.reads.unwrap()), "{counts:?}");
    assert!(counts.read_bytes.unwrap() >= 3500, "{counts:?}");
    assert!(counts.cache_hits.unwrap() > 0 && counts.cache_misses.unwrap() > 0, "{counts:?}");
}
