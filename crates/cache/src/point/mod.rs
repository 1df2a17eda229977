//! The point cache: key-value entries (KV) and key-pointer entries (KP) in shards.
//!
//! `kv` and `kp` hold the entries of one shard, `shard` decides admission and eviction for both, and
//! `cache` is all shards for all threads. `entries` is the trait that a shard implements.
//!
//! Modules are declared bottom-up.

pub(crate) mod kv;
pub(crate) mod kp;
pub(crate) mod shard;
pub(crate) mod entries;
pub(crate) mod cache;
