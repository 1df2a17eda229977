//! The cache-line blocked Bloom filter. A hash picks one line of 64 bytes with its low half and
//! `k` bits of that line with its high half, so a probe costs one cache miss whatever `k` is.
//! (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007.)
//!
//! ```text
//! OFFSET  SIZE    MEANING
//! 0       64 × n  lines
//! 64n     1       bits set per key, k
//! 64n+1   1       kind of filter: 1 = blocked Bloom    (do not change)
//! ```
//!
//! Guarantees:
//! 1. A key that was added always passes.
//! 2. Malformed bytes let every key pass.
//! 3. About 1 % of absent keys pass at 10 bits per key, 0.15 % at 16.

/// Bytes of a line: one cache line of the processor.
pub(crate) const LINE_BYTES: usize = 64;

/// The kind byte of a blocked Bloom filter. Do not change.
pub(super) const KIND: u8 = 1;

/// Bytes after the lines.
const TAIL_BYTES: usize = 2;

/// More bits than this in one line no longer help.
const PROBES_MAX: u8 = 24;

/// Odd multiplier (2^32 divided by the golden ratio) that turns one probe's
/// bits into the next one's.
const STEP: u32 = 0x9E37_79B9;

/// Size in bytes of the filter of `keys` keys.
pub(super) fn bytes(keys: usize, bits_per_key: u8) -> usize {
    lines_for(keys, bits_per_key) * LINE_BYTES + TAIL_BYTES
}

/// Builds the filter of the keys with these hashes.
pub(super) fn build(hashes: &[u64], bits_per_key: u8) -> Vec<u8> {
    let lines = lines_for(hashes.len(), bits_per_key);
    let probes = probes_for(bits_per_key);
    let mut filter = vec![0; lines * LINE_BYTES];
    for &hash in hashes {
        let start = line_of(hash, lines) * LINE_BYTES;
        let line = &mut filter[start..start + LINE_BYTES];
        for bit in bits_of(hash, probes) {
            line[bit / 8] |= 1 << (bit % 8);
        }
    }
    filter.extend_from_slice(&[probes, KIND]);
    filter
}

fn lines_for(keys: usize, bits_per_key: u8) -> usize {
    (keys * usize::from(bits_per_key)).div_ceil(LINE_BYTES * 8).max(1)
}

/// Whether the key with this hash may have been added to `filter`.
pub(super) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let Some((lines, &[probes, KIND])) = filter.split_last_chunk::<TAIL_BYTES>() else {
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

/// The number of bits that causes the fewest false positives in a line of 512. Keys are distributed
/// unevenly over lines, so it is smaller than the `bits × ln 2` of a filter without lines.
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

/// The line of a hash among `lines`: a multiplication spreads its low half over them without a
/// division.
fn line_of(hash: u64, lines: usize) -> usize {
    ((u64::from(hash as u32) * lines as u64) >> 32) as usize
}

/// The bits of the line that a hash sets: nine bits of its high half for each probe.
fn bits_of(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    let first = (hash >> 32) as u32;
    std::iter::successors(Some(first), |h| Some(h.wrapping_mul(STEP)))
        .take(usize::from(probes))
        .map(|h| (h >> 23) as usize)
}
