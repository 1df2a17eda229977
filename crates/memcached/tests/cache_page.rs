//! The states of a simulated flash device that fails, leaves service and returns, in the history of
//! `/api/stats`.
//!
//! The cache's clock is advanced, so that the test need not wait until the device is retried and
//! warm.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use support::wire::eventually;
use support::{CacheClient, ask_page, options};
use tidekv_io::{
    Clock, ErrorKind, Fault, FaultRule, MemoryStorage, Operation, Storage, SystemClock,
};
use tidekv_memcached::{CacheServer, CacheServerOptions};
use tidekv_tiered::{Cache, Environment, FlashOptions, Options, TenantOptions};

const KEYS: usize = 1500;
const VALUE_BYTES: usize = 4000;

/// The machine's clock, which can be set ahead.
#[derive(Debug)]
struct HastenedClock {
    inner: SystemClock,
    ahead_s: AtomicU64,
}

impl Clock for HastenedClock {
    fn unix_ns(&self) -> u64 {
        self.inner.unix_ns() + self.ahead_s.load(Ordering::Relaxed) * 1_000_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.inner.monotonic_ns() + self.ahead_s.load(Ordering::Relaxed) * 1_000_000_000
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }
}

fn stats(server: &CacheServer) -> Value {
    let answer = ask_page(server, "/api/stats", "");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The states of a device in the samples of a ring, without repetitions.
fn states_of(stats: &Value, ring: &str, device: usize) -> Vec<u64> {
    let states = &stats["history"][ring]["devices"][device]["state"];
    let mut states: Vec<u64> =
        states.as_array().unwrap().iter().map(|state| state.as_u64().unwrap()).collect();
    states.dedup();
    states
}

/// Requests all keys.
fn get_all(client: &mut CacheClient) {
    for first in (0..KEYS).step_by(50) {
        let keys: Vec<String> = (first..first + 50).map(|n| format!("key{n}")).collect();
        client.ask(format!("get {}\r\n", keys.join(" ")));
    }
}

#[test]
fn an_outage_and_the_recovery_of_a_device_are_in_the_history() {
    let storage = MemoryStorage::new();
    let clock = Arc::new(HastenedClock { inner: SystemClock::new(), ahead_s: AtomicU64::new(0) });
    let flash = |n| FlashOptions { path: format!("/flash-{n}").into(), bytes: 8 << 20 };
    let cache_options = Options {
        dram_bytes: 3 << 20,
        flash: (0..2).map(flash).collect(),
        object_bytes_max: 16 << 10,
        index_bytes: Some(20_000),
        segment_bytes: Some(64 << 10),
        ..Options::default()
    };
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let around = Environment::new(shared, Arc::clone(&clock) as Arc<dyn Clock>);
    let cache = Cache::open(&cache_options, &around).unwrap();
    let http = Some("127.0.0.1:0".parse().unwrap());
    let server = CacheServer::start(cache, CacheServerOptions { http, ..options() }).unwrap();
    let mut client = CacheClient::connect(&server);
    for n in 0..KEYS {
        client.send(format!("set key{n} 0 0 {VALUE_BYTES} noreply\r\n"));
        client.send(format!("{}\r\n", "v".repeat(VALUE_BYTES)));
    }
    // Until a sample shows it.
    let mut reaches = |what: &str, state: u64| {
        eventually(what, || {
            get_all(&mut client);
            states_of(&stats(&server), "fine", 0).last() == Some(&state)
        });
    };
    reaches("ok", 0);
    storage.add_fault(
        FaultRule::always(Operation::Read, Fault::Fail(ErrorKind::Failed)).on_path("flash-0"),
    );
    reaches("out", 3);
    storage.clear_faults();
    clock.ahead_s.fetch_add(10, Ordering::Relaxed);
    reaches("warming", 2);
    clock.ahead_s.fetch_add(3700, Ordering::Relaxed);
    reaches("ok again", 0);

    let stats = stats(&server);
    // The state suspect may appear in between.
    let mut seen = states_of(&stats, "fine", 0);
    seen.retain(|state| *state != 1);
    assert_eq!(seen, [0, 3, 2, 0]);
    assert!(!states_of(&stats, "fine", 1).contains(&3), "the other one never left");
    let device = &stats["devices"][0];
    assert_eq!((&device["outages"], &device["recoveries"]), (&1.into(), &1.into()));
    assert_eq!(device["state"], "ok");
    let reads = &device["read_times"]["count"];
    let (index, objects) = (&device["index_reads"], &device["object_reads"]);
    let most = index.as_u64().unwrap() + objects.as_u64().unwrap();
    assert!((1..=most).contains(&reads.as_u64().unwrap()), "{device}");
    let metrics = ask_page(&server, "/metrics", "");
    let count = "tidekv_cache_device_read_duration_seconds_count{device=\"/flash-0\"}";
    let line = metrics.lines().find_map(|line| line.strip_prefix(count));
    assert!(line.unwrap().trim().parse::<u64>().unwrap() >= reads.as_u64().unwrap());
    assert!(metrics.contains("tidekv_cache_device_outages_total{device=\"/flash-0\"} 1"));
    assert_eq!(stats["device_fields"]["state"]["unit"], "");
}

#[test]
fn tenants_have_separate_numbers_everywhere() {
    let tenant = |name: &str, prefix: &str| TenantOptions {
        name: name.into(),
        prefix: prefix.into(),
        dram_bytes: 8 << 20,
        flash_bytes: 0,
    };
    let around = Environment::new(Arc::new(MemoryStorage::new()), Arc::new(SystemClock::new()));
    let tenants = vec![tenant("shop", "s:"), tenant("ads", "a:")];
    let alone = Cache::open(&Options::default(), &around).unwrap();
    let shared = Cache::open(&Options { tenants, ..Options::default() }, &around).unwrap();
    let page = || CacheServerOptions { http: Some("127.0.0.1:0".parse().unwrap()), ..options() };
    let server = CacheServer::start(alone, page()).unwrap();
    assert_eq!(stats(&server)["tenants"], Value::Array(Vec::new()));
    assert!(!ask_page(&server, "/metrics", "").contains("_tenant_"));
    drop(server);

    let server = CacheServer::start(shared, page()).unwrap();
    let mut client = CacheClient::connect(&server);
    client.ask("set s:1 0 0 1\r\n1\r\nset s:2 0 0 1\r\n2\r\nset other 0 0 1\r\n3\r\n");
    client.ask("get s:1 s:3 other\r\n");
    let told = stats(&server);
    let of = |index: usize, name: &str| told["tenants"][index][name].clone();
    assert_eq!([0, 1, 2].map(|index| of(index, "name")), ["default", "shop", "ads"]);
    assert_eq!([0, 1, 2].map(|index| of(index, "stores")), [1, 2, 0]);
    assert_eq!(
        (of(1, "prefix"), of(1, "misses"), of(1, "dram_hits")),
        ("s:".into(), 1.into(), 1.into())
    );
    let metrics = ask_page(&server, "/metrics", "");
    let line = "tidekv_cache_tenant_dram_objects{tenant=\"shop\"} 2\n";
    assert!(metrics.contains(line), "{metrics}");
    let said = client.ask("stats tenants\r\n");
    assert!(said.contains("STAT shop:stores 2\r\n") && said.ends_with("END\r\n"), "{said}");
    assert!(said.contains(&format!("STAT default:dram_bytes_max {}\r\n", 48 << 20)), "{said}");
}
