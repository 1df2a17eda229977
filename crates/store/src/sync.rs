//! Locks, atomics and what else threads meet at: `parking_lot`'s, the standard
//! library's and `arc_swap`'s. In unit tests they are those of `tidekv-testkit`,
//! which behave the same, and which models can take apart: so the models run
//! this code and not a copy of it (`docs/adr/0010-concurrency-model-checking.md`).
//! Under Miri the unit tests use the product's as well.
//!
//! Counters of `stats.rs` and `scan_lengths.rs` stay outside: no answer depends on
//! them, and each would multiply the schedules.

#[cfg(all(test, not(miri)))]
pub(crate) use tidekv_testkit::models::{
    AccessTracker, ArcSwap, Condvar, Guard, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard,
    RwLockWriteGuard, atomic,
};

#[cfg(any(not(test), miri))]
pub(crate) use {
    arc_swap::{ArcSwap, Guard},
    parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard},
    std::sync::{OnceLock, atomic},
};

/// Stands beside plain memory that threads hand to each other through atomics.
/// In models it fails an access that they do not order; here it is nothing.
#[cfg(any(not(test), miri))]
#[derive(Debug)]
pub(crate) struct AccessTracker;

#[cfg(any(not(test), miri))]
impl AccessTracker {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self
    }

    /// The memory is read.
    #[inline(always)]
    pub(crate) fn read(&self) {}

    /// The memory is written.
    #[inline(always)]
    pub(crate) fn write(&self) {}
}
