//! What lies under the block cache, if anything does: a [`Tier`] with more room, for stores
//! whose files are far away. Under which name a block is there, and whether what comes back is
//! that block.
//!
//! The name of a block:
//!
//! ```text
//! OFFSET  SIZE  MEANING                                        (little-endian)
//! 0       8     "TideBlk1"                                     (do not change)
//! 8       8     identity of the store
//! 16      8     number of the table
//! 24      8     fingerprint of what the table's data blocks hold
//! 32      8     fingerprint of its properties and the top level of its index
//! 40      8     where the block begins in the table
//! ```
//!
//! What stands under it:
//!
//! ```text
//! OFFSET  SIZE  MEANING                                        (little-endian)
//! 0       n     the block as it stands in the table, in its envelope
//! n       8     checksum of that, seeded with the checksum of the name
//! ```
//!
//! Guarantees:
//! 1. A block is handed out only if it is the one that was asked for, byte for byte as it was
//!    read from its table: whatever a tier returns, garbage or another block. Two checksums
//!    say so, the one above, and that of the envelope.
//! 2. Two tables have the same names for their blocks only if they hold the same. A number that
//!    comes again for another table (in a store that was made anew, in one that is brought back
//!    from a copy and goes on from there, after a crash, of a table that no manifest has named)
//!    finds nothing of the one before, for its contents are others.
//! 3. A table whose contents nobody knows, of before there were fingerprints, has no names: its
//!    blocks are not there.
//!
//! Relies on tables not to change. What is there of dead tables is never asked for again, and
//! is left for the tier to lose. All methods may be called from any thread.

use std::sync::Arc;

use bytes::Bytes;
use tidekv_cache::Tier;

use crate::format::checksum::long_checksum;
use crate::stats::Counter;

const MAGIC: [u8; 8] = *b"TideBlk1";
const NAME_BYTES: usize = 48;
const SUM_BYTES: usize = 8;

/// What a table is known by, beside its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    contents: u64,
    description: u64,
}

impl Fingerprints {
    /// Of a table whose data blocks hold `contents`; `None` if that is not known.
    pub(crate) fn new(contents: u64, properties: &[u8], top: &[u8]) -> Option<Self> {
        let description = long_checksum(long_checksum(contents, properties), top);
        (contents != 0).then_some(Self { contents, description })
    }
}

/// A block, as the tier knows it.
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

    /// The checksum of an envelope that stands under this name.
    fn sum(&self, envelope: &[u8]) -> u64 {
        long_checksum(long_checksum(0, &self.0), envelope)
    }
}

/// A block that is to go to the tier once it has proved whole.
#[derive(Debug)]
pub(crate) struct Offer {
    name: BlockName,
    value: Bytes,
}

/// What lies under the block cache of a store.
#[derive(Debug)]
pub(crate) struct BlockTier {
    tier: Arc<dyn Tier>,
    store: u64,
    hits: Counter,
    misses: Counter,
    wrong: Counter,
    puts: Counter,
}

impl BlockTier {
    /// The tier under the store of that identity.
    pub(crate) fn new(tier: Arc<dyn Tier>, store: u64) -> Self {
        let [hits, misses, wrong, puts] = [(); 4].map(|()| Counter::default());
        Self { tier, store, hits, misses, wrong, puts }
    }

    /// The name of the block at `offset` of a table.
    pub(crate) fn name(&self, table: u64, of: Fingerprints, offset: u64) -> BlockName {
        BlockName::new(self.store, table, of, offset)
    }

    /// What `open` makes of the envelope under `name`, if there is one. One that is not the
    /// block's, or that cannot be opened, is forgotten. May wait for a device.
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
    pub(crate) fn offer(&self, name: BlockName, envelope: &[u8]) -> Offer {
        let mut value = Vec::with_capacity(envelope.len() + SUM_BYTES);
        value.extend_from_slice(envelope);
        value.extend_from_slice(&name.sum(envelope).to_le_bytes());
        Offer { name, value: value.into() }
    }

    /// Puts an envelope there that has proved whole.
    pub(crate) fn put(&self, offer: Offer) {
        self.puts.add(1);
        self.tier.put(&offer.name.0, offer.value);
    }
}

/// Name and value of every counter, in a fixed order; all 0 without a tier.
pub(crate) fn counters(tier: Option<&BlockTier>) -> [(&'static str, u64); 4] {
    let count = |counter: fn(&BlockTier) -> &Counter| tier.map_or(0, |tier| counter(tier).get());
    [
        ("tier.hits", count(|tier| &tier.hits)),
        ("tier.misses", count(|tier| &tier.misses)),
        ("tier.wrong", count(|tier| &tier.wrong)),
        ("tier.puts", count(|tier| &tier.puts)),
    ]
}

#[cfg(test)]
mod tests;
