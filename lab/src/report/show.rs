//! Rows as text for people: the important metrics and their units.

use std::collections::BTreeMap;

use tidekv_testkit::evidence::{Row, Value};

use crate::groups::text_of;
use crate::quantity::{Shown, bytes_with, number_with, show_bytes, show_count, show_number};

/// Metrics in display order; the first existing one is the main metric of a row.
const SHOWN: [&str; 99] = [
    "mean_absolute_error",
    "mean_absolute_error_sampled",
    "mean_absolute_error_bytes",
    "profiled_per_s",
    "profile_bytes",
    "mean_relative_error",
    "relative_error_most",
    "predicted_miss_ratio",
    "miss_ratio",
    "relative_error",
    "pages",
    "cost",
    "cost_to_searched",
    "cost_to_proportional",
    "plan_dram_bytes",
    "plan_flash_bytes",
    "dram_to_proportional",
    "to_unprofiled",
    "to_unprofiled_low",
    "to_unprofiled_high",
    "cpu_to_unprofiled",
    "cpu_to_unprofiled_low",
    "cpu_to_unprofiled_high",
    "curves_of_cpu",
    "servers_apart",
    "windows_until_kept",
    "cost_to_fixed",
    "windows_late_by_machine",
    "hit_us",
    "is_awake",
    "longest_hit_us",
    "longest_us",
    "longest_get_us",
    "longest_put_us",
    "p9999_us",
    "latency_us",
    "latency_to_asked",
    "latency_first_us",
    "latency_second_us",
    "latency_error",
    "example_latency_error",
    "example_flash_us",
    "example_backend_us",
    "space_amp_end",
    "scan_over_merged",
    "foreground_over_clean",
    "foreground_over_before",
    "scan_ms",
    "dbsize_ms",
    "share_of_cold_start",
    "ops_until_hot",
    "until_hot_s",
    "hot_list_share",
    "open_s",
    "seconds",
    "objects",
    "object_bytes",
    "sets",
    "hits",
    "misses",
    "wrong_values",
    "sets_per_s",
    "ops_per_s",
    "settled_ops_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "cpu_us_per_op",
    "reads_per_op",
    "device_reads_per_op",
    "reads_per_s",
    "storage_bytes_per_s",
    "read_bytes_per_op",
    "gap_closed",
    "op_hit_ratio",
    "hit_ratio",
    "memory_hit_ratio",
    "flash_reads_per_hit",
    "index_bytes_per_object",
    "flash_bytes_per_object",
    "space_overhead",
    "block_hits",
    "data_hits",
    "data_reads",
    "index_hits",
    "index_reads",
    "filter_hits",
    "filter_reads",
    "write_amp",
    "space_amp",
    "cache_bytes_taken",
    "cache_bytes_budget",
    "rss_bytes_max",
    "disk_bytes",
    "accepted",
    "refused",
    "closed",
    "waiting",
    "reply_bytes",
];

/// From here on times are shown in milliseconds.
const MILLISECONDS_FROM_US: f64 = 10_000.0;

/// Rows have six significant digits; small numbers are shown with fewer.
const DIGITS_BEYOND_MAX: usize = 12;

/// Whether a row is a verdict, rather than a measurement.
pub(crate) fn is_verdict(row: &Row) -> bool {
    row.metrics.contains_key("target")
}

/// Whether a row is a verdict that passes or fails; ratios to a baseline that exceeds its budget
/// are only stated.
pub(crate) fn is_judged(row: &Row) -> bool {
    !row.metrics.contains_key("baseline_over_budget")
}

/// The excess of a subject over its budget, in words.
pub(crate) fn over_budget(row: &Row) -> Option<String> {
    Some(format!("takes {} times its budget", show_number(row.number("over_budget")?)))
}

/// The displayed metrics of a row, in order.
pub(crate) fn shown(row: &Row) -> Vec<(&'static str, f64)> {
    let value = |name: &'static str| row.number(name).map(|value| (name, value));
    SHOWN.into_iter().filter_map(value).collect()
}

/// A number in the unit of its metric.
pub(crate) fn show_value(metric: &str, value: f64) -> String {
    value_with(metric, value, 0).text
}

/// The same with additional digits.
fn value_with(metric: &str, value: f64, more: usize) -> Shown {
    match metric {
        "rss_bytes_max" | "cache_bytes_taken" | "cache_bytes_budget" => bytes_with(value, more),
        "plan_dram_bytes" | "plan_flash_bytes" | "profile_bytes" => bytes_with(value, more),
        "read_bytes_per_op" | "kernel_read_bytes_per_op" => bytes_with(value, more),
        "object_bytes" | "reply_bytes" | "disk_bytes" => bytes_with(value, more),
        // Each of these matters.
        "objects" | "sets" | "hits" | "misses" | "accepted" | "refused" | "closed" | "waiting"
            if value.fract() == 0.0 && value >= 0.0 =>
        {
            Shown { text: show_count(value as u64), read: value }
        }
        "open_s" | "until_hot_s" | "seconds" => number_with(value, more).of(1.0, "s"),
        "scan_ms" | "dbsize_ms" => number_with(value, more).of(1.0, "ms"),
        _ if metric.ends_with("_us") || metric == "cpu_us_per_op" => {
            match value >= MILLISECONDS_FROM_US {
                true => number_with(value / 1e3, more).of(1e3, "ms"),
                false => number_with(value, more).of(1.0, "µs"),
            }
        }
        _ => number_with(value, more),
    }
}

/// A metric in words.
pub(crate) fn label(metric: &str) -> &str {
    match metric {
        "mean_absolute_error" => "mean absolute error",
        "mean_absolute_error_sampled" => "by the sample alone",
        "mean_absolute_error_bytes" => "mean absolute error of bytes",
        "profiled_per_s" => "requests/s",
        "profile_bytes" => "memory",
        "mean_relative_error" => "off by, on average",
        "relative_error_most" => "at most",
        "predicted_miss_ratio" => "misses predicted",
        "miss_ratio" => "misses",
        "relative_error" => "off by",
        "to_unprofiled" => "of the requests without curves",
        "to_unprofiled_low" | "cpu_to_unprofiled_low" => "from",
        "to_unprofiled_high" | "cpu_to_unprofiled_high" => "to",
        "servers_apart" => "of the slowest server, relative to the fastest",
        "curves_of_cpu" => "of that for curves",
        "cpu_to_unprofiled" => "as many for the same processor time",
        "longest_hit_us" => "longest hit",
        "longest_us" => "longest wait",
        "longest_get_us" => "of a get",
        "longest_put_us" => "of a put",
        "p9999_us" => "p99.99",
        "latency_us" => "latency",
        "open_s" => "open",
        "object_bytes" => "their bytes",
        "hits" => "found",
        "misses" => "not found",
        "wrong_values" => "wrong values",
        "sets_per_s" => "sets/s",
        "ops_per_s" => "ops/s",
        "settled_ops_per_s" => "ops/s settled",
        "p50_us" => "p50",
        "p99_us" => "p99",
        "p999_us" => "p99.9",
        "cpu_us_per_op" => "CPU/op",
        "reads_per_op" => "reads/op",
        "device_reads_per_op" => "device reads/op",
        "reads_per_s" => "reads/s",
        "storage_bytes_per_s" => "storage bytes/s",
        "gap_closed" => "of the gap",
        "read_bytes_per_op" => "read/op",
        "share_of_cold_start" => "of a cold start",
        "ops_until_hot" => "ops until hot",
        "until_hot_s" => "until hot",
        "hot_list_share" => "list of the data",
        "op_hit_ratio" => "ops without a read",
        "hit_ratio" => "hits",
        "memory_hit_ratio" => "hits in memory",
        "flash_reads_per_hit" => "reads of flash/hit",
        "index_bytes_per_object" => "memory/object",
        "flash_bytes_per_object" => "flash/object",
        "space_overhead" => "flash/byte of it",
        "write_amp" => "write amp",
        "space_amp" => "space amp",
        "cache_bytes_taken" => "cache",
        "cache_bytes_budget" => "of",
        "rss_bytes_max" => "RSS",
        other => label_of_server(other),
    }
}

/// The metrics of servers and of space.
fn label_of_server(metric: &str) -> &str {
    match metric {
        "space_amp_end" => "space amp at the end",
        "scan_over_merged" => "of the time of a scan when merged",
        "foreground_over_clean" => "of the load without dead data",
        "foreground_over_before" => "of the load before the data died",
        "scan_ms" => "SCAN 0",
        "dbsize_ms" => "DBSIZE",
        "disk_bytes" => "on disk",
        "reply_bytes" => "of replies",
        "keys_left" => "keys left",
        "lost_keys" => "lost keys",
        "server_ended" => "servers that ended",
        "oom_kills" => "killed by the kernel",
        other => label_of_plan(other),
    }
}

/// The metrics of plans.
fn label_of_plan(metric: &str) -> &str {
    match metric {
        "cost_to_searched" => "of the least cost",
        "cost_to_proportional" => "of the proportional cost",
        "plan_dram_bytes" => "DRAM",
        "plan_flash_bytes" => "flash",
        "dram_to_proportional" => "of the proportional DRAM",
        "windows_until_kept" => "windows until it was kept",
        "cost_to_fixed" => "of the fixed cost",
        "windows_late_by_machine" => "late by the machine",
        "hit_us" => "a hit, before the run",
        "is_awake" => "processors kept awake",
        "latency_to_asked" => "of the target latency, at most",
        "latency_first_us" => "latency of the first",
        "latency_second_us" => "of the second",
        "latency_error" => "latency simulated, off by",
        "example_latency_error" => "the paper's example, off by",
        "example_flash_us" => "flash, by the example",
        "example_backend_us" => "behind both, by the example",
        other => other,
    }
}

/// A metric with its spread, as `1.04 (0.98 to 1.10)`.
pub(crate) fn with_spread(row: &Row, metric: &str) -> Option<String> {
    spread_with(row, metric, 0)
}

/// The same with additional digits.
fn spread_with(row: &Row, metric: &str, more: usize) -> Option<String> {
    let show = |value| value_with(metric, value, more).text;
    let middle = show(row.number(metric)?);
    let ends = ["min", "max"].map(|end| row.number(&format!("{metric}_{end}")));
    match ends {
        [Some(least), Some(greatest)] if least < greatest => {
            let [least, greatest] = [least, greatest].map(show);
            Some(format!("{middle} ({least} to {greatest})"))
        }
        _ => Some(middle),
    }
}

/// The judged value of a verdict, with its spread.
pub(crate) fn judged_value(row: &Row) -> Option<String> {
    spread_with(row, judged_metric(row), digits_beyond(row))
}

/// The same without the spread.
pub(crate) fn judged_middle(row: &Row) -> Option<String> {
    let metric = judged_metric(row);
    Some(value_with(metric, row.number(metric)?, digits_beyond(row)).text)
}

/// The bound of a verdict, as `≥ 1.5`.
pub(crate) fn show_bound(row: &Row) -> String {
    let sign =
        if row.metrics.get("is_at_least") == Some(&Value::Bool(true)) { "≥" } else { "≤" };
    let bound = row.number("target").unwrap_or(f64::NAN);
    format!("{sign} {}", value_with(judged_metric(row), bound, digits_beyond(row)).text)
}

/// The number of additional digits that show on which side of its bound the value of a verdict is.
fn digits_beyond(row: &Row) -> usize {
    let metric = judged_metric(row);
    let (Some(value), Some(bound)) = (row.number(metric), row.number("target")) else { return 0 };
    let tells = |more: &usize| {
        let read = |number| value_with(metric, number, *more).read;
        read(value).total_cmp(&read(bound)) == value.total_cmp(&bound)
    };
    (0..DIGITS_BEYOND_MAX).find(tells).unwrap_or(DIGITS_BEYOND_MAX)
}

/// The metric that a verdict limits: a ratio, or a metric itself.
pub(crate) fn judged_metric(row: &Row) -> &str {
    if row.metrics.contains_key("ratio") { "ratio" } else { target_of(row) }
}

/// The metric of a verdict.
pub(crate) fn target_of(row: &Row) -> &str {
    row.metrics.get("of").and_then(Value::as_str).unwrap_or_default()
}

/// Whether the value of a verdict meets its bound.
pub(crate) fn is_met(row: &Row) -> bool {
    row.metrics.get("is_met") == Some(&Value::Bool(true))
}

/// The parameters of a row in one line.
pub(crate) fn params(row: &Row) -> String {
    let show = |(name, value): (&String, &Value)| match (name.as_str(), value) {
        ("memory_bytes", Value::Number(n)) => {
            format!("{} of memory", show_bytes(n.as_f64().unwrap_or(0.0)))
        }
        ("value_bytes", value) => format!("values of {value} B"),
        ("compression", Value::String(text)) if text == "none" => "not compressed".to_owned(),
        ("threads", value) if *value == 1 => "1 thread".to_owned(),
        ("operation" | "loop", Value::String(text)) => text.clone(),
        (name, value @ Value::Number(n)) => {
            let number = n.as_u64().map_or_else(|| text_of(value), show_count);
            format!("{number} {}", name.replace('_', " "))
        }
        (name, Value::String(text)) => format!("{} {text}", name.replace('_', " ")),
        (name, value) => format!("{} {value}", name.replace('_', " ")),
    };
    row.params.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// Rows of several points as lines; rows over time appear only in reports.
pub(crate) fn lines_of_points(rows: &[Row]) -> String {
    let mut points: Vec<(&BTreeMap<String, Value>, Vec<Row>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.params.contains_key("t")) {
        match points.iter_mut().find(|point| *point.0 == row.params) {
            Some(point) => point.1.push(row.clone()),
            None => points.push((&row.params, vec![row.clone()])),
        }
    }
    points.iter().map(|(_, rows)| lines(rows) + "\n").collect()
}

/// The rows of one point as lines.
pub(crate) fn lines(rows: &[Row]) -> String {
    let mut out = String::new();
    let Some(first) = rows.first() else { return out };
    out.push_str(&format!("{}: {}\n", first.experiment, params(first)));
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0);
    for row in rows.iter().filter(|row| !is_verdict(row)) {
        let metrics = shown(row).into_iter().enumerate().filter_map(|(at, (name, value))| {
            let value = if at == 0 { with_spread(row, name)? } else { show_value(name, value) };
            Some(format!("{} {value}", label(name)))
        });
        let metrics = metrics.collect::<Vec<_>>().join("  ");
        out.push_str(&format!("  {:<width$}  {metrics}\n", row.subject));
        if let Some(error) = row.metrics.get("error").and_then(Value::as_str) {
            out.push_str(&format!("  {:<width$}  failed: {error}\n", ""));
        }
        if let Some(words) = over_budget(row) {
            out.push_str(&format!("  {:<width$}  over budget: {words}\n", ""));
        }
        if let Some(warning) = row.metrics.get("warning").and_then(Value::as_str) {
            out.push_str(&format!("  {:<width$}  warning: {warning}\n", ""));
        }
    }
    for row in rows.iter().filter(|row| is_verdict(row)) {
        out.push_str(&format!("  {}\n", verdict(row)));
    }
    out
}

/// A verdict in one line.
pub(crate) fn verdict(row: &Row) -> String {
    let metric = judged_metric(row);
    let value = judged_value(row).unwrap_or_default();
    let baseline = row.metrics.get("baseline").and_then(Value::as_str).unwrap_or_default();
    let what = match metric {
        "ratio" => format!("{} against {baseline}: {value}", label(target_of(row))),
        metric => format!("{}: {value}", label(metric)),
    };
    let bound = show_bound(row);
    if let Some(times) = row.number("baseline_over_budget") {
        let times = show_number(times);
        return format!("none  {what}; not judged, {baseline} takes {times} times its budget");
    }
    let outcome = if is_met(row) { "pass" } else { "FAIL" };
    let words = over_budget(row).map(|words| format!("; {words}")).unwrap_or_default();
    format!("{outcome}  {what}, target {bound}{words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report showed "1.00, target ≥ 1 FAIL" where the ratio was 0.998: figures had three digits,
    /// even close to their bound.
    #[test]
    fn a_figure_never_contradicts_its_verdict() {
        let row = |metric: &str, value: f64, bound: f64, is_at_least: bool| {
            let is_met = if is_at_least { value >= bound } else { value <= bound };
            Row::new("bigkv-scale", "tidekv:cache")
                .metric("of", if metric == "ratio" { "ops_per_s" } else { metric })
                .metric("baseline", "model:raid-5-512")
                .metric(metric, value)
                .metric("target", bound)
                .metric("is_at_least", is_at_least)
                .metric("is_met", is_met)
        };
        for (metric, value, bound, is_at_least, text) in [
            ("ratio", 0.998, 1.0, true, "FAIL  ops/s against model:raid-5-512: 0.998, target ≥ 1"),
            ("ratio", 1.002, 1.0, true, "pass  ops/s against model:raid-5-512: 1.002, target ≥ 1"),
            ("write_amp", 1.1004, 1.1, false, "FAIL  write amp: 1.1004, target ≤ 1.1000"),
            ("write_amp", 1.07, 1.1, false, "pass  write amp: 1.07, target ≤ 1.10"),
            ("wrong_values", 1e-9, 0.0, false, "FAIL  wrong values: 0.000000001, target ≤ 0"),
            ("p99_us", 9_999.7, 10_000.0, true, "FAIL  p99: 9999.7 µs, target ≥ 10 ms"),
            ("open_s", 1.0, 1.0, false, "pass  open: 1 s, target ≤ 1 s"),
            (
                "rss_bytes_max",
                1_048_577.0,
                1_048_576.0,
                false,
                "FAIL  RSS: 1.000001 MiB, target ≤ 1 MiB",
            ),
        ] {
            assert_eq!(verdict(&row(metric, value, bound, is_at_least)), text);
        }
        let spread = row("ratio", 0.998, 1.0, true).metric("ratio_min", 0.9);
        let spread = spread.metric("ratio_max", 1.1);
        assert_eq!(judged_value(&spread).unwrap(), "0.998 (0.900 to 1.100)");
    }

    #[test]
    fn a_point_is_a_few_lines() {
        let measured = Row::new("engine-open", "tidekv:block-lru")
            .param("entries", 10_000_000)
            .param("memory_bytes", 64 << 20)
            .metric("open_s", 0.25)
            .metric("open_s_min", 0.2)
            .metric("open_s_max", 0.5)
            .metric("rss_bytes_max", 100 << 20)
            .metric("warning", "the kernel saw more");
        let verdict = Row::new("engine-open", "tidekv:block-lru")
            .metric("of", "open_s")
            .metric("baseline", "rocksdb:lru")
            .metric("ratio", 1.5)
            .metric("target", 1.0)
            .metric("is_at_least", false)
            .metric("is_met", false);
        let greedy = Row::new("engine-open", "rocksdb:pinned")
            .metric("open_s", 1)
            .metric("cache_bytes_taken", 2048)
            .metric("over_budget", 2.0);
        let stated = Row::new("engine-open", "tidekv:block-lru")
            .metric("of", "open_s")
            .metric("baseline", "rocksdb:pinned")
            .metric("ratio", 0.25)
            .metric("target", 1.0)
            .metric("baseline_over_budget", 2.0);
        assert_eq!(
            lines(&[greedy, stated]),
            "engine-open: \n  rocksdb:pinned    open 1 s  cache 2 KiB\n                    \
             over budget: takes 2 times its budget\n  \
             none  open against rocksdb:pinned: 0.25; not judged, rocksdb:pinned takes 2 times \
             its budget\n"
        );
        assert_eq!(
            lines(&[measured, verdict]),
            "engine-open: 10,000,000 entries, 64 MiB of memory\n  \
             tidekv:block-lru  open 0.25 s (0.20 s to 0.50 s)  RSS 100 MiB\n                    \
             warning: the kernel saw more\n  \
             FAIL  open against rocksdb:lru: 1.50, target ≤ 1\n"
        );
    }
}
