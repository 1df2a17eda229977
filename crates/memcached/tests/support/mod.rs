//! A server of a cache, and a minimal client of memcached's protocol.
#![allow(dead_code, reason = "each test uses its part")]

#[path = "../../../net/tests/support/tls.rs"]
pub mod tls;
pub mod subjects;
#[path = "../../../net/tests/support/wire.rs"]
pub mod wire;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use tidekv_io::{Clock, MemoryStorage, Storage, SystemClock};
use tidekv_memcached::{Address, CacheServer, CacheServerOptions};
use tidekv_tiered::{Cache, Environment, Options};
pub use wire::{PATIENCE, Wire};

/// A cache over simulated storage.
pub fn open_with(options: &Options, clock: Arc<dyn Clock>) -> Cache {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    Cache::open(options, &Environment::new(storage, clock)).unwrap()
}

/// A cache of 64 MiB of DRAM.
pub fn open() -> Cache {
    open_with(&Options::default(), Arc::new(SystemClock::new()))
}

/// Several event loops, also on machines with few processors.
pub fn options() -> CacheServerOptions {
    CacheServerOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        event_loops: Some(3),
        ..CacheServerOptions::default()
    }
}

/// The request that stores `value` under `key`.
pub fn set(key: &str, value: &str) -> String {
    format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())
}

pub fn start_with(options: CacheServerOptions) -> CacheServer {
    CacheServer::start(open(), options).unwrap()
}

pub fn start() -> CacheServer {
    start_with(options())
}

pub fn tcp_address(server: &CacheServer) -> String {
    let is_tcp = |address: &&Address| matches!(address, Address::Tcp(..));
    server.local_addresses().iter().find(is_tcp).unwrap().to_string()
}

pub struct CacheClient {
    wire: Box<dyn Wire>,
}

impl CacheClient {
    pub fn connect(server: &CacheServer) -> Self {
        Self::over(Box::new(socket(server)))
    }

    pub fn over(wire: Box<dyn Wire>) -> Self {
        Self { wire }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.wire.write_all(bytes.as_ref()).unwrap();
        self.wire.flush().unwrap();
    }

    /// The replies to all of `requests`.
    pub fn ask(&mut self, requests: impl AsRef<[u8]>) -> String {
        self.send(requests);
        self.send("mn\r\n");
        let answer = self.read_until("MN\r\n");
        answer.strip_suffix("MN\r\n").unwrap().into()
    }

    /// Everything up to `end`.
    pub fn read_until(&mut self, end: &str) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            let mut part = [0; 1 << 16];
            // Reading past `end` is safe: nothing is sent after it.
            let count = self.wire.read(&mut part).unwrap();
            assert!(count > 0, "cut off after {:?}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&part[..count]);
        }
        String::from_utf8(answer).unwrap()
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        // The server may have closed while the client was sending.
        let _ = self.wire.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }
}

pub fn socket(server: &CacheServer) -> TcpStream {
    let stream = TcpStream::connect(tcp_address(server)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// The response of the HTTP address to a path.
pub fn ask_page(server: &CacheServer, path: &str, headers: &str) -> String {
    let url = server.page_url().unwrap();
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
