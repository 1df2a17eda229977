//! The controller `hac`: boundaries follow AC-Key's targets (section 4.3 of the paper).
//!
//! Its ghosts move the targets at once ([`crate::ac_key::earc`]); the boundaries are looked at once
//! in so many reads as would fill one part in [`READS_DIVISOR`] of the budget:
//!
//! 1. The boundary between KV and KP follows its target; they share their bytes, so nothing
//!    leaves for that until something comes in.
//! 2. If blocks have less than their target, and some had to leave for others, they get as
//!    many bytes of the point cache. If they have more, by a whole block at least, and
//!    entries had to leave, the point cache gets bytes of theirs.
//! 3. Ghosts get the memory that they want, or none while hit ratios stand still
//!    ([`crate::ac_key::turnoff`]).
//!
//! Where targets never move (the paper's `offline`) it holds them, and does nothing else.
//!
//! For one thread at a time.

use std::sync::Arc;

use crate::ac_key::departed::Departed;
use crate::ac_key::earc::Boundaries;
use crate::ac_key::turnoff::{Counts, Turnoff};
use crate::block::BlockCache;
use crate::block::id::BLOCK_BYTES_USUAL;
use crate::partition::controller::Split;
use crate::point::cache::PointCache;

/// AC-Key's boundaries are looked at after reads of one part in so many of the budget.
const READS_DIVISOR: usize = 64;
/// And after so many reads at the latest.
const READS_PER_STEP_MAX: usize = 64;
/// Of the budget, the one part in so many that ghosts of blocks take: about twelve bytes
/// a block.
const BLOCK_GHOST_DIVISOR: usize = 200;
/// And at least, for each shard; but of the budget one part in so many at most.
const BLOCK_GHOST_BYTES_MIN: usize = 2 << 10;
const BLOCK_GHOST_DIVISOR_MIN: usize = 16;
/// Ghosts of keys are given more memory when they want one part in so many more of what
/// they have, and less when they want so much less: each change looks at all shards.
const MORE_DIVISOR: usize = 16;
const FEWER_DIVISOR: usize = 4;
/// Ghosts that take more than one part in so many of a new budget are made anew.
pub(crate) const GHOSTS_DIVISOR_MIN: usize = 3;
/// Tables that level 0 can hold, until the store says how many.
pub(crate) const LEVEL0_TABLES: u8 = 4;

/// What AC-Key decides by.
#[derive(Debug)]
pub(crate) struct HacController {
    pub(crate) boundaries: Arc<Boundaries>,
    turnoff: Turnoff,
    has_ghosts: bool,
    /// What the ghosts of keys may take, and those of blocks.
    point_ghost_bytes: usize,
    block_ghost_bytes: usize,
}

impl HacController {
    /// Without ghosts at first.
    pub(crate) fn new(boundaries: Arc<Boundaries>, turnoff: Turnoff) -> Self {
        let (point_ghost_bytes, block_ghost_bytes) = (0, 0);
        Self { boundaries, turnoff, has_ghosts: false, point_ghost_bytes, block_ghost_bytes }
    }

    /// What all ghosts may take.
    pub(crate) fn ghost_bytes(&self) -> usize {
        self.point_ghost_bytes + self.block_ghost_bytes
    }

    /// Whether ghosts are to be turned on or off now, if they are.
    pub(crate) fn looks_to_turn(&mut self, counts: Counts) -> Option<bool> {
        self.turnoff.look(counts).filter(|is_on| *is_on != self.has_ghosts)
    }

    /// Where the boundaries go from `split`.
    pub(crate) fn follow<V: Clone>(
        &self,
        split: Split,
        point: &PointCache,
        blocks: &BlockCache<V>,
    ) -> Split {
        let wanted = (point.take_wanted_bytes(), blocks.take_wanted_bytes());
        self.boundaries.targets().follow(split, wanted)
    }

    /// Has ghosts forget all, and says what they will take from now on
    /// ([`HacController::ghost_bytes`]).
    pub(crate) fn turn<V: Clone>(
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
        self.note_departed(0, blocks);
    }

    /// Gives ghosts the memory that was said. When there is room for it.
    pub(crate) fn grant<V: Clone>(&self, point: &PointCache, blocks: &BlockCache<V>) {
        point.set_ghost_bytes(self.point_ghost_bytes);
        self.note_departed(self.block_ghost_bytes, blocks);
    }

    /// Has blocks that leave be noted in ghosts of at most `ghost_bytes` together.
    fn note_departed<V: Clone>(&self, ghost_bytes: usize, blocks: &BlockCache<V>) {
        let shards = blocks.shards();
        blocks.note_departed(|| {
            Box::new(Departed::new(ghost_bytes / shards, &self.boundaries, shards))
        });
    }

    /// What ghosts of keys want to take, if it is worth a change: more, or fewer.
    pub(crate) fn wants(&self, point: &PointCache) -> Option<usize> {
        let (now, wanted) = (self.point_ghost_bytes, point.ghost_bytes_wanted());
        let is_far = wanted > now + now / MORE_DIVISOR || wanted < now - now / FEWER_DIVISOR;
        (self.has_ghosts && is_far).then_some(wanted)
    }

    /// What ghosts of keys will take from now on; what is too much they give back at once.
    pub(crate) fn set_point_ghost_bytes(&mut self, bytes: usize, point: &PointCache) {
        point.set_ghost_bytes(bytes.min(self.point_ghost_bytes));
        self.point_ghost_bytes = bytes;
    }
}

/// After how many reads the boundaries are looked at.
pub(crate) fn reads_per_step(budget: usize) -> u32 {
    (budget / BLOCK_BYTES_USUAL / READS_DIVISOR).clamp(1, READS_PER_STEP_MAX) as u32
}
