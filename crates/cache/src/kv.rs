//! Key-value entries in a ring of chunks: one shard of the KV component.
//!
//! ```text
//!      oldest chunk                               newest chunk
//!   ┌──────────────┐   ┌──────────────┐         ┌──────────────┐
//!   │ e  ✗  e  e   │ ► │ e  e  ✗  e   │ ► ... ► │ e  e │ free  │ ◄ new ones
//!   └──────────────┘   └──────────────┘         └──────────────┘
//!      │ the worst leave                            ▲
//!      └──── the others move up, and the chunk is the newest
//! ```
//!
//! Entries stand one behind the other in chunks, so that nothing is lost between them,
//! and a table of four-byte places finds them. When the newest chunk is full and there
//! may be no more of them, the oldest one is gone through: its entries are judged
//! against each other (some hundred of them), the worst quarter leaves, and with the
//! rest the chunk is the newest one. So what leaves is old *and* worth less than its
//! neighbours, and no list of entries has to be kept in order at each hit.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  from the lowest bit: bytes of the name (13 bits) and of the value (13),
//!               level (3), how often asked for less how often judged (2),
//!               dead (1)
//!      4     8  the caller's stamp (sequence and kind)
//!     12     -  name, then value, then up to 3 bytes to a multiple of 4
//!
//! A name is never empty: four bytes 0 in place of an entry end a chunk.
//! ```
//!
//! Guarantees:
//! 1. [`KvShard::charged_bytes`] is what is allocated for chunks and table, and at most
//!    the capacity after every call.
//! 2. An entry is handed out as it was put in last, or not at all.
//!
//! Beside name and value an entry takes 12 bytes, 1.5 on average for its end and 6 to 8
//! in the table. For one thread at a time.

use std::collections::VecDeque;

use crate::places::Places;

/// Bytes of a chunk: large beside an entry, small beside a shard.
const CHUNK_BYTES: usize = 16 << 10;
/// What must leave a chunk for it to be the newest one again.
const FREED_BYTES_MIN: usize = CHUNK_BYTES / 4;
/// Places count words of four bytes.
const WORD_BYTES: usize = 4;
const CHUNK_WORDS: usize = CHUNK_BYTES / WORD_BYTES;
const HEAD_BYTES: usize = 12;
/// The longest name and value together that are kept: a larger one is as well kept in
/// its block.
pub const ENTRY_BYTES_MAX: usize = FREED_BYTES_MIN - HEAD_BYTES;
/// Levels below this count as this.
pub const LEVEL_MAX: u8 = 7;

/// What an entry takes in the table on average.
const TABLE_BYTES_USUAL: usize = 7;

// What has left a chunk makes room for the largest entry.
const _: () = assert!(HEAD_BYTES + ENTRY_BYTES_MAX <= FREED_BYTES_MIN);

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvEntry<'a> {
    /// What it is found by: keyspace and key, in the caller's encoding.
    pub name: &'a [u8],
    /// The caller's: sequence and kind.
    pub stamp: u64,
    /// The value.
    pub value: &'a [u8],
    /// The level of the tree that it was found on, by which hits save storage I/Os: 0
    /// to [`LEVEL_MAX`].
    pub level: u8,
}

impl KvEntry<'_> {
    /// The bytes that it takes, on average.
    pub fn charge(&self) -> usize {
        self.ring_bytes() + TABLE_BYTES_USUAL
    }

    fn ring_bytes(&self) -> usize {
        (HEAD_BYTES + self.name.len() + self.value.len()).next_multiple_of(WORD_BYTES)
    }
}

/// Decides about entries.
pub trait Judge {
    /// The hash that entries of this name are found by.
    fn hash(&self, name: &[u8]) -> u64;

    /// What the entry is worth, per byte; those that are worth least leave. `asked`:
    /// how often it was asked for, less how often it was judged, 0 to 3.
    fn worth(&mut self, hash: u64, entry: &KvEntry<'_>, asked: u8) -> f32;

    /// The entry has left.
    fn left(&mut self, hash: u64, charge: usize);
}

/// The first word of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head(u32);

impl Head {
    const LEN_MASK: u32 = (1 << 13) - 1;
    const VALUE_SHIFT: u32 = 13;
    const LEVEL_SHIFT: u32 = 26;
    const ASKED_SHIFT: u32 = 29;
    const ASKED_MASK: u32 = 3;
    const DEAD: u32 = 1 << 31;

    fn of(entry: &KvEntry<'_>) -> Self {
        let level = u32::from(entry.level.min(LEVEL_MAX));
        let value = (entry.value.len() as u32) << Self::VALUE_SHIFT;
        Self(entry.name.len() as u32 | value | level << Self::LEVEL_SHIFT)
    }

    fn name_len(self) -> usize {
        (self.0 & Self::LEN_MASK) as usize
    }

    fn value_len(self) -> usize {
        (self.0 >> Self::VALUE_SHIFT & Self::LEN_MASK) as usize
    }

    fn level(self) -> u8 {
        (self.0 >> Self::LEVEL_SHIFT & 7) as u8
    }

    fn asked(self) -> u8 {
        (self.0 >> Self::ASKED_SHIFT & Self::ASKED_MASK) as u8
    }

    fn is_dead(self) -> bool {
        self.0 & Self::DEAD != 0
    }

    fn ring_bytes(self) -> usize {
        (HEAD_BYTES + self.name_len() + self.value_len()).next_multiple_of(WORD_BYTES)
    }

    fn asked_once_more(self) -> Self {
        let is_most = u32::from(self.asked()) == Self::ASKED_MASK;
        Self(if is_most { self.0 } else { self.0 + (1 << Self::ASKED_SHIFT) })
    }

    fn judged_once_more(self) -> Self {
        Self(if self.asked() == 0 { self.0 } else { self.0 - (1 << Self::ASKED_SHIFT) })
    }

    fn read(chunk: &[u8], at: usize) -> Self {
        Self(u32::from_le_bytes(*chunk[at..].first_chunk().expect("entries are whole")))
    }

    fn write(self, chunk: &mut [u8], at: usize) {
        chunk[at..at + WORD_BYTES].copy_from_slice(&self.0.to_le_bytes());
    }
}

// A length has to fit into its bits.
const _: () = assert!(ENTRY_BYTES_MAX <= Head::LEN_MASK as usize);

/// An entry that is being judged.
#[derive(Debug, Clone, Copy)]
struct Judged {
    worth: f32,
    hash: u64,
    place: u32,
    bytes: usize,
}

/// Entries of one shard.
#[derive(Debug)]
pub struct KvShard {
    /// Those not in use have no bytes.
    chunks: Vec<Box<[u8]>>,
    /// Chunks in use, the oldest first.
    order: VecDeque<u32>,
    /// The first free byte of the newest chunk.
    free: usize,
    table: Places,
    capacity: usize,
    price: f32,
}

impl KvShard {
    /// A shard of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            chunks: Vec::new(),
            order: VecDeque::new(),
            free: CHUNK_BYTES,
            table: Places::default(),
            capacity,
            price: 0.0,
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bound on the bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes allocated.
    pub fn charged_bytes(&self) -> usize {
        self.order.len() * CHUNK_BYTES + self.table.bytes()
    }

    /// What the best of those was worth that left last; what is worth less would be
    /// among the next to leave. 0 while there was room for all.
    pub fn price(&self) -> f32 {
        self.price
    }

    /// The entry under `name`; notes that it was asked for.
    pub fn get(&mut self, hash: u64, name: &[u8]) -> Option<KvEntry<'_>> {
        let place = self.find(hash, name)?;
        let (chunk, at) = split(place);
        let chunk = &mut self.chunks[chunk];
        Head::read(chunk, at).asked_once_more().write(chunk, at);
        Some(entry_at(chunk, at))
    }

    /// Whether there is an entry under `name`; notes nothing.
    pub fn contains(&self, hash: u64, name: &[u8]) -> bool {
        self.find(hash, name).is_some()
    }

    /// Puts `entry` in, in place of an older one of that name. One that is too large is
    /// not kept; the older one goes nevertheless.
    pub fn insert(&mut self, hash: u64, entry: KvEntry<'_>, judge: &mut impl Judge) {
        self.remove(hash, entry.name, judge);
        assert!(!entry.name.is_empty(), "an entry has a name");
        let bytes = entry.ring_bytes();
        let is_too_large = entry.name.len() + entry.value.len() > ENTRY_BYTES_MAX;
        if is_too_large || !self.make_room(bytes, judge) {
            return;
        }
        let newest = *self.order.back().expect("room was made in it");
        let at = self.free;
        self.free += bytes;
        let chunk = &mut self.chunks[newest as usize];
        end_chunk(chunk, self.free);
        Head::of(&entry).write(chunk, at);
        chunk[at + WORD_BYTES..at + HEAD_BYTES].copy_from_slice(&entry.stamp.to_le_bytes());
        let (name, value) = (at + HEAD_BYTES, at + HEAD_BYTES + entry.name.len());
        chunk[name..value].copy_from_slice(entry.name);
        chunk[value..value + entry.value.len()].copy_from_slice(entry.value);
        self.table.insert(hash, place(newest, at));
    }

    /// Takes the entry under `name` out; whether there was one.
    pub fn remove(&mut self, hash: u64, name: &[u8], judge: &impl Judge) -> bool {
        let Some(place) = self.find(hash, name) else { return false };
        let chunks = &self.chunks;
        self.table.remove(hash, place, |place| judge.hash(entry_of(chunks, place).name));
        let (chunk, at) = split(place);
        let chunk = &mut self.chunks[chunk];
        Head(Head::read(chunk, at).0 | Head::DEAD).write(chunk, at);
        true
    }

    /// Changes the capacity; what does not fit any more leaves, the worst first.
    pub fn set_capacity(&mut self, capacity: usize, judge: &mut impl Judge) {
        self.capacity = capacity;
        while self.charged_bytes() > self.capacity {
            if !self.give_up_chunk(judge) {
                break;
            }
        }
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.table.find(hash, |place| entry_of(&self.chunks, place).name == name)
    }

    /// Sees to it that `bytes` are free in the newest chunk and a place in the table;
    /// false when the capacity is too small for that.
    fn make_room(&mut self, bytes: usize, judge: &mut impl Judge) -> bool {
        while self.table.is_full() {
            // Its chunks, and one for the new entry.
            let chunks_bytes = self.order.len().max(1) * CHUNK_BYTES;
            if chunks_bytes + self.table.bytes_grown() <= self.capacity {
                let chunks = &self.chunks;
                self.table.grow(|place| judge.hash(entry_of(chunks, place).name));
            } else if self.order.is_empty() {
                return false;
            } else {
                self.give_up_chunk(judge);
            }
        }
        while self.order.is_empty() || self.free + bytes > CHUNK_BYTES {
            if self.charged_bytes() + CHUNK_BYTES <= self.capacity {
                self.add_chunk();
            } else if self.order.is_empty() {
                return false;
            } else {
                self.turn_over(judge);
            }
        }
        true
    }

    fn add_chunk(&mut self) {
        let unused = self.chunks.iter().position(|chunk| chunk.is_empty());
        let index = unused.unwrap_or_else(|| {
            self.chunks.push(Box::default());
            self.chunks.len() - 1
        });
        self.chunks[index] = vec![0; CHUNK_BYTES].into();
        self.order.push_back(index as u32);
        self.free = 0;
    }

    /// The worst quarter of the oldest chunk leaves, and it becomes the newest.
    fn turn_over(&mut self, judge: &mut impl Judge) {
        let Some(oldest) = self.order.pop_front() else { return };
        let staying = self.judge(&[oldest], CHUNK_BYTES - FREED_BYTES_MIN, judge);
        self.free = self.gather(oldest, 0, &staying);
        self.order.push_back(oldest);
    }

    /// Of the two oldest chunks what is worth most stays, in one; the other is given
    /// back. Whether there was anything to give up.
    fn give_up_chunk(&mut self, judge: &mut impl Judge) -> bool {
        let Some(first) = self.order.pop_front() else { return false };
        let Some(second) = self.order.pop_front() else {
            self.judge(&[first], 0, judge);
            self.chunks[first as usize] = Box::default();
            self.table = Places::default();
            return true;
        };
        let staying = self.judge(&[first, second], CHUNK_BYTES - FREED_BYTES_MIN, judge);
        let is_of_first = |judged: &Judged| split(judged.place).0 == first as usize;
        let (of_first, of_second): (Vec<_>, Vec<_>) = staying.into_iter().partition(is_of_first);
        let end = self.gather(first, 0, &of_first);
        self.free = self.gather(first, end, &of_second);
        self.chunks[second as usize] = Box::default();
        self.order.push_back(first);
        if self.table.is_sparse() {
            let chunks = &self.chunks;
            self.table.shrink(|place| judge.hash(entry_of(chunks, place).name));
        }
        true
    }

    /// Judges the entries of `chunks` and has the worst leave, until the others take
    /// at most `bytes_max`. Those that stay, in the order in which they stand.
    fn judge(&mut self, chunks: &[u32], bytes_max: usize, judge: &mut impl Judge) -> Vec<Judged> {
        let mut living = Vec::with_capacity(chunks.len() * 128);
        let mut bytes = 0;
        for &index in chunks {
            let chunk = &mut self.chunks[index as usize];
            let mut at = 0;
            while let Some(head) = head_at(chunk, at) {
                if !head.is_dead() {
                    let entry = entry_at(chunk, at);
                    let hash = judge.hash(entry.name);
                    let worth = judge.worth(hash, &entry, head.asked());
                    head.judged_once_more().write(chunk, at);
                    living.push(Judged {
                        worth,
                        hash,
                        place: place(index, at),
                        bytes: head.ring_bytes(),
                    });
                    bytes += head.ring_bytes();
                }
                at += head.ring_bytes();
            }
        }
        let mut by_worth: Vec<usize> = (0..living.len()).collect();
        by_worth.sort_by(|&a, &b| living[a].worth.total_cmp(&living[b].worth));
        let mut stays = vec![true; living.len()];
        for index in by_worth {
            if bytes <= bytes_max {
                break;
            }
            let Judged { worth, hash, place, bytes: freed } = living[index];
            let all = &self.chunks;
            self.table.remove(hash, place, |place| judge.hash(entry_of(all, place).name));
            judge.left(hash, freed + TABLE_BYTES_USUAL);
            self.price = worth;
            stays[index] = false;
            bytes -= freed;
        }
        let mut stays = stays.into_iter();
        living.retain(|_| stays.next() == Some(true));
        living
    }

    /// Moves entries to the place `end` and behind it in `target`; their end. Those of
    /// `target` itself stand in their order and behind `end`.
    fn gather(&mut self, target: u32, mut end: usize, entries: &[Judged]) -> usize {
        for judged in entries {
            let (source, at) = split(judged.place);
            if source == target as usize {
                self.chunks[source].copy_within(at..at + judged.bytes, end);
            } else {
                let from = std::mem::take(&mut self.chunks[source]);
                let to = &mut self.chunks[target as usize][end..end + judged.bytes];
                to.copy_from_slice(&from[at..at + judged.bytes]);
                self.chunks[source] = from;
            }
            self.table.replace(judged.hash, judged.place, place(target, end));
            end += judged.bytes;
        }
        end_chunk(&mut self.chunks[target as usize], end);
        end
    }
}

fn place(chunk: u32, at: usize) -> u32 {
    chunk * CHUNK_WORDS as u32 + (at / WORD_BYTES) as u32
}

/// Chunk and offset of a place.
fn split(place: u32) -> (usize, usize) {
    let place = place as usize;
    (place / CHUNK_WORDS, place % CHUNK_WORDS * WORD_BYTES)
}

/// Says that nothing stands at `at` and behind it.
fn end_chunk(chunk: &mut [u8], at: usize) {
    if at < CHUNK_BYTES {
        Head(0).write(chunk, at);
    }
}

/// The head of the entry at `at`, if there is one.
fn head_at(chunk: &[u8], at: usize) -> Option<Head> {
    (at < CHUNK_BYTES).then(|| Head::read(chunk, at)).filter(|head| head.name_len() > 0)
}

fn entry_of(chunks: &[Box<[u8]>], place: u32) -> KvEntry<'_> {
    let (chunk, at) = split(place);
    entry_at(&chunks[chunk], at)
}

fn entry_at(chunk: &[u8], at: usize) -> KvEntry<'_> {
    let head = Head::read(chunk, at);
    let stamp = chunk[at + WORD_BYTES..].first_chunk().expect("entries are whole");
    let (name, rest) = chunk[at + HEAD_BYTES..].split_at(head.name_len());
    KvEntry {
        name,
        stamp: u64::from_le_bytes(*stamp),
        value: &rest[..head.value_len()],
        level: head.level(),
    }
}

#[cfg(test)]
mod tests;
