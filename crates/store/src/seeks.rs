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
//!    [so many](look_bytes) together hands the look to the executor ([`SeekWork`]).
//! 3. One look or one such merge is under way at a time, and none begins while another merge
//!    is under way or needed.
//!
//! Pure: the engine looks.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most that seeks read until it is worth a look at all tables again, in bytes.
const LOOK_BYTES_MAX: u64 = 1 << 20;

/// It is worth a look again when seeks have read so many bytes, where tables are to have
/// `table_bytes`: to read and write one costs twice as much, and a run is often less than one.
pub(crate) fn look_bytes(table_bytes: u64) -> u64 {
    (table_bytes / 4).clamp(1, LOOK_BYTES_MAX)
}

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
    /// It is time again for each [`look_bytes`].
    pub(crate) fn new(look_bytes: u64) -> Self {
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
        let look = look_bytes(1000);
        assert_eq!((look, look_bytes(1), look_bytes(u64::MAX)), (250, 1, LOOK_BYTES_MAX));
        let work = SeekWork::new(look);
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
