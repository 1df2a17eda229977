//! Which requests of a tenant are handed in.
//!
//! One word: a threshold below which hashes of keys are wanted, and whether the gate is closed. The
//! thread opens and closes it; whoever finds the queue full closes it as well, and is not overruled by a
//! threshold that changes meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

/// The threshold of a sample that has all keys.
pub(super) const ALL_KEYS: u64 = 1 << 32;
/// A threshold below which there is none.
pub(super) const NO_KEYS: u64 = 0;
/// The bit of a gate that is closed.
const CLOSED: u64 = 1 << 63;

/// A gate.
#[derive(Debug)]
pub(super) struct Gate(AtomicU64);

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All that is done to keys with a hash below.
    All(u64),
    /// Of these only what says how long answers take.
    Times(u64),
}

impl Default for Gate {
    fn default() -> Self {
        Self(AtomicU64::new(ALL_KEYS))
    }
}

impl Gate {
    /// What is wanted now.
    #[inline]
    pub(super) fn wanted(&self) -> Wanted {
        let word = self.0.load(Ordering::Relaxed);
        if word & CLOSED == 0 { Wanted::All(word) } else { Wanted::Times(word & !CLOSED) }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.wanted(), Wanted::Times(_))
    }

    /// That there is no room for more.
    pub(super) fn shut(&self) {
        self.0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    /// From now on all keys below `threshold` are wanted; whether the gate was closed.
    pub(super) fn open(&self, threshold: u64) -> bool {
        self.0.swap(threshold, Ordering::Relaxed) & CLOSED != 0
    }

    /// From now on only times of keys below `threshold` are wanted.
    pub(super) fn close(&self, threshold: u64) {
        self.0.store(threshold | CLOSED, Ordering::Relaxed);
    }

    /// Another threshold, if it is open.
    pub(super) fn set_threshold(&self, threshold: u64) {
        let before = self.0.load(Ordering::Relaxed);
        if before & CLOSED == 0 && before != threshold {
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            // Else it has been shut right now.
            _ = self.0.compare_exchange(before, threshold, set, fetch);
        }
    }
}
