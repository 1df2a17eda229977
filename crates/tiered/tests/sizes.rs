//! Resizing flash and DRAM while the cache serves.

#![allow(clippy::disallowed_methods, reason = "looks at what a file takes of its disk")]

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{
    Clock, ErrorKind, Fault, FaultRule, LocalStorage, ManualClock, MemoryStorage, Operation,
    SeededRandom, Storage, Tear,
};
use tidekv_tiered::{
    Cache, Deadline, DeviceState, DeviceStats, Environment, FlashOptions, Object, Options,
    TenantOptions,
};

const START_MS: u64 = 1_700_000_000_000;
const DEVICE_BYTES: u64 = 16 << 20;
const SEGMENT_BYTES: u64 = 64 << 10;

fn options() -> Options {
    Options {
        dram_bytes: 2 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: DEVICE_BYTES }],
        object_bytes_max: 256 << 10,
        state: Some("/state".into()),
        segment_bytes: Some(SEGMENT_BYTES),
        ..Options::default()
    }
}

fn open(options: &Options, storage: Arc<dyn Storage>, clock: &Arc<ManualClock>) -> Cache {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let random = Arc::new(SeededRandom::new(1));
    let environment = Environment { storage, clock, random, boot: 1, is_inline: true };
    Cache::open(options, &environment).unwrap_or_else(|error| panic!("{error}"))
}

fn begin(options: &Options) -> (Cache, MemoryStorage, Arc<ManualClock>) {
    let (storage, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
    (open(options, Arc::new(storage.clone()), &clock), storage, clock)
}

/// Reopens the cache as after a kill.
fn again(options: &Options, storage: &MemoryStorage, clock: &Arc<ManualClock>) -> Cache {
    open(options, Arc::new(storage.after_power_loss(Tear::KeepUnsynced)), clock)
}

/// The value of a key in one of its states.
fn value(n: u64, state: u64) -> Vec<u8> {
    (n << 8 | state).to_le_bytes().repeat(500)
}

fn store(cache: &Cache, n: u64, state: u64) {
    store_until(cache, n, state, Deadline::NEVER);
}

fn store_until(cache: &Cache, n: u64, state: u64, deadline: Deadline) {
    let (value, version) = (Bytes::from(value(n, state)), cache.next_version());
    cache.store(&n.to_le_bytes(), Object { value, flags: 0, deadline, version, marks: 0 });
}

/// The state of a key, if it is present.
fn state(cache: &Cache, n: u64) -> Option<u64> {
    let value_found = cache.get(&n.to_le_bytes())?.object.value;
    let state = u64::from(value_found[0]);
    assert_eq!(value_found, value(n, state), "{n} has its own value");
    Some(state)
}

fn hits(cache: &Cache, numbers: impl Iterator<Item = u64>) -> usize {
    numbers.filter(|n| state(cache, *n).is_some()).count()
}

fn device(cache: &Cache) -> DeviceStats {
    cache.device_stats().swap_remove(0)
}

#[test]
fn shrinking_flash_keeps_the_newest_objects() {
    let (cache, storage, _) = begin(&options());
    (0..3_000).for_each(|n| store(&cache, n, 1));
    let full = device(&cache);
    assert!(full.segments > 180 && full.bytes_max == full.bytes, "{full:?}");
    storage.record_history(true);
    cache.set_flash_bytes(DEVICE_BYTES / 4).expect("it is enough");
    let punched =
        storage.history().iter().filter(|it| it.operation == Operation::PunchHole).count();
    let small = device(&cache);
    assert_eq!((small.bytes, small.bytes_max), (DEVICE_BYTES, DEVICE_BYTES / 4));
    assert!((40..64).contains(&small.segments_max), "{small:?}");
    assert!(small.segments <= small.segments_max && small.segments + 16 > small.segments_max);
    assert_eq!(small.counts.segments_evicted, full.segments - small.segments);
    assert_eq!(punched as u64, full.segments_max - small.segments_max);
    // Objects of the remaining segments, and no older ones.
    assert_eq!(hits(&cache, 0..1_500), 0);
    assert!(hits(&cache, 2_100..3_000) > 890);
    // It stays so, and all hits are correct, while other objects are stored.
    (3_000..8_000).for_each(|n| store(&cache, n, 2));
    assert!(device(&cache).segments <= small.segments_max);
    assert!(
        (0..8_000).all(|n| state(&cache, n).is_none_or(|state| state == 1 + u64::from(n >= 3_000)))
    );
    // An increase takes effect at once.
    cache.set_flash_bytes(DEVICE_BYTES).expect("it is all there is");
    (10_000..13_000).for_each(|n| store(&cache, n, 3));
    let grown = device(&cache);
    assert!(grown.segments > 180 && grown.segments_max == full.segments_max, "{grown:?}");
    assert_eq!(hits(&cache, 10_000..13_000), 3_000);
}

#[test]
fn buffer_freed_by_flash_is_used_for_objects() {
    let dram_bytes = 8 << 20;
    let options = Options {
        dram_bytes,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 4 * DEVICE_BYTES }],
        segment_bytes: Some(4 * SEGMENT_BYTES),
        object_bytes_max: 64 << 10,
        ..options()
    };
    let (cache, _, _) = begin(&options);
    let taken = |from: u64| {
        // Enough to fill all of DRAM.
        (from..from + 10_000).for_each(|n| store(&cache, n, 1));
        cache.stats().dram_bytes
    };
    let flash_dram = cache.tenant_stats()[0].flash_dram;
    let (less, before) = (dram_bytes - 8_192, taken(0));
    let [of_all, of_less] = [dram_bytes, less].map(|bytes| flash_dram.objects_bytes(bytes));
    // It has one buffer fewer, of 256 KiB, and all of it is for objects.
    assert_eq!(of_less, of_all + (256 << 10) - 8_192 + 8_192 / 16);
    assert!((of_all - (128 << 10)..=of_all).contains(&before), "{before} of {of_all}");
    cache.set_dram_bytes(less).expect("it is enough");
    let after = taken(20_000);
    assert!((of_less - (128 << 10)..=of_less).contains(&after), "{after} of {of_less}");
    assert!(after > of_all);
}

#[test]
fn flash_limit_of_zero_and_back() {
    let (cache, _, _) = begin(&options());
    (0..3_000).for_each(|n| store(&cache, n, 1));
    cache.set_flash_bytes(0).expect("none is allowed");
    let none = device(&cache);
    assert_eq!((none.segments, none.objects, none.segments_max, none.bytes_max), (0, 0, 0, 0));
    let in_dram = cache.stats().dram_objects as usize;
    assert_eq!(hits(&cache, 0..3_000), in_dram);
    (3_000..6_000).for_each(|n| store(&cache, n, 2));
    let counts = device(&cache).counts;
    assert_eq!(counts.segment_bytes_written, none.counts.segment_bytes_written);
    assert!(counts.bypassed > 2_000 && counts.object_reads == none.counts.object_reads);
    cache.set_flash_bytes(DEVICE_BYTES).expect("it is all there is");
    (6_000..9_000).for_each(|n| store(&cache, n, 3));
    assert_eq!(hits(&cache, 6_000..9_000), 3_000);
}

#[test]
fn impossible_flash_sizes_are_refused_with_a_reason() {
    let (cache, _, _) = begin(&options());
    let error = cache.set_flash_bytes(DEVICE_BYTES + 1).expect_err("it is more").to_string();
    assert!(error.contains(&format!("{DEVICE_BYTES} bytes of flash")), "{error}");
    let error = cache.set_flash_bytes(1 << 19).expect_err("it is too little").to_string();
    let least = error.split(' ').filter_map(|word| word.parse::<u64>().ok()).nth(1);
    let least = least.unwrap_or_else(|| panic!("{error}"));
    assert_eq!(device(&cache).bytes_max, DEVICE_BYTES);
    cache.set_flash_bytes(least).expect("it says so");
    assert_eq!(device(&cache).segments_max, 8);
    let (cache, _, _) = begin(&Options { flash: Vec::new(), ..options() });
    assert!(cache.set_flash_bytes(0).is_ok() && cache.set_flash_bytes(1).is_err());
}

#[test]
fn tenants_and_devices_have_their_parts() {
    let flash = |path: &str, bytes| FlashOptions { path: path.into(), bytes };
    let tenant = TenantOptions {
        name: "shop".into(),
        prefix: b"shop:".to_vec(),
        dram_bytes: 2 << 20,
        flash_bytes: 12 << 20,
    };
    let flash = vec![flash("/a", 32 << 20), flash("/b", 16 << 20)];
    let (cache, _, _) =
        begin(&Options { dram_bytes: 6 << 20, flash, tenants: vec![tenant], ..options() });
    let of = || cache.tenant_stats().iter().map(|it| it.flash_bytes_max >> 20).collect::<Vec<_>>();
    assert_eq!(of(), [36, 12]);
    cache.set_tenant_flash_bytes("shop", 6 << 20).expect("it is enough");
    assert_eq!(of(), [36, 6]);
    cache.set_flash_bytes(24 << 20).expect("it is enough");
    assert_eq!(of(), [18, 6]);
    cache.set_tenant_flash_bytes("default", 36 << 20).expect("he had it");
    let devices = cache.device_stats();
    let bytes_max = devices.iter().map(|it| it.bytes_max >> 20).collect::<Vec<_>>();
    assert_eq!((of(), bytes_max), (vec![36, 6], vec![24, 12, 4, 2]));
    assert!(cache.set_tenant_flash_bytes("shop", 13 << 20).is_err(), "it is more than he had");
    assert!(cache.set_flash_bytes(5 << 20).is_err(), "a tenant has more");
    assert!(cache.set_tenant_flash_bytes("nobody", 6 << 20).is_err());
}

/// Some file systems keep the contents of a punched hole readable.
fn keep_room(storage: &MemoryStorage) {
    let fault = Fault::Fail(ErrorKind::Unsupported);
    storage.add_fault(FaultRule::always(Operation::PunchHole, fault));
}

/// Evicted objects are stored anew, which no log records, for DRAM treated them as absent.
#[test]
fn objects_evicted_by_shrinking_stay_gone_after_a_kill() {
    let (cache, storage, clock) = begin(&options());
    keep_room(&storage);
    (0..3_000).for_each(|n| store(&cache, n, 1));
    cache.set_flash_bytes(DEVICE_BYTES / 4).expect("it is enough");
    let gone: Vec<u64> = (0..3_000).filter(|n| state(&cache, *n).is_none()).collect();
    assert!(gone.len() > 1_500, "{}", gone.len());
    // Few enough to stay in DRAM, so that pages are unchanged.
    gone.iter().step_by(20).for_each(|n| store(&cache, *n, 2));
    let cache = again(&options(), &storage, &clock);
    assert_eq!((cache.warm_devices(), device(&cache).bytes_max), (1, DEVICE_BYTES));
    assert!(hits(&cache, 0..3_000) > 300);
    assert!(gone.iter().all(|n| state(&cache, *n) != Some(1)));
    // All of it may be used again.
    (5_000..8_000).for_each(|n| store(&cache, n, 3));
    assert_eq!(hits(&cache, 5_000..8_000), 3_000);
}

/// At each step in between, evicted objects are stored anew, and the process is killed.
#[test]
fn kill_while_flash_shrinks_keeps_only_last_stored_objects() {
    let sizes = [0, 0, DEVICE_BYTES / 4].into_iter().cycle();
    for (cut, flash_bytes) in (0..200).step_by(9).zip(sizes) {
        let (cache, storage, clock) = begin(&options());
        (0..3_000).for_each(|n| store(&cache, n, 1));
        if cut % 2 == 0 {
            keep_room(&storage);
        }
        let (punched, anew) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let during = (cache.clone(), Arc::clone(&punched), Arc::clone(&anew), storage.clone());
        storage.on_operation(move |it| {
            let (cache, punched, anew, storage) = &during;
            if it.operation != Operation::PunchHole {
                return;
            }
            let number = punched.fetch_add(1, Ordering::Relaxed);
            let next = anew.load(Ordering::Relaxed);
            if number < cut && next < 200 && !cache.needs_flash_read(&next.to_le_bytes()) {
                store(cache, next, 2);
                anew.fetch_add(1, Ordering::Relaxed);
            }
            if number == cut {
                storage.cut_power_at(storage.operations() + cut % 7);
            }
        });
        cache.set_flash_bytes(flash_bytes).expect("it is enough");
        storage.clear_on_operation();
        let (punched, anew) = (punched.load(Ordering::Relaxed), anew.load(Ordering::Relaxed));
        assert!(punched > cut, "{punched}, {cut}");
        let cache = again(&options(), &storage, &clock);
        assert_eq!(cache.warm_devices(), 1);
        assert!((0..anew).all(|n| state(&cache, n) != Some(1)), "{cut}: {anew}");
        assert!((anew..3_000).all(|n| state(&cache, n) != Some(2)), "{cut}");
        assert!(cut < 20 || anew > 0, "{cut}");
    }
}

#[test]
fn returned_device_has_the_current_limit() {
    let flash = |path: &str| FlashOptions { path: path.into(), bytes: DEVICE_BYTES };
    let flash = vec![flash("/a"), flash("/b")];
    let (cache, storage, clock) = begin(&Options { flash, ..options() });
    (0..6_000).for_each(|n| store(&cache, n, 1));
    cache.set_flash_bytes(DEVICE_BYTES).expect("it is enough");
    let rule = FaultRule::always(Operation::Write, Fault::Fail(ErrorKind::Failed));
    storage.add_fault(rule.on_path("/b"));
    (6_000..9_000).for_each(|n| store(&cache, n, 1));
    assert_eq!(cache.device_stats()[1].state, DeviceState::Out);
    // While it is out and cannot be notified.
    cache.set_flash_bytes(DEVICE_BYTES / 2).expect("it is enough");
    storage.clear_faults();
    clock.advance(Duration::from_secs(60));
    cache.run_maintenance();
    assert_ne!(cache.device_stats()[1].state, DeviceState::Out);
    (10_000..16_000).for_each(|n| store(&cache, n, 2));
    let [a, b] = cache.device_stats().try_into().expect("there are two");
    assert!(a.segments_max == b.segments_max && (50..64).contains(&b.segments_max), "{b:?}");
    assert!([&a, &b].iter().all(|it| it.segments <= it.segments_max && it.segments > 40));
    // The cache is cleared, and the limit stays.
    cache.clear();
    assert_eq!(hits(&cache, 0..16_000), 0);
    (20_000..26_000).for_each(|n| store(&cache, n, 3));
    assert!(cache.device_stats().iter().all(|it| (40..=b.segments_max).contains(&it.segments)));
}

#[test]
fn shrinking_flash_returns_space_to_the_file_system() {
    let directory = tempfile::tempdir().expect("there is room for tests");
    let path = directory.path().join("flash");
    let options = Options {
        flash: vec![FlashOptions { path: path.clone(), bytes: DEVICE_BYTES }],
        state: None,
        ..options()
    };
    let (storage, clock) = (Arc::new(LocalStorage::new()), Arc::new(ManualClock::new(START_MS)));
    let cache = open(&options, storage, &clock);
    (0..3_000).for_each(|n| store(&cache, n, 1));
    let taken_bytes = |path: &Path| std::fs::metadata(path).map(|it| it.blocks() * 512);
    let before = taken_bytes(&path).expect("it is there");
    assert!(before > DEVICE_BYTES * 9 / 10, "{before}");
    cache.set_flash_bytes(DEVICE_BYTES / 4).expect("it is enough");
    let after = taken_bytes(&path).expect("it is there");
    // The end of a device, where no segment fits any more, stays.
    assert!(after <= DEVICE_BYTES / 4 + SEGMENT_BYTES, "{after} of {before}");
    assert!(hits(&cache, 2_300..3_000) > 690);
    cache.set_flash_bytes(DEVICE_BYTES).expect("it is all there is");
    (3_000..6_000).for_each(|n| store(&cache, n, 2));
    assert_eq!(hits(&cache, 3_000..6_000), 3_000);
    cache.set_flash_bytes(0).expect("none is allowed");
    let none = taken_bytes(&path).expect("it is there");
    assert!(none < 1 << 20, "{none}: pages of the index");
}

#[test]
fn objects_evicted_by_shrinking_dram_are_on_flash() {
    let (cache, _, _) = begin(&Options { dram_bytes: 12 << 20, ..options() });
    (0..2_000).for_each(|n| store(&cache, n, 1));
    let before = cache.stats();
    assert!(before.dram_objects > 1_500, "{before:?}");
    cache.set_dram_bytes(before.dram_bytes_max / 2).expect("it is enough");
    let after = cache.stats();
    assert!(after.dram_bytes < before.dram_bytes - (3 << 20), "{after:?}");
    assert_eq!(after.dram_bytes_max, 6 << 20);
    assert_eq!(hits(&cache, 0..2_000), 2_000);
    cache.set_dram_bytes(12 << 20).expect("it had it");
    assert!(cache.has_room_for(1, 256 << 10));
}

#[test]
fn flash_share_of_dram_follows_its_size() {
    let (large, small) = (12 << 20, 4 << 20);
    // Many times to live, so that many buffers are in use.
    let (cache, _, clock) = begin(&Options { dram_bytes: large, ..options() });
    let fill = |many: Range<u64>| {
        let now_s = clock.unix_ms() / 1_000;
        for n in many.clone() {
            let ttl_s = 1_000 << (n % 13);
            store_until(&cache, n, 1, Deadline::at(now_s + ttl_s));
        }
        hits(&cache, many)
    };
    fill(0..6_000);
    let takes = || -> u64 { cache.device_stats().iter().map(|it| it.dram_bytes).sum() };
    let stats = || cache.tenant_stats().remove(0);
    let may = |dram_bytes| stats().flash_dram.bytes(dram_bytes);
    assert!(takes() > may(small) && takes() <= may(large), "{} of {}", takes(), may(large));
    cache.set_dram_bytes(small).expect("it is enough");
    cache.drain_writes();
    assert!(takes() <= may(small), "{} of {}", takes(), may(small));
    assert_eq!(stats().flash_dram_bytes(), may(small));
    // DRAM that flash has returned goes to objects.
    let objects = stats().cache.dram_bytes;
    assert!(objects > (small - may(small)) * 8 / 10, "{objects}");
    fill(6_000..8_000);
    assert!(takes() <= may(small), "{} of {}", takes(), may(small));
    cache.set_dram_bytes(large).expect("it had it");
    assert!(fill(8_000..10_000) > 1_900);
    assert!(takes() <= may(large), "{} of {}", takes(), may(large));
}

#[test]
fn concurrent_dram_resizes_end_with_one_of_the_sizes() {
    let flash = Vec::new();
    let (cache, _, _) = begin(&Options { flash, dram_bytes: 64 << 20, ..options() });
    for round in 0..20 {
        (0..8_000).for_each(|n| store(&cache, n, 1));
        std::thread::scope(|scope| {
            for mib in [8, 64, 16, 48] {
                let cache = &cache;
                scope.spawn(move || cache.set_dram_bytes(mib << 20).expect("it is enough"));
            }
        });
        let stats = cache.stats();
        assert!(stats.dram_bytes <= stats.dram_bytes_max, "{stats:?}");
        // As much fits as the limit allows: no shard was left behind.
        (round * 100_000..round * 100_000 + 20_000).for_each(|n| store(&cache, n, 1));
        let stats = cache.stats();
        assert!(stats.dram_bytes * 10 > stats.dram_bytes_max * 8, "{stats:?}");
        cache.set_dram_bytes(64 << 20).expect("it is enough");
    }
}
