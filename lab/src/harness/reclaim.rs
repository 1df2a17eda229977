//! Space, scans and a load in the foreground after nine tenths of a store have been deleted or have
//! expired.
//!
//! 1. Entries are put in random order. Of every ten neighbours nine are to die: they get a time to
//!    live, or are deleted later. Range deletions delete nine of ten stretches of
//!    [`STRETCH`] entries.
//! 2. The clock starts when the last deletion is acknowledged, or when the last deadline passes.
//! 3. Nothing is done. The bytes of tables, and of all files, are read every [`BETWEEN_LOOKS`], until
//!    the time is up, or earlier if nothing changes any more ([`STEADY`], [`UNCHANGED`]).
//! 4. The live data is scanned, then compacted by hand and scanned again: the ratio of the two times
//!    is the cost of what the subject has not removed. Both are scans of what is in memory, as far as
//!    it fits.
//! 5. A load runs on this store, which has no dead entries now ([`foreground`]). Then the dead are
//!    put again, and die again, while the same load runs.

use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::harness::foreground::{self, Dead, SPACE_AMP, table_bytes};
use crate::harness::job::{Death, Job, Measurement, ReclaimCounts, ReclaimJob, ReclaimLook};
use crate::load::dice::Dice;
use crate::load::keys::{KEY_BYTES, key_of, present};
use crate::load::values::Values;
use crate::machine::kernel::bytes_below;
use crate::subject::Subject;

/// Of this many entries one stays.
pub(crate) const ONE_IN: u64 = 10;

/// Entries that one range deletion removes.
const STRETCH: u64 = 100;

/// Scans after the first one, which brings what is left into memory: the shortest one counts.
const SCANS: u64 = 5;

const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The watch ends when space is back and nothing has changed for this number of seconds.
const STEADY: f64 = 5.0;

/// The watch ends when nothing has changed for this number of seconds.
const UNCHANGED: f64 = 20.0;

/// A store whose entries die.
struct Dying<'a> {
    reclaim: &'a ReclaimJob,
    job: &'a Job,
    subject: &'a dyn Subject,
    clock: SystemClock,
}

/// Executes a job.
pub(crate) fn run(
    reclaim: &ReclaimJob,
    job: &Job,
    subject: &dyn Subject,
    measurement: &mut Measurement,
) -> Result<()> {
    let dying = Dying { reclaim, job, subject, clock: SystemClock::new() };
    let live = (0..reclaim.entries).filter(|&at| stays(reclaim, at)).count() as u64;
    let live_bytes = live * (KEY_BYTES + job.value_bytes) as u64;
    dying.fill(|_| true)?;
    let filled_ns = dying.clock.monotonic_ns();
    subject.settle()?;
    let full_bytes = table_bytes(subject)?;
    dying.kill(|| {
        let left_s = reclaim.life_s - dying.seconds_since(filled_ns);
        dying.clock.sleep(Duration::from_secs_f64(left_s.max(0.0)));
        Ok(())
    })?;
    let looks = dying.watch(live_bytes)?;
    let (entries, scan_s) = dying.best_scan()?;
    if entries != live {
        return Err(Failure::new(format!("{entries} entries are left, not {live}")));
    }
    subject.merge()?;
    subject.settle()?;
    let (_, merged_scan_s) = dying.best_scan()?;
    let foreground = foreground::run(
        job,
        subject,
        reclaim,
        || {
            let begun_ns = dying.clock.monotonic_ns();
            dying.fill(|at| !stays(reclaim, at))?;
            let lasts_s = dying.seconds_since(begun_ns);
            subject.settle()?;
            Ok(Dead { lasts_s, in_s: reclaim.life_s - dying.seconds_since(begun_ns) })
        },
        || dying.kill(|| Ok(())),
    )?;
    measurement.reclaim =
        Some(ReclaimCounts { live_bytes, full_bytes, looks, scan_s, merged_scan_s, foreground });
    Ok(())
}

impl Dying<'_> {
    fn seconds_since(&self, ns: u64) -> f64 {
        (self.clock.monotonic_ns() - ns) as f64 / 1e9
    }

    /// Puts the entries for which `is_wanted`, in random order.
    fn fill(&self, is_wanted: impl Fn(u64) -> bool) -> Result<()> {
        let Self { reclaim, job, subject, .. } = self;
        let values = Values::new(job.value_bytes);
        let (mut value, mut dice) = (Vec::new(), Dice::new(job.seed));
        let mut order: Vec<u64> = (0..reclaim.entries).filter(|&at| is_wanted(at)).collect();
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
        Ok(())
    }

    /// Deletes those that are to die, or waits for the last deadline.
    fn kill(&self, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let Self { reclaim, subject, .. } = self;
        match reclaim.death {
            Death::Delete => {
                let mut dying = (0..reclaim.entries).filter(|&at| !stays(reclaim, at));
                dying.try_for_each(|at| subject.delete(&key_of(present(at))))
            }
            Death::RangeDelete => {
                let starts = (0..reclaim.entries).step_by(STRETCH as usize);
                let mut starts = starts.filter(|&start| !stays(reclaim, start));
                starts.try_for_each(|start| {
                    let end = (start + STRETCH).min(reclaim.entries);
                    subject.delete_range(&key_of(present(start)), &key_of(present(end)))
                })
            }
            Death::Expire => wait(),
        }
    }

    /// The sizes of the store until the time is up, or nothing changes any more.
    fn watch(&self, live_bytes: u64) -> Result<Vec<ReclaimLook>> {
        let dead_ns = self.clock.monotonic_ns();
        let mut looks: Vec<ReclaimLook> = Vec::new();
        let mut changed_s = 0.0;
        loop {
            let look = ReclaimLook {
                seconds: self.seconds_since(dead_ns),
                table_bytes: table_bytes(self.subject)?,
                file_bytes: bytes_below(&self.job.directory),
            };
            if looks.last().is_none_or(|last| last.table_bytes != look.table_bytes) {
                changed_s = look.seconds;
            }
            looks.push(look);
            let is_back = look.table_bytes as f64 <= SPACE_AMP * live_bytes as f64;
            let steady_s = if is_back { STEADY } else { UNCHANGED };
            if look.seconds >= self.reclaim.seconds || look.seconds - changed_s >= steady_s {
                return Ok(looks);
            }
            self.clock.sleep(BETWEEN_LOOKS);
        }
    }

    /// The entries of a scan of everything, and its shortest time.
    fn best_scan(&self) -> Result<(u64, f64)> {
        let scan = || -> Result<(u64, f64)> {
            let begun_ns = self.clock.monotonic_ns();
            let entries = self.subject.scan(&[], u64::MAX, &mut |_, _| {})?;
            Ok((entries, self.seconds_since(begun_ns)))
        };
        let mut best = scan()?;
        for _ in 0..SCANS {
            let (entries, seconds) = scan()?;
            best = (entries, best.1.min(seconds));
        }
        Ok(best)
    }
}

/// Whether entry `at` is still there at the end.
fn stays(reclaim: &ReclaimJob, at: u64) -> bool {
    match reclaim.death {
        Death::RangeDelete => (at / STRETCH).is_multiple_of(ONE_IN),
        Death::Delete | Death::Expire => at.is_multiple_of(ONE_IN),
    }
}
