//! When to look for dead data (`reclaim.rs`): after the last write has been a while ago, when
//! entries expire, when a snapshot that held dead data is released, and again after a compaction
//! that freed some. Writers that never rest put a look off for [`PATIENCE`] only.
//!
//! Guarantee: a look that was asked for happens, at the requested time or earlier; several requests
//! make one look.
//!
//! Pure: the engine passes the time and does the work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::compaction::reclaim::Confidence;
use crate::format::key::Sequence;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Writers rest if nothing was written for this time.
pub(crate) const QUIET: Duration = Duration::from_millis(500);

/// How long a look is put off for writers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The shortest time between two retries of failed jobs by looks, unless tables were dropped. A little
/// less than the ten seconds after which a failed job asks for a look: that look retries it.
const RETRY_INTERVAL: Duration = Duration::from_secs(9);

/// Looks for dead data.
type Look = Arc<dyn Fn() + Send + Sync>;

#[derive(Debug, Default)]
struct Watch {
    /// The time of the next look.
    due_ns: Option<u64>,
    /// What readers saw at the previous look.
    seen: Sequence,
    /// Since when looks have found that writers are busy.
    busy_since_ns: Option<u64>,
    confidence: Confidence,
    /// No compaction begins before this time, because earlier ones freed too little.
    not_before_ns: u64,
    /// No failed job is retried before this time.
    retry_at_ns: u64,
}

/// The schedule of looks for dead data.
#[derive(Default)]
pub(crate) struct ReclaimWatch {
    watch: Mutex<Watch>,
    /// Whether a look is due soon, for writers: a hint without the lock.
    is_awaited: AtomicBool,
    /// Snapshots held dead data at the last look.
    is_held: AtomicBool,
    /// A callback, because a look flushes memtables: it is far above the jobs that ask for looks.
    look: Mutex<Option<Look>>,
}

impl fmt::Debug for ReclaimWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReclaimWatch").field("watch", &self.watch).finish_non_exhaustive()
    }
}

impl ReclaimWatch {
    /// Sets what a look does. While opening.
    pub(crate) fn set_look(&self, look: Look) {
        *self.look.lock() = Some(look);
    }

    /// Looks now.
    pub(crate) fn look(&self) {
        let look = self.look.lock().clone();
        if let Some(look) = look {
            look();
        }
    }

    /// Whether failed jobs may be retried now; if so, the next time is [`RETRY_INTERVAL`] later.
    pub(crate) fn may_retry(&self, now_ns: u64) -> bool {
        let mut watch = self.watch.lock();
        let may = now_ns >= watch.retry_at_ns;
        if may {
            watch.retry_at_ns = now_ns + RETRY_INTERVAL.as_nanos() as u64;
        }
        may
    }

    /// Lets the next look retry failed jobs, because space was freed.
    pub(crate) fn allow_retry(&self) {
        self.watch.lock().retry_at_ns = 0;
    }

    /// Asks for a look after `delay`. Returns whether the caller must schedule one: there is none
    /// that comes earlier.
    pub(crate) fn ask(&self, now_ns: u64, delay: Duration) -> bool {
        let at_ns = now_ns.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        let mut watch = self.watch.lock();
        if watch.due_ns.is_some_and(|due_ns| due_ns <= at_ns) {
            return false;
        }
        watch.due_ns = Some(at_ns);
        if delay <= QUIET {
            self.is_awaited.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Whether a look comes soon anyway, so that a writer need not ask.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Called at a scheduled time: whether the look is still due.
    pub(crate) fn begin(&self, now_ns: u64) -> bool {
        let mut watch = self.watch.lock();
        let is_due = watch.due_ns.is_some_and(|due_ns| due_ns <= now_ns);
        if is_due {
            watch.due_ns = None;
            self.is_awaited.store(false, Ordering::Relaxed);
        }
        is_due
    }

    /// How long the look must wait for writers, now that readers see writes up to `visible`; `None`:
    /// it goes on.
    pub(crate) fn wait_for_writers(&self, visible: Sequence, now_ns: u64) -> Option<Duration> {
        let mut watch = self.watch.lock();
        let rests = std::mem::replace(&mut watch.seen, visible) == visible;
        let since_ns = *watch.busy_since_ns.get_or_insert(now_ns);
        let is_patient = now_ns.saturating_sub(since_ns) < PATIENCE.as_nanos() as u64;
        if !rests && is_patient {
            return Some(QUIET);
        }
        watch.busy_since_ns = None;
        None
    }

    /// How long the next compaction must wait after wrong estimates.
    pub(crate) fn wait_after_misses(&self, now_ns: u64) -> Option<Duration> {
        let left_ns = self.watch.lock().not_before_ns.saturating_sub(now_ns);
        (left_ns > 0).then(|| Duration::from_nanos(left_ns))
    }

    /// Records what a compaction freed.
    pub(crate) fn note_freed(&self, estimated: u64, freed: u64, now_ns: u64) {
        let mut watch = self.watch.lock();
        watch.confidence.note(estimated, freed);
        watch.not_before_ns = now_ns + watch.confidence.wait().as_nanos() as u64;
    }

    /// Records whether snapshots hold dead data.
    pub(crate) fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Release);
    }

    /// Whether the release of a snapshot may free dead data.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_earlier_request_replaces_a_later_one_and_one_look_serves_all() {
        let watch = ReclaimWatch::default();
        assert!(watch.ask(0, Duration::from_secs(60)) && !watch.is_awaited());
        assert!(watch.ask(0, QUIET) && watch.is_awaited());
        assert!(!watch.ask(0, Duration::from_secs(1)), "one comes earlier");
        assert!(!watch.begin(100 * MS), "too early");
        assert!(watch.begin(500 * MS));
        assert!(!watch.begin(60_000 * MS), "the later one was replaced");
        assert!(watch.ask(60_000 * MS, Duration::ZERO) && watch.begin(60_000 * MS));
    }

    #[test]
    fn a_look_waits_for_writers_but_not_for_ever() {
        let watch = ReclaimWatch::default();
        assert_eq!(watch.wait_for_writers(7, 0), Some(QUIET));
        assert_eq!(watch.wait_for_writers(7, 500 * MS), None);
        let mut looks = 0;
        while watch.wait_for_writers(10 + looks, (1000 + 500 * looks) * MS).is_some() {
            looks += 1;
        }
        assert_eq!(looks, 20, "ten seconds");
    }

    #[test]
    fn failed_jobs_are_retried_at_intervals_and_after_drops() {
        let watch = ReclaimWatch::default();
        assert!(watch.may_retry(0) && !watch.may_retry(8_000 * MS) && watch.may_retry(9_000 * MS));
        watch.allow_retry();
        assert!(watch.may_retry(9_500 * MS) && !watch.may_retry(10_000 * MS));
    }

    #[test]
    fn wrong_estimates_put_the_next_compaction_off() {
        let watch = ReclaimWatch::default();
        assert_eq!(watch.wait_after_misses(0), None);
        watch.note_freed(100, 0, 0);
        assert_eq!(watch.wait_after_misses(0), Some(Duration::from_secs(1)));
        watch.note_freed(100, 0, 1000 * MS);
        assert_eq!(watch.wait_after_misses(2000 * MS), Some(Duration::from_secs(1)));
        watch.note_freed(100, 100, 3000 * MS);
        assert_eq!(watch.wait_after_misses(3000 * MS), None);
    }
}
