//! Repairs of filters: [`Table::repair_filter`].

use smallvec::SmallVec;
use tidekv_cache::BlockKind;

use super::reader::Table;
use crate::error::{Error, Result};
use crate::sst::block::BlockRef;
use crate::sst::blocks::Blocks;
use crate::sst::filter::{self, FilterAnswer, Repair};

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairOutcome {
    /// The key does not pass, or the filter cannot be repaired.
    NotNeeded,
    /// This many buckets were repaired, and the key no longer passes.
    Repaired(u64),
    /// The key still passes: the filter cannot distinguish it from a key of the table.
    Impossible,
}

impl Table {
    /// Repairs the filter of a partition, so that the key with this hash, which the table does not
    /// have, no longer passes. Reads past the cache: the filter, if it is not in memory, and a page
    /// of its mirror for each of at most two buckets. If the filter cannot be repaired, or already
    /// excludes the key, no page is read. One thread at a time.
    ///
    /// # Errors
    /// Those of the reads; the key then still passes.
    pub(crate) fn repair_filter(
        &self,
        blocks: &Blocks,
        number: usize,
        hash: u64,
    ) -> Result<RepairOutcome> {
        let Some(partition) = self.partitions().get(number) else {
            return Ok(RepairOutcome::NotNeeded);
        };
        if partition.mirror.is_none() {
            return Ok(RepairOutcome::NotNeeded);
        }
        let filter = self.address(partition.filter, BlockKind::Filter);
        let filter = match blocks.cached_without_miss(&filter) {
            Some(filter) => filter,
            None => blocks.read_to_repair(&filter)?,
        };
        let FilterAnswer::Matches(matches) = filter::look(filter.bytes(), hash) else {
            return Ok(RepairOutcome::NotNeeded);
        };
        if !self.filter_repairs().pass(number, matches) {
            return Ok(RepairOutcome::NotNeeded);
        }
        // Everything is read before anything is repaired.
        let mut repairs: SmallVec<[(u32, Repair); 2]> = SmallVec::new();
        for (bucket, _) in matches.buckets() {
            let before = self.filter_repairs().repair_of(number, bucket);
            if !matches.pass_in(bucket, before) {
                continue;
            }
            let Some((handle, at)) = partition.mirror_block(bucket) else {
                return Err(Error::corrupt(self.path(), "a mirror is shorter than its filter"));
            };
            let mirror = self.address(handle, BlockKind::Filter);
            let tails = self.tails_at(&blocks.read_to_repair(&mirror)?, at)?;
            match matches.repair(bucket, tails, before) {
                Some(repair) => repairs.push((bucket, repair)),
                None => return Ok(RepairOutcome::Impossible),
            }
        }
        let buckets = partition.mirror.len as usize / filter::MIRROR_BUCKET_BYTES;
        for &(bucket, repair) in &repairs {
            self.filter_repairs().add(number, buckets, bucket, repair);
        }
        Ok(RepairOutcome::Repaired(repairs.len() as u64))
    }

    fn tails_at(&self, mirror: &BlockRef, at: usize) -> Result<[u16; 4]> {
        let bytes = mirror.bytes().get(at..).and_then(|bytes| bytes.first_chunk());
        let bytes = bytes
            .ok_or_else(|| Error::corrupt(self.path(), "a mirror is shorter than its filter"))?;
        Ok(filter::tails(*bytes))
    }
}
