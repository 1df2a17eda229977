//! The phases of a benchmark and their measurements.
//!
//! Threads share only the store and two flags. The latency of an operation is the time
//! between the call and its return; it excludes making and checking values, which the duration
//! for the throughput includes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tidekv::{Db, Keyspace, Statistics};
use tidekv_io::{Clock, SystemClock};

use super::load::{KEY_BYTES, Random, Values, key_of, number_of};
use crate::failure::{Failure, Result};

/// Entries of a scan.
pub const SCAN_ENTRIES: usize = 100;

/// The maximum recorded latency; longer operations count as this long.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Significant digits of a quantile.
const DIGITS: u8 = 3;

/// The store is idle after this time without background work; an idle compaction of level 0 begins
/// after half of it.
const REST: Duration = Duration::from_millis(1000);

/// The maximum wait for an idle store; after it the phases that read start anyway.
const SETTLE_MAX: Duration = Duration::from_secs(60);

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Phase {
    /// Put every entry once, in random order.
    Fill,
    /// Get random entries.
    Get,
    /// Scan 100 entries from a random key on.
    Scan,
    /// Get and overwrite random entries.
    Mixed,
}

impl Phase {
    /// All phases in the order in which they run.
    pub const ALL: [Self; 4] = [Self::Fill, Self::Get, Self::Scan, Self::Mixed];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Get => "get",
            Self::Scan => "scan",
            Self::Mixed => "mixed",
        }
    }
}

/// The store and the load.
pub struct Workload<'a> {
    pub db: &'a Db,
    pub keyspace: Keyspace,
    pub entries: u64,
    pub threads: u64,
    /// Duration of a phase that reads.
    pub seconds: f64,
    pub get_percent: u64,
    pub values: Values,
    /// Set when the user stops the benchmark.
    pub stop: Arc<AtomicBool>,
}

/// The measurements of one phase.
#[derive(Debug)]
pub struct Measured {
    pub phase: Phase,
    pub operations: u64,
    pub seconds: f64,
    /// Bytes of the keys and values that were read or written.
    pub user_bytes: u64,
    pub latencies_ns: Histogram<u64>,
    /// Reads of tables by the operations, without those of compactions.
    pub storage_reads: u64,
    pub storage_read_bytes: u64,
    /// Bytes written by the log, flushes and compactions.
    pub storage_written_bytes: u64,
    pub values_checked: u64,
    /// Values that were missing or differed from the written ones.
    pub wrong_values: u64,
}

/// The counts of one thread.
struct Lane {
    operations: u64,
    user_bytes: u64,
    values_checked: u64,
    wrong_values: u64,
    latencies_ns: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are in order")
}

impl Lane {
    fn new() -> Self {
        let latencies_ns = histogram();
        Self { operations: 0, user_bytes: 0, values_checked: 0, wrong_values: 0, latencies_ns }
    }

    fn check(&mut self, is_right: bool) {
        self.values_checked += 1;
        self.wrong_values += u64::from(!is_right);
    }
}

/// One thread of a phase.
struct Worker<'a> {
    workload: &'a Workload<'a>,
    clock: SystemClock,
    random: Random,
    /// The version of the next overwriting value; unique among threads.
    version: u64,
    value: Vec<u8>,
    lane: Lane,
}

impl Workload<'_> {
    /// Runs a phase with all threads.
    pub fn measure(&self, phase: Phase) -> Result<Measured> {
        let clock = SystemClock::new();
        let before = self.db.statistics();
        let has_failed = AtomicBool::new(false);
        let started_ns = clock.monotonic_ns();
        let lanes = std::thread::scope(|scope| {
            let start = |thread| {
                let has_failed = &has_failed;
                scope.spawn(move || {
                    let lane = Worker::new(self, phase, thread).run(phase, thread, has_failed);
                    // The other threads can stop: the phase has failed.
                    has_failed.fetch_or(lane.is_err(), Ordering::Relaxed);
                    lane
                })
            };
            let threads: Vec<_> = (0..self.threads).map(start).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Lane>>| {
                thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
            };
            threads.into_iter().map(join).collect::<Result<Vec<Lane>>>()
        })?;
        let seconds = (clock.monotonic_ns() - started_ns) as f64 / 1e9;
        if phase == Phase::Fill {
            self.settle(&clock)?;
        }
        Ok(summarize(phase, seconds, &lanes, [&before, &self.db.statistics()]))
    }

    /// Flushes all entries to tables and waits for the compactions.
    fn settle(&self, clock: &SystemClock) -> Result<()> {
        self.db.flush()?;
        let started_ns = clock.monotonic_ns();
        let (mut seen, mut changed_ns) = (background_work(&self.db.statistics()), started_ns);
        while !self.stop.load(Ordering::Relaxed) {
            let now_ns = clock.monotonic_ns();
            if now_ns - changed_ns > REST.as_nanos() as u64
                || now_ns - started_ns > SETTLE_MAX.as_nanos() as u64
            {
                break;
            }
            clock.sleep(BETWEEN_LOOKS);
            let now = background_work(&self.db.statistics());
            if now != seen {
                (seen, changed_ns) = (now, clock.monotonic_ns());
            }
        }
        Ok(())
    }
}

/// Counters that move while flushes and compactions run.
fn background_work(statistics: &Statistics) -> [u64; 4] {
    ["flush.bytes", "compaction.count", "compaction.write_bytes", "io.compaction_reads"]
        .map(|name| statistics.counter(name))
}

fn summarize(
    phase: Phase,
    seconds: f64,
    lanes: &[Lane],
    [before, after]: [&Statistics; 2],
) -> Measured {
    let counted = |name: &str| after.counter(name).saturating_sub(before.counter(name));
    let sum = |of: fn(&Lane) -> u64| lanes.iter().map(of).sum();
    let mut latencies_ns = histogram();
    for lane in lanes {
        latencies_ns.add(&lane.latencies_ns).expect("all have the same bounds");
    }
    Measured {
        phase,
        operations: sum(|lane| lane.operations),
        seconds,
        user_bytes: sum(|lane| lane.user_bytes),
        latencies_ns,
        storage_reads: counted("io.reads"),
        storage_read_bytes: counted("io.read_bytes"),
        storage_written_bytes: counted("log.bytes")
            + counted("flush.bytes")
            + counted("compaction.write_bytes"),
        values_checked: sum(|lane| lane.values_checked),
        wrong_values: sum(|lane| lane.wrong_values),
    }
}

impl<'a> Worker<'a> {
    fn new(workload: &'a Workload<'a>, phase: Phase, thread: u64) -> Self {
        Self {
            workload,
            clock: SystemClock::new(),
            random: Random::new((phase as u64) << 32 | thread),
            version: (thread + 1) << 32,
            value: Vec::new(),
            lane: Lane::new(),
        }
    }

    fn run(mut self, phase: Phase, thread: u64, has_failed: &AtomicBool) -> Result<Lane> {
        let Workload { entries, threads, seconds, get_percent, ref stop, .. } = *self.workload;
        let goes_on = || !stop.load(Ordering::Relaxed) && !has_failed.load(Ordering::Relaxed);
        if phase == Phase::Fill {
            let mut number = thread;
            while number < entries && goes_on() {
                self.put(number, 0)?;
                number += threads;
            }
            return Ok(self.lane);
        }
        let deadline_ns = self.clock.monotonic_ns() + (seconds * 1e9) as u64;
        let mut now_ns = 0;
        while now_ns < deadline_ns && goes_on() {
            let number = self.random.below(entries);
            now_ns = match phase {
                Phase::Scan => self.scan(number)?,
                Phase::Mixed if self.random.below(100) >= get_percent => {
                    self.version += 1;
                    self.put(number, self.version)?
                }
                _ => self.get(number)?,
            };
        }
        Ok(self.lane)
    }

    /// Counts an operation that began at `started_ns`; returns its end time.
    fn timed(&mut self, started_ns: u64) -> u64 {
        let ended_ns = self.clock.monotonic_ns();
        self.lane.latencies_ns.saturating_record((ended_ns - started_ns).max(1));
        self.lane.operations += 1;
        ended_ns
    }

    fn entry_bytes(&self) -> u64 {
        (KEY_BYTES + self.workload.values.bytes()) as u64
    }

    fn put(&mut self, number: u64, version: u64) -> Result<u64> {
        self.workload.values.fill(&mut self.value, number, version);
        let key = key_of(number);
        let started_ns = self.clock.monotonic_ns();
        self.workload.keyspace.put(key, &self.value)?;
        let ended_ns = self.timed(started_ns);
        self.lane.user_bytes += self.entry_bytes();
        Ok(ended_ns)
    }

    fn get(&mut self, number: u64) -> Result<u64> {
        let key = key_of(number);
        let started_ns = self.clock.monotonic_ns();
        let is_there = self.workload.keyspace.get_into(key, &mut self.value)?;
        let ended_ns = self.timed(started_ns);
        self.lane.check(is_there && self.workload.values.is_of(&self.value, number));
        self.lane.user_bytes += self.entry_bytes();
        Ok(ended_ns)
    }

    fn scan(&mut self, number: u64) -> Result<u64> {
        let first = key_of(number);
        let started_ns = self.clock.monotonic_ns();
        let entries = self.workload.keyspace.range(&first[..]..).take(SCAN_ENTRIES);
        let entries = entries.collect::<tidekv::Result<Vec<_>>>()?;
        let ended_ns = self.timed(started_ns);
        // Keys ascend, beginning with the first one.
        let mut last: Option<&[u8]> = None;
        for (key, entry) in &entries {
            let is_next = last.map_or(**key == first, |last| last < &key[..]);
            let is_right = number_of(key)
                .is_some_and(|number| self.workload.values.is_of(&entry.value, number));
            self.lane.check(is_next && is_right);
            last = Some(key);
        }
        if entries.is_empty() {
            self.lane.check(false);
        }
        self.lane.user_bytes += entries.len() as u64 * self.entry_bytes();
        Ok(ended_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with `entries` entries; phases expect 500.
    fn wrong_values(entries: u64, phase: Phase) -> (u64, u64) {
        let directory = tempfile::tempdir().unwrap();
        let options = tidekv::Options::default().memory_bytes(8 << 20);
        let db = Db::open(directory.path(), options).unwrap();
        let mut workload = Workload {
            keyspace: db.keyspace("default").unwrap(),
            db: &db,
            entries,
            threads: 2,
            seconds: 0.05,
            get_percent: 95,
            values: Values::new(100),
            stop: Arc::default(),
        };
        let filled = workload.measure(Phase::Fill).unwrap();
        assert_eq!((filled.operations, filled.values_checked), (entries, 0));
        assert!(filled.storage_written_bytes > entries * 116);
        workload.entries = 500;
        let measured = workload.measure(phase).unwrap();
        assert_eq!(measured.latencies_ns.len(), measured.operations);
        assert!(measured.operations > 0 && measured.values_checked > 0, "{measured:?}");
        (measured.wrong_values, measured.values_checked)
    }

    #[test]
    fn every_put_entry_is_read_back() {
        for phase in [Phase::Get, Phase::Scan, Phase::Mixed] {
            assert_eq!(wrong_values(500, phase).0, 0, "{phase:?}");
        }
    }

    #[test]
    fn missing_values_are_counted() {
        for phase in [Phase::Get, Phase::Scan] {
            let (wrong, checked) = wrong_values(100, phase);
            assert!(wrong > 0 && wrong < checked, "{phase:?}: {wrong} of {checked}");
        }
    }

    #[test]
    fn the_stop_flag_ends_a_phase() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), tidekv::Options::default()).unwrap();
        let workload = Workload {
            keyspace: db.keyspace("default").unwrap(),
            db: &db,
            entries: u64::MAX,
            threads: 2,
            seconds: 1e6,
            get_percent: 50,
            values: Values::new(100),
            stop: Arc::new(AtomicBool::new(true)),
        };
        for phase in Phase::ALL {
            assert_eq!(workload.measure(phase).unwrap().operations, 0);
        }
    }
}
