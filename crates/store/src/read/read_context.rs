//! The context of point reads: the caches, the access to blocks, and the statistics of reads.
//!
//! A store has one; every read borrows it. All parts may be used from any thread.

use std::sync::Arc;

use tidekv_cache::Caches;
use tidekv_io::Clock;

use crate::sst::block::BlockRef;
use crate::sst::blocks::Blocks;
use crate::sst::cold_lookups::ColdLookups;
use crate::sst::filter_repair::FilterRepair;

/// The state that all point reads of a store share.
#[derive(Debug)]
pub(crate) struct ReadContext {
    pub(crate) caches: Arc<Caches<BlockRef>>,
    pub(crate) blocks: Arc<Blocks>,
    /// With cross-checks of KV and KP against the tables: the clock by which entries expire.
    verify: Option<Arc<dyn Clock>>,
    /// What lookups of single keys read from storage.
    pub(crate) stats: ColdLookups,
    /// False positives of filters.
    pub(crate) repairs: FilterRepair,
}

impl ReadContext {
    /// With a clock in `verify`, results of KV and KP are checked against the tables.
    pub(crate) fn new(
        caches: Arc<Caches<BlockRef>>,
        blocks: Arc<Blocks>,
        verify: Option<Arc<dyn Clock>>,
        repairs: FilterRepair,
    ) -> Self {
        Self { caches, blocks, verify, stats: ColdLookups::default(), repairs }
    }

    /// Whether results of KV and KP are checked against the tables.
    #[inline]
    pub(crate) fn verifies(&self) -> bool {
        self.verify.is_some()
    }

    /// Whether a deadline has passed, for the cross-check; false without one.
    pub(crate) fn has_passed(&self, deadline_ms: u64) -> bool {
        self.verify.as_ref().is_some_and(|clock| clock.unix_ms() >= deadline_ms)
    }

    /// Name and value of every counter, in a fixed order.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let (repairs, cache) = (&self.repairs.counts, self.caches.blocks().stats());
        let (repair_reads, repair_read_bytes) = self.blocks.repair_reads();
        let (point, (kv, kp)) = (self.caches.point().stats(), self.caches.point().charged_bytes());
        let (kv_len, kp_len) = self.caches.point().len();
        let split = self.caches.split();
        let (saved, wanted) = (self.caches.saved_reads(), self.caches.wanted_reads());
        let mut counters = self.blocks.counters();
        counters.extend([
            ("cache.data.hits", cache.data.hits),
            ("cache.data.misses", cache.data.misses),
            ("cache.data.inserts", cache.data.inserts),
            ("cache.data.evictions", cache.data.evictions),
            ("cache.index.hits", cache.index.hits),
            ("cache.index.misses", cache.index.misses),
            ("cache.index.inserts", cache.index.inserts),
            ("cache.index.evictions", cache.index.evictions),
            ("cache.filter.hits", cache.filter.hits),
            ("cache.filter.misses", cache.filter.misses),
            ("cache.filter.inserts", cache.filter.inserts),
            ("cache.filter.evictions", cache.filter.evictions),
            ("cache.filter.skips", cache.filter.skips),
            ("filter.false_positives", repairs.false_positives.get()),
            ("filter.repairs", repairs.repairs.get()),
            ("filter.repair_reads", repair_reads),
            ("filter.repair_read_bytes", repair_read_bytes),
            ("filter.repair_failures", repairs.failures.get()),
            ("filter.repairs_impossible", repairs.impossible.get()),
            ("filter.repairs_dropped", repairs.dropped.get()),
            ("cache.block.compaction_prefills", cache.total().compaction_prefills),
            ("cache.block.bytes", self.caches.blocks().charged_bytes() as u64),
            ("cache.block.bytes_max", split[2] as u64),
            ("cache.block.saved_reads", saved[2] as u64),
            ("cache.block.ghost_saved_reads", wanted[2] as u64),
            ("cache.kv.hits", point.kv_hits),
            ("cache.kv.entries", kv_len as u64),
            ("cache.kv.bytes", kv as u64),
            ("cache.kv.bytes_max", split[0] as u64),
            ("cache.kv.saved_reads", saved[0] as u64),
            ("cache.kv.ghost_saved_reads", wanted[0] as u64),
            ("cache.kp.hits", point.kp_hits),
            ("cache.kp.errors", point.kp_errors),
            ("cache.kp.relocations", point.kp_moves),
            ("cache.kp.entries", kp_len as u64),
            ("cache.kp.bytes", kp as u64),
            ("cache.kp.bytes_max", split[1] as u64),
            ("cache.kp.saved_reads", saved[1] as u64),
            ("cache.kp.ghost_saved_reads", wanted[1] as u64),
            ("cache.point.misses", point.misses),
            ("cache.point.stale_inserts", point.stale_inserts),
            ("cache.ghost_bytes", self.caches.measuring_bytes() as u64),
            ("cache.ghost_window_bytes", self.caches.window_bytes() as u64),
            ("cache.bytes_max", self.caches.budget() as u64),
        ]);
        counters.extend(self.blocks.tier_counters());
        counters.extend(self.stats.counters());
        counters
    }
}
