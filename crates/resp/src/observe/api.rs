//! `/api/stats`: the data of the page as JSON. `docs/reference/http.md` explains each name.

use serde_json::{Map, Value, json};
use tidekv::CachePolicy;
use tidekv_observe::history::Reading;
use tidekv_observe::json::{about, number, ring};
use tidekv_observe::what_if::{Observed, Unknown, estimate_at_size};

use crate::observe::fields::StoreHistory;

/// The estimate uses means of this interval.
const ESTIMATE_SECONDS: u64 = 60;

/// The present, and the samples after the sample `since`. `policy` is the cache policy at the time
/// of the last sample.
pub(crate) fn stats(history: &StoreHistory, policy: CachePolicy, since: u64) -> Value {
    // A higher number is from a previous run of the server.
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
        "estimate": estimate(history, policy),
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
        // Not rounded: reads per operation are small numbers.
        Ok(found) => json!({
            "reads_half": found.half,
            "reads_now": found.now,
            "reads_twice": found.twice,
            "elasticity": number(found.elasticity),
            "operations": number(observed.operations),
            "seconds": ESTIMATE_SECONDS,
        }),
    }
}

/// The reason why nothing is measured under `policy`.
fn reason(policy: CachePolicy) -> &'static str {
    match policy {
        CachePolicy::BlockOnly | CachePolicy::BlockClock | CachePolicy::BlockS3Fifo => {
            "block-cache-only"
        }
        policy if policy.to_string().starts_with("ac-key-fixed") => "ac-key-fixed",
        policy if policy.to_string().starts_with("ac-key") => "ac-key-ghosts",
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
        wanted: ["kv_ghost_saved", "kp_ghost_saved", "block_ghost_saved"].map(of),
        window_bytes: history.now.counter("cache.ghost_window_bytes") as f64,
        budget_bytes: history.now.counter("cache.bytes_max") as f64,
    }
}

fn mean(history: &StoreHistory, field: &str) -> f64 {
    let last = history.fine.since(history.number.saturating_sub(ESTIMATE_SECONDS));
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
                ("cache.kv.ghost_saved_reads", second * 10),
                ("cache.block.saved_reads", second * 50),
                ("cache.ghost_window_bytes", 10),
                ("cache.bytes_max", 100),
            ],
            ..Reading::default()
        };
        let mut history = StoreHistory::new(&FIELDS, reading(0));
        (1..=seconds).for_each(|second| history.add(reading(second)));
        history
    }

    #[test]
    fn answers_with_since_contain_only_later_samples() {
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
        assert_eq!(lengths(26), [25, 2], "from a previous run");
    }

    #[test]
    fn the_estimate_is_of_the_last_minute() {
        let stats = stats(&history(100), CachePolicy::default(), 0);
        let estimate = &stats["estimate"];
        assert_eq!(estimate["reads_now"], 0.5);
        assert_eq!(estimate["reads_half"], 0.75, "never more than all that is read and saved");
        assert_eq!(estimate["reads_twice"], 0.25);
        assert_eq!(estimate["operations"], 200);
        assert_eq!(
            super::stats(&history(0), CachePolicy::default(), 0)["estimate"]["unknown"],
            "idle"
        );
    }

    #[test]
    fn the_estimate_has_the_reason_why_nothing_is_measured() {
        for (policy, reason) in [
            ("adaptive", "too-small"),
            ("kv-only", "too-small"),
            ("ac-key", "ac-key-ghosts"),
            ("ac-key:7,9", "ac-key-ghosts"),
            ("ac-key-fixed:30,20,50", "ac-key-fixed"),
            ("block-only", "block-cache-only"),
            ("block-clock", "block-cache-only"),
            ("block-s3-fifo", "block-cache-only"),
        ] {
            let history = StoreHistory::new(&FIELDS, Reading::default());
            let stats = stats(&history, policy.parse().unwrap(), 0);
            let estimate = json!({ "unknown": "unmeasured", "reason": reason });
            assert_eq!(stats["estimate"], estimate, "{policy}");
        }
    }
}
