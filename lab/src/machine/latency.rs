//! Latencies of operations: one histogram per thread, merged at the end.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The maximum recorded latency.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Two significant digits of a quantile; a third costs ten times the memory.
const DIGITS: u8 = 2;

/// The latencies of one thread.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

/// Quantiles and the mean, in nanoseconds. 0 if no operation was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) samples: u64,
    /// The mean.
    #[serde(default)]
    pub(crate) mean_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) p9999_ns: u64,
    pub(crate) max_ns: u64,
}

impl Quantiles {
    /// The mean of p99, p99.9 and p99.99, as in BigKV's table of lookups.
    pub(crate) fn tail_ns(&self) -> u64 {
        (self.p99_ns + self.p999_ns + self.p9999_ns) / 3
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS);
        Self(histogram.expect("the bounds are in order"))
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    pub(crate) fn quantiles(&self) -> Quantiles {
        let at = |quantile| if self.0.is_empty() { 0 } else { self.0.value_at_quantile(quantile) };
        Quantiles {
            samples: self.0.len(),
            mean_ns: self.0.mean().round() as u64,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: self.0.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let (mut first, mut second) = (Latencies::new(), Latencies::new());
        (1..=500).for_each(|ns| first.record(ns * 1000));
        (501..=1000).for_each(|ns| second.record(ns * 1000));
        first.add(&second);
        let quantiles = first.quantiles();
        assert_eq!(quantiles.samples, 1000);
        assert!((495_000..=506_000).contains(&quantiles.mean_ns), "{quantiles:?}");
        assert!((495_000..=505_000).contains(&quantiles.p50_ns), "{quantiles:?}");
        assert!((980_000..=1_000_000).contains(&quantiles.p99_ns), "{quantiles:?}");
        first.clear();
        assert_eq!(first.quantiles(), Quantiles::default());
    }
}
