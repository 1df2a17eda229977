//! `/api/stats`: what the page draws, as JSON. `docs/reference/http.md` says what each name means.

use serde_json::{Map, Value, json};
use tidekv::CachePolicy;
use tidekv_observe::history::Reading;
use tidekv_observe::json::{about, number, ring};
use tidekv_observe::what_if::{Observed, Unknown, estimate_at_size};

use crate::observe::fields::StoreHistory;

/// The outlook is a mean of so many seconds.
const OUTLOOK_SECONDS: u64 = 60;

/// The history as far as it was made after the sample `since`, and the present. By `policy` the
/// caches shared memory when the last sample was taken.
pub(crate) fn stats(history: &StoreHistory, policy: CachePolicy, since: u64) -> Value {
    // A reader that knows more than there is has known an earlier life of the server.
    let since = if since > history.number { 0 } else { since };
    let now = &history.now;
    let mut stats = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_ms": now.counter("server.started_ms"),
        "policy": policy.to_string(),
        "cache_bytes_max": now.counter("cache.bytes_max"),
        "memory_bytes_max": now.counter("memory.budget_bytes"),
        "number": history.number,
        "now": present(now),
        "outlook": estimate(history, policy),
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

fn estimate(history: &StoreHistory, policy: CachePolicy) -> Value {
    let observed = observe(history);
    match estimate_at_size(&observed) {
        Err(Unknown::Idle) => json!({ "unknown": "idle" }),
        Err(Unknown::Unmeasured) => {
            json!({ "unknown": "unmeasured", "reason": reason(policy) })
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
        CachePolicy::BlockOnly | CachePolicy::BlockClock | CachePolicy::BlockS3Fifo => {
            "blocks-alone"
        }
        policy if policy.to_string().starts_with("ac-key-fixed") => "no-ghosts",
        policy if policy.to_string().starts_with("ac-key") => "other-ghosts",
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
    use crate::observe::fields::FIELDS;

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
            let stats = stats(&history, CachePolicy::default(), since);
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
        let stats = stats(&history(100), CachePolicy::default(), 0);
        let outlook = &stats["outlook"];
        assert_eq!(outlook["reads_now"], 0.5);
        assert_eq!(outlook["reads_half"], 0.75, "never more than all that is read and saved");
        assert_eq!(outlook["reads_twice"], 0.25);
        assert_eq!(outlook["operations"], 200);
        assert_eq!(
            super::stats(&history(0), CachePolicy::default(), 0)["outlook"]["unknown"],
            "idle"
        );
    }

    #[test]
    fn it_is_said_why_nothing_is_measured() {
        for (policy, reason) in [
            ("adaptive", "too-small"),
            ("kv-only", "too-small"),
            ("ac-key", "other-ghosts"),
            ("ac-key:7,9", "other-ghosts"),
            ("ac-key-fixed:30,20,50", "no-ghosts"),
            ("block-only", "blocks-alone"),
            ("block-clock", "blocks-alone"),
            ("block-s3-fifo", "blocks-alone"),
        ] {
            let history = StoreHistory::new(&FIELDS, Reading::default());
            let stats = stats(&history, policy.parse().unwrap(), 0);
            let outlook = json!({ "unknown": "unmeasured", "reason": reason });
            assert_eq!(stats["outlook"], outlook, "{policy}");
        }
    }
}
