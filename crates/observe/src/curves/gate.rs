//! The gate that decides which accesses of a tenant are recorded.
//!
//! One atomic word: the threshold below which key hashes are in the sample, and whether the gate is
//! closed. The thread opens and closes it; a recorder that finds the queue full closes it as well,
//! and a concurrent change of the threshold does not open it again.

use std::sync::atomic::{AtomicU64, Ordering};

/// The threshold of a sample that has all keys.
pub(super) const ALL_KEYS: u64 = 1 << 32;
/// The threshold of a sample without keys.
pub(super) const NO_KEYS: u64 = 0;
/// The bit of a closed gate.
const CLOSED: u64 = 1 << 63;

/// A gate.
#[derive(Debug)]
pub(super) struct Gate(AtomicU64);

/// The accesses that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All accesses to keys with a smaller hash.
    All(u64),
    /// Of these only the accesses that measure the backend's latency.
    Times(u64),
}

impl Default for Gate {
    fn default() -> Self {
        Self(AtomicU64::new(ALL_KEYS))
    }
}

impl Gate {
    /// The accesses that are recorded now.
    #[inline]
    pub(super) fn wanted(&self) -> Wanted {
        let word = self.0.load(Ordering::Relaxed);
        if word & CLOSED == 0 { Wanted::All(word) } else { Wanted::Times(word & !CLOSED) }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.wanted(), Wanted::Times(_))
    }

    /// Closes the gate because the queue is full.
    pub(super) fn shut(&self) {
        self.0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    /// Opens the gate for all keys below `threshold`; returns whether it was closed.
    pub(super) fn open(&self, threshold: u64) -> bool {
        self.0.swap(threshold, Ordering::Relaxed) & CLOSED != 0
    }

    /// Closes the gate, except for times of keys below `threshold`.
    pub(super) fn close(&self, threshold: u64) {
        self.0.store(threshold | CLOSED, Ordering::Relaxed);
    }

    /// Changes the threshold of an open gate.
    pub(super) fn set_threshold(&self, threshold: u64) {
        let before = self.0.load(Ordering::Relaxed);
        if before & CLOSED == 0 && before != threshold {
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            // On failure the gate was closed concurrently.
            _ = self.0.compare_exchange(before, threshold, set, fetch);
        }
    }
}
