//! Expired objects give their DRAM back, and a cache that must not evict refuses what has no room.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, ManualClock, MemoryStorage, SeededRandom, Storage};
use tidekv_tiered::{
    Cache, Change, Deadline, Environment, Eviction, FlashOptions, Object, Options,
};

const START_S: u64 = 1_700_000_000;

fn open(options: &Options) -> (Cache, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START_S * 1_000));
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let environment = Environment {
        storage,
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        random: Arc::new(SeededRandom::new(1)),
        boot: 1,
        is_inline: true,
    };
    (Cache::open(options, &environment).unwrap(), clock)
}

fn store(cache: &Cache, key: &str, len: usize, deadline: Deadline) {
    let value = Bytes::from(vec![7; len]);
    let version = cache.next_version();
    cache.store(key.as_bytes(), Object { value, flags: 0, deadline, version, marks: 0 });
}

fn pass(cache: &Cache, clock: &ManualClock, seconds: u64) {
    for _ in 0..seconds {
        clock.advance(Duration::from_secs(1));
        cache.run_maintenance();
    }
}

/// Objects that expire and are never asked for again kept their DRAM, and others were evicted.
#[test]
fn expired_objects_give_their_dram_back() {
    for eviction in [Eviction::S3Fifo, Eviction::GreedyDual, Eviction::Lru, Eviction::Clock] {
        let options = Options { dram_bytes: 20 << 20, eviction, ..Options::default() };
        let (cache, clock) = open(&options);
        let soon = Deadline::at(START_S + 2);
        for i in 0..7_000 {
            store(&cache, &format!("stays{i}"), 1_000, Deadline::NEVER);
            store(&cache, &format!("expires{i}"), 1_000, soon);
        }
        assert_eq!((cache.stats().dram_objects, cache.stats().evicted), (14_000, 0));
        pass(&cache, &clock, 1);
        assert_eq!((cache.stats().dram_objects, cache.stats().swept), (14_000, 0));
        pass(&cache, &clock, 20);
        let stats = cache.stats();
        assert_eq!((stats.dram_objects, stats.swept), (7_000, 7_000), "{eviction:?}");
        for i in 0..7_000 {
            store(&cache, &format!("later{i}"), 1_000, Deadline::NEVER);
        }
        let stays = (0..7_000).filter(|i| cache.get(format!("stays{i}").as_bytes()).is_some());
        assert_eq!((stays.count(), cache.stats().evicted), (7_000, 0), "{eviction:?}");
    }
}

#[test]
fn objects_that_expire_later_are_swept_later() {
    let (cache, clock) = open(&Options::default());
    for i in 0..1_000_u64 {
        store(&cache, &format!("key{i}"), 100, Deadline::at(START_S + 1 + i % 100));
    }
    let mut before = 1_000;
    for second in 1..=120 {
        pass(&cache, &clock, 1);
        let left = cache.stats().dram_objects;
        // A sweep may be ten seconds late, but is never early.
        let alive = 10 * 100_u64.saturating_sub(second);
        let late = 10 * 111_u64.saturating_sub(second);
        assert!((alive..=late.min(before)).contains(&left), "{second}: {left}");
        before = left;
    }
    assert_eq!(before, 0);
    // What is stored during a pause between sweeps is found by a later one.
    store(&cache, "late", 100, Deadline::at(START_S + 125));
    pass(&cache, &clock, 30);
    assert_eq!(cache.stats().dram_objects, 0);
}

#[test]
fn an_expired_object_that_makes_room_is_not_evicted() {
    let options = Options { dram_bytes: 1 << 20, object_bytes_max: 64 << 10, ..Options::default() };
    let (cache, clock) = open(&options);
    for i in 0..500 {
        store(&cache, &format!("old{i}"), 1_000, Deadline::at(START_S + 1));
    }
    clock.advance(Duration::from_secs(5));
    let evicted = cache.stats().evicted;
    for i in 0..2_000 {
        store(&cache, &format!("new{i}"), 1_000, Deadline::NEVER);
    }
    let stats = cache.stats();
    assert!(stats.reclaimed > 300, "{stats:?}");
    assert!(stats.evicted - evicted < 2_000, "{stats:?}");
}

#[test]
fn a_cache_that_must_not_evict_refuses_what_has_no_room() {
    for eviction in [Eviction::S3Fifo, Eviction::GreedyDual, Eviction::Lru, Eviction::Clock] {
        let options = Options {
            dram_bytes: 1 << 20,
            object_bytes_max: 64 << 10,
            eviction,
            evicts: false,
            ..Options::default()
        };
        let (cache, clock) = open(&options);
        assert!(!cache.evicts());
        let has_room = |key: &str, len| cache.has_free_room_for(key.as_bytes(), len, None);
        let mut stored = 0;
        while has_room(&format!("key{stored}"), 1_000) {
            let deadline = if stored < 100 { Deadline::at(START_S + 3) } else { Deadline::NEVER };
            store(&cache, &format!("key{stored}"), 1_000, deadline);
            stored += 1;
        }
        assert!(stored > 500, "{eviction:?}: {stored}");
        let full = cache.stats();
        assert_eq!((full.dram_objects, full.evicted, full.refused), (stored, 0, 0));
        // Without room it is refused, and what it should have replaced is gone.
        store(&cache, &format!("key{stored}"), 1_000, Deadline::NEVER);
        let replaced = format!("key{}", stored - 1);
        let fits = cache.has_free_room_for(replaced.as_bytes(), 60_000, Some(1_000));
        assert!(!fits, "{eviction:?}");
        store(&cache, &replaced, 60_000, Deadline::NEVER);
        assert_eq!(cache.get(replaced.as_bytes()), None);
        let stats = cache.stats();
        assert_eq!((stats.dram_objects, stats.evicted, stats.refused), (stored - 1, 0, 2));
        // The same length has room in place of the old one, as seen while a change is decided.
        let fits = cache.change(b"key200", |found| {
            let old_len = found.map(|found| found.object.value.len());
            (Change::Keep, cache.has_free_room_for(b"key200", 1_000, old_len))
        });
        assert!(fits, "{eviction:?}");
        // Removed and expired objects leave room.
        cache.remove(b"key300");
        assert!(has_room("key300", 1_000), "{eviction:?}");
        pass(&cache, &clock, 20);
        assert_eq!(cache.stats().swept, 100);
        let mut more = 0;
        while has_room(&format!("more{more}"), 1_000) && more < 90 {
            store(&cache, &format!("more{more}"), 1_000, Deadline::NEVER);
            more += 1;
        }
        assert!(more > 50, "{eviction:?}: {more}");
        cache.clear();
        assert!(has_room("a", 60_000));
        assert_eq!(cache.stats().evicted, 0);
        cache.set_dram_bytes(2 << 20).unwrap();
    }
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 16 << 20 }];
    let options = Options { evicts: false, flash, ..Options::default() };
    assert!(options.check().is_err());
    let (cache, _) = open(&Options::default());
    assert!(cache.evicts() && cache.has_free_room_for(b"a", 1 << 20, None));
}

/// Objects from an eighth of the DRAM on were written in part, and never found on flash.
#[test]
fn large_objects_are_found_on_flash() {
    for object_mib in [1, 4, 8, 16] {
        let flash = vec![FlashOptions { path: "/flash".into(), bytes: 1 << 30 }];
        let object_bytes_max = object_mib << 20;
        let options = Options { flash, object_bytes_max, ..Options::default() };
        let (cache, _) = open(&options);
        let len = object_bytes_max as usize;
        for i in 0..20 {
            store(&cache, &format!("key{i}"), len, Deadline::NEVER);
            cache.drain_writes();
        }
        let found = (0..20).filter(|i| {
            let found = cache.get(format!("key{i}").as_bytes());
            found.is_some_and(|found| found.object.value.len() == len)
        });
        assert_eq!(found.count(), 20, "{object_mib} MiB");
        let counts = cache.device_stats()[0].counts;
        assert_eq!((counts.bypassed, counts.too_large), (0, 0), "{object_mib} MiB");
    }
}

/// A part of an object would be written in vain.
#[test]
fn an_object_without_buffers_is_not_written_in_part() {
    let path = |number| format!("/flash{number}").into();
    let flash = (0..4).map(|number| FlashOptions { path: path(number), bytes: 256 << 20 });
    let options =
        Options { flash: flash.collect(), object_bytes_max: 16 << 20, ..Options::default() };
    let (cache, _) = open(&options);
    for i in 0..12 {
        store(&cache, &format!("key{i}"), 16 << 20, Deadline::NEVER);
    }
    let counts: Vec<_> = cache.device_stats().iter().map(|device| device.counts).collect();
    assert!(counts.iter().map(|counts| counts.too_large).sum::<u64>() > 0, "{counts:?}");
    assert!(counts.iter().all(|counts| counts.objects_written == 0), "{counts:?}");
}
