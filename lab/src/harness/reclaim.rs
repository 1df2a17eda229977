//! Space and scans after nine tenths of a store have been deleted or have expired, and nothing else
//! is done.
//!
//! 1. Entries are put in random order. Of every ten neighbours nine are to die: they get a time to
//!    live, or are deleted later. Range deletions delete nine of ten stretches of
//!    [`STRETCH`] entries.
//! 2. The clock starts when the last deletion is acknowledged, or when the last deadline passes.
//! 3. The bytes of tables, and of all files, are read every [`BETWEEN_LOOKS`], until the time is up.
//! 4. The live data is scanned, then compacted by hand and scanned again: the ratio of the two times
//!    is the cost of what the subject has not removed. Both are scans of what is in memory, as far as
//!    it fits.
#![allow(clippy::disallowed_methods, reason = "reads the sizes of a store's files from outside")]

use std::path::Path;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::harness::job::{Death, Job, Measurement, ReclaimCounts, ReclaimJob, ReclaimLook};
use crate::load::dice::Dice;
use crate::load::keys::{KEY_BYTES, key_of, present};
use crate::load::values::Values;
use crate::subject::Subject;

/// Of this many entries one stays.
pub(crate) const ONE_IN: u64 = 10;

/// Entries that one range deletion removes.
const STRETCH: u64 = 100;

/// Scans after the first one, which brings what is left into memory: the shortest one counts.
const SCANS: u64 = 5;

const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Executes a job.
pub(crate) fn run(
    reclaim: &ReclaimJob,
    job: &Job,
    subject: &dyn Subject,
    measurement: &mut Measurement,
) -> Result<()> {
    let clock = SystemClock::new();
    let seconds_since = |ns: u64| (clock.monotonic_ns() - ns) as f64 / 1e9;
    let begun_ns = clock.monotonic_ns();
    fill(reclaim, job, subject)?;
    let filled_s = seconds_since(begun_ns);
    let full_bytes = table_bytes(subject)?;
    match reclaim.death {
        Death::Delete => {
            let dying = (0..reclaim.entries).filter(|&at| !stays(reclaim, at));
            dying.map(present).try_for_each(|number| subject.delete(&key_of(number)))?;
        }
        Death::RangeDelete => {
            let starts = (0..reclaim.entries).step_by(STRETCH as usize);
            for start in starts.filter(|&start| !stays(reclaim, start)) {
                let end = (start + STRETCH).min(reclaim.entries);
                subject.delete_range(&key_of(present(start)), &key_of(present(end)))?;
            }
        }
        Death::Expire => {
            let left_s = reclaim.life_s - seconds_since(begun_ns) + filled_s;
            clock.sleep(Duration::from_secs_f64(left_s.max(0.0)));
        }
    }
    let dead_ns = clock.monotonic_ns();
    let mut looks = Vec::new();
    loop {
        let seconds = seconds_since(dead_ns);
        let look = ReclaimLook {
            seconds,
            table_bytes: table_bytes(subject)?,
            file_bytes: file_bytes(&job.directory),
        };
        looks.push(look);
        if seconds >= reclaim.seconds {
            break;
        }
        clock.sleep(BETWEEN_LOOKS);
    }
    let scan = || -> Result<(u64, f64)> {
        let begun_ns = clock.monotonic_ns();
        let entries = subject.scan(&[], u64::MAX, &mut |_, _| {})?;
        Ok((entries, seconds_since(begun_ns)))
    };
    let best_scan = || -> Result<(u64, f64)> {
        let mut best = scan()?;
        for _ in 0..SCANS {
            let (entries, seconds) = scan()?;
            best = (entries, best.1.min(seconds));
        }
        Ok(best)
    };
    let (entries, scan_s) = best_scan()?;
    let expected = (0..reclaim.entries).filter(|&at| stays(reclaim, at)).count() as u64;
    if entries != expected {
        return Err(Failure::new(format!("{entries} entries are left, not {expected}")));
    }
    subject.merge()?;
    subject.settle()?;
    let (_, merged_scan_s) = best_scan()?;
    let live_bytes = expected * (KEY_BYTES + job.value_bytes) as u64;
    measurement.reclaim =
        Some(ReclaimCounts { live_bytes, full_bytes, looks, scan_s, merged_scan_s });
    Ok(())
}

/// Whether entry `at` is still there at the end.
fn stays(reclaim: &ReclaimJob, at: u64) -> bool {
    match reclaim.death {
        Death::RangeDelete => (at / STRETCH).is_multiple_of(ONE_IN),
        Death::Delete | Death::Expire => at.is_multiple_of(ONE_IN),
    }
}

/// Puts all entries, and waits for background work.
fn fill(reclaim: &ReclaimJob, job: &Job, subject: &dyn Subject) -> Result<()> {
    let values = Values::new(job.value_bytes);
    let (mut value, mut dice) = (Vec::new(), Dice::new(job.seed));
    let mut order: Vec<u64> = (0..reclaim.entries).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at as u64 + 1) as usize);
    }
    for at in order {
        let number = present(at);
        values.fill(&mut value, number, 0);
        if reclaim.death == Death::Expire && !stays(reclaim, at) {
            let life = Duration::from_secs_f64(reclaim.life_s);
            subject.put_with_ttl(&key_of(number), &value, life)?;
        } else {
            subject.put(&key_of(number), &value)?;
        }
    }
    subject.settle().map(drop)
}

fn table_bytes(subject: &dyn Subject) -> Result<u64> {
    let bytes = subject.counts()?.table_bytes;
    bytes.ok_or_else(|| Failure::usage("this subject does not count the bytes of its tables"))
}

/// The lengths of all files in a directory and below it; files that disappear meanwhile count 0.
fn file_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => file_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
