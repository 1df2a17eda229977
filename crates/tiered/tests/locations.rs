//! Reads per lookup with the locations of all records in DRAM, and with too little DRAM for them:
//! counted on simulated storage without other traffic.

#[path = "keeps/scene.rs"]
mod scene;

use scene::{Scene, key, options};
use tidekv_io::Tear;
use tidekv_tiered::{FlashOptions, Options};

/// The number of index reads and of record reads for a hit of each of these objects.
fn reads(scene: &Scene, numbers: std::ops::Range<u64>) -> (u64, u64) {
    let before = scene.counts();
    let count = (numbers.end - numbers.start) as usize;
    assert_eq!(scene.hits(numbers), count);
    let after = scene.counts();
    (after.index_reads - before.index_reads, after.object_reads - before.object_reads)
}

fn bytes_of(n: u64, is_mixed: bool) -> usize {
    if is_mixed { 1_000 + (n * n % 6_000) as usize } else { 4_000 }
}

#[test]
fn hit_costs_one_read_where_dram_has_the_locations() {
    for is_mixed in [false, true] {
        let mut scene = Scene::new(options());
        (0..6_000).for_each(|n| scene.store(n, bytes_of(n, is_mixed), None));
        let (index, objects) = reads(&scene, 0..6_000);
        assert!(objects > 4_000 && index * 100 <= objects, "{index} and {objects} reads");
        // After a restart, pages are read once each: there are few.
        scene.cache.close();
        scene.restart(Tear::DropUnsynced, 2);
        let (index, objects) = reads(&scene, 0..6_000);
        assert!(index * 30 <= objects, "{index} and {objects} reads");
        let (index, objects) = reads(&scene, 0..6_000);
        assert!(objects > 4_000 && index * 100 <= objects, "{index} and {objects} reads");
    }
}

/// Segments of long records keep their order; segments of short ones in the same cache are rearranged.
#[test]
fn hit_costs_one_read_for_long_records() {
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 256 << 20 }];
    let options = Options {
        dram_bytes: 16 << 20,
        flash,
        avg_object_bytes: 30 << 10,
        segment_bytes: Some(1 << 20),
        ..options()
    };
    let mut scene = Scene::new(options);
    // Some segments have long records only, some have 350 short ones.
    let bytes_of = |n: u64| if n % 5_000 < 2_400 { 2_900 } else { 20_000 + (n % 20_000) as usize };
    (0..6_000).for_each(|n| scene.store(n, bytes_of(n), None));
    for boot in 2..4 {
        reads(&scene, 0..6_000);
        let (index, objects) = reads(&scene, 0..6_000);
        assert!(objects > 4_000 && index * 50 <= objects, "{index} and {objects} reads");
        for n in 0..6_000 {
            let found = scene.cache.get(&key(n)).expect("it is there");
            assert_eq!(found.object.value.len(), bytes_of(n), "{n}");
        }
        scene.cache.close();
        scene.restart(Tear::DropUnsynced, boot);
    }
}

#[test]
fn locations_follow_records_that_are_replaced() {
    let scene = Scene::new(options());
    for round in 0..5 {
        (0..3_000).for_each(|n| scene.store(n, bytes_of(n + round, true), None));
        let (index, objects) = reads(&scene, 0..3_000);
        assert!(index * 100 <= objects, "{index} and {objects} reads");
        // Values differ between rounds in their length only.
        for n in 0..3_000 {
            let found = scene.cache.get(&key(n)).expect("it is there");
            assert_eq!(found.object.value.len(), bytes_of(n + round, true), "{n}, round {round}");
        }
    }
}

/// With two thousand slots and an expected size of 1 KiB, codes are long and many.
#[test]
fn locations_go_when_dram_shrinks_and_come_back() {
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 256 << 20 }];
    let (large, small) = (12 << 20, 3 << 20);
    let options = Options {
        dram_bytes: large,
        flash,
        avg_object_bytes: 1 << 10,
        segment_bytes: Some(128 << 10),
        ..options()
    };
    let scene = Scene::new(options);
    (0..30_000).for_each(|n| scene.store(n, 2_000, None));
    let (index, objects) = reads(&scene, 0..30_000);
    assert!(index * 100 <= objects, "{index} and {objects} reads");
    let before = scene.cache.device_stats()[0].dram_bytes;
    scene.cache.set_dram_bytes(small).expect("it is enough");
    scene.cache.drain_writes();
    // Now only some have hot entries.
    reads(&scene, 0..30_000);
    let (index, objects) = reads(&scene, 0..30_000);
    assert!(index * 10 > objects, "{index} and {objects} reads");
    let tenant = scene.cache.tenant_stats().remove(0);
    let taken = scene.cache.device_stats()[0].dram_bytes;
    assert!(taken <= tenant.flash_dram.bytes(small) && taken < before, "{taken}, {before}");
    scene.cache.set_dram_bytes(large).expect("it had it");
    scene.cache.drain_writes();
    reads(&scene, 0..30_000);
    let (index, objects) = reads(&scene, 0..30_000);
    assert!(index * 100 <= objects, "{index} and {objects} reads");
}

/// Objects of the oldest quarter were rewritten whenever DRAM evicted them, forever.
#[test]
fn reads_alone_write_nothing() {
    let scene = Scene::new(options());
    // Enough that segments of the oldest quarter are close to eviction.
    (0..12_500).for_each(|n| scene.store(n, 4_000, None));
    // Uses up the credit for rewrites.
    (0..10).for_each(|_| _ = scene.hits(0..12_500));
    scene.cache.drain_writes();
    let before = scene.counts();
    assert!(before.objects_written > 13_000, "{before:?}");
    (0..3).for_each(|_| assert!(scene.hits(0..12_500) > 11_000));
    scene.cache.drain_writes();
    let after = scene.counts();
    assert_eq!(after.objects_written, before.objects_written);
}
