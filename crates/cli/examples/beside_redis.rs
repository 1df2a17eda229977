//! TideKV compared with Redis: both servers under `redis-benchmark`, in turns.
//!
//! ```sh
//! cargo build --release
//! cargo run --release -p tidekv-cli --example beside_redis -- 5
//! cargo run --release -p tidekv-cli --example beside_redis -- 9 tidekv:sync
//! ```
//!
//! Takes `redis-server` and `redis-benchmark` from the path (Debian: packages
//! `redis-server` and `redis-tools`), and `tidekv` from the parent of the example's
//! folder. All servers run all the time; in each round (three by default) every
//! server (or only the named TideKV and its counterpart)
//! gets the same requests: SET and GET of 3 bytes by 50
//! clients, one request at a time and pipelines of 16, all on one key (the default of
//! `redis-benchmark`) and on a million. The durability of an acknowledged write
//! differs, so each pair has comparable durability:
//!
//! | TideKV | Redis | an acknowledged write survives |
//! |---|---|---|
//! | `--durability buffered` | `appendonly no` | a crash of the server; with Redis nothing |
//! | `--durability buffered` | `appendfsync everysec` | a crash of the server |
//! | `--durability sync` | `appendfsync always` | a power cut |
//!
//! Prints a table of ratios, each from the same round, and writes a row
//! of evidence for every run (`TIDEKV_ROWS`).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark tool: runs servers and clients"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidekv_testkit::evidence::Row;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CLIENTS: &str = "50";
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The compared pairs of subjects.
const PAIRS: [(&str, &str); 3] = [
    ("tidekv:buffered", "redis:no"),
    ("tidekv:buffered", "redis:everysec"),
    ("tidekv:sync", "redis:always"),
];

/// The requests of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    command: &'static str,
    pipeline: u32,
    keys: u32,
}

/// All loads, SET before GET.
fn loads() -> Vec<Load> {
    let shapes = [(1, 1), (1, 16), (1_000_000, 1), (1_000_000, 16)];
    let load = |(keys, pipeline)| ["set", "get"].map(|command| Load { command, pipeline, keys });
    shapes.into_iter().flat_map(load).collect()
}

impl Load {
    /// Enough for a second or more.
    fn requests(self, subject: &str) -> u32 {
        let waits_for_disk =
            self.command == "set" && ["tidekv:sync", "redis:always"].contains(&subject);
        let requests = if self.pipeline > 1 { 1_500_000 } else { 300_000 };
        if waits_for_disk { requests / 5 } else { requests }
    }
}

/// A server process; killed on drop.
struct Server {
    process: Child,
    port: u16,
    _data: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(subject: &str) -> Result<Self> {
        // In the target directory, which is on a disk; `/tmp` may not be.
        let data = tempfile::tempdir_in(binary()?.parent().ok_or("a binary has a folder")?)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (engine, setting) = subject.split_once(':').ok_or("a subject has a setting")?;
        let mut command = match engine {
            "redis" => redis(setting, port, data.path()),
            _ => tidekv(setting, port, data.path())?,
        };
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.map_err(|error| format!("{subject} does not start: {error}"))?;
        let server = Self { process, port, _data: data };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > START_TIMEOUT {
                return Err(format!("{subject} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// CPU seconds of the server.
    fn cpu_s(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |field: usize| -> Result<f64> {
            Ok(fields.get(field).ok_or("a short line of /proc")?.parse::<f64>()?)
        };
        Ok((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second() as f64)
    }
}

fn binary() -> Result<PathBuf> {
    let example = std::env::current_exe()?;
    let folder =
        example.ancestors().nth(2).ok_or("the example is not in a folder of the target")?;
    Ok(folder.join("tidekv"))
}

fn redis(setting: &str, port: u16, data: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--save", ""]).arg("--dir").arg(data);
    match setting {
        "no" => command.args(["--appendonly", "no"]),
        _ => command.args(["--appendonly", "yes", "--appendfsync", setting]),
    };
    command
}

fn tidekv(setting: &str, port: u16, data: &Path) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command.args(["serve", "--memory", "256MiB", "--durability", setting]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]).arg("--data").arg(data);
    Ok(command)
}

/// Requests per second, as `redis-benchmark` reports them.
fn measure(subject: &str, server: &Server, load: Load) -> Result<f64> {
    let requests = load.requests(subject);
    let cpu_before = server.cpu_s()?;
    let mut client = Command::new("redis-benchmark");
    client.args(["-p", &server.port.to_string(), "-t", load.command, "-c", CLIENTS]).args([
        "-n",
        &requests.to_string(),
        "-P",
        &load.pipeline.to_string(),
        "--csv",
    ]);
    if load.keys > 1 {
        client.args(["-r", &load.keys.to_string()]);
    }
    let output = client.output()?;
    let cpu_us = (server.cpu_s()? - cpu_before) * 1e6 / f64::from(requests);
    // "test","rps","avg_latency_ms","min_...","p50_...","p95_...","p99_...","max_..."
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().ok_or("redis-benchmark said nothing")?;
    let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches('"')).collect();
    let number = |field: usize| -> Result<f64> {
        let text = fields.get(field).ok_or_else(|| format!("redis-benchmark said {line}"))?;
        Ok(text.parse()?)
    };
    let (ops_per_s, p99_us) = (number(1)?, number(6)? * 1e3);
    Row::new("server-redis-benchmark", subject)
        .param("command", load.command)
        .param("pipeline", load.pipeline)
        .param("clients", CLIENTS.parse::<u64>()?)
        .param("keys", load.keys)
        .param("requests", requests)
        .metric("ops_per_s", ops_per_s)
        .metric("cpu_us_per_op", cpu_us)
        .metric("p99_us", p99_us)
        .record();
    Ok(ops_per_s)
}

/// The median, the minimum and the maximum of `numbers`.
fn spread(mut numbers: Vec<f64>) -> (f64, f64, f64) {
    numbers.sort_by(f64::total_cmp);
    (numbers[numbers.len() / 2], numbers[0], numbers[numbers.len() - 1])
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    if rounds == 0 {
        return Err("no rounds".into());
    }
    let wanted = arguments.next();
    let pairs: Vec<(&str, &str)> =
        PAIRS.into_iter().filter(|(ours, _)| wanted.as_ref().is_none_or(|w| w == ours)).collect();
    if pairs.is_empty() {
        return Err("no such subject".into());
    }
    let subjects: BTreeSet<&str> =
        pairs.iter().flat_map(|(ours, theirs)| [*ours, theirs]).collect();
    let servers: BTreeMap<&str, Server> = subjects
        .iter()
        .map(|subject| Ok((*subject, Server::start(subject)?)))
        .collect::<Result<_>>()?;
    let mut rates: Vec<(&str, Load, Vec<f64>)> = loads()
        .into_iter()
        .flat_map(|load| subjects.iter().map(move |subject| (*subject, load, Vec::new())))
        .collect();
    for round in 1..=rounds {
        for (subject, load, rates) in &mut rates {
            rates.push(measure(subject, &servers[subject], *load)?);
        }
        eprintln!("round {round} of {rounds} is done");
    }
    let of = |subject: &str, load: Load| {
        let entry = rates.iter().find(|(name, other, _)| *name == subject && *other == load);
        entry.map(|(_, _, rates)| rates.clone()).ok_or("every subject has every load")
    };
    println!(
        "| TideKV | Redis | command | keys | pipeline | TideKV/s | Redis/s | ratio (spread) |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (ours, theirs) in pairs {
        for load in loads() {
            let (ours_at, theirs_at) = (of(ours, load)?, of(theirs, load)?);
            let ratios = ours_at.iter().zip(&theirs_at).map(|(a, b)| a / b).collect();
            let (ratio, least, most) = spread(ratios);
            println!(
                "| {ours} | {theirs} | {} | {} | {} | {:.0} | {:.0} | {ratio:.2} ({least:.2} to {most:.2}) |",
                load.command.to_uppercase(),
                load.keys,
                load.pipeline,
                spread(ours_at).0,
                spread(theirs_at).0,
            );
        }
    }
    Ok(())
}
