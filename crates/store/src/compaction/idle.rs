//! Detects when writers are idle, and bounds the reads of compactions of level 0 at such times.
//!
//! Under load level 0 may grow, because each merge of it rewrites a large part of the base level.
//! After the load its tables would slow reads until the next write: so once level 0 has not changed
//! for [`QUIET`], the engine merges it (`picker::pick_idle` selects the inputs), within the
//! guarantee.
//!
//! Guarantee: such merges read no more than [`SPARE_PER_BYTE`] bytes for each byte that a flush
//! added to level 0 or a previous run of the process left there. Writers that pause repeatedly
//! therefore cannot make it rewrite its tables over and over.
//!
//! Pure: the engine passes the time and does the work.

use std::time::Duration;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Level 0 counts as idle after this time: flushes under load are many times more frequent.
const QUIET: Duration = Duration::from_millis(500);

/// Bytes that idle merges may read for each byte that reached level 0.
const SPARE_PER_BYTE: u64 = 2;

/// Time of the last change of level 0, and the read budget of idle merges.
#[derive(Debug, Default)]
pub(crate) struct IdleCompaction {
    /// A check is scheduled.
    is_watched: AtomicBool,
    changed_at_ns: AtomicU64,
    spare_bytes: AtomicU64,
}

impl IdleCompaction {
    /// Records that level 0 has changed and `bytes` were added. Returns the delay until the next
    /// check, unless one is already scheduled.
    pub(crate) fn note_change(&self, bytes: u64, now_ns: u64) -> Option<Duration> {
        self.changed_at_ns.store(now_ns, Ordering::Relaxed);
        self.spare_bytes.fetch_add(bytes.saturating_mul(SPARE_PER_BYTE), Ordering::Relaxed);
        (!self.is_watched.swap(true, Ordering::AcqRel)).then_some(QUIET)
    }

    /// The delay until the next check; `None`: level 0 is idle, and the next change schedules
    /// another check.
    pub(crate) fn look(&self, now_ns: u64) -> Option<Duration> {
        let since = self.changed_at_ns.load(Ordering::Relaxed);
        let passed = Duration::from_nanos(now_ns.saturating_sub(since));
        if passed < QUIET {
            return Some(QUIET - passed);
        }
        self.is_watched.store(false, Ordering::Release);
        None
    }

    /// Bytes that merges may read now.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare_bytes.load(Ordering::Relaxed)
    }

    /// Spends `bytes` of the budget, at most the available amount. Merges run one after another,
    /// each after its call of [`IdleCompaction::spare_bytes`].
    pub(crate) fn spend(&self, bytes: u64) {
        self.spare_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level0_is_idle_some_time_after_its_last_change() {
        let quiet = IdleCompaction::default();
        let at_ms = |ms: u64| ms * 1_000_000;
        assert_eq!(quiet.note_change(10, at_ms(1000)), Some(QUIET));
        assert_eq!(quiet.note_change(20, at_ms(1200)), None, "a check is scheduled already");
        assert_eq!(quiet.look(at_ms(1500)), Some(Duration::from_millis(200)));
        assert_eq!(quiet.look(at_ms(1700)), None);
        assert_eq!(quiet.note_change(5, at_ms(1701)), Some(QUIET), "looked for anew");
        assert_eq!(quiet.spare_bytes(), 70);
        quiet.spend(60);
        assert_eq!(quiet.spare_bytes(), 10);
    }
}
