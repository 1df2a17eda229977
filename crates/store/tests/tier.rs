//! A tier under the block cache saves reads of files, and changes no result, whatever it returns
//! and whatever happens to the store. (`metamorphic.rs` has tiers among its settings.)

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use support::strange_tier::{StrangeTier, Temper};
use support::{DIRECTORY, Dice, Limits, START_MS, count, options};
use tidekv::{Compression, Db, Keyspace, KeyspaceOptions, SecondaryCache};
use tidekv_io::{ManualClock, MemoryStorage, Operation, SeededRandom, Storage, Tear};
use tidekv_tiered::{Cache, Environment as CacheEnvironment, FlashOptions};

const ROOMY: Limits = Limits { memtable_bytes: 256 << 10, table_bytes: 64 << 10 };
const ENTRIES: u64 = 15_000;

fn key(n: u64) -> String {
    format!("key-{n:06}")
}

fn value(n: u64, generation: u8) -> Vec<u8> {
    [format!("{n}-").as_bytes(), &[generation; 100]].concat()
}

/// A store that caches no block in memory, with or without a tier. Stores of one disk and of its
/// copies have one identity, as they would have with copies of their files.
fn open(disk: &MemoryStorage, tier: Option<Arc<dyn SecondaryCache>>) -> (Db, Keyspace) {
    open_as(disk, tier, KeyspaceOptions::default())
}

fn open_as(
    disk: &MemoryStorage,
    tier: Option<Arc<dyn SecondaryCache>>,
    keyspace: KeyspaceOptions,
) -> (Db, Keyspace) {
    let mut options = options(disk, &Arc::new(ManualClock::new(START_MS)), ROOMY);
    options.environment.secondary_cache = tier;
    let options = options.warm_start(false).with_research(|research| {
        research.cache_bytes_max = 0;
    });
    let db = Db::open(DIRECTORY, options).unwrap();
    let keyspace = db.keyspace_with("k", keyspace).unwrap();
    (db, keyspace)
}

/// All keys, in one table after another of the last level.
fn fill(db: &Db, keyspace: &Keyspace, generation: u8) {
    (0..ENTRIES).for_each(|n| keyspace.put(key(n), value(n, generation)).unwrap());
    db.compact().unwrap();
}

fn assert_that_all_is_there(keyspace: &Keyspace, generation: u8) {
    for n in (0..ENTRIES).step_by(3) {
        let found = keyspace.get(key(n)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(n, generation)[..]), "{n}");
    }
}

/// Counts reads of table files.
fn count_reads(disk: &MemoryStorage) -> Arc<AtomicU64> {
    let reads = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&reads);
    disk.on_operation(move |record| {
        if record.operation == Operation::Read && record.path.starts_with(DIRECTORY) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    reads
}

fn cache_on(flash: &MemoryStorage) -> Cache {
    let around = CacheEnvironment {
        storage: Arc::new(flash.clone()),
        clock: Arc::new(ManualClock::new(START_MS)),
        random: Arc::new(SeededRandom::new(5)),
        boot: 7,
        is_inline: true,
    };
    let options = tidekv_tiered::Options {
        dram_bytes: 1 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 8 << 20 }],
        object_bytes_max: 64 << 10,
        segment_bytes: Some(64 << 10),
        state: Some("/state".into()),
        ..tidekv_tiered::Options::default()
    };
    Cache::open(&options, &around).unwrap()
}

#[test]
fn flash_tier_saves_reads_of_files() {
    let (disk, flash) = (MemoryStorage::new(), MemoryStorage::new());
    let (db, keyspace) = open(&disk, None);
    fill(&db, &keyspace, 1);
    let reads = count_reads(&disk);
    let round = |keyspace: &Keyspace| {
        let before = reads.load(Ordering::Relaxed);
        assert_that_all_is_there(keyspace, 1);
        reads.load(Ordering::Relaxed) - before
    };
    let bare = round(&keyspace);
    assert_eq!(bare, round(&keyspace));
    drop((db, keyspace));

    let cache = cache_on(&flash);
    let (db, keyspace) = open(&disk, Some(Arc::new(cache.clone())));
    let (first, second) = (round(&keyspace), round(&keyspace));
    let [hits, wrong] =
        ["secondary_cache.hits", "secondary_cache.mismatches"].map(|name| count(&db, name));
    println!("reads of files: {bare} without a tier, {first} the first time, then {second}");
    assert!(first < bare / 5 && second == 0, "{bare} {first} {second}");
    assert_eq!((hits, wrong), (2 * bare - first, 0));
    // Opening a table reads its end, past the tier.
    assert_eq!(first, count(&db, "io.reads"));
    assert!(cache.stats().flash_hits > 0, "{:?}", cache.stats());

    // Both are reopened.
    drop((db, keyspace));
    cache.close();
    drop(cache);
    let cache = cache_on(&flash);
    assert_eq!(cache.warm_devices(), 1);
    let (db, keyspace) = open(&disk, Some(Arc::new(cache)));
    assert_eq!(round(&keyspace), 0, "{:?}", db.statistics());
}

#[test]
fn no_tier_changes_a_result() {
    for temper in Temper::ALL {
        let tier = Arc::new(StrangeTier::new(temper, 3));
        let disk = MemoryStorage::new();
        let compressed = KeyspaceOptions::default().compression_last(Compression::Lz4);
        let (db, keyspace) = open_as(&disk, Some(tier.clone()), compressed);
        let mut model = BTreeMap::new();
        let mut dice = Dice(9);
        for step in 0..20_000_u64 {
            let n = dice.below(ENTRIES);
            match dice.below(8) {
                0..4 => {
                    keyspace.put(key(n), value(n, step as u8)).unwrap();
                    model.insert(key(n), value(n, step as u8));
                }
                4 => {
                    keyspace.delete(key(n)).unwrap();
                    model.remove(&key(n));
                }
                5..7 => {
                    let found = keyspace.get(key(n)).unwrap();
                    assert_eq!(found.as_deref(), model.get(&key(n)).map(Vec::as_slice));
                }
                _ => {
                    let found = keyspace.range(key(n)..).take(9).map(|entry| entry.unwrap());
                    let found = found.map(|(key, entry)| (key, entry.value));
                    let expected = model.range(key(n)..).take(9);
                    for ((found_key, found), (key, value)) in found.zip(expected) {
                        assert_eq!((&found_key[..], &found[..]), (key.as_bytes(), &value[..]));
                    }
                }
            }
        }
        let [hits, wrong] =
            ["secondary_cache.hits", "secondary_cache.mismatches"].map(|name| count(&db, name));
        let is_wrong = matches!(temper, Temper::Confused | Temper::Noisy);
        assert!(hits > 1_000 && (wrong > 1_000) == is_wrong, "{temper:?}: {hits} {wrong}");
        assert_eq!(is_wrong, wrong > 0, "{temper:?}");
    }
}

/// A table's number may recur for another table. A tier that identifies blocks by number and offset
/// alone would return those of the first: their checksums are valid, because they cover the number
/// and the offset.
#[test]
fn recreated_store_finds_no_blocks_of_its_predecessor() {
    let tier = Arc::new(StrangeTier::new(Temper::Faithful, 1));
    let mut blocks = 0;
    for generation in 1..4 {
        // The same path, the same identity (from a seeded source), the same numbers.
        let disk = MemoryStorage::new();
        let (db, keyspace) = open(&disk, Some(tier.clone()));
        fill(&db, &keyspace, generation);
        let hits = count(&db, "secondary_cache.hits");
        assert_that_all_is_there(&keyspace, generation);
        assert!(count(&db, "secondary_cache.hits") > hits);
        assert_eq!(count(&db, "secondary_cache.mismatches"), 0);
        assert!(tier.len() > blocks);
        blocks = tier.len();
    }
}

/// A backup is restored and continues differently from the original.
#[test]
fn diverged_copy_finds_no_blocks_of_its_original() {
    let tier = Arc::new(StrangeTier::new(Temper::Faithful, 1));
    let disk = MemoryStorage::new();
    let (db, keyspace) = open(&disk, Some(tier.clone()));
    fill(&db, &keyspace, 1);
    let backup = disk.after_power_loss(Tear::KeepUnsynced);
    fill(&db, &keyspace, 2);
    assert_that_all_is_there(&keyspace, 2);
    let names = |disk: &MemoryStorage| {
        let entries = disk.list(Path::new(DIRECTORY)).unwrap().into_iter();
        entries.map(|entry| entry.name).filter(|name| name.ends_with(".table")).collect::<Vec<_>>()
    };
    let of_original = names(&disk);
    drop((db, keyspace));

    let (db, keyspace) = open(&backup, Some(tier.clone()));
    // The common part is still in the tier.
    assert_that_all_is_there(&keyspace, 1);
    fill(&db, &keyspace, 3);
    assert_that_all_is_there(&keyspace, 3);
    assert!(names(&backup).iter().any(|name| of_original.contains(name)), "no number came again");
    assert_eq!(count(&db, "secondary_cache.mismatches"), 0);
}

#[test]
fn compactions_and_scan_read_ahead_bypass_the_tier() {
    let tier = Arc::new(StrangeTier::new(Temper::Faithful, 1));
    let (db, keyspace) = open(&MemoryStorage::new(), Some(tier.clone()));
    fill(&db, &keyspace, 1);
    fill(&db, &keyspace, 2);
    assert_eq!((count(&db, "secondary_cache.inserts"), tier.len()), (0, 0));
    let before = count(&db, "io.read_ahead_blocks");
    assert_eq!(keyspace.iter().count() as u64, ENTRIES);
    let ahead = count(&db, "io.read_ahead_blocks") - before;
    let puts = count(&db, "secondary_cache.inserts");
    assert!(ahead > 50 && puts < ahead / 2, "{puts} of {ahead}");
}
