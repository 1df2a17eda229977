//! `/api/stats`: what the page draws, as JSON. `docs/reference/http.md` says what each name means.

use serde_json::{Map, Value, json};
use tidekv::CachePolicy;

use crate::history::{Field, Reading, Ring, Sample, StoreHistory};
use crate::outlook::{Observed, Unknown, outlook};

/// The outlook is a mean of so many seconds.
const OUTLOOK_SECONDS: u64 = 60;

/// The history as far as it was made after the sample `since`, and the present.
pub(crate) fn stats(history: &StoreHistory, since: u64) -> Value {
    // A reader that knows more than there is has known an earlier life of the server.
    let since = if since > history.number { 0 } else { since };
    let now = &history.now;
    let mut stats = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_ms": now.counter("server.started_ms"),
        "policy": now.policy.to_string(),
        "cache_bytes_max": now.counter("cache.bytes_max"),
        "memory_bytes_max": now.counter("memory.budget_bytes"),
        "number": history.number,
        "now": present(now),
        "outlook": estimate(history),
        "history": {
            "fine": ring(&history.fine, history.fields, since),
            "coarse": ring(&history.coarse, history.fields, since),
        },
    });
    if since == 0 {
        stats["fields"] = about(history.fields);
    }
    stats
}

/// What fields are.
pub(crate) fn about(fields: &[Field]) -> Value {
    let about =
        |field: &Field| (field.name.to_owned(), json!({ "unit": field.unit, "help": field.help }));
    Value::Object(fields.iter().map(about).collect())
}

fn present(reading: &Reading) -> Value {
    let counters: Map<String, Value> =
        reading.counters.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let latencies: Map<String, Value> = reading
        .latencies
        .iter()
        .map(|(name, latency)| {
            let value = json!({
                "count": latency.count,
                "sum_ns": latency.sum_ns,
                "mean_ns": latency.mean_ns,
                "p50_ns": latency.p50_ns,
                "p99_ns": latency.p99_ns,
                "p999_ns": latency.p999_ns,
            });
            ((*name).into(), value)
        })
        .collect();
    json!({ "unix_ms": reading.unix_ms, "counters": counters, "latencies": latencies })
}

/// The samples of a ring that were made after the one called `since`.
pub(crate) fn ring<const N: usize>(ring: &Ring<N>, fields: &[Field; N], since: u64) -> Value {
    json!({
        "interval_s": ring.interval,
        "kept": ring.kept,
        "unix_ms": ring.since(since).map(|sample| sample.unix_ms).collect::<Vec<_>>(),
        "values": values(ring, fields, since),
    })
}

/// Their numbers alone, by field.
pub(crate) fn values<const N: usize>(ring: &Ring<N>, fields: &[Field; N], since: u64) -> Value {
    let samples: Vec<&Sample<N>> = ring.since(since).collect();
    let of_field = |(at, field): (usize, &Field)| {
        let numbers = samples.iter().map(|sample| number(f64::from(sample.values[at]))).collect();
        (field.name.into(), Value::Array(numbers))
    };
    Value::Object(fields.iter().enumerate().map(of_field).collect())
}

/// With three digits behind the point where there are any: more is noise, and most of
/// what is sent are numbers.
fn number(value: f64) -> Value {
    let rounded = (value * 1000.0).round() / 1000.0;
    let is_whole = rounded.fract() == 0.0 && (0.0..9e15).contains(&rounded);
    if is_whole { Value::from(rounded as u64) } else { Value::from(rounded) }
}

fn estimate(history: &StoreHistory) -> Value {
    let observed = observe(history);
    match outlook(&observed) {
        Err(Unknown::Idle) => json!({ "unknown": "idle" }),
        Err(Unknown::Unmeasured) => {
            json!({ "unknown": "unmeasured", "reason": reason(history.now.policy) })
        }
        // Reads of an operation are few: of these, digits are not noise.
        Ok(outlook) => json!({
            "reads_half": outlook.half,
            "reads_now": outlook.now,
            "reads_twice": outlook.twice,
            "elasticity": number(outlook.elasticity),
            "operations": number(observed.operations),
            "seconds": OUTLOOK_SECONDS,
        }),
    }
}

/// Why nothing is measured under `policy`.
fn reason(policy: CachePolicy) -> &'static str {
    match policy {
        CachePolicy::Hac { .. } => "other-ghosts",
        policy if policy.is_of_blocks() => "blocks-alone",
        policy if !policy.is_measured() => "no-ghosts",
        _ => "too-small",
    }
}

/// Means of the last minute.
fn observe(history: &StoreHistory) -> Observed {
    let of = |name| mean(history, name);
    Observed {
        operations: of("operations"),
        reads: of("reads"),
        saved: ["kv_saved", "kp_saved", "block_saved"].map(of),
        wanted: ["kv_wanted", "kp_wanted", "block_wanted"].map(of),
        window_bytes: history.now.counter("cache.window_bytes") as f64,
        budget_bytes: history.now.counter("cache.bytes_max") as f64,
    }
}

fn mean(history: &StoreHistory, field: &str) -> f64 {
    let last = history.fine.since(history.number.saturating_sub(OUTLOOK_SECONDS));
    let (count, sum) = last.fold((0, 0.0), |(n, sum), s| (n + 1, sum + history.value(s, field)));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::FIELDS;

    fn history(seconds: u64) -> StoreHistory {
        let reading = |second: u64| Reading {
            unix_ms: second * 1000,
            monotonic_ns: second * 1_000_000_000,
            counters: vec![
                ("io.reads", second * 100),
                ("server.commands", second * 200),
                ("cache.kv.wanted_reads", second * 10),
                ("cache.block.saved_reads", second * 50),
                ("cache.window_bytes", 10),
                ("cache.bytes_max", 100),
            ],
            ..Reading::default()
        };
        let mut history = StoreHistory::new(&FIELDS, reading(0));
        (1..=seconds).for_each(|second| history.add(reading(second)));
        history
    }

    #[test]
    fn only_what_is_new_is_told_to_those_who_know_the_rest() {
        let history = history(25);
        let lengths = |since| {
            let stats = stats(&history, since);
            ["fine", "coarse"].map(|ring| {
                let ring = &stats["history"][ring];
                let times = ring["unix_ms"].as_array().unwrap().len();
                assert_eq!(ring["values"]["reads"].as_array().unwrap().len(), times);
                times
            })
        };
        assert_eq!(lengths(0), [25, 2]);
        assert_eq!(lengths(19), [6, 1]);
        assert_eq!(lengths(25), [0, 0]);
        assert_eq!(lengths(26), [25, 2], "another life");
    }

    #[test]
    fn the_outlook_is_of_the_last_minute() {
        let stats = stats(&history(100), 0);
        let outlook = &stats["outlook"];
        assert_eq!(outlook["reads_now"], 0.5);
        assert_eq!(outlook["reads_half"], 0.75, "never more than all that is read and saved");
        assert_eq!(outlook["reads_twice"], 0.25);
        assert_eq!(outlook["operations"], 200);
        assert_eq!(super::stats(&history(0), 0)["outlook"]["unknown"], "idle");
    }

    #[test]
    fn it_is_said_why_nothing_is_measured() {
        for (policy, reason) in [
            ("tide", "too-small"),
            ("kv-only", "too-small"),
            ("hac", "other-ghosts"),
            ("hac:7,9", "other-ghosts"),
            ("offline:30,20,50", "no-ghosts"),
            ("block-only", "blocks-alone"),
            ("block-clock", "blocks-alone"),
            ("block-s3-fifo", "blocks-alone"),
        ] {
            let reading = Reading { policy: policy.parse().unwrap(), ..Reading::default() };
            let stats = stats(&StoreHistory::new(&FIELDS, reading), 0);
            let outlook = json!({ "unknown": "unmeasured", "reason": reason });
            assert_eq!(stats["outlook"], outlook, "{policy}");
        }
    }

    #[test]
    fn numbers_are_short_and_what_is_unknown_is_null() {
        let texts = [0.0, 17.0, 0.123_456, 1e9, f64::NAN, 9.9999].map(|v| number(v).to_string());
        assert_eq!(texts, ["0", "17", "0.123", "1000000000", "null", "10"]);
    }
}
