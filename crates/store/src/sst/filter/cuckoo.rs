//! The dynamic-seed cuckoo filter: it can be repaired, so that an absent key which passed no longer
//! does. (SpotKV, of which only the abstract is available; the model is Mitzenmacher, Pontarelli,
//! Reviriego: "Adaptive Cuckoo Filters", 2018.)
//!
//! A key has two buckets of four slots, and its fingerprint is in one of the eight. All keys are
//! known when the filter is built, so both buckets are computed directly from the hash of the key,
//! and the number of buckets is arbitrary.
//!
//! ```text
//! OFFSET        SIZE         MEANING                                    (little-endian)
//! 0             ⌈4bn / 8⌉    n buckets, one after another
//! …             4            n
//! …             1            b: bits for each slot
//! …             1            kind of filter: 2 = cuckoo          (do not change)
//!
//! bucket, from its lowest bit on:
//!               12           the four low nibbles of its fingerprints, in ascending order: which
//!                            of the 3876 such quadruples it is (`QUADRUPLES`)
//!               4 × (b - 3)  the rest of each fingerprint, in the same order
//! ```
//!
//! A fingerprint has b + 1 bits, and 0 marks an empty slot. One bit of each is saved because the
//! order of slots carries no information ("semi-sorting": Fan et al., "Cuckoo Filter: Practically
//! Better Than Bloom", 2014), which halves the false positives. Most lookups end at the rest of the
//! fingerprints and do not need their nibbles.
//!
//! *Repair.* The filter itself never changes. For a bucket in which a fingerprint was mistaken for
//! that of another key, eight more bits of each resident are kept outside the filter, made with a
//! **seed** that distinguishes them from those of that key ([`Repair`]). A key passes if its
//! fingerprint **and** the extra bits match. So a seed costs memory only where one is needed,
//! forgotten repairs do no harm, and a resident passes after any repair, because the extra bits are
//! computed from its own hash. The input of repairs is the **mirror**, a section of the table that
//! only repairs read:
//!
//! ```text
//! 8 × n    of each bucket its four tails: bits 48 to 63 of the hash of the resident
//! ```
//!
//! Guarantees:
//! 1. A key that was added always passes, with any repairs from this filter's mirror.
//! 2. Malformed bytes let every key pass.
//! 3. At 10 bits a key 0.38 % of absent keys pass (a Bloom filter: 0.95), at 10.45 bits in all.
//! 4. A lookup of an absent key reads two buckets: two cache lines, or one more where a bucket
//!    crosses a border.

use std::ops::RangeInclusive;

/// The kind byte of a cuckoo filter. Do not change.
pub(super) const KIND: u8 = 2;

/// Slots of a bucket.
const SLOTS: usize = 4;
/// Bits of a slot: four slots fill at most one word, and have room for [`QUADRUPLE_BITS`].
const BITS: RangeInclusive<u8> = BITS_MIN..=BITS_MAX;
pub(crate) const BITS_MIN: u8 = 4;
pub(crate) const BITS_MAX: u8 = 16;
/// Low bits of a fingerprint by which the slots of a bucket are sorted.
const NIBBLE_BITS: u32 = 4;
/// Encoded bits of the four nibbles of a bucket.
const QUADRUPLE_BITS: u32 = 12;
/// Bytes after the buckets. With them a word can be read at the start of every bucket.
const TAIL_BYTES: usize = 6;
/// Bytes of a bucket in the mirror.
pub(crate) const MIRROR_BUCKET_BYTES: usize = 2 * SLOTS;
/// Upper bound of bucket numbers in a repair.
pub(crate) const BUCKETS_MAX: u32 = 1 << 24;

/// The target share of filled slots, in thousandths: with four slots and two buckets, up to 976 is
/// possible (Fernholz and Ramachandran, 2007).
const LOAD: usize = 960;
/// The average number of moves per key after which the filter is rebuilt with more buckets.
const MOVES_PER_KEY: usize = 20;
/// An empty slot that is further away counts as none: then two buckets have more keys than slots.
const HEIGHT_MAX: u32 = 256;
/// Maximum number of attempts, each with one part in [`MORE_PER_TRY`] of buckets more.
const TRIES: usize = 24;
const MORE_PER_TRY: u32 = 64;

/// Mix a hash once more, for its second bucket and for its fingerprint. Do not change.
const SECOND: u64 = 0x9E37_79B9_7F4A_7C15;
const FINGERPRINT: u64 = 0xD6E8_FEB8_6659_FD93;

/// All quadruples of ascending nibbles, the first nibble lowest, ordered by the first, then the
/// second, and so on. Do not change.
static QUADRUPLES: [u16; 3876] = {
    let mut all = [0; 3876];
    let mut at = 0;
    let mut quadruple = 0_u32;
    // Enumerated by their nibbles from the first to the last, like the digits of a number.
    while quadruple < 1 << 16 {
        let [a, b, c, d] =
            [quadruple >> 12, quadruple >> 8 & 15, quadruple >> 4 & 15, quadruple & 15];
        if a <= b && b <= c && c <= d {
            all[at] = (a | b << 4 | c << 8 | d << 12) as u16;
            at += 1;
        }
        quadruple += 1;
    }
    all
};

/// The index of a quadruple in [`QUADRUPLES`].
fn index_of(quadruple: u16) -> u64 {
    let digits = |quadruple: u16| {
        let nibbles = [0, 4, 8, 12].map(|shift| quadruple >> shift & 15);
        nibbles.into_iter().fold(0, |all, nibble| all << 4 | nibble)
    };
    let found = QUADRUPLES.binary_search_by_key(&digits(quadruple), |it| digits(*it));
    found.expect("nibbles are in order") as u64
}

/// An empty slot during construction.
const EMPTY: u32 = u32::MAX;

/// The number of buckets and the width of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    buckets: u32,
    bits: u32,
}

impl Shape {
    /// The smallest plausible number of buckets for `keys` keys.
    fn for_keys(keys: usize, bits_per_key: u8) -> Self {
        let buckets = (keys * 1000).div_ceil(SLOTS * LOAD).max(1);
        let bits = bits_per_key.clamp(*BITS.start(), *BITS.end());
        Self { buckets: u32::try_from(buckets).unwrap_or(u32::MAX), bits: u32::from(bits) }
    }

    fn bucket_bytes(self) -> usize {
        (self.buckets as usize * self.bits as usize * SLOTS).div_ceil(8)
    }

    /// The shape in the filter's tail, if it is valid.
    #[inline]
    fn of(filter: &[u8]) -> Option<Self> {
        let (buckets, &[a, b, c, d, bits, KIND]) = filter.split_last_chunk::<TAIL_BYTES>()? else {
            return None;
        };
        let shape = Self { buckets: u32::from_le_bytes([a, b, c, d]), bits: u32::from(bits) };
        let is_sound = BITS.contains(&bits) && (1..=BUCKETS_MAX).contains(&shape.buckets);
        (is_sound && buckets.len() == shape.bucket_bytes()).then_some(shape)
    }

    /// Both buckets of a hash; they may be the same.
    #[inline]
    fn buckets_of(self, hash: u64) -> [u32; 2] {
        // A multiplication spreads 32 bits over the buckets without a division.
        let among = |half: u32| ((u64::from(half) * u64::from(self.buckets)) >> 32) as u32;
        [among(hash as u32), among((hash.wrapping_mul(SECOND) >> 32) as u32)]
    }

    /// The other bucket of a hash whose fingerprint is in `here`.
    fn other_bucket(self, hash: u64, here: u32) -> u32 {
        let [first, second] = self.buckets_of(hash);
        if first == here { second } else { first }
    }

    /// Never 0.
    #[inline]
    fn fingerprint(self, hash: u64) -> u64 {
        let spread = hash.wrapping_mul(FINGERPRINT) >> 32;
        1 + ((spread * ((1 << (self.bits + 1)) - 1)) >> 32)
    }

    /// Bits of a fingerprint without its nibble.
    #[inline]
    fn rest_bits(self) -> u32 {
        self.bits + 1 - NIBBLE_BITS
    }

    /// The bits of a bucket; the bits above them are arbitrary.
    #[inline]
    fn word(self, filter: &[u8], bucket: u32) -> u64 {
        let bit = u64::from(bucket) * u64::from(self.bits) * SLOTS as u64;
        let from = (bit / 8) as usize;
        let bytes = filter.get(from..from + 8).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes) >> (bit % 8))
    }

    /// The slots of a bucket's word that hold a fingerprint: bit i of the result is slot i.
    #[inline]
    fn slots_with(self, word: u64, fingerprint: u64) -> u8 {
        let (rest, bits) = (word >> QUADRUPLE_BITS, self.rest_bits());
        let of_rest = || equal_fields(rest, bits, fingerprint >> NIBBLE_BITS);
        if !has_equal_field(rest, bits, fingerprint >> NIBBLE_BITS) {
            return 0;
        }
        let quadruple = word as usize & ((1 << QUADRUPLE_BITS) - 1);
        match QUADRUPLES.get(quadruple) {
            Some(&nibbles) => {
                of_rest() & equal_fields(u64::from(nibbles), NIBBLE_BITS, fingerprint & 15)
            }
            // No builder writes that.
            None => of_rest(),
        }
    }
}

/// One at the lowest bit of each of four fields of `bits` bits.
#[inline]
fn ones(bits: u32) -> u64 {
    1 | 1 << bits | 1 << (2 * bits) | 1 << (3 * bits)
}

/// Whether one of four fields of `bits` bits has a value.
#[inline]
fn has_equal_field(fields: u64, bits: u32, value: u64) -> bool {
    let ones = ones(bits);
    let apart = fields ^ value.wrapping_mul(ones);
    // Some field of `apart` is zero if and only if this is not (Mycroft's test).
    apart.wrapping_sub(ones) & !apart & (ones << (bits - 1)) != 0
}

/// The fields that have the value: bit i of the result is field i.
#[inline]
fn equal_fields(fields: u64, bits: u32, value: u64) -> u8 {
    let field = |at: usize| (fields >> (at as u32 * bits)) & ((1 << bits) - 1);
    (0..SLOTS).fold(0, |found, at| found | u8::from(field(at) == value) << at)
}

/// The bits of a hash that the mirror keeps: none of those that choose a first bucket.
#[inline]
fn tail_of(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// Eight bits of a tail, different ones for each seed. Do not change.
#[inline]
fn seeded(tail: u16, seed: u8) -> u8 {
    let mixed = (u32::from(tail) ^ (u32::from(seed) + 1).wrapping_mul(0x9E37_79B1))
        .wrapping_mul(0x85EB_CA6B);
    ((mixed ^ mixed >> 15).wrapping_mul(0xC2B2_AE35) >> 24) as u8
}

/// The slots that hold the fingerprint of a key, in each of its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Matches {
    tail: u16,
    /// Buckets with bits of their slots. If both are the same bucket, the second has no bits.
    of: [(u32, u8); 2],
}

impl Matches {
    /// Buckets in which a slot matches.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u32, u8)> {
        self.of.into_iter().filter(|(_, slots)| *slots != 0)
    }

    /// Whether a slot of `bucket` still matches after its repair.
    #[inline]
    fn pass(&self, slots: u8, repair: Repair) -> bool {
        let sought = seeded(self.tail, repair.seed);
        (0..SLOTS).any(|at| slots >> at & 1 == 1 && repair.bits[at] == sought)
    }

    /// Whether the key may be present, given the repairs of its buckets.
    #[inline]
    pub(crate) fn pass_with(&self, repair_of: impl Fn(u32) -> Option<Repair>) -> bool {
        self.buckets()
            .any(|(bucket, slots)| repair_of(bucket).is_none_or(|repair| self.pass(slots, repair)))
    }

    /// Whether the key passes in `bucket`, given its repair.
    pub(crate) fn pass_in(&self, bucket: u32, repair: Option<Repair>) -> bool {
        let of_bucket = self.buckets().find(|(it, _)| *it == bucket);
        of_bucket.is_some_and(|(_, slots)| repair.is_none_or(|repair| self.pass(slots, repair)))
    }

    /// Whether the mirror has the key in one of its slots.
    pub(crate) fn stand_in(&self, tails_of: impl Fn(u32) -> Option<[u16; SLOTS]>) -> bool {
        self.buckets().any(|(bucket, slots)| {
            let is_it = |tails: [u16; SLOTS], at| slots >> at & 1 == 1 && tails[at] == self.tail;
            tails_of(bucket).is_some_and(|tails| (0..SLOTS).any(|at| is_it(tails, at)))
        })
    }

    /// A repair of `bucket`, whose mirror has `tails`, after which the key no longer passes there;
    /// `None`: no seed distinguishes the residents from it. `before`: the existing repair.
    pub(crate) fn repair(
        &self,
        bucket: u32,
        tails: [u16; SLOTS],
        before: Option<Repair>,
    ) -> Option<Repair> {
        let (_, slots) = self.of.into_iter().find(|(it, slots)| *it == bucket && *slots != 0)?;
        // A seed other than the existing one, which did not distinguish them.
        let first = before.map_or(0, |repair| repair.seed.wrapping_add(1));
        let seeds = (0..=u8::MAX).map(|step| first.wrapping_add(step));
        let repairs = seeds.map(|seed| Repair { seed, bits: tails.map(|tail| seeded(tail, seed)) });
        repairs.into_iter().find(|repair| !self.pass(slots, *repair))
    }
}

/// The repair of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(super) seed: u8,
    /// Extra bits of each resident, made with the seed.
    pub(super) bits: [u8; SLOTS],
}

impl Repair {
    /// The repair and its bucket as one number, ordered by bucket. Do not change: its low five
    /// bytes are stored in lists (`repair_list.rs`).
    pub(crate) fn pack(self, bucket: u32) -> u64 {
        let bits = u64::from(u32::from_le_bytes(self.bits));
        u64::from(bucket) << 40 | u64::from(self.seed) << 32 | bits
    }

    pub(crate) fn unpack(packed: u64) -> (u32, Self) {
        let bits = (packed as u32).to_le_bytes();
        ((packed >> 40) as u32, Self { seed: (packed >> 32) as u8, bits })
    }
}

/// The result of a filter check; `None`: the filter is malformed.
#[inline]
pub(super) fn look(filter: &[u8], hash: u64) -> Option<Option<Matches>> {
    let shape = Shape::of(filter)?;
    let fingerprint = shape.fingerprint(hash);
    let [first, second] = shape.buckets_of(hash);
    let slots = |bucket| shape.slots_with(shape.word(filter, bucket), fingerprint);
    let of_first = slots(first);
    let of_second = if second == first { 0 } else { slots(second) };
    if of_first | of_second == 0 {
        return Some(None);
    }
    Some(Some(Matches { tail: tail_of(hash), of: [(first, of_first), (second, of_second)] }))
}

/// The tails of a bucket, as encoded in a mirror.
pub(crate) fn tails(bytes: [u8; MIRROR_BUCKET_BYTES]) -> [u16; SLOTS] {
    let packed = u64::from_le_bytes(bytes);
    std::array::from_fn(|at| (packed >> (16 * at)) as u16)
}

/// Approximate size in bytes of the filter of `keys` keys.
pub(super) fn bytes(keys: usize, bits_per_key: u8) -> usize {
    Shape::for_keys(keys, bits_per_key).bucket_bytes() + TAIL_BYTES
}

/// The filter of the keys with these hashes, and its mirror; `None`: too many of them share their
/// buckets.
pub(super) fn build(hashes: &[u64], bits_per_key: u8) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut shape = Shape::for_keys(hashes.len(), bits_per_key);
    for _ in 0..TRIES {
        if shape.buckets > BUCKETS_MAX {
            return None;
        }
        if let Some(slots) = assign(shape, hashes) {
            return Some(written(shape, &slots, hashes));
        }
        if has_crowd(hashes) {
            return None;
        }
        shape.buckets += shape.buckets / MORE_PER_TRY + 1;
    }
    None
}

/// Whether more keys have the same hash than two buckets have slots.
fn has_crowd(hashes: &[u64]) -> bool {
    let mut sorted = hashes.to_vec();
    sorted.sort_unstable();
    sorted.windows(2 * SLOTS + 1).any(|some| some[0] == some[2 * SLOTS])
}

/// Assigns each key, by its number, to a slot of one of its buckets.
///
/// If both are full, a key takes the slot of another, which then looks for its own. Each bucket has
/// a height: a lower bound of the number of moves until an empty slot is found. A key moves to its
/// lower bucket, and in a full bucket the key with the lowest alternative moves, which improves the
/// bound of the height (Khosla: "Balls into Bins Made Faster", 2013). The number of moves therefore
/// stays small until near the maximum possible load.
fn assign(shape: Shape, hashes: &[u64]) -> Option<Vec<[u32; SLOTS]>> {
    let mut slots = vec![[EMPTY; SLOTS]; shape.buckets as usize];
    let mut heights = vec![0_u32; shape.buckets as usize];
    let mut moves_left = MOVES_PER_KEY * hashes.len() + MOVES_PER_KEY;
    for key in 0..u32::try_from(hashes.len()).ok()? {
        let mut homeless = key;
        loop {
            let [first, second] = shape.buckets_of(hashes[homeless as usize]);
            let free = |bucket: u32| slots[bucket as usize].iter().filter(|k| **k == EMPTY).count();
            let height = |bucket: u32| heights[bucket as usize];
            let is_second = match (free(first), free(second)) {
                (0, 0) => height(second) < height(first),
                (of_first, of_second) => of_second > of_first,
            };
            let here = if is_second { second } else { first };
            let bucket = &mut slots[here as usize];
            if let Some(slot) = bucket.iter_mut().find(|key| **key == EMPTY) {
                *slot = homeless;
                break;
            }
            moves_left = moves_left.checked_sub(1)?;
            let other = |at: usize| shape.other_bucket(hashes[bucket[at] as usize], here);
            let heights_behind: [u32; SLOTS] = std::array::from_fn(|at| height(other(at)));
            let mut lowest = 0;
            for at in 1..SLOTS {
                if heights_behind[at] < heights_behind[lowest] {
                    lowest = at;
                }
            }
            std::mem::swap(&mut bucket[lowest], &mut homeless);
            heights[here as usize] = heights_behind[lowest] + 1;
            if heights_behind[lowest] >= HEIGHT_MAX {
                return None;
            }
        }
    }
    Some(slots)
}

fn written(shape: Shape, slots: &[[u32; SLOTS]], hashes: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let mut filter = Vec::with_capacity(shape.bucket_bytes() + TAIL_BYTES);
    let mut mirror = Vec::with_capacity(slots.len() * MIRROR_BUCKET_BYTES);
    // Bits that do not yet make a byte: of two buckets, if each has an odd number of nibbles.
    let (mut left, mut left_bits) = (0_u128, 0);
    for bucket in slots {
        let mut residents = bucket.map(|key| {
            let hash = hashes.get(key as usize).copied();
            hash.map_or((0, 0), |hash| (shape.fingerprint(hash), tail_of(hash)))
        });
        residents.sort_by_key(|(fingerprint, _)| fingerprint & 15);
        let (mut nibbles, mut rest) = (0, 0);
        for (at, (fingerprint, tail)) in residents.into_iter().enumerate() {
            nibbles |= ((fingerprint & 15) as u16) << (at as u32 * NIBBLE_BITS);
            rest |= (fingerprint >> NIBBLE_BITS) << (at as u32 * shape.rest_bits());
            mirror.extend_from_slice(&tail.to_le_bytes());
        }
        left |= u128::from(index_of(nibbles) | rest << QUADRUPLE_BITS) << left_bits;
        left_bits += SLOTS as u32 * shape.bits;
        let whole = left_bits as usize / 8;
        filter.extend_from_slice(&left.to_le_bytes()[..whole]);
        left >>= whole * 8;
        left_bits %= 8;
    }
    if left_bits > 0 {
        filter.push(left as u8);
    }
    filter.extend_from_slice(&shape.buckets.to_le_bytes());
    filter.extend_from_slice(&[shape.bits as u8, KIND]);
    (filter, mirror)
}

#[cfg(test)]
mod tests;
