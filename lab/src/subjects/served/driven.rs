//! Servers at full load, in pairs of turns: one with curves, one without. Each server is compared
//! with itself, so that neither other load nor the memory layout of one server affects the result.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};
use tidekv_memcached::CacheServerOptions;

use crate::failure::{Failure, Result};
use crate::load::dice::{Dice, mix};
use crate::load::keys::{Choice, Picker, key_of};
use crate::machine::kernel::{process_cpu_ns, thread_cpu_ns, threads_cpu_ns, threads_named};
use crate::subjects::served::client::{Connection, print_key};
use crate::subjects::served::directory::Directory;
use crate::subjects::served::own::{OwnServer, Target};

/// Concurrent sets while a server is filled.
const SETS_AT_ONCE: usize = 64;

/// The clients.
#[derive(Debug, Clone)]
pub(crate) struct Drivers {
    /// Their number, each with a connection.
    pub(crate) threads: u64,
    /// The number of objects, by Zipf's law.
    pub(crate) objects: u64,
    /// The exponent of Zipf's law.
    pub(crate) alpha: f64,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Pipelined gets of each client, and sets.
    pub(crate) gets_at_once: usize,
    pub(crate) sets_at_once: usize,
    /// The load time before a turn counts, for a steady state.
    pub(crate) lead_in: Duration,
    /// The load time of a turn that counts.
    pub(crate) turn_length: Duration,
    /// The number of turns of each kind of each server.
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
}

/// The counts of a server in a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Gets and sets answered.
    pub(crate) requests: u64,
    /// Its duration.
    pub(crate) wall_ns: u64,
    /// Processor time of this process, except for the clients and other servers' curves: that of
    /// this server, as the others are idle.
    pub(crate) server_cpu_ns: u64,
    /// The part of it for curves.
    pub(crate) curves_cpu_ns: u64,
}

/// The counts of a server, turn by turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// With curves.
    profiled: Vec<Turn>,
    /// Without curves.
    unprofiled: Vec<Turn>,
    /// The number of the last window with a curve; 0 if there is none.
    pub(crate) last_window: u64,
}

impl Turns {
    /// The turns with curves, or those without.
    pub(crate) fn of(&self, is_profiled: bool) -> &[Turn] {
        if is_profiled { &self.profiled } else { &self.unprofiled }
    }
}

/// Time for a server to start or stop making curves.
const CHANGES_WITHIN: Duration = Duration::from_millis(200);
/// A thread has its name by then.
const NAMED_WITHIN_MS: u32 = 1_000;
/// The name of threads that make curves.
const CURVES_THREAD: &str = "tide-curves";

impl Turn {
    /// Requests per second.
    pub(crate) fn per_s(&self) -> f64 {
        self.requests as f64 / (self.wall_ns as f64 / 1e9)
    }

    /// Processor time of the server per request, in microseconds.
    pub(crate) fn cpu_us_per_op(&self) -> f64 {
        self.server_cpu_ns as f64 / 1e3 / self.requests as f64
    }

    /// The fraction of it for curves.
    pub(crate) fn curves_of_cpu(&self) -> f64 {
        self.curves_cpu_ns as f64 / self.server_cpu_ns.max(1) as f64
    }
}

/// A server, and a connection for each client.
struct Driven {
    connections: Vec<Connection<UnixStream>>,
    /// Its threads that make curves.
    curves_threads: Vec<u32>,
    // The connections are dropped first.
    server: OwnServer,
}

impl Drivers {
    /// Starts a number of servers with windows of that length, stores all objects in each, and
    /// returns their counts. All gets must be hits.
    ///
    /// # Errors
    /// If one cannot be started or used, or does not have a stored object.
    pub(crate) fn drive(
        &self,
        target: &Target,
        servers: usize,
        window: Duration,
    ) -> Result<Vec<Turns>> {
        let directory = Directory::new()?;
        let keys: Vec<Vec<u8>> = (0..self.objects).map(wire_key).collect::<Result<_>>()?;
        let start = |number: usize| {
            let options = CacheServerOptions {
                profile_window: Some(window),
                ..CacheServerOptions::default()
            };
            let before = threads_named(CURVES_THREAD);
            let name = number.to_string();
            let server = OwnServer::start(&directory, &name, target, self.value_bytes, options)?;
            let curves_threads = new_thread(CURVES_THREAD, &before)?;
            let connections = (0..self.threads).map(|_| server.connect());
            let connections = connections.collect::<Result<_>>()?;
            let mut driven = Driven { connections, curves_threads, server };
            self.fill(&mut driven.connections[0], &keys)?;
            driven.server.set_profiling(false);
            Ok(driven)
        };
        let mut servers: Vec<Driven> = (0..servers).map(start).collect::<Result<_>>()?;
        let mut found: Vec<Turns> = servers.iter().map(|_| Turns::default()).collect();
        let clock = SystemClock::new();
        // The first round is not counted.
        for round in 0..=self.rounds {
            for (number, (driven, found)) in servers.iter_mut().zip(&mut found).enumerate() {
                // Alternates their order.
                let is_first = (round + number) % 2 == 0;
                for is_profiled in [is_first, !is_first] {
                    driven.server.set_profiling(is_profiled);
                    clock.sleep(CHANGES_WITHIN);
                    self.turn(driven, &keys, round as u64, self.lead_in)?;
                    let turn = self.turn(driven, &keys, round as u64, self.turn_length)?;
                    driven.server.set_profiling(false);
                    let turns =
                        if is_profiled { &mut found.profiled } else { &mut found.unprofiled };
                    turns.extend((round > 0).then_some(turn));
                }
            }
        }
        for (driven, found) in servers.iter_mut().zip(&mut found) {
            let stats = driven.connections[0].stats_of("mrc")?;
            found.last_window = stats.get("default:window").copied().unwrap_or(0);
        }
        Ok(found)
    }

    fn fill(&self, connection: &mut Connection<UnixStream>, keys: &[Vec<u8>]) -> Result<()> {
        let value = vec![b'v'; self.value_bytes];
        for some in keys.chunks(SETS_AT_ONCE) {
            let sets = some.iter().map(|key| (&key[..], &value[..]));
            if !connection.exchange(sets, std::iter::empty(), &mut |_| {})? {
                return Err(Failure::new("the cache has no memory for an object"));
            }
        }
        Ok(())
    }

    fn turn(
        &self,
        driven: &mut Driven,
        keys: &[Vec<u8>],
        round: u64,
        length: Duration,
    ) -> Result<Turn> {
        let clock = SystemClock::new();
        let began_ns = clock.monotonic_ns();
        // Other servers make curves of their windows too, in any turn.
        let of_curves = threads_named(CURVES_THREAD);
        let is_own = |thread: &u32| driven.curves_threads.contains(thread);
        let (own, others): (Vec<u32>, Vec<u32>) = of_curves.into_iter().partition(is_own);
        let cpu_now = || [process_cpu_ns(), threads_cpu_ns(&own), threads_cpu_ns(&others)];
        let before = cpu_now();
        let (requests, clients_cpu_ns) = thread::scope(|scope| {
            let drive = |(number, connection)| {
                let clock = &clock;
                let of_thread = round * self.threads + number as u64;
                scope.spawn(move || {
                    let is_over = || clock.monotonic_ns() - began_ns >= length.as_nanos() as u64;
                    let done = self.ask(connection, keys, of_thread, is_over)?;
                    // The thread has no other work.
                    Ok::<_, Failure>((done, thread_cpu_ns()))
                })
            };
            let threads: Vec<_> = driven.connections.iter_mut().enumerate().map(drive).collect();
            threads.into_iter().try_fold((0, 0), |(requests, cpu_ns), thread| {
                let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                let done: (u64, u64) = done?;
                Ok::<_, Failure>((requests + done.0, cpu_ns + done.1))
            })
        })?;
        let wall_ns = clock.monotonic_ns() - began_ns;
        let now = cpu_now();
        let [all_ns, curves_cpu_ns, others_ns] = [0, 1, 2].map(|at| now[at] - before[at]);
        let server_cpu_ns = all_ns.saturating_sub(clients_cpu_ns + others_ns);
        Ok(Turn { requests, wall_ns, server_cpu_ns, curves_cpu_ns })
    }

    fn ask(
        &self,
        connection: &mut Connection<UnixStream>,
        keys: &[Vec<u8>],
        of_thread: u64,
        is_over: impl Fn() -> bool,
    ) -> Result<u64> {
        let value = vec![b'v'; self.value_bytes];
        let choice = Choice::Zipf { alpha: self.alpha, is_scattered: false };
        let mut picker = Picker::new(&choice, self.objects, self.seed, 0, 1);
        let mut dice = Dice::of_thread(self.seed, of_thread);
        let (mut requests, mut misses) = (0, 0_u64);
        let mut picked = Vec::new();
        while !is_over() {
            picked.clear();
            let many = self.sets_at_once + self.gets_at_once;
            picked.extend((0..many).map(|_| &keys[picker.next(&mut dice) as usize][..]));
            let (sets, gets) = picked.split_at(self.sets_at_once);
            let sets = sets.iter().map(|key| (*key, &value[..]));
            let mut see = |is_found: bool| misses += u64::from(!is_found);
            connection.exchange(sets, gets.iter().copied(), &mut see)?;
            requests += many as u64;
        }
        match misses {
            0 => Ok(requests),
            _ => Err(Failure::new(format!("{misses} of {requests} requests missed"))),
        }
    }
}

/// The new threads of that name, as soon as there is one: they set their names themselves.
fn new_thread(name: &str, before: &[u32]) -> Result<Vec<u32>> {
    let clock = SystemClock::new();
    for _ in 0..NAMED_WITHIN_MS {
        let mut new = threads_named(name);
        new.retain(|thread| !before.contains(thread));
        if !new.is_empty() {
            return Ok(new);
        }
        clock.sleep(Duration::from_millis(1));
    }
    Err(Failure::new(format!("there is no new thread {name}")))
}

/// The key of an object as it is in the protocol.
fn wire_key(number: u64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    print_key(&key_of(mix(number)), &mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_driven_in_each_round() {
        let drivers = Drivers {
            threads: 2,
            objects: 100,
            alpha: 0.9,
            value_bytes: 100,
            gets_at_once: 4,
            sets_at_once: 1,
            lead_in: Duration::from_millis(20),
            // A burst of profiling is in some of them, also on a fast machine.
            turn_length: Duration::from_millis(600),
            rounds: 3,
            seed: 1,
        };
        let target = Target { dram_bytes: 16 << 20, flash_bytes: 0 };
        let window = Duration::from_millis(500);
        let found = drivers.drive(&target, 2, window).expect("they serve");
        assert_eq!(found.len(), 2);
        for of_server in &found {
            // Their number depends on the duration.
            assert!(of_server.last_window >= 1, "{of_server:?}");
            let Turns { profiled, unprofiled, .. } = of_server;
            assert_eq!((profiled.len(), unprofiled.len()), (3, 3));
            for turn in profiled.iter().chain(unprofiled) {
                assert!(turn.requests > 0 && turn.wall_ns >= 50_000_000, "{turn:?}");
                // There were replies, and not more than possible.
                let processors = thread::available_parallelism().map_or(1, usize::from) as u64;
                let most = turn.wall_ns * processors + 10_000_000;
                assert!(turn.server_cpu_ns > 0 && turn.server_cpu_ns <= most, "{turn:?}");
            }
            // Detects a rename: the thread that makes curves is found, and makes none when turned
            // off.
            let curves = |turns: &[Turn]| turns.iter().map(|turn| turn.curves_cpu_ns).sum::<u64>();
            assert!(curves(profiled) > 2 * curves(unprofiled), "{of_server:?}");
        }
        // A missing object is reported.
        let few = Target { dram_bytes: 2 << 20, ..target };
        let large = Drivers { objects: 40_000, ..drivers };
        assert!(large.drive(&few, 1, window).is_err());
    }
}
