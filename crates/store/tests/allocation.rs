//! The allocations of a read.

use tidekv::{Db, Options};
use tidekv_cache::CachePolicy;
use tidekv_testkit::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

#[test]
fn value_in_a_block_is_read_without_allocation() {
    assert!(allocation::is_counting(), "else no limit is checked");
    let directory = tempfile::tempdir().unwrap();
    let options = Options::default().cache_policy(CachePolicy::BlockOnly);
    let db = Db::open(directory.path(), options).unwrap();
    let keyspace = db.keyspace("reads").unwrap();
    // Too short to share its block when kept: it would be copied.
    keyspace.put("key", [7; 400]).unwrap();
    keyspace.flush().unwrap();
    let mut value = Vec::with_capacity(400);
    let mut read = || {
        assert!(keyspace.get_into("key", &mut value).unwrap());
        assert!(keyspace.contains("key").unwrap());
    };
    // Caches its block.
    read();
    allocation::bounded(0, read);
    assert_eq!(value, [7; 400]);
    allocation::bounded(400, || drop(keyspace.get("key").unwrap()));
}
