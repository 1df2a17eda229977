//! What the server tells about itself and its connections, and what connections do to each other:
//! random keys, `INFO`, `MONITOR`, `SLOWLOG`, `LATENCY` and `CLIENT`.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use support::{Client, Value, list, open_db_at, options, start};
use tidekv_io::{Clock, SystemClock};
use tidekv_resp::Server;

#[test]
fn random_keys_are_about_equally_likely() {
    let server = start();
    let mut client = Client::connect(&server);
    (1..=100).for_each(|i| {
        client.ask(&format!("SET user:{i} v"));
    });
    client.ask("HSET hash f v");
    let mut drawn: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..200 {
        for key in client.ask_all(&["RANDOMKEY"; 50]) {
            *drawn.entry(key.text()).or_default() += 1;
        }
    }
    assert_eq!(drawn.len(), 101, "each key is drawn");
    for (key, count) in drawn {
        assert!((40..200).contains(&count), "{key}: {count} of 10000");
    }
}

#[test]
fn random_keys_are_found_among_removed_ones_and_own_writes() {
    let server = start();
    let mut client = Client::connect(&server);
    for i in 0..5_000 {
        client.ask(&format!("SET k{i} v"));
    }
    for i in (0..5_000).filter(|i| i % 2_500 != 7) {
        client.ask(&format!("DEL k{i}"));
    }
    let found: BTreeSet<String> = (0..60).map(|_| client.ask("RANDOMKEY").text()).collect();
    assert_eq!(found, BTreeSet::from(["k7".to_owned(), "k2507".to_owned()]));
    client.ask("FLUSHALL");
    assert_eq!(client.ask("RANDOMKEY"), Value::Null);
    let replies = client.ask_all(&["MULTI", "SET own v", "RANDOMKEY", "EXEC"]);
    assert_eq!(replies[3], list(["OK", "own"]));
}

#[test]
fn info_counts_keys_and_deadlines_of_each_database() {
    let (db, _clock) = open_db_at(1_700_000_000_000);
    let server = Server::start(db, options()).unwrap();
    let mut client = Client::connect(&server);
    (0..1_000).for_each(|_| {
        client.ask("SET k v");
    });
    client.ask_all(&["SET e v PX 4000", "HSET h f v", "HSET i f v", "PEXPIRE i 2000"]);
    client.ask_all(&["SELECT 3", "SET a v"]);
    let text = client.ask("INFO keyspace").text();
    let expected = "# Keyspace\r\ndb0:keys=4,expires=2,avg_ttl=3000\r\n\
                    db3:keys=1,expires=0,avg_ttl=0\r\n";
    assert_eq!(text, expected);
}

#[test]
fn info_estimates_large_databases() {
    let server = start();
    let mut client = Client::connect(&server);
    for i in 0..15_000 {
        let deadline = if i % 3 == 0 { " PXAT 9999999999999" } else { "" };
        client.ask(&format!("SET k{} v{deadline}", i % 9_000));
    }
    let text = client.ask("INFO keyspace").text();
    let line = text.lines().nth(1).unwrap();
    let number = |name: &str| -> u64 {
        let at = line.find(name).unwrap() + name.len() + 1;
        let digits: String = line[at..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    // Keys whose last write had a deadline.
    let expires = (0..9_000).filter(|k| if *k < 6_000 { (k + 9_000) % 3 == 0 } else { k % 3 == 0 });
    let expires = expires.count() as u64;
    assert!(number("keys").abs_diff(9_000) < 1_500, "{line}");
    assert!(number("expires").abs_diff(expires) < 1_000, "{line}, not {expires}");
}

#[test]
fn info_has_every_field_of_redis() {
    let server = start();
    let mut client = Client::connect(&server);
    let text = client.ask("INFO everything").text();
    let mut section = "";
    let mut fields: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        match (line.strip_prefix("# "), line.split_once(':')) {
            (Some(name), _) => section = name,
            (None, Some((name, _))) => {
                fields.entry(section).or_default().insert(name);
            }
            (None, None) => {}
        }
    }
    let mut missing = Vec::new();
    for line in include_str!("../testdata/redis_info_fields.txt").lines() {
        match line.strip_prefix("# ") {
            Some(name) => section = name,
            None if fields.get(section).is_some_and(|fields| fields.contains(line)) => {}
            None => missing.push(format!("{section}: {line}")),
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
    assert!(client.ask("INFO cluster").text().contains("cluster_enabled:0\r\n"));
    assert!(client.ask("INFO commandstats").text().contains("\ncmdstat_info:calls=2,usec="));
    assert!(!client.ask("INFO").text().contains("cmdstat_"), "it is long");
}

#[test]
fn statistics_start_again_after_a_reset() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask_all(&["GET missing", "GET a b", "HGET s f", "SET s v", "HGET s f"]);
    assert!(client.info("stats", "keyspace_misses") > 0);
    assert_eq!(client.info("stats", "total_error_replies"), 2);
    let text = client.ask("INFO errorstats").text();
    assert!(text.contains("errorstat_ERR:count=1\r\nerrorstat_WRONGTYPE:count=1\r\n"), "{text}");
    client.ask("CONFIG RESETSTAT");
    assert_eq!(client.info("stats", "keyspace_misses"), 0);
    assert_eq!(client.ask("INFO errorstats"), "# Errorstats\r\n");
    assert!(!client.ask("INFO commandstats").text().contains("cmdstat_hget"));
}

#[test]
fn monitors_see_commands_as_they_are_executed() {
    let server = start();
    let (mut monitor, mut client) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(monitor.ask("MONITOR"), "OK");
    client.ask_all(&["SET k v", "CONFIG GET port", "SELECT 2", "MULTI", "GET k", "EXEC", "GET k"]);
    client.ask_all(&["AUTH secret", "WATCH k", "KEYS *", "GET k l"]);
    let mut seen = Vec::new();
    for _ in 0..9 {
        let line = monitor.read().text();
        let (when, rest) = line.split_once(" [").unwrap();
        assert!(when.split_once('.').unwrap().1.len() == 6, "{line}");
        let (origin, words) = rest.split_once("] ").unwrap();
        seen.push(format!("{} {words}", origin.split(' ').next().unwrap()));
    }
    let expected = [
        "0 \"SET\" \"k\" \"v\"",
        "2 \"SELECT\" \"2\"",
        "2 \"MULTI\"",
        "2 \"GET\" \"k\"",
        "2 \"EXEC\"",
        "2 \"GET\" \"k\"",
        "2 \"AUTH\" \"(redacted)\"",
        "2 \"WATCH\" \"k\"",
        "2 \"KEYS\" \"*\"",
    ];
    assert_eq!(seen, expected, "settings are not shown");
    // A server with calls of several connections in one commit shows them once too.
    client.ask_all(&["CONFIG SET appendfsync always", "SET k w"]);
    assert!(monitor.read().text().ends_with("\"SET\" \"k\" \"w\""));
    // A reset ends it.
    assert_eq!(monitor.ask("RESET"), "RESET");
    client.ask("SET k w");
    assert_eq!(monitor.ask("PING"), "PONG");
}

#[test]
fn slow_commands_are_logged() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask_all(&["CLIENT SETNAME me", "CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET"]);
    client.ask("SET k v");
    let entries = client.ask("SLOWLOG GET 1").items();
    let entry = entries.into_iter().next().unwrap().items();
    assert_eq!(entry[3], list(["SET", "k", "v"]));
    assert_eq!(entry[5], "me");
    client.ask_all(&["CONFIG SET slowlog-max-len 2", "PING", "PING", "PING"]);
    assert_eq!(client.ask("SLOWLOG LEN"), 2);
    client.ask_all(&["CONFIG SET slowlog-log-slower-than -1", "SLOWLOG RESET", "PING"]);
    assert_eq!(client.ask("SLOWLOG LEN"), 0);
    // An hour: nothing is that slow.
    client.ask("CONFIG SET slowlog-log-slower-than 3600000000");
    client.ask("PING");
    assert_eq!(client.ask("SLOWLOG LEN"), 0);
}

#[test]
fn histograms_count_the_calls_of_commands() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask_all(&["SET k v", "GET k", "GET k"]);
    let histogram = client.ask("LATENCY HISTOGRAM get").items();
    assert_eq!(histogram[0], "get");
    let facts = histogram[1].clone().items();
    assert_eq!((&facts[0], &facts[1]), (&Value::Text("calls".into()), &Value::Integer(2)));
    let buckets = facts[3].clone().items();
    assert_eq!(buckets.last(), Some(&Value::Integer(2)));
    assert_eq!(client.ask("LATENCY HISTOGRAM hget"), Value::List(Vec::new()));
    assert!(client.ask("LATENCY DOCTOR").text().contains("off"));
    client.ask("CONFIG SET latency-monitor-threshold 3600000");
    client.ask("GET k");
    assert_eq!(client.ask("LATENCY LATEST"), Value::List(Vec::new()));
}

#[test]
fn the_times_of_commands_do_not_overlap() {
    let clock = SystemClock::new();
    let server = start();
    let mut client = Client::connect(&server);
    for _ in 0..20 {
        client.ask_all(&["SET k v", "GET k", "PING", "MULTI", "GET k", "EXEC", "KEYS *"]);
    }
    let text = client.ask("INFO commandstats").text();
    let passed_us = clock.monotonic_ns() / 1000;
    let times = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(",usec=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    });
    let total_us: u64 = times.sum();
    assert!(total_us <= passed_us, "{total_us} of {passed_us}: {text}");
}

#[test]
fn killed_clients_are_disconnected() {
    let server = start();
    let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
    let Value::Integer(id) = other.ask("CLIENT ID") else { panic!() };
    assert_eq!(client.ask(&format!("CLIENT KILL ID {id}")), 1);
    assert!(other.is_closed());
    let mut third = Client::connect(&server);
    third.ask("PING");
    assert_eq!(client.ask("CLIENT KILL TYPE normal SKIPME yes"), 1);
    assert!(third.is_closed());
    // The own connection gets its reply.
    assert_eq!(client.ask("CLIENT KILL TYPE normal SKIPME no"), 1);
    assert!(client.is_closed());
}

#[test]
fn a_pause_holds_commands_until_it_ends() {
    let server = start();
    let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(client.ask("CLIENT PAUSE 3600000 WRITE"), "OK");
    assert_eq!(other.ask("GET k"), Value::Null);
    other.send(b"SET k v\r\nGET k\r\n");
    other.send(b"MULTI\r\n");
    assert_eq!(client.ask("GET k"), Value::Null, "the write waits");
    assert_eq!(client.ask("CLIENT UNPAUSE"), "OK");
    assert_eq!(other.read(), "OK");
    assert_eq!(other.read(), "v");
    assert_eq!(other.read(), "OK");
    // All commands of all connections, for a while.
    assert_eq!(client.ask("CLIENT PAUSE 30"), "OK");
    assert_eq!(other.ask("DISCARD"), "OK");
    // A server in a pause can be shut down.
    assert_eq!(client.ask("CLIENT PAUSE 3600000"), "OK");
    other.send(b"SET k w\r\n");
    assert!(server.shutdown(Duration::from_secs(10)));
}

#[test]
fn replies_can_be_switched_off() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send(b"CLIENT REPLY OFF\r\nSET k v\r\nGET k\r\nCLIENT REPLY ON\r\n");
    assert_eq!(client.read(), "OK");
    client.send(b"CLIENT REPLY SKIP\r\nGET k\r\nSTRLEN k\r\n");
    assert_eq!(client.read(), 1);
    client.send(b"CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nRESET\r\nPING\r\n");
    assert_eq!(client.read(), "RESET");
    assert_eq!(client.read(), "PONG");
}

#[test]
fn lists_of_clients_show_the_database() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("SELECT 11");
    assert!(client.ask("CLIENT INFO").text().contains(" db=11 "));
    client.ask("CLIENT NO-EVICT ON");
    assert!(client.ask("CLIENT INFO").text().contains(" flags=e "));
    client.ask("RESET");
    let info = client.ask("CLIENT LIST").text();
    assert!(info.contains(" db=0 ") && info.contains(" flags=N "), "{info}");
}

#[test]
fn the_time_has_microseconds() {
    let (db, _clock) = open_db_at(1_700_000_000_123);
    let server = Server::start(db, options()).unwrap();
    let time = Client::connect(&server).ask("TIME").items();
    assert_eq!(time[0], "1700000000");
    assert_eq!(time[1].clone().text().parse::<u32>().unwrap() / 1000, 123);
}
