//! The test suite of Redis, written in Tcl, against TideKV and against Redis.
//!
//! ```sh
//! cargo build
//! git clone --branch 7.0.15 --depth 1 https://github.com/redis/redis /tmp/redis
//! cargo run -p tidekv-cli --example redis_suite -- /tmp/redis
//! cargo run -p tidekv-cli --example redis_suite -- /tmp/redis multi type/hash
//! ```
//!
//! The argument is a source tree of Redis 7.0.15, of which it uses `tests/`; it downloads nothing.
//! Takes `redis-server` 7.0 and `tclsh` from the path, and `tidekv` from the parent of the example's
//! folder. Runs each unit in the suite's mode for external servers, against a fresh server of each
//! kind, without the tests that need `DEBUG` or replication. Prints the tests that Redis passes and
//! TideKV does not, except those that `known.txt` beside this file explains, and the lines of
//! `known.txt` that no test needs any more. Exit code 1 if there are any.
//!
//! The suite runs from a copy, in which one line is changed: the setup of a unit may fail to flush
//! functions, which TideKV does not have.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool for developers: runs servers and a test suite"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const UNITS: [&str; 9] = [
    "type/string",
    "type/incr",
    "type/hash",
    "expire",
    "scan",
    "keyspace",
    "multi",
    "protocol",
    "introspection",
];
const START_TIMEOUT: Duration = Duration::from_secs(20);
const UNIT_TIMEOUT: Duration = Duration::from_secs(600);
/// The differences that are explained: unit | test | message | reason, with `*` for any text.
const KNOWN: &str = include_str!("known.txt");
/// The line of the suite that is changed, and its replacement.
const SETUP: (&str, &str) = ("\n    r function flush\n", "\n    catch {r function flush}\n");

/// A process; killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Redis,
    TideKv,
}

/// `tidekv` beside the folder of this example.
fn binary() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).ok_or("the example is in a folder")?;
    Ok(folder.join("tidekv"))
}

impl Subject {
    /// Starts a server with an empty data set, and returns its port.
    fn start(self, data: &Path) -> Result<(Process, u16)> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = match self {
            Self::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--port", &port.to_string(), "--save", "", "--dir"]).arg(data);
                command
            }
            Self::TideKv => {
                let mut command = Command::new(binary()?);
                command.args(["serve", "--memory", "256MiB", "--data"]).arg(data.join("data"));
                command.args(["--listen", &format!("127.0.0.1:{port}")]);
                command
            }
        };
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.map_err(|error| format!("{self:?} does not start: {error}"))?;
        let (process, begun) = (Process(process), Instant::now());
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > START_TIMEOUT {
                return Err(format!("{self:?} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok((process, port))
    }
}

/// A copy of the suite of `source` in `place`.
fn copy_suite(source: &Path, place: &Path) -> Result<()> {
    let copied = Command::new("cp").arg("-r").arg(source.join("tests")).arg(place).status()?;
    if !copied.success() {
        return Err(format!("{} has no `tests` of Redis", source.display()).into());
    }
    let file = place.join("tests/support/server.tcl");
    let text = fs::read_to_string(&file)?;
    if text.matches(SETUP.0).count() != 1 {
        return Err("it is not the suite of Redis 7.0: its setup is another one".into());
    }
    fs::write(file, text.replace(SETUP.0, SETUP.1))?;
    Ok(())
}

/// The outcome of each test by name: `None` if it passed, otherwise the message.
type Outcomes = BTreeMap<String, Option<String>>;

/// Runs a unit of the suite in `place` against a fresh server.
fn run(subject: Subject, unit: &str, place: &Path) -> Result<Outcomes> {
    let data = tempfile::tempdir_in(place)?;
    let (_server, port) = subject.start(data.path())?;
    let log = data.path().join("log");
    let suite = Command::new("tclsh")
        .arg("tests/test_helper.tcl")
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .args(["--single", &format!("unit/{unit}"), "--durable"])
        .args(["--ignore-encoding", "--ignore-digest", "--tags", "-needs:repl -needs:debug"])
        .current_dir(place)
        .stdout(File::create(&log)?)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("tclsh does not start: {error}"))?;
    let (mut suite, begun) = (Process(suite), Instant::now());
    while suite.0.try_wait()?.is_none() {
        if begun.elapsed() > UNIT_TIMEOUT {
            return Err(format!("{unit} does not end against {subject:?}").into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let outcomes = parse(&String::from_utf8_lossy(&fs::read(log)?));
    if outcomes.is_empty() {
        return Err(format!("{unit} runs no test against {subject:?}").into());
    }
    Ok(outcomes)
}

/// Reads the output of the suite.
fn parse(output: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    // The test whose message is being read.
    let mut failed: Option<String> = None;
    for line in plain(output).lines() {
        if let Some(rest) = line.strip_prefix("[ok]: ") {
            failed = None;
            let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
            outcomes.entry(name.to_owned()).or_default();
        } else if let Some(rest) = line.strip_prefix("[err]: ") {
            let name = rest.rsplit_once(" in tests/").map_or(rest, |(name, _)| name);
            outcomes.insert(name.to_owned(), Some(String::new()));
            failed = Some(name.to_owned());
        } else if line.starts_with('[') || line.starts_with("!!!") {
            failed = None;
        } else if let Some(message) =
            failed.as_ref().and_then(|name| outcomes.get_mut(name)).and_then(Option::as_mut)
        {
            message.push_str(line.trim());
            message.push(' ');
        }
    }
    outcomes
}

/// `text` without the colours of a terminal.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Whether `text` has the form of `pattern`, in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        match parts.peek() {
            None => return rest.ends_with(part),
            Some(_) => match rest.split_once(part) {
                Some((_, behind)) => rest = behind,
                None => return false,
            },
        }
    }
    rest.is_empty()
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (source, units) =
        arguments.split_first().ok_or("usage: redis_suite SOURCE [UNIT ...], see its head")?;
    let units = if units.is_empty() { UNITS.map(String::from).to_vec() } else { units.to_vec() };
    let place = tempfile::tempdir()?;
    copy_suite(Path::new(source), place.path())?;
    let known: Vec<Vec<&str>> = KNOWN
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split(" | ").collect())
        .collect();
    let (mut needed, mut unexplained) = (BTreeSet::new(), 0);
    for unit in &units {
        let redis = run(Subject::Redis, unit, place.path())?;
        let ours = run(Subject::TideKv, unit, place.path())?;
        let (mut passed, mut explained) = (0, 0);
        for (name, _) in redis.iter().filter(|(_, outcome)| outcome.is_none()) {
            let message = match ours.get(name) {
                Some(None) => {
                    passed += 1;
                    continue;
                }
                Some(Some(message)) => message,
                None => "not run",
            };
            let is_known = |line: &&[&str]| {
                let texts = [unit, &**name, message];
                line.iter().zip(texts).all(|(pattern, text)| is_like(pattern, text))
            };
            match known.iter().position(|line| is_known(&&line[..])) {
                Some(number) => {
                    needed.insert(number);
                    explained += 1;
                }
                None => {
                    unexplained += 1;
                    println!("{unit} | {name} | {message}");
                }
            }
        }
        println!("{unit}: {passed} passed, {explained} differ and are explained");
    }
    for (number, line) in known.iter().enumerate() {
        let is_run = units.iter().any(|unit| is_like(line[0], unit));
        if is_run && units.len() == UNITS.len() && !needed.contains(&number) {
            unexplained += 1;
            println!("known.txt: no test needs: {}", line.join(" | "));
        }
    }
    Ok(if unexplained == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
