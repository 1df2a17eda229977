//! A load in the foreground while a store gives the space of dead entries back, and the same load on
//! the same store without any, and just before they die.
//!
//! One thread gets and puts small entries of its own, four gets to a put, chosen uniformly. They are
//! not neighbours of the dead, so that their blocks are the same in both measurements: what differs
//! is that the store is giving space back. The measurement without is of the same store, earlier,
//! rather than of one that does not give space back: there is no switch for that, and its dead
//! entries would cost their own.
//!
//! 1. Its entries are put, the load warms the caches, and is measured.
//! 2. The dead are put again and settle; the load warms the caches again, and is measured: its caches
//!    and tables are those with which the third measurement begins. The dead die.
//! 3. The load is measured until tables take at most [`SPACE_AMP`] times the bytes that they had at
//!    most in the first measurement, or the time is up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::harness::job::{Death, ForegroundCounts, Job, ReclaimJob};
use crate::load::dice::Dice;
use crate::load::keys::{data_bytes, key_of, present};
use crate::load::values::Values;
use crate::subject::Subject;

/// Its entries, as a part of all bytes, and the bytes of their values.
const ONE_IN: u64 = 20;
const VALUE_BYTES: usize = 100;

/// Of this many operations one is a put. More would write more in a short time than what died.
const OPERATIONS_PER_PUT: u64 = 5;

/// Space is back when tables take at most this many times the bytes of live entries.
pub(crate) const SPACE_AMP: f64 = 1.2;

/// The time in which caches are warmed, as a part of that of the measurement.
const WARMING: f64 = 0.5;

/// The shortest and the longest measurement while space is given back, as multiples of the one
/// without: a store may let writers have the disk for some seconds first.
const SHORTEST: f64 = 0.4;
const LONGEST: f64 = 6.0;

const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Entries that are to die.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dead {
    /// The time until the first one dies by itself, and from then until the last one.
    pub(crate) in_s: f64,
    pub(crate) lasts_s: f64,
}

/// The end of a measurement.
#[derive(Debug, Clone, Copy)]
struct Until {
    seconds: f64,
    /// It may end after this time, when tables take no more than these bytes.
    seconds_least: f64,
    table_bytes: f64,
}

/// The result of a measurement.
#[derive(Debug, Clone, Copy)]
struct Measured {
    operations: u64,
    seconds: f64,
    table_bytes_max: u64,
    /// At its end.
    table_bytes: u64,
    is_back: bool,
}

struct Load<'a> {
    job: &'a Job,
    subject: &'a dyn Subject,
    /// The number of its entries; they follow all others.
    entries: u64,
    first: u64,
    clock: SystemClock,
}

/// Measures the load without dead entries, and while the space of those is given back that `bury`
/// puts and `kill` deletes.
pub(crate) fn run(
    job: &Job,
    subject: &dyn Subject,
    reclaim: &ReclaimJob,
    bury: impl FnOnce() -> Result<Dead>,
    kill: impl FnOnce() -> Result<()>,
) -> Result<ForegroundCounts> {
    let bytes = data_bytes(reclaim.entries, job.value_bytes as u64);
    let entries = (bytes / data_bytes(ONE_IN, VALUE_BYTES as u64)).max(1);
    let clock = SystemClock::new();
    let load = Load { job, subject, entries, first: reclaim.entries, clock };
    load.fill()?;
    subject.settle()?;
    let all = |seconds: f64| Until { seconds, seconds_least: seconds, table_bytes: 0.0 };
    load.measure(all(reclaim.foreground_s * WARMING))?;
    let clean = load.measure(all(reclaim.foreground_s))?;
    subject.settle()?;
    let dead = bury()?;
    let is_by_itself = reclaim.death == Death::Expire;
    let warming_s = reclaim.foreground_s * WARMING;
    let before_s = if is_by_itself { dead.in_s - warming_s } else { reclaim.foreground_s };
    load.measure(all(warming_s))?;
    let before = load.measure(all(before_s.max(0.1)))?;
    kill()?;
    let lasts_s = if is_by_itself { dead.lasts_s } else { 0.0 };
    let busy = load.measure(Until {
        seconds: lasts_s + LONGEST * reclaim.foreground_s,
        seconds_least: lasts_s + SHORTEST * reclaim.foreground_s,
        table_bytes: SPACE_AMP * clean.table_bytes_max as f64,
    })?;
    let per_s = |measured: Measured| measured.operations as f64 / measured.seconds.max(1e-9);
    Ok(ForegroundCounts {
        clean_per_s: per_s(clean),
        before_per_s: per_s(before),
        busy_per_s: per_s(busy),
        busy_s: busy.seconds,
        is_back: busy.is_back,
        clean_bytes: clean.table_bytes_max,
        dead_bytes: busy.table_bytes_max,
        end_bytes: busy.table_bytes,
    })
}

impl Load<'_> {
    fn fill(&self) -> Result<()> {
        let values = Values::new(VALUE_BYTES);
        let mut value = Vec::new();
        (0..self.entries).try_for_each(|at| self.put(&values, &mut value, at, 0))
    }

    fn put(&self, values: &Values, value: &mut Vec<u8>, at: u64, version: u64) -> Result<()> {
        let number = present(self.first + at);
        values.fill(value, number, version);
        self.subject.put(&key_of(number), value)
    }

    /// Gets and puts until the end, in a thread; this one looks at the tables.
    fn measure(&self, until: Until) -> Result<Measured> {
        let (is_over, operations) = (AtomicBool::new(false), AtomicU64::new(0));
        let begun_ns = self.clock.monotonic_ns();
        thread::scope(|scope| {
            let working = scope.spawn(|| self.work(&is_over, &operations));
            let looked = self.look(until, begun_ns, &operations);
            is_over.store(true, Ordering::Relaxed);
            working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            looked
        })
    }

    fn look(&self, until: Until, begun_ns: u64, operations: &AtomicU64) -> Result<Measured> {
        let mut table_bytes_max = 0;
        loop {
            let bytes = table_bytes(self.subject)?;
            table_bytes_max = table_bytes_max.max(bytes);
            let seconds = (self.clock.monotonic_ns() - begun_ns) as f64 / 1e9;
            let is_back = seconds >= until.seconds_least && bytes as f64 <= until.table_bytes;
            if seconds >= until.seconds || is_back {
                let operations = operations.load(Ordering::Relaxed);
                let table_bytes = bytes;
                return Ok(Measured { operations, seconds, table_bytes_max, table_bytes, is_back });
            }
            self.clock.sleep(BETWEEN_LOOKS);
        }
    }

    fn work(&self, is_over: &AtomicBool, operations: &AtomicU64) -> Result<()> {
        let values = Values::new(VALUE_BYTES);
        let (mut value, mut dice) = (Vec::new(), Dice::new(self.job.seed));
        while !is_over.load(Ordering::Relaxed) {
            let at = dice.below(self.entries);
            if dice.below(OPERATIONS_PER_PUT) == 0 {
                self.put(&values, &mut value, at, dice.next())?;
            } else if !self.subject.get(&key_of(present(self.first + at)), &mut |_| {})? {
                return Err(Failure::new("an entry of the foreground is missing"));
            }
            operations.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Bytes of the tables of a subject.
///
/// # Errors
/// If it does not count them.
pub(crate) fn table_bytes(subject: &dyn Subject) -> Result<u64> {
    let bytes = subject.counts()?.table_bytes;
    bytes.ok_or_else(|| Failure::usage("this subject does not count the bytes of its tables"))
}
