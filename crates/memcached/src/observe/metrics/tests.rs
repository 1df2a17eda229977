//! Every counter is a metric, and the text follows the Prometheus format.

#[path = "../../../../observe/tests/support/exposition.rs"]
mod exposition;

use std::sync::Arc;

use tidekv_io::{LocalStorage, ManualClock, MemoryStorage, Storage};
use tidekv_tiered::{Cache, Environment, FlashOptions, Options};

use super::*;
use crate::settings::options::CacheServerOptions;

fn state() -> State {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new());
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let cache = Cache::open(&Options::default(), &Environment::new(storage, clock)).unwrap();
    State::new(cache, CacheServerOptions::default(), Vec::new(), 1, None)
}

#[test]
fn everything_that_is_counted_is_a_metric() {
    let numbers = read(&state());
    let sources: Vec<&str> =
        CACHE_METRICS.iter().flat_map(|metric| metric.series).map(|(_, source)| *source).collect();
    for (name, _) in &numbers {
        // Authentications are shown by outcome.
        let is_shown = sources.contains(name) || *name == "server.authentications";
        assert!(is_shown, "{name} is no metric");
    }
    for source in sources {
        let is_there = numbers.iter().any(|(name, _)| *name == source);
        assert!(is_there || source == "server.latency", "{source} is not counted");
    }
    // Sums of other counters have no metric.
    let sums = [Count::Gets, Count::Touches];
    for index in 0..=Count::Panics as usize {
        let is_counted = COUNTED.iter().any(|(count, _)| *count as usize == index)
            || sums.iter().any(|count| *count as usize == index);
        assert!(is_counted, "count {index} is no metric");
    }
}

#[test]
fn the_text_can_be_read_and_has_the_numbers() {
    let state = state();
    state.counters.add(Count::GetHits, 3);
    state.counters.add(Count::Authentications, 5);
    state.counters.add(Count::AuthenticationErrors, 2);
    state.latency.record_many(1_000_000, 2);
    let text = text(&state);
    exposition::check_with_promtool(&text);
    exposition::check(&text, "tidekv_cache_");
    for line in [
        "# TYPE tidekv_cache_gets_total counter",
        "tidekv_cache_gets_total{outcome=\"hit\"} 3",
        "tidekv_cache_authentications_total{outcome=\"success\"} 3",
        "tidekv_cache_request_duration_seconds_bucket{le=\"0.0025\"} 2",
        "tidekv_cache_request_duration_seconds_count 2",
        "tidekv_cache_start_time_seconds 1700000000",
        "tidekv_cache_dram_budget_bytes 67108864",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    for metric in &CACHE_METRICS {
        assert!(metric.name.starts_with("tidekv_cache_") && metric.help.ends_with('.'));
        let is_counter = metric.kind == Kind::Counter;
        assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
    }
}

#[test]
fn read_times_of_a_device_are_a_histogram() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let flash = vec![FlashOptions { path: "/a\"b".into(), bytes: 1 << 20 }];
    let options = Options { flash, segment_bytes: Some(16 << 10), ..Options::default() };
    let cache = Cache::open(&options, &Environment::new(storage, clock)).unwrap();
    let text = text(&State::new(cache, CacheServerOptions::default(), Vec::new(), 1, None));
    exposition::check_with_promtool(&text);
    let found = exposition::check(&text, "tidekv_cache_");
    assert_eq!(found["tidekv_cache_device_bytes{device=\"/a\\\"b\"}"], f64::from(1 << 20));
    let name = "tidekv_cache_device_read_duration_seconds";
    for line in [
        format!("# TYPE {name} histogram"),
        format!("{name}_bucket{{device=\"/a\\\"b\",le=\"0.001048576\"}} 0"),
        format!("{name}_bucket{{device=\"/a\\\"b\",le=\"+Inf\"}} 0"),
        format!("{name}_count{{device=\"/a\\\"b\"}} 0"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
