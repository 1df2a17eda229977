//! The controller of `ac-key`: boundaries follow AC-Key's targets (section 4.3 of the paper).
//!
//! Its ghosts move the targets at once ([`crate::ac_key::earc`]); the boundaries are adjusted once
//! in the number of reads that would fill one part in [`READS_DIVISOR`] of the budget:
//!
//! 1. The boundary between KV and KP follows its target; they share their bytes, so this evicts
//!    nothing until the next insert.
//! 2. If blocks have less than their target, and some were evicted for others, they get as many
//!    bytes of the point cache. If they have more, by a whole block at least, and entries were
//!    evicted, the point cache gets bytes from them.
//! 3. Ghosts get the memory that they need, or none while hit ratios are stable
//!    ([`crate::ac_key::turnoff`]).
//!
//! Where targets never move (the paper's `offline`) it only holds them.
//!
//! Single-threaded.

use std::sync::Arc;

use crate::ac_key::departed::AcKeyBlockGhost;
use crate::ac_key::earc::Boundaries;
use crate::ac_key::turnoff::{Counts, Turnoff};
use crate::block::BlockCache;
use crate::block::id::TYPICAL_BLOCK_BYTES;
use crate::partition::controller::Split;
use crate::point::cache::PointCache;

/// Boundaries are adjusted after reads of this fraction of the budget.
const READS_DIVISOR: usize = 64;
/// Most reads between two adjustments.
const READS_PER_STEP_MAX: usize = 64;
/// Ghosts of blocks take this fraction of the budget: about twelve bytes per block.
const BLOCK_GHOST_DIVISOR: usize = 200;
/// Smallest ghost per shard in bytes; together at most this fraction of the budget.
const BLOCK_GHOST_BYTES_MIN: usize = 2 << 10;
const BLOCK_GHOST_DIVISOR_MIN: usize = 16;
/// Ghosts of keys get more memory when they need this fraction more than they have, and less when
/// they need this fraction less: each change visits all shards.
const MORE_DIVISOR: usize = 16;
const FEWER_DIVISOR: usize = 4;
/// Ghosts that exceed this fraction of a new budget are rebuilt.
pub(crate) const GHOSTS_DIVISOR_MIN: usize = 3;
/// Tables that level 0 can hold, until the store sets the number.
pub(crate) const LEVEL0_TABLES: u8 = 4;

/// The state of AC-Key's controller.
#[derive(Debug)]
pub(crate) struct AcKeyController {
    pub(crate) boundaries: Arc<Boundaries>,
    turnoff: Turnoff,
    has_ghosts: bool,
    /// Bytes for the ghosts of keys, and for those of blocks.
    point_ghost_bytes: usize,
    block_ghost_bytes: usize,
}

impl AcKeyController {
    /// A controller without ghosts.
    pub(crate) fn new(boundaries: Arc<Boundaries>, turnoff: Turnoff) -> Self {
        let (point_ghost_bytes, block_ghost_bytes) = (0, 0);
        Self { boundaries, turnoff, has_ghosts: false, point_ghost_bytes, block_ghost_bytes }
    }

    /// Bytes for all ghosts.
    pub(crate) fn ghost_bytes(&self) -> usize {
        self.point_ghost_bytes + self.block_ghost_bytes
    }

    /// The new ghost state, if ghosts must be turned on or off now.
    pub(crate) fn ghost_switch(&mut self, counts: Counts) -> Option<bool> {
        self.turnoff.check(counts).filter(|is_on| *is_on != self.has_ghosts)
    }

    /// The next boundaries after `split`.
    pub(crate) fn follow<V: Clone>(
        &self,
        split: Split,
        point: &PointCache,
        blocks: &BlockCache<V>,
    ) -> Split {
        let wanted = (point.take_wanted_bytes(), blocks.take_wanted_bytes());
        self.boundaries.targets().follow(split, wanted)
    }

    /// Clears the ghosts and sets their bytes ([`AcKeyController::ghost_bytes`]).
    pub(crate) fn switch_ghosts<V: Clone>(
        &mut self,
        is_on: bool,
        budget: usize,
        point: &PointCache,
        blocks: &BlockCache<V>,
    ) {
        self.has_ghosts = is_on;
        let block_bytes = budget / BLOCK_GHOST_DIVISOR + blocks.shards() * BLOCK_GHOST_BYTES_MIN;
        let block_bytes = block_bytes.min(budget / BLOCK_GHOST_DIVISOR_MIN);
        self.point_ghost_bytes = if is_on { point.ghost_bytes_wanted() } else { 0 };
        self.block_ghost_bytes = if is_on { block_bytes } else { 0 };
        point.set_ghost_bytes(0);
        self.record_evictions(0, blocks);
    }

    /// Grants the ghosts their bytes. Call it once there is room for them.
    pub(crate) fn grant<V: Clone>(&self, point: &PointCache, blocks: &BlockCache<V>) {
        point.set_ghost_bytes(self.point_ghost_bytes);
        self.record_evictions(self.block_ghost_bytes, blocks);
    }

    /// Records evicted blocks in ghosts of at most `ghost_bytes` together.
    fn record_evictions<V: Clone>(&self, ghost_bytes: usize, blocks: &BlockCache<V>) {
        let shards = blocks.shards();
        blocks.record_evictions(|| {
            Box::new(AcKeyBlockGhost::new(ghost_bytes / shards, &self.boundaries, shards))
        });
    }

    /// The bytes that ghosts of keys need, if the difference is worth a change.
    pub(crate) fn ghost_bytes_due(&self, point: &PointCache) -> Option<usize> {
        let (now, wanted) = (self.point_ghost_bytes, point.ghost_bytes_wanted());
        let is_far = wanted > now + now / MORE_DIVISOR || wanted < now - now / FEWER_DIVISOR;
        (self.has_ghosts && is_far).then_some(wanted)
    }

    /// Sets the bytes for ghosts of keys; an excess is released at once.
    pub(crate) fn set_point_ghost_bytes(&mut self, bytes: usize, point: &PointCache) {
        point.set_ghost_bytes(bytes.min(self.point_ghost_bytes));
        self.point_ghost_bytes = bytes;
    }
}

/// Reads between two adjustments of the boundaries.
pub(crate) fn reads_per_step(budget: usize) -> u32 {
    (budget / TYPICAL_BLOCK_BYTES / READS_DIVISOR).clamp(1, READS_PER_STEP_MAX) as u32
}
