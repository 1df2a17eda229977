//! The lab with its peers: TideKV beside RocksDB, LevelDB, fjall and foyer, in one binary, so that
//! compiler, allocator and drive are the same for all. Without its default features it has those
//! that are named alone: `--no-default-features --features foyer` spares RocksDB's half an hour.
//!
//! Modules are declared bottom-up; a module names only modules above it.

#[cfg(feature = "engines")]
mod rocks;
#[cfg(feature = "engines")]
mod fjalls;
#[cfg(feature = "engines")]
mod leveldbs;
mod maps;
#[cfg(feature = "foyer")]
mod foyers;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidekv_lab::command::Lab;
use tidekv_lab::own;
use tidekv_lab::subject::SubjectRecord;

/// RocksDB is built to allocate through the same one.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The settings of the allocator: those of the binary `tidekv`, for all engines. It looks for them
/// under another name where it is the allocator of RocksDB as well.
// SAFETY: jemalloc declares this name as `const char *`; a reference to an
// array is one pointer, and the string ends with a zero byte.
#[cfg_attr(feature = "engines", unsafe(export_name = "malloc_conf"))]
#[cfg_attr(not(feature = "engines"), unsafe(export_name = "_rjem_malloc_conf"))]
pub static ALLOCATOR_SETTINGS: &[u8; 77] =
    b"narenas_ratio:1,background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:100\0";

/// Beside those of the lab itself.
const PEERS: &[SubjectRecord] = &[
    #[cfg(feature = "engines")]
    rocks::LRU,
    #[cfg(feature = "engines")]
    rocks::PINNED,
    #[cfg(feature = "engines")]
    rocks::HYPERCLOCK,
    #[cfg(feature = "engines")]
    rocks::PIPELINED,
    #[cfg(feature = "engines")]
    rocks::COUNTING,
    #[cfg(feature = "engines")]
    rocks::ROW_CACHE,
    #[cfg(feature = "engines")]
    rocks::BEST_SPLIT,
    #[cfg(feature = "engines")]
    rocks::TUNED,
    #[cfg(feature = "engines")]
    rocks::DEFAULT,
    #[cfg(feature = "engines")]
    rocks::OPTIONS,
    #[cfg(feature = "engines")]
    fjalls::FJALL,
    #[cfg(feature = "engines")]
    leveldbs::LEVELDB,
    maps::DASHMAP,
    maps::QUICK_CACHE,
    #[cfg(feature = "foyer")]
    foyers::FOYER,
    #[cfg(feature = "foyer")]
    foyers::FOYER_PSYNC,
];

/// Experiments on TideKV and its peers.
#[derive(Debug, Parser)]
#[command(name = "tidekv-lab", version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    lab: Lab,
}

fn main() -> ExitCode {
    let subjects = [own::SUBJECTS, PEERS].concat();
    let Err(failure) = Arguments::parse().lab.run(&subjects, &[]) else {
        return ExitCode::SUCCESS;
    };
    // Where even this cannot be said, the exit code says it.
    let _ = writeln!(std::io::stderr(), "tidekv-lab: {failure}");
    ExitCode::from(if failure.is_usage { 2 } else { 1 })
}

#[cfg(all(test, feature = "engines"))]
mod tests {
    use tidekv_lab::conformance;
    use tidekv_lab::subject::Settings;

    use super::*;

    #[test]
    fn every_subject_behaves() {
        let is_store = |record: &&SubjectRecord| {
            let engine = record.name.split(':').next();
            matches!(engine, Some("tidekv" | "rocksdb" | "fjall" | "leveldb"))
                && !record.format.contains("cache")
        };
        let subjects = [own::SUBJECTS, PEERS].concat();
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
}

#[cfg(test)]
mod allocator_tests {
    /// It looks for them under one name of two.
    #[test]
    fn the_allocator_has_its_settings() {
        // Off as it comes.
        assert!(tikv_jemalloc_ctl::opt::background_thread::read().expect("it is the allocator"));
    }
}
