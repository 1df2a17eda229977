//! What the server holds in memory, counted in the allocator: requests, replies, caches and memtables
//! stay within the store's budget and a constant, whatever clients send and do not read.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use support::{Client, Value, encode, options, tcp_address};
use tidekv::{Db, Options};
use tidekv_io::{Clock, SystemClock};
use tidekv_resp::Server;
use tidekv_testkit::allocation::{Counting, peak_of_all, reset_peak_of_all};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BUDGET: usize = 16 << 20;

/// What is not part of the budget: threads, connections, and the tests themselves.
const CONSTANT: usize = 12 << 20;

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// A server on files, so that the data is not in memory.
fn start(directory: &tempfile::TempDir) -> (Db, Server) {
    let db = Db::open(directory.path(), Options::new().memory_bytes(BUDGET as u64)).unwrap();
    let server = Server::start(db.clone(), options()).unwrap();
    (db, server)
}

fn check_peak(what: &str) {
    let peak = peak_of_all();
    assert!(peak <= BUDGET * 11 / 10 + CONSTANT, "{what}: {} MiB", peak >> 20);
    reset_peak_of_all();
}

/// Connections that have sent `bytes` and read nothing.
fn deaf(server: &Server, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut socket = TcpStream::connect(tcp_address(server)).unwrap();
        socket.write_all(bytes).unwrap();
        socket
    };
    (0..count).map(connect).collect()
}

/// Connections that have sent as much of `bytes` as the server takes at once, and read nothing.
fn deaf_in_part(server: &Server, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let socket = TcpStream::connect(tcp_address(server)).unwrap();
        socket.set_nonblocking(true).unwrap();
        // An error means that it takes no more, or has closed the connection.
        let mut rest = bytes;
        while let Ok(count @ 1..) = (&socket).write(rest) {
            rest = &rest[count..];
        }
        socket
    };
    (0..count).map(connect).collect()
}

fn wait() {
    SystemClock::new().sleep(Duration::from_millis(1500));
}

/// One test, because the allocator counts the whole process.
#[test]
fn memory_stays_within_the_budget() {
    let directory = tempfile::tempdir().unwrap();
    let (db, server) = start(&directory);
    let mut client = Client::connect(&server);

    // Many keys and fields.
    for first in (0..60_000).step_by(1000) {
        let mut batch = Vec::new();
        let mut fields = vec![b"HSET".to_vec(), b"hash".to_vec()];
        for i in first..first + 1000 {
            batch.extend(encode(&[b"SET", format!("key:{i:012}").as_bytes(), b"value"]));
            fields.extend([format!("field:{i:012}").into_bytes(), b"value".to_vec()]);
        }
        let fields: Vec<&[u8]> = fields.iter().map(|word| &word[..]).collect();
        batch.extend(encode(&fields));
        client.send(&batch);
        (0..1000).for_each(|_| assert_eq!(client.read(), "OK"));
        assert_eq!(client.read(), 1000);
    }
    check_peak("small writes");

    // Long replies that nobody reads.
    for command in
        ["KEYS *", "HGETALL hash", "HVALS hash", "TIDE.RANGE - +", "SCAN 0 COUNT 9999999"]
    {
        let sockets = deaf(&server, 12, format!("{command}\r\n").as_bytes());
        wait();
        check_peak(command);
        drop(sockets);
    }

    // Values that do not fit, announced, sent in part, and sent whole.
    let announced = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$104857600\r\n";
    let sockets = deaf(&server, 30, &[&announced[..], &vec![b'x'; 3 << 20]].concat());
    wait();
    check_peak("large values in part");
    drop(sockets);
    client.send(announced);
    (0..100).for_each(|_| client.send(&[b'x'; 1 << 20]));
    client.send(b"\r\nPING\r\n");
    assert_eq!(client.read(), Value::Error(OOM.into()));
    assert_eq!(client.read(), "PONG");
    check_peak("a large value");

    // Values of a size that a client sends as a number.
    for command in [
        "SETRANGE k 267386880 x",
        "SETBIT k 4294967295 1",
        "BITFIELD k SET u8 2000000000 1",
        "COPY k l",
        "BITCOUNT k",
        "BITPOS k 1 300000000",
        "GETRANGE k -5000000 -4999990",
    ] {
        assert!(!matches!(client.ask(command), Value::Error(_)), "{command}");
        check_peak(command);
    }
    for command in ["HRANDFIELD hash -100000000", "BITOP NOT l k", "GETSET k x", "LCS k k"] {
        assert_eq!(client.ask(command), Value::Error(OOM.into()), "{command}");
        check_peak(command);
    }
    let sockets = deaf(&server, 30, b"GET k\r\nMGET k k l\r\nGETRANGE l 9 -9\r\n");
    wait();
    check_peak("long strings that nobody reads");
    drop(sockets);
    for _ in 0..200 {
        client.send(&encode(&[b"APPEND", b"appended", &[b'x'; 300 << 10]]));
        assert!(matches!(client.read(), Value::Integer(_)));
    }
    check_peak("appends");

    // Values that fit, too many at a time.
    let value = vec![b'v'; BUDGET / 40];
    for i in 0..40 {
        client.send(&encode(&[b"SET", format!("large{i}").as_bytes(), &value]));
        assert_eq!(client.read(), "OK");
    }
    check_peak("large values");
    let half = [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000\r\n"[..], &value[..350_000]].concat();
    let sockets = deaf_in_part(&server, 60, &half);
    wait();
    check_peak("halves of values that fit");
    assert_eq!(client.ask("SET small value"), "OK");
    // A pipeline of small commands is not a request that does not fit.
    let gets = encode(&[b"GET", b"small"]);
    client.send(&gets.repeat(2000));
    (0..2000).for_each(|_| assert_eq!(client.read(), "value"));
    drop(sockets);

    // The same values read, by clients that read nothing, and whole.
    let gets: Vec<u8> =
        (0..40).flat_map(|i| encode(&[b"GET", format!("large{i}").as_bytes()])).collect();
    let sockets = deaf(&server, 30, &gets);
    wait();
    check_peak("pipelines of large values");
    let names: Vec<String> = (0..40).map(|i| format!("large{i}")).collect();
    let mget: Vec<&[u8]> =
        [&b"MGET"[..]].into_iter().chain(names.iter().map(|name| name.as_bytes())).collect();
    let more = deaf(&server, 10, &encode(&mget));
    wait();
    check_peak("MGET of large values");
    drop((sockets, more));
    // Replies that must be whole, of transactions and of commands that write.
    let names: Vec<String> = (0..4).map(|i| format!("large{i}")).collect();
    let mut transaction = b"MULTI\r\n".to_vec();
    names.iter().for_each(|name| transaction.extend(encode(&[b"GET", name.as_bytes()])));
    transaction.extend(b"EXEC\r\n");
    let readers = deaf(&server, 30, &transaction);
    wait();
    check_peak("transactions that read large values");
    let swap = encode(&[b"SET", b"large0", &value, b"GET"]);
    let writers = deaf_in_part(&server, 40, &swap.repeat(4));
    wait();
    check_peak("writes that return large values");
    drop((readers, writers));
    client.send(&gets);
    for _ in 0..40 {
        assert_eq!(client.read().text().len(), value.len());
    }
    check_peak("a pipeline of large values, read");

    // Replies that would have to be whole.
    let replies = client.ask_all(&["MULTI", "KEYS *", "EXEC", "GET small"]);
    assert_eq!(replies[2], Value::List(vec![Value::Error(OOM.into())]));
    assert_eq!(replies[3], "value");
    check_peak("a transaction with a long reply");

    drop(client);
    assert!(server.shutdown(Duration::from_secs(30)));
    db.close().unwrap();
    drop(db);
    reset_peak_of_all();
    let (db, server) = start(&directory);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("GET small"), "value");
    check_peak("opening again");
    drop(client);
    assert!(server.shutdown(Duration::from_secs(30)));
    db.close().unwrap();
}
