//! A page of the flash index: the entries of one partition, as stored on flash.
//!
//! A page is four blocks of 4 KiB, each as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum: XXH3 of all that follows
//! 8       4     magic number
//! 12      4     the partition
//! 16      8     the device
//! 24      4     version: one more than the page that it replaces
//! 28      4     number of the block in the page
//! 32      32    zero
//! 64      4032  63 buckets of four entries (`entry.rs`)
//! ```
//!
//! Values on flash: do not change.
//!
//! An entry is in one of two buckets of one block, both chosen by its fingerprint; so a lookup
//! costs one read of that block, however full the page is. In place of probing on, as BigKV does
//! within a bound, an insertion moves one entry to its other bucket, and if that does not help the
//! oldest of eight is displaced: a cache may lose it. BigKV reads its pages whole; a lookup needs
//! one of the thousand entries.
//!
//! Pure; for one thread at a time.

use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Entry;

/// The size of a page.
pub(crate) const PAGE_BYTES: usize = BLOCKS * PAGE_BLOCK_BYTES;
/// The size of a page's block, which a lookup reads.
pub(crate) const PAGE_BLOCK_BYTES: usize = 4 << 10;
/// The capacity of a page, in entries.
pub(crate) const ENTRIES_MAX: usize = BLOCKS * BLOCK_ENTRIES;

const MAGIC: u32 = 0x5450_6732;
const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 16;
const BLOCKS: usize = 4;
const BUCKETS: usize = 63;
const WAYS: usize = 4;
const BLOCK_ENTRIES: usize = BUCKETS * WAYS;

const _: () = assert!(HEADER_BYTES + BLOCK_ENTRIES * ENTRY_BYTES == PAGE_BLOCK_BYTES);

/// The identity of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageId {
    pub(crate) device: u64,
    pub(crate) partition: u32,
    pub(crate) version: u32,
}

/// A page in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    entries: Box<[Entry; ENTRIES_MAX]>,
}

impl Page {
    /// A page without entries.
    pub(crate) fn empty() -> Self {
        Self { entries: Box::new([Entry::NOTHING; ENTRIES_MAX]) }
    }

    /// The bytes of the page with that identity.
    pub(crate) fn encode(&self, id: PageId) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        let blocks = bytes.chunks_exact_mut(PAGE_BLOCK_BYTES);
        for (number, (block, entries)) in
            (0_u32..).zip(blocks.zip(self.entries.chunks_exact(BLOCK_ENTRIES)))
        {
            block[8..12].copy_from_slice(&MAGIC.to_le_bytes());
            block[12..16].copy_from_slice(&id.partition.to_le_bytes());
            block[16..24].copy_from_slice(&id.device.to_le_bytes());
            block[24..28].copy_from_slice(&id.version.to_le_bytes());
            block[28..32].copy_from_slice(&number.to_le_bytes());
            let places = block[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES);
            for (place, entry) in places.zip(entries) {
                place.copy_from_slice(&entry.to_bytes());
            }
            let checksum = xxh3_64(&block[8..]);
            block[..8].copy_from_slice(&checksum.to_le_bytes());
        }
        bytes
    }

    /// The page in `bytes`, if it is intact and the expected one.
    pub(crate) fn decode(bytes: &[u8], id: PageId) -> Option<Self> {
        let mut page = Self::empty();
        if bytes.len() != PAGE_BYTES {
            return None;
        }
        let blocks = bytes.chunks_exact(PAGE_BLOCK_BYTES);
        for (number, (block, entries)) in
            blocks.zip(page.entries.chunks_exact_mut(BLOCK_ENTRIES)).enumerate()
        {
            let found = PageBlock::decode(block, id, number)?;
            entries.iter_mut().zip(found.entries()).for_each(|(entry, found)| *entry = found);
        }
        Some(page)
    }

    /// The entry with that fingerprint.
    pub(crate) fn find(&self, fingerprint: u64) -> Option<Entry> {
        self.place_of(fingerprint).map(|place| self.entries[place])
    }

    /// Inserts a record's entry, replacing the one with the same fingerprint, or one for which
    /// `is_live` is false. If it displaces an entry, that is the one with the least `age`.
    pub(crate) fn insert(
        &mut self,
        entry: Entry,
        is_live: impl Fn(Entry) -> bool,
        age: impl Fn(Entry) -> u64,
    ) -> Option<Entry> {
        let fingerprint = entry.fingerprint();
        if let Some(place) = self.place_of(fingerprint) {
            self.entries[place] = entry;
            return None;
        }
        let is_free = |entry: Entry| entry.is_nothing() || !is_live(entry);
        let places = places_of(fingerprint);
        if let Some(place) = places.clone().find(|place| is_free(self.entries[*place])) {
            self.entries[place] = entry;
            return None;
        }
        for place in places.clone() {
            let others = places_of(self.entries[place].fingerprint());
            if let Some(other) = others.clone().find(|other| is_free(self.entries[*other])) {
                self.entries[other] = self.entries[place];
                self.entries[place] = entry;
                return None;
            }
        }
        let oldest = places.min_by_key(|place| age(self.entries[*place]))?;
        Some(std::mem::replace(&mut self.entries[oldest], entry))
    }

    /// Removes the entry with that fingerprint.
    pub(crate) fn remove(&mut self, fingerprint: u64) {
        if let Some(place) = self.place_of(fingerprint) {
            self.entries[place] = Entry::NOTHING;
        }
    }

    /// Keeps the entries for which `is_live` is true.
    pub(crate) fn retain(&mut self, is_live: impl Fn(Entry) -> bool) {
        for entry in &mut *self.entries {
            if !entry.is_nothing() && !is_live(*entry) {
                *entry = Entry::NOTHING;
            }
        }
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().copied().filter(|entry| !entry.is_nothing())
    }

    fn place_of(&self, fingerprint: u64) -> Option<usize> {
        let is_it = |place: &usize| {
            let entry = self.entries[*place];
            !entry.is_nothing() && entry.fingerprint() == fingerprint
        };
        places_of(fingerprint).find(is_it)
    }
}

/// A block of a page that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageBlock<'b>(&'b [u8]);

impl<'b> PageBlock<'b> {
    /// The block in `bytes`, if it is intact and block `number` of the expected page.
    pub(crate) fn decode(bytes: &'b [u8], id: PageId, number: usize) -> Option<Self> {
        let word = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let long = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        if bytes.len() != PAGE_BLOCK_BYTES || long(0)? != xxh3_64(&bytes[8..]) || word(8)? != MAGIC
        {
            return None;
        }
        let found = PageId { device: long(16)?, partition: word(12)?, version: word(24)? };
        (found == id && word(28)? as usize == number).then_some(Self(bytes))
    }

    fn entries(self) -> impl Iterator<Item = Entry> {
        self.0[HEADER_BYTES..].as_chunks().0.iter().map(|bytes| Entry::from_bytes(*bytes))
    }

    /// The entry with that fingerprint, which belongs in this block.
    pub(crate) fn find(self, fingerprint: u64) -> Option<Entry> {
        let (places, _) = self.0[HEADER_BYTES..].as_chunks::<ENTRY_BYTES>();
        let entry = |place: usize| Entry::from_bytes(places[place % BLOCK_ENTRIES]);
        let is_it = |entry: &Entry| !entry.is_nothing() && entry.fingerprint() == fingerprint;
        places_of(fingerprint).map(entry).find(is_it)
    }
}

/// The number of the block with the entry of that fingerprint.
pub(crate) fn block_of(fingerprint: u64) -> usize {
    xxh3_64(&fingerprint.to_le_bytes()) as usize % BLOCKS
}

/// The places for an entry with that fingerprint, alternating between two buckets of its block.
fn places_of(fingerprint: u64) -> impl Iterator<Item = usize> + Clone {
    const HALF: u32 = 31;
    let hash = xxh3_64(&fingerprint.to_le_bytes());
    let bucket = |half: u64| (((half & ((1 << HALF) - 1)) * BUCKETS as u64) >> HALF) as usize;
    let buckets = [bucket(hash >> (u64::BITS - HALF)), bucket(hash >> 2)];
    let first = block_of(fingerprint) * BLOCK_ENTRIES;
    (0..2 * WAYS).map(move |n| first + buckets[n % 2] * WAYS + n / 2)
}

#[cfg(test)]
mod tests;
