//! Background work that panics, which would be a bug: it is noticed and said, no writer waits for it,
//! acknowledged writes stay, and the store closes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real threads work in the background; the logger of the program panics"
)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use support::{START_MS, TINY, options, within};
use tidekv::{Db, Error, ErrorKind, Keyspace, Options};
use tidekv_io::{Executor, Fault, FaultRule, ManualClock, MemoryStorage, Operation, ThreadPool};

const DIRECTORY: &str = "/data";

/// Time for what must not hang.
const PATIENCE_S: u64 = 60;

/// Whether the logger panics at errors.
static LOGGER_PANICS: AtomicBool = AtomicBool::new(false);

/// One test at a time, as all have the same logger.
static ONE: Mutex<()> = Mutex::new(());

struct Logger;

impl tracing::Subscriber for Logger {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        assert!(!LOGGER_PANICS.load(Ordering::Relaxed), "the logger panics, as the test wants it");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

fn alone() -> MutexGuard<'static, ()> {
    // Another test may have failed.
    let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let _ = tracing::subscriber::set_global_default(Logger);
    LOGGER_PANICS.store(false, Ordering::Relaxed);
    one
}

/// A store with threads: its own, or those of an executor of the program.
fn threaded(disk: &MemoryStorage, is_own: bool) -> Options {
    let clock = Arc::new(ManualClock::new(START_MS));
    let mut options = options(disk, &clock, TINY).compaction_threads(2);
    let pool = || Arc::new(ThreadPool::new("program", 2)) as Arc<dyn Executor>;
    options.environment.executor = (!is_own).then(pool);
    options.environment.clock = None;
    options
}

/// The keys of all tables overlap, so that compactions merge them.
fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

fn value(i: u32) -> Vec<u8> {
    i.to_be_bytes().repeat(50)
}

/// Writes until a write fails; returns its error. Key `i` has the value `i`.
fn write_until_refused(keyspace: &Keyspace, acknowledged: &mut u32) -> Error {
    let started = Instant::now();
    loop {
        let i = *acknowledged;
        match keyspace.put(key(i), value(i)) {
            Ok(()) => *acknowledged += 1,
            Err(error) => return error,
        }
        assert!(started.elapsed() < Duration::from_secs(PATIENCE_S / 2), "no write is refused");
    }
}

fn has_all(keyspace: &Keyspace, acknowledged: u32) {
    for i in 0..acknowledged {
        let found = keyspace.get(key(i)).unwrap().expect("it was acknowledged");
        assert_eq!(found, value(i), "{i}");
    }
}

/// Panics at operations of that kind on files with that extension.
fn panic_at(disk: &MemoryStorage, operation: Operation, extension: &'static str) {
    disk.on_operation(move |record| {
        let is_one = record.operation == operation
            && record.path.extension().is_some_and(|found| found == extension);
        assert!(!is_one, "the storage panics, as the test wants it");
    });
}

/// The work itself panics: as if it had failed.
#[test]
fn a_flush_that_panics_is_a_flush_that_fails() {
    let _one = alone();
    for is_own in [true, false] {
        let done = within(PATIENCE_S, move || {
            let disk = MemoryStorage::new();
            let db = Db::open(DIRECTORY, threaded(&disk, is_own)).unwrap();
            let keyspace = db.keyspace("k").unwrap();
            panic_at(&disk, Operation::Create, "table");
            let mut acknowledged = 0;
            let error = write_until_refused(&keyspace, &mut acknowledged);
            assert_eq!(error.kind(), ErrorKind::Storage);
            assert!(error.to_string().contains("panicked"), "{error}");
            assert!(db.health().unwrap_err().to_string().contains("panicked"));
            assert!(support::count(&db, "background.errors") > 0);
            has_all(&keyspace, acknowledged);
            // It is tried again, and nothing is lost. What follows a flush takes time: the store is
            // healthy as soon as its tables are there.
            disk.on_operation(|record| {
                let is_log = record.path.extension().is_some_and(|found| found == "log");
                if is_log && record.operation == Operation::Remove {
                    std::thread::sleep(Duration::from_millis(500));
                }
            });
            db.flush().unwrap();
            db.health().unwrap();
            disk.clear_on_operation();
            for _ in 0..1000 {
                keyspace.put(key(acknowledged), value(acknowledged)).unwrap();
                acknowledged += 1;
            }
            has_all(&keyspace, acknowledged);
            drop(keyspace);
            db.close().unwrap();
            let db = Db::open(DIRECTORY, threaded(&disk, is_own)).unwrap();
            has_all(&db.keyspace("k").unwrap(), acknowledged);
        });
        assert!(done.is_some(), "own threads: {is_own}");
    }
}

/// What follows the work panics: nobody knows what was left undone, and a job that never ends was
/// waited for.
#[test]
fn a_job_that_panics_after_its_work_stops_writes_and_nobody_waits_for_it() {
    let _one = alone();
    for is_own in [true, false] {
        for at in ["the logger", "the logger, later", "removing a table", "flush"] {
            let done = within(PATIENCE_S, move || {
                let disk = MemoryStorage::new();
                let db = Db::open(DIRECTORY, threaded(&disk, is_own)).unwrap();
                let keyspace = db.keyspace("k").unwrap();
                let mut acknowledged = 0;
                match at {
                    "removing a table" => panic_at(&disk, Operation::Remove, "table"),
                    _ => {
                        LOGGER_PANICS.store(true, Ordering::Relaxed);
                        let mut rule = FaultRule::once(
                            Operation::Create,
                            Fault::Fail(tidekv_io::ErrorKind::Failed),
                        )
                        .on_path(".table");
                        rule.times = None;
                        disk.add_fault(rule);
                        if at == "the logger, later" {
                            // The writer already waits for the flush.
                            disk.on_operation(|record| {
                                if record.path.extension().is_some_and(|kind| kind == "table") {
                                    std::thread::sleep(Duration::from_millis(500));
                                }
                            });
                        }
                    }
                }
                let error = match at {
                    "flush" => {
                        keyspace.put(key(0), value(0)).unwrap();
                        acknowledged = 1;
                        db.flush().unwrap_err();
                        write_until_refused(&keyspace, &mut acknowledged)
                    }
                    _ => write_until_refused(&keyspace, &mut acknowledged),
                };
                assert!(error.to_string().contains("panicked"), "{at}: {error}");
                assert!(db.health().unwrap_err().to_string().contains("panicked"), "{at}");
                assert!(db.flush().is_err() && db.compact().is_err(), "{at}");
                has_all(&keyspace, acknowledged);
                LOGGER_PANICS.store(false, Ordering::Relaxed);
                disk.clear_on_operation();
                drop(keyspace);
                let _ = db.close();
                drop(db);
                disk.clear_faults();
                let opening = Instant::now();
                let db = loop {
                    match Db::open(DIRECTORY, threaded(&disk, is_own)) {
                        Ok(db) => break db,
                        // Until the last job has released the engine.
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
                    }
                    assert!(opening.elapsed() < Duration::from_secs(30), "{at}: it stays locked");
                    std::thread::sleep(Duration::from_millis(1));
                };
                has_all(&db.keyspace("k").unwrap(), acknowledged);
                db.keyspace("k").unwrap().put("again", "1").unwrap();
            });
            LOGGER_PANICS.store(false, Ordering::Relaxed);
            assert!(done.is_some(), "own threads: {is_own}, {at}");
        }
    }
}
