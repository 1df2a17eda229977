//! The text that Prometheus reads, format 0.0.4, from a reading and the list of metrics.
//!
//! ```text
//! # HELP name what it is
//! # TYPE name counter
//! name{label="value"} number
//! ```

use std::fmt::Write;

use tidekv::Latency;
use tidekv_plan::Curve;

use crate::history::Reading;
use crate::metrics::{Kind, METRICS, Metric};
use crate::mrc::Shown;

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of a curve has a point for each power of two, from this one on.
const METRIC_POWER_MIN: u32 = 20;

/// All metrics as they are in `reading`.
pub(crate) fn text(reading: &Reading) -> String {
    let mut out = String::with_capacity(16 << 10);
    head(&mut out, "tidekv_info", Kind::Gauge, "The version, and how the caches share memory.");
    let (version, policy) = (env!("CARGO_PKG_VERSION"), reading.policy);
    let _ = writeln!(out, "tidekv_info{{version=\"{version}\",cache_policy=\"{policy}\"}} 1");
    write(&mut out, &METRICS, |name| reading.counter(name), |name| latency(reading, name));
    out
}

/// Writes metrics, with the numbers and latencies of their sources.
pub(crate) fn write(
    out: &mut String,
    metrics: &[Metric],
    number: impl Fn(&str) -> u64,
    latency: impl Fn(&str) -> Latency,
) {
    for metric in metrics {
        head(out, metric.name, metric.kind, metric.help);
        for (value, source) in metric.series {
            match metric.kind {
                Kind::Summary => summary(out, metric, value, latency(source)),
                // One that is not in a list of metrics, for its series are not known beforehand.
                Kind::Histogram => {}
                Kind::Counter | Kind::Gauge => {
                    let number = number(source) as f64 / metric.divisor;
                    line(out, metric.name, &[(metric.label, value)], number);
                }
            }
        }
    }
}

/// What comes before the numbers of a metric.
pub(crate) fn head(out: &mut String, name: &str, kind: Kind, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
}

fn latency(reading: &Reading, name: &str) -> Latency {
    reading.latencies.iter().find(|(n, _)| *n == name).map(|(_, l)| *l).unwrap_or_default()
}

fn summary(out: &mut String, metric: &Metric, value: &str, latency: Latency) {
    let name = metric.name;
    let quantiles = [("0.5", latency.p50_ns), ("0.99", latency.p99_ns), ("0.999", latency.p999_ns)];
    for (quantile, ns) in quantiles {
        let seconds = if latency.count == 0 { f64::NAN } else { ns as f64 / 1e9 };
        line(out, name, &[(metric.label, value), ("quantile", quantile)], seconds);
    }
    let own = [(metric.label, value)];
    line(out, &format!("{name}_sum"), &own, latency.sum_ns as f64 / 1e9);
    line(out, &format!("{name}_count"), &own, latency.count as f64);
}

/// What a label may say, whatever it is.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A line; labels without a name are left out. What they say needs no escaping any more.
pub(crate) fn line(out: &mut String, name: &str, labels: &[(&str, &str)], number: f64) {
    let named = labels.iter().filter(|(label, _)| !label.is_empty());
    let labels: Vec<_> = named.map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {number}");
}

/// A metric with a name and help, told apart by `label` and the size in `bytes`; nothing where there is no
/// curve.
pub(crate) fn write_curves(
    out: &mut String,
    (name, help): (&str, &str),
    label: &str,
    curves: &[Shown],
) {
    if curves.is_empty() {
        return;
    }
    head(out, name, Kind::Gauge, help);
    for Shown { name: of, told, .. } in curves {
        for bytes in sizes(&told.curve) {
            let labels = [(label, &**of), ("bytes", &bytes.to_string())];
            line(out, name, &labels, told.curve.miss_ratio(bytes));
        }
    }
}

/// Powers of two up to where the curve ends, and at least one.
fn sizes(curve: &Curve) -> impl Iterator<Item = u64> {
    let last = curve.points().last().map_or(0, |point| point.size);
    let mut powers = METRIC_POWER_MIN..u64::BITS;
    let end = powers.find(|power| 1 << power >= last).unwrap_or(u64::BITS - 1);
    (METRIC_POWER_MIN..=end).map(|power| 1 << power)
}

#[cfg(test)]
mod tests;
