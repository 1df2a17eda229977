//! Cuckoo filters without tables, and tens of thousands of repairs.

use std::collections::BTreeMap;

use super::*;
use crate::format::checksum::key_hash;

fn hashes(keys: impl Iterator<Item = u64>) -> Vec<u64> {
    keys.map(|key| key_hash(&key.to_be_bytes())).collect()
}

/// A filter with its mirror and its repairs.
struct RepairedFilter {
    filter: Vec<u8>,
    mirror: Vec<u8>,
    repairs: BTreeMap<u32, Repair>,
}

impl RepairedFilter {
    fn new(hashes: &[u64], bits_per_key: u8) -> Self {
        let (filter, mirror) = build(hashes, bits_per_key).unwrap();
        Self { filter, mirror, repairs: BTreeMap::new() }
    }

    fn matches(&self, hash: u64) -> Option<Matches> {
        look(&self.filter, hash).unwrap()
    }

    fn passes(&self, hash: u64) -> bool {
        let repair_of = |bucket| self.repairs.get(&bucket).copied();
        self.matches(hash).is_some_and(|matches| matches.pass_with(repair_of))
    }

    /// Repairs the filter for an absent key; false if a resident is indistinguishable from it.
    fn repair_filter(&mut self, hash: u64) -> bool {
        let matches = self.matches(hash).unwrap();
        for (bucket, _) in matches.buckets() {
            let at = bucket as usize * MIRROR_BUCKET_BYTES;
            let tails = tails(*self.mirror[at..].first_chunk().unwrap());
            let before = self.repairs.get(&bucket).copied();
            let Some(repair) = matches.repair(bucket, tails, before) else { return false };
            self.repairs.insert(bucket, repair);
        }
        true
    }
}

#[test]
fn every_added_key_passes_at_any_size_and_bits() {
    for bits in [1, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 40] {
        for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 50, 1000, 13_000] {
            let hashes = hashes(0..count);
            let repaired = RepairedFilter::new(&hashes, bits);
            assert!(hashes.iter().all(|&hash| repaired.passes(hash)), "{count} keys, {bits} bits");
            let buckets = Shape::of(&repaired.filter).unwrap().buckets as usize;
            assert_eq!(repaired.mirror.len(), buckets * MIRROR_BUCKET_BYTES);
        }
    }
}

#[test]
fn false_positives_and_memory_are_bounded() {
    const KEYS: u64 = 13_000;
    const ABSENT: u64 = 400_000;
    for (bits, percent_max, bits_max) in [(10, 0.43, 10.5), (14, 0.028, 14.7), (8, 1.7, 8.5)] {
        let repaired = RepairedFilter::new(&hashes(0..KEYS), bits);
        let passed = hashes(KEYS..KEYS + ABSENT).into_iter().filter(|&hash| repaired.passes(hash));
        let percent = passed.count() as f64 * 100.0 / ABSENT as f64;
        let bits_per_key = repaired.filter.len() as f64 * 8.0 / KEYS as f64;
        assert!(percent <= percent_max, "{bits} bits per key: {percent} % pass");
        assert!(bits_per_key <= bits_max, "{bits_per_key} for {bits}");
        assert!(percent > percent_max / 2.0, "the bound is tight: {percent}");
    }
}

/// Keys of all kinds are looked up after tens of thousands of repairs.
#[test]
fn repairs_persist_and_never_hide_a_key() {
    const KEYS: u64 = 60_000;
    let spread = |key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let random = |key: u64| key_hash(&spread(key).to_be_bytes());
    let adjacent = |key: u64| key_hash(&key.to_be_bytes());
    // Few distinct first buckets and tails.
    let adversarial = |key: u64| random(key) & 0x003F_FFFF_3FFF_FFFF;
    type HashOf<'a> = &'a dyn Fn(u64) -> u64;
    let kinds: [(&str, HashOf<'_>); 3] =
        [("random", &random), ("adjacent", &adjacent), ("adversarial", &adversarial)];
    for (kind, hash_of) in kinds {
        let present: Vec<u64> = (0..KEYS).map(hash_of).collect();
        let mut repaired = RepairedFilter::new(&present, 5);
        let mut excluded = Vec::new();
        for hash in (KEYS..KEYS + 300_000).map(hash_of) {
            if repaired.passes(hash) && repaired.repair_filter(hash) {
                assert!(!repaired.passes(hash));
                excluded.push(hash);
            }
        }
        assert!(excluded.len() > 10_000, "{kind}: {}", excluded.len());
        assert!(present.iter().all(|&hash| repaired.passes(hash)), "{kind}");
        // A bucket that was repaired again keeps most of its earlier repairs.
        let back = excluded.iter().filter(|&&hash| repaired.passes(hash)).count();
        assert!(back * 20 < excluded.len(), "{kind}: {back} of {}", excluded.len());
    }
}

/// The eight extra bits distinguish as many keys as expected.
#[test]
fn key_with_the_tail_of_a_resident_cannot_be_excluded() {
    let resident = 0x1234_5678_9ABC_DEF0;
    let mut repaired = RepairedFilter::new(&[resident], 10);
    // The same bits everywhere in filter and mirror.
    assert!(!repaired.repair_filter(resident) && repaired.passes(resident));
    // A different tail, the same fingerprint.
    let mut others = hashes(0..1 << 20).into_iter().filter(|&hash| repaired.passes(hash));
    let other = others.find(|&hash| tail_of(hash) != tail_of(resident)).unwrap();
    assert!(repaired.repair_filter(other));
    assert!(!repaired.passes(other) && repaired.passes(resident));
}

#[test]
fn too_many_keys_in_two_buckets_have_no_cuckoo_filter() {
    let (filter, _) = build(&[7; SLOTS], 10).expect("one bucket has room for them");
    assert!(look(&filter, 7).unwrap().is_some());
    assert!(build(&[7; 9], 10).is_none());
    let mut crowd = hashes(0..5000);
    crowd.extend([77; 9]);
    assert!(build(&crowd, 10).is_none());
}

#[test]
fn filter_reaches_its_target_load() {
    for count in [1000, 5000, 13_000, 60_000] {
        let (filter, _) = build(&hashes(0..count), 10).unwrap();
        let buckets = Shape::of(&filter).unwrap().buckets as usize;
        let wanted = Shape::for_keys(count as usize, 10).buckets as usize;
        assert!(buckets <= wanted + wanted / 50, "{count}: {buckets} in place of {wanted}");
    }
}

#[test]
fn packed_repairs_round_trip() {
    for (bucket, seed, bits) in [(0, 0, [0; 4]), (BUCKETS_MAX - 1, 255, [255, 0, 1, 128])] {
        let repair = Repair { seed, bits };
        assert_eq!(Repair::unpack(repair.pack(bucket)), (bucket, repair));
    }
    let low = Repair { seed: 255, bits: [255; 4] }.pack(3);
    assert!(low < Repair { seed: 0, bits: [0; 4] }.pack(4));
}

#[test]
fn slots_are_matched_individually() {
    for bits in 4..=16 {
        let shape = Shape { buckets: 9, bits };
        let all = (2_u64 << bits) - 1;
        for (slots, sought, found) in [
            // In the order of their nibbles.
            ([1, 1, 2, 3], 1, 0b0011),
            ([all, all, all, all], all, 0b1111),
            ([0, all - 2, all - 1, all], all, 0b1000),
            ([0, 0, 0, 0], 1, 0),
            ([2, 3, 4, all], 1, 0),
            // The same nibble or the same rest alone.
            ([1, 17, 17, 2], 17, 0b0110),
            ([17, 2, 18, 3], 33, 0),
        ] {
            let nibbles = (0..SLOTS).fold(0, |all, at| all | (slots[at] & 15) << (4 * at));
            let rest = (0..SLOTS)
                .fold(0, |all, at| all | (slots[at] >> 4) << (at as u32 * shape.rest_bits()));
            let word = index_of(nibbles as u16) | rest << QUADRUPLE_BITS;
            assert_eq!(shape.slots_with(word, sought), found, "{bits} bits, {slots:?}");
        }
    }
}

#[test]
fn quadruples_are_found_by_index() {
    for (at, quadruple) in QUADRUPLES.iter().enumerate() {
        assert_eq!(index_of(*quadruple), at as u64);
    }
    assert_eq!((QUADRUPLES[0], QUADRUPLES[1], QUADRUPLES[3875]), (0, 0x1000, 0xFFFF));
}
