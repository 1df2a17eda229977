//! Who has how much of the memory: the division of the budget (`budget.rs`) over memtables, open
//! tables and caches, kept up with what each of them takes; and the backlog that slows writers.
//!
//! `balance` is held while the memory is shared out anew, so that the last to do it has seen all
//! changes. Memtables and tables are looked at in a [`TreeSet`].

use std::sync::Arc;

use tidekv_cache::Caches;

use crate::engine::budget::{self, MEMORY_BYTES_MIN, Shares};
use crate::engine::throttle::Backlog;
use crate::engine::tree_set::TreeSet;
use crate::options::Options;
use crate::sst::block::BlockRef;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{ArcSwap, Guard, Mutex};
use crate::warm::borrowed_budget::BorrowedBudget;

/// The base level aims at this many memtables; as many bytes in level 0 start a
/// compaction, as `picker::LEVEL0_TRIGGER` sorted runs do.
const BASE_MEMTABLES: u64 = 4;

/// The memory of a store.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    total_bytes: AtomicU64,
    /// The most that caches may take of it.
    cache_bytes_max: AtomicU64,
    /// When memtables are full, if that is set.
    memtable_bytes: Option<u64>,
    shares: ArcSwap<Shares>,
    /// Held while the memory is shared out anew.
    balance: Mutex<()>,
    metadata_bytes: AtomicUsize,
    /// What is left of the list of what was hot takes so much.
    hot_list_bytes: AtomicUsize,
    caches: Arc<Caches<BlockRef>>,
    /// What KV has lent to blocks as long as there is a list.
    borrowed: Arc<BorrowedBudget>,
    /// Sorted runs in the fullest level 0, for the write stall.
    level0_runs: AtomicUsize,
    /// Bytes that compactions have to move, for the write stall.
    debt_bytes: AtomicU64,
    /// How fast flushes are, for the write stall: their mean, the last ones
    /// counting most. 0: not known.
    flush_bytes_per_s: AtomicU64,
}

/// The memory that a store of these options may use, and its division while memtables are full:
/// replayed logs may fill them.
pub(crate) fn initial(options: &Options) -> (u64, Shares) {
    let total_bytes =
        options.memory_bytes.unwrap_or_else(budget::default_memory_bytes).max(MEMORY_BYTES_MIN);
    (total_bytes, budget::shares(total_bytes, options.memtable_bytes, total_bytes, 0))
}

impl MemoryBudget {
    /// Of `total_bytes`, which are divided into `shares` so far.
    pub(crate) fn new(
        options: &Options,
        (total_bytes, shares): (u64, Shares),
        caches: Arc<Caches<BlockRef>>,
    ) -> Self {
        Self {
            total_bytes: AtomicU64::new(total_bytes),
            cache_bytes_max: AtomicU64::new(options.research.cache_bytes_max),
            memtable_bytes: options.memtable_bytes,
            shares: ArcSwap::from_pointee(shares),
            balance: Mutex::new(()),
            metadata_bytes: AtomicUsize::new(0),
            hot_list_bytes: AtomicUsize::new(0),
            borrowed: Arc::new(BorrowedBudget::new(&caches)),
            caches,
            level0_runs: AtomicUsize::new(0),
            debt_bytes: AtomicU64::new(0),
            flush_bytes_per_s: AtomicU64::new(0),
        }
    }

    // ---- The budget ----

    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Counts from the next division on.
    pub(crate) fn set_total_bytes(&self, bytes: u64) {
        self.total_bytes.store(bytes.max(MEMORY_BYTES_MIN), Ordering::Relaxed);
    }

    /// Counts from the next division on.
    #[cfg(any(test, feature = "research"))]
    pub(crate) fn set_cache_bytes_max(&self, bytes: u64) {
        self.cache_bytes_max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn caches(&self) -> &Arc<Caches<BlockRef>> {
        &self.caches
    }

    /// What KV lends to blocks.
    pub(crate) fn borrowed(&self) -> &Arc<BorrowedBudget> {
        &self.borrowed
    }

    pub(crate) fn shares(&self) -> Guard<Arc<Shares>> {
        self.shares.load()
    }

    /// When a memtable is full.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.shares().memtable_bytes
    }

    /// Target size of the base level.
    pub(crate) fn base_bytes(&self) -> u64 {
        BASE_MEMTABLES * self.memtable_bytes()
    }

    /// What open tables and what filters have learned take.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.metadata_bytes.load(Ordering::Relaxed)
    }

    /// A table was opened that takes so much.
    pub(crate) fn add_metadata(&self, bytes: usize) {
        self.metadata_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    // ---- Its division ----

    /// Counts what open tables, and `repairs` bytes of filter repair, take of the budget, and
    /// shares the rest out. Only while holding `structure`, so that the last to call has seen
    /// the last change.
    pub(crate) fn rebalance(&self, trees: &TreeSet, repairs: usize) {
        self.metadata_bytes.store(trees.tables_charge() + repairs, Ordering::Relaxed);
        self.share_out(trees);
    }

    /// After memtables may have grown: lets them push blocks out of the cache.
    /// Never waits for a change of the tables.
    pub(crate) fn follow_memtables(&self, trees: &TreeSet) {
        let shares = self.shares();
        let kept = budget::kept(shares.memtables_bytes_max, trees.memtables_bytes());
        if kept != shares.memtables_bytes_kept {
            self.share_out(trees);
        }
    }

    /// What is left of a list of what was hot takes `bytes` from here on.
    pub(crate) fn follow_hot_list(&self, trees: &TreeSet, bytes: usize) {
        self.hot_list_bytes.store(bytes, Ordering::Relaxed);
        self.share_out(trees);
    }

    /// Gives the cache what memtables, open tables and a list of what was hot leave of the
    /// budget.
    fn share_out(&self, trees: &TreeSet) {
        // Of two callers the later has seen what the earlier did.
        let _balance = self.balance.lock();
        let list = self.hot_list_bytes.load(Ordering::Relaxed);
        let metadata = (self.metadata_bytes() + list) as u64;
        let memtables = trees.memtables_bytes();
        let mut shares =
            budget::shares(self.total_bytes(), self.memtable_bytes, memtables, metadata);
        shares.cache_bytes = shares.cache_bytes.min(self.cache_bytes_max.load(Ordering::Relaxed));
        self.shares.store(Arc::new(shares));
        self.caches.set_budget(usize::try_from(shares.cache_bytes).unwrap_or(usize::MAX));
    }

    // ---- The backlog ----

    /// The fullest level 0 has `level0_runs` sorted runs, and compactions have to move
    /// `debt_bytes`.
    pub(crate) fn note_backlog(&self, level0_runs: usize, debt_bytes: u64) {
        self.level0_runs.store(level0_runs, Ordering::Relaxed);
        self.debt_bytes.store(debt_bytes, Ordering::Relaxed);
    }

    /// A flush has taken `took_ns` for `bytes` of memtables.
    ///
    /// Small flushes are mostly syncs and say little. Keyspaces may be flushed at
    /// once: then one of two rates is lost, which does no harm.
    pub(crate) fn note_flush_rate(&self, bytes: u64, took_ns: u64) {
        if bytes < self.memtable_bytes() / 2 {
            return;
        }
        let rate = (u128::from(bytes) * 1_000_000_000 / u128::from(took_ns.max(1))) as u64;
        let mean = match self.flush_bytes_per_s() {
            0 => rate,
            mean => mean - mean / 4 + rate / 4,
        };
        self.flush_bytes_per_s.store(mean, Ordering::Relaxed);
    }

    /// How fast flushes are; 0: not known.
    pub(crate) fn flush_bytes_per_s(&self) -> u64 {
        self.flush_bytes_per_s.load(Ordering::Relaxed)
    }

    /// What writers have to wait for.
    pub(crate) fn backlog(&self, trees: &TreeSet) -> Backlog {
        let shares = self.shares();
        Backlog {
            memtables_bytes: trees.memtables_bytes(),
            memtables_bytes_max: shares.memtables_bytes_max,
            level0_runs: self.level0_runs.load(Ordering::Relaxed),
            debt_bytes: self.debt_bytes.load(Ordering::Relaxed),
            debt_bytes_slow: 64 * self.base_bytes(),
            flush_bytes_per_s: self.flush_bytes_per_s(),
        }
    }
}
