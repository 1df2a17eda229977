//! [`BlockView`]: reading and searching the entries of a checked block.

use std::cmp::Ordering;
use std::ops::Range;

use super::layout::{Layout, split_trailer};
use crate::format::key::Trailer;

/// Blocks with more entries have short values.
const TOUCHED_ENTRIES_MAX: usize = 8;

/// An entry of a block. Its user key is the block's prefix and `suffix`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockEntry<'a> {
    pub(crate) suffix: &'a [u8],
    pub(crate) trailer: Trailer,
    pub(crate) payload: &'a [u8],
    /// The offset of the payload in the block.
    pub(crate) payload_start: usize,
}

impl BlockEntry<'_> {
    /// The range of the payload in the block's bytes.
    pub(crate) fn payload_range(&self) -> Range<usize> {
        self.payload_start..self.payload_start + self.payload.len()
    }
}

/// A block whose layout was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockView<'a> {
    bytes: &'a [u8],
    layout: &'a Layout,
}

impl<'a> BlockView<'a> {
    /// `layout` must have been parsed from these same `bytes`.
    pub(crate) fn new(bytes: &'a [u8], layout: &'a Layout) -> Self {
        Self { bytes, layout }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.entries as usize
    }

    /// The prefix of all user keys.
    pub(crate) fn prefix(&self) -> &'a [u8] {
        &self.bytes[self.layout.prefix.0 as usize..self.layout.prefix.1 as usize]
    }

    /// The rest of the user key of entry `i` after the prefix.
    #[inline]
    pub(crate) fn suffix(&self, i: usize) -> &'a [u8] {
        let (start, end) = self.layout.keys.cell(self.bytes, i);
        &self.bytes[start..end]
    }

    #[inline]
    pub(crate) fn entry(&self, i: usize) -> BlockEntry<'a> {
        let (start, end) = self.layout.values.cell(self.bytes, i);
        let value = &self.bytes[start..end];
        let (trailer, skip) = split_trailer(value).expect("checked when the block was parsed");
        BlockEntry {
            suffix: self.suffix(i),
            trailer,
            payload: &value[skip..],
            payload_start: start + skip,
        }
    }

    /// Prefetches the bytes that a walk reads of each entry into the processor's cache. These reads
    /// do not wait for one another, as those of the walk would.
    pub(crate) fn touch(&self) {
        let first_of = |at: u32| self.bytes.get(at as usize).map_or(0, |&byte| byte);
        let mut seen = first_of(self.layout.keys.start());
        // The processor prefetches adjacent values anyway.
        if self.len() <= TOUCHED_ENTRIES_MAX {
            for i in 0..self.len() {
                seen ^= first_of(self.layout.values.cell(self.bytes, i).0 as u32);
            }
        }
        std::hint::black_box(seen);
    }

    /// Writes the user key of entry `i` into `key`.
    pub(crate) fn key_into(&self, i: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix());
        key.extend_from_slice(self.suffix(i));
    }

    /// Whether entry `i` has this user key.
    pub(crate) fn has_key(&self, i: usize, user_key: &[u8]) -> bool {
        let (prefix, suffix) = (self.prefix(), self.suffix(i));
        user_key.len() == prefix.len() + suffix.len()
            && user_key.starts_with(prefix)
            && user_key.ends_with(suffix)
    }

    /// The first entry at or after an internal key; [`BlockView::len`] if there is none.
    pub(crate) fn lower_bound(&self, user_key: &[u8], trailer: Trailer) -> usize {
        let prefix = self.prefix();
        let Some(rest) = user_key.strip_prefix(prefix) else {
            return if user_key < prefix { 0 } else { self.len() };
        };
        self.search(rest, trailer)
    }

    /// Binary search that compares the first eight bytes of suffixes as one number and compares
    /// further bytes only when they are equal. The number of steps depends on the block alone, and
    /// no step is a branch that can be mispredicted.
    fn search(&self, rest: &[u8], trailer: Trailer) -> usize {
        let head = head_of(rest, 0, rest.len());
        let before = |i: usize| {
            let (start, end) = self.layout.keys.cell(self.bytes, i);
            let there = head_of(self.bytes, start, end - start);
            there < head || (there == head && self.compare(i, rest, trailer).is_lt())
        };
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[cold]
    fn compare(&self, i: usize, rest: &[u8], trailer: Trailer) -> Ordering {
        self.suffix(i).cmp(rest).then_with(|| trailer.cmp(&self.entry(i).trailer))
    }
}

/// The first eight of the `len` bytes at `start` as a number that orders like them. Missing bytes
/// count as zeros, so equal heads do not imply equal keys.
#[inline]
fn head_of(bytes: &[u8], start: usize, len: usize) -> u64 {
    let Some(eight) = bytes.get(start..).and_then(<[u8]>::first_chunk::<8>) else {
        let short = &bytes[start..start + len];
        return short
            .iter()
            .enumerate()
            .fold(0, |head, (i, &byte)| head | u64::from(byte) << (56 - 8 * i));
    };
    // Bytes after a short suffix belong to its neighbour.
    let beyond = u64::MAX.checked_shr(8 * len.min(8) as u32).unwrap_or(0);
    u64::from_be_bytes(*eight) & !beyond
}
