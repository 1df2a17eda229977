//! The whole block cache: shards, counters, dropped tables, concurrency.

#[cfg(not(miri))]
mod models;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::block::filter_worth::FilteredLookup;
use crate::block::stats::{BlockKind, KindStats};

const DATA: BlockTag = BlockTag { keyspace: 0, kind: BlockKind::Data };
const INDEX: BlockTag = BlockTag { keyspace: 0, kind: BlockKind::Index };

fn id(table: u64, offset: u64) -> BlockId {
    BlockId { table, offset }
}

#[test]
fn block_is_found_until_it_is_evicted() {
    let cache = BlockCache::new(10_000, 1);
    let fits = 10_000 / (1000 + BlockCache::<u64>::BLOCK_OVERHEAD_BYTES) as u64;
    for n in 0..=fits {
        cache.insert(id(1, n * 4096), DATA, n, 1000);
        assert_eq!(cache.get(id(1, n * 4096), DATA), Some(n));
    }
    assert_eq!(cache.get(id(1, 0), DATA), None, "the oldest was evicted");
    assert_eq!(cache.len() as u64, fits);
    assert!(cache.charged_bytes() <= cache.capacity());
}

#[test]
fn hit_keeps_a_block() {
    let cache = BlockCache::new(10_000, 1);
    for n in 0..1000 {
        cache.insert(id(1, n), DATA, n, 1000);
        assert_eq!(cache.get(id(1, 0), DATA), Some(0));
    }
    assert!(!cache.contains(id(1, 1)));
}

#[test]
fn cache_is_full_although_every_shard_has_some_free_bytes() {
    let cache = BlockCache::new(64 * 1_000_000, 64);
    let fill = |blocks: std::ops::Range<u64>| {
        blocks.for_each(|n| cache.insert(id(1, n << 12), DATA, n, 3000 + (n * 37 % 2400) as usize));
    };
    fill(0..64 * 110);
    assert!(cache.has_room(), "half full");
    fill(64 * 110..64 * 300);
    assert!(cache.capacity() - cache.charged_bytes() > 64 << 10);
    assert!(!cache.has_room());
}

#[test]
fn counters_are_kept_by_kind() {
    let cache = BlockCache::new(3000, 1);
    cache.insert(id(1, 0), INDEX, 0, 1200);
    assert_eq!(cache.get(id(1, 0), INDEX), Some(0));
    assert_eq!(cache.get(id(1, 1), DATA), None);
    cache.insert(id(1, 1), DATA, 1, 1200);
    cache.insert(id(1, 2), DATA, 2, 1200);
    cache.insert(id(1, 3), DATA, 3, 9999);
    let stats = cache.stats();
    let none = KindStats::default();
    assert_eq!(stats.index, KindStats { hits: 1, inserts: 1, evictions: 1, ..none });
    assert_eq!(stats.data, KindStats { misses: 1, inserts: 2, ..none });
    assert_eq!(stats.filter, KindStats::default());
    assert_eq!(stats.total(), KindStats { hits: 1, misses: 1, inserts: 3, evictions: 1, ..none });
    assert_eq!(stats.kind(BlockKind::Index), &stats.index);
}

#[test]
fn cache_with_zero_capacity_stays_empty() {
    let cache = BlockCache::new(0, 16);
    cache.insert(id(1, 0), DATA, 1, 0);
    assert_eq!(cache.get(id(1, 0), DATA), None);
    assert_eq!((cache.len(), cache.charged_bytes(), cache.capacity()), (0, 0, 0));
    cache.evict_tables(&|_| true);
}

#[test]
fn shard_count_is_a_power_of_two_with_a_minimum_size() {
    for (capacity, requested, shards) in [
        (0, 16, 1),
        (600 << 10, 16, 1),
        (1 << 20, 16, 2),
        (3 << 20, 16, 4),
        (64 << 20, 16, 16),
        (64 << 20, 10, 16),
        (64 << 20, 0, 1),
    ] {
        let cache = BlockCache::<u8>::new(capacity, requested);
        assert_eq!(cache.shards.len(), shards, "{capacity} bytes, {requested} requested");
    }
}

#[test]
fn blocks_spread_evenly_over_the_shards() {
    let cache = BlockCache::new(1 << 30, 16);
    for table in 0..64 {
        for block in 0..256 {
            cache.insert(id(table, block * 4096), DATA, (), 0);
        }
    }
    for CachePadded(shard) in &cache.shards {
        let blocks = shard.lock().blocks.len();
        assert!((900..1150).contains(&blocks), "{blocks} of 16384 blocks in one of 16 shards");
    }
}

#[test]
fn the_capacity_can_change() {
    let cache = BlockCache::new(8 << 20, 4);
    for n in 0..4000 {
        cache.insert(id(n, 0), DATA, n, 1000);
    }
    let before = cache.len();
    cache.set_capacity(1 << 20);
    assert!(cache.charged_bytes() <= 1 << 20 && !cache.is_empty());
    assert_eq!(cache.stats().data.evictions as usize, before - cache.len());
    cache.set_capacity(0);
    assert_eq!((cache.len(), cache.charged_bytes()), (0, 0));
    cache.set_capacity(8 << 20);
    cache.insert(id(1, 0), DATA, 1, 1000);
    assert_eq!(cache.get(id(1, 0), DATA), Some(1));
}

#[test]
fn every_order_keeps_the_guarantees() {
    for eviction in [Eviction::Clock, Eviction::S3Fifo, Eviction::Lru] {
        let cache = BlockCache::new(4 << 20, 2);
        cache.insert(id(7, 0), DATA, 7, 1000);
        cache.set_eviction(eviction);
        assert_eq!(cache.is_empty(), eviction != Eviction::Lru);
        for n in 0..3000 {
            cache.insert(id(n % 5, n * 4096), DATA, n, 4000);
            assert_eq!(cache.get(id(n % 5, n * 4096), DATA), Some(n), "{eviction:?}");
            assert!(cache.charged_bytes() <= 4 << 20);
        }
        let before = cache.len();
        assert!(before > 900, "{before} under {eviction:?}");
        cache.set_capacity(1 << 20);
        assert!(cache.charged_bytes() <= 1 << 20 && !cache.is_empty());
        cache.evict_tables(&|table| table == 3);
        assert!((0..3000).all(|n| n % 5 != 3 || !cache.contains(id(3, n * 4096))));
        let stats = cache.stats().data;
        assert!(stats.inserts - stats.evictions >= cache.len() as u64);
        cache.set_capacity(0);
        assert_eq!((cache.len(), cache.charged_bytes()), (0, 0));
    }
}

#[test]
fn evicting_dead_tables_keeps_blocks_of_live_tables() {
    let cache = BlockCache::new(64 << 20, 2);
    for table in 0..10 {
        for offset in 0..1000 {
            cache.insert(id(table, offset), DATA, table, 100);
        }
    }
    cache.evict_tables(&|table| table % 2 == 0);
    assert_eq!(cache.len(), 5000);
    assert!((0..10).all(|table| cache.contains(id(table, 7)) == (table % 2 == 1)));
    assert_eq!(cache.stats().data.evictions, 0, "none was evicted for room");
}

/// A value that takes the shard's lock in its drop.
#[derive(Clone)]
struct Curious {
    _inner: Arc<CuriousInner>,
}

struct CuriousInner {
    cache: std::sync::Weak<BlockCache<Curious>>,
}

impl Drop for CuriousInner {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            let _ = cache.len();
        }
    }
}

#[test]
fn values_are_dropped_outside_of_the_locks() {
    let cache = Arc::new(BlockCache::new(4000, 1));
    let value = || Curious { _inner: Arc::new(CuriousInner { cache: Arc::downgrade(&cache) }) };
    for n in 0..20 {
        cache.insert(id(n, 0), DATA, value(), 1000);
    }
    cache.insert(id(19, 0), DATA, value(), 1000);
    cache.insert(id(19, 0), DATA, value(), 5000);
    cache.evict_tables(&|table| table == 18);
    cache.set_capacity(0);
    assert!(cache.is_empty());
}

#[test]
fn concurrent_threads_see_only_inserted_values() {
    let cache = BlockCache::new(2 << 20, 4);
    let over = AtomicBool::new(false);
    let rounds = if cfg!(miri) { 200 } else { 50_000_u64 };
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut state = thread;
                for round in 0..rounds {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let id = id((state >> 60) & 7, (state >> 33) % 512);
                    match cache.get(id, DATA) {
                        Some(value) => assert_eq!(value, id.table * 1000 + id.offset),
                        None => cache.insert(id, DATA, id.table * 1000 + id.offset, 900),
                    }
                    if round % 5000 == 0 {
                        cache.evict_tables(&|table| table == thread);
                        cache.set_capacity((1 << 20) + (state >> 50) as usize);
                    }
                }
            });
        }
        let (cache, over) = (&cache, &over);
        scope.spawn(move || {
            for _ in 0..rounds / 100 {
                let beyond = cache.charged_bytes() > 2 << 20;
                over.fetch_or(beyond, Ordering::Relaxed);
            }
        });
    });
    assert!(!over.into_inner(), "the bytes stayed within the capacity");
    let stats = cache.stats().data;
    assert_eq!(stats.hits + stats.misses, 4 * rounds);
}

#[test]
fn prefilled_block_is_admitted_by_the_frequency_of_its_content() {
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    let full = (SHARD_BYTES_MIN / (4000 + BlockCache::<u64>::BLOCK_OVERHEAD_BYTES)) as u64;
    for n in 0..full {
        cache.insert(id(1, n), DATA, n, 4000);
        (0..4).for_each(|_| assert_eq!(cache.get(id(1, n), DATA), Some(n)));
    }
    assert!(cache.heat(id(1, full - 1)) >= 4);
    cache.insert_prefilled(id(1, 1000), DATA, 1000, 4000, 2);
    assert!(!cache.contains(id(1, 1000)), "others are accessed more often");
    assert_eq!(cache.heat(id(1, 1000)), 0);
    cache.insert_prefilled(id(1, 1001), DATA, 1001, 4000, 8);
    assert_eq!((cache.get(id(1, 1001), DATA), cache.times(id(1, 1001))), (Some(1001), 8));
    assert_eq!(cache.heat(id(1, 1001)), 9);
    assert_eq!(cache.stats().data.compaction_prefills, 1);
}

#[test]
fn equally_hot_blocks_stay_by_whole_extents() {
    let cache = BlockCache::new(4 << 20, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    // Twice as many as fit, in eight extents, all accessed repeatedly.
    for round in 0..60 {
        for n in 0..2048 {
            let n = (n * 1021 + round * 77) % 2048;
            if cache.get(id(1, n << 12), DATA).is_none() {
                cache.insert(id(1, n << 12), DATA, n, 4096);
            }
        }
    }
    let here =
        |extent: u64| (0..256).filter(|n| cache.contains(id(1, (extent * 256 + n) << 12))).count();
    let mut kept: Vec<usize> = (0..8).map(here).collect();
    kept.sort_unstable();
    let (least, most): (usize, usize) = (kept[..4].iter().sum(), kept[4..].iter().sum());
    assert!(most > 2 * least, "{kept:?}");
}

/// Reads runs of four blocks at random from four extents, of which two fit. Returns the fraction of
/// fully cached runs at the end, for inserts with `reason`.
fn answered_runs(reason: InsertReason) -> f64 {
    const RUN: u64 = 4;
    let cache = BlockCache::new(2 << 20, 1);
    cache.admit_by_use(16 << 10, 256 << 10, 1);
    let (rounds, mut sample_id, mut answered) = (80_000, 7_u64, 0);
    for round in 0..rounds {
        sample_id = sample_id.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let first = (sample_id >> 33) % (1024 - RUN);
        let missing: Vec<BlockId> = (first..first + RUN)
            .map(|n| id(1, n << 12))
            .filter(|id| cache.get(*id, DATA).is_none())
            .collect();
        answered += u32::from(missing.is_empty() && round >= rounds / 2);
        missing.iter().for_each(|id| cache.insert_read(*id, DATA, 0, 4000, reason));
    }
    f64::from(answered) / f64::from(rounds / 2)
}

#[test]
fn multi_block_read_has_its_own_insert_reason() {
    let arrivals = [1, 2, 9].map(InsertReason::of_read);
    assert_eq!(arrivals, [InsertReason::Alone, InsertReason::Together, InsertReason::Together]);
}

/// Half of the blocks fit, so half of the reads could be saved.
#[test]
fn blocks_read_together_do_not_fragment_cached_ranges() {
    let [alone, together] = [InsertReason::Alone, InsertReason::Together].map(answered_runs);
    assert!(together > 0.42, "{together}");
    assert!(together > alone + 0.05, "{together} and {alone}");
}

#[test]
fn read_counts_as_ghost_hit_once_and_only_if_all_its_blocks_are_recorded() {
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    let full = (SHARD_BYTES_MIN / (4000 + BlockCache::<u64>::BLOCK_OVERHEAD_BYTES)) as u64;
    (0..full + 4).for_each(|n| {
        assert_eq!(cache.get(id(1, n), DATA), None);
        cache.insert(id(1, n), DATA, n, 4000);
    });
    let gone: Vec<BlockId> =
        (0..full + 4).map(|n| id(1, n)).filter(|id| !cache.contains(*id)).collect();
    assert_eq!(gone.len(), 4);
    cache.note_read(gone[..3].iter().copied());
    assert_eq!(cache.wanted().window, 1.0);
    cache.note_read([gone[3], id(7, 7)].into_iter());
    assert_eq!(cache.wanted().window, 1.0, "the second one is in no ghost");
}

#[test]
fn single_block_read_rechecks_cache_and_records_the_read() {
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    // Too large to be admitted: it goes to the ghost.
    assert_eq!(cache.get(id(1, 1), DATA), None);
    cache.insert(id(1, 1), DATA, 1, SHARD_BYTES_MIN);
    cache.insert(id(1, 2), DATA, 2, 4000);
    let counted = |cache: &BlockCache<u64>| {
        let data = cache.stats().data;
        (data.hits, data.misses, cache.wanted().window)
    };
    assert_eq!(counted(&cache), (0, 1, 0.0));
    assert_eq!(cache.get_or_note_read(id(1, 1), DATA), None);
    assert_eq!(counted(&cache), (0, 1, 1.0), "the miss was counted before");
    assert_eq!(cache.get_or_note_read(id(1, 1), DATA), None);
    assert_eq!(counted(&cache), (0, 1, 1.0), "a ghost hit counts once");
    assert_eq!(cache.get_or_note_read(id(1, 2), DATA), Some(2));
    assert_eq!(counted(&cache), (1, 1, 1.0), "it was inserted since");
}

#[test]
fn read_is_near_only_if_all_its_blocks_are() {
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    // A ghost of one bucket, of which two are near.
    cache.admit_by_use(64 << 10, 8 * 4096, 1);
    let ask = |n: u64, times: usize| {
        (0..times).for_each(|_| _ = cache.get(id(1, n), DATA));
    };
    // Too large to be admitted: each goes to the ghost.
    for n in 0..8 {
        ask(n, if n < 2 { 5 } else { 1 });
        cache.insert(id(1, n), DATA, n, SHARD_BYTES_MIN);
    }
    let read = |ids: &[u64]| {
        let before = cache.wanted();
        ids.iter().for_each(|&n| ask(n, 1));
        cache.note_read(ids.iter().map(|&n| id(1, n)));
        let hits = cache.wanted() - before;
        (hits.window, hits.near)
    };
    assert_eq!(read(&[0, 5]), (1.0, 0.0));
    // Of equals, the one recorded last.
    assert_eq!(read(&[1, 7]), (1.0, 4.0));
}

const FILTER: BlockTag = BlockTag { keyspace: 0, kind: BlockKind::Filter };

/// A filter that has long saved no lookup a read.
fn useless() -> FilterWorth {
    let worth = FilterWorth::default();
    let found = FilteredLookup { is_absent: false, reads_behind: Some(1) };
    (0..5000).for_each(|_| worth.note(found));
    worth
}

#[test]
fn useless_filter_is_read_only_while_there_is_room() {
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    let worth = useless();
    let look =
        |cache: &BlockCache<u64>, id| cache.look_for(id, FILTER, (&worth, 4096), |block| *block).0;
    assert_eq!(look(&cache, id(1, 0)), FilterLookup::Read);
    cache.insert(id(1, 0), FILTER, 5, 4096);
    assert_eq!(look(&cache, id(1, 0)), FilterLookup::Hit(5));
    for n in 1..500 {
        for _ in 0..3 {
            if cache.get(id(2, n), DATA).is_none() {
                cache.insert(id(2, n), DATA, n, 4096);
            }
        }
    }
    // None of these lookups would have saved a read.
    for _ in 1..500 {
        assert_eq!(look(&cache, id(1, 4096)), FilterLookup::Skip);
    }
    assert_eq!(
        cache.stats().filter,
        KindStats {
            hits: 1,
            misses: 1,
            skips: 499,
            inserts: 1,
            evictions: cache.stats().filter.evictions,
            ..KindStats::default()
        }
    );
    let pays = FilterWorth::default();
    assert_eq!(cache.look_for(id(1, 4096), FILTER, (&pays, 4096), |b| *b).0, FilterLookup::Read);
}

#[test]
fn lookups_that_save_no_read_do_not_keep_a_filter_cached() {
    let keeps = |worth: FilterWorth| {
        let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
        cache.admit_by_use(64 << 10, 64 << 10, 1);
        cache.insert(id(1, 0), FILTER, 0, 4096);
        for n in 0..4000u64 {
            cache.look_for(id(1, 0), FILTER, (&worth, 4096), |_| ());
            let data = id(2, n % 400);
            if cache.get(data, DATA).is_none() {
                cache.insert(data, DATA, n, 4096);
            }
        }
        cache.contains(id(1, 0))
    };
    assert!(keeps(FilterWorth::default()));
    assert!(!keeps(useless()));
}

/// Regression: counters once ended at 15, which all blocks of a hot set reached: a scan then missed
/// blocks of a small level as often as blocks of the last, and each miss costs the same read.
#[test]
fn most_frequent_of_hot_blocks_stay() {
    let cache = BlockCache::new(1 << 20, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    let ask = |id: BlockId| {
        if cache.get(id, DATA).is_none() {
            cache.insert(id, DATA, 0, 4096);
        }
    };
    // Of 700 blocks 250 fit. A hundred, of as many extents, are accessed four times per round,
    // which does not keep them among the newest through the flood of the others.
    for round in 0..14u64 {
        (0..400).for_each(|n| ask(id(1, (n % 100) << 20)));
        (0..600).for_each(|n| ask(id(2, ((round * 600 + n) * 61 % 600) << 12)));
    }
    let kept = (0..100).filter(|n| cache.contains(id(1, n << 20))).count();
    assert!(kept >= 95, "{kept}");
}

/// A new block that is compared with the same rival as all before it would never be admitted.
#[test]
fn new_blocks_compete_with_one_cached_block_after_another() {
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    let full = (SHARD_BYTES_MIN / (4096 + BlockCache::<u64>::BLOCK_OVERHEAD_BYTES)) as u64;
    // The oldest is accessed often, and nothing else makes it the newest again.
    cache.insert(id(1, 0), DATA, 0, 4096);
    (0..20).for_each(|_| assert_eq!(cache.get(id(1, 0), DATA), Some(0)));
    (1..full).for_each(|n| cache.insert(id(1, n << 12), DATA, n, 4096));
    let newcomers = 10;
    for n in 0..newcomers {
        (0..3).for_each(|_| assert_eq!(cache.get(id(2, n << 12), DATA), None));
        cache.insert(id(2, n << 12), DATA, n, 4096);
    }
    let came_in = (0..newcomers).filter(|n| cache.contains(id(2, n << 12))).count();
    assert_eq!(came_in as u64, newcomers - 1, "all but the one compared with the oldest");
    assert!(cache.contains(id(1, 0)), "which is accessed most often");
}

/// Regression: the baselines must not change; their filters once aged as if they were never
/// accessed.
#[test]
fn filter_lookup_counts_as_access_when_all_blocks_are_admitted() {
    let worth = useless();
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    let filter = (&worth, 4096);
    assert_eq!(cache.look_for(id(1, 0), FILTER, filter, |block| *block).0, FilterLookup::Read);
    cache.insert(id(1, 0), FILTER, 5, 4096);
    for n in 0..1000 {
        cache.insert(id(2, n), DATA, n, 4096);
        assert_eq!(
            cache.look_for(id(1, 0), FILTER, filter, |block| *block).0,
            FilterLookup::Hit(5)
        );
    }
}

#[test]
fn skipped_filter_earns_ghost_hits() {
    let cache = BlockCache::new(SHARD_BYTES_MIN, 1);
    cache.admit_by_use(64 << 10, 64 << 10, 1);
    for _ in 0..20 {
        for n in 0..124 {
            if cache.get(id(2, n), DATA).is_none() {
                cache.insert(id(2, n), DATA, n, 4096);
            }
        }
    }
    let worth = FilterWorth::default();
    for n in 0..2000 {
        worth.note(FilteredLookup { is_absent: n % 2 == 0, reads_behind: Some(1) });
    }
    let skips = (0..8).filter(|_| {
        cache.look_for(id(1, 0), FILTER, (&worth, 16 << 10), |_| ()).0 == FilterLookup::Skip
    });
    assert!(skips.count() > 4);
    assert!(cache.wanted().window > 0.0);
}
