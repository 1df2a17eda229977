//! The memory of a server: given and taken by clients, forecast by curves, planned by goals.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use support::{CacheClient, PATIENCE, ask_page, open, open_with, options, set, start, start_with};
use tidekv_io::{Clock, SystemClock};
use tidekv_memcached::{CacheServer, CacheServerOptions, ElasticGoal, ElasticOptions};
use tidekv_plan::{LatencyOverrides, Prices};
use tidekv_tiered::{FlashOptions, Options};

#[test]
fn the_dram_budget_can_shrink_and_grow() {
    let server = start();
    let mut client = CacheClient::connect(&server);
    let value = "x".repeat(100_000);
    for i in 0..500 {
        assert_eq!(client.ask(set(&format!("key{i}"), &value)), "STORED\r\n");
    }
    let bytes = |client: &mut CacheClient, name: &str| -> u64 {
        let stats = client.ask("stats\r\n");
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap().parse().unwrap()
    };
    assert!(bytes(&mut client, "bytes") > 45 << 20);
    assert_eq!(client.ask("cache_memlimit 10\r\n"), "OK\r\n");
    assert_eq!(bytes(&mut client, "limit_maxbytes"), 10 << 20);
    assert!(bytes(&mut client, "bytes") <= 10 << 20);
    assert!(bytes(&mut client, "evictions") > 300);
    let too_small = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
    assert_eq!(client.ask("cache_memlimit 7\r\n"), too_small);
}

#[test]
fn curves_give_the_miss_ratios_of_other_sizes() {
    let options = CacheServerOptions {
        http: Some("127.0.0.1:0".parse().unwrap()),
        profile_window: Some(Duration::from_millis(300)),
        ..options()
    };
    let server = start_with(options);
    let mut client = CacheClient::connect(&server);
    assert_eq!(client.ask("stats mrc\r\n"), "END\r\n");
    let number = |stats: &str, name: &str| -> Option<f64> {
        let line =
            stats.lines().find_map(|line| line.strip_prefix(&format!("STAT default:{name} ")));
        line.map(|number| number.parse().unwrap())
    };
    // Two hundred objects in a circle, and an absent one.
    let value = "x".repeat(1_000);
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    let (stats, metrics, api) = loop {
        assert!(clock.monotonic_ns() - began_ns < PATIENCE.as_nanos() as u64, "no two windows");
        for i in 0..200 {
            client.ask(format!("get key{i:03}\r\nget absent\r\n"));
            client.ask(set(&format!("key{i:03}"), &value));
        }
        let stats = client.ask("stats mrc\r\n");
        let metrics = ask_page(&server, "/metrics", "");
        let api = ask_page(&server, "/api/stats", "");
        let is_same_window = client.ask("stats mrc\r\n") == stats;
        if is_same_window && number(&stats, "window").is_some_and(|window| window >= 2.0) {
            break (stats, metrics, api);
        }
        // Few enough to profile all of them.
        clock.sleep(Duration::from_millis(100));
    };
    let bytes = number(&stats, "object_bytes").unwrap();
    assert!((1_200.0..1_300.0).contains(&bytes), "{stats}");
    assert_eq!((number(&stats, "unseen"), number(&stats, "sampled")), (Some(0.0), Some(1.0)));
    assert_eq!(number(&stats, "mr:0"), Some(1.0));
    let last = stats.lines().rfind(|line| line.contains(":mr:")).unwrap();
    let (size, ratio) = last.rsplit_once(' ').unwrap();
    let size: f64 = size.rsplit_once(':').unwrap().1.parse().unwrap();
    assert!((0.99..1.02).contains(&(size / 200.0 / bytes)), "{last}");
    // Every second request is for the absent key; a window may start and end with either.
    let is_half = |ratio: &str, requests: f64| {
        let misses = ratio.parse::<f64>().unwrap() * requests;
        assert!((misses - requests / 2.0).abs() < 0.501, "{ratio} of {requests}: {stats}");
    };
    let requests = number(&stats, "requests").unwrap();
    assert!(requests >= 10.0, "{stats}");
    is_half(ratio, requests);
    let metric = "tidekv_cache_tenant_predicted_miss_ratio{tenant=\"default\",bytes=\"1048576\"} ";
    let told = metrics.lines().find_map(|line| line.strip_prefix(metric));
    is_half(told.unwrap_or_else(|| panic!("{metrics}")), requests);
    let curves: serde_json::Value =
        serde_json::from_str(api.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(curves["curves"][0]["points"][0], serde_json::json!([0, 1.0]));
}

#[test]
fn every_cache_misses_flushed_objects() {
    let window = Some(Duration::from_millis(300));
    let server = start_with(CacheServerOptions { profile_window: window, ..options() });
    let mut client = CacheClient::connect(&server);
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    let stats = loop {
        assert!(clock.monotonic_ns() - began_ns < PATIENCE.as_nanos() as u64, "no two windows");
        assert_eq!(client.ask("flush_all\r\n"), "OK\r\n");
        for i in 0..20 {
            assert_eq!(client.ask(format!("get key{i}\r\n")), "END\r\n");
            client.ask(set(&format!("key{i}"), "value"));
        }
        let stats = client.ask("stats mrc\r\n");
        let of_window = |line: &str| line.strip_prefix("STAT default:window ")?.parse::<u64>().ok();
        if stats.lines().find_map(of_window).is_some_and(|window| window >= 2) {
            break stats;
        }
        // Few enough to profile all of them.
        clock.sleep(Duration::from_millis(20));
    };
    let last = stats.lines().rfind(|line| line.contains(":mr:")).unwrap();
    assert!(last.ends_with(" 1.000000"), "{stats}");
}

/// Requests objects of 4000 bytes in a circle, and stores the missing ones, until `is_done` holds
/// for the statistics.
fn circle_until(
    client: &mut CacheClient,
    objects: usize,
    mut is_done: impl FnMut(&str) -> bool,
) -> String {
    let value = "x".repeat(4_000);
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    loop {
        // In batches: otherwise a slow machine sends too few requests in a window.
        for first in (0..objects).step_by(20) {
            let keys: Vec<String> =
                (first..objects.min(first + 20)).map(|i| format!("key{i:05}")).collect();
            let found = client.ask(format!("get {}\r\n", keys.join(" ")));
            let missed = keys.iter().filter(|key| !found.contains(&format!("VALUE {key} ")));
            let sets: String = missed.map(|key| set(key, &value)).collect();
            client.ask(sets);
        }
        let stats = client.ask("stats tenants\r\n");
        if is_done(&stats) {
            return stats;
        }
        assert!(clock.monotonic_ns() - began_ns < PATIENCE.as_nanos() as u64, "{stats}");
    }
}

/// A server whose cache of 128 MiB meets a latency, in microseconds, at the least cost.
fn elastic_server(
    flash: Vec<FlashOptions>,
    latency_us: f64,
    latencies: LatencyOverrides,
) -> CacheServer {
    let options_of_cache =
        Options { dram_bytes: 128 << 20, flash, object_bytes_max: 8 << 10, ..Options::default() };
    let cache = open_with(&options_of_cache, Arc::new(SystemClock::new()));
    let goal = ElasticGoal::Latency { all: Some(latency_us), of: Vec::new() };
    CacheServer::start(cache, elastic_options(goal, latencies)).unwrap()
}

fn elastic_options(goal: ElasticGoal, latencies: LatencyOverrides) -> CacheServerOptions {
    let prices = Prices { dram_per_gib: 13.0, flash_per_gib: 1.0 };
    CacheServerOptions {
        http: Some("127.0.0.1:0".parse().unwrap()),
        profile_window: Some(Duration::from_millis(400)),
        elastic: Some(ElasticOptions { goal, prices, latencies }),
        ..options()
    }
}

/// The last decision of such a server, and its time in milliseconds.
fn decided(server: &CacheServer) -> (String, u64) {
    let api = ask_page(server, "/api/stats", "");
    let stats: serde_json::Value =
        serde_json::from_str(api.split_once("\r\n\r\n").unwrap().1).unwrap();
    let elastic = &stats["elastic"];
    (elastic["last"].as_str().unwrap().into(), elastic["unix_ms"].as_u64().unwrap())
}

/// A statistic of the default tenant.
fn of_default(stats: &str, name: &str) -> Option<u64> {
    let told = |line: &str| line.strip_prefix(&format!("STAT default:{name} "))?.parse().ok();
    stats.lines().find_map(told)
}

#[test]
fn a_target_for_an_unknown_tenant_is_rejected() {
    let goal = ElasticGoal::Latency { all: None, of: vec![("nobody".into(), 1.0)] };
    let options = elastic_options(goal, LatencyOverrides::default());
    let refused = CacheServer::start(open(), options).map(drop).unwrap_err();
    assert!(refused.to_string().contains("no tenant nobody"), "{refused}");
}

#[test]
fn elastic_sizes_meet_a_latency_at_the_least_cost() {
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 128 << 20 }];
    let latencies = LatencyOverrides {
        memory_us: Some(10.0),
        flash_us: Some(100.0),
        backend_us: Some(1_000.0),
    };
    let server = elastic_server(flash, 50.0, latencies);
    let mut client = CacheClient::connect(&server);
    let number = |stats: &str, name: &str| of_default(stats, name).unwrap();
    // An LRU cache smaller than a circle misses all of it, and only DRAM meets 50 µs. For 2 MiB it
    // needs the minimum, 8 MiB, and no flash; it shrinks by 64 MiB at a time, so 64 is only a step.
    let small = circle_until(&mut client, 500, |stats| number(stats, "dram_bytes_max") < 16 << 20);
    assert_eq!(number(&small, "flash_bytes_max"), 0, "{small}");
    // For 40 MiB it needs more, and soon has it.
    let had = number(&small, "dram_bytes_max");
    let large = circle_until(&mut client, 10_000, |stats| {
        number(stats, "dram_bytes_max") >= had + (36 << 20)
    });
    assert!(number(&large, "dram_bytes_max") < 128 << 20, "{large}");
    let api = ask_page(&server, "/api/stats", "");
    let stats: serde_json::Value =
        serde_json::from_str(api.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert!(stats["elastic"]["resizes"].as_u64() >= Some(2), "{}", stats["elastic"]);
    let last = stats["elastic"]["last"].as_str().unwrap();
    assert!(last.contains("latency by the curves") && last.contains("default"), "{last}");
}

/// A cache in front of a database of 10 ms missed nothing, the latency of a miss was assumed to be
/// the default millisecond, and `--elastic` shrank the cache to 8 MiB: 79 % of requests missed. Now
/// it does not shrink before misses have been measured.
#[test]
fn elastic_sizes_do_not_shrink_before_misses_are_measured() {
    let server = elastic_server(Vec::new(), 50_000.0, LatencyOverrides::default());
    let mut client = CacheClient::connect(&server);
    let value = "x".repeat(4_000);
    (0..500).for_each(|i| _ = client.ask(set(&format!("key{i:05}"), &value)));
    // All are hits; if a miss took a millisecond, almost no DRAM would be needed for 50 ms, and two
    // windows would show it.
    let mut planned = BTreeSet::new();
    let stats = circle_until(&mut client, 500, |_| {
        let (last, at_ms) = decided(&server);
        if !last.contains("too few requests") && last.contains("is not known of default") {
            planned.insert(at_ms);
        }
        planned.len() > 3
    });
    let dram_bytes = |stats: &str| of_default(stats, "dram_bytes_max");
    assert_eq!(dram_bytes(&stats), Some(128 << 20));
    // Misses are fast.
    circle_until(&mut client, 1_500, |stats| dram_bytes(stats) < Some(128 << 20));
}

/// Half values, and lines of keys, of many clients took 500 MiB beside a cache of 64.
#[test]
fn what_clients_send_and_do_not_read_is_bounded() {
    let bytes_max = 16 << 20;
    // Enough for all values, however they are distributed over its parts.
    let cache = support::open_with(
        &Options { dram_bytes: 512 << 20, ..Options::default() },
        Arc::new(SystemClock::new()),
    );
    let limited = CacheServerOptions {
        buffered_bytes_max: bytes_max,
        unread_bytes_max: bytes_max,
        ..options()
    };
    let server = CacheServer::start(cache, limited).unwrap();
    let mut client = CacheClient::connect(&server);
    let value = "v".repeat(1_000_000);
    for i in 0..40 {
        assert_eq!(client.ask(set(&format!("key{i}"), &value)), "STORED\r\n");
    }
    // Halves of values of 1 MiB, and lines of keys without an end.
    let mut senders: Vec<_> = (0..60).map(|_| support::socket(&server)).collect();
    for (number, sender) in senders.iter_mut().enumerate() {
        sender.set_nonblocking(true).unwrap();
        let begin = if number % 2 == 0 { "set half 0 0 1048576\r\n" } else { "get " };
        let bytes = [begin.as_bytes(), &vec![b'x'; 500_000]].concat();
        let _ = std::io::Write::write(sender, &bytes);
    }
    // Clients that ask for much and read nothing.
    let keys: Vec<String> = (0..40).map(|i| format!("key{i}")).collect();
    let mut readers: Vec<_> = (0..60).map(|_| support::socket(&server)).collect();
    for reader in &mut readers {
        let request = format!("get {}\r\n", keys.join(" "));
        std::io::Write::write_all(reader, request.repeat(3).as_bytes()).unwrap();
    }
    let clock = SystemClock::new();
    for _ in 0..30 {
        clock.sleep(Duration::from_millis(100));
        assert!(server.buffered_bytes() <= bytes_max, "{}", server.buffered_bytes());
        assert!(server.unread_bytes() <= bytes_max, "{}", server.unread_bytes());
    }
    assert!(server.unread_bytes() > 0);
    // Others are served meanwhile, after a client that hardly reads has given way.
    assert_eq!(client.ask(""), "");
    let found = client.ask("get key7\r\n");
    assert!(found.starts_with("VALUE key7 0 1000000\r\n"), "{}", &found[..50.min(found.len())]);
    drop((senders, readers));
    let began_ns = clock.monotonic_ns();
    while server.buffered_bytes() + server.unread_bytes() > 0 {
        assert!(clock.monotonic_ns() - began_ns < PATIENCE.as_nanos() as u64, "not released");
        clock.sleep(Duration::from_millis(20));
    }
}

/// Each held memory for the longest possible value, and was closed when others needed it.
#[test]
fn slow_readers_hold_no_more_memory_than_their_replies_take() {
    const READERS: usize = 30;
    const REQUESTS: usize = 300;
    const VALUE_BYTES: usize = 100_000;
    let server =
        start_with(CacheServerOptions { unread_bytes_max: 16 << 20, ..support::options() });
    let mut client = CacheClient::connect(&server);
    assert_eq!(client.ask(set("key", &"v".repeat(VALUE_BYTES))), "STORED\r\n");
    let mut readers: Vec<_> = (0..READERS).map(|_| support::socket(&server)).collect();
    for reader in &mut readers {
        std::io::Write::write_all(reader, "mg key v\r\n".repeat(REQUESTS).as_bytes()).unwrap();
    }
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    while server.unread_bytes() < READERS * (128 << 10) {
        assert!(clock.monotonic_ns() - began_ns < PATIENCE.as_nanos() as u64);
        clock.sleep(Duration::from_millis(10));
    }
    clock.sleep(Duration::from_secs(3));
    let reply_bytes = format!("VA {VALUE_BYTES}\r\n").len() + VALUE_BYTES + 2;
    for mut reader in readers {
        let mut replies = vec![0; REQUESTS * reply_bytes];
        std::io::Read::read_exact(&mut reader, &mut replies).expect("it is not closed");
    }
}
