//! Read costs of scan seeks in sorted runs that a merge would save.
//!
//! A scan searches every sorted run for its start. In each run but the deepest it reads a block
//! there for the few entries in it: after a merge with the run below, the scan would find them in
//! blocks that it reads anyway. A store that is scanned but never written to would therefore pay
//! forever for a run that is too small to be merged for its size.
//!
//! Each table therefore counts the bytes of the blocks that seeks had to read from storage in it
//! ([`SeekBytes`]; one block per seek, because a long scan would have to read its further blocks in
//! any run). Once they equal the bytes that merging the table would read and write, it is merged
//! (`picker::pick_for_seeks`), and they are spent. This is the rent-or-buy rule: rent until the
//! rent equals the price; no one needs to predict how long scans will continue.
//!
//! Guarantees:
//! 1. Such merges, including failed ones, read and write no more bytes than seeks have read from
//!    storage in their input tables, or in the tables that those were made from.
//! 2. A scan neither merges nor waits for a merge: once scans have read [enough
//!    bytes](SeekWork::of_tables) together, one of their threads submits the check to the executor
//!    ([`SeekWork`]).
//! 3. One check or one such merge is under way at a time, and none begins while another merge is
//!    under way or needed.
//!
//! Pure: the engine runs the checks.

use std::ops::RangeInclusive;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The share of the target table size that seeks must read before all tables are checked again:
/// merging a whole table costs eight times as much.
const LOOK_PART: u64 = 4;
/// Bounds: at least a few blocks, as a check visits all tables, and at most an amount that is soon
/// read.
const LOOK_BYTES: RangeInclusive<u64> = 16 << 10..=1 << 20;

/// Bytes of blocks that seeks had to read from storage and that no merge has spent yet.
#[derive(Debug, Default)]
pub(crate) struct SeekBytes(AtomicU64);

impl SeekBytes {
    pub(crate) fn note(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Subtracts at most `bytes` and returns the subtracted amount.
    pub(crate) fn spend(&self, bytes: u64) -> u64 {
        let paid = self.0.swap(0, Ordering::Relaxed);
        let left = paid.saturating_sub(bytes);
        self.0.fetch_add(left, Ordering::Relaxed);
        paid - left
    }
}

/// Decides when to check tables for seek-triggered compaction, and tracks a running check.
#[derive(Debug)]
pub(crate) struct SeekWork {
    /// Bytes of all tables since the last check.
    bytes: SeekBytes,
    /// Number of bytes that triggers a check.
    look_bytes: u64,
    is_under_way: AtomicBool,
}

impl SeekWork {
    /// For tables with a target size of `table_bytes`: a check is due each time seeks have read a
    /// quarter of that, at least 16 KiB and at most one mebibyte.
    pub(crate) fn of_tables(table_bytes: u64) -> Self {
        let look_bytes = (table_bytes / LOOK_PART).clamp(*LOOK_BYTES.start(), *LOOK_BYTES.end());
        Self { bytes: SeekBytes::default(), look_bytes, is_under_way: AtomicBool::new(false) }
    }

    /// Records that a seek has read `bytes` bytes.
    pub(crate) fn note(&self, bytes: u64) {
        self.bytes.note(bytes);
    }

    /// Whether the caller must start a check; the check then calls [`Self::end`] after it and any
    /// merge that it triggered.
    pub(crate) fn begin(&self) -> bool {
        // No thread writes to the memory that all scans read while a check is under way.
        if self.bytes.get() < self.look_bytes
            || self.is_under_way.load(Ordering::Relaxed)
            || self.is_under_way.swap(true, Ordering::AcqRel)
        {
            return false;
        }
        self.bytes.spend(u64::MAX);
        true
    }

    pub(crate) fn end(&self) {
        self.is_under_way.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_start_per_byte_threshold_and_one_at_a_time() {
        let look_of = |table_bytes| SeekWork::of_tables(table_bytes).look_bytes;
        assert_eq!([0, 1 << 18, 64 << 20].map(look_of), [16 << 10, 1 << 16, 1 << 20]);
        let (work, look) = (SeekWork::of_tables(1 << 18), 1 << 16);
        work.note(look - 1);
        assert!(!work.begin());
        work.note(1);
        assert_eq!([work.begin(), work.begin()], [true, false]);
        work.note(look);
        assert!(!work.begin(), "the first has not ended");
        work.end();
        assert_eq!([work.begin(), work.begin()], [true, false]);
    }

    #[test]
    fn merges_spend_at_most_the_seek_bytes() {
        let bytes = SeekBytes::default();
        bytes.note(100);
        assert_eq!([bytes.spend(70), bytes.spend(70), bytes.spend(70)], [70, 30, 0]);
    }
}
