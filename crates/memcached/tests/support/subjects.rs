//! Servers under test: this one and a memcached, and the notation of what they say.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, LocalStorage, ManualClock, Storage, SystemClock};
use tidekv_memcached::{Address, CacheServer, CacheServerOptions, OffsetClock};

/// A server under test.
pub trait Subject {
    fn socket(&self) -> &Path;
    fn let_pass(&self, time: Duration);
}

/// This server, with a stopped clock.
pub struct Ours {
    _server: CacheServer,
    clock: Arc<ManualClock>,
    socket: PathBuf,
}

impl Ours {
    pub fn start(directory: &Path, number: usize) -> Self {
        // The previous server may still hold its file.
        let socket = directory.join(format!("ours{number}"));
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let moved = Arc::new(OffsetClock::new(clock.clone()));
        let options = CacheServerOptions {
            listen: vec![Address::Unix(socket.clone())],
            ..CacheServerOptions::default()
        };
        let cache = super::open_with(&tidekv_tiered::Options::default(), moved);
        // The first version of memcached's objects is 2.
        cache.next_version();
        let server = CacheServer::start(cache, options).unwrap();
        Self { _server: server, clock, socket }
    }
}

impl Subject for Ours {
    fn socket(&self) -> &Path {
        &self.socket
    }

    fn let_pass(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

/// A memcached.
pub struct Theirs {
    process: Child,
    socket: PathBuf,
}

impl Theirs {
    pub fn start(program: &str, directory: &Path) -> Self {
        let socket = directory.join("theirs");
        let process = Command::new(program)
            .args(["-u", "root", "-s"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let clock = SystemClock::new();
        while UnixStream::connect(&socket).is_err() {
            clock.sleep(Duration::from_millis(10));
        }
        // Its seconds tick independently: start just after a tick.
        clock.sleep(Duration::from_millis(1100));
        Self { process, socket }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = LocalStorage::new().remove(&self.socket);
    }
}

impl Subject for Theirs {
    fn socket(&self) -> &Path {
        &self.socket
    }

    fn let_pass(&self, time: Duration) {
        SystemClock::new().sleep(time);
    }
}

pub fn escape(bytes: &[u8]) -> String {
    let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
    let escape = |&byte: &u8| match byte {
        byte if quotes(&byte) => char::from(byte).to_string(),
        byte => byte.escape_ascii().to_string(),
    };
    bytes.iter().map(escape).collect()
}

/// Reads `\r`, `\n`, `\\`, `\x00` and, to keep lines short, `{x*300}`.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        match next {
            '\\' => {
                let (byte, len) = match &rest[..1] {
                    "r" => (b'\r', 1),
                    "n" => (b'\n', 1),
                    "x" => (u8::from_str_radix(&rest[1..3], 16).unwrap(), 3),
                    _ => (b'\\', 1),
                };
                bytes.push(byte);
                rest = &rest[len..];
            }
            '{' => {
                let (inner, behind) = rest.split_once('}').unwrap();
                let (what, count) = inner.rsplit_once('*').unwrap();
                bytes.extend(what.repeat(count.parse().unwrap()).bytes());
                rest = behind;
            }
            next => bytes.extend_from_slice(next.to_string().as_bytes()),
        }
    }
    bytes
}
