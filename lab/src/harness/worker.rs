//! A turn of a subject in a separate process, with separate memory, processor time and storage
//! traffic: the parent's and the child's side.
//!
//! The parent starts its own binary with the hidden command `worker`, writes a [`Job`] to its
//! standard input, and reads a [`Measurement`] from its standard output, or the reason why there is
//! none ([`NoMeasurement`]). A job that ends in [`Ending::AwaitKill`] writes its result and then
//! waits for `SIGKILL`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};
use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::harness::corpus;
use crate::harness::drive;
use crate::harness::job::{Ending, Job, Measurement};
use crate::harness::memory;
use crate::harness::phases;
use crate::harness::reclaim;
use crate::harness::replay::Replay;
use crate::load::keys::{key_of, present};
use crate::load::values::Values;
use crate::machine::kernel::{self, Kernel, resident_bytes_max};
use crate::machine::memory_group;
use crate::subject::{Counts, Settings, Subject, SubjectRecord};

/// The hidden command's name.
pub(crate) const COMMAND: &str = "worker";

/// The response of a failed job.
#[derive(Debug, Serialize, Deserialize)]
struct NoMeasurement {
    error: String,
}

/// Executes the job on standard input and writes the result to standard output.
pub(crate) fn serve(subjects: &[SubjectRecord]) -> Result<()> {
    // An orphaned worker must not hold the store, nor load the machine.
    kernel::end_with_parent();
    let mut text = String::new();
    let mut input = BufReader::new(std::io::stdin());
    input.read_line(&mut text).map_err(|e| Failure::system("could not read the job", e))?;
    let job: Job = serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("`{COMMAND}` is for the lab itself: {e}")))?;
    let record = subjects.iter().find(|record| record.name == job.subject);
    let record =
        record.ok_or_else(|| Failure::usage(format!("unknown subject {}", job.subject)))?;
    let bounded = job.process_bytes.map_or(Ok(()), memory_group::bound_memory);
    let (subject, measurement) = match bounded.and_then(|()| carry_out(&job, record)) {
        Ok(done) => done,
        Err(failure) => {
            // The parent must get this before the process ends.
            answer(&NoMeasurement { error: failure.message.clone() })?;
            return Err(failure);
        }
    };
    answer(&measurement)?;
    if job.ending == Ending::AwaitKill {
        // Ends when the parent exits, at the latest.
        let _ = input.read_to_end(&mut Vec::new());
        std::process::exit(1);
    }
    subject.close()
}

fn answer(what: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(what).expect("numbers and words become JSON");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|e| Failure::system("could not answer", e))
}

/// Opens, drives, settles; the subject is still open afterwards.
fn carry_out(job: &Job, record: &SubjectRecord) -> Result<(Box<dyn Subject>, Measurement)> {
    let clock = SystemClock::new();
    let seconds_since = |ns: u64| (clock.monotonic_ns() - ns) as f64 / 1e9;
    let kernel = Kernel::new(&job.directory);
    let mut measurement = Measurement { has_device: kernel.has_device(), ..Default::default() };
    let kernel_at_start = kernel.counts();
    let started_ns = clock.monotonic_ns();
    let mut subject = (record.open)(&job.directory, &job.settings)?;
    measurement.open_seconds = seconds_since(started_ns);
    if let Some(drive) = &job.drive {
        let values = Values::new(job.value_bytes);
        let mut value = Vec::new();
        assert!(drive.holds == 0 || drive.phases.is_empty(), "phases may close the store");
        let mut holds = Vec::new();
        for index in 0..drive.holds {
            // Every snapshot has a different sequence number.
            let number = present(index % drive.workload.entries);
            let key = &key_of(number)[..drive.workload.key_bytes];
            values.fill(&mut value, number, index);
            subject.put(key, &value)?;
            holds.push(subject.hold(key)?);
        }
        let started_ns = clock.monotonic_ns();
        if drive.phases.is_empty() {
            drive::run(job, drive, &*subject, &kernel, &mut measurement)?;
            drop(holds);
        } else {
            drop(holds);
            let open = |warm_start| {
                (record.open)(&job.directory, &Settings { warm_start, ..job.settings.clone() })
            };
            subject = phases::run(job, drive, subject, &open, &kernel, &mut measurement)?;
        }
        measurement.warm_up_seconds = (seconds_since(started_ns) - measurement.seconds).max(0.0);
    }
    if let Some(replay) = &job.replay {
        Replay::run(replay, job.seed, &*subject, &kernel, &mut measurement)?;
    }
    if let Some(corpus) = &job.corpus {
        corpus::run(corpus, job, &*subject, &kernel, &mut measurement)?;
    }
    if let Some(reclaim) = &job.reclaim {
        reclaim::run(reclaim, job, &*subject, &mut measurement)?;
    }
    if let Some(long) = &job.memory {
        memory::run(long, job, &*subject, &mut measurement)?;
    }
    if matches!(job.ending, Ending::Settle | Ending::Merge) {
        let started_ns = clock.monotonic_ns();
        if job.ending == Ending::Merge {
            subject.merge()?;
        }
        let watched = subject.settle()?;
        measurement.settle_seconds = (seconds_since(started_ns) - watched.as_secs_f64()).max(0.0);
    }
    measurement.life = subject.counts()?.since(&Counts::default());
    measurement.life_kernel = kernel.counts().since(&kernel_at_start);
    measurement.rss_bytes_max = resident_bytes_max();
    Ok((subject, measurement))
}

/// Runs `job` with this binary in a separate process.
pub(crate) fn run(job: &Job) -> Result<Measurement> {
    let (mut child, measurement) = start(job)?;
    if job.ending == Ending::AwaitKill {
        child.kill().map_err(|e| Failure::system("could not kill the worker", e))?;
    }
    let status = child.wait().map_err(|e| Failure::system("could not await the worker", e))?;
    if job.process_bytes.is_some() {
        memory_group::unbound_memory(child.id());
    }
    match measurement {
        Ok(measurement) if status.success() || job.ending == Ending::AwaitKill => Ok(measurement),
        // The child has printed more on standard error.
        Ok(_) => Err(Failure::new(format!("{} failed: {status}", job.subject))),
        Err(what) => Err(Failure::new(format!("{} failed ({status}): {what}", job.subject))),
    }
}

fn start(job: &Job) -> Result<(Child, std::result::Result<Measurement, String>)> {
    let failed = |what: &str, e: std::io::Error| Failure::system(format!("could not {what}"), e);
    let binary = std::env::current_exe().map_err(|e| failed("find this binary", e))?;
    let mut child = Command::new(binary)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed("start a worker", e))?;
    let mut line = serde_json::to_string(job).expect("a job becomes JSON");
    line.push('\n');
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(line.as_bytes()).map_err(|e| failed("hand over the job", e))?;
    let mut answer = String::new();
    let output = child.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut answer).map_err(|e| failed("hear the answer", e))?;
    let measurement = serde_json::from_str(&answer).map_err(|_| {
        let why = serde_json::from_str(&answer);
        why.map_or_else(|_| "no answer came".to_owned(), |why: NoMeasurement| why.error)
    });
    // Open until here: a worker that waits for its end exits when it closes.
    child.stdin = Some(input);
    Ok((child, measurement))
}
