//! How a shard of the block cache lets blocks in, and what it knows of those that are not
//! there: nothing; how often they were asked for (TinyLFU); or what has left, as AC-Key
//! notes it.
//!
//! Guarantees: [`Admission::bytes`] is the memory of sketch and ghost. Where every block
//! comes in and nothing is noted, there is none.
//!
//! Blocks are known by fingerprints, which are half of their hashes. Relies on being told
//! of every miss, and of every block that leaves or is refused.
//!
//! For one thread at a time; the boundaries that hits of AC-Key's ghosts move are shared by
//! all shards, and safe to use from all threads.

use std::fmt;

use crate::block::id::BLOCK_BYTES_USUAL;
use crate::ideas::{Idea, Ideas};
use crate::partition::ghost::{Ghost, Wanted, spread};
use crate::partition::sketch::{Sketch, Wide};

/// How a shard chooses among blocks, and what it knows of those that are not there.
#[derive(Debug)]
pub(crate) enum Admission {
    /// Every block comes in; nothing is known of others.
    All,
    /// Those that are asked for often enough come in.
    ByUse { sketch: Sketch<Wide>, ghost: Ghost },
    /// Every block comes in; what leaves is noted as AC-Key does.
    Noted(Box<dyn DepartedBlocks>),
}

/// What a baseline implements to learn which blocks miss, leave or are refused, so that it
/// can move its own boundaries.
pub(crate) trait DepartedBlocks: fmt::Debug + Send {
    /// A lookup of a block missed.
    fn note_miss(&mut self, fingerprint: u32);

    /// A block of `charge` bytes was evicted or refused; `charged` is what those in the
    /// shard take.
    fn note_absent(&mut self, fingerprint: u32, charge: usize, charged: usize);

    /// A new block needed `bytes` that were not free.
    fn note_wanted(&mut self, bytes: usize);

    /// The sum of [`DepartedBlocks::note_wanted`] since the last call.
    fn take_wanted_bytes(&mut self) -> usize;

    /// The bytes of its ghost.
    fn bytes(&self) -> usize;
}

impl Admission {
    /// By a sketch of at most `sketch_bytes`, with a ghost of every `sampling`-th of the
    /// blocks that `window_bytes` would hold.
    pub(crate) fn by_use(
        sketch_bytes: usize,
        window_bytes: usize,
        sampling: u32,
        without: Ideas,
    ) -> Self {
        let ghost = Ghost::new(window_bytes / BLOCK_BYTES_USUAL, sampling)
            .keeping_last(without.has(Idea::GhostChoice));
        Self::ByUse { sketch: Sketch::new(sketch_bytes), ghost }
    }

    /// How often blocks were asked for, where that is counted.
    pub(crate) fn sketch(&self) -> Option<&Sketch<Wide>> {
        match self {
            Self::ByUse { sketch, .. } => Some(sketch),
            Self::All | Self::Noted(_) => None,
        }
    }

    /// A block was asked for that is not there.
    pub(crate) fn note_miss(&mut self, fingerprint: u32) {
        match self {
            Self::All => {}
            Self::ByUse { sketch, .. } => sketch.add(spread(fingerprint)),
            Self::Noted(departed) => departed.note_miss(fingerprint),
        }
    }

    /// What the ghost says of a block that is about to be read, which it forgets with that:
    /// nothing if it does not know it. `None`: there is no such ghost (AC-Key's is asked at
    /// the miss).
    pub(crate) fn take_ghost_hit(&mut self, fingerprint: u32) -> Option<Wanted> {
        match self {
            Self::ByUse { sketch, ghost } => {
                Some(ghost.take(fingerprint, sketch).unwrap_or_default())
            }
            Self::All | Self::Noted(_) => None,
        }
    }

    /// A block has left, or was refused; `charged`: what those that are there take.
    pub(crate) fn note_absent(&mut self, fingerprint: u32, charge: usize, charged: usize) {
        match self {
            Self::All => {}
            Self::ByUse { sketch, ghost } => ghost.note(fingerprint, sketch),
            Self::Noted(departed) => departed.note_absent(fingerprint, charge, charged),
        }
    }

    /// A new block wanted so many bytes that were not free.
    pub(crate) fn note_wanted(&mut self, bytes: usize) {
        if let Self::Noted(departed) = self {
            departed.note_wanted(bytes);
        }
    }

    /// What new blocks wanted and did not find free since this was asked last, in bytes.
    pub(crate) fn take_wanted_bytes(&mut self) -> usize {
        match self {
            Self::Noted(departed) => departed.take_wanted_bytes(),
            Self::All | Self::ByUse { .. } => 0,
        }
    }

    /// The bytes of sketch and ghost.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::All => 0,
            Self::ByUse { sketch, ghost } => sketch.charged_bytes() + ghost.charged_bytes(),
            Self::Noted(departed) => departed.bytes(),
        }
    }
}
