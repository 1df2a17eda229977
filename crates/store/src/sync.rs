//! Locks, atomics and other synchronisation primitives: those of `parking_lot`, the standard
//! library and `arc_swap`. Unit tests use those of `tidekv-testkit`, which behave the same and
//! which models can explore: the models run this code and not a copy of it
//! (`docs/adr/0010-concurrency-model-checking.md`). Under Miri the unit tests use the product's
//! primitives as well.
//!
//! Counters of `stats.rs` and `scan_lengths.rs` stay outside: no result depends on them, and each
//! would multiply the schedules.

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

/// Accompanies plain memory that threads pass to each other through atomics. In models it rejects
/// an access that the atomics do not order; here it does nothing.
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
