//! Ten thousand connections to the real cache server, some of which send incomplete values and
//! endless keys: the server serves all other clients, and its memory stays small. The same holds for
//! repeated garbage.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives a real process")]

#[path = "crowd/server.rs"]
mod server;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use server::{Server, exchange};

/// Misbehaving clients of each kind.
const BAD: usize = 50;
/// Bytes sent of a value with ten times this announced length.
const HALF_BYTES: usize = 100_000;
/// Maximum number of bytes sent of an endless key.
const KEY_BYTES: usize = 4 << 20;
/// Memory for other work, and for freed memory that the allocator has not returned yet.
const SLACK_BYTES: u64 = 32 << 20;

const HIT: &str = "VALUE here 7 5\r\nvalue\r\nEND\r\n";

fn get(client: &mut UnixStream) {
    exchange(client, "get here\r\n", HIT);
}

/// Sends part of a value and keeps the connection open.
fn send_half(client: &mut UnixStream, number: usize) {
    let line = format!("set half{number} 0 0 {}\r\n", 10 * HALF_BYTES);
    client.write_all(line.as_bytes()).unwrap();
    client.write_all(&vec![b'h'; HALF_BYTES]).unwrap();
}

/// Sends an endless key until the server closes the connection; returns its last reply.
fn send_endless_key(client: &mut UnixStream) -> String {
    client.write_all(b"get ").unwrap();
    let part = vec![b'k'; 64 << 10];
    for _ in 0..KEY_BYTES / part.len() {
        if let Err(error) = client.write_all(&part) {
            assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    // Unread bytes of the key may reset the connection before the reply arrives.
    let _ = client.read_to_end(&mut said);
    String::from_utf8(said).unwrap()
}

/// The server's statistic `name`.
fn figure(client: &mut UnixStream, name: &str) -> u64 {
    client.write_all(b"stats\r\n").unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"END\r\n") {
        let mut some = [0; 4096];
        let bytes = client.read(&mut some).unwrap();
        assert_ne!(bytes, 0);
        said.extend_from_slice(&some[..bytes]);
    }
    let said = String::from_utf8(said).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.unwrap().parse().unwrap()
}

/// Sends malformed input: each line ends at most its own connection.
fn send_garbage(server: &Server) {
    send_half(&mut server.connect(), 0);
    // The server closes the connection of a line that does not end.
    let mut client = server.connect();
    client.write_all(&[b"get ".to_vec(), vec![b'k'; 100 << 10]].concat()).unwrap_or_default();
    client.shutdown(Shutdown::Write).unwrap_or_default();
    let _ = client.read_to_end(&mut Vec::new());

    // The server skips the data of a value that is too large, whatever its length.
    let mut client = server.connect();
    let large = format!("set large 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000));
    exchange(&mut client, &large, "SERVER_ERROR object too large for cache\r\n");
    get(&mut client);
    exchange(&mut client, "set less 0 0 -1\r\n", "CLIENT_ERROR bad command line format\r\n");
    get(&mut client);
    let huge = "set huge 0 0 2000000000\r\n";
    exchange(&mut client, huge, "SERVER_ERROR object too large for cache\r\n");
    drop(client);
    exchange(&mut server.connect(), "get half0 large less huge here\r\n", HIT);
}

#[test]
fn repeated_garbage_takes_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["cache", "--dram", "16MiB"]);
    exchange(&mut server.connect(), "set here 7 0 5\r\nvalue\r\n", "STORED\r\n");
    (0..10).for_each(|_| send_garbage(&server));
    let before = server.resident_bytes();
    let rounds = 300;
    (0..rounds).for_each(|_| send_garbage(&server));
    let grown = server.resident_bytes().saturating_sub(before);
    println!("{rounds} times garbage took {} KiB", grown >> 10);
    // The incomplete values alone are 30 MB.
    assert!(grown < 16 << 20, "{grown} bytes");
}

#[test]
fn ten_thousand_clients_are_served_while_others_misbehave() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["cache", "--dram", "16MiB"]);
    exchange(&mut server.connect(), "set here 7 0 5\r\nvalue\r\n", "STORED\r\n");
    let mut crowd = server.crowd(get);

    let before = server.resident_bytes();
    let mut bad = crowd.split_off(crowd.len() - 2 * BAD);
    let mut endless = bad.split_off(BAD);
    bad.iter_mut().enumerate().for_each(|(number, client)| send_half(client, number));
    for client in &mut endless {
        let said = send_endless_key(client);
        assert!(said.is_empty() || said.starts_with("CLIENT_ERROR"), "{said:?}");
    }
    crowd.iter_mut().step_by(97).for_each(get);
    let mut busy = server.connect();
    for number in 0..1000 {
        exchange(&mut busy, &format!("set key{number} 0 0 1\r\n1\r\n"), "STORED\r\n");
    }
    let grown = server.resident_bytes().saturating_sub(before);
    let sent = (BAD * HALF_BYTES) as u64;
    println!("half values of {} KiB took {} KiB", sent >> 10, grown >> 10);
    assert!(grown < sent + SLACK_BYTES, "{grown} bytes");

    // An incomplete value of a closed connection is not stored, and the connection is freed.
    drop((bad, endless));
    let start = Instant::now();
    while figure(&mut busy, "curr_connections") > crowd.len() as u64 + 1 {
        assert!(start.elapsed() < Duration::from_secs(60), "they are still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    exchange(&mut busy, "get half0 half49 here\r\n", HIT);
    crowd.iter_mut().step_by(997).for_each(get);
}
