//! The secondary block cache as block reads use it (`block_tier.rs`).

use crate::sst::block::BlockRef;
use crate::sst::block_address::BlockAddress;
use crate::sst::block_tier::{self, BlockName, BlockTier, PendingPut};

/// Whether the tier is searched for blocks, and stores them after they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TierUse {
    Use,
    Bypass,
}

/// The tier, if there is one.
#[derive(Debug, Default)]
pub(super) struct Secondary(pub(super) Option<BlockTier>);

impl Secondary {
    /// The tier and the block's name in it, if both exist.
    fn tier_and_name(&self, address: &BlockAddress) -> Option<(&BlockTier, BlockName)> {
        let (tier, file) = (self.0.as_ref()?, &address.file);
        Some((tier, tier.name(file.id, file.fingerprints?, address.handle.offset)))
    }

    /// The block, if the tier has it and is used.
    pub(super) fn get(&self, tier_use: TierUse, address: &BlockAddress) -> Option<BlockRef> {
        let used = |_: &_| tier_use == TierUse::Use;
        let (tier, name) = self.tier_and_name(address).filter(used)?;
        tier.get(&name, |disk| address.decode_from_tier(disk))
    }

    /// The envelope of a block that was read, to be stored in the tier once the block is
    /// verified.
    pub(super) fn prepare_put(
        &self,
        address: &BlockAddress,
        tier_use: TierUse,
        envelope: &[u8],
    ) -> Option<PendingPut> {
        let used = |_: &_| tier_use == TierUse::Use;
        let (tier, name) = self.tier_and_name(address).filter(used)?;
        Some(tier.prepare_put(name, envelope))
    }

    /// Stores a verified block.
    pub(super) fn put(&self, pending: Option<PendingPut>) {
        if let (Some(tier), Some(pending)) = (&self.0, pending) {
            tier.put(pending);
        }
    }

    /// Name and value of every counter, in a fixed order.
    pub(super) fn counters(&self) -> [(&'static str, u64); 4] {
        block_tier::counters(self.0.as_ref())
    }
}
