//! The clock by which entries expire: that of the machine when the store is opened, moved on by a
//! clock that cannot be set ([`Clock::boot_ns`]).
//!
//! Guarantees:
//! 1. It never goes back: neither while the store is open nor, beyond a second, from one opening to
//!    the next ([`Record`]). What has expired stays expired.
//! 2. Steps of the machine's time of day do not move it, so a time to live lasts as long as it says.
//!
//! Deadlines are times of this clock. [`StoreClock::offset_ms`] is how far the machine's time of
//! day is ahead of it, for deadlines that are given as times of day: usually 0.
//!
//! Relies on: the owner saves the record when the store is opened and closed, in checkpoints, when a
//! step was noticed, and within a second after an entry was seen to have expired
//! ([`StoreClock::must_save`]). The offset is asked for whenever a deadline is written, so a step is
//! noticed before it matters.

use std::sync::Arc;
use std::time::Duration;

use tidekv_io::Clock;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::warm::list_file::{self, HEAD_BYTES, Magic};

/// The magic of the file `CLOCK`. On disk: do not change.
const MAGIC: Magic = *b"TKCLOCK1";

/// A smaller difference between the clocks is no step.
const STEP_MS_MIN: i64 = 1000;

/// The record is at most this old when an entry is seen to have expired.
const SAVED_MS_MAX: u64 = 1000;

/// The times of both clocks at one moment, stored in the file `CLOCK`:
///
/// ```text
/// OFFSET  SIZE  MEANING                                     (little-endian)
/// 0       16    head (`warm/list_file.rs`)
/// 16      8     time of the store's clock, milliseconds since 1970
/// 24      8     time of day of the machine, milliseconds since 1970
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) store_ms: u64,
    pub(crate) machine_ms: u64,
}

impl Record {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes.extend_from_slice(&self.store_ms.to_le_bytes());
        bytes.extend_from_slice(&self.machine_ms.to_le_bytes());
        list_file::seal(MAGIC, &mut bytes);
        bytes
    }

    /// `None` if the bytes are not a whole record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = list_file::open(MAGIC, bytes)?;
        let record = Self { store_ms: reader.u64()?, machine_ms: reader.u64()? };
        reader.is_empty().then_some(record)
    }
}

/// The clock of a store.
#[derive(Debug)]
pub(crate) struct StoreClock {
    machine: Arc<dyn Clock>,
    /// The time at `base_ns` of the clock that cannot be set.
    base_ms: u64,
    base_ns: u64,
    /// How far the machine is ahead, as last noticed: an `i64`.
    offset_ms: AtomicU64,
    /// The time of the last record.
    saved_ms: AtomicU64,
    /// A record is being saved.
    is_saving: AtomicBool,
    /// A step was noticed, and no record has been saved since.
    has_news: AtomicBool,
}

impl StoreClock {
    /// A clock that goes on from `saved`, the record of the last time that the store was open.
    pub(crate) fn new(machine: Arc<dyn Clock>, saved: Option<Record>) -> Self {
        let machine_ms = machine.unix_ms();
        let now_ns = machine.boot_ns();
        let base_ms = match saved {
            None => machine_ms,
            Some(Record { store_ms, machine_ms: then_ms }) => {
                if machine_ms < then_ms {
                    tracing::warn!(
                        behind_ms = then_ms - machine_ms,
                        "the machine's clock is behind the time at which the store was last open; \
                         times to live go on from there"
                    );
                }
                store_ms.saturating_add(machine_ms.saturating_sub(then_ms))
            }
        };
        let clock = Self {
            machine,
            base_ms,
            // Milliseconds of both clocks begin at the same moment.
            base_ns: now_ns - now_ns % 1_000_000,
            offset_ms: AtomicU64::new(0),
            saved_ms: AtomicU64::new(0),
            is_saving: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
        };
        clock.offset_ms();
        clock
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        let elapsed_ns = self.machine.boot_ns().saturating_sub(self.base_ns);
        self.base_ms.saturating_add(elapsed_ns / 1_000_000)
    }

    /// As of the machine's clock.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.machine.monotonic_ns()
    }

    /// As of the machine's clock.
    pub(crate) fn sleep(&self, duration: Duration) {
        self.machine.sleep(duration);
    }

    /// How far the machine's time of day is ahead of this clock, in milliseconds. Less than a second
    /// counts as 0; so does a change of less than a second.
    pub(crate) fn offset_ms(&self) -> i64 {
        let difference = self.machine.unix_ms() as i64 - self.unix_ms() as i64;
        let noticed = self.offset_ms.load(Ordering::Relaxed).cast_signed();
        if (difference - noticed).abs() < STEP_MS_MIN {
            return noticed;
        }
        let offset = if difference.abs() < STEP_MS_MIN { 0 } else { difference };
        let before = self.offset_ms.swap(offset.cast_unsigned(), Ordering::Relaxed);
        if before.cast_signed() != offset {
            self.has_news.store(true, Ordering::Relaxed);
            tracing::warn!(
                step_ms = offset - noticed,
                "the machine's clock was set; times to live are not affected"
            );
        }
        offset
    }

    /// Both clocks now.
    pub(crate) fn record(&self) -> Record {
        Record { store_ms: self.unix_ms(), machine_ms: self.machine.unix_ms() }
    }

    /// Called when an entry was seen to have expired, or a deadline is written: whether the caller
    /// must save a record ([`StoreClock::saved`]), because a step was noticed or, if an entry
    /// `has_expired`, the last record is too old; and nobody does yet.
    pub(crate) fn must_save(&self, has_expired: bool) -> bool {
        let saved_ms = self.saved_ms.load(Ordering::Relaxed);
        let is_old = || self.unix_ms().saturating_sub(saved_ms) >= SAVED_MS_MAX;
        let is_due = self.has_news.load(Ordering::Relaxed) || has_expired && is_old();
        is_due && !self.is_saving.swap(true, Ordering::Relaxed)
    }

    /// A record was saved, or could not be.
    pub(crate) fn saved(&self, record: Record) {
        self.saved_ms.store(record.store_ms, Ordering::Relaxed);
        self.has_news.store(false, Ordering::Relaxed);
        self.is_saving.store(false, Ordering::Relaxed);
    }
}

impl Clock for StoreClock {
    fn unix_ms(&self) -> u64 {
        Self::unix_ms(self)
    }

    fn monotonic_ns(&self) -> u64 {
        Self::monotonic_ns(self)
    }

    fn sleep(&self, duration: Duration) {
        Self::sleep(self, duration);
    }
}

#[cfg(test)]
mod tests {
    use tidekv_io::ManualClock;

    use super::*;

    fn clock_at(machine: &Arc<ManualClock>, saved: Option<Record>) -> StoreClock {
        StoreClock::new(Arc::clone(machine) as Arc<dyn Clock>, saved)
    }

    #[test]
    fn steps_of_the_machine_do_not_move_it() {
        let machine = Arc::new(ManualClock::new(10_000_000));
        machine.advance(Duration::from_micros(1_700));
        let clock = clock_at(&machine, None);
        assert_eq!((clock.unix_ms(), clock.offset_ms()), (machine.unix_ms(), 0));
        machine.advance(Duration::from_millis(10));
        assert_eq!(clock.unix_ms(), machine.unix_ms());
        for (back_ms, forward_ms, offset) in [(5000, 0, -5000), (0, 65_000, 60_000), (60_000, 0, 0)]
        {
            machine.set_back(back_ms);
            machine.set_forward(forward_ms);
            assert_eq!(clock.unix_ms(), 10_000_011);
            assert_eq!(clock.offset_ms(), offset);
        }
        // The clocks of a machine differ a little.
        machine.set_back(400);
        assert_eq!(clock.offset_ms(), 0);
    }

    #[test]
    fn it_goes_on_from_the_last_record() {
        let machine = Arc::new(ManualClock::new(10_000_000));
        let clock = clock_at(&machine, None);
        machine.advance(Duration::from_secs(10));
        let saved = clock.record();
        assert_eq!(saved, Record { store_ms: 10_010_000, machine_ms: 10_010_000 });
        machine.advance(Duration::from_secs(5));
        assert_eq!(clock_at(&machine, Some(saved)).unix_ms(), 10_015_000, "time has passed");
        machine.set_back(3_600_000);
        let clock = clock_at(&machine, Some(saved));
        assert_eq!(clock.unix_ms(), 10_010_000, "the machine's clock is behind");
        assert_eq!(clock.offset_ms(), 10_015_000 - 3_600_000 - 10_010_000);
        // A step while the store was open does not count as time that has passed.
        machine.set_forward(7_200_000);
        let saved = clock.record();
        machine.advance(Duration::from_secs(1));
        assert_eq!(clock_at(&machine, Some(saved)).unix_ms(), 10_011_000);
    }

    #[test]
    fn a_record_is_wanted_when_the_last_is_old_and_once() {
        let machine = Arc::new(ManualClock::new(10_000_000));
        let clock = clock_at(&machine, None);
        assert!(clock.must_save(true));
        assert!(!clock.must_save(true), "it is being saved");
        clock.saved(clock.record());
        machine.advance(Duration::from_millis(SAVED_MS_MAX - 1));
        assert!(!clock.must_save(true));
        machine.advance(Duration::from_millis(1));
        assert!(!clock.must_save(false), "only when an entry has expired");
        assert!(clock.must_save(true));
        clock.saved(clock.record());
        machine.set_forward(5000);
        assert!(!clock.must_save(false));
        assert_eq!(clock.offset_ms(), 5000);
        assert!(clock.must_save(false), "a step was noticed");
        clock.saved(clock.record());
        assert!(!clock.must_save(false));
    }

    #[test]
    fn the_record_has_the_documented_bytes_and_damage_is_noticed() {
        let record = Record { store_ms: 0x0102, machine_ms: 0x0304 };
        let bytes = record.encode();
        assert_eq!(&bytes[..8], b"TKCLOCK1");
        assert_eq!(&bytes[16..], [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Record::decode(&bytes), Some(record));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Record::decode(&damaged), None, "byte {at}");
            assert_eq!(Record::decode(&bytes[..at]), None, "{at} bytes");
        }
    }
}
