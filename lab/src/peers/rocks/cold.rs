//! What gets cost that read storage, by RocksDB's own count of the blocks that a thread reads.
//! Reads of filters it counts for the whole store; nobody but gets does them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::subject::ColdLookups;
use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

/// Gets by how many blocks they read.
#[derive(Debug, Default)]
pub(super) struct ColdGets {
    lookups_of: [AtomicU64; ColdLookups::READS_MAX],
    reads: AtomicU64,
}

impl ColdGets {
    /// What `get` gives, whose reads are counted.
    pub(super) fn counted<R>(&self, get: impl FnOnce() -> R) -> R {
        // Of the thread, as is what it counts.
        set_perf_stats(PerfStatsLevel::EnableCount);
        let mut context = PerfContext::default();
        context.reset();
        let answer = get();
        let reads = context.metric(PerfMetric::BlockReadCount);
        if let Some(at) = reads.checked_sub(1) {
            let at = (at as usize).min(ColdLookups::READS_MAX - 1);
            self.lookups_of[at].fetch_add(1, Ordering::Relaxed);
            self.reads.fetch_add(reads, Ordering::Relaxed);
        }
        answer
    }

    /// What it has counted, with the reads of filters of the whole store.
    pub(super) fn counts(&self, filter_reads: u64) -> ColdLookups {
        ColdLookups {
            lookups_of: std::array::from_fn(|at| self.lookups_of[at].load(Ordering::Relaxed)),
            reads: self.reads.load(Ordering::Relaxed),
            filter_reads,
            ..ColdLookups::default()
        }
    }
}
