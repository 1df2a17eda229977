//! The one checksum of every format: XXH3-64, seeded so that bytes which are
//! intact but in the wrong place fail as well, mostly cut to 32 bits.

use tidekv_cache::Name;

/// The checksum of `bytes` in the context of `seed` (a table's or log's id).
pub(crate) fn checksum(seed: u64, bytes: &[u8]) -> u32 {
    let hash = long_checksum(seed, bytes);
    (hash ^ (hash >> 32)) as u32
}

/// The whole of it, where nothing else says whether bytes are what they were.
pub(crate) fn long_checksum(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// The hash by which the point cache knows an entry.
pub(crate) fn name_hash(name: Name<'_>) -> u64 {
    name.hash(key_hash(name.key))
}

/// The hash by which filters and caches know a user key.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}
