//! The block cache.

use std::marker::PhantomData;

/// Which block: a table and the offset of the block in it. Both opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// The table's number.
    pub table: u64,
    /// Where the block begins in the table.
    pub offset: u64,
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Entries.
    Data,
    /// A part of the index.
    Index,
    /// A part of the filter.
    Filter,
}

/// What policies and statistics know about a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockTag {
    /// The keyspace that the table belongs to.
    pub keyspace: u32,
    /// What the block holds.
    pub kind: BlockKind,
}

/// Counters of one kind of block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindStats {
    /// Gets that found the block.
    pub hits: u64,
    /// Gets that did not.
    pub misses: u64,
    /// Blocks that were put in.
    pub inserts: u64,
    /// Blocks that were pushed out for want of room.
    pub evictions: u64,
}

/// Counters of a [`BlockCache`] since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCacheStats {
    /// Data blocks.
    pub data: KindStats,
    /// Index blocks.
    pub index: KindStats,
    /// Filter blocks.
    pub filter: KindStats,
}

/// A sharded LRU cache of blocks, bounded in bytes.
#[derive(Debug)]
pub struct BlockCache<V> {
    _v: PhantomData<V>,
}

impl<V: Clone> BlockCache<V> {
    /// A cache of `capacity_bytes` in about `shards` shards.
    pub fn new(_capacity_bytes: usize, _shards: usize) -> Self {
        todo!()
    }
    /// The block, if it is here; counts a hit or a miss.
    pub fn get(&self, _id: BlockId, _tag: BlockTag) -> Option<V> {
        todo!()
    }
    /// Whether the block is here; counts and moves nothing.
    pub fn contains(&self, _id: BlockId) -> bool {
        todo!()
    }
    /// Puts a block of `charge` bytes in.
    pub fn insert(&self, _id: BlockId, _tag: BlockTag, _value: V, _charge: usize) {
        todo!()
    }
    /// Removes all blocks of tables that are `dead`.
    pub fn evict_tables(&self, _dead: &dyn Fn(u64) -> bool) {
        todo!()
    }
    /// Changes the capacity.
    pub fn set_capacity(&self, _bytes: usize) {
        todo!()
    }
    /// The capacity in bytes.
    pub fn capacity(&self) -> usize {
        todo!()
    }
    /// The bytes charged now.
    pub fn charged_bytes(&self) -> usize {
        todo!()
    }
    /// How many blocks are here.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// Whether no block is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The counters.
    pub fn stats(&self) -> BlockCacheStats {
        todo!()
    }
}
