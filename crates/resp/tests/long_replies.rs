//! Replies that are produced while they are sent: complete, in order, in both protocol versions, and
//! unaffected by writes and expiry meanwhile.

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use support::wire::eventually;
use support::{Client, Value, encode, list, open_db_at, options, start, tcp_address};
use tidekv_io::ManualClock;
use tidekv_resp::Server;

const KEYS: usize = 20_000;

fn key(i: usize) -> String {
    format!("key:{i:08}")
}

fn fill(client: &mut Client) {
    for i in (0..KEYS).step_by(1000) {
        let sets: Vec<u8> = (i..i + 1000)
            .flat_map(|i| encode(&[b"SET", key(i).as_bytes(), format!("value {i}").as_bytes()]))
            .collect();
        client.send(&sets);
        (0..1000).for_each(|_| assert_eq!(client.read(), "OK"));
    }
}

#[test]
fn long_replies_are_complete_and_in_order() {
    let server = start();
    let mut client = Client::connect(&server);
    fill(&mut client);
    let all: Vec<Value> = (0..KEYS).map(|i| Value::from(key(i))).collect();
    assert_eq!(client.ask("KEYS *").items(), all);
    assert_eq!(client.ask("KEYS key:*5").items().len(), KEYS / 10);
    assert_eq!(client.ask("KEYS none*"), list([]));
    assert_eq!(client.ask("TIDE.RANGE - + KEYSONLY").items(), all);
    let reversed: Vec<Value> = all.iter().rev().take(15_000).cloned().collect();
    assert_eq!(client.ask("TIDE.RANGE - + KEYSONLY REVERSE LIMIT 15000").items(), reversed);
    let pairs = client.ask("TIDE.RANGE - +").items();
    assert_eq!(pairs.len(), 2 * KEYS);
    for (i, pair) in pairs.chunks(2).enumerate() {
        assert_eq!(pair[0], &*key(i));
        assert_eq!(pair[1], &*format!("value {i}"));
    }
    // Requests behind it in a pipeline are answered behind it.
    client.send(b"PING\r\nKEYS *\r\nGET key:00000007\r\nKEYS key:00000007\r\n");
    assert_eq!(client.read(), "PONG");
    assert_eq!(client.read().items(), all);
    assert_eq!(client.read(), "value 7");
    assert_eq!(client.read(), list(["key:00000007"]));
}

#[test]
fn fields_are_complete_in_both_versions() {
    let server = start();
    let mut client = Client::connect(&server);
    for i in (0..KEYS).step_by(1000) {
        let mut words = vec![b"HSET".to_vec(), b"hash".to_vec()];
        (i..i + 1000).for_each(|i| words.extend([key(i).into_bytes(), i.to_string().into_bytes()]));
        client.send(&encode(&words.iter().map(|word| &word[..]).collect::<Vec<_>>()));
        assert_eq!(client.read(), 1000);
    }
    let names: Vec<Value> = (0..KEYS).map(|i| Value::from(key(i))).collect();
    let values: Vec<Value> = (0..KEYS).map(|i| Value::from(i.to_string())).collect();
    for version in ["2", "3"] {
        client.ask(&format!("HELLO {version}"));
        assert_eq!(client.ask("HKEYS hash").items(), names);
        assert_eq!(client.ask("HVALS hash").items(), values);
        let all = client.ask("HGETALL hash").items();
        let all: Vec<_> = all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        assert_eq!(all, names.iter().cloned().zip(values.iter().cloned()).collect::<Vec<_>>());
        assert_eq!(client.ask("PING"), "PONG");
    }
    // A scan of the fields ends its steps by bytes, and loses none.
    let mut found = BTreeMap::new();
    let mut cursor = String::from("0");
    loop {
        let step = client.ask(&format!("HSCAN hash {cursor} COUNT 1000000")).items();
        let pairs = step[1].clone().items();
        found.extend(pairs.chunks(2).map(|pair| (pair[0].clone().text(), pair[1].clone().text())));
        cursor = step[0].clone().text();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), KEYS);
}

#[test]
fn a_long_reply_is_of_one_moment() {
    let (db, clock): (_, std::sync::Arc<ManualClock>) = open_db_at(1_700_000_000_000);
    let server = Server::start(db, options()).unwrap();
    let mut client = Client::connect(&server);
    fill(&mut client);
    client.send(
        &(0..KEYS)
            .flat_map(|i| encode(&[b"PEXPIRE", key(i).as_bytes(), b"1000"]))
            .collect::<Vec<_>>(),
    );
    (0..KEYS).for_each(|_| assert_eq!(client.read(), 1));
    let mut reader = Client::connect(&server);
    reader.send(b"KEYS *\r\n");
    // The head has been sent, and with it the count; then all of them expire, or are deleted.
    let mut first = [0; 8];
    reader.read_exact(&mut first);
    assert_eq!(&first, b"*20000\r\n");
    clock.advance(Duration::from_secs(10));
    client.ask("FLUSHALL");
    assert_eq!(client.ask("DBSIZE"), 0);
    for i in 0..KEYS {
        assert_eq!(reader.read(), &*key(i));
    }
    assert_eq!(reader.ask("KEYS *"), list([]));
}

#[test]
fn values_of_many_keys_may_be_larger_than_memory_for_replies() {
    let server = start();
    let mut client = Client::connect(&server);
    let value = "x".repeat(1 << 20);
    for i in 0..24 {
        client.send(&encode(&[b"SET", format!("large{i}").as_bytes(), value.as_bytes()]));
        assert_eq!(client.read(), "OK");
    }
    client.ask("HSET hash f v");
    let names: Vec<String> = (0..24).map(|i| format!("large{i} none hash")).collect();
    let replies = client.ask(&format!("MGET {}", names.join(" "))).items();
    assert_eq!(replies.len(), 72);
    for triple in replies.chunks(3) {
        assert_eq!(triple[0], &*value);
        assert_eq!(triple[1..], [Value::Null, Value::Null]);
    }
    // A pipeline of large values is answered in order, each read once or in a few steps.
    client.send(
        &(0..24)
            .flat_map(|i| encode(&[b"GET", format!("large{i}").as_bytes()]))
            .collect::<Vec<_>>(),
    );
    (0..24).for_each(|_| assert_eq!(client.read(), &*value));
}

#[test]
fn a_long_reply_is_skipped_as_a_whole() {
    let server = start();
    let mut client = Client::connect(&server);
    fill(&mut client);
    client.send(b"CLIENT REPLY SKIP\r\nKEYS *\r\nPING\r\n");
    assert_eq!(client.read(), "PONG");
    client.send(b"CLIENT REPLY OFF\r\nKEYS *\r\nPING\r\nCLIENT REPLY ON\r\nECHO on\r\n");
    assert_eq!(client.read(), "OK");
    assert_eq!(client.read(), "on");
}

/// A client that reads nothing gives way when others need the memory.
#[test]
fn a_client_that_reads_nothing_is_closed_when_memory_is_needed() {
    let server = start();
    let mut client = Client::connect(&server);
    let value = vec![b'v'; 3 << 20];
    client.send(&encode(&[b"SET", b"large", &value]));
    assert_eq!(client.read(), "OK");
    let connect = |_| {
        let mut socket = TcpStream::connect(tcp_address(&server)).unwrap();
        socket.write_all(&encode(&[b"GET", b"large"]).repeat(20)).unwrap();
        socket
    };
    let sockets: Vec<TcpStream> = (0..40).map(connect).collect();
    // All of them together have no room, so some are closed, and others are served.
    eventually("some are closed", || server.connections() < 40);
    client.send(&encode(&[b"SET", b"other", &value]));
    assert_eq!(client.read(), "OK");
    drop(sockets);
}
