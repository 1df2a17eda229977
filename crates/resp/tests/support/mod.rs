//! A server over simulated storage, and a minimal client.
#![allow(dead_code, reason = "each test uses its part")]

#[path = "../../../net/tests/support/tls.rs"]
pub mod tls;
#[path = "../../../net/tests/support/wire.rs"]
pub mod wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tidekv::{Db, Environment, Options};
use tidekv_io::{ManualClock, MemoryStorage};
use tidekv_resp::{Address, Server, ServerOptions};
pub use wire::{PATIENCE, Wire};

pub fn open_db() -> Db {
    open_db_with(Environment::default())
}

pub fn open_db_with(mut environment: Environment) -> Db {
    environment.storage.get_or_insert_with(|| Arc::new(MemoryStorage::new()));
    let options = Options::default().environment(environment).memory_bytes(64 << 20);
    Db::open("data", options).unwrap()
}

/// A store on `storage`, which outlives it.
pub fn open_db_on(storage: &MemoryStorage) -> Db {
    open_db_with(Environment::default().storage(Arc::new(storage.clone())))
}

/// A store with a manual clock.
pub fn open_db_at(unix_ms: u64) -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(unix_ms));
    let environment = Environment::default().clock(clock.clone());
    (open_db_with(environment), clock)
}

/// Several event loops, also on machines with few processors.
pub fn options() -> ServerOptions {
    ServerOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        event_loops: Some(3),
        ..ServerOptions::default()
    }
}

pub fn start() -> Server {
    start_with(options())
}

pub fn start_with(options: ServerOptions) -> Server {
    Server::start(open_db(), options).unwrap()
}

pub struct Client {
    wire: BufReader<Box<dyn Wire>>,
}

/// A decoded reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Error(String),
    Integer(i64),
    Null,
    List(Vec<Value>),
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        matches!(self, Self::Text(text) if text == other)
    }
}

impl PartialEq<i64> for Value {
    fn eq(&self, other: &i64) -> bool {
        *self == Self::Integer(*other)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Value {
    /// Whether it is an error that begins with `words`.
    pub fn is_error(&self, words: &str) -> bool {
        matches!(self, Self::Error(text) if text.starts_with(words))
    }

    /// The elements of a list; panics for other types.
    pub fn items(self) -> Vec<Value> {
        match self {
            Self::List(items) => items,
            other => panic!("{other:?} is no list"),
        }
    }

    /// The text of a string; panics for other types.
    pub fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }
}

/// A list of texts.
pub fn list<const N: usize>(texts: [&str; N]) -> Value {
    Value::List(texts.map(|text| Value::Text(text.into())).into())
}

pub fn tcp_address(server: &Server) -> String {
    let is_tcp = |address: &&Address| matches!(address, Address::Tcp(..));
    server.local_addresses().iter().find(is_tcp).unwrap().to_string()
}

impl Client {
    pub fn connect(server: &Server) -> Self {
        Self::connect_tcp(&tcp_address(server))
    }

    pub fn connect_tcp(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(Box::new(stream))
    }

    pub fn connect_unix(path: &std::path::Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::over(Box::new(stream))
    }

    pub fn over(wire: Box<dyn Wire>) -> Self {
        Self { wire: BufReader::new(wire) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.wire.get_mut().write_all(bytes).unwrap();
        self.wire.get_mut().flush().unwrap();
    }

    /// The number of `name` in a section of INFO.
    pub fn info(&mut self, section: &str, name: &str) -> u64 {
        let text = self.ask(&format!("INFO {section}")).text();
        let number = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        number.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
    }

    /// Sends a command of words that are separated by single spaces.
    pub fn ask(&mut self, command: &str) -> Value {
        let words: Vec<_> = command.split(' ').map(str::as_bytes).collect();
        self.send(&encode(&words));
        self.read()
    }

    /// Sends commands at once and reads all replies.
    pub fn ask_all(&mut self, commands: &[&str]) -> Vec<Value> {
        let mut bytes = Vec::new();
        for command in commands {
            let words: Vec<_> = command.split(' ').map(str::as_bytes).collect();
            bytes.extend(encode(&words));
        }
        self.send(&bytes);
        commands.iter().map(|_| self.read()).collect()
    }

    pub fn read(&mut self) -> Value {
        let raw = self.read_raw();
        let mut rest = &raw[..];
        let value = parse(&mut rest);
        assert!(rest.is_empty());
        value
    }

    /// The next bytes, as many as fit.
    pub fn read_exact(&mut self, bytes: &mut [u8]) {
        self.wire.read_exact(bytes).unwrap();
    }

    /// The bytes of one reply.
    pub fn read_raw(&mut self) -> Vec<u8> {
        let mut raw = Vec::new();
        self.read_into(&mut raw);
        raw
    }

    fn read_into(&mut self, raw: &mut Vec<u8>) {
        let start = raw.len();
        self.wire.read_until(b'\n', raw).unwrap();
        assert!(raw.len() > start, "the server has closed the connection");
        let line = raw[start..].to_vec();
        let count =
            || -> i64 { std::str::from_utf8(&line[1..line.len() - 2]).unwrap().parse().unwrap() };
        match line[0] {
            b'$' | b'=' if count() >= 0 => {
                let from = raw.len();
                raw.resize(from + count() as usize + 2, 0);
                self.wire.read_exact(&mut raw[from..]).unwrap();
            }
            b'*' | b'~' => (0..count()).for_each(|_| self.read_into(raw)),
            b'%' => (0..2 * count()).for_each(|_| self.read_into(raw)),
            _ => {}
        }
    }

    /// Everything up to the end of the connection.
    pub fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
        self.wire.read_to_end(bytes)
    }

    /// Whether the server has closed the connection (waits for it).
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.wire.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => panic!("there is more: {}", byte[0] as char),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A command in RESP.
pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn parse(rest: &mut &[u8]) -> Value {
    let end = rest.windows(2).position(|pair| pair == b"\r\n").unwrap();
    let line = String::from_utf8_lossy(&rest[1..end]).into_owned();
    let kind = rest[0];
    *rest = &rest[end + 2..];
    match kind {
        b'+' => Value::Text(line),
        b'-' => Value::Error(line),
        b':' => Value::Integer(line.parse().unwrap()),
        b'_' => Value::Null,
        b'$' | b'*' if line == "-1" => Value::Null,
        b'$' | b'=' => {
            let len: usize = line.parse().unwrap();
            let text = String::from_utf8_lossy(&rest[..len]).into_owned();
            *rest = &rest[len + 2..];
            Value::Text(text)
        }
        b'*' | b'~' => Value::List((0..line.parse().unwrap()).map(|_| parse(rest)).collect()),
        b'%' => {
            let len: usize = line.parse().unwrap();
            Value::List((0..2 * len).map(|_| parse(rest)).collect())
        }
        other => panic!("no reply begins with {}", other as char),
    }
}
