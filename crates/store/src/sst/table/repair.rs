//! Repairs of filters: [`Table::repair_filter`].

use smallvec::SmallVec;
use tidekv_cache::BlockKind;

use super::reader::Table;
use crate::error::{Error, Result};
use crate::sst::block::BlockRef;
use crate::sst::blocks::Blocks;
use crate::sst::filter::{self, FilterAnswer, Repair};

/// What came of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairOutcome {
    /// The key does not pass, or nobody can help it.
    NotNeeded,
    /// So many buckets were repaired, and it does not pass any more.
    Repaired(u64),
    /// It passes still: it cannot be told from a key that is there.
    Impossible,
}

impl Table {
    /// Has the filter of a partition unlearn that the key with this hash, which the table does not
    /// have, may be there. Reads past the cache: the filter, if it is not in memory, and a page of
    /// its mirror for each bucket, which is at most two. Of a filter that cannot be repaired, or
    /// knows already, no page is read. One thread at a time.
    ///
    /// # Errors
    /// Those of the reads; what was not repaired passes on.
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
        let filter = match blocks.cached_by_chance(&filter) {
            Some(filter) => filter,
            None => blocks.read_to_repair(&filter)?,
        };
        let FilterAnswer::Matches(matches) = filter::look(filter.bytes(), hash) else {
            return Ok(RepairOutcome::NotNeeded);
        };
        if !self.filter_repairs().pass(number, matches) {
            return Ok(RepairOutcome::NotNeeded);
        }
        // All that is needed is read before anything is repaired.
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
