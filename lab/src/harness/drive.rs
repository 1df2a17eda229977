//! Drives an open store with several threads, and measures.
//!
//! Closed loop: a thread begins its next operation when the last one is done. Open loop: operations
//! arrive at predetermined random times, and their latency counts from their arrival, so that a
//! stall affects all delayed operations (no coordinated omission).
//!
//! ```text
//!   warm-up ──the rule holds──▶ measured ──time or operations are up──▶ end
//! ```
//!
//! The threads detect a change with one relaxed load per operation; they read clocks once per
//! [`Drive::operations_per_sample`] operations.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::harness::job::{Drive, Job, Length, Measurement, WarmUp, share};
use crate::harness::lane::{Fetched, Lane};
use crate::load::dice::Dice;
use crate::load::keys::Choice;
use crate::load::values::Values;
use crate::load::workload::{Kind, Workload};
use crate::machine::kernel::{Kernel, KernelCounts};
use crate::machine::latency::Latencies;
use crate::subject::{Counts, Subject};

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// The checks of the warm-up rule: four times per measurement length, within these bounds.
const WINDOW_MIN: Duration = Duration::from_millis(10);
const WINDOW_MAX: Duration = Duration::from_millis(250);

/// A measurement continues until this number of operations, however long it takes.
const OPERATIONS_MIN: u64 = 10;

/// Storage is idle below this number of bytes per operation: a thousandth of a block.
const CACHED_BYTES_PER_OPERATION: f64 = 4.0;

/// Reads per operation are stable when two windows differ by less.
const STEADY_DIFFERENCE: f64 = 0.03;

/// The maximum time to fill a cache, as a multiple of the measurement.
const FILL_SHARE_MAX: f64 = 2.0;

/// The period of checks whether all threads have finished their warm-up.
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

/// A cache is full when it misses at most this fraction of all entries, or after this number of
/// passes over all of them.
const FILL_MISSES_MAX: f64 = 0.005;
const FILL_PASSES_MAX: usize = 3;

/// A thread sleeps if the next arrival is further away than this.
const SPIN: Duration = Duration::from_micros(100);

/// A counter without false sharing.
#[derive(Default)]
#[repr(align(128))]
struct Tally(AtomicU64);

struct Shared<'a> {
    drive: &'a Drive,
    clock: SystemClock,
    phase: AtomicU8,
    is_broken: AtomicBool,
    tallies: Vec<Tally>,
}

impl Shared<'_> {
    fn operations(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.0.load(Ordering::Relaxed)).sum()
    }

    /// Operations of the warm-up, if the measured ones are counted too; the main thread checks the
    /// rule of a warm-up before measured seconds.
    fn counted_warm_up(&self) -> u64 {
        match (self.drive.length, self.drive.warm_up) {
            (Length::Operations(_), WarmUp::Operations(operations)) => operations,
            (Length::Operations(_), WarmUp::UntilSteady) => {
                panic!("a fixed number of operations needs a warm-up of known length")
            }
            _ => 0,
        }
    }

    /// A thread has finished its warm-up: it waits for the others.
    fn wait_for_others(&self) {
        while self.phase.load(Ordering::Acquire) == WARMING
            && !self.is_broken.load(Ordering::Relaxed)
        {
            self.clock.sleep(BETWEEN_LOOKS);
        }
    }
}

/// All counters at one time.
struct Moment {
    ns: u64,
    operations: u64,
    counts: Counts,
    kernel: KernelCounts,
}

/// Runs the drive of `job` on `subject`. Fills in the measured part.
pub(crate) fn run(
    job: &Job,
    drive: &Drive,
    subject: &dyn Subject,
    kernel: &Kernel,
    measurement: &mut Measurement,
) -> Result<()> {
    let values = Values::new(job.value_bytes);
    let shared = Shared {
        drive,
        clock: SystemClock::new(),
        phase: AtomicU8::new(WARMING),
        is_broken: AtomicBool::new(false),
        tallies: (0..drive.threads).map(|_| Tally::default()).collect(),
    };
    if drive.fills_first {
        fill(job, drive, subject, &values)?;
    }
    if drive.warm_up == WarmUp::UntilCached {
        walk_over_everything(subject, drive)?;
    }
    let look = || -> Result<Moment> {
        Ok(Moment {
            ns: shared.clock.monotonic_ns(),
            operations: shared.operations(),
            counts: subject.counts()?,
            kernel: kernel.counts(),
        })
    };
    let (latencies, fetched, first, last) = run_lanes(job, &shared, subject, &values, &look)?;
    let seconds = (last.ns - first.ns) as f64 / 1e9;
    measurement.operations = last.operations - first.operations;
    measurement.seconds = seconds;
    measurement.latencies = latencies.quantiles();
    (measurement.fetch_hits, measurement.fetch_misses) = (fetched.hits, fetched.misses);
    measurement.counts = last.counts.since(&first.counts);
    measurement.kernel = last.kernel.since(&first.kernel);
    // Idle: reads at this time are outside the budget, for all.
    measurement.cache_bytes_taken = subject.cache_bytes_taken()?;
    let written = last.operations as f64 * drive.workload.written_share();
    measurement.user_bytes = written as u64 * (drive.workload.key_bytes + job.value_bytes) as u64;
    Ok(())
}

/// Runs all threads; returns their latencies, the counts of caches, and all counters at both ends
/// of the measured part.
fn run_lanes(
    job: &Job,
    shared: &Shared<'_>,
    subject: &dyn Subject,
    values: &Values,
    look: &dyn Fn() -> Result<Moment>,
) -> Result<(Latencies, Fetched, Moment, Moment)> {
    let workload = &shared.drive.workload;
    let seconds = match shared.drive.length {
        Length::Seconds(seconds) => Some(seconds),
        Length::Operations(_) => None,
    };
    let warm_up = shared.counted_warm_up();
    let mut first = look()?;
    if seconds.is_none() && warm_up == 0 {
        shared.phase.store(MEASURING, Ordering::Relaxed);
    }
    std::thread::scope(|scope| {
        let spawn = |thread| {
            let stream = workload.stream(job.seed, thread, shared.drive.threads);
            let lane = Lane::new(subject, values, workload, stream);
            scope.spawn(move || {
                let outcome = work(shared, lane, Pace::new(shared, job.seed, thread), thread);
                if outcome.is_err() {
                    shared.is_broken.store(true, Ordering::Relaxed);
                }
                outcome
            })
        };
        let lanes: Vec<_> = (0..shared.drive.threads).map(spawn).collect();
        if warm_up > 0 {
            // Only a failed thread has ended.
            while shared.operations() < warm_up && !lanes.iter().any(|lane| lane.is_finished()) {
                shared.clock.sleep(BETWEEN_LOOKS);
            }
            let looked = look();
            shared.is_broken.fetch_or(looked.is_err(), Ordering::Relaxed);
            shared.phase.store(MEASURING, Ordering::Release);
            first = looked?;
        }
        let ends = seconds.map(|seconds| watch(job, shared, seconds, look));
        if seconds.is_some() {
            shared.phase.store(OVER, Ordering::Relaxed);
        }
        let (mut latencies, mut fetched) = (Latencies::new(), Fetched::default());
        for lane in lanes {
            let outcome =
                lane.join().map_err(|_| Failure::new("a thread of the drive panicked"))?;
            let (timed, asked) = outcome?;
            latencies.add(&timed);
            fetched.add(asked);
        }
        let (first, last) = match ends {
            Some(ends) => ends?,
            None => (first, look()?),
        };
        Ok((latencies, fetched, first, last))
    })
}

/// Waits for the end of the warm-up, then for that of the measured time; returns all counters at
/// both ends.
fn watch(
    job: &Job,
    shared: &Shared<'_>,
    seconds: f64,
    look: &dyn Fn() -> Result<Moment>,
) -> Result<(Moment, Moment)> {
    let window = Duration::from_secs_f64(seconds / 4.0).clamp(WINDOW_MIN, WINDOW_MAX);
    let started = look()?;
    let mut before: Option<(u64, KernelCounts, f64)> = None;
    while shared.drive.warm_up != WarmUp::None && !shared.is_broken.load(Ordering::Relaxed) {
        shared.clock.sleep(window);
        let Moment { ns, operations, kernel: now, .. } = look()?;
        let waited = (ns - started.ns) as f64 / 1e9;
        let (earlier_operations, earlier, earlier_rate) =
            before.unwrap_or((0, started.kernel, f64::INFINITY));
        let done = (operations - earlier_operations).max(1) as f64;
        let rate = now.since(&earlier).read_bytes as f64 / done;
        let is_over = match shared.drive.warm_up {
            WarmUp::None => true,
            WarmUp::Operations(wanted) => operations >= wanted,
            WarmUp::UntilCached => operations > 0 && rate < CACHED_BYTES_PER_OPERATION,
            WarmUp::UntilSteady => {
                // Or no progress is possible: absent keys need only filters.
                let is_full = now.since(&started.kernel).read_bytes >= job.settings.memory_bytes
                    || waited >= FILL_SHARE_MAX * seconds;
                is_full && (rate - earlier_rate).abs() <= STEADY_DIFFERENCE * rate
            }
        };
        if is_over || waited > shared.drive.warm_up_seconds_max {
            break;
        }
        before = Some((operations, now, rate));
    }
    shared.phase.store(MEASURING, Ordering::Relaxed);
    let first = look()?;
    let end_ns = first.ns + (seconds * 1e9) as u64;
    loop {
        let left = end_ns.saturating_sub(shared.clock.monotonic_ns());
        let has_measured = shared.operations() >= first.operations + OPERATIONS_MIN;
        if (left == 0 && has_measured) || shared.is_broken.load(Ordering::Relaxed) {
            break;
        }
        shared.clock.sleep(Duration::from_nanos(left).clamp(WINDOW_MIN, window));
    }
    Ok((first, look()?))
}

/// The arrivals of operations at one thread.
struct Pace<'a> {
    clock: &'a SystemClock,
    /// Mean nanoseconds between arrivals; `None`: closed loop.
    gap_ns: Option<f64>,
    due_ns: f64,
    dice: Dice,
}

impl<'a> Pace<'a> {
    fn new(shared: &'a Shared<'_>, seed: u64, thread: u64) -> Self {
        let threads = shared.drive.threads as f64;
        let gap_ns = shared.drive.arrivals_per_s.map(|rate| 1e9 * threads / rate);
        let clock = &shared.clock;
        let dice = Dice::of_thread(!seed, thread);
        Self { clock, gap_ns, due_ns: clock.monotonic_ns() as f64, dice }
    }

    /// Waits for the next arrival, and returns its time; `None`: closed loop.
    #[inline]
    fn next_arrival(&mut self) -> Option<u64> {
        let gap_ns = self.gap_ns?;
        self.due_ns -= gap_ns * (1.0 - self.dice.unit()).ln();
        let due = self.due_ns as u64;
        loop {
            let left = Duration::from_nanos(due.saturating_sub(self.clock.monotonic_ns()));
            if left.is_zero() {
                return Some(due);
            }
            if left > SPIN {
                self.clock.sleep(left - SPIN / 2);
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// The work of one thread.
fn work(
    shared: &Shared<'_>,
    mut lane: Lane<'_>,
    mut pace: Pace<'_>,
    thread: u64,
) -> Result<(Latencies, Fetched)> {
    let drive = shared.drive;
    let mut latencies = Latencies::new();
    let mut seen = shared.phase.load(Ordering::Relaxed);
    let counted_warm_up = shared.counted_warm_up();
    let warm_up = share(counted_warm_up, thread, drive.threads);
    let limit = match drive.length {
        Length::Seconds(_) => u64::MAX,
        Length::Operations(total) => warm_up + share(total, thread, drive.threads),
    };
    let tally = &shared.tallies[thread as usize].0;
    let mut until_sample = 0;
    if counted_warm_up > 0 && warm_up == 0 {
        shared.wait_for_others();
    }
    for done in 1..=limit {
        let arrival = pace.next_arrival();
        if arrival.is_some() || until_sample == 0 {
            until_sample = drive.operations_per_sample;
            let begun = arrival.unwrap_or_else(|| shared.clock.monotonic_ns());
            lane.step()?;
            latencies.record(shared.clock.monotonic_ns().saturating_sub(begun));
        } else {
            lane.step()?;
        }
        until_sample -= 1;
        tally.store(done, Ordering::Relaxed);
        if counted_warm_up > 0 && done == warm_up {
            shared.wait_for_others();
        }
        let phase = shared.phase.load(Ordering::Relaxed);
        if phase != seen {
            if phase == OVER {
                break;
            }
            latencies.clear();
            lane.take_fetched();
            seen = phase;
        }
        if shared.is_broken.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok((latencies, lane.take_fetched()))
}

/// Puts every entry in random order, and then gets all of them and puts the missing ones, until a
/// cache misses few or keeps no more.
fn fill(job: &Job, drive: &Drive, subject: &dyn Subject, values: &Values) -> Result<()> {
    pass(Kind::Put, job, drive, subject, values)?;
    for _ in 0..FILL_PASSES_MAX {
        let fetched = pass(Kind::Fetch, job, drive, subject, values)?;
        if fetched.misses as f64 <= FILL_MISSES_MAX * drive.workload.entries as f64 {
            break;
        }
    }
    Ok(())
}

/// One operation of `kind` on every entry, in random order.
fn pass(
    kind: Kind,
    job: &Job,
    drive: &Drive,
    subject: &dyn Subject,
    values: &Values,
) -> Result<Fetched> {
    let workload = Workload {
        key_bytes: drive.workload.key_bytes,
        ..Workload::only(kind, Choice::Shuffled, drive.workload.entries)
    };
    std::thread::scope(|scope| {
        let spawn = |thread| {
            let stream = workload.stream(job.seed, thread, drive.threads);
            let mut lane = Lane::new(subject, values, &workload, stream);
            let share = share(workload.entries, thread, drive.threads);
            scope.spawn(move || {
                (0..share).try_for_each(|_| lane.step())?;
                Ok(lane.take_fetched())
            })
        };
        let lanes: Vec<_> = (0..drive.threads).map(spawn).collect();
        let mut all = Fetched::default();
        for lane in lanes {
            let done: Result<Fetched> =
                lane.join().map_err(|_| Failure::new("a thread of the drive panicked"))?;
            all.add(done?);
        }
        Ok(all)
    })
}

/// Reads every entry once, front to back.
fn walk_over_everything(subject: &dyn Subject, drive: &Drive) -> Result<()> {
    let mut seen = 0;
    subject.scan(&[0], u64::MAX, &mut |_, _| seen += 1)?;
    if seen < drive.workload.entries {
        let entries = drive.workload.entries;
        return Err(Failure::new(format!("wrong answer: a walk saw {seen} of {entries} entries")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
