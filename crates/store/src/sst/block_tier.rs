//! The optional secondary cache under the block cache: a [`SecondaryCache`] with more room, for stores on
//! remote files. This module names the blocks there and verifies that a returned block is the
//! requested one.
//!
//! The name of a block:
//!
//! ```text
//! OFFSET  SIZE  MEANING                                        (little-endian)
//! 0       8     "TideBlk1"                                     (do not change)
//! 8       8     identity of the store
//! 16      8     number of the table
//! 24      8     fingerprint of the contents of the table's data blocks
//! 32      8     fingerprint of its properties and the top level of its index
//! 40      8     offset of the block in the table
//! ```
//!
//! The value under that name:
//!
//! ```text
//! OFFSET  SIZE  MEANING                                        (little-endian)
//! 0       n     the block as in the table, in its envelope
//! n       8     checksum of that, seeded with the checksum of the name
//! ```
//!
//! Guarantees:
//! 1. A block is returned only if it is the requested one, byte for byte as it was read from its
//!    table, even if a tier returns garbage or another block. Two checksums verify this: the one
//!    above and that of the envelope.
//! 2. Two tables have the same names for their blocks only if they have the same contents. When
//!    another table gets the same number (in a store that was created anew, in one that was
//!    restored from a copy and continues from there, or after a crash, for a table that no manifest
//!    named), it finds no blocks of the earlier table, because its contents differ.
//! 3. A table without a contents fingerprint, from before fingerprints existed, has no names: its
//!    blocks are never in the tier.
//!
//! Relies on immutable tables. Blocks of deleted tables are never requested again, and the tier
//! evicts them. All methods may be called from any thread.

use std::sync::Arc;

use bytes::Bytes;
use tidekv_cache::SecondaryCache;

use crate::format::checksum::long_checksum;
use crate::stats::Counter;

const MAGIC: [u8; 8] = *b"TideBlk1";
const NAME_BYTES: usize = 48;
const SUM_BYTES: usize = 8;

/// Identifies the contents of a table, in addition to its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    contents: u64,
    description: u64,
}

impl Fingerprints {
    /// The fingerprints of a table whose data blocks hold `contents`; `None` if that is unknown.
    pub(crate) fn new(contents: u64, properties: &[u8], top: &[u8]) -> Option<Self> {
        let description = long_checksum(long_checksum(contents, properties), top);
        (contents != 0).then_some(Self { contents, description })
    }
}

/// The key of a block in the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockName([u8; NAME_BYTES]);

impl BlockName {
    fn new(store: u64, table: u64, fingerprints: Fingerprints, offset: u64) -> Self {
        let Fingerprints { contents, description } = fingerprints;
        let mut name = [0; NAME_BYTES];
        name[..8].copy_from_slice(&MAGIC);
        let numbers = [store, table, contents, description, offset];
        for (bytes, number) in name[8..].chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        Self(name)
    }

    /// The checksum of an envelope under this name.
    fn sum(&self, envelope: &[u8]) -> u64 {
        long_checksum(long_checksum(0, &self.0), envelope)
    }
}

/// A block that goes to the tier once its checks have passed.
#[derive(Debug)]
pub(crate) struct PendingPut {
    name: BlockName,
    value: Bytes,
}

/// The secondary cache of a store, with its counters.
#[derive(Debug)]
pub(crate) struct BlockTier {
    tier: Arc<dyn SecondaryCache>,
    store: u64,
    hits: Counter,
    misses: Counter,
    wrong: Counter,
    puts: Counter,
}

impl BlockTier {
    /// The tier under the store with that identity.
    pub(crate) fn new(tier: Arc<dyn SecondaryCache>, store: u64) -> Self {
        let [hits, misses, wrong, puts] = [(); 4].map(|()| Counter::default());
        Self { tier, store, hits, misses, wrong, puts }
    }

    /// The name of the block at `offset` of a table.
    pub(crate) fn name(&self, table: u64, of: Fingerprints, offset: u64) -> BlockName {
        BlockName::new(self.store, table, of, offset)
    }

    /// The result of `open` on the envelope under `name`, if the tier has one. An envelope that is
    /// not the block's, or that cannot be opened, is removed. May wait for a device.
    pub(crate) fn get<R>(
        &self,
        name: &BlockName,
        open: impl FnOnce(&[u8]) -> Option<R>,
    ) -> Option<R> {
        let Some(value) = self.tier.get(&name.0) else {
            self.misses.add(1);
            return None;
        };
        let opened = value
            .split_last_chunk::<SUM_BYTES>()
            .filter(|(envelope, sum)| name.sum(envelope).to_le_bytes() == **sum)
            .and_then(|(envelope, _)| open(envelope));
        match opened {
            Some(_) => self.hits.add(1),
            None => {
                self.wrong.add(1);
                self.tier.remove(&name.0);
            }
        }
        opened
    }

    /// Copies an envelope that was read, for [`BlockTier::put`].
    pub(crate) fn prepare_put(&self, name: BlockName, envelope: &[u8]) -> PendingPut {
        let mut value = Vec::with_capacity(envelope.len() + SUM_BYTES);
        value.extend_from_slice(envelope);
        value.extend_from_slice(&name.sum(envelope).to_le_bytes());
        PendingPut { name, value: value.into() }
    }

    /// Stores an envelope whose checks have passed.
    pub(crate) fn put(&self, pending: PendingPut) {
        self.puts.add(1);
        self.tier.put(&pending.name.0, pending.value);
    }
}

/// Name and value of every counter, in a fixed order; all 0 without a tier.
pub(crate) fn counters(tier: Option<&BlockTier>) -> [(&'static str, u64); 4] {
    let count = |counter: fn(&BlockTier) -> &Counter| tier.map_or(0, |tier| counter(tier).get());
    [
        ("secondary_cache.hits", count(|tier| &tier.hits)),
        ("secondary_cache.misses", count(|tier| &tier.misses)),
        ("secondary_cache.mismatches", count(|tier| &tier.wrong)),
        ("secondary_cache.inserts", count(|tier| &tier.puts)),
    ]
}

#[cfg(test)]
mod tests;
