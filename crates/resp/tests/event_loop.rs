//! Writes on the event loop: which writes run there, that all clients see them at once, and that a
//! slow disk does not delay other clients.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::{Client, Value, open_db_with, options, start, start_with};
use tidekv::{Durability, Environment};
use tidekv_io::{Clock, MemoryStorage, Operation, SystemClock, threads};
use tidekv_resp::{Server, ServerOptions};

/// The server's count of commands answered on the event loop.
fn on_the_loop(client: &mut Client) -> u64 {
    client.info("stats", "tidekv_commands_from_memory")
}

#[test]
fn buffered_writes_need_no_other_thread() {
    let server = start();
    let mut client = Client::connect(&server);
    let before = on_the_loop(&mut client);
    let commands =
        ["SET a 1", "INCR a", "APPEND a x", "MSET b 1 c 2", "DEL b", "SETNX b 1", "EXPIRE c 100"];
    client.ask_all(&commands);
    commands.iter().for_each(|command| drop(client.ask(command)));
    // No other client writes, so none of them must wait.
    assert_eq!(on_the_loop(&mut client) - before, 2 * commands.len() as u64);
    // The first hash waits for transactions that have seen no hash.
    assert_eq!(client.ask("HSET h f v"), 1);
    assert_eq!(client.ask("HSET h g w"), 1);
    assert_eq!(on_the_loop(&mut client) - before, 2 * commands.len() as u64 + 1);
}

#[test]
fn synced_and_large_writes_run_on_io_threads() {
    let server = start_with(ServerOptions { durability: Durability::Sync, ..options() });
    let mut client = Client::connect(&server);
    let before = on_the_loop(&mut client);
    client.ask_all(&["SET a 1", "INCR a", "DEL a"]);
    assert_eq!(on_the_loop(&mut client) - before, 0);

    let server = start();
    let mut client = Client::connect(&server);
    let before = on_the_loop(&mut client);
    let large = format!("SET a {}", "x".repeat(100_000));
    assert_eq!(client.ask(&large), "OK");
    assert_eq!(client.ask("STRLEN a"), 100_000);
    assert_eq!(on_the_loop(&mut client) - before, 1);
    // A reply this large ends the batch; the rest is another.
    let replies = client.ask_all(&["SET b 1", "GET a", "GET a", "INCR b", "GET b"]);
    assert_eq!(replies[4], "2");
    assert_eq!(replies[2], replies[1]);
}

#[test]
fn acknowledged_writes_are_visible_to_all_clients() {
    let server = Arc::new(start());
    let stop = Arc::new(AtomicBool::new(false));
    let noise: Vec<_> = (0..3)
        .map(|number| {
            let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
            let make_noise = move || {
                let mut client = Client::connect(&server);
                let set = format!("SET noise{number} x");
                while !stop.load(Ordering::Relaxed) {
                    client.ask_all(&[&*set; 20]);
                }
            };
            threads::spawn("noise", make_noise).unwrap()
        })
        .collect();
    let mut writer = Client::connect(&server);
    let mut readers: Vec<_> = (0..4).map(|_| Client::connect(&server)).collect();
    for i in 0..1000 {
        let reader = &mut readers[i % 4];
        assert_eq!(writer.ask(&format!("SET k {i}")), "OK");
        assert_eq!(reader.ask("GET k"), &*i.to_string());
        assert_eq!(reader.ask("INCR k"), i as i64 + 1);
        assert_eq!(writer.ask("GET k"), &*(i + 1).to_string());
    }
    stop.store(true, Ordering::Relaxed);
    noise.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_slow_disk_delays_only_writers() {
    let clock = Arc::new(SystemClock::new());
    let disk = MemoryStorage::new();
    let environment = Environment::default().storage(Arc::new(disk.clone()));
    let one_loop = ServerOptions { event_loops: Some(1), ..options() };
    let server = Server::start(open_db_with(environment), one_loop).unwrap();
    let (mut reader, mut writer) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(writer.ask("SET k 0"), "OK");
    let before = on_the_loop(&mut reader);
    let pause = Duration::from_millis(50);
    let slow = Arc::clone(&clock);
    disk.on_operation(move |record| {
        if record.operation == Operation::Write {
            slow.sleep(pause);
        }
    });
    let started = clock.monotonic_ns();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let writing = threads::spawn("writer", move || {
        (1..=40).for_each(|i| assert_eq!(writer.ask(&format!("SET k {i}")), "OK"));
        over.store(true, Ordering::Relaxed);
    });
    let (mut reads, mut held_up) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let began = clock.monotonic_ns();
        assert_eq!(reader.ask("GET other"), Value::Null);
        reads += 1;
        held_up += u64::from(clock.monotonic_ns() - began > 40_000_000);
    }
    writing.unwrap().join().unwrap();
    disk.clear_on_operation();
    assert_eq!(reader.ask("GET k"), "40");
    // The first was tried on the event loop, and others less and less often: 0.1, 0.2, 0.4, …
    // seconds apart. Two more are granted to a busy machine.
    let writes = on_the_loop(&mut reader) - before - reads - 1;
    let tenths = (clock.monotonic_ns() - started) / 100_000_000;
    let most = 1 + u64::from((tenths + 1).ilog2()) + 2;
    assert!((1..=most).contains(&writes), "{writes} of 40 slow writes on the event loop");
    assert!(4 * held_up < reads, "{held_up} of {reads} reads were held up");
}
