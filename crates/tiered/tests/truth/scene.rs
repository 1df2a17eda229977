//! A cache on simulated devices, the operations on it, and a model to compare with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{
    Buffer, Clock, ErrorKind, Fault, FaultRule, ManualClock, MemoryStorage, Operation, Random,
    ReadRequest, SeededRandom, Storage, Tear,
};
use tidekv_testkit::evidence::Row;
use tidekv_tiered::{
    Cache, CachedObject, Change, Deadline, Environment, Eviction, FlashOptions, Object, Options,
    PendingRead, WouldBlock,
};

use crate::model::Model;

/// The distribution of keys and values.
#[derive(Debug, Clone, Copy)]
struct Load {
    keys: u64,
    /// The smallest and the largest common value, in bytes.
    value_bytes_min: u64,
    value_bytes_max: u64,
    /// The index is laid out for an average size of at most this many KiB, as a power of two.
    average_kib_max: u64,
    /// How much rarer than usual a process ends.
    calm: u64,
}

const MEDIUM: Load =
    Load { keys: 1_500, value_bytes_min: 0, value_bytes_max: 11_000, average_kib_max: 5, calm: 1 };
/// Enough to fill the pages of the index.
const RECORDS: Load =
    Load { keys: 8_000, value_bytes_min: 800, value_bytes_max: 400, average_kib_max: 8, calm: 10 };
/// All in buckets.
const SMALL: Load =
    Load { keys: 16_000, value_bytes_min: 0, value_bytes_max: 900, average_kib_max: 1, calm: 10 };
/// Few of them, so that they are removed and stored again in the same segment.
const FEW_SMALL: Load =
    Load { keys: 2_000, value_bytes_min: 0, value_bytes_max: 600, average_kib_max: 3, calm: 2 };
const DEVICE_BYTES: u64 = 2 << 20;
const START_MS: u64 = 1_700_000_000_000;

macro_rules! tally {
    ($($(#[$about:meta])+ $name:ident,)+) => {
        /// The operations performed and their results.
        #[derive(Debug, Clone, Copy, Default)]
        pub struct Tally {
            $($(#[$about])+ pub $name: u64,)+
        }

        impl Tally {
            pub fn add(&mut self, other: &Tally) {
                $(self.$name += other.$name;)+
            }

            /// Adds all counters to a row.
            pub fn row(&self, row: Row) -> Row {
                row$(.metric(stringify!($name), self.$name))+
            }
        }
    };
}

tally! {
    /// Operations.
    operations,
    /// Gets whose answer was checked.
    gets,
    /// Of these, hits.
    hits,
    /// Hits on flash.
    flash_hits,
    /// Of the gets, those with other operations between their steps.
    slow_gets,
    /// Those that had to start over: the key had been touched.
    slow_gets_void,
    /// Records of another key that were read and not returned.
    collisions,
    /// Records that were found damaged and not returned.
    damaged,
    /// Kills, also in the middle of an operation.
    kills,
    /// Of these, kills after which flash was restored.
    warm_restarts,
    /// Clean restarts after which flash was restored.
    warm_reopenings,
    /// Power cuts.
    power_cuts,
    /// Injected faults.
    faults,
    /// Damage done to a device between two runs.
    damages,
    /// Records that full pages of the index had no room for.
    displaced,
    /// Devices that were detached.
    devices_out,
    /// Devices that returned, to be warmed.
    devices_back,
    /// Pages of the index that were merged.
    merges,
    /// Segments dropped because they had expired.
    segments_expired,
    /// Times that the cache was cleared.
    clearings,
    /// Changes of the flash limit.
    flash_resizings,
    /// Of these, changes to a limit of zero.
    flash_resizings_to_none,
    /// Kills in the middle of one.
    flash_resizings_cut,
    /// Changes of the DRAM size.
    dram_resizings,
    /// Gets that returned another object than the last stored.
    losses,
}

impl Tally {
    /// Fails if some event never happened: then the test would prove less than it claims.
    pub fn assert_that_all_was_tried(&self) {
        let tried = [
            self.hits > self.gets / 5,
            self.flash_hits > self.gets / 40,
            self.slow_gets > self.gets / 200,
            self.slow_gets_void > 0,
            self.kills > 0,
            self.warm_restarts > self.kills / 10,
            self.warm_reopenings > 0,
            self.power_cuts > 0,
            self.damaged > 0,
            self.devices_out > 0,
            self.devices_back > 0,
            self.merges > 0,
            self.segments_expired > 0,
            self.clearings > 0,
            self.flash_resizings > 0,
            self.flash_resizings_to_none > 0,
            self.flash_resizings_cut > 0,
            self.dram_resizings > 0,
        ];
        assert!(tried.iter().all(|tried| *tried), "{tried:?} {self:?}");
        assert_eq!(self.losses, 0);
    }
}

/// The cache and its environment.
pub struct Scene {
    seed: u64,
    load: Load,
    random: Arc<SeededRandom>,
    storage: MemoryStorage,
    clock: Arc<ManualClock>,
    options: Options,
    boot: u128,
    cache: Cache,
    model: Model,
    /// When the cache must be cleared, and in which run that was requested.
    clear_at: Option<(u32, u64)>,
    stored: u64,
    slow: Option<SlowGet>,
    tally: Tally,
}

/// A get in progress while other operations happen.
struct SlowGet {
    pending: PendingRead,
    /// The next read, pending or done.
    request: Option<ReadRequest>,
    read: Option<tidekv_io::Result<Buffer>>,
}

/// An operation on a key.
enum KeyOperation {
    Store(Object),
    Touch(Deadline),
    Append(Vec<u8>),
    Remove,
}

impl Scene {
    /// The scene of a seed.
    pub fn new(seed: u64, fingerprint_bits: u32) -> Self {
        let random = Arc::new(SeededRandom::new(seed));
        let devices = 1 + random.below(3);
        let load = match random.below(8) {
            0 => RECORDS,
            1 | 2 => SMALL,
            3 => FEW_SMALL,
            _ => MEDIUM,
        };
        let flash = |n| FlashOptions { path: format!("/flash-{n}").into(), bytes: DEVICE_BYTES };
        let has_state = devices == 1 || random.below(2) == 0;
        let options = Options {
            dram_bytes: 1 << 20,
            flash: (0..devices).map(flash).collect(),
            object_bytes_max: 64 << 10,
            avg_object_bytes: 1 << random.below(load.average_kib_max) << 10,
            // As much as DRAM allows, or less, so that entries are dropped.
            index_bytes: (random.below(3) > 0).then(|| 1_000 << random.below(5)),
            state: has_state.then(|| PathBuf::from("/state")),
            segment_bytes: Some(16 << 10 << random.below(2)),
            fingerprint_bits,
            eviction: match seed.is_multiple_of(4) {
                true => Eviction::GreedyDual,
                false => Eviction::S3Fifo,
            },
            ..Options::default()
        };
        let (storage, clock) = (MemoryStorage::new(), Arc::new(ManualClock::new(START_MS)));
        let cache = open(&options, &storage, &clock, &random, 1);
        let cache = cache.unwrap_or_else(|error| panic!("{error}"));
        Self {
            seed,
            load,
            random,
            storage,
            clock,
            options,
            boot: 1,
            cache,
            model: Model::default(),
            clear_at: None,
            stored: 0,
            slow: None,
            tally: Tally::default(),
        }
    }

    /// The counters.
    pub fn tally(mut self) -> Tally {
        self.count();
        self.tally
    }

    /// One operation.
    pub fn step(&mut self) {
        self.tally.operations += 1;
        let key = match &self.slow {
            Some(slow) if self.random.below(8) == 0 => slow.pending.key().to_vec(),
            _ => self.key(),
        };
        match self.random.below(1_000) {
            0..340 => self.get(&key),
            340..400 => self.get_slowly(&key),
            400..950 => {
                let operation = self.operation();
                self.act(&key, operation);
            }
            965 if self.random.below(20 * self.load.calm) == 0 => {
                self.cache.clear();
                self.model.clear(self.model.run);
                self.tally.clearings += 1;
            }
            966 if self.random.below(20 * self.load.calm) == 0 => {
                let at_s = self.now_s() + self.random.below(100) as u32;
                self.cache.clear_at(at_s);
                self.clear_at = Some((at_s, self.model.run));
                self.pass_time();
            }
            966 => self.give_all_flash_back(),
            967 if self.random.below(6) == 0 => self.resize_flash(),
            968 if self.random.below(4) == 0 => self.resize_dram(),
            950..969 => self.pass_time(),
            969..975 => self.add_fault(),
            975..995 => self.storage.clear_faults(),
            _ => self.end_a_process(&key),
        }
    }

    /// Rarely: DRAM must fill up in between.
    fn end_a_process(&mut self, key: &[u8]) {
        match self.random.below(200 * self.load.calm) {
            0..6 => self.kill(),
            6..9 => self.kill_in_the_middle(key),
            9 => self.kill_while_flash_gets_smaller(),
            10..12 => self.reopen(),
            12 => self.cut_power(),
            _ => {}
        }
    }

    fn now_s(&self) -> u32 {
        (self.clock.unix_ms() / 1000) as u32
    }

    /// Accesses to keys are skewed.
    fn key(&self) -> Vec<u8> {
        let range = self.load.keys >> self.random.below(5);
        format!("key:{}", self.random.below(range)).into_bytes()
    }

    fn deadline(&self) -> Deadline {
        let remaining_s = match self.random.below(5) {
            0 => self.random.below(20),
            1 | 3 => return Deadline::NEVER,
            2 => self.random.below(600),
            _ => self.random.below(1_000_000),
        };
        Deadline::at(u64::from(self.now_s()) + remaining_s)
    }

    fn operation(&mut self) -> KeyOperation {
        match self.random.below(20) {
            0 => KeyOperation::Touch(self.deadline()),
            1 => KeyOperation::Append(b"more".to_vec()),
            2 | 3 => KeyOperation::Remove,
            _ => KeyOperation::Store(self.object()),
        }
    }

    fn object(&mut self) -> Object {
        self.stored += 1;
        // Some are larger than a segment.
        let large = if self.random.below(30) == 0 { 2 } else { 0 };
        let len = self.random.below(self.load.value_bytes_max) >> self.random.below(4) << large;
        let mut value = self.stored.to_le_bytes().to_vec();
        value.resize((8 + self.load.value_bytes_min + len) as usize, self.stored as u8);
        Object {
            value: Bytes::from(value),
            flags: self.random.next_u64() as u32,
            deadline: self.deadline(),
            version: self.cache.next_version(),
            marks: self.stored as u8,
        }
    }

    fn get(&mut self, key: &[u8]) {
        let found = self.cache.get(key);
        self.check(key, found.as_ref());
    }

    /// Advances a slow get, or begins one.
    fn get_slowly(&mut self, key: &[u8]) {
        let Some(mut slow) = self.slow.take() else {
            let Some(mut pending) = self.cache.begin_read(key) else { return };
            let request = pending.step(None);
            self.slow = Some(SlowGet { pending, request, read: None });
            return;
        };
        if let Some(ReadRequest { file, offset, len }) = slow.request.take() {
            slow.read = Some(file.read_at(offset, len));
        } else if let Some(read) = slow.read.take() {
            slow.request = slow.pending.step(Some(read));
        } else {
            let key = slow.pending.key().to_vec();
            let fetch = |found: Option<&CachedObject>| (Change::Fetch, found.cloned());
            match self.cache.finish_update(slow.pending, fetch) {
                Ok(found) => {
                    self.check(&key, found.as_ref());
                    self.tally.slow_gets += 1;
                }
                Err(WouldBlock) => self.tally.slow_gets_void += 1,
            }
            return;
        }
        self.slow = Some(slow);
    }

    /// Checks the result of a lookup.
    fn check(&mut self, key: &[u8], found: Option<&CachedObject>) {
        self.tally.gets += 1;
        self.tally.hits += u64::from(found.is_some());
        let now_s = self.now_s();
        if !self.model.accepts(key, found, now_s) {
            let expected = self.model.expected(key, now_s).map(|object| object.version);
            self.tally.losses += 1;
            eprintln!(
                "seed {}, operation {}: {} has {:?} (expected version {expected:?}) at {now_s}",
                self.seed,
                self.tally.operations,
                String::from_utf8_lossy(key),
                found.map(|found| (found.object.version, found.object.deadline)),
            );
        }
    }

    /// Performs an operation on a key.
    fn act(&mut self, key: &[u8], operation: KeyOperation) {
        match self.perform(key, operation) {
            Some(object) => self.model.store(key, object),
            None => self.model.remove(key),
        }
    }

    fn perform(&mut self, key: &[u8], operation: KeyOperation) -> Option<Object> {
        let cache = self.cache.clone();
        let (found, after) = match operation {
            KeyOperation::Store(object) => {
                cache.store(key, object.clone());
                return Some(object);
            }
            KeyOperation::Remove if self.random.below(2) == 0 => {
                cache.remove(key);
                return None;
            }
            KeyOperation::Remove => {
                cache.change(key, |found| (Change::Remove, (found.cloned(), None)))
            }
            KeyOperation::Touch(deadline) => cache.change(key, |found| match found {
                None => (Change::Keep, (None, None)),
                Some(found) => {
                    let object = Object { deadline, ..found.object.clone() };
                    (Change::Revise(object.clone()), (Some(found.clone()), Some(object)))
                }
            }),
            KeyOperation::Append(more) => cache.change(key, |found| match found {
                None => (Change::Keep, (None, None)),
                Some(found) => {
                    let value = [&found.object.value[..], &more].concat();
                    let version = cache.next_version();
                    let object = Object { value: value.into(), version, ..found.object.clone() };
                    (Change::ReviseAndFetch(object.clone()), (Some(found.clone()), Some(object)))
                }
            }),
        };
        self.check(key, found.as_ref());
        match found {
            Some(_) => after,
            // The object may still be there: an unreadable record may be readable later.
            None => self.model.expected(key, self.now_s()).cloned(),
        }
    }

    fn pass_time(&mut self) {
        let ms = 1 << if self.random.below(50) == 0 { 21 } else { self.random.below(16) };
        self.clock.advance(Duration::from_millis(ms));
        let now_s = self.now_s();
        if let Some((_, run)) = self.clear_at.take_if(|(at_s, _)| *at_s <= now_s) {
            // Objects stored since a restart may be spared: no device was there to record the
            // clear.
            self.model.clear(run);
            self.tally.clearings += 1;
        }
    }

    /// Often less than all, also less than the minimum, which is refused, and sometimes none.
    fn resize_flash(&mut self) {
        let all_bytes = DEVICE_BYTES * self.options.flash.len() as u64;
        let bytes = match self.random.below(16) {
            0 => 0,
            1..8 => all_bytes,
            _ => self.random.below(all_bytes + 10),
        };
        self.may_keep_room();
        let before: u64 = self.cache.device_stats().iter().map(|device| device.bytes_max).sum();
        let is_done = self.cache.set_flash_bytes(bytes).is_ok();
        let devices = self.cache.device_stats();
        let after: u64 = devices.iter().map(|device| device.bytes_max).sum();
        let expected = if is_done { bytes } else { before };
        assert!(after <= expected && after + 3 >= expected, "{before}, {bytes}, then {after}");
        self.tally.flash_resizings += u64::from(is_done);
        self.tally.flash_resizings_to_none += u64::from(is_done && bytes == 0);
    }

    /// So that most of the time all of it is in use.
    fn give_all_flash_back(&mut self) {
        let all_bytes = DEVICE_BYTES * self.options.flash.len() as u64;
        self.cache.set_flash_bytes(all_bytes).expect("it is what the cache was opened with");
    }

    /// Some file systems keep the contents of a punched hole readable.
    fn may_keep_room(&self) {
        if self.random.below(2) == 0 {
            let fault = Fault::Fail(ErrorKind::Unsupported);
            self.storage.add_fault(FaultRule::always(Operation::PunchHole, fault));
        }
    }

    fn resize_dram(&mut self) {
        let bytes = (1 << 20) + (self.random.below(1 << 20) >> self.random.below(8));
        self.tally.dram_resizings += u64::from(self.cache.set_dram_bytes(bytes).is_ok());
    }

    /// The process dies while segments are evicted for a lower flash limit.
    fn kill_while_flash_gets_smaller(&mut self) {
        let all_bytes = DEVICE_BYTES * self.options.flash.len() as u64;
        let cut = self.storage.operations() + self.random.below(100);
        self.storage.cut_power_at(cut);
        self.may_keep_room();
        let bytes = if self.random.below(3) == 0 { 0 } else { all_bytes / 3 };
        let _refused = self.cache.set_flash_bytes(bytes);
        self.tally.flash_resizings_cut += u64::from(self.storage.operations() > cut);
        self.kill();
    }

    fn add_fault(&mut self) {
        self.tally.faults += 1;
        let faults = [
            (Operation::Read, Fault::Fail(ErrorKind::Failed)),
            (Operation::Read, Fault::ShortRead),
            (Operation::Read, Fault::FlipBit { byte: self.random.below(70_000) as usize, bit: 3 }),
            (Operation::Write, Fault::Fail(ErrorKind::Failed)),
            (Operation::Write, Fault::Fail(ErrorKind::Full)),
            (Operation::Write, Fault::ShortWrite),
        ];
        let (operation, fault) = faults[self.random.below(6) as usize];
        // Without a state file, devices fail one by one.
        let path = match self.options.state {
            Some(_) if self.random.below(4) == 0 => "flash".to_owned(),
            _ => format!("flash-{}", self.random.below(self.options.flash.len() as u64)),
        };
        if self.options.state.is_none() {
            self.storage.clear_faults();
        }
        let mut rule = FaultRule::always(operation, fault).on_path(path);
        rule.operation = Some(operation).filter(|_| self.random.below(3) > 0);
        rule.skip = self.random.below(40);
        rule.times = Some(1 + self.random.below(4)).filter(|_| self.random.below(2) == 0);
        self.storage.add_fault(rule);
    }

    /// The process dies between two operations.
    fn kill(&mut self) {
        self.tally.kills += 1;
        self.restart(Tear::KeepUnsynced);
        self.tally.warm_restarts += u64::from(self.cache.warm_devices() > 0);
    }

    /// The process dies in the middle of an operation, which may have happened or not.
    fn kill_in_the_middle(&mut self, key: &[u8]) {
        let before = self.model.expected(key, self.now_s()).cloned();
        let cut = self.storage.operations() + self.random.below(12);
        self.storage.cut_power_at(cut);
        let operation = self.operation();
        let after = self.perform(key, operation);
        let is_acknowledged = self.storage.operations() <= cut;
        match after {
            Some(object) if is_acknowledged => self.model.store(key, object),
            None if is_acknowledged => self.model.remove(key),
            Some(object) if before.as_ref() != Some(&object) => {
                self.model.may_have_stored(key, object);
            }
            // The old object may reappear.
            _ => {}
        }
        self.kill();
    }

    fn reopen(&mut self) {
        self.storage.clear_faults();
        self.cache.close();
        let tear = if self.random.below(2) == 0 { Tear::KeepUnsynced } else { Tear::DropUnsynced };
        if tear == Tear::DropUnsynced {
            self.boot += 1;
        }
        self.restart(tear);
        self.tally.warm_reopenings += u64::from(self.cache.warm_devices() > 0);
    }

    fn cut_power(&mut self) {
        self.tally.power_cuts += 1;
        self.boot += 1;
        let seed = self.random.next_u64();
        self.restart(Tear::Torn { seed });
    }

    fn restart(&mut self, tear: Tear) {
        self.count();
        self.slow = None;
        self.storage = self.storage.after_power_loss(tear);
        if self.random.below(3) == 0 {
            self.damage();
        }
        // A misread need not repeat.
        let is_misread = self.random.below(3) == 0;
        if is_misread {
            self.misread();
        }
        let opened = open(&self.options, &self.storage, &self.clock, &self.random, self.boot);
        self.cache = opened.unwrap_or_else(|error| {
            assert!(is_misread, "{error}");
            self.storage.clear_faults();
            let again = open(&self.options, &self.storage, &self.clock, &self.random, self.boot);
            again.unwrap_or_else(|error| panic!("{error}"))
        });
        self.model.run += 1;
    }

    /// Injects read faults while the cache is opened.
    fn misread(&mut self) {
        self.tally.faults += 1;
        let flip = Fault::FlipBit { byte: self.random.below(120 << 10) as usize, bit: 5 };
        let faults = [flip, flip, Fault::ShortRead, Fault::Fail(ErrorKind::Failed)];
        let fault = faults[self.random.below(4) as usize];
        let device = format!("flash-{}", self.random.below(self.options.flash.len() as u64));
        let rule = FaultRule::once(Operation::Read, fault).on_path(device);
        self.storage.add_fault(rule.after(self.random.below(16)));
    }

    /// Damages a device while the cache is closed: mostly its metadata.
    fn damage(&mut self) {
        self.tally.damages += 1;
        let device = format!("/flash-{}", self.random.below(self.options.flash.len() as u64));
        // The superblocks, all metadata, and the data after it.
        let (end, range) =
            [(".meta", 8 << 10), (".meta", 120 << 10), (".meta", 120 << 10), ("", DEVICE_BYTES)]
                [self.random.below(4) as usize];
        let path = format!("{device}{end}");
        let at = self.random.below(range) as usize;
        let is_flip = self.random.below(2) == 0;
        let bit = 1 << self.random.below(8);
        self.storage.corrupt(path, |bytes| {
            let at = at % bytes.len();
            match is_flip {
                true => bytes[at] ^= bit,
                // As if a block as small as a record had never been written.
                false => bytes[at / 32 * 32..][..32].fill(0),
            }
        });
    }

    /// Adds the cache's counters.
    fn count(&mut self) {
        self.tally.flash_hits += self.cache.stats().flash_hits;
        for device in self.cache.device_stats() {
            let counts = device.counts;
            self.tally.collisions += counts.collisions;
            self.tally.damaged += counts.damaged;
            self.tally.merges += counts.merges;
            self.tally.displaced += counts.displaced;
            self.tally.segments_expired += counts.segments_expired;
            self.tally.devices_out += device.times_out;
            self.tally.devices_back += device.times_back;
        }
    }
}

fn open(
    options: &Options,
    storage: &MemoryStorage,
    clock: &Arc<ManualClock>,
    random: &Arc<SeededRandom>,
    boot: u128,
) -> tidekv_tiered::Result<Cache> {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let environment = Environment {
        storage,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random: Arc::clone(random) as Arc<dyn Random>,
        boot,
        is_inline: true,
    };
    Cache::open(options, &environment)
}
