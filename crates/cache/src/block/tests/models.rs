//! The shards under many schedules: the bytes never exceed the capacity, and charges equal the
//! cached bytes.

use tidekv_testkit::models::{explore, shuttle};

use super::*;

const BLOCK_BYTES: usize = 300 << 10;

/// The number of cached blocks, found by looking up all that were inserted.
fn here(cache: &BlockCache<u64>) -> usize {
    (0..4).flat_map(|t| (0..4).map(move |o| id(t, o))).filter(|&i| cache.contains(i)).count()
}

/// Checks that all sums match the cached blocks.
fn check(cache: &BlockCache<u64>) {
    let blocks = here(cache);
    assert_eq!(cache.len(), blocks);
    let one = BLOCK_BYTES + BlockCache::<u64>::BLOCK_OVERHEAD_BYTES;
    assert_eq!(cache.charged_bytes(), blocks * one);
}

#[test]
fn shards_stay_within_capacity_and_sums_match() {
    explore::shuttle("cache: inserts, gets and a sweep in two shards", || {
        let cache = Arc::new(BlockCache::new(1 << 20, 2));
        assert_eq!(cache.shards.len(), 2);
        let users: Vec<_> = (0..2u64)
            .map(|thread| {
                let cache = Arc::clone(&cache);
                shuttle::thread::spawn(move || {
                    for n in 0..3 {
                        let id = id(thread + n % 2, n);
                        cache.insert(id, DATA, id.table * 10 + id.offset, BLOCK_BYTES);
                        let found = cache.get(id, DATA);
                        assert!(found.is_none_or(|value| value == id.table * 10 + id.offset));
                        assert!(cache.charged_bytes() <= 1 << 20);
                    }
                })
            })
            .collect();
        cache.evict_tables(&|table| table == 1);
        users.into_iter().for_each(|user| user.join().unwrap());
        check(&cache);
        let stats = cache.stats().data;
        assert_eq!(stats.hits + stats.misses, 6);
    });
}

#[test]
fn concurrent_capacity_changes_leave_all_shards_with_the_last_one() {
    explore::shuttle("cache: two changes of the capacity beside inserts", || {
        let cache = Arc::new(BlockCache::new(2 << 20, 2));
        let changers: Vec<_> = [1 << 20, 3 << 20]
            .into_iter()
            .map(|bytes| {
                let cache = Arc::clone(&cache);
                shuttle::thread::spawn(move || cache.set_capacity(bytes))
            })
            .collect();
        for n in 0..4 {
            cache.insert(id(n, n), DATA, n, BLOCK_BYTES);
            assert!(cache.charged_bytes() <= 3 << 20);
        }
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        let capacity = cache.capacity();
        let of_shards = |CachePadded(shard): &CachePadded<u64>| shard.lock().blocks.capacity();
        assert!(cache.shards.iter().all(|shard| of_shards(shard) == capacity / 2));
        assert!(cache.charged_bytes() <= capacity);
        check(&cache);
        let stats = cache.stats().data;
        assert_eq!(stats.inserts - stats.evictions, cache.len() as u64);
    });
}
