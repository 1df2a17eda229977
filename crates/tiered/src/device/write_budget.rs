//! The write budget of flash, in bytes per second on average, for flash wears out.
//!
//! Unused budget accumulates, up to one minute's worth. When it runs low only objects that have
//! been fetched since they were stored are admitted; when it is exhausted, none is.
//!
//! For all threads; the caller passes the time.

use parking_lot::Mutex;

/// Seconds of budget that accumulate at most.
const BURST_S: u64 = 60;
/// Below one part in this many of the maximum, objects that were never fetched are not admitted.
const SCARCE_DIVISOR: u64 = 4;
const NS_PER_S: u128 = 1_000_000_000;

/// A budget.
#[derive(Debug)]
pub(crate) struct WriteBudget {
    bytes_per_s: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bytes: u64,
    at_ns: u64,
}

impl WriteBudget {
    /// A budget of `bytes_per_s` from `now_ns` on, with one minute's worth at the start.
    pub(crate) fn new(bytes_per_s: u64, now_ns: u64) -> Self {
        let bytes = bytes_per_s.saturating_mul(BURST_S);
        Self { bytes_per_s, state: Mutex::new(State { bytes, at_ns: now_ns }) }
    }

    /// Whether `bytes` may be written for an object at `now_ns`; if so they are spent.
    pub(crate) fn spend(&self, bytes: u64, was_fetched: bool, now_ns: u64) -> bool {
        let most = self.bytes_per_s.saturating_mul(BURST_S);
        let mut state = self.state.lock();
        let passed_ns = now_ns.saturating_sub(state.at_ns);
        let gained = u128::from(passed_ns) * u128::from(self.bytes_per_s) / NS_PER_S;
        if gained > 0 {
            state.bytes = most.min(state.bytes.saturating_add(gained as u64));
            state.at_ns = now_ns;
        }
        let kept = if was_fetched { 0 } else { most / SCARCE_DIVISOR };
        let may_be = state.bytes >= bytes.saturating_add(kept);
        if may_be {
            state.bytes -= bytes;
        }
        may_be
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn budget_limits_the_rate_and_allows_a_minute_at_once() {
        let budget = WriteBudget::new(1_000, 0);
        let mut written = 0;
        for step in 0..60_000_u64 {
            // Ten times the budget.
            written += 100 * u64::from(budget.spend(100, true, step * SECOND_NS / 100));
        }
        assert!((1_000 * 640..=1_000 * 661).contains(&written), "{written}");
    }

    #[test]
    fn unfetched_objects_are_refused_before_fetched_ones() {
        let budget = WriteBudget::new(1_000, 0);
        assert!(budget.spend(45_000, false, 0));
        assert!(!budget.spend(1, false, 0));
        assert!(budget.spend(15_000, true, 0));
        assert!(!budget.spend(1, true, 0));
        assert!(budget.spend(1_000, true, SECOND_NS));
        assert!(!budget.spend(1, true, SECOND_NS));
    }
}
