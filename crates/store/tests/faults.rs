//! The proof of faults: every storage operation of a workload fails in turn, in every possible way,
//! once, three times, and until the disk is repaired.
//!
//! Each trial runs the workload of the power proof with one fault in it and checks these rules:
//!
//! 1. the error reaches the caller: as the error of the call itself, or through the counters of
//!    background errors and of failed reads (a run of blocks that cannot be read is read block by
//!    block); errors that may be absorbed are listed, with reasons;
//! 2. reads continue and show exactly the acknowledged writes;
//! 3. after a power cut during the fault the synced writes are present, without holes;
//! 4. once the cause is gone the store writes again, or reports that it must be reopened; after
//!    reopening it holds everything acknowledged, is sound, and a power cut loses none of it;
//! 5. no file and no directory whose sync has failed is synced again as if nothing had happened.
//!
//! `TIDEKV_FAULTS_SEEDS` sets how many workloads there are; of
//! `TIDEKV_FAULTS_SAMPLE` trials one is run.

#[path = "support/expected.rs"]
mod expected;
mod support;
#[path = "support/store_time.rs"]
mod store_time;
#[path = "support/workload.rs"]
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use expected::{Times, found_in};
use support::{DIRECTORY, Dice};
use tidekv::{Db, Durability, Error, ErrorKind};
use tidekv_io::{
    Clock, ErrorKind as StorageError, Fault, FaultRule, ManualClock, MemoryStorage, Operation,
    OperationRecord, Storage, Tear,
};
use tidekv_testkit::evidence::Row;
use workload::{Workload, settings};

const STEPS: u64 = 60;

/// A lasting fault is repaired this many steps after it first struck.
const STEPS_BROKEN: u64 = 8;

/// The ways in which operations fail, and a word for each.
const KINDS: [(&str, Fault); 6] = [
    ("eio", Fault::Fail(StorageError::Failed)),
    ("enospc", Fault::Fail(StorageError::Full)),
    ("short_writes", Fault::ShortWrite),
    ("short_reads", Fault::ShortRead),
    ("syncs_lost", Fault::SyncLost),
    ("syncs_dropped", Fault::SyncDropped),
];

/// How many times the fault strikes; `None`: until it is repaired.
const TIMES: [Option<u64>; 3] = [Some(1), Some(3), None];

/// Operations that may fail unnoticed. The first three clean up, and the next opening repeats them.
/// The fourth is the mark after an edit that is already written; the manifest is rewritten after
/// it. The next two are for more space than is needed now; if less cannot be had either, the write
/// fails. The last is the length of the log, which only tells more about damage to it. The others
/// concern the lists of hot entries and of filter repairs and the time of the last opening, which
/// are optional.
const ABSORBED: [&str; 30] = [
    "remove .table",
    "remove .log",
    "remove MANIFEST-",
    "write MANIFEST-",
    "reserve space for MANIFEST-",
    "reserve space for .log",
    "create HOT",
    "inspect HOT",
    "open HOT",
    "read HOT",
    "write HOT",
    "remove HOT",
    "create FILTER-REPAIRS",
    "inspect FILTER-REPAIRS",
    "open FILTER-REPAIRS",
    "read FILTER-REPAIRS",
    "write FILTER-REPAIRS",
    "remove FILTER-REPAIRS",
    "inspect CLOCK",
    "open CLOCK",
    "read CLOCK",
    "create CLOCK.tmp",
    "inspect CLOCK.tmp",
    "write CLOCK.tmp",
    "remove CLOCK.tmp",
    "rename CLOCK.tmp",
    "open CLOCK.tmp",
    "sync CLOCK.tmp",
    "sync the directory for CLOCK",
    "sync MANIFEST- while closing",
];

#[derive(Debug, Default)]
struct Tally {
    faults: BTreeMap<&'static str, u64>,
    surfaced: u64,
    absorbed: BTreeMap<String, u64>,
    recovered: u64,
    reopened: u64,
    cuts: u64,
    clock_steps: u64,
    losses: Vec<String>,
}

struct Trial {
    seed: u64,
    word: &'static str,
    rule: FaultRule,
    struck_at: Option<u64>,
    surfaced: bool,
    workload: Workload,
    dice: Dice,
}

fn scale(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

fn can_befall(fault: Fault, operation: &OperationRecord) -> bool {
    use Operation as O;
    let is_root = operation.path.as_os_str() == "/";
    match fault {
        // Only operations that need space can fail for lack of it.
        Fault::Fail(StorageError::Full) => matches!(
            operation.operation,
            O::Create | O::Write | O::Sync | O::Allocate | O::Rename | O::Link | O::CreateDirectory
        ),
        // A lost name of the store's own directory cannot be restored, because directories cannot
        // be removed here.
        Fault::SyncLost | Fault::SyncDropped if is_root => false,
        _ => fault.can_befall(operation.operation),
    }
}

/// "write .log" and the like.
fn kind(operation: &OperationRecord) -> String {
    let name = operation.path.file_name().map(|n| n.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let digits = |c: char| c.is_ascii_digit();
    let name = name.trim_start_matches(digits).trim_end_matches(digits);
    format!("{} {name}", operation.operation.verb())
}

fn says_reopen(error: &Error) -> bool {
    error.to_string().contains("reopen")
}

impl Trial {
    fn disk(&self) -> &MemoryStorage {
        &self.workload.disk
    }

    fn note(&mut self, outcome: tidekv::Result<()>) {
        let Err(error) = outcome else { return };
        self.surfaced = true;
        if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Closed | ErrorKind::Locked) {
            self.workload.losses.push(format!("an error of the wrong kind: {error}"));
        }
    }

    /// Whether reads have no reason to fail.
    fn reads_are_healthy(&self) -> bool {
        self.rule.operation.is_some_and(|operation| operation != Operation::Read)
    }

    fn run(&mut self, tally: &mut Tally) {
        self.disk().record_history(true);
        self.disk().add_fault(self.rule.clone());
        for number in 0..STEPS {
            let outcome = match self.workload.db.is_some() {
                true => self.workload.step(&mut self.dice),
                false => self.workload.open(),
            };
            self.note(outcome);
            let struck = self.disk().struck();
            if self.struck_at.is_none() && !struck.is_empty() {
                self.struck_at = Some(number);
                self.workload.buffered_may_go = self.rule.fault == Fault::SyncDropped;
            }
            let Some(struck_at) = self.struck_at else { continue };
            if number - struck_at >= STEPS_BROKEN {
                self.disk().clear_faults();
            }
            if self.workload.db.is_some() {
                let mut outcome = self.workload.read_points(&mut self.dice.clone());
                if number - struck_at < 3 {
                    outcome = outcome.and(self.workload.verify());
                }
                if let (true, Err(error)) = (self.reads_are_healthy(), &outcome) {
                    self.workload.losses.push(format!("a read failed: {error}"));
                }
                self.note(outcome);
            }
            if number - struck_at < 2 {
                self.cut(number, tally);
            }
            // Before the workload reopens the store, which cleans up.
            if self.rule.times == Some(1) && number == struck_at && self.write_through().is_ok() {
                self.expect_no_strays();
            }
        }
        self.disk().clear_faults();
    }

    /// Writes and flushes once more, if the store is open.
    fn write_through(&mut self) -> tidekv::Result<()> {
        if self.workload.db.is_none() {
            return Ok(());
        }
        self.workload.batch(&mut self.dice.clone(), Durability::Sync)?;
        self.workload.promises(self.workload.store().flush())
    }

    /// Power is lost during the fault.
    fn cut(&mut self, number: u64, tally: &mut Tally) {
        self.workload.note_faults();
        let progress = self.workload.progress.lock().unwrap().clone();
        let ended_ms = self.workload.now_ms();
        let clock = Arc::new(ManualClock::new(self.workload.clock.unix_ms()));
        for tear in [Tear::DropUnsynced, Tear::Torn { seed: number }] {
            tally.cuts += 1;
            let disk = self.disk().after_power_loss(tear);
            let judged = Db::open(DIRECTORY, settings(&disk, &clock, number))
                .and_then(|db| Ok((found_in(&db)?, db)))
                .map_err(|error| error.to_string())
                .and_then(|(found, db)| {
                    let now_ms = progress.time_of(&db, self.workload.boot_ns(), false)?;
                    progress.judge(&found, Times::after(ended_ms, now_ms))
                });
            if let Err(loss) = judged {
                self.workload.losses.push(format!("power cut in step {number}, {tear:?}: {loss}"));
            }
        }
    }

    /// The cause is gone: the store works again or reports how to continue.
    fn recover(&mut self, tally: &mut Tally) {
        let outcome = match self.workload.db.is_some() {
            true => self
                .workload
                .store()
                .flush()
                .and_then(|()| self.workload.batch(&mut self.dice, Durability::Sync))
                .and_then(|()| self.workload.store().compact()),
            false => self.workload.open(),
        };
        match outcome {
            Ok(()) => tally.recovered += 1,
            Err(error) if says_reopen(&error) => tally.reopened += 1,
            Err(error) => self.workload.losses.push(format!("it does not recover: {error}")),
        }
        if self.workload.db.is_some()
            && let Err(error) = self.workload.verify()
        {
            self.workload.losses.push(format!("a read failed after the repair: {error}"));
        }
    }

    /// Failed operations must not leave tables that are never removed: a full disk would never
    /// recover. If the removal itself fails, the next opening repeats it.
    fn expect_no_strays(&mut self) {
        if self.workload.db.is_none()
            || self.rule.operation.is_none_or(|operation| operation == Operation::Remove)
        {
            return;
        }
        let storage: Arc<dyn Storage> = Arc::new(self.disk().clone());
        let strays = match tidekv::check::check(DIRECTORY, Some(storage), &mut |_| ()) {
            Ok(report) => report.left_over.into_iter().filter(|n| n.ends_with(".table")).collect(),
            Err(error) => vec![error.to_string()],
        };
        if !strays.is_empty() {
            self.workload.losses.push(format!("{strays:?} stay behind"));
        }
    }

    /// After reopening it holds everything, is sound, and stays so.
    fn reopen(&mut self) -> Result<(), String> {
        // Closing fails if the log was lost; that was already reported.
        let _ = self.workload.close();
        self.workload.open().map_err(|error| format!("it does not open again: {error}"))?;
        self.workload.verify().map_err(|error| error.to_string())?;
        let found = found_in(self.workload.store()).map_err(|error| error.to_string())?;
        let storage: Arc<dyn Storage> = Arc::new(self.disk().clone());
        let report = tidekv::check::check(DIRECTORY, Some(storage), &mut |_| ())
            .map_err(|error| error.to_string())?;
        if let Some(damage) = report.damage.first() {
            return Err(format!("the check finds damage: {}", damage.message));
        }
        if !report.left_over.is_empty() {
            return Err(format!("{:?} are left over", report.left_over));
        }
        let after = self.disk().after_power_loss(Tear::DropUnsynced);
        let clock = Arc::new(ManualClock::new(self.workload.clock.unix_ms()));
        let db = Db::open(DIRECTORY, settings(&after, &clock, 0))
            .map_err(|error| format!("after a cut in the end: {error}"))?;
        if found_in(&db).map_err(|error| error.to_string())? != found {
            return Err("a final cut lost data that the reopened store had shown".into());
        }
        Ok(())
    }

    /// The kind of an operation, with its purpose if that matters.
    fn kind_in_context(&self, operation: &OperationRecord) -> String {
        let history = self.disk().history();
        let before = history.iter().rfind(|before| before.number < operation.number);
        let is_for_clock = before.is_some_and(|before| kind(before) == "rename CLOCK.tmp");
        match kind(operation) {
            kind if kind.starts_with("sync the directory") && is_for_clock => {
                "sync the directory for CLOCK".to_owned()
            }
            kind if kind == "sync MANIFEST-" && self.workload.was_closing(operation.number) => {
                format!("{kind} while closing")
            }
            kind => kind,
        }
    }

    /// The files and directories that were synced again after a failed sync.
    fn syncs_retried(&self) -> BTreeSet<String> {
        let history = self.disk().history();
        let mut retried = BTreeSet::new();
        for struck in self.disk().struck() {
            let is_file = struck.operation == Operation::Sync;
            if !is_file && struck.operation != Operation::SyncDirectory {
                continue;
            }
            for later in history.iter().filter(|later| later.number > struck.number) {
                let is_new = match is_file {
                    true => later.operation == Operation::Create && later.path == struck.path,
                    // Another run of the process: it creates everything that it relies on.
                    false => later.operation == Operation::Lock,
                };
                if is_new {
                    break;
                }
                if later.operation == struck.operation && later.path == struck.path {
                    retried.insert(format!("{} after {}", kind(later), struck));
                }
            }
        }
        retried
    }
}

/// One fault in one run of the workload.
fn attempt(seed: u64, word: &'static str, rule: FaultRule, tally: &mut Tally) {
    let story = format!("workload {seed}, {rule:?}");
    let workload = Workload::new();
    let mut trial =
        Trial { seed, word, rule, struck_at: None, surfaced: false, workload, dice: Dice(seed) };
    trial.run(tally);
    let counter = |name| trial.workload.db.as_ref().map_or(0, |db| db.statistics().counter(name));
    let counted = &trial.workload.counted;
    let heard = trial.surfaced
        || counter("background.errors") + counted.background_errors > 0
        || counter("background.full_disk_retries") + counted.full_disk_retries > 0
        || counter("io.read_failures") + counted.read_failures > 0;
    trial.recover(tally);
    if let Err(loss) = trial.reopen() {
        trial.workload.losses.push(loss);
    }
    tally.clock_steps += trial.workload.counted.clock_steps;
    let struck = trial.disk().struck();
    *tally.faults.entry(word).or_default() += struck.len() as u64;
    if heard {
        tally.surfaced += 1;
    } else {
        for operation in &struck {
            let kind = trial.kind_in_context(operation);
            if !ABSORBED.contains(&&*kind) {
                let loss = format!("the error was not reported: {operation}");
                trial.workload.losses.push(loss);
            }
            *tally.absorbed.entry(kind).or_default() += 1;
        }
    }
    let retried = trial.syncs_retried();
    if !retried.is_empty() {
        trial.workload.losses.push(format!("synced again: {retried:?}"));
    }
    let struck = struck.first().map_or("never struck".to_owned(), ToString::to_string);
    let losses = std::mem::take(&mut trial.workload.losses);
    assert_eq!((trial.seed, trial.word), (seed, word));
    tally.losses.extend(losses.into_iter().map(|loss| format!("{story} ({struck}): {loss}")));
}

/// The operations of the workload without faults.
fn healthy(seed: u64) -> Vec<OperationRecord> {
    let mut workload = Workload::new();
    let mut dice = Dice(seed);
    workload.disk.record_history(true);
    workload.open().unwrap();
    for _ in 1..STEPS {
        workload.step(&mut dice).unwrap();
    }
    assert!(workload.losses.is_empty(), "{:?}", workload.losses);
    workload.disk.history()
}

#[test]
fn any_operation_may_fail_in_any_way() {
    let (seeds, sample) = (scale("TIDEKV_FAULTS_SEEDS", 1), scale("TIDEKV_FAULTS_SAMPLE", 13));
    let mut tally = Tally::default();
    let (mut trials, mut number, mut operations) = (0, 0_u64, 0);
    for seed in 1..=seeds {
        let history = healthy(seed);
        operations += history.len();
        for (position, operation) in history.iter().enumerate() {
            for (word, fault) in KINDS {
                if !can_befall(fault, operation) {
                    continue;
                }
                for times in TIMES {
                    number += 1;
                    if !number.is_multiple_of(sample) {
                        continue;
                    }
                    trials += 1;
                    // Every second time, a lasting fault affects all matching operations.
                    let only = (times.is_some() || position.is_multiple_of(2))
                        .then_some(operation.operation);
                    let before = history[..position].iter().filter(|before| match only {
                        Some(only) => before.operation == only,
                        None => fault.can_befall(before.operation),
                    });
                    let skip = before.count() as u64;
                    let rule =
                        FaultRule { operation: only, path_contains: None, skip, times, fault };
                    attempt(seed, word, rule, &mut tally);
                }
            }
        }
    }
    let count = tally.losses.len();
    let mut row = Row::new("proof-faults", "tidekv")
        .param("workloads", seeds)
        .param("steps", STEPS)
        .param("sample", sample)
        .metric("operations", operations as u64)
        .metric("trials", trials as u64)
        .metric("faults", tally.faults.values().sum::<u64>())
        .metric("errors_surfaced", tally.surfaced)
        .metric("absorbed", tally.absorbed.values().sum::<u64>())
        .metric("recovered", tally.recovered)
        .metric("reopened", tally.reopened)
        .metric("cuts", tally.cuts)
        .metric("clock_steps", tally.clock_steps)
        .metric("losses", count)
        .seed(1);
    for (word, faults) in &tally.faults {
        row = row.metric(word, *faults);
    }
    row.record();
    for (word, _) in KINDS {
        assert!(tally.faults.get(word).is_some_and(|&faults| faults > 0), "no {word}");
    }
    let shown: Vec<_> = tally.losses.iter().take(12).collect();
    assert!(count == 0, "{count} losses in {trials} trials, among them {shown:#?}");
    assert_eq!(tally.recovered + tally.reopened, trials as u64);
}
