//! The negative filter of a partition's page: a Bloom filter over the fingerprints of its entries,
//! ten bits each, rebuilt whenever the page is written.
//!
//! Guarantee: [`NegativeFilter::may_have`] of a fingerprint in it is true. Of another it is true in
//! 0.82 % of cases (ten bits an entry, seven probes).
//!
//! BigKV has no such filter, and reads the page for every absent key. As pages are written whole,
//! the filter needs no deletion.
//!
//! Pure.

use xxhash_rust::xxh3::xxh3_64;

/// Bits per entry.
const BITS: usize = 10;
/// Probes per fingerprint.
const PROBES: u32 = 7;

/// A filter; an empty one takes no memory but itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NegativeFilter {
    words: Box<[u64]>,
}

impl NegativeFilter {
    /// The filter of these fingerprints.
    pub(crate) fn of(fingerprints: impl ExactSizeIterator<Item = u64>) -> Self {
        let words = (fingerprints.len() * BITS).div_ceil(64);
        let mut filter = Self { words: vec![0; words].into() };
        for fingerprint in fingerprints {
            for bit in bits_of(fingerprint, filter.words.len()) {
                filter.words[bit / 64] |= 1 << (bit % 64);
            }
        }
        filter
    }

    /// Whether the filter may contain the fingerprint.
    pub(crate) fn may_have(&self, fingerprint: u64) -> bool {
        !self.words.is_empty()
            && bits_of(fingerprint, self.words.len())
                .all(|bit| self.words[bit / 64] & 1 << (bit % 64) != 0)
    }

    /// Its heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

fn bits_of(fingerprint: u64, words: usize) -> impl Iterator<Item = usize> {
    let hash = xxh3_64(&fingerprint.to_le_bytes());
    let (first, step) = (hash as u32, (hash >> 32) as u32 | 1);
    let bits = (words * 64) as u64;
    (0..PROBES).map(move |probe| {
        let place = first.wrapping_add(step.wrapping_mul(probe));
        ((u64::from(place) * bits) >> 32) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_has_its_fingerprints_and_few_false_positives() {
        for count in [1_usize, 7, 100, 750, 1020] {
            let fingerprints = (0..count as u64).map(|n| n * 977);
            let filter = NegativeFilter::of(fingerprints.clone().collect::<Vec<_>>().into_iter());
            assert!(fingerprints.clone().all(|fingerprint| filter.may_have(fingerprint)));
            let others = (0..100_000_u64).map(|n| n * 977 + 1 + n % 976);
            let wrong = others.filter(|other| filter.may_have(*other)).count();
            assert!(wrong < if count < 100 { 12_000 } else { 1_300 }, "{wrong} of {count}");
            assert!(filter.memory_bytes() <= count * BITS / 8 + 8);
        }
    }

    #[test]
    fn empty_filter_has_no_fingerprint() {
        let filter = NegativeFilter::of(std::iter::empty::<u64>().collect::<Vec<_>>().into_iter());
        assert!(!filter.may_have(0) && filter.memory_bytes() == 0);
    }
}
