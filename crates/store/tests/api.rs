//! Promises of the public API that no other test makes its subject: builders, identity of handles,
//! lifetimes of snapshots, existence of keyspaces, expiry in every way of writing, types of keys.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tidekv::{
    CachePolicy, Commit, Compression, Db, Durability, Environment, Error, ErrorKind, Fault,
    FaultRule, FilterKind, InlineExecutor, Keyspace, KeyspaceOptions, ManualClock, MemoryStorage,
    Options, SeededRandom, Snapshot, Statistics, Transaction, WriteBatch,
};
use tidekv_io::{ErrorKind as StorageError, Operation};

const START_MS: u64 = 1_000_000;

fn environment(disk: &Arc<MemoryStorage>, clock: &Arc<ManualClock>) -> Environment {
    Environment::default()
        .storage(disk.clone())
        .clock(clock.clone())
        .random(Arc::new(SeededRandom::new(1)))
        .executor(Arc::new(InlineExecutor::new()))
}

fn options(disk: &Arc<MemoryStorage>) -> Options {
    let clock = Arc::new(ManualClock::new(START_MS));
    Options::new().memory_bytes(8 << 20).environment(environment(disk, &clock))
}

fn store() -> Db {
    Db::open("/data", options(&Arc::new(MemoryStorage::new()))).unwrap()
}

#[test]
fn options_keep_what_their_builder_is_given() {
    let options = Options::new()
        .memory_bytes(32 << 20)
        .durability(Durability::Sync)
        .create_if_missing(false)
        .read_only(true)
        .direct_io(false)
        .compaction_threads(3)
        .compaction_bytes_per_s(7 << 20)
        .memtable_bytes(1 << 20)
        .table_bytes(2 << 20)
        .cache_policy(CachePolicy::Fixed { kv: 20, kp: 10 })
        .cross_check(true)
        .warm_start(false);
    assert_eq!(options.memory_bytes, Some(32 << 20));
    assert_eq!(options.durability, Durability::Sync);
    assert!(!options.create_if_missing);
    assert!(options.read_only);
    assert!(!options.direct_io);
    assert_eq!(options.compaction_threads, Some(3));
    assert_eq!(options.compaction_bytes_per_s, Some(7 << 20));
    assert_eq!(options.memtable_bytes, Some(1 << 20));
    assert_eq!(options.table_bytes, 2 << 20);
    assert_eq!(options.cache_policy, CachePolicy::Fixed { kv: 20, kp: 10 });
    assert!(options.cross_check);
    assert!(!options.warm_start);
}

#[test]
fn option_defaults_are_as_documented() {
    let options = Options::new();
    assert_eq!(options.memory_bytes, None);
    assert_eq!(options.durability, Durability::Buffered);
    assert!(options.create_if_missing && !options.read_only && options.direct_io);
    assert_eq!(options.table_bytes, 64 << 20);
    assert_eq!(options.cache_policy, CachePolicy::Adaptive);
    assert!(options.warm_start && !options.cross_check);
    let environment = options.environment;
    assert!(environment.storage.is_none() && environment.clock.is_none());
    assert!(environment.random.is_none() && environment.executor.is_none());
    assert!(environment.secondary_cache.is_none());
}

#[test]
fn environment_keeps_what_its_builder_is_given() {
    let disk = Arc::new(MemoryStorage::new());
    let environment = environment(&disk, &Arc::new(ManualClock::new(77)));
    assert_eq!(environment.clock.unwrap().unix_ms(), 77);
    assert!(environment.random.is_some() && environment.executor.is_some());
    disk.write_file("/file", b"content");
    assert!(environment.storage.unwrap().exists("/file".as_ref()).unwrap());
    let db = Db::open("/data", options(&disk)).unwrap();
    assert_eq!(db.unix_ms(), START_MS, "the store goes by the clock that it was given");
}

#[test]
fn keyspace_options_keep_what_their_builder_is_given_and_survive_reopening() {
    let given = KeyspaceOptions::new()
        .compression(Compression::None)
        .compression_last(Compression::None)
        .block_bytes(8192)
        .filter_bits_per_key(12)
        .filter_kind(FilterKind::Cuckoo)
        .default_ttl(Duration::from_millis(1500));
    assert_eq!(given.block_bytes, 8192);
    assert_eq!(given.filter_bits_per_key, 12);
    assert_eq!(given.filter_kind, FilterKind::Cuckoo);
    assert_eq!(given.default_ttl, Some(Duration::from_millis(1500)));

    let disk = Arc::new(MemoryStorage::new());
    let db = Db::open("/data", options(&disk)).unwrap();
    assert_eq!(db.keyspace_with("a", given.clone()).unwrap().options(), given);
    assert_eq!(db.keyspace("a").unwrap().options(), given, "`keyspace` changes no options");
    assert_eq!(db.keyspace("b").unwrap().options(), KeyspaceOptions::new());
    db.close().unwrap();
    let db = Db::open("/data", options(&disk)).unwrap();
    assert_eq!(db.keyspace("a").unwrap().options(), given);
}

#[test]
fn codecs_that_the_build_lacks_are_refused() {
    let db = store();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let keyspace = db.keyspace_with("a", KeyspaceOptions::new().compression_last(compression));
        assert_eq!(keyspace.is_ok(), compression.is_available(), "{compression:?}");
    }
}

#[test]
#[allow(clippy::mutable_key_type, reason = "name and store, which are hashed, never change")]
fn handles_of_one_keyspace_are_equal_and_of_two_are_not() {
    let (db, other_store) = (store(), store());
    let a = db.keyspace("a").unwrap();
    assert_eq!(a, db.keyspace("a").unwrap());
    assert_eq!(a, db.existing_keyspace("a").unwrap());
    assert_eq!(a, a.clone());
    let changed = db.keyspace_with("a", KeyspaceOptions::new().block_bytes(1024)).unwrap();
    assert_eq!(a, changed, "options are no part of the identity");
    assert_ne!(a, db.keyspace("b").unwrap());
    assert_ne!(a, other_store.keyspace("a").unwrap());

    let handles: HashSet<Keyspace> = [
        a.clone(),
        a,
        db.keyspace("a").unwrap(),
        db.keyspace("b").unwrap(),
        other_store.keyspace("a").unwrap(),
    ]
    .into();
    assert_eq!(handles.len(), 3);
}

#[test]
fn clones_of_a_snapshot_share_a_moment_that_the_last_drop_releases() {
    let db = store();
    let keyspace = db.keyspace("a").unwrap();
    keyspace.put("key", "old").unwrap();
    let snapshot = db.snapshot();
    keyspace.put("key", "new").unwrap();
    let clone = snapshot.clone();
    let versions_after_compaction = || {
        db.compact().unwrap();
        keyspace.approximate_len()
    };
    assert_eq!(versions_after_compaction(), 2, "the snapshot keeps the old version");
    drop(snapshot);
    assert_eq!(versions_after_compaction(), 2, "the clone keeps it as well");
    assert_eq!(clone.get(&keyspace, "key").unwrap().unwrap(), "old");
    drop(clone);
    assert_eq!(versions_after_compaction(), 1, "nothing keeps it any more");
    assert_eq!(keyspace.get("key").unwrap().unwrap(), "new");
}

#[test]
fn asking_for_a_keyspace_does_not_create_it() {
    let disk = Arc::new(MemoryStorage::new());
    let db = Db::open("/data", options(&disk)).unwrap();
    assert!(!db.has_keyspace("a"));
    assert!(db.existing_keyspace("a").is_none());
    assert_eq!(db.keyspace_names(), [""; 0]);
    db.keyspace("a").unwrap().put("key", "value").unwrap();
    assert!(db.has_keyspace("a"));
    assert!(!db.has_keyspace("A"), "names are compared bytewise");
    assert_eq!(db.existing_keyspace("a").unwrap().get("key").unwrap().unwrap(), "value");
    db.close().unwrap();

    let db = Db::open("/data", options(&disk).read_only(true)).unwrap();
    assert!(db.has_keyspace("a") && !db.has_keyspace("b"));
    assert!(db.keyspace("a").is_ok());
    assert_eq!(db.keyspace("b").unwrap_err().kind(), tidekv::ErrorKind::Unavailable);
    assert_eq!(db.keyspace_names(), ["a"]);
}

#[test]
fn a_time_to_live_ends_on_the_millisecond_in_every_way_of_writing() {
    let clock = Arc::new(ManualClock::new(START_MS));
    let disk = Arc::new(MemoryStorage::new());
    let options = Options::new().environment(environment(&disk, &clock)).memory_bytes(8 << 20);
    let db = Db::open("/data", options).unwrap();
    let keyspace = db.keyspace("plain").unwrap();
    let ttl = Duration::from_millis(5000);
    let with_default = KeyspaceOptions::new().default_ttl(ttl);
    let with_default = db.keyspace_with("with-default", with_default).unwrap();

    keyspace.put_with_ttl("keyspace", "value", ttl).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_with_ttl(&keyspace, "batch", "value", ttl);
    batch.put_until(&keyspace, "deadline", "value", START_MS + 5000);
    batch.put(&with_default, "batch", "value");
    db.write(batch).unwrap();
    with_default.put("keyspace", "value").unwrap();
    let mut transaction = db.transaction();
    transaction.put_with_ttl(&keyspace, "transaction", "value", ttl);
    transaction.put(&with_default, "transaction", "value");
    transaction.put_without_ttl(&with_default, "forever", "value");
    assert_eq!(transaction.commit(Durability::Buffered).unwrap(), Commit::Done);

    let written = [
        (&keyspace, "keyspace"),
        (&keyspace, "batch"),
        (&keyspace, "deadline"),
        (&keyspace, "transaction"),
        (&with_default, "batch"),
        (&with_default, "keyspace"),
        (&with_default, "transaction"),
    ];
    clock.advance(Duration::from_millis(4999));
    for (keyspace, key) in written {
        let entry = keyspace.get_entry(key).unwrap().unwrap_or_else(|| panic!("{key} is gone"));
        assert_eq!(entry.expires_at_ms, Some(START_MS + 5000), "{key}");
    }
    assert_eq!(keyspace.iter().count() + with_default.iter().count(), written.len() + 1);
    clock.advance(Duration::from_millis(1));
    for (keyspace, key) in written {
        assert_eq!(keyspace.get(key).unwrap(), None, "{key}");
    }
    assert_eq!(keyspace.iter().count() + with_default.iter().count(), 1, "all but `forever`");
}

#[test]
#[allow(clippy::unnecessary_to_owned, reason = "owned keys and values are the subject")]
fn keys_and_values_may_be_of_any_type_with_bytes() {
    let db = store();
    let keyspace = db.keyspace("a").unwrap();
    let value = Some(b"value".to_vec());
    let get = |key: &[u8]| keyspace.get(key).unwrap().map(|value| value.to_vec());

    keyspace.put("str", "value").unwrap();
    keyspace.put(String::from("string"), String::from("value")).unwrap();
    keyspace.put(b"array", b"value").unwrap();
    keyspace.put(vec![b'v', b'e', b'c'], b"value".to_vec()).unwrap();
    keyspace.put(&b"slice"[..], &b"value"[..]).unwrap();
    keyspace.put(tidekv::Bytes::from_static(b"bytes"), tidekv::Bytes::from("value")).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "batch", String::from("value"));
    batch.delete(&keyspace, String::from("absent"));
    batch.delete_range(&keyspace, "x", vec![b'y']);
    db.write(batch).unwrap();
    let mut transaction = db.transaction();
    transaction.put(&keyspace, vec![b't'], "value");
    assert_eq!(transaction.get(&keyspace, "t").unwrap().unwrap().value, "value");
    assert_eq!(transaction.commit(Durability::Buffered).unwrap(), Commit::Done);

    for key in ["str", "string", "array", "vec", "slice", "bytes", "batch", "t"] {
        assert_eq!(get(key.as_bytes()), value, "{key}");
        assert!(keyspace.contains(key.to_owned()).unwrap());
        assert_eq!(db.snapshot().get(&keyspace, key).unwrap().unwrap(), "value");
    }
    assert_eq!(keyspace.multi_get(&["str", "none"]).unwrap().iter().flatten().count(), 1);
    assert_eq!(keyspace.multi_get(&[b"str".to_vec()]).unwrap().len(), 1);
    assert_eq!(keyspace.range("a".."c").count(), 3);
    assert_eq!(keyspace.range(String::from("t")..).count(), 2);
    assert_eq!(keyspace.range::<&[u8]>(..).count(), 8);
    assert_eq!(keyspace.prefix("st").count(), 2);
    assert_eq!(keyspace.prefix(vec![b's']).count(), 3);
}

#[test]
fn handles_can_be_shared_by_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Db>();
    shared::<Keyspace>();
    shared::<Snapshot>();
    shared::<WriteBatch>();
    shared::<Options>();
    shared::<Statistics>();
    shared::<Error>();
    sent::<Transaction>();
    sent::<tidekv::Iter>();
}

/// The health of a store was that of its last flush and compaction alone: a store whose log was
/// lost, and a closed one, called themselves healthy while every write failed.
#[test]
fn health_reports_lost_logs_and_closed_stores() {
    let disk = MemoryStorage::new();
    let environment = Environment::default().storage(Arc::new(disk.clone()));
    let db = Db::open("data", Options::new().environment(environment)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    db.health().unwrap();
    db.resume().unwrap();

    disk.add_fault(
        FaultRule::always(Operation::Sync, Fault::Fail(StorageError::Failed)).on_path(".log"),
    );
    db.sync().unwrap_err();
    disk.clear_faults();
    keyspace.put("b", "2").unwrap_err();
    db.health().unwrap_err();

    let _ = db.close();
    assert_eq!(db.health().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.resume().unwrap_err().kind(), ErrorKind::Closed);
}
