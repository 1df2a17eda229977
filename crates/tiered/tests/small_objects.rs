//! Small objects on flash: that they are found and stay removed, and their cost in space, reads,
//! writes and DRAM; on simulated storage without other traffic.

#[path = "keeps/scene.rs"]
mod scene;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use scene::{Scene, key, open, options, value};
use tidekv_io::{ErrorKind, Fault, FaultRule, Operation, Tear};
use tidekv_tiered::{Deadline, FlashOptions, Object, Options};

/// Small objects, which are in buckets.
fn small_options() -> Options {
    Options {
        avg_object_bytes: 200,
        segment_bytes: Some(128 << 10),
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 16 << 20 }],
        ..options()
    }
}

#[test]
fn small_objects_are_found_while_there_is_room_also_after_a_kill() {
    let mut scene = Scene::new(small_options());
    (0..45_000).for_each(|n| scene.store(n, 200, None));
    assert_eq!(scene.counts().segments_evicted, 0);
    // Storing an object removes those that the index takes for it: one in sixteen at the most, of
    // the objects stored before.
    let hits = scene.hits(0..45_000);
    assert!(hits > 42_000, "{hits} of 45 000");
    let in_dram = scene.cache.stats().dram_objects as usize;
    scene.kill();
    let after = scene.hits(0..45_000);
    // Those in DRAM are lost, and those of the segment that was being filled.
    assert!(after > hits - in_dram - 2 * 600, "{after} of {hits}, {in_dram} in DRAM");
    assert_eq!(scene.cache.warm_devices(), 1);
}

#[test]
fn clean_restart_loses_no_small_object() {
    let mut scene = Scene::new(small_options());
    (0..45_000).for_each(|n| scene.store(n, 200, None));
    let hits = scene.hits(0..45_000);
    scene.cache.close();
    scene.restart(Tear::DropUnsynced, 2);
    assert_eq!(scene.hits(0..45_000), hits);
}

#[test]
fn small_objects_take_little_space_few_writes_and_one_read() {
    // Of segments alone: the rest of so small a device is a larger part of it.
    for (value_bytes, space_max) in [(120, 1.25), (240, 1.2), (500, 1.18)] {
        let average = value_bytes as u64 + 10;
        let scene = Scene::new(Options {
            avg_object_bytes: average,
            segment_bytes: Some(1 << 20),
            dram_bytes: 8 << 20,
            flash: vec![FlashOptions { path: "/flash".into(), bytes: 64 << 20 }],
            ..small_options()
        });
        let objects = (64 << 20) * 3 / 2 / average;
        (0..objects).for_each(|n| scene.store(n, value_bytes, None));
        let device = &scene.cache.device_stats()[0];
        let counts = device.counts;
        assert!(counts.segments_evicted > 0, "{counts:?}");
        let bytes = device.segments * device.segment_bytes;
        let space = bytes as f64 / (device.objects * average) as f64;
        assert!(space <= space_max, "{space} bytes for a byte of {value_bytes}");
        let written = counts.segment_bytes_written
            + counts.page_bytes_written
            + counts.metadata_bytes_written;
        let amplification = written as f64 / counts.object_bytes_written as f64;
        assert!(amplification <= 1.5, "{amplification}: {counts:?}");
        let before = scene.counts();
        let keys = (0..20_000).map(|n| objects - 1 - n * 7_919 % (objects / 2));
        let hits = scene.hits(keys) as u64;
        let after = scene.counts();
        let reads =
            after.object_reads + after.index_reads - before.object_reads - before.index_reads;
        assert!(hits > 17_000 && reads * 10 <= hits * 11, "{reads} reads for {hits} hits");
    }
}

/// An object that is removed, or stored anew, does not come back with the segment that had it:
/// while it is being filled, while it waits to be written, and once it is on flash.
#[test]
fn removed_small_object_does_not_reappear() {
    // Whether objects have been written before the kill, and whether the next segment has.
    for (later, latest) in [(0, 0), (2_000, 0), (2_000, 2_000), (0, 2_000)] {
        let mut scene = Scene::new(small_options());
        // Out of DRAM, into a segment.
        let fill = |scene: &Scene, first: u64, count: u64| {
            (first..first + count).for_each(|n| scene.store(n, 200, None));
        };
        fill(&scene, 0, 6_000);
        let removed: Vec<u64> = (0..500).collect();
        assert!(scene.hits(removed.iter().copied()) > 400);
        fill(&scene, 100_000, 6_000 + later);
        for n in &removed {
            scene.cache.remove(&key(*n));
        }
        fill(&scene, 200_000, latest);
        for _ in 0..2 {
            scene.kill();
            assert_eq!(scene.cache.warm_devices(), 1);
            assert_eq!(scene.hits(removed.iter().copied()), 0);
            assert!(scene.hits(500..6_000) > 3_000);
            // The log is cut: tombstones have its invalidations now.
            fill(&scene, 300_000, 8_000);
            scene.cache.close();
            scene.restart(Tear::DropUnsynced, 1);
            assert_eq!(scene.hits(removed.iter().copied()), 0);
        }
    }
}

/// Closing cuts the log: by then a segment has its invalidations as tombstones.
#[test]
fn removed_small_object_does_not_reappear_after_a_clean_restart() {
    let mut scene = Scene::new(small_options());
    (0..24_000).for_each(|n| scene.store(n, 200, None));
    let removed = || 0..500;
    assert!(scene.hits(removed()) > 400);
    removed().for_each(|n| scene.cache.remove(&key(n)));
    scene.cache.close();
    scene.restart(Tear::DropUnsynced, 2);
    assert_eq!(scene.cache.warm_devices(), 1);
    assert_eq!(scene.hits(removed()), 0);
    assert!(scene.hits(500..12_000) > 5_000);
}

/// A segment could not be written, and its tombstones were lost with it.
#[test]
fn removed_small_object_does_not_reappear_after_a_failed_write() {
    let removed = || (0..12_000).step_by(20);
    let begun = || {
        let scene = Scene::new(small_options());
        (0..24_000).for_each(|n| scene.store(n, 200, None));
        removed().for_each(|n| scene.cache.remove(&key(n)));
        scene
    };
    let store_more = |scene: &Scene| (100_000..103_000).for_each(|n| scene.store(n, 200, None));
    // Without a fault: which write is that of the next segment.
    let scene = begun();
    scene.storage.record_history(true);
    store_more(&scene);
    let history = scene.storage.history();
    let mut writes = history.iter().filter(|done| done.operation == Operation::Write);
    let write = writes.position(|done| done.path == Path::new("/flash"));

    let mut scene = begun();
    let fails = FaultRule::once(Operation::Write, Fault::Fail(ErrorKind::Failed));
    scene.storage.add_fault(fails.after(write.expect("there is one") as u64));
    store_more(&scene);
    assert_eq!(scene.counts().segments_lost, 1, "{:?}", scene.counts());
    scene.cache.close();
    scene.restart(Tear::DropUnsynced, 2);
    assert_eq!(scene.cache.warm_devices(), 1);
    assert_eq!(scene.hits(removed()), 0);
    // The segments before and after it are there.
    assert!(scene.hits(1..12_000) > 9_000);
    assert!(scene.hits(100_000..103_000) > 1_500);
}

/// An object that is removed from the segment being filled is gone at once, and is not written.
#[test]
fn small_object_removed_from_an_open_segment_is_gone() {
    let mut scene = Scene::new(small_options());
    (0..12_000).for_each(|n| scene.store(n, 200, None));
    let is_in_buffer = |n: &u64| {
        let before = scene.counts().buffer_hits;
        scene.hits(std::iter::once(*n)) == 1 && scene.counts().buffer_hits > before
    };
    let buffered: Vec<u64> = (0..12_000).filter(is_in_buffer).collect();
    assert!(buffered.len() > 50, "{}", buffered.len());
    let before = scene.counts().invalidations;
    buffered.iter().for_each(|n| scene.cache.remove(&key(*n)));
    // Some are taken for objects of whole segments, or have been written since.
    let logged = (scene.counts().invalidations - before) as usize;
    assert!(logged < buffered.len() / 2, "{logged} of {}", buffered.len());
    assert_eq!(scene.hits(buffered.iter().copied()), 0);
    (100_000..104_000).for_each(|n| scene.store(n, 200, None));
    scene.kill();
    assert_eq!(scene.cache.warm_devices(), 1);
    assert_eq!(scene.hits(buffered.iter().copied()), 0);
}

/// A longer key has no room in the fields of a bucket's records.
#[test]
fn object_with_a_long_key_is_found() {
    let scene = Scene::new(small_options());
    let long = |n: u64| format!("{n:0300}").into_bytes();
    let now = || scene.cache.next_version();
    for n in 0..10_000 {
        let (deadline, value) = (Deadline::NEVER, Bytes::from(value(n, 100)));
        scene.cache.store(&long(n), Object { value, flags: 0, deadline, version: now(), marks: 0 });
    }
    for n in 0..10_000 {
        let found = scene.cache.get(&long(n)).expect("there is room");
        assert_eq!(found.object.value, value(n, 100));
    }
}

/// A summary that cannot be read may have had tombstones: older segments are dropped with it.
#[test]
fn damaged_summary_restores_no_removed_small_object() {
    let mut scene = Scene::new(small_options());
    (0..15_000).for_each(|n| scene.store(n, 200, None));
    (0..3_000).for_each(|n| scene.cache.remove(&key(n)));
    // The tombstones get into one of these segments.
    (100_000..110_000).for_each(|n| scene.store(n, 200, None));
    scene.cache.close();
    let flash = scene.storage.read_file("/flash").expect("it is there");
    let mut found = 0;
    for block in (4_096..flash.len() as u64).step_by(4_096) {
        // One block at a time: most are buckets, some are of summaries.
        if block % (397 * 4_096) != 0 && !is_summary(&flash[block as usize..][..4_096]) {
            continue;
        }
        let mut damaged = flash.clone();
        damaged[block as usize + 40] ^= 1;
        let storage = scene.storage.after_power_loss(Tear::KeepUnsynced);
        storage.write_file("/flash", &damaged);
        scene.cache = open(&scene.options, &storage, &scene.clock, 1);
        assert_eq!(scene.cache.warm_devices(), 1);
        assert_eq!(scene.hits((0..3_000).step_by(7)), 0, "block {block}");
        found += scene.hits((100_000..110_000).step_by(101));
    }
    assert!(found > 500, "{found}");
}

/// Whether a block begins as a summary of a segment of buckets: a checksum, a slot, and as many
/// objects as a segment has.
fn is_summary(block: &[u8]) -> bool {
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| block[at + n]));
    (300..1_000).contains(&word(16)) && word(20) < 20_000 && word(8) < 200
}

#[test]
fn small_objects_expire_and_are_cleared() {
    let mut scene = Scene::new(small_options());
    (0..40_000).for_each(|n| scene.store(n, 200, (n % 2 == 0).then_some(60)));
    scene.clock.advance(Duration::from_secs(61));
    let before = scene.counts();
    assert_eq!(scene.hits((0..40_000).step_by(2)), 0);
    // Not even to the cache above, which looks again.
    let after = scene.counts();
    assert!(after.hits == before.hits && after.expired > before.expired + 15_000, "{after:?}");
    assert!(scene.hits((1..40_000).step_by(2)) > 18_000);
    scene.kill();
    assert_eq!(scene.hits((0..40_000).step_by(2)), 0);
    assert!(scene.hits((1..40_000).step_by(2)) > 8_000);
    scene.cache.clear();
    assert_eq!(scene.hits(0..40_000), 0);
    scene.kill();
    assert_eq!(scene.hits(0..40_000), 0);
    (0..40_000).for_each(|n| scene.store(n, 201, None));
    assert!(scene.hits(0..40_000) > 37_000);
}

#[test]
fn flash_without_small_objects_takes_them_again() {
    let scene = Scene::new(small_options());
    for round in 0..3 {
        (0..40_000).for_each(|n| scene.store(n + round, 200, None));
        assert!(scene.hits(round..40_000) > 37_000);
        scene.cache.set_flash_bytes(0).expect("it can have none");
        scene.cache.drain_writes();
        assert!(scene.hits(0..30_000) < 20_000);
        assert_eq!(scene.cache.device_stats()[0].objects, 0);
        scene.cache.set_flash_bytes(16 << 20).expect("it had as much");
    }
}

/// A summary was laid out for the objects of the last segment: when they became smaller, it was full
/// long before the buckets, and stayed so.
#[test]
fn segments_fill_when_small_objects_become_smaller() {
    let scene = Scene::new(Options {
        segment_bytes: Some(1 << 20),
        dram_bytes: 8 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 64 << 20 }],
        ..small_options()
    });
    (0..30_000).for_each(|n| scene.store(n, 700, None));
    for value_bytes in [10, 1, 300] {
        let first = 1_000_000 * value_bytes as u64;
        // Until the summary has grown.
        (first..first + 200_000).for_each(|n| scene.store(n, value_bytes, None));
        let before = scene.counts();
        (first..first + 200_000).for_each(|n| scene.store(n + 200_000, value_bytes, None));
        let after = scene.counts();
        let written = after.segment_bytes_written - before.segment_bytes_written;
        let objects = after.object_bytes_written - before.object_bytes_written;
        // A record has some 14 bytes beside key and value, and 5 in the summary.
        let overhead = 20 * (after.objects_written - before.objects_written);
        assert!(
            written * 100 < (objects + overhead) * 130,
            "{written} bytes for {objects} and {overhead} of {value_bytes}"
        );
    }
}

/// One segment was evicted for each that was opened, however many small objects it had.
#[test]
fn index_of_small_objects_keeps_its_bound_when_they_become_smaller() {
    let scene = Scene::new(Options { avg_object_bytes: 700, ..small_options() });
    let index_bytes = || scene.cache.device_stats()[0].index_bytes;
    let empty = index_bytes();
    (0..25_000).for_each(|n| scene.store(n, 700, None));
    for value_bytes in [200, 20, 1] {
        let first = 1_000_000 * value_bytes as u64;
        (first..first + 200_000).for_each(|n| scene.store(n, value_bytes, None));
        // Two bytes for each of the 22,000 that fit the device, and those of a segment more.
        let most = empty + 2 * 24_600 + 80 * 12 + 2 * 6_000;
        assert!(index_bytes() < most, "{} of {most} bytes", index_bytes());
        assert!(scene.hits(first + 198_000..first + 200_000) > 1_500);
    }
}

/// Segments that have tombstones alone take slots, and evict what these held: it must be less than what
/// was removed. The log must not be full meanwhile, or the device would be cleared.
#[test]
fn removing_all_small_objects_evicts_few_segments() {
    let mut scene = Scene::new(small_options());
    (0..55_000).for_each(|n| scene.store(n, 200, None));
    let hits = scene.hits(0..55_000);
    let before = scene.counts();
    (0..50_000).for_each(|n| scene.cache.remove(&key(n)));
    let after = scene.counts();
    assert_eq!(after.overflows, 0);
    let evicted = (after.segments_evicted - before.segments_evicted) * (128 << 10);
    assert!(evicted < 50_000 * 209 / 2, "{after:?}");
    assert!(scene.hits(50_000..55_000) > hits / 20);
    scene.kill();
    assert_eq!(scene.hits(0..50_000), 0);
    assert_eq!(scene.cache.warm_devices(), 1);
}
