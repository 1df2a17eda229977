//! The text that Prometheus reads, format 0.0.4, from numbers and lists of metrics.
//!
//! ```text
//! # HELP name what it is
//! # TYPE name counter
//! name{label="value"} number
//! ```

use std::fmt::Write;

use tidekv_io::Latency;
use tidekv_plan::Curve;

use crate::metric::{Kind, Metric};
use crate::mrc::Shown;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of a curve has a point for each power of two, from this one on.
const METRIC_POWER_MIN: u32 = 20;

/// Writes metrics, with the numbers and latencies of their sources.
pub fn write(
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
pub fn head(out: &mut String, name: &str, kind: Kind, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
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
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A line; labels without a name are left out. What they say needs no escaping any more.
pub fn line(out: &mut String, name: &str, labels: &[(&str, &str)], number: f64) {
    let named = labels.iter().filter(|(label, _)| !label.is_empty());
    let labels: Vec<_> = named.map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {number}");
}

/// A metric with a name and help, told apart by `label` and the size in `bytes`; nothing where there is no
/// curve.
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

/// Powers of two up to where the curve ends, and at least one.
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
