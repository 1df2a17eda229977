//! The real server, on a real disk, killed at random under load (SIGKILL) and
//! started again with other settings: nothing that was acknowledged is lost,
//! with either durability.
//!
//! Four clients write, each to keys of its own, always increasing numbers, and
//! remember what was acknowledged and what was only sent. After each kill every
//! key must hold a number from the last acknowledged to the last sent, every
//! counter likewise, and both halves of an `MSET` must agree.
//!
//! `TIDEKV_KILL_ROUNDS` sets the number of rounds (4 if unset; evidence: 20 and
//! more).
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives a real process")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
const KEYS: usize = 300;
/// Commands sent before their replies are read.
const PIPELINE: usize = 12;

/// What one client knows of its keys.
#[derive(Debug, Clone, Default)]
struct Ledger {
    /// Of each key: last number acknowledged, last number sent.
    keys: Vec<(u64, u64)>,
    counter: (u64, u64),
    pair: (u64, u64),
    next: u64,
    acknowledged: u64,
}

struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(directory: &Path, durability: &str, memory: &str) -> Self {
        let socket = directory.join("socket");
        let process = Command::new(env!("CARGO_BIN_EXE_tidekv"))
            .args(["serve", "--durability", durability, "--memory", memory, "--data"])
            .arg(directory.join("data"))
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, socket };
        let start = Instant::now();
        while Client::connect(&server.socket).is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    fn connect(socket: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let mut client = Self { reader: BufReader::new(stream) };
        client.send(&[vec!["PING".into()]]).then_some(())?;
        client.reply()?.starts_with('+').then_some(client)
    }

    fn send(&mut self, commands: &[Vec<String>]) -> bool {
        let mut out = Vec::new();
        for command in commands {
            write!(out, "*{}\r\n", command.len()).unwrap();
            for word in command {
                write!(out, "${}\r\n{word}\r\n", word.len()).unwrap();
            }
        }
        self.reader.get_mut().write_all(&out).is_ok()
    }

    /// The next reply as text: its first byte, then its content; `None` when
    /// the server is gone.
    fn reply(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).ok()? == 0 || !line.ends_with("\r\n") {
            return None;
        }
        let line = line.trim_end().to_owned();
        match line.strip_prefix('$').map(|len| len.parse::<i64>().unwrap()) {
            Some(-1) => Some("nil".into()),
            Some(len) => {
                let mut body = vec![0; len as usize + 2];
                self.reader.read_exact(&mut body).ok()?;
                Some(format!("${}", String::from_utf8_lossy(&body[..len as usize])))
            }
            None => Some(line),
        }
    }

    fn number(&mut self, key: &str) -> u64 {
        assert!(self.send(&[vec!["GET".into(), key.into()]]));
        let reply = self.reply().expect("the server answers");
        match reply.strip_prefix('$') {
            Some(text) => text.trim_end_matches('x').parse().unwrap(),
            None => {
                assert_eq!(reply, "nil");
                0
            }
        }
    }
}

/// Writes until the server is gone.
fn load(socket: &Path, client: usize, ledger: &mut Ledger, stop: &AtomicBool) {
    let Some(mut connection) = Client::connect(socket) else { return };
    while !stop.load(Ordering::Relaxed) {
        let mut commands = Vec::new();
        let mut plan = Vec::new();
        for _ in 0..PIPELINE {
            ledger.next += 1;
            let number = ledger.next;
            match number % 10 {
                0 => {
                    ledger.counter.1 += 1;
                    plan.push(None);
                    commands.push(vec!["INCR".into(), format!("counter-{client}")]);
                }
                1 => {
                    ledger.pair.1 = number;
                    plan.push(Some((usize::MAX, number)));
                    let text = number.to_string();
                    let (left, right) = (format!("left-{client}"), format!("right-{client}"));
                    commands.push(vec!["MSET".into(), left, text.clone(), right, text]);
                }
                _ => {
                    let key = (number * 7919 % KEYS as u64) as usize;
                    ledger.keys[key].1 = number;
                    plan.push(Some((key, number)));
                    // Long enough that flushes and compactions happen.
                    let value = format!("{number}{}", "x".repeat(600));
                    commands.push(vec!["SET".into(), format!("key-{client}-{key}"), value]);
                }
            }
        }
        if !connection.send(&commands) {
            return;
        }
        for step in plan {
            let Some(reply) = connection.reply() else { return };
            assert!(!reply.starts_with('-'), "{reply}");
            ledger.acknowledged += 1;
            match step {
                None => ledger.counter.0 += 1,
                Some((usize::MAX, number)) => ledger.pair.0 = number,
                Some((key, number)) => ledger.keys[key].0 = number,
            }
        }
    }
}

fn check(socket: &Path, client: usize, ledger: &mut Ledger, story: &str) {
    let mut connection = Client::connect(socket).expect("the server is up");
    let mut hold = |key: String, range: &mut (u64, u64)| {
        let found = connection.number(&key);
        assert!(
            (range.0..=range.1).contains(&found),
            "{story}: {key} holds {found}; {} was acknowledged, {} sent",
            range.0,
            range.1
        );
        // What is there now stays there.
        *range = (found, found);
        found
    };
    for key in 0..KEYS {
        hold(format!("key-{client}-{key}"), &mut ledger.keys[key]);
    }
    hold(format!("counter-{client}"), &mut ledger.counter);
    let left = hold(format!("left-{client}"), &mut ledger.pair.clone());
    let right = hold(format!("right-{client}"), &mut ledger.pair);
    assert_eq!(left, right, "{story}: half of an MSET");
}

#[test]
fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let rounds = std::env::var("TIDEKV_KILL_ROUNDS").map_or(4, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let mut ledgers = vec![Ledger { keys: vec![(0, 0); KEYS], ..Ledger::default() }; CLIENTS];
    let mut dice = std::process::id();
    for round in 0..rounds {
        let durability = ["buffered", "sync"][round % 2];
        let memory = ["8MiB", "64MiB", "16MiB"][round % 3];
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let life = Duration::from_millis(150 + u64::from(dice >> 22));
        let story = format!("round {round}, {durability}, {memory}, killed after {life:?}");
        let server = Server::start(directory.path(), durability, memory);
        for (client, ledger) in ledgers.iter_mut().enumerate() {
            check(&server.socket, client, ledger, &story);
        }
        let (socket, stop) = (server.socket.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for (client, ledger) in ledgers.iter_mut().enumerate() {
                let (socket, stop) = (&socket, &stop);
                scope.spawn(move || load(socket, client, ledger, stop));
            }
            std::thread::sleep(life);
            server.kill();
            stop.store(true, Ordering::Relaxed);
        });
        println!(
            "{story}: {} acknowledged so far",
            ledgers.iter().map(|l| l.acknowledged).sum::<u64>()
        );
    }
    let server = Server::start(directory.path(), "buffered", "16MiB");
    for (client, ledger) in ledgers.iter_mut().enumerate() {
        check(&server.socket, client, ledger, "at the end");
    }
    server.kill();
    let total: u64 = ledgers.iter().map(|l| l.acknowledged).sum();
    println!("{rounds} kills, {total} writes acknowledged, 0 lost");
    assert!(
        total > 100 * rounds as u64,
        "only {total} writes were acknowledged: the test did not bite"
    );
}
