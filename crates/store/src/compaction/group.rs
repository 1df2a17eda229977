//! Small compactions that are one job: with a file, an edit of the manifest and syncs of its own, each
//! would cost more than its merge, and a store of many keyspaces would have a file for each.
//!
//! Pure: the engine runs them.

use std::sync::Arc;

use crate::compaction::picker::Compaction;
use crate::version::tree::Tree;

/// Compactions with fewer bytes of inputs than this write their output into one file with those of
/// other keyspaces, up to `GROUP_BYTES` of inputs and `GROUP_LEN_MAX` of them.
const SHARED_MERGE_BYTES: u64 = 1 << 20;
const GROUP_BYTES: u64 = 8 << 20;
const GROUP_LEN_MAX: usize = 1024;

/// Small compactions of several keyspaces, which run as one job: they write one file, make one edit
/// of the manifest, and succeed or fail together.
#[derive(Debug, Default)]
pub(crate) struct Group {
    compactions: Vec<(Arc<Tree>, Compaction)>,
    bytes: u64,
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.compactions.is_empty()
    }

    /// Whether it is large enough for a job.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= GROUP_BYTES || self.compactions.len() >= GROUP_LEN_MAX
    }

    pub(crate) fn add(&mut self, tree: &Arc<Tree>, compaction: Compaction) {
        self.bytes += compaction.input_bytes();
        self.compactions.push((Arc::clone(tree), compaction));
    }

    pub(crate) fn len(&self) -> usize {
        self.compactions.len()
    }

    /// The compactions with their trees. A move among several is a merge: tables that are moved stay
    /// as small as they are.
    pub(crate) fn compactions(self) -> impl Iterator<Item = (Arc<Tree>, Compaction)> {
        let is_alone = self.len() == 1;
        self.compactions.into_iter().map(move |(tree, compaction)| {
            let is_move = compaction.is_move && is_alone;
            (tree, Compaction { is_move, ..compaction })
        })
    }
}

/// Whether a compaction is worth no file of its own. Where a keyspace has levels between, its tables
/// are as large as they should be.
pub(crate) fn is_small(compaction: &Compaction) -> bool {
    let is_level_whole = compaction.level == 0 || compaction.level == compaction.output_level;
    is_level_whole && compaction.input_bytes() < SHARED_MERGE_BYTES
}
