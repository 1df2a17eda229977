//! The status page of a real cache under load, one of whose two flash devices fails and returns: the
//! test compares the server's statistics with the page in a real browser.
//!
//! The device is a file that the test truncates repeatedly until the server detaches it; then the test
//! leaves it alone, and the server attaches it again by itself.
//!
//! `TIDEKV_CHROMIUM` names the browser (`chromium`); without it the test checks only the server's
//! statistics. `TIDEKV_CHROMIUM_PICTURES` names a directory for pictures of the page.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives real processes")]

#[path = "page/server.rs"]
mod server;
#[path = "page/browser.rs"]
mod browser;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use browser::{Browser, Document, attribute};
use serde_json::Value;
use server::Server;
use tidekv_io::SeededRandom;
use tidekv_testkit::evidence::Row;

/// The maximum time of a device from one state to the next.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time to continue in the new state, so that samples contain it.
const HOLD: Duration = Duration::from_secs(4);
/// Several times the DRAM, and less than both devices.
const KEYS: u64 = 5_000;
const VALUE_BYTES: usize = 6_000;

/// A client that runs until this is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    client: Option<JoinHandle<()>>,
}

impl Load {
    fn start(address: &str) -> Self {
        let (stop, address) = (Arc::new(AtomicBool::new(false)), address.to_owned());
        let stopped = Arc::clone(&stop);
        Self { stop, client: Some(std::thread::spawn(move || work(&address, &stopped))) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.client.take().map(JoinHandle::join);
    }
}

/// Stores and reads keys until stopped: a few hot ones most of the time, some that never exist.
fn work(address: &str, stop: &AtomicBool) {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let (dice, value) = (SeededRandom::new(3), "x".repeat(VALUE_BYTES));
    let mut line = String::new();
    while !stop.load(Ordering::Relaxed) {
        let few = dice.below(10) < 6;
        let key = dice.below(if few { KEYS / 10 } else { KEYS });
        let request = match dice.below(20) {
            0 => format!("get absent{key}\r\n"),
            1..=4 => format!("set key{key} 0 0 {VALUE_BYTES}\r\n{value}\r\n"),
            _ => format!("get key{key}\r\n"),
        };
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        line.clear();
        stream.read_line(&mut line).unwrap();
        if line.starts_with("VALUE") {
            let mut rest = vec![0; VALUE_BYTES + "\r\nEND\r\n".len()];
            stream.read_exact(&mut rest).unwrap();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until `is_reached`, and calls `meanwhile` repeatedly.
fn until(
    server: &Server,
    what: &str,
    mut meanwhile: impl FnMut(),
    is_reached: impl Fn(&Value) -> bool,
) {
    let began = Instant::now();
    loop {
        let stats = server.stats();
        if is_reached(&stats) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "never {what}: {}", stats["devices"]);
        let pause = Instant::now();
        while pause.elapsed() < Duration::from_millis(200) {
            meanwhile();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The states of a device over time, without consecutive repetitions.
fn states_of(stats: &Value, device: usize) -> Vec<u64> {
    let states = stats["history"]["fine"]["devices"][device]["state"].as_array().unwrap();
    let mut states: Vec<u64> = states.iter().map(|state| state.as_u64().unwrap()).collect();
    states.dedup();
    states
}

/// Whether `states` contains `wanted` as a subsequence.
fn has_in_order(states: &[String], wanted: &[&str]) -> bool {
    let mut states = states.iter();
    wanted.iter().all(|wanted| states.any(|state| state == wanted))
}

/// The bar of a device in the browser, from the left.
fn bar_of(document: &Document, device: usize) -> Vec<String> {
    let item = document.0.split(&format!("data-device=\"{device}\"")).nth(1).unwrap();
    let bar = item.split("<svg").nth(1).unwrap().split("</svg>").next().unwrap();
    let parts = bar.split("<rect").skip(1);
    parts.map(|part| attribute(part, "data-state").unwrap().to_owned()).collect()
}

fn start() -> (Server, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let [a, b] = ["a", "b"].map(|name| format!("{}:24MiB", file(name).display()));
    let state = file("state").display().to_string();
    let arguments = ["--dram", "28MiB", "--flash", &a, "--flash", &b, "--state", &state];
    let path = file("a");
    (Server::run("cache", &arguments, directory), path)
}

fn truncate(path: &Path) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
}

#[test]
fn the_page_shows_a_device_failing_and_returning() {
    let (server, device) = start();
    let state = |stats: &Value| stats["devices"][0]["state"].as_str().unwrap().to_owned();
    let load = Load::start(server.address());
    let reads = |stats: &Value| stats["devices"][0]["object_reads"].as_u64().unwrap();
    until(&server, "read", || {}, |stats| reads(stats) > 200 && state(stats) == "ok");
    std::thread::sleep(HOLD);
    until(&server, "out", || truncate(&device), |stats| state(stats) == "out");
    until(&server, "warming", || {}, |stats| state(stats) == "warming");
    until(&server, "ok again", || {}, |stats| state(stats) == "ok");
    std::thread::sleep(HOLD);
    let stats = server.stats();
    let names = ["ok", "suspect", "warming", "out"];
    let states = states_of(&stats, 0).into_iter().map(|state| names[state as usize].to_owned());
    let states: Vec<String> = states.collect();
    assert!(has_in_order(&states, &["ok", "out", "warming", "ok"]), "{states:?}");
    assert!(!states_of(&stats, 1).contains(&3), "the other one was not touched");
    assert_eq!(stats["devices"][0]["outages"], 1);
    assert_eq!(stats["devices"][0]["recoveries"], 1);
    let times = &stats["devices"][0]["read_times"];
    assert!(times["count"].as_u64() > Some(200) && times["p99_ns"].as_u64() > Some(0), "{times}");

    let Some(browser) = Browser::from_environment() else {
        println!("no browser: TIDEKV_CHROMIUM names none");
        return;
    };
    let shown = browser.open(server.url());
    shown.is_alive();
    let bar = bar_of(&shown, 0);
    assert!(has_in_order(&bar, &["ok", "out", "warming", "ok"]), "{bar:?}");
    assert!(!bar_of(&shown, 1).iter().any(|state| state == "out"));
    let text = shown.text();
    for words in ["Both flash devices work", "was out of service from", "DRAM", "Misses", "once"] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    browser.take_pictures(server.url(), "cache-");
    drop(load);
    Row::new("cache-page-in-chromium", "tidekv")
        .param("devices", 2)
        .metric("stretches_shown", bar.len())
        .metric("script_errors", 0)
        .record();
}

#[test]
fn the_page_says_that_a_cache_has_no_flash_and_no_clients() {
    let Some(browser) = Browser::from_environment() else { return };
    let server = Server::run("cache", &[], tempfile::tempdir().unwrap());
    std::thread::sleep(Duration::from_millis(2500));
    let shown = browser.open(server.url());
    shown.is_alive();
    for words in ["No requests received yet.", "No flash tier"] {
        assert!(shown.text().contains(words), "{words:?} is not in {}", shown.text());
    }
}
