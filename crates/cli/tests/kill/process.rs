//! Processes of the binary, killed (SIGKILL) at random times.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tidekv_io::SeededRandom;

use crate::wire::Client;

/// Where the log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOutput {
    Nowhere,
    /// Each line fails: nobody reads the pipe.
    PipeWithoutReader,
    /// Each line fails: the device is full.
    FullDevice,
}

impl LogOutput {
    pub fn new(dice: &SeededRandom) -> Self {
        match dice.below(4) {
            0 => Self::PipeWithoutReader,
            1 if Path::new(FULL_DEVICE).exists() => Self::FullDevice,
            _ => Self::Nowhere,
        }
    }

    pub fn fails(self) -> bool {
        self != Self::Nowhere
    }

    /// Gives it to a process, which then has much to log.
    pub fn give(self, command: &mut Command) {
        let output = match self {
            Self::Nowhere => return,
            Self::PipeWithoutReader => Stdio::from(std::io::pipe().unwrap().1),
            Self::FullDevice => {
                Stdio::from(std::fs::OpenOptions::new().write(true).open(FULL_DEVICE).unwrap())
            }
        };
        command.stderr(output).env("TIDEKV_LOG", "debug");
    }
}

/// Writes to it fail.
const FULL_DEVICE: &str = "/dev/full";

/// The settings of one run of the server.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    durability: &'static str,
    memory: &'static str,
    is_from_file: bool,
    pub log: LogOutput,
    /// The limit of open files.
    pub handles: Option<u32>,
}

impl Settings {
    pub fn new(dice: &SeededRandom) -> Self {
        Self {
            durability: ["buffered", "sync"][dice.below(2) as usize],
            memory: ["8MiB", "9MiB", "16MiB", "64MiB"][dice.below(4) as usize],
            is_from_file: dice.below(3) == 0,
            log: LogOutput::new(dice),
            handles: [None, None, Some(256), Some(300)][dice.below(4) as usize],
        }
    }
}

pub fn tidekv(arguments: &[&str], data: &Path) -> Command {
    tidekv_limited(None, arguments, data)
}

/// The command with a limit of open files.
fn tidekv_limited(handles: Option<u32>, arguments: &[&str], data: &Path) -> Command {
    let binary = env!("CARGO_BIN_EXE_tidekv");
    let mut command = match handles {
        None => Command::new(binary),
        Some(handles) => {
            let mut command = Command::new("sh");
            // The shell becomes the server, which is then killed.
            let limit = format!("ulimit -n {handles} && exec \"$0\" \"$@\"");
            command.arg("-c").arg(limit).arg(binary);
            command
        }
    };
    command.args(arguments).arg("--data").arg(data);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Waits for at most `life`, then kills; returns the exit status if the process ended by itself.
pub fn run_for(command: &mut Command, life: Option<Duration>) -> Option<ExitStatus> {
    let mut process = command.spawn().unwrap();
    let started = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return Some(status);
        }
        if life.is_some_and(|life| started.elapsed() >= life) {
            process.kill().unwrap();
            process.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

pub struct Server {
    process: Child,
    pub socket: PathBuf,
}

/// Kills the server after a failed check.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn spawn(directory: &Path, settings: Settings) -> Self {
        let socket = directory.join("socket");
        let listen = format!("unix:{}", socket.display());
        let (durability, memory) = (settings.durability, settings.memory);
        let data = directory.join("data");
        let mut command = match settings.is_from_file {
            false => {
                let arguments = ["serve", "--durability", durability, "--memory", memory];
                tidekv_limited(settings.handles, &arguments, &data)
            }
            true => {
                let file = directory.join("config.toml");
                let text =
                    format!("[serve]\ndurability = \"{durability}\"\nmemory = \"{memory}\"\n");
                std::fs::write(&file, text).unwrap();
                let mut command = tidekv_limited(settings.handles, &["serve"], &data);
                command.arg("--config").arg(file);
                command
            }
        };
        settings.log.give(&mut command);
        let process = command.args(["--listen", &listen]).spawn().unwrap();
        Self { process, socket }
    }

    /// Starts a server and waits until it answers.
    pub fn start(directory: &Path, settings: Settings) -> Self {
        let mut server = Self::spawn(directory, settings);
        let start = Instant::now();
        while Client::connect(&server.socket).is_none() {
            if let Some(status) = server.process.try_wait().unwrap() {
                panic!("the server ended with {status}: it cannot open its own store");
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not start");
            std::thread::sleep(Duration::from_millis(2));
        }
        server
    }

    /// Starts a server and kills it during the open of the store.
    pub fn start_and_kill(directory: &Path, settings: Settings, life: Duration) {
        let server = Self::spawn(directory, settings);
        std::thread::sleep(life);
        server.kill();
    }

    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
