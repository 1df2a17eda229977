//! The server over sockets: partial requests, floods, idle connections, authentication, and
//! shutdown.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use support::tls::certificate;
use support::wire::eventually;
use support::{Client, PATIENCE, Value, encode, list, options, start, start_with, tcp_address};
use tidekv_io::{Clock, SystemClock};
use tidekv_resp::{Address, ErrorKind, Server, ServerOptions, TlsFiles};

fn sleep(duration: Duration) {
    SystemClock::new().sleep(duration);
}

/// The server's count of bytes of incomplete requests.
fn request_bytes_buffered(client: &mut Client) -> u64 {
    client.info("clients", "tidekv_request_buffer_bytes")
}

#[test]
fn replies_to_a_pipeline_come_in_order() {
    let server = start();
    let mut client = Client::connect(&server);
    let mut bytes = Vec::new();
    for i in 0..5000 {
        let (key, value) = (format!("key{i}"), format!("{i}"));
        bytes.extend(encode(&[b"SET", key.as_bytes(), value.as_bytes()]));
        bytes.extend(encode(&[b"GET", key.as_bytes()]));
        bytes.extend(encode(&[b"INCR", b"count"]));
        bytes.extend(encode(&[b"PING"]));
        if i % 100 == 0 {
            bytes.extend(encode(&[b"INCR", key.as_bytes(), b"too many"]));
            bytes.extend(encode(&[b"HGET", key.as_bytes(), b"field"]));
            bytes.extend(encode(&[b"KEYS", b"count"]));
        }
    }
    let mut writer = TcpStream::connect(tcp_address(&server)).unwrap();
    let mut reader = Client::over(Box::new(writer.try_clone().unwrap()));
    let sender = tidekv_io::threads::spawn("sender", move || writer.write_all(&bytes).unwrap());
    for i in 0..5000_i64 {
        assert_eq!(reader.read(), "OK");
        assert_eq!(reader.read(), &*i.to_string());
        assert_eq!(reader.read(), i + 1);
        assert_eq!(reader.read(), "PONG");
        if i % 100 == 0 {
            assert!(reader.read().is_error("ERR wrong number of arguments for 'incr'"));
            assert!(reader.read().is_error("WRONGTYPE"));
            assert_eq!(reader.read(), list(["count"]));
        }
    }
    sender.unwrap().join().unwrap();
    assert_eq!(client.ask("GET count"), "5000");
}

#[test]
fn requests_may_come_byte_by_byte() {
    let server = start();
    let mut client = Client::connect(&server);
    for byte in encode(&[b"SET", b"key", b"value"]) {
        client.send(&[byte]);
        sleep(Duration::from_micros(300));
    }
    assert_eq!(client.read(), "OK");
    client.send(b"GET ke");
    sleep(Duration::from_millis(5));
    client.send(b"y\r\nPING\r\n");
    assert_eq!(client.read(), "value");
    assert_eq!(client.read(), "PONG");
}

#[test]
fn large_values_go_both_ways() {
    let server = start();
    let mut client = Client::connect(&server);
    for len in [1, 100_000, 1 << 20, 4 << 20] {
        let value: Vec<u8> = (0..len).map(|i| b'a' + (i % 23) as u8).collect();
        client.send(&encode(&[b"SET", b"big", &value]));
        assert_eq!(client.read(), "OK");
        assert_eq!(client.ask("STRLEN big"), i64::from(len));
        assert_eq!(client.ask("GET big"), std::str::from_utf8(&value).unwrap());
    }
}

#[test]
fn garbage_ends_its_connection_and_no_other() {
    let server = start();
    let mut bystander = Client::connect(&server);
    for (garbage, says) in [
        (&b"*1\r\n:1\r\n"[..], "ERR Protocol error: expected '$', got ':'"),
        (b"*2\r\n$3\r\nGET\r\n$536870913\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*-x\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1073741824\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"SET \"a\r\n", "ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = Client::connect(&server);
        client.send(&[&encode(&[b"PING"]), garbage, &encode(&[b"SET", b"x", b"1"])].concat());
        assert_eq!(client.read(), "PONG");
        assert_eq!(client.read(), Value::Error(says.into()));
        assert!(client.is_closed());
        assert_eq!(bystander.ask("GET x"), Value::Null);
    }
    let mut browser = Client::connect(&server);
    browser.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET x 1\r\n");
    assert!(browser.is_closed());
    assert_eq!(bystander.ask("GET x"), Value::Null);
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let server = start();
    let mut claimants: Vec<_> = (0..20).map(|_| Client::connect(&server)).collect();
    for client in &mut claimants {
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$250000000\r\nonly this");
    }
    let mut client = Client::connect(&server);
    assert!(request_bytes_buffered(&mut client) < 20 * (1 << 20));
}

#[test]
fn requests_in_flight_share_a_bound() {
    let server = start_with(ServerOptions {
        request_bytes_max: 4 << 20,
        buffered_bytes_max: 10 << 20,
        ..options()
    });
    let half = |client: &mut Client| {
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4000000\r\n");
        client.send(&vec![b'x'; 3_500_000]);
    };
    let mut first = Client::connect(&server);
    half(&mut first);
    let mut observer = Client::connect(&server);
    eventually("all of the first half is buffered", || {
        request_bytes_buffered(&mut observer) >= 2 * 3_500_000
    });
    let mut second = Client::connect(&server);
    let address = tcp_address(&server);
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4000000\r\n").unwrap();
    socket.write_all(&vec![b'x'; 4_000_000]).unwrap();
    socket.write_all(b"\r\nPING\r\n").unwrap();
    let mut refused = Client::over(Box::new(socket));
    assert!(refused.read().is_error("OOM "));
    assert_eq!(refused.read(), "PONG");
    assert_eq!(second.ask("PING"), "PONG");
    // All of it, so that the first request can be completed, whose half takes 7.52 MB.
    eventually("what was refused is let go", || request_bytes_buffered(&mut observer) < 7_600_000);
    first.send(&[&vec![b'x'; 500_000][..], b"\r\n"].concat());
    assert_eq!(first.read(), "OK");
}

#[test]
fn a_client_that_reads_no_replies_is_closed() {
    let server =
        start_with(ServerOptions { write_timeout: Duration::from_millis(300), ..options() });
    let mut bystander = Client::connect(&server);
    bystander.send(&encode(&[b"SET", b"big", &vec![b'x'; 1 << 20]]));
    assert_eq!(bystander.read(), "OK");
    let mut deaf = TcpStream::connect(tcp_address(&server)).unwrap();
    deaf.write_all(&encode(&[b"GET", b"big"]).repeat(2000)).unwrap();
    // It is being served; before that, it might not be connected.
    deaf.read_exact(&mut [0]).unwrap();
    eventually("the deaf client is closed", || server.connections() == 1);
    assert_eq!(bystander.ask("PING"), "PONG");
}

#[test]
fn a_client_may_send_all_before_it_reads() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send(&encode(&[b"SET", b"big", &vec![b'x'; 100_000]]));
    assert_eq!(client.read(), "OK");
    let socket = TcpStream::connect(tcp_address(&server)).unwrap();
    let mut writer = socket.try_clone().unwrap();
    let sender = tidekv_io::threads::spawn("sender", move || {
        writer.write_all(&encode(&[b"GET", b"big"]).repeat(1000)).unwrap();
    });
    sleep(Duration::from_millis(200));
    let mut reader = Client::over(Box::new(socket));
    for _ in 0..1000 {
        assert!(matches!(reader.read(), Value::Text(text) if text.len() == 100_000));
    }
    sender.unwrap().join().unwrap();
}

#[test]
fn a_thousand_idle_clients_do_not_matter() {
    let server = start();
    let mut idle: Vec<_> = (0..1000).map(|_| Client::connect(&server)).collect();
    eventually("all are connected", || server.connections() == 1000);
    for client in &mut idle {
        assert_eq!(client.ask("PING"), "PONG");
    }
}

#[test]
fn connections_over_the_limit_get_an_error() {
    let server = start_with(ServerOptions { connections_max: 2, ..options() });
    let mut first = Client::connect(&server);
    let second = Client::connect(&server);
    eventually("two are connected", || server.connections() == 2);
    let mut third = Client::connect(&server);
    assert_eq!(third.read(), Value::Error("ERR max number of clients reached".into()));
    assert!(third.is_closed());
    drop(second);
    eventually("one is left", || server.connections() == 1);
    assert_eq!(Client::connect(&server).ask("PING"), "PONG");
    assert_eq!(first.ask("CONFIG SET maxclients 1"), "OK");
}

/// A thousand idle connections kept out everybody; now they make room.
#[test]
fn strangers_do_not_keep_out_clients_that_authenticate() {
    let password = Some("secret".into());
    let server = start_with(ServerOptions { connections_max: 20, password, ..options() });
    let mut first = Client::connect(&server);
    assert_eq!(first.ask("AUTH secret"), "OK");
    let strangers: Vec<Client> = (0..200).map(|_| Client::connect(&server)).collect();
    for _ in 0..10 {
        let mut client = Client::connect(&server);
        assert_eq!(client.ask("AUTH secret"), "OK");
        assert_eq!(client.ask("SET key value"), "OK");
    }
    assert_eq!(first.ask("GET key"), "value");
    let closed = first.info("stats", "tidekv_unauthenticated_disconnections");
    assert!(closed >= 180, "{closed}");
    // With the first one, a quarter of the limit is left of them.
    eventually("most strangers are closed", || server.connections() <= 6);
    assert_eq!(first.ask("GET key"), "value");
    drop(strangers);
}

#[test]
fn guesses_of_passwords_are_counted_and_slow_down_nobody_else() {
    let server = start_with(ServerOptions { password: Some("secret".into()), ..options() });
    let mut guesser = Client::connect(&server);
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    // Together: 100, 200 and 400 ms.
    for _ in 0..4 {
        assert!(guesser.ask("AUTH guess").is_error("WRONGPASS"));
    }
    assert!(clock.monotonic_ns() - began_ns >= 700_000_000);
    // The next guess waits; others do not wait for it.
    guesser.send(&encode(&[b"AUTH", b"guess"]));
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("AUTH secret"), "OK");
    assert_eq!(client.info("stats", "tidekv_failed_authentications"), 4);
    assert!(guesser.read().is_error("WRONGPASS"));
    assert_eq!(guesser.ask("AUTH secret"), "OK");
    assert_eq!(client.info("stats", "tidekv_failed_authentications"), 5);
}

#[test]
fn commands_need_the_password() {
    let server = start_with(ServerOptions { password: Some("secret".into()), ..options() });
    let mut client = Client::connect(&server);
    let no_auth = Value::Error("NOAUTH Authentication required.".into());
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(client.ask("GET a"), no_auth);
    assert_eq!(client.ask("MULTI"), no_auth);
    assert_eq!(client.ask("FLUSHALL"), no_auth);
    assert!(client.ask("HELLO 3").is_error("NOAUTH HELLO"));
    assert_eq!(client.ask("AUTH secre"), Value::Error(wrong.into()));
    assert_eq!(client.ask("AUTH nobody secret"), Value::Error(wrong.into()));
    // Later requests of the same pipeline have the limits of an authenticated client.
    let long = "x".repeat(50_000);
    let set = format!("SET a {long}");
    let replies = client.ask_all(&["AUTH secret", &set, "STRLEN a"]);
    assert_eq!(replies[..2], ["OK", "OK"]);
    assert_eq!(replies[2], 50_000);
    let mut other = Client::connect(&server);
    assert!(matches!(other.ask("HELLO 3 AUTH default secret"), Value::List(_)));
    assert_eq!(other.ask("CONFIG GET requirepass"), list(["requirepass", ""]));
    assert_eq!(other.ask("CONFIG SET requirepass other"), "OK");
    assert_eq!(Client::connect(&server).ask("AUTH other"), "OK");
    let mut flood = Client::connect(&server);
    flood.send(b"*1000\r\n");
    let says = "ERR Protocol error: unauthenticated multibulk length";
    assert_eq!(flood.read(), Value::Error(says.into()));
    assert!(flood.is_closed());
}

#[test]
fn public_addresses_need_authentication() {
    let public = || vec!["0.0.0.0:0".parse().unwrap()];
    let refused = Server::start(
        support::open_db(),
        ServerOptions { listen: public(), ..ServerOptions::default() },
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    start_with(ServerOptions { listen: public(), insecure: true, ..ServerOptions::default() });
    start_with(ServerOptions {
        listen: public(),
        password: Some("p".into()),
        ..ServerOptions::default()
    });
    let nowhere = ServerOptions { listen: Vec::new(), ..ServerOptions::default() };
    assert_eq!(
        Server::start(support::open_db(), nowhere).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let taken = start();
    let listen = taken.local_addresses().to_vec();
    let error = Server::start(support::open_db(), ServerOptions { listen, ..options() });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn unix_sockets_serve_and_clean_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tide.sock");
    let listen = vec![Address::Unix(path.clone())];
    let options = ServerOptions { listen, ..ServerOptions::default() };
    // A stale socket file is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = start_with(options.clone());
    assert_eq!(Client::connect_unix(&path).ask("SET a 1"), "OK");
    let in_use = Server::start(support::open_db(), options.clone());
    assert_eq!(in_use.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(Client::connect_unix(&path).ask("GET a"), "1");
    assert!(server.shutdown(PATIENCE));
    assert!(std::os::unix::net::UnixStream::connect(&path).is_err());
    start_with(options);
}

#[test]
fn idle_connections_are_closed_by_the_timeout() {
    let server =
        start_with(ServerOptions { idle_timeout: Some(Duration::from_millis(1000)), ..options() });
    let mut busy = Client::connect(&server);
    let mut silent = Client::connect(&server);
    let mut half = Client::connect(&server);
    half.send(b"*2\r\n$3\r\nGET\r\n");
    // Far more often than necessary, because a loaded machine may be late.
    for _ in 0..24 {
        assert_eq!(busy.ask("PING"), "PONG");
        sleep(Duration::from_millis(50));
    }
    assert!(silent.is_closed());
    assert!(half.is_closed());
}

#[test]
fn shutdown_finishes_received_requests() {
    let db = support::open_db();
    let server = Server::start(db.clone(), options()).unwrap();
    let mut idle = Client::connect(&server);
    assert_eq!(idle.ask("PING"), "PONG");
    let mut busy: Vec<_> = (0..8).map(|_| Client::connect(&server)).collect();
    for (number, client) in busy.iter_mut().enumerate() {
        assert_eq!(client.ask("PING"), "PONG");
        let key = format!("key{number}");
        let request = encode(&[b"INCR", key.as_bytes()]);
        client.send(&request.repeat(500));
    }
    assert!(server.shutdown(PATIENCE));
    assert!(idle.is_closed());
    let strings = db.keyspace("default").unwrap();
    for (number, client) in busy.iter_mut().enumerate() {
        let mut answered = 0;
        let mut bytes = Vec::new();
        let _ = client.read_to_end(&mut bytes);
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b":")) {
            let digits = std::str::from_utf8(&line[1..line.len() - 1]).unwrap();
            answered = digits.parse().unwrap();
        }
        let stored = strings.get(format!("key{number}")).unwrap().unwrap_or_default();
        let stored: i64 = std::str::from_utf8(&stored).unwrap().parse().unwrap_or(0);
        assert_eq!(stored, answered, "what is answered is there, what is not is not");
    }
    db.close().unwrap();
}

#[test]
fn a_panic_ends_its_connection_and_no_other() {
    let storage = tidekv_io::MemoryStorage::new();
    let open = || support::open_db_on(&storage);
    let db = open();
    db.keyspace("default").unwrap().put("cold", "v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let server = Server::start(open(), options()).unwrap();
    let mut bystander = Client::connect(&server);
    let mut client = Client::connect(&server);
    assert_eq!(bystander.ask("SET other 1"), "OK");
    storage.on_operation(|operation| {
        assert!(operation.operation != tidekv_io::Operation::Read, "a panic on purpose");
    });
    let replies = client.ask_all(&["PING", "GET cold"]);
    storage.clear_on_operation();
    assert_eq!(replies[0], "PONG");
    assert!(replies[1].is_error("ERR internal error"), "{replies:?}");
    assert!(client.is_closed());
    assert_eq!(bystander.ask("GET other"), "1");
    assert_eq!(bystander.ask("GET cold"), "v");
}

#[test]
fn tls_clients_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let (files, config) = certificate(directory.path());
    let server = start_with(ServerOptions { tls: Some(files.clone()), ..options() });
    let connect = || {
        let name = "localhost".try_into().unwrap();
        let session = rustls::ClientConnection::new(Arc::new(config.clone()), name).unwrap();
        let socket = TcpStream::connect(tcp_address(&server)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::over(Box::new(rustls::StreamOwned::new(session, socket)))
    };
    let mut client = connect();
    let value = "v".repeat(1_000_000);
    assert_eq!(client.ask(&format!("SET a {value}")), "OK");
    assert_eq!(connect().ask("GET a"), &*value);
    // Plain text ends in an alert, not in commands.
    let mut plain = TcpStream::connect(tcp_address(&server)).unwrap();
    plain.write_all(b"SET a 1\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"+OK"));
    assert_eq!(client.ask("STRLEN a"), 1_000_000);
    drop(server);

    let missing = TlsFiles { key: directory.path().join("none"), ..files.clone() };
    let refused =
        Server::start(support::open_db(), ServerOptions { tls: Some(missing), ..options() });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    let demanding = TlsFiles { client_authorities: Some(files.certificate.clone()), ..files };
    let server = start_with(ServerOptions { tls: Some(demanding), ..options() });
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(tcp_address(&server)).unwrap();
    let mut stranger = rustls::StreamOwned::new(session, socket);
    let told = stranger.write_all(b"PING\r\n").and_then(|()| stranger.read(&mut [0; 16]));
    assert!(!matches!(told, Ok(count) if count > 0), "a client without a certificate is let in");
}
