//! A memcached that predictions of its misses are held against, and the client that follows requests
//! through it.
//!
//! | kind | what it is |
//! |---|---|
//! | [`Kind::Flat`] | one list of the least recently used a slab class, pages that stay where they are |
//! | [`Kind::AsItComes`] | as Debian starts it: lists in segments, pages that may move |
//!
//! **Time.** A flat memcached moves an item to the top of its list at most once a minute, counted by its
//! own clock, and a trace of a day is followed here in a minute. So its clock runs a million times as
//! fast (`libfaketime`; Debian's package `faketime`): a minute is 60 µs, and an item can move as often
//! as the thread of its timer comes to look at the clock, which it does without rest. Whether it does run so is looked at
//! afterwards, and nothing is found where it does not.
//!
//! **Order.** One connection, one thread that serves, some gets on their way at a time. What one of them
//! has missed is stored with the next; a get of a key that was missed just before it is asked again
//! behind that, as if the client had waited. So requests come in the order of the trace but
//! for sets, which may be so many gets late.

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::subjects::served::client::Connection;
use crate::subjects::served::directory::Directory;
use crate::subjects::served::process::{SOCKET, ServerProcess};

/// What is started, as the path has it.
const PROGRAM: &str = "memcached";
/// What says where the library is that makes clocks run otherwise.
const FASTER: &str = "faketime";
/// How much faster the clock of a flat one runs, and how much it has to at least.
const TIMES_AS_FAST: u64 = 1_000_000;
const TIMES_AS_FAST_MIN: f64 = 100_000.0;
/// Gets on their way.
const GETS_AT_ONCE: usize = 64;
/// The largest item that memcached takes, by default.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// How it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// So that one list a class is all that there is.
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
    /// As it is in the protocol.
    pub(crate) key: Vec<u8>,
    pub(crate) value_bytes: usize,
}

/// What became of the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) gets: u64,
    pub(crate) misses: u64,
    /// Of pages that have been taken.
    pub(crate) bytes: u64,
}

/// How it is started with so much memory.
fn command(kind: Kind, memory_mib: u64) -> Result<Command> {
    let mut command = Command::new("setpriv");
    // It ends with this process.
    command.args(["--pdeathsig", "KILL", PROGRAM, "-u", "root", "-s", SOCKET]);
    command.args(["-m", &memory_mib.to_string()]);
    if kind == Kind::Flat {
        // As many requests of a connection at a time as are on their way.
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

/// Where the library is that makes clocks run faster: what its own command would load.
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
    /// Starts one with so much memory for items.
    ///
    /// # Errors
    /// Where a program is not installed, or does not start.
    pub(crate) fn start(kind: Kind, memory_mib: u64) -> Result<Self> {
        let directory = Directory::new()?;
        let started_ns = SystemClock::new().monotonic_ns();
        let mut server =
            ServerProcess::start(PROGRAM, command(kind, memory_mib)?, directory.path())?;
        let connection = server.when_listening()?;
        if kind == Kind::Flat {
            // With such a clock its timer is always due, and the thread of the timer never at rest.
            server.put_first_thread_behind()?;
        }
        Ok(Self { kind, connection, server, directory, started_ns })
    }

    /// Follows requests through it, ends it, and says what it answered.
    ///
    /// # Errors
    /// Where it fails, has counted otherwise, or its clock has not run as it should.
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
            // One that moves pages may have none for a class at times; then an item is missed again.
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

    /// Whether it was as it should be, and how much it has taken.
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
    fn a_flat_one_has_the_defaults_but_for_its_lists() {
        let command = command(Kind::AsItComes, 64).expect("nothing is asked for");
        let arguments: Vec<_> = command.get_args().filter_map(|it| it.to_str()).collect();
        assert_eq!(arguments.join(" "), "--pdeathsig KILL memcached -u root -s socket -m 64");
    }
}
