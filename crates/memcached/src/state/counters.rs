//! The counters of a cache's server. The cache has statistics of its own.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Connections,
    RejectedConnections,
    Gets,
    GetHits,
    GetMisses,
    Sets,
    Flushes,
    Touches,
    TouchHits,
    TouchMisses,
    MetaDebugs,
    DeleteHits,
    DeleteMisses,
    IncrHits,
    IncrMisses,
    DecrHits,
    DecrMisses,
    CasHits,
    CasMisses,
    CasBadval,
    TooLarge,
    NoMemory,
    Authentications,
    AuthenticationErrors,
    IdleKicks,
    BytesRead,
    BytesWritten,
    Requests,
    /// Requests that went to an I/O thread.
    Offloaded,
    Panics,
}

/// Number of counters.
const COUNTS: usize = Count::Panics as usize + 1;

/// All counters.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; COUNTS]);

impl Counters {
    pub(crate) fn add(&self, count: Count, number: usize) {
        self.0[count as usize].fetch_add(number as u64, Ordering::Relaxed);
    }

    /// The values of all counters.
    pub(crate) fn all(&self) -> Counts {
        Counts(self.0.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// The values of all counters at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Counts([u64; COUNTS]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; COUNTS])
    }
}

impl Counts {
    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Subtracts earlier values.
    pub(crate) fn subtract(&mut self, before: &Self) {
        for (now, before) in self.0.iter_mut().zip(before.0) {
            *now = now.saturating_sub(before);
        }
    }
}
