//! The index of small objects, all of it in DRAM: for each object some bits of its tag, the number
//! of its segment, and which of its two buckets there has it: about two bytes. A lookup reads the
//! buckets of all objects that agree with the key in those bits: its own, and rarely another one.
//!
//! The tags are hashed to lists. A chunk of the index has [`LISTS`] of them, and two sequences of
//! bits, as in a quotient filter (Bender et al., VLDB 2012):
//!
//! ```text
//! ends      for each list a 1 for each entry, then a 0
//! entries   of all lists, in order: number, choice, remainder
//! ```
//!
//! With one entry in a list on average, an entry takes two bits of `ends`. A list that is longer,
//! because objects are smaller than expected, answers more keys by mistake.
//!
//! Guarantees:
//! 1. [`SmallIndex::find`] returns the place of each object that was inserted under the tag and not
//!    removed, and perhaps others.
//! 2. Nothing is ever dropped: an object that DRAM does not find must not reappear after a recovery.
//!
//! For all threads; a lock for each chunk.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::index::bits::Bits;
use crate::segment::bucket_segment::Choice;
use crate::segment::layout::{CHUNK_LISTS, TAG_BITS, Tag};

/// Lists of a chunk.
const LISTS: usize = CHUNK_LISTS as usize;
/// Bits of a remainder: one key in sixteen that is absent is looked for on flash. With 256 segments
/// an entry takes fifteen bits, and one more whenever their number doubles.
const REMAINDER_BITS: u32 = 4;

/// The place of an object: the number of its segment, and which of its two buckets has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SmallLocation {
    pub(crate) number: u32,
    pub(crate) choice: Choice,
}

/// The index of the small objects of a device.
#[derive(Debug)]
pub(crate) struct SmallIndex {
    chunks: Box<[Mutex<Chunk>]>,
    number_bits: u32,
    memory_bytes: AtomicUsize,
}

/// A chunk; an empty one takes no memory but itself.
#[derive(Debug, Default)]
struct Chunk {
    ends: Bits,
    entries: Bits,
}

/// Where the entries of a tag are: the chunk, the list, and the remainder.
#[derive(Debug, Clone, Copy)]
struct Home {
    chunk: usize,
    list: usize,
    remainder: u64,
}

impl Chunk {
    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes() + self.entries.memory_bytes()
    }

    /// The place of a list in `ends`, the number of its first entry, and its length.
    fn list(&self, list: usize) -> (usize, usize, usize) {
        if self.ends.len() == 0 {
            return (list, 0, 0);
        }
        let start = if list == 0 { 0 } else { self.ends.zero(list - 1) + 1 };
        (start, start - list, self.ends.ones(start))
    }

    fn remove(&mut self, start: usize, entry: usize, width: u32) {
        self.ends.remove(start, 1);
        self.entries.remove(entry * width as usize, width);
    }
}

impl SmallIndex {
    /// An empty index with this many chunks, for segments with numbers below `numbers`.
    pub(crate) fn new(chunks: u32, numbers: u32) -> Self {
        let number_bits = u32::BITS - numbers.saturating_sub(1).leading_zeros();
        Self {
            chunks: (0..chunks).map(|_| Mutex::default()).collect(),
            number_bits: number_bits.max(1),
            memory_bytes: AtomicUsize::new(0),
        }
    }

    fn home(&self, tag: Tag) -> Home {
        let below = |bits: u64| bits & ((1 << TAG_BITS) - 1);
        let product = u128::from(tag.0) * self.chunks.len() as u128;
        let in_chunk = below(product as u64) * LISTS as u64;
        Home {
            chunk: (product >> TAG_BITS) as usize,
            list: (in_chunk >> TAG_BITS) as usize,
            remainder: below(in_chunk) >> (TAG_BITS - REMAINDER_BITS),
        }
    }

    fn width(&self) -> u32 {
        self.number_bits + 1 + REMAINDER_BITS
    }

    fn encode(&self, home: Home, place: SmallLocation) -> u64 {
        let number = u64::from(place.number) | u64::from(place.choice & 1) << self.number_bits;
        number | home.remainder << (self.number_bits + 1)
    }

    fn decode(&self, entry: u64) -> (SmallLocation, u64) {
        let number = entry as u32 & ((1 << self.number_bits) - 1);
        let choice = (entry >> self.number_bits & 1) as Choice;
        (SmallLocation { number, choice }, entry >> (self.number_bits + 1))
    }

    fn change<R>(&self, chunk: &mut Chunk, change: impl FnOnce(&mut Chunk) -> R) -> R {
        let before = chunk.memory_bytes();
        let result = change(chunk);
        let after = chunk.memory_bytes();
        self.memory_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        result
    }

    /// The places of objects with that tag, the last inserted first.
    pub(crate) fn find(&self, tag: Tag) -> impl Iterator<Item = SmallLocation> + use<> {
        let home = self.home(tag);
        let chunk = self.chunks[home.chunk].lock();
        let (_, first, len) = chunk.list(home.list);
        let width = self.width();
        let entries = (first..first + len).rev();
        let found = entries.filter_map(|entry| {
            let (place, remainder) = self.decode(chunk.entries.get(entry * width as usize, width));
            (remainder == home.remainder).then_some(place)
        });
        // Most have none or one: an empty list takes no memory.
        found.collect::<Vec<SmallLocation>>().into_iter()
    }

    /// Inserts an object.
    pub(crate) fn insert(&self, tag: Tag, place: SmallLocation) {
        let home = self.home(tag);
        let (entry, width) = (self.encode(home, place), self.width());
        let mut chunk = self.chunks[home.chunk].lock();
        let (start, first, len) = chunk.list(home.list);
        self.change(&mut chunk, |chunk| {
            if chunk.ends.len() == 0 {
                chunk.ends = Bits::zeros(LISTS);
            }
            chunk.ends.insert(start, 1, 1);
            chunk.entries.insert((first + len) * width as usize, width, entry);
        });
    }

    /// Removes the objects with that tag whose places are in `which`; returns their number.
    pub(crate) fn remove(&self, tag: Tag, which: impl Fn(SmallLocation) -> bool) -> usize {
        self.remove_some(tag, usize::MAX, which)
    }

    /// Removes one object with that tag and place; returns whether there was one.
    pub(crate) fn remove_one(&self, tag: Tag, place: SmallLocation) -> bool {
        self.remove_some(tag, 1, |other| other == place) > 0
    }

    fn remove_some(&self, tag: Tag, count: usize, which: impl Fn(SmallLocation) -> bool) -> usize {
        let (home, width) = (self.home(tag), self.width());
        let mut chunk = self.chunks[home.chunk].lock();
        let (start, first, len) = chunk.list(home.list);
        let mut removed = 0;
        for entry in (first..first + len).rev() {
            let (place, remainder) = self.decode(chunk.entries.get(entry * width as usize, width));
            if remainder == home.remainder && which(place) && removed < count {
                self.change(&mut chunk, |chunk| chunk.remove(start, entry, width));
                removed += 1;
            }
        }
        removed
    }

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Removes the objects of the segments in `which` from a chunk.
    pub(crate) fn purge(&self, chunk: usize, which: impl Fn(u32) -> bool) {
        let width = self.width();
        let mut chunk = self.chunks[chunk].lock();
        self.change(&mut chunk, |chunk| {
            let (mut ends, mut entries) = (Bits::default(), Bits::default());
            let mut entry = 0;
            for at in 0..chunk.ends.len() {
                if chunk.ends.get(at, 1) == 0 {
                    ends.push(1, 0);
                    continue;
                }
                let bits = chunk.entries.get(entry * width as usize, width);
                if !which(self.decode(bits).0.number) {
                    ends.push(1, 1);
                    entries.push(width, bits);
                }
                entry += 1;
            }
            *chunk = match entries.len() {
                0 => Chunk::default(),
                _ => Chunk { ends, entries },
            };
            chunk.ends.shrink();
            chunk.entries.shrink();
        });
    }

    /// Removes all objects.
    pub(crate) fn clear(&self) {
        for chunk in &self.chunks {
            let mut chunk = chunk.lock();
            self.change(&mut chunk, |chunk| *chunk = Chunk::default());
        }
    }

    /// Its memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.chunks) + self.memory_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
