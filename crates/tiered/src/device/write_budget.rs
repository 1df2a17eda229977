//! Limits on writes to flash, because flash wears out.
//!
//! [`WriteBudget`]: bytes per second on average. Unused budget accumulates, up to one minute's
//! worth. When it runs low only objects that have been fetched since they were stored are admitted;
//! when it is exhausted, none is.
//!
//! [`RewriteCredit`]: accessed objects are rewritten before their segment is evicted, but no more
//! bytes than new objects have taken. Only new objects cause evictions, so one rewrite of an object
//! each time that new objects fill the device is enough. Without the limit a read-only workload
//! would rewrite the oldest quarter of the device forever.
//!
//! For all threads; the caller passes the time.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Seconds of budget that accumulate at most.
const BURST_S: u64 = 60;
/// Below one part in this many of the maximum, objects that were never fetched are not admitted.
const SCARCE_DIVISOR: u64 = 4;
/// Unused credit accumulates up to one part in this many of the device.
const CREDIT_DIVISOR: u64 = 4;
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

/// The credit for rewrites, in bytes.
#[derive(Debug)]
pub(crate) struct RewriteCredit {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl RewriteCredit {
    /// No credit, for a device with room for `device_bytes`.
    pub(crate) fn new(device_bytes: u64) -> Self {
        Self { bytes: AtomicU64::new(0), bytes_max: device_bytes / CREDIT_DIVISOR }
    }

    /// Accounts for a record that was written: a new object earns credit, a rewrite spends it.
    pub(crate) fn count(&self, bytes: usize, is_new: bool) {
        if is_new { self.earn(bytes) } else { self.spend(bytes) }
    }

    fn earn(&self, bytes: usize) {
        self.change(|credit| (credit + bytes as u64).min(self.bytes_max));
    }

    /// Whether the credit covers a rewrite of this size.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed) >= bytes as u64
    }

    fn spend(&self, bytes: usize) {
        self.change(|credit| credit.saturating_sub(bytes as u64));
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        let change = |credit| Some(change(credit));
        _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
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
    fn rewrites_take_no_more_than_new_objects() {
        let credit = RewriteCredit::new(4_000);
        assert!(!credit.has(1));
        credit.earn(300);
        assert!(credit.has(300) && !credit.has(301));
        credit.spend(200);
        assert!(credit.has(100) && !credit.has(101));
        // A quarter of the device at most.
        (0..10).for_each(|_| credit.earn(500));
        assert!(credit.has(1_000) && !credit.has(1_001));
        credit.spend(2_000);
        assert!(!credit.has(1));
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
