//! What the caches would get wrong if they were told wrong.

use std::sync::Arc;

use tidekv_cache::KvEntry;
use tidekv_cache::LookupResult;
use tidekv_cache::Pointer;
use tidekv_cache::{CachePolicy, Name};
use tidekv_io::{InlineExecutor, MemoryStorage};

use crate::format::checksum::name_hash;
use crate::format::key::{Kind, Trailer};
use crate::{Db, Environment, ErrorKind, Keyspace, Options};

fn store(policy: CachePolicy, cross_check: bool) -> (Db, Keyspace) {
    let environment = Environment::default()
        .storage(Arc::new(MemoryStorage::new()))
        .executor(Arc::new(InlineExecutor::new()));
    let options = Options::default()
        .memory_bytes(8 << 20)
        .cache_policy(policy)
        .cross_check(cross_check)
        .environment(environment);
    let db = Db::open("db", options).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

/// Puts a value into the point cache that the tables do not have.
fn plant(keyspace: &Keyspace, key: &[u8], value: &[u8]) {
    let name = Name { keyspace: keyspace.tree().id, key };
    let hash = name_hash(name);
    let entry = KvEntry { name, stamp: Trailer::new(1, Kind::Value).0, value, level: 0 };
    let pointer: Option<Pointer> = None;
    let found = LookupResult { entry, pointer, reads: 1.0, data_reads: 0.0, by_pointer: false };
    let point = keyspace.engine().memory.caches().point();
    point.resolved(hash, point.epoch(hash), &found);
}

#[test]
fn cross_check_reports_wrong_cache_answers() {
    let policy = CachePolicy::Fixed { kv: 100, kp: 0 };
    let (_db, keyspace) = store(policy, false);
    keyspace.put("a", "right").unwrap();
    keyspace.flush().unwrap();
    plant(&keyspace, b"a", b"wrong");
    assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b"wrong"[..]));

    let (_db, keyspace) = store(policy, true);
    keyspace.put("a", "right").unwrap();
    keyspace.flush().unwrap();
    assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b"right"[..]));
    plant(&keyspace, b"a", b"wrong");
    assert_eq!(keyspace.get("a").unwrap_err().kind(), ErrorKind::Corrupt);
    plant(&keyspace, b"b", b"gone");
    assert_eq!(keyspace.get("b").unwrap_err().kind(), ErrorKind::Corrupt);
}
