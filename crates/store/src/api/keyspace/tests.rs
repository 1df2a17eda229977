//! What a reader sees that began long ago.

use tidekv_cache::CachePolicy;
use tidekv_io::{InlineExecutor, MemoryStorage};

use super::*;
use crate::{Db, Environment, Options};

/// A store whose only cache is KV, with `a` in its last level.
fn store_of_values() -> (Db, Keyspace) {
    let environment = Environment::default()
        .storage(Arc::new(MemoryStorage::new()))
        .executor(Arc::new(InlineExecutor::new()));
    let cache_policy = CachePolicy::Fixed { kv: 100, kp: 0 };
    let options = Options::default()
        .memory_bytes(8 << 20)
        .cache_policy(cache_policy)
        .environment(environment);
    let db = Db::open("db", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "old").unwrap();
    keyspace.compact_range::<&str>(..).unwrap();
    (db, keyspace)
}

/// A read of many keys asks for each after the other: meanwhile the later ones can be written,
/// flushed, compacted, which takes away their sequences, and brought into KV by others.
#[test]
fn a_version_without_a_sequence_is_not_older_than_its_flush() {
    let (_db, keyspace) = store_of_values();

    let begun = keyspace.begin_read(None, |keys| keys.prepare(b"a"));
    keyspace.put("a", "new").unwrap();
    keyspace.compact_range::<&str>(..).unwrap();
    let is_new = |value: Option<Bytes>| value.as_deref() == Some(b"new");
    assert!(is_new(keyspace.get("a").unwrap()));
    let hits = || keyspace.engine().memory.caches().point().stats().kv_hits;
    let before = hits();
    assert!(is_new(keyspace.get("a").unwrap()) && hits() > before, "it is in KV");

    let old = point_read::read_many(
        [PointRead::new(begun.lookup(begun.keys), None)].into_iter(),
        &keyspace.engine().reads,
    );
    let value = old.unwrap().remove(0).map(|resolved| resolved.payload.into_bytes());
    assert_eq!(value.as_deref(), Some(&b"old"[..]));
}

/// With a snapshot that lives, sequences that it does not see stay: KV goes on to answer it.
#[test]
fn a_snapshot_is_answered_from_values_after_a_flush() {
    let (db, keyspace) = store_of_values();
    let snapshot = db.snapshot();
    keyspace.put("b", "new").unwrap();
    keyspace.compact_range::<&str>(..).unwrap();
    keyspace.get("a").unwrap();
    let hits = || keyspace.engine().memory.caches().point().stats().kv_hits;
    let before = hits();
    assert_eq!(snapshot.get(&keyspace, "a").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(hits(), before + 1);
}
