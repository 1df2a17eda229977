//! The Prometheus text format 0.0.4: metrics from lists of [`Metric`]s and the numbers of their
//! sources.
//!
//! ```text
//! # HELP name its help text
//! # TYPE name counter
//! name{label="value"} number
//! ```

use std::fmt::Write;

use tidekv_io::LatencyCounts;
use tidekv_plan::Curve;

use crate::metric::{Kind, Metric};
use crate::mrc::Shown;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The smallest size of a curve's metric is 2 to this power; each power of two above it follows.
const METRIC_POWER_MIN: u32 = 20;

/// Writes metrics, with the counters and histograms of their sources. A histogram that
/// `durations` does not find is empty.
pub fn write<'a>(
    out: &mut String,
    metrics: &[Metric],
    number: impl Fn(&str) -> u64,
    durations: impl Fn(&str) -> Option<&'a LatencyCounts>,
) {
    for metric in metrics {
        head(out, metric.name, metric.kind, metric.help);
        for (value, source) in metric.series {
            match metric.kind {
                Kind::Histogram => {
                    let none = LatencyCounts::default();
                    let counts = durations(source).unwrap_or(&none);
                    write_durations(out, metric, value, counts);
                }
                Kind::Counter | Kind::Gauge => {
                    let number = number(source) as f64 / metric.divisor;
                    line(out, metric.name, &[(metric.label, value)], number);
                }
            }
        }
    }
}

/// Writes the help and the kind of a metric, which precede its series.
pub fn head(out: &mut String, name: &str, kind: Kind, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
}

fn write_durations(out: &mut String, metric: &Metric, value: &str, counts: &LatencyCounts) {
    let at_most = |seconds: &f64| counts.at_most((seconds * 1e9).round() as u64);
    let buckets = metric.bounds_s.iter().map(|seconds| (*seconds, at_most(seconds)));
    let total = (counts.count(), counts.sum_ns());
    histogram(out, metric.name, &[(metric.label, value)], buckets, total);
}

/// Writes one series of a histogram of durations: `buckets` are upper bounds in seconds,
/// ascending, each with the number of durations up to it; then the number and the sum in
/// nanoseconds of all. The bucket `+Inf` and `_count` are that number. Label values must be
/// escaped.
pub fn histogram(
    out: &mut String,
    name: &str,
    labels: &[(&str, &str)],
    buckets: impl Iterator<Item = (f64, u64)>,
    (count, sum_ns): (u64, u64),
) {
    let bucket = format!("{name}_bucket");
    let all = std::iter::once(("+Inf".to_owned(), count));
    for (bound, at_most) in buckets.map(|(seconds, n)| (seconds.to_string(), n)).chain(all) {
        line(out, &bucket, &[labels, &[("le", &bound)]].concat(), at_most as f64);
    }
    line(out, &format!("{name}_sum"), labels, sum_ns as f64 / 1e9);
    line(out, &format!("{name}_count"), labels, count as f64);
}

/// `text` as the value of a label.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes one series. Labels without a name are omitted; label values must be escaped.
pub fn line(out: &mut String, name: &str, labels: &[(&str, &str)], number: f64) {
    let named = labels.iter().filter(|(label, _)| !label.is_empty());
    let labels: Vec<_> = named.map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {number}");
}

/// Writes miss ratios as a gauge with the labels `label` and `bytes`, the size of the cache.
/// Without curves it writes nothing.
pub fn write_curves(out: &mut String, (name, help): (&str, &str), label: &str, curves: &[Shown]) {
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

/// Powers of two up to the end of the curve; at least one.
fn sizes(curve: &Curve) -> impl Iterator<Item = u64> {
    let last = curve.points().last().map_or(0, |point| point.size);
    let mut powers = METRIC_POWER_MIN..u64::BITS;
    let end = powers.find(|power| 1 << power >= last).unwrap_or(u64::BITS - 1);
    (METRIC_POWER_MIN..=end).map(|power| 1 << power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_the_powers_of_two_up_to_the_end() {
        let of = |size| {
            let curve =
                Curve::new([tidekv_plan::Point { size, miss_ratio: 0.5 }], 1.0).expect("it is one");
            sizes(&curve).map(|bytes| bytes >> 20).collect::<Vec<_>>()
        };
        assert_eq!(of(1), [1]);
        assert_eq!(of(1 << 20), [1]);
        assert_eq!(of((4 << 20) + 1), [1, 2, 4, 8]);
        assert_eq!(of(u64::MAX).len(), 44);
    }
}
