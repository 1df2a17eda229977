//! How far scans go: learned from those that ended, so that the next one reads
//! at its seek what it will most likely need, in one trip to storage.
//!
//! A scan does not say how many entries will be asked of it. Read block by
//! block, a short one pays a round trip for every block; read far ahead, it
//! pays for bytes that nobody wants. [`ScanLengths`] counts how many blocks
//! recent scans went through and picks the first read that would have cost them
//! least: the blocks read, plus a round trip for each scan that went further.
//!
//! Old scans are forgotten: when [`SCANS_REMEMBERED`] have been counted, all
//! counts are halved. With fewer than [`SCANS_MIN`], a seek reads one block.
//!
//! Safe to use from all threads; a count that is lost to a race does no harm.
//! Pure: no reads happen here.

use std::sync::atomic::{AtomicU32, Ordering};

/// Lengths that are told apart, in blocks: a scan counts for the least of these
/// that covers it. What goes beyond the last reads ahead in longer runs anyway.
const LENGTHS: [u32; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64];

/// Counts are halved at this many.
const SCANS_REMEMBERED: u32 = 512;

/// Fewer say nothing.
const SCANS_MIN: u32 = 4;

/// What recent scans of one level went through.
#[derive(Debug, Default)]
pub(crate) struct ScanLengths {
    /// How many went as far as each of [`LENGTHS`]; the last one also counts
    /// those that went further.
    counts: [AtomicU32; LENGTHS.len()],
}

impl ScanLengths {
    /// Notes a scan that went through `blocks` blocks.
    pub(crate) fn record(&self, blocks: u32) {
        let at = LENGTHS.partition_point(|&length| length < blocks).min(LENGTHS.len() - 1);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        let total: u32 = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        if total >= SCANS_REMEMBERED {
            for count in &self.counts {
                count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// How many blocks the first read of a scan is to bring, at least one, when
    /// a trip to storage costs as much as reading `trip_blocks` blocks.
    pub(crate) fn first_read(&self, trip_blocks: u32) -> u32 {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let total: u32 = counts.iter().sum();
        if total < SCANS_MIN {
            return 1;
        }
        let mut further = total;
        let mut best = (u64::MAX, 1);
        for (length, count) in LENGTHS.into_iter().zip(counts) {
            further -= count.min(further);
            let cost =
                u64::from(total) * u64::from(length) + u64::from(further) * u64::from(trip_blocks);
            best = best.min((cost, length));
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(scans: &[(u32, u32)]) -> ScanLengths {
        let lengths = ScanLengths::default();
        for &(blocks, times) in scans {
            (0..times).for_each(|_| lengths.record(blocks));
        }
        lengths
    }

    #[test]
    fn the_first_read_is_what_scans_need() {
        assert_eq!(ScanLengths::default().first_read(16), 1);
        assert_eq!(after(&[(4, 3)]).first_read(16), 1, "three scans say nothing");
        assert_eq!(after(&[(1, 100)]).first_read(16), 1);
        assert_eq!(after(&[(3, 20), (4, 80)]).first_read(16), 4);
        assert_eq!(after(&[(9, 50)]).first_read(16), 10);
    }

    #[test]
    fn a_few_long_scans_do_not_lengthen_the_reads_of_many_short_ones() {
        assert_eq!(after(&[(1, 95), (10_000, 5)]).first_read(16), 1);
        // Half of them are worth it: three more blocks for half a trip.
        assert_eq!(after(&[(1, 50), (4, 50)]).first_read(16), 4);
        // Not where a trip is cheap.
        assert_eq!(after(&[(1, 50), (4, 50)]).first_read(1), 1);
    }

    #[test]
    fn old_scans_are_forgotten() {
        let lengths = after(&[(16, 10_000), (1, 5000)]);
        assert_eq!(lengths.first_read(16), 1);
        let kept: u32 = lengths.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum();
        assert!(kept < SCANS_REMEMBERED, "{kept}");
    }
}
