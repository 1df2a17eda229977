//! Many threads on few keys: a get returns the object that was stored at some moment while it ran,
//! or nothing.
//!
//! One thread at a time writes to a key, and numbers its writes; numbers that were begun and
//! numbers that are finished are counted. The object that a get returns is not older than the last
//! write finished before it began, nor newer than the last write begun before it ended. Operations
//! on the simulated devices yield to other threads, so that all interleave; devices go out and come
//! back meanwhile, and sizes of flash and DRAM change.
//!
//! `TIDEKV_TIERED_HITS` sets how many hits end the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{
    Clock, ErrorKind, Fault, FaultRule, ManualClock, MemoryStorage, Operation, Random,
    SeededRandom, Storage,
};
use tidekv_testkit::evidence::Row;
use tidekv_tiered::{Cache, Change, Deadline, Environment, FlashOptions, Object, Options};

/// The objects and the cache of a test.
struct Setup {
    keys: usize,
    value_bytes: usize,
    avg_object_bytes: u64,
    dram_bytes: u64,
    device_bytes: u64,
    segment_bytes: u64,
    index_bytes: Option<u64>,
}

/// Records whose segments are rearranged when they are written.
const RECORDS: Setup = Setup {
    keys: 400,
    value_bytes: 6_000,
    avg_object_bytes: 4 << 10,
    dram_bytes: 1 << 20,
    device_bytes: 1 << 20,
    segment_bytes: 16 << 10,
    index_bytes: Some(2_000),
};
/// Small objects in buckets.
const SMALL: Setup = Setup { keys: 5_000, value_bytes: 200, ..RECORDS };
/// Records whose segments keep their order and are written in two parts.
const LONG: Setup = Setup {
    keys: 1_500,
    value_bytes: 20_000,
    avg_object_bytes: 20_000,
    dram_bytes: 10 << 20,
    device_bytes: 24 << 20,
    segment_bytes: 1 << 20,
    index_bytes: None,
};
const READERS: usize = 4;
/// The number of hits is extended at most this often.
const LONGER_MAX: u64 = 100;
/// The test decides whether it goes on this many hits before the goal, while all threads still run.
const CHECK_AHEAD: u64 = 200;
const WRITERS: usize = 2;

/// The write numbers of a key. An odd number is a removal.
#[derive(Debug, Default)]
struct Numbers {
    begun: AtomicU64,
    finished: AtomicU64,
    /// The number that was finished at the last clear.
    cleared: AtomicU64,
    is_taken: AtomicBool,
}

struct Scene {
    setup: Setup,
    cache: Cache,
    clock: Arc<ManualClock>,
    storage: MemoryStorage,
    numbers: Vec<Numbers>,
    /// The least number of hits.
    hits: u64,
    /// Hits so far.
    found: AtomicU64,
    /// The number of hits that ends the test.
    goal: AtomicU64,
    /// How often the goal has been raised.
    longer: AtomicU64,
    gets: AtomicU64,
    losses: AtomicU64,
}

fn key(n: usize) -> Vec<u8> {
    format!("key:{n}").into_bytes()
}

fn object(number: u64, value_bytes: usize) -> Object {
    let value: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(value_bytes).collect();
    let deadline = Deadline::NEVER;
    Object { value: Bytes::from(value), flags: 0, deadline, version: number, marks: 0 }
}

impl Scene {
    fn new(hits: u64, setup: Setup) -> Arc<Self> {
        let (storage, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(1 << 40)));
        let random = SeededRandom::new(5);
        storage.on_operation(move |_| {
            if random.below(2) == 0 {
                std::thread::yield_now();
            }
        });
        let flash =
            |n| FlashOptions { path: format!("/flash-{n}").into(), bytes: setup.device_bytes };
        let options = Options {
            dram_bytes: setup.dram_bytes,
            avg_object_bytes: setup.avg_object_bytes,
            flash: (0..2).map(flash).collect(),
            object_bytes_max: setup.segment_bytes,
            index_bytes: setup.index_bytes,
            segment_bytes: Some(setup.segment_bytes),
            state: Some("/state".into()),
            ..Options::default()
        };
        let environment = Environment {
            storage: Arc::new(storage.clone()) as Arc<dyn Storage>,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::new(1)) as Arc<dyn Random>,
            boot: 1,
            is_inline: false,
        };
        let cache = Cache::open(&options, &environment).expect("it opens");
        let numbers = (0..setup.keys).map(|_| Numbers::default()).collect();
        Arc::new(Self {
            setup,
            hits,
            longer: AtomicU64::new(0),
            cache,
            clock,
            storage,
            numbers,
            found: AtomicU64::new(0),
            goal: AtomicU64::new(hits),
            gets: AtomicU64::new(0),
            losses: AtomicU64::new(0),
        })
    }

    fn is_over(&self) -> bool {
        self.found.load(Ordering::Relaxed) >= self.goal.load(Ordering::Relaxed)
    }

    /// Waits until the readers have this many more hits.
    fn wait_for_hits(&self, more: u64) {
        let found = self.found.load(Ordering::Relaxed);
        while !self.is_over() && self.found.load(Ordering::Relaxed) < found + more {
            std::thread::yield_now();
        }
    }

    fn read(&self, seed: u64) {
        let random = SeededRandom::new(seed);
        while !self.is_over() {
            self.gets.fetch_add(1, Ordering::Relaxed);
            let n = random.below(self.numbers.len() as u64) as usize;
            let numbers = &self.numbers[n];
            let cleared = numbers.cleared.load(Ordering::SeqCst);
            let finished = numbers.finished.load(Ordering::SeqCst);
            let found = self.cache.get(&key(n));
            let begun = numbers.begun.load(Ordering::SeqCst);
            let Some(found) = found else { continue };
            let number = found.object.version;
            let may_be = finished.max(cleared + 1)..=begun;
            if found.object != object(number, self.setup.value_bytes) || !may_be.contains(&number) {
                self.losses.fetch_add(1, Ordering::Relaxed);
                eprintln!("key {n} has {number}, it may have been {may_be:?}; {found:?}");
            }
            let found = self.found.fetch_add(1, Ordering::Relaxed) + 1;
            if found + CHECK_AHEAD == self.goal.load(Ordering::Relaxed) {
                self.go_on_for_flash();
            }
        }
    }

    /// If the threads let flash accept hardly anything, or no device has come back, the test continues
    /// until flash has enough objects and one has, or gives up.
    fn go_on_for_flash(&self) {
        let is_none_back = self.cache.device_stats().iter().all(|device| device.times_back == 0);
        if (self.cache.stats().flash_hits <= self.hits / 100 || is_none_back)
            && self.longer.fetch_add(1, Ordering::Relaxed) < LONGER_MAX
        {
            self.goal.fetch_add(self.hits / 20, Ordering::Relaxed);
        }
    }

    fn write(&self, seed: u64) {
        let random = SeededRandom::new(seed);
        while !self.is_over() {
            let n = random.below(self.numbers.len() as u64) as usize;
            let numbers = &self.numbers[n];
            if numbers.is_taken.swap(true, Ordering::SeqCst) {
                continue;
            }
            let is_removal = random.below(8) == 0;
            // Removals have odd numbers, which no object that is found may have.
            let number = (numbers.begun.load(Ordering::SeqCst) / 2 + 1) * 2 + u64::from(is_removal);
            numbers.begun.store(number, Ordering::SeqCst);
            let object = object(number, self.setup.value_bytes);
            match (is_removal, random.below(2)) {
                (true, 0) => self.cache.remove(&key(n)),
                (true, _) => self.cache.change(&key(n), |_| (Change::Remove, ())),
                (false, 0) => self.cache.store(&key(n), object),
                (false, _) => self.cache.change(&key(n), |_| (Change::Store(object.clone()), ())),
            }
            numbers.finished.store(number, Ordering::SeqCst);
            numbers.is_taken.store(false, Ordering::SeqCst);
        }
    }

    /// Clears the cache; a store in progress may be applied after that.
    fn clear(&self) {
        let finished = |numbers: &Numbers| numbers.finished.load(Ordering::SeqCst);
        let finished: Vec<u64> = self.numbers.iter().map(finished).collect();
        self.cache.clear();
        for (numbers, finished) in self.numbers.iter().zip(finished) {
            numbers.cleared.store(finished, Ordering::SeqCst);
        }
    }

    /// Resizes flash and DRAM.
    fn resize(&self, seed: u64) {
        let random = SeededRandom::new(seed);
        while !self.is_over() {
            self.wait_for_hits(300);
            // Mostly all of it, so that there are hits on flash.
            let flash_bytes = match random.below(16) {
                0 => 0,
                1 => self.setup.device_bytes,
                2..4 => self.setup.device_bytes / 2 * 3,
                _ => self.setup.device_bytes * 2,
            };
            self.cache.set_flash_bytes(flash_bytes).expect("it is none, or enough");
            let initial = self.setup.dram_bytes;
            let dram_bytes = initial + (random.below(initial) >> random.below(4));
            // The initial size, or more; sizes in between may be too little.
            let _refused = self.cache.set_dram_bytes(dram_bytes);
        }
    }

    /// Takes devices out, which come back when time has passed.
    fn trouble(&self) {
        let random = SeededRandom::new(9);
        while !self.is_over() {
            self.wait_for_hits(1_000);
            match random.below(5) {
                0 => self.clear(),
                1 => {
                    let operation = [Operation::Read, Operation::Write][random.below(2) as usize];
                    let fault = Fault::Fail(ErrorKind::Failed);
                    let device = format!("flash-{}", random.below(2));
                    let rule = FaultRule::always(operation, fault).on_path(device);
                    self.storage.add_fault(FaultRule { times: Some(20), ..rule });
                }
                2 => self.storage.clear_faults(),
                _ => self.clock.advance(Duration::from_secs(1 << random.below(12))),
            }
        }
    }
}

/// Statistics take locks in an order of their own: the cache once stood still when they were asked for
/// while a segment of small objects was opened.
fn ask_for_statistics(scene: &Scene) {
    while !scene.is_over() {
        let devices = scene.cache.device_stats();
        assert_eq!(devices.len(), 2);
        std::thread::yield_now();
    }
}

#[test]
fn concurrent_get_returns_an_object_stored_while_it_ran() {
    run(RECORDS);
}

#[test]
fn concurrent_get_returns_a_small_object_stored_while_it_ran() {
    run(SMALL);
}

#[test]
fn concurrent_get_returns_a_long_object_stored_while_it_ran() {
    run(LONG);
}

fn run(setup: Setup) {
    let value_bytes = setup.value_bytes;
    let hits: u64 = std::env::var("TIDEKV_TIERED_HITS")
        .map_or(60_000, |text| text.parse().expect("TIDEKV_TIERED_HITS is a number"));
    let scene = Scene::new(hits, setup);
    std::thread::scope(|scope| {
        for seed in 0..READERS as u64 {
            let scene = &scene;
            scope.spawn(move || scene.read(seed));
        }
        for seed in 0..WRITERS as u64 {
            let scene = &scene;
            scope.spawn(move || scene.write(100 + seed));
        }
        scope.spawn(|| scene.trouble());
        scope.spawn(|| scene.resize(10));
        scope.spawn(|| scene.resize(11));
        scope.spawn(|| ask_for_statistics(&scene));
    });
    scene.storage.clear_on_operation();
    let (stats, devices) = (scene.cache.stats(), scene.cache.device_stats());
    let gets = scene.gets.load(Ordering::Relaxed);
    let losses = scene.losses.load(Ordering::Relaxed);
    let times_out: u64 = devices.iter().map(|device| device.times_out).sum();
    let times_back: u64 = devices.iter().map(|device| device.times_back).sum();
    println!("{gets} gets, {hits} hits, {times_out} out, {times_back} back, {stats:?}");
    assert!(stats.flash_hits > hits / 100, "{stats:?} {devices:?}");
    assert!(times_out > 0 && times_back > 0, "{devices:?}");
    Row::new("proof-cache-threads", "tidekv")
        .param("threads", (READERS + WRITERS) as u64)
        .param("value_bytes", value_bytes as u64)
        .metric("gets", gets)
        .metric("hits", hits)
        .metric("flash_hits", stats.flash_hits)
        .metric("devices_out", times_out)
        .metric("devices_back", times_back)
        .metric("losses", losses)
        .record();
    assert_eq!(losses, 0);
}
