//! `MULTI`, `WATCH` and plain commands with many concurrent clients: no update is lost, no partial
//! update is visible.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{Client, PATIENCE, Value, list, open_db, options, start, start_with};
use tidekv::Durability;
use tidekv_resp::{Server, ServerOptions};

/// Runs `work` with each number below `count` in a thread of its own.
fn in_parallel(count: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let work = Arc::clone(&work);
            tidekv_io::threads::spawn("client", move || work(number)).unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A server for each durability.
fn of_each_durability() -> [Arc<Server>; 2] {
    [Durability::Buffered, Durability::Sync]
        .map(|durability| Arc::new(start_with(ServerOptions { durability, ..options() })))
}

#[test]
fn increments_are_never_lost() {
    for server in of_each_durability() {
        increment_counters(server);
    }
}

fn increment_counters(server: Arc<Server>) {
    let clients = Arc::clone(&server);
    in_parallel(8, move |number| {
        let mut client = Client::connect(&clients);
        for round in 0..50 {
            match (number + round) % 4 {
                0 => drop(client.ask_all(&["INCR n"; 10])),
                1 => (0..10).for_each(|_| assert!(!client.ask("INCRBY n 1").is_error(""))),
                2 => {
                    client.ask_all(&["MULTI", "INCRBY n 4", "HINCRBY h f 4", "INCRBY n 6", "EXEC"]);
                }
                _ => drop(client.ask_all(&["HINCRBY h f 1"; 10])),
            }
        }
    });
    let mut client = Client::connect(&server);
    // A quarter of 400 increments each.
    assert_eq!(client.ask("GET n"), "3000");
    assert_eq!(client.ask("HGET h f"), "1400");
}

#[test]
fn watched_counters_count_right() {
    let server = Arc::new(start());
    let clients = Arc::clone(&server);
    in_parallel(6, move |_| {
        let mut client = Client::connect(&clients);
        let mut done = 0;
        while done < 40 {
            assert_eq!(client.ask("WATCH n"), "OK");
            let number = match client.ask("GET n") {
                Value::Text(text) => text.parse::<i64>().unwrap(),
                _ => 0,
            };
            client.ask("MULTI");
            client.ask(&format!("SET n {}", number + 1));
            done += usize::from(client.ask("EXEC") != Value::Null);
        }
    });
    assert_eq!(Client::connect(&server).ask("GET n"), "240");
}

#[test]
fn several_keys_are_read_and_written_as_one() {
    for server in of_each_durability() {
        read_and_write_several_keys(server);
    }
}

fn read_and_write_several_keys(server: Arc<Server>) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut client = Client::connect(&server);
    client.ask("MSET a 0 b 0 c 0");
    client.ask("HSET h x 0 y 0 z 0");
    client.ask("SET flip 0");
    let (clients, stopped) = (Arc::clone(&server), Arc::clone(&stop));
    in_parallel(6, move |number| {
        let mut client = Client::connect(&clients);
        match number {
            // Writers: all keys have the same value at any moment; `flip` always exists.
            0 | 1 => {
                for round in 0..1500 {
                    let v = round * 2 + number;
                    client.ask(&format!("MSET a {v} b {v} c {v}"));
                    client.ask(&format!("HSET h x {v} y {v} z {v}"));
                    client.ask_all(&[
                        "MULTI",
                        "DEL flip",
                        "HSET flip f v",
                        "DEL flip",
                        "SET flip v",
                        "EXEC",
                    ]);
                    client.ask_all(&["MULTI", "RENAME h h2", "RENAME h2 h", "EXEC"]);
                }
                stopped.store(true, Ordering::SeqCst);
            }
            _ => {
                while !stopped.load(Ordering::SeqCst) {
                    for command in ["MGET a b c", "HMGET h x y z", "HVALS h"] {
                        let items = client.ask(command).items();
                        assert!(
                            items.len() == 3 && items.iter().all(|i| *i == items[0]),
                            "{items:?}"
                        );
                    }
                    assert_ne!(client.ask("GET flip"), Value::Null);
                    let replies = client.ask_all(&["MULTI", "GET a", "GET b", "HGET h x", "EXEC"]);
                    let items = replies[4].clone().items();
                    assert_eq!(items[0], items[1]);
                    assert_ne!(items[2], Value::Null);
                }
            }
        }
    });
    assert_eq!(client.ask("HLEN h"), 3);
}

#[test]
fn a_key_has_one_type_after_any_race() {
    for server in of_each_durability() {
        change_types_of_keys(server);
    }
}

fn change_types_of_keys(server: Arc<Server>) {
    let clients = Arc::clone(&server);
    in_parallel(6, move |number| {
        let mut client = Client::connect(&clients);
        for round in 0..300 {
            let key = format!("k{}", round % 7);
            match number % 3 {
                0 => drop(client.ask(&format!("SET {key} v"))),
                1 => drop(client.ask(&format!("HSET {key} f v"))),
                _ if round % 50 == 0 => drop(client.ask("FLUSHALL")),
                _ => drop(client.ask(&format!("DEL {key}"))),
            }
        }
    });
    let mut client = Client::connect(&server);
    for key in (0..7).map(|number| format!("k{number}")) {
        let kind = client.ask(&format!("TYPE {key}")).text();
        let as_string = client.ask(&format!("GET {key}"));
        let as_hash = client.ask(&format!("HLEN {key}"));
        match &*kind {
            "string" => assert!(as_string == "v" && as_hash.is_error("WRONGTYPE")),
            "hash" => assert!(as_string.is_error("WRONGTYPE") && as_hash == 1),
            _ => assert!(as_string == Value::Null && as_hash == 0),
        }
    }
}

#[test]
fn watches_see_every_kind_of_change() {
    let server = start();
    let mut watcher = Client::connect(&server);
    let mut other = Client::connect(&server);
    for (before, change, fails) in [
        ("DEL k", "SET k v", true),
        ("SET k v", "SET k v", true),
        ("SET k v", "DEL k", true),
        ("SET k v", "EXPIRE k 100", true),
        ("SET k v", "RENAME k k2", true),
        ("SET k2 v", "RENAME k2 k", true),
        ("SET k v", "FLUSHALL", true),
        ("DEL k", "HSET k f v", true),
        ("HSET k f v", "HSET k f v", true),
        ("HSET k f v", "HSET k g v", true),
        ("HSET k f v", "HDEL k f", true),
        ("HSET k f v", "EXPIRE k 100", true),
        ("SET k v", "GET k", false),
        ("SET k v", "SET other v", false),
        ("SET k v", "INCR k", false), // not a number
        ("SET k v", "SETNX k v", false),
        ("HSET k f v", "HDEL k none", false),
        ("HSET k f v", "HGETALL k", false),
    ] {
        for queued in ["SET marker 1", "GET marker"] {
            other.ask("FLUSHALL");
            other.ask(before);
            watcher.ask("WATCH k nothing");
            other.ask(change);
            let replies = watcher.ask_all(&["MULTI", queued, "EXEC"]);
            assert_eq!(replies[2] == Value::Null, fails, "{before}, {change}, {queued}");
        }
    }
}

#[test]
fn acknowledged_transactions_survive_a_restart() {
    let storage = tidekv_io::MemoryStorage::new();
    let open = || support::open_db_on(&storage);
    let db = open();
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    client.ask_all(&["MULTI", "SET a 1", "HSET h f v g w", "EXPIRE h 1000", "EXEC"]);
    assert!(server.shutdown(PATIENCE));
    db.close().unwrap();
    drop(db);
    let server = Server::start(open(), options()).unwrap();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("GET a"), "1");
    assert_eq!(client.ask("HGETALL h"), list(["f", "v", "g", "w"]));
    assert!(client.ask("SET h v NX") == Value::Null);
}

#[test]
fn a_failing_store_gives_an_error_instead_of_an_acknowledgement() {
    let db = open_db();
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("SET a 1"), "OK");
    db.close().unwrap();
    let replies = client.ask_all(&["SET a 2", "INCR a", "GET a", "PING"]);
    assert!(replies[..3].iter().all(|reply| reply.is_error("ERR ")), "{replies:?}");
    assert_eq!(replies[3], "PONG");
    let replies = client.ask_all(&["MULTI", "SET a 2", "EXEC", "FLUSHALL", "WATCH a"]);
    assert!(replies[2..].iter().all(|reply| reply.is_error("ERR ")), "{replies:?}");
}

#[test]
fn a_queue_is_bounded() {
    let server =
        support::start_with(tidekv_resp::ServerOptions { request_bytes_max: 1 << 20, ..options() });
    let mut client = Client::connect(&server);
    client.ask("MULTI");
    let set = format!("SET a {}", "x".repeat(300_000));
    let replies = client.ask_all(&[&*set; 5]);
    assert_eq!(replies[2], "QUEUED");
    assert!(replies[4].is_error("ERR the transaction is too large"));
    assert!(client.ask("EXEC").is_error("EXECABORT"));
    assert_eq!(client.ask("EXISTS a"), 0);
}

#[test]
fn an_expired_key_counts_as_changed_and_a_flush_changes_no_absent_key() {
    let (db, clock) = support::open_db_at(1_700_000_000_000);
    let server = Server::start(db, options()).unwrap();
    let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
    let exec =
        |client: &mut Client, command: &str| client.ask_all(&["MULTI", command, "EXEC"]).remove(2);
    for expiring in ["SET w 1 PX 50", "HSET w f 1"] {
        client.ask_all(&["DEL w", expiring, "PEXPIRE w 50", "WATCH w"]);
        clock.advance(std::time::Duration::from_millis(60));
        assert_eq!(exec(&mut client, "SET out 1"), Value::Null);
        assert_eq!(exec(&mut client, "SET out 1"), list(["OK"]), "the watch is gone");
        client.ask_all(&["DEL w", expiring, "PEXPIRE w 50", "WATCH w"]);
        clock.advance(std::time::Duration::from_millis(60));
        assert_eq!(exec(&mut client, "PING"), Value::Null);
    }
    // Expired before it was watched.
    client.ask_all(&["SET w 1 PX 50"]);
    clock.advance(std::time::Duration::from_millis(60));
    client.ask("WATCH w");
    assert_eq!(exec(&mut client, "PING"), list(["PONG"]));
    for flush in ["FLUSHALL", "FLUSHDB"] {
        client.ask("WATCH nokey");
        other.ask(flush);
        assert_eq!(exec(&mut client, "PING"), list(["PONG"]), "{flush}");
        client.ask("WATCH nokey");
        other.ask(flush);
        assert_eq!(exec(&mut client, "SET out 1"), list(["OK"]), "{flush}");
        // It was there in between.
        client.ask("WATCH nokey");
        other.ask_all(&["SET nokey v", flush]);
        assert_eq!(exec(&mut client, "SET out 1"), Value::Null, "{flush}");
        client.ask_all(&["SET there v", "WATCH there"]);
        other.ask(flush);
        assert_eq!(exec(&mut client, "PING"), Value::Null, "{flush}");
    }
}
