//! The same random requests for memcached and for this server: reports where they reply differently.
//!
//! ```sh
//! cargo run -p tidekv-memcached --example beside_memcached_fuzz              # 10 000 requests, seed 1
//! cargo run -p tidekv-memcached --example beside_memcached_fuzz -- 40000 7   # requests, seed
//! ```
//!
//! Takes `memcached` (1.6.45) from the path; without it, it says so and ends. Both servers have more
//! memory than the objects take, so that none is evicted.
//!
//! Requests in the text, the meta and the binary protocol come from `requests.rs`, over several
//! connections and for few keys. Replies are compared byte for byte, except that versions only have to
//! match one to one, and that seconds may differ by one. Every twenty requests all objects are
//! compared as well. After a difference both servers are emptied. The differences in `known.txt` are
//! counted, and not reported.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a tool: runs a server, and prints what it finds"
)]

mod replies;
mod requests;

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use replies::{Ending, Known, Reply, Versions, are_frames_alike, are_texts_alike};
use requests::{Generator, Request};
use tidekv_io::{MemoryStorage, SystemClock};
use tidekv_memcached::{CacheServer, CacheServerOptions};
use tidekv_tiered::{Cache, Environment, Options};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Connections to each server: for text and meta requests, and for binary ones.
const TEXT_CONNECTIONS: usize = 3;
const CONNECTIONS: usize = 5;
/// Differences that are printed; then the run ends.
const REPORTS_MAX: usize = 10;
/// Requests between two comparisons of the objects.
const CHECK_INTERVAL: usize = 20;
/// Requests before a difference that are printed with it.
const HISTORY: usize = 30;
const PATIENCE: Duration = Duration::from_secs(20);
/// A server that sends nothing for so long waits for the rest of a request.
const QUIET: Duration = Duration::from_millis(300);
/// Longer than the times to live that end, and the second in which they do.
const SLOW: Duration = Duration::from_millis(3300);

/// The request behind every other one, whose reply shows that the reply to that one is complete.
const END: &[u8] = b"mn\r\n";
const END_REPLY: &[u8] = b"MN\r\n";
const BINARY_END: [u8; 24] =
    [0x80, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xed, 0xbe, 0xef, 0, 0, 0, 0, 0, 0, 0, 0];
const BINARY_END_REPLY: [u8; 24] =
    [0x81, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xed, 0xbe, 0xef, 0, 0, 0, 0, 0, 0, 0, 0];

/// A connection to a server.
struct Wire {
    port: u16,
    stream: TcpStream,
    is_binary: bool,
}

impl Wire {
    fn connect(port: u16, is_binary: bool) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(QUIET))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { port, stream, is_binary })
    }

    /// The reply to a request. After one that is not complete the connection is a new one.
    fn ask(&mut self, request: &[u8]) -> Result<Reply> {
        let (end, end_reply) = match self.is_binary {
            true => (&BINARY_END[..], &BINARY_END_REPLY[..]),
            false => (END, END_REPLY),
        };
        // The server may have closed the connection before it has everything.
        let _ = self.stream.write_all(&[request, end].concat());
        let mut bytes = Vec::new();
        let mut part = [0; 1 << 16];
        let ending = loop {
            match self.stream.read(&mut part) {
                Ok(0) => break Ending::Closed,
                Ok(count) => bytes.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ending::Waiting,
                Err(_) => break Ending::Closed,
            }
            if let Some(reply) = bytes.strip_suffix(end_reply) {
                bytes.truncate(reply.len());
                break Ending::Complete;
            }
        };
        if ending != Ending::Complete {
            *self = Self::connect(self.port, self.is_binary)?;
        }
        Ok(Reply { bytes, ending })
    }
}

/// A process; killed on drop.
struct Memcached(Child);

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts memcached; `None` if there is none.
fn start_memcached() -> Result<Option<(Memcached, u16)>> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    // One thread, and none for its queues: no object is in use when a request comes. `incr` does not
    // change an object that is, but stores another one.
    let process = Command::new("memcached")
        .args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-m", "1024"])
        .args(["-t", "1", "-o", "no_lru_maintainer,no_lru_crawler", "-u", "nobody"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(process) = process else { return Ok(None) };
    let memcached = Memcached(process);
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > PATIENCE {
            return Err("memcached does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some((memcached, port)))
}

fn start_ours() -> Result<(CacheServer, u16)> {
    let environment =
        Environment::new(Arc::new(MemoryStorage::new()), Arc::new(SystemClock::new()));
    let cache = Cache::open(&Options { dram_bytes: 1 << 30, ..Options::default() }, &environment)?;
    let listen = vec!["127.0.0.1:0".parse()?];
    let server = CacheServer::start(cache, CacheServerOptions { listen, ..Default::default() })?;
    let address = server.local_addresses()[0].to_string();
    let port = address.rsplit(':').next().ok_or("an address has a port")?.parse()?;
    Ok((server, port))
}

fn shown(request: &[u8]) -> String {
    let text = request.escape_ascii().to_string();
    if text.len() > 150 { format!("{}… ({} bytes)", &text[..150], request.len()) } else { text }
}

/// A run over both servers.
struct Run {
    memcached: Vec<Wire>,
    ours: Vec<Wire>,
    generator: Generator,
    versions: Versions,
    known: Known,
    /// The requests since the servers were emptied.
    history: Vec<String>,
}

impl Run {
    /// Empties both servers, key by key: memcached's `flush_all` may leave objects that were used in
    /// the same second.
    fn reset(&mut self) -> Result<()> {
        for wires in [&mut self.memcached, &mut self.ours] {
            for removal in Generator::removals() {
                wires[0].ask(removal.as_bytes())?;
            }
        }
        self.history.clear();
        Ok(())
    }

    /// Sends a request to both; the replies, if they differ.
    fn compare(&mut self, connection: usize, request: &Request) -> Result<Option<[Reply; 2]>> {
        let memcached = self.memcached[connection].ask(&request.memcached)?;
        let ours = self.ours[connection].ask(&request.ours)?;
        let are_alike = match self.ours[connection].is_binary {
            true => are_frames_alike(&memcached.bytes, &ours.bytes, &mut self.versions),
            false => are_texts_alike(&memcached.bytes, &ours.bytes, &mut self.versions),
        };
        for pair in self.versions.seen.drain(..) {
            self.generator.learn(pair);
        }
        let is_same = are_alike && memcached.ending == ours.ending;
        Ok((!is_same).then_some([memcached, ours]))
    }

    /// Sends the next request; a difference that is not known, as text.
    fn step(&mut self, number: usize) -> Result<Option<String>> {
        let connection = number * 7 % CONNECTIONS;
        let request = match connection < TEXT_CONNECTIONS {
            true => self.generator.text(),
            false => self.generator.binary(),
        };
        self.history.push(format!("{connection}: {}", shown(&request.ours)));
        if request.flushes {
            // Objects that were used in the same second may survive in memcached.
            std::thread::sleep(SLOW);
        }
        if let Some([memcached, ours]) = self.compare(connection, &request)? {
            if self.known.explains(&request.ours, &memcached, &ours) {
                // The objects may differ from here on.
                self.reset()?;
                return Ok(None);
            }
            let (memcached, ours) = (memcached.shown(), ours.shown());
            return Ok(Some(format!("  memcached: {memcached}\n  ours:      {ours}")));
        }
        if request.is_slow {
            std::thread::sleep(SLOW);
        }
        if request.is_slow || number.is_multiple_of(CHECK_INTERVAL) {
            return self.compare_objects();
        }
        Ok(None)
    }

    /// The first object that differs, as text.
    fn compare_objects(&mut self) -> Result<Option<String>> {
        for key in Generator::keys() {
            let bytes = format!("mg {key} v f t s c k\r\n").into_bytes();
            let request = Request { memcached: bytes.clone(), ours: bytes, ..Request::default() };
            if let Some([memcached, ours]) = self.compare(0, &request)? {
                if self.known.explains(&request.ours, &memcached, &ours) {
                    self.reset()?;
                    return Ok(None);
                }
                let (memcached, ours) = (memcached.shown(), ours.shown());
                return Ok(Some(format!("  {key}: memcached: {memcached}\n  ours: {ours}")));
            }
        }
        Ok(None)
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let Some((_memcached, port)) = start_memcached()? else {
        println!("skipped: memcached is not on the path");
        return Ok(());
    };
    let (_server, our_port) = start_ours()?;
    let connect = |port| {
        let is_binary = |number| number >= TEXT_CONNECTIONS;
        (0..CONNECTIONS).map(|number| Wire::connect(port, is_binary(number))).collect::<Result<_>>()
    };
    let mut run = Run {
        memcached: connect(port)?,
        ours: connect(our_port)?,
        generator: Generator::new(seed),
        versions: Versions::default(),
        known: Known::parse(include_str!("known.txt"))?,
        history: Vec::new(),
    };
    let mut reports = 0;
    for number in 1..=count {
        let Some(difference) = run.step(number)? else { continue };
        reports += 1;
        println!("difference {reports}, request {number} of seed {seed}:");
        let before = run.history.len().saturating_sub(HISTORY);
        run.history[before..].iter().for_each(|line| println!("  {line}"));
        println!("{difference}\n");
        if reports == REPORTS_MAX {
            break;
        }
        run.reset()?;
    }
    let known: usize = run.known.counts().map(|(count, _)| count).sum();
    println!("{count} requests, seed {seed}: {reports} differences, {known} known");
    run.known.counts().for_each(|(count, rule)| println!("  {count} times: {rule}"));
    if reports > 0 { Err("the servers differ".into()) } else { Ok(()) }
}
