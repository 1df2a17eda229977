//! A page of the flash index: the entries of one partition, as they stand on flash.
//!
//! ```text
//! OFFSET  SIZE   MEANING
//! 0       8      checksum: XXH3 of all that follows
//! 8       4      magic number
//! 12      4      the partition
//! 16      8      the device
//! 24      4      version: one more than the page that it replaces
//! 28      36     zero
//! 64      16320  255 buckets of four entries (`entry.rs`)
//! ```
//!
//! Values on flash: do not change.
//!
//! An entry stands in one of two buckets, which its fingerprint names; so a lookup costs one
//! read however full the page is. In place of probing on, as BigKV does within a bound, an
//! insertion moves one entry to its other bucket, and if that does not help the oldest of
//! eight is displaced: a cache may lose it.
//!
//! Pure; for one thread at a time.

use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Entry;

/// The size of a page.
pub(crate) const PAGE_BYTES: usize = 16 << 10;
/// Entries that a page has room for.
pub(crate) const ENTRIES_MAX: usize = BUCKETS * WAYS;

const MAGIC: u32 = 0x5450_6731;
const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 16;
const BUCKETS: usize = 255;
const WAYS: usize = 4;

const _: () = assert!(HEADER_BYTES + ENTRIES_MAX * ENTRY_BYTES == PAGE_BYTES);

/// Which page it is.
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

    /// The bytes of the page with that name.
    pub(crate) fn encode(&self, id: PageId) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        bytes[8..12].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[12..16].copy_from_slice(&id.partition.to_le_bytes());
        bytes[16..24].copy_from_slice(&id.device.to_le_bytes());
        bytes[24..28].copy_from_slice(&id.version.to_le_bytes());
        let places = bytes[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES);
        for (place, entry) in places.zip(&*self.entries) {
            place.copy_from_slice(&entry.to_bytes());
        }
        let checksum = xxh3_64(&bytes[8..]);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The page in `bytes`, if it is whole and the one that is meant.
    pub(crate) fn decode(bytes: &[u8], id: PageId) -> Option<Self> {
        let word = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let long = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        if bytes.len() != PAGE_BYTES || long(0)? != xxh3_64(&bytes[8..]) || word(8)? != MAGIC {
            return None;
        }
        let found = PageId { device: long(16)?, partition: word(12)?, version: word(24)? };
        (found == id).then(|| {
            let mut page = Self::empty();
            let places = bytes[HEADER_BYTES..].chunks_exact(ENTRY_BYTES);
            for (entry, place) in page.entries.iter_mut().zip(places) {
                *entry = Entry::from_bytes(place.try_into().expect("a chunk is that long"));
            }
            page
        })
    }

    /// The entry with that fingerprint.
    pub(crate) fn find(&self, fingerprint: u64) -> Option<Entry> {
        self.place_of(fingerprint).map(|place| self.entries[place])
    }

    /// Puts a record's entry in, in place of the one with the same fingerprint, or of one that
    /// `is_live` says is not worth keeping. What is displaced for it is the one of which
    /// `age` is least.
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

    /// Takes the entry with that fingerprint out.
    pub(crate) fn remove(&mut self, fingerprint: u64) {
        if let Some(place) = self.place_of(fingerprint) {
            self.entries[place] = Entry::NOTHING;
        }
    }

    /// Keeps the entries of which `is_live` is true.
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

/// Where an entry with that fingerprint may stand, in two buckets taking turns.
fn places_of(fingerprint: u64) -> impl Iterator<Item = usize> + Clone {
    let hash = xxh3_64(&fingerprint.to_le_bytes());
    let bucket = |half: u64| ((half * BUCKETS as u64) >> 32) as usize;
    let buckets = [bucket(hash >> 32), bucket(hash & u64::from(u32::MAX))];
    (0..2 * WAYS).map(move |n| buckets[n % 2] * WAYS + n / 2)
}

#[cfg(test)]
mod tests;
