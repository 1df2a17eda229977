//! The real server, on a real disk, killed at random under load (SIGKILL) and
//! restarted with other settings: it loses no acknowledged write,
//! with either durability.
//!
//! Four clients write strings, with and without expiry times, counters, hashes and
//! transactions, each to separate keys, and record the acknowledged and the
//! pending commands (`kill/expected.rs`). After each kill the data of
//! a client must be the result of its acknowledged commands, followed by a prefix
//! of the pending ones, in their order and each complete. Some runs of the server
//! end during the open of the store, some right after the previous one. In
//! between `compact`, `checkpoint` and `import` work on the closed store and are
//! killed too (`kill/upkeep.rs`); a complete checkpoint replaces
//! the store. `check` must find it sound.
//!
//! Some servers have a standard error that fails, few file handles, or a machine whose clock was
//! set while they were down (`kill/clock.rs`).
//!
//! `TIDEKV_KILL_ROUNDS` sets the number of rounds (4 if unset; evidence: 200 and
//! more), `TIDEKV_KILL_SEED` the seed.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "drives real processes")]

#[path = "kill/wire.rs"]
mod wire;
#[path = "kill/expected.rs"]
mod expected;
#[path = "kill/load.rs"]
mod load;
#[path = "kill/process.rs"]
mod process;
#[path = "kill/upkeep.rs"]
mod upkeep;
#[path = "kill/clock.rs"]
mod clock;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::StepsOfClock;
use expected::Ledger;
use process::{Server, Settings};
use tidekv_io::SeededRandom;
use tidekv_testkit::evidence::Row;
use upkeep::Upkeep;
use wire::Client;

const CLIENTS: usize = 4;

/// Rounds between two runs of `check`.
const ROUNDS_PER_CHECK: u64 = 10;

/// The state and the counts of the test.
#[derive(Debug, Default)]
struct World {
    ledgers: Vec<Ledger>,
    upkeep: Upkeep,
    clock: StepsOfClock,
    kills: u64,
    kills_while_opening: u64,
    failing_logs: u64,
    low_handle_limits: u64,
}

impl World {
    /// Settings of the next run, counted.
    fn settings(&mut self, dice: &SeededRandom) -> Settings {
        let settings = Settings::new(dice);
        self.failing_logs += u64::from(settings.log.fails());
        self.low_handle_limits += u64::from(settings.handles.is_some());
        settings
    }

    fn check(&mut self, socket: &Path) -> Result<(), String> {
        let mut connection = Client::connect(socket).ok_or("the server is gone")?;
        let moved_ms = self.clock.moved_ms(&mut connection)?;
        self.ledgers.iter_mut().for_each(|ledger| ledger.move_deadlines(moved_ms));
        for (client, ledger) in self.ledgers.iter_mut().enumerate() {
            let mut connection = Client::connect(socket).ok_or("the server is gone")?;
            ledger.check(&mut connection, client, self.clock.slack_ms())?;
        }
        Ok(())
    }

    fn round(&mut self, directory: &Path, round: u64, dice: &SeededRandom) -> Result<(), String> {
        if round > 0 && dice.below(3) == 0 {
            self.clock.step(&directory.join("data"), dice);
        }
        let short_lives = [0, 0, 1, 2][dice.below(4) as usize];
        for _ in 0..short_lives {
            let life = Duration::from_micros(dice.below(30_000));
            Server::start_and_kill(directory, self.settings(dice), life);
            self.kills_while_opening += 1;
        }
        if round > 0 && dice.below(3) == 0 {
            self.upkeep.step(directory, dice)?;
        }
        if round % ROUNDS_PER_CHECK == ROUNDS_PER_CHECK - 1 {
            upkeep::check(&directory.join("data"))?;
        }
        let settings = self.settings(dice);
        let server = Server::start(directory, settings);
        self.check(&server.socket).map_err(|what| format!("{settings:?}: {what}"))?;
        let life = match dice.below(4) {
            0 => Duration::from_millis(dice.below(60)),
            _ => Duration::from_millis(60 + dice.below(900)),
        };
        let (socket, stop, seed) =
            (server.socket.clone(), AtomicBool::new(false), dice.below(1 << 30));
        std::thread::scope(|scope| {
            for (client, ledger) in self.ledgers.iter_mut().enumerate() {
                let (socket, stop) = (&socket, &stop);
                scope.spawn(move || load::load(socket, client, ledger, seed, stop));
            }
            std::thread::sleep(life);
            server.kill();
            stop.store(true, Ordering::Relaxed);
        });
        self.kills += 1;
        Ok(())
    }

    fn end(&mut self, directory: &Path, dice: &SeededRandom) -> Result<(), String> {
        let data = directory.join("data");
        upkeep::check(&data)?;
        let server = Server::start(directory, self.settings(dice));
        self.check(&server.socket)?;
        server.kill();
        self.upkeep.check_imported(&data)?;
        upkeep::check(&data)
    }
}

#[test]
fn acknowledged_writes_survive_repeated_kills() {
    let number = |variable: &str, otherwise: u64| {
        std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
    };
    let rounds = number("TIDEKV_KILL_ROUNDS", 4);
    let seed = number("TIDEKV_KILL_SEED", u64::from(std::process::id()));
    let directory = tempfile::tempdir().unwrap();
    let dice = SeededRandom::new(seed);
    let mut world = World::default();
    world.ledgers.resize_with(CLIENTS, Ledger::default);
    let mut losses = Vec::new();
    for round in 0..rounds {
        if let Err(loss) = world.round(directory.path(), round, &dice) {
            losses.push(format!("round {round} of seed {seed}: {loss}"));
            break;
        }
    }
    if losses.is_empty() {
        losses.extend(world.end(directory.path(), &dice).err());
    }
    if !losses.is_empty() {
        let kept = directory.keep();
        panic!("{}\nthe directory is kept: {}", losses.concat(), kept.display());
    }
    let acknowledged: u64 = world.ledgers.iter().map(|ledger| ledger.acknowledged).sum();
    let checked: u64 = world.ledgers.iter().map(|ledger| ledger.checked).sum();
    let World { upkeep, kills, kills_while_opening, low_handle_limits, .. } = &world;
    let (clock_steps, failing_logs) = (world.clock.count, world.failing_logs + upkeep.failing_logs);
    println!(
        "{rounds} rounds, {kills} kills under load, {kills_while_opening} while opening, {} of \
         other commands; {clock_steps} steps of the clock, {failing_logs} failing outputs of the \
         log, {low_handle_limits} low limits of handles; {acknowledged} commands acknowledged, \
         {checked} values checked, 0 lost",
        upkeep.killed
    );
    assert!(acknowledged > 100 * rounds, "too few acknowledged writes for a meaningful test");
    Row::new("proof-kill", "tidekv")
        .seed(seed)
        .param("clients", CLIENTS as u64)
        .metric("rounds", rounds)
        .metric("kills_under_load", *kills)
        .metric("kills_while_opening", *kills_while_opening)
        .metric("kills_of_upkeep", upkeep.killed)
        .metric("upkeep_finished", upkeep.finished)
        .metric("clock_steps", clock_steps)
        .metric("failing_log_outputs", failing_logs)
        .metric("low_handle_limits", *low_handle_limits)
        .metric("acknowledged", acknowledged)
        .metric("checked", checked)
        .metric("losses", losses.len() as u64)
        .record();
}
