//! The mutex of the shards: `parking_lot`'s. Unit tests use that of `tidekv-testkit`, which behaves
//! the same and whose interleavings models can explore; under Miri it is `parking_lot`'s again.
//! Counters that models need not explore are the standard library's.

#[cfg(all(test, not(miri)))]
pub(crate) use tidekv_testkit::models::Mutex;

#[cfg(any(not(test), miri))]
pub(crate) use parking_lot::Mutex;

/// Counters and hints.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// Atomics that the answers of lookups depend on.
pub(crate) mod epoch {
    #[cfg(all(test, not(miri)))]
    pub(crate) use tidekv_testkit::models::atomic::AtomicU64;

    #[cfg(any(not(test), miri))]
    pub(crate) use std::sync::atomic::AtomicU64;
}
