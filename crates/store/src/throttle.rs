//! Write stalls: how much writers are slowed so that flushes and compactions
//! keep up. Smooth: the rate falls with the backlog instead of jumping to zero.
//!
//! Pure: [`decide`] looks at the backlog; the commit pipeline does the waiting.

/// Tables in level 0 from which writers are slowed: five times what starts a
/// compaction, so bursts pass freely.
pub(crate) const LEVEL0_SLOW: usize = 20;

/// Tables in level 0 at which writers wait: each makes every read dearer.
pub(crate) const LEVEL0_STOP: usize = 36;

/// The rate at which slowing begins, in bytes per second: about what one
/// compaction thread moves.
const RATE_TOP: f64 = 64e6;

/// The rate just before writers wait.
const RATE_BOTTOM: f64 = 1e6;

/// The backlog that writers meet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backlog {
    /// Bytes in all memtables.
    pub(crate) memtables_bytes: u64,
    /// Bytes that they may take.
    pub(crate) memtables_bytes_max: u64,
    /// Tables in the fullest level 0.
    pub(crate) level0_tables: usize,
    /// Bytes that compactions must move to restore the levels, of the worst
    /// keyspace.
    pub(crate) debt_bytes: u64,
    /// The debt from which writers are slowed; they wait at four times this.
    pub(crate) debt_bytes_slow: u64,
}

/// What writers do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// Go on.
    Free,
    /// Write no more than this many bytes per second.
    Slow(f64),
    /// Wait until the backlog shrinks.
    Stop,
}

/// The pace that suits the backlog.
pub(crate) fn decide(backlog: Backlog) -> Pace {
    let level0 = share(backlog.level0_tables as f64, LEVEL0_SLOW as f64, LEVEL0_STOP as f64);
    let slow = backlog.debt_bytes_slow as f64;
    let debt = share(backlog.debt_bytes as f64, slow, 4.0 * slow);
    let full = backlog.memtables_bytes_max as f64;
    let memory = share(backlog.memtables_bytes as f64, 0.8 * full, full);
    match level0.max(debt).max(memory) {
        pressure if pressure >= 1.0 => Pace::Stop,
        pressure if pressure <= 0.0 => Pace::Free,
        // Geometric: each step of pressure costs the same factor of speed.
        pressure => Pace::Slow(RATE_TOP * (RATE_BOTTOM / RATE_TOP).powf(pressure)),
    }
}

/// How far `now` has gone from `begin` to `end`.
fn share(now: f64, begin: f64, end: f64) -> f64 {
    if end <= begin { 0.0 } else { (now - begin) / (end - begin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_smoothly_to_a_stop() {
        let at = |level0_tables| {
            decide(Backlog {
                level0_tables,
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
    }
}
