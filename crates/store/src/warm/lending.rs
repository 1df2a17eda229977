//! What KV has and does not fill yet is lent to blocks while a store is brought back to what
//! it was (`warm_start.rs`).
//!
//! Guarantees:
//! 1. Only parts of KV and blocks change, never their sum. Boundaries that move in the
//!    meantime stay where they went.
//! 2. Whatever was lent is given back with [`Lent::give_back`], as far as blocks have it.
//!
//! Safe to use from all threads.

use std::sync::Arc;

use tidekv_cache::Caches;

use crate::sst::block::BlockRef;
use crate::sync::Mutex;

/// KV has so much of its part beyond what it has filled, and so many bytes at least: more
/// than it takes to look full.
const KV_AHEAD: f64 = 0.25;
const AHEAD_BYTES_MIN: f64 = (128 << 10) as f64;

/// What blocks have of KV's part. Lookups of keys in the order of their heat go through the
/// same filter and index blocks again and again, which need not be read as often then.
#[derive(Debug)]
pub(crate) struct Lent {
    caches: Arc<Caches<BlockRef>>,
    /// What blocks have of KV's, as a share of KV, KP and blocks together.
    share: Mutex<f64>,
}

impl Lent {
    pub(crate) fn new(caches: &Arc<Caches<BlockRef>>) -> Self {
        Self { caches: Arc::clone(caches), share: Mutex::new(0.0) }
    }

    /// Lends what KV does not fill soon, whatever its part is by now.
    pub(crate) fn follow(&self) {
        self.lend(|kv| {
            let whole = self.caches.split().iter().sum::<usize>().max(1) as f64;
            let filled = self.caches.point().charged_bytes().0 as f64 / whole;
            let ahead = (KV_AHEAD * kv).max(AHEAD_BYTES_MIN / whole);
            (kv - filled - ahead).max(0.0)
        });
    }

    /// KV has all of its part again.
    pub(crate) fn give_back(&self) {
        self.lend(|_| 0.0);
    }

    /// Lends as much as `choose` makes of KV's whole part.
    fn lend(&self, choose: impl FnOnce(f64) -> f64) {
        let mut share = self.share.lock();
        let [kv, kp, blocks] = self.caches.shares();
        // Boundaries have moved meanwhile.
        let back = share.min(blocks);
        let (lent, own) = (choose(kv + back), blocks - back);
        self.caches.set_shares([kv + back - lent, kp, own + lent]);
        // Where shares are fixed, nothing is lent.
        let [.., blocks] = self.caches.shares();
        *share = (blocks - own).max(0.0);
    }
}
