//! Strings in parts: they are as those in one entry, whatever is done to them; what they cost depends
//! on the bytes that are written and read.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::wire::eventually;
use support::{Client, Value, encode, open_db, open_db_at, open_db_on, options, start, start_with};
use tidekv::{Db, Environment, Options};
use tidekv_io::{InlineExecutor, MemoryStorage, Random, SeededRandom};
use tidekv_resp::Server;

/// A part, and the length from which strings are written in parts.
const PART: usize = 16 << 10;
const LONG: usize = 128 << 10;

/// Text that differs from place to place.
fn text(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + ((at * 7 + at / 251 + seed) % 26) as u8).collect()
}

fn ask(client: &mut Client, words: &[&[u8]]) -> Value {
    client.send(&encode(words));
    client.read()
}

/// The value of a bulk string, which may have any bytes.
fn bytes(client: &mut Client, words: &[&[u8]]) -> Option<Vec<u8>> {
    client.send(&encode(words));
    let raw = client.read_raw();
    assert_eq!(raw[0], b'$', "{}", String::from_utf8_lossy(&raw[..raw.len().min(100)]));
    let head = raw.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    (raw[1] != b'-').then(|| raw[head..raw.len() - 2].to_vec())
}

/// One random command on one of a few keys, and the same on a model.
fn step(client: &mut Client, model: &mut [Option<Vec<u8>>; 3], random: &SeededRandom) {
    let draw = |end: usize| (random.next_u64() % end as u64) as usize;
    // Lengths and offsets around parts, around the shortest long string, and anywhere.
    let place = || match draw(3) {
        0 => (draw(20) * PART + draw(5)).saturating_sub(2),
        1 => LONG + draw(5) - 2,
        _ => draw(2 * LONG),
    };
    let at = draw(3);
    let name = format!("key{at}");
    let key = name.as_bytes();
    let old = model[at].clone().unwrap_or_default();
    let number = |n: usize| n.to_string().into_bytes();
    match draw(16) {
        0 => {
            let value = text(draw(100), place());
            assert_eq!(ask(client, &[b"SET", key, &value]), "OK");
            model[at] = Some(value);
        }
        1..=3 => {
            let more = text(draw(100), draw(2 * PART));
            let whole = [old, more.clone()].concat();
            assert_eq!(ask(client, &[b"APPEND", key, &more]), whole.len() as i64);
            model[at] = Some(whole);
        }
        4..=6 => {
            let (offset, patch) = (place(), text(draw(100), 1 + draw(3 * PART)));
            let mut whole = old;
            whole.resize(whole.len().max(offset + patch.len()), 0);
            whole[offset..offset + patch.len()].copy_from_slice(&patch);
            let reply = ask(client, &[b"SETRANGE", key, &number(offset), &patch]);
            assert_eq!(reply, whole.len() as i64);
            model[at] = Some(whole);
        }
        7 => {
            let bit = 8 * place() + draw(8);
            let mut whole = old;
            let before = whole.get(bit / 8).map_or(0, |byte| byte >> (7 - bit % 8) & 1);
            whole.resize(whole.len().max(bit / 8 + 1), 0);
            whole[bit / 8] |= 1 << (7 - bit % 8);
            assert_eq!(ask(client, &[b"SETBIT", key, &number(bit), b"1"]), i64::from(before));
            assert_eq!(ask(client, &[b"GETBIT", key, &number(bit)]), 1);
            model[at] = Some(whole);
        }
        8 => {
            // Two fields far apart, and one over the end of a part.
            let offsets = [place(), PART - 1, place()];
            let mut words = vec![b"BITFIELD".to_vec(), key.to_vec()];
            let mut whole = old;
            for offset in offsets {
                let operation = [b"SET".to_vec(), b"u16".to_vec(), number(8 * offset)];
                words.extend(operation.into_iter().chain([b"24930".to_vec()]));
                whole.resize(whole.len().max(offset + 2), 0);
                whole[offset..offset + 2].copy_from_slice(b"ab");
            }
            let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
            assert_eq!(ask(client, &words).items().len(), 3);
            model[at] = Some(whole);
        }
        9 => {
            let (start, end) = (place(), place());
            let found = bytes(client, &[b"GETRANGE", key, &number(start), &number(end)]).unwrap();
            let end = (end + 1).min(old.len());
            assert_eq!(found, if start < end { &old[start..end] } else { b"" });
        }
        10 => {
            let ones: u32 = old.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(ask(client, &[b"BITCOUNT", key]), i64::from(ones));
            let first = place();
            let zero = (first..old.len()).find(|&at| old[at] != 0xff);
            let zero = zero.map(|at| 8 * at as i64 + i64::from(old[at].leading_ones()));
            let expected = match (old.is_empty(), zero) {
                (true, _) => 0,
                (_, Some(zero)) => zero,
                (_, None) => -1,
            };
            if model[at].is_some() || old.is_empty() {
                let reply = ask(client, &[b"BITPOS", key, b"0", &number(first)]);
                if !(old.is_empty() && model[at].is_some()) {
                    assert_eq!(reply, expected, "{first} of {}", old.len());
                }
            }
        }
        11 => {
            let to = draw(3);
            let is_done = model[at].is_some() && to != at;
            let target = format!("key{to}");
            if model[at].is_some() && to != at {
                assert_eq!(ask(client, &[b"COPY", key, target.as_bytes(), b"REPLACE"]), 1);
            }
            if is_done {
                model[to] = model[at].clone();
            }
        }
        12 => {
            let to = draw(3);
            if model[at].is_some() && to != at {
                let target = format!("key{to}");
                assert_eq!(ask(client, &[b"RENAME", key, target.as_bytes()]), "OK");
                model[to] = model[at].take();
            }
        }
        13 => {
            let value = text(draw(100), place());
            let found = bytes(client, &[b"SET", key, &value, b"GET"]);
            assert_eq!(found, model[at]);
            model[at] = Some(value);
        }
        14 => {
            assert_eq!(bytes(client, &[b"GETDEL", key]), model[at]);
            model[at] = None;
        }
        _ => {
            let target = b"key0";
            let whole: Vec<u8> = model
                .iter()
                .map(|value| value.clone().unwrap_or_default())
                .reduce(|a, b| {
                    let len = a.len().max(b.len());
                    let byte = |of: &[u8], at: usize| of.get(at).copied().unwrap_or(0);
                    (0..len).map(|at| byte(&a, at) ^ byte(&b, at)).collect()
                })
                .unwrap();
            let words: [&[u8]; 6] = [b"BITOP", b"XOR", target, b"key0", b"key1", b"key2"];
            assert_eq!(ask(client, &words), whole.len() as i64);
            model[0] = (!whole.is_empty()).then_some(whole);
        }
    }
}

/// Compares all keys with the model, by every way to read them.
fn check(client: &mut Client, model: &[Option<Vec<u8>>; 3]) {
    for (at, value) in model.iter().enumerate() {
        let key = format!("key{at}");
        let key = key.as_bytes();
        assert!(bytes(client, &[b"GET", key]) == *value, "key{at}");
        let len = value.as_ref().map_or(0, Vec::len) as i64;
        assert_eq!(ask(client, &[b"STRLEN", key]), len);
        assert_eq!(ask(client, &[b"EXISTS", key]), i64::from(value.is_some()));
        let kind = if value.is_some() { "string" } else { "none" };
        assert_eq!(ask(client, &[b"TYPE", key]), kind);
    }
    let present: Vec<usize> = (0..3).filter(|&at| model[at].is_some()).collect();
    let names: Vec<Value> = present.iter().map(|at| format!("key{at}").into()).collect();
    assert_eq!(client.ask("KEYS *").items(), names);
    assert_eq!(client.ask("SCAN 0 COUNT 100 TYPE string").items()[1], Value::List(names));
    assert_eq!(client.ask("DBSIZE"), present.len() as i64);
    // Replies with elements that are sent in pieces; the client reads them as texts.
    let is_text = |value: &Option<Vec<u8>>| {
        value.as_ref().is_none_or(|value| std::str::from_utf8(value).is_ok())
    };
    if !model.iter().all(is_text) {
        return;
    }
    let value_of = |at: usize| match &model[at] {
        None => Value::Null,
        Some(value) => String::from_utf8(value.clone()).unwrap().into(),
    };
    let values: Vec<Value> = [0, 1, 2, 0].map(value_of).into();
    assert!(client.ask("MGET key0 key1 key2 key0").items() == values);
    let replies = client.ask_all(&["MULTI", "MGET key0 key1 key2 key0", "EXEC"]);
    assert!(replies[2] == Value::List(vec![Value::List(values)]));
    for is_reverse in [false, true] {
        let mut pairs: Vec<_> =
            present.iter().map(|&at| [format!("key{at}").into(), value_of(at)]).collect();
        if is_reverse {
            pairs.reverse();
        }
        let pairs: Vec<Value> = pairs.into_iter().flatten().collect();
        let command = if is_reverse { "TIDE.RANGE - + REVERSE" } else { "TIDE.RANGE - +" };
        assert!(client.ask(command).items() == pairs, "{command}");
        let replies = client.ask_all(&["MULTI", command, "EXEC"]);
        assert!(replies[2] == Value::List(vec![Value::List(pairs)]), "{command}");
    }
}

#[test]
fn long_strings_are_as_other_strings() {
    let storage = MemoryStorage::new();
    let random = SeededRandom::new(7);
    let mut model = [const { None }; 3];
    for _ in 0..4 {
        let db = open_db_on(&storage);
        let server = Server::start(db.clone(), options()).unwrap();
        let mut client = Client::connect(&server);
        check(&mut client, &model);
        for count in 0..150 {
            step(&mut client, &mut model, &random);
            if count % 30 == 0 {
                db.flush().unwrap();
                check(&mut client, &model);
            }
        }
        check(&mut client, &model);
        drop(client);
        assert!(server.shutdown(Duration::from_secs(30)));
        db.close().unwrap();
    }
}

#[test]
fn a_transaction_sees_its_own_parts() {
    let server = start();
    let mut client = Client::connect(&server);
    let long = "x".repeat(2 * LONG);
    let replies = client.ask_all(&[
        "MULTI",
        &format!("SET k {long}"),
        "APPEND k yz",
        "SETRANGE k 1 --",
        "GETRANGE k 0 3",
        "GETRANGE k -3 -1",
        "STRLEN k",
        "EXPIRE k 100",
        "TTL k",
        "SET k short KEEPTTL",
        "TTL k",
        &format!("MSET k {long} k short k {long}a"),
        "STRLEN k",
        "EXEC",
    ]);
    let len = 2 * LONG as i64;
    let expected = [
        Value::Text("OK".into()),
        Value::Integer(len + 2),
        Value::Integer(len + 2),
        Value::Text("x--x".into()),
        Value::Text("xyz".into()),
        Value::Integer(len + 2),
        Value::Integer(1),
        Value::Integer(100),
        Value::Text("OK".into()),
        Value::Integer(100),
        Value::Text("OK".into()),
        Value::Integer(len + 1),
    ];
    assert_eq!(replies[13], Value::List(expected.into()));
    // A key that has a head, and one that does not exist, of which no head may be left behind.
    for key in ["k", "m"] {
        assert_eq!(client.ask(&format!("MSET {key} {long} {key} short")), "OK");
        assert_eq!(client.ask(&format!("MGET {key}")), support::list(["short"]));
        assert_eq!(client.ask("DBSIZE"), 1);
        assert_eq!(client.ask(&format!("RENAME {key} l")), "OK");
        assert_eq!(client.ask(&format!("EXISTS {key}")), 0);
        assert_eq!(client.ask("DEL l"), 1);
        assert_eq!(client.ask("DBSIZE"), 0);
    }
    // Numbers and hashes do not mix with them.
    client.ask(&format!("SET k {long}"));
    assert!(client.ask("INCR k").is_error("ERR value is not an integer"));
    assert!(client.ask("INCRBYFLOAT k 1").is_error("ERR value is not a valid float"));
    assert!(client.ask("HSET k f v").is_error("WRONGTYPE"));
    assert!(client.ask("HGETALL k").is_error("WRONGTYPE"));
    assert_eq!(client.ask("OBJECT ENCODING k"), "raw");
    client.ask("DEL k");
    assert_eq!(client.ask("HSET k f v"), 1);
    assert!(client.ask(&format!("APPEND k {long}")).is_error("WRONGTYPE"));
    assert!(client.ask("GETRANGE k 0 1").is_error("WRONGTYPE"));
    assert_eq!(client.ask(&format!("SET k {long}")), "OK");
    assert_eq!(client.ask("TYPE k"), "string");
}

#[test]
fn deadlines_and_databases_apply_to_the_whole() {
    let (db, clock) = open_db_at(1_800_000_000_000);
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    let long = "x".repeat(LONG);
    client.ask(&format!("SET a {long} EX 100"));
    client.ask("SET b short EX 100");
    client.ask("SETRANGE b 200000 end");
    assert_eq!(client.ask("TTL b"), 100);
    assert_eq!(client.ask("PERSIST b"), 1);
    client.ask("COPY a c DB 3");
    client.ask("MOVE b 3");
    assert_eq!(client.ask("EXISTS b"), 0);
    client.ask("SELECT 3");
    assert_eq!(client.ask("STRLEN b"), 200_003);
    assert_eq!(client.ask("GETEX c PERSIST").text().len(), LONG);
    clock.advance(Duration::from_secs(200));
    assert_eq!(client.ask("STRLEN c"), LONG as i64);
    client.ask("SELECT 0");
    assert_eq!(client.ask("STRLEN a"), 0);
    assert_eq!(client.ask("APPEND a x"), 1);
    client.ask("SELECT 3");
    assert_eq!(client.ask("FLUSHDB"), "OK");
    assert_eq!(client.ask("DBSIZE"), 0);
    // The sweeper removes the parts of all of them.
    let parts = db.keyspace("hash.fields").unwrap();
    eventually("the parts are removed", || {
        clock.advance(Duration::from_secs(1));
        parts.iter().next().is_none()
    });
}

#[test]
fn watched_long_strings_are_noticed_when_a_part_changes() {
    let server = start();
    let (mut one, mut other) = (Client::connect(&server), Client::connect(&server));
    one.ask(&format!("SET k {}", "x".repeat(LONG)));
    for (change, is_noticed) in
        [("SETRANGE k 70000 y", true), ("SETBIT k 9 0", true), ("GETRANGE k 0 9", false)]
    {
        one.ask("WATCH k");
        other.ask(change);
        let replies = one.ask_all(&["MULTI", "STRLEN k", "EXEC"]);
        assert_eq!(replies[2] == Value::Null, is_noticed, "{change}");
    }
}

#[test]
fn appends_are_linear() {
    let db = open_db();
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    let more = "x".repeat(256 << 10);
    for _ in 0..100 {
        client.ask(&format!("APPEND k {more}"));
    }
    let appended = 100 * more.len() as u64;
    assert_eq!(client.ask("STRLEN k"), appended as i64);
    let written = db.statistics().counter("log.bytes");
    assert!(written < appended + appended / 10, "{written} bytes for {appended}");
    // A few bytes cost a part, not the string.
    for _ in 0..100 {
        client.ask("APPEND k xy");
        client.ask("SETRANGE k 1000000 z");
    }
    let more = db.statistics().counter("log.bytes") - written;
    assert!(more < 200 * 2 * PART as u64, "{more}");
}

#[test]
fn what_is_not_asked_for_is_not_read() {
    let storage = Arc::new(MemoryStorage::new());
    let open = || {
        let environment = Environment::default()
            .storage(storage.clone())
            .executor(Arc::new(InlineExecutor::new()));
        Db::open("data", Options::new().environment(environment)).unwrap()
    };
    let long = "x".repeat(1 << 20);
    {
        let db = open();
        let server = Server::start(db.clone(), options()).unwrap();
        let mut client = Client::connect(&server);
        for i in 0..10 {
            client.ask(&format!("SET key{i} {long} EX 1000"));
        }
        drop(client);
        assert!(server.shutdown(Duration::from_secs(30)));
        db.flush().unwrap();
        db.close().unwrap();
    }
    let db = open();
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    let read = || db.statistics().counter("io.read_bytes");
    let before = read();
    for command in [
        "TTL key1",
        "PTTL key2",
        "EXISTS key3 key4",
        "TYPE key5",
        "STRLEN key6",
        "EXPIRE key7 2000",
        "PERSIST key8",
        "OBJECT ENCODING key9",
        "KEYS *",
        "SCAN 0",
        "DBSIZE",
        "RANDOMKEY",
        "RENAME key1 key11",
    ] {
        client.ask(command);
    }
    assert!(read() - before < 200 << 10, "{} bytes", read() - before);
    // A range costs its parts, and a string is read once.
    let before = read();
    assert_eq!(client.ask("GETRANGE key3 500000 500009").text().len(), 10);
    assert!(read() - before < 100 << 10, "{} bytes", read() - before);
    // Background work reads as well, on a busy machine meanwhile: one of three is read alone.
    let each = ["key4", "key5", "key6"].map(|key| {
        let before = read();
        assert_eq!(client.ask(&format!("GET {key}")).text().len(), long.len());
        read() - before
    });
    assert!(each.iter().all(|bytes| *bytes < 12 << 20), "{each:?} bytes");
    let once = each.iter().min().expect("three were read");
    assert!(*once as f64 <= 1.1 * long.len() as f64, "{each:?} bytes");
    // Last: the parts are swept in the background.
    let before = read();
    client.ask("DEL key2");
    assert!(read() - before < 200 << 10, "{} bytes", read() - before);
}

#[test]
fn a_string_of_zeros_takes_no_space() {
    let storage = MemoryStorage::new();
    let db = open_db_on(&storage);
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("SETRANGE k 536870911 x"), 536_870_912);
    assert!(client.ask("APPEND k y").is_error("ERR string exceeds maximum allowed size"));
    assert_eq!(client.ask("SETBIT b 4294967295 1"), 0);
    assert_eq!(client.ask("BITCOUNT b"), 1);
    assert_eq!(client.ask("BITPOS b 1"), 4_294_967_295);
    assert_eq!(client.ask("GETRANGE k -3 -1"), "\0\0x");
    let written = db.statistics().counter("log.bytes");
    assert!(written < 100 << 10, "{written}");
    // It is sent in pieces.
    client.send(&encode(&[b"GET", b"k"]));
    let mut head = [0; 12];
    client.read_exact(&mut head);
    assert_eq!(&head, b"$536870912\r\n");
    let mut piece = vec![1; 1 << 20];
    for at in 0..512 {
        client.read_exact(&mut piece);
        let end = if at == 511 { piece.len() - 1 } else { piece.len() };
        assert!(piece[..end].iter().all(|&byte| byte == 0));
    }
    assert_eq!(piece.last(), Some(&b'x'));
    let mut end = [0; 2];
    client.read_exact(&mut end);
    assert_eq!(client.ask("PING"), "PONG");
    // As a part of another reply it must fit in memory.
    let replies = client.ask_all(&["MULTI", "GET k", "EXEC"]);
    assert!(replies[2].clone().items()[0].is_error("OOM "));
    assert!(client.ask("GETDEL k").is_error("OOM "));
    assert_eq!(client.ask("STRLEN k"), 536_870_912);
}

#[test]
fn a_long_string_is_of_one_moment() {
    let server = start();
    let mut writer = Client::connect(&server);
    let whole = |fill: u8| vec![fill; 4 << 20];
    let set = |fill: u8| encode(&[b"SET", b"k", &whole(fill)]);
    writer.send(&set(b'a'));
    assert_eq!(writer.read(), "OK");
    let mut reader = Client::connect(&server);
    reader.send(&encode(&[b"GET", b"k"]));
    let mut head = [0; 20];
    reader.read_exact(&mut head);
    writer.send(&set(b'b'));
    assert_eq!(writer.read(), "OK");
    assert_eq!(writer.ask("DEL k"), 1);
    let mut rest = vec![0; (4 << 20) - 10 + 2];
    reader.read_exact(&mut rest);
    assert!(rest[..rest.len() - 2].iter().all(|&byte| byte == b'a'));
    assert_eq!(reader.ask("GET k"), Value::Null);
}

#[test]
fn the_longest_value_is_that_of_the_budget_for_a_request() {
    let mut options = options();
    options.event_loops = Some(1);
    let server = start_with(options);
    let mut client = Client::connect(&server);
    // 64 MiB of memory: a request may have an eighth, one entry a sixteenth.
    let value = "x".repeat(7 << 20);
    assert_eq!(client.ask(&format!("SET k {value}")), "OK");
    assert_eq!(client.ask("GET k").text(), value);
    for _ in 0..9 {
        assert!(matches!(client.ask(&format!("APPEND k {value}")), Value::Integer(_)));
    }
    assert_eq!(client.ask("STRLEN k"), 70 << 20);
    assert!(client.ask("COPY k l").is_error("OOM "));
    assert!(client.ask(&format!("HSET h f {value}")).is_error("OOM "));
}
