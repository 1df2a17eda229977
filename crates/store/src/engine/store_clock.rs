//! The clock by which entries expire: that of the machine when the store is opened, moved on by a
//! clock that cannot be set ([`Clock::boot_ns`]).
//!
//! Guarantees:
//! 1. It never goes back: neither while the store is open nor, beyond a second, from one opening to
//!    the next ([`Record`]). What has expired stays expired. If the machine's clock is set back at a
//!    power cut, it goes on from the last synced record: at most about a minute before the last entry
//!    that was seen to have expired, and not before the last opening.
//! 2. Steps of the machine's time of day do not move it, so a time to live lasts as long as it says.
//!
//! Deadlines are times of this clock. [`StoreClock::offset_ms`] is how far the machine's time of
//! day is ahead of it, for deadlines that are given as times of day: usually 0.
//!
//! Relies on: the owner saves the record when the store is opened and closed, in checkpoints, when a
//! step was noticed, and within a second after an entry was seen to have expired
//! ([`StoreClock::must_save`]); and syncs it where that matters ([`StoreClock::must_sync`]). The
//! offset is asked for whenever a deadline is written, so a step is noticed before it matters.

use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, Moment};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::warm::list_file::{self, HEAD_BYTES, Magic};

/// The magic of the file `CLOCK`. On disk: do not change.
const MAGIC: Magic = *b"TKCLOCK1";

/// A smaller difference between the clocks is no step.
const STEP_MS_MIN: i64 = 1000;

/// If the clocks cannot be read closer together than this, they say nothing about a step.
const APART_NS_MAX: u64 = 100_000_000;

const NS_PER_MS: u64 = 1_000_000;

/// The record is at most this old when an entry is seen to have expired.
const SAVED_MS_MAX: u64 = 1000;

/// The record on stable storage is at most this old when a record is saved. Nothing is saved while no
/// entry is seen to have expired.
const SYNCED_MS_MAX: u64 = 60_000;

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
    /// Whether the clocks differ by a step.
    fn is_apart(self) -> bool {
        self.store_ms.abs_diff(self.machine_ms) >= STEP_MS_MIN.unsigned_abs()
    }

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
    /// The time in nanoseconds when the store was opened. It differs from that of the machine by
    /// whole milliseconds, so that neither rounds where the other does not: many openings would
    /// add up to seconds.
    base_ns: u64,
    /// The time of the clock that cannot be set at `base_ns`.
    base_boot_ns: u64,
    /// How far the machine is ahead, as last noticed: an `i64`.
    offset_ms: AtomicU64,
    /// The time of the last record.
    saved_ms: AtomicU64,
    /// The time of the last record that this life of the store has synced: 0 for none.
    synced_ms: AtomicU64,
    /// When a record could not be saved.
    failed_ms: AtomicU64,
    /// The clocks differ in the record that is on stable storage, as far as it is known.
    is_apart_on_disk: AtomicBool,
    /// A record is being saved.
    is_saving: AtomicBool,
    /// A step was noticed, and no record has been saved since.
    has_news: AtomicBool,
}

impl StoreClock {
    /// A clock that goes on from `saved`, the record of the last time that the store was open.
    pub(crate) fn new(machine: Arc<dyn Clock>, saved: Option<Record>) -> Self {
        let Moment { unix_ns, boot_ns, .. } = machine.moment();
        let machine_ms = unix_ns / NS_PER_MS;
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
            base_ns: base_ms.saturating_mul(NS_PER_MS).saturating_add(unix_ns % NS_PER_MS),
            base_boot_ns: boot_ns,
            offset_ms: AtomicU64::new(0),
            saved_ms: AtomicU64::new(0),
            synced_ms: AtomicU64::new(0),
            failed_ms: AtomicU64::new(0),
            // A record that could not be read may be readable the next time.
            is_apart_on_disk: AtomicBool::new(saved.is_none_or(Record::is_apart)),
            is_saving: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
        };
        clock.offset_ms();
        clock
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.at(self.machine.boot_ns()) / NS_PER_MS
    }

    /// The time in nanoseconds at `boot_ns` of the clock that cannot be set.
    fn at(&self, boot_ns: u64) -> u64 {
        self.base_ns.saturating_add(boot_ns.saturating_sub(self.base_boot_ns))
    }

    /// How far the machine's time of day is ahead of this clock, in whole milliseconds.
    fn difference_ms(&self, moment: &Moment) -> i64 {
        let ahead_ns = moment.unix_ns.wrapping_sub(self.at(moment.boot_ns)).cast_signed();
        let half_ns = NS_PER_MS.cast_signed() / 2;
        ahead_ns.saturating_add(half_ns).div_euclid(NS_PER_MS.cast_signed())
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
        let moment = self.machine.moment();
        let difference = self.difference_ms(&moment);
        let noticed = self.offset_ms.load(Ordering::Relaxed).cast_signed();
        if (difference - noticed).abs() < STEP_MS_MIN || moment.apart_ns > APART_NS_MAX {
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
        let moment = self.machine.moment();
        let machine_ms = moment.unix_ns / NS_PER_MS;
        let store_ms = machine_ms.saturating_add_signed(-self.difference_ms(&moment));
        Record { store_ms, machine_ms }
    }

    /// Called when an entry was seen to have expired, or a deadline is written: whether the caller
    /// must save a record ([`StoreClock::saved`]), because a step was noticed or, if an entry
    /// `has_expired`, the last record is too old; and nobody does yet.
    pub(crate) fn must_save(&self, has_expired: bool) -> bool {
        let is_past = |since: &AtomicU64| {
            self.unix_ms().saturating_sub(since.load(Ordering::Relaxed)) >= SAVED_MS_MAX
        };
        let has_news = self.has_news.load(Ordering::Relaxed);
        let is_due =
            (has_news || has_expired && is_past(&self.saved_ms)) && is_past(&self.failed_ms);
        is_due && !self.is_saving.swap(true, Ordering::Relaxed)
    }

    /// Whether `record` must replace the one on stable storage when it is saved, so that its name is
    /// synced as well as its contents, which always are: if the clocks differ, in it or in
    /// the record there; if that is old; and when the store is opened, because its clock may just have
    /// gone forward by much. Else the machine's clock is as good after a power cut as no record.
    pub(crate) fn must_sync(&self, record: Record) -> bool {
        let age_ms = record.store_ms.saturating_sub(self.synced_ms.load(Ordering::Relaxed));
        record.is_apart()
            || self.is_apart_on_disk.load(Ordering::Relaxed)
            || age_ms >= SYNCED_MS_MAX
    }

    /// `record` was saved, and synced if it had to be ([`StoreClock::must_sync`]); or could not be.
    pub(crate) fn saved(&self, record: Record, is_saved: bool) {
        if is_saved {
            self.saved_ms.store(record.store_ms, Ordering::Relaxed);
            if self.must_sync(record) {
                self.synced_ms.store(record.store_ms, Ordering::Relaxed);
            }
            self.is_apart_on_disk.store(record.is_apart(), Ordering::Relaxed);
            self.has_news.store(false, Ordering::Relaxed);
        } else {
            self.failed_ms.store(record.store_ms, Ordering::Relaxed);
        }
        self.is_saving.store(false, Ordering::Relaxed);
    }
}

impl Clock for StoreClock {
    fn unix_ns(&self) -> u64 {
        self.at(self.machine.boot_ns())
    }

    fn monotonic_ns(&self) -> u64 {
        Self::monotonic_ns(self)
    }

    fn sleep(&self, duration: Duration) {
        Self::sleep(self, duration);
    }
}

#[cfg(test)]
mod tests;
