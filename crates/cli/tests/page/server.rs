//! A server with a status page, and its statistics.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Small, so that the data is several times the caches.
pub const MEMORY_BYTES: u64 = 10 << 20;

/// A server process; killed on drop.
pub struct Server {
    child: Child,
    address: String,
    url: String,
    _directory: TempDir,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with("adaptive")
    }

    pub fn start_with(policy: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data").display().to_string();
        let memory = MEMORY_BYTES.to_string();
        let arguments = ["--cache-policy", policy, "--memory", &memory, "--data", &data];
        Self::run("serve", &arguments, directory)
    }

    /// Runs a server command with its files in `directory`.
    pub fn run(command: &str, arguments: &[&str], directory: TempDir) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidekv"))
            .env_remove("TIDEKV_PASSWORD")
            .args([command, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let mut parts = line.split("; ");
        let address = parts.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();
        let url = parts.next().unwrap().strip_prefix("page at ").unwrap().to_owned();
        Self { child, address, url, _directory: directory }
    }

    /// The address for clients.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The URL of the page.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The response of the page's address to a path.
    pub fn get(&self, path: &str) -> String {
        let host = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        body.to_owned()
    }

    /// All samples and counters.
    pub fn stats(&self) -> Value {
        serde_json::from_str(&self.get("/api/stats")).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
