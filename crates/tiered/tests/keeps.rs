//! Objects that the flash tier keeps, and the cost in reads, writes and DRAM: counted on simulated
//! storage without other traffic.

#[path = "keeps/scene.rs"]
mod scene;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scene::{START_MS, Scene, key, open, options};
use tidekv_io::{
    ErrorKind, Fault, FaultRule, ManualClock, MemoryStorage, Operation, OperationRecord, Storage,
    Tear,
};
use tidekv_tiered::{Cache, Environment, FlashOptions, Options};

#[test]
fn all_objects_are_found_while_there_is_room_also_after_a_kill() {
    let mut scene = Scene::new(options());
    (0..10_000).for_each(|n| scene.store(n, 4_000, None));
    let hits = scene.hits(0..10_000);
    assert_eq!(hits, 10_000);
    // Only objects in DRAM alone are lost.
    let in_dram = scene.cache.stats().dram_objects as usize;
    scene.kill();
    let hits = scene.hits(0..10_000);
    assert!(hits >= 10_000 - in_dram - 16 * 8, "{hits} of 10 000, {in_dram} in DRAM");
    assert_eq!(scene.cache.warm_devices(), 1);
}

#[test]
fn clean_restart_loses_no_object() {
    let mut scene = Scene::new(options());
    (0..10_000).for_each(|n| scene.store(n, 4_000, None));
    scene.cache.close();
    scene.restart(Tear::DropUnsynced, 2);
    assert_eq!(scene.hits(0..10_000), 10_000);
}

/// The DRAM size determines the segment size of new flash, not of existing flash.
#[test]
fn restart_with_another_dram_size_loses_no_object() {
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 128 << 20 }];
    let with = |dram_bytes, segment_bytes| {
        let flash = flash.clone();
        Options {
            dram_bytes,
            segment_bytes,
            flash,
            state: Some("/state".into()),
            ..Options::default()
        }
    };
    let mut scene = Scene::new(with(64 << 20, Some(4 << 20)));
    (0..2_000).for_each(|n| scene.store(n, 4_000, None));
    scene.cache.close();
    for dram_mib in [32, 128] {
        scene.options = with(dram_mib << 20, None);
        scene.restart(Tear::DropUnsynced, 2);
        assert_eq!((scene.cache.warm_devices(), scene.hits(0..2_000)), (1, 2_000));
        scene.cache.close();
    }
}

#[test]
fn flash_is_empty_after_a_power_cut() {
    let flash = |path: &str| FlashOptions { path: path.into(), bytes: 32 << 20 };
    let flash = vec![flash("/a"), flash("/b"), flash("/c")];
    let mut scene = Scene::new(Options { flash, state: None, ..options() });
    (0..10_000).for_each(|n| scene.store(n, 4_000, None));
    scene.restart(Tear::KeepUnsynced, 1);
    assert_eq!(scene.cache.warm_devices(), 3);
    // Even if all has happened to reach the devices: this cannot be verified.
    scene.restart(Tear::KeepUnsynced, 2);
    assert_eq!(scene.cache.warm_devices(), 0);
    assert_eq!(scene.hits(0..10_000), 0);
}

/// A device that was closed cleanly cannot be read at the next start. What it holds is void from then
/// on, also after a power cut before it is back: the state file says so.
#[test]
fn device_that_was_out_is_not_trusted_after_a_reboot() {
    let mut scene = Scene::new(options());
    (0..10_000).for_each(|n| scene.store(n, 4_000, None));
    scene.cache.close();
    scene.storage = scene.storage.after_power_loss(Tear::DropUnsynced);
    let broken = Fault::Fail(ErrorKind::Failed);
    scene.storage.add_fault(FaultRule::always(Operation::Read, broken).on_path("/flash"));
    scene.cache = open(&scene.options, &scene.storage, &scene.clock, 1);
    assert_eq!(scene.cache.warm_devices(), 0);
    scene.cache.remove(&key(5));
    scene.restart(Tear::DropUnsynced, 2);
    assert_eq!(scene.cache.warm_devices(), 0);
    assert!(scene.cache.get(&key(5)).is_none());
}

#[test]
fn hit_costs_one_read_if_its_entry_is_hot_and_two_if_not() {
    let scene = Scene::new(Options { index_bytes: Some(96 << 10), ..options() });
    (0..10_000).for_each(|n| scene.store(n, 4_000, None));
    // All of the index once, then a few that are accessed again.
    scene.hits(0..10_000);
    let before = scene.counts();
    let cold = scene.hits((0..10_000).step_by(97));
    let after = scene.counts();
    let reads = after.object_reads + after.index_reads - before.object_reads - before.index_reads;
    assert!(reads as usize <= 2 * cold, "{reads} reads for {cold} cold hits");
    let hot: Vec<u64> = (0..1_500).collect();
    (0..3).for_each(|_| assert_eq!(scene.hits(hot.iter().copied()), hot.len()));
    let before = scene.counts();
    assert_eq!(scene.hits(hot.iter().copied()), hot.len());
    let after = scene.counts();
    let objects = after.object_reads - before.object_reads;
    let reads = objects + after.index_reads - before.index_reads;
    assert!(objects > 800, "they did not all fit DRAM: {objects}");
    assert!(reads * 100 <= objects * 105, "{reads} reads for {objects} hot hits");
}

#[test]
fn absent_keys_cost_hardly_any_reads() {
    let scene = Scene::new(options());
    (0..10_000).for_each(|n| scene.store(n, 4_000, None));
    let before = scene.counts();
    assert_eq!(scene.hits(1_000_000..1_100_000), 0);
    let after = scene.counts();
    let reads = after.object_reads + after.index_reads - before.object_reads - before.index_reads;
    assert!(reads < 2_000, "{reads} reads for 100 000 misses");
}

#[test]
fn an_object_on_flash_takes_less_than_two_bytes_of_dram() {
    // The index and all fixed costs; hot entries are limited by a budget of their own, and small
    // objects have none.
    for (value_bytes, average, objects, index_bytes) in
        [(850, 850, 120_000, 24 << 10), (300, 310, 250_000, 0), (120, 128, 500_000, 0)]
    {
        let scene = Scene::new(Options {
            dram_bytes: 4 << 20,
            avg_object_bytes: average,
            segment_bytes: Some(512 << 10),
            index_bytes: Some(index_bytes),
            ..options()
        });
        // Until segments are evicted.
        (0..objects).for_each(|n| scene.store(n, value_bytes, None));
        let device = &scene.cache.device_stats()[0];
        assert!(device.counts.segments_evicted > 0);
        let objects = device.objects as f64;
        let bytes_per_object = (device.index_bytes + index_bytes * 2 / 3) as f64 / objects;
        assert!(bytes_per_object <= 2.0, "{bytes_per_object} bytes for each of {objects} objects");
    }
}

#[test]
fn expired_segments_are_dropped_first_and_without_a_read() {
    let scene = Scene::new(options());
    // Objects that stay, among others that expire; together more than flash holds later.
    for n in 0..10_000 {
        scene.store(n, 4_000, (n % 2 == 0).then_some(600));
    }
    scene.clock.advance(Duration::from_secs(601));
    let before = scene.counts();
    (20_000..28_000).for_each(|n| scene.store(n, 4_000, None));
    let after = scene.counts();
    assert_eq!(after.segments_evicted, before.segments_evicted);
    assert!(after.segments_expired - before.segments_expired > 200);
    assert_eq!(after.object_reads, before.object_reads);
    assert_eq!(scene.hits((1..10_000).step_by(2)), 5_000);
    assert_eq!(scene.hits((0..10_000).step_by(2)), 0);
}

#[test]
fn write_amplification_is_low() {
    let scene =
        Scene::new(Options { dram_bytes: 4 << 20, segment_bytes: Some(256 << 10), ..options() });
    (0..30_000).for_each(|n| scene.store(n, 4_000, None));
    let counts = scene.counts();
    let written =
        counts.segment_bytes_written + counts.page_bytes_written + counts.metadata_bytes_written;
    let amplification = written as f64 / counts.object_bytes_written as f64;
    assert!(amplification <= 1.1, "{amplification}: {counts:?}");
}

#[test]
fn writes_stay_within_the_budget() {
    // A minute's budget may be written at once.
    let scene = Scene::new(Options { flash_writes_bytes_per_s: Some(100_000), ..options() });
    (0..10_000).for_each(|n| scene.store(n, 4_000, None));
    let counts = scene.counts();
    assert!(counts.object_bytes_written < 6_000_000, "{counts:?}");
    assert!(counts.over_budget > 7_000, "{counts:?}");
}

#[test]
fn accessed_object_outlives_the_log() {
    let scene = Scene::new(options());
    // The log wraps three times; one object in a hundred is accessed now and then.
    for n in 0..45_000 {
        scene.store(n, 4_000, None);
        if n % 100 == 0 {
            scene.hits((0..n.min(2_000)).step_by(100));
        }
    }
    assert!(scene.counts().segments_evicted > 1_000);
    assert_eq!(scene.hits((0..2_000).step_by(100)), 20);
    assert_eq!(scene.hits(1..100), 0);
}

/// Stores enough objects for full pages to displace some, and stores the displaced ones anew, in
/// DRAM only; after a kill none of them reappears in its old state.
fn displace(avg_object_bytes: u64, objects: u64) {
    let mut scene = Scene::new(Options {
        avg_object_bytes,
        index_bytes: Some(2_000),
        segment_bytes: Some(256 << 10),
        dram_bytes: 4 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 16 << 20 }],
        ..options()
    });
    (0..objects).for_each(|n| scene.store(n, 800, None));
    assert!(scene.counts().displaced > 100, "{:?}", scene.counts());
    let is_gone = |n: &u64| scene.cache.get(&key(*n)).is_none();
    let gone: Vec<u64> = (0..objects).filter(is_gone).take(5_000).collect();
    assert!(gone.len() > 100, "{}", gone.len());
    gone.iter().for_each(|n| scene.store(*n, 801, None));
    scene.kill();
    assert_eq!(scene.cache.warm_devices(), 1);
    for n in gone {
        let found = scene.cache.get(&key(n)).map(|found| found.object.value.len());
        assert!(found.is_none_or(|len| len == 801), "key {n} has what it had before");
    }
}

#[test]
fn entries_displaced_by_a_full_page_do_not_reappear() {
    // One page for all; then pages that displace a few entries at a time.
    displace(1 << 20, 14_000);
    displace(2 << 10, 40_000);
}

/// A device whose reads all failed stayed in use as long as memory answered other lookups in
/// between: each of these counted as a success of the device.
#[test]
fn failing_device_is_detached_despite_hits_in_memory() {
    for operation in [Operation::Read, Operation::Write] {
        let scene = Scene::new(options());
        (0..5_000).for_each(|n| scene.store(n, 4_000, None));
        let rule = FaultRule::always(operation, Fault::Fail(ErrorKind::Failed));
        // Data alone: reads of records, writes of whole segments.
        scene.storage.add_fault(rule.on_path("flash"));
        for n in 0..5_000 {
            scene.hits(n..n + 1);
            scene.hits(1_000_000 + n..1_000_001 + n);
            scene.store(10_000 + n, 4_000, None);
        }
        assert_eq!(scene.cache.device_stats()[0].times_out, 1, "{operation:?}");
    }
}

/// A device that was detached does not know it. When those that do are gone, it must not count.
#[test]
fn detached_device_is_not_trusted_without_the_others() {
    let device = |path: &str| FlashOptions { path: path.into(), bytes: 16 << 20 };
    let flash = vec![device("/flash-a"), device("/flash-b"), device("/flash-c")];
    let mut scene = Scene::new(Options { flash, state: None, ..options() });
    (0..3_000).for_each(|n| scene.store(n, 4_000, None));
    assert!(scene.hits(0..3_000) > 2_500);
    for operation in [Operation::Read, Operation::Write] {
        let rule = FaultRule::always(operation, Fault::Fail(ErrorKind::Failed));
        scene.storage.add_fault(rule.on_path("flash-a"));
    }
    scene.hits(0..3_000);
    assert_eq!(scene.cache.device_stats()[0].times_out, 1);
    (0..3_000).for_each(|n| scene.store(n, 3_000, None));
    scene.storage.clear_faults();
    scene.storage = scene.storage.after_power_loss(Tear::KeepUnsynced);
    for lost in ["/flash-b", "/flash-c"] {
        scene.storage.remove(Path::new(lost)).unwrap();
    }
    scene.cache = open(&scene.options, &scene.storage, &scene.clock, 1);
    for n in 0..3_000 {
        let found = scene.cache.get(&key(n)).map(|found| found.object.value.len());
        assert_ne!(found, Some(4_000), "key {n} has the value from before the failure");
    }
}

#[test]
fn object_larger_than_a_segment_is_split_and_too_little_flash_is_refused() {
    let scene = Scene::new(options());
    scene.store(1, 200 << 10, None);
    (2..1_000).for_each(|n| scene.store(n, 4_000, None));
    assert_eq!(scene.hits(1..2), 1, "it is stored in parts");
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 64 << 10 }];
    let tiny = Options { flash, ..options() };
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let environment = Environment::new(storage, Arc::new(ManualClock::new(START_MS)));
    let error = Cache::open(&tiny, &environment).unwrap_err().to_string();
    assert!(error.contains("at least"), "{error}");
}

/// With more groups than buffers, each object of another group sealed a segment that had hardly
/// begun: flash held a sixteenth of its capacity, and write amplification was 1.8. An object now
/// shares a segment of a longer group until another group has filled its own.
#[test]
fn many_groups_share_few_buffers_without_wasting_segments() {
    const SEGMENT_BYTES: u64 = 64 << 10;
    let scene = Scene::new(Options {
        dram_bytes: 2 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 8 << 20 }],
        object_bytes_max: 64 << 10,
        segment_bytes: Some(SEGMENT_BYTES),
        ..Options::default()
    });
    const TTLS_S: [u64; 6] = [60, 300, 1_000, 3_600, 14_400, 86_400];
    (0..10_000).for_each(|n| {
        // In random order of groups.
        let ttl_s = TTLS_S[((n * 0x9E37_79B9) >> 7) as usize % TTLS_S.len()];
        scene.store(n, 2_000, Some(ttl_s));
    });
    let device = &scene.cache.device_stats()[0];
    assert!(device.segments > 100, "{device:?}");
    let filled = (device.objects * 2_000) as f64 / (device.segments * SEGMENT_BYTES) as f64;
    assert!(filled > 0.6, "{filled}");
    let counts = &device.counts;
    let written_bytes = counts.segment_bytes_written as f64;
    assert!(written_bytes < 1.15 * counts.object_bytes_written as f64, "{counts:?}");
}

/// Recoveries once read the summaries of all segments, for a log that never fills was never cut:
/// ten million objects took five seconds and 712 MiB.
#[test]
fn recovery_reads_a_bounded_number_of_summaries() {
    // Of nearly two thousand. With few pending changes allowed, checkpoints keep it below the
    // bound.
    for (slow_every, index_bytes, most) in
        [(u64::MAX, 48 << 10, 250), (50, 48 << 10, 250), (u64::MAX, 12 << 10, 60)]
    {
        let flash = vec![FlashOptions { path: "/flash".into(), bytes: 128 << 20 }];
        let mut scene = Scene::new(Options { flash, index_bytes: Some(index_bytes), ..options() });
        for n in 0..28_000_u64 {
            let remaining_s = n.is_multiple_of(slow_every).then_some(5_000_000);
            scene.store(n, 4_000, remaining_s);
        }
        let in_dram = scene.cache.stats().dram_objects as usize;
        let segments = scene.cache.device_stats()[0].segments as usize;
        scene.storage = scene.storage.after_power_loss(Tear::KeepUnsynced);
        scene.storage.record_history(true);
        scene.cache = open(&scene.options, &scene.storage, &scene.clock, 1);
        let read = scene.storage.history();
        let is_summary = |done: &&OperationRecord| {
            done.operation == Operation::Read && done.path == Path::new("/flash")
        };
        // One is the mark.
        let summaries = read.iter().filter(is_summary).count() - 1;
        assert!(summaries > 10, "{summaries}: what pages do not have is there");
        assert!(summaries <= most, "{summaries} summaries of {segments} segments");
        scene.storage.record_history(false);
        let hits = scene.hits(0..28_000);
        assert!(hits >= 28_000 - in_dram - 16 * 8, "{hits} of 28 000, {in_dram} in DRAM");
    }
}

/// A device stayed trusted when another one had been given another size, though keys had moved between
/// them by that: what they had been overwritten with was on the other device, and invalidated here no
/// more.
#[test]
fn device_is_not_trusted_when_the_sizes_of_others_change() {
    let flash = |mib: u64| {
        let of = |path: &str, mib: u64| FlashOptions { path: path.into(), bytes: mib << 20 };
        vec![of("/a", 16), of("/b", 16), of("/c", mib)]
    };
    let mut scene = Scene::new(Options { flash: flash(16), ..options() });
    (0..3_000).for_each(|n| scene.store(n, 4_000, None));
    for mib in [32, 16] {
        scene.cache.close();
        scene.options = Options { flash: flash(mib), ..options() };
        scene.restart(Tear::DropUnsynced, u128::from(mib));
        assert_eq!((mib, scene.cache.warm_devices()), (mib, 0));
        assert_eq!(scene.hits(0..3_000), 0);
        (0..3_000).for_each(|n| scene.store(n, 4_001, None));
    }
    scene.cache.close();
    scene.restart(Tear::DropUnsynced, 99);
    assert_eq!(scene.cache.warm_devices(), 3);
}
