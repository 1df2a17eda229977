//! The lock of the shards: `parking_lot`'s. In unit tests it is that of
//! `tidekv-testkit`, which behaves the same, and which models can take apart; under
//! Miri it is the product's. Counters that models need not take apart are the standard's.

#[cfg(all(test, not(miri)))]
pub(crate) use tidekv_testkit::models::Mutex;

#[cfg(any(not(test), miri))]
pub(crate) use parking_lot::Mutex;

/// Counters and hints.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// What answers depend on.
pub(crate) mod epoch {
    #[cfg(all(test, not(miri)))]
    pub(crate) use tidekv_testkit::models::atomic::AtomicU64;

    #[cfg(any(not(test), miri))]
    pub(crate) use std::sync::atomic::AtomicU64;
}
