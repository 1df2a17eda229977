//! Cuckoo filters: absent keys that are looked up again and again stop costing reads, present keys
//! are always found, and repairs outlive the process.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use support::{DIRECTORY, Limits, START_MS, count, options};
use tidekv::check::check;
use tidekv::inspect::Inspector;
use tidekv::{Db, FilterKind, Keyspace, KeyspaceOptions};
use tidekv_cache::CachePolicy;
use tidekv_io::{ManualClock, MemoryStorage, Tear};

const ROOMY: Limits = Limits { memtable_bytes: 1 << 20, table_bytes: 256 << 10 };
const ENTRIES: u64 = 20_000;
const ABSENT: u64 = 20_000;

struct Store {
    disk: MemoryStorage,
    clock: Arc<ManualClock>,
}

impl Store {
    /// A store with entries in tables.
    fn new() -> Self {
        let store = Self::empty();
        let (db, keyspace) = store.open();
        (0..ENTRIES).for_each(|n| keyspace.put(key(n), [b'v'; 20]).unwrap());
        db.compact().unwrap();
        db.close().unwrap();
        store
    }

    fn empty() -> Self {
        Self { disk: MemoryStorage::new(), clock: Arc::new(ManualClock::new(START_MS)) }
    }

    /// A copy of the disk as after a power loss at this moment.
    fn after_power_loss(&self, tear: Tear) -> Self {
        Self { disk: self.disk.after_power_loss(tear), clock: Arc::clone(&self.clock) }
    }

    fn open(&self) -> (Db, Keyspace) {
        self.open_with(true)
    }

    fn open_with(&self, warm_start: bool) -> (Db, Keyspace) {
        let mut options = options(&self.disk, &self.clock, ROOMY).warm_start(warm_start);
        options.cache_policy = CachePolicy::BlockOnly.into();
        options.research().cache_bytes_max = 1 << 20;
        let db = Db::open(DIRECTORY, options).unwrap();
        let filter_kind = FilterKind::Cuckoo;
        let of_keyspace = KeyspaceOptions::default().filter_kind(filter_kind);
        let keyspace = db.keyspace_with("k", of_keyspace).unwrap();
        (db, keyspace)
    }

    /// Looks up absent keys; returns the number of false positives.
    fn flood(&self, db: &Db, keyspace: &Keyspace) -> u64 {
        let before = count(db, "filter.false_positives");
        for n in 0..ABSENT {
            assert_eq!(keyspace.get(absent(n)).unwrap(), None);
            // Leaves time for repairs.
            self.clock.advance(Duration::from_millis(1));
        }
        count(db, "filter.false_positives") - before
    }

    fn list(&self) -> Option<Vec<u8>> {
        self.disk.read_file(list_path())
    }
}

fn list_path() -> PathBuf {
    Path::new(DIRECTORY).join("FILTER-REPAIRS")
}

fn key(n: u64) -> String {
    format!("key-{n:06}")
}

/// Between two present keys.
fn absent(n: u64) -> String {
    format!("key-{n:06}-not")
}

fn assert_all_there(keyspace: &Keyspace) {
    for n in 0..ENTRIES {
        assert!(keyspace.contains(key(n)).unwrap(), "{n}");
    }
}

#[test]
fn repeated_absent_keys_stop_costing_reads() {
    let store = Store::new();
    let (db, keyspace) = store.open();
    let floods: Vec<u64> = (0..4).map(|_| store.flood(&db, &keyspace)).collect();
    let rate = floods[0] as f64 / ABSENT as f64;
    assert!((0.003..0.012).contains(&rate), "{floods:?}: {rate} of absent keys pass");
    // The second time they are repaired; a few need longer, because the repair of another key has
    // replaced theirs.
    assert!(floods[1] >= floods[0] * 9 / 10, "{floods:?}");
    assert!(floods[3] <= floods[0] / 20, "{floods:?}");
    let (repairs, reads) = (count(&db, "filter.repairs"), count(&db, "filter.repair_reads"));
    assert!(repairs >= floods[0] * 9 / 10 && repairs <= floods[0] * 12 / 10, "{repairs}");
    assert!(reads >= repairs && reads <= repairs * 2, "{reads} reads for {repairs} repairs");
    assert_eq!(count(&db, "filter.repair_failures") + count(&db, "filter.repairs_dropped"), 0);
    assert_all_there(&keyspace);
}

/// Operations of the store itself must not count as false positives of its filters.
#[test]
fn invisible_versions_are_not_false_positives() {
    let store = Store::new();
    let (db, keyspace) = store.open();
    let snapshot = db.snapshot();
    (ENTRIES..ENTRIES + 2000).for_each(|n| keyspace.put(key(n), "new").unwrap());
    keyspace.flush().unwrap();
    for _ in 0..3 {
        (ENTRIES..ENTRIES + 2000).for_each(|n| {
            assert_eq!(snapshot.get(&keyspace, key(n)).unwrap(), None);
        });
    }
    assert_eq!(count(&db, "filter.false_positives"), 0);
    (0..ENTRIES).step_by(2).for_each(|n| keyspace.delete(key(n)).unwrap());
    keyspace.flush().unwrap();
    for _ in 0..3 {
        (0..ENTRIES).step_by(2).for_each(|n| assert_eq!(keyspace.get(key(n)).unwrap(), None));
    }
    assert_eq!(count(&db, "filter.false_positives"), 0);
}

#[test]
fn repairs_stay_within_their_rate() {
    let store = Store::new();
    let (db, keyspace) = store.open();
    for _ in 0..2 {
        // No time passes.
        (0..ABSENT).for_each(|n| assert_eq!(keyspace.get(absent(n)).unwrap(), None));
    }
    let repairs = count(&db, "filter.repairs");
    assert!((1..=32).contains(&repairs), "{repairs}");
}

#[test]
fn filter_repairs_survive_a_restart() {
    let store = Store::new();
    let (db, keyspace) = store.open();
    let floods: Vec<u64> = (0..3).map(|_| store.flood(&db, &keyspace)).collect();
    db.close().unwrap();
    let list = store.list().expect("a list");
    assert!(list.len() as u64 > floods[0] * 6 && (list.len() as u64) < floods[0] * 12);
    let (db, keyspace) = store.open();
    assert!(store.flood(&db, &keyspace) <= floods[0] / 20);
    assert_all_there(&keyspace);
    db.close().unwrap();
    assert_eq!(store.list().expect("a list").len(), list.len());

    // A process that uses no list from a previous run leaves none for the next.
    let (db, keyspace) = store.open_with(false);
    assert!(store.flood(&db, &keyspace) >= floods[0] * 9 / 10);
    db.close().unwrap();
    assert_eq!(store.list(), None);
    store.disk.write_file(list_path(), &list);

    // A process that is killed leaves the previous list in place.
    let (db, keyspace) = store.open();
    keyspace.put("other", "value").unwrap();
    let crashed = store.after_power_loss(Tear::DropUnsynced);
    drop((db, keyspace));
    crashed.disk.write_file(list_path(), &list);
    let (db, keyspace) = crashed.open();
    assert!(crashed.flood(&db, &keyspace) <= floods[0] / 20);
    assert_all_there(&keyspace);
}

/// A list applied to the wrong table would hide keys.
#[test]
fn repair_list_of_another_store_or_other_tables_is_ignored() {
    let store = Store::new();
    let (db, keyspace) = store.open();
    let floods: Vec<u64> = (0..3).map(|_| store.flood(&db, &keyspace)).collect();
    db.close().unwrap();
    let list = store.list().expect("a list");

    // The same numbers of tables, in a store with a different identity.
    let other = Store::empty();
    let (db, keyspace) = other.open();
    (1..=ENTRIES).for_each(|n| keyspace.put(key(n), [b'w'; 20]).unwrap());
    db.compact().unwrap();
    db.close().unwrap();
    other.disk.write_file(list_path(), &list);
    let (db, keyspace) = other.open();
    assert!((1..=ENTRIES).all(|n| keyspace.contains(key(n)).unwrap()));
    assert!(other.flood(&db, &keyspace) >= floods[0] / 2, "nothing was known");

    // The same store, whose tables were merged into others.
    let (db, keyspace) = store.open();
    (0..ENTRIES).step_by(3).for_each(|n| keyspace.put(key(n), "again").unwrap());
    db.compact().unwrap();
    db.close().unwrap();
    store.disk.write_file(list_path(), &list);
    let (db, keyspace) = store.open();
    assert_all_there(&keyspace);
    assert!(store.flood(&db, &keyspace) >= floods[0] / 2);
}

/// Power is lost at every operation of a shutdown that writes the list, with torn writes.
#[test]
fn power_cut_while_writing_the_repair_list_hides_no_key() {
    let store = Store::new();
    let (db, keyspace) = store.open();
    for _ in 0..3 {
        store.flood(&db, &keyspace);
    }
    db.close().unwrap();
    let mut lists = [0; 2];
    for step in 0..200 {
        for tear in [Tear::DropUnsynced, Tear::Torn { seed: step }] {
            let life = store.after_power_loss(Tear::KeepUnsynced);
            let (db, keyspace) = life.open();
            keyspace.put("other", "value").unwrap();
            let begun = life.disk.operations();
            life.disk.cut_power_at(begun + step);
            let closed = db.close();
            drop((db, keyspace));
            let after = life.after_power_loss(tear);
            lists[usize::from(after.list().is_some())] += 1;
            let (db, keyspace) = after.open();
            for n in (0..ENTRIES).step_by(7) {
                assert!(keyspace.contains(key(n)).unwrap(), "{n} after a cut at {step}");
            }
            db.close().unwrap();
            if closed.is_ok() && after.list().is_some() && step > 50 {
                assert!(lists[0] > 0 && lists[1] > 0, "cuts on both sides: {lists:?}");
                return;
            }
        }
    }
    panic!("no shutdown came to its end");
}

#[test]
fn damaged_mirrors_hide_no_key_and_are_reported() {
    let store = Store::new();
    let inspector = Inspector::new(DIRECTORY, Some(Arc::new(store.disk.clone()))).unwrap();
    let tables = store.disk.paths().into_iter().filter_map(|path| {
        let number = path.file_stem()?.to_str()?.parse().ok()?;
        path.extension().is_some_and(|it| it == "table").then_some((path, number))
    });
    for (path, number) in tables.collect::<Vec<_>>() {
        let mut bytes = store.disk.read_file(&path).unwrap();
        let blocks = inspector.table(number).unwrap().blocks;
        let mirrors = blocks.iter().filter(|block| block.kind == "mirror");
        assert!(mirrors.clone().count() > 0);
        mirrors.for_each(|block| bytes[block.offset as usize + 7] ^= 1);
        store.disk.write_file(&path, &bytes);
    }
    let (db, keyspace) = store.open();
    let floods: Vec<u64> = (0..3).map(|_| store.flood(&db, &keyspace)).collect();
    assert!(floods[2] >= floods[0] * 9 / 10, "no filter could be repaired: {floods:?}");
    assert!(count(&db, "filter.repair_failures") > 0);
    assert_all_there(&keyspace);
    db.close().unwrap();
    let report = check(DIRECTORY, Some(Arc::new(store.disk.clone())), &mut |_| {}).unwrap();
    assert!(report.damage.iter().any(|it| it.message.contains("checksum")), "{report:?}");
}
