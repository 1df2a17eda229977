//! What may lie under a cache: more room, farther away ([`Tier`]).
//!
//! Here is the promise alone, so that who asks and who answers need not know each other: a
//! store asks on behalf of its block cache, and a cache of objects with flash answers
//! (`crates/tiered`).

use std::fmt;

use bytes::Bytes;

/// A place for bytes under keys that may lose them at any time.
///
/// Whoever implements it guarantees:
/// 1. What is found under a key is what was put there last, or nothing. That holds for many
///    threads at once, and for what an earlier life of the tier has put there, too.
/// 2. There are no errors: what cannot be had is not there, and what cannot be kept is
///    dropped.
///
/// Whoever asks holds no lock meanwhile, for a tier may wait for a device, and keeps nothing
/// there that cannot be had elsewhere. Where a wrong answer would be worse than none it does
/// not rely on the first guarantee, and keeps a checksum with the bytes that knows their key.
pub trait Tier: fmt::Debug + Send + Sync {
    /// What stands under `key`, if it is there. May wait for a device.
    fn get(&self, key: &[u8]) -> Option<Bytes>;

    /// Puts `value` under `key`, in place of what stands there. It may be dropped, at once or
    /// later; what stood there before is gone in any case. Does not wait until a device has it.
    /// The bytes must not share their memory with something larger: what they are charged is their length.
    fn put(&self, key: &[u8], value: Bytes);

    /// Forgets what stands under `key`, if anything does.
    fn remove(&self, key: &[u8]);
}
