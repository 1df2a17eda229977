//! A thousand clients of the real cache server that are slow to send: its memory beside `--dram` is
//! what the guide says. In a process of its own, as it opens many files.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives a real process")]

#[path = "crowd/server.rs"]
mod server;

use std::io::Write;
use std::os::unix::net::UnixStream;

use server::{Server, clients, exchange};

/// Memory beside `--dram`, as `docs/guide/flash-cache.md` says: of the process, of requests that have
/// not arrived, and of replies.
const BESIDE_DRAM_BYTES: u64 = (20 + 16 + 16) << 20;
/// And of each connection.
const CLIENT_BYTES: u64 = 16 << 10;

/// Sends as much as the server takes at once.
fn push(client: &mut UnixStream, bytes: &[u8]) {
    client.set_nonblocking(true).unwrap();
    let mut left = bytes;
    while let Ok(count @ 1..) = client.write(left) {
        left = &left[count..];
    }
    client.set_nonblocking(false).unwrap();
}

/// Each connection that waited for memory had taken 64 KiB before it asked for any.
#[test]
fn a_thousand_slow_clients_take_what_is_documented() {
    const DRAM_BYTES: u64 = 64 << 20;
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["cache", "--dram", "64MiB"]);
    let mut busy = server.connect();
    let value = "x".repeat(4_000);
    for number in 0..20_000 {
        let set = format!("set key{number} 0 0 {}\r\n{value}\r\n", value.len());
        exchange(&mut busy, &set, "STORED\r\n");
    }
    let full_bytes = server.resident_bytes();
    assert!(full_bytes > DRAM_BYTES, "the cache is full: {full_bytes}");

    clients();
    let mut halves: Vec<UnixStream> = (0..1_000).map(|_| server.connect()).collect();
    let mut lines: Vec<UnixStream> = (0..500).map(|_| server.connect()).collect();
    for (number, client) in halves.iter_mut().enumerate() {
        push(client, format!("set half{number} 0 0 1000000\r\n").as_bytes());
    }
    lines.iter_mut().for_each(|client| push(client, b"get "));
    let (half, keys) = (vec![b'h'; 64 << 10], b"key ".repeat(16 << 10));
    for _ in 0..6 {
        halves.iter_mut().for_each(|client| push(client, &half));
        lines.iter_mut().for_each(|client| push(client, &keys));
        // It is served meanwhile.
        exchange(&mut busy, "get absent\r\n", "END\r\n");
    }
    let beside_bytes = server.resident_bytes_max() - DRAM_BYTES;
    println!(
        "beside DRAM: {} KiB, {} when full",
        beside_bytes >> 10,
        (full_bytes - DRAM_BYTES) >> 10
    );
    let most_bytes = BESIDE_DRAM_BYTES + (halves.len() + lines.len()) as u64 * CLIENT_BYTES;
    assert!(beside_bytes < most_bytes, "{beside_bytes} bytes beside DRAM");
}
