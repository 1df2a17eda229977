//! Key-value entries in a ring of chunks: one shard of the KV component.
//!
//! ```text
//!      oldest chunk                               newest chunk
//!   ┌──────────────┐   ┌──────────────┐         ┌──────────────┐
//!   │ e  ✗  e  e   │ ► │ e  e  ✗  e   │ ► ... ► │ e  e │ free  │ ◄ inserts
//!   └──────────────┘   └──────────────┘         └──────────────┘
//!      │ the worst are evicted                      ▲
//!      └──── the others are compacted, and their chunks become the newest
//! ```
//!
//! Entries are packed in chunks without gaps, and a table of four-byte places indexes them. When
//! the newest chunk is full and no more chunks are allowed, the oldest one is scanned: its entries
//! are scored against each other (some hundred of them), the worst quarter is evicted, and with the
//! rest the chunk becomes the newest one. So a victim is old *and* worth less than its neighbours,
//! and no hit has to maintain an ordered list. Where even the worst quarter is worth much more than
//! the usual victims, the chunk is skipped: hot entries were often inserted together, and such a
//! chunk would lose a part of them in every cycle.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  from the lowest bit: bytes of the name (13 bits) and of the value (13),
//!               level (3), access count less eviction scans (2),
//!               dead (1)
//!      4     8  the caller's stamp (sequence and kind)
//!     12     -  name (the keyspace as a LEB128 number, then the key), then value, then up
//!               to 3 bytes to a multiple of 4
//!
//! A name is never empty: four bytes 0 in place of an entry end a chunk.
//! ```
//!
//! Guarantees:
//! 1. [`KvShard::charged_bytes`] is the allocation for chunks and table, and at most the capacity
//!    after every call.
//! 2. A lookup returns an entry as it was last inserted, or none.
//!
//! Besides name and value an entry takes 12 bytes, 1.5 on average for padding and 6 to 8 in the
//! table. Single-threaded.

use std::collections::VecDeque;

use crate::eviction::slot_table::SlotTable;
use crate::name::Name;

/// Largest chunk in bytes: large compared with an entry, and no larger than jemalloc allocates
/// without waste. From 16 KiB on it adds a page to each allocation, which is not charged.
pub const CHUNK_BYTES_MAX: usize = 14 << 10;
/// Smallest chunk in bytes: with fewer neighbours, a victim is too often not the worst.
pub const CHUNK_BYTES_MIN: usize = 8 << 10;
/// A chunk must lose this fraction of its bytes before it becomes the newest one again.
const FREED_SHARE: usize = 4;
/// Places count words of four bytes.
const WORD_BYTES: usize = 4;
/// Words from one chunk's places to the next one's.
const CHUNK_WORDS: usize = CHUNK_BYTES_MAX.next_power_of_two() / WORD_BYTES;
const CHUNKS_MAX: usize = (1 << u32::BITS) / CHUNK_WORDS;
const HEAD_BYTES: usize = 12;
/// Entries of about this number of bytes are scored against each other.
const POOL_BYTES: usize = 32 << 10;
/// Entries worth more than this multiple of the usual victims are not evicted while others can be
/// found.
const PRICE_RATIO_MAX: f32 = 2.0;
/// Weight of a new sample in the moving average of the victims' worth.
const PRICE_GAIN: f32 = 0.125;
/// Most pools scanned per eviction: a bound on the time under a shard's lock. A cycle of the ring
/// scans each pool once, whether it is skipped or not.
const POOLS_MAX: usize = 8;
/// A shard has at least this number of chunks, where chunks can be that small.
const CHUNKS_MIN: usize = 64;
/// Levels below this one count as this one.
pub const LEVEL_MAX: u8 = 7;

/// Average bytes of an entry in the table.
const DEFAULT_TABLE_BYTES: usize = 7;

/// A KV entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvEntry<'a> {
    /// The keyspace and key.
    pub name: Name<'a>,
    /// The caller's sequence number and kind.
    pub stamp: u64,
    /// The value.
    pub value: &'a [u8],
    /// The level on which it was found, which determines the storage I/Os that a hit saves: 0 to
    /// `LEVEL_MAX`.
    pub level: u8,
}

impl KvEntry<'_> {
    /// The bytes that it takes, on average.
    pub fn charge(&self) -> usize {
        self.ring_bytes() + DEFAULT_TABLE_BYTES
    }

    fn ring_bytes(&self) -> usize {
        (HEAD_BYTES + self.name.encoded_len() + self.value.len()).next_multiple_of(WORD_BYTES)
    }
}

/// Scores entries for eviction.
pub trait Scorer {
    /// The hash of entries with this name.
    fn hash(&self, name: Name<'_>) -> u64;

    /// The worth of the entry per byte; entries worth the least are evicted. `uses`: the access
    /// count less the eviction scans, 0 to 3.
    fn worth(&mut self, hash: u64, entry: &KvEntry<'_>, uses: u8) -> f32;

    /// Notifies that the entry was evicted.
    fn evicted(&mut self, hash: u64, charge: usize);
}

/// The first word of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head(u32);

impl Head {
    const LEN_MASK: u32 = (1 << 13) - 1;
    const VALUE_SHIFT: u32 = 13;
    const LEVEL_SHIFT: u32 = 26;
    const USES_SHIFT: u32 = 29;
    const USES_MASK: u32 = 3;
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

    fn uses(self) -> u8 {
        (self.0 >> Self::USES_SHIFT & Self::USES_MASK) as u8
    }

    fn is_dead(self) -> bool {
        self.0 & Self::DEAD != 0
    }

    fn ring_bytes(self) -> usize {
        (HEAD_BYTES + self.name_len() + self.value_len()).next_multiple_of(WORD_BYTES)
    }

    fn used_once_more(self) -> Self {
        let is_most = u32::from(self.uses()) == Self::USES_MASK;
        Self(if is_most { self.0 } else { self.0 + (1 << Self::USES_SHIFT) })
    }

    /// This head with the access count of `other`.
    fn with_uses_of(self, other: Self) -> Self {
        Self(self.0 | other.0 & Self::USES_MASK << Self::USES_SHIFT)
    }

    fn aged(self) -> Self {
        Self(if self.uses() == 0 { self.0 } else { self.0 - (1 << Self::USES_SHIFT) })
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

/// A scored entry.
#[derive(Debug, Clone, Copy)]
struct Scored {
    worth: f32,
    hash: u64,
    place: u32,
    bytes: usize,
}

/// The entries of one shard.
#[derive(Debug)]
pub struct KvShard {
    /// Unused chunks are empty.
    chunks: Vec<Box<[u8]>>,
    /// Chunks in use, the oldest first.
    order: VecDeque<u32>,
    /// The first free byte of the newest chunk.
    free: usize,
    table: SlotTable,
    /// Bytes per chunk.
    chunk_bytes: usize,
    capacity: usize,
    price: f32,
    /// Moving average of the best victim's worth.
    price_average: f32,
    /// Whether the oldest of the least used entries is evicted.
    by_age: bool,
}

impl KvShard {
    /// A shard of at most `capacity` bytes, sized for `bytes_expected`.
    pub fn new(capacity: usize, bytes_expected: usize) -> Self {
        let chunk_bytes = (bytes_expected / CHUNKS_MIN).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let chunk_bytes = chunk_bytes.next_power_of_two().min(CHUNK_BYTES_MAX);
        Self {
            chunks: Vec::new(),
            order: VecDeque::new(),
            free: chunk_bytes,
            table: SlotTable::default(),
            chunk_bytes,
            capacity,
            price: 0.0,
            price_average: 0.0,
            by_age: false,
        }
    }

    /// If `by_age`, evicts the oldest of the entries unused since the last eviction scan; otherwise
    /// by worth.
    pub fn set_by_age(&mut self, by_age: bool) {
        self.by_age = by_age;
        // It was in another unit.
        self.price_average = 0.0;
    }

    /// Largest name and value together in bytes: an eviction from one chunk makes room for it, and
    /// a larger entry is as well cached in its block.
    pub fn entry_bytes_max(&self) -> usize {
        self.chunk_bytes / FREED_SHARE - HEAD_BYTES
    }

    /// Whether an entry of that size can be cached.
    pub fn can_hold(&self, entry: &KvEntry<'_>) -> bool {
        entry.name.encoded_len() + entry.value.len() <= self.entry_bytes_max()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Allocated bytes.
    pub fn charged_bytes(&self) -> usize {
        self.order.len() * self.chunk_bytes + self.table.bytes()
    }

    /// The worth of the best entry of the last eviction; entries worth less would be evicted next.
    /// 0 while there was room for all.
    pub fn price(&self) -> f32 {
        self.price
    }

    /// The entry under `name`, and whether its access count is saturated.
    pub fn get<'a>(&'a mut self, hash: u64, name: Name<'a>) -> Option<(KvEntry<'a>, bool)> {
        let (chunk, at) = split(self.find(hash, name)?);
        let entry = &mut self.chunks[chunk][at..];
        let head = Head::read(entry, 0);
        let uses = head.used_once_more();
        if uses != head {
            uses.write(entry, 0);
        }
        Some((entry_of_name(name, head, entry), uses == head))
    }

    /// Whether there is an entry under `name`, without counting the access.
    pub fn contains(&self, hash: u64, name: Name<'_>) -> bool {
        self.find(hash, name).is_some()
    }

    /// Inserts `entry`, replacing an older one of that name. One that is too large is not cached;
    /// the older one is removed in any case.
    pub fn insert(&mut self, hash: u64, entry: KvEntry<'_>, scorer: &mut impl Scorer) {
        if let Some(place) = self.find(hash, entry.name) {
            if self.overwrite(place, &entry) {
                return;
            }
            self.take_out(hash, place, scorer);
        }
        assert!(!entry.name.key.is_empty(), "an entry has a name");
        let bytes = entry.ring_bytes();
        let name_bytes = entry.name.encoded_len();
        if !self.can_hold(&entry) || !self.make_room(bytes, scorer) {
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

    /// Whether another entry fits without an eviction now or soon: there are bytes for one more
    /// chunk. Free bytes in the newest chunk of a full shard do not count: evictions have freed
    /// them.
    pub fn has_room(&self) -> bool {
        // A growing table exists twice for a moment; only the larger one is charged.
        let is_table_full = self.table.is_full();
        let table = if is_table_full { self.table.bytes_grown() - self.table.bytes() } else { 0 };
        self.charged_bytes() + self.chunk_bytes + table <= self.capacity
    }

    /// Overwrites the value of the entry at `place` by that of `entry`, of the same name, if both
    /// are equally long; the access count stays.
    fn overwrite(&mut self, place: u32, entry: &KvEntry<'_>) -> bool {
        let (chunk, at) = split(place);
        let chunk = &mut self.chunks[chunk];
        let head = Head::read(chunk, at);
        let fits = head.value_len() == entry.value.len();
        if fits {
            Head::of(entry).with_uses_of(head).write(chunk, at);
            write_value(chunk, at, entry);
        }
        fits
    }

    /// Calls `see` for every entry, with its access count less the eviction scans.
    pub fn for_each_entry(&self, mut see: impl FnMut(KvEntry<'_>, u8)) {
        for &index in &self.order {
            let chunk = &self.chunks[index as usize];
            let mut at = 0;
            while let Some(head) = head_at(chunk, at) {
                if !head.is_dead() {
                    see(entry_at(chunk, at), head.uses());
                }
                at += head.ring_bytes();
            }
        }
    }

    /// Removes the entries for which `matches` is true.
    pub fn remove_where(&mut self, matches: impl Fn(&KvEntry<'_>) -> bool, scorer: &impl Scorer) {
        for index in self.order.clone() {
            let mut at = 0;
            while let Some(head) = head_at(&self.chunks[index as usize], at) {
                let entry = entry_at(&self.chunks[index as usize], at);
                if !head.is_dead() && matches(&entry) {
                    let hash = scorer.hash(entry.name);
                    self.take_out(hash, place(index, at), scorer);
                }
                at += head.ring_bytes();
            }
        }
    }

    /// Removes the entry under `name`; returns whether there was one.
    pub fn remove(&mut self, hash: u64, name: Name<'_>, scorer: &impl Scorer) -> bool {
        let Some(place) = self.find(hash, name) else { return false };
        self.take_out(hash, place, scorer);
        true
    }

    fn take_out(&mut self, hash: u64, place: u32, scorer: &impl Scorer) {
        let chunks = &self.chunks;
        self.table.remove(hash, place, |place| scorer.hash(entry_of(chunks, place).name));
        let (chunk, at) = split(place);
        let chunk = &mut self.chunks[chunk];
        Head(Head::read(chunk, at).0 | Head::DEAD).write(chunk, at);
    }

    /// Changes the capacity; entries that no longer fit are evicted, the worst first. A shard
    /// addresses at most 2^20 chunks.
    pub fn set_capacity(&mut self, capacity: usize, scorer: &mut impl Scorer) {
        self.capacity = capacity.min(CHUNKS_MAX * self.chunk_bytes);
        while self.charged_bytes() > self.capacity {
            if !self.free_chunk(scorer) {
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

    /// Frees `bytes` in the newest chunk and a slot in the table; false if the capacity is too
    /// small for that.
    fn make_room(&mut self, bytes: usize, scorer: &mut impl Scorer) -> bool {
        while self.table.is_full() {
            // The current chunks, and one for the new entry.
            let chunks_bytes = self.order.len().max(1) * self.chunk_bytes;
            if chunks_bytes + self.table.bytes_grown() <= self.capacity {
                let chunks = &self.chunks;
                self.table.grow(|place| scorer.hash(entry_of(chunks, place).name));
            } else if self.order.is_empty() {
                return false;
            } else {
                self.free_chunk(scorer);
            }
        }
        while self.order.is_empty() || self.free + bytes > self.chunk_bytes {
            if self.charged_bytes() + self.chunk_bytes <= self.capacity {
                self.add_chunk();
            } else if self.order.is_empty() {
                return false;
            } else {
                self.recycle_oldest(scorer);
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

    /// Evicts the worst quarter of the oldest chunks, which become the newest.
    fn recycle_oldest(&mut self, scorer: &mut impl Scorer) {
        let pool = (POOL_BYTES / self.chunk_bytes).clamp(1, self.order.len());
        self.renew(pool, pool, true, scorer);
    }

    /// Frees one of the oldest chunks; the most valuable entries stay in the others. Returns
    /// whether there was a chunk to free.
    fn free_chunk(&mut self, scorer: &mut impl Scorer) -> bool {
        let pool = (POOL_BYTES / self.chunk_bytes + 1).min(self.order.len());
        match pool {
            0 => return false,
            1 => {
                let only: Vec<u32> = self.order.drain(..).collect();
                let live = self.score_chunks(&only, false, scorer);
                let victims = worst(&live, 0);
                self.evict(live, &victims, scorer);
                self.chunks[only[0] as usize] = Box::default();
                self.table = SlotTable::default();
                return true;
            }
            _ => self.renew(pool, pool - 1, false, scorer),
        }
        if self.table.is_sparse() {
            let chunks = &self.chunks;
            self.table.shrink(|place| scorer.hash(entry_of(chunks, place).name));
        }
        true
    }

    /// Keeps the most valuable entries of `pool` old chunks in a row in at most `kept` chunks,
    /// which become the newest; a quarter of the last one is free. `ages`: whether the kept entries
    /// have survived another cycle.
    ///
    /// These are the oldest chunks, unless their victims would be worth much more than usual: then
    /// the chunks become the newest, and the next ones are scanned, [`POOLS_MAX`] pools in all, of
    /// which the last one is taken whatever it is worth.
    fn renew(&mut self, pool: usize, kept: usize, ages: bool, scorer: &mut impl Scorer) {
        let mut pools_left = (self.order.len() / pool).min(POOLS_MAX);
        let (chunks, live, victims) = loop {
            let chunks: Vec<u32> = self.order.drain(..pool).collect();
            let live = self.score_chunks(&chunks, ages, scorer);
            let victims = worst(&live, self.bytes_kept(pool, kept, &live));
            pools_left -= 1;
            // Chunks with enough dead entries need no eviction.
            let Some(price) = victims.last().map(|&last| live[last].worth) else {
                break (chunks, live, victims);
            };
            if pools_left == 0 || self.by_age || self.may_evict_at(price) {
                let gain = if self.price_average > 0.0 { PRICE_GAIN } else { 1.0 };
                self.price_average += (price - self.price_average) * gain;
                break (chunks, live, victims);
            }
            self.order.extend(chunks);
        };
        let staying = self.evict(live, &victims, scorer);
        // The entries are in order, so each moves towards the front or not at all.
        let (mut target, mut end) = (0, 0);
        for scored in &staying {
            if end + scored.bytes > self.chunk_bytes {
                end_chunk(&mut self.chunks[chunks[target] as usize], end);
                (target, end) = (target + 1, 0);
            }
            self.move_entry(scored, chunks[target], end);
            end += scored.bytes;
        }
        end_chunk(&mut self.chunks[chunks[target] as usize], end);
        self.free = end;
        self.order.extend(&chunks[..=target]);
        for &unused in &chunks[target + 1..] {
            self.chunks[unused as usize] = Box::default();
        }
    }

    /// Whether entries of that worth may be evicted.
    fn may_evict_at(&self, price: f32) -> bool {
        self.price_average <= 0.0 || price <= self.price_average * PRICE_RATIO_MAX
    }

    /// The bytes of entries from `pool` chunks that may stay in `kept` chunks.
    fn bytes_kept(&self, pool: usize, kept: usize, live: &[Scored]) -> usize {
        let largest = live.iter().map(|scored| scored.bytes).max().unwrap_or(0);
        let quarter = self.chunk_bytes / FREED_SHARE;
        // All chunks but the last are full except for less than an entry.
        let packed = kept * (self.chunk_bytes - largest) + largest - quarter;
        packed.min(pool * (self.chunk_bytes - quarter))
    }

    /// The live entries of `chunks`, in order. `ages`: decrement their access counts.
    fn score_chunks(
        &mut self,
        chunks: &[u32],
        ages: bool,
        scorer: &mut impl Scorer,
    ) -> Vec<Scored> {
        let mut live = Vec::with_capacity(chunks.len() * 128);
        for &index in chunks {
            let chunk = &mut self.chunks[index as usize];
            let mut at = 0;
            while let Some(head) = head_at(chunk, at) {
                if !head.is_dead() {
                    let entry = entry_at(chunk, at);
                    let hash = scorer.hash(entry.name);
                    let worth = match self.by_age {
                        true => f32::from(head.uses()),
                        false => scorer.worth(hash, &entry, head.uses()),
                    };
                    if ages {
                        head.aged().write(chunk, at);
                    }
                    let bytes = head.ring_bytes();
                    live.push(Scored { worth, hash, place: place(index, at), bytes });
                }
                at += head.ring_bytes();
            }
        }
        live
    }

    /// Evicts `victims`, the best of them last; returns the others of `live`.
    fn evict(
        &mut self,
        mut live: Vec<Scored>,
        victims: &[usize],
        scorer: &mut impl Scorer,
    ) -> Vec<Scored> {
        let mut stays = vec![true; live.len()];
        for &index in victims {
            let Scored { worth, hash, place, bytes } = live[index];
            let all = &self.chunks;
            self.table.remove(hash, place, |place| scorer.hash(entry_of(all, place).name));
            scorer.evicted(hash, bytes + DEFAULT_TABLE_BYTES);
            self.price = worth;
            stays[index] = false;
        }
        let mut stays = stays.into_iter();
        live.retain(|_| stays.next() == Some(true));
        live
    }

    /// Moves an entry to `at` in the chunk `target`, its own or an earlier one.
    fn move_entry(&mut self, scored: &Scored, target: u32, at: usize) {
        let (source, from) = split(scored.place);
        if source == target as usize {
            self.chunks[source].copy_within(from..from + scored.bytes, at);
        } else {
            let chunk = std::mem::take(&mut self.chunks[source]);
            let to = &mut self.chunks[target as usize][at..at + scored.bytes];
            to.copy_from_slice(&chunk[from..from + scored.bytes]);
            self.chunks[source] = chunk;
        }
        self.table.replace(scored.hash, scored.place, place(target, at));
    }
}

/// The entries of `live` to evict so that the others take at most `bytes_max`, the worst first.
fn worst(live: &[Scored], bytes_max: usize) -> Vec<usize> {
    let mut by_worth: Vec<usize> = (0..live.len()).collect();
    by_worth.sort_by(|&a, &b| live[a].worth.total_cmp(&live[b].worth));
    let mut bytes: usize = live.iter().map(|scored| scored.bytes).sum();
    let mut count = 0;
    while bytes > bytes_max {
        bytes -= live[by_worth[count]].bytes;
        count += 1;
    }
    by_worth.truncate(count);
    by_worth
}

fn place(chunk: u32, at: usize) -> u32 {
    chunk * CHUNK_WORDS as u32 + (at / WORD_BYTES) as u32
}

/// The chunk and offset of a place.
fn split(place: u32) -> (usize, usize) {
    let place = place as usize;
    (place / CHUNK_WORDS, place % CHUNK_WORDS * WORD_BYTES)
}

/// Ends the chunk at `at`.
fn end_chunk(chunk: &mut [u8], at: usize) {
    if at < chunk.len() {
        Head(0).write(chunk, at);
    }
}

/// The head of the entry at `at`, if there is one.
fn head_at(chunk: &[u8], at: usize) -> Option<Head> {
    (at < chunk.len()).then(|| Head::read(chunk, at)).filter(|head| head.name_len() > 0)
}

/// Writes stamp and value of the entry at `at`, whose lengths are written already.
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

/// The entry at the beginning of `bytes`, with its decoded name and head.
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

/// Makes the processor fetch the next two cache lines of an entry together with its first:
/// otherwise it would wait for each in sequence, as the name is compared before the value is read.
#[inline]
fn touch(entry: &[u8]) {
    for at in [64, 128] {
        std::hint::black_box(entry.get(at).copied());
    }
}

#[cfg(test)]
mod tests;
