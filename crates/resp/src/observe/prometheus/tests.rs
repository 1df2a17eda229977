//! The text is what Prometheus can read, and says everything that is counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::observe::fields::READ;
use tidekv::{Db, Environment, Options};
use tidekv_io::MemoryStorage;

use super::*;
use crate::observe::metrics::TWINS;
use crate::observe::sampler::Sampler;
use crate::options::ServerOptions;
use crate::state::server_state::State;

/// Name with labels, and number, of each line; what is no line of the format panics.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut kinds = BTreeMap::new();
    let mut found = BTreeMap::new();
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && help.ends_with('.') && !help.contains('\\'), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else {
            let (series, number) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let family = name.trim_end_matches("_sum").trim_end_matches("_count");
            let kind = kinds.get(name).or_else(|| kinds.get(family)).expect("a type comes first");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            for label in labels.strip_suffix('}').unwrap().split(',').filter(|l| !l.is_empty()) {
                let (label, value) = label.split_once('=').unwrap();
                assert!(is_name(label), "{line}");
                let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                assert!(!value.unwrap().contains(['"', '\\']), "{line}");
            }
            let number: f64 = number.parse().unwrap();
            assert!(found.insert(series.to_owned(), number).is_none(), "{series} twice");
        }
    }
    found
}

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
    counters.read_ns.record_many(1_000_000, 2);
    let (reading, policy) = sampler.read();
    let found = parse(&text(&reading, policy));
    let number = |series: &str| *found.get(series).unwrap_or_else(|| panic!("no {series}"));
    assert_eq!(number("tidekv_commands_total"), 3.0);
    assert_eq!(number("tidekv_memory_budget_bytes"), f64::from(16 << 20));
    assert_eq!(number("tidekv_command_duration_seconds_count{kind=\"read\"}"), 2.0);
    assert_eq!(number("tidekv_command_duration_seconds_sum{kind=\"read\"}"), 0.002);
    let p99 = number("tidekv_command_duration_seconds{kind=\"read\",quantile=\"0.99\"}");
    assert!((0.001..0.0011).contains(&p99), "{p99}");
    assert!(number("tidekv_command_duration_seconds{kind=\"write\",quantile=\"0.5\"}").is_nan());
    let targets = ["kv", "kp", "block"]
        .map(|name| number(&format!("tidekv_cache_target_bytes{{component=\"{name}\"}}")));
    let whole = targets.iter().sum::<f64>() + number("tidekv_cache_measuring_bytes");
    assert_eq!(whole, number("tidekv_cache_budget_bytes"));
}

#[test]
fn everything_that_is_counted_is_a_metric() {
    let (reading, _) = sampler().read();
    let sources: Vec<&str> =
        METRICS.iter().flat_map(|metric| metric.series).map(|(_, source)| *source).collect();
    for (name, _) in &reading.counters {
        let is_shown = sources.contains(name) || TWINS.contains(name);
        assert!(is_shown, "{name} is no metric: add it to crates/resp/src/observe/metrics.rs");
    }
    for source in sources {
        let is_there = reading.counters.iter().any(|(name, _)| *name == source)
            || reading.latencies.iter().any(|(name, _)| *name == source);
        assert!(is_there, "{source} is not counted");
    }
    assert!(reading.counts.iter().any(|(name, _)| *name == READ));
}
