//! Latencies of operations: histograms that all threads write to, cheap enough to be always on.
//!
//! A histogram is an array of atomic buckets, sixteen per power of two, so a quantile is accurate
//! to 6 %.

use std::sync::atomic::{AtomicU64, Ordering};

const SUB_BUCKETS: usize = 16;
const BUCKETS: usize = SUB_BUCKETS * 61;

/// A latency histogram in nanoseconds, which all threads may write to.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Records an operation that took `ns`.
    pub fn record(&self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Records `operations` operations that took `ns` each.
    pub fn record_many(&self, ns: u64, operations: u64) {
        self.buckets[bucket_of(ns)].fetch_add(operations, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns.saturating_mul(operations), Ordering::Relaxed);
    }

    /// A copy of the current counts.
    pub fn counts(&self) -> LatencyCounts {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        LatencyCounts { counts, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }

    /// A summary of the current counts.
    pub fn summary(&self) -> Latency {
        self.counts().summary()
    }
}

/// The counts of a [`Histogram`] at one moment.
#[derive(Debug, Clone, Default)]
pub struct LatencyCounts {
    counts: Box<[u64]>,
    sum_ns: u64,
}

impl LatencyCounts {
    /// A summary of the operations since `earlier`, an earlier copy of the same histogram.
    pub fn since(&self, earlier: &Self) -> Latency {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(n, before)| n.saturating_sub(before));
        let sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
        Self { counts: counts.collect(), sum_ns }.summary()
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of their durations, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Number of operations in the buckets that end at or before `ns`. Each of them took at most
    /// `ns`; operations less than 6 % below `ns` may be missing.
    pub fn at_most(&self, ns: u64) -> u64 {
        let whole =
            self.counts.iter().enumerate().take_while(|(bucket, _)| bucket_top(*bucket) <= ns);
        whole.map(|(_, count)| count).sum()
    }

    /// All of it, in a few numbers.
    pub fn summary(&self) -> Latency {
        let count = self.count();
        let quantile = |q: f64| {
            let rank = ((count as f64 * q).ceil() as u64).max(1);
            let mut seen = 0;
            for (i, n) in self.counts.iter().enumerate() {
                seen += n;
                if seen >= rank {
                    return bucket_top(i);
                }
            }
            0
        };
        Latency {
            count,
            sum_ns: self.sum_ns,
            mean_ns: self.sum_ns.checked_div(count).unwrap_or(0),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
        }
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < SUB_BUCKETS as u64 {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros() as usize;
    let sub = (ns >> (power - 4)) as usize & (SUB_BUCKETS - 1);
    (power - 3) * SUB_BUCKETS + sub
}

fn bucket_top(bucket: usize) -> u64 {
    if bucket < SUB_BUCKETS {
        return bucket as u64;
    }
    let power = bucket / SUB_BUCKETS + 3;
    let sub = (bucket % SUB_BUCKETS) as u64;
    let low = (1u64 << power) + (sub << (power - 4));
    low + ((1u64 << (power - 4)) - 1)
}

/// A summary of a latency histogram. Quantiles are upper edges of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// Measured operations. Reads are sampled: one in sixteen.
    pub count: u64,
    /// Total duration in nanoseconds.
    pub sum_ns: u64,
    /// Mean in nanoseconds.
    pub mean_ns: u64,
    /// p50: half of the operations took at most this long.
    pub p50_ns: u64,
    /// p99: 99 % took at most this long.
    pub p99_ns: u64,
    /// p99.9: 99.9 % took at most this long.
    pub p999_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_number_in_order() {
        let mut numbers: Vec<u64> =
            (0..64).flat_map(|p| [1u64 << p, (1u64 << p) + 1, (1u64 << p) - 1]).collect();
        numbers.push(u64::MAX);
        numbers.sort_unstable();
        for pair in numbers.windows(2) {
            assert!(bucket_of(pair[0]) <= bucket_of(pair[1]));
        }
        for ns in numbers {
            assert!(bucket_of(ns) < BUCKETS);
            let top = bucket_top(bucket_of(ns));
            assert!(top >= ns && top - ns <= ns / 16 + 1, "{ns} {top}");
        }
    }

    #[test]
    fn quantiles_are_upper_edges() {
        let histogram = Histogram::default();
        for ns in 1..=1000 {
            histogram.record(ns);
        }
        let latency = histogram.summary();
        assert_eq!(latency.count, 1000);
        assert!((500..=540).contains(&latency.p50_ns), "{latency:?}");
        assert!((990..=1060).contains(&latency.p99_ns), "{latency:?}");
        assert_eq!((latency.sum_ns, latency.mean_ns), (500_500, 500));
    }

    #[test]
    fn cumulative_counts_end_with_all_operations() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|us| histogram.record(us * 1000));
        let counts = histogram.counts();
        let at_most = [0, 100_000, 500_000, 1_000_000, u64::MAX].map(|ns| counts.at_most(ns));
        assert!(at_most.is_sorted(), "{at_most:?}");
        assert!((94..=100).contains(&at_most[1]), "{at_most:?}");
        assert!((940..=1000).contains(&at_most[3]), "{at_most:?}");
        assert_eq!((at_most[0], at_most[4]), (0, counts.count()));
        assert_eq!((counts.count(), counts.sum_ns()), (1000, 500_500_000));
        assert_eq!(LatencyCounts::default().at_most(u64::MAX), 0);
    }

    #[test]
    fn counts_since_an_earlier_moment_exclude_earlier_ones() {
        let histogram = Histogram::default();
        histogram.record_many(1 << 30, 1000);
        let before = histogram.counts();
        assert_eq!(before.since(&before).count, 0);
        histogram.record_many(100, 3);
        let since = histogram.counts().since(&before);
        assert_eq!((since.count, since.sum_ns), (3, 300));
        assert!((100..=107).contains(&since.p99_ns), "{since:?}");
        assert_eq!(before.since(&LatencyCounts::default()), before.summary());
    }
}
