//! AC-Key's ghost of evicted blocks in one shard of the block cache. All blocks have about
//! the same size and save one read each, so its E-LRU is LRU.
//!
//! For one thread at a time; the boundaries that its hits move are shared by all shards.

use std::sync::Arc;

use crate::ac_key::earc::Boundaries;
use crate::block::admission::DepartedBlocks;
use crate::eviction::ghost_list::{GhostList, Record};

/// What AC-Key knows of blocks that are not there.
#[derive(Debug)]
pub(crate) struct Departed {
    ghost: GhostList,
    boundaries: Arc<Boundaries>,
    /// The shard's part of what all components share is this one.
    shards: usize,
    /// Bytes that new blocks wanted and that were not there, since this was asked last.
    wanted_bytes: usize,
}

impl Departed {
    /// A hit of a block saves one I/O.
    const HALVES: u8 = 2;

    /// In one of so many shards, with a ghost of at most `ghost_bytes`.
    pub(crate) fn new(ghost_bytes: usize, boundaries: &Arc<Boundaries>, shards: usize) -> Self {
        let mut ghost = GhostList::default();
        ghost.set_bytes_max(ghost_bytes);
        Self { ghost, boundaries: Arc::clone(boundaries), shards, wanted_bytes: 0 }
    }
}

impl DepartedBlocks for Departed {
    fn note_miss(&mut self, fingerprint: u32) {
        if let Some(record) = self.ghost.take(fingerprint) {
            self.boundaries.block_hit(record.efficiency());
        }
    }

    fn note_absent(&mut self, fingerprint: u32, charge: usize, charged: usize) {
        let whole = self.boundaries.total() / self.shards;
        let record = Record::new(fingerprint, charge, Self::HALVES);
        self.ghost.note(record, whole.saturating_sub(charged));
    }

    fn note_wanted(&mut self, bytes: usize) {
        self.wanted_bytes += bytes;
    }

    fn take_wanted_bytes(&mut self) -> usize {
        std::mem::take(&mut self.wanted_bytes)
    }

    fn bytes(&self) -> usize {
        self.ghost.charged_bytes()
    }
}
