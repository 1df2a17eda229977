//! What a read takes from the allocator.

use tidekv::{Db, Options};
use tidekv_cache::CachePolicy;
use tidekv_testkit::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

#[test]
fn a_value_of_a_block_is_looked_at_where_it_lies() {
    assert!(allocation::is_counting(), "else no limit is checked");
    let directory = tempfile::tempdir().unwrap();
    let options = Options::default().cache_policy(CachePolicy::BlockOnly);
    let db = Db::open(directory.path(), options).unwrap();
    let keyspace = db.keyspace("reads").unwrap();
    // Too short to share its block with whoever keeps it: that would copy it.
    keyspace.put("key", [7; 400]).unwrap();
    keyspace.flush().unwrap();
    let mut value = Vec::with_capacity(400);
    let mut read = || {
        assert!(keyspace.get_into("key", &mut value).unwrap());
        assert!(keyspace.contains("key").unwrap());
    };
    // Brings its block into memory.
    read();
    allocation::bounded(0, read);
    assert_eq!(value, [7; 400]);
    allocation::bounded(400, || drop(keyspace.get("key").unwrap()));
}
