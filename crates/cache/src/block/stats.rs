//! Counters of a block cache by kind of block.

/// The kind of a block.
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
    /// Lookups that found the block.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Blocks that were admitted.
    pub inserts: u64,
    /// Evicted blocks.
    pub evictions: u64,
    /// The part of the inserts that prefilled blocks of compaction output.
    pub compaction_prefills: u64,
    /// Lookups that skipped a filter that was not cached and not worth its read.
    pub skips: u64,
}

/// Counters of a block cache since it was created.
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

    /// The totals over all kinds.
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
        self.compaction_prefills += other.compaction_prefills;
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
