//! AC-Key's ghost of evicted blocks in one shard of the block cache. All blocks have about the same
//! size and save one read each, so its E-LRU is LRU.
//!
//! Single-threaded; the boundaries that its hits move are shared by all shards.

use std::sync::Arc;

use crate::ac_key::earc::Boundaries;
use crate::block::admission::BlockGhost;
use crate::eviction::ghost_list::{GhostList, Record};

/// AC-Key's ghost of blocks.
#[derive(Debug)]
pub(crate) struct AcKeyBlockGhost {
    ghost: GhostList,
    boundaries: Arc<Boundaries>,
    /// Number of shards, each of which has an equal part of the total.
    shards: usize,
    /// Bytes that new blocks needed and did not find free since the last call.
    wanted_bytes: usize,
}

impl AcKeyBlockGhost {
    /// A hit of a block saves one I/O.
    const HALVES: u8 = 2;

    /// The ghost of one of `shards` shards, of at most `ghost_bytes`.
    pub(crate) fn new(ghost_bytes: usize, boundaries: &Arc<Boundaries>, shards: usize) -> Self {
        let mut ghost = GhostList::default();
        ghost.set_bytes_max(ghost_bytes);
        Self { ghost, boundaries: Arc::clone(boundaries), shards, wanted_bytes: 0 }
    }
}

impl BlockGhost for AcKeyBlockGhost {
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
