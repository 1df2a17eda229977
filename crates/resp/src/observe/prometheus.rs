//! The text that Prometheus reads of a store, from a reading and the list of metrics.

use std::fmt::Write;

use tidekv::{CachePolicy, Latency};
use tidekv_observe::history::Reading;
use tidekv_observe::metric::Kind;
use tidekv_observe::prometheus::{head, write};

use crate::observe::metrics::METRICS;

/// All metrics as they are in `reading`, of a store whose caches share memory by `policy`.
pub(crate) fn text(reading: &Reading, policy: CachePolicy) -> String {
    let mut out = String::with_capacity(16 << 10);
    head(&mut out, "tidekv_info", Kind::Gauge, "The version, and how the caches share memory.");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(out, "tidekv_info{{version=\"{version}\",cache_policy=\"{policy}\"}} 1");
    write(&mut out, &METRICS, |name| reading.counter(name), |name| latency(reading, name));
    out
}

fn latency(reading: &Reading, name: &str) -> Latency {
    reading.latencies.iter().find(|(n, _)| *n == name).map(|(_, l)| *l).unwrap_or_default()
}

#[cfg(test)]
mod tests;
