//! Key-value entries in a ring of chunks: one shard of the KV component.
//!
//! ```text
//!      oldest chunk                               newest chunk
//!   ┌──────────────┐   ┌──────────────┐         ┌──────────────┐
//!   │ e  ✗  e  e   │ ► │ e  e  ✗  e   │ ► ... ► │ e  e │ free  │ ◄ new ones
//!   └──────────────┘   └──────────────┘         └──────────────┘
//!      │ the worst leave                            ▲
//!      └──── the others move up, and their chunks are the newest
//! ```
//!
//! Entries stand one behind the other in chunks, so that nothing is lost between them,
//! and a table of four-byte places finds them. When the newest chunk is full and there
//! may be no more of them, the oldest one is gone through: its entries are judged
//! against each other (some hundred of them), the worst quarter leaves, and with the
//! rest the chunk is the newest one. So what leaves is old *and* worth less than its
//! neighbours, and no list of entries has to be kept in order at each hit. Where even the
//! worst quarter is worth much more than what leaves elsewhere, the chunk is passed by: what
//! is hot came together when it was new, and would lose a part of itself at every turn.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  from the lowest bit: bytes of the name (13 bits) and of the value (13),
//!               level (3), how often asked for less how often judged (2),
//!               dead (1)
//!      4     8  the caller's stamp (sequence and kind)
//!     12     -  name (the keyspace as a LEB128 number, then the key), then value, then up
//!               to 3 bytes to a multiple of 4
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

use crate::eviction::places::Places;
use crate::name::Name;

/// Bytes of a chunk at most: large beside an entry, and no more than jemalloc gives without
/// waste. From 16 KiB on it adds a page to what it is asked for, which nobody is charged.
pub const CHUNK_BYTES_MAX: usize = 14 << 10;
/// And at least: with fewer neighbours, one that leaves is too often not the worst.
pub const CHUNK_BYTES_MIN: usize = 8 << 10;
/// What must leave a chunk for it to be the newest one again is its bytes by this.
const FREED_SHARE: usize = 4;
/// Places count words of four bytes.
const WORD_BYTES: usize = 4;
/// From one chunk's places to the next one's.
const CHUNK_WORDS: usize = CHUNK_BYTES_MAX.next_power_of_two() / WORD_BYTES;
const CHUNKS_MAX: usize = (1 << u32::BITS) / CHUNK_WORDS;
const HEAD_BYTES: usize = 12;
/// Entries of so many bytes are judged against each other.
const POOL_BYTES: usize = 32 << 10;
/// What is worth so many times as much as what leaves usually does not leave, while others
/// can be found.
const PRICE_UNUSUAL: f32 = 2.0;
/// How fast the usual follows.
const PRICE_GAIN: f32 = 0.125;
/// Pools that are looked at, at most: a bound on the time under a shard's lock. A turn round
/// the ring looks at each once, whether it is passed by or not.
const POOLS_MAX: usize = 8;
/// A shard has at least so many chunks where they can be so small.
const CHUNKS_MIN: usize = 64;
/// Levels below this count as this.
pub const LEVEL_MAX: u8 = 7;

/// What an entry takes in the table on average.
const TABLE_BYTES_USUAL: usize = 7;

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvEntry<'a> {
    /// What it is found by.
    pub name: Name<'a>,
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
        (HEAD_BYTES + self.name.encoded_len() + self.value.len()).next_multiple_of(WORD_BYTES)
    }
}

/// Decides about entries.
pub trait Judge {
    /// The hash that entries of this name are found by.
    fn hash(&self, name: Name<'_>) -> u64;

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
        Self(entry.name.encoded_len() as u32 | value | level << Self::LEVEL_SHIFT)
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

    /// This one, asked for as often as `other`.
    fn asked_as(self, other: Self) -> Self {
        Self(self.0 | other.0 & Self::ASKED_MASK << Self::ASKED_SHIFT)
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
const _: () = assert!(CHUNK_BYTES_MAX / FREED_SHARE <= Head::LEN_MASK as usize);

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
    /// Bytes of a chunk.
    chunk_bytes: usize,
    capacity: usize,
    price: f32,
    /// What the best of those is worth that leave, on average.
    price_usual: f32,
    /// Whether the oldest leaves of those least asked for.
    by_age: bool,
}

impl KvShard {
    /// A shard of at most `capacity` bytes, made for one of `bytes_usual`.
    pub fn new(capacity: usize, bytes_usual: usize) -> Self {
        let chunk_bytes = (bytes_usual / CHUNKS_MIN).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let chunk_bytes = chunk_bytes.next_power_of_two().min(CHUNK_BYTES_MAX);
        Self {
            chunks: Vec::new(),
            order: VecDeque::new(),
            free: chunk_bytes,
            table: Places::default(),
            chunk_bytes,
            capacity,
            price: 0.0,
            price_usual: 0.0,
            by_age: false,
        }
    }

    /// From now on the oldest leaves of those that were not asked for since they last stood
    /// to leave, or what is worth least.
    pub fn set_by_age(&mut self, by_age: bool) {
        self.by_age = by_age;
        // It was of another unit.
        self.price_usual = 0.0;
    }

    /// The longest name and value together that are kept: what has left a chunk makes
    /// room for it, and a larger one is as well kept in its block.
    pub fn entry_bytes_max(&self) -> usize {
        self.chunk_bytes / FREED_SHARE - HEAD_BYTES
    }

    /// Whether it would keep an entry of that size at all.
    pub fn can_hold(&self, entry: &KvEntry<'_>) -> bool {
        entry.name.encoded_len() + entry.value.len() <= self.entry_bytes_max()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The bound on the bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes allocated.
    pub fn charged_bytes(&self) -> usize {
        self.order.len() * self.chunk_bytes + self.table.bytes()
    }

    /// What the best of those was worth that left last; what is worth less would be
    /// among the next to leave. 0 while there was room for all.
    pub fn price(&self) -> f32 {
        self.price
    }

    /// The entry under `name`, and whether it was asked for so often that this cannot be
    /// noted any more.
    pub fn get<'a>(&'a mut self, hash: u64, name: Name<'a>) -> Option<(KvEntry<'a>, bool)> {
        let (chunk, at) = split(self.find(hash, name)?);
        let entry = &mut self.chunks[chunk][at..];
        let head = Head::read(entry, 0);
        let asked = head.asked_once_more();
        if asked != head {
            asked.write(entry, 0);
        }
        Some((entry_of_name(name, head, entry), asked == head))
    }

    /// Whether there is an entry under `name`; notes nothing.
    pub fn contains(&self, hash: u64, name: Name<'_>) -> bool {
        self.find(hash, name).is_some()
    }

    /// Puts `entry` in, in place of an older one of that name. One that is too large is
    /// not kept; the older one goes nevertheless.
    pub fn insert(&mut self, hash: u64, entry: KvEntry<'_>, judge: &mut impl Judge) {
        if let Some(place) = self.find(hash, entry.name) {
            if self.overwrite(place, &entry) {
                return;
            }
            self.take_out(hash, place, judge);
        }
        assert!(!entry.name.key.is_empty(), "an entry has a name");
        let bytes = entry.ring_bytes();
        let name_bytes = entry.name.encoded_len();
        if !self.can_hold(&entry) || !self.make_room(bytes, judge) {
            return;
        }
        let newest = *self.order.back().expect("room was made in it");
        let at = self.free;
        self.free += bytes;
        let chunk = &mut self.chunks[newest as usize];
        end_chunk(chunk, self.free);
        Head::of(&entry).write(chunk, at);
        let (name, value) = (at + HEAD_BYTES, at + HEAD_BYTES + name_bytes);
        entry.name.encode(&mut chunk[name..value]);
        write_value(chunk, at, &entry);
        self.table.insert(hash, place(newest, at));
    }

    /// Whether another entry could come in without any leaving for it, now or soon: there
    /// are bytes for one more chunk. What is free in the newest chunk of a full shard was
    /// made free by others that left.
    pub fn has_room(&self) -> bool {
        // A table that grows is there twice for a moment; that is not what is charged.
        let is_table_full = self.table.is_full();
        let table = if is_table_full { self.table.bytes_grown() - self.table.bytes() } else { 0 };
        self.charged_bytes() + self.chunk_bytes + table <= self.capacity
    }

    /// Gives the entry that stands at `place` the value of another of its name, if that
    /// is as long; how often it was asked for stays.
    fn overwrite(&mut self, place: u32, entry: &KvEntry<'_>) -> bool {
        let (chunk, at) = split(place);
        let chunk = &mut self.chunks[chunk];
        let head = Head::read(chunk, at);
        let fits = head.value_len() == entry.value.len();
        if fits {
            Head::of(entry).asked_as(head).write(chunk, at);
            write_value(chunk, at, entry);
        }
        fits
    }

    /// Has `see` look at every entry, with how often it was asked for, less how often
    /// judged.
    pub fn look_at_all(&self, mut see: impl FnMut(KvEntry<'_>, u8)) {
        for &index in &self.order {
            let chunk = &self.chunks[index as usize];
            let mut at = 0;
            while let Some(head) = head_at(chunk, at) {
                if !head.is_dead() {
                    see(entry_at(chunk, at), head.asked());
                }
                at += head.ring_bytes();
            }
        }
    }

    /// Takes out the entries of which `is_it` is true.
    pub fn remove_where(&mut self, is_it: impl Fn(&KvEntry<'_>) -> bool, judge: &impl Judge) {
        for index in self.order.clone() {
            let mut at = 0;
            while let Some(head) = head_at(&self.chunks[index as usize], at) {
                let entry = entry_at(&self.chunks[index as usize], at);
                if !head.is_dead() && is_it(&entry) {
                    let hash = judge.hash(entry.name);
                    self.take_out(hash, place(index, at), judge);
                }
                at += head.ring_bytes();
            }
        }
    }

    /// Takes the entry under `name` out; whether there was one.
    pub fn remove(&mut self, hash: u64, name: Name<'_>, judge: &impl Judge) -> bool {
        let Some(place) = self.find(hash, name) else { return false };
        self.take_out(hash, place, judge);
        true
    }

    fn take_out(&mut self, hash: u64, place: u32, judge: &impl Judge) {
        let chunks = &self.chunks;
        self.table.remove(hash, place, |place| judge.hash(entry_of(chunks, place).name));
        let (chunk, at) = split(place);
        let chunk = &mut self.chunks[chunk];
        Head(Head::read(chunk, at).0 | Head::DEAD).write(chunk, at);
    }

    /// Changes the capacity; what does not fit any more leaves, the worst first. A shard
    /// has no places for more than 2^20 chunks.
    pub fn set_capacity(&mut self, capacity: usize, judge: &mut impl Judge) {
        self.capacity = capacity.min(CHUNKS_MAX * self.chunk_bytes);
        while self.charged_bytes() > self.capacity {
            if !self.give_up_chunk(judge) {
                break;
            }
        }
    }

    fn find(&self, hash: u64, name: Name<'_>) -> Option<u32> {
        self.table.find(hash, |place| {
            let (chunk, at) = split(place);
            let entry = &self.chunks[chunk][at..];
            touch(entry);
            let name_len = Head::read(entry, 0).name_len();
            name.is_encoded_as(&entry[HEAD_BYTES..HEAD_BYTES + name_len])
        })
    }

    /// Sees to it that `bytes` are free in the newest chunk and a place in the table;
    /// false when the capacity is too small for that.
    fn make_room(&mut self, bytes: usize, judge: &mut impl Judge) -> bool {
        while self.table.is_full() {
            // Its chunks, and one for the new entry.
            let chunks_bytes = self.order.len().max(1) * self.chunk_bytes;
            if chunks_bytes + self.table.bytes_grown() <= self.capacity {
                let chunks = &self.chunks;
                self.table.grow(|place| judge.hash(entry_of(chunks, place).name));
            } else if self.order.is_empty() {
                return false;
            } else {
                self.give_up_chunk(judge);
            }
        }
        while self.order.is_empty() || self.free + bytes > self.chunk_bytes {
            if self.charged_bytes() + self.chunk_bytes <= self.capacity {
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
        self.chunks[index] = vec![0; self.chunk_bytes].into();
        self.order.push_back(index as u32);
        self.free = 0;
    }

    /// The worst quarter of the oldest chunks leaves, and they become the newest.
    fn turn_over(&mut self, judge: &mut impl Judge) {
        let pool = (POOL_BYTES / self.chunk_bytes).clamp(1, self.order.len());
        self.renew(pool, pool, true, judge);
    }

    /// Of the oldest chunks one is given back; what is worth most stays in the others.
    /// Whether there was anything to give up.
    fn give_up_chunk(&mut self, judge: &mut impl Judge) -> bool {
        let pool = (POOL_BYTES / self.chunk_bytes + 1).min(self.order.len());
        match pool {
            0 => return false,
            1 => {
                let only: Vec<u32> = self.order.drain(..).collect();
                let living = self.examine(&only, false, judge);
                let leaving = worst(&living, 0);
                self.dismiss(living, &leaving, judge);
                self.chunks[only[0] as usize] = Box::default();
                self.table = Places::default();
                return true;
            }
            _ => self.renew(pool, pool - 1, false, judge),
        }
        if self.table.is_sparse() {
            let chunks = &self.chunks;
            self.table.shrink(|place| judge.hash(entry_of(chunks, place).name));
        }
        true
    }

    /// What is worth most of some old chunks, `pool` in a row, stays, in at most `kept`
    /// chunks, which become the newest; a quarter of the last one is free.
    /// `ages`: whether what stays has stood another turn.
    ///
    /// They are the oldest ones, unless what would leave them is worth much more than what
    /// leaves usually: then they are the newest, and those behind them are looked at,
    /// [`POOLS_MAX`] pools in all, of which the last one is taken whatever it is worth.
    fn renew(&mut self, pool: usize, kept: usize, ages: bool, judge: &mut impl Judge) {
        let mut looks = (self.order.len() / pool).min(POOLS_MAX);
        let (chunks, living, leaving) = loop {
            let chunks: Vec<u32> = self.order.drain(..pool).collect();
            let living = self.examine(&chunks, ages, judge);
            let leaving = worst(&living, self.bytes_kept(pool, kept, &living));
            looks -= 1;
            // From where enough is dead already nothing has to leave.
            let Some(price) = leaving.last().map(|&last| living[last].worth) else {
                break (chunks, living, leaving);
            };
            if looks == 0 || self.by_age || self.is_usual(price) {
                let gain = if self.price_usual > 0.0 { PRICE_GAIN } else { 1.0 };
                self.price_usual += (price - self.price_usual) * gain;
                break (chunks, living, leaving);
            }
            self.order.extend(chunks);
        };
        let staying = self.dismiss(living, &leaving, judge);
        // They stand in their order, so each moves towards the front or not at all.
        let (mut target, mut end) = (0, 0);
        for judged in &staying {
            if end + judged.bytes > self.chunk_bytes {
                end_chunk(&mut self.chunks[chunks[target] as usize], end);
                (target, end) = (target + 1, 0);
            }
            self.move_entry(judged, chunks[target], end);
            end += judged.bytes;
        }
        end_chunk(&mut self.chunks[chunks[target] as usize], end);
        self.free = end;
        self.order.extend(&chunks[..=target]);
        for &unused in &chunks[target + 1..] {
            self.chunks[unused as usize] = Box::default();
        }
    }

    /// Whether something of that worth may leave.
    fn is_usual(&self, price: f32) -> bool {
        self.price_usual <= 0.0 || price <= self.price_usual * PRICE_UNUSUAL
    }

    /// The bytes that may stay of entries in `pool` chunks if they are to stand in `kept`.
    fn bytes_kept(&self, pool: usize, kept: usize, living: &[Judged]) -> usize {
        let largest = living.iter().map(|judged| judged.bytes).max().unwrap_or(0);
        let quarter = self.chunk_bytes / FREED_SHARE;
        // All chunks but the last are full but for less than an entry.
        let packed = kept * (self.chunk_bytes - largest) + largest - quarter;
        packed.min(pool * (self.chunk_bytes - quarter))
    }

    /// The living entries of `chunks`, in their order. `ages`: they have been judged once
    /// more.
    fn examine(&mut self, chunks: &[u32], ages: bool, judge: &mut impl Judge) -> Vec<Judged> {
        let mut living = Vec::with_capacity(chunks.len() * 128);
        for &index in chunks {
            let chunk = &mut self.chunks[index as usize];
            let mut at = 0;
            while let Some(head) = head_at(chunk, at) {
                if !head.is_dead() {
                    let entry = entry_at(chunk, at);
                    let hash = judge.hash(entry.name);
                    let worth = match self.by_age {
                        true => f32::from(head.asked()),
                        false => judge.worth(hash, &entry, head.asked()),
                    };
                    if ages {
                        head.judged_once_more().write(chunk, at);
                    }
                    let bytes = head.ring_bytes();
                    living.push(Judged { worth, hash, place: place(index, at), bytes });
                }
                at += head.ring_bytes();
            }
        }
        living
    }

    /// Has `leaving` leave, the last of them the best; the others of `living`.
    fn dismiss(
        &mut self,
        mut living: Vec<Judged>,
        leaving: &[usize],
        judge: &mut impl Judge,
    ) -> Vec<Judged> {
        let mut stays = vec![true; living.len()];
        for &index in leaving {
            let Judged { worth, hash, place, bytes } = living[index];
            let all = &self.chunks;
            self.table.remove(hash, place, |place| judge.hash(entry_of(all, place).name));
            judge.left(hash, bytes + TABLE_BYTES_USUAL);
            self.price = worth;
            stays[index] = false;
        }
        let mut stays = stays.into_iter();
        living.retain(|_| stays.next() == Some(true));
        living
    }

    /// Moves an entry to `at` in the chunk `target`, its own or one that comes before.
    fn move_entry(&mut self, judged: &Judged, target: u32, at: usize) {
        let (source, from) = split(judged.place);
        if source == target as usize {
            self.chunks[source].copy_within(from..from + judged.bytes, at);
        } else {
            let chunk = std::mem::take(&mut self.chunks[source]);
            let to = &mut self.chunks[target as usize][at..at + judged.bytes];
            to.copy_from_slice(&chunk[from..from + judged.bytes]);
            self.chunks[source] = chunk;
        }
        self.table.replace(judged.hash, judged.place, place(target, at));
    }
}

/// Which of `living` have to leave so that the others take at most `bytes_max`, the worst
/// first.
fn worst(living: &[Judged], bytes_max: usize) -> Vec<usize> {
    let mut by_worth: Vec<usize> = (0..living.len()).collect();
    by_worth.sort_by(|&a, &b| living[a].worth.total_cmp(&living[b].worth));
    let mut bytes: usize = living.iter().map(|judged| judged.bytes).sum();
    let mut count = 0;
    while bytes > bytes_max {
        bytes -= living[by_worth[count]].bytes;
        count += 1;
    }
    by_worth.truncate(count);
    by_worth
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
    if at < chunk.len() {
        Head(0).write(chunk, at);
    }
}

/// The head of the entry at `at`, if there is one.
fn head_at(chunk: &[u8], at: usize) -> Option<Head> {
    (at < chunk.len()).then(|| Head::read(chunk, at)).filter(|head| head.name_len() > 0)
}

/// Writes stamp and value of the entry at `at`, whose lengths stand there.
fn write_value(chunk: &mut [u8], at: usize, entry: &KvEntry<'_>) {
    chunk[at + WORD_BYTES..at + HEAD_BYTES].copy_from_slice(&entry.stamp.to_le_bytes());
    let value = at + HEAD_BYTES + entry.name.encoded_len();
    chunk[value..value + entry.value.len()].copy_from_slice(entry.value);
}

fn entry_of(chunks: &[Box<[u8]>], place: u32) -> KvEntry<'_> {
    let (chunk, at) = split(place);
    entry_at(&chunks[chunk], at)
}

fn entry_at(chunk: &[u8], at: usize) -> KvEntry<'_> {
    let entry = &chunk[at..];
    let head = Head::read(entry, 0);
    let name = Name::decode(&entry[HEAD_BYTES..HEAD_BYTES + head.name_len()]);
    entry_of_name(name, head, entry)
}

/// The entry at the beginning of `bytes`, whose name and head are known.
fn entry_of_name<'a>(name: Name<'a>, head: Head, bytes: &'a [u8]) -> KvEntry<'a> {
    let stamp = bytes[WORD_BYTES..].first_chunk().expect("entries are whole");
    let value = HEAD_BYTES + head.name_len();
    KvEntry {
        name,
        stamp: u64::from_le_bytes(*stamp),
        value: &bytes[value..value + head.value_len()],
        level: head.level(),
    }
}

/// Has the processor fetch the next two cache lines of an entry together with its first: it
/// would wait for each in turn, as its name is compared before its value is read.
#[inline]
fn touch(entry: &[u8]) {
    for at in [64, 128] {
        std::hint::black_box(entry.get(at).copied());
    }
}

#[cfg(test)]
mod tests;
