//! Block identifiers: a table and an offset in it, both opaque; and the tag of a block.
//!
//! Guarantees:
//! 1. All bits of an identifier reach all bits of its hash: some select a shard, others a place in
//!    its table, and half of them are a fingerprint.
//! 2. Blocks of one extent share one extent hash.

use crate::block::stats::BlockKind;
use crate::eviction::lists::Key;

/// Typical bytes of a block.
pub(crate) const TYPICAL_BLOCK_BYTES: usize = 4096;

/// An extent is a MiB of a table: long compared with a scan.
const EXTENT_SHIFT: u32 = 20;

/// A block: a table and the block's offset in it. Both are opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// The table's number.
    pub table: u64,
    /// The block's offset in the table, in bytes.
    pub offset: u64,
}

impl Key for BlockId {
    /// One wide multiplication whose halves are folded, as in wyhash: all bits
    /// of both numbers reach all bits of the hash.
    fn hash(&self) -> u64 {
        let table = u128::from(self.table ^ 0xA076_1D64_78BD_642F);
        let wide = table * u128::from(self.offset ^ 0xE703_7ED1_A0B4_28DB);
        (wide >> 64) as u64 ^ wide as u64
    }
}

impl BlockId {
    /// A hash of the extent in which the block begins: the same for all of its blocks.
    pub(crate) fn extent_hash(self) -> u64 {
        Self { table: self.table, offset: self.offset >> EXTENT_SHIFT }.hash()
    }
}

/// The block's attributes for policies and statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockTag {
    /// The keyspace that the table belongs to.
    pub keyspace: u32,
    /// The kind of block.
    pub kind: BlockKind,
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn neighbouring_names_have_different_hashes() {
        let mut seen = HashMap::new();
        for table in 0..100 {
            for offset in (0..100).map(|block| block * 4096) {
                let id = BlockId { table, offset };
                assert_eq!(seen.insert(id.hash(), id), None);
            }
        }
    }

    #[test]
    fn blocks_of_an_extent_share_its_hash() {
        let hash = |table, offset| BlockId { table, offset }.extent_hash();
        assert_eq!(hash(3, 0), hash(3, (1 << EXTENT_SHIFT) - 1));
        assert_ne!(hash(3, 0), hash(3, 1 << EXTENT_SHIFT));
        assert_ne!(hash(3, 0), hash(4, 0));
    }
}
