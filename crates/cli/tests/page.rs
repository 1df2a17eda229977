//! The status page of the real server under a changing load: scans, then gets of scattered
//! hot keys, then scans again. The partition boundary must move to values and back, and the page in a
//! real browser must agree with the server's statistics.
//!
//! `TIDEKV_CHROMIUM` names the browser (`chromium`); without it the test checks only the server's
//! statistics. `TIDEKV_CHROMIUM_PICTURES` names a directory for pictures of the
//! page in light, dark and narrow layouts.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives real processes")]

#[path = "page/server.rs"]
mod server;
#[path = "page/load.rs"]
mod load;
#[path = "page/browser.rs"]
mod browser;
#[path = "page/shown.rs"]
mod shown;

use std::time::{Duration, Instant};

use browser::Browser;
use load::Load;
use serde_json::Value;
use server::Server;
use shown::Shown;
use tidekv_testkit::evidence::Row;

/// The maximum time until the boundary has moved in a phase.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time to continue after that, so that samples contain it.
const HOLD: Duration = Duration::from_secs(3);

/// The share of values in the cache budget, in the newest sample.
fn share_of_values(stats: &Value) -> f64 {
    let last = |name: &str| last_of(stats, name).unwrap_or(0.0);
    last("kv_bytes_max") / last("cache_bytes_max").max(1.0)
}

fn last_of(stats: &Value, field: &str) -> Option<f64> {
    stats["history"]["fine"]["values"][field].as_array()?.last()?.as_f64()
}

/// Runs `load` until the share of values satisfies `is_reached`, and a while longer. Returns
/// the time of the last sample.
fn phase(server: &Server, load: Load, is_reached: impl Fn(f64) -> bool) -> u64 {
    let began = Instant::now();
    let running = load.start(server.address());
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let share = share_of_values(&server.stats());
        if is_reached(share) && began.elapsed() > HOLD {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{load:?}: values have {share:.2} of the caches");
    }
    std::thread::sleep(HOLD);
    let stats = server.stats();
    assert!(is_reached(share_of_values(&stats)), "{load:?}: the boundary moved back");
    running.stop();
    stats["now"]["unix_ms"].as_u64().unwrap()
}

#[test]
fn the_page_shows_how_the_boundary_moves() {
    let server = Server::start();
    load::fill(server.address());
    let scans = phase(&server, Load::Scans, |share| share < 0.1);
    let gets = phase(&server, Load::Gets, |share| share > 0.5);
    let scans_again = phase(&server, Load::Scans, |share| share < 0.1);

    let metrics = server.get("/metrics");
    assert!(metrics.contains("tidekv_caches_saved_reads_total{cache=\"kv\"} "), "{metrics}");
    let stats = server.stats();
    let reads = |name: &str| stats["estimate"][name].as_f64().unwrap();
    assert!(reads("reads_half") >= reads("reads_now"), "{}", stats["estimate"]);

    let Some(browser) = Browser::from_environment() else {
        println!("no browser: TIDEKV_CHROMIUM names none");
        return;
    };
    let shown = Shown::new(browser.open(server.url()));
    shown.is_drawn();
    shown.agrees_with(&server.stats());
    let values = |moment| shown.values_at(moment);
    assert!(values(gets) > 4.0 * values(scans) + 1e6, "{:?}", shown.moments());
    assert!(values(gets) > 4.0 * values(scans_again) + 1e6, "{:?}", shown.moments());
    browser.take_pictures(server.url(), "");
    record(&shown, &[scans, gets, scans_again]);
}

#[test]
fn the_page_explains_an_empty_server_and_other_policies() {
    let Some(browser) = Browser::from_environment() else { return };
    for (policy, says) in [
        ("adaptive", "No commands received yet."),
        ("ac-key", "The policy ac-key moves the boundaries by its own ghost caches."),
        ("ac-key", "the policy’s own ghost caches set the boundaries"),
        ("block-only", "The policy block-only gives all cache memory to blocks."),
        ("block-clock", "The policy block-clock gives all cache memory to blocks."),
        ("block-clock", "Blocks use all of a budget of"),
        ("fixed:30,10,60", "The policy fixed:30,10,60 does not move the boundaries."),
    ] {
        let server = Server::start_with(policy);
        // Until the first sample.
        std::thread::sleep(Duration::from_millis(2500));
        let shown = Shown::new(browser.open(server.url()));
        assert!(shown.text().contains(says), "{says}\n{}", shown.text());
        shown.agrees_with(&server.stats());
    }
}

fn record(shown: &Shown, moments: &[u64; 3]) {
    let [scans, gets, scans_again] = moments.map(|moment| shown.values_at(moment));
    Row::new("page-in-chromium", "tidekv")
        .param("memory_bytes", server::MEMORY_BYTES)
        .param("keys", load::KEYS)
        .metric("values_bytes_max_scans", scans)
        .metric("values_bytes_max_gets", gets)
        .metric("values_bytes_max_scans_again", scans_again)
        .metric("moments_compared", shown.moments().len())
        .metric("script_errors", 0)
        .record();
}
