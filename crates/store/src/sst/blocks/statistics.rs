//! Counters of block reads. Any thread may increment them.

use crate::stats::Counter;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Counters of block reads.
#[derive(Debug, Default)]
pub(super) struct BlockStatistics {
    /// Reads of storage by users' operations; a run of blocks is one read.
    pub(super) reads: Counter,
    pub(super) read_bytes: Counter,
    /// Of these, bytes between two requested blocks of one read.
    pub(super) gap_bytes: Counter,
    /// Failed reads, reported to a caller or not: a block that failed in read-ahead, or in one run
    /// with others, is read again alone when it is requested.
    pub(super) read_failures: Counter,
    /// Blocks that were read before they were requested.
    pub(super) read_ahead_blocks: Counter,
    /// Reads to repair filters, those that failed included.
    pub(super) repair_reads: Counter,
    pub(super) repair_read_bytes: Counter,
    pub(super) compaction_reads: Counter,
    pub(super) compaction_read_bytes: Counter,
    /// Readers that waited for a read by another thread.
    pub(super) single_flight_waits: Counter,
    /// Bytes that are being read now.
    pub(super) in_flight_bytes: AtomicU64,
}

impl BlockStatistics {
    /// Name and value of every counter, in a fixed order, but for those of repairs.
    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("io.reads", self.reads.get()),
            ("io.read_bytes", self.read_bytes.get()),
            ("io.gap_bytes", self.gap_bytes.get()),
            ("io.read_failures", self.read_failures.get()),
            ("io.read_ahead_blocks", self.read_ahead_blocks.get()),
            ("io.in_flight_bytes", self.in_flight_bytes.load(Ordering::Relaxed)),
            ("io.compaction_reads", self.compaction_reads.get()),
            ("io.compaction_read_bytes", self.compaction_read_bytes.get()),
            ("io.single_flight_waits", self.single_flight_waits.get()),
        ]
    }
}

/// Counts bytes as in flight while it lives.
#[derive(Debug)]
pub(super) struct InFlight<'a> {
    gauge: &'a AtomicU64,
    bytes: u64,
}

impl<'a> InFlight<'a> {
    pub(super) fn new(statistics: &'a BlockStatistics, bytes: u64) -> Self {
        let gauge = &statistics.in_flight_bytes;
        gauge.fetch_add(bytes, Ordering::Relaxed);
        Self { gauge, bytes }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.gauge.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
