//! A server with few file handles and many idle strangers: clients that authenticate are served, and
//! the store flushes and compacts.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives a real process")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const STRANGERS: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts `tidekv` with limits of file handles, and with its log in `log`.
    fn start(limits: (usize, usize), arguments: &[&str], log: &std::path::Path) -> Self {
        let (soft, hard) = limits;
        let mut process = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_tidekv"))
            .args(arguments)
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line["listening on ".len()..].split([';', ',']).next().unwrap().to_owned();
        Self { process, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

fn exchange(stream: &mut TcpStream, request: &[u8], reply: &str) {
    stream.write_all(request).unwrap();
    let mut found = vec![0; reply.len()];
    stream.read_exact(&mut found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found), reply);
}

/// Lets this process hold the strangers.
fn raise_own_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap();
    assert!(limit.maximum.is_none_or(|most| most > STRANGERS as u64 + 200), "{limit:?}");
}

#[test]
fn a_writer_is_served_and_the_store_works_beside_a_thousand_strangers() {
    raise_own_limit();
    for limits in [(256, 256), (256, 1024)] {
        let directory = tempfile::tempdir().unwrap();
        let (data, log) = (directory.path().join("data"), directory.path().join("log"));
        let arguments = ["serve", "--data", data.to_str().unwrap(), "--memory", "16MiB"];
        let server = Server::start(limits, &[&arguments[..], &["--password", "p"]].concat(), &log);
        let mut writer = server.connect();
        exchange(&mut writer, b"AUTH p\r\n", "+OK\r\n");
        let strangers: Vec<TcpStream> = (0..STRANGERS).map(|_| server.connect()).collect();
        let value = "x".repeat(20_000);
        for n in 0..2_000 {
            let request = format!("SET key{} {value}{n}\r\n", n % 500);
            exchange(&mut writer, request.as_bytes(), "+OK\r\n");
            if n % 400 == 0 {
                // It has the place of a stranger.
                exchange(&mut server.connect(), b"AUTH p\r\nPING\r\n", "+OK\r\n+PONG\r\n");
            }
        }
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(!logged.contains("failed"), "{limits:?}: {logged}");
        assert!(logged.contains("there are file handles for"), "{limits:?}: {logged}");
        let tables = std::fs::read_dir(&data).unwrap().filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "table")
        });
        assert!(tables.count() > 0, "it has flushed");
        drop(strangers);
    }
}

#[test]
fn a_cache_serves_a_client_beside_a_thousand_strangers() {
    raise_own_limit();
    let directory = tempfile::tempdir().unwrap();
    let (users, log) = (directory.path().join("users"), directory.path().join("log"));
    std::fs::write(&users, "user:p\n").unwrap();
    let flash = format!("{}:64MiB", directory.path().join("flash").display());
    let state = directory.path().join("state");
    let arguments = ["cache", "--dram", "16MiB", "--auth-file", users.to_str().unwrap()];
    let flash = ["--flash", &flash, "--state", state.to_str().unwrap()];
    let server = Server::start((256, 256), &[&arguments[..], &flash].concat(), &log);
    let strangers: Vec<TcpStream> = (0..STRANGERS).map(|_| server.connect()).collect();
    for _ in 0..5 {
        let mut client = server.connect();
        exchange(&mut client, b"set auth 0 0 6\r\nuser p\r\n", "STORED\r\n");
        exchange(&mut client, b"set key 0 0 1\r\nx\r\n", "STORED\r\n");
    }
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(!logged.contains("out of use"), "{logged}");
    drop(strangers);
}
