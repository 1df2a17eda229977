//! For fuzzers: recomputes the checksums of a modified table, so that the change gets past them,
//! and decodes its small parts separately.

use tidekv_cache::BlockKind;

use super::format::{
    FOOTER_BYTES, Footer, Partition, decode_range_tombstones, encode_range_tombstones,
};
use super::properties::TableProperties;
use crate::format::coding::Reader;
use crate::sst::block::{self, Block, BlockHandle, seed};

/// Maximum number of blocks to visit: an index may refer to itself.
const BLOCKS_MAX: usize = 1000;

/// Seals footer, sections, partitions and data blocks of table `table`, each at the offset that its
/// parent contains.
pub(crate) fn fix_checksums(bytes: &mut [u8], table: u64) {
    let Some((_, last)) = bytes.split_last_chunk_mut::<FOOTER_BYTES>() else { return };
    let footer = Footer::decode_unchecked(last);
    *last = footer.encode(table);
    for section in [footer.range_tombstones, footer.properties] {
        fix_block_checksum(bytes, table, section);
    }
    let mut left = BLOCKS_MAX;
    for payload in fix_index_checksum(bytes, table, footer.top) {
        let Some(partition) = Partition::decode(&payload) else { continue };
        fix_block_checksum(bytes, table, partition.filter);
        for block in partition.mirror_blocks().take(left) {
            fix_block_checksum(bytes, table, block);
        }
        for payload in fix_index_checksum(bytes, table, partition.index) {
            if let Some(data) = BlockHandle::decode(&mut Reader::new(&payload)) {
                fix_block_checksum(bytes, table, data);
            }
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }
}

fn block_at(bytes: &mut [u8], handle: BlockHandle) -> Option<&mut [u8]> {
    let start = usize::try_from(handle.offset).ok()?;
    bytes.get_mut(start..)?.get_mut(..handle.len as usize)
}

fn fix_block_checksum(bytes: &mut [u8], table: u64, handle: BlockHandle) {
    if let Some(disk) = block_at(bytes, handle) {
        block::fix_checksum(disk, seed(table, handle.offset));
    }
}

/// Seals an index block; returns the payloads of its entries.
fn fix_index_checksum(bytes: &mut [u8], table: u64, handle: BlockHandle) -> Vec<Vec<u8>> {
    fix_block_checksum(bytes, table, handle);
    let content = block_at(bytes, handle)
        .and_then(|disk| block::open_part(disk, seed(table, handle.offset)).ok());
    let Some(index) = content.and_then(|c| Block::new(c, BlockKind::Index, handle.offset)) else {
        return Vec::new();
    };
    (0..index.view().len().min(BLOCKS_MAX))
        .map(|i| index.view().entry(i).payload.to_vec())
        .collect()
}

/// Decodes `bytes` as each of the small parts of a table; returns whether all parts that decode are
/// the same after encoding them again.
pub(crate) fn parts_round_trip(bytes: &[u8]) -> bool {
    let properties = TableProperties::decode(bytes)
        .is_none_or(|found| TableProperties::decode(&found.encode()) == Some(found));
    let tombstones = decode_range_tombstones(bytes).is_none_or(|found| {
        decode_range_tombstones(&encode_range_tombstones(&found)) == Some(found)
    });
    let partition = Partition::decode(bytes)
        .is_none_or(|found| Partition::decode(&found.encode()) == Some(found));
    properties && tombstones && partition
}
