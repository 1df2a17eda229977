//! TideKV's cache with its server, in a separate process: both sides of it.
//!
//! The worker starts its own binary with the hidden command [`COMMAND`] in the directory of the
//! cache and writes [`Settings`] to its standard input. Each further line requests the counters of
//! the cache, which the server returns as a line on standard output, as the protocol has only some
//! of them. The end of standard input shuts the server down cleanly.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tidekv_memcached::{Address, CacheServer, CacheServerOptions};

use crate::failure::{Failure, Result};
use crate::machine::kernel;
use crate::subject::{Counts, Settings};
use crate::subjects::served::memcached::IO_THREADS;
use crate::subjects::served::process::SOCKET;
use crate::subjects::tiered;

/// The hidden command's name.
pub(crate) const COMMAND: &str = "cache-server";

/// Time for the requests in progress at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves the cache described on standard input, in the working directory, until the input ends.
pub(crate) fn serve() -> Result<()> {
    kernel::end_with_parent();
    let mut input = BufReader::new(std::io::stdin());
    let mut text = String::new();
    let unheard = |error| Failure::system("could not read what is to be served", error);
    input.read_line(&mut text).map_err(unheard)?;
    let settings: Settings = serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("`{COMMAND}` is for the lab itself: {e}")))?;
    let cache = tiered::open_cache(Path::new("."), &settings)?;
    let options = CacheServerOptions {
        listen: vec![Address::Unix(SOCKET.into())],
        io_threads: IO_THREADS,
        ..CacheServerOptions::default()
    };
    let server = CacheServer::start(cache.clone(), options)
        .map_err(|error| Failure::system("could not serve the cache", error))?;
    for line in input.lines() {
        line.map_err(unheard)?;
        let counts = serde_json::to_string(&tiered::counts_of(&cache));
        let counts = counts.map_err(|error| Failure::system("could not tell counts", error))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{counts}")
            .and_then(|()| out.flush())
            .map_err(|e| Failure::system("could not answer", e))?;
    }
    server.shutdown(DRAIN);
    cache.close();
    Ok(())
}

/// The command by which a worker restarts this binary.
pub(super) fn command() -> Result<Command> {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::system("could not find this binary", error))?;
    let mut command = Command::new(binary);
    command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// The worker's end of the pipes.
#[derive(Debug)]
pub(super) struct Control {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Control {
    /// Sends the settings.
    pub(super) fn new((input, output): (ChildStdin, ChildStdout), settings: &Settings) -> Self {
        let mut control = Self { input, output: BufReader::new(output) };
        let settings = serde_json::to_string(settings).expect("settings become JSON");
        // A missing server is detected at its socket.
        let _ = control.say(&settings);
        control
    }

    fn say(&mut self, line: &str) -> std::io::Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes())
    }

    /// The counters of the cache.
    pub(super) fn counts(&mut self) -> Result<Counts> {
        let failed = |error| Failure::system("could not ask the cache for its counts", error);
        self.say("counts").map_err(failed)?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(failed)?;
        serde_json::from_str(&line)
            .map_err(|error| Failure::system("the cache returned no counters", error))
    }
}
