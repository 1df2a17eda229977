//! [`SecondaryCache`]: a larger, slower tier below a cache.
//!
//! This module holds only the trait, so that the caller and the implementation need not know each
//! other: a store calls it on behalf of its block cache, and an object cache with flash implements
//! it (`crates/tiered`).

use std::fmt;

use bytes::Bytes;

/// A byte store by key that may lose entries at any time.
///
/// Guarantees of every implementation:
/// 1. A get returns the value put last under that key, or none. This holds for many threads at
///    once, and also for values put by a previous run of the process.
/// 2. There are no errors: an unreadable value is a miss, and a value that cannot be stored is
///    dropped.
///
/// Callers hold no lock during a call, because a tier may wait for a device, and store only values
/// that they can get elsewhere. Where a wrong value would be worse than a miss, the caller does not
/// rely on guarantee 1, and stores a checksum that covers the key with the bytes.
pub trait SecondaryCache: fmt::Debug + Send + Sync {
    /// The value under `key`, or none. May wait for a device.
    fn get(&self, key: &[u8]) -> Option<Bytes>;

    /// Puts `value` under `key`, replacing the old value. The new value may be dropped, at once or
    /// later; the old one is gone in any case. Does not wait for a device. `value` must not share
    /// memory with a larger buffer: it is charged by its length.
    fn put(&self, key: &[u8], value: Bytes);

    /// Removes the value under `key`, if any.
    fn remove(&self, key: &[u8]);
}
