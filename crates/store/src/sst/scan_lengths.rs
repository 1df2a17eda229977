//! How far scans go: learned from those that ended, so that the next one reads
//! at its seek what it will most likely need, in one trip to storage.
//!
//! A scan does not say how many entries will be asked of it. Read block by
//! block, a short one pays a round trip for every block; read far ahead, it
//! pays for bytes that nobody wants. [`ScanLengths`] counts how many blocks
//! recent scans went through and picks the first read that would have cost them
//! least: the blocks read, plus the round trips of the scans that went further.
//!
//! Old scans are forgotten: when [`SCANS_REMEMBERED`] have been counted, all
//! counts are halved. With fewer than [`SCANS_MIN`], a seek reads one block.
//!
//! Safe to use from all threads; a count that is lost to a race does no harm.
//! Pure: no reads happen here.

use std::sync::atomic::{AtomicU32, Ordering};

/// Lengths that are told apart, in blocks: a scan counts for the least of these
/// that covers it, so that at most one block in eight is read in vain. What goes
/// beyond the last reads ahead in longer runs anyway.
const LENGTHS: [u32; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 27, 30, 33, 36, 40, 45, 50,
    56, 64,
];

/// Counts are halved at this many.
const SCANS_REMEMBERED: u32 = 512;

/// Fewer say nothing.
const SCANS_MIN: u32 = 4;

/// So many of the first runs that a scan reads further take the time of one trip.
const RUNS_PER_TRIP: u32 = 4;

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
        if counts.iter().sum::<u32>() < SCANS_MIN {
            return 1;
        }
        let scans = || LENGTHS.into_iter().zip(counts).filter(|&(_, count)| count > 0);
        let cost_of_all = |first: u32| -> u64 {
            scans().map(|(scan, count)| u64::from(count) * cost(scan, first, trip_blocks)).sum()
        };
        // To read further than one scan went and less far than the next only costs.
        let candidates = std::iter::once(1).chain(scans().map(|(length, _)| length));
        candidates.min_by_key(|&first| cost_of_all(first)).unwrap_or(1)
    }
}

/// What a scan of `scan` blocks costs whose first read brings `first`, in blocks.
/// What lies further is read in runs, each twice as long as the one before.
fn cost(scan: u32, first: u32, trip_blocks: u32) -> u64 {
    let Some(further) = scan.checked_sub(first).filter(|&further| further > 0) else {
        return u64::from(first);
    };
    let first_run = (trip_blocks / RUNS_PER_TRIP).max(1);
    let trips = ((further - 1) / first_run + 1).ilog2() + 1;
    u64::from(scan) + u64::from(trips) * u64::from(trip_blocks)
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
        assert_eq!(after(&[(17, 50)]).first_read(16), 18);
        for blocks in 1..=64 {
            let read = after(&[(blocks, 50)]).first_read(16);
            assert!((blocks..=blocks + blocks / 7).contains(&read), "{read} for {blocks}");
        }
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
    fn what_is_read_in_the_end_is_not_saved_by_reading_it_later() {
        // Two blocks more than a trip is worth, which all scans go through.
        assert_eq!(after(&[(34, 100)]).first_read(32), 36);
        assert_eq!(after(&[(4, 50)]).first_read(1), 4);
        // Every other scan would make three more trips.
        assert_eq!(after(&[(1, 50), (34, 50)]).first_read(32), 36);
        assert_eq!(after(&[(1, 90), (34, 10)]).first_read(32), 1);
    }

    #[test]
    fn old_scans_are_forgotten() {
        let lengths = after(&[(16, 10_000), (1, 5000)]);
        assert_eq!(lengths.first_read(16), 1);
        let kept: u32 = lengths.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum();
        assert!(kept < SCANS_REMEMBERED, "{kept}");
    }
}
