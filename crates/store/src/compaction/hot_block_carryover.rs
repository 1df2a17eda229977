//! Measures the hotness of a compaction's inputs, so that hot outputs stay in memory.
//!
//! After a compaction the blocks of its inputs are never read again; their entries are in other
//! blocks, and the next access would read from storage data that was in memory a moment ago. Hot
//! blocks therefore go into the cache as they are written, without a read:
//!
//! 1. If a cached block had t recent accesses, each of its n entries has a heat of t/n; the same
//!    holds for its partition's index block and filter block. A block that is not in the cache has
//!    no heat.
//! 2. The heat of a new block is the sum over its entries. A block that is likely to be accessed
//!    again goes into the cache as if it had been accessed that often: the cache decides on its
//!    admission as for any other block.
//!
//! The blocks of the inputs are evicted when the last holder of their tables is gone.
//!
//! **What we changed.** AC-Key (section 4.1.3) replaces each cached block by the output block with
//! the largest overlap of keys. Overlap is not heat: if the entries of a block of a small level go
//! to ten blocks of a large one, none is as hot as it was. LSbM (Teng et al., ICDCS 2017) found
//! repair by overlap worse than none. The policy `ac-key` follows the paper: the block that
//! receives the middle entry of a cached one replaces it. (If one block overlaps by more than half,
//! that is the largest overlap; if many overlap equally, it is one of them.)
//!
//! Used by one thread at a time.

use std::sync::Arc;

use tidekv_cache::{BlockCache, BlockId};

use crate::format::entry_location::EntryLocation;
use crate::sst::block::BlockRef;
use crate::sst::table::{EntryHeat, HEAT_MIN};
use crate::version::levels::TableHandle;

/// The rule that selects replacement blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Hot blocks.
    HotBlockCarryover,
    /// For each cached block, the one with the largest overlap.
    Overlap,
}

/// The heat of a block that replaces another, whatever its other entries.
const REPLACEMENT_HEAT: f32 = 2.0;
const _: () = assert!(REPLACEMENT_HEAT >= HEAT_MIN);

/// A partition of a table.
#[derive(Debug)]
struct Partition {
    /// The offset after its data blocks.
    end: u64,
    /// Access count of its index block and its filter block.
    index: u8,
    filter: u8,
}

/// An input of a compaction.
#[derive(Debug)]
struct Input {
    table: u64,
    partitions: Vec<Partition>,
    /// Entries of a partition, on average.
    entries: f32,
    /// By heat: the data block of the last entry, and the heat of each of its entries.
    block: Option<u64>,
    heat: EntryHeat,
    /// By overlap: the partition of the last entry, and the number of its entries so far.
    seen: (usize, u32),
}

/// The heat of the entries of tables.
#[derive(Debug)]
pub(crate) struct HotBlockCarryover<'a> {
    cache: &'a BlockCache<BlockRef>,
    /// The warm inputs, by table number, ascending; not empty.
    inputs: Vec<Input>,
    /// The input of the last entry: successive entries often come from the same one.
    last: usize,
    rule: Rule,
}

impl<'a> HotBlockCarryover<'a> {
    /// For the entries of `tables`; `None` if all are cold.
    pub(crate) fn new<'t>(
        cache: &'a BlockCache<BlockRef>,
        tables: impl Iterator<Item = &'t Arc<TableHandle>>,
        rule: Rule,
    ) -> Option<Self> {
        // Every read uses an index block, which stays in the cache longer.
        let is_warm = |input: &Input| input.partitions.iter().any(|p| p.index > 0);
        let inputs = tables.map(|table| Input::new(cache, table)).filter(is_warm);
        let mut inputs: Vec<Input> = inputs.collect();
        inputs.sort_unstable_by_key(|input| input.table);
        (!inputs.is_empty()).then_some(Self { cache, inputs, last: 0, rule })
    }

    /// The heat of the entry at that location; zero if its whole table is cold.
    #[inline]
    pub(crate) fn of(&mut self, place: EntryLocation) -> Option<EntryHeat> {
        if self.inputs[self.last].table != place.table {
            self.last = self.inputs.binary_search_by_key(&place.table, |i| i.table).ok()?;
        }
        let input = &mut self.inputs[self.last];
        Some(match self.rule {
            Rule::HotBlockCarryover => input.heat_of(place, self.cache),
            Rule::Overlap => input.middle_entry_heat(place, self.cache),
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

    /// Only the middle entry of a cached block is hot.
    fn middle_entry_heat(
        &mut self,
        place: EntryLocation,
        cache: &BlockCache<BlockRef>,
    ) -> EntryHeat {
        let EntryLocation { table, offset, position, entries } = place;
        let at = self.partitions.partition_point(|partition| partition.end <= offset);
        let seen = if self.seen.0 == at { self.seen.1 + 1 } else { 1 };
        self.seen = (at, seen);
        let heir = |times: u8| if times > 0 { REPLACEMENT_HEAT } else { 0.0 };
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
    fn heat_of(&mut self, place: EntryLocation, cache: &BlockCache<BlockRef>) -> EntryHeat {
        if self.block != Some(place.offset) {
            self.block = Some(place.offset);
            self.heat = self.heat_in(place, cache);
        }
        self.heat
    }

    /// The heat of each entry of a data block.
    fn heat_in(&self, place: EntryLocation, cache: &BlockCache<BlockRef>) -> EntryHeat {
        let EntryLocation { table, offset, entries, .. } = place;
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
