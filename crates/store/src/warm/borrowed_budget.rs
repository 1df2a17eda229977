//! During warm start (`warm_start.rs`), blocks borrow the part of KV's budget that KV does not use
//! yet.
//!
//! Guarantees:
//! 1. Only the parts of KV and blocks change, never their sum. Concurrent boundary moves are kept.
//! 2. [`BorrowedBudget::give_back`] returns everything that was borrowed, as far as blocks still
//!    have it.
//!
//! Safe to use from all threads.

use std::sync::Arc;

use tidekv_cache::Caches;

use crate::sst::block::BlockRef;
use crate::sync::Mutex;

/// KV keeps this share of its part beyond its current size, and at least a number of bytes: more
/// than it takes to look full.
const KV_AHEAD: f64 = 0.25;
const AHEAD_BYTES_MIN: f64 = (128 << 10) as f64;

/// The part of KV's budget that blocks use. Lookups of keys in the order of their hotness need the
/// same filter and index blocks again and again, which are then read less often.
#[derive(Debug)]
pub(crate) struct BorrowedBudget {
    caches: Arc<Caches<BlockRef>>,
    /// The borrowed part, as a share of KV, KP and blocks together.
    share: Mutex<f64>,
}

impl BorrowedBudget {
    pub(crate) fn new(caches: &Arc<Caches<BlockRef>>) -> Self {
        Self { caches: Arc::clone(caches), share: Mutex::new(0.0) }
    }

    /// Lends the part that KV will not fill soon, whatever its current size.
    pub(crate) fn follow(&self) {
        self.lend(|kv| {
            let whole = self.caches.split().iter().sum::<usize>().max(1) as f64;
            let filled = self.caches.point().charged_bytes().0 as f64 / whole;
            let ahead = (KV_AHEAD * kv).max(AHEAD_BYTES_MIN / whole);
            (kv - filled - ahead).max(0.0)
        });
    }

    /// Returns the borrowed part to KV.
    pub(crate) fn give_back(&self) {
        self.lend(|_| 0.0);
    }

    /// Lends the part that `choose` computes from KV's whole part.
    fn lend(&self, choose: impl FnOnce(f64) -> f64) {
        let mut share = self.share.lock();
        let [kv, kp, blocks] = self.caches.shares();
        // Boundaries may have moved meanwhile.
        let back = share.min(blocks);
        let (lent, own) = (choose(kv + back), blocks - back);
        self.caches.set_shares([kv + back - lent, kp, own + lent]);
        // With fixed shares nothing is lent.
        let [.., blocks] = self.caches.shares();
        *share = (blocks - own).max(0.0);
    }
}
