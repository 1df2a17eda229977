//! Hot entries from before a clean shutdown are in memory after it, and correct.

mod support;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{DIRECTORY, Limits, START_MS, count, options, within};
use tidekv::{Db, Keyspace, Options};
use tidekv_cache::CachePolicy;
use tidekv_io::{
    Executor, Fault, FaultRule, InlineExecutor, Job, ManualClock, MemoryStorage, Operation,
    OperationRecord, Priority,
};

/// Tables are only written on request.
const ROOMY: Limits = Limits { memtable_bytes: 1 << 20, table_bytes: 1 << 20 };
const ENTRIES: usize = 6000;
const HOT: usize = 100;
const POINTERS: CachePolicy = CachePolicy::Fixed { kv: 0, kp: 100 };
const VALUES: CachePolicy = CachePolicy::Fixed { kv: 100, kp: 0 };
/// Keys whose values take a good part of the hundredth of all data that a list may take.
const FEW: usize = 40;

struct Store {
    disk: MemoryStorage,
    clock: Arc<ManualClock>,
    policy: CachePolicy,
}

impl Store {
    /// A store with many entries of 200 bytes, all in tables.
    fn new(policy: CachePolicy) -> Self {
        Self::holding("old", policy)
    }

    fn holding(age: &str, policy: CachePolicy) -> Self {
        let (disk, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
        let store = Self { disk, clock, policy };
        let (db, keyspace) = store.open();
        (0..ENTRIES).for_each(|n| keyspace.put(key(n), value(n, age)).unwrap());
        db.compact().unwrap();
        db.close().unwrap();
        store
    }

    fn open(&self) -> (Db, Keyspace) {
        self.open_with(|_| {})
    }

    fn open_with(&self, adjust: impl FnOnce(&mut Options)) -> (Db, Keyspace) {
        let mut options = options(&self.disk, &self.clock, ROOMY);
        options.cache_policy = self.policy.into();
        options.research().cache_bytes_max = 256 << 10;
        options.research().hot_list_share = 100;
        adjust(&mut options);
        let db = Db::open(DIRECTORY, options).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        (db, keyspace)
    }

    /// Opens the store and reads the hot keys again and again.
    fn open_hot(&self) -> (Db, Keyspace) {
        let (db, keyspace) = self.open();
        (0..5).for_each(|_| assert_hot(&keyspace, "old"));
        (db, keyspace)
    }

    fn list(&self) -> Option<Vec<u8>> {
        self.disk.read_file(list_path())
    }

    fn list_has(&self, part: &str) -> bool {
        self.list().unwrap().windows(part.len()).any(|at| at == part.as_bytes())
    }

    fn put_list(&self, list: &[u8]) {
        self.disk.write_file(list_path(), list);
    }
}

fn list_path() -> PathBuf {
    Path::new(DIRECTORY).join("HOT")
}

/// Hot keys are scattered: each in a block of its own.
fn key(n: usize) -> String {
    format!("key-{n:06}")
}

fn value(n: usize, age: &str) -> String {
    format!("{age} {n} {}", "v".repeat(200))
}

fn hot() -> impl Iterator<Item = usize> {
    (0..HOT).map(|n| n * (ENTRIES / HOT))
}

fn assert_hot(keyspace: &Keyspace, age: &str) {
    for n in hot() {
        let found = keyspace.get(key(n)).unwrap().unwrap();
        assert_eq!(found, value(n, age).as_bytes(), "{n}");
    }
}

#[test]
fn hot_entries_are_in_memory_after_a_clean_shutdown() {
    for policy in
        [CachePolicy::Adaptive, CachePolicy::Fixed { kv: 40, kp: 10 }, CachePolicy::BlockOnly]
    {
        let store = Store::new(policy);
        let (db, keyspace) = store.open_hot();
        let reads = count(&db, "io.reads");
        assert_hot(&keyspace, "old");
        let warm = count(&db, "io.reads") - reads;
        db.close().unwrap();
        let list = store.list().expect("a list");
        assert!(list.len() < ENTRIES * 220 / 100, "{} bytes", list.len());
        let (db, keyspace) = store.open();
        assert_eq!(count(&db, "cold_lookups.count"), 0, "no lookup yet");
        let reads = count(&db, "io.reads");
        assert_hot(&keyspace, "old");
        let again = count(&db, "io.reads") - reads;
        assert!(again <= warm + 5, "{policy}: {again} reads after opening, {warm} before");
        db.close().unwrap();
        // Without it, they are read one by one.
        let (db, keyspace) = store.open_with(|options| options.warm_start = false);
        assert_hot(&keyspace, "old");
        assert!(count(&db, "io.reads") > 90);
    }
}

#[test]
fn restored_pointers_reflect_the_log() {
    let store = Store::new(POINTERS);
    let (db, keyspace) = store.open_hot();
    // Newer versions of some keys, and deletions of others, that are in the log alone.
    for n in hot().step_by(2) {
        keyspace.put(key(n), value(n, "new")).unwrap();
    }
    keyspace.delete(key(60)).unwrap();
    db.close().unwrap();
    for opening in 0..3 {
        let (db, keyspace) = store.open();
        assert!(opening > 0 || count(&db, "warm_start.pointers") > 50);
        for (at, n) in hot().enumerate().filter(|(_, n)| *n != 60) {
            let age = if at % 2 == 0 { "new" } else { "old" };
            let found = keyspace.get(key(n)).unwrap().unwrap();
            assert_eq!(found, value(n, age).as_bytes(), "{n}");
        }
        assert_eq!(keyspace.get(key(60)).unwrap(), None);
        assert_eq!(count(&db, "cache.kp.errors"), 0);
        db.close().unwrap();
    }
}

/// Reads few keys again and again, and closes the store.
fn heat_few(store: &Store) {
    let (db, keyspace) = store.open();
    for n in (0..5).flat_map(|_| hot().take(FEW)) {
        assert!(keyspace.get(key(n)).unwrap().is_some());
    }
    db.close().unwrap();
}

#[test]
fn hottest_values_are_restored_without_a_read() {
    let store = Store::new(VALUES);
    let (db, _) = store.open();
    let cold = count(&db, "io.reads");
    db.close().unwrap();
    heat_few(&store);
    for _ in 0..3 {
        let (db, keyspace) = store.open();
        assert_eq!(count(&db, "warm_start.values"), FEW as u64);
        for n in hot().take(FEW) {
            assert_eq!(keyspace.get(key(n)).unwrap().unwrap(), value(n, "old").as_bytes());
        }
        assert_eq!(count(&db, "cache.kv.hits"), FEW as u64);
        assert_eq!(count(&db, "io.reads"), cold);
        db.close().unwrap();
    }
}

#[test]
fn restored_values_reflect_the_log() {
    let store = Store::new(VALUES);
    heat_few(&store);
    // Only in the log: newer versions, as long and longer, and deletions.
    let age = |at: usize| ["new", "newest", "old"][at % 3];
    let (db, keyspace) = store.open();
    for (at, n) in hot().take(FEW).enumerate().filter(|(at, _)| age(*at) != "old") {
        keyspace.put(key(n), value(n, age(at))).unwrap();
    }
    keyspace.delete(key(60)).unwrap();
    keyspace.delete_range(key(120), key(241)).unwrap();
    db.close().unwrap();
    for opening in 0..3 {
        let (db, keyspace) = store.open();
        assert!(opening > 0 || count(&db, "warm_start.values") == FEW as u64);
        for (at, n) in hot().take(FEW).enumerate() {
            let is_there = !(60..=240).contains(&n);
            let wanted = is_there.then(|| value(n, age(at)).into_bytes());
            let found = keyspace.get(key(n)).unwrap().map(|value| value.to_vec());
            assert_eq!(found, wanted, "{n}, opening {opening}");
        }
        db.close().unwrap();
    }
}

/// A flush reports its entries to the caches, and fails.
#[test]
fn values_that_reached_no_table_are_not_listed() {
    let store = Store::new(VALUES);
    let (db, keyspace) = store.open_hot();
    hot().for_each(|n| keyspace.put(key(n), value(n, "new")).unwrap());
    store.disk.add_fault(FaultRule {
        operation: Some(Operation::Sync),
        path_contains: Some(".table".to_owned()),
        skip: 0,
        times: None,
        fault: Fault::Fail(tidekv_io::ErrorKind::Failed),
    });
    keyspace.flush().unwrap_err();
    store.disk.clear_faults();
    // Ingested data is in a table, but that does not put earlier writes into tables.
    keyspace.ingest([("other", "ingested")]).unwrap();
    assert_hot(&keyspace, "new");
    db.close().unwrap();
    assert!(store.list_has(&key(0)) && !store.list_has("new 0 v"));
    let (_, keyspace) = store.open();
    assert_hot(&keyspace, "new");
}

#[test]
fn values_of_other_tables_are_not_restored() {
    let store = Store::new(VALUES);
    heat_few(&store);
    let list = store.list().unwrap();
    // A run without warm start in between.
    let (db, keyspace) = store.open_with(|options| options.warm_start = false);
    hot().for_each(|n| keyspace.put(key(n), value(n, "new")).unwrap());
    keyspace.flush().unwrap();
    db.close().unwrap();
    assert_eq!(store.list(), None, "warm start is off");
    store.put_list(&list);
    assert!(store.list_has("old 0 v"));
    let (db, keyspace) = store.open();
    // They are of no use any more.
    assert!(store.list_has(&key(0)) && !store.list_has("old 0 v"));
    // They are read by their keys instead.
    assert_eq!(count(&db, "warm_start.values"), FEW as u64);
    let reads = count(&db, "io.reads");
    for n in hot().take(FEW) {
        assert_eq!(keyspace.get(key(n)).unwrap().unwrap(), value(n, "new").as_bytes());
    }
    assert_eq!(count(&db, "io.reads"), reads);
}

/// A store that equals another one in everything except its values: a copy of a checkpoint that
/// diverged.
#[test]
fn values_of_a_diverged_copy_are_not_restored() {
    let (store, twin) = (Store::new(VALUES), Store::holding("odd", VALUES));
    heat_few(&store);
    twin.put_list(&store.list().unwrap());
    let (_, keyspace) = twin.open();
    for n in hot().take(FEW) {
        assert_eq!(keyspace.get(key(n)).unwrap().unwrap(), value(n, "odd").as_bytes());
    }
}

/// The same, with a difference only in deletions.
#[test]
fn entries_deleted_in_a_diverged_copy_are_not_restored() {
    let [store, twin] = [(1, 9), (2, 8)].map(|(first, second)| {
        let store = Store::new(VALUES);
        let (db, keyspace) = store.open();
        keyspace.delete_range(key(first * 60), key(first * 60 + 1)).unwrap();
        keyspace.delete_range(key(second * 60), key(second * 60 + 1)).unwrap();
        keyspace.flush().unwrap();
        db.close().unwrap();
        store
    });
    let (db, keyspace) = store.open();
    for n in (0..5).flat_map(|_| hot().take(FEW)) {
        assert_eq!(keyspace.get(key(n)).unwrap().is_none(), n == 60 || n == 540);
    }
    db.close().unwrap();
    twin.put_list(&store.list().unwrap());
    let (_, keyspace) = twin.open();
    for n in hot().take(FEW) {
        assert_eq!(keyspace.get(key(n)).unwrap().is_none(), n == 120 || n == 480, "{n}");
    }
}

#[test]
fn expired_value_is_not_restored() {
    let store = Store::new(VALUES);
    let (db, keyspace) = store.open();
    for n in hot().take(FEW) {
        keyspace.put_with_ttl(key(n), value(n, "old"), Duration::from_secs(1)).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    heat_few(&store);
    for is_over in [false, true] {
        let (db, keyspace) = store.open();
        assert_eq!(count(&db, "warm_start.values"), FEW as u64);
        for n in hot().take(FEW) {
            assert_eq!(keyspace.get(key(n)).unwrap().is_some(), !is_over, "{n}");
        }
        db.close().unwrap();
        store.clock.advance(Duration::from_millis(1001));
    }
}

#[test]
fn pointers_into_other_tables_are_not_restored() {
    let store = Store::new(POINTERS);
    let (db, _) = store.open_hot();
    db.close().unwrap();
    let list = store.list().unwrap();
    // A run without warm start in between.
    let (db, keyspace) = store.open_with(|options| options.warm_start = false);
    hot().for_each(|n| keyspace.put(key(n), value(n, "new")).unwrap());
    keyspace.flush().unwrap();
    db.close().unwrap();
    store.put_list(&list);
    let (db, keyspace) = store.open();
    assert_eq!(count(&db, "warm_start.pointers"), 0);
    assert_hot(&keyspace, "new");
}

/// The jobs of warm start once took the lock that closing holds while it waits for them.
#[test]
fn store_can_be_closed_during_warm_start() {
    let store = Store::new(CachePolicy::Fixed { kv: 30, kp: 0 });
    let (db, keyspace) = store.open_hot();
    (0..ENTRIES).for_each(|n| drop(keyspace.get(key(n)).unwrap()));
    db.close().unwrap();
    let list = store.list().unwrap();
    for _ in 0..100 {
        let (db, _) = store.open_with(|options| options.environment.executor = None);
        within(30, move || db.close().unwrap())
            .expect("closing does not wait for jobs that wait for it");
        assert_eq!(store.list().as_ref(), Some(&list), "a short run keeps the list");
    }
}

#[test]
fn short_run_with_less_memory_keeps_the_list() {
    let store = Store::new(CachePolicy::Adaptive);
    let (db, _) = store.open_hot();
    db.close().unwrap();
    let list = store.list().unwrap();
    for bytes in [0, 70 << 10] {
        let (db, keyspace) = store.open_with(|options| options.research().cache_bytes_max = bytes);
        assert!(keyspace.get(key(1)).unwrap().is_some());
        db.close().unwrap();
        assert_eq!(store.list().as_ref(), Some(&list), "{bytes}");
    }
    // A run that has read more than the list names writes a better one.
    let (db, keyspace) = store.open_with(|options| options.research().cache_bytes_max = 70 << 10);
    (0..ENTRIES).for_each(|n| drop(keyspace.get(key(n)).unwrap()));
    db.close().unwrap();
    assert_ne!(store.list(), Some(list));
}

#[test]
fn hottest_entries_are_restored_first() {
    let store = Store::new(CachePolicy::Fixed { kv: 80, kp: 0 });
    let (db, keyspace) = store.open_with(|options| {
        options.research().cache_bytes_max = 512 << 10;
        // All names fit into the list.
        options.research().hot_list_share = 10;
    });
    (0..6).for_each(|_| assert_hot(&keyspace, "old"));
    (0..ENTRIES).step_by(4).for_each(|n| drop(keyspace.get(key(n)).unwrap()));
    assert_hot(&keyspace, "old");
    assert!(count(&db, "cache.kv.entries") > 1000);
    db.close().unwrap();
    // The store changes, so that values must be read.
    let list = store.list().unwrap();
    let (db, keyspace) = store.open_with(|options| options.warm_start = false);
    keyspace.put("other", "new").unwrap();
    keyspace.flush().unwrap();
    db.close().unwrap();
    store.put_list(&list);
    // Now some of them fit.
    let (db, keyspace) = store.open_with(|options| options.research().cache_bytes_max = 200 << 10);
    assert!(
        (100..1000).contains(&count(&db, "warm_start.values")),
        "{}",
        count(&db, "warm_start.values")
    );
    let hits = count(&db, "cache.kv.hits");
    assert_hot(&keyspace, "old");
    let hits = count(&db, "cache.kv.hits") - hits;
    assert!(hits > HOT as u64 * 9 / 10, "{hits} of {HOT}");
}

/// Runs jobs at once, but keeps delayed ones.
#[derive(Debug, Default)]
struct Later {
    inline: InlineExecutor,
    kept: Kept,
}

#[derive(Default)]
struct Kept(Mutex<Vec<Job>>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl Executor for Later {
    fn execute(&self, priority: Priority, job: Job) {
        self.inline.execute(priority, job);
    }

    fn execute_later(&self, _: Duration, job: Job) {
        self.kept.0.lock().unwrap().push(job);
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn shutdown(&self) {
        self.kept.0.lock().unwrap().clear();
        self.inline.shutdown();
    }

    fn is_inline(&self) -> bool {
        true
    }
}

/// Otherwise KV would never get its lent budget back, and neither would the next run.
#[test]
fn kv_lends_unused_budget_and_gets_it_back() {
    let store = Store::new(CachePolicy::Adaptive);
    let open = |adjust: &dyn Fn(&mut Options)| {
        store.open_with(|options| {
            options.research().cache_bytes_max = 2 << 20;
            adjust(options);
        })
    };
    let kv_bytes = |db: &Db| count(db, "cache.kv.bytes_max");
    let (db, keyspace) = open(&|_| {});
    let many = 6 * ENTRIES;
    (ENTRIES..many).for_each(|n| keyspace.put(key(n), value(n, "old")).unwrap());
    db.compact().unwrap();
    let ask = |keyspace: &Keyspace| {
        (0..many).step_by(10).for_each(|n| drop(keyspace.get(key(n)).unwrap()));
    };
    (0..40).for_each(|_| ask(&keyspace));
    let before = kv_bytes(&db);
    assert!(before > 400 << 10, "{before}");
    db.close().unwrap();
    // One piece is restored, and the next one has to wait.
    let (db, keyspace) = open(&|options| {
        options.compaction_bytes_per_s = Some(1);
        options.environment.executor = Some(Arc::new(Later::default()));
    });
    assert!(count(&db, "warm_start.blocks") > 0);
    assert!(kv_bytes(&db) < before / 2, "{} bytes of {before}", kv_bytes(&db));
    (0..2).for_each(|_| ask(&keyspace));
    db.close().unwrap();
    // The list of this run is restored all at once.
    let (db, _) = open(&|_| {});
    assert!(count(&db, "warm_start.values") > 0);
    assert!(kv_bytes(&db) > before * 3 / 4, "{} bytes of {before}", kv_bytes(&db));
}

/// The list comes from a run with far more memory.
#[test]
fn oversized_hot_list_is_not_read() {
    let store = Store::new(CachePolicy::Adaptive);
    let long = vec![7; 3 << 20];
    for (memory_bytes, is_read) in [(8 << 20, false), (64 << 20, true)] {
        store.disk.write_file(list_path(), &long);
        store.disk.record_history(true);
        let (db, _) = store.open_with(|options| options.memory_bytes = Some(memory_bytes));
        let of_list =
            |kind| move |one: &&OperationRecord| one.operation == kind && one.path == list_path();
        let history = store.disk.history();
        assert!(history.iter().any(|one| of_list(Operation::Open)(&one)));
        assert_eq!(history.iter().any(|one| of_list(Operation::Read)(&one)), is_read);
        db.close().unwrap();
        assert_eq!(store.list().is_some_and(|list| list == long), !is_read);
    }
}

#[test]
fn damaged_hot_list_is_ignored() {
    let store = Store::new(CachePolicy::Adaptive);
    let (db, _) = store.open_hot();
    db.close().unwrap();
    let list = store.list().unwrap();
    for at in [0, 9, 20, list.len() - 1] {
        let mut damaged = list.clone();
        damaged[at] ^= 1;
        store.put_list(&damaged);
        let (db, keyspace) = store.open();
        let counts =
            ["blocks", "values", "pointers"].map(|of| count(&db, &format!("warm_start.{of}")));
        assert_eq!(counts, [0; 3]);
        assert_hot(&keyspace, "old");
    }
}
