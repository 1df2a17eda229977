//! Key-pointer entries of sixteen bytes: one shard of the KP component.
//!
//! An entry says in which block a key stands, and where in it. The key itself is not
//! kept: 32 bits of its hash stand for it. The caller reads the block and sees whether
//! it is the key that stands at that position; another key of that fingerprint stands
//! elsewhere, so it cannot take the entry for its own, whatever else the block holds of
//! it. AC-Key (section 4.1) keeps the key and a pointer of 24 bytes; here an entry is
//!
//! ```text
//! WORD  BITS  MEANING
//!    0    32  fingerprint: the lower half of the hash; its lower bits place the bucket
//!    0    32  table
//!    1    32  offset of the block in the table
//!    1     1  whether the block is a long one
//!    1    26  bytes of the block and position in it: 17 and 9 bits; 22 and 4 of a long
//!             one
//!    1     2  how often asked for, less how often judged
//!    1     3  level of the tree
//! ```
//!
//! all zero where there is none (no block has no bytes). Eight entries are a bucket.
//! There is any number of buckets, by linear hashing (Litwin, "Linear hashing: a new
//! tool for file and table addressing", 1980): a bucket more splits one that is there,
//! a bucket less joins two, and what does not fit leaves. So the shard grows and
//! shrinks bucket by bucket, and the fingerprint says all that a split must know.
//! Buckets are allocated eight at a time (1 KiB): of 4 KiB, a twenty-fifth of a cache of 100
//! KiB could stand empty.
//!
//! Guarantees:
//! 1. [`KpShard::charged_bytes`] is no less than what is allocated, and at most the capacity.
//! 2. For a fingerprint there is at most one entry. So what was synced or removed under
//!    a hash leaves nothing older that another lookup of that key could find.
//!
//! For one thread at a time.

/// Entries of a bucket: two cache lines of the processor.
const BUCKET: usize = 8;
/// Buckets that are allocated together.
const CHUNK_BUCKETS: usize = 8;
/// The list of chunks may have so many times the places that it needs.
const LIST_SLACK: usize = 2;
/// What a chunk is charged: its buckets and its places in the list.
const CHUNK_BYTES: usize = CHUNK_BUCKETS * BUCKET_BYTES + LIST_SLACK * size_of::<usize>();
/// Entries to a bucket on average beyond which the shard grows, if it may: fuller ones
/// push entries out while there is room elsewhere.
const LOAD_MAX: usize = 3;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = size_of::<Slot>();
const BUCKET_BYTES: usize = BUCKET * ENTRY_BYTES;
/// Levels below this count as this.
pub const LEVEL_MAX: u8 = 7;

const OFFSET_BITS: u32 = 32;
const SPOT_BITS: u32 = 26;
/// Of these, those of the length: of a block of usual size, and of a long one.
const LEN_BITS: [u32; 2] = [17, 22];
const LONG: u64 = 1 << OFFSET_BITS;
const SPOT_SHIFT: u32 = OFFSET_BITS + 1;
const ASKED_SHIFT: u32 = SPOT_SHIFT + SPOT_BITS;
const ASKED_MASK: u64 = 3;
const LEVEL_SHIFT: u32 = ASKED_SHIFT + 2;

const _: () = assert!(ENTRY_BYTES == 16 && LEVEL_SHIFT + 3 == 64);

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// The table; pointers to tables beyond 2^32 are not kept.
    pub table: u64,
    /// Where the block begins in it; below 2^32 or not kept.
    pub offset: u64,
    /// Its bytes; 1 to 2^22 - 1 or not kept.
    pub len: u32,
    /// Entries that stand before it in the block. Up to 511 are kept, in a block of 128
    /// KiB or more up to 15: there entries are large.
    pub position: u32,
}

/// A pointer, and where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KpEntry {
    /// Where the key stands.
    pub pointer: Pointer,
    /// The level of the tree that it was found on, by which hits save storage I/Os: 0
    /// to [`LEVEL_MAX`].
    pub level: u8,
}

/// Decides about entries.
pub trait Judge {
    /// What the entry is worth; that of a bucket that is worth least leaves. `hash` is
    /// the lower half of the key's, `asked` how often it was asked for, less how often it
    /// was judged, 0 to 3.
    fn worth(&mut self, hash: u32, entry: &KpEntry, asked: u8) -> f32;

    /// The entry has left.
    fn left(&mut self, hash: u32);
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

    fn asked(&self) -> u8 {
        (self.place >> ASKED_SHIFT & ASKED_MASK) as u8
    }

    fn asked_bits(&self) -> u64 {
        self.place & ASKED_MASK << ASKED_SHIFT
    }

    fn is_asked(&mut self) {
        if self.place >> ASKED_SHIFT & ASKED_MASK < ASKED_MASK {
            self.place += 1 << ASKED_SHIFT;
        }
    }

    fn is_judged(&mut self) {
        if self.asked() > 0 {
            self.place -= 1 << ASKED_SHIFT;
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

/// Eight entries, in no order.
type Bucket = [Slot; BUCKET];

/// Entries of one shard.
#[derive(Debug)]
pub struct KpShard {
    #[expect(clippy::vec_box, reason = "a list of chunks grows without moving what is in them")]
    chunks: Vec<Box<[Bucket; CHUNK_BUCKETS]>>,
    /// Buckets in use.
    buckets: usize,
    len: usize,
    capacity: usize,
    /// Whether all comes in, and the oldest leaves of those least asked for.
    by_age: bool,
}

impl KpShard {
    /// A shard of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { chunks: Vec::new(), buckets: 0, len: 0, capacity, by_age: false }
    }

    /// From now on all comes in, or is judged; the oldest of those leaves that were not
    /// asked for since they last stood to leave, or what is worth least.
    pub fn set_by_age(&mut self, by_age: bool) {
        self.by_age = by_age;
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bound on the bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes for entries: no less than are allocated.
    pub fn charged_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES
    }

    /// Whether it could grow.
    pub fn has_room(&self) -> bool {
        self.charged_bytes() + CHUNK_BYTES <= self.capacity
    }

    /// The bytes that are allocated for entries.
    #[cfg(test)]
    fn allocated_bytes(&self) -> usize {
        self.chunks.len() * size_of::<[Bucket; CHUNK_BUCKETS]>()
            + self.chunks.capacity() * size_of::<usize>()
    }

    /// Whether there may be another bucket.
    pub fn can_grow(&self) -> bool {
        self.buckets < self.chunks.len() * CHUNK_BUCKETS
            || (self.chunks.len() + 1) * CHUNK_BYTES <= self.capacity
    }

    /// The entry that is found by `hash`, which may be that of another key; notes that
    /// it was asked for.
    pub fn get(&mut self, hash: u32) -> Option<KpEntry> {
        let slot = self.find(hash)?;
        slot.is_asked();
        Some(slot.entry())
    }

    /// The entry that is found by `hash`; notes nothing.
    pub fn peek(&mut self, hash: u32) -> Option<KpEntry> {
        self.find(hash).map(|slot| slot.entry())
    }

    /// Puts `entry` in, in place of the one that was found by `hash`, unless it is
    /// worth less than all whose place it could take: then it has left, with that.
    /// Neither is a pointer kept that has no room in an entry; the older one goes
    /// nevertheless.
    pub fn insert(&mut self, hash: u32, entry: KpEntry, judge: &mut impl Judge) {
        self.remove(hash);
        let Some(slot) = Slot::new(hash, &entry) else { return };
        if self.len >= self.buckets * LOAD_MAX {
            self.grow();
        }
        if self.buckets == 0 {
            return judge.left(hash);
        }
        let (index, by_age) = (self.index(hash), self.by_age);
        let bucket = self.bucket(index);
        let free = match bucket.iter().position(Slot::is_empty) {
            Some(free) => free,
            None => {
                let (worst, worth) = judge_all(bucket, by_age, judge);
                if !by_age && judge.worth(hash, &entry, 0) < worth {
                    return judge.left(hash);
                }
                judge.left(bucket[worst].fingerprint());
                let free = if by_age { BUCKET - 1 } else { worst };
                bucket[worst..=free.max(worst)].rotate_left(1);
                self.len -= 1;
                free
            }
        };
        self.bucket(index)[free] = slot;
        self.len += 1;
    }

    /// Has the entry that is found by `hash` be `entry`; whether there was one. If that
    /// has no room in a slot, there is none any more.
    pub fn redirect(&mut self, hash: u32, entry: KpEntry) -> bool {
        let Some(slot) = self.find(hash) else { return false };
        match Slot::new(hash, &entry) {
            Some(new) => *slot = Slot { place: new.place | slot.asked_bits(), ..new },
            None => {
                self.remove(hash);
            }
        }
        true
    }

    /// All entries and what they are found by, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, KpEntry)> {
        let buckets = self.chunks.iter().flat_map(|chunk| chunk.iter());
        let slots = buckets.flatten().filter(|slot| !slot.is_empty());
        slots.map(|slot| (slot.fingerprint(), slot.entry()))
    }

    /// Takes out the entries of which `is_it` is true.
    pub fn remove_where(&mut self, is_it: impl Fn(&KpEntry) -> bool) {
        let buckets = self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut());
        for slot in buckets.flatten() {
            if !slot.is_empty() && is_it(&slot.entry()) {
                *slot = Slot::default();
                self.len -= 1;
            }
        }
    }

    /// Takes the entry that is found by `hash` out; whether there was one.
    pub fn remove(&mut self, hash: u32) -> bool {
        let found = self.find(hash).map(std::mem::take).is_some();
        self.len -= usize::from(found);
        found
    }

    /// Changes the capacity; of entries that do not fit any more the worst leave.
    pub fn set_capacity(&mut self, capacity: usize, judge: &mut impl Judge) {
        self.capacity = capacity;
        let chunks = capacity / CHUNK_BYTES;
        while self.buckets > chunks * CHUNK_BUCKETS {
            self.join_last(judge);
        }
        self.chunks.truncate(chunks);
        self.chunks.shrink_to(LIST_SLACK * chunks);
    }

    fn find(&mut self, hash: u32) -> Option<&mut Slot> {
        if self.buckets == 0 {
            return None;
        }
        let index = self.index(hash);
        let is_it = |slot: &&mut Slot| slot.fingerprint() == hash && !slot.is_empty();
        self.bucket(index).iter_mut().find(is_it)
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
                // By itself the list would begin with four places.
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
    fn join_last(&mut self, judge: &mut impl Judge) {
        let last = self.buckets - 1;
        let leaving = std::mem::take(self.bucket(last));
        self.buckets = last;
        if last == 0 {
            leaving.iter().filter(|s| !s.is_empty()).for_each(|s| judge.left(s.fingerprint()));
            self.len = 0;
            return;
        }
        let by_age = self.by_age;
        let bucket = self.bucket(buddy(last));
        let mut all: Vec<(f32, Slot)> = bucket
            .iter()
            .chain(&leaving)
            .filter(|slot| !slot.is_empty())
            .map(|slot| (worth(slot, by_age, judge), *slot))
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        *bucket = Bucket::default();
        for (to, (_, slot)) in bucket.iter_mut().zip(&all) {
            *to = *slot;
        }
        for (_, slot) in all.iter().skip(BUCKET) {
            judge.left(slot.fingerprint());
            self.len -= 1;
        }
    }
}

/// The bucket of a hash where there are `buckets`: by its lowest bits, as many as name
/// them all, or one less where that bucket is still to be split off.
fn index_among(hash: u32, buckets: usize) -> usize {
    let mask = buckets.next_power_of_two() - 1;
    let index = hash as usize & mask;
    if index < buckets { index } else { index & mask >> 1 }
}

/// The bucket that `index` was split from: without its highest bit.
fn buddy(index: usize) -> usize {
    index & !(1 << index.ilog2())
}

/// What an entry is worth; by age, whether it was asked for.
fn worth(slot: &Slot, by_age: bool, judge: &mut impl Judge) -> f32 {
    match by_age {
        true => f32::from(slot.asked()),
        false => judge.worth(slot.fingerprint(), &slot.entry(), slot.asked()),
    }
}

/// Judges a full bucket: which entry is worth least, and what.
fn judge_all(bucket: &mut Bucket, by_age: bool, judge: &mut impl Judge) -> (usize, f32) {
    let mut worst = (0, f32::INFINITY);
    for (index, slot) in bucket.iter_mut().enumerate() {
        let worth = worth(slot, by_age, judge);
        if worth < worst.1 {
            worst = (index, worth);
        }
        slot.is_judged();
    }
    worst
}

#[cfg(test)]
mod tests;
