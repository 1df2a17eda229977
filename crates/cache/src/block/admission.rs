//! The admission of blocks to a shard of the block cache, and its memory of blocks that are not
//! cached: none; access frequencies (TinyLFU); or evicted blocks, as in AC-Key.
//!
//! Guarantees: [`Admission::bytes`] is the memory of sketch and ghost. It is 0 where every block is
//! admitted and nothing is recorded.
//!
//! Blocks are identified by fingerprints, which are half of their hashes. Relies on being notified
//! of every miss, and of every evicted or rejected block.
//!
//! Single-threaded; the boundaries that hits of AC-Key's ghosts move are shared by all shards, and
//! thread-safe.

use std::fmt;

use crate::ablation::{Ablation, Ablations};
use crate::block::id::TYPICAL_BLOCK_BYTES;
use crate::partition::ghost::{Ghost, GhostHits, spread};
use crate::partition::sketch::{Sketch, Wide};

/// The admission policy of a shard with its memory of blocks that are not cached.
#[derive(Debug)]
pub(crate) enum Admission {
    /// Admits every block; records nothing.
    All,
    /// Admits blocks by access frequency.
    ByUse { sketch: Sketch<Wide>, ghost: Ghost },
    /// Admits every block; a baseline records evicted ones.
    Baseline(Box<dyn BlockGhost>),
}

/// A baseline that is notified of block misses, evictions and rejections, so that it can move its
/// own boundaries.
pub(crate) trait BlockGhost: fmt::Debug + Send {
    /// A lookup of a block missed.
    fn note_miss(&mut self, fingerprint: u32);

    /// A block of `charge` bytes was evicted or rejected; `charged` is the total of the cached
    /// ones.
    fn note_absent(&mut self, fingerprint: u32, charge: usize, charged: usize);

    /// A new block needed `bytes` that were not free.
    fn note_wanted(&mut self, bytes: usize);

    /// The sum of [`BlockGhost::note_wanted`] since the last call.
    fn take_wanted_bytes(&mut self) -> usize;

    /// The bytes of its ghost.
    fn bytes(&self) -> usize;
}

impl Admission {
    /// Admission by a sketch of at most `sketch_bytes`, with a ghost of every `sampling`-th of the
    /// blocks that `window_bytes` would hold.
    pub(crate) fn by_use(
        sketch_bytes: usize,
        window_bytes: usize,
        sampling: u32,
        ablations: Ablations,
    ) -> Self {
        let ghost = Ghost::new(window_bytes / TYPICAL_BLOCK_BYTES, sampling)
            .keeping_last(ablations.has(Ablation::GhostChoice));
        Self::ByUse { sketch: Sketch::new(sketch_bytes), ghost }
    }

    /// Access frequencies of blocks, if they are counted.
    pub(crate) fn sketch(&self) -> Option<&Sketch<Wide>> {
        match self {
            Self::ByUse { sketch, .. } => Some(sketch),
            Self::All | Self::Baseline(_) => None,
        }
    }

    /// Records a block miss.
    pub(crate) fn note_miss(&mut self, fingerprint: u32) {
        match self {
            Self::All => {}
            Self::ByUse { sketch, .. } => sketch.add(spread(fingerprint)),
            Self::Baseline(ghost) => ghost.note_miss(fingerprint),
        }
    }

    /// The ghost hit of a block that is about to be read, which removes it from the ghost; zero if
    /// there is none. `None`: there is no such ghost (AC-Key's is checked at the miss).
    pub(crate) fn take_ghost_hit(&mut self, fingerprint: u32) -> Option<GhostHits> {
        match self {
            Self::ByUse { sketch, ghost } => {
                Some(ghost.take(fingerprint, sketch).unwrap_or_default())
            }
            Self::All | Self::Baseline(_) => None,
        }
    }

    /// Records an evicted or rejected block; `charged`: the total of the cached ones.
    pub(crate) fn note_absent(&mut self, fingerprint: u32, charge: usize, charged: usize) {
        match self {
            Self::All => {}
            Self::ByUse { sketch, ghost } => ghost.note(fingerprint, sketch),
            Self::Baseline(ghost) => ghost.note_absent(fingerprint, charge, charged),
        }
    }

    /// Records that a new block needed `bytes` that were not free.
    pub(crate) fn note_wanted(&mut self, bytes: usize) {
        if let Self::Baseline(ghost) = self {
            ghost.note_wanted(bytes);
        }
    }

    /// The bytes that new blocks needed and did not find free since the last call.
    pub(crate) fn take_wanted_bytes(&mut self) -> usize {
        match self {
            Self::Baseline(ghost) => ghost.take_wanted_bytes(),
            Self::All | Self::ByUse { .. } => 0,
        }
    }

    /// The bytes of sketch and ghost.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::All => 0,
            Self::ByUse { sketch, ghost } => sketch.charged_bytes() + ghost.charged_bytes(),
            Self::Baseline(ghost) => ghost.bytes(),
        }
    }
}
