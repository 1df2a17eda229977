//! The one checksum of all formats: XXH3-64, usually truncated to 32 bits. The seed makes intact
//! bytes in the wrong place fail as well.

use tidekv_cache::Name;

/// The checksum of `bytes` in the context of `seed` (a table's or log's id).
pub(crate) fn checksum(seed: u64, bytes: &[u8]) -> u32 {
    let hash = long_checksum(seed, bytes);
    (hash ^ (hash >> 32)) as u32
}

/// The full 64 bits, where no other check detects changed bytes.
pub(crate) fn long_checksum(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// The hash that identifies an entry in the point cache.
pub(crate) fn name_hash(name: Name<'_>) -> u64 {
    name.hash(key_hash(name.key))
}

/// The hash of a user key for filters and caches.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}
