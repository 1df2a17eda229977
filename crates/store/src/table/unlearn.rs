//! Repairs of filters: [`Table::unlearn`].

use tidekv_cache::BlockKind;

use super::reader::Table;
use crate::blocks::{BlockRef, Blocks};
use crate::error::{Error, Result};
use crate::filter::{self, Look};

/// What came of a repair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unlearned {
    /// Buckets that were repaired.
    pub(crate) repairs: u64,
    /// Reads of storage.
    pub(crate) reads: u64,
    /// The key passes still: it cannot be told from one that is there.
    pub(crate) is_hopeless: bool,
}

impl Table {
    /// Has the filter of a partition unlearn that the key with this hash, which the table does not
    /// have, may be there. Reads past the cache: the filter, if it is not in memory, and a page of
    /// its mirror for each bucket, which is at most two. Of a filter that cannot be repaired, or
    /// knows already, nothing is read. One thread at a time.
    ///
    /// # Errors
    /// Those of the reads; what was not repaired passes on.
    pub(crate) fn unlearn(&self, blocks: &Blocks, number: usize, hash: u64) -> Result<Unlearned> {
        let mut unlearned = Unlearned::default();
        let Some(partition) = self.partitions().get(number).copied() else { return Ok(unlearned) };
        if partition.mirror.is_none() {
            return Ok(unlearned);
        }
        let filter = self.address(partition.filter, BlockKind::Filter);
        let filter = match blocks.cached(&filter) {
            Some(filter) => filter,
            None => {
                unlearned.reads += 1;
                blocks.read_past_cache(&[filter])?.swap_remove(0)
            }
        };
        let Look::Matches(matches) = filter::look(filter.bytes(), hash) else {
            return Ok(unlearned);
        };
        if !self.learned().pass(number, matches) {
            return Ok(unlearned);
        }
        for (bucket, _) in matches.buckets() {
            let before = self.learned().repair_of(number, bucket);
            if !matches.pass_in(bucket, before) {
                continue;
            }
            let Some((handle, at)) = partition.mirror_block(bucket) else {
                return Err(Error::corrupt(self.path(), "a mirror is shorter than its filter"));
            };
            let mirror = self.address(handle, BlockKind::Filter);
            let mirror = blocks.read_past_cache(&[mirror])?.swap_remove(0);
            unlearned.reads += 1;
            let tails = self.tails_at(&mirror, at)?;
            let Some(repair) = matches.repair(bucket, tails, before) else {
                return Ok(Unlearned { is_hopeless: true, ..unlearned });
            };
            let buckets = partition.mirror.len as usize / filter::MIRROR_BUCKET_BYTES;
            self.learned().teach(number, buckets, bucket, repair);
            unlearned.repairs += 1;
        }
        Ok(unlearned)
    }

    fn tails_at(&self, mirror: &BlockRef, at: usize) -> Result<[u16; 4]> {
        let bytes = mirror.bytes().get(at..).and_then(|bytes| bytes.first_chunk());
        let bytes = bytes
            .ok_or_else(|| Error::corrupt(self.path(), "a mirror is shorter than its filter"))?;
        Ok(filter::tails(*bytes))
    }
}
