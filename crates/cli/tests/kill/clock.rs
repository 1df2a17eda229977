//! Steps of the machine's clock while the server is down, as the server sees them, and what they do
//! to deadlines.
//!
//! A test cannot set the clock of the machine. But the server knows about the time before only what
//! the file `CLOCK` says (`store_clock.rs` of the store): with another time of the machine in it,
//! the clock seems to have been set.
//!
//! Deadlines that clients give as times of day follow the store's clock, not the machine's. A key
//! with a deadline in many years tells by how much they have moved: not at all without a step; after
//! a step forward, which cannot be told from time that has passed, by the step; after a step back, by
//! the time since the file was written. Less than a second does not count.

use std::path::Path;

use tidekv_io::{Clock, SeededRandom, SystemClock};

use crate::expected::now_ms;
use crate::wire::{Client, Reply};

const STEP_MS: i64 = 3_600_000;
const YEARS_MS: u64 = 10 * 365 * 86_400_000;
const KEY: &str = "sentinel";
const MAGIC: &[u8; 8] = b"TKCLOCK1";
const FILE_BYTES: usize = 32;

/// A smaller difference between the store's clock and the machine's does not count.
pub const UNNOTICED_MS: u64 = 1000;

#[derive(Debug)]
pub struct StepsOfClock {
    pub count: u64,
    /// The step since the server was last looked at, and the time in the file.
    step: Option<(i64, u64)>,
    deadline_ms: Option<u64>,
    machine: SystemClock,
    /// The machine's time less that of the clock that cannot be set.
    began_ms: i64,
    slack_ms: u64,
}

fn difference_ms(machine: &SystemClock) -> i64 {
    let moment = machine.moment();
    (moment.unix_ns.cast_signed() - moment.boot_ns.cast_signed()) / 1_000_000
}

impl Default for StepsOfClock {
    fn default() -> Self {
        let machine = SystemClock::new();
        let began_ms = difference_ms(&machine);
        Self { count: 0, step: None, deadline_ms: None, machine, began_ms, slack_ms: 0 }
    }
}

impl StepsOfClock {
    /// Sets the clock by an hour, back or forward, for the store at `data`, which is closed and was
    /// looked at after the last step.
    pub fn step(&mut self, data: &Path, dice: &SeededRandom) {
        let path = data.join("CLOCK");
        // It is replaced in one step, so it is whole if it is there.
        let Ok(mut bytes) = std::fs::read(&path) else { return };
        let checksum = |bytes: &[u8]| {
            xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[16..], u64::from_le_bytes(*MAGIC))
        };
        assert!(bytes.len() == FILE_BYTES && bytes[..8] == *MAGIC, "{bytes:?}");
        assert_eq!(bytes[8..16], checksum(&bytes).to_le_bytes());
        let step_ms = [STEP_MS, -STEP_MS][dice.below(2) as usize];
        let machine_ms = u64::from_le_bytes(bytes[24..].try_into().unwrap());
        let seems_ms = machine_ms.checked_add_signed(-step_ms).unwrap();
        bytes[24..].copy_from_slice(&seems_ms.to_le_bytes());
        let sum = checksum(&bytes);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        self.count += 1;
        self.slack_ms = UNNOTICED_MS;
        self.step = Some((step_ms, machine_ms));
    }

    /// By how much the deadlines have moved since the last call; the error says why they may not.
    pub fn moved_ms(&mut self, connection: &mut Client) -> Result<i64, String> {
        let gone = "the server is gone";
        let step = self.step.take();
        let Some(before_ms) = self.deadline_ms else {
            let deadline_ms = now_ms() + YEARS_MS;
            let request = ["SET", KEY, "1", "PXAT", &deadline_ms.to_string()];
            let reply = connection.ask(&request).ok_or(gone)?;
            assert_eq!(reply, Reply::Text("OK".into()));
            self.deadline_ms = Some(deadline_ms);
            return Ok(0);
        };
        let deadline_ms = match connection.ask(&["PEXPIRETIME", KEY]).ok_or(gone)? {
            Reply::Number(ms @ 0..) => ms.cast_unsigned(),
            other => return Err(format!("{other:?} for the deadline of a key that lives long")),
        };
        self.deadline_ms = Some(deadline_ms);
        let moved_ms = deadline_ms.cast_signed() - before_ms.cast_signed();
        // A machine whose clock is really set, be it by a part of a second.
        let own_ms = (difference_ms(&self.machine) - self.began_ms).abs();
        if own_ms > 1 {
            self.slack_ms = self.slack_ms.max(UNNOTICED_MS + own_ms.unsigned_abs());
        }
        let (least, most) = match step {
            None => (0, 0),
            Some((STEP_MS, _)) => (-STEP_MS, -STEP_MS),
            Some((_, saved_ms)) => (0, now_ms().saturating_sub(saved_ms).cast_signed()),
        };
        let slack_ms = if step.is_some() || own_ms > 1 { self.slack_ms.cast_signed() } else { 0 };
        match (least - slack_ms..=most + slack_ms).contains(&moved_ms) {
            true => Ok(moved_ms),
            false => Err(format!("deadlines have moved by {moved_ms} ms after {step:?}")),
        }
    }

    /// How much too early or too late an entry may expire.
    pub fn slack_ms(&self) -> u64 {
        self.slack_ms
    }
}
