//! Many threads on few keys, with concurrent rotation, flushes and compactions: every history is
//! linearizable. Gets, scans, multi_gets and snapshots see every batch, transaction and ingest as a
//! whole, in every keyspace.
//!
//! Operations are recorded with the times of their invocation and return (`linearizable/load.rs`),
//! and a checker (`linearizable/checker.rs`) searches for an order that explains all of them. Every
//! value is written once, so a read identifies the write that it saw. Storage yields the processor
//! at random, so that threads are interrupted at critical points; some rounds run on a real
//! directory. At the end of a round the store is reopened and must hold contents that the history
//! allows.
//!
//! `TIDEKV_LINEARIZABLE_OPERATIONS` sets the number of operations (evidence: 5 000 000),
//! `TIDEKV_LINEARIZABLE_SEED` the seed.
#![allow(clippy::disallowed_methods, reason = "the test needs real threads")]

#[path = "linearizable/object.rs"]
mod object;
#[path = "linearizable/checker.rs"]
mod checker;
#[path = "linearizable/load.rs"]
mod load;
mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use checker::{Event, check};
use load::{Arena, Client, OBJECTS, read_all};
use object::{ABSENT, Operation, SLOTS};
use support::{DIRECTORY, Dice, cache_policy};
use tidekv::{Compression, Db, Environment, FilterKind, KeyspaceOptions, Options};
use tidekv_io::MemoryStorage;
use tidekv_testkit::evidence::Row;

const THREADS: usize = 7;
const OPERATIONS_PER_THREAD: usize = 1500;

#[derive(Debug, Default)]
struct Totals {
    rounds: u64,
    operations: u64,
    histories: u64,
    flushes: u64,
    compactions: u64,
    configurations: usize,
    violations: Vec<String>,
}

fn options(dice: &mut Dice, disk: Option<&MemoryStorage>) -> Options {
    Options::default()
        .memory_bytes(8 << 20)
        .memtable_bytes(4096 << dice.below(5))
        .table_bytes(4096 << dice.below(6))
        .compaction_threads(1 + dice.below(3) as usize)
        .cache_policy(cache_policy(dice))
        .cross_check(dice.one_in(3))
        .environment({
            let mut options = Environment::default();
            options.storage = disk.map(|disk| Arc::new(disk.clone()) as _);
            options
        })
        .with_research(|research| {
            research.fingerprint_bits = [6, 32][dice.below(2) as usize];
        })
}

fn open(directory: &Path, options: Options, dice: &mut Dice) -> Arena {
    let db = Db::open(directory, options).unwrap();
    // Half of the rounds read every block from storage.
    db.set_cache_bytes_max([0, u64::MAX][dice.below(2) as usize]);
    let keyspaces = ["left", "right"].map(|name| {
        let options = KeyspaceOptions::default()
            .block_bytes(512 << dice.below(4))
            .filter_bits_per_key([0, 2, 10][dice.below(3) as usize])
            .compression([Compression::None, Compression::Lz4][dice.below(2) as usize])
            .filter_kind([FilterKind::Bloom, FilterKind::Cuckoo][dice.below(2) as usize]);
        db.keyspace_with(name, options).unwrap()
    });
    Arena { db, keyspaces, clock: AtomicU64::new(0) }
}

/// Yields the processor at some operations, sometimes for a while.
fn interrupt(disk: &MemoryStorage) {
    let turns = AtomicU64::new(1);
    disk.on_operation(move |_| {
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        match turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 {
            0 => std::thread::sleep(std::time::Duration::from_micros(turn % 100)),
            1..20 => std::thread::yield_now(),
            _ => {}
        }
    });
}

fn run_clients(arena: &Arena, seed: u64) -> [Vec<Event>; OBJECTS] {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut client = Client::new(arena, thread, seed);
                    (0..OPERATIONS_PER_THREAD).for_each(|_| client.step());
                    client.events
                })
            })
            .collect();
        scope.spawn(|| {
            let mut dice = Dice(seed);
            while !done.load(Ordering::Relaxed) {
                let keyspace = &arena.keyspaces[dice.below(2) as usize];
                match dice.below(10) {
                    0 => keyspace.compact_range::<&[u8]>(..).unwrap(),
                    1..5 => keyspace.flush().unwrap(),
                    _ => std::thread::sleep(std::time::Duration::from_micros(300)),
                }
            }
        });
        let mut all: [Vec<Event>; OBJECTS] = Default::default();
        let outcomes: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        for events in outcomes {
            let events = events.unwrap();
            all.iter_mut().zip(events).for_each(|(all, events)| all.extend(events));
        }
        all
    })
}

fn round(seed: u64, totals: &mut Totals) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let real = dice.one_in(6).then(|| tempfile::tempdir().unwrap());
    let disk = MemoryStorage::new();
    interrupt(&disk);
    let directory = real.as_ref().map_or(Path::new(DIRECTORY), |directory| directory.path());
    let simulated = real.is_none().then_some(&disk);
    let options = options(&mut dice, simulated);
    let mut arena = open(directory, options.clone(), &mut dice);
    let mut histories = run_clients(&arena, seed);
    let statistics = arena.db.statistics();
    totals.flushes += statistics.counter("flush.count");
    totals.compactions += statistics.counter("compaction.count");
    for look in 0..2 {
        for (object, history) in histories.iter_mut().enumerate() {
            let now = arena.clock.fetch_add(2, Ordering::SeqCst);
            let operation = Operation::Read(read_all(&arena, object));
            history.push(Event { thread: 0, invoked: now, returned: now + 1, operation });
        }
        if look == 0 {
            let now = arena.clock.load(Ordering::SeqCst);
            drop(arena);
            arena = open(directory, options.clone(), &mut dice);
            arena.clock.store(now, Ordering::SeqCst);
        }
    }
    disk.clear_on_operation();
    for (object, history) in histories.iter().enumerate() {
        totals.operations += history.len() as u64;
        totals.histories += 1;
        match check([ABSENT; SLOTS], history) {
            Ok(configurations) => {
                totals.configurations = totals.configurations.max(configurations);
            }
            Err(violation) => {
                let before = violation.event.invoked.saturating_sub(60);
                let nearby: Vec<_> = history
                    .iter()
                    .filter(|e| e.returned > before && e.invoked < violation.event.returned)
                    .map(|event| format!("  {event:?}\n"))
                    .collect();
                totals.violations.push(format!(
                    "object {object} of round {seed} is not linearizable at {:?}; under way {:?}; \
                     it may have held {:?}; around it\n{}",
                    violation.event,
                    violation.under_way,
                    violation.states,
                    nearby.concat()
                ));
            }
        }
    }
    totals.rounds += 1;
}

#[test]
fn histories_of_many_threads_are_linearizable() {
    let number = |variable: &str, otherwise: u64| {
        std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
    };
    let wanted = number("TIDEKV_LINEARIZABLE_OPERATIONS", 60_000);
    let seed = number("TIDEKV_LINEARIZABLE_SEED", 1);
    let mut totals = Totals::default();
    while totals.operations < wanted && totals.violations.is_empty() {
        round(seed + totals.rounds, &mut totals);
    }
    assert!(totals.violations.is_empty(), "{}", totals.violations.concat());
    println!("{totals:?}, all linearizable");
    assert!(totals.flushes > 20 * totals.rounds, "too few flushes to prove anything");
    assert!(totals.compactions > 2 * totals.rounds, "too few compactions");
    assert!(totals.configurations > 4, "threads did not meet");
    Row::new("proof-linearizability", "tidekv")
        .seed(seed)
        .param("threads", THREADS as u64)
        .param("keys_per_object", SLOTS as u64)
        .metric("operations", totals.operations)
        .metric("histories", totals.histories)
        .metric("keys", totals.histories * SLOTS as u64)
        .metric("rounds", totals.rounds)
        .metric("flushes", totals.flushes)
        .metric("compactions", totals.compactions)
        .metric("violations", totals.violations.len())
        .metric("losses", totals.violations.len())
        .record();
}
