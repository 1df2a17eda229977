//! Objects that the flash tier keeps, and the cost in reads, writes and DRAM: counted on simulated
//! storage without other traffic.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{
    Clock, ErrorKind, Fault, FaultRule, ManualClock, MemoryStorage, Operation, OperationRecord,
    SeededRandom, Storage, Tear,
};
use tidekv_tiered::{Cache, Deadline, DeviceCounts, Environment, FlashOptions, Object, Options};

const START_MS: u64 = 1_700_000_000_000;

struct Scene {
    storage: MemoryStorage,
    clock: Arc<ManualClock>,
    options: Options,
    cache: Cache,
}

impl Scene {
    fn new(options: Options) -> Self {
        let (storage, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
        let cache = open(&options, &storage, &clock, 1);
        Self { storage, clock, options, cache }
    }

    /// Kills and restarts the process.
    fn kill(&mut self) {
        self.restart(Tear::KeepUnsynced, 1);
    }

    /// Ends and restarts the process in that boot of the machine.
    fn restart(&mut self, tear: Tear, boot: u128) {
        self.storage = self.storage.after_power_loss(tear);
        self.cache = open(&self.options, &self.storage, &self.clock, boot);
    }

    fn store(&self, n: u64, value_bytes: usize, remaining_s: Option<u64>) {
        let now_s = u64::from(self.cache.now_s());
        let deadline =
            remaining_s.map_or(Deadline::NEVER, |remaining_s| Deadline::at(now_s + remaining_s));
        let value = Bytes::from(value(n, value_bytes));
        let version = self.cache.next_version();
        self.cache.store(&key(n), Object { value, flags: 0, deadline, version, marks: 0 });
    }

    /// The number of objects found; each must equal the stored one.
    fn hits(&self, numbers: impl Iterator<Item = u64>) -> usize {
        let is_there = |n: &u64| match self.cache.get(&key(*n)) {
            None => false,
            Some(found) => {
                assert_eq!(found.object.value, value(*n, found.object.value.len()));
                true
            }
        };
        numbers.filter(is_there).count()
    }

    fn counts(&self) -> DeviceCounts {
        self.cache.device_stats()[0].counts
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("key-{n}").into_bytes()
}

fn value(n: u64, bytes: usize) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

fn open(options: &Options, storage: &MemoryStorage, clock: &Arc<ManualClock>, boot: u128) -> Cache {
    // Each opening has other numbers, as by chance.
    static OPENINGS: AtomicU64 = AtomicU64::new(1);
    let random = Arc::new(SeededRandom::new(OPENINGS.fetch_add(1, Ordering::Relaxed)));
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let environment = Environment {
        storage,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random,
        boot,
        is_inline: true,
    };
    Cache::open(options, &environment).unwrap_or_else(|error| panic!("{error}"))
}

/// One device of 64 MiB behind 2 MiB of DRAM.
fn options() -> Options {
    Options {
        dram_bytes: 2 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 64 << 20 }],
        object_bytes_max: 256 << 10,
        avg_object_bytes: 4 << 10,
        state: Some("/state".into()),
        segment_bytes: Some(64 << 10),
        ..Options::default()
    }
}

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
    assert_eq!(scene.hits((0..40_000).step_by(2)), 0);
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
    let scene = Scene::new(small_options());
    (0..15_000).for_each(|n| scene.store(n, 700, None));
    for value_bytes in [100, 20, 1, 300] {
        let before = scene.counts();
        let first = 100_000 * value_bytes as u64;
        (first..first + 90_000).for_each(|n| scene.store(n, value_bytes, None));
        let after = scene.counts();
        let written = after.segment_bytes_written - before.segment_bytes_written;
        let objects = after.object_bytes_written - before.object_bytes_written;
        // A record of a byte has 13 of a key, and 20 of its own.
        let overhead = 20 * (after.objects_written - before.objects_written);
        assert!(
            written * 100 < (objects + overhead) * 140,
            "{written} bytes for {objects} and {overhead}"
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
