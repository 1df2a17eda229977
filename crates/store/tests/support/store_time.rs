//! The time by which the entries of a store must expire while the machine's clock is set back and
//! forward, and after openings.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::ops::RangeInclusive;

/// The clock by which the entries of the store must expire.
#[derive(Debug, Clone)]
pub struct StoreTime {
    /// How far it is ahead of the clock that cannot be set.
    pub ahead_ms: u64,
    /// By how much the machine's clock was set, each time.
    pub steps: Vec<i64>,
    /// The number of steps that the store had noticed when it last saved its time.
    pub saved: usize,
    /// At least this time was saved, perhaps not durably.
    pub saved_ms: u64,
}

impl StoreTime {
    /// The time of the open store at `boot_ns` of the clock that cannot be set.
    pub fn now_ms(&self, boot_ns: u64) -> u64 {
        self.ahead_ms + boot_ns / 1_000_000
    }

    /// The same when the machine starts again at `boot_ns`, perhaps without unsynced data.
    pub fn started_again(&self, boot_ns: u64, is_whole: bool) -> Self {
        let saved_ms = if is_whole { self.saved_ms } else { 0 };
        Self { ahead_ms: self.now_ms(boot_ns), saved_ms, ..self.clone() }
    }

    /// The possible times when the store is opened with a record of the time that is newer than the
    /// first `saved` steps: steps after the record cannot be told from time that has passed.
    pub fn possible_ms(&self, boot_ns: u64, saved: usize) -> RangeInclusive<u64> {
        let now_ms = self.now_ms(boot_ns);
        let (mut sum, mut least, mut most) = (0, 0, 0);
        for step_ms in self.steps[saved..].iter().rev() {
            sum += step_ms;
            least = least.min(sum);
            most = most.max(sum);
        }
        now_ms.saturating_add_signed(least)..=now_ms.saturating_add_signed(most)
    }
}
