//! A histogram of the latency of lookups that read a flash device; all threads may record into it.
//!
//! Guarantees: recording takes two additions and no lock; four buckets for each power of two, so
//! that a quantile is at most a quarter above the exact value, from a microsecond to a minute.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Latencies up to 2 to this power of nanoseconds are in the first bucket.
const FIRST_POWER: u32 = 10;
/// Latencies above 2 to this power of nanoseconds are in the last bucket: about 69 s.
const LAST_POWER: u32 = 36;
const BUCKETS: usize = 2 + 4 * (LAST_POWER - FIRST_POWER) as usize;

/// The bucket of a latency of `ns`.
fn bucket_of(ns: u64) -> usize {
    if ns <= 1 << FIRST_POWER {
        return 0;
    }
    // Upper bounds belong to their buckets.
    let below = ns - 1;
    let power = below.ilog2();
    let quarter = (below >> (power - 2)) & 3;
    (1 + 4 * (power - FIRST_POWER) as usize + quarter as usize).min(BUCKETS - 1)
}

/// The upper bound of a bucket, in nanoseconds.
fn top_of(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(1) else { return 1 << FIRST_POWER };
    (5 + (above % 4) as u64) << (FIRST_POWER as usize - 2 + above / 4)
}

/// The live histogram.
#[derive(Debug)]
pub(crate) struct ReadClock {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for ReadClock {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; BUCKETS], sum_ns: AtomicU64::new(0) }
    }
}

impl ReadClock {
    /// Records a latency of `ns`.
    pub(crate) fn add(&self, ns: u64) {
        self.counts[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> ReadTimes {
        ReadTimes {
            counts: self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

/// A snapshot of the latency histogram of lookups that read a device.
#[derive(Clone, PartialEq, Eq)]
pub struct ReadTimes {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Default for ReadTimes {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum_ns: 0 }
    }
}

impl ReadTimes {
    /// The number of lookups.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of their latencies, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The number of lookups that took at most `ns`, a power of two between a microsecond and a
    /// minute.
    pub fn at_most(&self, ns: u64) -> u64 {
        self.counts[..=bucket_of(ns)].iter().sum()
    }

    /// The quantile `part` (0 to 1) of the latencies, in nanoseconds; 0 if there were none.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.counts.iter().position(reaches).map_or(0, top_of)
    }

    /// Adds the lookups of another device.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum_ns += other.sum_ns;
    }

    /// The lookups since the snapshot `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = std::array::from_fn(|at| self.counts[at].saturating_sub(earlier.counts[at]));
        Self { counts, sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns) }
    }
}

impl fmt::Debug for ReadTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTimes")
            .field("count", &self.count())
            .field("p50_ns", &self.quantile_ns(0.5))
            .field("p99_ns", &self.quantile_ns(0.99))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_lies_within_its_bucket() {
        for bucket in 0..BUCKETS - 1 {
            let top = top_of(bucket);
            assert_eq!((bucket_of(top), bucket_of(top + 1)), (bucket, bucket + 1), "{top}");
        }
        for power in FIRST_POWER..=LAST_POWER {
            assert_eq!(top_of(bucket_of(1 << power)), 1 << power, "powers of two are tops");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn quantiles_are_exact_to_a_quarter() {
        let clock = ReadClock::default();
        assert_eq!(clock.get().quantile_ns(0.5), 0);
        let earlier = clock.get();
        (1..=1000).for_each(|us| clock.add(us * 1000));
        let times = clock.get();
        for (part, ns) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = times.quantile_ns(part);
            assert!((ns..=ns + ns / 4).contains(&found), "{part}: {found}");
        }
        assert_eq!(times.count(), 1000);
        assert_eq!(times.at_most(1 << 17), 131);
        assert_eq!(times.sum_ns(), 500_500_000);
        clock.add(5);
        assert_eq!(clock.get().since(&times).count(), 1);
        assert_eq!(clock.get().since(&clock.get()), earlier);
        let mut both = times.clone();
        both.add(&times);
        assert_eq!((both.count(), both.quantile_ns(0.5)), (2000, times.quantile_ns(0.5)));
    }
}
