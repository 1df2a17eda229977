//! What the seeks of scans have paid for sorted runs that a merge would spare them.
//!
//! A scan looks in every sorted run for where it begins. In each but the deepest one it reads
//! a block there for the few entries that stand in it: had the run been merged with the one
//! below, the scan would have found them in what it reads anyway. So whoever scans a store to
//! which nobody writes pays for ever for a run that is too small to be merged for its size.
//!
//! So each table counts the bytes of the blocks that seeks had to read from storage in it
//! ([`SeekBytes`]; one block a seek, as what a long scan reads further it would have to read
//! wherever it stands). Once they are as many as merging the table would read and write, it is
//! merged (`picker::pick_for_seeks`), and they are spent. That is renting until the rent has
//! come to the price: nobody has to know how long scans will go on.
//!
//! Guarantees:
//! 1. Such merges, those that fail included, read and write no more bytes than seeks have gone
//!    to storage for in the tables that they take in, or in those that these were made of.
//! 2. Whoever scans neither merges nor waits for a merge: one thread of those that have read
//!    [so much](SeekWork::of_tables) together hands the look to the executor ([`SeekWork`]).
//! 3. One look or one such merge is under way at a time, and none begins while another merge
//!    is under way or needed.
//!
//! Pure: the engine looks.

use std::ops::RangeInclusive;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Of what a table is to have, the part that seeks read until it is worth a look at all tables
/// again: to merge a whole one costs eight times as much.
const LOOK_PART: u64 = 4;
/// But no less than some blocks, as a look goes through all tables, and no more than is soon read.
const LOOK_BYTES: RangeInclusive<u64> = 16 << 10..=1 << 20;

/// Bytes of blocks that seeks had to read from storage, and that were not spent since.
#[derive(Debug, Default)]
pub(crate) struct SeekBytes(AtomicU64);

impl SeekBytes {
    pub(crate) fn note(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes at most so many away, and says how many.
    pub(crate) fn spend(&self, bytes: u64) -> u64 {
        let paid = self.0.swap(0, Ordering::Relaxed);
        let left = paid.saturating_sub(bytes);
        self.0.fetch_add(left, Ordering::Relaxed);
        paid - left
    }
}

/// Whether it is time to look what seeks have paid for, and whether somebody does.
#[derive(Debug)]
pub(crate) struct SeekWork {
    /// Of all tables, since it was last time.
    bytes: SeekBytes,
    /// It is time when they are so many.
    look_bytes: u64,
    is_under_way: AtomicBool,
}

impl SeekWork {
    /// Where tables are to have `table_bytes`: it is time for each quarter of that which seeks
    /// have read, at least 16 KiB and at most a mebibyte.
    pub(crate) fn of_tables(table_bytes: u64) -> Self {
        let look_bytes = (table_bytes / LOOK_PART).clamp(*LOOK_BYTES.start(), *LOOK_BYTES.end());
        Self { bytes: SeekBytes::default(), look_bytes, is_under_way: AtomicBool::new(false) }
    }

    /// A seek has read so many bytes.
    pub(crate) fn note(&self, bytes: u64) {
        self.bytes.note(bytes);
    }

    /// Whether the caller is to see to it that somebody looks, who says when that and what
    /// it led to has [ended](Self::end).
    pub(crate) fn begin(&self) -> bool {
        // Nobody writes to what all scans look at while somebody is at it.
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
    fn one_look_for_so_many_bytes_and_one_at_a_time() {
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
    fn no_more_is_spent_than_was_paid() {
        let bytes = SeekBytes::default();
        bytes.note(100);
        assert_eq!([bytes.spend(70), bytes.spend(70), bytes.spend(70)], [70, 30, 0]);
    }
}
