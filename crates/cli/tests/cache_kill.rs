//! The real cache server, on real files, killed at random under load (SIGKILL) and
//! restarted: a get returns the last stored value of its key, or a miss.
//!
//! Four clients store, read, touch and delete separate keys, some with an expiry time, and
//! record the acknowledged and the pending operations. After each kill they read all of
//! their keys: a value must be the last acknowledged one or the pending one, and must not
//! have expired. In between a device is missing during one run of the server,
//! and then returns with its old content.
//!
//! `TIDEKV_CACHE_KILL_ROUNDS` sets the number of rounds (3 if unset; evidence: 100 and more),
//! `TIDEKV_CACHE_KILL_SEED` the seed.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives real processes")]

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidekv_io::SeededRandom;
use tidekv_testkit::evidence::Row;

const CLIENTS: u64 = 4;
const KEYS: u64 = 3_000;
const VALUE_BYTES_MAX: u64 = 40_000;
/// Clients and server share a clock; a second must have ended completely.
const GRACE_S: u64 = 1;

/// A client's record of one of its keys.
#[derive(Debug, Clone, Default)]
struct Known {
    /// The number of the last acknowledged value, and its expiry time.
    acknowledged: Option<Stored>,
    /// The last value that was sent but not acknowledged.
    sent: Option<Stored>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stored {
    number: u64,
    /// In seconds of Unix time.
    deadline_s: Option<u64>,
}

#[derive(Debug, Default)]
struct Ledger {
    keys: HashMap<u64, Known>,
    numbers: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    acknowledged: u64,
    gets: u64,
    hits: u64,
    hits_after_kills: u64,
    expired: u64,
    losses: u64,
}

struct Client {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}

fn key(client: u64, n: u64) -> String {
    format!("client{client}:key{n}")
}

/// The value with a number: key and number determine its length and bytes.
fn value(key: &str, number: u64) -> Vec<u8> {
    let seed =
        key.bytes().fold(number, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let len = SeededRandom::new(seed).below(VALUE_BYTES_MAX) as usize;
    let text = format!("{key} {number} ");
    text.bytes().cycle().take(text.len() + len).collect()
}

/// The number in a value.
fn number_of(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value.get(..60.min(value.len()))?).ok()?.split(' ').nth(1)?.parse().ok()
}

impl Client {
    fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { reader: BufReader::new(stream.try_clone()?), stream })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn ask(&mut self, command: &[u8]) -> io::Result<String> {
        self.stream.write_all(command)?;
        self.line()
    }

    fn get(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let head = self.ask(format!("get {key}\r\n").as_bytes())?;
        if head == "END" {
            return Ok(None);
        }
        let len: usize =
            head.rsplit(' ').next().and_then(|len| len.parse().ok()).expect("a length");
        let mut value = vec![0; len + 2];
        self.reader.read_exact(&mut value)?;
        assert_eq!(self.line()?, "END");
        value.truncate(len);
        Ok(Some(value))
    }
}

impl Ledger {
    /// Checks that `found` is a valid value of the key, and records it.
    fn check(&mut self, key: &str, n: u64, found: Option<&[u8]>, tally: &mut Tally) {
        tally.gets += 1;
        let Some(found) = found else { return };
        tally.hits += 1;
        let known = self.keys.get(&n).cloned().unwrap_or_default();
        let number = number_of(found);
        let may_be = [known.acknowledged, known.sent];
        let is_it = |stored: &Stored| {
            let is_late = stored.deadline_s.is_some_and(|late_s| late_s + GRACE_S < now_s());
            Some(stored.number) == number && !is_late && found == value(key, stored.number)
        };
        if !may_be.iter().flatten().any(is_it) {
            tally.losses += 1;
            eprintln!("{key} has {number:?} at {}; may be: {known:?}", now_s());
        }
    }

    fn settle(&mut self, n: u64, stored: Option<Stored>) {
        self.keys.insert(n, Known { acknowledged: stored, sent: None });
    }

    /// One operation on a key.
    fn step(
        &mut self,
        connection: &mut Client,
        client: u64,
        dice: &SeededRandom,
        tally: &mut Tally,
    ) -> io::Result<()> {
        let n = dice.below(KEYS >> dice.below(4));
        let key = key(client, n);
        match dice.below(10) {
            0..4 => {
                let found = connection.get(&key)?;
                self.check(&key, n, found.as_deref(), tally);
            }
            4 => {
                let reply = connection.ask(format!("delete {key}\r\n").as_bytes())?;
                assert!(matches!(&*reply, "DELETED" | "NOT_FOUND"), "{reply}");
                self.settle(n, None);
            }
            5 if self.keys.get(&n).is_some_and(|known| known.acknowledged.is_some()) => {
                let left_s = 1 + dice.below(3);
                let known = self.keys.entry(n).or_default();
                let deadline_s = Some(now_s() + left_s);
                // Until the reply, either the old or the new expiry time is valid.
                known.sent = known.acknowledged.map(|stored| Stored { deadline_s, ..stored });
                let reply = connection.ask(format!("touch {key} {left_s}\r\n").as_bytes())?;
                let known = self.keys.entry(n).or_default();
                let touched = known.acknowledged.map(|stored| Stored { deadline_s, ..stored });
                match &*reply {
                    "TOUCHED" => self.settle(n, touched),
                    "NOT_FOUND" => {}
                    reply => panic!("{reply}"),
                }
            }
            _ => {
                self.numbers += 1;
                let left_s = if dice.below(4) == 0 { 1 + dice.below(3) } else { 0 };
                let deadline_s = Some(now_s() + left_s).filter(|_| left_s > 0);
                let stored = Stored { number: self.numbers, deadline_s };
                let value = value(&key, stored.number);
                self.keys.entry(n).or_default().sent = Some(stored);
                let mut command = format!("set {key} 0 {left_s} {}\r\n", value.len()).into_bytes();
                command.extend_from_slice(&value);
                command.extend_from_slice(b"\r\n");
                let reply = connection.ask(&command)?;
                assert_eq!(reply, "STORED");
                self.settle(n, Some(stored));
                tally.acknowledged += 1;
            }
        }
        Ok(())
    }

    /// Reads all keys.
    fn check_all(&mut self, connection: &mut Client, client: u64, tally: &mut Tally) {
        let mut numbers: Vec<u64> = self.keys.keys().copied().collect();
        numbers.sort_unstable();
        for n in numbers {
            let key = key(client, n);
            let found = connection.get(&key).expect("the server answers");
            let before = tally.hits;
            self.check(&key, n, found.as_deref(), tally);
            tally.hits_after_kills += tally.hits - before;
            let known = &self.keys[&n];
            let late = known.acknowledged.and_then(|stored| stored.deadline_s);
            tally.expired += u64::from(late.is_some_and(|late| late + GRACE_S < now_s()));
        }
    }
}

struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(directory: &Path) -> Self {
        let socket = directory.join("socket");
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidekv"));
        command.arg("cache").args(["--dram", "48MiB", "--object-max", "256KiB"]);
        for device in ["a", "b", "c"] {
            command.arg("--flash").arg(format!("{}:64MiB", directory.join(device).display()));
        }
        command.arg("--state").arg(directory.join("state"));
        command.arg("--listen").arg(format!("unix:{}", socket.display()));
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut greeting = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut greeting).expect("it greets");
        assert!(greeting.starts_with("listening on"), "{greeting:?}");
        Self { child, socket }
    }

    fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients work until the server is killed; after its restart they check their keys.
fn round(directory: &Path, ledgers: &mut [Ledger], dice: &SeededRandom, tally: &mut Tally) {
    let server = Server::start(directory);
    for (client, ledger) in ledgers.iter_mut().enumerate() {
        let mut connection = Client::connect(&server.socket).expect("it listens");
        ledger.check_all(&mut connection, client as u64, tally);
    }
    let end = Instant::now() + Duration::from_millis(400 + dice.below(1_200));
    let tallies = std::thread::scope(|scope| {
        let work = |(client, ledger): (usize, &mut Ledger), seed| {
            let (dice, mut tally) = (SeededRandom::new(seed), Tally::default());
            let Ok(mut connection) = Client::connect(&server.socket) else { return tally };
            while ledger.step(&mut connection, client as u64, &dice, &mut tally).is_ok() {}
            tally
        };
        let threads: Vec<_> = ledgers
            .iter_mut()
            .enumerate()
            .map(|one| (one, dice.below(u64::MAX)))
            .map(|(one, seed)| scope.spawn(move || work(one, seed)))
            .collect();
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&server.child),
            rustix::process::Signal::KILL,
        )
        .expect("it can be killed");
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no client fails"))
            .collect::<Vec<_>>()
    });
    server.kill();
    for one in tallies {
        tally.acknowledged += one.acknowledged;
        tally.gets += one.gets;
        tally.hits += one.hits;
        tally.losses += one.losses;
    }
}

#[test]
fn a_killed_cache_returns_no_stale_value() {
    let number = |variable: &str, usual: u64| {
        std::env::var(variable).map_or(usual, |text| text.parse().expect("it is a number"))
    };
    let rounds = number("TIDEKV_CACHE_KILL_ROUNDS", 3);
    let seed = number("TIDEKV_CACHE_KILL_SEED", 1);
    let dice = SeededRandom::new(seed);
    let directory = tempfile::tempdir().expect("there is a place for files");
    let path = directory.path();
    let mut ledgers: Vec<Ledger> = (0..CLIENTS).map(|_| Ledger::default()).collect();
    let (mut tally, mut vanished) = (Tally::default(), 0);
    for number in 0..rounds {
        // In some rounds a device is missing during one run of the server, and then returns unchanged.
        let device = path.join(["a", "b", "c"][dice.below(3) as usize]);
        let old = path.join("old");
        let vanishes = number % 3 == 2;
        if vanishes {
            std::fs::copy(&device, &old).expect("it can be copied");
            std::fs::remove_file(&device).expect("it is there");
            vanished += 1;
        }
        round(path, &mut ledgers, &dice, &mut tally);
        if vanishes {
            std::fs::rename(&old, &device).expect("it can come back");
        }
    }
    round(path, &mut ledgers, &dice, &mut tally);
    println!("{tally:?}");
    assert!(tally.hits_after_kills > tally.acknowledged / 100, "{tally:?}");
    Row::new("proof-cache-kill", "tidekv")
        .seed(seed)
        .param("clients", CLIENTS)
        .metric("kills", rounds + 1)
        .metric("vanished_devices", vanished)
        .metric("acknowledged", tally.acknowledged)
        .metric("gets", tally.gets)
        .metric("hits", tally.hits)
        .metric("hits_after_kills", tally.hits_after_kills)
        .metric("expired", tally.expired)
        .metric("losses", tally.losses)
        .record();
    assert_eq!(tally.losses, 0, "see above");
}
