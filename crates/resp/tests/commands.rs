//! Commands whose replies do not fit a golden file: TideKV's own, those that depend on time or
//! order, and the state behind the replies.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::{Client, PATIENCE, Value, list, open_db, open_db_at, options, start};
use tidekv_io::{Clock, SystemClock};
use tidekv_resp::Server;

const NOW_MS: u64 = 1_700_000_000_000;

#[test]
fn ranges_have_bounds_limits_and_directions() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("MSET a 1 b 2 c 3 d 4 (x 5 - 6");
    client.ask("HSET bb f v");
    for (arguments, expected) in [
        ("b c", vec!["b", "2", "c", "3"]),
        ("[b [c", vec!["b", "2", "c", "3"]),
        ("(b (d", vec!["c", "3"]),
        ("c +", vec!["c", "3", "d", "4"]),
        ("- + KEYSONLY", vec!["(x", "-", "a", "b", "c", "d"]),
        ("- + KEYSONLY LIMIT 2", vec!["(x", "-"]),
        ("a + REVERSE KEYSONLY LIMIT 3", vec!["d", "c", "b"]),
        ("[(x [(x", vec!["(x", "5"]),
        ("[- [-", vec!["-", "6"]),
        ("a a", vec!["a", "1"]),
        ("(a a", vec![]),
        ("d a", vec![]),
        ("+ -", vec![]),
        ("- + LIMIT 0", vec![]),
        ("c + LIMIT -1", vec!["c", "3", "d", "4"]),
        ("x z", vec![]),
    ] {
        let texts = expected.iter().map(|text| Value::Text((*text).into())).collect();
        let got = client.ask(&format!("TIDE.RANGE {arguments}"));
        assert_eq!(got, Value::List(texts), "{arguments}");
    }
    assert!(client.ask("TIDE.RANGE a").is_error("ERR wrong number"));
    assert!(client.ask("TIDE.RANGE a b LIMIT").is_error("ERR syntax"));
    assert!(client.ask("TIDE.RANGE a b LIMIT x").is_error("ERR value is not an integer"));
    assert!(client.ask("TIDE.RANGE a b BACKWARDS").is_error("ERR syntax"));
}

/// All elements of a walk with `command`, and the number of calls.
fn scan_all(client: &mut Client, command: &str, options: &str) -> (Vec<String>, usize) {
    let (mut cursor, mut elements, mut calls) = ("0".to_string(), Vec::new(), 0);
    loop {
        let mut reply = client.ask(&format!("{command} {cursor}{options}")).items();
        calls += 1;
        elements.extend(reply.pop().unwrap().items().into_iter().map(Value::text));
        cursor = reply.pop().unwrap().text();
        if cursor == "0" {
            return (elements, calls);
        }
        assert!(cursor.parse::<u64>().unwrap() < 1 << 53);
    }
}

#[test]
fn scans_return_every_element_once() {
    let server = start();
    let mut client = Client::connect(&server);
    for i in 0..200 {
        client.ask(&format!("SET key:{i} v"));
        client.ask(&format!("HSET hash:{i} f v"));
    }
    let (all, calls) = scan_all(&mut client, "SCAN", "");
    assert_eq!((all.len(), calls), (400, 40));
    assert!(all.is_sorted());
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 400);
    for (options, expected) in [
        (" MATCH key:1*", 111),
        (" MATCH *:7?", 20),
        (" TYPE hash COUNT 100", 200),
        (" MATCH key:* TYPE hash", 0),
        (" MATCH [hk]*:5 COUNT 1", 2),
    ] {
        assert_eq!(scan_all(&mut client, "SCAN", options).0.len(), expected, "{options}");
    }
    let Value::List(keys) = client.ask("KEYS key:19*") else { panic!() };
    assert_eq!(keys.len(), 11);
    assert_eq!(client.ask("DBSIZE"), 400);
    let Value::Text(key) = client.ask("RANDOMKEY") else { panic!() };
    assert_eq!(client.ask(&format!("EXISTS {key}")), 1);
}

/// A step that found only deleted keys passed all of them: 400,000 took 260 ms.
#[test]
fn scans_pass_a_bounded_number_of_deleted_elements() {
    let server = start();
    let mut client = Client::connect(&server);
    let ids: Vec<usize> = (0..25_000).collect();
    for of_step in ids.chunks(500) {
        let both = |i: &usize| format!(" key:{i:05} v");
        let keys: String = of_step.iter().map(both).collect();
        let fields: String = of_step.iter().map(|i| format!(" field{i:05} v")).collect();
        client.ask(&format!("MSET{keys}"));
        client.ask(&format!("HSET hash{fields}"));
    }
    for of_step in ids.chunks(500) {
        let is_deleted = |i: &&usize| **i != 24_000;
        let names = |name: &str| -> String {
            of_step.iter().filter(is_deleted).map(|i| format!(" {name}{i:05}")).collect()
        };
        client.ask(&format!("DEL{}", names("key:")));
        client.ask(&format!("HDEL hash{}", names("field")));
    }
    let (keys, calls) = scan_all(&mut client, "SCAN", "");
    assert_eq!(keys, ["hash", "key:24000"]);
    assert!((3..6).contains(&calls), "{calls}");
    let (keys, calls) = scan_all(&mut client, "SCAN", " MATCH key:2* COUNT 100000");
    assert_eq!(keys, ["key:24000"]);
    assert!(calls < 4, "{calls}");
    let (fields, calls) = scan_all(&mut client, "HSCAN hash", "");
    assert_eq!(fields, ["field24000", "v"]);
    assert!((3..6).contains(&calls), "{calls}");
    assert_eq!(client.ask("DBSIZE"), 2);
    assert_eq!(client.ask("HLEN hash"), 1);
}

#[test]
fn scans_return_unchanged_elements_while_others_change() {
    let server = start();
    let mut client = Client::connect(&server);
    let mut other = Client::connect(&server);
    for i in 0..100 {
        client.ask(&format!("SET stays{i:03} v"));
    }
    let (mut cursor, mut seen) = ("0".to_string(), BTreeSet::new());
    for round in 0.. {
        let mut reply = client.ask(&format!("SCAN {cursor} COUNT 7")).items();
        seen.extend(reply.pop().unwrap().items().into_iter().map(Value::text));
        cursor = reply.pop().unwrap().text();
        if cursor == "0" {
            break;
        }
        other.ask(&format!("SET passing{round:03} v"));
        other.ask(&format!("DEL passing{:03}", round - 2));
        scan_all(&mut other, "SCAN", "");
    }
    assert_eq!(seen.iter().filter(|key| key.starts_with("stays")).count(), 100);
    // An old cursor, or one of another server, starts from the beginning.
    let mut reply = client.ask("SCAN 12345 COUNT 1000").items();
    assert!(reply.pop().unwrap().items().len() >= 100);
}

#[test]
fn hashes_are_scanned_by_their_fields() {
    let server = start();
    let mut client = Client::connect(&server);
    for i in 0..100 {
        client.ask(&format!("HSET big field{i:03} {i}"));
    }
    client.ask("HSET other x y");
    let (all, calls) = scan_all(&mut client, "HSCAN big", "");
    assert_eq!((all.len(), calls), (200, 10));
    assert_eq!(all[..2], ["field000", "0"]);
    assert_eq!(scan_all(&mut client, "HSCAN big", " MATCH *7").0.len(), 20);
    let Value::List(reply) = client.ask("HSCAN big 0") else { panic!() };
    let cursor = reply[0].clone().text();
    assert_eq!(
        client.ask(&format!("HSCAN other {cursor}")).items()[1],
        list(["x", "y"]),
        "a cursor of one hash begins another from the start"
    );
}

#[test]
fn keys_expire_at_their_deadline() {
    let (db, clock) = open_db_at(NOW_MS);
    let server = Server::start(db, options()).unwrap();
    let mut client = Client::connect(&server);
    client.ask("SET s v PX 1500");
    client.ask("HSET h f v");
    client.ask("PEXPIRE h 1500");
    assert_eq!(client.ask("TTL s"), 2);
    assert_eq!(client.ask("PTTL h"), 1500);
    assert_eq!(client.ask("PEXPIRETIME s"), NOW_MS as i64 + 1500);
    clock.advance(Duration::from_millis(1499));
    assert_eq!(client.ask("EXISTS s h"), 2);
    assert_eq!(client.ask("PTTL s"), 1);
    clock.advance(Duration::from_millis(1));
    assert_eq!(client.ask("EXISTS s h"), 0);
    assert_eq!(client.ask("TTL h"), -2);
    assert_eq!(client.ask("DBSIZE"), 0);
    assert_eq!(client.ask("KEYS *"), Value::List(Vec::new()));
    // A new hash of the same name has none of the old fields.
    assert_eq!(client.ask("HSET h g w"), 1);
    assert_eq!(client.ask("HGETALL h"), list(["g", "w"]));
    assert_eq!(client.ask("HGET h f"), Value::Null);
    assert_eq!(client.ask("TTL h"), -1);
    assert_eq!(client.ask("SETEX s 1 v"), "OK");
    clock.advance(Duration::from_secs(1));
    assert_eq!(client.ask("SETNX s w"), 1);
}

/// Waits until a keyspace has `expected` entries after sweeps.
fn wait_for_entries(db: &tidekv::Db, keyspace: &str, expected: usize) {
    let keyspace = db.keyspace(keyspace).unwrap();
    for _ in 0..PATIENCE.as_millis() / 100 {
        if keyspace.iter().count() == expected {
            return;
        }
        SystemClock::new().sleep(Duration::from_millis(100));
    }
    panic!("{} entries in {} stay", keyspace.iter().count(), keyspace.name());
}

#[test]
fn fields_of_deleted_hashes_are_swept() {
    let (db, clock) = open_db_at(NOW_MS);
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    for i in 0..500 {
        client.ask(&format!("HSET large f{i} v"));
    }
    client.ask("HSET deleted a 1 b 2");
    client.ask("HSET expiring a 1 b 2");
    client.ask("HSET renamed a 1");
    client.ask("HSET kept a 1");
    client.ask("HSET overwritten a 1");
    client.ask("EXPIRE expiring 10");
    client.ask("EXPIRE renamed 10");
    client.ask("EXPIRE kept 10");
    client.ask("RENAME renamed moved");
    client.ask("PERSIST kept");
    client.ask("SET overwritten s");
    client.ask("COPY kept copied");
    assert_eq!(client.ask("DEL large deleted"), 2);
    clock.advance(Duration::from_secs(11));
    wait_for_entries(&db, "hash.garbage", 0);
    wait_for_entries(&db, "hash.fields", 2);
    assert_eq!(client.ask("KEYS *"), list(["copied", "kept", "overwritten"]));
    assert_eq!(client.ask("HGETALL copied"), list(["a", "1"]));
}

#[test]
fn a_pipeline_sees_its_own_writes() {
    let server = start();
    let mut client = Client::connect(&server);
    let replies = client.ask_all(&[
        "SET a 1",
        "GET a",
        "INCR a",
        "HSET a f v",
        "HSET h f 1",
        "HINCRBY h f 4",
        "HGETALL h",
        "KEYS *",
        "DEL h",
        "HGETALL h",
        "MGET a h",
        "FLUSHALL",
        "DBSIZE",
        "GET a",
        "INCR a",
        "EXISTS a h",
        "RENAME a b",
        "GET b",
        "SCAN 0",
    ]);
    let shown: Vec<_> = replies.iter().map(|reply| format!("{reply:?}")).collect();
    assert_eq!(replies[2], 2, "{shown:?}");
    assert!(replies[3].is_error("WRONGTYPE"), "{shown:?}");
    assert_eq!(replies[5], 5, "{shown:?}");
    assert_eq!(replies[6], list(["f", "5"]), "{shown:?}");
    assert_eq!(replies[7], list(["a", "h"]), "{shown:?}");
    assert_eq!(replies[9], Value::List(Vec::new()), "{shown:?}");
    assert_eq!(replies[10], Value::List(vec![Value::Text("2".into()), Value::Null]));
    assert_eq!(replies[12], 0, "{shown:?}");
    assert_eq!(replies[13], Value::Null, "{shown:?}");
    assert_eq!(replies[14], 1, "{shown:?}");
    assert_eq!(replies[15], 1, "{shown:?}");
    assert_eq!(replies[17], "1", "{shown:?}");
    assert_eq!(replies[18].clone().items()[1], list(["b"]), "{shown:?}");
}

#[test]
fn strings_are_those_of_the_embedded_store() {
    let db = open_db();
    let strings = db.keyspace("default").unwrap();
    strings.put("from store", "v").unwrap();
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    client.send(b"GET \"from store\"\r\n");
    assert_eq!(client.read(), "v");
    client.ask("SET from:server w");
    assert_eq!(strings.get("from:server").unwrap().unwrap(), "w");
    // A string added to a key with a hash hides the hash from string commands.
    client.ask("HSET both f v");
    strings.put("both", "s").unwrap();
    assert_eq!(client.ask("GET both"), "s");
    assert_eq!(client.ask("HGET both f"), "v");
    assert_eq!(client.ask("KEYS b*"), list(["both"]));
    assert_eq!(client.ask("DEL both"), 1);
    assert_eq!(client.ask("EXISTS both"), 0);
    assert_eq!(client.ask("HLEN both"), 0);
}

#[test]
fn bounds_of_the_store_are_errors_of_one_command() {
    let server = start();
    let mut client = Client::connect(&server);
    let long = "k".repeat(65_537);
    let replies = client.ask_all(&[
        "SET before 1",
        &format!("SET {long} v"),
        &format!("MSET x 1 {long} v"),
        &format!("GET {long}"),
        &format!("DEL {long}"),
        &format!("HSET h {long} v"),
        &format!("HSET h {} v", &long[..65_520]),
        &format!("APPEND {long} v"),
        "SETRANGE a 268435456 x",
        "SETRANGE a 536870912 x",
        "SET after 1",
    ]);
    for refused in [1, 2, 5, 7, 9] {
        assert!(replies[refused].is_error("ERR "), "{refused}: {:?}", replies[refused]);
    }
    assert_eq!(replies[8], 268_435_457);
    assert_eq!(replies[3], Value::Null);
    assert_eq!(replies[4], 0);
    assert_eq!(replies[6], 1);
    assert_eq!(client.ask("MGET before after"), list(["1", "1"]));
    assert_eq!(client.ask("EXISTS x"), 0);
    assert_eq!(client.ask("HLEN h"), 1);
}

#[test]
fn info_and_client_list_describe_the_server() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("CLIENT SETNAME worker");
    client.ask("CLIENT SETINFO LIB-NAME lib");
    client.ask("CLIENT SETINFO lib-ver 1.2");
    let mut other = Client::connect(&server);
    let Value::Integer(id) = other.ask("CLIENT ID") else { panic!() };
    other.ask("MULTI");
    other.ask("PING");
    let all = client.ask("CLIENT LIST").text();
    assert_eq!(all.lines().count(), 2);
    assert!(all.contains("name=worker") && all.contains("lib-name=lib lib-ver=1.2"), "{all}");
    assert!(all.contains("cmd=client|list"), "{all}");
    let one = client.ask(&format!("CLIENT LIST ID {id} 99")).text();
    assert!(one.starts_with(&format!("id={id} ")) && one.contains("flags=x"), "{one}");
    assert!(one.contains("multi=1"), "{one}");
    assert_eq!(client.ask("CLIENT LIST TYPE pubsub"), "");
    let info = client.ask("INFO").text();
    for line in ["# Server", "redis_version:", "connected_clients:2", "# TideKV", "store.writes:"] {
        assert!(info.contains(line), "{line}");
    }
    assert!(!client.ask("INFO server").text().contains("# Clients"));
    assert_eq!(client.ask("COMMAND COUNT"), client.ask("COMMAND").items().len() as i64);
    assert_eq!(client.ask("COMMAND LIST FILTERBY PATTERN hel*"), list(["hello"]));
    let docs = client.ask("COMMAND DOCS get").items();
    assert_eq!(docs[0], "get");
}

#[test]
fn settings_change_while_the_server_runs() {
    let server = start();
    let mut client = Client::connect(&server);
    let values = ["appendfsync", "no", "timeout", "0"];
    assert_eq!(client.ask("CONFIG GET timeout append?sync"), list(values));
    assert_eq!(client.ask("CONFIG SET appendfsync always timeout 100"), "OK");
    let values = ["appendfsync", "always", "timeout", "100"];
    assert_eq!(client.ask("CONFIG GET timeout append?sync"), list(values));
    // All or none.
    assert!(client.ask("CONFIG SET timeout 5 maxmemory much").is_error("ERR CONFIG SET failed"));
    assert_eq!(client.ask("CONFIG GET timeout"), list(["timeout", "100"]));
    assert_eq!(client.ask("CONFIG SET maxmemory 20000000"), "OK");
    assert_eq!(client.ask("CONFIG GET maxmemory"), list(["maxmemory", "20000000"]));
    assert_eq!(client.ask("SET durable v"), "OK");
    let everything = client.ask("CONFIG GET *").items();
    assert_eq!(everything.len(), 2 * (192 + 1), "all names of Redis 7.0, and checkpoint-dir");
}

#[test]
fn resp3_has_its_types() {
    let server = start();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("HELLO 3 SETNAME me").items().len(), 14);
    client.ask("HSET h a 1");
    for (command, expected) in [
        ("HGETALL h", "%1\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("GET nothing", "_\r\n"),
        ("CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        ("CLIENT GETNAME", "$2\r\nme\r\n"),
    ] {
        client.send(format!("{command}\r\n").as_bytes());
        assert_eq!(String::from_utf8(client.read_raw()).unwrap(), expected);
    }
    client.send(b"INFO server\r\n");
    assert!(client.read_raw().starts_with(b"="));
    client.ask("HELLO 2");
    client.send(b"GET nothing\r\n");
    assert_eq!(client.read_raw(), b"$-1\r\n");
}
