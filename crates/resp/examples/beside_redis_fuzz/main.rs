//! The same random commands for Redis and for this server: reports where they answer differently.
//!
//! ```sh
//! cargo run -p tidekv-resp --example beside_redis_fuzz               # 10 000 commands, seed 1
//! cargo run -p tidekv-resp --example beside_redis_fuzz -- 100000 7   # commands, seed
//! ```
//!
//! Takes `redis-server` (7.0) from the path (Debian: package `redis-server`); without it, it says so
//! and ends. Both servers run in or below this process, over memory and a temporary folder.
//!
//! Commands of the supported families come from the templates of `commands.rs`, with valid and
//! invalid arguments and edge values, over several connections that use transactions, watched keys
//! and all databases. Replies are compared after what Redis leaves open (the order of keys and
//! fields, random choices) was taken out of them. After every transaction, and every hundred
//! commands, the contents of all databases are compared as well. After a difference both servers are emptied. The differences in
//! `known.txt` are counted, and not reported.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a tool: runs a server, and prints what it finds"
)]

mod commands;
mod replies;

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use commands::Generator;
use replies::{Known, Value, normalized};
use tidekv::{Db, Environment, MemoryStorage, Options};
use tidekv_resp::{Server, ServerOptions};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Connections to each server.
const CONNECTIONS: usize = 4;
/// Differences that are printed; then the run ends.
const REPORTS_MAX: usize = 10;
/// Commands between two comparisons of the contents.
const CHECK_INTERVAL: usize = 100;
/// Commands before a difference that are printed with it.
const HISTORY: usize = 20;
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a server.
struct Wire(BufReader<TcpStream>);

impl Wire {
    fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    fn ask(&mut self, words: &[Vec<u8>]) -> Result<Value> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes)?;
        self.read()
    }

    fn ask_text(&mut self, command: &str) -> Result<Value> {
        let words: Vec<_> = command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.ask(&words)
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line)?;
        let text = line.strip_suffix(b"\r\n").ok_or("the server has closed the connection")?;
        let rest = String::from_utf8_lossy(&text[1..]).into_owned();
        let count = || rest.parse::<i64>();
        Ok(match text[0] {
            b'+' => Value::Simple(rest),
            b'-' => Value::Error(rest),
            b':' => Value::Integer(rest.parse()?),
            b'_' => Value::Null,
            b'$' | b'*' if count()? < 0 => Value::Null,
            b'$' | b'=' => {
                let mut bytes = vec![0; count()? as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Value::Bulk(bytes)
            }
            b'*' => Value::List(self.read_all(count()?)?),
            b'~' => Value::Set(self.read_all(count()?)?),
            b'%' => Value::Map(self.read_all(2 * count()?)?),
            b',' | b'#' => Value::Simple(rest),
            other => return Err(format!("no reply begins with {}", other as char).into()),
        })
    }

    fn read_all(&mut self, count: i64) -> Result<Vec<Value>> {
        (0..count).map(|_| self.read()).collect()
    }
}

/// A process; killed on drop.
struct Redis {
    process: Child,
    _data: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts Redis; `None` if there is none.
fn start_redis() -> Result<Option<(Redis, u16)>> {
    let data = tempfile::tempdir()?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(data.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(process) = process else { return Ok(None) };
    let redis = Redis { process, _data: data };
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > PATIENCE {
            return Err("redis-server does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some((redis, port)))
}

fn start_ours() -> Result<(Server, u16)> {
    let environment = Environment::default().storage(Arc::new(MemoryStorage::new()));
    // Enough memory that no memtable is flushed: a watched key that is absent then counts as changed by
    // the flush of a database.
    let options = Options::default().environment(environment).memory_bytes(2 << 30);
    let db = Db::open("data", options)?;
    let options = ServerOptions { listen: vec!["127.0.0.1:0".parse()?], ..Default::default() };
    let server = Server::start(db, options)?;
    let address = server.local_addresses()[0].to_string();
    let port = address.rsplit(':').next().ok_or("an address has a port")?.parse()?;
    Ok((server, port))
}

/// The same connections to both servers.
struct Pair {
    redis: Vec<Wire>,
    ours: Vec<Wire>,
}

impl Pair {
    fn connect(redis: u16, ours: u16) -> Result<Self> {
        // One more, which compares contents.
        let all = |port| (0..=CONNECTIONS).map(|_| Wire::connect(port)).collect::<Result<Vec<_>>>();
        Ok(Self { redis: all(redis)?, ours: all(ours)? })
    }

    fn ask(&mut self, connection: usize, words: &[Vec<u8>]) -> Result<(Value, Value)> {
        let (redis, ours) = (&mut self.redis[connection], &mut self.ours[connection]);
        Ok((redis.ask(words)?, ours.ask(words)?))
    }

    /// Makes both servers what they were at the start.
    fn reset(&mut self) -> Result<()> {
        for wires in [&mut self.redis, &mut self.ours] {
            for wire in wires.iter_mut() {
                wire.ask_text("RESET")?;
            }
            wires[0].ask_text("FLUSHALL")?;
        }
        Ok(())
    }

    /// The contents of all databases, as commands and replies, that differ.
    fn compare_contents(&mut self) -> Result<Option<String>> {
        for database in 0..16 {
            let ask = |pair: &mut Self, words: &[&[u8]]| {
                let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
                let (redis, ours) = pair.ask(CONNECTIONS, &words)?;
                Ok::<_, Box<dyn Error>>((normalized(&words, redis), normalized(&words, ours)))
            };
            let number = database.to_string();
            ask(self, &[b"SELECT", number.as_bytes()])?;
            let (keys, our_keys) = ask(self, &[b"KEYS", b"*"])?;
            if keys != our_keys {
                return Ok(Some(format!("database {database}: {keys:?} and {our_keys:?}")));
            }
            let Value::List(keys) = keys else { continue };
            for key in keys {
                let Value::Bulk(key) = key else { continue };
                for command in ["GET", "HGETALL", "PEXPIRETIME", "HLEN"] {
                    let (redis, ours) = ask(self, &[command.as_bytes(), &key])?;
                    let words = [command.as_bytes().to_vec()];
                    if !replies::are_alike(&words, &[], &redis, &ours) {
                        let key = key.escape_ascii();
                        return Ok(Some(format!(
                            "database {database}, {command} {key}: {redis:?} and {ours:?}"
                        )));
                    }
                }
            }
        }
        Ok(None)
    }
}

fn shown(words: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| {
        let text = word.escape_ascii().to_string();
        if text.len() > 60 { format!("{}… ({})", &text[..60], word.len()) } else { text }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A run over both servers.
struct Run {
    pair: Pair,
    generator: Generator,
    known: Known,
    /// The commands since the servers were emptied.
    history: Vec<String>,
    /// The queued commands of each connection.
    queues: Vec<Vec<Vec<Vec<u8>>>>,
}

impl Run {
    /// Empties both servers and starts anew.
    fn reset(&mut self) -> Result<()> {
        self.pair.reset()?;
        self.history.clear();
        self.forget();
        Ok(())
    }

    /// No connection is in a transaction.
    fn forget(&mut self) {
        self.generator.reset();
        self.queues.iter_mut().for_each(Vec::clear);
    }

    /// The queued commands that `words` executes; follows the queue of the connection.
    fn queued(&mut self, connection: usize, words: &[Vec<u8>], reply: &Value) -> Vec<Vec<Vec<u8>>> {
        let queue = &mut self.queues[connection];
        let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
        if matches!(reply, Value::Simple(text) if text == "QUEUED") {
            queue.push(words.to_vec());
        } else if is("EXEC") {
            return std::mem::take(queue);
        } else if is("DISCARD") || is("RESET") {
            queue.clear();
        }
        Vec::new()
    }

    /// Whether a difference is known; those of an `EXEC` one by one.
    fn is_known(
        &mut self,
        words: &[Vec<u8>],
        queued: &[Vec<Vec<u8>>],
        redis: &Value,
        ours: &Value,
    ) -> bool {
        match (redis, ours) {
            (Value::List(redis), Value::List(ours))
                if redis.len() == queued.len() && ours.len() == queued.len() =>
            {
                queued.iter().zip(redis).zip(ours).all(|((words, redis), ours)| {
                    let (redis, ours) =
                        (normalized(words, redis.clone()), normalized(words, ours.clone()));
                    replies::are_alike(words, &[], &redis, &ours)
                        || self.known.explains(words, &redis, &ours)
                })
            }
            _ => self.known.explains(words, redis, ours),
        }
    }

    /// Sends the next command; a difference that is not known, as text.
    fn step(&mut self, number: usize) -> Result<Option<String>> {
        let (connection, words) = self.generator.next_command();
        self.history.push(format!("{connection}: {}", shown(&words)));
        let (redis, ours) = self.pair.ask(connection, &words)?;
        let (redis, ours) = (normalized(&words, redis), normalized(&words, ours));
        let queued = self.queued(connection, &words, &redis);
        if !replies::are_alike(&words, &queued, &redis, &ours) {
            if self.is_known(&words, &queued, &redis, &ours) {
                // The contents may differ from here on.
                self.reset()?;
                return Ok(None);
            }
            let queued: String =
                queued.iter().map(|words| format!("  queued: {}\n", shown(words))).collect();
            return Ok(Some(format!("{queued}  Redis: {redis:?}\n  ours:  {ours:?}")));
        }
        if !number.is_multiple_of(CHECK_INTERVAL) && queued.is_empty() {
            return Ok(None);
        }
        let difference = self.pair.compare_contents()?;
        Ok(difference.map(|what| format!("  {what}")))
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let Some((_redis, redis_port)) = start_redis()? else {
        println!("skipped: redis-server is not on the path");
        return Ok(());
    };
    let (_server, our_port) = start_ours()?;
    let mut run = Run {
        pair: Pair::connect(redis_port, our_port)?,
        generator: Generator::new(seed, CONNECTIONS),
        known: Known::parse(include_str!("known.txt"))?,
        history: Vec::new(),
        queues: vec![Vec::new(); CONNECTIONS],
    };
    let mut reports = 0;
    for number in 1..=count {
        let Some(difference) = run.step(number)? else { continue };
        reports += 1;
        println!("difference {reports}, command {number} of seed {seed}:");
        let before = run.history.len().saturating_sub(HISTORY);
        run.history[before..].iter().for_each(|line| println!("  {line}"));
        println!("{difference}\n");
        if reports == REPORTS_MAX {
            break;
        }
        run.reset()?;
    }
    println!("{count} commands, seed {seed}: {reports} differences, {} known", run.known.count());
    run.known.counts().for_each(|(count, rule)| println!("  {count} times: {rule}"));
    if reports > 0 { Err("the servers differ".into()) } else { Ok(()) }
}
