//! Calls and times of each command: `INFO commandstats` and `latencystats`, `LATENCY HISTOGRAM`.
//!
//! Commands are numbered by the catalogue. A time is that of the execution, without waiting for
//! other requests, for the commit or for the client. May be used from any thread: threads count in
//! stripes, so that they do not contend for a cache line with every command.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Room for this many commands; a test of the catalogue checks that they fit.
pub(crate) const COMMANDS_MAX: usize = 256;

/// Stripes; a few more than most machines have event loops. One takes 80 KiB, from the first command
/// of one of its threads on.
const STRIPES: usize = 16;

/// Buckets of a histogram: bucket *n* counts times of less than 2ⁿ microseconds, and of at least
/// half of that unless it is the first. The last one counts all longer times: over half an hour.
const BUCKETS: usize = 33;

/// The statistics of one command.
#[derive(Debug)]
pub(crate) struct OfCommand {
    total_ns: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The statistics of one command at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    pub(crate) total_us: u64,
    /// Calls with a wrong number of arguments, or that were not allowed.
    pub(crate) rejected: u64,
    /// Calls that returned an error.
    pub(crate) failed: u64,
    buckets: [u64; BUCKETS],
}

/// The statistics of all commands.
#[derive(Debug, Default)]
pub(crate) struct CommandStatistics {
    stripes: [OnceLock<Box<[OfCommand]>>; STRIPES],
}

/// The stripe of this thread.
fn stripe_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number % STRIPES)
}

impl OfCommand {
    fn new() -> Self {
        Self {
            total_ns: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Counts a call that took `took_ns`.
    pub(crate) fn count(&self, took_ns: u64, has_failed: bool) {
        let bucket = (u64::BITS - (took_ns / 1000).leading_zeros()) as usize;
        self.total_ns.fetch_add(took_ns, Ordering::Relaxed);
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        if has_failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a call that was not executed.
    pub(crate) fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// The statistics now.
    fn now(&self) -> Counted {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let buckets: [u64; BUCKETS] = std::array::from_fn(|bucket| get(&self.buckets[bucket]));
        Counted {
            calls: buckets.iter().sum(),
            total_us: get(&self.total_ns) / 1000,
            rejected: get(&self.rejected),
            failed: get(&self.failed),
            buckets,
        }
    }

    /// Forgets everything.
    fn forget(&self) {
        let counters = [&self.total_ns, &self.rejected, &self.failed];
        let all = counters.into_iter().chain(&self.buckets);
        all.for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

impl Counted {
    /// Times in microseconds, ascending powers of two, each with the number of calls that took less
    /// in total; up to the first that all calls have.
    pub(crate) fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let mut below = 0;
        let counted: u64 = self.buckets.iter().sum();
        for (bucket, &count) in self.buckets.iter().enumerate() {
            below += count;
            if count > 0 {
                found.push((1 << bucket, below));
            }
            if below == counted {
                break;
            }
        }
        found
    }

    /// The time in microseconds that this share of the calls (0 to 1) took less than: the end of
    /// its bucket.
    pub(crate) fn quantile_us(&self, share: f64) -> u64 {
        let counted: u64 = self.buckets.iter().sum();
        let wanted = (share * counted as f64).ceil().max(1.0) as u64;
        let found = self.cumulative().into_iter().find(|&(_, below)| below >= wanted);
        found.map_or(0, |(us, _)| us)
    }
}

impl CommandStatistics {
    /// The statistics of the command with this number, as this thread counts them.
    pub(crate) fn of(&self, command: usize) -> &OfCommand {
        let all = || (0..COMMANDS_MAX).map(|_| OfCommand::new()).collect();
        &self.stripes[stripe_number()].get_or_init(all)[command]
    }

    /// The statistics of the command with this number now, of all threads.
    pub(crate) fn counted(&self, command: usize) -> Counted {
        let mut total = OfCommand::new().now();
        let mut total_ns = 0;
        for stripe in self.stripes.iter().filter_map(OnceLock::get) {
            let part = stripe[command].now();
            total.calls += part.calls;
            total.rejected += part.rejected;
            total.failed += part.failed;
            total_ns += stripe[command].total_ns.load(Ordering::Relaxed);
            total.buckets.iter_mut().zip(part.buckets).for_each(|(sum, count)| *sum += count);
        }
        total.total_us = total_ns / 1000;
        total
    }

    /// Forgets everything.
    pub(crate) fn reset(&self) {
        let stripes = self.stripes.iter().filter_map(OnceLock::get);
        stripes.flat_map(|stripe| stripe.iter()).for_each(OfCommand::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_powers_of_two() {
        let all = CommandStatistics::default();
        let statistics = all.of(7);
        for us in [0, 1, 3, 3, 1000, u64::MAX / 1000] {
            statistics.count(us * 1000, us == 1000);
        }
        std::thread::scope(|scope| {
            // Another thread, another stripe.
            scope.spawn(|| all.of(8).count(2_500, false));
        });
        assert_eq!(all.counted(8).total_us, 2);
        let counted = all.counted(7);
        assert_eq!((counted.calls, counted.failed), (6, 1));
        let expected = [(1, 1), (2, 2), (4, 4), (1024, 5), (1 << 32, 6)];
        assert_eq!(counted.cumulative(), expected);
        assert_eq!(counted.quantile_us(0.5), 4);
        assert_eq!(counted.quantile_us(0.99), 1 << 32);
        all.reset();
        assert_eq!(all.counted(7).cumulative(), []);
        assert_eq!(all.counted(7).quantile_us(0.5), 0);
    }
}
