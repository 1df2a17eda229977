//! The proof of power: power is cut at every storage operation of a recorded workload, and of the
//! recoveries that follow.
//!
//! Before each operation the test records the contents of the device after a power loss at that
//! point, with unsynced data dropped, kept and torn, and the numbers of writes that were begun and
//! that must be durable. Each such state is then opened: it must hold exactly the writes up to some
//! point between those two numbers: no synced write is lost, the surviving writes have no holes,
//! and no batch is partial. `tidekv::check` must find it sound. Writes continue, and a second cut
//! must preserve them and everything found before. Checkpoints have their own guarantee: an
//! acknowledged one opens with the contents of the moment it was taken at, one that was cut opens
//! with these as well or is refused.
//!
//! The workload runs in one thread, so that every run repeats; a further test cuts the power with
//! concurrent writers and background threads.
//!
//! `TIDEKV_POWER_SEEDS` and `TIDEKV_POWER_TORN` set the number of workloads and the number of tears
//! per cut; for one in `TIDEKV_POWER_SAMPLE` states the recovery is cut as well.

#[path = "support/expected.rs"]
mod expected;
mod support;
#[path = "support/store_time.rs"]
mod store_time;
#[path = "support/workload.rs"]
mod workload;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use expected::{Found, Times, found_in};
use support::{DIRECTORY, Dice, START_MS, contents};
use tidekv::{Db, Durability, KeyspaceOptions, WriteBatch};
use tidekv_io::{Clock, ManualClock, MemoryStorage, Operation, OperationRecord, Storage, Tear};
use tidekv_testkit::evidence::Row;
use workload::{Counted, Progress, Workload, settings};

/// The contents of the device after a cut, and the expected contents.
struct Aftermath {
    story: String,
    /// Counts the states, for sampling and for tears.
    number: u64,
    disk: MemoryStorage,
    progress: Progress,
    /// No unsynced data was lost.
    is_whole: bool,
    /// The machine's clocks.
    boot_ns: u64,
    machine_ms: u64,
}

impl Aftermath {
    fn clock(&self) -> Arc<ManualClock> {
        Arc::new(ManualClock::new(self.machine_ms))
    }

    /// When the contents of a store that opened at `now_ms` are read.
    fn times(&self, now_ms: u64) -> Times {
        Times::after(self.progress.time.now_ms(self.boot_ns), now_ms)
    }
}

/// The totals of a proof.
#[derive(Debug, Default)]
struct Tally {
    /// Number of operations before which power was cut.
    cuts: u64,
    aftermaths: u64,
    recoveries_cut: u64,
    checkpoints: u64,
    losses: Vec<String>,
}

impl Tally {
    /// Writes the row of evidence, then fails if anything was lost.
    fn finish(self, part: &str, row: Row) {
        let count = self.losses.len();
        row.param("part", part)
            .metric("cuts", self.cuts)
            .metric("aftermaths", self.aftermaths)
            .metric("recoveries_cut", self.recoveries_cut)
            .metric("checkpoints", self.checkpoints)
            .metric("losses", count)
            .record();
        let shown: Vec<_> = self.losses.iter().take(5).collect();
        assert!(count == 0, "{count} losses, among them {shown:#?}");
    }
}

fn scale(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

fn tears(number: u64) -> impl Iterator<Item = Tear> {
    let torn = scale("TIDEKV_POWER_TORN", 1);
    let seeds = (0..torn).map(move |i| Tear::Torn { seed: number * torn + i });
    [Tear::DropUnsynced, Tear::KeepUnsynced].into_iter().chain(seeds)
}

fn copy(disk: &MemoryStorage) -> MemoryStorage {
    disk.after_power_loss(Tear::KeepUnsynced)
}

/// Collects a state of every kind before each operation on `disk`.
#[derive(Default)]
struct Recorder {
    gathered: Arc<Mutex<Vec<Aftermath>>>,
    numbers: Arc<Mutex<u64>>,
    /// Kinds of operations, with the extension of the file.
    kinds: Arc<Mutex<BTreeSet<String>>>,
}

impl Recorder {
    fn watch(
        &self,
        disk: &MemoryStorage,
        story: String,
        clock: Arc<ManualClock>,
        progress: impl Fn() -> Progress + Send + Sync + 'static,
    ) {
        let (gathered, numbers, kinds) =
            (self.gathered.clone(), self.numbers.clone(), self.kinds.clone());
        let device = disk.clone();
        disk.on_operation(move |operation| {
            kinds.lock().unwrap().insert(kind(operation));
            for tear in tears(operation.number) {
                let mut numbers = numbers.lock().unwrap();
                *numbers += 1;
                let aftermath = Aftermath {
                    story: format!("{story}power lost before {operation}, {tear:?}; "),
                    number: *numbers,
                    disk: device.after_power_loss(tear),
                    progress: progress(),
                    is_whole: tear == Tear::KeepUnsynced,
                    boot_ns: clock.boot_ns(),
                    machine_ms: clock.unix_ms(),
                };
                gathered.lock().unwrap().push(aftermath);
            }
        });
    }

    fn take(&self) -> Vec<Aftermath> {
        std::mem::take(&mut *self.gathered.lock().unwrap())
    }
}

/// "rename .log -> .log" and the like.
fn kind(operation: &OperationRecord) -> String {
    let ending = |path: &std::path::Path| {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        name.trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned()
    };
    let target = operation.target.as_deref().map(|target| format!(" -> {}", ending(target)));
    format!(
        "{} {}{}",
        operation.operation.verb(),
        ending(&operation.path),
        target.unwrap_or_default()
    )
}

// ---- Checks of a state ----

fn check(aftermath: &Aftermath, tally: &mut Tally) {
    tally.aftermaths += 1;
    let disk = copy(&aftermath.disk);
    // Opened first, in place: operations on a checkpoint, which shares tables with the store, must
    // not affect the store.
    if let Err(loss) = check_checkpoints(aftermath, &disk, tally) {
        tally.losses.push(format!("{}{loss}", aftermath.story));
    }
    if let Err(loss) = check_store(aftermath, &disk) {
        tally.losses.push(format!("{}{loss}", aftermath.story));
    }
}

fn check_store(aftermath: &Aftermath, disk: &MemoryStorage) -> Result<(), String> {
    let Aftermath { number, progress, .. } = aftermath;
    let clock = aftermath.clock();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let before = tidekv::check::check(DIRECTORY, Some(storage), &mut |_| ());
    let db = Db::open(DIRECTORY, settings(disk, &clock, *number)).map_err(|e| e.to_string())?;
    // A loss of power is no damage: the store opens, as the check before has said.
    if let Ok(before) = before
        && let Some(damage) = before.damage.first()
    {
        return Err(format!("the check before opening finds damage: {}", damage.message));
    }
    // The third may be dropped and not created again.
    let names = db.keyspace_names();
    let is_complete = names == expected::KEYSPACES || names == expected::KEYSPACES[..2];
    if progress.is_created && !is_complete {
        return Err(format!("only keyspaces {names:?} are there"));
    }
    let mut found = found_in(&db).map_err(|e| e.to_string())?;
    let now_ms = progress.time_of(&db, aftermath.boot_ns, aftermath.is_whole)?;
    progress.judge(&found, aftermath.times(now_ms))?;
    check_sound(disk, DIRECTORY)?;
    // It continues from there, and a second cut loses none of it.
    let keyspace = db.keyspace("a").map_err(|e| e.to_string())?;
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, b"!after", b"the cut");
    db.write_with(batch, Durability::Sync).map_err(|e| e.to_string())?;
    if number.is_multiple_of(3) {
        db.flush().map_err(|e| e.to_string())?;
    }
    found[0].retain(|(key, _)| key != b"!after");
    found[0].insert(0, (b"!after".to_vec(), (b"the cut".to_vec(), None)));
    found[0].sort();
    let again = [Tear::DropUnsynced, Tear::Torn { seed: *number }][(*number % 2) as usize];
    let second = disk.after_power_loss(again);
    drop((keyspace, db));
    let db = Db::open(DIRECTORY, settings(&second, &clock, number + 1))
        .map_err(|e| format!("after a second cut ({again:?}): {e}"))?;
    if found_in(&db).map_err(|e| e.to_string())? != found {
        return Err(format!("a second cut ({again:?}) lost data that had been found or synced"));
    }
    Ok(())
}

fn check_sound(disk: &MemoryStorage, directory: &str) -> Result<(), String> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let report = tidekv::check::check(directory, Some(storage), &mut |_| ())
        .map_err(|e| format!("the check failed: {e}"))?;
    match report.damage.first() {
        None => Ok(()),
        Some(damage) => Err(format!("the check finds damage: {}", damage.message)),
    }
}

/// The newest acknowledged checkpoint, and the one under way.
fn check_checkpoints(
    aftermath: &Aftermath,
    disk: &MemoryStorage,
    tally: &mut Tally,
) -> Result<(), String> {
    let checkpoints = &aftermath.progress.checkpoints;
    let newest = checkpoints.iter().rfind(|checkpoint| checkpoint.is_done);
    let under_way = checkpoints.last().filter(|checkpoint| !checkpoint.is_done);
    for checkpoint in newest.into_iter().chain(under_way) {
        // The acknowledged one stays the same for a long time.
        if checkpoint.is_done && !aftermath.number.is_multiple_of(5) {
            continue;
        }
        tally.checkpoints += 1;
        let clock = aftermath.clock();
        let options = settings(disk, &clock, aftermath.number).create_if_missing(false);
        let path = &checkpoint.path;
        let db = match Db::open(path, options) {
            Ok(db) => db,
            Err(error) if checkpoint.is_done => return Err(format!("{path}: {error}")),
            Err(_) => continue,
        };
        let found = found_in(&db).map_err(|e| e.to_string())?;
        let state = &aftermath.progress.states[checkpoint.writes];
        let now_ms = aftermath.progress.time_of_checkpoint(&db, aftermath.machine_ms, checkpoint);
        let now_ms = now_ms.map_err(|why| format!("{path}: {why}"))?;
        if let Some(why) = state.contradiction(&found, aftermath.times(now_ms)) {
            return Err(format!("{path} holds other things than its moment: {why}"));
        }
        check_sound(disk, path)?;
        let keyspace = db.keyspace("a").map_err(|e| e.to_string())?;
        keyspace.delete_range("", "z").and_then(|()| db.compact()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

// ---- Proofs ----

/// Runs a workload; passes each step's states to `each`.
fn run(
    seed: u64,
    steps: u64,
    tally: &mut Tally,
    mut each: impl FnMut(Aftermath, &mut Tally),
) -> (Workload, Recorder, u64) {
    let mut workload = Workload::new();
    let recorder = Recorder::default();
    let progress = workload.progress.clone();
    recorder.watch(
        &workload.disk,
        format!("workload {seed}: "),
        workload.clock.clone(),
        move || progress.lock().unwrap().clone(),
    );
    let mut dice = Dice(seed);
    workload.open().unwrap();
    for _ in 0..steps {
        workload.step(&mut dice).unwrap();
        recorder.take().into_iter().for_each(|aftermath| each(aftermath, tally));
    }
    workload.verify().unwrap();
    workload.close().unwrap();
    tally.losses.append(&mut workload.losses);
    recorder.take().into_iter().for_each(|aftermath| each(aftermath, tally));
    let operations = workload.disk.operations();
    workload.disk.clear_on_operation();
    tally.cuts += operations;
    (workload, recorder, operations)
}

#[test]
fn power_cut_at_any_operation_loses_no_synced_write() {
    let (seeds, steps) = (scale("TIDEKV_POWER_SEEDS", 2), 150);
    let mut tally = Tally::default();
    let (mut total, mut operations) = (Vec::new(), 0);
    let mut kinds = BTreeSet::new();
    for seed in 1..=seeds {
        let (workload, recorder, n) = run(seed, steps, &mut tally, |a, tally| check(&a, tally));
        operations += n;
        kinds.append(&mut recorder.kinds.lock().unwrap());
        total.push(workload.counted);
    }
    let sum = |of: fn(&Counted) -> u64| total.iter().map(of).sum::<u64>();
    for (what, count) in [
        ("flushes", sum(|c| c.flushes)),
        ("compactions", sum(|c| c.compactions)),
        ("expired entries dropped", sum(|c| c.expired)),
        ("ingests", sum(|c| c.ingests)),
        ("checkpoints", sum(|c| c.checkpoints)),
        ("reopenings", sum(|c| c.reopenings)),
        ("transactions", sum(|c| c.transactions)),
        ("clearings", sum(|c| c.clears)),
        ("drops of keyspaces", sum(|c| c.drops)),
        ("steps of the clock", sum(|c| c.clock_steps)),
    ] {
        assert!(count > 0, "the workload has no {what}");
    }
    for kind in ["rename .log -> .log", "link .table -> .table", "rename CURRENT.tmp -> CURRENT"] {
        assert!(kinds.contains(kind), "no {kind} among {kinds:?}");
    }
    let torn = scale("TIDEKV_POWER_TORN", 1);
    let row = Row::new("proof-power", "tidekv")
        .param("workloads", seeds)
        .param("steps", steps)
        .param("torn_seeds", torn)
        .metric("operations", operations)
        .metric("writes", sum(|c| c.writes))
        .metric("clock_steps", sum(|c| c.clock_steps))
        .seed(1);
    assert_eq!(tally.aftermaths, operations * (2 + torn));
    tally.finish("workload", row);
}

/// Recovers from `aftermath` and cuts that at each of its operations; samples of those recoveries
/// are cut again, `depth` times in all.
fn cut_recovery(aftermath: &Aftermath, depth: u64, tally: &mut Tally) {
    let disk = copy(&aftermath.disk);
    let clock = aftermath.clock();
    let recorder = Recorder::default();
    *recorder.numbers.lock().unwrap() = aftermath.number;
    let mut progress = aftermath.progress.clone();
    progress.time = progress.time.started_again(aftermath.boot_ns, aftermath.is_whole);
    let story = format!("{}recovering, ", aftermath.story);
    recorder.watch(&disk, story, clock.clone(), move || progress.clone());
    let opened = Db::open(DIRECTORY, settings(&disk, &clock, aftermath.number));
    disk.clear_on_operation();
    tally.recoveries_cut += 1;
    tally.cuts += disk.operations();
    if let Err(error) = opened {
        tally.losses.push(format!("{}{error}", aftermath.story));
    }
    for (index, second) in recorder.take().iter().enumerate() {
        check(second, tally);
        if depth > 1 && (index as u64 + aftermath.number).is_multiple_of(251) {
            cut_recovery(second, depth - 1, tally);
        }
    }
}

#[test]
fn power_cut_during_recovery_loses_nothing() {
    let seeds = scale("TIDEKV_POWER_SEEDS", 2);
    let sample = scale("TIDEKV_POWER_SAMPLE", 997);
    let mut tally = Tally::default();
    let mut operations = 0;
    for seed in 101..=100 + seeds.div_ceil(2) {
        // The beginning often opens half-made stores.
        let each = |a: Aftermath, tally: &mut Tally| {
            if a.number.is_multiple_of(sample) || (a.number < 150 && a.number.is_multiple_of(50)) {
                cut_recovery(&a, 2, tally);
            }
        };
        operations += run(seed, 100, &mut tally, each).2;
    }
    // Not all of the workload's own operations were cut here.
    tally.cuts -= operations;
    let row = Row::new("proof-power", "tidekv")
        .param("workloads", seeds.div_ceil(2))
        .param("steps", 100)
        .param("sample", sample)
        .param("torn_seeds", scale("TIDEKV_POWER_TORN", 1))
        .metric("operations", operations)
        .seed(101);
    assert!(tally.recoveries_cut >= 5);
    tally.finish("recovery", row);
}

/// An oversized manifest is rewritten in the middle of work.
#[test]
fn power_cut_while_rewriting_the_manifest_loses_nothing() {
    let mut workload = Workload::new();
    workload.open().unwrap();
    let mut dice = Dice(5);
    for _ in 0..30 {
        workload.batch(&mut dice, Durability::Buffered).unwrap();
    }
    workload.store().flush().unwrap();
    workload.all_durable();
    // Every change of a keyspace's settings is an edit of the manifest.
    let db = workload.store().clone();
    let name = "long".repeat(63);
    let bytes = |disk: &MemoryStorage| {
        let manifest =
            disk.paths().into_iter().filter(|p| p.to_string_lossy().contains("MANIFEST-"));
        // Without the space that is allocated for later edits.
        let used =
            |bytes: Vec<u8>| bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        manifest.map(|path| used(disk.read_file(path).unwrap())).max().unwrap()
    };
    let change = |n: u32| {
        let options = KeyspaceOptions::default().block_bytes(512 + n);
        db.keyspace_with(&name, options).unwrap();
    };
    let mut n = 0;
    while bytes(&workload.disk) <= (1 << 20) - 300 {
        for _ in 0..if bytes(&workload.disk) < 1_000_000 { 100 } else { 1 } {
            n += 1;
            change(n % 60_000);
        }
    }
    let recorder = Recorder::default();
    let progress = workload.progress.clone();
    recorder.watch(&workload.disk, String::new(), workload.clock.clone(), move || {
        let mut progress = progress.lock().unwrap().clone();
        progress.is_created = false;
        progress
    });
    let before = workload.disk.operations();
    for _ in 0..3 {
        n += 1;
        change(n);
        workload.batch(&mut dice, Durability::Sync).unwrap();
    }
    workload.store().flush().unwrap();
    workload.disk.clear_on_operation();
    let kinds = recorder.kinds.lock().unwrap().clone();
    assert!(kinds.contains("rename CURRENT.tmp -> CURRENT"), "{kinds:?}");
    let mut tally = Tally { cuts: workload.disk.operations() - before, ..Tally::default() };
    recorder.take().iter().for_each(|aftermath| check(aftermath, &mut tally));
    let operations = tally.cuts;
    tally.finish("manifest", Row::new("proof-power", "tidekv").metric("operations", operations));
}

// ---- Threads ----

const WRITERS: usize = 3;

/// Keyspace, key and value of the puts of one batch.
type Puts = Vec<(usize, Vec<u8>, Vec<u8>)>;

/// The writes of one thread, all generated before it starts.
struct Writer {
    batches: Vec<Puts>,
    /// The contents of its keys after each.
    states: Vec<[support::Model; 2]>,
    begun: AtomicUsize,
    durable: AtomicUsize,
}

impl Writer {
    fn new(index: usize, batches: u64) -> Self {
        let mut dice = Dice(1000 + index as u64);
        let mut state = <[support::Model; 2]>::default();
        let mut writer = Self {
            batches: Vec::new(),
            states: vec![state.clone()],
            begun: AtomicUsize::new(0),
            durable: AtomicUsize::new(0),
        };
        for number in 0..batches {
            let mut batch = Vec::new();
            for s in [0, 1] {
                let last = format!("w{index}-last").into_bytes();
                batch.push((s, last, number.to_string().into_bytes()));
                let key = format!("w{index}-key-{:02}", dice.below(40)).into_bytes();
                batch.push((s, key, vec![dice.below(256) as u8; dice.below(400) as usize]));
            }
            for (s, key, value) in &batch {
                state[*s].insert(key.clone(), (value.clone(), None));
            }
            writer.states.push(state.clone());
            writer.batches.push(batch);
        }
        writer
    }

    fn run(&self, db: &Db, index: usize) {
        let mut dice = Dice(index as u64);
        let keyspaces = ["a", "b"].map(|name| db.keyspace(name).unwrap());
        for (number, writes) in self.batches.iter().enumerate() {
            let mut batch = WriteBatch::new();
            for (s, key, value) in writes {
                batch.put(&keyspaces[*s], key, value);
            }
            let sync = dice.one_in(4);
            let durability = if sync { Durability::Sync } else { Durability::Buffered };
            self.begun.store(number + 1, Ordering::SeqCst);
            db.write_with(batch, durability).unwrap();
            if sync {
                self.durable.store(number + 1, Ordering::SeqCst);
            }
            if dice.one_in(40) {
                db.compact().unwrap();
                self.durable.store(number + 1, Ordering::SeqCst);
            }
        }
    }

    /// Whether this writer's part of `found` equals the contents after some number of batches in
    /// `possible`.
    fn judge(&self, index: usize, found: &Found, possible: (usize, usize)) -> Result<(), String> {
        let prefix = format!("w{index}-");
        let own = [0, 1].map(|s| -> support::Model {
            let mine = found[s].iter().filter(|(key, _)| key.starts_with(prefix.as_bytes()));
            mine.cloned().collect()
        });
        let fit = (0..self.states.len()).find(|&n| self.states[n] == own);
        match fit {
            Some(n) if (possible.0..=possible.1).contains(&n) => Ok(()),
            _ => {
                Err(format!("writer {index}: the writes up to {fit:?} are there, not {possible:?}"))
            }
        }
    }
}

/// Concurrent writers and background threads. The contents of the device at an operation are taken
/// after reading the durable count and before reading the begun count, so both bounds hold for
/// them.
#[test]
fn power_cut_with_threads_leaves_each_writer_a_prefix() {
    let batches = scale("TIDEKV_POWER_SEEDS", 2) * 60;
    let writers: Arc<Vec<Writer>> =
        Arc::new((0..WRITERS).map(|index| Writer::new(index, batches)).collect());
    let disk = MemoryStorage::new();
    let clock = Arc::new(ManualClock::new(START_MS));
    let threaded = |disk: &MemoryStorage, clock: &Arc<ManualClock>, n| {
        let mut options = settings(disk, clock, n);
        options.environment.executor = None;
        options.compaction_threads = Some(2);
        options
    };
    let db = Db::open(DIRECTORY, threaded(&disk, &clock, 0)).unwrap();
    ["a", "b"].iter().for_each(|name| _ = db.keyspace(name).unwrap());
    type Cut = (String, u64, MemoryStorage, Vec<(usize, usize)>);
    let cuts: Arc<Mutex<Vec<Cut>>> = Arc::default();
    let first = disk.operations();
    {
        let (device, writers, cuts) = (disk.clone(), writers.clone(), cuts.clone());
        disk.on_operation(move |operation| {
            let is_read = matches!(operation.operation, Operation::Read | Operation::Inspect);
            if is_read || !operation.number.is_multiple_of(3) {
                return;
            }
            for tear in tears(operation.number) {
                let durable: Vec<_> =
                    writers.iter().map(|w| w.durable.load(Ordering::SeqCst)).collect();
                let after = device.after_power_loss(tear);
                let begun = writers.iter().map(|w| w.begun.load(Ordering::SeqCst));
                let bounds = durable.into_iter().zip(begun).collect();
                let story = format!("power lost before {operation}, {tear:?}");
                cuts.lock().unwrap().push((story, operation.number, after, bounds));
            }
        });
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running: Vec<_> = writers
            .iter()
            .enumerate()
            .map(|(index, writer)| {
                scope.spawn({
                    let db = &db;
                    move || writer.run(db, index)
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let found = contents(&db, "a");
                assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
        });
        let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|end| end.expect("the writer ends well"));
    });
    disk.clear_on_operation();
    let operations = disk.operations() - first;
    drop(db);
    let mut tally = Tally::default();
    let mut seen = BTreeSet::new();
    for (story, number, after, bounds) in std::mem::take(&mut *cuts.lock().unwrap()) {
        tally.aftermaths += 1;
        seen.insert(number);
        let judged = Db::open(DIRECTORY, settings(&after, &clock, number))
            .map_err(|error| error.to_string())
            .and_then(|db| {
                let found = found_in(&db).map_err(|e| e.to_string())?;
                let judge =
                    |(index, bounds): (usize, _)| writers[index].judge(index, &found, bounds);
                bounds.iter().copied().enumerate().try_for_each(judge)?;
                check_sound(&after, DIRECTORY)
            });
        if let Err(loss) = judged {
            tally.losses.push(format!("{story}: {loss}"));
        }
    }
    tally.cuts = seen.len() as u64;
    assert!(tally.cuts > 100, "only {} cuts", tally.cuts);
    let row = Row::new("proof-power", "tidekv")
        .param("writers", WRITERS as u64)
        .param("batches", batches)
        .metric("operations", operations);
    tally.finish("threads", row);
}
