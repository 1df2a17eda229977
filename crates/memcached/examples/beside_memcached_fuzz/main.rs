//! The same random requests for memcached and for this server: reports where they answer
//! differently.
//!
//! ```sh
//! cargo build
//! cargo run -p tidekv-memcached --example beside_memcached_fuzz               # 10 000 requests, seed 1
//! cargo run -p tidekv-memcached --example beside_memcached_fuzz -- 100000 7   # requests, seed
//! ```
//!
//! Takes `memcached` (1.6.45) from the path; without it, it says so and ends. Takes `tidekv` from the
//! parent of the example's folder. Both servers run below this process.
//!
//! Requests of the text, the meta and the binary protocol, with valid and invalid arguments and edge
//! values, go over several connections, sometimes several of them in one packet or one in two. Replies
//! are compared byte for byte, apart from times, which may differ by a tick of the clock, and sizes in
//! `me`. Versions are compared as well: both servers count them, and start from the same number.
//! Behind a time to live of a second the run waits until it is over on both. Every hundred requests
//! the contents are compared, too. After a difference both servers are emptied. The differences in
//! `known.txt` are counted, and not reported; exit code 1 if there are others.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a tool: runs servers, and prints what it finds"
)]

mod frames;
mod replies;
mod requests;
mod wires;

use std::error::Error;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use replies::Known;
use requests::Generator;
use wires::{End, Protocol, Reply, Wire};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The connections to each server; one more, of text, compares contents.
const CONNECTIONS: [Protocol; 5] =
    [Protocol::Text, Protocol::Text, Protocol::Text, Protocol::Binary, Protocol::Binary];
/// Differences that are printed; then the run ends.
const REPORTS_MAX: usize = 10;
/// Requests between two comparisons of the contents.
const CHECK_INTERVAL: usize = 100;
/// Requests before a difference that are printed with it.
const HISTORY: usize = 20;
/// Takes a version.
const STORE: &[u8] = b"set version 0 -1 0\r\n\r\n";
const PATIENCE: Duration = Duration::from_secs(20);
/// After this long a time to live of a second is over by both clocks, of which each has its own tick.
const PAUSE: Duration = Duration::from_millis(2500);

/// A server; killed on drop.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts a server that listens on a free port; `None` if the program does not exist.
    fn start(command: impl FnOnce(u16) -> Command) -> Result<Option<Self>> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = command(port);
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(process) = started else { return Ok(None) };
        let server = Self { process, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("{command:?} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(server))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn memcached(port: u16) -> Command {
    let mut command = Command::new("memcached");
    command.args(["-u", "root", "-l", "127.0.0.1", "-U", "0", "-m", "1024", "-t", "1"]);
    // While another thread of memcached still uses an object, `incr` does something else.
    command.args(["-o", "no_lru_maintainer,no_lru_crawler", "-p", &port.to_string()]);
    command
}

/// `tidekv` beside the folder of this example.
fn binary() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(|folder| folder.parent());
    let binary = folder.ok_or("the example is in a folder")?.join("tidekv");
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!("{} is missing: run `cargo build`", binary.display()).into()),
    }
}

/// The same connections to both servers.
struct Pair {
    stock: Vec<Wire>,
    ours: Vec<Wire>,
}

impl Pair {
    fn connect(stock: u16, ours: u16) -> Result<Self> {
        let all = |port| {
            let protocols = CONNECTIONS.into_iter().chain([Protocol::Text]);
            protocols.map(|protocol| Wire::connect(port, protocol)).collect::<Result<Vec<_>>>()
        };
        Ok(Self { stock: all(stock)?, ours: all(ours)? })
    }

    /// Sends a request; a connection that has ended is opened anew on both.
    fn ask(&mut self, connection: usize, bytes: &[u8], cut: usize) -> Result<(Reply, Reply)> {
        let (stock, ours) = (&mut self.stock[connection], &mut self.ours[connection]);
        let (theirs, our) = (stock.ask(bytes, cut)?, ours.ask(bytes, cut)?);
        if theirs.end != End::Complete || our.end != End::Complete {
            self.connect_again(connection)?;
        }
        Ok((theirs, our))
    }

    /// Opens a connection anew on both servers.
    fn connect_again(&mut self, connection: usize) -> Result<()> {
        self.stock[connection].connect_again()?;
        self.ours[connection].connect_again()?;
        self.forget_version(connection)
    }

    /// A connection of memcached may have a version left, from an `ms` without its line end or from
    /// the connection that has used its memory before; the next object gets it.
    fn forget_version(&mut self, connection: usize) -> Result<()> {
        if self.stock[connection].protocol() == Protocol::Text {
            self.stock[connection].ask(STORE, 0)?;
        }
        self.synchronize()
    }

    /// Empties both servers. In memcached objects come back with a later `flush_all` that has a time if
    /// no lookup has missed them before.
    fn reset(&mut self) -> Result<()> {
        self.ask(CONNECTIONS.len(), b"flush_all\r\n", 0)?;
        self.compare_contents()?;
        self.synchronize()
    }

    /// Lets both servers count versions from the same number.
    fn synchronize(&mut self) -> Result<()> {
        let last = CONNECTIONS.len();
        loop {
            let next = b"ms version 0 c T-1\r\n\r\n";
            let (stock, ours) = (self.stock[last].ask(next, 0)?, self.ours[last].ask(next, 0)?);
            let version = |reply: &Reply| replies::versions(&reply.bytes).first().copied();
            let both = version(&stock).zip(version(&ours));
            let (stock, ours) = both.ok_or("a server tells no version")?;
            let (wire, missing) = match stock > ours {
                true => (&mut self.ours[last], stock - ours),
                false => (&mut self.stock[last], ours - stock),
            };
            if missing == 0 {
                return Ok(());
            }
            for _ in 0..missing {
                wire.ask(STORE, 0)?;
            }
        }
    }

    /// Compares the next version and the contents; the first difference, as the request and both replies.
    fn compare_contents(&mut self) -> Result<Option<Difference>> {
        let next = b"ms version 0 c T-1\r\n\r\n";
        let (stock, ours) = self.ask(CONNECTIONS.len(), next, 0)?;
        if !stock.is_like(&ours, next) {
            return Ok(Some(Difference::new(next, &stock, &ours)));
        }
        for key in requests::all_keys() {
            for command in ["me ", "gets "] {
                let request = [command.as_bytes(), &key, b"\r\n"].concat();
                let (stock, ours) = self.ask(CONNECTIONS.len(), &request, 0)?;
                if !stock.is_like(&ours, &request) {
                    return Ok(Some(Difference::new(&request, &stock, &ours)));
                }
            }
        }
        Ok(None)
    }
}

/// A difference, as text.
struct Difference {
    request: String,
    stock: String,
    ours: String,
}

impl Difference {
    fn new(request: &[u8], stock: &Reply, ours: &Reply) -> Self {
        let [stock, ours] = [stock, ours].map(Reply::shown);
        Self { request: requests::shown(request), stock, ours }
    }

    /// One of the contents, as the effect of a request.
    fn after(&self, request: &[u8]) -> Self {
        let request = format!("contents after {}", requests::shown(request));
        Self { request, stock: self.stock.clone(), ours: self.ours.clone() }
    }
}

/// A run over both servers.
struct Run {
    pair: Pair,
    generator: Generator,
    known: Known,
    /// The requests since the servers were emptied.
    history: Vec<String>,
}

impl Run {
    /// Empties both servers and starts anew.
    fn reset(&mut self) -> Result<()> {
        self.history.clear();
        self.pair.reset()
    }

    /// Sends the next request; a difference that is not known.
    fn step(&mut self, number: usize) -> Result<Option<Difference>> {
        let connection = self.generator.below(CONNECTIONS.len());
        let request = match CONNECTIONS[connection] {
            Protocol::Text => self.generator.next_text(),
            Protocol::Binary => frames::next(&self.generator),
        };
        let bytes = &request.bytes;
        let cut = if self.generator.below(40) == 0 { self.generator.below(bytes.len()) } else { 0 };
        self.history.push(format!("{connection}: {}", requests::shown(bytes)));
        let (stock, ours) = self.pair.ask(connection, bytes, cut)?;
        self.generator.learn(stock.versions());
        if request.pauses {
            std::thread::sleep(PAUSE);
        }
        if leaves_version(bytes, &stock) {
            self.pair.forget_version(connection)?;
        }
        let mut is_known = false;
        if !stock.is_like(&ours, bytes) {
            let difference = Difference::new(bytes, &stock, &ours);
            if !self.explains(&difference) {
                return Ok(Some(difference));
            }
            is_known = true;
        }
        let counts = has(bytes, b"ma ");
        let checks = number.is_multiple_of(CHECK_INTERVAL) || is_known;
        if !checks && !counts && !flushes(bytes) {
            return Ok(None);
        }
        match self.pair.compare_contents()? {
            Some(difference)
                if is_known
                    || self.explains(&difference)
                    || counts && self.explains(&difference.after(bytes)) =>
            {
                self.reset()?;
                Ok(None)
            }
            difference => Ok(difference),
        }
    }

    fn explains(&mut self, difference: &Difference) -> bool {
        let Difference { request, stock, ours } = difference;
        self.known.explains(request, stock, ours)
    }
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// Whether a request may empty the servers.
fn flushes(request: &[u8]) -> bool {
    has(request, b"flush_all") || has(request, &[0x80, 0x08]) || has(request, &[0x80, 0x18])
}

/// Whether memcached keeps the version of an `ms` for the next object that the connection stores.
fn leaves_version(request: &[u8], stock: &Reply) -> bool {
    has(request, b"ms ") && has(&stock.bytes, b"bad data chunk")
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let Some(stock) = Server::start(memcached)? else {
        println!("skipped: memcached is not on the path");
        return Ok(());
    };
    let binary = binary()?;
    let tidekv = |port| {
        let mut command = Command::new(binary);
        command.args(["cache", "--dram", "1GiB", "--listen", &format!("127.0.0.1:{port}")]);
        command
    };
    let ours = Server::start(tidekv)?.ok_or("tidekv does not start")?;
    let mut run = Run {
        pair: Pair::connect(stock.port, ours.port)?,
        generator: Generator::new(seed),
        known: Known::parse(include_str!("known.txt"))?,
        history: Vec::new(),
    };
    run.reset()?;
    let mut reports = 0;
    for number in 1..=count {
        let Some(difference) = run.step(number)? else { continue };
        reports += 1;
        println!("difference {reports}, request {number} of seed {seed}:");
        let before = run.history.len().saturating_sub(HISTORY);
        run.history[before..].iter().for_each(|line| println!("  {line}"));
        let Difference { request, stock, ours } = difference;
        println!("  {request}\n  memcached: {stock}\n  ours:      {ours}\n");
        if reports == REPORTS_MAX {
            break;
        }
        run.reset()?;
    }
    println!("{count} requests, seed {seed}: {reports} differences, {} known", run.known.count());
    run.known.counts().for_each(|(count, rule)| println!("  {count} times: {rule}"));
    if reports > 0 { Err("the servers differ".into()) } else { Ok(()) }
}
