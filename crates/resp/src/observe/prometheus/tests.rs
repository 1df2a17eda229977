//! The text follows the rules of the Prometheus format and contains every counter.

#[path = "../../../../observe/tests/support/exposition.rs"]
mod exposition;

use std::sync::Arc;

use crate::observe::fields::READ;
use tidekv::{Db, Environment, Options};
use tidekv_io::MemoryStorage;

use super::*;
use crate::observe::metrics::DUPLICATES;
use crate::observe::sampler::Sampler;
use crate::options::ServerOptions;
use crate::state::server_state::State;

fn sampler() -> Sampler {
    let environment = Environment::default().storage(Arc::new(MemoryStorage::new()));
    let options = Options::default().environment(environment).memory_bytes(16 << 20);
    let db = Db::open("data", options).unwrap();
    let state = State::new(db, &ServerOptions::default(), 0).unwrap();
    Sampler::new(Arc::new(state))
}

#[test]
fn the_text_can_be_read_and_has_the_numbers() {
    let sampler = sampler();
    let counters = &sampler.state().counters;
    counters.commands.add(3);
    counters.read_ns.record_many(700_000, 2);
    counters.read_ns.record(20_000_000_000);
    sampler.state().db.keyspace("a").unwrap().put("key", "value").unwrap();
    let (reading, policy) = sampler.read();
    let text = text(&reading, policy);
    exposition::check_with_promtool(&text);
    let found = exposition::check(&text, "tidekv_");
    assert!(!text.contains("tidekv_cache_"), "that prefix belongs to the cache tier");
    let number = |series: &str| *found.get(series).unwrap_or_else(|| panic!("no {series}"));
    assert_eq!(number("tidekv_commands_total"), 3.0);
    assert_eq!(number("tidekv_memory_budget_bytes"), f64::from(16 << 20));
    let of_reads = |part: &str| number(&format!("tidekv_command_duration_seconds_{part}}}"));
    assert_eq!(of_reads("count{kind=\"read\""), 3.0);
    assert_eq!(of_reads("sum{kind=\"read\""), 20.0014);
    let at_most = |bound: &str| of_reads(&format!("bucket{{kind=\"read\",le=\"{bound}\""));
    let bounds = ["0.0005", "0.001", "10", "+Inf"].map(at_most);
    assert_eq!(bounds, [0.0, 2.0, 2.0, 3.0]);
    assert_eq!(number("tidekv_command_duration_seconds_count{kind=\"write\"}"), 0.0);
    assert_eq!(number("tidekv_background_duration_seconds_bucket{job=\"flush\",le=\"600\"}"), 0.0);
    let targets = ["kv", "kp", "block"]
        .map(|name| number(&format!("tidekv_caches_target_bytes{{cache=\"{name}\"}}")));
    let whole = targets.iter().sum::<f64>() + number("tidekv_caches_ghost_bytes");
    assert_eq!(whole, number("tidekv_caches_budget_bytes"));
}

#[test]
fn everything_that_is_counted_is_a_metric() {
    let (reading, _) = sampler().read();
    let sources: Vec<&str> =
        METRICS.iter().flat_map(|metric| metric.series).map(|(_, source)| *source).collect();
    for (name, _) in &reading.counters {
        let is_shown = sources.contains(name) || DUPLICATES.contains(name);
        assert!(is_shown, "{name} is no metric: add it to crates/resp/src/observe/metrics.rs");
    }
    for source in sources {
        let is_there = reading.counters.iter().any(|(name, _)| *name == source)
            || reading.counts.iter().any(|(name, _)| *name == source);
        assert!(is_there, "{source} is not counted");
    }
    assert!(reading.counts.iter().any(|(name, _)| *name == READ));
}
