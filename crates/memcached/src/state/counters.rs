//! What the server of a cache counts. What the cache itself counts is in its own statistics.

use std::sync::atomic::{AtomicU64, Ordering};

/// A thing that is counted.
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
    /// Of the requests, those that went to an I/O thread.
    Offloaded,
    Panics,
}

/// As many as there are.
const COUNTS: usize = Count::Panics as usize + 1;

/// All counts, as they grow.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; COUNTS]);

impl Counters {
    pub(crate) fn add(&self, count: Count, number: usize) {
        self.0[count as usize].fetch_add(number as u64, Ordering::Relaxed);
    }

    /// All of them now.
    pub(crate) fn all(&self) -> Counts {
        Counts(self.0.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// All counts, at some moment.
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

    /// Takes away what there was before.
    pub(crate) fn subtract(&mut self, before: &Self) {
        for (now, before) in self.0.iter_mut().zip(before.0) {
            *now = now.saturating_sub(before);
        }
    }
}
