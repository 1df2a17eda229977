//! How hot is what a compaction reads, so that what it writes can stay in memory.
//!
//! After a compaction nobody asks for the blocks of its inputs any more; what they held
//! stands in other blocks, and whoever wants it next would read from storage what was in
//! memory a moment ago. So hot blocks go into the cache as they are written, with no
//! read:
//!
//! 1. Of a block that is in the cache and was asked for t times lately, each of its n
//!    entries has a heat of t/n; so it has of its partition's index block and filter
//!    block. A block that is not in the cache has none.
//! 2. A new block has the heat of its entries together. One that is likely to be asked
//!    for again goes into the cache as if it had been asked for that often: whether there
//!    is a place for it, the cache decides as for any other.
//!
//! The blocks of the inputs leave the cache when nobody holds their tables any more.
//!
//! **What we changed.** AC-Key (section 4.1.3) has each cached block give way to the
//! output block with the largest overlap of keys. Overlap is not heat: of a block of a
//! small level whose entries go to ten blocks of a large one, none is as hot as it was.
//! LSbM (Teng et al., ICDCS 2017) found repair by overlap worse than none. Under the
//! policy `hac` it is as in the paper: the block into which the middle entry of a cached
//! one goes takes its place. (Where one overlaps by more than half, that is the largest
//! overlap; where many overlap equally, it is one of them.)
//!
//! For one thread at a time.

use std::sync::Arc;

use tidekv_cache::{BlockCache, BlockId};

use crate::blocks::BlockRef;
use crate::levels::TableHandle;
use crate::places::Place;
use crate::table::{EntryHeat, HEAT_MIN};

/// Which blocks take the places of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Hot ones.
    Heat,
    /// Of each that is in the cache, the one that has most of it.
    Overlap,
}

/// The heat of a block that is to take the place of another, whatever its other entries.
const HEIR: f32 = 2.0;
const _: () = assert!(HEIR >= HEAT_MIN);

/// A partition of a table.
#[derive(Debug)]
struct Partition {
    /// Its data blocks stand before here.
    end: u64,
    /// How often its index block and its filter block were asked for.
    index: u8,
    filter: u8,
}

/// An input of a compaction.
#[derive(Debug)]
struct Input {
    table: u64,
    partitions: Vec<Partition>,
    /// Of a partition, on average.
    entries: f32,
    /// The data block that the last entry stood in, and the heat of each of its entries.
    last: Option<(u64, EntryHeat)>,
    /// The partition that the last entry stood in, and how many of it have come.
    seen: (usize, u32),
}

/// How hot the entries of tables are.
#[derive(Debug)]
pub(crate) struct Heat<'a> {
    cache: &'a BlockCache<BlockRef>,
    /// By the numbers of their tables, ascending: they are looked up for every entry.
    inputs: Vec<Input>,
    rule: Rule,
}

impl<'a> Heat<'a> {
    /// Of the entries of `tables`; nothing where all are cold.
    pub(crate) fn new<'t>(
        cache: &'a BlockCache<BlockRef>,
        tables: impl Iterator<Item = &'t Arc<TableHandle>>,
        rule: Rule,
    ) -> Option<Self> {
        let mut inputs: Vec<Input> = tables.map(|table| Input::new(cache, table)).collect();
        inputs.sort_unstable_by_key(|input| input.table);
        // What was read at all was found by an index block, which stays longer.
        let is_warm = |input: &Input| input.partitions.iter().any(|p| p.index > 0);
        inputs.iter().any(is_warm).then_some(Self { cache, inputs, rule })
    }

    /// Of the entry that stands there.
    pub(crate) fn of(&mut self, place: Place) -> EntryHeat {
        let found = self.inputs.binary_search_by_key(&place.table, |input| input.table);
        let Ok(at) = found else { return EntryHeat::default() };
        match self.rule {
            Rule::Heat => self.inputs[at].heat_of(place, self.cache),
            Rule::Overlap => self.inputs[at].in_the_middle(place, self.cache),
        }
    }
}

impl Input {
    fn new(cache: &BlockCache<BlockRef>, handle: &TableHandle) -> Self {
        let table = handle.meta().id;
        let heat = |offset| cache.heat(BlockId { table, offset });
        let partitions: Vec<Partition> = handle
            .table()
            .metadata_blocks()
            .map(|(index, filter)| Partition {
                end: index.offset,
                index: heat(index.offset),
                filter: if filter.len > 0 { heat(filter.offset) } else { 0 },
            })
            .collect();
        let entries = handle.meta().entries as f32 / partitions.len().max(1) as f32;
        Self { table, partitions, entries: entries.max(1.0), last: None, seen: (0, 0) }
    }

    /// The heat of an entry that is the middle one of what is in the cache.
    fn in_the_middle(&mut self, place: Place, cache: &BlockCache<BlockRef>) -> EntryHeat {
        let Place { table, offset, position, entries } = place;
        let at = self.partitions.partition_point(|partition| partition.end <= offset);
        let seen = if self.seen.0 == at { self.seen.1 + 1 } else { 1 };
        self.seen = (at, seen);
        let heir = |is_middle: bool, times: u8| if is_middle && times > 0 { HEIR } else { 0.0 };
        let is_middle = position == entries / 2;
        let is_middle_of_partition = seen == (self.entries / 2.0).max(1.0) as u32;
        let partition = self.partitions.get(at);
        EntryHeat {
            data: heir(
                is_middle,
                if is_middle { cache.heat(BlockId { table, offset }) } else { 0 },
            ),
            index: partition.map_or(0.0, |p| heir(is_middle_of_partition, p.index)),
            filter: partition.map_or(0.0, |p| heir(is_middle_of_partition, p.filter)),
        }
    }

    fn heat_of(&mut self, place: Place, cache: &BlockCache<BlockRef>) -> EntryHeat {
        let Place { table, offset, entries, .. } = place;
        if let Some((last, heat)) = self.last
            && last == offset
        {
            return heat;
        }
        let at = self.partitions.partition_point(|partition| partition.end <= offset);
        let partition = self.partitions.get(at);
        let of_partition = |times: u8| f32::from(times) / self.entries;
        let heat = EntryHeat {
            data: f32::from(cache.heat(BlockId { table, offset })) / entries.max(1) as f32,
            index: partition.map_or(0.0, |partition| of_partition(partition.index)),
            filter: partition.map_or(0.0, |partition| of_partition(partition.filter)),
        };
        self.last = Some((offset, heat));
        heat
    }
}
