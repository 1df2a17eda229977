//! Drives an open store through phases, and reads all counters after equal numbers of operations.
//!
//! Phases end by operations, not by seconds, so that a run is repeatable: between two samples every
//! thread does its share, and the counters are read while all threads are paused. A phase may begin
//! with a reopen of the store; counters continue then. The seed and the position of a phase
//! determine a thread's operations in it.

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::harness::job::{Drive, Job, Measurement, Phase, Sample, Start, share};
use crate::harness::lane::Lane;
use crate::load::values::Values;
use crate::machine::kernel::{Kernel, ThreadReads};
use crate::machine::latency::Latencies;
use crate::subject::{Counts, Subject};

/// Reopens the store, with or without a warm start.
pub(crate) type Open<'a> = &'a dyn Fn(bool) -> Result<Box<dyn Subject>>;

/// Runs the phases of `drive` on `subject`, and returns the subject of the last one. Fills in the
/// measured part.
pub(crate) fn run(
    job: &Job,
    drive: &Drive,
    mut subject: Box<dyn Subject>,
    open: Open<'_>,
    kernel: &Kernel,
    measurement: &mut Measurement,
) -> Result<Box<dyn Subject>> {
    let values = Values::new(job.value_bytes);
    let clock = SystemClock::new();
    let mut latencies = Latencies::new();
    let (mut counts_at_start, kernel_at_start) = (subject.counts()?, kernel.counts());
    // The counts of the runs before this one.
    let mut carried = Counts::default();
    let mut last = Sample::default();
    let mut written = 0.0;
    for (position, phase) in drive.phases.iter().enumerate() {
        if phase.start != Start::GoesOn {
            carried = subject.counts()?.since(&counts_at_start).and(&carried);
            subject.close()?;
            subject = open(phase.start == Start::Warm)?;
            counts_at_start = subject.counts()?;
        }
        if let Some(policy) = &phase.policy {
            subject.turn_to(policy)?;
        }
        let mut lanes: Vec<Lane<'_>> = (0..drive.threads)
            .map(|thread| {
                let part = position as u64;
                let workload = &phase.workload;
                let stream = workload.stream_of_part(job.seed, part, thread, drive.threads);
                Lane::new(&*subject, &values, workload, stream)
            })
            .collect();
        for operations in phase.sampling.shares(phase.operations) {
            let started_ns = clock.monotonic_ns();
            let (timed, hits) = together(&mut lanes, operations, drive, phase, &clock)?;
            latencies.add(&timed);
            last = Sample {
                phase: position,
                operations: last.operations + operations,
                seconds: last.seconds + (clock.monotonic_ns() - started_ns) as f64 / 1e9,
                counts: subject.counts()?.since(&counts_at_start).and(&carried),
                kernel: kernel.counts().since(&kernel_at_start),
                hits: last.hits + hits,
                cache_bytes_taken: subject.cache_bytes_taken()?,
            };
            measurement.samples.push(last.clone());
        }
        written += phase.operations as f64 * phase.workload.written_share();
    }
    measurement.operations = last.operations;
    measurement.seconds = last.seconds;
    measurement.latencies = latencies.quantiles();
    measurement.counts = last.counts;
    measurement.kernel = last.kernel;
    measurement.cache_bytes_taken = most_taken(&measurement.samples);
    measurement.user_bytes = (written * (drive.workload.key_bytes + job.value_bytes) as f64) as u64;
    Ok(subject)
}

/// Runs all lanes for this total number of operations; returns the duration, and the number that
/// read nothing from storage, if counted.
fn together(
    lanes: &mut [Lane<'_>],
    operations: u64,
    drive: &Drive,
    phase: &Phase,
    clock: &SystemClock,
) -> Result<(Latencies, u64)> {
    let threads = lanes.len() as u64;
    std::thread::scope(|scope| {
        let spawn = |(thread, lane)| {
            let operations = share(operations, thread, threads);
            scope.spawn(move || match phase.counts_hits {
                true => work_and_count(lane, operations, clock),
                false => work(lane, operations, drive.operations_per_sample, clock),
            })
        };
        let working: Vec<_> = (0..).zip(lanes).map(spawn).collect();
        let (mut latencies, mut hits) = (Latencies::new(), 0);
        for lane in working {
            let outcome =
                lane.join().map_err(|_| Failure::new("a thread of the drive panicked"))?;
            let (timed, found) = outcome?;
            latencies.add(&timed);
            hits += found;
        }
        Ok((latencies, hits))
    })
}

fn work(
    lane: &mut Lane<'_>,
    operations: u64,
    per_sample: u64,
    clock: &SystemClock,
) -> Result<(Latencies, u64)> {
    let mut latencies = Latencies::new();
    for operation in 0..operations {
        if operation % per_sample == 0 {
            let begun = clock.monotonic_ns();
            lane.step()?;
            latencies.record(clock.monotonic_ns() - begun);
        } else {
            lane.step()?;
        }
    }
    Ok((latencies, 0))
}

fn work_and_count(
    lane: &mut Lane<'_>,
    operations: u64,
    clock: &SystemClock,
) -> Result<(Latencies, u64)> {
    let (mut latencies, mut hits) = (Latencies::new(), 0);
    let reads = ThreadReads::new()?;
    let mut before = reads.bytes();
    for _ in 0..operations {
        let begun = clock.monotonic_ns();
        lane.step()?;
        latencies.record(clock.monotonic_ns() - begun);
        let now = reads.bytes();
        hits += u64::from(now == before);
        before = now;
    }
    Ok((latencies, hits))
}

/// The maximum memory of caches at any of these times.
fn most_taken<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<u64> {
    samples.into_iter().filter_map(|sample| sample.cache_bytes_taken).max()
}

/// The results of each phase, and of each sample.
pub(crate) fn parts(
    phases: &[Phase],
    measurement: &Measurement,
) -> Vec<(Option<String>, u64, Measurement)> {
    let samples = &measurement.samples;
    let between = |from: &Sample, to: &Sample| Measurement {
        operations: to.operations - from.operations,
        seconds: to.seconds - from.seconds,
        counts: to.counts.since(&from.counts),
        kernel: to.kernel.since(&from.kernel),
        has_device: measurement.has_device,
        hits: phases[to.phase].counts_hits.then(|| to.hits - from.hits),
        cache_bytes_taken: to.cache_bytes_taken,
        ..Measurement::default()
    };
    let mut found = Vec::new();
    let mut before = Sample::default();
    for (position, phase) in phases.iter().enumerate() {
        if let Some(last) = samples.iter().rev().find(|sample| sample.phase == position) {
            let mut part = between(&before, last);
            part.cache_bytes_taken = most_taken(samples.iter().filter(|s| s.phase == position));
            found.push((Some(phase.name.clone()), last.operations, part));
            before = last.clone();
        }
    }
    let mut before = Sample::default();
    for sample in samples {
        found.push((None, sample.operations, between(&before, sample)));
        before = sample.clone();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::keys::Choice;
    use crate::load::workload::{Kind, Workload};

    #[test]
    fn phases_and_samples_are_measured_separately() {
        let sample = |phase, operations, reads| Sample {
            phase,
            operations,
            counts: Counts { reads: Some(reads), ..Counts::default() },
            ..Sample::default()
        };
        let measurement = Measurement {
            samples: vec![sample(0, 10, 5), sample(0, 20, 9), sample(1, 30, 10)],
            ..Measurement::default()
        };
        let workload = Workload::only(Kind::Get, Choice::Uniform, 1);
        let phase = |name: &str| Phase::new(name, workload.clone(), 20);
        let parts = parts(&[phase("one"), phase("two")], &measurement);
        let brief: Vec<_> = parts
            .iter()
            .map(|(name, t, part)| (name.as_deref(), *t, part.operations, part.counts.reads))
            .collect();
        assert_eq!(
            brief,
            [
                (Some("one"), 20, 20, Some(9)),
                (Some("two"), 30, 10, Some(1)),
                (None, 10, 10, Some(5)),
                (None, 20, 10, Some(4)),
                (None, 30, 10, Some(1)),
            ]
        );
    }
}
