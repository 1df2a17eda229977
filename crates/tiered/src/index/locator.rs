//! What DRAM holds of a partition's page: a filter of its entries, and, where there is memory, for
//! each a code that tells its location ([`crate::index::locations`]). It is built whenever the page
//! is written or read whole.
//!
//! Both are in one [`Ribbon`] of the entries' fingerprints: the first columns are bits of a hash of
//! the fingerprint, with which absent ones rarely agree, the others are the code. So a fingerprint
//! in the page always finds its own code, and codes can be dropped while the filter stays.
//!
//! Guarantee: [`Locator::find`] of a fingerprint that it was built of is its code. Of another it is
//! `None`, except in one of two to the power of [`Widths::check`] cases.
//!
//! BigKV has no such filter, and reads the page for every absent key and for every one that is not
//! hot.
//!
//! Pure.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::index::ribbon::Ribbon;

/// Another hash than the one by which a ribbon chooses its rows.
const CHECK_SEED: u64 = 0x5450_4c6f_6361_7465;

/// The code of a location; 0: it is only on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const NONE: Self = Self(0);
}

/// Bits for each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Widths {
    /// Of the filter.
    pub(crate) check: u32,
    /// Of a code; 0: there are no codes.
    pub(crate) code: u32,
}

/// A filter, and perhaps codes. One of no entries takes no memory but itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locator {
    ribbon: Ribbon,
    check: u32,
}

impl Locator {
    /// The locator of these fingerprints, each once, and their codes.
    pub(crate) fn of(entries: impl Iterator<Item = (u64, Code)>, widths: Widths) -> Self {
        let Widths { check, code } = widths;
        let value = |(fingerprint, found): (u64, Code)| {
            let found = if code == 0 { 0 } else { u64::from(found.0) };
            (fingerprint, check_of(fingerprint, check) | found << check)
        };
        let values: Vec<(u64, u64)> = entries.map(value).collect();
        Self { ribbon: Ribbon::of(&values, check + code), check }
    }

    /// The code of a fingerprint; `None`: it is absent.
    pub(crate) fn find(&self, fingerprint: u64) -> Option<Code> {
        let check = check_of(fingerprint, self.check);
        self.ribbon.rest(fingerprint, self.check, check).map(|code| Code(code as u32))
    }

    /// Whether a fingerprint may be present.
    pub(crate) fn may_have(&self, fingerprint: u64) -> bool {
        self.ribbon.agrees(fingerprint, self.check, check_of(fingerprint, self.check))
    }

    /// Whether it has codes, or no entry that would need one.
    pub(crate) fn has_codes(&self) -> bool {
        self.ribbon.is_empty() || self.ribbon.columns() > self.check
    }

    /// Drops the codes.
    pub(crate) fn drop_codes(&mut self) {
        self.ribbon.truncate(self.check);
    }

    /// Its heap memory, in bytes, if it has codes; else 0.
    pub(crate) fn coded_bytes(&self) -> usize {
        let is_coded = self.ribbon.columns() > self.check;
        if is_coded { self.ribbon.memory_bytes() } else { 0 }
    }

    /// Its heap memory, in bytes, and that of the codes in it.
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
