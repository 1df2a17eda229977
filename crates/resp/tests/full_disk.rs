//! The server on a full disk: it refuses writes, and can be emptied.

mod support;

use std::time::Duration;

use support::{Client, Value, open_db_on, options};
use tidekv_io::{Clock, MemoryStorage, SystemClock, Tear};
use tidekv_resp::Server;

/// The bytes of all files.
fn used(disk: &MemoryStorage) -> u64 {
    disk.paths().iter().map(|path| disk.read_file(path).map_or(0, |bytes| bytes.len() as u64)).sum()
}

/// `FLUSHALL` freed nothing, and the server refused writes for good.
#[test]
fn flushall_empties_a_full_disk() {
    let disk = MemoryStorage::new();
    let server = Server::start(open_db_on(&disk), options()).unwrap();
    let mut client = Client::connect(&server);
    let value = "v".repeat(100_000);
    assert_eq!(client.ask("SET first 1"), "OK");
    disk.set_capacity(Some(used(&disk) + (24 << 20)));
    let mut set = |i: u32| client.ask(&format!("SET key-{i} {i}{value}"));
    let mut full = None;
    for i in 0..2000 {
        if let Value::Error(error) = set(i) {
            full = Some((i, error));
            break;
        }
    }
    let (filled, error) = full.expect("the disk is bounded");
    assert!(error.contains("no space"), "{error}");
    assert_eq!(client.ask("FLUSHALL"), "OK");
    assert_eq!(client.ask("GET first"), Value::Null);
    // The files are removed in the background.
    let clock = SystemClock::new();
    while client.ask("SET first 2") != "OK" {
        assert!(clock.monotonic_ns() < support::PATIENCE.as_nanos() as u64, "nothing is freed");
        clock.sleep(Duration::from_millis(5));
    }
    for i in 0..filled / 3 {
        assert_eq!(client.ask(&format!("SET key-{i} {i}{value}")), "OK", "{i} of {filled}");
    }
    server.shutdown(support::PATIENCE);
}

/// `FLUSHALL` took 65 KB of log for each keyspace, and as much of each table: more than a small disk
/// had left.
#[test]
fn flushall_empties_a_full_small_disk() {
    let clock = SystemClock::new();
    for mib in [1, 2, 4, 16] {
        let disk = MemoryStorage::new();
        let server = Server::start(open_db_on(&disk), options()).unwrap();
        let mut client = Client::connect(&server);
        assert_eq!(client.ask("SET first 1"), "OK");
        disk.set_capacity(Some(used(&disk) + (mib << 20)));
        let mut random = mib;
        for round in 0..3 {
            let mut set = |i: u32| {
                let mut word = || {
                    random = (random ^ (random >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    format!("{random:016x}")
                };
                let value: String = (0..187).map(|_| word()).collect();
                client.ask(&format!("SET key-{i} {value}"))
            };
            let refused_at = (0..).find(|&i| set(i) != "OK").unwrap();
            assert!(refused_at > 10, "{refused_at} in round {round} of {mib} MiB");
            assert_eq!(client.ask("FLUSHALL"), "OK");
            let began_ns = clock.monotonic_ns();
            while client.ask("SET first 2") != "OK" {
                let waited = Duration::from_nanos(clock.monotonic_ns() - began_ns);
                assert!(waited < support::PATIENCE, "{mib} MiB: nothing is freed");
                clock.sleep(Duration::from_millis(5));
            }
        }
        server.shutdown(support::PATIENCE);
    }
}

/// A server whose disk is full at the start answers reads, and says why it refuses writes.
#[test]
fn a_server_starts_on_a_full_disk() {
    let disk = MemoryStorage::new();
    let server = Server::start(open_db_on(&disk), options()).unwrap();
    let mut client = Client::connect(&server);
    client.ask("SET string 1");
    client.ask("HSET hash field value");
    client.ask(&format!("SET long {}", "x".repeat(300_000)));
    let killed = disk.after_power_loss(Tear::KeepUnsynced);
    killed.set_capacity(Some(0));
    let server = Server::start(open_db_on(&killed), options()).unwrap();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("GET string"), "1");
    assert_eq!(client.ask("HGET hash field"), "value");
    assert_eq!(client.ask("GET long").text().len(), 300_000);
    assert_eq!(client.ask("DBSIZE"), 3);
    for command in ["SET string 2", "HSET hash field 2", "APPEND long y", "DEL string", "FLUSHALL"]
    {
        match client.ask(command) {
            Value::Error(error) => assert!(error.contains("no space is left"), "{error}"),
            reply => panic!("{command}: {reply:?}"),
        }
    }
    assert_eq!(client.ask("GET string"), "1");
    server.shutdown(support::PATIENCE);
}
