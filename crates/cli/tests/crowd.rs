//! Ten thousand idle connections to the real server: everybody is still served,
//! and each idle client costs little memory.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives a real process")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CLIENTS: usize = 10_000;

/// Resident memory of a client that does nothing, at most. Its task and buffers
/// take some 5 KiB.
const IDLE_BYTES_MAX: u64 = 16 << 10;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }
}

/// As many clients as this process may open files, at most [`CLIENTS`].
fn clients() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(CLIENTS as u64 + 200);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    CLIENTS.min(most as usize - 100)
}

fn connect(socket: &Path) -> UnixStream {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                return stream;
            }
            Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ping(stream: &mut UnixStream) {
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn ten_thousand_idle_clients_do_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let process = Command::new(env!("CARGO_BIN_EXE_tidekv"))
        .args(["serve", "--memory", "16MiB", "--connections-max", "10100", "--data"])
        .arg(directory.path().join("data"))
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server(process);
    ping(&mut connect(&socket));
    let before = server.resident_bytes();
    let mut idle: Vec<UnixStream> = (0..clients()).map(|_| connect(&socket)).collect();
    // A connection that answers has been accepted, and so has every earlier one.
    idle.iter_mut().for_each(ping);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < idle.len() as u64 * IDLE_BYTES_MAX,
        "{} clients take {grown} bytes",
        idle.len()
    );
    let mut busy = connect(&socket);
    for number in 0..1000 {
        busy.write_all(format!("SET key {number}\r\n").as_bytes()).unwrap();
        let mut reply = [0; 5];
        busy.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
    }
    idle.iter_mut().step_by(997).for_each(ping);
    println!("{} idle clients took {} KiB", idle.len(), grown >> 10);
}
