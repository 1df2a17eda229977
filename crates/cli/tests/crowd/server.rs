//! A real server with thousands of clients: its process, its memory, and the connections.
//!
//! A client is one socket. The server ends with its [`Server`].
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CLIENTS: usize = 10_000;
/// Additional file descriptors of the test.
const BESIDE: usize = 100;

/// Maximum resident memory of an idle client. Its task and buffers
/// take about 5 KiB.
const IDLE_BYTES_MAX: u64 = 16 << 10;

/// The timeout of any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server on a Unix socket.
pub struct Server {
    process: Child,
    socket: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts `tidekv` with these arguments, and with a socket in `directory`.
    pub fn start(directory: &Path, arguments: &[&str]) -> Self {
        let socket = directory.join("socket");
        let process = Command::new(env!("CARGO_BIN_EXE_tidekv"))
            .args(arguments)
            .args(["--connections-max", "10100"])
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, socket }
    }

    pub fn resident_bytes(&self) -> u64 {
        self.bytes_of("VmRSS:")
    }

    /// The most bytes that have been resident.
    pub fn resident_bytes_max(&self) -> u64 {
        self.bytes_of("VmHWM:")
    }

    fn bytes_of(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Connects another client.
    pub fn connect(&self) -> UnixStream {
        let start = Instant::now();
        loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    stream.set_write_timeout(Some(PATIENCE)).unwrap();
                    return stream;
                }
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ten thousand clients, or fewer if the limit on open files is lower, each of which has been
    /// served once. Checks that each takes little memory.
    pub fn crowd(&self, serve: impl Fn(&mut UnixStream)) -> Vec<UnixStream> {
        // One-time allocations happen before the measurement.
        serve(&mut self.connect());
        let before = self.resident_bytes();
        let mut clients: Vec<UnixStream> = (0..clients()).map(|_| self.connect()).collect();
        // A connection that gets a reply has been accepted, and so have all earlier ones.
        clients.iter_mut().for_each(serve);
        let grown = self.resident_bytes().saturating_sub(before);
        let most = clients.len() as u64 * IDLE_BYTES_MAX;
        assert!(grown < most, "{} clients take {grown} bytes", clients.len());
        println!("{} idle clients took {} KiB", clients.len(), grown >> 10);
        clients
    }
}

/// The number of clients: limited by the open files of this process, at most [`CLIENTS`].
pub fn clients() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min((CLIENTS + 2 * BESIDE) as u64);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    CLIENTS.min(most as usize - BESIDE)
}

/// Sends a request and asserts its reply.
pub fn exchange(stream: &mut UnixStream, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut found = vec![0; reply.len()];
    stream.read_exact(&mut found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found), reply, "{request:?}");
}
