//! The part of a partition's page in DRAM: a filter of its entries and, if there is memory, a
//! location code for each ([`crate::index::locations`]). It is rebuilt whenever the page is written
//! or read whole.
//!
//! Both are columns of one [`Ribbon`] over the fingerprints. The first columns are a checksum of the
//! fingerprint and act as the filter; the others are the code. A fingerprint in the page always
//! finds its own code. Codes can be dropped without the filter.
//!
//! Guarantee: [`Locator::find`] returns the code of a fingerprint in the page. For any other it
//! returns `None`, or an arbitrary code with a probability of two to the power of
//! -[`Widths::check`].
//!
//! BigKV has no such filter: it reads the page for every key that is absent or not hot.
//!
//! Pure.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::index::ribbon::Ribbon;

/// Makes the checksum independent of the hash that chooses the rows of a ribbon.
const CHECK_SEED: u64 = 0x5450_4c6f_6361_7465;

/// The code of a location; 0: unknown, read the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const NONE: Self = Self(0);
}

/// Bits per entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Widths {
    /// Of the filter.
    pub(crate) check: u32,
    /// Of the code; 0: no codes.
    pub(crate) code: u32,
}

/// A filter, and optionally codes. Empty, it has no heap memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Locator {
    ribbon: Ribbon,
    check: u32,
}

impl Locator {
    /// Builds the locator of distinct fingerprints and their codes, all 0 if widths have none.
    pub(crate) fn of(entries: impl Iterator<Item = (u64, Code)>, widths: Widths) -> Self {
        let Widths { check, code } = widths;
        let value =
            |fingerprint, Code(code)| check_of(fingerprint, check) | u64::from(code) << check;
        let values: Vec<(u64, u64)> =
            entries.map(|(fingerprint, code)| (fingerprint, value(fingerprint, code))).collect();
        Self { ribbon: Ribbon::of(&values, check + code), check }
    }

    /// The code of a fingerprint; `None` if it is absent.
    pub(crate) fn find(&self, fingerprint: u64) -> Option<Code> {
        let check = check_of(fingerprint, self.check);
        self.ribbon.rest(fingerprint, self.check, check).map(|code| Code(code as u32))
    }

    /// Whether a fingerprint may be present.
    pub(crate) fn may_have(&self, fingerprint: u64) -> bool {
        self.ribbon.agrees(fingerprint, self.check, check_of(fingerprint, self.check))
    }

    /// Whether it has codes, or no entries.
    pub(crate) fn has_codes(&self) -> bool {
        self.ribbon.is_empty() || self.ribbon.columns() > self.check
    }

    /// Drops the codes.
    pub(crate) fn drop_codes(&mut self) {
        self.ribbon.truncate(self.check);
    }

    /// Its heap size in bytes if it has codes, otherwise 0.
    pub(crate) fn coded_bytes(&self) -> usize {
        let is_coded = self.ribbon.columns() > self.check;
        if is_coded { self.ribbon.memory_bytes() } else { 0 }
    }

    /// Its heap size, and the part of it that the codes take, in bytes.
    pub(crate) fn memory_bytes(&self) -> (usize, usize) {
        let (bytes, columns) = (self.ribbon.memory_bytes(), self.ribbon.columns().max(1) as usize);
        (bytes, bytes * (columns - (self.check as usize).min(columns)) / columns)
    }
}

fn check_of(fingerprint: u64, bits: u32) -> u64 {
    xxh3_64_with_seed(&fingerprint.to_le_bytes(), CHECK_SEED) & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: Widths = Widths { check: 7, code: 12 };

    fn entries(count: u64) -> impl Iterator<Item = (u64, Code)> + Clone {
        (0..count).map(|n| (n * 977, Code((n * 31 % 4_096) as u32)))
    }

    #[test]
    fn locator_has_its_codes_and_few_other_fingerprints() {
        for count in [1, 7, 100, 750, 1_020] {
            let mut locator = Locator::of(entries(count), WIDTHS);
            let is_found = |(fingerprint, code)| locator.find(fingerprint) == Some(code);
            assert!(entries(count).all(is_found) && locator.has_codes());
            assert!(entries(count).all(|(fingerprint, _)| locator.may_have(fingerprint)));
            let others = || (0..100_000_u64).map(|n| n * 977 + 1 + n % 976);
            let wrong = others().filter(|other| locator.find(*other).is_some()).count();
            assert_eq!(wrong, others().filter(|other| locator.may_have(*other)).count());
            assert!((600..950).contains(&wrong), "{wrong} of {count}");
            let (bytes, of_codes) = locator.memory_bytes();
            locator.drop_codes();
            assert!(!locator.has_codes());
            assert!(locator.memory_bytes().0.abs_diff(bytes - of_codes) <= 16);
            assert!(entries(count).all(|(it, _)| locator.find(it) == Some(Code::NONE)));
        }
    }

    #[test]
    fn empty_locator_has_no_fingerprint() {
        let locator = Locator::of(entries(0), WIDTHS);
        assert_eq!((locator.find(0), locator.memory_bytes()), (None, (0, 0)));
        assert!(locator.has_codes());
    }
}
