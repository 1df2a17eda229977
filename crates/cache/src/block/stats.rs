//! What a block cache counts, by kind of block.

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

/// Counters of one kind of block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindStats {
    /// Gets that found the block.
    pub hits: u64,
    /// Gets that did not.
    pub misses: u64,
    /// Blocks that were put in and kept.
    pub inserts: u64,
    /// Blocks that were pushed out for want of room.
    pub evictions: u64,
    /// Of the inserts, those of blocks that took the place of others.
    pub heirs: u64,
    /// Looks for filters that were not here and not worth their read.
    pub skips: u64,
}

/// Counters of a block cache since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCacheStats {
    /// Data blocks.
    pub data: KindStats,
    /// Index blocks.
    pub index: KindStats,
    /// Filter blocks.
    pub filter: KindStats,
}

impl BlockCacheStats {
    /// The counters of one kind.
    pub fn kind(&self, kind: BlockKind) -> &KindStats {
        match kind {
            BlockKind::Data => &self.data,
            BlockKind::Index => &self.index,
            BlockKind::Filter => &self.filter,
        }
    }

    pub(crate) fn kind_mut(&mut self, kind: BlockKind) -> &mut KindStats {
        match kind {
            BlockKind::Data => &mut self.data,
            BlockKind::Index => &mut self.index,
            BlockKind::Filter => &mut self.filter,
        }
    }

    /// The sums over all kinds.
    pub fn total(&self) -> KindStats {
        let mut total = self.data;
        total += self.index;
        total += self.filter;
        total
    }
}

impl std::ops::AddAssign for KindStats {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.inserts += other.inserts;
        self.evictions += other.evictions;
        self.heirs += other.heirs;
        self.skips += other.skips;
    }
}

impl std::ops::AddAssign for BlockCacheStats {
    fn add_assign(&mut self, other: Self) {
        self.data += other.data;
        self.index += other.index;
        self.filter += other.filter;
    }
}
