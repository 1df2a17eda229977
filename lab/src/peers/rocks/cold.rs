//! The cost of gets that read storage, by RocksDB's own count of the blocks that a thread reads. It
//! counts reads of filters for the whole store; only gets do them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::subject::ColdLookups;
use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

/// Gets by the number of blocks that they read.
#[derive(Debug, Default)]
pub(super) struct ColdGets {
    lookups_of: [AtomicU64; ColdLookups::READS_MAX],
    reads: AtomicU64,
}

impl ColdGets {
    /// Calls `get` and counts its reads.
    pub(super) fn counted<R>(&self, get: impl FnOnce() -> R) -> R {
        // Per thread, as are its counters.
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

    /// Its counts, with the filter reads of the whole store.
    pub(super) fn counts(&self, filter_reads: u64) -> ColdLookups {
        ColdLookups {
            lookups_of: std::array::from_fn(|at| self.lookups_of[at].load(Ordering::Relaxed)),
            reads: self.reads.load(Ordering::Relaxed),
            filter_reads,
            ..ColdLookups::default()
        }
    }
}
