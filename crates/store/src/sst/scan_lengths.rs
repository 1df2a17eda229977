//! Lengths of recent scans, so that the next scan reads at its seek the blocks that it will most
//! likely need, in one trip to storage.
//!
//! A scan does not announce its length. Read block by block, a short scan pays a round trip for
//! every block; with a long read-ahead it pays for unneeded bytes. [`ScanLengths`] counts how many
//! blocks recent scans went through and picks the first read that would have cost them least: the
//! blocks read, plus the round trips of the scans that went further.
//!
//! Old scans lose weight: when [`SCANS_REMEMBERED`] have been counted, all counts are halved. With
//! fewer than [`SCANS_MIN`], a seek reads one block.
//!
//! Safe to use from all threads; a count that is lost in a race does no harm. Pure: no reads happen
//! here.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Length classes in blocks: a scan counts for the smallest class that covers it, so that at most
/// one block in eight is read in vain. Longer scans read ahead in longer runs anyway.
const LENGTHS: [u32; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 27, 30, 33, 36, 40, 45, 50,
    56, 64,
];

/// Counts are halved at this many.
const SCANS_REMEMBERED: u32 = 512;

/// Fewer scans are not significant.
const SCANS_MIN: u32 = 4;

/// This many of the first further runs of a scan take the time of one trip.
const RUNS_PER_TRIP: u32 = 4;

/// Lengths of recent scans of one level.
#[derive(Debug, Default)]
pub(crate) struct ScanLengths {
    /// Number of scans per class of [`LENGTHS`]; the last class includes longer ones. Allocated by
    /// the first scan: a store may have many keyspaces that are never scanned.
    counts: OnceLock<Box<[AtomicU32; LENGTHS.len()]>>,
}

impl ScanLengths {
    /// Bytes of DRAM that they take.
    pub(crate) fn charge(&self) -> usize {
        size_of::<Self>() + self.counts.get().map_or(0, |counts| size_of_val(&**counts))
    }

    /// Records a scan that went through `blocks` blocks.
    pub(crate) fn record(&self, blocks: u32) {
        let at = LENGTHS.partition_point(|&length| length < blocks).min(LENGTHS.len() - 1);
        let counts = self.counts.get_or_init(Box::default);
        counts[at].fetch_add(1, Ordering::Relaxed);
        let total: u32 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        if total >= SCANS_REMEMBERED {
            for count in counts.iter() {
                count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// The number of blocks that the first read of a scan should fetch, at least one, when a trip
    /// to storage costs as much as reading `trip_blocks` blocks.
    pub(crate) fn first_read(&self, trip_blocks: u32) -> u32 {
        let Some(counts) = self.counts.get() else { return 1 };
        let counts = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        if counts.iter().sum::<u32>() < SCANS_MIN {
            return 1;
        }
        let scans = || LENGTHS.into_iter().zip(counts).filter(|&(_, count)| count > 0);
        let cost_of_all = |first: u32| -> u64 {
            scans().map(|(scan, count)| u64::from(count) * cost(scan, first, trip_blocks)).sum()
        };
        // Lengths between those of two scans only cost more.
        let candidates = std::iter::once(1).chain(scans().map(|(length, _)| length));
        candidates.min_by_key(|&first| cost_of_all(first)).unwrap_or(1)
    }
}

/// The cost, in blocks, of a scan of `scan` blocks whose first read fetches `first`. Further blocks
/// are read in runs, each twice as long as the one before.
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
    fn first_read_matches_scan_lengths() {
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
        // Half of them benefit: three more blocks for half a trip.
        assert_eq!(after(&[(1, 50), (4, 50)]).first_read(16), 4);
        // Not if a trip is cheap.
        assert_eq!(after(&[(1, 50), (4, 50)]).first_read(1), 1);
    }

    #[test]
    fn blocks_needed_by_all_scans_are_read_at_once() {
        // Two blocks more than a trip costs, which all scans go through.
        assert_eq!(after(&[(34, 100)]).first_read(32), 36);
        assert_eq!(after(&[(4, 50)]).first_read(1), 4);
        // Every other scan would make three more trips.
        assert_eq!(after(&[(1, 50), (34, 50)]).first_read(32), 36);
        assert_eq!(after(&[(1, 90), (34, 10)]).first_read(32), 1);
    }

    #[test]
    fn old_scans_lose_weight() {
        let lengths = after(&[(16, 10_000), (1, 5000)]);
        assert_eq!(lengths.first_read(16), 1);
        let kept: u32 =
            lengths.counts.get().unwrap().iter().map(|c| c.load(Ordering::Relaxed)).sum();
        assert!(kept < SCANS_REMEMBERED, "{kept}");
    }
}
