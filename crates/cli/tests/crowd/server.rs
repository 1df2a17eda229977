//! A real server with very many clients: its process, what it takes, and how clients come to it.
//!
//! A client is one socket. The server ends with its [`Server`].

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CLIENTS: usize = 10_000;
/// Beside them: what they are watched by, and what else a test opens.
const BESIDE: usize = 100;

/// Resident memory of a client that does nothing, at most. Its task and buffers
/// take some 5 KiB.
const IDLE_BYTES_MAX: u64 = 16 << 10;

/// How long anything may take.
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
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Another client.
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

    /// Ten thousand clients, or as many as this process may open files, each of which has been
    /// served once; and what they have together taken of memory, which is little for each.
    pub fn crowd(&self, serve: impl Fn(&mut UnixStream)) -> Vec<UnixStream> {
        // Whatever is there once is there.
        serve(&mut self.connect());
        let before = self.resident_bytes();
        let mut clients: Vec<UnixStream> = (0..clients()).map(|_| self.connect()).collect();
        // A connection that answers has been accepted, and so has every earlier one.
        clients.iter_mut().for_each(serve);
        let grown = self.resident_bytes().saturating_sub(before);
        let most = clients.len() as u64 * IDLE_BYTES_MAX;
        assert!(grown < most, "{} clients take {grown} bytes", clients.len());
        println!("{} idle clients took {} KiB", clients.len(), grown >> 10);
        clients
    }
}

/// As many clients as this process may open files, at most [`CLIENTS`].
fn clients() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min((CLIENTS + 2 * BESIDE) as u64);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    CLIENTS.min(most as usize - BESIDE)
}

/// Sends a request and demands this reply.
pub fn exchange(stream: &mut UnixStream, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut found = vec![0; reply.len()];
    stream.read_exact(&mut found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found), reply, "{request:?}");
}
