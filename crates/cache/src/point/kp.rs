//! Key-pointer entries of sixteen bytes: one shard of the KP component.
//!
//! An entry holds the block of a key and the key's position in it. The key itself is not stored: 32
//! bits of its hash identify it. The reader reads the block and compares the key at that position;
//! another key with the same fingerprint has another position, so it cannot match the entry by
//! mistake, whatever else the block holds of it. AC-Key (section 4.1) stores the key and a pointer
//! of 24 bytes; here an entry is
//!
//! ```text
//! WORD  BITS  MEANING
//!    0    32  fingerprint: the lower half of the hash; its lower bits select the bucket
//!    0    32  table
//!    1    32  offset of the block in the table
//!    1     1  whether the block is a long one
//!    1    26  bytes of the block and position in it: 17 and 9 bits; 22 and 4 of a long
//!             one
//!    1     2  access count, decremented by each eviction scan
//!    1     3  level of the tree
//! ```
//!
//! An empty slot is all zero (no block has 0 bytes). Eight entries form a bucket. The number of
//! buckets is arbitrary, by linear hashing (Litwin, "Linear hashing: a new tool for file and table
//! addressing", 1980): adding a bucket splits one, removing a bucket joins two, and entries that do
//! not fit are evicted. So the shard grows and shrinks bucket by bucket, and a split needs only the
//! fingerprints. Buckets are allocated eight at a time (1 KiB): with 4 KiB, a twenty-fifth of a
//! cache of 100 KiB could be empty.
//!
//! Guarantees:
//! 1. [`KpShard::charged_bytes`] is at least the allocated bytes, and at most the capacity.
//! 2. There is at most one entry per fingerprint. So an update or removal under a hash leaves no
//!    older entry that another lookup of that key could find.
//!
//! Single-threaded.

/// Entries per bucket: two cache lines of the processor.
const BUCKET: usize = 8;
/// Buckets per allocation.
const CHUNK_BUCKETS: usize = 8;
/// The list of chunks may have this multiple of the slots that it needs.
const LIST_SLACK: usize = 2;
/// The charge of a chunk: its buckets and its slots in the list.
const CHUNK_BYTES: usize = CHUNK_BUCKETS * BUCKET_BYTES + LIST_SLACK * size_of::<usize>();
/// Average entries per bucket beyond which the shard grows, if it may: fuller buckets evict entries
/// while there is room elsewhere.
const LOAD_MAX: usize = 3;
/// Bytes per entry.
pub const ENTRY_BYTES: usize = size_of::<Slot>();
const BUCKET_BYTES: usize = BUCKET * ENTRY_BYTES;
/// Levels below this one count as this one.
pub const LEVEL_MAX: u8 = 7;

const OFFSET_BITS: u32 = 32;
const SPOT_BITS: u32 = 26;
/// Of these, the bits of the length: of a block of normal size, and of a long one.
const LEN_BITS: [u32; 2] = [17, 22];
const LONG: u64 = 1 << OFFSET_BITS;
const SPOT_SHIFT: u32 = OFFSET_BITS + 1;
const USES_SHIFT: u32 = SPOT_SHIFT + SPOT_BITS;
const USES_MASK: u64 = 3;
const LEVEL_SHIFT: u32 = USES_SHIFT + 2;

const _: () = assert!(ENTRY_BYTES == 16 && LEVEL_SHIFT + 3 == 64);

/// The location of a key's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// The table; pointers to tables beyond 2^32 are not stored.
    pub table: u64,
    /// Offset of the block in it; must be below 2^32 to be stored.
    pub offset: u64,
    /// Length of the block in bytes; must be 1 to 2^22 - 1 to be stored.
    pub len: u32,
    /// Number of entries before it in the block. Stored up to 511, and up to 15 in a block of 128
    /// KiB or more, where entries are large.
    pub position: u32,
}

/// A pointer and the level of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KpEntry {
    /// The location of the key's entry.
    pub pointer: Pointer,
    /// The level on which it was found, which determines the storage I/Os that a hit saves: 0 to
    /// [`LEVEL_MAX`].
    pub level: u8,
}

/// Scores entries for eviction.
pub trait Scorer {
    /// The worth of the entry; the entry of a bucket that is worth the least is evicted. `hash` is
    /// the lower half of the key's, `uses` the access count less the eviction scans, 0 to 3.
    fn worth(&mut self, hash: u32, entry: &KpEntry, uses: u8) -> f32;

    /// Notifies that the entry was evicted.
    fn evicted(&mut self, hash: u32);
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    name: u64,
    place: u64,
}

impl Slot {
    fn new(fingerprint: u32, entry: &KpEntry) -> Option<Self> {
        let Pointer { table, offset, len, position } = entry.pointer;
        let is_long = len >> LEN_BITS[0] != 0;
        let len_bits = LEN_BITS[usize::from(is_long)];
        let fits = table <= u64::from(u32::MAX) && offset >> OFFSET_BITS == 0;
        if !fits || len == 0 || len >> len_bits != 0 || position >> (SPOT_BITS - len_bits) != 0 {
            return None;
        }
        let level = u64::from(entry.level.min(LEVEL_MAX));
        let long = if is_long { LONG } else { 0 };
        let spot = u64::from(len) | u64::from(position) << len_bits;
        Some(Self {
            name: u64::from(fingerprint) | table << 32,
            place: offset | long | spot << SPOT_SHIFT | level << LEVEL_SHIFT,
        })
    }

    fn is_empty(&self) -> bool {
        self.place == 0
    }

    fn fingerprint(&self) -> u32 {
        self.name as u32
    }

    fn uses(&self) -> u8 {
        (self.place >> USES_SHIFT & USES_MASK) as u8
    }

    fn uses_bits(&self) -> u64 {
        self.place & USES_MASK << USES_SHIFT
    }

    fn note_use(&mut self) {
        if self.place >> USES_SHIFT & USES_MASK < USES_MASK {
            self.place += 1 << USES_SHIFT;
        }
    }

    fn age(&mut self) {
        if self.uses() > 0 {
            self.place -= 1 << USES_SHIFT;
        }
    }

    fn entry(&self) -> KpEntry {
        let len_bits = LEN_BITS[usize::from(self.place & LONG != 0)];
        let spot = (self.place >> SPOT_SHIFT) as u32 & ((1 << SPOT_BITS) - 1);
        KpEntry {
            pointer: Pointer {
                table: self.name >> 32,
                offset: self.place & ((1 << OFFSET_BITS) - 1),
                len: spot & ((1 << len_bits) - 1),
                position: spot >> len_bits,
            },
            level: (self.place >> LEVEL_SHIFT) as u8,
        }
    }
}

/// Eight entries, unordered.
type Bucket = [Slot; BUCKET];

/// The entries of one shard.
#[derive(Debug)]
pub struct KpShard {
    #[expect(clippy::vec_box, reason = "the list of chunks grows without moving their content")]
    chunks: Vec<Box<[Bucket; CHUNK_BUCKETS]>>,
    /// Used buckets.
    buckets: usize,
    len: usize,
    capacity: usize,
    /// Whether every entry is admitted, and the oldest of the least used ones is evicted.
    by_age: bool,
}

impl KpShard {
    /// A shard of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { chunks: Vec::new(), buckets: 0, len: 0, capacity, by_age: false }
    }

    /// If `by_age`, admits every entry and evicts the oldest of those unused since the last
    /// eviction scan; otherwise by worth.
    pub fn set_by_age(&mut self, by_age: bool) {
        self.by_age = by_age;
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Charged bytes: at least the allocated ones.
    pub fn charged_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES
    }

    /// Whether the shard could grow by a chunk.
    pub fn has_room(&self) -> bool {
        self.charged_bytes() + CHUNK_BYTES <= self.capacity
    }

    /// The bytes that are allocated for entries.
    #[cfg(test)]
    fn allocated_bytes(&self) -> usize {
        self.chunks.len() * size_of::<[Bucket; CHUNK_BUCKETS]>()
            + self.chunks.capacity() * size_of::<usize>()
    }

    /// Whether another bucket is possible.
    pub fn can_grow(&self) -> bool {
        self.buckets < self.chunks.len() * CHUNK_BUCKETS
            || (self.chunks.len() + 1) * CHUNK_BYTES <= self.capacity
    }

    /// The entry under `hash`, possibly that of another key; counts the access.
    pub fn get(&mut self, hash: u32) -> Option<KpEntry> {
        let slot = self.find(hash)?;
        slot.note_use();
        Some(slot.entry())
    }

    /// The entry under `hash`, without counting the access.
    pub fn peek(&mut self, hash: u32) -> Option<KpEntry> {
        self.find(hash).map(|slot| slot.entry())
    }

    /// Inserts `entry`, replacing the one under `hash`, unless it is worth less than all entries
    /// that it could replace: then it counts as evicted. A pointer that does not fit into a slot is
    /// not stored either; the older one is removed in any case.
    pub fn insert(&mut self, hash: u32, entry: KpEntry, scorer: &mut impl Scorer) {
        self.remove(hash);
        let Some(slot) = Slot::new(hash, &entry) else { return };
        if self.len >= self.buckets * LOAD_MAX {
            self.grow();
        }
        if self.buckets == 0 {
            return scorer.evicted(hash);
        }
        let (index, by_age) = (self.index(hash), self.by_age);
        let bucket = self.bucket(index);
        let free = match bucket.iter().position(Slot::is_empty) {
            Some(free) => free,
            None => {
                let (worst, worth) = score_all(bucket, by_age, scorer);
                if !by_age && scorer.worth(hash, &entry, 0) < worth {
                    return scorer.evicted(hash);
                }
                scorer.evicted(bucket[worst].fingerprint());
                let free = if by_age { BUCKET - 1 } else { worst };
                bucket[worst..=free.max(worst)].rotate_left(1);
                self.len -= 1;
                free
            }
        };
        self.bucket(index)[free] = slot;
        self.len += 1;
    }

    /// Replaces the entry under `hash` by `entry`; returns whether there was one. If `entry` does
    /// not fit into a slot, the old one is removed.
    pub fn redirect(&mut self, hash: u32, entry: KpEntry) -> bool {
        let Some(slot) = self.find(hash) else { return false };
        match Slot::new(hash, &entry) {
            Some(new) => *slot = Slot { place: new.place | slot.uses_bits(), ..new },
            None => {
                self.remove(hash);
            }
        }
        true
    }

    /// All entries with their fingerprints, unordered.
    pub fn iter(&self) -> impl Iterator<Item = (u32, KpEntry)> {
        let buckets = self.chunks.iter().flat_map(|chunk| chunk.iter());
        let slots = buckets.flatten().filter(|slot| !slot.is_empty());
        slots.map(|slot| (slot.fingerprint(), slot.entry()))
    }

    /// Removes the entries for which `matches` is true.
    pub fn remove_where(&mut self, matches: impl Fn(&KpEntry) -> bool) {
        let buckets = self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut());
        for slot in buckets.flatten() {
            if !slot.is_empty() && matches(&slot.entry()) {
                *slot = Slot::default();
                self.len -= 1;
            }
        }
    }

    /// Removes the entry under `hash`; returns whether there was one.
    pub fn remove(&mut self, hash: u32) -> bool {
        let found = self.find(hash).map(std::mem::take).is_some();
        self.len -= usize::from(found);
        found
    }

    /// Changes the capacity; the worst entries that no longer fit are evicted.
    pub fn set_capacity(&mut self, capacity: usize, scorer: &mut impl Scorer) {
        self.capacity = capacity;
        let chunks = capacity / CHUNK_BYTES;
        while self.buckets > chunks * CHUNK_BUCKETS {
            self.join_last(scorer);
        }
        self.chunks.truncate(chunks);
        self.chunks.shrink_to(LIST_SLACK * chunks);
    }

    fn find(&mut self, hash: u32) -> Option<&mut Slot> {
        if self.buckets == 0 {
            return None;
        }
        let index = self.index(hash);
        let matches = |slot: &&mut Slot| slot.fingerprint() == hash && !slot.is_empty();
        self.bucket(index).iter_mut().find(matches)
    }

    /// The bucket of a hash.
    fn index(&self, hash: u32) -> usize {
        index_among(hash, self.buckets)
    }

    fn bucket(&mut self, index: usize) -> &mut Bucket {
        &mut self.chunks[index / CHUNK_BUCKETS][index % CHUNK_BUCKETS]
    }

    /// Splits a bucket, if the capacity allows for one more.
    fn grow(&mut self) {
        if !self.can_grow() {
            return;
        }
        if self.buckets == self.chunks.len() * CHUNK_BUCKETS {
            if self.chunks.is_empty() {
                // By default the list would begin with four slots.
                self.chunks.reserve_exact(LIST_SLACK);
            }
            self.chunks.push(Box::new([Bucket::default(); CHUNK_BUCKETS]));
        }
        let new = self.buckets;
        self.buckets += 1;
        if new == 0 {
            return;
        }
        let mut moving = std::mem::take(self.bucket(buddy(new)));
        let mut staying = Bucket::default();
        for (slot, stays) in moving.iter_mut().zip(&mut staying) {
            if !slot.is_empty() && index_among(slot.fingerprint(), new + 1) != new {
                *stays = std::mem::take(slot);
            }
        }
        *self.bucket(buddy(new)) = staying;
        *self.bucket(new) = moving;
    }

    /// Joins the last bucket with the one that it was split from.
    fn join_last(&mut self, scorer: &mut impl Scorer) {
        let last = self.buckets - 1;
        let leaving = std::mem::take(self.bucket(last));
        self.buckets = last;
        if last == 0 {
            leaving.iter().filter(|s| !s.is_empty()).for_each(|s| scorer.evicted(s.fingerprint()));
            self.len = 0;
            return;
        }
        let by_age = self.by_age;
        let bucket = self.bucket(buddy(last));
        let mut all: Vec<(f32, Slot)> = bucket
            .iter()
            .chain(&leaving)
            .filter(|slot| !slot.is_empty())
            .map(|slot| (worth(slot, by_age, scorer), *slot))
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        *bucket = Bucket::default();
        for (to, (_, slot)) in bucket.iter_mut().zip(&all) {
            *to = *slot;
        }
        for (_, slot) in all.iter().skip(BUCKET) {
            scorer.evicted(slot.fingerprint());
            self.len -= 1;
        }
    }
}

/// The bucket of a hash among `buckets`: by the lowest bits that address them all, or one bit less
/// where that bucket is not split off yet.
fn index_among(hash: u32, buckets: usize) -> usize {
    let mask = buckets.next_power_of_two() - 1;
    let index = hash as usize & mask;
    if index < buckets { index } else { index & mask >> 1 }
}

/// The bucket that `index` was split from: without its highest bit.
fn buddy(index: usize) -> usize {
    index & !(1 << index.ilog2())
}

/// The worth of an entry; by age, its access count.
fn worth(slot: &Slot, by_age: bool, scorer: &mut impl Scorer) -> f32 {
    match by_age {
        true => f32::from(slot.uses()),
        false => scorer.worth(slot.fingerprint(), &slot.entry(), slot.uses()),
    }
}

/// Scores and ages a full bucket; returns the entry that is worth the least, and its worth.
fn score_all(bucket: &mut Bucket, by_age: bool, scorer: &mut impl Scorer) -> (usize, f32) {
    let mut worst = (0, f32::INFINITY);
    for (index, slot) in bucket.iter_mut().enumerate() {
        let worth = worth(slot, by_age, scorer);
        if worth < worst.1 {
            worst = (index, worth);
        }
        slot.age();
    }
    worst
}

#[cfg(test)]
mod tests;
