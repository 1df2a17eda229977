//! Filters: a few bits per key that show the absence of a key without a read of the block that
//! would hold it.
//!
//! The last byte of a filter is its kind. Blocked Bloom filters ([`blocked_bloom`]) are the
//! default; cuckoo filters ([`cuckoo`]) can be repaired, so that an absent key which passed no
//! longer does. [`TableRepairs`] holds the repairs of a table's filters.
//!
//! Guarantees:
//! 1. A key that was added always passes.
//! 2. Unknown bytes (an unknown kind, an odd length) let every key pass: a filter may cost a read,
//!    never a wrong result.
//! 3. At 10 bits per key about 1 % of absent keys pass a Bloom filter, and 0.4 % a cuckoo filter.

mod blocked_bloom;
mod cuckoo;
mod repairs;

use std::num::NonZeroU8;

pub(crate) use self::blocked_bloom::LINE_BYTES;
pub(crate) use self::cuckoo::{
    BITS_MAX as CUCKOO_BITS_MAX, BITS_MIN as CUCKOO_BITS_MIN, BUCKETS_MAX, MIRROR_BUCKET_BYTES,
    Matches, Repair, tails,
};
pub(crate) use self::repairs::TableRepairs;
use crate::options::FilterKind;

/// The code of a filter kind in the filter's last byte and in table properties.
pub(crate) fn code_of(kind: FilterKind) -> u8 {
    match kind {
        FilterKind::Bloom => blocked_bloom::KIND,
        FilterKind::Cuckoo => cuckoo::KIND,
    }
}

/// The result of a filter check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterAnswer {
    /// The key is absent.
    Absent,
    /// The key may be present.
    Maybe,
    /// The key may be present, unless a repair excludes it.
    Matches(Matches),
}

/// Checks the key with this hash against `filter`, without repairs.
#[inline]
pub(crate) fn look(filter: &[u8], hash: u64) -> FilterAnswer {
    let looked = match filter.last() {
        Some(&cuckoo::KIND) => cuckoo::look(filter, hash),
        _ => {
            return if blocked_bloom::may_contain(filter, hash) {
                FilterAnswer::Maybe
            } else {
                FilterAnswer::Absent
            };
        }
    };
    match looked {
        None => FilterAnswer::Maybe,
        Some(None) => FilterAnswer::Absent,
        Some(Some(matches)) => FilterAnswer::Matches(matches),
    }
}

/// Whether the key with this hash may have been added to `filter`, regardless of repairs.
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    look(filter, hash) != FilterAnswer::Absent
}

/// Collects the hashes of keys and builds their filter.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    kind: FilterKind,
    bits_per_key: NonZeroU8,
    hashes: Vec<u64>,
}

/// A filter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BuiltFilter {
    pub(crate) filter: Vec<u8>,
    /// The data for repairs; empty if the filter cannot be repaired.
    pub(crate) mirror: Vec<u8>,
}

impl FilterBuilder {
    pub(crate) fn new(kind: FilterKind, bits_per_key: NonZeroU8) -> Self {
        Self { kind, bits_per_key, hashes: Vec::new() }
    }

    /// Adds a key by its hash. The versions of a key are added one after another and count once.
    pub(crate) fn add(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Approximate size in bytes of the filter of the keys so far.
    pub(crate) fn bytes(&self) -> usize {
        let bits = self.bits_per_key.get();
        match self.kind {
            FilterKind::Bloom => blocked_bloom::bytes(self.hashes.len(), bits),
            FilterKind::Cuckoo => cuckoo::bytes(self.hashes.len(), bits),
        }
    }

    /// The filter of the keys since the last call, and clears them. A Bloom filter if no other can
    /// be built, because too many keys have the same hash.
    pub(crate) fn finish(&mut self) -> BuiltFilter {
        let bits = self.bits_per_key.get();
        let cuckoo = match self.kind {
            FilterKind::Bloom => None,
            FilterKind::Cuckoo => cuckoo::build(&self.hashes, bits),
        };
        let built = match cuckoo {
            Some((filter, mirror)) => BuiltFilter { filter, mirror },
            None => {
                BuiltFilter { filter: blocked_bloom::build(&self.hashes, bits), mirror: Vec::new() }
            }
        };
        self.hashes.clear();
        built
    }
}

#[cfg(test)]
mod tests;
