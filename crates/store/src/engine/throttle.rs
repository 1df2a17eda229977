//! Write stalls: how much writers are slowed so that flushes and compactions keep up. The rate
//! falls smoothly with the backlog instead of dropping to zero.
//!
//! Flushes free memory, so when memory fills up, the rate follows the measured throughput of
//! flushes. Merges of small tables free memory, too, which matters where keyspaces are many ([ADR
//! 0045](../../../../docs/adr/0045-many-keyspaces.md)). The rate at which compactions reduce the number of tables is not known beforehand, so
//! when tables pile up, the rate falls through all values that could be right.
//!
//! Pure: [`decide`] maps the backlog to a rate, [`Pauses`] turns a rate into pauses; the commit
//! pipeline does the waiting.

use std::time::Duration;

/// Sorted runs in level 0 from which writers are slowed: enough more than start a compaction that
/// bursts pass freely.
pub(crate) const LEVEL0_SLOW: usize = 20;

/// Sorted runs in level 0 at which writers wait: each makes every read more expensive.
pub(crate) const LEVEL0_STOP: usize = 36;

/// The rate at which slowing begins, in bytes per second: about the throughput of one compaction
/// thread.
const RATE_TOP: f64 = 64e6;

/// The rate just before writers wait.
const RATE_BOTTOM: f64 = 1e6;

/// The assumed throughput of flushes before one was measured, in bytes per second: that of a slow
/// disk.
const FLUSH_RATE_UNKNOWN: u64 = 128 << 20;

/// The part of the memtables' limit from which writers are slowed.
const MEMORY_SLOW: f64 = 0.8;

/// A slowed writer pauses at least this long at a time: writes in between run at full speed, and
/// the pause is long enough for the timer.
const PAUSE_NS: u64 = 4_000_000;

/// The longest single pause.
const PAUSE_MAX_NS: u64 = 100_000_000;

/// The backlog of background work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backlog {
    /// Bytes in all memtables.
    pub(crate) memtables_bytes: u64,
    /// Their limit.
    pub(crate) memtables_bytes_max: u64,
    /// The throughput of the last flushes, in bytes per second; 0: unknown.
    pub(crate) flush_bytes_per_s: u64,
    /// Sorted runs in the fullest level 0.
    pub(crate) level0_runs: usize,
    /// Bytes that compactions must move to restore the levels, of the worst keyspace.
    pub(crate) debt_bytes: u64,
    /// The debt from which writers are slowed; they wait at four times this debt.
    pub(crate) debt_bytes_slow: u64,
    /// The memory of open tables that merges of small levels 0 would free.
    pub(crate) mergeable_bytes: u64,
    /// The amount of it from which writers are slowed; they wait at twice this amount.
    pub(crate) mergeable_bytes_slow: u64,
}

impl Backlog {
    /// The same, but writers are only slowed for merges that would free memory.
    pub(crate) fn without_stop_for_merges(self) -> Self {
        let most = (2 * self.mergeable_bytes_slow).saturating_sub(1);
        Self { mergeable_bytes: self.mergeable_bytes.min(most), ..self }
    }
}

/// What writers must do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// Continue at full speed.
    Free,
    /// Write no more than this many bytes per second.
    Slow(f64),
    /// Wait until the backlog shrinks.
    Stop,
}

/// The pace for this backlog.
pub(crate) fn decide(backlog: Backlog) -> Pace {
    let level0 = share(backlog.level0_runs as f64, LEVEL0_SLOW as f64, LEVEL0_STOP as f64);
    let slow = backlog.debt_bytes_slow as f64;
    let debt = share(backlog.debt_bytes as f64, slow, 4.0 * slow);
    let full = backlog.memtables_bytes_max as f64;
    let memory = share(backlog.memtables_bytes as f64, MEMORY_SLOW * full, full);
    let slow = backlog.mergeable_bytes_slow as f64;
    let mergeable = share(backlog.mergeable_bytes as f64, slow, 2.0 * slow);
    let tables = level0.max(debt).max(mergeable);
    if tables.max(memory) >= 1.0 {
        return Pace::Stop;
    }
    let mut rate = f64::INFINITY;
    if tables > 0.0 {
        // Geometric: each step of pressure costs the same factor of speed.
        rate = RATE_TOP * (RATE_BOTTOM / RATE_TOP).powf(tables);
    }
    if memory > 0.0 {
        let flush = match backlog.flush_bytes_per_s {
            0 => FLUSH_RATE_UNKNOWN,
            measured => measured,
        };
        // From twice the throughput of flushes to half of it.
        rate = rate.min(flush as f64 * 4f64.powf(0.5 - memory));
    }
    if rate.is_finite() { Pace::Slow(rate) } else { Pace::Free }
}

/// The position of `now` between `begin` (0) and `end` (1).
fn share(now: f64, begin: f64, end: f64) -> f64 {
    if end <= begin { 0.0 } else { (now - begin) / (end - begin) }
}

/// Limits writers to a rate by pauses that are few and long enough for a timer.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// The time at which the bytes written so far are due, at the rates they were slowed to.
    due_ns: u64,
}

impl Pauses {
    /// Notes `bytes` written at `now_ns` with the limit `bytes_per_s`; returns how long to pause,
    /// if a pause is due.
    pub(crate) fn after(&mut self, bytes: u64, bytes_per_s: f64, now_ns: u64) -> Option<Duration> {
        let takes_ns = (bytes as f64 * 1e9 / bytes_per_s) as u64;
        self.due_ns = self.due_ns.max(now_ns).saturating_add(takes_ns.min(PAUSE_MAX_NS));
        let ahead_ns = self.due_ns - now_ns;
        (ahead_ns >= PAUSE_NS).then(|| Duration::from_nanos(ahead_ns.min(PAUSE_MAX_NS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_smoothly_to_a_stop() {
        let at = |level0_runs| {
            decide(Backlog {
                level0_runs,
                memtables_bytes_max: 100,
                debt_bytes_slow: 100,
                ..Backlog::default()
            })
        };
        assert_eq!(at(0), Pace::Free);
        assert_eq!(at(LEVEL0_SLOW), Pace::Free);
        assert_eq!(at(LEVEL0_STOP), Pace::Stop);
        let mut last = f64::INFINITY;
        for tables in LEVEL0_SLOW + 1..LEVEL0_STOP {
            let Pace::Slow(rate) = at(tables) else { panic!("{tables}: {:?}", at(tables)) };
            assert!(rate < last && rate > 0.6 * last.min(RATE_TOP));
            last = rate;
        }
    }

    #[test]
    fn memory_and_debt_stop_writers_too() {
        let base = Backlog { memtables_bytes_max: 100, debt_bytes_slow: 100, ..Backlog::default() };
        assert_eq!(decide(Backlog { memtables_bytes: 100, ..base }), Pace::Stop);
        assert_eq!(decide(Backlog { debt_bytes: 400, ..base }), Pace::Stop);
        assert!(matches!(decide(Backlog { debt_bytes: 200, ..base }), Pace::Slow(_)));
        let base = Backlog { mergeable_bytes_slow: 100, ..base };
        assert_eq!(decide(Backlog { mergeable_bytes: 100, ..base }), Pace::Free);
        assert!(matches!(decide(Backlog { mergeable_bytes: 150, ..base }), Pace::Slow(_)));
        let stopped = Backlog { mergeable_bytes: 200, ..base };
        assert_eq!(decide(stopped), Pace::Stop);
        assert!(matches!(decide(stopped.without_stop_for_merges()), Pace::Slow(_)));
    }

    #[test]
    fn full_memory_slows_writers_to_what_flushes_manage() {
        let at = |memtables_bytes, flush_bytes_per_s| {
            let backlog = Backlog {
                memtables_bytes,
                flush_bytes_per_s,
                memtables_bytes_max: 1000,
                debt_bytes_slow: 100,
                ..Backlog::default()
            };
            match decide(backlog) {
                Pace::Slow(rate) => rate.round() as u64,
                pace => panic!("{pace:?}"),
            }
        };
        assert_eq!(at(801, 1_000_000), 1_986_185);
        assert_eq!(at(900, 1_000_000), 1_000_000);
        assert_eq!(at(999, 1_000_000), 503_478);
        assert_eq!(at(900, 0), FLUSH_RATE_UNKNOWN);
    }

    #[test]
    fn pauses_are_few_and_add_up_to_the_rate() {
        let (mut pauses, mut now_ns, mut count) = (Pauses::default(), 1_000_000_000u64, 0u64);
        let (start_ns, bytes, writes) = (now_ns, 1000, 100_000);
        for _ in 0..writes {
            // The write itself takes 2 µs; the rate allows 10.
            now_ns += 2_000;
            if let Some(pause) = pauses.after(bytes, 100e6, now_ns) {
                now_ns += pause.as_nanos() as u64;
                count += 1;
            }
        }
        let took_ns = now_ns - start_ns;
        assert!((980_000_000..1_010_000_000).contains(&took_ns), "{took_ns}");
        assert!((150..=200).contains(&count), "{count} pauses");
        // A writer that is slow enough by itself is never delayed.
        let pause = |second: u64| pauses.after(bytes, 100e6, now_ns + second * 1_000_000_000);
        assert!((1..100).map(pause).all(|pause| pause.is_none()));
    }
}
