//! The division of the store's part of the memory budget (`budget.rs`) over memtables, keyspaces, open
//! tables and caches, updated as each of them grows and shrinks; and the backlog that slows writers.
//!
//! `balance` is held while the memory is divided again, so that the last thread to do it has seen
//! all changes. The sizes of memtables and tables come from a [`TreeSet`].

use std::sync::Arc;

use tidekv_cache::Caches;

use crate::engine::budget::{self, Shares};
use crate::engine::throttle::Backlog;
use crate::engine::tree_set::TreeSet;
use crate::options::Options;
use crate::options::memory_budget::STORE_BYTES_MIN;
use crate::sst::block::BlockRef;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{ArcSwap, Guard, Mutex};
use crate::warm::borrowed_budget::BorrowedBudget;

/// The target size of the base level, in memtables; as many bytes in level 0 start a compaction, as
/// `picker::LEVEL0_TRIGGER` sorted runs do.
const BASE_MEMTABLES: u64 = 4;

/// Writers are slowed when merges would free one part in this many of the budget.
const MERGEABLE_SLOW: u64 = 8;

/// Caches of which more than this share is in use are full.
const CACHE_FULL: (u64, u64) = (7, 8);

/// The memory of a store.
#[derive(Debug)]
pub(crate) struct StoreMemory {
    total_bytes: AtomicU64,
    /// The maximum of the caches.
    cache_bytes_max: AtomicU64,
    /// The size at which a memtable is full, if it was configured.
    memtable_bytes: Option<u64>,
    shares: ArcSwap<Shares>,
    /// Held while the memory is divided again.
    balance: Mutex<()>,
    /// Of open tables, and of filter repairs.
    tables_bytes: AtomicUsize,
    keyspaces_bytes: AtomicUsize,
    /// Memtables were more than half full since the last review of a shared budget, or between the one
    /// before and that.
    has_filled_memtables: AtomicBool,
    filled_memtables_before: AtomicBool,
    /// The memory of the rest of the hot list.
    hot_list_bytes: AtomicUsize,
    /// The memory that the program uses itself.
    reserved_bytes: AtomicU64,
    caches: Arc<Caches<BlockRef>>,
    /// The memory that KV lends to blocks while there is a hot list.
    borrowed: Arc<BorrowedBudget>,
    /// The number of sorted runs in the fullest level 0, for the write stall.
    level0_runs: AtomicUsize,
    /// Bytes that compactions have to move, for the write stall.
    debt_bytes: AtomicU64,
    /// The memory of open tables that merges would free, for the write stall.
    mergeable_bytes: AtomicU64,
    /// The throughput of flushes, for the write stall: a moving average. 0: unknown.
    flush_bytes_per_s: AtomicU64,
}

/// The division of `total_bytes` while memtables are full: replayed logs may fill them.
pub(crate) fn initial(options: &Options, total_bytes: u64) -> Shares {
    budget::shares(total_bytes, options.memtable_bytes, total_bytes, 0)
}

impl StoreMemory {
    /// A budget of `total_bytes`, which are divided into `shares` so far.
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
            tables_bytes: AtomicUsize::new(0),
            keyspaces_bytes: AtomicUsize::new(0),
            has_filled_memtables: AtomicBool::new(false),
            filled_memtables_before: AtomicBool::new(false),
            hot_list_bytes: AtomicUsize::new(0),
            reserved_bytes: AtomicU64::new(0),
            borrowed: Arc::new(BorrowedBudget::new(&caches)),
            caches,
            level0_runs: AtomicUsize::new(0),
            debt_bytes: AtomicU64::new(0),
            mergeable_bytes: AtomicU64::new(0),
            flush_bytes_per_s: AtomicU64::new(0),
        }
    }

    // ---- The budget ----

    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Takes effect with the next division.
    #[cfg(any(test, feature = "research"))]
    pub(crate) fn set_cache_bytes_max(&self, bytes: u64) {
        self.cache_bytes_max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn caches(&self) -> &Arc<Caches<BlockRef>> {
        &self.caches
    }

    /// The memory that KV lends to blocks.
    pub(crate) fn borrowed(&self) -> &Arc<BorrowedBudget> {
        &self.borrowed
    }

    pub(crate) fn shares(&self) -> Guard<Arc<Shares>> {
        self.shares.load()
    }

    /// The size at which a memtable is full.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.shares().memtable_bytes
    }

    /// The most that a batch may have: the limit of all memtables.
    pub(crate) fn batch_bytes_max(&self) -> u64 {
        self.shares().memtables_bytes_max
    }

    /// Target size of the base level.
    pub(crate) fn base_bytes(&self) -> u64 {
        BASE_MEMTABLES * self.memtable_bytes()
    }

    /// The memory of keyspaces, open tables and filter repairs.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.tables_bytes() + self.keyspaces_bytes.load(Ordering::Relaxed)
    }

    /// The memory of open tables and filter repairs.
    pub(crate) fn tables_bytes(&self) -> usize {
        self.tables_bytes.load(Ordering::Relaxed)
    }

    /// Counts a newly opened table that takes `bytes`.
    pub(crate) fn add_table(&self, bytes: usize) {
        self.tables_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a new keyspace that takes `bytes`.
    pub(crate) fn add_keyspace(&self, bytes: usize) {
        self.keyspaces_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    // ---- Its division ----

    /// Counts the memory of keyspaces and open tables, and `repairs` bytes of filter repair, and divides the
    /// rest. Only while holding `structure`, so that the last caller has seen the last change.
    pub(crate) fn rebalance(&self, trees: &TreeSet, repairs: usize) {
        let (keyspaces, tables) = trees.metadata_charge();
        self.keyspaces_bytes.store(keyspaces, Ordering::Relaxed);
        self.tables_bytes.store(tables + repairs, Ordering::Relaxed);
        self.share_out(trees);
    }

    /// Called after memtables may have grown, and before they grow by `more` bytes: lets them push
    /// blocks out of the cache. Never waits for a change of the tables.
    pub(crate) fn follow_memtables(&self, trees: &TreeSet, more: u64) {
        let shares = self.shares();
        let taken = trees.memtables_bytes().saturating_add(more);
        if taken > shares.memtables_bytes_max / 2 {
            self.note_full_memtables();
        }
        let kept = budget::kept(shares.memtables_bytes_max, taken);
        if kept != shares.memtables_bytes_kept {
            self.share_out_with(trees, more);
        }
    }

    /// Writers could use more memory than memtables may take.
    pub(crate) fn note_full_memtables(&self) {
        if !self.has_filled_memtables.load(Ordering::Relaxed) {
            self.has_filled_memtables.store(true, Ordering::Relaxed);
        }
    }

    /// Called regularly: what writers wanted before the last call is forgotten.
    pub(crate) fn begin_review(&self) {
        let lately = self.has_filled_memtables.swap(false, Ordering::Relaxed);
        self.filled_memtables_before.store(lately, Ordering::Relaxed);
    }

    /// Takes `bytes` as the new total, and divides them.
    pub(crate) fn follow_total(&self, trees: &TreeSet, bytes: u64) {
        self.total_bytes.store(bytes.max(STORE_BYTES_MIN), Ordering::Relaxed);
        self.share_out(trees);
    }

    /// The bytes that the store would use if it had them: what it has in use, and a quarter more; all
    /// that it can get if its caches are full, or its memtables were more than half full lately.
    pub(crate) fn wanted_bytes(&self, trees: &TreeSet) -> u64 {
        let shares = self.shares();
        let cached = self.caches.charged_bytes() as u64;
        let writes = [&self.has_filled_memtables, &self.filled_memtables_before];
        if writes.iter().any(|it| it.load(Ordering::Relaxed)) {
            return u64::MAX;
        }
        if cached > shares.cache_bytes / CACHE_FULL.1 * CACHE_FULL.0 {
            return u64::MAX;
        }
        let used = cached + self.fixed_bytes() + trees.memtables_bytes();
        used.saturating_add(used / 4)
    }

    /// Called when the rest of a hot list takes `bytes`.
    pub(crate) fn follow_hot_list(&self, trees: &TreeSet, bytes: usize) {
        self.hot_list_bytes.store(bytes, Ordering::Relaxed);
        self.share_out(trees);
    }

    /// Called when the program uses `bytes` itself.
    pub(crate) fn follow_reserved(&self, trees: &TreeSet, bytes: u64) {
        self.reserved_bytes.store(bytes, Ordering::Relaxed);
        self.share_out(trees);
    }

    /// The memory that the program uses itself.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// The memory of keyspaces, open tables, the hot list and the program.
    fn fixed_bytes(&self) -> u64 {
        let list = self.hot_list_bytes.load(Ordering::Relaxed);
        ((self.metadata_bytes() + list) as u64).saturating_add(self.reserved_bytes())
    }

    /// Gives the cache the part of the budget that memtables, open tables, the hot list and the
    /// program leave.
    fn share_out(&self, trees: &TreeSet) {
        self.share_out_with(trees, 0);
    }

    /// The same, while memtables are about to grow by `more` bytes.
    fn share_out_with(&self, trees: &TreeSet, more: u64) {
        // Of two callers the later one has seen the changes of the earlier one.
        let _balance = self.balance.lock();
        let memtables = trees.memtables_bytes().saturating_add(more);
        let (total, fixed) = (self.total_bytes(), self.fixed_bytes());
        let mut shares = budget::shares(total, self.memtable_bytes, memtables, fixed);
        shares.cache_bytes = shares.cache_bytes.min(self.cache_bytes_max.load(Ordering::Relaxed));
        self.shares.store(Arc::new(shares));
        self.caches.set_budget(usize::try_from(shares.cache_bytes).unwrap_or(usize::MAX));
    }

    // ---- The backlog ----

    /// The fullest level 0 has `level0_runs` sorted runs, compactions have to move `debt_bytes`, and
    /// merges of small levels 0 would free `mergeable_bytes` of memory.
    pub(crate) fn note_backlog(&self, level0_runs: usize, debt_bytes: u64, mergeable_bytes: u64) {
        self.mergeable_bytes.store(mergeable_bytes, Ordering::Relaxed);
        self.level0_runs.store(level0_runs, Ordering::Relaxed);
        self.debt_bytes.store(debt_bytes, Ordering::Relaxed);
    }

    /// The number of sorted runs in the fullest level 0.
    pub(crate) fn level0_runs(&self) -> usize {
        self.level0_runs.load(Ordering::Relaxed)
    }

    /// Records that a flush took `took_ns` for `bytes` of memtables.
    ///
    /// Small flushes consist mostly of syncs and say little. Two keyspaces may be flushed at the
    /// same time: one of the two rates is lost then, which does no harm.
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

    /// The throughput of flushes; 0: unknown.
    pub(crate) fn flush_bytes_per_s(&self) -> u64 {
        self.flush_bytes_per_s.load(Ordering::Relaxed)
    }

    /// The backlog that may slow writers.
    pub(crate) fn backlog(&self, trees: &TreeSet) -> Backlog {
        let shares = self.shares();
        Backlog {
            memtables_bytes: trees.memtables_bytes(),
            memtables_bytes_max: shares.memtables_bytes_max,
            level0_runs: self.level0_runs(),
            debt_bytes: self.debt_bytes.load(Ordering::Relaxed),
            debt_bytes_slow: 64 * self.base_bytes(),
            mergeable_bytes: self.mergeable_bytes.load(Ordering::Relaxed),
            mergeable_bytes_slow: self.total_bytes() / MERGEABLE_SLOW,
            flush_bytes_per_s: self.flush_bytes_per_s(),
        }
    }
}
