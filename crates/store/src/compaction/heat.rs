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

use crate::format::places::Place;
use crate::sst::block::BlockRef;
use crate::sst::table::{EntryHeat, HEAT_MIN};
use crate::version::levels::TableHandle;

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
    /// By heat: the data block that the last entry stood in, and the heat of each of its
    /// entries.
    block: Option<u64>,
    heat: EntryHeat,
    /// By overlap: the partition that the last entry stood in, and how many of it have come.
    seen: (usize, u32),
}

/// How hot the entries of tables are.
#[derive(Debug)]
pub(crate) struct Heat<'a> {
    cache: &'a BlockCache<BlockRef>,
    /// Those that are warm, by the numbers of their tables, ascending; not empty.
    inputs: Vec<Input>,
    /// The one that the last entry came from: many come from one after another.
    last: usize,
    rule: Rule,
}

impl<'a> Heat<'a> {
    /// Of the entries of `tables`; nothing where all are cold.
    pub(crate) fn new<'t>(
        cache: &'a BlockCache<BlockRef>,
        tables: impl Iterator<Item = &'t Arc<TableHandle>>,
        rule: Rule,
    ) -> Option<Self> {
        // What was read at all was found by an index block, which stays longer.
        let is_warm = |input: &Input| input.partitions.iter().any(|p| p.index > 0);
        let inputs = tables.map(|table| Input::new(cache, table)).filter(is_warm);
        let mut inputs: Vec<Input> = inputs.collect();
        inputs.sort_unstable_by_key(|input| input.table);
        (!inputs.is_empty()).then_some(Self { cache, inputs, last: 0, rule })
    }

    /// Of the entry that stands there; nothing where all of its table is cold.
    #[inline]
    pub(crate) fn of(&mut self, place: Place) -> Option<EntryHeat> {
        if self.inputs[self.last].table != place.table {
            self.last = self.inputs.binary_search_by_key(&place.table, |i| i.table).ok()?;
        }
        let input = &mut self.inputs[self.last];
        Some(match self.rule {
            Rule::Heat => input.heat_of(place, self.cache),
            Rule::Overlap => input.in_the_middle(place, self.cache),
        })
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
        let (block, heat) = (None, EntryHeat::default());
        Self { table, partitions, entries: entries.max(1.0), block, heat, seen: (0, 0) }
    }

    /// Hot is the middle entry of what is in the cache, and no other.
    fn in_the_middle(&mut self, place: Place, cache: &BlockCache<BlockRef>) -> EntryHeat {
        let Place { table, offset, position, entries } = place;
        let at = self.partitions.partition_point(|partition| partition.end <= offset);
        let seen = if self.seen.0 == at { self.seen.1 + 1 } else { 1 };
        self.seen = (at, seen);
        let heir = |times: u8| if times > 0 { HEIR } else { 0.0 };
        let mut heat = EntryHeat::default();
        if position == entries / 2 {
            heat.data = heir(cache.heat(BlockId { table, offset }));
        }
        let is_middle_of_partition = seen == (self.entries / 2.0).max(1.0) as u32;
        if is_middle_of_partition && let Some(partition) = self.partitions.get(at) {
            heat.index = heir(partition.index);
            heat.filter = heir(partition.filter);
        }
        heat
    }

    #[inline]
    fn heat_of(&mut self, place: Place, cache: &BlockCache<BlockRef>) -> EntryHeat {
        if self.block != Some(place.offset) {
            self.block = Some(place.offset);
            self.heat = self.heat_in(place, cache);
        }
        self.heat
    }

    /// The heat of each entry of a data block.
    fn heat_in(&self, place: Place, cache: &BlockCache<BlockRef>) -> EntryHeat {
        let Place { table, offset, entries, .. } = place;
        let at = self.partitions.partition_point(|partition| partition.end <= offset);
        let partition = self.partitions.get(at);
        let of_partition = |times: u8| f32::from(times) / self.entries;
        EntryHeat {
            data: f32::from(cache.heat(BlockId { table, offset })) / entries.max(1) as f32,
            index: partition.map_or(0.0, |partition| of_partition(partition.index)),
            filter: partition.map_or(0.0, |partition| of_partition(partition.filter)),
        }
    }
}
