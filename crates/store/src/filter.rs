//! Filters: a few bits per key that say "not here" without reading the block
//! that would have to hold the key.
//!
//! The one kind today is the cache-line blocked Bloom filter. A hash picks one
//! line of 64 bytes with its low half and `k` bits of that line with its high
//! half, so a probe costs one cache miss whatever `k` is. (Putze, Sanders,
//! Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007.)
//!
//! ```text
//! OFFSET  SIZE    MEANING
//! 0       64 × n  lines
//! 64n     1       bits set per key, k
//! 64n+1   1       kind of filter: 1 = blocked Bloom    (do not change)
//! ```
//!
//! Guarantees:
//! 1. A key that was added is always reported as "maybe".
//! 2. Bytes that are not understood (an unknown kind, an odd length) say
//!    "maybe" to every key: a filter may cost a read, never an answer.
//! 3. About 1 % of absent keys pass at 10 bits per key, 0.15 % at 16.

use std::num::NonZeroU8;

/// Bytes of a line: what the processor fetches at once.
pub(crate) const LINE_BYTES: usize = 64;

/// The kind byte of a blocked Bloom filter. Do not change.
pub(crate) const KIND_BLOCKED_BLOOM: u8 = 1;

/// Bytes behind the lines.
const TAIL_BYTES: usize = 2;

/// More bits than this in one line no longer help.
const PROBES_MAX: u8 = 24;

/// Odd multiplier (2^32 divided by the golden ratio) that turns one probe's
/// bits into the next one's.
const STEP: u32 = 0x9E37_79B9;

/// Collects the hashes of keys and makes their filter.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    bits_per_key: NonZeroU8,
    hashes: Vec<u64>,
}

impl FilterBuilder {
    pub(crate) fn new(bits_per_key: NonZeroU8) -> Self {
        Self { bits_per_key, hashes: Vec::new() }
    }

    /// Adds a key by its hash. The versions of a key come one after another
    /// and count once.
    pub(crate) fn add(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Bytes that the filter of the keys so far takes.
    pub(crate) fn bytes(&self) -> usize {
        self.lines() * LINE_BYTES + TAIL_BYTES
    }

    /// The filter of the keys since the last call; forgets them.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let lines = self.lines();
        let probes = probes_for(self.bits_per_key.get());
        let mut filter = vec![0; lines * LINE_BYTES];
        for &hash in &self.hashes {
            let start = line_of(hash, lines) * LINE_BYTES;
            let line = &mut filter[start..start + LINE_BYTES];
            for bit in bits_of(hash, probes) {
                line[bit / 8] |= 1 << (bit % 8);
            }
        }
        self.hashes.clear();
        filter.extend_from_slice(&[probes, KIND_BLOCKED_BLOOM]);
        filter
    }

    fn lines(&self) -> usize {
        let bits = self.hashes.len() * usize::from(self.bits_per_key.get());
        bits.div_ceil(LINE_BYTES * 8).max(1)
    }
}

/// Whether the key with this hash may have been added to `filter`.
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let Some((lines, &[probes, KIND_BLOCKED_BLOOM])) = filter.split_last_chunk::<TAIL_BYTES>()
    else {
        return true;
    };
    let count = lines.len() / LINE_BYTES;
    let start = line_of(hash, count) * LINE_BYTES;
    let Some(line) = lines.get(start..start + LINE_BYTES) else {
        return true;
    };
    if !lines.len().is_multiple_of(LINE_BYTES) || probes > PROBES_MAX {
        return true;
    }
    bits_of(hash, probes).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0)
}

/// The number of bits that make the fewest false positives in a line of 512.
/// Keys fall unevenly on lines, so it is fewer than the `bits × ln 2` of a
/// filter without lines.
fn probes_for(bits_per_key: u8) -> u8 {
    match bits_per_key {
        0..=2 => 1,
        3 => 2,
        4..=5 => 3,
        6 => 4,
        7..=8 => 5,
        9..=10 => 6,
        11 => 7,
        12..=14 => 8,
        15..=16 => 9,
        17..=18 => 10,
        19..=22 => 11,
        23..=25 => 12,
        _ => (bits_per_key / 2).min(PROBES_MAX),
    }
}

/// Which of `lines` a hash falls on: a multiplication spreads its low half
/// over them without a division.
fn line_of(hash: u64, lines: usize) -> usize {
    ((u64::from(hash as u32) * lines as u64) >> 32) as usize
}

/// The bits of the line that a hash sets: nine bits of its high half for each
/// probe.
fn bits_of(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    let first = (hash >> 32) as u32;
    std::iter::successors(Some(first), |h| Some(h.wrapping_mul(STEP)))
        .take(usize::from(probes))
        .map(|h| (h >> 23) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::key_hash;
    use crate::golden::Dump;
    use proptest::prelude::*;

    fn filter_of(bits: u8, keys: std::ops::Range<u64>) -> Vec<u8> {
        let mut builder = FilterBuilder::new(NonZeroU8::new(bits).unwrap());
        for key in keys {
            builder.add(key_hash(&key.to_be_bytes()));
        }
        let bytes = builder.bytes();
        let filter = builder.finish();
        assert_eq!(filter.len(), bytes);
        filter
    }

    #[test]
    fn false_positives_stay_under_their_bounds() {
        const KEYS: u64 = 20_000;
        const ABSENT: u64 = 200_000;
        for (bits, percent_max) in [(10, 1.05), (16, 0.15), (4, 16.0)] {
            let filter = filter_of(bits, 0..KEYS);
            let hits = |keys: std::ops::Range<u64>| {
                keys.filter(|k| may_contain(&filter, key_hash(&k.to_be_bytes()))).count() as f64
            };
            assert_eq!(hits(0..KEYS) as u64, KEYS);
            let percent = 100.0 * hits(KEYS..KEYS + ABSENT) / ABSENT as f64;
            assert!(percent <= percent_max, "{bits} bits per key: {percent} % pass");
        }
    }

    #[test]
    fn versions_of_a_key_count_once() {
        let mut builder = FilterBuilder::new(NonZeroU8::new(10).unwrap());
        for key in 0..100u64 {
            for _ in 0..50 {
                builder.add(key_hash(&key.to_be_bytes()));
            }
        }
        assert_eq!(builder.finish().len(), 2 * LINE_BYTES + TAIL_BYTES);
    }

    #[test]
    fn a_filter_has_the_released_bytes_and_they_are_still_read() {
        let filter = filter_of(10, 0..60);
        let mut dump = Dump::new(
            "The filter of the keys 0 to 59 (eight bytes each, big-endian) at 10 bits a key. \
             See crates/store/src/filter.rs.",
        );
        let lines = [(64, "First line"), (128, "Second line")];
        dump.parts(&filter, &[&lines[..], &[(130, "Probes, kind")]].concat());
        let released = dump.hold_against("filter");
        let passes =
            |key: u64| usize::from(may_contain(&released[0].1, key_hash(&key.to_be_bytes())));
        assert_eq!((0..60).map(passes).sum::<usize>(), 60);
        assert!((60..1060).map(passes).sum::<usize>() < 50);
    }

    #[test]
    fn bytes_that_are_not_understood_say_maybe() {
        let filter = filter_of(10, 0..100);
        for len in 0..filter.len() {
            assert!(may_contain(&filter[..len], 77) || len > TAIL_BYTES);
        }
        let mut other_kind = filter.clone();
        *other_kind.last_mut().unwrap() = 2;
        assert!((0..1000).all(|h| may_contain(&other_kind, h << 32)));
        let mut odd = filter;
        odd.insert(0, 0);
        assert!((0..1000).all(|h| may_contain(&odd, h << 32)));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300), hash: u64) {
            may_contain(&bytes, hash);
        }
    }
}
