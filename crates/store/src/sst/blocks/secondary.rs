//! The tier below the cache, as reads of blocks ask it (`block_tier.rs`).

use crate::sst::block::BlockRef;
use crate::sst::block_address::BlockAddress;
use crate::sst::block_tier::{self, BlockName, BlockTier, Offer};

/// Whether blocks are asked of the tier, and go there when they have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ByTier,
    PastTier,
}

/// The tier, if there is one.
#[derive(Debug, Default)]
pub(super) struct Secondary(pub(super) Option<BlockTier>);

impl Secondary {
    /// What the tier is and how it knows a block, if it does.
    fn tier_and_name(&self, address: &BlockAddress) -> Option<(&BlockTier, BlockName)> {
        let (tier, file) = (self.0.as_ref()?, &address.file);
        Some((tier, tier.name(file.id, file.fingerprints?, address.handle.offset)))
    }

    /// The block, if the tier has it and is asked.
    pub(super) fn get_from_tier(&self, way: Way, address: &BlockAddress) -> Option<BlockRef> {
        let (tier, name) = self.tier_and_name(address).filter(|_| way == Way::ByTier)?;
        tier.get(&name, |disk| address.decode_from_tier(disk))
    }

    /// What is to go to the tier of a block that was read, once it has proved whole.
    pub(super) fn offer(&self, address: &BlockAddress, way: Way, envelope: &[u8]) -> Option<Offer> {
        let (tier, name) = self.tier_and_name(address).filter(|_| way == Way::ByTier)?;
        Some(tier.offer(name, envelope))
    }

    pub(super) fn put(&self, offer: Option<Offer>) {
        if let (Some(tier), Some(offer)) = (&self.0, offer) {
            tier.put(offer);
        }
    }

    /// Name and value of every counter, in a fixed order.
    pub(super) fn counters(&self) -> [(&'static str, u64); 4] {
        block_tier::counters(self.0.as_ref())
    }
}
