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
//! merged (`picker::pick_for_seeks`). That is renting until the rent has come to the price:
//! nobody has to know how long scans will go on, and readers and merges together never cost
//! more than twice what they would have cost if somebody had known.
//!
//! Guarantee: such merges read and write no more bytes than seeks have read from storage in
//! the tables that they take away.
//!
//! Pure: the engine looks, at most once for each [`LOOK_BYTES`] that were paid.

use std::sync::atomic::{AtomicU64, Ordering};

/// It is worth a look at all tables again when seeks have read so many bytes.
const LOOK_BYTES: u64 = 1 << 20;

/// Bytes of blocks that seeks had to read from storage.
#[derive(Debug, Default)]
pub(crate) struct SeekBytes(AtomicU64);

impl SeekBytes {
    pub(crate) fn note(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether so many were read since it was last said that it is time to look. Of threads
    /// that ask at once one is told.
    pub(crate) fn is_time_to_look(&self) -> bool {
        let bytes = self.get();
        bytes >= LOOK_BYTES
            && self.0.compare_exchange(bytes, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_for_so_many_bytes() {
        let bytes = SeekBytes::default();
        bytes.note(LOOK_BYTES - 1);
        assert!(!bytes.is_time_to_look());
        bytes.note(1);
        assert_eq!([bytes.is_time_to_look(), bytes.is_time_to_look()], [true, false]);
        assert_eq!(bytes.get(), 0);
    }
}
