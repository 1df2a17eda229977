//! Reads of clients fill the value and pointer caches.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use support::{Client, encode, options};
use tidekv::{CachePolicy, Db, Environment, Options};
use tidekv_io::{MemoryStorage, SeededRandom, threads};
use tidekv_resp::Server;

const PAIRS: u64 = 10_000;

/// A store much larger than its memory: pairs of keys with the same value.
fn open() -> Db {
    let environment = Environment::default().storage(Arc::new(MemoryStorage::new()));
    let options = Options::default()
        .environment(environment)
        .memory_bytes(8 << 20)
        .cache_policy(CachePolicy::Fixed { kv: 20, kp: 10 });
    let db = Db::open("data", options).unwrap();
    let strings = db.keyspace("default").unwrap();
    let value = format!("0{}", "x".repeat(1000));
    for side in ["a", "b"] {
        let entries = (0..PAIRS).map(|pair| (format!("{side}{pair:08}"), value.clone()));
        strings.ingest(entries).unwrap();
    }
    db
}

/// Reads that missed in memory went through a snapshot, whose results are never cached, because it
/// may skip newer versions. So a server had value and pointer caches, and never filled them. Now
/// such reads use the current state, and a snapshot only if a writer interferes.
#[test]
fn reads_from_storage_fill_the_value_and_pointer_caches() {
    let server = Server::start(open(), options()).unwrap();
    let mut client = Client::connect(&server);
    let counted = |client: &mut Client, name: &str| client.info("tidekv", name);
    for _ in 0..3 {
        for pair in (0..PAIRS).step_by(20) {
            assert_eq!(client.ask(&format!("STRLEN a{pair:08}")), 1001);
        }
    }
    assert!(counted(&mut client, "cache.kv.entries") > 100);
    assert!(counted(&mut client, "cache.kv.hits") + counted(&mut client, "cache.kp.hits") > 0);
}

#[test]
fn pairs_from_storage_are_consistent_with_a_concurrent_writer() {
    let server = Arc::new(Server::start(open(), options()).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let writer = {
        let (server, stop, written) =
            (Arc::clone(&server), Arc::clone(&stop), Arc::clone(&written));
        threads::spawn("writer", move || {
            let (mut client, dice) = (Client::connect(&server), SeededRandom::new(1));
            while !stop.load(Ordering::Relaxed) {
                let round = written.fetch_add(1, Ordering::Relaxed);
                let pair = dice.below(64);
                let (a, b) = (format!("a{pair:08}"), format!("b{pair:08}"));
                let value = format!("{round}{}", "x".repeat(1000));
                let words =
                    [&b"MSET"[..], a.as_bytes(), value.as_bytes(), b.as_bytes(), value.as_bytes()];
                client.send(&encode(&words));
                assert_eq!(client.read(), "OK");
            }
        })
    };
    let (mut client, dice) = (Client::connect(&server), SeededRandom::new(2));
    for _ in 0..1500 {
        // Most pairs of a request are cold, and some are being written.
        let pairs: Vec<u64> =
            (0..40).map(|at| if at < 4 { dice.below(64) } else { dice.below(PAIRS) }).collect();
        let keys = pairs.iter().flat_map(|pair| [format!("a{pair:08}"), format!("b{pair:08}")]);
        let command = format!("MGET {}", keys.collect::<Vec<_>>().join(" "));
        let values = client.ask(&command).items();
        for pair in values.chunks(2) {
            assert!(pair[0] == pair[1], "half of a commit was read");
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.unwrap().join().unwrap();
    assert!(written.load(Ordering::Relaxed) > 100, "the writer was held up");
}
