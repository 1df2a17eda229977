//! Pauses of compactions that writers do not wait for, while users read and write.

use std::time::Duration;

use crate::compaction::picker::LEVEL0_TRIGGER;
use crate::engine::Engine;
use crate::sync::Mutex;

impl Engine {
    /// For a compaction that must not slow users down.
    pub(crate) fn give_way(&self) -> GiveWay<'_> {
        GiveWay { engine: self, last: Mutex::new((self.activity(), self.clock.monotonic_ns())) }
    }

    /// A number that changes whenever users read or write.
    fn activity(&self) -> u64 {
        self.stats.gets.get() + self.stats.write_calls.get() + self.reads.blocks.read_bytes()
    }
}

/// Pauses a compaction while users read and write.
pub(crate) struct GiveWay<'a> {
    engine: &'a Engine,
    /// The activity of users, and the time, at the end of the last pause.
    last: Mutex<(u64, u64)>,
}

/// While users are active a compaction works for one part of the time and pauses for this many.
const PAUSE_PER_WORK: u64 = 4;
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl GiveWay<'_> {
    /// Pauses if users were active since the last call. Call it between small pieces of work.
    pub(crate) fn pause(&self) {
        let mut last = self.last.lock();
        let engine = self.engine;
        let (before, since_ns) = *last;
        let activity = engine.activity();
        let is_urgent = engine.jobs.is_closed() || engine.memory.level0_runs() >= LEVEL0_TRIGGER;
        if activity != before && !is_urgent {
            let worked_ns = engine.clock.monotonic_ns().saturating_sub(since_ns);
            let pause = Duration::from_nanos(PAUSE_PER_WORK.saturating_mul(worked_ns));
            engine.clock.sleep(pause.min(PAUSE_MAX));
        }
        *last = (engine.activity(), engine.clock.monotonic_ns());
    }
}
