//! A memcached for the comparison with predictions, and the client that replays requests on it.
//!
//! | kind | description |
//! |---|---|
//! | [`Kind::Flat`] | one LRU list per slab class, pages that stay in their class |
//! | [`Kind::AsItComes`] | Debian's defaults: segmented lists, pages that may move |
//!
//! **Time.** A flat memcached moves an item to the top of its list at most once a minute of its own
//! clock, and the lab replays a trace of a day in a minute. So its clock runs a million times as
//! fast (`libfaketime`; Debian's package `faketime`): a minute is 60 µs, and an item can move
//! whenever its timer thread reads the clock, which it does continuously. The lab checks the speed
//! of the clock afterwards, and rejects the result if it was too slow.
//!
//! **Order.** One connection, one server thread, several pipelined gets. A missed object is stored
//! with the next write; a get of a key that was missed just before is repeated after that, as if
//! the client had waited. So requests are in the order of the trace except for sets, which may be
//! late by that number of gets.

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::subjects::served::client::Connection;
use crate::subjects::served::directory::Directory;
use crate::subjects::served::process::{SOCKET, ServerProcess};

/// The program, found in the path.
const PROGRAM: &str = "memcached";
/// The variable with the path of the library that changes the clock.
const FASTER: &str = "faketime";
/// The speed of a flat one's clock, and its required minimum.
const TIMES_AS_FAST: u64 = 1_000_000;
const TIMES_AS_FAST_MIN: f64 = 100_000.0;
/// Pipelined gets.
const GETS_AT_ONCE: usize = 64;
/// memcached's default maximum item size.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One LRU list per class, without other mechanisms.
    Flat,
    /// With its defaults.
    AsItComes,
}

/// A running memcached.
#[derive(Debug)]
pub(crate) struct OfAPrediction {
    kind: Kind,
    connection: Connection<UnixStream>,
    server: ServerProcess,
    directory: Directory,
    started_ns: u64,
}

/// A request of a trace: a get, and a set where it misses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Its key in the protocol.
    pub(crate) key: Vec<u8>,
    pub(crate) value_bytes: usize,
}

/// The results of the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) gets: u64,
    pub(crate) misses: u64,
    /// Bytes of allocated pages.
    pub(crate) bytes: u64,
}

/// The command for this memory.
fn command(kind: Kind, memory_mib: u64) -> Result<Command> {
    let mut command = Command::new("setpriv");
    // It ends with this process.
    command.args(["--pdeathsig", "KILL", PROGRAM, "-u", "root", "-s", SOCKET]);
    command.args(["-m", &memory_mib.to_string()]);
    if kind == Kind::Flat {
        // As many requests of a connection at a time as are pipelined.
        command.args([
            "-t",
            "1",
            "-R",
            "200",
            "-o",
            "no_lru_maintainer,no_lru_crawler,no_slab_reassign",
        ]);
        command.env("LD_PRELOAD", library()?);
        command.env("FAKETIME", format!("+0 x{TIMES_AS_FAST}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// The path of the library for faster clocks, from its own command.
fn library() -> Result<String> {
    let asked = ["-m", "-f", "+0", "printenv", "LD_PRELOAD"];
    let output = Command::new(FASTER).args(asked).stdin(Stdio::null()).output();
    let failed = |why: String| {
        Failure::system(format!("could not ask {FASTER} for its library (is it installed?)"), why)
    };
    let output = output.map_err(|error| failed(error.to_string()))?;
    let library = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() && !library.is_empty() {
        true => Ok(library),
        false => Err(failed(output.status.to_string())),
    }
}

impl OfAPrediction {
    /// Starts one with this memory for items.
    ///
    /// # Errors
    /// If a program is not installed, or does not start.
    pub(crate) fn start(kind: Kind, memory_mib: u64) -> Result<Self> {
        let directory = Directory::new()?;
        let started_ns = SystemClock::new().monotonic_ns();
        let mut server =
            ServerProcess::start(PROGRAM, command(kind, memory_mib)?, directory.path())?;
        let connection = server.when_listening()?;
        if kind == Kind::Flat {
            // With such a clock its timer is always due, and the timer thread never idle.
            server.put_first_thread_behind()?;
        }
        Ok(Self { kind, connection, server, directory, started_ns })
    }

    /// Replays requests on it, shuts it down, and returns the results.
    ///
    /// # Errors
    /// If it fails, its counts differ, or its clock had the wrong speed.
    pub(crate) fn follow(mut self, requests: impl Iterator<Item = Asked>) -> Result<Answered> {
        let answered = self.ask(requests).and_then(|answered| self.check(answered));
        let answered = answered.map_err(|failure| self.server.with_words(failure))?;
        drop(self.connection);
        self.server.terminate()?;
        drop(self.directory);
        Ok(answered)
    }

    fn ask(&mut self, mut requests: impl Iterator<Item = Asked>) -> Result<Answered> {
        let mut answered = Answered::default();
        let value = vec![b'v'; VALUE_BYTES_MAX];
        let (mut missed, mut again): (Vec<Asked>, Vec<Asked>) = (Vec::new(), Vec::new());
        loop {
            let mut gets = std::mem::take(&mut again);
            let more = GETS_AT_ONCE.saturating_sub(gets.len());
            gets.extend(requests.by_ref().take(more));
            if gets.is_empty() && missed.is_empty() {
                return Ok(answered);
            }
            let mut found = Vec::with_capacity(gets.len());
            let sets = missed.iter().map(|asked| (&asked.key[..], &value[..asked.value_bytes]));
            let keys = gets.iter().map(|asked| &asked.key[..]);
            let has_memory =
                self.connection.exchange(sets, keys, &mut |is_found| found.push(is_found))?;
            // One that moves pages may have none for a class at times; then an item is missed
            // again.
            if !has_memory && self.kind == Kind::Flat {
                return Err(Failure::new("it has no memory for an item"));
            }
            missed.clear();
            for (asked, is_found) in gets.into_iter().zip(found) {
                if !is_found && missed.iter().any(|missed| missed.key == asked.key) {
                    again.push(asked);
                    continue;
                }
                answered.gets += 1;
                if !is_found {
                    answered.misses += 1;
                    missed.push(asked);
                }
            }
        }
    }

    /// Checks its counts, and returns its memory.
    fn check(&mut self, answered: Answered) -> Result<Answered> {
        let stats = self.connection.stats()?;
        let number = |name: &str| stats.get(name).copied().unwrap_or(0);
        if number("get_hits") != answered.gets - answered.misses {
            let (own, its) = (answered.gets - answered.misses, number("get_hits"));
            return Err(Failure::new(format!("{own} hits came, and it says {its}")));
        }
        if self.kind == Kind::Flat {
            let passed_ns = SystemClock::new().monotonic_ns().saturating_sub(self.started_ns);
            let times = number("uptime") as f64 / (passed_ns as f64 / 1e9);
            if times < TIMES_AS_FAST_MIN {
                let what = format!("its clock runs {times:.0} times as fast, too slow to tell");
                return Err(Failure::new(what));
            }
        }
        let slabs = self.connection.stats_of("slabs")?;
        let bytes = slabs.get("total_malloced").copied().unwrap_or(0);
        Ok(Answered { bytes, ..answered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_one_has_the_defaults_except_for_its_lists() {
        let command = command(Kind::AsItComes, 64).expect("nothing is asked for");
        let arguments: Vec<_> = command.get_args().filter_map(|it| it.to_str()).collect();
        assert_eq!(arguments.join(" "), "--pdeathsig KILL memcached -u root -s socket -m 64");
    }
}
