//! The Prometheus text of a store, from a reading and the list of metrics.

use std::fmt::Write;

use tidekv::CachePolicy;
use tidekv_observe::history::Reading;
use tidekv_observe::metric::Kind;
use tidekv_observe::prometheus::{head, write};

use crate::observe::metrics::METRICS;

/// All metrics of `reading`, with the policy that partitions the caches' memory.
pub(crate) fn text(reading: &Reading, policy: CachePolicy) -> String {
    let mut out = String::with_capacity(24 << 10);
    head(&mut out, "tidekv_info", Kind::Gauge, "Version and cache policy; the value is 1.");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(out, "tidekv_info{{version=\"{version}\",cache_policy=\"{policy}\"}} 1");
    let durations =
        |name: &str| reading.counts.iter().find(|(found, _)| *found == name).map(|(_, c)| c);
    write(&mut out, &METRICS, |name| reading.counter(name), durations);
    out
}

#[cfg(test)]
mod tests;
